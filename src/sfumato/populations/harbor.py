"""The verb `safe_harbor`: a release with everything the law lists removed or coarsened."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.budget import Budget
from sfumato.engines.recoding import Recoding, Step
from sfumato.errors import SourceError
from sfumato.populations.drafting import column_step
from sfumato.populations.identifiers import Recognised, recognise
from sfumato.populations.promises import SafeHarborForms
from sfumato.populations.safe_harbor import RESTRICTED_AREAS, HarborColumn, harbor_cells
from sfumato.release import Draft, Promise, Release, publish, rehearse
from sfumato.release.place import check_place
from sfumato.release.promise import WithoutColumns
from sfumato.tables import Table, table

__all__ = ["direct_identifiers", "safe_harbor", "safe_harbor_draft"]

LOOKED_AT = 20_000
"""Rows whose content is looked at."""

FREE_TEXT = "free text"

INDIRECT = ("B", "C")
"""Kinds that tell something about people without naming them: geography, dates and ages."""


def safe_harbor(
    source: Any,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    as_of: dt.date | None = None,
    restricted_areas: Collection[str] = RESTRICTED_AREAS,
    pad_zip: bool = False,
    seed: int = 0,
    output: str | None = None,
    format: str | None = None,
    force: bool = False,
    budget: Budget | None = None,
) -> Release:
    """De-identify a table by HIPAA's Safe Harbor method.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    keep, drop
        Columns that stay as they are, or go, whatever was recognised.
    as_of
        The day on which ages are counted; today where None.
    restricted_areas
        Three-digit ZIP areas with 20,000 people or fewer.
    pad_zip
        Give ZIP codes the leading zeros back that a spreadsheet took.
    output
        Write the release there; else it is only rehearsed.

    Returns
    -------
    A release whose details hold `columns` (what was done to each and why) and `undecided`.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> patients = pa.table({"name": ["Ann Lee", "Bob Ray"], "zip": ["02138", "03601"],
    ...                      "sex": ["F", "M"]})
    >>> release = sf.safe_harbor(patients)
    >>> release.table.columns, release.table.sample(2).column("zip").to_pylist()
    (('zip', 'sex'), ['021', '000'])
    """
    budget = budget or Budget()
    opened = table(source, budget=budget)
    if output is not None:
        check_place(opened, output, format=format, force=force)
    draft = safe_harbor_draft(
        opened,
        keep=opened.require(keep),
        drop=opened.require(drop),
        as_of=as_of or dt.date.today(),
        restricted=frozenset(restricted_areas),
        pad=pad_zip,
        seed=seed,
        budget=budget,
    )
    if output is None:
        return rehearse(draft, budget=budget)
    return publish(draft, output, format=format, force=force, budget=budget)


def direct_identifiers(
    opened: Table, columns: Sequence[str], seed: int = 0, budget: Budget | None = None
) -> dict[str, str]:
    """Which of some columns name people outright, and why; such columns never help a release."""
    if not columns:
        return {}
    sample = opened.sample(LOOKED_AT, columns, seed)
    found: dict[str, str] = {}
    for name in columns:
        unique = opened.class_sizes([name], budget).unique
        one = recognise(opened.column(name), sample.column(name).combine_chunks(), unique)
        if one is not None and not one.undecided and one.kind not in INDIRECT:
            found[name] = one.why
    return found


def safe_harbor_draft(
    opened: Table,
    *,
    keep: Sequence[str],
    drop: Sequence[str],
    as_of: dt.date,
    restricted: frozenset[str],
    pad: bool,
    seed: int,
    budget: Budget,
) -> Draft:
    """Recognise every column and work out what becomes of it."""
    if not opened.rows:
        raise SourceError(
            "the table has no rows, and columns are recognised by what they hold",
            where=opened.name,
            remedy="Give a table with rows.",
        )
    work = _Work(as_of, restricted, pad)
    sample = opened.sample(LOOKED_AT, seed=seed)
    for at, column in enumerate(opened.schema):
        budget.progress(f"looking at column `{column.name}`", at / len(opened.schema))
        if column.name in keep:
            work.add(HarborColumn(column.name, None, None, "kept", "the user asked to keep it"))
        elif column.name in drop:
            work.add(HarborColumn(column.name, None, None, "dropped", "the user asked to drop it"))
        else:
            unique = opened.class_sizes([column.name], budget).unique
            cells = sample.column(column.name).combine_chunks()
            work.decide(opened, column.name, recognise(column, cells, unique))
    return work.draft(opened, seed)


@dataclass
class _Work:
    """Collects what happens to each column."""

    as_of: dt.date
    restricted: frozenset[str]
    pad: bool
    columns: list[HarborColumn] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    forms: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, column: HarborColumn) -> None:
        self.columns.append(column)

    def decide(self, opened: Table, name: str, found: Recognised | None) -> None:
        if found is None or found.undecided:
            self.add(HarborColumn.of(name, found, "kept"))
        elif found.form is None or found.form == FREE_TEXT:
            self.add(HarborColumn.of(name, found, "dropped"))
        else:
            values = opened.values(name)
            cells, action, said = harbor_cells(
                found.form, values, as_of=self.as_of, restricted=self.restricted, pad=self.pad
            )
            if cells is not None:
                self.steps.append(column_step(values, cells))
            self.forms[name] = found.form
            self.warnings += said
            self.add(HarborColumn.of(name, found, action))

    def draft(self, opened: Table, seed: int) -> Draft:
        dropped = tuple(c.column for c in self.columns if c.action == "dropped")
        promises: list[Promise] = []
        if dropped:
            promises.append(WithoutColumns(dropped))
        if self.forms:
            promises.append(SafeHarborForms(self.forms, tuple(sorted(self.restricted))))
        undecided = [c.column for c in self.columns if c.undecided]
        warnings = self.warnings + [
            f"column `{c.column}` was kept but could not be decided: {c.why}"
            for c in self.columns
            if c.undecided
        ]
        return Draft(
            table=opened,
            recoding=Recoding(tuple(self.steps), dropped),
            method="safe-harbor",
            asked={"as_of": self.as_of.isoformat(), "rule": "45 CFR 164.514(b)(2)"},
            promises=tuple(promises),
            qi=(),
            column_actions={c.column: c.action for c in self.columns},
            details={"columns": [c.to_dict() for c in self.columns], "undecided": undecided},
            seed=seed,
            warnings=tuple(warnings),
        )
