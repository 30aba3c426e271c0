"""Every figure on the pages of releases and certificates, computed again by other code."""

from __future__ import annotations

import datetime as dt
import html
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
from recomputed import (
    DATA,
    ROLES,
    TABLES,
    Frame,
    Said,
    alone,
    bars,
    below,
    chart,
    classes,
    demo,
    differences,
    drawn,
    everybody,
    inferred,
    is_ordered,
    light_of,
    numbers,
    on_the_bench,
    part,
    read,
    risk_curve,
    said,
    size_chart,
    sizes,
    smallest,
    survey,
    visits,
    written,
)
from sfumato.budget import Budget
from sfumato.release.certificate import Certificate
from sfumato.report.page import page_html
from sfumato.report.pages.certificate import certificate_pdf, certificate_svg, certified_release
from sfumato.report.pages.release import release_page
from sfumato.report.registry import page_of
from sfumato.utility import compare

RARE = 10


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
    others = [name for name in before.columns if name not in (*known, *sensitive)]
    singled = alone(after, [name for name in after.columns if name not in sensitive])
    also = [f"{len(others)}", f"{singled:,}", f"{len(after):,}"] if others and singled else []
    expected |= {
        "light: Who can be found": [smallest, part(1 / sizes(after, known).min()), *also],
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
        "check: ratio at most": told,
        "measure: published columns": [f"{kept}"],
        "measure: weight": [f"{kept}"],
    }
    gone = len(before.columns) - kept
    assert gone > 12, "they have no line each"
    drawn = [figure for section in page_of(made).sections for figure in section.figures]
    assert any("Cells of each column listed:" in figure.caption for figure in drawn)
    expected[f"column: {gone} others, named above"] = [f"{gone}"]
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
        "check: safe harbor forms": [f"{len(held)}", "0"],
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
                         r"knows (.*?) besides (.*?);", shown)  # fmt: skip
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


METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {},
    "kmember": {"method": "kmember"},
    "cells": {"method": "cells"},
    "full-domain": {"method": "full-domain", "suppression_limit": 0.1},
}

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
    assert any("0" * 60 in line for *_, line in lines)
    for x, size, line in lines:
        widths = {"W": 0.95, "0": 0.61}
        wide = sum(widths.get(one, 0.6) for one in html.unescape(line)) * float(size)
        assert float(x) + wide < 595 - 20, line
    (arabic,) = (part for part in svg.split("<text ") if "عمر" in part)
    assert 'font-family="DejaVu Sans, sans-serif">\u200e' in arabic
