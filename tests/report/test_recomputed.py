"""Every figure of a page, computed again from the files by other code: pandas and loops.

A page is read as what it says: a mapping from the place of a statement to the numbers in it, or to
what a chart draws. The expected mapping is made from the input and the released file alone, so that
a figure nobody recomputes fails as surely as a wrong one, and one that stands in two places must be
the same in both.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.naive_bayes import CategoricalNB

import sfumato as sf
from sfumato.budget import Budget
from sfumato.demo import write_people
from sfumato.hierarchy import Hierarchy
from sfumato.release.certificate import Certificate
from sfumato.report.page import Figure, Page, page_html
from sfumato.report.pages.certificate import certificate_pdf, certificate_svg, certified_release
from sfumato.report.pages.release import release_page
from sfumato.report.pages.table import findings_of, table_page
from sfumato.report.registry import page_of
from sfumato.utility import compare
from sfumato.web.candidates import nodes_of
from sfumato.web.pages import explore, meter, risk
from sfumato.web.project import Project
from sfumato.web.verbs import VERBS, Around, command_of

DATA = Path(__file__).parents[2] / "data"
NUMBER = re.compile(r"[<>]?\d[\d,]*(?:\.\d+)?%?")
RARE = 10
Said = dict[str, Any]
Frame = pd.DataFrame


# Reading a page


def said(page: Page, columns: Sequence[str]) -> Said:
    """All figures of a page by their place."""
    found: Said = {"verdict": page.verdict, "subtitle": page.subtitle}
    found |= {f"fact: {name}": f"{name} {value}" for name, value in page.facts}
    found |= {f"beside {at}": words for at, words in enumerate(page.beside)}
    found |= {f"light: {light.question}": light.answer for light in page.lights}
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


# What pages should say, by other code


def part(share: float) -> str:
    """A share as pages write it."""
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{share:.1%}".replace(".0%", "%")


def limit(share: float) -> str:
    """A share that is not to be exceeded: rounded up."""
    return part(math.ceil(share * 1000 - 1e-9) / 1000)


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


# A release


def released(
    before: Frame,
    after: Frame,
    k: int,
    known: Sequence[str],
    shown: Said,
    sensitive: Sequence[str],
    levels: Mapping[str, float] | None = None,
) -> Said:
    """The page of a release by a method that makes ranges and sets, or stars, or climbs trees.

    `shown` is what the page says: of a histogram the edges of the bins are taken from it. `levels`
    says how high each column was lifted in its tree, as a share of the tree's height.
    """
    rows, left = len(before), len(before) - len(after)
    both = before.set_index("row").loc[after["row"]].reset_index()
    told = after.assign(**{name: starred(after, name) for name in known})
    fates = {name: fate(both[name], told[name], rows, left) for name in known}
    stars = sum(round(found.get("starred", 0.0) * rows) for found in fates.values())
    tables, names = {"before": before, "after": after}, {"before": known, "after": known}
    losses = {
        name: losses_of(before[name], both[name], told[name], left, levels is not None)
        for name in known
    }
    lost = {name: float(loss.sum() / rows) for name, loss in losses.items()}
    ncp = float(np.mean(list(lost.values())))
    risks = {
        who: (1 / sizes(before, known).min(), 1 / sizes(after, known).min())
        for who in ("prosecutor", "journalist")
    }
    risks["marketer"] = (classes(before, known) / rows, classes(after, known) / len(after))
    smallest = f"{sizes(after, known).min():,}"
    expected: Said = {
        "fact: rows published": [f"{len(after):,}"],
        "fact: rows left out": [f"{left:,}"],
        "fact: cells starred": [f"{stars:,}"],
        "fact: smallest class (k)": [smallest],
        "fact: precision lost": [part(ncp)],
        "What it protects 0": [
            f"{alone(before, known):,}", f"{rows:,}", f"{alone(after, known):,}", f"{len(after):,}"
        ],
        "caption: How many rows look alike": [
            f"{k}", f"{below(before, known, k):,}", f"{below(after, known, k):,}"
        ],
        "chart: How many rows look alike": size_chart(tables, names, k),
        "caption: How exposed rows are": ["20%"],
        "chart: How exposed rows are": risk_curve(tables, names),
        "chart: What happened to each column": chart(
            {"column": name, "cells": what, "share": share}
            for name, found in fates.items()
            for what, share in found.items()
            if share
        ),
        "caption: Precision lost by column": ["0%", "100%"],
        "chart: Precision lost by column": bars(lost),
    }  # fmt: skip
    expected |= record(after, known, k, shown)
    gone = [f"{left:,}", f"{rows:,}"] if left else []
    expected |= {
        "light: Who can be found": [smallest, part(1 / sizes(after, known).min())],
        "light: What can be inferred about them": inferred(after, known, sensitive),
        "light: What it cost": [part(ncp), *gone],
    }
    expected = {place: figures for place, figures in expected.items() if figures}
    expected |= {f"gauge: {who}": [part(a), part(b)] for who, (a, b) in risks.items()}
    expected |= utilities(before, after, both, known, losses, ncp)
    expected |= actions(fates, rows, left)
    if levels is not None:
        expected |= climbed(before, both, after, left, levels)
    for name in known:
        if f"chart: {name}" in shown:
            expected |= shapes(before, both, told, name, shown)
    return expected


def climbed(
    before: Frame, both: Frame, after: Frame, left: int, levels: Mapping[str, float]
) -> Said:
    """What is counted by trees: a missing cell is no value of one, and stays or is starred."""
    lifted = lost = float(left * len(levels))
    for name, share in levels.items():
        values = set(written(before[name])) - {""}
        inside = members_of(before[name], both[name], after[name])
        for label in written(after[name]):
            if label == "":
                continue  # as it was
            lifted += 1.0 if label == "*" else share
            below = len(inside[label] - {""})
            lost += 1.0 if label == "*" else (below - 1) / max(1, len(values) - 1)
    kept = 1 - lost / (len(before) * len(levels))
    return {
        "measure: information loss": [f"{lifted:,.4g}"],
        "measure: granularity": [f"{kept:,.4g}", "1", "0"],
    }


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


def record(after: Frame, known: Sequence[str], k: int, shown: Said) -> Said:
    """What was promised and what was not, and where the release lies."""
    smallest = str(sizes(after, known).min())
    found: Said = {
        "verdict": [smallest, f"{k}"],
        "subtitle": [f"{k}", *shown["subtitle"][1:]],  # what else was asked for
        "check: anonymity": [smallest, f"{k}"],
        "certificate: output": [f"{len(after):,}"],
        "certificate: seed": ["0"],
    }
    place = "certificate: no release that only stars cells costs less than"
    if place in shown:  # a proof, which no count can repeat: it must not be above what was paid
        found[place] = shown[place]
        assert float(shown[place][0].replace(",", "")) <= float(
            shown["fact: cells starred"][0].replace(",", "")
        )
    others = [name for name in after.columns if name not in known and name != "row"]
    more = [alone(after, [*known, *extra]) for n in (1, 2) for extra in combinations(others, n)]
    told = [[f"{n:,}", f"{len(after):,}", part(n / len(after))] for n in more]
    for place in [place for place in shown if place.startswith(("beside", "For the record"))]:
        found[place] = shown[place] if shown[place] in told else told
    return found


def fate(was: pd.Series[Any], now: pd.Series[Any], rows: int, left: int) -> dict[str, float]:
    """Shares of cells by what became of them, cell by cell."""
    found: Counter[str] = Counter({"left out": left})
    for one, other in zip(written(was), written(now), strict=True):
        kind = "as it was" if one == other else "starred" if other in ("*", "") else "blurred"
        found[kind] += 1
    return {kind: n / rows for kind, n in found.items()}


def starred(after: Frame, name: str) -> pd.Series[Any]:
    """A column as its reader sees it: where nulls are stars, another column says so."""
    marked = f"{name}__suppressed"
    if marked not in after:
        return after[name]
    return after[name].astype(object).where(~after[marked].astype(bool), "*")


def written(column: pd.Series[Any]) -> list[str]:
    """Cells as a file has them; a missing one is empty."""
    return ["" if pd.isna(cell) else str(cell) for cell in column]


def actions(fates: Mapping[str, Mapping[str, float]], rows: int, left: int) -> Said:
    """What the record says happened to each column, as shares of the released rows."""
    found = {}
    for name, shares in fates.items():
        told = [shares[kind] * rows / (rows - left) for kind in ("blurred", "starred")
                if shares.get(kind)]  # fmt: skip
        if told:
            found[f"column: {name}"] = [part(s).removeprefix("<").removeprefix(">") for s in told]
    return found


def ends(label: str) -> tuple[float, float] | None:
    """Both ends of a number or range, the right one included; dates are numbered by days."""
    inner = re.fullmatch(r"([\[(])(.+), (.+)([\])])", label)
    if inner is None:
        found = value_of(label)
        return None if found is None else (found, found)
    low, high = value_of(inner[2]), value_of(inner[3])
    assert low is not None
    assert high is not None
    return low, high


def value_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return float(np.datetime64(text).astype(int))
        return None


def members_of(
    before: pd.Series[Any], both: pd.Series[Any], after: pd.Series[Any]
) -> dict[str, set[str]]:
    """The values that each label stands for: those inside a range, else of rows that show it."""
    found: dict[str, set[str]] = {}
    for one, other in zip(written(both), written(after), strict=True):
        found.setdefault(other, set()).add(one)
    values = {text: value_of(text) for text in set(written(before))}
    for label in found:
        if label.startswith("[") and is_ordered(before):
            low, high = ends(label) or (0.0, 0.0)
            found[label] |= {
                text
                for text, v in values.items()
                if v is not None and low <= v and (v < high or (v == high and label[-1] == "]"))
            }
    return found


def losses_of(
    before: pd.Series[Any], both: pd.Series[Any], after: pd.Series[Any], left: int, trees: bool
) -> np.ndarray[Any, Any]:
    """Certainty penalty of every cell; those of rows that were left out are lost altogether."""
    distinct = set(written(before))
    points = [v for v in map(value_of, distinct) if v is not None]
    ranges = is_ordered(before) and not trees
    inside = members_of(before, both, after)
    found = {}
    for label, covered in inside.items():
        if label == "*" or (label == "" and covered != {""}):
            found[label] = 1.0
        elif len(covered) > 1 and ranges and "" not in covered:
            values = [v for v in map(value_of, covered) if v is not None]
            found[label] = (max(values) - min(values)) / (max(points) - min(points))
        else:
            found[label] = (len(covered) - 1) / max(1, len(distinct) - 1)
    return np.array([*(found[label] for label in written(after)), *[1.0] * left])


def is_ordered(column: pd.Series[Any]) -> bool:
    """Whether cells are blurred into ranges: numbers and dates are."""
    cells = column.dropna()
    return not isinstance(cells.iloc[0], str)


def utilities(
    before: Frame,
    after: Frame,
    both: Frame,
    known: Sequence[str],
    losses: Mapping[str, np.ndarray[Any, Any]],
    ncp: float,
) -> Said:
    rows, left = len(before), len(before) - len(after)
    squares = int(sizes(after, known).sum()) + left * rows
    weighted = sum(int(sizes(after, [name]).sum()) + left * rows for name in known)
    bits = possible = 0.0
    for name in known:
        held = Counter(written(before[name]))
        inside = members_of(before[name], both[name], after[name])
        for one, other in zip(written(both[name]), written(after[name]), strict=True):
            below = rows if other == "*" else sum(held[value] for value in inside[other])
            bits += math.log2(below / held[one])
        gone = Counter(written(before[name])) - Counter(written(both[name]))
        bits += sum(n * math.log2(rows / held[value]) for value, n in gone.items())
        possible += sum(n * math.log2(rows / n) for n in held.values())
    figures = {
        "normalized certainty penalty": (ncp, ["0", "1", "0"]),
        "information loss": (float(sum(loss.sum() for loss in losses.values())), []),
        "granularity": (1 - ncp, ["1", "0"]),
        "non-uniform entropy": (bits / possible, ["0", "1"]),
        "discernibility": (squares, []),
        "weighted discernibility, by label": (float(weighted), []),
        "average class size": (len(after) / classes(after, known), []),
    }
    return {
        f"measure: {name}": [
            f"{value:,.0f}" if isinstance(value, int) or value >= 1e4 else f"{value:,.4g}", *words
        ]
        for name, (value, words) in figures.items()
    }  # fmt: skip


def shapes(before: Frame, both: Frame, after: Frame, name: str, shown: Said) -> Said:
    """The distribution of a column before and after."""
    rows = [dict(row) for row in shown[f"chart: {name}"]]
    if any("value" in row for row in rows):
        return bar_shapes(before[name], both[name], after[name], name)
    bins = sorted({(row["from"], row["to"]) for row in rows if "from" in row})
    return bin_shapes(before[name], both[name], after[name], name, bins)


def bar_shapes(
    before: pd.Series[Any], both: pd.Series[Any], after: pd.Series[Any], name: str
) -> Said:
    held = Counter(text or "missing" for text in written(before))
    inside = members_of(before, both, after)
    now: Counter[str] = Counter()
    for was, label in zip(written(both), written(after), strict=True):
        covered = inside[label] if label not in ("*", "") else [""] * (was == label)
        for value in covered:
            now[value or "missing"] += 1 / len(covered)  # type: ignore[assignment]
    first, then = sum(held.values()), sum(now.values()) or math.inf
    common = sorted((v for v in held if held[v] >= RARE), key=lambda v: (-held[v], v))[:12]
    moved = sum(abs(held[v] / first - now[v] / then) for v in held) / 2
    hidden = len(held) - len(common)
    rows = [
        {"value": v, "table": when, "share": share}
        for v in common
        for when, share in (
            ("before", held[v] / first), ("after", now[v] / then)
        )
    ]  # fmt: skip
    told = [f"{hidden:,}"] * bool(hidden) + [part(moved)] * bool(now)
    return {f"chart: {name}": chart(rows)} | ({f"caption: {name}": told} if told else {})


def bin_shapes(
    before: pd.Series[Any],
    both: pd.Series[Any],
    after: pd.Series[Any],
    name: str,
    bins: Sequence[tuple[float, float]],
) -> Said:
    values = [value for text in written(before) if (value := value_of(text)) is not None]
    whole = all(value == int(value) for value in values)
    was, now = np.zeros(len(bins)), np.zeros(len(bins))
    for value in values:
        was[bin_of(value, bins)] += 1
    inside = members_of(before, both, after)
    for label in written(after):
        found = ends(label)
        if found is None:
            covered = [v for v in inside[label] if v] if label not in ("*", "") else []
            for value in covered:
                now[bin_of(float(value), bins)] += 1 / len(covered)
        else:
            now += share_of(*found, label.endswith("]") or found[0] == found[1], bins, whole)
    assert all(not n or n >= RARE for n in was)
    rows: list[dict[str, Any]] = []
    for at, (low, high) in enumerate(bins):
        rows.append({"from": low, "to": high, "share": was[at] / was.sum(), "table": "before"})
        share = now[at] / max(now.sum(), 1e-300)
        rows += [{"at": edge, "share": share, "table": "after"} for edge in (low, high)]
    assert math.isclose(was.sum(), len(values))
    moved = np.abs(was / was.sum() - now / max(now.sum(), 1e-300)).sum() / 2
    told = [part(float(moved))] if now.sum() else []
    return {f"chart: {name}": chart(rows)} | ({f"caption: {name}": told} if told else {})


def bin_of(value: float, bins: Sequence[tuple[float, float]]) -> int:
    """The bin of a value; what lies beyond is counted in the outermost ones."""
    inner = [at for at, (low, _) in enumerate(bins) if value >= low]
    return inner[-1] if inner else 0


def share_of(
    low: float, high: float, closed: bool, bins: Sequence[tuple[float, float]], whole: bool
) -> np.ndarray[Any, Any]:
    """Parts of a cell in each bin: evenly over its whole numbers, or over its length."""
    found = np.zeros(len(bins))
    if whole:
        inside = [v for v in range(int(low), int(high) + 1) if low <= v and (v < high or closed)]
        for value in inside:
            found[bin_of(value, bins)] += 1 / len(inside)
    elif low == high:
        found[bin_of(low, bins)] = 1.0
    else:
        for at, (start, end) in enumerate(bins):
            start = low if at == 0 else start
            end = high if at == len(bins) - 1 else end
            found[at] = max(0.0, min(high, end) - max(low, start)) / (high - low)
    return found


# Releases that promise no k


def plainly(before: Frame, after: Frame, known: Sequence[str]) -> Said:
    """What every page of a release says, whatever was promised: who is found before and after."""
    rows, kept = len(before), [name for name in known if name in after.columns]
    tables, names = {"before": before, "after": after}, {"before": known, "after": kept}
    fates = {
        name: fate(before[name], after[name], rows, 0) if name in kept else {"left out": 1.0}
        for name in known
    }
    loose = alone(after, kept)
    dropped = len(before.columns) - len(after.columns)
    least = {side: 1 / sizes(table, names[side]).min() for side, table in tables.items()}
    many = {side: classes(table, names[side]) / rows for side, table in tables.items()}
    return {
        "fact: rows published": [f"{len(after):,}"],
        "light: Who can be found": [f"{loose:,}", f"{rows:,}"],
        "light: What it cost": [f"{dropped}", f"{len(before.columns)}"],
        "fact: rows left out": ["0"],
        "fact: cells starred": ["0"],
        "gauge: prosecutor": [part(least["before"]), part(least["after"])],
        "gauge: journalist": [part(least["before"]), part(least["after"])],
        "gauge: marketer": [part(many["before"]), part(many["after"])],
        "What it protects 0": [
            f"{alone(before, known):,}", f"{rows:,}", *[str(len(known) - 6)] * (len(known) > 6),
            f"{alone(after, kept):,}", f"{rows:,}"
        ],
        "caption: How many rows look alike": [
            "5", f"{below(before, known, 5):,}", f"{below(after, kept, 5):,}"
        ],
        "chart: How many rows look alike": size_chart(tables, names, 5),
        "caption: How exposed rows are": ["20%"],
        "chart: How exposed rows are": risk_curve(tables, names),
        "chart: What happened to each column": chart(
            {"column": name, "cells": what, "share": share}
            for name, found in fates.items()
            for what, share in found.items()
            if share
        ),
        "certificate: output": [f"{rows:,}"],
        "certificate: seed": ["0"],
    }  # fmt: skip


def everybody(folder: Path) -> Frame:
    write_people(folder / "people.csv", rows=800, seed=3)
    return pd.read_csv(folder / "people.csv", dtype=str)


def test_the_page_of_a_mask(tmp_path: Path) -> None:
    before, output = everybody(tmp_path), tmp_path / "out.csv"
    made = sf.mask(str(tmp_path / "people.csv"), measure="distinct", beta=0.5, output=str(output))
    after = pd.read_csv(output, dtype=str)
    found = said(page_of(made), list(before.columns))
    assert page_of(made).tone != "good", "some rows stand alone"
    ratio, kept = classes(after, list(after.columns)) / len(after), len(after.columns)
    told = [f"{kept}", f"{ratio:g}", "0.5"]
    expected = plainly(before, after, list(before.columns)) | {
        "verdict": [*told, str(len(before.columns) - kept - 6)],  # six are named
        "subtitle": ["0.5"],
        "fact: smallest class (k)": [str(sizes(after, list(after.columns)).min())],
        "check: ratio-at-most": told,
        "measure: published columns": [f"{kept}"],
        "measure: weight": [f"{kept}"],
    }
    assert differences(found, expected) == {}


def test_the_page_of_safe_harbor(tmp_path: Path) -> None:
    before, output = everybody(tmp_path), tmp_path / "out.csv"
    made = sf.safe_harbor(
        str(tmp_path / "people.csv"), as_of=dt.date(2024, 1, 1), drop=["doctor", "note"],
        output=str(output)
    )  # fmt: skip
    after = pd.read_csv(output, dtype=str)
    found = said(page_of(made), list(before.columns))
    assert page_of(made).tone != "good", "nearly everybody stands alone"
    held = {
        "birth_date": [year if year > "1934" else "1934-" for year in before["birth_date"].str[:4]],
        "zip": before["zip"].str[:3],
    }
    for name in ("admission_date", "discharge_date"):
        held[name] = before[name].str[:4]
    for name, cells in held.items():
        assert len(set(zip(cells, after[name], strict=True))) == len(set(cells)), name
    same = [sum(map(str.__eq__, written(before[n]), written(after[n]))) / len(before) for n in held]
    assert max(same) < 1
    lost_in = [f"{n}" for n in (same.count(0), len(same) - same.count(0)) if n]
    gone = len(before.columns) - len(after.columns)
    expected = plainly(before, after, list(after.columns)) | {
        "verdict": [f"{gone - 6}", f"{len(held)}", "0"],
        "fact: smallest class (k)": [str(sizes(after, list(after.columns)).min())],
        "light: What it cost": [*lost_in, f"{gone}", f"{len(before.columns)}"],
        "check: safe-harbor-forms": [f"{len(held)}", "0"],
        "column: birth_date": ["90", "1934"],
        "column: zip": ["000"],
        **bar_shapes(before["zip"], before["zip"], after["zip"], "zip"),
    }
    assert differences(found, expected) == {}


def test_detail_is_lost_where_cells_changed(tmp_path: Path) -> None:
    """Ages up to 89 stay as they are under Safe Harbor, in this table in most rows."""
    draw = np.random.default_rng(8)
    frame = pd.DataFrame({
        "zip": draw.choice(["10001", "60601", "94105"], 200),
        "age": np.where(np.arange(200) % 10, draw.integers(20, 80, 200), 93),
        "second_age": draw.integers(20, 80, 200),
        "ill": draw.choice(["flu", "ok"], 200),
    })  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    made = sf.safe_harbor(source, as_of=dt.date(2024, 1, 1), output=output)
    after = pd.read_csv(output, dtype=str)
    changed = (frame.astype(str)[after.columns] != after).sum()
    every, some = (changed == 200).sum(), ((changed > 0) & (changed < 200)).sum()
    assert (every, some) == (1, 1)
    said_of = f"detail of {every} column in every row and the detail of {some} column in some rows"
    assert said_of in light_of(page_of(made), "What it cost")[1]


@pytest.mark.parametrize("moving", [False, True])
def test_a_population_counts_whom_it_says(moving: bool, tmp_path: Path) -> None:
    """Persons with several rows are counted once, or once with each combination of values."""
    frame = visits(tmp_path)
    if moving:
        frame["age"] += frame.index % 2
        frame.to_csv(tmp_path / "in.csv", index=False)
    found = sf.population(str(tmp_path / "in.csv"), universe=1000, qi=["age", "sex"], person="pid",
                          k=5, bootstrap=0)  # fmt: skip
    whose = frame[["pid", "age", "sex"]].drop_duplicates()
    single = part(alone(whose, ["age", "sex"]) / len(whose))
    page = page_of(found)
    who = "different rows of persons" if moving else "persons"
    assert (len(whose) > frame["pid"].nunique()) == moving
    assert dict(page.facts)[f"{who} alone in the table"] == single
    assert page.subtitle.startswith(f"{len(whose)} {who} of 1,000 people")
    captions = [one.caption for section in page.sections for one in section.figures]
    assert any(one.startswith(f"{who.capitalize()} alone in the sample") for one in captions)


def test_the_sheet_of_a_certificate(tmp_path: Path) -> None:
    """All numbers of the sheet, by the released file; it is one page, and fits on it."""
    before, known, _ = demo(tmp_path)
    before.to_csv(tmp_path / "in.csv", index=False)
    output = tmp_path / "out.csv"
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, l=2, qi=known, sensitive=["diagnosis"],
                        method="cells", output=str(output))  # fmt: skip
    assert made.certificate is not None
    svg = certificate_svg(made.certificate)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    after = pd.read_csv(output, dtype=str)
    alike, rows = sizes(after, known), len(before)
    fates = [fate(before[name], after[name], rows, 0) for name in known]
    stars = sum(round(found.get("starred", 0) * rows) for found in fates)
    diverse = after.groupby(known, dropna=False)["diagnosis"].nunique().min()
    figures = {
        "rows published": f"{len(after):,}", "rows left out": f"{len(before) - len(after):,}",
        "cells starred": f"{stars:,}", "smallest class (k)": f"{alike.min():,}",
        "classes": f"{classes(after, known):,}", "highest risk": part(1 / alike.min()),
    }  # fmt: skip
    for name, value in figures.items():
        assert texts[texts.index(name) + 1] == value
    rest = numbers(" ".join(texts[texts.index("highest risk") + 2 :]), list(before.columns))
    assert rest == ["5", str(alike.min()), "2", str(diverse), "5", "2"]
    assert texts[-1] == sf.table(str(output)).fingerprint()
    places = [float(y) for y in re.findall(r'<text x="[^"]*" y="([^"]*)"', svg)]
    assert max(places) < 842 - 40
    pdf = certificate_pdf(made.certificate)
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1


def visits(tmp_path: Path) -> Frame:
    """Persons with several rows, in `in.csv`."""
    draw = np.random.default_rng(3)
    who = draw.integers(0, 120, 500)
    age, sex = draw.integers(20, 70, 120), draw.choice(["F", "M"], 120)
    frame = pd.DataFrame({"pid": who, "age": age[who], "sex": sex[who],
                          "ill": draw.choice(["flu", "cold", "ok"], 500)})  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    return frame


def test_the_sheet_of_persons(tmp_path: Path) -> None:
    """Where persons were counted the sheet says what was promised of them, and calls rows rows."""
    frame, output, known = visits(tmp_path), tmp_path / "out.csv", ["age", "sex"]
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, l=2, qi=known, sensitive=["ill"],
                        identifiers=["pid"], person="pid", output=str(output))  # fmt: skip
    after = pd.read_csv(output, dtype=str)
    rows = sizes(after, known).min()
    assert made.certificate is not None
    assert made.k is not None
    assert 5 <= made.k < rows < len(frame)
    svg = certificate_svg(made.certificate)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    figures = {"smallest class (k)": "≥ 5 persons", "rows of the smallest class": f"{rows:,}",
               "classes": f"{classes(after, known):,}", "highest risk": "≤ 20%"}  # fmt: skip
    assert {name: texts[texts.index(name) + 1] for name in figures} == figures
    whole = " ".join(texts)
    assert "see the certificate" not in whole
    assert "k-anonymity, for whoever knows age and sex: k = 5 asked, counting persons" in whole
    assert "l-diversity of ill, for whoever knows age and sex: l = 2 asked" in whole
    again = certified_release(output, sf.table(str(tmp_path / "in.csv")))
    page = release_page(again)
    assert dict(page.facts)["smallest class (k)"] == "≥ 5 persons"
    assert page.gauges == ()
    fresh = release_page(made)
    assert dict(fresh.facts)["smallest class (k)"] == f"{made.k:,} persons"


def write_key(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(hashlib.sha256(b"a key").hexdigest())
    (tmp_path / "key").chmod(0o600)
    return str(tmp_path / "key")


@pytest.mark.parametrize("verb", ["mask", "anonymize"])
def test_the_sheet_of_persons_counted_beside_the_rows(verb: str, tmp_path: Path) -> None:
    """Of a mask, and of pseudonyms that are not those of persons, it says what was counted."""
    visits(tmp_path).assign(home=lambda frame: frame["pid"] // 3).to_csv(
        tmp_path / "in.csv", index=False
    )
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    if verb == "mask":
        made = sf.mask(source, measure="separation", beta=0.9, person="pid", must_drop=["home"],
                       output=output)  # fmt: skip
    else:
        made = sf.anonymize(source, k=5, qi=["age", "sex"], person="pid", pseudonyms=["home"],
                            key_file=write_key(tmp_path), output=output)  # fmt: skip
    assert made.certificate is not None
    svg = certificate_svg(made.certificate)
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    whole, after = " ".join(texts), pd.read_csv(output, dtype=str)
    known = [*after.columns] if verb == "mask" else ["age", "sex"]
    rows = sizes(after, known).min()
    figures = {"rows of the smallest class": f"{rows:,}"}
    if verb == "mask":
        figures["highest risk if each row is a person"] = limit(1 / rows)
        assert "asked, counting pairs of different persons by pid; measured when it was" in whole
        assert "smallest class (k)" not in texts
    else:
        figures["highest risk by one row"] = "≤ 20%"
        assert "replaced by pseudonyms: home" in whole
        assert "recoded: age" in whole
        assert "Pseudonyms of home may say which rows belong together" in whole
        assert "Rows were counted" not in whole
        read = certified_release(output, sf.table(source))
        assert read.column_actions["home"] == "replaced by pseudonyms"
    assert {name: texts[texts.index(name) + 1] for name in figures} == figures
    assert "measures again what the released file shows" in whole


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


@pytest.mark.parametrize(
    ("person", "sets"),
    [("pid", ()), ("", (("age",), ("sex", "ward"))), ("pid", (("age",), ("sex", "ward")))],
)
def test_the_workbench_counts_whom_it_says(
    person: str, sets: tuple[tuple[str, ...], ...], tmp_path: Path
) -> None:
    """Before a release: persons where they were chosen, of several sets the one that finds."""
    frame = visits(tmp_path)
    frame["age"], frame["ward"] = frame["age"] // 9, frame["pid"] % 19 * (frame["pid"] % 4 < 1)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {**ROLES, "ward": "quasi-identifier"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person=person, sets=sets, k=5)
    known = sets or (("age", "sex", "ward"),)
    alike = smallest(frame, known, person or None)
    alone, few, all_ = alike.count(1), sum(size < 5 for size in alike), len(alike)
    who = "persons" if person else "rows"
    assert 0 < alone < few < all_
    page = risk(project, project.choices)
    share = part(few / all_)
    assert f"{few:,} of {all_:,} {who} ({share}) have fewer than 4 others" in page.verdict
    facts = dict(page.facts)
    assert [facts[n] for n in ("stand alone", "fewer than 5 alike", "smallest class (k)")] == [
        f"{alone:,}", f"{few:,}", f"{min(alike):,}"]  # fmt: skip
    assert ("classes" in facts) == (not sets)
    columns = list(frame.columns)
    figures = said(page, columns)
    assert figures["gauge: average risk"] == [part(sum(1 / size for size in alike) / all_)]
    assert figures[f"gauge: {who} below 5 alike"] == ["5", share]
    drawn_rows: dict[str, float] = {}
    for row in figures[f"chart: How many {who} look alike"]:
        told = dict(row)
        if "rows" in told:
            drawn_rows[told["alike"]] = told["rows"]
    for label, count in drawn_rows.items():
        low, _, high = label.partition("–")
        first = int(low.rstrip("+").replace(",", ""))
        last = math.inf if low.endswith("+") else int((high or low).replace(",", ""))
        assert count == sum(first <= size <= last for size in alike)
    assert f"{alone:,} of {all_:,} {who}" in meter(project, project.choices)[0]
    project.explore(project.choices, Budget())
    if person:
        first_look = explore(project, project.choices)
        assert f"of {frame['pid'].nunique():,} persons" in first_look.verdict
        assert "of the rows stand alone" not in page_html(first_look)
    project.release(Budget())
    assert project.made is not None
    after = pd.read_csv(project.folder / "release.csv", dtype=str)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", project.made.shown))
    rows, then = smallest(frame, known), smallest(after, known)
    words = f"Below 5 alike: {sum(s < 5 for s in rows):,} rows before, {sum(s < 5 for s in then):,}"
    assert words in shown
    assert f"Before, {rows.count(1):,} of {len(rows):,} rows stood alone" in shown
    if person:
        assert f"and {few:,} of {all_:,} persons had a row that fewer than 5 persons" in shown
        assert "How many rows look alike" in shown
        assert "How many persons look alike" not in shown
    else:
        worst = max(classes(frame, names) / len(frame) for names in known)
        label = f"marketer: {part(worst)} before"
        assert label in html.unescape(project.made.shown)
    project.close()


def test_values_that_nearly_all_share_are_said_unasked(tmp_path: Path) -> None:
    """Nobody is safe where 98 % of every class hold one value, also if l was not asked for."""
    draw = np.random.default_rng(5)
    frame = pd.DataFrame({"age": draw.integers(20, 24, 800), "sex": draw.choice(["F", "M"], 800),
                          "ill": np.where(np.arange(800) % 50 < 1, "yes", "no")})  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["age", "sex"], rows_are_people=True,
                        output=str(tmp_path / "out.csv"))  # fmt: skip
    after = pd.read_csv(tmp_path / "out.csv", dtype=str)
    for sensitive in (["ill"], ["ill", "sex"]):
        page = release_page(made, sensitive=sensitive)
        light = page.lights[1]
        assert light.tone == "warn"
        assert numbers(light.answer, ["ill"]) == inferred(after, ["age", "sex"], ["ill"])
        assert "nearly surely" in light.answer
        assert page.tone != "good"


@pytest.mark.parametrize("times", [[4] * 20, [*range(1, 6)] * 8, [1, 1, 1, 2] * 10, [1] * 40])
def test_pseudonyms_that_repeat_are_counted_as_persons(times: list[int], tmp_path: Path) -> None:
    """A reader sees which rows are one person's: by one row of theirs, and by all together."""
    who = [f"p{person}" for person, rows in enumerate(times) for _ in range(rows)]
    ages = [20 + 10 * (at // 8) for at in range(len(who))]
    frame = pd.DataFrame({"who": who, "age": ages, "ill": ["a", "b"] * (len(who) // 2)})
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    made = sf.anonymize(source, k=5, qi=["age"], pseudonyms=["who"], sensitive=["ill"],
                        key_file=write_key(tmp_path), output=output)  # fmt: skip
    after = pd.read_csv(output)
    least = after.groupby("age")["who"].nunique().min()
    rows = after.groupby("age").size().min()
    held = Counter(tuple(sorted(own)) for _, own in after.groupby("who")["age"])
    lonely, persons = sum(n == 1 for n in held.values()), after["who"].nunique()
    told = [one for one in made.warnings if "pseudonyms of" in one]
    saved = certified_release(output, sf.table(source))
    assert made.certificate is not None
    sheet = html.unescape(certificate_svg(made.certificate))
    assert "highest risk if each row is a person" in sheet
    for page in (release_page(made), release_page(saved, sf.table(source))):
        tone, answer = light_of(page, "Who can be found")
        if persons == len(after):
            assert (tone, told, len(page.gauges)) == ("good", [], 3)
            continue
        alone_ones = [f"{lonely}", f"{persons}", part(lonely / persons)] * bool(lonely)
        assert numbers(answer, []) == [*alone_ones, f"{least}", part(1 / least)]
        assert numbers(told[0], []) == [*alone_ones, f"{least}"]
        assert tone == ("bad" if lonely else "warn" if least < 5 else "good")
        assert page.tone == ("good" if tone == "good" else "warn")
        fact = dict(page.facts)["smallest class (k)"]
        assert numbers(fact, []) == [f"{rows}", f"{least}"]
        assert not page.gauges  # which count rows
        assert "The gauges show" not in page_html(page)


def light_of(page: Page, question: str) -> tuple[str | None, str]:
    """The tone and the answer of one light."""
    return next((one.tone, one.answer) for one in page.lights if one.question == question)


@pytest.mark.parametrize(
    ("ills", "tone"),
    [
        ({"c": "hhhhhfffff", "d": "hhhhhhhh--", "e": "hhhhhhhh---"}, "bad"),
        ({"a": "hhhhhhhhh-", "b": "----------", "c": "hhhhhfffff", "d": "ffffffff--"}, "bad"),
        ({"a": "hhhhhfffff", "b": "----------"}, "good"),
        ({"a": "----------", "b": "----------"}, "good"),
        ({"a": "hhhhhfff--", "b": "hf--------"}, "good"),
        ({"a": "hhhhhhhhhhhhhhhhhhf-----", "b": "hf--------"}, "warn"),
    ],
)
def test_a_missing_value_protects_nobody(
    ills: Mapping[str, str], tone: str, tmp_path: Path
) -> None:
    """Neither in the light nor in what is said beside a promise, in both directions."""
    rows = [(grp, ill) for grp, all_ills in ills.items() for ill in all_ills]
    frame = pd.DataFrame(rows, columns=["grp", "ill"]).replace("-", None)
    frame.to_csv(tmp_path / "in.csv", index=False)
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["grp"], sensitive=["ill"],
                        output=str(tmp_path / "out.csv"))  # fmt: skip
    after = pd.read_csv(tmp_path / "out.csv", dtype=str)
    found, answer = light_of(page_of(made), "What can be inferred about them")
    assert found == tone
    assert numbers(answer, ["grp"]) == inferred(after, ["grp"], ["ill"])
    assert (found == "good") == ("Nobody’s" in answer)
    assert ("missing in every row" in answer) == after["ill"].isna().all()
    shares = after.dropna().groupby("grp")["ill"].agg(lambda own: own.value_counts(True).max())
    told = [one for one in made.warnings if "hold" in one]
    assert bool(told) == bool((shares >= 0.9).any())
    for one in told:
        high = shares[shares >= 0.9]
        held = int(after["grp"].isin(high.index).sum())
        counts = [f"{len(high)}", f"{after['grp'].nunique()}", f"{held}", "90%"]
        assert numbers(one, [])[:4] == counts


@pytest.mark.parametrize("diverse", [None, 1])
@pytest.mark.parametrize("ills", ["hf hf hh", "hf fg gh", "h- hf h-", "hh hh hh"])
def test_what_every_person_of_a_class_has_is_said(
    ills: str, diverse: int | None, tmp_path: Path
) -> None:
    """Also where rows differ: in the first table everybody of a class has h, in some row."""
    rows = [
        (f"p{grp}{at}", grp, ill)
        for grp, several in (("a", ills.split()), ("b", ["hf", "fg", "gh"]))
        for at in range(9)
        for ill in several[at % 3]
    ]
    frame = pd.DataFrame(rows, columns=["who", "grp", "ill"]).replace("-", None)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "grp": "quasi-identifier", "ill": "sensitive"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="who", k=5, l=diverse)
    project.release(Budget())
    after = pd.read_csv(project.folder / "release.csv")
    assert set(after["grp"]) == {"a", "b"}
    held = 0
    for _, own in frame.dropna().groupby("grp"):
        most = own.groupby("ill")["who"].nunique().max()
        if most == own["who"].nunique() and own["ill"].nunique() > 1:
            held += own["who"].nunique()
    assert held == {"hf hf hh": 9, "hf fg gh": 0, "h- hf h-": 9, "hh hh hh": 0}[ills]
    words = f"{held} of 18 persons ({part(held / 18)}) are in classes in which everybody"
    for _ in range(2):  # as it was made, and from what was kept of it
        assert project.made is not None
        shown = html.unescape(re.sub(r"<[^>]+>", "", project.made.shown))
        assert ("in which everybody" in shown) == bool(held)
        # The light; and what is not promised, where the column was named in the request.
        assert (words in shown, shown.count(words) > 1) == (bool(held), bool(held and diverse))
        assert ("Nobody’s ill for certain" in shown) == (ills == "hf fg gh")
        project._at_hand.clear()
        project.reopen("release", Budget())
    project.close()


def have_in_common(
    frame: Frame, known: Sequence[str], hidden: str, *, together: bool = False
) -> tuple[int, int]:
    """Those in classes of which all, or nearly all, have one value in some row, by loops.

    A class is formed by those who have a row that looks alike; or all rows, where these are known
    `together`. Classes that hold one value only are told by their rows, unless they are.
    """
    cells = list(frame[list(known)].astype(str).itertuples(index=False, name=None))
    rows: dict[Any, list[Any]] = {}
    for who, cell in zip(frame["who"], cells, strict=True):
        rows.setdefault(who, []).append(cell)
    members: dict[Any, dict[Any, set[Any]]] = {}
    for who, cell, value in zip(frame["who"], cells, frame[hidden], strict=True):
        place = tuple(sorted(rows[who])) if together else cell
        if not pd.isna(value):
            members.setdefault(place, {}).setdefault(who, set()).add(value)
    by_all, nearly = set(), set()
    for persons in members.values():
        held = Counter(value for values in persons.values() for value in values)
        most = max(held.values())
        if len(held) > 1 or together:
            if most == len(persons):
                by_all |= set(persons)
            elif most >= 0.9 * len(persons):
                nearly |= set(persons)
    if not together and frame["who"].is_unique:
        return 0, 0
    return len(by_all), len(nearly)


def in_common(frame: Frame, known: Sequence[str], *, together: bool = False) -> list[str]:
    """The same as a page says it."""
    whole = frame["who"].nunique()
    both = have_in_common(frame, known, "ill", together=together)
    return [
        figure
        for held, more in zip(both, ([], ["90%"]), strict=True)
        if held
        for figure in [f"{held:,}", f"{whole:,}", part(held / whole), *more]
    ]


def ill_persons(ills: Mapping[str, str]) -> Frame:
    """Persons of groups; each has the illnesses of one word."""
    rows = [
        (f"p{grp}{at}", grp, ill)
        for grp, words in ills.items()
        for at, word in enumerate(words.split())
        for ill in word
    ]
    return pd.DataFrame(rows, columns=["who", "grp", "ill"]).replace("-", None)


def made_by(project: Project, verb: str, **given: Any) -> None:
    """A release on the workbench, by any verb."""
    if verb == "anonymize":
        return project.release(Budget())
    asked = {"mask": {"measure": "separation", "beta": 0.95, "must_publish": ()},
             "safe-harbor": {"keep": (), "drop": ("who",)}}[verb] | given  # fmt: skip
    around, how = Around(project, project.choices), VERBS[verb]
    project.release_by(
        lambda output: command_of(how, around, asked, output),
        lambda **more: how.run(around, asked, **more),
        Budget(),
    )
    return None


@pytest.mark.parametrize("verb", ["anonymize", "mask", "safe-harbor"])
@pytest.mark.parametrize(
    ("ills", "tone"),
    [
        ({"a": "hhf hgg " * 8, "b": "hhf ffg ggh " * 6}, "bad"),
        ({"a": "hff hgg " * 9 + "hh fg", "b": "hff fgg ghh " * 6}, "warn"),
        ({"a": "hhf ffg ggh " * 6, "b": "hhff fgg ggh " * 6}, "good"),
    ],
)
def test_a_release_counted_in_persons_by_any_verb(
    verb: str, ills: Mapping[str, str], tone: str, tmp_path: Path
) -> None:
    """Made, shown again, and shown again where nothing was kept of it but the files."""
    frame = ill_persons(ills)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "grp": "quasi-identifier", "ill": "sensitive"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="who", k=5)
    made_by(project, verb)
    assert [*pd.read_csv(project.folder / "release.csv").columns] == ["grp", "ill"]
    known = ["grp"] if verb == "anonymize" else ["grp", "ill"]
    each = smallest(frame, [known], "who")
    for kept in ("made", "kept", "forgotten"):
        if kept == "forgotten":
            (project.folder / "release.made.json").unlink()
        if kept != "made":
            project._at_hand.clear()
            project.reopen("release", Budget())
        made = project.made
        assert made is not None
        assert made.holds
        assert bool(made.unchecked) == (kept != "made" and verb != "safe-harbor")
        page = release_page(made.release, project.table, ["ill"], "who")
        found, answer = light_of(page, "What can be inferred about them")
        sure, least = light_of(page, "Who can be found")
        (version,) = project.versions()
        if kept == "forgotten" and verb == "anonymize":
            assert found == "warn"  # the release does not say whose rows they are
            assert "Rows were counted" in answer
            assert numbers(least, []) == ["5", "20%"]
            continue
        assert found == tone
        assert numbers(answer, []) == in_common(frame, ["grp"])
        assert numbers(least, []) == [f"{min(each)}", limit(1 / min(each))]
        assert " persons look alike" in least
        assert sure == "good"
        assert page.tone == ("good" if tone == "good" and not made.unchecked else "warn")
        assert dict(page.facts)["smallest class (k)"] == f"{min(each)} persons"
        if verb != "safe-harbor" and kept != "forgotten":
            assert made.release.k == min(each)
            assert dict(page.facts)["persons published"] == f"{len(each)}"
        gauges = [re.findall(r'aria-label="(.*?)"', one)[0] for one in page.gauges]
        risk, mean = limit(1 / min(each)), part(float(np.mean([1 / one for one in each])))
        assert [numbers(one, []) for one in gauges] == [[risk] * 2, [risk] * 2, [mean] * 2]
        words = next(one for one in page.sections if one.title == "What it protects").paragraphs
        low = sum(one < 5 for one in each)
        assert numbers(words[0], []) == [f"{each.count(1)}", f"{len(each)}", f"{low}",
                                         f"{len(each)}", "5"]  # fmt: skip
        assert f"with their {' and '.join(known)} in" in words[0]
        assert numbers(words[1], []) == [f"{min(each)}"]
        rows = f"{sizes(frame, known).min():,} rows" if verb == "mask" else "–"
        assert version.alike == (
            f"{min(each)} persons" if verb != "safe-harbor" and kept != "forgotten" else rows
        )
        assert project.certificate_pdf(version).startswith(b"%PDF")
    project.close()


def test_persons_who_have_a_row_of_their_own_are_counted_as_persons(tmp_path: Path) -> None:
    """By Safe Harbor, which asks nobody whose rows they are; also where it keeps that column."""
    frame = ill_persons({"a": "hf hg hi fg", "b": "hf fg gh " * 3})
    frame["who"] = frame["who"].replace("pb8", None)  # whose these are is not known
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "grp": "quasi-identifier", "ill": "sensitive"}
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="who", k=5)
    for keep in ((), ("who",)):
        made_by(project, "safe-harbor", keep=keep, drop=() if keep else ("who",))
        assert project.made is not None
        page = release_page(project.made.release, project.table, ["ill"], "who")
        each = smallest(frame, [[*keep, "grp", "ill"]], "who")
        tone, answer = light_of(page, "Who can be found")
        assert (tone, numbers(answer, [])) == ("bad", [f"{each.count(1)}", f"{len(each)}"])
        assert each.count(1) == (13 if keep else 1)
        assert dict(page.facts)["smallest class (k)"] == "1 person"
    project.close()


