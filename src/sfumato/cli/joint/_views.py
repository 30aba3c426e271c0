"""How a person sees what ``sfumato joint`` found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["view_agreement", "view_fit", "view_scores", "view_share"]


def view_agreement(found: Any) -> RenderableType:
    """An agreement that was written."""
    return (
        f"Agreement of study {found.study}: {found.columns} columns, {found.encoded} encoded, "
        f"{found.dimensions} numbers published a row.\nHash {found.hash}\nWritten to {found.path}."
    )


def view_share(found: Any) -> RenderableType:
    """A share with its leakage, column by column."""
    from rich.console import Group
    from rich.table import Table

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
        f"Share of {found.institution}: {found.rows:,} rows, {found.events:,} of them with the "
        f"event; {found.dimensions} numbers a row rounded to {found.rounding:g} (chosen by "
        f"{found.chosen_by}).",
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


def view_fit(found: Any) -> RenderableType:
    """A fitted model."""
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
    lines += [f"Note: {note}." for note in found.notes]
    return "\n".join([*lines, f"Written to {found.path}."])


def view_scores(found: Any) -> RenderableType:
    """The first scores."""
    from rich.table import Table

    lines = Table(title=f"{found.rows:,} rows scored", title_justify="left")
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
