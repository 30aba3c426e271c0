"""The promise of k-map: every released row matches at least k people of a population table.

It is checked as an attacker would check it: by joining what is released with the people. The
population stays where it is, and so do the trees: the certificate names them, and whoever verifies
it says where they are now. Nothing that a certificate names is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sfumato.budget import Budget
from sfumato.errors import spell
from sfumato.hierarchy import Hierarchy
from sfumato.keyfiles import names_same
from sfumato.populations.attack import AttackResult, join_attack
from sfumato.privacy import KMap, ModelFinding
from sfumato.release.promise import Finding
from sfumato.tables import Table
from sfumato.wording import counted

__all__ = ["MatchesPopulation"]


@dataclass(frozen=True, eq=False)
class MatchesPopulation:
    """Every row matches at least k people, for each of the quasi-identifier sets.

    Parameters
    ----------
    k
        People that a row must match.
    qi
        The sets of columns by which people are looked for.
    population
        What the table of people is called.
    fingerprint
        The keyed digest of that table; without one any table will do.
    hierarchies
        Trees whose nodes the release shows, by column.
    people
        The population itself, where it is at hand.
    trees
        Columns whose cells may be nodes of trees.
    """

    k: int
    qi: tuple[tuple[str, ...], ...]
    population: str
    fingerprint: str | None = None
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    people: Table | None = None
    trees: tuple[str, ...] = ()
    kind: str = field(default="k-map", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "qi": [list(names) for names in self.qi],
            "population": self.population,
            "fingerprint": self.fingerprint,
            "trees": sorted({*self.trees, *self.hierarchies}),
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            int(parameters["k"]),
            tuple(tuple(names) for names in parameters["qi"]),
            str(parameters["population"]),
            parameters["fingerprint"],
            trees=tuple(map(str, parameters["trees"])),
        )

    def with_people(self, people: Table | None, hierarchies: Mapping[str, Hierarchy]) -> Self:
        """The same, with the tables and trees that it needs."""
        own = {name: tree for name, tree in hierarchies.items() if name in self.trees}
        return replace(self, people=people, hierarchies=own)

    def check(self, table: Table, budget: Budget | None = None) -> Finding:
        """Join the released rows with the people, set by set."""
        people = self.people
        missing = [name for name in self.trees if name not in self.hierarchies]
        if people is None or missing:
            return self._unchecked(missing)
        if names_same(self.fingerprint, people.fingerprint()) is False:
            return Finding(
                check=self.kind,
                holds=False,
                say=f"the population {people.name} is not the one that the release was made for: "
                "its digest differs",
                remedy="Get that table again, or release for this one.",
            )
        found = [self._joined(table, people, names, budget) for names in self.qi]
        broken = [finding for finding in found if not finding.holds]
        return Finding(
            check=self.kind,
            holds=not broken,
            say="; ".join(_sentence(finding, people) for finding in broken or found),
            measured={"checks": found, "people": people.rows},
            remedy="Ask for a smaller k, or allow more blurring.",
        )

    def _unchecked(self, missing: list[str]) -> Finding:
        needed = [] if self.people is not None else [spell("population", "voters.parquet")]
        needed += [spell("hierarchies", "trees/")] if missing else []
        sets = "; ".join(", ".join(names) for names in self.qi)
        return Finding(
            check=self.kind,
            holds=False,
            say=f"k-map (k = {self.k:,} on {sets}) was not checked: a certificate opens nothing, "
            "so the tables and trees it needs must be named",
            remedy=f"Say where they are: {' '.join(needed)}.",
        )

    def _joined(
        self, released: Table, people: Table, names: tuple[str, ...], budget: Budget | None
    ) -> ModelFinding:
        released.require(names)
        people.require(names)
        rows = released.classes(names, budget=budget)
        found = None
        if rows.entries:
            outside = people.classes(names, budget=budget)
            found = join_attack(rows, outside, names, k=self.k, hierarchies=self.hierarchies)
        return ModelFinding(
            model=KMap.name,
            qi=names,
            column=None,
            asked={"k": self.k},
            measured={"k": None if found is None else _fewest(found)},
            holds=found is None or found.k_map,
            failing_classes=0 if found is None else found.exposed_classes,
            failing_rows=0 if found is None else _failing_rows(found),
        )


def _fewest(found: AttackResult) -> int:
    return 0 if found.matches_none or found.smallest is None else int(found.smallest)


def _failing_rows(found: AttackResult) -> int:
    alone = found.matches_one if found.k > 1 else 0
    return found.matches_none + alone + found.matches_few


def _sentence(finding: ModelFinding, people: Table) -> str:
    failing = (
        f" ({counted(finding.failing_rows, 'row', does='match')} fewer)"
        if finding.failing_rows
        else ""
    )
    fewest = finding.measured["k"]
    return (
        f"k-map on {', '.join(finding.qi)}: every row matches at least "
        f"{'none' if fewest is None else format(fewest, ',')} of {people.rows:,} people, "
        f"{finding.asked['k']:,} asked{failing}"
    )
