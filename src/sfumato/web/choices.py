"""What was decided about a table: roles, what must hold, how to get there, and trees.

Decisions never change: another decision is another object, and undo goes back to the one before.
They are kept as TOML, with one file in ARX's form for each tree.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import tomli_w

from sfumato.anonymization.registry import METHODS
from sfumato.anonymization.request import Request
from sfumato.errors import ParameterError, SfumatoError, SourceError, spell
from sfumato.fields import parameters
from sfumato.files import held, keep_only, read_unlinked, write_text
from sfumato.hierarchy import parse_arx, write_arx
from sfumato.privacy.closeness import Distance
from sfumato.privacy.models import ModelFields
from sfumato.tables import table
from sfumato.web.hierarchies import EditableHierarchy
from sfumato.wording import phrase

ROLES = ("quasi-identifier", "sensitive", "identifier", "other")
"""Parts a column can play; identifiers are left out of a release, or replaced by pseudonyms."""
DEMANDS = {n: one for n, one in parameters(ModelFields).items() if one.field.label is not None}
"""Parameters of privacy models that the form asks for."""
FIRST = ("l", "l_kind", "c", "t", "t_distance")
"""Those that are always in sight, beside k."""
DISTANCES = ("", *get_args(Distance))
"""Of t-closeness; by default numbers are ordered and all else is equally far apart."""
OFFERED = ("mondrian", "best", "lattice", "full-domain", "kmember", "cells")
"""Methods for tables of people; those that recode one column alone are left to the verbs."""
USUAL_C = 3
"""Of recursive diversity, where nobody says otherwise."""
TREES = "hierarchies"
"""Folder of the trees beside a project file."""
OWN_KEY = "pseudonyms.key"
"""The key that a project makes for itself where no other is chosen."""


def methods() -> dict[str, str]:
    """Methods that can be chosen, and what each does."""
    return {name: METHODS[name].says for name in OFFERED}


_USUAL = {"k": 5, "t_distance": ""}
_Demands: Any = make_dataclass(
    "_Demands",
    [(name, Any, _USUAL.get(name, one.default)) for name, one in DEMANDS.items()],
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True)
class Choices(_Demands):  # type: ignore[misc]
    """What the user decided: `DEMANDS` are fields too.

    Examples
    --------
    >>> mine = Choices({"age": "quasi-identifier", "name": "identifier"}, k=3)
    >>> mine.qi, mine.rehearsed().identifiers
    (('age',), ('name',))
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    method: str = "mondrian"
    suppression_limit: float | None = None
    pseudonyms: tuple[str, ...] = ()
    """Columns that get pseudonyms where they would be left out."""
    key_file: str = ""
    """The key that pseudonyms are made with; without one the project makes its own."""
    person: str = ""
    """The column that says whose rows they are, one of those that are left out."""
    names_published: bool = False
    """Whether columns that seem to name persons are published all the same."""
    sort: bool = False
    """Whether rows stand in the order of their cells."""
    weights: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels that full-domain recoding takes, by column; the others are searched for."""
    sets: tuple[tuple[str, ...], ...] = ()
    """What different people may know; a column others may know that is in none is in all."""
    k_map: int | None = None
    population: str = ""
    """A table of people, of which every row must match `k_map`."""
    target: str = ""
    """A column that Mondrian should keep predictable."""
    unit: str = field(default="", compare=False)
    """What is counted, in the plural, where somebody says so: it changes words, and no figure."""
    trees: Mapping[str, EditableHierarchy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, one in DEMANDS.items():
            value = getattr(self, name)
            if one.choices:
                _known(one.field.label or name, value, one.choices)
            if one.kind not in (int, float) or (value is None and name != "k"):
                continue
            _within(one.symbol, value, one.field.least, one.field.most)
            if one.kind is int and not isinstance(value, int):
                raise ParameterError(f"`{name}` is not a whole number")
        if self.suppression_limit is not None and not 0 <= self.suppression_limit <= 1:
            raise ParameterError(
                "the share of rows that may be left out is out of range",
                remedy="Give 0 to 100 percent.",
            )
        for column, weight in self.weights.items():
            _within(f"the weight of `{column}`", weight, 0, 1e6)
        word = r"([^\W\d_][\w -]{0,28})?"
        if not isinstance(self.unit, str) or not re.fullmatch(word, self.unit):
            raise ParameterError(
                "this cannot be what is counted", remedy="Give a word, such as companies."
            )
        if self.k_map is not None:
            _within("k of the k-map", self.k_map, 2, 1_000_000)
        for column, level in self.levels.items():
            _within(f"the level of `{column}`", level, 0, 1000)
        _known("method", self.method, OFFERED)
        _known("distance", self.t_distance, DISTANCES)
        for role in self.roles.values():
            _known("role", role, ROLES)
        texts = isinstance(self.pseudonyms, tuple) and isinstance(self.key_file, str)
        texts = texts and isinstance(self.person, str)
        texts = texts and isinstance(self.names_published, bool) and isinstance(self.sort, bool)
        if not texts or not all(isinstance(name, str) for name in self.pseudonyms):
            raise ParameterError("pseudonyms are not given as names of columns")

    def asking(self, **demands: Any) -> Choices:
        """The same with other demands."""
        return replace(self, **demands)

    def with_role(self, role: str) -> tuple[str, ...]:
        """Columns of a role."""
        return tuple(name for name, given in self.roles.items() if given == role)

    @property
    def qi(self) -> tuple[str, ...]:
        """Columns others may know."""
        return self.with_role("quasi-identifier")

    @property
    def known(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns that others may know, each as a whole.

        Examples
        --------
        >>> roles = dict.fromkeys(["age", "sex", "zip"], "quasi-identifier")
        >>> Choices(roles, sets=(("age",), ("zip", "job"))).known
        (('age', 'sex'), ('sex', 'zip'))
        """
        named = {name for one in self.sets for name in one}
        loose = [name for name in self.qi if name not in named]
        found = [tuple(n for n in self.qi if n in one or n in loose) for one in self.sets]
        return tuple(dict.fromkeys(one for one in found if one)) or (self.qi,)

    @property
    def counted(self) -> tuple[tuple[tuple[str, ...], ...], str]:
        """By what it is counted who looks alike: the sets, and the column that names persons."""
        return self.known, self.person

    @property
    def spoken(self) -> tuple[str, str]:
        """What pages say is counted, in the plural; and whether that is a row or a person."""
        of = "person" if self.person else "row"
        return self.unit or f"{of}s", of

    @property
    def replaced(self) -> tuple[str, ...]:
        """Columns whose values are replaced by pseudonyms."""
        return tuple(name for name in self.with_role("identifier") if name in self.pseudonyms)

    @property
    def protects_sensitive(self) -> bool:
        """Whether something is demanded about columns that are worth hiding."""
        return any(getattr(self, name) is not None for name in self._asked if name != "k")

    @property
    def asks_more(self) -> bool:
        """Whether something is asked for that the form does not show at once."""
        return any(name != "k" and name not in FIRST for name in self._asked)

    @property
    def _asked(self) -> dict[str, dict[str, str]]:
        """Numbers that are asked for, each with the choices that belong to it."""
        numbers = [n for n, one in DEMANDS.items() if one.kind in (int, float)]
        return {
            number: {
                name: getattr(self, name)
                for name in DEMANDS
                if name.startswith(f"{number}_") and getattr(self, name)
            }
            for number in numbers
            if DEMANDS[number].field.when is None and getattr(self, number) is not None
        }

    @property
    def demand(self) -> str:
        """What must hold, in the field's own words."""
        said = []
        for number, chosen in self._asked.items():
            others = [v for name, v in chosen.items() if v != DEMANDS[name].default]
            value = f"{DEMANDS[number].symbol} = {getattr(self, number):.12g}"
            said.append(" ".join([value, *others]))
        if self.k_map is not None and self.population:
            said.append(f"k-map = {self.k_map:,}")
        if len(self.known) > 1:
            said.append(f"for each of {len(self.known)} sets of columns")
        return ", ".join(said)

    @property
    def way(self) -> str:
        """How a release is made, and what holds then."""
        levels = f", levels {self._levels}" if self.used_levels else ""
        return f"{self.method} with {self.demand}{levels}"

    @property
    def promise(self) -> tuple[Any, ...]:
        """What is promised to people: releases that promise the same can be compared by cost."""
        hidden = self.with_role("sensitive") if self.protects_sensitive else ()
        return self.known, self.demand, hidden, self.person, self.population

    def otherwise(self, other: Choices) -> list[str]:
        """What another decision has that this one has not, beside method and demand."""
        said = [
            f"{name} is {role}"
            for name, role in other.roles.items()
            if self.roles.get(name, role) != role
        ]
        if other.person != self.person:
            said.append(f"persons by {other.person}" if other.person else "rows are counted")
        share = other.suppression_limit or 0
        if share != (self.suppression_limit or 0) and other.method == "full-domain":
            said.append(f"up to {100 * share:g}% of the rows left out")
        if other.used_levels != self.used_levels and other.method == "full-domain":
            said.append(f"levels {other._levels}" if other.used_levels else "levels are searched")
        if other.known != self.known and other.qi == self.qi:
            said.append("other sets of columns" if len(other.known) > 1 else "one set of columns")
        if other.used_target != self.used_target:
            said.append(f"keeps {other.used_target} predictable" if other.used_target
                        else "keeps no column predictable")  # fmt: skip
        if other.weights != self.weights:
            said.append("other weights" if other.weights else "no weights")
        if other.used_trees != self.used_trees:
            said.append("other trees or limits")
        return said

    def differs(self, now: Choices) -> list[str]:
        """What is decided otherwise now, as far as it matters for a release.

        Examples
        --------
        >>> then = Choices({"age": "quasi-identifier", "sex": "other"}, k=5)
        >>> then.differs(Choices({"age": "quasi-identifier", "sex": "sensitive"}, k=20))
        ['k = 5 is now k = 20', 'sex was other, and is now sensitive']
        """
        said = []
        if now.demand != self.demand:
            said.append(f"{self.demand} is now {now.demand}")
        if now.method != self.method:
            said.append(f"{self.method} is now {now.method}")
        for name, role in self.roles.items():
            other = now.roles.get(name, role)
            if other != role:
                said.append(f"{name} was {role}, and is now {other}")
        said += [f"{name} was read then" for name in self.roles if name not in now.roles]
        said += [f"{name} was not read then" for name in now.roles if name not in self.roles]
        if now.replaced != self.replaced or (self.replaced and now.key_file != self.key_file):
            said.append("other columns get pseudonyms, or by another key")
        if now.person != self.person:
            said.append("other persons are counted, or rows")
        if now.names_published != self.names_published:
            verb = "may" if now.names_published else "must not"
            said.append(f"columns that seem to name persons {verb} be published now")
        if now.sort != self.sort:
            said.append(f"rows {'are sorted' if now.sort else 'keep their order'} now")
        if now.used_trees != self.used_trees:
            said.append("trees or limits are others")
        if now.known != self.known and now.demand == self.demand and now.qi == self.qi:
            said.append("the sets of columns are others")
        if now.used_target != self.used_target:
            was, name = (one or "no column" for one in (self.used_target, now.used_target))
            said.append(f"{was} was kept predictable, now it is {name}")
        if now.used_levels != self.used_levels and now.method == self.method:
            said.append(f"levels {self._levels} is now {now._levels}")
        then, told = self._told(), now._told()
        were, are = (one.get("weights", {}) for one in (then, told))
        said += [
            f"the weight of {name}, {were.get(name, 1):g}, is now {are.get(name, 1):g}"
            for name in {**were, **are}
            if were.get(name, 1) != are.get(name, 1) and name in now.roles
        ]
        left, may = (100 * (one.get("suppression_limit") or 0) for one in (then, told))
        if left != may and now.method == self.method:
            said.append(f"up to {left:g}% of the rows left out is now up to {may:g}%")
        if not said and then != told:
            said.append("settings that are not listed here")
        return said

    def same(self, other: Choices) -> bool:
        """Whether a release would come out the same; what its method ignores does not matter."""
        return not self.differs(other)

    @property
    def used_levels(self) -> dict[str, int]:
        """Levels that the method takes as they were chosen."""
        if self.method != "full-domain":
            return {}
        return {name: self.levels[name] for name in self.qi if name in self.levels}

    @property
    def used_target(self) -> str:
        """The column that the method keeps predictable."""
        usable = self.method == "mondrian" and self.roles.get(self.target) in ROLES[:2]
        return self.target if usable else ""

    @property
    def _levels(self) -> str:
        used = self.used_levels
        return "·".join(str(used.get(name, "?")) for name in self.qi) if used else "searched"

    @property
    def used_trees(self) -> dict[str, EditableHierarchy]:
        """Trees that a release needs: of what others may know, and of the distance t is about."""
        wanted = set(self.qi)
        if self.t is not None and self.t_distance == "hierarchical":
            wanted |= set(self.with_role("sensitive"))
        return {name: tree for name, tree in self.trees.items() if name in wanted}

    @property
    def infers_trees(self) -> bool:
        """Whether columns without a tree get one, since the method climbs trees only."""
        return METHODS[self.method].needs_trees

    def settings(self, folder: Path, trees: str = "release.hierarchies") -> Request:
        """The same as settings of `anonymize`.

        Parameters
        ----------
        folder
            Where the trees of the release and the project's own key lie.
        trees
            The folder of the trees in it.
        """
        given = self._given()
        dropped = [name for name in self.with_role("identifier") if name not in self.replaced]
        if dropped:
            given["identifiers"] = dropped
        if self.replaced:
            given["pseudonyms"] = list(self.replaced)
            given["key_file"] = self.key_file or str(folder / OWN_KEY)
        if self.used_trees:
            given |= {"hierarchies": str(folder / trees), "infer_hierarchies": False}
        return Request.of(given)

    def rehearsed(self) -> Request:
        """Settings that give the same figures and need no file.

        Pseudonyms, which change no figure, are left out; trees are handed over as they are.
        """
        given = self._given()
        if self.with_role("identifier"):
            given["identifiers"] = list(self.with_role("identifier"))
        if self.used_trees:
            trees = {n: tree.hierarchy for n, tree in self.used_trees.items()}
            given |= {"hierarchies": trees, "infer_hierarchies": False}
        return Request.of(given)

    def _given(self) -> dict[str, Any]:
        """All settings but those that need files."""
        if not self.qi:
            raise ParameterError(
                "no column is marked as known to others",
                remedy="Mark at least one under Configure.",
            )
        if self.gap is not None:
            what, remedy = self.gap
            raise ParameterError(what, remedy=remedy)
        return self._told()

    def match_people(self) -> None:
        """Refuse a population that lacks columns by which rows are looked up in it."""
        with closing(table(self.population)) as people:
            lacks = [name for name in self.qi if name not in people.columns]
        if lacks:
            raise ParameterError(
                f"there {'are no columns' if lacks[1:] else 'is no column'} {phrase(lacks)}, by "
                "which rows would be matched",
                where=Path(self.population).name,
                remedy="Choose another table, or none, for the k-map "
                f"({spell('population', self.population)}), or change the "
                f"role{'s of these columns' if lacks[1:] else ' of this column'} under Configure.",
            )

    def _told(self) -> dict[str, Any]:
        """The same, whether or not something is missing."""
        given: dict[str, Any] = {"qi": [list(one) for one in self.known], "k": self.k}
        given |= {"method": self.method, **self._about_sensitive()}
        if self.k_map is not None and self.population:
            given |= {"k_map": self.k_map, "population": self.population}
        if self.used_target:
            given["target"] = self.used_target
            if self.roles[self.target] == "sensitive":
                given.setdefault("sensitive", list(self.with_role("sensitive")))
        if self.person:
            given["person"] = self.person
        if self.names_published:
            given["rows_are_people"] = True
        if self.sort:
            given["sort"] = True
        weights = {n: w for n, w in self.weights.items() if n in self.qi and w != 1}
        if weights:
            given["weights"] = weights
        if self.method == "full-domain" and self.suppression_limit:
            given["suppression_limit"] = self.suppression_limit
        if self.used_levels:
            given["levels"] = self.used_levels
        marks = {n: tree.mark_labels for n, tree in self.used_trees.items() if n in self.qi}
        if any(marks.values()):
            given["boundaries"] = {n: {"marks": list(m)} for n, m in marks.items() if m}
        return given

    @property
    def gap(self) -> tuple[str, str] | None:
        """What is missing before a demand means something, and what to do about it."""
        dropped = set(self.with_role("identifier")) - set(self.replaced)
        if self.person and self.person not in dropped:
            # Who sees it sees which rows belong together.
            what = f"`{self.person}` says whose rows they are, and would be published"
            return (
                what,
                "Leave it out, without a pseudonym, under Configure; or count rows under Risk.",
            )
        if not self.protects_sensitive:
            return None
        hidden = self.with_role("sensitive")
        if not hidden:
            what = "no column is marked as worth hiding, which l, t, p and α are about"
            return what, "Put one there under Configure, or leave them empty under Risk."
        if self.l is not None and self.l_kind != "entropy" and self.l != int(self.l):
            return (
                "the l that is asked for is not a whole number",
                "Only entropy takes fractions: see “counted as” under Risk.",
            )
        if self.l is not None and self.l_kind == "recursive" and self.c == 0:
            return "a c of 0 is not possible", "Give more under Risk, or nothing: then it is 3."
        if self.p is not None and self.p > self.k:
            what = "p is larger than k: so many different values do not fit into k rows"
            return what, "Give a smaller p or a larger k under Risk."
        if self.alpha == 0:
            what = "an α of 0 is not possible"
            return what, "Give the largest share that one value may have, under Risk."
        bare = [name for name in hidden if name not in self.trees]
        if self.t is not None and self.t_distance == "hierarchical" and bare:
            what = f"`{bare[0]}` has no tree of its own along which t could be measured"
            return what, "Make one (its tree, under Configure), or measure t otherwise, under Risk."
        return None

    def _about_sensitive(self) -> dict[str, Any]:
        if not self.protects_sensitive:
            return {}
        given: dict[str, Any] = {"sensitive": list(self.with_role("sensitive"))}
        for number, chosen in self._asked.items():
            given |= {number: getattr(self, number), **chosen}
        if self.l is not None and self.l_kind == "recursive":
            given["c"] = USUAL_C if self.c is None else self.c
        return given


