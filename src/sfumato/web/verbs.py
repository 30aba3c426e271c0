"""Questions beside the main road: other verbs, each on a page of its own under its step.

A page asks what the verb must be told, the verb runs as a job, and the page that `report` would
write is shown below the command that repeats it: nothing is computed twice, or otherwise.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.budget import Budget
from sfumato.engines.memory import MemoryEngine
from sfumato.engines.recoding import Recoding
from sfumato.errors import ParameterError, SfumatoError
from sfumato.tables import table
from sfumato.web.choices import Choices
from sfumato.web.kept import Answered, Asked, Version
from sfumato.web.pages import Form, frame, one_line_end, page, post
from sfumato.web.project import Project
from sfumato.wording import counted, for_shell, name_list, phrase

if TYPE_CHECKING:
    from sfumato.web.app import Workbench


Given = Mapping[str, Any]
AS_IT_IS = "the table as it is"
MOST_PREDICTED = 200
"""Values of a column that is predicted: more take a classifier too long."""


@dataclass(frozen=True)
class Around:
    """What questions and verbs can choose from."""

    project: Project
    choices: Choices
    tables: Sequence[Path] = ()
    """Tables that may be opened."""
    versions: Sequence[Version] = ()
    """Releases of this one."""

    @property
    def person(self) -> str | None:
        """The column that says whose rows they are."""
        return self.choices.person or None

    def release(self, name: str) -> Path:
        """Where a release lies."""
        output = next(one.output for one in self.versions if one.name == name)
        return self.project.folder / output


Offer = Callable[[Around], Mapping[str, str]]


@dataclass(frozen=True)
class Question:
    """One field of a form."""

    name: str
    label: str
    kind: Literal["number", "whole", "choice", "columns"]
    usual: Any = None
    """The answer to begin with, or a function of what is around; None: may be left empty."""
    help: str = ""
    least: float = 0
    most: float = 1e12
    offers: Offer | None = None
    """What can be chosen, and how it is said."""
    optional: bool = False
    """Whether none need be ticked."""

    def first(self, around: Around) -> Any:
        """The answer to begin with."""
        return self.usual(around) if callable(self.usual) else self.usual

    def read(self, form: Mapping[str, list[str]], around: Around) -> Any:
        """The answer of a form, checked."""
        texts = form.get(self.name, [])
        if self.kind == "columns":
            ticked = tuple(name for name in self._offered(around) if one_line_end(name) in texts)
            if not ticked and not self.optional:
                raise ParameterError(f"{self.label}: none is ticked", remedy="Tick at least one.")
            return ticked
        text = texts[0] if texts else ""
        if self.kind == "choice":
            chosen = [name for name in self._offered(around) if one_line_end(name) == text]
            if not chosen:
                raise ParameterError(f"{self.label}: choose one of the list")
            return chosen[0]
        text = text.strip()
        if not text and self.usual is None:
            return None
        return self._number(text)

    def _offered(self, around: Around) -> Mapping[str, str]:
        assert self.offers is not None
        return self.offers(around)

    def _number(self, text: str) -> float:
        try:
            number = int(text) if self.kind == "whole" else float(text)
        except ValueError as error:
            kind = "a whole number" if self.kind == "whole" else "a number"
            raise ParameterError(f"{self.label}: this is not {kind}") from error
        if not math.isfinite(number) or not self.least <= number <= self.most:
            raise ParameterError(
                f"{self.label}: this is out of range",
                remedy=f"Give a number from {self.least:,g} to {self.most:,g}.",
            )
        return number


@dataclass(frozen=True)
class Verb:
    """A verb, what it asks, and how it is called."""

    name: str
    """As the command line has it."""
    step: str
    title: str
    says: str
    home: str
    """``module:function`` of the verb."""
    questions: tuple[Question, ...]
    asked: Callable[[Around, Given], dict[str, Any]]
    """Its parameters, from what was answered and what is decided."""
    tables: Callable[[Around, Given], list[Path]] = lambda around, given: []
    """Other tables it takes, after the first."""
    of: Callable[[Around, Given], Path | None] = lambda around, given: None
    """What it is asked of, where that is not the table itself."""
    writes: bool = False
    """Whether it makes releases."""
    keeps: bool = False
    """Whether it can end early with what it has."""
    known: Callable[[Around, Given], dict[str, Callable[[], Any]]] = lambda around, given: {}
    """What only the program that made a release knows, which no command can ask with."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that are not called like the parameter."""
    beside: str = ""
    """The option that names the other table, where it is one."""
    hurried: bool = True
    """Whether it can be stopped on its way."""

    def run(self, around: Around, given: Given, budget: Budget, **more: Any) -> Any:
        """Ask the verb; of a job that has the table for itself."""
        module, _, function = self.home.partition(":")
        verb = getattr(importlib.import_module(module), function)
        known = {name: find() for name, find in self.known(around, given).items()}
        asked = {**self.asked(around, given), **known, **more}
        if self.hurried:
            asked["budget"] = budget
        of = self.of(around, given) or around.project.source
        with _opened([of, *self.tables(around, given)], around.project) as tables:
            for other in tables[1:] if "on" in given else ():
                lacks = [name for name in given["on"] if name not in other.columns]
                if lacks:
                    none = "are no columns" if lacks[1:] else "is no column"
                    raise ParameterError(
                        f"there {none} {phrase(lacks)}",
                        where=Path(given["known"]).name,
                        remedy="Untick what it lacks under “Joined by”, or choose another table.",
                    )
            return verb(*tables, **asked)