@pytest.mark.parametrize(("hidden", "person"), [("home", "who"), ("home", ""), ("who", "")])
def test_what_pseudonyms_of_anything_tell(hidden: str, person: str, tmp_path: Path) -> None:
    """Whose they are is not known: rows with equal ones belong together, and may be a person's."""
    draw = np.random.default_rng(3)
    frame = ill_persons({"a": "hf fg gh g " * 6, "b": "hf fh gh h " * 6})
    frame["age"] = draw.choice([20, 30, 40], len(frame))
    frame["home"] = [f"h{int(who[2:]) // 2}{who[1]}" for who in frame["who"]]
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {"who": "identifier", "home": "identifier", "grp": "quasi-identifier",
             "age": "quasi-identifier", "ill": "sensitive"}  # fmt: skip
    project = on_the_bench(
        tmp_path / "in.csv", roles=roles, person=person, pseudonyms=(hidden,), k=2
    )
    project.release(Budget())
    assert project.made is not None
    after = pd.read_csv(project.folder / "release.csv").assign(who=lambda one: one[hidden])
    expected = in_common(after, ["grp", "age"], together=True)
    assert expected
    for _ in range(2):
        page = release_page(project.made.release, project.table, ["ill"], person or None)
        tone, answer = light_of(page, "What can be inferred about them")
        told = [one for one in re.split(r"(?<=[a-z])\. ", answer) if "pseudonym" in one]
        assert tone == "bad"
        assert [figure for one in told for figure in numbers(one, [])] == expected
        shown = html.unescape(re.sub(r"<[^>]+>", "", project.made.shown))
        assert f"Rows with the same pseudonym of {hidden} belong together" in shown
        assert "one person" not in shown
        assert shown.count("The charts count") == 1
        assert dict(page.facts)["smallest class (k)"].endswith(" pseudonyms")
        project._at_hand.clear()
        project.reopen("release", Budget())
    project.close()


