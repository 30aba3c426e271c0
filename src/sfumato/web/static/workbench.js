"use strict";

/* Follows a job and goes to its outcome. */
const job = document.getElementById("job");
if (job) {
  const bar = job.querySelector("progress");
  const events = new EventSource(job.dataset.events);
  events.onmessage = (event) => {
    const told = JSON.parse(event.data);
    document.getElementById("doing").textContent = told.doing;
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
}

/* Redraws the risk while k moves; only the last answer counts. */
const slider = document.getElementById("k");
if (slider && slider.dataset.figure) {
  const figure = document.getElementById("figure");
  const said = document.getElementById("k-said");
  let asking = null;
  slider.addEventListener("input", async () => {
    said.textContent = slider.value;
    if (asking) asking.abort();
    asking = new AbortController();
    figure.classList.add("loading");
    try {
      const answer = await fetch(`${slider.dataset.figure}?k=${slider.value}`, { signal: asking.signal });
      if (answer.ok) {
        figure.innerHTML = await answer.text();
        figure.classList.remove("loading");
      }
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  });
}
