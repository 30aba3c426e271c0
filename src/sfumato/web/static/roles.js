/* The board of columns: a card is moved by dragging, by its menu, or by Alt and arrow keys. */
import { draggable } from "./drag.js";

export function roles(form) {
  const lanes = [...form.querySelectorAll(".lane")];
  const edition = form.querySelector("[name=edition]");

  const put = (card, lane) => {
    if (!lane || lane.contains(card)) return;
    const select = card.querySelector("select");
    const focused = card.contains(document.activeElement);
    const list = lane.querySelector("ul");
    /* Cards keep the order of the table. */
    const at = Number(card.dataset.column);
    const next = [...list.children].find((other) => Number(other.dataset.column) > at);
    list.insertBefore(card, next ?? null);
    select.value = lane.dataset.role;
    if (focused) select.focus();
    card.classList.add("moved");
    setTimeout(() => card.classList.remove("moved"), 600);
    save();
  };

  draggable(form.querySelector(".board"), {
    item: ".card", target: ".lane", grip: ".grip", drop: put,
  });
  form.addEventListener("change", (event) => {
    const card = event.target.closest(".card");
    if (card && event.target.matches("select")) {
      put(card, lanes.find((lane) => lane.dataset.role === event.target.value));
    } else {
      save();
    }
  });
  form.addEventListener("keydown", (event) => {
    const card = event.target.closest(".card");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!card || !step || !event.altKey) return;
    event.preventDefault();
    put(card, lanes[lanes.indexOf(card.closest(".lane")) + step]);
  });

  /* Every change is kept at once, one after the other, so that each can be taken back. */
  let turn = Promise.resolve(), latest = 0, waiting = 0;
  const save = () => {
    const content = new URLSearchParams(new FormData(form)), number = ++latest;
    const send = () => {
      content.set("edition", edition.value); /* of the answer to the change before */
      return ask(form.action, { method: "POST", body: content }).then((told) => {
        if (!told) return;
        edition.value = told.edition;
        if (number === latest) show(told);
      });
    };
    waiting += 1;
    turn = turn.then(send).catch(() => tell("The workbench does not answer.", "bad"))
      .finally(() => { waiting -= 1; });
  };
  const ask = async (place, how) => {
    const answer = await fetch(place, { ...how, headers: { Accept: "application/json" } });
    const told = await answer.json();
    if (!answer.ok) tell(told.problem, "bad");
    return answer.ok ? told : null;
  };
  /* Leaving the page, by whatever way, waits for what is being kept. */
  const leave = (event, go) => {
    if (!waiting) return;
    event.preventDefault();
    const settled = () => (waiting ? turn.then(settled) : go());
    turn.then(settled);
  };
  document.addEventListener("submit", (event) => leave(event, () => event.target.submit()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      leave(event, () => { location.href = link.href; });
    }
  });

  const show = (told) => {
    document.getElementById("undo-button").disabled = !told.undo;
    tell(told.said, told.tone);
    for (const card of form.querySelectorAll(".card")) {
      card.querySelector(".known").textContent = told.blurred[card.dataset.column];
    }
    for (const note of form.querySelectorAll(".along")) note.textContent = told.along[note.dataset.method];
    if (told.more) count();
  };
  /* What takes a moment to count is asked for apart, and told if nothing has changed since. */
  const count = () => {
    const number = latest;
    ask(`${form.action}/meter`, {}).then((told) => {
      if (told && number === latest && String(told.edition) === edition.value) tell(told.said, told.tone);
    }).catch(() => {}); /* the page is being left, or the next change tells */
  };
  const tell = (said, tone) => {
    const meter = document.getElementById("meter");
    meter.textContent = said;
    meter.className = tone;
  };
  if ("more" in form.dataset) count();
}