@pytest.mark.parametrize("m", [1, "all"])
def test_linked_histories_tell_what_all_who_share_them_have(m: int | str, tmp_path: Path) -> None:
    """Also where the release is read from its files, of which the certificate names the person."""
    draw = np.random.default_rng(3)
    frame = ill_persons({"a": "hf gh hg h " * 9, "b": "hf fg gh g " * 9})
    frame["age"] = np.where(frame["grp"] == "a", 20, draw.choice([20, 30], len(frame)))
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    made = sf.anonymize(source, k=3, qi=["grp", "age"], person="who", linkable=True, m=m,
                        key_file=write_key(tmp_path), output=output)  # fmt: skip
    after = pd.read_csv(output)
    expected = in_common(after, ["grp", "age"], together=m == "all")
    assert expected
    for release in (made, certified_release(output, sf.table(source))):
        page = release_page(release, sf.table(source), ["ill"])
        tone, answer = light_of(page, "What can be inferred about them")
        assert (tone != "good", numbers(answer, [])) == (True, expected)
        assert dict(page.facts)["smallest class (k)"] == f"{made.k} persons"
        words = next(one for one in page.sections if one.title == "What it protects").paragraphs
        assert "pseudonyms say which belong together" in words[-1]


@pytest.mark.parametrize("verb", ["mask", "safe-harbor"])
def test_rows_are_called_rows_where_persons_cannot_be_counted(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table whose rows are not at hand: what is not known of persons is never green."""
    frame = ill_persons({"a": "hhf ffg ggh " * 6, "b": "hhff fgg ggh " * 6})
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    if verb == "mask":
        sf.mask(source, measure="separation", beta=0.95, must_drop=["who"], output=output,
                rows_are_people=True)  # fmt: skip
    else:
        sf.safe_harbor(source, drop=["who"], as_of=dt.date(2024, 1, 1), output=output)
    monkeypatch.setattr("sfumato.report.pages.risk.at_hand", lambda rows: False)
    found = certified_release(output, sf.table(source))
    page = release_page(found, sf.table(source), ["ill"], "who")
    rows = sizes(frame, ["grp", "ill"]).min()
    tone, answer = light_of(page, "Who can be found")
    assert (tone, numbers(answer, [])) == ("warn", [f"{rows}"])
    assert answer.startswith(f"At least {rows} rows look alike. How many persons")
    assert light_of(page, "What can be inferred about them")[0] == "warn"
    assert (page.tone, page.gauges) == ("warn", ())
    assert dict(page.facts)["smallest class (k)"] == f"{rows} rows"
    assert "persons could have any row" not in page_html(page)


def test_what_a_safe_harbor_release_is_good_for(tmp_path: Path) -> None:
    """It names no quasi-identifiers: all columns are compared, by what their values became."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({
        "zip": draw.choice(["02138", "02139", "03601", "10001", "10002"], 200),
        "age": draw.choice([20, 40, 89, 90, 95, 101], 200),
        "birth_date": draw.choice(["1990-03-05", "1990-01-01", "1920-05-05", None], 200),
        "sex": draw.choice(["f", "m"], 200),
        "ill": draw.choice(["hiv", "flu", "ok"], 200),
    })  # fmt: skip
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    frame.to_csv(source, index=False)
    sf.safe_harbor(source, as_of=dt.date(2024, 1, 1), output=output)
    after = pd.read_csv(output, dtype=str)
    known = ["zip", "age", "birth_date", "sex"]
    cells = {name: losses_of(frame[name], frame[name], after[name], 0, True) for name in known}
    lost = {name: float(each.mean()) for name, each in cells.items()}
    assert min(lost[name] for name in known[:3]) > 0
    found = compare(output, source, target="ill")
    assert found.columns == pytest.approx(lost)
    assert found.accuracy is not None
    page = page_of(found)
    facts = dict(page.facts)
    assert facts["precision lost"] == part(sum(lost.values()) / 4)
    size = len(after) / classes(after, known)
    assert facts["average class size by these columns"] == f"{size:,.1f}"
    unlike = sum(
        len(own) - own.value_counts().max() for _, own in after.fillna("").groupby(known)["ill"]
    )
    assert facts["unlike the majority of their class"] == part(unlike / len(after))
    assert "A classifier predicts" in page.verdict
    (grid,) = next(one for one in page.sections if one.title == "Column by column").grids
    assert [row[:2] for row in grid.rows] == [(name, part(lost[name])) for name in known]
    nothing = page_of(compare(output, source, qi=["sex"], target="sex"))
    assert "Nothing was learned" in nothing.verdict


