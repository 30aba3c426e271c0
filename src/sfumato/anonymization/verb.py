"""Anonymize a table: from the request to a verified release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from sfumato.anonymization.parts import (
    parts_for,
    refuse_too_large,
    release_in_parts,
    solve_in_parts,
)
from sfumato.anonymization.persons import refuse_named, without_names
from sfumato.anonymization.pipeline import solve
from sfumato.anonymization.releasing import release_of
from sfumato.anonymization.request import Request, RequestFields
from sfumato.budget import Budget, within_budget
from sfumato.fields import declares
from sfumato.keyfiles import names_same
from sfumato.release import Release, publish, rehearse
from sfumato.release.certificate import certificate_path, check_place
from sfumato.tables import Table, table
from sfumato.tables.frames import is_pandas, is_polars
from sfumato.tables.open import roomy

__all__ = ["anonymize", "earlier_releases"]

SOLVED_CELL_BYTES = 56
"""What a cell takes in memory until a release is written and verified, measured."""


@declares(RequestFields)
@within_budget
def anonymize(
    source: Any,
    *,
    config: str | Path | Request | None = None,
    output: str | Path | None = None,
    format: str | None = None,
    force: bool = False,
    sign: str | Path | None = None,
    author: str | None = None,
    spreadsheet_safe: bool = False,
    budget: Budget | None = None,
    **asked: Unpack[RequestFields],
) -> Release:
    """Blur or star as little as possible so that the privacy asked for provably holds.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    config
        A TOML file with the parameters below, or the certificate of an earlier release; what is
        given here comes before it.
    output, format, force
        Write the release there, in this format, replacing what is there; without `output` it is
        only rehearsed.
    sign
        The key file that signs the certificate, as `sfumato keygen` made it.
    author
        Whom the certificate names as its author; nobody unless given.
    spreadsheet_safe
        Put an apostrophe before cells that a spreadsheet would run.
    budget
        Time, memory and cores the search may take.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [21, 22, 35, 36], "sex": ["F", "F", "M", "M"]})
    >>> release = sf.anonymize(people, qi=["age", "sex"], k=2)
    >>> release.k, release.table.sample(4).column("age").to_pylist()
    (2, ['[20, 23)', '[20, 23)', '[34, 37)', '[34, 37)'])
    """
    start = Request.starting(config, asked.get("like"), asked.get("recoding"))
    request = start.overridden(asked)
    budget = budget or Budget()
    reading: dict[str, Any] = {}
    if request.parse and not isinstance(source, Table):
        reading = {"parse": request.parse, "unparsed": request.unparsed}
    opened = table(source, budget=budget, **reading)
    request = request.opened(opened, budget)
    opened = _with_room(opened, request, budget)
    refuse_too_large(opened, request, budget)
    check_place(opened, output, format=format, force=force, sign=sign)
    named = refuse_named(opened, request, budget)
    coded = opened.engine.capabilities.coded
    parts = None
    if request.parts is not None or not coded:
        parts = parts_for(opened, request, budget)
    if parts is None:
        release = release_of(opened, request, solve(opened, request, budget), named)
    elif coded:
        release = release_of(opened, request, solve_in_parts(opened, request, parts, budget), named)
    else:
        release = release_in_parts(opened, request, parts, budget)
        release = replace(release, warnings=(*named, *release.warnings))
    if is_pandas(source):
        touched = [name for name, action in release.column_actions.items() if action != "kept"]
        release = replace(release, frame=without_names(source, touched, request.seed))
    elif is_polars(source):
        release = replace(release, frame=source)
    if output is None:
        return rehearse(release, budget=budget)
    told = (*release.warnings, *earlier_releases(opened, output))
    return publish(
        replace(release, warnings=told),
        output,
        format=format,
        force=force,
        sign=sign,
        author=author,
        spreadsheet_safe=spreadsheet_safe,
        budget=budget,
    )


def _with_room(opened: Table, request: Request, budget: Budget) -> Table:
    """The table, out of core where a solution of all of its rows would not fit the memory."""
    read = len(request.qi_columns) + len(request.sensitive) + (1 if request.person is None else 3)
    return roomy(opened, SOLVED_CELL_BYTES * opened.rows * read, budget)


def earlier_releases(opened: Table, output: str | Path) -> tuple[str, ...]:
    """A warning where the folder of an output already holds releases of the same table."""
    beside = certificate_path(output)
    others, mine = [], ""  # it may take a pass over all rows: once, where there are others
    for place in sorted(beside.parent.glob("*.certificate.json")):
        if place == beside:
            continue
        try:
            record = json.loads(place.read_text(encoding="utf-8"))
            theirs = record["input"]["fingerprint"]
            mine = mine or opened.fingerprint()
            if names_same(theirs, mine):
                others.append(place.name.removesuffix(".certificate.json"))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not one of ours
    if not others:
        return ()
    return (
        f"this folder already holds a release of the same table ({', '.join(others)}): whoever has "
        "both can join them; check their combination with `sfumato verify --with`",
    )