@contextmanager
def _opened(places: Sequence[Path], project: Project) -> Iterator[list[Any]]:
    """Tables that are open for a while; that of the project is, as it was read."""
    found: list[Any] = []
    try:
        found.extend(
            project.table if place == project.source else table(str(place)) for place in places
        )
        yield found
    finally:
        for one in found:
            if one is not project.table:
                one.close()


def command_of(verb: Verb, around: Around, given: Given, output: str | None = None) -> str:
    """The command that asks the same."""
    here = around.project.source.parent
    of = verb.of(around, given) or around.project.source
    first, *others = (
        str(place.relative_to(here) if place.is_relative_to(here) else place)
        for place in [of, *verb.tables(around, given)]
    )
    reading = around.project.reading
    words = [
        "sfumato",
        verb.name,
        reading.place(Path(first)) if of == around.project.source else first,
    ]
    for place in others:
        words += [verb.beside, place] if verb.beside else [place]
    for name, value in verb.asked(around, given).items():
        option = verb.options.get(name, f"-{name}" if len(name) == 1 else f"--{name}")
        option = option.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, float):
            words += [option, f"{value:.15g}"]
        elif value not in (None, False, (), {}):
            words += [option, name_list(value) if isinstance(value, tuple) else str(value)]
    if of != around.project.source:  # a release has no column that was left unread
        reading = replace(reading, exclude=())
    if verb.name != "attack":  # which reads two tables alike
        words += reading.options(parsing=True)
    return for_shell(*words, *(["-o", output] if output else []))


# What there is to choose from


def _published(around: Around) -> dict[str, str]:
    """Columns that would not be left out."""
    roles = around.choices.roles
    return {name: name for name in roles if roles[name] != "identifier"}


def _all(around: Around) -> dict[str, str]:
    return {name: name for name in around.choices.roles}


def _known(around: Around) -> tuple[str, ...]:
    """What others may know; everything that is published, where nothing is said to be known."""
    return around.choices.qi or tuple(_published(around))


def _qi(around: Around) -> dict[str, str]:
    return {name: name for name in around.choices.qi}


def _tables(around: Around) -> dict[str, str]:
    return {str(place): place.name for place in around.tables}


def _how(one: Version) -> str:
    return ", ".join(part for part in (one.method, one.demand, one.apart) if part)


def _releases(around: Around) -> dict[str, str]:
    found = {one.name: f"{one.output} ({_how(one)})" for one in around.versions}
    return {**found, "": AS_IT_IS}


def _written(around: Around) -> dict[str, str]:
    return {name: said for name, said in _releases(around).items() if name}


def _or_none(around: Around) -> dict[str, str]:
    return {"": "none", **_published(around)}