@pytest.mark.parametrize("verb", ["mask", "safe-harbor"])
def test_whoever_knows_all_that_is_published_but_the_value(verb: str, tmp_path: Path) -> None:
    """What can be inferred is judged by all published columns that are not worth hiding."""
    draw = np.random.default_rng(5)
    grp, sex = draw.choice(["a", "b", "c"], 120), draw.choice(["f", "m"], 120)
    ill = np.where(grp == "a", "hiv", draw.choice(["flu", "cold", "ok"], 120))
    frame = pd.DataFrame({"grp": grp, "sex": sex, "ill": ill})
    frame.to_csv(tmp_path / "in.csv", index=False)
    source, output = str(tmp_path / "in.csv"), str(tmp_path / "out.csv")
    if verb == "mask":
        made = sf.mask(source, measure="distinct", beta=0.9, output=output)
    else:
        made = sf.safe_harbor(source, as_of=dt.date(2024, 1, 1), output=output)
    assert [*pd.read_csv(output).columns] == ["grp", "sex", "ill"]
    for page in (
        release_page(made, sensitive=["ill"]),
        release_page(certified_release(output, sf.table(source)), sf.table(source), ["ill"]),
    ):
        tone, answer = light_of(page, "What can be inferred about them")
        assert tone == "bad"
        assert numbers(answer, ["grp"]) == inferred(frame, ["grp", "sex"], ["ill"])
        assert numbers(answer, [])[0] == str((grp == "a").sum())


