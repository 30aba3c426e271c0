"""The groups of a release, to be kept by the next one: saved, looked at, applied to other rows.

A recoding is read off the released table: the distinct combinations of labels that it shows, and
nothing besides. Whoever has the release has the recoding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._version import __version__
from sfumato.engines.encoding import codes_of_table
from sfumato.errors import ParameterError, PromiseError, SourceError
from sfumato.fields import checked
from sfumato.files import read_text, write_text
from sfumato.hierarchy import Hierarchy, read_folder
from sfumato.hierarchy.labels import STAR, as_text, mark_of, same_texts, without_marks
from sfumato.privacy import DistinctDiversity
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.label_matching import (
    Reading,
    Tree,
    build_tree,
    cells_of,
    claim_points,
    read_cells,
)
from sfumato.release.promise import Anonymity, Promise, promise_from_dict
from sfumato.release.publish import Release
from sfumato.tables import Table, table
from sfumato.tables.columnar import with_columns
from sfumato.tables.source import is_pandas, is_polars
from sfumato.wording import shown

if TYPE_CHECKING:
    from sfumato.engines.protocol import Codes


FORMAT = 1
"""Version of the file's form."""
_LONGEST = 256 << 20
"""Bytes of a recoding that are read."""
_FIELDS = {"recoding", "sfumato", "release", "trees", "columns", "groups"}
_ENDING = ".certificate.json"


@dataclass(frozen=True, eq=False)
class Holding:
    """Which group holds each entry of a table, and which of its values each label covers.

    `group` is -1 where no group holds the entry.
    """

    group: npt.NDArray[np.int64]
    readings: Mapping[str, Reading]


