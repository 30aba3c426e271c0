"""One table on the workbench: what runs on it, and what was made of it.

Releases that could be are tried, other verbs are asked, and a release is written beside the table,
with its certificate and the settings that repeat it.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from sfumato.budget import Budget
from sfumato.errors import BudgetError, ParameterError, SfumatoError, SourceError
from sfumato.files import (
    held,
    keep_only,
    names_same,
    read_secret,
    read_unlinked,
    write_secret,
    write_text,
)
from sfumato.hierarchy import Hierarchy
from sfumato.release.certificate import Certificate
from sfumato.release.promise import Finding
from sfumato.release.publish import Release
from sfumato.report.disclosure import counts_of
from sfumato.report.page import Page, body_html, write_page
from sfumato.report.pages.certificate import actions_of, certificate_pdf, certified_release
from sfumato.report.pages.release import release_page
from sfumato.report.registry import page_of
from sfumato.tables import Table, table
from sfumato.web.candidates import Candidate, candidates_from, candidates_to
from sfumato.web.choices import OWN_KEY, Choices, read_choices, write_choices, write_trees
from sfumato.web.hierarchies import MOST_VALUES, Held, inferred
from sfumato.web.kept import (
    Answered,
    Asked,
    Kept,
    Made,
    Version,
    apart_from,
    digest,
    digest_of,
    noted,
    questions_from,
    questions_to,
    size_of,
    version_of,
)
from sfumato.web.opened import OpenTable, Stamp, stamp_of
from sfumato.wording import counting, for_shell

MOST_CANDIDATES = 24
MOST_AT_HAND = 6
"""Releases made of the table as it is read whose rows are kept at hand."""
MOST_OTHER_KS = 6
"""Releases with another k whose rows are kept at hand."""
LATTICE = "lattice"
TRIED, ASKED = "candidates.json", "questions.json"
"""Files of the candidates, and of what other verbs were asked, beside the decisions."""
_MALFORMED = KeyError, TypeError, ValueError, AttributeError
"""What reading a certificate of another form may end in."""
T = TypeVar("T")


@dataclass(eq=False)
class Project(OpenTable):
    """A table that is open, with all that was tried, asked and made."""

    candidates: tuple[Candidate, ...] = ()
    untried: tuple[Choices, ...] = ()
    """What was to be tried as well when that was stopped."""
    made: Made | None = None
    answers: dict[str, Answered] = field(default_factory=dict)
    """The last answer of every other verb."""
    unasked: dict[str, Asked] = field(default_factory=dict)
    """What other verbs were asked on an earlier day, and not yet again."""
    _print: str | None = None
    """The fingerprint of that file, once there are releases to compare with."""
    _lattice: tuple[Choices, Mapping[str, Any]] | None = None
    _at_hand: dict[str, tuple[str, Release]] = field(default_factory=dict)
    """Releases as they were made, with the digests of their certificates."""
    _by_k: tuple[str, dict[int, Release]] = ("", {})
    """What a release would be with other k, by its name."""
    _tried: int = 0
    _unreadable: set[str] = field(default_factory=set)
    """Releases that could not be shown again: they are not tried a second time unasked."""

    def _decided_before(self, opened: Table) -> Choices | None:
        self._recognise(opened)
        return super()._decided_before(opened)

    def _forget(self, another: bool) -> None:
        super()._forget(another)
        if another:
            self.made = None
            self._at_hand.clear()
        self.answers.clear()
        self._lattice = None
        self.candidates, self.unasked = self._tried_before(), self._asked_before()
        self._tried = max((one.number for one in self.candidates), default=0)

    def close(self) -> None:
        """Let go of the table, and of what was tried; see `OpenTable.close`."""
        super().close()
        self.candidates = ()

    def _recognise(self, opened: Table) -> None:
        """Learn what the table is called in certificates; pages are not to wait for that."""
        self._print = opened.fingerprint() if self.versions() else None

    # What is tried

    def try_out(self, tried: Sequence[Choices], budget: Budget) -> None:
        """Rehearse releases and keep their figures for comparison; nothing is written."""
        from sfumato.anonymization.verb import anonymize

        self.untried = ()
        for at, choices in enumerate(tried):
            if at and budget.spent():
                self._stop_trying(tried, at, budget)
                return
            with self._asking(budget):
                release = anonymize(self.table, config=choices.rehearsed(), budget=budget)
            with self._changing:
                self._tried += 1
                others = [old for old in self.candidates if not old.choices.same(choices)]
                new = Candidate.of(self._tried, choices, release)
                self.candidates = (*others, new)[-MOST_CANDIDATES:]
                self._keep_text(TRIED, lambda: candidates_to(self.candidates, self._stamp()))

    def _stop_trying(self, tried: Sequence[Choices], at: int, budget: Budget) -> None:
        """Remember what was not tried; the best of the others is chosen if that was asked for.

        It must promise what was decided: to stop early is no decision to promise less.
        """
        self.untried = tuple(tried[at:])
        wanted = tried[-1]
        found = [
            one
            for one in self.candidates
            if one.choices in tried[:at] and one.choices.promise == wanted.promise
        ]
        if found and budget.stopped_by != "cancelled":
            best = min(found, key=lambda one: one.lost).choices
            self.alter(lambda now: best if now == wanted else now)

    def look_at_lattice(self, choices: Choices, budget: Budget) -> None:
        """Let `full-domain` list its lattice, with what every node of a small one comes to."""
        from sfumato.anonymization.verb import anonymize

        if len(choices.known) > 1:
            raise ParameterError(
                "the lattice is listed for one set of columns, and others may know one of several",
                remedy="Try full-domain under Utility, which finds levels for all of them.",
            )
        wanted = _searched(choices)
        with self._asking(budget):
            request = wanted.rehearsed().overridden({"every_node": True})
            found = anonymize(self.table, config=request, budget=budget)
        if budget.stopped_by == "cancelled":
            raise BudgetError("the work was stopped")
        self._lattice = (wanted, found.details["lattice"])
        self.unasked.pop(LATTICE, None)
        self._keep_questions()

    def asks_lattice_again(self, choices: Choices) -> bool:
        """Whether the lattice was looked at with these decisions on an earlier day; told once."""
        before = self.unasked.get(LATTICE)
        if before is None or _searched(before.choices) != _searched(replace(choices, trees={})):
            return False
        # whoever stops it does not want it again
        return self.unasked.pop(LATTICE, None) is not None

    def lattice_of(self, choices: Choices) -> Mapping[str, Any] | None:
        """The lattice of levels, if it was looked at with these decisions."""
        if self._lattice is None or self._lattice[0] != _searched(choices):
            return None
        return self._lattice[1]

    def _tried_before(self) -> tuple[Candidate, ...]:
        """Candidates of an earlier day, if the table has not changed since."""
        nothing: tuple[Candidate, ...] = ()
        found = self._kept_text(TRIED, lambda text: candidates_from(text, self._stamp()), nothing)
        names = set(self.table.columns)
        return tuple(one for one in found if set(one.choices.roles) == names)

    # What is asked

    def answer(self, name: str, asked: Answered, work: Callable[[], Any], budget: Budget) -> None:
        """Let another verb work on the table, and keep the page of its result."""
        with self._asking(budget):
            found = work()
            if budget.stopped_by == "cancelled":
                raise BudgetError("the work was stopped")
            budget.progress("drawing")
            known: dict[str, Any] = {}
            undecided: tuple[str, ...] = ()
            if isinstance(found, Release):
                worth, person = _judged(asked.by.choices)
                known = {"sensitive": worth, "person": person or None}
                undecided = tuple(found.details.get("undecided", ()))
            with counting(*asked.by.choices.spoken):
                shown = body_html(page_of(found, **known))
        self.answers[name] = replace(asked, shown=shown, undecided=undecided)
        self.unasked.pop(name, None)
        self._keep_questions()

    def _keep_questions(self) -> None:
        """Keep what other verbs were asked, and whether the lattice was looked at."""
        questions = self.unasked | {n: one.by for n, one in self.answers.items()}
        if self._lattice is not None:
            questions[LATTICE] = Asked({}, self._lattice[0])
        self._keep_text(ASKED, lambda: questions_to(questions))

    def _asked_before(self) -> dict[str, Asked]:
        """What other verbs were asked, if it was about these columns."""
        found: dict[str, Asked] = self._kept_text(ASKED, questions_from, {})
        names = set(self.table.columns)
        return {verb: one for verb, one in found.items() if set(one.choices.roles) == names}

    def _keep_text(self, name: str, text: Callable[[], str]) -> None:
        """For another day, where the folder can be written; it is a convenience."""
        self._require_open()
        with suppress(SourceError, OSError):
            self._make_folder()
            with held(self.folder) as home:
                write_text(home / name, text())

    def _kept_text(self, name: str, read: Callable[[str], T], nothing: T) -> T:
        """What an earlier day left, where it can be read."""
        if not os.path.lexists(self.folder):
            return nothing
        try:
            with held(self.folder) as home:
                return read(read_unlinked(home / name, "the file"))
        except (SfumatoError, OSError, ValueError, TypeError, KeyError, AttributeError):
            return nothing

    def _stamp(self) -> list[Any]:
        """By which it is seen that the table's file was changed, or is read otherwise."""
        said = self.reading.said()
        return [*(self._file() or ())[:2], *([said] if said else [])]

    # What is made

    def release_with(self, k: int) -> Release | None:
        """The release that is shown, or what would be with another k, if that was tried."""
        made = self.made
        if made is None or made.choices is None:
            return None
        if k == made.choices.k:
            return made.release
        return self._by_k[1].get(k) if self._by_k[0] == made.name else None

    def try_rows(self, k: int, budget: Budget) -> None:
        """See what the shown release would be with another k; nothing is written."""
        from sfumato.anonymization.verb import anonymize

        made = self.made
        if made is None or made.choices is None:
            raise ParameterError("there is no release to compare with")
        with self._asking(budget):
            request = made.choices.asking(k=k).rehearsed()
            found = anonymize(self.table, config=request, budget=budget)
        known = self._by_k[1] if self._by_k[0] == made.name else {}
        kept = list(known.items())[1 - MOST_OTHER_KS :]
        self._by_k = (made.name, {**dict(kept), k: found})

    def release(
        self, budget: Budget, wanted: Choices | None = None, *, decides: bool = False
    ) -> None:
        """Write the release, its certificate, its settings and its report; then verify it.

        It lies beside earlier ones: only one that was made with the same decisions is replaced.
        It is made as it was `wanted`, whatever was decided while it waited for its turn; what is
        not decided yet is, where that `decides`, once it is made.
        """
        from sfumato.anonymization.verb import anonymize

        with self._asking(budget):
            choices = wanted or self.choices
            self._make_folder()
            with held(self.folder) as home:
                name = self._free_name(home, choices)
                folder = f"{name}.hierarchies"
                # Paths in the file are relative to it, so that the folder can be moved.
                said = self.reading.settings()
                settings = self._repeats(name) + (
                    choices.settings(Path(), folder).overridden(said).to_toml()
                )
                if choices.replaced and not choices.key_file:
                    _make_key(home / OWN_KEY)
                output = home / f"{name}{_ending(self.source)}"
                with _replacing(home / folder) as trees:
                    write_trees(choices.used_trees, trees)
                    release = anonymize(
                        self.table,
                        config=choices.settings(home, folder).overridden(said),
                        output=output,
                        force=True,
                        budget=budget,
                    )
                # A certificate opens nothing: the people of a k-map are named again.
                asked = _matched(choices, home / folder)
                made = Made(name, choices, settings, release, reading=self.reading)
                self._show(home, made, budget, **asked)
            self._recognise(self.table)
            used = replace(choices, trees=choices.used_trees)
            write_choices(used, self.folder, self.source.name, f"{name}.decisions", folder)
        if decides:
            self.decide(choices)

    def release_by(
        self, command: Callable[[str], str], make: Callable[..., Release], budget: Budget
    ) -> None:
        """Write the release of another verb, its certificate, command and report; verify it."""
        with self._asking(budget):
            self._make_folder()
            with held(self.folder) as home:
                name = self._free_name(home, None)
                output = f"{name}{_ending(self.source)}"
                release = make(output=str(home / output), force=True, budget=budget)
                settings = tomli_w.dumps({"command": command(output)})
                made = Made(name, None, settings, release, reading=self.reading)
                self._show(home, made, budget)
            self._recognise(self.table)

    def _show(self, home: Path, made: Made, budget: Budget, **asked: Any) -> None:
        """Verify a release that was just written, show it, and keep what is known of it."""
        from sfumato.release.verify import verify

        self.made = None  # what lies there is no longer what was shown
        self._by_k = ("", {})
        name, release = made.name, made.release
        write_text(home / f"{name}.toml", made.settings)
        budget.progress("verifying what was written")
        output = f"{name}{_ending(self.source)}"
        checked = verify(str(home / output), budget=budget.unhurried(), **asked)
        holds = not any(finding.broken for finding in checked.findings)
        page = self._finish(replace(made, holds=holds), budget)
        write_page(page, home / f"{name}.html", force=True)
        Kept.of(release, self.reading, made.settings).save(home, name, output)
        self._at_hand.pop(name, None)
        self._at_hand[name] = (digest_of(home, output), release)
        while len(self._at_hand) > MOST_AT_HAND:
            del self._at_hand[next(iter(self._at_hand))]

    def at_hand(self, name: str) -> Release | None:
        """A release as it was made, where that was since the table was opened."""
        found = self._at_hand.get(name)
        with held(self.folder) as home, suppress(SfumatoError, OSError):
            if found is not None and found[0] == digest_of(home, f"{name}{_ending(self.source)}"):
                return found[1]
        return None

    def reopen(self, name: str, budget: Budget, tables: Sequence[Path] = ()) -> None:
        """Show a release of an earlier day: files may be changed, so it is measured again.

        Of the tables that its decisions name only `tables` are opened.
        """
        with self._asking(budget):
            self._unreadable.add(name)
            choices = read_choices(self.folder, f"{name}.decisions", f"{name}.hierarchies")
            with held(self.folder) as home:
                settings = read_unlinked(home / f"{name}.toml", "the settings of the release")
                budget.progress("verifying what lies there")
                output = _still_there(home / f"{name}{_ending(self.source)}")
                asked: dict[str, Any] = {}
                if choices is not None and choices.population in map(str, tables):
                    asked = _matched(choices, home / f"{name}.hierarchies")
                release = certified_release(output, self.table, budget=budget, **asked)
                alone = choices is not None and _without_people(release, choices, bool(asked))
                release = alone or release
                holds = not any(finding.broken for finding in release.findings)
                kept = Kept.read(home, name, output.name)
                made = self.at_hand(name)
                if holds and made is not None:
                    told = release.findings if alone else made.findings  # the same bytes
                    release = replace(made, destination=str(output), findings=told)
                elif kept is not None:
                    release = kept.known_to(release)
                if choices is not None and release.mapping is None:
                    trees = {"trees": self._climbed(choices)}
                    release = replace(release, details={**release.details, **trees})
                reading = None if kept is None else kept.reading
                repeats = kept is not None and kept.settings == digest(settings)
                found = Made(name, choices, settings, release, holds, reading=reading)
                self._finish(replace(found, repeats=repeats), budget)
            self._unreadable.discard(name)

    def _climbed(self, choices: Choices) -> dict[str, Hierarchy]:
        """The trees whose labels a release may show; of inferred ones those that can be."""
        found = {name: tree.hierarchy for name, tree in choices.used_trees.items()}
        for name in choices.qi if choices.infers_trees else ():
            values, counts = counts_of(self.table, name)
            if name not in found and len(values) <= MOST_VALUES:
                with suppress(SfumatoError):
                    found[name] = inferred(Held(self.table.column(name), values, counts)).hierarchy
        return found

    def _finish(self, made: Made, budget: Budget) -> Page:
        """Draw the page of a release that was written, and show it."""
        budget.progress("drawing")
        choices, decided = made.choices, made.choices or self.choices
        worth, person = judged = _judged(decided)
        with counting(*decided.spoken):
            page = release_page(made.release, self.table, worth, person or None)
            page = replace(page, beside=[noted(one) for one in page.beside])
        place = str(self.folder / f"{made.name}{_ending(self.source)}")
        same = any(one.name in worth and one.values < 2 for one in self.columns)
        protected = choices is None or choices.protects_sensitive or same
        shared = (one.shared for one in page.lights if one.shared and not protected)
        single = (one.single for one in page.lights if one.single and choices is not None)
        self.made = replace(
            made,
            release=replace(made.release, output=place, destination=place),
            shown=body_html(page),
            shared=next(shared, ()),
            single=next(single, ()),
            seen=self._measured(made.name, choices),
            judged=judged,
        )
        return page

    def _measured(self, name: str, choices: Choices | None) -> tuple[Stamp | None, ...]:
        """The files by which a release is verified, and its settings, as they are now."""
        output = self.folder / f"{name}{_ending(self.source)}"
        places = [output, output.with_name(f"{output.name}.certificate.json")]
        places.append(self.folder / f"{name}.toml")
        if choices is not None and choices.population:
            places.append(Path(choices.population))
        return tuple(map(stamp_of, places))

    def altered(self, made: Made) -> bool:
        """Whether files of a release are not those that were measured."""
        return made.seen != self._measured(made.name, made.choices)

    def outdated(self, made: Made) -> bool:
        """Whether the page of another verb's release judges it by columns decided otherwise now."""
        return made.choices is None and made.judged != _judged(self.choices)

    def _repeats(self, name: str) -> str:
        """The command that repeats a release, as the first line of its settings."""
        place = for_shell(f"{self.folder.name}/{name}.toml")
        ending = _ending(self.source)
        return (
            f"# sfumato anonymize {self.reading.command(self.source)} --config {place} "
            f"-o again{ending}\n"
        )

    def _free_name(self, home: Path, choices: Choices | None) -> str:
        """What the files of a release are called: no other release has this name."""
        made = self.made
        same = made is not None and made.choices == choices and made.reading == self.reading
        if made is not None and choices is not None and same:
            return made.name
        names = ("release" if n == 1 else f"release-{n}" for n in itertools.count(1))
        ending = _ending(self.source)
        return next(name for name in names if not os.path.lexists(home / f"{name}{ending}"))

    def versions(self) -> list[Version]:
        """Releases that lie in the folder, the last one first."""
        if not os.path.lexists(self.folder):
            return []
        found: list[Version] = []
        done: dict[str, Mapping[str, str]] = {}
        ending = _ending(self.source)
        with held(self.folder) as home, counting(*self.choices.spoken):
            for place in home.glob(f"release*{ending}.certificate.json"):
                name = place.name.removesuffix(f"{ending}.certificate.json")
                if not re.fullmatch(r"release(-\d+)?", name) or place.is_symlink():
                    continue
                with suppress(SfumatoError, OSError, *_MALFORMED):
                    output = f"{name}{ending}"
                    kept = Kept.read(home, name, output)
                    body = Certificate.read(place).body
                    other = self._print and names_same(body["input"]["fingerprint"], self._print)
                    changed = kept is None or kept.size != size_of(home / output)
                    one = version_of(name, output, body, kept, changed)
                    done[name] = actions_of(body) if "column_actions" in body else {}
                    found.append(replace(one, other=other is False))
        found = [replace(one, apart=apart_from(one, found, done)) for one in found]
        return sorted(found, key=lambda one: -int(one.name.partition("-")[2] or 1))

    def certificate_pdf(self, version: Version) -> bytes:
        """The certificate of a release as a PDF."""
        with held(self.folder) as home:
            found = Certificate.read(home / f"{version.output}.certificate.json")
            with table(str(_still_there(home / version.output))) as released:
                if released.fingerprint() != found.body["output"]["fingerprint"]:
                    raise ParameterError(
                        f"{version.output} is not what its certificate is about any more",
                        remedy="Make the release again.",
                    )
            return certificate_pdf(found)

    def latest(self) -> str | None:
        """The release to show where none was made yet: the last one that can be shown."""
        found = (one for one in self.versions() if not one.other)
        return next((one.name for one in found if one.name not in self._unreadable), None)

    def files(self, name: str | None = None) -> list[Path]:
        """What can be taken away: a release and what belongs to it; by default, the shown one."""
        if name is None and self.made is None:
            return []
        name = name or (self.made.name if self.made is not None else "")
        output = f"{name}{_ending(self.source)}"
        names = [output, f"{output}.certificate.json", f"{name}.toml", f"{name}.html"]
        places = [self.folder / name for name in names]
        places += sorted((self.folder / f"{name}.hierarchies").glob("*.csv"))
        return [place for place in places if place.is_file() and not place.is_symlink()]