def test_several_sets_are_told_apart(tmp_path: Path) -> None:
    """The list, the sheet and what is not promised say that there are two sets."""
    frame = visits(tmp_path).assign(ward=lambda own: own["pid"] % 7)
    frame["note"] = np.random.default_rng(6).integers(0, 60, len(frame)).astype(str)
    frame.to_csv(tmp_path / "in.csv", index=False)
    roles = {**ROLES, "ward": "quasi-identifier", "note": "other"}
    sets = (("sex", "ward"), ("age", "sex"))
    project = on_the_bench(tmp_path / "in.csv", roles=roles, person="", sets=sets, k=5)
    project.release(Budget())
    assert project.made is not None
    assert "for each of 2 sets of columns" in project.versions()[0].demand
    after = pd.read_csv(project.folder / "release.csv", dtype=str)
    beside_one = alone(after, ["sex", "ward", "note"])
    shown = html.unescape(re.sub(r"<[^>]+>", "", project.made.shown))
    said_of = re.findall(r"Not promised: ([\d,]+) of [\d,]+ rows \(.*?\) are alone for whoever "
                         r"knows (.*?) beside (.*?);", shown)  # fmt: skip
    assert said_of
    for found, by, beside in said_of:
        names = [n for n in frame.columns if re.search(rf"\b{n}\b", by)]
        assert beside == "sex and ward"
        assert "age" not in names
        assert int(found.replace(",", "")) == alone(after, ["sex", "ward", *names])
    assert beside_one
    together = alone(after, ["age", "sex", "ward"])
    assert f"{together:,} of {len(after):,} rows" in shown
    assert "knows the columns of all 2 sets" in shown
    assert "rows that look alike, on average, by the first set of columns" in shown
    project.try_out([project.choices], Budget())
    (tried,) = project.candidates
    assert tried.highest_risk == pytest.approx(1 / min(smallest(after, sets)))
    worst = max(classes(after, names) / len(after) for names in sets)
    assert classes(after, sets[0]) != classes(after, sets[1])
    assert tried.average_risk == pytest.approx(worst)
    body = json.loads((project.folder / "release.csv.certificate.json").read_text())
    svg = certificate_svg(Certificate(body))
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert texts[texts.index("classes by the first set") + 1] == f"{classes(after, sets[0]):,}"
    project.close()


