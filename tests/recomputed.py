"""Figures of pages computed again from the files by other code: pandas and loops.

A page is read as what it says: a mapping from the place of a statement to the numbers in it, or to
what a chart draws (`said`). The expected mapping is made of the input and the released file alone,
so that a figure nobody recomputes fails as surely as a wrong one, and one that stands in two places
must be the same in both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sfumato as sf
from sfumato.budget import Budget
from sfumato.demo import write_people
from sfumato.report.page import Figure, Page
from sfumato.web.project import Project

DATA = Path(__file__).parents[1] / "data"

NUMBER = re.compile(r"[<>]?\d[\d,]*(?:\.\d+)?%?")

Said = dict[str, Any]

Frame = pd.DataFrame


def said(page: Page, columns: Sequence[str]) -> Said:
    """All figures of a page by their place."""
    verdict = " ".join([page.verdict, *(one for _, one in page.checks)])
    found: Said = {"verdict": verdict, "subtitle": page.subtitle}
    found |= {f"fact: {name}": f"{name} {value}" for name, value in page.facts}
    found |= {f"beside {at}": words for at, words in enumerate(page.beside)}
    found |= {f"light: {light.question}": " ".join((light.answer, *light.more))
              for light in page.lights}  # fmt: skip
    for svg in page.gauges:
        label = re.search(r'aria-label="([^"]*)"', svg)
        assert label is not None
        text = label[1].replace("&lt;", "<").replace("&gt;", ">")
        found[f"gauge: {text.partition(':')[0]}"] = text
    for section in page.sections:
        for at, words in enumerate(section.paragraphs):
            found[f"{section.title} {at}"] = words
        for figure in section.figures:
            found[f"caption: {figure.title}"] = figure.caption
            found[f"chart: {figure.title}"] = drawn(figure)
        for grid in section.grids:
            for name, *cells in grid.rows:
                found[f"{grid.heads[0]}: {name}"] = " | ".join([name, *cells])
    read = {p: numbers(t, columns) if isinstance(t, str) else t for p, t in found.items()}
    return {place: figures for place, figures in read.items() if figures}


def numbers(text: str, columns: Sequence[str]) -> list[str]:
    """The numbers of a text, without those in the names of columns and in fingerprints."""
    text = re.sub(r"sha256:\w+", "", text)
    for name in sorted(columns, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", text)
    return [found.rstrip(",") for found in NUMBER.findall(text)]


def drawn(figure: Figure) -> Any:
    """What a chart draws, without what is only about places on paper."""
    if figure.spec is None:
        return []  # a diagram of names: it draws no figures
    layers = [figure.spec, *figure.spec.get("layer", ())]
    rows = [row for layer in layers for row in layer.get("data", {}).get("values", ())]
    if figure.title == "How exposed rows are":
        curve: dict[tuple[str, float], float] = {}
        for row in rows:
            if row["table" if "table" in row else "risk"] != 0.2 and row["risk"] > 0.001:
                place = (row["table"], plain(row["risk"]))
                curve[place] = max(curve.get(place, 0.0), plain(row["share"]))
        return curve
    for row in rows:
        row.pop("position", None)
        if "cells" in row:
            row.pop("at")
    return chart(rows)


def chart(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Rows of a chart in an order of their own."""
    return sorted({tuple(sorted((n, plain(v)) for n, v in row.items())) for row in rows}, key=str)


