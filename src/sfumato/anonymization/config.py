"""The settings of `anonymize`: from Python, from a TOML file under version control, or from both.

The file uses the names of the Python parameters. What is said in Python or on the command line
comes before what the file says. A certificate can be read in place of a file: it repeats the
release it lies beside.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sfumato.anonymization.registry import METHODS
from sfumato.anonymization.registry import method as method_named
from sfumato.anonymization.workload import QueryLog
from sfumato.errors import InputError, ParameterError, SourceError, did_you_mean
from sfumato.files import read_text
from sfumato.hierarchy import Boundaries

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides a release except the table; see `sfumato.anonymize`.

    Examples
    --------
    >>> mine = Settings.of({"qi": ["age", "sex"], "k": 5, "relaxed": True})
    >>> mine.qi, mine.options
    ((('age', 'sex'),), {'relaxed': True})
    >>> print(mine.to_toml(), end="")
    qi = [["age", "sex"]]
    k = 5
    relaxed = true
    """

    qi: tuple[tuple[str, ...], ...] = ()
    k: int | None = None
    sensitive: tuple[str, ...] = ()
    l: float | None = None  # noqa: E741 (the field's own name)
    l_kind: str = "distinct"
    c: float | None = None
    t: float | None = None
    t_distance: str | Mapping[str, str] | None = None
    p: int | None = None
    alpha: float | None = None
    k_map: int | None = None
    population: Any = None
    method: str = "mondrian"
    hierarchies: Any = None
    infer_hierarchies: bool = True
    boundaries: Any = None
    workload: Any = None
    identifiers: tuple[str, ...] = ()
    pseudonyms: tuple[str, ...] = ()
    key_file: str | None = None
    suppressed_as: str = "typed"
    seed: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str | None = None) -> Settings:
        """Settings from a flat mapping: parameters, and options of the method beside them.

        Raises
        ------
        ParameterError
            If a name is unknown or a value has the wrong type; `where` says in which file.
        """
        chosen = method_named(str(given.get("method", cls.method)))
        known = {f.name for f in fields(cls)} - {"options"}
        options = dict(given.get("options", {}))
        plain: dict[str, Any] = {}
        for name, value in given.items():
            if name in known:
                plain[name] = _checked(name, value, where)
            elif name != "options":
                options[name] = value
        for name in options:
            if name not in chosen.options:
                raise ParameterError(
                    f"there is no setting `{name}`, and method "
                    f"`{given.get('method', cls.method)}` has no option `{name}`",
                    where=where,
                    remedy=_elsewhere(name)
                    or did_you_mean(name, [*sorted(known), *chosen.options]),
                )
        for name, value in options.items():
            _check_option(name, value, where)
        return cls(**plain, options=options)

    @classmethod
    def read(cls, path: str | Path) -> Settings:
        """Settings from a TOML file, or from the certificate of a release.

        Paths in the file are relative to it.
        """
        place = Path(path)
        text = read_text(path, "the configuration")
        try:
            if place.suffix == ".json":
                return cls._repeated(json.loads(text), str(path))
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SourceError(
                f"this is no TOML: {error}",
                where=str(path),
                remedy='Write e.g. k = 5 and qi = ["age", "sex"]; --write-config makes one.',
            ) from None
        except (ValueError, KeyError, TypeError):
            raise SourceError(
                "this is no certificate of `anonymize`",
                where=str(path),
                remedy="Give a TOML file, or the .certificate.json beside a release.",
            ) from None
        for name in ("hierarchies", "boundaries", "workload", "key_file", "population"):
            if isinstance(content.get(name), str):
                content[name] = str(place.parent / content[name])
        if not isinstance(content.get("population", ""), str):
            raise ParameterError(
                "`population` must be a path",
                where=str(path),
                remedy='Write e.g. population = "voters.parquet".',
            )
        return cls.of(content, str(path))

    @classmethod
    def _repeated(cls, record: Mapping[str, Any], where: str) -> Settings:
        """The settings that a certificate records."""
        asked = {name: value for name, value in record["asked"].items() if value is not None}
        if record["method"] not in METHODS:
            raise ParameterError(
                f"this is the certificate of `{record['method']}`, which is no method of anonymize",
                where=where,
                remedy="Give the certificate of a release that `sfumato anonymize` made.",
            )
        if not isinstance(asked.get("hierarchies", ""), str):
            raise ParameterError(
                "the release was made with hierarchies that were given in Python",
                where=where,
                remedy="Give them again, or use a folder of files.",
            )
        return cls.of({"method": record["method"], **asked})

    def overridden(self, given: Mapping[str, Any]) -> Settings:
        """The same with other values for what is given; weights and columns are merged."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "options"}
        if given.get("method", self.method) == self.method:  # options belong to their method
            own |= self.options
        for name in ("weights", "columns"):
            if name in given:
                given = {**given, name: {**getattr(self, name), **given[name]}}
        return Settings.of({**own, **given})

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, as plain values that `of` understands.

        Hierarchies that were given as objects cannot be written down; their columns are named.
        """
        told: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "options":
                told |= _plain(value)
            elif f.name == "population":
                if value is not None:
                    told["population"] = _name_of(value)
            elif value not in (None, (), {}) and value != f.default:
                told[f.name] = _plain(value)
        if isinstance(self.boundaries, Boundaries):
            told["boundaries"] = _plain(self.boundaries.columns)
        if isinstance(self.hierarchies, Mapping):
            told["hierarchies"] = sorted(self.hierarchies)
        return told

    def to_toml(self) -> str:
        """The settings as a file that `read` understands."""
        told = self.to_dict()
        lines = [f"{_key(n)} = {_value(v)}" for n, v in told.items() if not isinstance(v, dict)]
        for name, table in told.items():
            if isinstance(table, dict):
                lines += _table((name,), table)
        return "\n".join(lines) + "\n"

    def inlined(self) -> Settings:
        """The same with boundaries read from their file, so that a record of it is complete."""
        if not isinstance(self.boundaries, (str, Path)):
            return self
        return replace(self, boundaries=Boundaries.read(self.boundaries))


