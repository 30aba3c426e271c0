"""What is asked of `anonymize`: one object, from Python, from a TOML file, or from both.

`RequestFields` declares every parameter once; a file uses the same names. What is said in Python or
on the command line comes before what the file says. A certificate can be read in place of a file:
it repeats the release it lies beside.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w

from sfumato.anonymization.actions import check_actions, key_of
from sfumato.anonymization.registry import BLURRING, METHODS, Method, MethodFields
from sfumato.anonymization.workload import QueryLog
from sfumato.budget import Budget
from sfumato.columns.persons import require_person
from sfumato.errors import ColumnError, InputError, ParameterError, SourceError, did_you_mean, spell
from sfumato.fields import Columns, Field, Weights, fitted, parameters
from sfumato.files import read_text
from sfumato.hierarchy import Boundaries, Hierarchy, read_folder
from sfumato.keyfiles import pseudonym_key
from sfumato.privacy import Model, column_sets, models_of
from sfumato.privacy.diversity import bin_edges
from sfumato.privacy.models import COLUMNS, PromiseFields
from sfumato.release import Release
from sfumato.release.certificate import certificate_path
from sfumato.release.recoding import Recoding
from sfumato.tables import Table, table
from sfumato.wording import shown

WRITING = "Writing the release"
NumbersAs = Literal["range", "mean", "median", "middle", "bounds"]
"""What stands for the numbers of a class."""


class RequestFields(PromiseFields, MethodFields, total=False):
    """Everything that decides a release except the table."""

    identifiers: Annotated[
        Columns, Field("Columns to leave out.", COLUMNS, "--identifiers", "A,B,…")
    ]
    pseudonyms: Annotated[
        Columns,
        Field(
            "Columns to replace by pseudonyms, the same in every table.",
            COLUMNS,
            "--pseudonyms",
            "A,B,…",
        ),
    ]
    key_file: Annotated[
        str | Path | None,
        Field(
            "The secret key for pseudonyms and shifted dates.",
            COLUMNS,
            "--key-file",
            "FILE",
            file=True,
        ),
    ]
    rows_are_people: Annotated[
        bool,
        Field(
            "Release the table although a column seems to name persons: every row counts as one.",
            COLUMNS,
            "--rows-are-people",
            default=False,
        ),
    ]
    categorical: Annotated[
        Columns,
        Field(
            "Columns whose numbers are codes: they become sets of values, never ranges.",
            COLUMNS,
            "--categorical",
            "A,B,…",
        ),
    ]
    linkable: Annotated[
        bool,
        Field(
            "Keep histories whole: publish the person as a pseudonym, and promise (k, m).",
            COLUMNS,
            "--linkable",
            default=False,
        ),
    ]
    m: Annotated[
        int | str | None,
        Field(
            "With --linkable: how many rows of a person an attacker may know; a number, or all.",
            COLUMNS,
            "-m",
            "N|all",
            what="a whole number, or all",
        ),
    ]
    repeats: Annotated[
        Literal["keep", "once"],
        Field(
            "With --linkable: keep all rows of a person that look alike, or show them once, which "
            "hides how many there are and blurs less.",
            COLUMNS,
            "--repeats",
            default="keep",
        ),
    ]
    shift_dates: Annotated[
        bool,
        Field(
            "First move all dates of a person by one secret number of days; this is not a promise.",
            COLUMNS,
            "--shift-dates",
            default=False,
        ),
    ]
    shift_days: Annotated[
        int,
        Field(
            "By how many days at most, either way; 365 by default.",
            COLUMNS,
            "--shift-days",
            "N",
            default=365,
            counts=False,
        ),
    ]
    parse: Annotated[
        Mapping[str, str] | None,
        Field(
            "Text columns to read as dates or numbers, by column: date, date:dmy, date:mdy, "
            "number, number:comma or number:point.",
            COLUMNS,
            "--parse",
            "COLUMN=KIND",
        ),
    ]
    unparsed: Annotated[
        Literal["stop", "null"],
        Field(
            "What to do with cells that do not parse: stop, or count them and make them null.",
            COLUMNS,
            "--unparsed",
            "stop|null",
            default="stop",
        ),
    ]
    columns: Annotated[
        Mapping[str, Mapping[str, Any]] | None,
        Field(
            "Actions on single columns, done first: top, bottom, round, recode, drop, pseudonym; "
            'e.g. {"age": {"top": 90, "round": 5}}.',
            COLUMNS,
        ),
    ]
    method: Annotated[
        str,
        Field(
            "How to get there; mondrian by default.",
            BLURRING,
            "--method",
            "NAME",
            default="mondrian",
        ),
    ]
    weights: Annotated[
        Weights | None,
        Field(
            "Importance of precision by column (with cells the price of a star), 1 by default; or "
            "a TOML file with a table of them.",
            BLURRING,
            "--weights",
            "A=2,B=0.5",
        ),
    ]
    workload: Annotated[
        str | Path | Sequence[str] | QueryLog | None,
        Field(
            "SQL queries or predicates the release will have to answer: they set weights and cuts.",
            BLURRING,
            "--workload",
            "FILE",
            what="a file or a list of queries",
            file=True,
        ),
    ]
    hierarchies: Annotated[
        str | Path | Mapping[str, Hierarchy] | None,
        Field(
            "A folder of generalization trees, one COLUMN.csv each; missing ones are inferred. "
            "Without a folder columns become ranges and sets of values.",
            BLURRING,
            "--hierarchies",
            "FOLDER",
            what="a folder",
            file=True,
        ),
    ]
    infer_hierarchies: Annotated[
        bool,
        Field(
            "Whether columns without a tree in the folder get one, or become ranges and sets.",
            BLURRING,
            "--infer-hierarchies/--given-hierarchies",
            default=True,
        ),
    ]
    boundaries: Annotated[
        str | Path | Mapping[str, Mapping[str, Any]] | Boundaries | None,
        Field(
            "How far values may be blurred at most (TOML).",
            BLURRING,
            "--boundaries",
            "FILE",
            what="a file or a table",
            file=True,
        ),
    ]
    like: Annotated[
        str | Path | Release | None,
        Field(
            "An earlier release, or its certificate: keep its settings and groups, and promise the "
            "same for both together.",
            BLURRING,
            "--like",
            "CERTIFICATE",
            what="a released file, its certificate or a release",
            file=True,
        ),
    ]
    recoding: Annotated[
        str | Path | Recoding | None,
        Field(
            "The saved groups of an earlier release, to keep.",
            BLURRING,
            "--recoding",
            "FILE",
            what="a file or a recoding",
            file=True,
        ),
    ]
    parts: Annotated[
        int | None,
        Field(
            "Solve the table in about N independent parts, at most one per 100 rows (with k-map, "
            "rows and people). This is automatic if the combinations do not fit in memory.",
            BLURRING,
            "--parts",
            "N",
        ),
    ]
    numbers_as: Annotated[
        NumbersAs | Mapping[str, NumbersAs],
        Field(
            "What to show for the numbers and dates of a class: the range as text, the mean, "
            "median or middle as a number or date, or the bounds in two columns; for all columns "
            "or by column.",
            WRITING,
            "--numbers-as",
            "range|mean|median|middle|bounds",
            default="range",
            what="range, mean, median, middle or bounds, or a table of them",
        ),
    ]
    exact_ends: Annotated[
        bool,
        Field(
            "Whether ranges end at the smallest and largest value of their class or at round "
            "numbers and dates (default). Ranges from trees, such as those full-domain infers, "
            "end where the tree says.",
            WRITING,
            "--exact-ends/--round-ends",
            default=False,
        ),
    ]
    sort: Annotated[
        bool,
        Field(
            "Sort rows by the cells of the release, so that their order gives nothing away. "
            "Without it they keep the order of the table, which may give away what was blurred.",
            WRITING,
            "--sort",
            default=False,
        ),
    ]
    suppressed_as: Annotated[
        Literal["typed", "text"],
        Field(
            "Whether a star in a column of numbers is null (typed), or makes the column text.",
            WRITING,
            "--suppressed-as",
            "typed|text",
            default="typed",
        ),
    ]
    seed: Annotated[
        int,
        Field(
            "Same table and same seed: same release, to the byte; 0 by default.",
            "",
            "--seed",
            "N",
            default=0,
            counts=False,
        ),
    ]


_DECLARED = parameters(RequestFields)
_OPTIONS = frozenset(parameters(MethodFields))


@dataclass(frozen=True)
class Request:
    """What is asked, checked; parameters are attributes, with their defaults where not given.

    Attributes
    ----------
    values
        What was given and differs from the defaults.
    models
        What must hold, once the request was opened with a table.
    key
        The key of pseudonyms, then too.
    asked
        The request as the user gave it; certificates record it.

    Examples
    --------
    >>> mine = Request.of({"qi": ["age", "sex"], "k": 5, "relaxed": True})
    >>> mine.qi, mine.options, mine.method
    ((('age', 'sex'),), {'relaxed': True}, 'mondrian')
    >>> print(Request.of({"k": 5, "target": "ill"}).to_toml(), end="")
    k = 5
    target = "ill"
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[Model, ...] = field(default=(), compare=False)
    key: bytes | None = field(default=None, compare=False, repr=False)
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    unopened: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _DECLARED:
            raise AttributeError(name)
        return self.values.get(name, _DECLARED[name].default)

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str | None = None) -> Request:
        """A request from parameters, options of the method among them.

        Raises
        ------
        ParameterError
            If a name is unknown or a value has the wrong type; `where` says in which file.
        """
        named = str(_DECLARED["method"].checked(given.get("method")))
        if named not in METHODS:
            raise ParameterError(
                f"there is no method `{named}`", remedy=did_you_mean(named, METHODS)
            )
        chosen = METHODS[named]
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in _DECLARED or (name in _OPTIONS and name not in chosen.options):
                raise _unknown(name, chosen, where)
            checked = _DECLARED[name].checked(value, where)
            if value is not None and (name in _OPTIONS or _DECLARED[name].differs(checked)):
                values[name] = checked
        return cls({name: values[name] for name in _DECLARED if name in values})

    @classmethod
    def read(cls, path: str | Path) -> Request:
        """A request from a TOML file, or from the certificate of a release.

        Paths in the file are relative to it.
        """
        if not isinstance(path, (str, Path)):
            raise ParameterError(
                "`config` must be a settings file or the certificate of a release",
                remedy=f"It is {type(path).__name__} now.",
            )
        place = Path(path)
        text = read_text(path, "the configuration")
        try:
            if place.suffix == ".json":
                return cls._repeated(json.loads(text), str(path))
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SourceError(
                f"this is not TOML: {error}",
                where=str(path),
                remedy='Write e.g. k = 5 and qi = ["age", "sex"]; '
                "`sfumato anonymize --write-config` makes one.",
            ) from None
        except (ValueError, KeyError, TypeError):
            raise SourceError(
                "this is not a certificate of `anonymize`",
                where=str(path),
                remedy="Give a TOML file, or the .certificate.json beside a release.",
            ) from None
        for name, one in _DECLARED.items():
            if one.field.file and isinstance(content.get(name), str):
                content[name] = str(place.parent / content[name])
        if not isinstance(content.get("population", ""), str):
            raise ParameterError(
                "`population` must be a path",
                where=str(path),
                remedy='Write e.g. population = "voters.parquet".',
            )
        return cls.of(content, str(path))

    @classmethod
    def starting(
        cls, config: str | Path | Request | None, like: Any = None, saved: Any = None
    ) -> Request:
        """What is asked before anything is said: by a file, else as of the release to be like."""
        if like is not None and saved is not None:
            raise ParameterError(
                "the groups to keep are named twice",
                remedy="Name the earlier release or the saved recoding.",
            )
        if isinstance(config, Request):
            return config
        if config is not None:
            return cls.read(config)
        if isinstance(like, Release):
            return cls._repeated({"method": like.method, "asked": like.asked}, "the release")
        if like is None:
            return cls()
        _DECLARED["like"].checked(like)
        again = cls.read(certificate_path(str(like).removesuffix(".certificate.json")))
        unopened = tuple(name for name in again.unopened if name not in ("like", "recoding"))
        return replace(again, unopened=unopened)

    @classmethod
    def _repeated(cls, record: Mapping[str, Any], where: str) -> Request:
        """The request that a certificate records."""
        asked = {name: value for name, value in record["asked"].items() if value is not None}
        if record["method"] not in METHODS:
            raise ParameterError(
                f"this is the certificate of `{record['method']}`, not of a method of anonymize",
                where=where,
                remedy="Give the certificate of a release that `sfumato anonymize` made.",
            )
        if not isinstance(asked.get("hierarchies", ""), str):
            raise ParameterError(
                "the release was made with hierarchies that were given in Python",
                where=where,
                remedy="Give them again, or use a folder of files.",
            )
        recoded = [
            name for name, how in asked.get("columns", {}).items() if how.get("recode", "") is None
        ]
        if recoded:
            raise ParameterError(
                f"the release was made with recodings of {', '.join(recoded)}, which a certificate "
                "does not repeat",
                where=where,
                remedy="Use the TOML file that `--write-config` wrote.",
            )
        # A certificate opens nothing: whoever repeats the release names its files again.
        files = tuple(n for n in asked if _DECLARED[n].field.file and isinstance(asked[n], str))
        kept = {name: value for name, value in asked.items() if name not in files}
        return replace(cls.of({"method": record["method"], **kept}), unopened=files)

    def overridden(self, given: Mapping[str, Any]) -> Request:
        """The same with other values for what is given; weights and columns are merged."""
        given = {name: value for name, value in given.items() if value is not None}
        if "method" in given:
            given["method"] = fitted("`method`", given["method"], str)
        if not given:
            return self
        own = dict(self.values)
        if given.get("method", self.method) != self.method:  # options belong to their method
            own = {name: value for name, value in own.items() if name not in _OPTIONS}
        for name in ("weights", "columns", "parse"):
            if isinstance(given.get(name), Mapping):
                given[name] = {**own.get(name, {}), **given[name]}
        again = tuple(name for name in self.unopened if name not in given)
        return replace(Request.of({**own, **given}), unopened=again)

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, as plain values that `of` understands.

        Hierarchies that were given as objects cannot be written down; their columns are named.
        """
        told = {name: _plain(value) for name, value in self.values.items()}
        if self.population is not None:
            told["population"] = _name_of(self.population)
        if isinstance(self.boundaries, Boundaries):
            told["boundaries"] = _plain(self.boundaries.columns)
        if isinstance(self.hierarchies, Mapping):
            told["hierarchies"] = sorted(self.hierarchies)
        if isinstance(self.like, Release):
            told["like"] = self.like.output or "a release"
        if isinstance(self.recoding, Recoding):
            told["recoding"] = self.recoding.name
        return told

    def to_toml(self) -> str:
        """The request as a file that `read` understands."""
        try:
            return tomli_w.dumps(self.to_dict())
        except TypeError:
            raise InputError(
                "a parameter cannot be written as TOML", remedy="Give plain values."
            ) from None

    @property
    def options(self) -> dict[str, Any]:
        """What only the method understands."""
        return {name: value for name, value in self.values.items() if name in _OPTIONS}

    @property
    def chosen(self) -> Method:
        """The method."""
        return METHODS[self.method]

    @property
    def qi_columns(self) -> tuple[str, ...]:
        """All quasi-identifiers, each once, in the order given."""
        return tuple(dict.fromkeys(name for names in self.qi for name in names))

    @property
    def actions(self) -> dict[str, Mapping[str, Any]]:
        """By column, what is done to its values before anything else."""
        gone = {*self.dropped, *self.replaced}
        return {name: actions for name, actions in self.columns.items() if name not in gone}

    @property
    def shows(self) -> dict[str, str]:
        """By quasi-identifier, the numbers shown in place of ranges, of an opened request."""
        given = self.numbers_as if isinstance(self.numbers_as, Mapping) else {}
        return {name: how for name, how in given.items() if how != "range"}

    @property
    def dropped(self) -> tuple[str, ...]:
        """Columns that are left out of the release; the person's is one of them."""
        marked = self._marked("identifiers", "drop")
        if self.person is None or self.linkable:
            return marked
        return tuple(dict.fromkeys((*marked, self.person)))

    @property
    def replaced(self) -> tuple[str, ...]:
        """Columns whose values are replaced by pseudonyms; a linked person is one of them."""
        marked = self._marked("pseudonyms", "pseudonym")
        if self.person is None or not self.linkable:
            return marked
        return tuple(dict.fromkeys((*marked, self.person)))

    def key_of(self, name: str) -> bytes:
        """The key of the pseudonyms of a column; its own where it is said what the values are."""
        assert self.key is not None
        meaning = self.meaning(name)
        return self.key if meaning is None else key_of(self.key, meaning)

    def meaning(self, name: str) -> str | None:
        """What the values of a column of pseudonyms are, if that is said."""
        said = self.columns.get(name, {}).get("pseudonym")
        return said if isinstance(said, str) else None

    @property
    def known_rows(self) -> int | None:
        """Rows of a person that may be known of a linkable release; None means all of them."""
        return None if self.m == "all" else int(self.m)

    def _marked(self, named: str, action: str) -> tuple[str, ...]:
        marked = [name for name, actions in self.columns.items() if actions.get(action)]
        return tuple(dict.fromkeys((*getattr(self, named), *marked)))

    @property
    def trees(self) -> Mapping[str, Hierarchy]:
        """Trees of quasi-identifiers, once the request was opened."""
        given: Mapping[str, Hierarchy] = self.hierarchies or {}
        return given

    @property
    def infers_trees(self) -> bool:
        """Whether columns without a tree get one."""
        return self.chosen.needs_trees or (
            self.hierarchies is not None and bool(self.infer_hierarchies)
        )

    def opened(self, source: Table, budget: Budget | None = None) -> Request:
        """The same with its files read, its models made, and its columns found in a table.

        A population is a table like the other: the limits of the budget are its own, too.
        """
        if self.unopened:
            example = spell(self.unopened[0], "…")
            raise ParameterError(
                f"the certificate names {' and '.join(self.unopened)}, and a certificate opens "
                "nothing",
                remedy=f"Say where that is: {example}.",
            )
        groups = self._groups()
        if groups is not None and not self.qi:
            return replace(self._with(qi=(groups.columns,)), unopened=()).opened(source, budget)
        sets = column_sets(self.qi)
        if self.columns:
            check_actions(source, self.columns)
        trees = _trees(self.hierarchies, source, [*self.qi_columns, *self.sensitive])
        boundaries = self.boundaries
        if boundaries is not None and not isinstance(boundaries, Boundaries):
            inline = isinstance(boundaries, Mapping)
            boundaries = Boundaries(boundaries) if inline else Boundaries.read(boundaries)
        told = {
            "qi": sets,
            "numbers_as": self._shown_numbers(source),
            "boundaries": boundaries,
            "workload": None if self.workload is None else QueryLog.of(self.workload),
            "population": None
            if self.population is None
            else table(self.population, budget=budget),
            "recoding": groups,
            "hierarchies": None
            if self.hierarchies is None
            else {name: tree for name, tree in trees.items() if name not in self.sensitive},
        }
        ordered = [column.name for column in source.schema if column.ordered]
        record = self if boundaries is None else self._with(boundaries=boundaries)
        request = replace(
            self._with(**told),
            models=models_of(
                self.values,
                sensitive=self.sensitive,
                ordered=ordered,
                hierarchies=trees,
                edges=self._edges(source, groups),
            ),
            key=pseudonym_key(self.key_file)
            if self.key_file and (self.replaced or self.shift_dates)
            else None,
            asked=record.to_dict(),
        )
        request._check(source)
        return request

    def _edges(self, source: Table, groups: Recoding | None) -> dict[str, tuple[float, ...]]:
        """Where ranges of sensitive numbers end: where they did before, if as many are asked."""
        asked = self.values.get("sensitive_bins") or {}
        earlier = {} if groups is None else groups.edges
        kept = {name: earlier[name, n] for name, n in asked.items() if (name, n) in earlier}
        left = {name: bins for name, bins in asked.items() if name not in kept}
        if not left:
            return kept
        return {**bin_edges(source, {**self.values, "sensitive_bins": left}), **kept}

    def _groups(self) -> Recoding | None:
        """The groups of an earlier release that are to be kept."""
        if self.like is not None:
            return Recoding.of(self.like)
        if isinstance(self.recoding, str):
            return Recoding.load(self.recoding)
        found: Recoding | None = self.recoding
        return found

    def _shown_numbers(self, source: Table) -> dict[str, str]:
        """By quasi-identifier, what stands for its numbers; columns of text have none."""
        line = [c.name for c in source.schema if c.ordered and c.name not in self.categorical]
        given = self.numbers_as
        if isinstance(given, str):
            return {name: given for name in self.qi_columns if name in line}
        for name in given:
            source.require([name])
            if name not in line or name not in self.qi_columns:
                raise ColumnError(
                    f"column `{name}` is not a quasi-identifier with numbers or dates, so no "
                    "number can stand for its classes",
                    where=source.name,
                    remedy=did_you_mean(name, [n for n in self.qi_columns if n in line]),
                )
        return dict(given)

    def _with(self, **values: Any) -> Request:
        """The same with other values, which are right."""
        kept = {**self.values, **values}
        return replace(self, values={n: v for n, v in kept.items() if v is not None})

    def about(self, sets: Sequence[tuple[str, ...]]) -> Request:
        """The part of an opened request that is about some of the sets."""
        names = {name for columns in sets for name in columns}
        bounds = self.boundaries
        if bounds is not None:
            inside = {name: rule for name, rule in bounds.columns.items() if name in names}
            bounds = Boundaries(inside, bounds.where) if inside else None
        told = {"qi": tuple(sets), "boundaries": bounds}
        for given in ("weights", "hierarchies", "numbers_as"):
            if given in self.values:
                told[given] = {n: v for n, v in self.values[given].items() if n in names}
        return self._with(**told)

    def _check(self, source: Table) -> None:
        """Refuse columns that are missing or have two parts to play, and what contradicts."""
        self._check_people()
        self._check_linkable()
        if self.recoding is not None:
            self._check_recoding(self.recoding)
        if self.person is not None:
            require_person(source, self.person, (*self.qi_columns, *self.sensitive))
            self._check_person()
        parts = {
            "a quasi-identifier": self.qi_columns,
            "sensitive": self.sensitive,
            "an identifier to be left out": self.dropped,
            "an identifier to be replaced by a pseudonym": self.replaced,
        }
        source.require(self.categorical)
        self._check_parsed(source)
        seen: dict[str, str] = {}
        for part, names in parts.items():
            source.require(names)
            for name in names:
                if name in seen:
                    raise ColumnError(
                        f"column `{name}` is {seen[name]} and {part} at the same time",
                        where=source.name,
                        remedy="Leave it in one of the two.",
                    )
                seen[name] = part
        if self.population is not None:
            self.population.require(self.qi_columns)
        if self.target is not None:
            source.require([self.target])
        for what, given in (
            ("a weight", self.weights),
            ("a hierarchy", self.trees),
            ("cuts", self.cuts or ()),
            ("a boundary", () if self.boundaries is None else self.boundaries.columns),
        ):
            for name in given:
                if name not in self.qi_columns:
                    raise ColumnError(
                        f"`{name}` has {what} but is not a quasi-identifier",
                        where=source.name,
                        remedy=did_you_mean(name, self.qi_columns),
                    )
        self._check_dates()
        if (self.replaced or self.shift_dates) and self.key is None:
            raise ParameterError(
                "pseudonyms and shifted dates need a secret key",
                remedy=f"Name its file, e.g. {spell('key_file', 'secret.key')} "
                "(openssl rand -hex 32, or sfumato keygen).",
            )
        if self.key_file is not None and not self.replaced and not self.shift_dates:
            raise ParameterError(
                "a key file is given, and no column that becomes a pseudonym with it",
                remedy=f"Name the columns, e.g. {spell('pseudonyms', ['patient_id'])}, or leave "
                "the key file out.",
            )

    def _check_person(self) -> None:
        """Refuse what cannot be promised about persons."""
        linked = self.person in self._marked("pseudonyms", "pseudonym")
        if (linked and not self.linkable) or self.person in self.actions:
            raise ParameterError(
                f"`{self.person}` names persons and is left out: a pseudonym would show which rows "
                "belong together, and the promise is about single rows",
                remedy="Take it out of the pseudonyms and actions, or ask for whole histories "
                f"({spell('linkable', True)} {spell('m', 1)}).",
            )
        if self.missing == "wildcard":
            raise ParameterError(
                "where missing values match any other, rows are counted, not persons",
                remedy=f"Choose another reading, e.g. {spell('missing', 'value')}.",
            )
        if self.k_map:
            raise ParameterError(
                "k-map counts people of the population, not persons of the table",
                remedy=f"Ask for k ({spell('k', 5)}), or leave the person out.",
            )
        if self.target == self.person:
            raise ParameterError(
                "the column that names persons cannot be the target", remedy="Name another column."
            )

    def _check_linkable(self) -> None:
        """Refuse what cannot be promised of whole histories."""
        if not self.linkable:
            if self.m is not None:
                raise ParameterError(
                    "m only applies to linkable releases",
                    remedy=f"Ask for one ({spell('linkable', True)}), or leave m out.",
                )
            if "repeats" in self.values:
                raise ParameterError(
                    "rows of a person that look alike are counted where histories can be linked",
                    remedy=f"Ask for it ({spell('linkable', True)} {spell('m', 2)}), or leave out "
                    f"{spell('repeats', self.repeats)}.",
                )
            return
        known = str(self.m)
        if self.m is None or not (known == "all" or (known.isdigit() and int(known) >= 1)):
            raise ParameterError(
                "a linkable release must say how many rows of a person may be known",
                remedy=f"Give e.g. {spell('m', 2)}, or {spell('m', 'all')}.",
            )
        if self.person is None or self.k is None:
            raise ParameterError(
                "histories are linked by a person, and k persons must share what is known of them",
                remedy=f"Give both, e.g. {spell('person', 'patient_id')} {spell('k', 5)}.",
            )
        if self.sensitive and self.repeats == "once":
            raise ParameterError(
                "rows that look alike are shown once, and their sensitive values would go with the "
                "others",
                remedy=f"Keep all rows ({spell('repeats', 'keep')}), or leave out what is asked of "
                "sensitive columns.",
            )
        several = len(self.qi) > 1 and "several sets of quasi-identifiers"
        limited = self.boundaries is not None and "boundaries"
        odd = self.method != _DECLARED["method"].default and f"method `{self.method}`"
        lacking = self.missing != "value" and spell("missing", self.missing)
        refused = [what for what in (several, limited, odd, lacking) if what]
        if refused or self.options:
            asked = refused[0] if refused else "options of methods"
            raise ParameterError(
                f"linkable histories are not released with {asked}",
                remedy="Leave it out, or release rows that cannot be linked "
                f"(without {spell('linkable', True)}): there every method counts persons.",
            )

    def _check_dates(self) -> None:
        """Refuse dates that cannot be moved."""
        if not self.shift_dates:
            if "shift_days" in self.values:
                raise ParameterError(
                    "a number of days is given, and no dates are moved",
                    remedy=f"Ask for it: {spell('shift_dates', True)}.",
                )
            return
        if self.person is None:
            raise ParameterError(
                "dates are moved person by person, and no column names the persons",
                remedy=f"Name it, e.g. {spell('person', 'patient_id')}.",
            )
        if self.shift_days < 1:
            raise ParameterError(
                "dates cannot be moved by fewer than one day",
                remedy=f"Give e.g. {spell('shift_days', 365)}.",
            )

    def _check_parsed(self, source: Table) -> None:
        """Refuse a table that was opened before anybody said what its text means."""
        for name in source.require(list(self.parse)):
            if source.column(name).kind == "text":
                raise ParameterError(
                    f"column `{name}` is to be parsed, and the table is open already",
                    where=source.name,
                    remedy="Give the file or the frame itself, or parse it with sf.table(…).",
                )

    def _check_recoding(self, groups: Recoding) -> None:
        """Refuse to keep groups where that cannot work."""
        groups.require_trees(self.hierarchies)
        if not any(set(groups.columns) == set(names) == set(self.qi_columns) for names in self.qi):
            raise ColumnError(
                f"the groups of {groups.name} are of {', '.join(groups.columns)}, and other "
                "quasi-identifiers are asked",
                remedy=f"Name the same in one set: {spell('qi', list(groups.columns))}.",
            )
        for name, why in (
            ("k_map", "people of a population are looked up in new groups"),
            ("parts", "groups are kept for the whole table"),
            ("linkable", "a group of histories is not a group of rows"),
        ):
            if getattr(self, name, None):
                raise ParameterError(
                    f"groups of an earlier release cannot be kept here: {why}",
                    remedy=f"Leave out {spell(name, getattr(self, name))}.",
                )
        if groups.released is not None and "bounds" in self.shows.values():
            raise ParameterError(
                "the earlier release has no columns of bounds, so the promise cannot "
                "be checked on both together",
                remedy="Show something else in place of ranges, or give the groups as a saved "
                "recoding, which holds no rows.",
            )
        if self.missing != "value":
            raise ParameterError(
                "groups of an earlier release are kept where a missing value is a value",
                remedy=f"Leave out {spell('missing', self.missing)}.",
            )

    def _check_people(self) -> None:
        """Refuse k-map where it cannot work."""
        if self.k_map and not self.chosen.maps_people:
            able = ", ".join(name for name, one in METHODS.items() if one.maps_people)
            raise ParameterError(
                f"k-map cannot steer method `{self.method}`",
                remedy=f"Choose one of: {able}. Or ask for k: k-anonymity implies k-map where the "
                "table is part of the population.",
            )
        if self.k_map and self.target is not None:
            raise ParameterError(
                "a target cannot be kept predictable together with k-map",
                remedy="Leave one of them out.",
            )
        if self.k_map and self.missing != "value":
            raise ParameterError(
                "k-map finds people by their values, and a missing one is one of these",
                remedy=f"Leave out {spell('missing', self.missing)}, or ask for k.",
            )
        if self.missing == "own-class" and self.chosen.judges_sets:
            raise ParameterError(
                f"method `{self.method}` blurs a column everywhere alike, missing values too",
                remedy="Choose another method for classes of their own, e.g. "
                f"{spell('method', 'mondrian')}.",
            )
        if self.k_map and self.shows:
            raise ParameterError(
                "k-map finds people by ranges, and a number in place of a range finds others",
                remedy=f"Keep ranges ({spell('numbers_as', 'range')}), or ask for k.",
            )
        if self.k_map and (changed := self.actions.keys() & {*self.qi_columns}):
            raise ColumnError(
                "k-map finds people by their values, and an action changes those of "
                f"`{min(changed)}` in the table alone",
                remedy="Give the column a hierarchy or boundaries in place of it, change table and "
                "population alike before, or ask for k.",
            )
        if bool(self.k_map) != (self.population is not None):
            example = f"{spell('k_map', 20)} {spell('population', 'voters.parquet')}"
            raise ParameterError(
                "k-map looks people up in a population, and one of the two is missing",
                remedy=f"Give both, e.g. {example}.",
            )


def _unknown(name: str, chosen: Method, where: str | None) -> ParameterError:
    able = [other for other, one in METHODS.items() if name in one.options]
    own = next(other for other, one in METHODS.items() if one is chosen)
    known = [*sorted(set(_DECLARED) - _OPTIONS), *chosen.options]
    return ParameterError(
        f"there is no setting `{name}`, and method `{own}` has no option `{name}`",
        where=where,
        remedy=f"It is an option of {' or '.join(spell('method', other) for other in able)}."
        if able
        else did_you_mean(name, known),
    )


def _trees(
    given: str | Path | Mapping[str, Hierarchy] | None, source: Table, columns: Sequence[str]
) -> dict[str, Hierarchy]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    found = read_folder(given, source.columns)
    return {name: tree for name, tree in found.items() if name in columns}


def _name_of(population: Any) -> str:
    """Where a population is, without passwords; its kind where it has no name."""
    if isinstance(population, (str, Path)):
        return shown(population)
    return str(getattr(population, "name", type(population).__name__))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