def _predicted(around: Around) -> dict[str, str]:
    """Columns that a release shows as they were, and of which a classifier can learn all values."""
    roles = around.choices.roles
    plain = [
        one.name
        for one in around.project.columns
        if roles[one.name] in ("sensitive", "other") and one.values <= MOST_PREDICTED
    ]
    return {"": "none", **{name: name for name in plain}}


def _row_keys(around: Around) -> dict[str, str]:
    """Columns by which every row is told from all others; and the order, unless all were sorted."""
    roles = around.choices.roles
    shown = [c for c in around.project.columns if roles[c.name] in ("sensitive", "other")]
    keys = {c.name: f"by {c.name}" for c in shown if c.unique == 1}
    moved = [one.output for one in around.versions if one.sorted]
    if moved and len(moved) == len(around.versions):
        return keys
    apart = f" (not in {phrase(moved)}: sorted)" if moved else ""
    return {"": f"rows stand in the same order{apart}", **keys}


def _target(around: Around) -> str:
    return around.choices.target if around.choices.target in _predicted(around) else ""


def _last(around: Around) -> str:
    made = around.project.made
    names = [one.name for one in around.versions]
    return made.name if made is not None and made.name in names else next(iter(names), "")


def _place(around: Around, given: Given) -> Path | None:
    return around.release(given["of"]) if given["of"] else None


COLUMNS = Question("columns", "Columns", "columns", _known, "Those that are looked at.",
                   offers=_published)  # fmt: skip
SIZE = Question("max_size", "Columns together, at most", "whole", 3, least=1, most=50)
MEASURES = {
    "key": "tell all rows apart",
    "distinct": "have many different combinations (distinct ratio)",
    "separation": "tell most pairs of rows apart (separation ratio)",
}
RATIOS = {name: said for name, said in MEASURES.items() if name != "key"}
BETA = Question("beta", "Ratio (β)", "number", None, "For a ratio: which share counts.", most=1)


def _keys(around: Around, given: Given) -> dict[str, Any]:
    found = {"columns": given["columns"], "measure": given["measure"]}
    if given["measure"] != "key":
        found["beta"] = 0.9 if given["beta"] is None else given["beta"]
    return {**found, "max_size": given["max_size"], "person": around.person}


def _attacked(around: Around, given: Given) -> dict[str, Any]:
    found = {"on": given["on"], "k": given["k"]}
    trees = around.project.folder / f"{given['of']}.hierarchies"
    if given["of"] and trees.is_dir():
        found["hierarchies"] = str(trees)
    if around.person and (not given["of"] or given["known"] == str(around.project.source)):
        found["person"] = around.person  # which the table itself says; others may not have it
    return found


def _compared(around: Around, given: Given) -> dict[str, Any]:
    pair = tuple(given[name] for name in ("one", "other") if given[name])
    found: dict[str, Any] = {name: given[name] for name in ("target", "row_key") if given[name]}
    if pair:
        found["pair"] = pair
    trees = around.project.folder / f"{given['of']}.hierarchies"
    return {**found, "hierarchies": str(trees)} if trees.is_dir() else found


def _left_out(around: Around, given: Given) -> dict[str, Callable[[], Any]]:
    """Which rows are in a release from which some were left out: known while its maker runs."""
    project, name = around.project, given["of"]
    version = next(one for one in around.versions if one.name == name)
    if given["row_key"] or version.rows == project.rows:
        return {}
    release, engine = project.at_hand(name), project.table.engine
    mapping = None if release is None else release.mapping
    if not isinstance(mapping, Recoding) or not isinstance(engine, MemoryEngine):
        raise ParameterError(
            f"{counted(project.rows - version.rows, 'row')} of the table are not in "
            f"{version.output}, and which is known only of releases made since it was opened",
            remedy="Make it again under Release; or choose a column that differs in every row and "
            "is published, at “Rows are paired”.",
        )
    return {} if mapping.sorted else {"kept": lambda: engine.recoded(mapping)[1]}