@dataclass(frozen=True, eq=False)
class Recoding:
    """Groups that a release shows: for each, the label of every quasi-identifier.

    Attributes
    ----------
    columns
        The quasi-identifiers.
    labels
        For each of them the distinct labels, in the order of the table's values.
    groups
        One row a group: the number of its label in each column.
    name
        The release it was read from.
    trees
        Whether labels are nodes of trees that were given: these are needed to apply it.
    released, edges
        Where it was read from a release: its table, and where that cut sensitive numbers into
        ranges, by column and number of ranges asked. Neither is saved.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> january = pa.table({"age": [21, 22, 35, 36], "sex": ["F", "F", "M", "M"]})
    >>> recoding = sf.anonymize(january, qi=["age", "sex"], k=2).recoding
    >>> list(recoding)
    [{'age': '[20, 23)', 'sex': 'F'}, {'age': '[34, 37)', 'sex': 'M'}]
    >>> february = pa.table({"age": [20, 34, 50], "sex": ["F", "M", "M"]})
    >>> recoding.apply(february).to_pydict()
    {'age': ['[20, 23)', '[34, 37)', '*'], 'sex': ['F', 'M', None]}
    """

    columns: tuple[str, ...]
    labels: Mapping[str, tuple[str | None, ...]]
    groups: npt.NDArray[np.int64]
    name: str = "the release"
    trees: bool = False
    released: Table | None = field(default=None, repr=False)
    edges: Mapping[tuple[str, float], tuple[float, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    @checked
    def of(cls, source: Any, qi: Sequence[str] | None = None) -> Recoding:
        """The recoding of a release.

        Parameters
        ----------
        source
            What `sfumato.anonymize` returned; or the released file, or the certificate beside it;
            or with `qi` any table of labels.
        qi
            The columns whose labels make the groups, where no certificate says it.
        """
        if isinstance(source, Release):
            opened = _table_of(source)
            written = () if source.mapping is None else tuple(source.mapping.written)
            name = source.output or "the release"
            found = _read(opened, source.qi, source.asked, written, os.path.basename(name))
            return replace(found, edges=_edges(source.promises, source.asked))
        if qi is not None:
            opened = table(source)
            opened.require(list(qi))
            return _read(opened, (tuple(qi),), {}, (), os.path.basename(opened.name))
        place, record = _beside(source)
        opened = table(str(place))
        if opened.fingerprint() != record.body["output"]["fingerprint"]:
            raise PromiseError(
                "this is not the release that the certificate beside it is about: its fingerprint "
                "differs",
                where=str(place),
                remedy="Get both again from where they were made.",
            )
        actions = record.body["column_actions"]
        written = tuple(name for name, action in actions.items() if action == "recoded")
        sets = tuple(tuple(names) for names in record.body["qi"])
        found = _read(opened, sets, record.body["asked"], written, place.name)
        promises = [
            promise_from_dict(
                Anonymity.kind, {n: v for n, v in told.items() if n not in ("kind", "measured")}
            )
            for told in record.body["promises"]
            if told["kind"] == Anonymity.kind
        ]
        return replace(found, edges=_edges(promises, record.body["asked"]))

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Recoding:
        """Read what `save` wrote; every part of it is checked."""
        where = str(path)
        if os.path.isfile(path) and os.path.getsize(path) > _LONGEST:
            raise _no_recoding(where, f"it is larger than {_LONGEST >> 20} MB")
        try:
            body = json.loads(read_text(path, "the recoding"))
        except (ValueError, RecursionError):
            raise _no_recoding(where, "it is not JSON") from None
        if not isinstance(body, dict) or "recoding" not in body:
            raise _no_recoding(where, "it does not say that it is one")
        if body["recoding"] != FORMAT:
            raise _no_recoding(where, f"it is of another form than {FORMAT}")
        _check(body, where)
        columns = tuple(body["columns"])
        return cls._of_texts(columns, body["groups"], body["release"], body["trees"])

    @classmethod
    def _of_texts(
        cls,
        columns: tuple[str, ...],
        groups: Sequence[Sequence[str | None]],
        name: str,
        trees: bool,
    ) -> Recoding:
        labels, numbers = {}, []
        for at, column in enumerate(columns):
            known = {text: code for code, text in enumerate(dict.fromkeys(g[at] for g in groups))}
            labels[column] = tuple(known)
            numbers.append([known[group[at]] for group in groups])
        name = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
        table_of = np.array(numbers, dtype=np.int64).reshape(len(columns), -1).T
        return cls(columns, labels, np.ascontiguousarray(table_of), name, trees)

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recoding as JSON, a line a group."""
        head = {
            "recoding": FORMAT,
            "sfumato": __version__,
            "release": self.name,
            "trees": self.trees,
            "columns": list(self.columns),
        }
        lines = [json.dumps(list(group.values()), ensure_ascii=False) for group in self]
        text = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
        write_text(Path(path), text + ',\n "groups": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[dict[str, str | None]]:
        for group in self.groups.tolist():
            told = zip(self.columns, group, strict=True)
            yield {column: self.labels[column][label] for column, label in told}

    def __repr__(self) -> str:
        return f"Recoding({len(self):,} groups of {', '.join(self.columns)}, from {self.name})"

    def holding(
        self, entries: Codes, hierarchies: Mapping[str, Hierarchy] | None = None, least: int = 1
    ) -> Holding:
        """The group that holds each entry; of several, the one that covers the fewest values.

        A group that would hold fewer than `least` rows leaves them to the others.
        """
        trees = hierarchies or {}
        readings = {
            name: read_cells(
                name,
                pa.array(self.labels[name], pa.string()),
                entries.values_of(name),
                trees.get(name),
                of_person=False,
            )
            for name in self.columns
        }
        if entries.entries == 0 or len(self) == 0:
            return Holding(np.full(entries.entries, -1, np.int64), readings)
        places = [readings[n].place[entries.column(n)] for n in self.columns]
        points = np.stack(places, axis=1, dtype=np.int32, casting="same_kind")
        breadth = np.zeros(len(self))
        for at, name in enumerate(self.columns):
            share = readings[name].size / max(len(readings[name].place), 1)
            breadth += share[self.groups[:, at]]
        order = np.argsort(breadth, kind="stable")
        weights = entries.row_counts
        tree = Tree(*build_tree(points, weights.astype(float)))
        rows = self.groups[order]
        cells = cells_of(rows, list(readings.values()))
        found = claim_points(cells, points, weights, least, tree)
        return Holding(np.where(found < 0, -1, order[found]), readings)

    @checked
    def apply(
        self, frame: Any, *, hierarchies: str | Path | Mapping[str, Hierarchy] | None = None
    ) -> Any:
        """The rows of a table with the labels of the groups that hold them.

        Rows that no group holds show ``*``, or null in a column whose values stay as they are.
        Nothing is promised about the result: groups may hold fewer rows than those of the release.
        To release it, give the recoding to `sfumato.anonymize`.

        Parameters
        ----------
        frame
            A pandas or polars data frame or an Arrow table; anything else that `sfumato.table`
            opens becomes an Arrow table.
        hierarchies
            The trees that the release was made with, if it was: a folder, or one a column.
        """
        rows = frame
        if not (is_pandas(frame) or is_polars(frame) or isinstance(frame, pa.Table)):
            rows = table(frame).to_arrow()
        opened = table(rows)
        opened.require(list(self.columns))
        entries = codes_of_table(opened.to_arrow().select(list(self.columns)))
        trees = hierarchies
        if trees is not None and not isinstance(trees, Mapping):
            trees = read_folder(trees, opened.columns)
        self.require_trees(trees)
        held = self.holding(entries, trees)
        made = {name: self._cells(held, entries, name, at) for at, name in enumerate(self.columns)}
        return with_columns(rows, made)

    def _cells(self, held: Holding, entries: Codes, name: str, at: int) -> pa.Array:
        """The cells of a column: labels, or the values themselves where all labels are such."""
        inside = pa.array(held.group >= 0)
        label = self.groups[np.maximum(held.group, 0), at] if len(self) else np.zeros(0, np.int64)
        texts = pa.array(self.labels[name], pa.string())
        cells = texts.take(pa.array(label)) if len(self) else pa.nulls(entries.entries, pa.string())
        values = entries.values_of(name).take(pa.array(entries.column(name)))
        if pc.all(pc.or_kleene(pc.invert(inside), same_texts(cells, as_text(values)))).as_py():
            return pc.if_else(inside, values, pa.nulls(len(values), values.type))
        return pc.if_else(inside, cells, STAR)

    def require_trees(self, given: Any) -> None:
        """Refuse to go on without the trees whose nodes the labels are."""
        if self.trees and not given:
            raise ParameterError(
                f"the groups of {self.name} are labelled by trees, and none are given",
                remedy="Name the folder of the trees that it was made with.",
            )


def _edges(
    promises: Sequence[Promise], asked: Mapping[str, Any]
) -> dict[tuple[str, float], tuple[float, ...]]:
    """Where sensitive numbers were cut into ranges, by column and by how many were asked."""
    bins = asked.get("sensitive_bins") or {}
    about = (promise for promise in promises if isinstance(promise, Anonymity))
    models = (model for promise in about for model in promise.models)
    return {
        (model.column, bins[model.column]): model.bins
        for model in models
        if isinstance(model, DistinctDiversity) and model.column in bins
    }


def _table_of(release: Release) -> Table:
    if release.table is not None:
        return release.table
    if release.destination is None:
        raise ParameterError(
            "the rows of this release are not on this machine",
            remedy="Write it where they are, and read the recoding from there.",
        )
    return table(release.destination)


def _beside(source: Any) -> tuple[Path, Certificate]:
    """The released file and its certificate, given either; nothing that it names is opened."""
    if not isinstance(source, (str, os.PathLike)) or "://" in os.fspath(source):
        raise ParameterError(
            "the groups of an earlier release are read from its file or its certificate",
            remedy="Name one of them, or the columns whose labels make the groups.",
        )
    text = os.fspath(source)
    place = Path(text.removesuffix(_ENDING))
    record = Certificate.read(certificate_path(place))
    if not place.exists():
        raise SourceError(
            "the release is not beside its certificate, and its groups are read from it",
            where=shown(place),
            remedy="Put both into one folder, or give the recoding that was saved.",
        )
    return place, record


def _read(
    opened: Table,
    sets: Sequence[tuple[str, ...]],
    asked: Mapping[str, Any],
    written: Sequence[str],
    name: str,
) -> Recoding:
    """The groups that a released table shows."""
    sets = [without_marks(names) for names in sets]
    refuse_unreadable(sets, asked, opened.name)
    columns = tuple(dict.fromkeys(column for names in sets for column in names))
    flags = [mark for mark in map(mark_of, columns) if mark in opened.columns]
    entries = opened.classes((*columns, *flags))
    entries = entries.take(np.lexsort(entries.arrays[::-1]))
    texts = []
    for column in columns:
        values = entries.values_of(column)
        labels = np.array(as_text(values).to_pylist(), dtype=object)[entries.column(column)]
        starred = np.zeros(len(labels), dtype=bool)
        if mark_of(column) in flags:
            code = entries.column(mark_of(column))
            flag = np.array(entries.values_of(mark_of(column)).to_pylist(), dtype=bool)
            starred = flag[code]
        elif column in written:
            missing = np.array([label is None for label in labels.tolist()], dtype=bool)
            # text shows its stars: a column of nothing but nulls had values of another kind
            if opened.column(column).kind != "text" or missing.all():
                starred = missing
        starred |= labels == asked.get("marker", STAR)
        labels[starred] = STAR
        texts.append(labels)
    distinct = dict.fromkeys(zip(*texts, strict=True))
    made = Recoding._of_texts(
        columns, list(distinct), name, isinstance(asked.get("hierarchies"), (str, list))
    )
    return replace(made, released=opened)


def refuse_unreadable(sets: Sequence[Sequence[str]], asked: Mapping[str, Any], where: str) -> None:
    """Refuse a release whose groups cannot be read off what it shows."""
    columns = {column for names in sets for column in names}
    if sets and not any(columns == set(names) for names in sets):
        raise ParameterError(
            f"a recoding is of one set of quasi-identifiers, and this release has {len(sets)}",
            where=where,
            remedy="Release the table with one set.",
        )
    how = asked.get("numbers_as", "range")
    if how == "range" or (isinstance(how, Mapping) and set(how.values()) <= {"range"}):
        return
    raise ParameterError(
        "the release shows numbers in place of ranges, and a number does not tell which rows it "
        "stands for",
        where=where,
        remedy="Release ranges; the next release may show numbers for the same groups.",
    )


def _check(body: Mapping[str, Any], where: str) -> None:
    """Refuse a file that is not exactly what `save` writes."""
    if set(body) != _FIELDS:
        odd = sorted(set(body) ^ _FIELDS)
        raise _no_recoding(where, f"`{odd[0]}` is missing or unknown")
    columns, groups = body["columns"], body["groups"]
    if not isinstance(body["release"], str) or not isinstance(body["trees"], bool):
        raise _no_recoding(where, "`release` must be text and `trees` true or false")
    named = isinstance(columns, list) and all(isinstance(c, str) for c in columns)
    if not named or not columns or len(set(columns)) != len(columns):
        raise _no_recoding(where, "`columns` must be a list of different names")
    if not isinstance(groups, list):
        raise _no_recoding(where, "`groups` must be a list")
    for at, group in enumerate(groups, 1):
        if not isinstance(group, list) or len(group) != len(columns):
            raise _no_recoding(where, f"group {at:,} has not one label for each column")
        if not all(label is None or isinstance(label, str) for label in group):
            raise _no_recoding(where, f"a label of group {at:,} is neither text nor null")


def _no_recoding(where: str, why: str) -> SourceError:
    return SourceError(
        f"this is not a recoding: {why}",
        where=where,
        remedy="Name a file that `sfumato anonymize --save-recoding` or `Recoding.save` wrote.",
    )
