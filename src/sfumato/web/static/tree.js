/* The tree of a column. Every change is a form that the server answers with the tree as it is then;
   here it is sent in the background, so that what is open, picked and focused stays so. */
import { draggable } from "./drag.js";
import { known } from "./roles.js";

export function tree(place) {
  const lines = () => [...place.querySelectorAll("[role=treeitem][data-node]")];
  const form = () => place.querySelector(".tree-form");
  let focused = null;

  /* One line takes the focus of the keyboard; what stands in it is reached by keys and pointer. */
  const settle = (take) => {
    const all = lines();
    const current = all.find((line) => line.dataset.node === focused) ?? all[0];
    for (const line of all) {
      line.tabIndex = line === current ? 0 : -1;
      for (const inner of line.querySelectorAll("button, input")) inner.tabIndex = -1;
    }
    focused = current?.dataset.node;
    if (take) current?.focus();
  };
  const go = (line) => {
    if (!line) return;
    focused = line.dataset.node;
    settle(true);
  };

  /* One change after the other: each is about the tree that the one before left. */
  let turn = Promise.resolve();
  const send = (source, act, take = true) => {
    const content = new URLSearchParams(new FormData(source));
    if (act) content.set("do", act);
    turn = turn.then(() => change(content, take)).catch(() => tell("The workbench does not answer."));
  };
  const tell = (said) => {
    const problem = place.querySelector("#tree-problem");
    problem.textContent = said;
    problem.className = "verdict bad";
  };
  const change = async (content, take) => {
    const now = new FormData(form());
    content.set("edition", now.get("edition"));
    content.delete("open");
    for (const node of now.getAll("open")) content.append("open", node);
    const answer = await fetch(place.dataset.post, {
      method: "POST", body: content, headers: { "X-Part": "tree" },
    });
    if (!answer.ok) {
      location.reload(); /* the table was closed, say: the page tells */
      return;
    }
    const open = place.querySelector(".build").open;
    place.innerHTML = await answer.text();
    known(new FormData(form()).get("edition"));
    place.querySelector(".build").open ||= open;
    const problem = place.querySelector("#tree-problem");
    const picked = lines().find((line) => line.querySelector("input").checked);
    if (picked && !lines().some((line) => line.dataset.node === focused)) focused = picked.dataset.node;
    settle(take);
    if (problem.textContent) problem.scrollIntoView({ block: "nearest" });
  };

  place.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.target, event.submitter?.value, !event.target.classList.contains("way"));
  });

  const pick = (line, on) => {
    const box = line.querySelector("input");
    box.checked = on ?? !box.checked;
    line.setAttribute("aria-selected", String(box.checked));
    name();
  };
  const picked = () => lines().filter((line) => line.querySelector("input").checked);
  /* What is picked alone can be renamed: its name is offered. */
  const name = () => {
    const found = picked(), field = place.querySelector("#tree-label");
    field.value = found.length === 1 && found[0].matches(".group") ? found[0].querySelector(".label").textContent : "";
  };
  const only = (line) => {
    if (picked().length === 0) pick(line, true);
  };

  place.addEventListener("change", (event) => {
    if (event.target.matches("[name=pick]")) {
      const line = event.target.closest(".line");
      pick(line, event.target.checked);
      focused = line.dataset.node;
      settle(false);
    } else if (event.target.matches("#tree-file") && event.target.files.length) {
      const reading = event.target.closest("form"), file = event.target.files[0];
      file.text().then((text) => {
        reading.elements.text.value = text;
        reading.elements.file.value = file.name;
      });
    }
  });
  place.addEventListener("focusin", (event) => {
    if (event.target.matches(".line")) { focused = event.target.dataset.node; settle(false); }
  });
  place.addEventListener("click", (event) => {
    const line = event.target.closest(".line");
    if (line && !event.target.closest("button, input")) { pick(line); go(line); }
  });

  const keys = {
    ArrowDown: (line, all) => go(all[all.indexOf(line) + 1]),
    ArrowUp: (line, all) => go(all[all.indexOf(line) - 1]),
    Home: (line, all) => go(all[0]),
    End: (line, all) => go(all.at(-1)),
    ArrowRight: (line, all) => {
      if (line.ariaExpanded === "false") send(form(), `toggle:${line.dataset.node}`);
      else if (line.ariaExpanded === "true") go(all[all.indexOf(line) + 1]);
    },
    ArrowLeft: (line, all) => {
      if (line.ariaExpanded === "true") send(form(), `toggle:${line.dataset.node}`);
      else go(all.slice(0, all.indexOf(line)).findLast((other) => other.ariaLevel < line.ariaLevel));
    },
    " ": (line) => pick(line),
    m: (line) => send(form(), picked().length ? "mark" : `mark:${line.dataset.node}`),
    g: (line) => { only(line); place.querySelector("#tree-label").focus(); },
    F2: (line) => {
      picked().forEach((other) => pick(other, false));
      pick(line, true);
      place.querySelector("#tree-label").select();
    },
    Delete: (line) => { only(line); send(form(), "dissolve"); },
  };
  place.addEventListener("keydown", (event) => {
    if (event.target.matches(".line") && !event.ctrlKey && !event.metaKey && keys[event.key]) {
      event.preventDefault();
      keys[event.key](event.target, lines());
    } else if (event.target.matches("#tree-label") && event.key === "Enter") {
      event.preventDefault();
      const found = picked();
      send(form(), found.length === 1 && found[0].matches(".group") ? "rename" : "group");
    }
  });

  draggable(place, {
    item: ".line", target: ".line.group", grip: ".label",
    drop: (line, group) => {
      if (!line.querySelector("input").checked) {
        picked().forEach((other) => pick(other, false));
        pick(line, true);
      }
      place.querySelector("#tree-to").value = group.dataset.node;
      send(form(), "move");
    },
  });
  settle(false);
}
