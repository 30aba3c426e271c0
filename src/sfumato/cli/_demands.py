"""What must hold of a table, as it is written on the command line; `anonymize` and `verify` ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from sfumato.cli._options import option, split_columns

__all__ = ["COLUMNS", "PRIVACY", "Privacy", "Subjects"]

PRIVACY = "What must hold"
COLUMNS = "Columns"


@dataclass(frozen=True)
class Privacy:
    """The privacy models, all of which must hold."""

    k: Annotated[
        int | None,
        option(PRIVACY, "-k", metavar="N", help="Every row looks like at least N-1 others."),
    ] = None
    diversity: Annotated[
        float | None,
        option(
            PRIVACY, "-l", metavar="N", help="l-diversity: so many sensitive values in every class."
        ),
    ] = None
    l_kind: Annotated[
        str | None,
        option(
            PRIVACY, "--l-kind", metavar="KIND", help="distinct (default), entropy or recursive."
        ),
    ] = None
    c: Annotated[
        float | None,
        option(PRIVACY, "--c", metavar="C", help="c of recursive (c,l)-diversity."),
    ] = None
    t: Annotated[
        float | None,
        option(
            PRIVACY,
            "-t",
            metavar="T",
            help="t-closeness: every class is within T of the distribution of all released rows.",
        ),
    ] = None
    t_distance: Annotated[
        str | None,
        option(
            PRIVACY,
            "--t-distance",
            metavar="KIND",
            help="ordered (default for numbers), equal (default for others) or hierarchical; or "
            "by column: income=ordered,job=hierarchical.",
        ),
    ] = None
    p: Annotated[
        int | None, option(PRIVACY, "-p", metavar="N", help="p-sensitive k-anonymity.")
    ] = None
    alpha: Annotated[
        float | None,
        option(
            PRIVACY,
            "--alpha",
            metavar="SHARE",
            help="(α,k)-anonymity: no sensitive value takes a larger share of a class.",
        ),
    ] = None

    k_map: Annotated[
        int | None,
        option(
            PRIVACY,
            "--k-map",
            metavar="N",
            help="k-map: every row matches at least N people of --population.",
        ),
    ] = None
    population: Annotated[
        str | None,
        option(
            PRIVACY,
            "--population",
            metavar="TABLE",
            help="A table of people that has the quasi-identifiers too.",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """What was given, under the names of the Python parameters."""
        told = {
            "k": self.k,
            "l": self.diversity,
            "l_kind": self.l_kind,
            "c": self.c,
            "t": self.t,
            "t_distance": _distances(self.t_distance),
            "p": self.p,
            "alpha": self.alpha,
            "k_map": self.k_map,
            "population": self.population,
        }
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True)
class Subjects:
    """The columns that the privacy models are about."""

    qi: Annotated[
        list[str] | None,
        option(
            COLUMNS,
            "--qi",
            metavar="A,B,…",
            help="Quasi-identifiers: columns others may know. May be given several times; the "
            "promise holds for each set.",
        ),
    ] = None
    sensitive: Annotated[
        list[str] | None,
        option(
            COLUMNS,
            "--sensitive",
            metavar="A,B,…",
            help="Columns nobody must be able to infer; -l, -t, -p and --alpha are about them.",
        ),
    ] = None

    def given(self, known: Sequence[str]) -> dict[str, Any]:
        """What was given, as names of columns."""
        told: dict[str, Any] = {}
        if self.qi is not None:
            told["qi"] = [split_columns([names], known) for names in self.qi]
        if self.sensitive is not None:
            told["sensitive"] = split_columns(self.sensitive, known)
        return told


def _distances(text: str | None) -> str | dict[str, str] | None:
    if text is None or "=" not in text:
        return text
    pairs = [part.rpartition("=") for part in text.split(",")]
    return {name.strip(): kind.strip() for name, _, kind in pairs}
