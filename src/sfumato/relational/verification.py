"""A released dataset verified: what it promises is counted from nothing but its tables.

For every person every combination of at most m of her rows, whichever tables they are in, with the
keys that they are seen to share, must be had by k persons who show the same own cells; and every
reference must lead to a row that is there.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, permutations
from pathlib import Path
from typing import Any, Self

import numpy as np

from sfumato.anonymization.linkable import require_countable
from sfumato.budget import Budget, within_budget
from sfumato.engines.protocol import ClassSizes
from sfumato.errors import ColumnError, InputError, PromiseError, SourceError
from sfumato.files import file_fingerprint, refuse_link
from sfumato.hierarchy.labels import as_text
from sfumato.keyfiles import public_key
from sfumato.relational.description import TableOf, require_room
from sfumato.relational.publishing import (
    CERTIFICATE,
    certificate_of,
    known_columns,
    smallest_class,
)
from sfumato.release import Certificate
from sfumato.release.promise import Finding, as_written, measured_on, promise_from_dict
from sfumato.release.verify import Verification, signed
from sfumato.results import plain
from sfumato.tables import Table, table
from sfumato.tables.formats import is_postgres
from sfumato.tables.several import DESCRIPTION, schema_of
from sfumato.wording import counted, shown

Link = tuple[str, str, str, str]
"""Table, column, table that is referred to, and its key."""


@dataclass(frozen=True)
class WholeReferences:
    """No reference leads nowhere, but for those that led nowhere before.

    Attributes
    ----------
    references
        Table, column, the table it refers to, its key, and how many rows may lead nowhere.
    """

    references: tuple[tuple[str, str, str, str, int], ...]
    kind: str = field(default="whole-references", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {"references": [list(one) for one in self.references]}

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(
            tuple(
                (str(t), str(c), str(to), str(key), int(orphans))
                for t, c, to, key, orphans in parameters["references"]
            )
        )

    def settled(self, finding: Finding) -> WholeReferences:
        """The same about what was counted, which tells nothing about rows that were left out."""
        orphans = finding.measured["orphans"]
        return WholeReferences(
            tuple((t, c, to, key, orphans[f"{t}.{c}"]) for t, c, to, key, _ in self.references)
        )

    def check(self, tables: Mapping[str, Table], budget: Budget | None = None) -> Finding:
        """Count rows that refer to nothing."""
        orphans, broken = {}, []
        for name, column, to, key, allowed in self.references:
            keys = {one for one, _ in _texts(tables[to], key)}
            lost = sum(n for one, n in _texts(tables[name], column) if one not in keys)
            orphans[f"{name}.{column}"] = lost
            if lost > allowed:
                broken.append(f"{name}.{column}")
        rows = counted(sum(orphans.values()), "row", does="refer to nothing")
        return Finding(
            check=self.kind,
            holds=not broken,
            say=f"{counted(len(orphans), 'reference')} between tables: {rows}, no more than before"
            if not broken
            else f"references were broken: {', '.join(broken)}",
            measured={"orphans": orphans, "broken": broken} if broken else {"orphans": orphans},
            remedy="Get the whole dataset again, or release it again.",
        )


def _texts(mine: Table, column: str) -> Iterator[tuple[str, int]]:
    """The values of a column as text with the rows that hold them, without null."""
    values = mine.values(column)
    assert values.counts is not None
    texts = as_text(values.values[0]).to_pylist()
    for code, number in zip(values.arrays[0].tolist(), values.counts.tolist(), strict=True):
        if texts[code] is not None:
            yield texts[code], number


@dataclass(frozen=True, eq=False)
class _Row:
    """A row of which something may be known."""

    cells: tuple[Any, ...]
    keys: Mapping[tuple[str, ...], str]


@dataclass(frozen=True)
class LinkedTables:
    """Own columns and any m rows of a person, in whichever tables, leave at least k persons.

    Parameters
    ----------
    m
        Rows of a person that may be known; None means all of them, and how many they are.
    person
        The table of persons and its column of pseudonyms.
    own
        Quasi-identifiers of that table.
    events
        By table the quasi-identifiers of the others.
    links
        What refers to what.
    keys
        By table the columns of pseudonyms.
    """

    k: int
    m: int | None
    person: tuple[str, str]
    own: tuple[str, ...]
    events: Mapping[str, tuple[str, ...]]
    links: tuple[Link, ...]
    keys: Mapping[str, tuple[str, ...]]
    kind: str = field(default="linked-tables", init=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "m": self.m,
            "person": list(self.person),
            "own": list(self.own),
            "events": {name: list(columns) for name, columns in self.events.items()},
            "links": [list(one) for one in self.links],
            "keys": {name: list(columns) for name, columns in self.keys.items()},
        }

    @classmethod
    def from_dict(cls, parameters: Mapping[str, Any]) -> Self:
        table, column = parameters["person"]
        made = cls(
            int(parameters["k"]),
            None if parameters["m"] is None else int(parameters["m"]),
            (str(table), str(column)),
            tuple(map(str, parameters["own"])),
            {str(n): tuple(map(str, c)) for n, c in parameters["events"].items()},
            tuple((str(t), str(c), str(to), str(key)) for t, c, to, key in parameters["links"]),
            {str(n): tuple(map(str, c)) for n, c in parameters["keys"].items()},
        )
        named = {n for t, _, to, _ in made.links for n in (t, to)}
        if not {made.person[0], *made.events, *named} <= set(made.keys):
            raise ValueError("tables without keys")
        if column not in made.keys[made.person[0]] or (made.m is not None and made.m < 0):
            raise ValueError("no person")
        return made

    def check(self, tables: Mapping[str, Table], budget: Budget | None = None) -> Finding:
        """Count who has what."""
        own, histories, lost = self._read(tables, budget)
        lengths = np.array([len(rows) for rows in histories.values()], dtype=np.int64)
        most = None if self.m is None else min(self.m, int(lengths.max(initial=0)))
        require_countable(ClassSizes.of_counts(lengths), most)
        support: Counter[Any] = Counter()
        items: dict[Any, int] = {}
        for person, mine in own.items():
            support.update((mine, one) for one in self._known(histories[person], most, items))
        fewest = min(support.values(), default=None)
        failing = sum(number < self.k for number in support.values())
        many = "all" if self.m is None else f"any {self.m}"
        known = [".".join((self.person[0], name)) for name in self.own]
        events = [f"{table}.{name}" for table, names in self.events.items() for name in names]
        told = (
            f"whoever knows {', '.join(known) or 'no own column'} of a person and {many} of their "
            f"rows ({', '.join(events) or 'which say nothing more'}) is left with at least "
            f"{counted(fewest or 0, 'person')}, {self.k:,} asked"
        )
        if lost:
            told += f"; {counted(lost, 'row', does='belong to nobody')}"
        return Finding(
            check=self.kind,
            holds=not failing and not lost,
            say=told,
            measured={"k": fewest, "known": len(support), "failing": failing, "lost": lost},
            remedy="Ask for less, or leave tables out.",
            class_sizes=(fewest, len(set(own.values()))),
        )

    def _read(
        self, tables: Mapping[str, Table], budget: Budget | None
    ) -> tuple[dict[str, tuple[Any, ...]], dict[str, list[_Row]], int]:
        """Own cells and rows of each person, and rows that belong to nobody."""
        links = [(name, key) for name, keys in self.keys.items() for key in keys]
        require_room([TableOf(name, tables[name]) for name in self.keys], links, budget)
        read = {name: self._rows(tables[name], name, budget) for name in self.keys}
        index = {
            (to, key): {keys[key]: at for at, (_, keys) in enumerate(read[to]) if key in keys}
            for _, _, to, key in self.links
        }
        for (to, key), rows in index.items():
            if len(rows) < sum(key in keys for _, keys in read[to]):
                raise ColumnError(
                    f"`{to}.{key}` does not name one row",
                    where=tables[to].name,
                    remedy="Get the released tables again.",
                )
        table, column = self.person
        own = {keys[column]: cells for cells, keys in read[table] if column in keys}
        if len(own) < len(read[table]):
            raise ColumnError(
                f"`{table}.{column}` does not name one person per row",
                where=tables[table].name,
                remedy="Get the released table again.",
            )
        histories: dict[str, list[_Row]] = defaultdict(list)
        lost = 0
        for name in self.keys:
            if name == table:
                continue
            ways = list(self._ways(name))
            for at in range(len(read[name])):
                keys = dict(self._seen(read, index, name, at, (), frozenset()))
                owners = {keys[way] for way in ways if way in keys and keys[way] in own}
                if len(owners) != 1:
                    lost += 1
                    continue
                (owner,) = owners
                others = {way: key for way, key in keys.items() if key != owner}
                if name in self.events:
                    histories[owner].append(_Row((name, *read[name][at][0]), others))
        return own, histories, lost

    def _rows(
        self, mine: Table, name: str, budget: Budget | None
    ) -> list[tuple[tuple[Any, ...], dict[str, str]]]:
        """The quasi-identifying cells of each row as codes, and its keys as text."""
        qi = self.own if name == self.person[0] else self.events.get(name, ())
        columns = tuple(dict.fromkeys((*qi, *self.keys[name])))
        entries = mine.classes(columns, budget=budget)
        assert entries.counts is not None
        cells = [entries.column(one).tolist() for one in qi]
        texts = {
            one: np.array([*as_text(entries.values_of(one)).to_pylist(), None], dtype=object)[
                entries.column(one).astype(np.int64)
            ]
            for one in self.keys[name]
        }
        found = []
        for at, number in enumerate(entries.counts.tolist()):
            keys = {one: text[at] for one, text in texts.items() if text[at] is not None}
            found += [(tuple(cell[at] for cell in cells), keys)] * number
        return found

    def _seen(
        self,
        read: Mapping[str, Any],
        index: Mapping[tuple[str, str], Mapping[str, int]],
        name: str,
        at: int,
        way: tuple[str, ...],
        passed: frozenset[tuple[str, int]],
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """The keys that can be seen through a row: its own, and those of rows it refers to."""
        keys = read[name][at][1]
        for column, text in keys.items():
            yield (*way, column), text
        for holder, column, to, key in self.links:
            if holder != name or to == self.person[0] or column not in keys:
                continue
            there = index[to, key].get(keys[column])
            if there is not None and (to, there) not in passed:
                further = passed | {(name, at), (to, there)}
                yield from self._seen(read, index, to, there, (*way, column), further)

    def _ways(self, name: str, passed: frozenset[str] = frozenset()) -> Iterator[tuple[str, ...]]:
        """The references that lead from a table to the person."""
        for holder, column, to, _ in self.links:
            if holder == name and to == self.person[0]:
                yield (column,)
            elif holder == name and to not in passed:
                for further in self._ways(to, passed | {name}):
                    yield (column, *further)

    def _known(self, rows: list[_Row], most: int | None, items: dict[Any, int]) -> set[Any]:
        """What may be known of a person's rows; nothing of them is known by somebody, too."""
        mine = [items.setdefault((r.cells, tuple(sorted(r.keys))), len(items)) for r in rows]
        held = Counter(text for row in rows for text in set(row.keys.values()))
        shared = {text for text, number in held.items() if number > 1}
        if most is None:
            if shared:
                raise ColumnError(
                    "whole histories cannot be compared where their rows show the same keys",
                    remedy="Release it again, with a number of rows that may be known.",
                )
            return {tuple(sorted(mine))}
        found: set[Any] = {()}
        keys = [{way: t for way, t in row.keys.items() if t in shared} for row in rows]
        for size in range(1, most + 1):
            if shared:
                pairs = list(zip(mine, keys, strict=True))
                found.update(_seen_of(some) for some in combinations(pairs, size))
            else:
                found.update(combinations(sorted(mine), size))
        return found


