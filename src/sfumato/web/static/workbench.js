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
  /* Leaving breaks the stream off: that is no reason to load the page again. */
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
    } catch {
      /* a later answer is on its way, or the page is being left */
    }
  };
  range.addEventListener("input", () => { field.value = range.value; draw(); });
  field.addEventListener("input", () => { range.value = field.value; draw(); });
  const { save } = keeping(field.form, (told) => {
    tell(told.said, told.lacks ? "warn" : "unseen");
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

/* Work in progress, on every page: what, of which table, how far, for how long, and a way to stop. */
function tray(place) {
  const list = find("ul", place);
  const button = (job, verb, said) => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = `/jobs/${job.number}/${verb}`;
    const made = form.appendChild(document.createElement("button"));
    made.className = "quiet small";
    made.textContent = said;
    return form;
  };
  const line = (job) => {
    const item = document.createElement("li");
    const link = item.appendChild(document.createElement("a"));
    link.href = `/jobs/${job.number}`;
    link.textContent = job.title;
    const share = job.share === null ? "" : `, ${Math.floor(100 * job.share)}%`;
    const told = item.appendChild(document.createElement("span"));
    told.textContent = `${job.table} · ${job.doing}${share} · ${job.elapsed} s`;
    item.append(button(job, "cancel", "Stop"));
    if (job.keeps) item.append(button(job, "finish", "Stop and keep the best"));
    return item;
  };
  const look = async () => {
    try {
      const jobs = await (await fetch("/jobs")).json();
      if (!list.contains(document.activeElement)) list.replaceChildren(...jobs.map(line));
      place.hidden = !jobs.length;
    } catch {
      place.hidden = true; /* the workbench has ended, or the page is being left */
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

/* Ctrl-Z takes the last decision back, except while text is being written. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey) return;
  if (event.target.matches("input:not([type=checkbox]), textarea")) return;
  const button = find("#undo-button");
  if (button && !button.disabled) { event.preventDefault(); button.click(); }
});