def choices_to(choices: Choices) -> dict[str, Any]:
    """Decisions as plain values; of trees only how they are called and where they stop."""
    body: dict[str, Any] = {}
    for part in fields(choices):
        value = getattr(choices, part.name)
        if part.name != "trees" and value not in (None, (), {}):
            body[part.name] = list(value) if isinstance(value, tuple) else value
    if choices.sets:
        body["sets"] = [list(one) for one in choices.sets]
    body["trees"] = {
        name: {"said": tree.said, "marks": list(tree.mark_labels)}
        for name, tree in choices.trees.items()
    }
    return body


def choices_from(
    body: Mapping[str, Any], trees: Mapping[str, EditableHierarchy] | None = None
) -> Choices:
    """Decisions from plain values, checked.

    Examples
    --------
    >>> chosen = Choices({"age": "quasi-identifier"}, k=7)
    >>> choices_from(choices_to(chosen)) == chosen
    True
    """
    known = {part.name for part in fields(Choices)} - {"trees"}
    given = {name: value for name, value in body.items() if name in known}
    given["pseudonyms"] = tuple(given.get("pseudonyms", ()))
    given["sets"] = tuple(tuple(map(str, one)) for one in given.get("sets", ()))
    return Choices(**given, trees=dict(trees or {}))