@pytest.mark.parametrize("first", [60_000, 2_000])
def test_first_digits_are_drawn_over_what_they_stand_for(first: int, tmp_path: Path) -> None:
    """Three digits of a code stand for all codes that begin so, whether text or number."""
    draw = np.random.default_rng(7)
    codes = [f"{first + 10 * at:05d}" for at in draw.integers(0, 30, 900)]
    frame = pd.DataFrame({"zip": codes, "sex": draw.choice(["F", "M"], 900)})
    frame.to_csv(tmp_path / "in.csv", index=False)
    output = tmp_path / "out.csv"
    made = sf.safe_harbor(str(tmp_path / "in.csv"), as_of=dt.date(2024, 1, 1), output=str(output))
    after = pd.read_csv(output, dtype=str)
    assert set(after["zip"]) == {code[:3] for code in codes}
    held = Counter(codes)
    begin = Counter(code[:3] for code in held)
    now = {code: Counter(after["zip"])[code[:3]] / begin[code[:3]] for code in held}
    source = sf.table(str(tmp_path / "in.csv"))
    for found in (release_page(made), release_page(certified_release(output, source), source)):
        figures = [f for s in found.sections for f in s.figures if f.title == "zip"]
        if first == 2_000:  # text, by its leading zero
            gap = sum(abs(held[code] - now[code]) for code in held) / 900 / 2
            assert numbers(figures[0].caption, ["zip"]) == [f"{len(held) - 12}", part(gap)]
            continue
        layers = figures[0].spec["layer"] if figures[0].spec else []
        rows = [row for layer in layers for row in layer.get("data", {}).get("values", ())]
        bins = sorted({(row["from"], row["to"]) for row in rows if "from" in row})
        was, then = np.zeros(len(bins)), np.zeros(len(bins))
        for code in held:
            was[bin_of(float(code), bins)] += held[code] / 900
            then[bin_of(float(code), bins)] += now[code] / 900
        moved = part(float(np.abs(was - then).sum() / 2))
        assert figures[0].caption.endswith("would have to move from bar to bar.")
        assert numbers(figures[0].caption, ["zip"]) == [moved]


def test_stars_of_the_table_itself_are_pointed_out(tmp_path: Path) -> None:
    draw = np.random.default_rng(8)
    frame = pd.DataFrame({"code": draw.choice(["*", "A", "B"], 400, p=[0.4, 0.3, 0.3]),
                          "age": draw.integers(20, 60, 400)})  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["code", "age"], rows_are_people=True,
                        output=str(tmp_path / "out.csv"))  # fmt: skip
    after = pd.read_csv(tmp_path / "out.csv", dtype=str)
    own = int((after["code"] == "*").sum())
    assert own
    told = [warning for warning in made.warnings if "are stars themselves" in warning]
    assert told == [
        f"values of column `code` are stars themselves: {own:,} cells of the release with such a "
        "value look starred and are not"
    ]
    assert made.suppressed_cells == int((after["age"] == "*").sum())
    assert not [w for w in sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["age"],
                rows_are_people=True).warnings if "themselves" in w]  # fmt: skip


def test_a_sheet_of_many_columns_says_what_it_does_not_show() -> None:
    names = [f"a rather long name of column {at}" for at in range(300)]
    promise = {"kind": "anonymity", "measured": {"checks": [
        {"model": "k-anonymity", "qi": names, "asked": {"k": 5}, "measured": {"k": 5},
         "holds": True, "column": None}] * 30}}  # fmt: skip
    body = {"output": {"name": "out.csv", "fingerprint": "sha256:0"}, "rows": 9, "k": None,
            "suppressed_rows": 0, "suppressed_cells": 0, "method": "best", "asked": {},
            "promises": [promise], "column_actions": {}, "date": "2026-11-16"}  # fmt: skip
    svg = certificate_svg(Certificate(body))
    assert "more lines: see the certificate itself." in svg
    assert "<" not in re.sub(r"<[^<>]*>", "", svg)
    assert max(float(y) for y in re.findall(r' y="([\d.]+)"', svg)) < 842


def test_the_page_of_what_a_release_is_good_for(tmp_path: Path) -> None:
    """Statistics, the table of two columns and the classifier, from the two files."""
    before, known, _ = survey(tmp_path)
    place, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    before.to_parquet(place)
    sf.anonymize(str(place), k=7, qi=known, output=str(output))
    after, target = read(output), "PINCP_DECILE"
    found = compare(str(output), str(place), target=target, pair=["SEX", "MSP"])
    page = page_of(found)
    shown = said(page, list(before.columns))
    spread = {name: spreads(before[name], after[name]) for name in known}
    lost = {n: losses_of(before[n], before[n], after[n], 0, False).mean() for n in known}
    learned = [learns(frame[known], before[target]) for frame in (after, before)]
    most = before[target].value_counts().max() / len(before)
    told = [part(one) for one in (*learned, most)]
    assert shown["verdict"] == [part(np.mean(list(lost.values()))), *told]
    sides = ("from the release", "from the original", "by guessing the commonest")
    assert shown["chart: Rows whose target is predicted right"] == bars(
        dict(zip(sides, (*learned, most), strict=True))
    )
    grids = {section.title: section.grids for section in page.sections}
    for name, *cells in grids["Column by column"][0].rows:
        moved = sum(
            abs(np.mean([text == value for text in written(before[name])]) - share)
            for value, share in totals(spread[name]).items()
        ) / 2  # fmt: skip
        assert cells == [part(lost[name]), part(moved)]
    for name, *cells in grids["Numbers before and after"][0].rows:
        held = {text: n / len(before) for text, n in Counter(written(before[name])).items()}
        expected = zip(moments(held), moments(totals(spread[name])), strict=True)
        assert cells == [f"{number:,.6g}" for pair in expected for number in pair]
    table = grids["SEX and MSP together"][0]
    for name, *cells in table.rows:
        for other, cell in zip(table.heads[1:], cells, strict=True):
            rows = [int(a == name and b == other) for a, b in
                    zip(written(before["SEX"]), written(before["MSP"]), strict=True)]  # fmt: skip
            both = sum(
                one.get(name, 0.0) * two.get(other, 0.0)
                for one, two in zip(spread["SEX"], spread["MSP"], strict=True)
            )
            if "others" not in (name, other):
                was, now = cell.split(" → ")
                assert was == f"{sum(rows):,}"
                assert float(now.replace(",", "")) == pytest.approx(both, abs=0.06)
    assert len(table.rows) == 3


def spreads(before: pd.Series[Any], after: pd.Series[Any]) -> list[dict[str, float]]:
    """For every row the values its cell stands for, in equal parts."""
    inside = members_of(before, before, after)
    return [dict.fromkeys(inside[label], 1 / len(inside[label])) for label in written(after)]


def totals(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row)
    return {value: total / len(rows) for value, total in found.items()}


def moments(shares: Mapping[str, float]) -> tuple[float, float, float]:
    pairs = sorted((float(value), share) for value, share in shares.items() if value)
    whole = sum(share for _, share in pairs)
    mean = sum(value * share for value, share in pairs) / whole
    spread = math.sqrt(sum((value - mean) ** 2 * share for value, share in pairs) / whole)
    running = 0.0
    for value, share in pairs:
        running += share / whole
        if running >= 0.5 - 1e-12:
            return mean, spread, value
    raise AssertionError


def learns(features: Frame, target: pd.Series[Any]) -> float:
    """Share of rows that naive Bayes predicts right in ten folds."""
    codes = np.stack([pd.factorize(np.array(written(features[n])), sort=True)[0]
                      for n in features], axis=1)  # fmt: skip
    model = CategoricalNB(min_categories=(codes.max(axis=0) + 1).tolist())
    folds = KFold(10, shuffle=True, random_state=0)
    wanted = np.array(written(target))
    return float((cross_val_predict(model, codes, wanted, cv=folds) == wanted).mean())


def test_the_page_of_a_population(tmp_path: Path) -> None:
    """Counts are counted again; estimates, which have tests of their own, agree with each other."""
    frame, known = everybody(tmp_path), ["sex", "zip", "ethnicity"]
    found = sf.population(str(tmp_path / "people.csv"), universe=100_000, qi=known)
    shown = said(page_of(found), list(frame.columns))
    single = part(alone(frame, known) / len(frame))
    assert shown["subtitle"] == [f"{len(frame):,}", "100,000", part(len(frame) / 100_000)]
    assert shown["fact: people"] == ["100,000"]
    assert shown["fact: rows alone in the table"] == shown["gauge: rows alone"] == [single]
    assert shown["verdict"][:1] == shown["gauge: alone in the population"]
    values = {row.column: len(set(written(frame[row.column]))) for row in found.plan.columns}
    for row in found.plan.columns:
        assert shown[f"column: {row.column}"][:1] == [f"{values[row.column]:,}"]
    assert shown["chart: How far each column is blurred"] == bars(
        {row.column: row.distinct / values[row.column] for row in found.plan.columns}
    )
    estimates = {dict(row).get("said") for row in shown[f"chart: {FEWER}"]}
    assert {single, *shown["gauge: alone in the population"]} <= estimates


ASKED = ["birth_date", "sex", "zip", "ethnicity", "marital_status"]


def minimal(columns: Sequence[str], most: int, breaks: Any) -> list[tuple[str, ...]]:
    """All sets of columns that do something and of which no part does, by trying them all."""
    found: list[tuple[str, ...]] = []
    for size in range(1, most + 1):
        for names in combinations(columns, size):
            if not any(set(one) <= set(names) for one in found) and breaks(list(names)):
                found.append(names)
    return found


def listed(sets: Sequence[tuple[str, ...]]) -> Said:
    """How many sets there are of each size, and the column that is in most of them."""
    many = Counter(len(names) for names in sets)
    inside = Counter(name for names in sets for name in names)
    share = part(max(inside.values()) / len(sets))
    return {
        "fact: minimal sets": [f"{len(sets)}"],
        "The sets": [share],
        **{f"columns in the set: {size}": [f"{size}", f"{n}"] for size, n in many.items()},
    }


def without_places(shown: Said) -> Said:
    """Paragraphs by their section only: how many come before them does not matter here."""
    return {re.sub(r"^The sets \d+$", "The sets", place): told for place, told in shown.items()}


@pytest.mark.parametrize("measure", ["key", "distinct", "separation"])
def test_the_page_of_keys(measure: str, tmp_path: Path) -> None:
    frame, rows = everybody(tmp_path), 800
    least = {"distinct": 0.4, "separation": 0.95}.get(measure)
    asked = {} if least is None else {"beta": least}
    found = sf.minimal_keys(str(tmp_path / "people.csv"), columns=ASKED, measure=measure,
                            max_size=3, **asked)  # fmt: skip
    pairs = rows * (rows - 1) / 2

    def tells(names: list[str]) -> bool:
        if measure == "separation":
            alike = sum(n * (n - 1) / 2 for n in frame.groupby(names).size())
            return bool(1 - alike / pairs >= 0.95)
        return classes(frame, names) >= (rows if least is None else 0.4 * rows)

    sets = minimal(ASKED, 3, tells)
    sought = [] if least is None else [f"{least:g}"]
    expected = listed(sets) | {
        "verdict": [f"{len(sets)}", *sought, f"{min(map(len, sets))}"],
        "fact: columns in them": [f"{len({name for one in sets for name in one})}"],
        "fact: stand for": [f"{len(sets)}"],
    }
    expected |= {"subtitle": sought} if sought else {}
    shown = without_places(said(page_of(found), list(frame.columns)))
    assert differences(shown, expected) == {}


