/* Columns as a table: searched, sorted, ticked, and given a role together. */

export function columns(form, save) {
  const body = form.querySelector(".columns tbody"), rows = [...body.rows];
  const search = form.querySelector("#search"), all = form.querySelector("#all");
  search.hidden = all.hidden = false;
  const box = (row) => row.querySelector("[name=pick]");
  const shown = () => [...body.rows].filter((row) => !row.hidden);
  const ticked = () => rows.filter((row) => box(row).checked);

  const tally = () => {
    const number = ticked().length, here = shown();
    form.querySelector("#picked").textContent = number ? `The ${number} ticked` : "Ticked";
    for (const button of form.querySelectorAll("[name=bulk], [name=rest]")) button.disabled = !number;
    const among = here.filter((row) => box(row).checked).length;
    all.checked = among > 0 && among === here.length;
    all.indeterminate = among > 0 && among < here.length;
  };
  const give = (some, role) => {
    for (const row of some) {
      row.querySelector("select").value = role;
      row.dataset.role = role;
    }
    save();
  };

  form.addEventListener("click", (event) => {
    const button = event.target.closest("[name=bulk], [name=rest]");
    if (!button) return;
    event.preventDefault();
    const mine = ticked();
    give(button.name === "bulk" ? mine : rows.filter((row) => !mine.includes(row)), button.value);
  });

  let last = null;
  body.addEventListener("click", (event) => {
    if (!event.target.matches("[name=pick]")) return;
    const here = shown(), row = event.target.closest("tr");
    const [from, to] = [here.indexOf(last), here.indexOf(row)].sort((one, other) => one - other);
    if (event.shiftKey && from >= 0) {
      for (const between of here.slice(from, to + 1)) box(between).checked = event.target.checked;
    }
    last = row;
    tally();
  });
  form.addEventListener("change", (event) => {
    const field = event.target;
    if (field === all) {
      for (const row of shown()) box(row).checked = all.checked;
      tally();
    } else if (field !== search && field.name !== "pick") {
      if (field.matches("tr select")) field.closest("tr").dataset.role = field.value;
      save();
    }
  });

  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.dataset.name.includes(wanted);
    settle(shown()[0]);
    tally();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const wanted = search.value.trim().toLowerCase(), here = wanted ? shown() : [];
    const first = here.find((row) => row.dataset.name === wanted)
      ?? here.find((row) => row.dataset.name.startsWith(wanted)) ?? here[0];
    if (!first) return;
    box(first).checked = true;
    search.select();
    tally();
  });

  const numbers = ["values", "alone", "missing"];
  const order = form.querySelector("[name^=role-]"); /* roles sort as their menu lists them */
  const places = [...order.options].map((option) => option.value);
  const key = { role: (row) => places.indexOf(row.dataset.role) };
  for (const name of numbers) key[name] = (row) => -Number(row.dataset[name]);
  form.querySelector(".columns thead").addEventListener("click", (event) => {
    const link = event.target.closest("[data-sort]");
    if (!link) return;
    event.preventDefault();
    const name = link.dataset.sort, head = link.closest("th"), before = head.ariaSort;
    const value = key[name] ?? ((row) => row.dataset[name]);
    const falls = numbers.includes(name), first = falls ? "descending" : "ascending";
    const turned = before === first;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.ariaSort = turned ? (falls ? "ascending" : "descending") : first;
    const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
    const sorted = [...rows].sort((one, other) => {
      const by = compare(value(one), value(other));
      return (turned ? -by : by) || Number(one.dataset.column) - Number(other.dataset.column);
    });
    body.append(...sorted);
    settle(sorted.find((row) => !row.hidden));
  });

  /* One row takes the focus of the keyboard; arrows go to the others. */
  let current = null;
  const reach = (row, index) => {
    for (const inner of row?.querySelectorAll("a, input, select") ?? []) inner.tabIndex = index;
  };
  const settle = (row) => {
    if (row === current) return;
    reach(current, -1);
    reach(row, 0);
    current = row ?? null;
  };
  rows.forEach((row) => reach(row, -1));
  settle(body.rows[0]);
  body.addEventListener("focusin", (event) => settle(event.target.closest("tr")));
  body.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || !event.target.matches("[type=checkbox], a")) return;
    event.preventDefault();
    const here = shown(), row = event.target.closest("tr");
    const next = here[here.indexOf(row) + step];
    if (next) box(next).focus();
  });
  tally();
}
