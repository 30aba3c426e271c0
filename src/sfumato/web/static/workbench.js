/* What all pages share: jobs, the slider, fields that depend on others, uploads, and undo. */
import { keeping, roles, tell } from "./roles.js";
import { tree } from "./tree.js";

const find = (selector, within = document) => within.querySelector(selector);

/* Follows a job and goes to its outcome. */
function follow(job) {
  const bar = find("progress", job);
  const events = new EventSource(job.dataset.events);
  events.onmessage = (event) => {
    const told = JSON.parse(event.data);
    find("#doing").textContent = told.doing;
    if (told.share === null) bar.removeAttribute("value");
    else bar.value = told.share;
    if (told.state === "done") {
      events.close();
      location.replace(told.after);
    } else if (told.state === "failed" || told.state === "cancelled") {
      events.close();
      location.reload();
    }
  };
  events.onerror = () => {
    events.close();
    location.reload();
  };
  /* Leaving breaks the stream off: that is not a reason to load the page again. */
  addEventListener("beforeunload", () => events.close());
}

/* Redraws the risk while k moves, where only the last answer counts; what is settled is kept. */
function slide(field) {
  const figure = find("#figure"), range = find("#slide");
  range.hidden = false;
  let asking = null;
  const draw = async () => {
    if (!field.checkValidity()) return;
    if (asking) asking.abort();
    asking = new AbortController();
    figure.classList.add("loading");
    const { signal } = asking;
    try {
      const answer = await fetch(`${field.dataset.figure}?k=${field.value}`, { signal });
      const drawn = await answer.text();
      if (!answer.ok || signal.aborted) return;
      figure.innerHTML = drawn;
      figure.classList.remove("loading");
      /* what other work held up is asked for again, unless something else was meanwhile */
      if (answer.headers.get("X-Later")) setTimeout(() => { if (!signal.aborted) draw(); }, 1000);
    } catch {
      /* a later answer is on its way, or the page is being left */
    }
  };
  range.addEventListener("input", () => { field.value = range.value; draw(); });
  field.addEventListener("input", () => { range.value = field.value; draw(); });
  let kept = field.value;
  /* What is not a valid k is not kept, and that is said: the field goes back to what is. */
  field.addEventListener("change", (event) => {
    if (field.checkValidity()) kept = field.value;
    else {
      event.stopPropagation();
      tell(`k must be a whole number from ${field.min} to ${Number(field.max).toLocaleString("en")}. What was typed is not, and k stays ${kept}.`, "bad");
      field.value = range.value = kept;
      draw();
    }
  });
  const { save } = keeping(field.form, (told) => {
    tell(told.said, told.lacks ? "warn" : "unseen");
    find("#counts").textContent = told.counts;
    draw();
  });
  field.form.addEventListener("change", () => { if (field.checkValidity()) save(); });
}

/* Shows a field only while another one has the value it depends on. */
function depend(field) {
  const [name, value] = field.dataset.when.split("=");
  const form = field.closest("form");
  const settle = () => { field.hidden = !new FormData(form).getAll(name).includes(value); };
  form.addEventListener("change", settle);
  settle();
}