_NAMES = ("sensitive", "identifiers", "pseudonyms")
_TEXTS = {
    "l_kind": ("distinct", "entropy", "recursive"),
    "suppressed_as": ("typed", "text"),
    "method": None,
    "key_file": None,
}
_TABLES = ("weights", "columns")
_FILES: dict[str, tuple[tuple[type, ...], str]] = {
    "hierarchies": ((str, Path, Mapping), "a folder"),
    "boundaries": ((str, Path, Mapping, Boundaries), "a file or a table"),
    "workload": ((str, Path, list, tuple, QueryLog), "a file or a list of queries"),
    "t_distance": ((str, Mapping), "a kind of distance, or a table of them by column"),
}
_OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("relaxed", "ties", "wildcards"), ((bool,), "true or false")),
    **dict.fromkeys(("cut_weights", "cuts"), ((Mapping,), "a table")),
    **dict.fromkeys(("beta", "part_size", "suppression_limit"), ((int, float), "a number")),
    "protected": ((str, list, tuple), "a list of column names"),
}
"""What an option of a method must be; those that are not listed are text."""
_MOST_ROWS = 2**53
"""No table has more rows; whole numbers beyond are no exact floats."""
_NUMBERS = ("k", "l", "c", "t", "p", "alpha", "k_map", "seed")


def _checked(name: str, value: Any, where: str | None) -> Any:
    """A value of the type its setting needs."""
    if name == "qi":
        return _sets(value, where)
    if name in _NAMES:
        return tuple(_names(name, value, where))
    if name in _NUMBERS and value is not None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ParameterError(
                f"`{name}` must be a number", where=where, remedy=f"Write e.g. {name} = 5."
            )
        return _number(name, value, where)
    if name == "infer_hierarchies" and not isinstance(value, bool):
        raise ParameterError(
            f"`{name}` must be true or false", where=where, remedy=f"Write {name} = false."
        )
    if name in _TABLES and not isinstance(value, Mapping):
        raise ParameterError(f"`{name}` must be a table", where=where, remedy=f"Write [{name}].")
    if name == "weights":
        return _weights(value, where)
    if name in _FILES and value is not None:
        _check_kind(name, value, _FILES[name], where)
    if name in _TEXTS and value is not None:
        allowed = _TEXTS[name]
        if not isinstance(value, (str, Path)):
            raise ParameterError(
                f"`{name}` must be text", where=where, remedy=f'Write e.g. {name} = "…".'
            )
        if allowed is not None and value not in allowed:
            raise ParameterError(
                f"`{name}` cannot be `{value}`",
                where=where,
                remedy=did_you_mean(str(value), allowed),
            )
        return str(value)
    return value