def _ratio(around: Around) -> str:
    """Different combinations say nothing about persons with several rows."""
    return "separation" if around.person else "distinct"


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "keys",
            "explore",
            "Which columns are a key together?",
            "All smallest sets of columns that tell rows apart, and the lattice they lie in.",
            "sfumato.quasi.minimal_keys:minimal_keys",
            (
                COLUMNS,
                Question("measure", "Sets that", "choice", "key", offers=lambda _: MEASURES),
                BETA,
                SIZE,
            ),
            _keys,
            keeps=True,
        ),
        Verb(
            "violations",
            "explore",
            "Which columns break k?",
            "The smallest sets of columns by which fewer than k look alike.",
            "sfumato.quasi.violations:violations",
            (
                COLUMNS,
                Question("k", "Alike, at least (k)", "whole", lambda a: a.choices.k, least=2),
                SIZE,
            ),
            lambda around, given: {**given, "person": around.person},
            keeps=True,
        ),
        Verb(
            "uniques",
            "explore",
            "Which rows stand out?",
            "Rows that few columns single out, scored as special uniques (SUDA): how many columns "
            "it takes, and which of them tell most.",
            "sfumato.quasi.uniques:uniques",
            (
                COLUMNS,
                SIZE,
                Question("sampling_fraction", "Share of all people who are in the table", "number",
                         0.01, "For the score of disclosure.", least=1e-9, most=1),
            ),
            lambda around, given: {**given, "person": around.person},
        ),
        Verb(
            "population",
            "risk",
            "Who is alone in the population?",
            "Takes the table as a sample of all people: how many are unique among them, by which "
            "columns, and how many values each column may keep.",
            "sfumato.populations.survey:population",
            (
                Question("universe", "People in the population", "number",
                         lambda a: max(1e6, 100.0 * a.project.rows), least=1),
                Question("qi", "Columns others may know", "columns", _known, offers=_published),
                Question("k", "People a row should match (k)", "whole", 100, least=2),
                Question("beta", "Share that may match fewer (β)", "number", 0.1, least=1e-6,
                         most=0.999),
            ),
            lambda around, given: {**given, "person": around.person},
        ),
        Verb(
            "attack",
            "risk",
            "What would a known table find?",
            "Joins a release, or the table as it is, with a table of people somebody may have, and "
            "counts who is found.",
            "sfumato.populations.attack:attack",
            (
                Question("of", "Attack", "choice", _last, offers=_releases),
                Question("known", "with", "choice", lambda a: str(a.project.source),
                         offers=_tables),
                Question("on", "Joined by", "columns", _known, "Columns that both tables have.",
                         offers=_qi),
                Question("k", "Matches, at least (k)", "whole", lambda a: a.choices.k, least=2),
            ),
            _attacked,
            tables=lambda around, given: [Path(given["known"])],
            of=_place,
        ),
        Verb(
            "utility",
            "release",
            "What is it still good for?",
            "A release beside the table: what a classifier still learns, means and medians before "
            "and after, and how two columns go together.",
            "sfumato.utility.comparison:compare",
            (
                Question("of", "Release", "choice", _last, offers=_written),
                Question("target", "Predict", "choice", _target, offers=_predicted),
                Question("one", "Lay side by side", "choice", "", offers=_or_none),
                Question("other", "and", "choice", "", offers=_or_none),
                Question("row_key", "Rows are paired", "choice", "", offers=_row_keys),
            ),
            _compared,
            known=_left_out,
            tables=lambda around, given: [around.project.source],
            of=_place,
            beside="--of",
            hurried=False,
        ),
        Verb(
            "safe-harbor",
            "release",
            "Safe Harbor",
            "HIPAA’s eighteen identifiers: left out or coarsened by the letter of the law. What "
            "a person must decide is asked.",
            "sfumato.populations.safe_harbor:safe_harbor",
            (
                Question("keep", "Keep as they are", "columns", (), offers=_all, optional=True),
                Question("drop", "Leave out in any case", "columns",
                         lambda a: a.choices.with_role("identifier"), offers=_all, optional=True),
            ),
            lambda around, given: {**given, "sort": around.choices.sort},
            writes=True,
        ),
        Verb(
            "mask",
            "release",
            "Publish fewer columns",
            "Columns that, published exactly as they are, tell rows apart no better than a ratio "
            "allows: as many as a greedy search finds.",
            "sfumato.quasi.mask:mask",
            (
                Question("measure", "Ratio", "choice", _ratio, offers=lambda _: RATIOS),
                Question("beta", "At most (β)", "number", 0.5, least=0, most=1),
                Question("must_publish", "Must be published", "columns", (), offers=_published,
                         optional=True),
            ),
            lambda around, given: {
                **given,
                "must_drop": around.choices.with_role("identifier"),
                "person": around.person,
                "rows_are_people": around.choices.names_published,
                "sort": around.choices.sort,
            },
            writes=True,
            keeps=True,
            options={"must_publish": "--publish", "must_drop": "--drop"},
        ),
    )
}  # fmt: skip
"""All verbs that have a page of their own, by name."""