def _seen_of(rows: tuple[tuple[int, Mapping[tuple[str, ...], str]], ...]) -> Any:
    """What is seen of rows in one form: what each shows, and which of their keys are the same."""
    same = [
        (one, here, other, there)
        for one, (_, mine) in enumerate(rows)
        for other, (_, beside) in enumerate(rows)
        if one < other
        for here, key in mine.items()
        for there, text in beside.items()
        if key == text
    ]
    shown = [item for item, _ in rows]
    if not same:
        return tuple(sorted(shown))
    forms = []
    for order in permutations(range(len(rows))):
        place = {at: nth for nth, at in enumerate(order)}
        pairs = sorted(
            tuple(sorted([(place[one], here), (place[other], there)]))
            for one, here, other, there in same
        )
        forms.append((tuple(shown[at] for at in order), tuple(pairs)))
    return min(forms)


_TOGETHER: Mapping[str, Any] = {"linked-tables": LinkedTables, "whole-references": WholeReferences}
_AGAIN = "Get it again from where it was made, or release the dataset again."


def is_released(source: Any) -> bool:
    """Whether a source is a released dataset: a folder with its certificate, or a schema."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    if is_postgres(text):
        return schema_of(text) is not None
    return os.path.isfile(Path(text) / CERTIFICATE)


@within_budget
def verify(
    source: str | os.PathLike[str],
    *,
    certificate: str | os.PathLike[str] | None = None,
    signer: str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
) -> Verification:
    """Check that a released dataset is the one that was certified, and keeps its promises.

    Parameters
    ----------
    source
        The folder, or ``postgresql://…#schema.*``.
    certificate
        Its certificate; the one that lies there where None.
    signer
        The file of the public key that must have signed it.
    """
    text = os.fspath(source)
    place = certificate_of(text) if certificate is None else Path(certificate)
    demanded = None if signer is None else public_key(signer)
    try:
        record = Certificate.read(place)
    except PromiseError as error:
        told = error.what if error.where is None else f"{error.where}: {error.what}"
        broken = Finding("certificate", False, told, remedy=error.remedy)
        return Verification(False, (broken,), shown(text), str(place))
    findings = [Finding("certificate", True, "the certificate is whole"), signed(record, demanded)]
    with ExitStack() as stack:
        try:
            tables = opened_release(text, record, stack, budget)
            findings += _same(tables, record.body)
            findings += _described(text, record.body["output"].get("description"))
            promised = record.body["promises"]
            findings += [one for told in promised for one in _replayed(dict(told), tables, budget)]
            if any(told["kind"] in ("linked-tables", "anonymity") for told in promised):
                findings += _asked_otherwise(record.body, tables)
            else:
                findings.append(
                    Finding("promises", False, "the certificate promises nothing about persons")
                )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SourceError(
                "the certificate lacks what it must say", where=str(place), remedy=_AGAIN
            ) from error
    return Verification(
        holds=all(finding.holds for finding in findings),
        findings=tuple(findings),
        table=shown(text),
        certificate=str(place),
        promised=tuple({k: v for k, v in told.items() if k != "measured"} for told in promised),
        not_promised=_not_promised(promised, record.body["output"]["tables"], text),
        signed_by=str(record.signed["by"]) if record.signed and findings[1].holds else None,
        made=record.maker,
    )


def opened_release(
    text: str, record: Certificate, stack: ExitStack, budget: Budget | None
) -> dict[str, Table]:
    """The tables of a released dataset."""
    tables: dict[str, Table] = {}
    for name, told in record.body["output"]["tables"].items():
        if is_postgres(text):
            doubled = str(name).replace('"', '""')
            source = f'{text.partition("#")[0]}#"{schema_of(text)}"."{doubled}"'
        else:
            file = str(told["file"])
            if file != os.path.basename(file) or file in ("", ".", ".."):
                raise SourceError(
                    "the certificate names a file that does not lie beside it",
                    where=text,
                    remedy=_AGAIN,
                )
            refuse_link(Path(text) / file)
            source = str(Path(text) / file)
        tables[str(name)] = stack.enter_context(table(source, budget=budget))
    return tables


def _same(tables: Mapping[str, Table], body: Mapping[str, Any]) -> list[Finding]:
    """Whether the tables are those that were released, and as the certificate describes them."""
    recorded = body["output"]["tables"]
    differ = [n for n, one in tables.items() if one.fingerprint() != recorded[n]["fingerprint"]]
    listed = ", ".join(f"`{name}`" for name in differ)
    found = [
        Finding(
            "fingerprint",
            not differ,
            f"the {len(tables)} tables are those that were released"
            if not differ
            else f"not as they were released, their fingerprints differ: {listed}",
            remedy=_AGAIN,
        )
    ]
    known = {name: (one.rows, list(one.columns)) for name, one in tables.items()}
    told = {name: (recorded[name]["rows"], recorded[name]["columns"]) for name in tables}
    if told != known or body["rows"] != sum(rows for rows, _ in known.values()):
        said = "the certificate does not fit the tables: rows or columns"
        found.append(Finding("figures", False, said, remedy=_AGAIN))
    return found


def _asked_otherwise(body: Mapping[str, Any], tables: Mapping[str, Table]) -> list[Finding]:
    """That the certificate says of its promises what they are not, if it does."""
    promises, asked = body["promises"], body["asked"]
    told = [one for promise in promises for one in (promise, *promise.get("models", ()))]
    held = {n: {str(one[n] or "all") for one in told if n in one} for n in ("k", "m")}
    differ = [
        f"{name} that was asked"
        for name, numbers in held.items()
        if asked.get(name) is not None and {str(asked[name])} != numbers
    ]
    known = known_columns(promises)
    linked = [one["measured"]["k"] for one in promises if one["kind"] == "linked-tables"]
    if {*chain(*body["qi"])} != {f"{n}.{column}" for n, own in known.items() for column in own}:
        differ.append("quasi-identifiers")
    if body["k"] not in (linked or [smallest_class(tables, known)]):
        differ.append("k")
    said = f"the certificate does not fit what it promises: {', '.join(differ)}"
    return [Finding("figures", False, said, remedy=_AGAIN)] if differ else []


def _described(text: str, certified: object) -> list[Finding]:
    """That the description beside the tables is another one, if it is."""
    place = Path(text) / DESCRIPTION
    if is_postgres(text) or not place.is_file():
        return []
    refuse_link(place)
    if file_fingerprint(place) == certified:
        return []
    say = f"{DESCRIPTION} is not as it was released: it may name other tables, keys and references"
    return [Finding("description", False, say, remedy=_AGAIN)]


def _beside(text: str, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """That files which lie beside the tables are none of the release, if there are any."""
    if is_postgres(text):
        return ()
    own = {CERTIFICATE, DESCRIPTION, *(str(told["file"]) for told in tables.values())}
    others = sorted(file.name for file in Path(text).iterdir() if file.name not in own)
    if not others:
        return ()
    some = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
    return (f"files that lie here and are not of this release were not looked at: {some}",)


def _replayed(
    told: dict[str, Any], tables: Mapping[str, Table], budget: Budget | None
) -> list[Finding]:
    """One promise, measured again; and whether it measures what was measured then."""
    kind, measured, name = str(told.pop("kind")), told.pop("measured"), told.pop("table", None)
    promise: Any
    together = _TOGETHER.get(kind)
    try:
        if together is None:
            promise = promise_from_dict(kind, told)
        else:
            promise = as_written(together.from_dict(told), told)
    except InputError as error:
        return [Finding("promises", False, error.what, remedy=error.remedy)]
    if together is not None:
        finding = promise.check(tables, budget)
        again = True
    else:
        finding = promise.check(tables[str(name)], budget)
        finding = replace(finding, say=f"{name}: {finding.say}")
        again = kind != "without-columns" and measured_on(promise, tables[str(name)])
    if not again or plain(finding.measured) == measured:
        return [finding]
    differs = f"{kind}: the figures differ from those in the certificate"
    return [finding, Finding("measures", False, differs)]


def _not_promised(
    promised: Any, tables: Mapping[str, Any], text: str
) -> dict[str, tuple[str, ...]]:
    """Columns of the tables that no promise is about."""
    about: set[str] = set()
    for told in promised:
        if told["kind"] == "linked-tables":
            about |= {f"{told['person'][0]}.{column}" for column in told["own"]}
            about |= {f"{n}.{c}" for n, columns in told["events"].items() for c in columns}
            about |= {f"{n}.{c}" for n, columns in told["keys"].items() for c in columns}
        elif told["kind"] == "anonymity":
            about |= {f"{told['table']}.{c}" for columns in told["qi"] for c in columns}
    every = [f"{name}.{column}" for name, told in tables.items() for column in told["columns"]]
    remarks = _beside(text, tables)
    return {"remarks": remarks, "columns": tuple(c for c in every if c not in about), "models": ()}
