/* Dragging with mouse, pen or finger. A finger drags by the grip, so that the page still scrolls. */

const FAR = 6; /* pixels before a press becomes a drag */

/**
 * Lets what matches `item` be dragged onto what matches `target` inside `area`;
 * `drop(item, target)` is told when that has happened.
 */
export function draggable(area, { item, target, grip, drop }) {
  area.addEventListener("pointerdown", (press) => {
    const dragged = press.target.closest(item);
    const control = press.target.closest("a, button, input, select, textarea, label");
    if (!dragged || control || press.button !== 0) return;
    if (press.pointerType === "touch" && !press.target.closest(grip)) return;
    let over = null, ghost = null;

    const move = (event) => {
      const [dx, dy] = [event.clientX - press.clientX, event.clientY - press.clientY];
      if (!ghost) {
        if (Math.hypot(dx, dy) < FAR) return;
        ghost = dragged.cloneNode(true);
        ghost.removeAttribute("id");
        ghost.setAttribute("aria-hidden", "true");
        ghost.classList.add("ghost");
        ghost.style.width = `${dragged.offsetWidth}px`;
        document.body.append(ghost);
        dragged.classList.add("dragged");
      }
      event.preventDefault();
      ghost.style.transform = `translate(${event.clientX + 8}px, ${event.clientY + 8}px)`;
      scrollNear(event.clientY);
      const under = document.elementFromPoint(event.clientX, event.clientY);
      const now = under && area.contains(under) ? under.closest(target) : null;
      if (now !== over) {
        over?.classList.remove("over");
        now?.classList.add("over");
        over = now;
      }
    };
    const end = (event) => {
      for (const [name, act] of listeners) window.removeEventListener(name, act);
      over?.classList.remove("over");
      dragged.classList.remove("dragged");
      if (!ghost) return;
      ghost.remove();
      if (event.type === "pointerup" && over && over !== dragged) drop(dragged, over);
    };
    const escape = (event) => { if (event.key === "Escape") end(event); };
    const listeners = [["pointermove", move], ["pointerup", end], ["pointercancel", end], ["keydown", escape]];
    for (const [name, act] of listeners) window.addEventListener(name, act);
  });
}

function scrollNear(y) {
  if (y < 40) scrollBy(0, -12);
  else if (y > innerHeight - 40) scrollBy(0, 12);
}