@pytest.mark.parametrize("k", [2, 40])
def test_the_page_of_violations(k: int, tmp_path: Path) -> None:
    frame = everybody(tmp_path)
    found = sf.violations(str(tmp_path / "people.csv"), columns=ASKED, k=k, max_size=2)
    sets = minimal(ASKED, 2, lambda names: below(frame, names, k) > 0)
    smallest = str(sizes(frame, ASKED).min())
    expected = listed(sets) | {
        "verdict": [f"{k}", f"{len(sets)}", f"{k}"],
        "fact: smallest class (k)": [smallest],
    }
    shown = without_places(said(page_of(found), list(frame.columns)))
    assert differences(shown, expected) == {}


@pytest.mark.parametrize("cap", [2, 3, None])
def test_a_lattice_says_of_sets_only_what_was_looked_at(cap: int | None, tmp_path: Path) -> None:
    cells = ["11214", "21001", "01204", "01410", "50043", "10222", "41052", "00434", "21141"]
    rows = [",".join(cell) for cell in cells]
    place = tmp_path / "lat.csv"
    place.write_text("\n".join(["a,b,c,d,e", *rows]) + "\n")
    frame = pd.read_csv(place)
    for page in (page_of(sf.minimal_keys(str(place), max_size=cap)),
                 page_of(sf.violations(str(place), k=2, max_size=cap))):  # fmt: skip
        keys = page.title.startswith("All minimal")
        nodes = re.findall(r"<title>([a-e +]+): ([^<]*)</title>", page_html(page))
        unsure = [names for names, words in nodes if "that was found" in words]
        assert ("a + c + e" in unsure) == (keys and cap == 2)
        assert bool(unsure) <= (cap == 2)
        assert bool(unsure) == ("Dashed" in page_html(page))
        for names, words in nodes:
            one = sizes(frame, names.split(" + "))
            holds = one.max() == 1 if keys else one.min() == 1
            if words in ("a minimal set", "contains a minimal set"):
                assert holds, (page.title, names)
            elif words == "contains none of them":
                assert not holds, (page.title, names)


def test_the_page_of_risky_rows(tmp_path: Path) -> None:
    """Minimal uniques of every row, by trying all sets; scores as Elliot and others have them."""
    frame, known, most = everybody(tmp_path), ["sex", "zip", "ethnicity", "marital_status"], 3
    found = sf.uniques(str(tmp_path / "people.csv"), columns=known, max_size=most)
    minimal_of: list[list[tuple[str, ...]]] = [[] for _ in range(len(frame))]
    for size in range(1, most + 1):
        for names in combinations(known, size):
            for row in np.flatnonzero(sizes(frame, names) == 1):
                if not any(set(one) <= set(names) for one in minimal_of[row]):
                    minimal_of[row].append(names)
    score = {s: math.prod(len(known) - i for i in range(s, most + 1)) for s in range(1, most + 1)}
    total = sum(score[len(one)] for row in minimal_of for one in row)
    reached = {
        "1 column" if at == 1 else f"{at} columns":
        sum(any(len(one) <= at for one in row) for row in minimal_of) / len(frame)
        for at in range(1, most + 1)
    }  # fmt: skip
    parts = {
        name: sum(score[len(one)] for row in minimal_of for one in row if name in one) / total
        for name in known
    }
    exposed, rows = sum(map(bool, minimal_of)), len(frame)
    alone_ones, twos = alone(frame, known) * 0.01, int((sizes(frame, known) == 2).sum()) * 0.99
    assert differences(said(page_of(found), list(frame.columns)), {
        "verdict": [f"{most}", f"{exposed:,}", f"{rows:,}", part(exposed / rows)],
        "subtitle": [f"{rows:,}", f"{most}"],
        "fact: exposed rows": [f"{exposed:,}"],
        "fact: right matches (DIS)": [part(alone_ones / (alone_ones + twos))],
        "gauge: exposed rows": [part(exposed / rows)],
        "chart: How few columns are enough": bars(reached),
        "chart: Which columns do it": bars(parts),
    }) == {}  # fmt: skip


def test_the_page_of_an_attack_with_a_known_table(tmp_path: Path) -> None:
    frame, on = everybody(tmp_path), ["sex", "zip", "ethnicity"]
    known = frame.sample(500, random_state=1)
    known.to_csv(tmp_path / "known.csv", index=False)
    found = sf.attack(str(tmp_path / "people.csv"), str(tmp_path / "known.csv"), on=on, k=5)
    fits = np.ones((len(frame), len(known)), bool)
    for name in on:  # an empty cell of a release may be a star: it fits everybody
        cells, theirs = np.array(written(frame[name])), np.array(written(known[name]))
        fits &= (cells[:, None] == theirs) | (cells[:, None] == "")
    matched = fits.sum(axis=1).tolist()
    strange = len(set(frame["zip"]) - set(known["zip"]))
    assert strange
    rows = len(frame)
    one, few = sum(n == 1 for n in matched), sum(1 < n < 5 for n in matched)
    right = sum(1 / n for n in matched if n)
    assert differences(said(page_of(found), list(frame.columns)), {
        "verdict": [f"{one}", f"{rows}", f"{few}", "5"],
        "subtitle": [f"{len(known)}"],
        "fact: match one": [f"{one}"],
        "fact: fewer than 5": ["5", f"{few}"],
        "fact: expected right guesses": [f"{right:,.1f}"],
        "gauge: match one": [part(one / rows)],
        "To keep in mind 0": [f"{strange}"],
        "chart: How many rows a released row matches": bars({
            "none": sum(n == 0 for n in matched) / rows, "one row": one / rows,
            "2 to 4 rows": few / rows, "5 rows or more": sum(n >= 5 for n in matched) / rows,
        }),
    }) == {}  # fmt: skip


def test_every_node_of_the_lattice_of_levels(tmp_path: Path) -> None:
    """What the workbench says of each choice of levels: counted with the trees' own columns."""
    frame = everybody(tmp_path)[["zip", "sex", "marital_status"]].fillna("none")
    frame.to_csv(tmp_path / "people.csv", index=False)
    star = pd.Series("*", index=frame.index)
    levels = {
        "zip": [frame["zip"], frame["zip"].str[:3], frame["zip"].str[:1], star],
        "sex": [frame["sex"], star],
        "marital_status": [frame["marital_status"], star],
    }
    trees = {
        name: Hierarchy.from_levels(pd.concat(c, axis=1).drop_duplicates().T.to_numpy().tolist())
        for name, c in levels.items()
    }
    made = sf.anonymize(str(tmp_path / "people.csv"), k=5, qi=list(levels), method="full-domain",
                        hierarchies=trees, suppression_limit=0.1, every_node=True)  # fmt: skip
    nodes = nodes_of(made.details["lattice"])
    assert len(nodes) == 4 * 2 * 2
    for node in nodes:
        shown = pd.DataFrame(
            {n: c[at] for (n, c), at in zip(levels.items(), node.levels, strict=True)}
        )
        alike = sizes(shown, list(levels))
        gone = alike < 5
        assert node.holds == (gone.mean() <= 0.1), node.said
        assert node.left_out == int(gone.sum()), node.said
        if not node.holds:
            continue
        assert node.k == alike[~gone].min(), node.said
        lost = [
            np.where(gone, 1.0, shown[n].map(frame.groupby(shown[n])[n].nunique().sub(1)
                                             / (frame[n].nunique() - 1))).mean()
            for n in levels
        ]  # fmt: skip
        assert node.lost == pytest.approx(np.mean(lost)), node.said


FEWER = "Fewer people are alone among all than in a sample"


# The tables


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
METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {},
    "kmember": {"method": "kmember"},
    "cells": {"method": "cells"},
    "full-domain": {"method": "full-domain", "suppression_limit": 0.1},
}


def read(place: Path) -> Frame:
    """A table whose whole numbers stay whole beside missing cells."""
    return pd.read_parquet(place, dtype_backend="numpy_nullable")


def differences(found: Said, expected: Said) -> dict[str, tuple[Any, Any]]:
    """Places where a page says something else."""
    places = [p for p in {**expected, **found} if found.get(p) != expected.get(p)]
    return {place: (found.get(place), expected.get(place)) for place in places}


TOLD = [
    *(("demo", method) for method in METHODS),
    ("survey", "cells"),
    ("survey", "full-domain"),
    ("credit", "mondrian"),
]
"""Every method, and every table; `make slow` has every method on every table."""


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(*pair, marks=() if pair in TOLD else pytest.mark.slow)
        for pair in product(TABLES, METHODS)
    ],
)
def test_the_page_of_a_release(name: str, method: str, tmp_path: Path) -> None:
    before, known, sensitive = TABLES[name](tmp_path)
    before = before.assign(row=np.arange(len(before)))
    place, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    before.to_parquet(place)
    made = sf.anonymize(str(place), k=7, qi=known, output=str(output), **METHODS[method])
    page = release_page(made, sensitive=sensitive)
    found = said(page, [*before.columns, *read(output).columns])
    levels = None
    if method == "full-domain":
        top = np.max(made.details["lattice"]["levels"], axis=0)
        chosen = made.details["levels"]
        levels = {name: chosen[name] / top[at] for at, name in enumerate(known)}
    expected = released(before, read(output), 7, known, found, sensitive, levels)
    assert differences(found, expected) == {}
    html = page_html(page)  # the saved report says the same
    assert all(str(escape(light.answer)).split("`")[0] in html for light in page.lights)
    assert all(f"<dd>{value}</dd>" in html for _, value in page.facts)