def _number(name: str, value: float, where: str | None) -> float:
    """A number, whole where it counts something."""
    if name not in ("k", "p", "k_map", "seed"):
        return value
    if name != "seed" and abs(value) > _MOST_ROWS:
        raise ParameterError(
            f"`{name}` is larger than any table", where=where, remedy=f"Write e.g. {name} = 5."
        )
    if not float(value).is_integer() or (name == "seed" and value < 0):
        raise ParameterError(
            f"`{name}` must be a whole number{', zero or larger' if name == 'seed' else ''}",
            where=where,
            remedy=f"Write e.g. {name} = 5.",
        )
    return int(value)


def _elsewhere(option: str) -> str | None:
    """The methods that have an option."""
    able = [name for name, one in METHODS.items() if option in one.options]
    return f"It is an option of --method {' or '.join(able)}." if able else None


def _found(value: Any) -> str:
    """What kind of value was given, in the words of a TOML file."""
    kinds = {
        bool: "true or false",
        str: "text",
        Mapping: "a table",
        list: "a list",
        tuple: "a list",
    }
    known = (what for kind, what in kinds.items() if isinstance(value, kind))
    return next(known, "a number" if isinstance(value, (int, float)) else type(value).__name__)


def _check_option(name: str, value: Any, where: str | None) -> None:
    if value is not None:
        _check_kind(name, value, _OPTIONS.get(name, ((str,), "text")), where)


def _check_kind(
    name: str, value: Any, kind: tuple[tuple[type, ...], str], where: str | None
) -> None:
    """Refuse a value of another type than a setting needs; true is no number."""
    types, what = kind
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ParameterError(
            f"`{name}` must be {what}", where=where, remedy=f"It is {_found(value)} now."
        )


def _names(name: str, value: Any, where: str | None) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ParameterError(
            f"`{name}` must be a list of column names",
            where=where,
            remedy=f'Write {name} = ["age", "sex"].',
        )
    return value


def _sets(value: Any, where: str | None) -> tuple[tuple[str, ...], ...]:
    """One set of quasi-identifiers, or several, as several."""
    if isinstance(value, str):
        return ((value,),)
    if not isinstance(value, (list, tuple)):
        return (tuple(_names("qi", value, where)),)
    if all(isinstance(item, str) for item in value):
        return (tuple(value),) if value else ()
    return tuple(tuple(_names("qi", item, where)) for item in value)


def _weights(value: Mapping[str, Any], where: str | None) -> dict[str, float]:
    for name, weight in value.items():
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not number or not 0 <= weight < float("inf"):
            raise ParameterError(
                f"the weight of `{name}` must be a number, zero or larger",
                where=where,
                remedy=f"Write e.g. {name} = 2.",
            )
    return {name: float(weight) for name, weight in value.items()}


def _name_of(population: Any) -> str:
    """Where a population is, or what kind of table it is where it has no name."""
    if isinstance(population, (str, Path)):
        return str(population)
    return str(getattr(population, "name", type(population).__name__))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> list[str]:
    """A TOML table and the tables below it."""
    own = [f"{_key(n)} = {_value(v)}" for n, v in table.items() if not isinstance(v, dict)]
    lines = ["", "[" + ".".join(_key(name) for name in path) + "]", *own] if own else []
    for name, below in table.items():
        if isinstance(below, dict):
            lines += _table((*path, name), below)
    return lines


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _text(text: str) -> str:
    """Text in quotes; JSON's escapes are TOML's, except that TOML also escapes DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise InputError("a setting cannot be written as TOML", remedy="Write plain values.")