def write_choices(
    choices: Choices, folder: Path, source: str, name: str = "project", trees: str = TREES
) -> None:
    """Keep decisions in a folder: ``<name>.toml``, and the trees beside it."""
    with held(folder) as home:
        write_trees(choices.trees, home / trees)
        write_text(home / f"{name}.toml", tomli_w.dumps({"table": source, **choices_to(choices)}))


def write_trees(trees: Mapping[str, EditableHierarchy], folder: Path) -> None:
    """Write trees as ``<column>.csv`` into a folder that then holds no others."""
    wanted = {_file_of(name): tree for name, tree in trees.items()}
    if not wanted and not os.path.lexists(folder):
        return
    keep_only(folder, list(wanted), ".csv")
    with held(folder) as place:
        for file, tree in wanted.items():
            write_arx(tree.hierarchy, place / file)


def read_choices(folder: Path, name: str = "project", trees: str = TREES) -> Choices | None:
    """Decisions of an earlier day; None where there are none."""
    if not os.path.lexists(folder):
        return None
    with held(folder) as home:
        place = home / f"{name}.toml"
        if not os.path.lexists(place):
            return None
        try:
            body = tomllib.loads(read_unlinked(place, "the saved decisions"))
            return choices_from(body, _read_trees(home / trees, body.pop("trees", {})))
        except (SfumatoError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            told = ""
            if isinstance(error, SfumatoError):
                told = f" ({error})".replace(str(home), str(folder))
            raise SourceError(
                f"the saved decisions cannot be read{told}",
                where=str(place),
                remedy="Set the file aside and begin anew, or mend it and look again.",
            ) from error


def _read_trees(folder: Path, saved: Mapping[str, Any]) -> dict[str, EditableHierarchy]:
    """The trees that decisions name."""
    if not saved:
        return {}
    with held(folder) as home:
        found = {}
        for name, tree in saved.items():
            place = home / _file_of(str(name))
            made = parse_arx(read_unlinked(place, "the hierarchy"), where=str(place))
            found[str(name)] = EditableHierarchy.of(made, str(tree["said"]), tree["marks"])
        return found


def _file_of(column: str) -> str:
    """The name of the file of a column's tree, which must not lead out of its folder."""
    place = Path(f"{column}.csv")
    if place.parent != Path() or place.stem != column or "\0" in column:
        raise ParameterError(
            f"a file cannot be named after column `{column}`", remedy="Rename the column first."
        )
    return place.name


def _within(name: str, value: Any, least: float, most: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:
        raise ParameterError(
            f"{name} is out of range", remedy=f"Give a number from {least:,.0f} to {most:,.0f}."
        )


def _known(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(f"there is no such {what}", remedy="Choose one of the list.")
