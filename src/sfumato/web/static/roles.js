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
      return ask(form.action, number, { method: "POST", body: content });
    };
    waiting += 1;
    turn = turn.then(send).catch(() => tell("The workbench does not answer.", "bad"))
      .finally(() => { waiting -= 1; });
  };
  /* Going on waits for what is being kept. */
  form.addEventListener("submit", (event) => {
    if (!waiting) return;
    event.preventDefault();
    turn.then(() => form.submit());
  });
  const ask = async (place, number, how) => {
    const answer = await fetch(place, { ...how, headers: { Accept: "application/json" } });
    const told = await answer.json();
    if (!answer.ok) return tell(told.problem, "bad");
    edition.value = told.edition;
    if (number !== latest) return null;
    document.getElementById("undo-button").disabled = !told.undo;
    tell(told.said, told.tone);
    if (told.more) count(number);
    return null;
  };
  /* What takes a moment to count is asked for apart, and told if nothing has changed since. */
  const count = (number) => ask(`${form.action}/meter`, number, {});
  const tell = (said, tone) => {
    const meter = document.getElementById("meter");
    meter.textContent = said;
    meter.className = tone;
  };
  if ("more" in form.dataset) count(latest);
}
