"""Check a table or a release: replay its certificate, or measure what the user demands.

A certificate is data that anybody may have written. It opens nothing: no file, no address and no
database that it names is ever touched. What it promises is measured again on the table; a promise
that needs another table, k-map, is checked where the user names that table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

from sfumato.budget import Budget, within_budget
from sfumato.columns.persons import require_person
from sfumato.errors import (
    ColumnError,
    InputError,
    ParameterError,
    PromiseError,
    SfumatoError,
    SourceError,
    did_you_mean,
    spell,
)
from sfumato.fields import declares, parameters
from sfumato.files import names_same
from sfumato.hierarchy import Boundaries, Hierarchy, read_folder
from sfumato.keyfiles import public_key
from sfumato.privacy import MODELS, Closeness, DistinctDiversity, Model, column_sets, models_of
from sfumato.privacy.diversity import bin_edges
from sfumato.privacy.models import ModelFields, PromiseFields
from sfumato.release.beside import about_promise, pseudonyms_of
from sfumato.release.certificate import AGAIN, Certificate, certificate_path
from sfumato.release.promise import (
    MEASURED_ELSEWHERE,
    Anonymity,
    Finding,
    Promise,
    class_figures,
    measured_on,
    promise_class,
    promise_from_dict,
)
from sfumato.release.several_releases import combined, stacked
from sfumato.results import Result, plain
from sfumato.tables import Table, table
from sfumato.utility.comparison import boundary_violations
from sfumato.wording import counted, sentence

Trees = str | Path | Mapping[str, Hierarchy]


@dataclass(frozen=True)
class Verification(Result):
    """Whether everything that was checked holds, and what was found.

    Attributes
    ----------
    holds, findings
        Whether all findings hold, and each of them. A promise that could not be checked does not
        hold.
    promised
        What was promised, by the certificate or by whoever asks.
    not_promised
        `columns` of the table that no promise is about, privacy `models` that were not asked, and
        `remarks`: who stands alone by the columns that were kept, and what a promise lets pass.
    signed_by
        The public key that signed the certificate; None where nobody did.
    made
        When, by whom and with which version the release was made, as the certificate says.
    table, certificate
        What was checked.
    """

    passed_on: ClassVar[Mapping[str, str]] = {
        "holds": "one bit, which anybody who has the release can find out",
        "findings": "counted on the released table",
        "table": "the name of the released table",
        "certificate": "the name of its certificate",
        "promised": "part of the certificate",
        "not_promised": "counted on the released table",
        "signed_by": "part of the certificate",
        "made": "part of the certificate",
    }

    holds: bool
    findings: tuple[Finding, ...]
    table: str
    certificate: str | None
    promised: tuple[Mapping[str, Any], ...] = ()
    not_promised: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    signed_by: str | None = None
    made: str | None = None

    @property
    def verdict(self) -> str:
        if self.holds:
            return "Everything that was checked holds."
        broken = any(finding.broken for finding in self.findings)
        return "It does not hold." if broken else "What was promised cannot be checked here."

    @property
    def unpromised(self) -> list[str]:
        """What nobody promised, in a sentence each."""
        told = self.not_promised  # empty where the certificate is broken
        columns, models = told.get("columns", ()), told.get("models", ())
        lines = [f"Nothing is promised about: {', '.join(columns)}."] if columns else []
        lines += [f"Not asked for: {', '.join(models)}."] if models else []
        return lines + [sentence(one) for one in told.get("remarks", ())]

    def stays_at_home(self) -> list[str]:
        """Everything about a table that is no release; else what other tables were read for."""
        if self.certificate is None:
            return list(self.to_dict())
        others = {"input", "combination", "together", *MEASURED_ELSEWHERE}
        kinds = {finding.check for finding in self.findings}
        kinds |= {str(promise["kind"]) for promise in self.promised}
        return ["findings"] if kinds & others else []


@declares(PromiseFields)
@within_budget
def verify(
    source: Any,
    *,
    promises: Sequence[Promise] = (),
    certificate: str | os.PathLike[str] | None = None,
    signer: str | os.PathLike[str] | None = None,
    of: Any = None,
    hierarchies: Trees | None = None,
    others: Sequence[Any] = (),
    row_key: str | None = None,
    other_rows: bool = False,
    boundaries: Mapping[str, Any] | Boundaries | str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
    **asked: Unpack[PromiseFields],
) -> Verification:
    """Check what is asked of a table, or replay the certificate of a release.

    What is asked is said in the words of `sfumato.anonymize`. With other releases of one table,
    what is promised about anonymity must also hold for whoever joins them all. Nothing that a
    certificate names is opened: `population` alone says where the people of its k-map are.

    Parameters
    ----------
    source
        Anything `sfumato.table` opens.
    promises
        What must hold besides; where nothing is asked, the certificate beside the table says it.
    certificate
        The certificate, where it does not lie beside the table.
    signer
        The public key file (``.pub``) of whoever must have signed the certificate.
    of
        The table that the release must have been made of. Only whoever made it can tell: its digest
        is keyed, and the key stayed at home.
    hierarchies
        The folder of trees whose labels the release shows, for k-map.
    others
        Other releases.
    row_key
        The column that links their rows, where they are of the same table, or those of the release
        and of the table it was made of.
    other_rows
        Whether they are of other tables: rows are put one under the other, and those that show the
        same labels are one class.
    boundaries
        How far each value may be blurred at most, or the file that says so. The cells of the
        release are compared with those of `of`.

    Examples
    --------
    >>> import pyarrow as pa, sfumato as sf
    >>> people = pa.table({"age": [20, 20, 30], "ill": ["flu", "gout", "flu"]})
    >>> sf.verify(people, qi=["age"], k=2).holds
    False
    >>> found = sf.verify(people, qi=["age"], k=1)
    >>> found.holds, found.not_promised["columns"]
    (True, ('ill',))
    """
    linked = row_key is not None and (boundaries is None or bool(others))
    if bool(others) != (linked or other_rows) or (row_key is not None and other_rows):
        raise ParameterError(
            "several releases are joined by a row key, or hold other rows, and one of the two must "
            "be said",
            remedy="Name the other releases, and the column that links their rows; or say that "
            f"they are of other tables ({spell('other_rows', True)}).",
        )
    demanded = None if signer is None else public_key(signer)
    opened = table(source, budget=budget)
    trees = _trees(hierarchies, opened)
    people = asked["population"] if set(asked) == {"population"} else None
    if set(asked) <= {"missing", "population"} and "missing" in asked:
        raise ParameterError(
            "how missing values are read goes with what is asked here; a certificate says it for "
            "itself",
            remedy=f"Leave it out, or say what to check, e.g. {spell('k', 5)}.",
        )
    if people is None and asked:
        promises = (*promises, *promised(opened, asked, trees=trees, budget=budget))
    findings = [_checked(promise, opened, budget) for promise in promises]
    place, signed_by, made = None, None, None
    pseudonyms: tuple[str, ...] = ()
    if boundaries is not None:
        findings.append(_within(opened, of, boundaries, trees, row_key))
    if certificate is not None or not (promises or findings):
        place = _certificate_of(opened, source, certificate)
        replayed = _Replay(opened, place, trees, budget)
        findings += replayed.findings(demanded, of, people)
        promises, signed_by = (*promises, *replayed.promises), replayed.signed_by
        made, pseudonyms = replayed.made, replayed.pseudonyms
    elif signer is not None or (of is not None and boundaries is None):
        raise ParameterError(
            "who signed a release, and what it was made of, is said by its certificate",
            remedy=f"Name it, e.g. {spell('certificate', 'out.csv.certificate.json')}.",
        )
    if others:
        findings += _together(opened, others, row_key, promises, budget)
    return Verification(
        holds=all(finding.holds for finding in findings),
        findings=tuple(findings),
        table=opened.name,
        certificate=None if place is None else str(place),
        promised=tuple({"kind": p.kind, **plain(p.to_dict())} for p in promises),
        not_promised=_not_promised(opened, promises, pseudonyms, budget),
        signed_by=signed_by,
        made=made,
    )


def _within(
    opened: Table,
    of: Any,
    boundaries: Mapping[str, Any] | Boundaries | str | os.PathLike[str],
    trees: Mapping[str, Hierarchy],
    row_key: str | None,
) -> Finding:
    """Whether no cell of a release is blurrier than it may be."""
    if of is None:
        raise ParameterError(
            "boundaries say how far the values of a table may be blurred, and the table is missing",
            remedy=f"Name it, e.g. {spell('of', 'people.csv')}.",
        )
    if isinstance(boundaries, Mapping):
        boundaries = Boundaries(boundaries)
    limits = boundaries if isinstance(boundaries, Boundaries) else Boundaries.read(Path(boundaries))
    broken = boundary_violations(of, opened, limits, key=row_key, hierarchies=trees)
    total = sum(broken.values())
    if not total:
        said = "no cell is blurred beyond its boundary"
        return Finding("boundaries", True, said, measured=broken)
    told = ", ".join(f"{many:,} in `{name}`" for name, many in broken.items() if many)
    return Finding(
        "boundaries",
        False,
        f"{counted(total, 'cell', does='are')} blurred beyond {'its' if total == 1 else 'their'} "
        f"boundary: {told}",
        measured=broken,
    )


def _trees(given: Trees | None, opened: Table) -> Mapping[str, Hierarchy]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    return read_folder(given, opened.columns, pass_over=True)


def promised(
    opened: Table,
    asked: Mapping[str, Any],
    *,
    trees: Mapping[str, Hierarchy] | None = None,
    budget: Budget | None = None,
) -> list[Promise]:
    """What parameters ask of a table."""
    declared = parameters(PromiseFields)
    for name in asked:
        if name not in declared:
            raise ParameterError(
                f"there is no parameter `{name}`", remedy=did_you_mean(name, declared)
            )
    told = {n: declared[n].checked(value) for n, value in asked.items() if value is not None}
    sets, sensitive = column_sets(told.pop("qi", ())), told.pop("sensitive", ())
    person, missing = told.pop("person", None), told.pop("missing", "value")
    if person is not None:
        require_person(opened, person, [*(n for names in sets for n in names), *sensitive])
    k, population = told.pop("k_map", None), told.pop("population", None)
    if (k is None) != (population is None):
        example = f"{spell('k_map', 20)} {spell('population', 'voters.parquet')}"
        raise ParameterError(
            "k-map looks people up in a population, and one of the two is missing",
            remedy=f"Give both, e.g. {example}.",
        )
    for columns in (*sets, sensitive):
        opened.require(columns)
    both = {name for columns in sets for name in columns}.intersection(sensitive)
    if both:
        raise ColumnError(
            f"column `{min(both)}` is a quasi-identifier and sensitive at the same time",
            where=opened.name,
            remedy="Leave it in one of the two.",
        )
    promises: list[Promise] = []
    if told or k is None:
        ordered = [column.name for column in opened.schema if column.ordered]
        edges = bin_edges(opened, told)
        models = models_of(told, sensitive=sensitive, ordered=ordered, edges=edges)
        promises.append(Anonymity(models, sets, sensitive, missing, person))
    if k is not None and missing != "value":
        raise ParameterError(
            "k-map finds people by their values, and a missing one is one of these",
            remedy=f"Leave out {spell('missing', missing)}, or k-map.",
        )
    if k is not None:
        people = table(population, budget=budget)
        named = [name for columns in sets for name in columns]
        shown = {name: tree for name, tree in (trees or {}).items() if name in named}
        promises.append(
            promise_class("k-map")(k, sets, people.name, hierarchies=shown, people=people)
        )
    return promises


class _Replay:
    """What a certificate says about a table, checked.

    Promises are measured before anything is believed; `promises` are those that could be read.
    """

    def __init__(
        self, opened: Table, place: Path, trees: Mapping[str, Hierarchy], budget: Budget | None
    ) -> None:
        self.promises: list[Promise] = []
        self.signed_by: str | None = None
        self.made: str | None = None
        self.pseudonyms: tuple[str, ...] = ()
        self._opened, self._place, self._trees, self._budget = opened, place, trees, budget

    def findings(self, signer: str | None, of: Any, people: Any) -> list[Finding]:
        """Everything that was found.

        A damaged certificate is a finding that does not hold; a missing one, or one of another
        form, is an error.
        """
        try:
            record = Certificate.read(self._place)
        except PromiseError as error:
            told = error.what if error.where is None else f"{error.where}: {error.what}"
            return [Finding("certificate", False, told, remedy=error.remedy)]
        self.made = record.maker
        self.pseudonyms = pseudonyms_of(record.body.get("asked", {}))
        found = [Finding("certificate", True, "the certificate is whole"), signed(record, signer)]
        if found[-1].holds and record.signed is not None:
            self.signed_by = str(record.signed["by"])
        try:
            found.append(_same_bytes(self._opened, record.body["output"]))
            if of is not None:
                given = table(of, budget=self._budget)
                found.append(_same_input(record.body["input"]["fingerprint"], given))
                found += of_input(record.body, given) if found[-1].holds else ()
            columns = record.body["input"]["columns"]
            promised = self._promised(record.body["promises"], columns, people)
            return found + promised + self._figures(record.body, promised)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SourceError(
                "the certificate lacks what it must say",
                where=str(self._place),
                remedy=AGAIN,
            ) from error

    def _promised(self, recorded: Any, columns: list[str], people: Any) -> list[Finding]:
        """Each promise as it is measured now; a list that promises nothing does not hold.

        That a column is not there promises something only if the input had it.
        """
        found: list[Finding] = []
        if not isinstance(recorded, list):
            raise TypeError("no list of promises")
        outside = None if people is None else table(people, budget=self._budget)
        for entry in recorded:
            told = dict(entry)
            kind, measured = str(told.pop("kind")), told.pop("measured")
            try:
                promise: Any = promise_from_dict(kind, told)
            except InputError as error:
                found.append(Finding("promises", False, error.what, remedy=error.remedy))
                continue
            if kind in MEASURED_ELSEWHERE:
                promise = promise.with_people(outside, self._trees)
            if _says_something(promise) or kind == "without-columns":
                self.promises.append(promise)
                found += _replayed(promise, measured, self._opened, self._budget)
            else:
                found.append(_nothing_promised(f"the promise `{kind}` of the certificate"))
        left_out = (set(getattr(promise, "columns", ())) for promise in self.promises)
        if not any(map(_columns_of, self.promises)) and not any(map({*columns}.__and__, left_out)):
            found.append(_nothing_promised("the certificate"))
        return found

    def _figures(self, body: Mapping[str, Any], findings: Sequence[Finding]) -> list[Finding]:
        """That the certificate does not fit the table, if it does not."""
        table, sets = self._opened, body.get("qi", ())
        about = [promise for promise in self.promises if isinstance(promise, Anonymity)]
        asked = [*_asked_numbers(body["asked"], self.promises)]
        asked += _asked_meanings(body["asked"], self.promises, {*table.columns})
        named = _asked_columns(body["asked"]) <= {*body["input"]["columns"]}
        differ = [name for name, told in (*asked, ("columns that were asked", named)) if not told]
        actions, columns = body["column_actions"], list(table.columns)
        there = [name for name, action in actions.items() if action != "left out"]
        told = {
            "rows": (body["rows"], body["output"]["rows"]) == (table.rows, table.rows),
            "columns": body["output"]["columns"] == columns and sorted(there) == sorted(columns),
            "quasi-identifiers": all([*map(list, one.qi)] == sets for one in about)
            and {name for names in sets for name in names} <= {*columns},
        }
        if told["quasi-identifiers"] and not any(finding.broken for finding in findings):
            here = all(measured_on(promise, table) for promise in self.promises)
            k, classes = class_figures(sets, findings if here else (), table)
            told |= {"k": body["k"] == k, "classes": body["classes"] == classes}
        differ += [name for name, same in told.items() if not same]
        differ = [*dict.fromkeys(differ)]
        if not differ:
            return []
        said = f"the certificate does not fit the table: {', '.join(differ)}"
        return [Finding("figures", False, said, {"differ": differ}, remedy=AGAIN)]


def _asked_numbers(asked: Mapping[str, Any], promises: Sequence[Any]) -> list[tuple[str, bool]]:
    """The numbers that promises were asked for by, and whether one of these has each of them."""
    models = [model for promise in promises for model in getattr(promise, "models", ())]
    known = {name for model in MODELS for name in model.numbers}
    # a plan for a population may have left out all columns that k is about
    gone = "universe" in asked and {one.kind for one in promises} <= {"without-columns"}
    elsewhere = {"k"} if gone or any(hasattr(one, "follows") for one in promises) else set[str]()
    held: dict[str, list[Any]] = {name: [] for name in known - elsewhere}
    for one in (*models, *promises):
        for name in known | {"k", "beta", "universe"}:
            said = "k_map" if (name, getattr(one, "kind", "")) == ("k", "k-map") else name
            if (number := getattr(one, name, None)) is not None:
                held.setdefault(said, []).append(number)
    return [
        (f"{name} that was asked", asked[name] in numbers)
        for name, numbers in sorted(held.items())
        if name in asked and not isinstance(asked[name], Mapping | None)
    ]


def _asked_columns(asked: Mapping[str, Any]) -> set[str]:
    """The columns of the input by whose names something was asked."""
    names = ("qi", "sensitive", "identifiers", "pseudonyms", "categorical", "person")
    waiting, found = [asked.get(name) for name in names], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.add(one)
        elif isinstance(one, list):
            waiting += one
    return found


def _asked_meanings(
    asked: Mapping[str, Any], promises: Sequence[Any], columns: Set[str]
) -> Iterator[tuple[str, bool]]:
    """What else promises of a table with these columns were asked by, and whether they say it."""
    models = [model for promise in promises for model in getattr(promise, "models", ())]
    if asked.get("sensitive"):
        hidden = [asked["sensitive"]] if isinstance(asked["sensitive"], str) else asked["sensitive"]
        told = {n: v for n, v in asked.items() if n in parameters(ModelFields) and n not in _APART}
        try:
            wanted = models_of(told, sensitive=hidden) if told else ()
            same = {*map(_meaning, wanted)} <= {*map(_meaning, models)}
        except SfumatoError:
            same = False
        yield "models that were asked", same
    distances, bins = asked.get("t_distance"), asked.get("sensitive_bins") or {}
    for one in models:
        if isinstance(one, Closeness) and distances is not None:
            distance = distances.get(one.about) if isinstance(distances, Mapping) else distances
            yield "t_distance that was asked", distance in (None, one.distance)
        if isinstance(one, DistinctDiversity) and one.about in bins:
            yield "sensitive_bins that were asked", len(one.bins) < bins[one.about]
    read = asked.get("missing", "value") == "wildcard"
    known = [{*own} for one in promises if isinstance(one, Anonymity) for own in one.qi]
    known += [{*one.own, *one.events} for one in promises if hasattr(one, "events")]
    for promise in promises:
        if hasattr(promise, "follows"):
            yield "k, beta and universe that were asked", promise.follows(asked)
        if isinstance(promise, Anonymity):
            given = column_sets(asked["qi"]) if asked.get("qi") else ()
            shown = [{*names} & columns for names in given]  # bounds of ranges take other names
            within = (any(names <= others for others in known) for names in shown)
            yield "quasi-identifiers that were asked", all(within)
            yield "missing that was asked", (promise.missing == "wildcard") == read
        if asked.get("measure") is not None and hasattr(promise, "measure"):
            yield "measure that was asked", promise.measure == asked["measure"]
        if asked.get("person") is not None and hasattr(promise, "person"):
            yield "person that was asked", promise.person == asked["person"]
        if asked.get("m") is not None and hasattr(promise, "m"):
            yield "m that was asked", str(asked["m"]) == str(promise.m or "all")


def _meaning(model: Model) -> tuple[str, str | None, str | None]:
    """Which model it is, and of which column."""
    return model.name, getattr(model, "kind", None), model.about


_APART = ("k", "k_map", "population", "t_distance", "sensitive_bins")
"""Of models that are promised by themselves, or made with what only the table tells."""


def _nothing_promised(what: str) -> Finding:
    return Finding(
        "promises",
        False,
        f"{what} promises nothing that could be checked",
        remedy=f"Say what must hold, e.g. {spell('k', 5)} {spell('qi', ['age', 'sex'])}.",
    )


def signed(record: Certificate, demanded: str | None) -> Finding:
    """Who answers for the certificate."""
    if record.signed is None:
        return Finding(
            "signature",
            demanded is None,
            "unsigned: anybody could have written this",
            {"signed": False},
            remedy="Ask for a release that is signed with this key.",
        )
    if not record.is_signed():
        return Finding(
            "signature",
            False,
            "the signature is not one of this certificate",
            remedy="Get both again from where they were made.",
        )
    if demanded is None:
        by = f"signed by {record.signed['by']}; whose key that is, only {_SIGNER} can tell"
        return Finding("signature", True, by)
    same = record.is_signed(demanded)
    return Finding(
        "signature",
        same,
        "signed with the key that was demanded" if same else "signed, but with another key",
        remedy="Ask who made this release, and for that person's public key.",
    )


_SIGNER = "somebody who was handed it by its owner"


def _says_something(promise: Promise) -> bool:
    """Whether a promise is about any column of the table, or about any that must be missing."""
    models = getattr(promise, "models", True)
    if models is not True and not any(getattr(promise, "qi", ())):
        return False  # models are about classes, and there are none without columns
    asks = models or getattr(promise, "k", None)  # of histories k is asked, and models may be
    return bool(asks) and bool(_columns_of(promise) or getattr(promise, "columns", ()))


def _columns_of(promise: Promise) -> set[str]:
    """The columns that something is promised about."""
    if promise.kind == "without-columns":
        return set()
    named = {name for columns in getattr(promise, "qi", ()) for name in columns}
    sensitive = (model.about for model in getattr(promise, "models", ()))
    return {
        *named,
        *(name for name in sensitive if name is not None),
        *getattr(promise, "columns", ()),
        *getattr(promise, "forms", ()),
    }


def _not_promised(
    opened: Table, promises: Sequence[Promise], pseudonyms: Sequence[str], budget: Budget | None
) -> dict[str, tuple[str, ...]]:
    """Columns that nobody promised anything about, models that were not asked, and what follows."""
    about = {name for promise in promises for name in _columns_of(promise)}
    asked = {model.name for promise in promises for model in getattr(promise, "models", ())}
    asked |= {promise.kind for promise in promises}
    told: tuple[str, ...] = ()
    for promise in promises:
        if isinstance(promise, Anonymity) and about >= {*promise.about} - {promise.person}:
            told = about_promise(opened, promise, pseudonyms, budget)[1]
    return {
        "remarks": told,
        "columns": tuple(name for name in opened.columns if name not in about),
        "models": tuple(model.name for model in MODELS if model.name not in asked),
    }


def _together(
    opened: Table,
    others: Sequence[Any],
    row_key: str | None,
    promises: Sequence[Promise],
    budget: Budget | None,
) -> list[Finding]:
    """What is promised about anonymity, checked on all releases joined or one under the other."""
    about = [promise for promise in promises if isinstance(promise, Anonymity)]
    if not about:
        raise ParameterError(
            "nothing was promised that could be checked on several releases",
            where=opened.name,
            remedy=f"Say what must hold, e.g. {spell('k', 5)} {spell('qi', ['age', 'sex'])}.",
        )
    releases = [opened, *(table(other, budget=budget) for other in others)]
    if row_key is None:
        return [stacked(releases, promise, budget)[0] for promise in about]
    findings = []
    for promise in about:
        both, stated = combined(releases, row_key, promise)
        found = stated.check(both, budget)
        findings.append(
            replace(
                found,
                check="combination",
                say=f"{len(releases)} releases joined: {found.say}",
                remedy="Withdraw one of them, or make them from one set of classes.",
            )
        )
    return findings


KINDS = {
    "sha256": "a file's bytes",
    "rows": "rows in memory",
    "postgres-rows": "rows in PostgreSQL",
    "spark-rows": "rows in Spark",
}
"""What fingerprints are made of, by how they begin."""


def _same_bytes(opened: Table, output: Mapping[str, str]) -> Finding:
    promised, found = output["fingerprint"], opened.fingerprint()
    made, here = (str(one).partition(":")[0] for one in (promised, found))
    if made != here == "sha256" and "files" in output:  # they were written by an engine
        promised, made = output["files"], here
    if made != here and made in KINDS:  # nobody can tell: it may be the same
        say = (
            "whether the table is the one that was released was not checked: the certificate has "
            f"the fingerprint of {KINDS[made]}, and this is {KINDS.get(here, here)}"
        )
        remedy = "Verify it where it was released."
        return Finding("fingerprint", False, say, {"not_checked": ["fingerprint"]}, remedy)
    same = found == promised
    return Finding(
        "fingerprint",
        same,
        "the table is the one that was released"
        if same
        else "the table is not the one that was released: its fingerprint differs",
        remedy="Get the released table again, or release this one.",
    )


def _same_input(recorded: str | None, given: Table) -> Finding:
    same = names_same(recorded, given.fingerprint())
    say = {
        True: f"the release was made of {given.name}",
        False: f"the release was not made of {given.name}: the digest of its input differs",
        None: f"whether the release was made of {given.name} was not checked: its digest was made "
        "with another key, which stayed with its maker",
    }[same]
    return Finding(
        "input", bool(same), say, remedy="Ask its maker, or give the table it was made of."
    )


def of_input(body: Mapping[str, Any], given: Table) -> list[Finding]:
    """That the certificate does not fit the table it was made of, if it does not."""
    named = body["input"]["columns"]
    told = {
        "rows left out": body["rows"] + body["suppressed_rows"] == given.rows,
        "columns of the input": named == list(given.columns),
        "what happened to columns": {*given.columns} <= {*body["column_actions"]},
    }
    differ = [name for name, same in told.items() if not same]
    said = f"the certificate does not fit the table it was made of: {', '.join(differ)}"
    return [Finding("figures", False, said, {"differ": differ}, remedy=AGAIN)] if differ else []


def _replayed(
    promise: Promise, measured: Any, opened: Table, budget: Budget | None
) -> list[Finding]:
    """The promise itself, and whether it measures what was measured then."""
    finding = _checked(promise, opened, budget)
    same = plain(finding.measured) == measured
    if same or not measured_on(promise, opened):
        return [finding]
    differs = Finding(
        "measures", False, f"{promise.kind}: the figures differ from those in the certificate"
    )
    return [finding, differs]


def _checked(promise: Promise, opened: Table, budget: Budget | None) -> Finding:
    try:
        return promise.check(opened, budget)
    except ColumnError as error:
        raise ColumnError(
            f"the promise cannot be checked: {error.what}", where=opened.name, remedy=error.remedy
        ) from error


def _certificate_of(opened: Table, source: Any, given: str | os.PathLike[str] | None) -> Path:
    if given is not None:
        return Path(given)
    if isinstance(source, (str, os.PathLike)):
        return certificate_path(source)
    if os.path.exists(opened.name):
        return certificate_path(opened.name)
    raise ParameterError(
        "nothing was said about what to check",
        where=opened.name,
        remedy="Name the certificate, or say what must hold (e.g. k and quasi-identifiers).",
    )