class Asking:
    """Handlers of the pages of verbs."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def routes(self) -> list[Route]:
        place = "/p/{number}/ask/{verb}"
        return [Route(place, self.show), post(place, self.ask)]

    def show(self, request: Request) -> Response:
        verb = _verb(request)
        project, decided = self.bench.ready(request, verb.name == "attack")
        around = self._around(project, decided.choices)
        answered = project.answers.get(verb.name)
        before = project.unasked.pop(verb.name, None) if answered is None else None
        if before is not None:  # once: whoever stops it wants to ask something else
            with suppress(SfumatoError):
                asked = {name: told for name, told in before.form.items() if name != "write"}
                return self._asked(project, verb, Asked(asked, before.choices))
        changed = [] if answered is None else _changed(answered.by.choices, decided.choices)
        if answered is not None and not changed:
            changed = ["what is asked"] * (answered.asked != verb.asked(around, answered.given))
        given = {one.name: one.first(around) for one in verb.questions}
        if answered is not None:
            then = replace(around, choices=answered.by.choices)
            given |= {
                one.name: answered.given[one.name]
                for one in verb.questions  # what was taken as it was proposed follows decisions
                if answered.given[one.name] != one.first(then)
            }
        offers = {one.name: one.offers(around) for one in verb.questions if one.offers is not None}
        return page("verb.html.j2", **frame(project, decided, verb.step), verb=verb, given=given,
                    offers=offers, answered=answered, changed=changed)  # fmt: skip

    def ask(self, request: Request, form: Form) -> Response:
        verb = _verb(request)
        project, decided = self.bench.ready(request, verb.name == "attack")
        return self._asked(project, verb, Asked(form, decided.choices))

    def _asked(self, project: Project, verb: Verb, by: Asked) -> Response:
        """Let a verb answer, or make its release."""
        around = self._around(project, by.choices)
        given = {one.name: one.read(by.form, around) for one in verb.questions}
        if verb.writes and "write" in by.form:
            return self.bench.start(
                f"Making the release: {verb.title}",
                project,
                "release",
                lambda budget: project.release_by(
                    lambda output: command_of(verb, around, given, output),
                    lambda **more: verb.run(around, given, **more),
                    budget,
                ),
                asked=by,
            )

        def work(budget: Budget) -> None:
            command = "" if verb.known(around, given) else command_of(verb, around, given)
            project.answer(
                verb.name,
                Answered(by, given, verb.asked(around, given), command),
                lambda: verb.run(around, given, budget),
                budget,
            )

        return self.bench.start(verb.title, project, f"ask/{verb.name}", work, verb.keeps, by)

    def _around(self, project: Project, choices: Choices) -> Around:
        versions = [one for one in project.versions() if not one.other]
        return Around(project, choices, self.bench.tables(), versions)


def _changed(then: Choices, now: Choices) -> list[str]:
    """What was decided otherwise when a verb answered; how values are blurred it never asks."""
    same = replace(then, method=now.method, weights=now.weights, levels=now.levels, trees=now.trees)
    return replace(same, suppression_limit=now.suppression_limit, sort=now.sort).differs(now)


def _verb(request: Request) -> Verb:
    found = VERBS.get(request.path_params["verb"])
    if found is None:
        raise HTTPException(404, "There is no such page.")
    return found
