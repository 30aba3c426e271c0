"""A table as a sample: which columns are judged, who is counted, how columns can be blurred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.budget import Budget
from sfumato.engines.results import ClassSizes, Codes
from sfumato.errors import ColumnError, ParameterError, SourceError
from sfumato.hierarchy import Hierarchy, read_folder
from sfumato.populations.blur import Blurrer
from sfumato.populations.column_sets import Domain, sizes_of
from sfumato.populations.harbor import direct_identifiers
from sfumato.tables import Table

__all__ = ["Sample", "quasi_identifiers", "read_sample"]


@dataclass(frozen=True, eq=False)
class Sample:
    """What is known of the people in a table.

    Attributes
    ----------
    entries, sizes
        Who is counted, by the columns judged, and the class sizes of these columns together.
    blurrers
        How each column can be blurred.
    domains
        How many values each column can take.
    """

    entries: Codes
    sizes: ClassSizes
    blurrers: Mapping[str, Blurrer]
    domains: tuple[Domain, ...]

    @property
    def rows(self) -> int:
        """How many are counted."""
        return self.sizes.rows

    @property
    def known(self) -> dict[str, int]:
        """How many values each column can take, by name."""
        return {domain.column: domain.distinct for domain in self.domains}

    def too_small(self) -> list[str]:
        """Domains below what the table shows, as of coarser columns (the paper's figure 3)."""
        return [
            f"column `{domain.column}` is declared to have {domain.distinct:,} values but the "
            f"table shows {self.blurrers[domain.column].domain:,}: f(D/n) is too small for it as "
            "it is"
            for domain in self.domains
            if domain.distinct < self.blurrers[domain.column].domain
        ]


def read_sample(
    opened: Table,
    chosen: tuple[str, ...],
    person: str | None,
    domains: Mapping[str, int] | None,
    hierarchies: str | Mapping[str, Hierarchy] | None,
    pad_zip: bool,
    budget: Budget,
) -> Sample:
    """Count the rows of a table, or its people, by the columns chosen."""
    entries = _entries(opened, chosen, person, budget)
    sizes = sizes_of(entries)
    if not sizes.rows:
        raise SourceError(
            "the table has no rows, which say nothing about a population",
            where=opened.name,
            remedy="Give a table with rows.",
        )
    blurrers = _blurrers(entries, _trees(hierarchies, opened), pad_zip)
    return Sample(entries, sizes, blurrers, _declared(domains, blurrers))


def quasi_identifiers(
    opened: Table, qi: Sequence[str] | None, person: str | None, seed: int, budget: Budget
) -> tuple[tuple[str, ...], list[str]]:
    """The columns to judge, and a word about those left out."""
    if qi is not None:
        return opened.require(qi), []
    others = [name for name in opened.columns if name != person]
    named = direct_identifiers(opened, others, seed, budget)
    chosen = tuple(name for name in others if name not in named)
    if not chosen:
        raise ColumnError(
            "there are no columns to judge", where=opened.name, remedy="Name some with --qi."
        )
    said = []
    if named:
        columns = ", ".join(f"`{name}`" for name in named)
        said.append(f"not judged, because they name people outright: {columns}")
    return chosen, said


def _entries(opened: Table, chosen: tuple[str, ...], person: str | None, budget: Budget) -> Codes:
    """What is counted: rows, or for a person column each person once with each of her values."""
    if person is None:
        return opened.codes(chosen, budget)
    (who,) = opened.require([person])
    pairs = opened.classes([*chosen, who], None, budget).select(chosen)
    return Codes(pairs.columns, pairs.arrays, pairs.values, None, pairs.entries)


def _trees(given: str | Mapping[str, Hierarchy] | None, opened: Table) -> Mapping[str, Hierarchy]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    return read_folder(given, opened.columns)


def _blurrers(entries: Codes, trees: Mapping[str, Hierarchy], pad: bool) -> dict[str, Blurrer]:
    blurrers = {}
    for name, array, values in zip(entries.columns, entries.arrays, entries.values, strict=True):
        counts = np.bincount(array, weights=entries.counts, minlength=len(values))
        blurrers[name] = Blurrer(name, values, counts.astype(np.int64), trees.get(name), pad=pad)
    return blurrers


def _declared(
    domains: Mapping[str, int] | None, blurrers: Mapping[str, Blurrer]
) -> tuple[Domain, ...]:
    given = dict(domains or {})
    for name, size in given.items():
        if name not in blurrers:
            raise ParameterError(f"a domain is declared for `{name}`, which is not looked at")
        if size < 1:
            raise ParameterError(f"the domain of `{name}` must have at least one value")
    return tuple(
        Domain(name, int(given[name]), "declared")
        if name in given
        else Domain(name, blurrer.domain, "observed")
        for name, blurrer in blurrers.items()
    )
