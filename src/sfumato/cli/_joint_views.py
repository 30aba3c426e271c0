"""How a person writes and sees what ``sfumato joint`` takes and finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.errors import ColumnError, ParameterError, did_you_mean
from sfumato.joint.agreement import Category, Column, Number
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.engines.protocol import Column as SchemaColumn


NUMERIC = ("integer", "float", "decimal", "boolean")


def parse_pairs(given: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """``name=text`` entries, one an option.

    Examples
    --------
    >>> parse_pairs(["sex=f,m", "age=0:120"], "--values", "sex=f,m")
    {'sex': 'f,m', 'age': '0:120'}
    """
    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, rest = text.partition("=")
        if not sign or not name or not rest:
            raise ParameterError(
                f"{option} could not be read", remedy=f"Write e.g. {option} {example}"
            )
        if name in pairs:
            raise ParameterError(f"{option} names `{name}` twice", remedy="Name it once.")
        pairs[name] = rest
    return pairs


def declared_columns(
    schema: Sequence[SchemaColumn],
    bounds: Mapping[str, str],
    values: Mapping[str, str],
    ordered: Mapping[str, str],
    missing: Mapping[str, str],
    ask: Callable[[str], str] | None,
) -> tuple[Column, ...]:
    """The agreement's columns from declarations; what was not declared is asked for.

    Nothing is ever filled in from the rows: the bounds of an agreement are public.
    """
    known = [column.name for column in schema]
    for name in (*bounds, *values, *ordered, *missing):
        if name not in known:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, known))
    columns: list[Column] = []
    undeclared: list[str] = []
    for column in schema:
        name = column.name
        texts = {
            "bounds": bounds.get(name),
            "values": values.get(name),
            "ordered": ordered.get(name),
        }
        given = {key: text for key, text in texts.items() if text is not None}
        if len(given) > 1:
            raise ParameterError(
                f"column `{name}` is declared in two ways", remedy="Keep one declaration of it."
            )
        if not given and ask is not None:
            given = _asked(column, ask)
        if not given:
            undeclared.append(name)
            continue
        (way, text), stand_in = next(iter(given.items())), missing.get(name)
        if way == "bounds":
            columns.append(_number(name, text, column.kind == "integer", stand_in))
        else:
            categories = tuple(part.strip() for part in text.split(","))
            columns.append(Category(name, categories, way == "ordered", stand_in))
    if undeclared:
        raise ParameterError(
            f"nothing is declared about {', '.join(f'`{name}`' for name in undeclared)}",
            remedy="Use --bounds, --values or --ordered, or name the columns to use with -c.",
        )
    return tuple(columns)


def _asked(column: SchemaColumn, ask: Callable[[str], str]) -> dict[str, str]:
    if column.kind in NUMERIC:
        return {"bounds": ask(f"Bounds of `{column.name}`, as low:high or low:high:step")}
    return {"values": ask(f"Categories of `{column.name}`, separated by commas")}


def _number(name: str, text: str, whole: bool, stand_in: str | None) -> Number:
    where = f"column `{name}`"
    parts = text.split(":")
    try:
        low, high, *rest = (float(part) for part in parts)
        if len(rest) > 1 or not all(math.isfinite(v) for v in (low, high, *rest)):
            raise ValueError
        fill = None if stand_in is None else float(stand_in)
    except ValueError:
        raise ParameterError(
            "the bounds could not be read", where=where, remedy=f"Write e.g. {name}=0:120:1"
        ) from None
    # Without a unit, whole numbers count in ones and others in thousandths of the range.
    step = rest[0] if rest else 1.0 if whole else (high - low) / 1000.0
    return Number(name, low, high, step, fill)


def view_agreement(found: Any) -> RenderableType:
    """An agreement that was written."""
    return (
        f"Agreement of study {found.study}: {found.columns} columns, {found.encoded} encoded, "
        f"{found.dimensions} numbers published a row.\nHash {found.hash}\nWritten to {found.path}."
    )


def view_share(found: Any) -> RenderableType:
    """A share with its leakage, column by column."""
    leak = found.leakage
    lines = Table(title="What the share gives away", title_justify="left")
    for heading in ("column", "certain", "interval left"):
        lines.add_column(heading, justify="left" if heading == "column" else "right")
    intervals = leak.interval or {}
    for name, certain in leak.pinned.items():
        widths = [v for k, v in intervals.items() if k == name or k.startswith(f"{name}=")]
        lines.add_row(name, f"{certain:.0%}", f"{min(widths):.0%}" if widths else "–")
    of = "all" if leak.attacked_rows == leak.rows else "a sample of"
    facts = [
        f"Share of {found.institution}: {counted(found.rows, 'row')}, "
        f"{found.events:,} of them with the event; {found.dimensions} numbers a row "
        f"rounded to {found.rounding:g} (chosen by {found.chosen_by}).",
        f"Attacked {of} {leak.attacked_rows:,} rows: {leak.recovered_rows:,} recovered"
        + ("" if of == "all" else f", at most {leak.recovered_at_most:.2%} of all (95 %)")
        + f"; a guess is right for {leak.guessed:.1%}.",
        f"Certain cells: {leak.certain_cells:,} of {leak.judged_cells:,} looked at.",
    ]
    if found.price:
        facts.append(
            f"Price ({found.price['measure']}, cross-validated): {found.price['all_columns']:.3f} "
            f"with all columns, {found.price['projected']:.3f} projected, "
            f"{found.price['published']:.3f} as published."
        )
    notes = [f"Note: {note}." for note in found.notes]
    return Group(*facts, "", lines, "", *notes, f"Written to {found.path}.")


def view_keys(made: Any) -> RenderableType:
    """Where they are."""
    return (
        f"Certificate for the others: {made.certificate}\nPrivate key, stays here: {made.key}\n"
        f"Fingerprint: {made.fingerprint}"
    )


def view_fit(fitted: Any) -> RenderableType:
    """A fitted model."""
    found = fitted.model
    quality = [
        f"{name} {value:.3f} (training rows)"
        for name, value in (("concordance", found.concordance), ("AUC", found.auc))
        if value is not None
    ]
    lines = [
        f"{found.kind} of {found.rows:,} rows from {', '.join(found.institutions)}: "
        f"{found.iterations} Newton steps, penalty {found.penalty:g}."
    ]
    lines += ["; ".join(quality)] if quality else []
    if found.leakage is not None:
        leak = found.leakage
        lines.append(
            f"Of your {leak.rows:,} rows a fit opens about {leak.opened_bits:,.0f} bits at most; "
            f"tables with the same outcomes are told apart by {leak.table_bits:,.0f}."
        )
    if found.standard_errors is not None:
        told = zip(found.columns, found.coefficients, found.standard_errors, strict=True)
        lines += [f"  {name}: {w:.4g} (standard error {e:.2g})" for name, w, e in told]
    lines += [f"Note: {note}." for note in found.notes]
    return "\n".join([*lines, f"Written to {fitted.path}."])


def view_evaluation(found: Any) -> RenderableType:
    """Private, pooled and single models, mean and standard deviation over the splits."""
    told = f"{found.splits} splits, {found.train:.0%} of {found.rows:,} rows for training\n"
    told += _rounded(found)
    lines = Table(title=told, title_justify="left")
    lines.add_column("model")
    for heading in ("SVM, AUC", "Cox, AUC", "Cox, concordance"):
        lines.add_column(heading, justify="right")
    for model in found.models:
        lines.add_row(
            model.model,
            _mean(model.svm_auc, model.svm_auc_sd),
            _mean(model.cox_auc, model.cox_auc_sd),
            _mean(model.concordance, model.concordance_sd),
        )
    if any(math.isnan(value) for m in found.models for value in (m.svm_auc, m.concordance)):
        lines.caption = (
            "–: in no split could this be fitted and judged. Its training rows had no event, or "
            "all lived, or none, beyond the horizon, or no share was safe. A larger --train helps."
        )
    return lines


def _rounded(found: Any) -> str:
    """How the shares behind the private models were rounded."""
    if found.rounding == "safe":
        what = "row" if found.protect == "rows" else "cell"
        return f"private: shares rounded at the step from which no {what} is recovered"
    if found.rounding:
        return f"private: shares rounded to {found.rounding:g}"
    return "private: shares not rounded, which can give rows away"


def _mean(mean: float, spread: float) -> str:
    return "–" if math.isnan(mean) else f"{mean:.3f} ± {spread:.3f}"


def view_scores(found: Any) -> RenderableType:
    """The first scores."""
    lines = Table(title=f"{counted(found.rows, 'row')} scored", title_justify="left")
    lines.add_column("row", justify="right")
    lines.add_column("score", justify="right")
    if found.survival is not None:
        lines.add_column(f"lives beyond {found.at:g}", justify="right")
    for row in range(min(found.rows, 20)):
        cells = [str(row + 1), f"{found.score[row]:.4f}"]
        if found.survival is not None:
            cells.append(f"{found.survival[row]:.1%}")
        lines.add_row(*cells)
    if found.path is not None:
        lines.caption = f"All are in {found.path}."
    elif found.rows > 20:
        lines.caption = "The first 20; write all with -o."
    return lines