def test_distributions_that_are_not_drawn_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many columns those that moved most are drawn; what is said of the others is the same."""
    before, known, _ = survey(tmp_path)
    before = before.assign(row=np.arange(len(before)))
    before.to_parquet(tmp_path / "in.parquet")
    made = sf.anonymize(str(tmp_path / "in.parquet"), k=7, qi=known)
    columns = list(before.columns)
    every = said(release_page(made), columns)
    moved = {name: every[f"caption: {name}"][-1] for name in known if f"chart: {name}" in every}
    assert len(moved) > 3
    monkeypatch.setattr("sfumato.report.pages.comparison.MOST_DISTRIBUTIONS", 2)
    page = release_page(made)
    few = said(page, columns)
    most = sorted(moved, key=lambda name: -float(moved[name].strip("<>%")))[:2]
    assert {place for place in every if place not in few} == {
        f"{what}: {name}" for name in moved if name not in most for what in ("chart", "caption")
    }
    rest = {f"not drawn: {name}": [moved[name]] for name in moved if name not in most}
    told = few.pop("Distributions before and after 0")
    assert told == ["2", f"{len(moved)}"]
    assert {place: few[place] for place in few if place not in every} == rest


def test_a_missing_cell_is_one_of_the_values_of_a_set(tmp_path: Path) -> None:
    """Made or read from its files, a page says what the measure of distributions says."""
    output = str(tmp_path / "out.csv")
    age, town = [20, 21] * 40, ["a", "b", "missing", None] * 20
    rows = [f"{y},{'' if t is None else t}" for y, t in zip(age, town, strict=True)]
    rows += ["30,"] * 4 + ["30,a"] + ["31,b"] * 15
    (tmp_path / "in.csv").write_text("age,town\n" + "\n".join(rows) + "\n")
    made = sf.anonymize(str(tmp_path / "in.csv"), k=5, qi=["age", "town"], output=output,
                        weights={"age": 100})  # fmt: skip
    shown = Counter(pd.read_csv(output, dtype=str)["town"].fillna(""))
    assert shown["{a, null}"] == 5
    moved = made.utility["distribution"]["town"]
    assert moved == pytest.approx(abs(5 / 2 - 1) / 100)
    original = sf.table(str(tmp_path / "in.csv"))
    for release in (made, certified_release(output, original)):
        (figure,) = [
            one for section in release_page(release, original).sections
            for one in section.figures if one.title == "town"
        ]  # fmt: skip
        assert f"{part(moved)} of the rows" in figure.caption
        bars = [dict(row) for row in drawn(figure)]
        assert {(row["value"], row["table"]): row["share"] for row in bars} == {
            ("a", "before"): 0.21, ("a", "after"): 0.225,
            ("b", "before"): 0.35, ("b", "after"): 0.35,
            ("missing", "before"): 0.2, ("missing", "after"): 0.2,
            ("(missing)", "before"): 0.24, ("(missing)", "after"): 0.225,
        }  # fmt: skip


def test_a_star_is_a_star_also_where_nothing_stood_before(tmp_path: Path) -> None:
    """Columns of numbers show stars as nulls beside nulls of their own, and say which is which."""
    output, known = tmp_path / "out.parquet", ["A1", "A2", "A14", "A6"]
    source = str(DATA / "crx.parquet")
    made = sf.anonymize(source, k=7, qi=known, method="cells", output=str(output))
    before, after = read(DATA / "crx.parquet"), read(output)
    assert bool((after["A2__suppressed"] & before["A2"].isna()).any())
    fates = {n: fate(before[n], starred(after, n), len(before), 0) for n in known}
    stars = sum(round(found.get("starred", 0) * len(before)) for found in fates.values())
    drawn = chart(
        {"column": name, "cells": what, "share": share}
        for name, found in fates.items()
        for what, share in found.items()
        if share
    )
    for release in (made, certified_release(output, sf.table(source))):
        shown = said(release_page(release, sf.table(source)), list(before.columns))
        assert shown["fact: cells starred"] == [f"{stars:,}"]
        assert shown["chart: What happened to each column"] == drawn


# A table


def exposed(frame: Frame, known: Sequence[str], k: int) -> Said:
    """Class sizes and risks of a table, as the report of a table and the risk page show them."""
    rows, low, risky = len(frame), below(frame, known, k), below(frame, known, 5)
    tables, names = {"table": frame}, {"table": known}
    return {
        "fact: stand alone": [f"{alone(frame, known):,}"],
        f"fact: fewer than {k} alike": [f"{k}", f"{low:,}"],
        "fact: smallest class (k)": [f"{sizes(frame, known).min():,}"],
        "gauge: highest risk": [part(1 / sizes(frame, known).min())],
        "gauge: average risk": [part(classes(frame, known) / rows)],
        f"gauge: rows below {k} alike": [f"{k}", part(low / rows)],
        "caption: How many rows look alike": [
            f"{low:,}", part(low / rows), f"{k - 1}", f"{1 / k:.0%}"
        ],
        "chart: How many rows look alike": size_chart(tables, names, k),
        "caption: How exposed rows are": ["20%", f"{risky:,}", part(risky / rows)],
        "chart: How exposed rows are": risk_curve(tables, names),
    }  # fmt: skip


def looked_at(frame: Frame, found: sf.Scan) -> Said:
    """A first look; which columns were combined is the choice of the scan, the counts are not."""
    rows = len(frame)
    expected: Said = {}
    for column in found.columns:
        cells = frame[column.name]
        missing = int(cells.isna().sum())
        values = len(set(written(cells.dropna())))
        single = part(alone(frame, [column.name]) / rows)
        expected[f"column: {column.name}"] = [f"{values:,}", f"{missing:,}", single]
    steps, before = {}, 0
    for one in found.ladder:
        name = " + ".join(one.columns[before:])
        steps[f"+ {name}" if before else name] = alone(frame, one.columns) / rows
        before = len(one.columns)
    if steps:
        ladder = [*steps.values()]
        title = ladder_title(frame, found.ladder[-1].columns)
        expected[f"chart: {title}"] = bars(steps)
        expected[f"caption: {title}"] = [str(before), part(ladder[-1])]
        assert ladder == sorted(ladder)
    pairs = {" + ".join(c.columns): alone(frame, c.columns) / rows for c in found.combinations}
    if pairs:
        strongest = dict(sorted(pairs.items(), key=lambda item: -item[1])[:10])
        expected["chart: The most telling combinations"] = bars(strongest)
    return expected


def ladder_title(frame: Frame, columns: Sequence[str]) -> str:
    """Harmless are columns that hardly single out anybody by themselves; enough is half of all."""
    if alone(frame, columns) < 0.5 * len(frame):
        return "What columns single out together"
    if len(columns) == 1:
        return "One column is enough"
    if any(alone(frame, [name]) > 0.05 * len(frame) for name in columns):
        return "A few columns are enough"
    return "A few harmless columns are enough together"


@pytest.mark.parametrize("name", TABLES)
def test_the_report_of_a_table(name: str, tmp_path: Path) -> None:
    frame, known, _ = TABLES[name](tmp_path)
    place = tmp_path / "in.parquet"
    frame.to_parquet(place)
    findings = findings_of(str(place), qi=known, k=7)
    found = said(table_page(findings), list(frame.columns))
    rows, single = len(frame), alone(frame, known)
    shares = {(one, one): alone(frame, [one]) / rows for one in known}
    shares |= {pair: alone(frame, pair) / rows for pair in combinations(known, 2)}
    expected = {
        **looked_at(frame, findings.scan),
        **exposed(frame, known, 7),
        "subtitle": [f"{rows:,}", f"{len(frame.columns):,}"],
        "verdict": [f"{single:,}", f"{rows:,}", part(single / rows)],
        "fact: duplicate rows": [f"{int(frame.duplicated(keep='first').sum()):,}"],
        "caption: Pairs of columns": [part(max(shares.values()))],
        "chart: Pairs of columns": chart(
            {
                "one": one,
                "other": other,
                "alone": share,
                "said": part(share) if share >= 0.0005 else "·",
            }
            for (one, other), share in shares.items()
        ),
    }
    assert differences(found, expected) == {}


def test_a_first_look_hides_nobody_who_stands_alone(tmp_path: Path) -> None:
    """Neither by a column that differs in every row, nor by more columns than are combined."""
    draw = np.random.default_rng(7)
    frame = pd.DataFrame({"income": draw.permutation(np.arange(200) + 5000),
                          "sex": draw.choice(["m", "f"], 200),
                          "region": draw.choice(["a", "b"], 200)})  # fmt: skip
    frame.to_csv(tmp_path / "income.csv", index=False)
    pd.DataFrame(draw.integers(0, 2, (9000, 12)), columns=[f"q{at}" for at in range(12)]).to_csv(
        tmp_path / "many.csv", index=False
    )
    for name in ("income", "many"):
        project = Project(tmp_path / f"{name}.csv")
        project.look(Budget())
        roles = dict.fromkeys(project.choices.roles, "quasi-identifier")
        project.decide(replace(project.choices, roles=roles, person=""))
        page = explore(project, project.choices)
        if name == "income":
            assert page.verdict == "200 of 200 rows (100%) stand alone by income."
            assert "income differs in every row" in page.sections[0].paragraphs[0]
        else:
            lonely = alone(pd.read_csv(tmp_path / "many.csv"), list(roles))
            assert lonely > 0
            (told,) = page.beside
            assert numbers(told, []) == ["12", f"{lonely:,}", "9,000", part(lonely / 9000)]
            assert page.verdict.startswith("Nobody stands alone by any of the combinations that")
        assert page.tone == {"income": "bad", "many": "warn"}[name]
        sets = (("sex",), ("region",)) if name == "income" else (("q0",), ("q1",))
        assert name == "many" or not page.beside
        assert "Risk counts by the sets" in explore(
            project, replace(project.choices, sets=sets)
        ).beside[0]  # fmt: skip
        project.close()


@pytest.mark.parametrize("name", TABLES)
def test_the_page_of_a_first_look(name: str, tmp_path: Path) -> None:
    frame, _, _ = TABLES[name](tmp_path)
    place = tmp_path / "in.parquet"
    frame.to_parquet(place)
    look = sf.scan(str(place))
    found = said(page_of(look), list(frame.columns))
    rows = len(frame)
    tried = [alone(frame, m.columns) for m in (*look.combinations, *look.ladder)]
    expected = looked_at(frame, look) | {
        "subtitle": [f"{rows:,}", f"{len(frame.columns):,}"],
        "verdict": [f"{max(tried):,}", f"{rows:,}", part(max(tried) / rows)],
        "fact: rows": [f"{rows:,}"],
        "fact: duplicate rows": [f"{int(frame.duplicated(keep='first').sum()):,}"],
        "fact: others may know": [f"{len(look.with_role('quasi-identifier'))}"],
        "fact: worth hiding": [f"{len(look.with_role('sensitive'))}"],
    }
    assert differences(found, expected) == {}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_of_a_risk(name: str, tmp_path: Path) -> None:
    frame, known, _ = TABLES[name](tmp_path)
    place = tmp_path / "in.parquet"
    frame.to_parquet(place)
    found = said(page_of(sf.risk(str(place), known[:3])), list(frame.columns))
    alike = sizes(frame, known[:3])
    rows, above = len(frame), part(float((1 / alike > 0.2).sum()) / len(frame))
    highest, average = part(1 / alike.min()), part(classes(frame, known[:3]) / rows)
    assert differences(found, {
        "subtitle": [f"{rows:,}"],
        "verdict": [above, f"{rows:,}", "20%"],
        "fact: highest risk": [highest],
        "fact: average risk": [average],
        "fact: above 20%": ["20%", above],
        "fact: classes": [f"{classes(frame, known[:3]):,}"],
        "gauge: prosecutor": [highest],
        "gauge: journalist": [highest],
        "gauge: marketer": [average],
        "attacker: prosecutor": [highest],
        "attacker: journalist": [highest],
        "attacker: marketer": [average],
        "attacker: above 20%": ["20%", above],
    }) == {}  # fmt: skip


def test_no_line_of_a_certificate_leaves_the_sheet() -> None:
    """Measured by the widest letters of the fonts it is drawn in, not by the code that wraps."""
    names = ("عمر", "W" * 200, "sex")
    body = {"output": {"name": "n" * 300, "rows": 9, "fingerprint": "sha256:" + "0" * 64},
            "rows": 9, "suppressed_rows": 0, "suppressed_cells": 0, "k": 3, "classes": 3,
            "method": "cells", "asked": {"k": 3}, "promises": [],
            "column_actions": dict.fromkeys(names, "kept")}  # fmt: skip
    svg = certificate_svg(Certificate(body))
    drawn = r'<text x="([\d.]+)"[^>]*font-size="([\d.]+)"[^>]*>([^<]*)</text>'
    lines = re.findall(drawn, svg)
    assert any("0" * 60 in said for *_, said in lines)
    for x, size, said in lines:
        widths = {"W": 0.95, "0": 0.61}
        wide = sum(widths.get(one, 0.6) for one in html.unescape(said)) * float(size)
        assert float(x) + wide < 595 - 20, said
    (arabic,) = (part for part in svg.split("<text ") if "عمر" in part)
    assert 'font-family="DejaVu Sans, sans-serif">\u200e' in arabic