def plain(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else round(float(value), 7)


def part(share: float) -> str:
    """A share as pages write it."""
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{share:.1%}".replace(".0%", "%")


def sizes(frame: Frame, names: Sequence[str]) -> pd.Series[Any]:
    """For every row how many look like it."""
    texts = frame[list(names)].astype(object).where(frame[list(names)].notna(), "\0missing")
    return texts.groupby(list(names), sort=False)[names[0]].transform("size").astype(int)


def classes(frame: Frame, names: Sequence[str]) -> int:
    return len(frame[list(names)].astype(str).drop_duplicates())


def size_chart(tables: Mapping[str, Frame], names: Mapping[str, Sequence[str]], k: int) -> Any:
    """Rows by the size of their class; bins are read as people read them."""
    edges = [1, 2, 3, 5, 10, 20, 50, 100, 1000]
    edges = sorted({*edges, k})
    rows: list[dict[str, Any]] = []
    for low, after in zip(edges, [*edges[1:], None], strict=True):
        high = None if after is None else after - 1
        label = f"{low:,}+" if high is None else f"{low}" if low == high else f"{low}–{high}"
        for name, frame in tables.items():
            alike = sizes(frame, names[name])
            held = ((alike >= low) & (alike < (after or math.inf))).sum()
            what = f"fewer than {k} alike" if low < k else f"{k} or more alike"
            rows.append({"alike": label, "rows": int(held), "table": name, "class": what})
    first = next(row["alike"] for row in rows if "or more" in row["class"])
    return chart([*rows, {"alike": first, "said": f"k = {k}"}])


def risk_curve(tables: Mapping[str, Frame], names: Mapping[str, Sequence[str]]) -> Any:
    found = {}
    for name, frame in tables.items():
        alike = sizes(frame, names[name])
        for size in {1, *(s for s in alike.unique() if s < 1000)}:
            found[name, plain(1 / size)] = plain((alike <= size).sum() / max(1, len(frame)))
    return found


def alone(frame: Frame, names: Sequence[str]) -> int:
    return int((sizes(frame, names) == 1).sum())


def below(frame: Frame, names: Sequence[str], k: int) -> int:
    return int((sizes(frame, names) < k).sum())


def bars(shares: Mapping[str, float]) -> Any:
    return chart({"name": n, "share": s, "said": part(s)} for n, s in shares.items())


def inferred(after: Frame, known: Sequence[str], sensitive: Sequence[str]) -> list[str]:
    """Rows of classes with one value only, and rows with a number of their own.

    Missing values are left aside, as they protect nobody.
    """
    found = []
    texts = [pd.Series(written(after[n]), index=after.index) for n in known]
    texts = texts or [pd.Series("", index=after.index)]
    for name in sensitive:
        cells = pd.Series(written(after[name]), index=after.index).replace("", None)
        groups = cells.groupby(texts)
        kinds, alike = groups.transform("nunique"), groups.transform("count")
        most = groups.transform(lambda own: own.value_counts().max() if own.count() else 0)
        nearly = (most >= 0.9 * alike) & (kinds > 1)
        single = int((~cells.dropna().duplicated(keep=False)).sum())
        for rows, more in (((kinds == 1), []), (nearly, ["90%"])):
            if rows.any():
                held = int(rows.sum())
                found += [f"{held:,}", f"{len(after):,}", part(held / len(after)), *more]
        if single and (is_ordered(after[name]) or 2 * single > len(after)):
            found.append(f"{single:,}")
    return found


def written(column: pd.Series[Any]) -> list[str]:
    """Cells as a file has them; a missing one is empty."""
    return ["" if pd.isna(cell) else str(cell) for cell in column]


def is_ordered(column: pd.Series[Any]) -> bool:
    """Whether cells are blurred into ranges: numbers and dates are."""
    cells = column.dropna()
    return not isinstance(cells.iloc[0], str)


def everybody(folder: Path) -> Frame:
    write_people(folder / "people.csv", rows=800, seed=3)
    return pd.read_csv(folder / "people.csv", dtype=str)


def visits(tmp_path: Path) -> Frame:
    """Persons with several rows, in `in.csv`."""
    draw = np.random.default_rng(3)
    who = draw.integers(0, 120, 500)
    age, sex = draw.integers(20, 70, 120), draw.choice(["F", "M"], 120)
    frame = pd.DataFrame({"pid": who, "age": age[who], "sex": sex[who],
                          "ill": draw.choice(["flu", "cold", "ok"], 500)})  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    return frame


def smallest(frame: Frame, sets: Sequence[Sequence[str]], person: str | None = None) -> list[int]:
    """For every row, or person, the smallest class that holds it by one of the sets."""
    found: dict[Any, int] = {}
    for names in sets:
        members: dict[tuple[Any, ...], set[Any]] = {}
        rows = list(frame[list(names)].astype(str).itertuples(index=False, name=None))
        who = list(frame.index if person is None else frame[person])
        for cells, one in zip(rows, who, strict=True):
            members.setdefault(cells, set()).add(one)
        for cells, one in zip(rows, who, strict=True):
            found[one] = min(found.get(one, len(frame)), len(members[cells]))
    return list(found.values())


def on_the_bench(place: Path, **decided: Any) -> Project:
    """A table on the workbench, looked at and decided about."""
    project = Project(place, sf.table(str(place)))
    project.look(Budget())
    project.decide(replace(project.choices, **decided))
    return project


ROLES = {"pid": "identifier", "age": "quasi-identifier", "sex": "quasi-identifier",
         "ill": "sensitive"}  # fmt: skip


def light_of(page: Page, question: str) -> tuple[str | None, str]:
    """The tone and the answer of one light."""
    return next((one.tone, one.answer) for one in page.lights if one.question == question)


def demo(folder: Path) -> tuple[Frame, list[str], list[str]]:
    write_people(folder / "people.csv", rows=1200, seed=3)
    frame = pd.read_csv(folder / "people.csv", dtype=str)
    known = ["birth_date", "sex", "zip", "ethnicity", "marital_status"]
    frame["birth_date"] = pd.to_datetime(frame["birth_date"]).dt.date
    frame["cost"] = frame["cost"].astype(float)
    return frame[[*known, "diagnosis", "cost"]], known, ["diagnosis", "cost"]


def survey(folder: Path) -> tuple[Frame, list[str], list[str]]:
    """A census: codes, and numbers of which there are few."""
    frame = read(DATA / "nist_acs_national2019.parquet").head(1500)
    known = ["AGEP", "SEX", "MSP", "HISP", "RAC1P", "EDU"]
    return frame[[*known, "PUMA", "PINCP_DECILE"]], known, ["PINCP_DECILE"]


def credit(folder: Path) -> tuple[Frame, list[str], list[str]]:
    """Numbers with fractions, missing cells, and codes with no meaning."""
    frame = read(DATA / "crx.parquet")
    frame = frame[["A1", "A2", "A6", "A11", "A14", "A16"]]
    return frame[frame["A2"].notna()].reset_index(drop=True), ["A1", "A2", "A6", "A11"], ["A16"]


def gaps(folder: Path) -> tuple[Frame, list[str], list[str]]:
    """Numbers that are missing in some rows, of which stars are told apart."""
    frame = read(DATA / "crx.parquet")
    return frame[["A1", "A2", "A6", "A11", "A14", "A16"]], ["A1", "A2", "A6", "A14"], ["A16"]


TABLES = {"demo": demo, "survey": survey, "credit": credit, "gaps": gaps}


def read(place: Path) -> Frame:
    """A table whose whole numbers stay whole beside missing cells."""
    return pd.read_parquet(place, dtype_backend="numpy_nullable")


def differences(found: Said, expected: Said) -> dict[str, tuple[Any, Any]]:
    """Places where a page says something else."""
    places = [p for p in {**expected, **found} if found.get(p) != expected.get(p)]
    return {place: (found.get(place), expected.get(place)) for place in places}