def _judged(choices: Choices) -> tuple[tuple[str, ...], str]:
    """By what a release is judged: columns worth hiding, and the column that names persons."""
    return choices.with_role("sensitive"), choices.person


def _still_there(output: Path) -> Path:
    """The file of a release, unless somebody took it away."""
    if not output.is_file():
        raise SourceError(
            "the file of this release is not there any more",
            where=output.name,
            remedy="Put it back, or make the release again.",
        )
    return output


def _ending(source: Path) -> str:
    """The format a release is written in: that of the table, uncompressed."""
    for ending in (".parquet", ".arrow", ".tsv"):
        if ending in source.suffixes:
            return ending
    return ".csv"


def _matched(choices: Choices, trees: Path) -> dict[str, Any]:
    """What it takes to verify a k-map: the people, and the trees whose labels are shown."""
    if choices.k_map is None or not choices.population:
        return {}
    found: dict[str, Any] = {"population": choices.population}
    return {**found, "hierarchies": str(trees)} if choices.used_trees else found


def _without_people(release: Release, choices: Choices, here: bool) -> Release | None:
    """A release of which a k-map cannot be checked again: the people are not at hand, or are others
    now. None where it was checked.
    """
    matched = next((f for f in release.findings if f.check == "k-map"), None)
    if matched is None or (here and not matched.unchecked):
        return None
    asked, people = f"k-map = {choices.k_map}", Path(choices.population).name
    said = f"{asked}, without {people}, which is not here"
    if here:
        said = f"{asked}, because {people} is another table now than when the release was made"
    found = Finding("k-map", True, f"not checked: {said}", {"not_checked": [said]})
    return replace(release, findings=tuple(found if f is matched else f for f in release.findings))


def _make_key(place: Path) -> None:
    """Make a key that only its owner can read, where there is none."""
    if os.path.lexists(place):
        read_secret(place, "the key of the pseudonyms", follow=False)
    else:
        write_secret(place, f"{secrets.token_hex(32)}\n".encode())


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A folder whose files are replaced; where nothing comes of it they are as they were."""
    before = _texts(folder) if os.path.lexists(folder) else {}
    try:
        yield folder
    except BaseException:
        if os.path.lexists(folder):
            keep_only(folder, list(before), ".csv")
            with held(folder) as place:
                for name, content in before.items():
                    write_text(place / name, content)
            if not before:
                with suppress(OSError):
                    folder.rmdir()
        raise


def _texts(folder: Path) -> dict[str, str]:
    """What the trees in a folder say; links are left alone."""
    with held(folder) as place:
        names = [p.name for p in place.glob("*.csv") if not p.is_symlink()]
        return {name: read_unlinked(place / name, "the tree") for name in names}


def _searched(choices: Choices) -> Choices:
    """The same by full-domain recoding that is free to choose all levels."""
    return replace(choices, method="full-domain", levels={})
