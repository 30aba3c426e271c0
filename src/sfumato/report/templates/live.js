const narrow = window.matchMedia("(max-width: 40rem)");
const views = new Map();

async function show(place) {
  const { wide, narrow: changes } = JSON.parse(place.querySelector("script").textContent);
  const spec = narrow.matches ? { ...wide, ...changes } : wide;
  const live = place.querySelector(".live");
  views.get(place)?.finalize();
  const shown = await vegaEmbed(live, spec, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
    tooltip: { disableDefaultStyle: true, offsetX: 14, offsetY: 14 },
  });
  views.set(place, shown);
  place.classList.add("drawn");
}

function showAll() {
  for (const place of document.querySelectorAll(".chart")) show(place);
}

showAll();
narrow.addEventListener("change", showAll);
