/* Roles of columns, on cards or in a table, and how every change of a form is kept. */
import { draggable } from "./drag.js";
import { columns } from "./columns.js";

/**
 * Keeps every change of a form at once, one after the other, so that each can be taken back;
 * `show` gets what the workbench answers to the last one.
 */
export function keeping(form, show) {
  const edition = form.querySelector("[name=edition]");
  let turn = Promise.resolve(), latest = 0, waiting = 0;
  const save = () => {
    const content = new URLSearchParams(new FormData(form)), number = ++latest;
    const send = () => {
      if (edition) content.set("edition", edition.value); /* of the answer to the change before */
      return ask(form.action, { method: "POST", body: content }).then((told) => {
        if (!told) return;
        if (edition) edition.value = told.edition;
        known(told.edition);
        document.getElementById("undo-button").disabled = !told.undo;
        if (number === latest) show(told);
      });
    };
    waiting += 1;
    turn = turn.then(send).catch(() => tell("The workbench does not answer.", "bad"))
      .finally(() => { waiting -= 1; });
  };
  /* Leaving the page, by whatever way, waits for what is being kept. */
  const leave = (event, go) => {
    if (!waiting || event.defaultPrevented) return;
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
  return { save, isLast: (number) => number === latest, number: () => latest };
}

/* This page already knows what it decided itself. */
export function known(edition) {
  document.getElementById("tray").dataset.edition = edition;
}

export async function ask(place, how) {
  const answer = await fetch(place, { ...how, headers: { Accept: "application/json" } });
  const told = await answer.json();
  if (!answer.ok) tell(told.problem, "bad");
  return answer.ok ? told : null;
}

export function tell(said, tone) {
  const meter = document.getElementById("meter");
  meter.textContent = said;
  meter.className = tone;
}

export function roles(form) {
  const edition = form.querySelector("[name=edition]");
  const kept = keeping(form, (told) => {
    tell(told.said, told.tone);
    for (const known of form.querySelectorAll(".known")) {
      known.textContent = told.blurred[known.closest("[data-column]").dataset.column];
    }
    if (told.more) late();
  });
  const save = () => {
    const given = [...form.querySelectorAll("[name^=role-]")].map((menu) => menu.value);
    for (const place of form.querySelectorAll("[data-count]")) {
      place.textContent = given.filter((role) => role === place.dataset.count).length.toLocaleString("en");
    }
    kept.save();
  };
  /* What takes a moment to count is asked for apart, and told if nothing has changed since. */
  const late = () => {
    const number = kept.number();
    ask(`${form.action}/meter`, {}).then((told) => {
      if (told && kept.isLast(number) && String(told.edition) === edition.value) tell(told.said, told.tone);
    }).catch(() => {}); /* the page is being left, or the next change tells */
  };
  if (form.querySelector(".board")) board(form, save);
  else columns(form, save);
  if ("more" in form.dataset) late();
}

/* A card is moved by dragging, by its menu, or by Alt and arrow keys. */
function board(form, save) {
  const lanes = [...form.querySelectorAll(".lane")];
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
}