/* Sends a file as it is, and goes where the answer leads. */
function upload(zone) {
  const input = find("input", zone), bar = find("progress", zone), said = find("output", zone);
  const send = (file) => {
    if (file.size > Number(zone.dataset.most)) {
      said.textContent = "This file is too large. Name its folder when you start `sfumato serve` instead.";
      return;
    }
    const request = new XMLHttpRequest();
    request.open("POST", `/upload?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Accept", "text/html, application/json");
    request.upload.onprogress = (event) => { bar.hidden = false; bar.value = event.loaded / event.total; };
    request.onload = () => {
      bar.hidden = true;
      if (request.status < 400) location.href = request.responseURL;
      else said.textContent = JSON.parse(request.responseText).problem;
    };
    request.onerror = () => { bar.hidden = true; said.textContent = "The upload broke off. Try again."; };
    request.send(file);
  };
  input.addEventListener("change", () => input.files.length && send(input.files[0]));
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
}

/* Work in progress, on every page: what, of which table, how far, for how long, and a way to stop.
   A page that is older than what ended, or than a decision made elsewhere, says so. */
function tray(place) {
  const list = find(".running", place), news = find(".news", place);
  const { of, since } = place.dataset;
  const made = (name, said, more = {}) =>
    Object.assign(document.createElement(name), { textContent: said, ...more });
  const button = (job, verb, said) => {
    const form = made("form", "", { method: "post", action: `/jobs/${job.number}/${verb}` });
    form.append(made("button", said, { className: "quiet small" }));
    return form;
  };
  const item = (...parts) => {
    const line = made("li", "");
    line.append(...parts);
    return line;
  };
  const line = (job) => {
    const share = job.share === null ? "" : `, ${Math.floor(100 * job.share)}%`;
    const told = `${job.table} · ${job.doing}${share} · ${job.elapsed} s`;
    return item(
      made("a", job.title, { href: `/jobs/${job.number}` }), made("span", told), button(job, "cancel", "Stop"),
      ...(job.keeps ? [button(job, "finish", "Stop and keep the best")] : []),
    );
  };
  const again = (said) => item(made("span", said), made("a", "Load this page again", { href: location.href, className: "button quiet small again" }));
  const ends = { done: "Finished", failed: "Failed", cancelled: "Stopped" };
  let silent = 0, differs = 0, before = "";
  const old = (told) => {
    if (!of) return [];
    if (!told.open) return [item(made("span", "This table was closed; what stands here is of before."), made("a", "Open a table", { href: "/" }))];
    const lines = told.ended.map((job) => item(
      made("a", `${ends[job.state]}: ${job.title}`, { href: `/jobs/${job.number}` }),
      made("span", "since this page was loaded"),
    ));
    /* Twice in a row: a change of this page itself may be on its way. */
    differs = String(told.edition) === place.dataset.edition ? 0 : differs + 1;
    if (differs > 1) lines.push(again("Decisions have changed since this page was loaded."));
    else if (lines.length) lines.push(again("What stands here is of before."));
    return lines;
  };
  const show = (lines) => {
    const said = lines.map((one) => one.textContent).join("\n");
    if (said !== before) news.replaceChildren(...lines); /* what is said is not said again */
    before = said;
  };
  const look = async () => {
    try {
      const told = await (await fetch(of ? `/jobs?of=${of}&since=${since}` : "/jobs")).json();
      silent = 0;
      if (!list.contains(document.activeElement)) list.replaceChildren(...told.running.map(line));
      show(old(told));
      place.hidden = !told.running.length && !news.childElementCount;
    } catch {
      silent += 1; /* the page is being left, or the workbench has ended */
      list.replaceChildren();
      show(silent > 1 ? [item(made("span", "The workbench does not answer: it has ended, or this browser was shut out. Start it again, or take a fresh link from its terminal."))] : []);
      place.hidden = silent < 2;
    }
  };
  if (find("#job")) return; /* its own page says more */
  look();
  setInterval(look, 2000);
}

/* Says which k the slider is at, and asks for its rows when a pointer lets go of it; keys end with Enter. */
function otherRows(form) {
  const range = find("#rows-k", form);
  range.addEventListener("input", () => { find("output", form).textContent = range.value; });
  range.addEventListener("pointerup", () => form.requestSubmit());
}

/* Moves a drawing that is wider than the window sideways, until what is shown is in the middle. */
function center(node) {
  const place = node.closest("svg").parentElement;
  const [here, there] = [node.getBoundingClientRect(), place.getBoundingClientRect()];
  place.scrollLeft += here.left + here.width / 2 - there.left - there.width / 2;
}

const parts = { ".levels .chosen": center, "#other-k": otherRows, "#tray": tray, "#job": follow, "#k": slide, "#upload": upload, "#roles": roles, "#tree": tree };
for (const [selector, begin] of Object.entries(parts)) {
  const found = find(selector);
  if (found) begin(found);
}
document.querySelectorAll("[data-when]").forEach(depend);

/* Who clicks twice asks once: a form that is on its way is not sent again, until one comes back. */
addEventListener("submit", (event) => {
  if (event.defaultPrevented) return; /* it is sent in the background */
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", (event) => {
  if (!event.persisted) return; /* a new page: nothing was sent, or somebody was quicker than it */
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

/* Ctrl-Z takes the last decision back, except while text is being written. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey) return;
  if (event.target.matches("input:not([type=checkbox]), textarea")) return;
  const button = find("#undo-button");
  if (button && !button.disabled) { event.preventDefault(); button.click(); }
});
