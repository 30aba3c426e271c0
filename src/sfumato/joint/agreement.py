"""The agreement: what institutions fix before any of them looks at another's rows.

One TOML file, written once and copied to everybody. It names the columns with their bounds or
categories, the outcome, and the random matrix; every share and every model carries its hash.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ColumnError, InputError, ParameterError, SourceError, did_you_mean
from sfumato.fields import checked
from sfumato.results import Result

if TYPE_CHECKING:
    from sfumato.engines.protocol import Column as SchemaColumn


FORMAT = 1
_PARTS = ("format", "study", "outcome", "projection", "column")
_MOST_OPTIONS = 100_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A numeric column: agreed bounds, the unit it is recorded in, and the stand-in for missing.

    Examples
    --------
    >>> Number("age", 0, 100, step=25).options().ravel().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    name: str
    low: float
    high: float
    step: float
    missing: float | None = None

    def __post_init__(self) -> None:
        where = f"column `{self.name}`"
        bounds = (self.low, self.high, self.step)
        if not all(math.isfinite(bound) for bound in bounds) or not self.low < self.high:
            raise ParameterError(
                "the lower bound must be below the upper bound",
                where=where,
                remedy="A column that can hold a single value only has no place in the agreement.",
            )
        if not 0 < self.step <= self.high - self.low:
            raise ParameterError("the step must be positive and fit the bounds", where=where)
        if not (self.high - self.low) / self.step < _MOST_OPTIONS:
            raise ParameterError(
                f"bounds and step allow more than {_MOST_OPTIONS:,} values",
                where=where,
                remedy="Record it more coarsely.",
            )
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise ParameterError("the value for missing entries is outside the bounds", where=where)

    @property
    def values(self) -> int:
        """How many values the column can take."""
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1

    def options(self) -> Floats:
        """Every value the column can take, as encoded: one row a value."""
        grid = np.arange(self.values) * self.step / (self.high - self.low)
        return np.asarray(np.minimum(grid, 1.0)[:, None])


@dataclass(frozen=True)
class Category:
    """A column of agreed categories, in order (one encoded column) or not (one a category but one).

    Examples
    --------
    >>> Category("grade", ("I", "II", "III"), ordered=True).options().ravel().tolist()
    [0.0, 0.5, 1.0]
    >>> Category("cell", ("a", "b", "c")).options().tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """

    name: str
    categories: tuple[str, ...]
    ordered: bool = False
    missing: str | None = None

    def __post_init__(self) -> None:
        where = f"column `{self.name}`"
        if len(self.categories) < 2 or len(set(self.categories)) != len(self.categories):
            raise ParameterError("at least two categories are needed, all different", where=where)
        if self.missing is not None and self.missing not in self.categories:
            raise ParameterError("the value for missing entries is not a category", where=where)

    @property
    def values(self) -> int:
        """How many values the column can take."""
        return len(self.categories)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1 if self.ordered else len(self.categories) - 1

    def options(self) -> Floats:
        """Every value the column can take, as encoded: one row a value."""
        if self.ordered:
            return (np.arange(self.values) / (self.values - 1.0))[:, None]
        return np.eye(self.values)[:, 1:]


Column = Number | Category


@dataclass(frozen=True)
class Outcome:
    """What is to be predicted: survival (`time` and `event`), or a `label`.

    `time_step` is the unit of time: published times are rounded up to it, and the exact fit uses
    it as its grid. `horizon` turns survival into two classes for classifiers.
    """

    time: str | None = None
    event: str | None = None
    event_value: str = "1"
    time_step: float = 1.0
    time_max: float | None = None
    horizon: float | None = None
    label: str | None = None
    positive: str | None = None

    def __post_init__(self) -> None:
        for name in ("time", "event", "event_value", "label", "positive"):
            if not isinstance(getattr(self, name), str | None):
                raise ParameterError(f"`{name}` is not text", where="[outcome]")
        survival = self.time is not None and self.event is not None
        if survival == (self.label is not None):
            raise ParameterError(
                "the outcome is either survival or a label",
                where="[outcome]",
                remedy="Give `time` and `event`, or `label` and `positive`.",
            )
        if self.label is not None and self.positive is None:
            raise ParameterError("`positive` is missing", where="[outcome]")
        if not (math.isfinite(self.time_step) and self.time_step > 0):
            raise ParameterError("`time_step` must be positive", where="[outcome]")
        for name, value in (("time_max", self.time_max), ("horizon", self.horizon)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ParameterError(f"`{name}` must be positive", where="[outcome]")

    @property
    def is_survival(self) -> bool:
        """Whether time and event are observed."""
        return self.time is not None


@dataclass(frozen=True)
class Projection:
    """The common random matrix B: where it comes from and how its results are rounded.

    `dimensions` is m̄; `rounding` is the step to which published numbers are rounded (0.01 for
    two decimals, 0 for none as in the paper, None to let each institution publish at the finest
    step at which its own attack recovers nobody).
    """

    seed: str
    dimensions: int
    matrix: Literal["gaussian", "orthonormal"] = "orthonormal"
    kernel: Literal["linear", "gaussian"] = "linear"
    width: float = 1.0
    rounding: float | None = None

    def __post_init__(self) -> None:
        where = "[projection]"
        if self.matrix not in ("gaussian", "orthonormal"):
            raise ParameterError("`matrix` must be gaussian or orthonormal", where=where)
        if self.kernel not in ("linear", "gaussian"):
            raise ParameterError("`kernel` must be linear or gaussian", where=where)
        if not isinstance(self.dimensions, int) or self.dimensions < 1:
            raise ParameterError("`dimensions` must be a whole number, at least 1", where=where)
        if not (math.isfinite(self.width) and self.width > 0):
            raise ParameterError("`width` must be positive", where=where)
        if self.rounding is not None and not (math.isfinite(self.rounding) and self.rounding >= 0):
            raise ParameterError("`rounding` must not be negative", where=where)


@dataclass(frozen=True)
class Agreement:
    """What the institutions of one study have agreed on.

    Examples
    --------
    >>> agreement = Agreement(
    ...     study="lung",
    ...     columns=(Number("age", 18, 100, 1), Category("sex", ("f", "m"))),
    ...     outcome=Outcome(time="days", event="dead"),
    ...     projection=Projection(seed="2026-11", dimensions=1),
    ... )
    >>> agreement.encoded
    2
    >>> Agreement.from_dict(agreement.to_dict()) == agreement
    True
    """

    study: str
    columns: tuple[Column, ...]
    outcome: Outcome
    projection: Projection

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise ParameterError("the agreement names no columns")
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ParameterError(f"column `{doubled[0]}` is named twice")
        taken = {self.outcome.time, self.outcome.event, self.outcome.label} & set(names)
        if taken:
            raise ParameterError(f"column `{min(map(str, taken))}` is both outcome and predictor")
        if self.projection.dimensions >= self.encoded:
            raise ParameterError(
                f"m̄ = {self.projection.dimensions} is not smaller than the {self.encoded} encoded "
                "columns: the rows could be computed from the share",
                where="[projection] dimensions",
                remedy=f"Use at most {self.encoded - 1}."
                if self.encoded > 1
                else "Agree on more columns: one alone cannot be hidden.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def encoded(self) -> int:
        """n, the number of encoded columns."""
        return sum(column.width for column in self.columns)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the encoded columns, `column=category` for unordered categories."""
        names: list[str] = []
        for column in self.columns:
            if column.width == 1 and (isinstance(column, Number) or column.ordered):
                names.append(column.name)
            elif isinstance(column, Category):
                names.extend(f"{column.name}={value}" for value in column.categories[1:])
        return tuple(names)

    @property
    def hash(self) -> str:
        """SHA-256 of the agreement's content (not of its spelling as a file)."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def with_projection(self, **changes: Any) -> Agreement:
        """The same agreement with another projection."""
        return replace(self, projection=replace(self.projection, **changes))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the shape of the TOML file."""
        columns: list[dict[str, Any]] = []
        for column in self.columns:
            if isinstance(column, Number):
                plain: dict[str, Any] = {
                    "name": column.name,
                    "type": "number",
                    "min": float(column.low),
                    "max": float(column.high),
                    "step": float(column.step),
                }
            else:
                plain = {
                    "name": column.name,
                    "type": "category",
                    "values": list(column.categories),
                    "ordered": column.ordered,
                }
            if column.missing is not None:
                plain["missing"] = _number(column.missing)
            columns.append(plain)
        # Numbers as floats, so that 730 and 730.0 in a file have the same hash.
        outcome = {k: _number(v) for k, v in vars(self.outcome).items() if v is not None}
        projection = {k: v for k, v in vars(self.projection).items() if v is not None}
        projection["width"] = float(self.projection.width)
        rounding = self.projection.rounding
        projection["rounding"] = "safe" if rounding is None else float(rounding)
        if not self.outcome.is_survival:
            outcome = {"label": self.outcome.label, "positive": self.outcome.positive}
        return {
            "format": FORMAT,
            "study": self.study,
            "outcome": outcome,
            "projection": projection,
            "column": columns,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any], where: str = "agreement") -> Agreement:
        """Read the shape that `to_dict` and the TOML file have."""
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise InputError(
                f"this is not an agreement of format {FORMAT}",
                where=where,
                remedy="Write one with `sfumato joint agreement`.",
            )
        for key in plain:
            if key not in _PARTS:
                raise InputError(f"`{key}` is not known. {did_you_mean(key, _PARTS)}", where=where)
        try:
            outcome = dict(plain["outcome"])
            projection = dict(plain["projection"])
            columns = [_column(dict(entry)) for entry in plain["column"]]
            for key in ("event_value", "positive"):
                if key in outcome:
                    outcome[key] = _text(outcome[key])
            if projection.get("rounding") == "safe":
                projection["rounding"] = None
            projection["seed"] = _text(projection.get("seed", ""))
            study, parts = str(plain["study"]), (Outcome(**outcome), Projection(**projection))
            return cls(study, tuple(columns), *parts)
        except ParameterError as error:
            place = f"{where}, {error.where}" if error.where else where
            raise ParameterError(error.what, where=place, remedy=error.remedy) from None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"a part of the agreement is missing or malformed: {error}", where=where
            ) from None

    def to_toml(self) -> str:
        plain = self.to_dict()
        lines = [f"format = {FORMAT}", f"study = {_toml(self.study)}"]
        for section in ("outcome", "projection"):
            lines += ["", f"[{section}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in plain[section].items()]
        for column in plain["column"]:
            lines += ["", "[[column]]"]
            lines += [f"{key} = {_toml(value)}" for key, value in column.items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Agreed(Result):
    """An agreement that was written: its size and its hash, to compare with the others'."""

    passed_on: ClassVar[Mapping[str, str]] = {
        "study": "part of the agreement, which all parties have",
        "columns": "part of the agreement, which all parties have",
        "encoded": "part of the agreement, which all parties have",
        "dimensions": "part of the agreement, which all parties have",
        "hash": "a digest of the agreement",
        "path": "where the agreement lies",
    }

    study: str
    columns: int
    encoded: int
    dimensions: int
    hash: str
    path: str

    @classmethod
    def of(cls, agreement: Agreement, path: str) -> Agreed:
        """The record of an agreement."""
        size = agreement.projection.dimensions
        return cls(
            agreement.study, len(agreement.columns), agreement.encoded, size, agreement.hash, path
        )


@checked
def read_agreement(path: str | Path) -> Agreement:
    """Read an agreement from its TOML file."""
    try:
        with open(path, "rb") as file:
            plain = tomllib.load(file)
    except OSError as error:
        raise SourceError(
            f"the agreement cannot be read: {error.strerror}",
            where=str(path),
            remedy="Write one with `sfumato joint agreement`.",
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not a TOML file: {error}", where=str(path)) from None
    return Agreement.from_dict(plain, where=str(path))


def _column(entry: dict[str, Any]) -> Column:
    name, kind = str(entry.pop("name")), entry.pop("type")
    where = f"column `{name}`"
    known = {
        "number": {"min", "max", "step", "missing"},
        "category": {"values", "ordered", "missing"},
    }
    if kind not in known:
        raise ParameterError(
            f"`{kind}` is not a type. {did_you_mean(str(kind), known)}", where=where
        )
    for key in entry:
        if key not in known[kind]:
            raise ParameterError(
                f"`{key}` is not known. {did_you_mean(key, known[kind])}", where=where
            )
    missing = entry.get("missing")
    if kind == "number":
        low, high, step = (float(entry[bound]) for bound in ("min", "max", "step"))
        return Number(name, low, high, step, None if missing is None else float(missing))
    return Category(
        name,
        tuple(_text(value) for value in entry["values"]),
        bool(entry.get("ordered", False)),
        None if missing is None else _text(missing),
    )


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _text(value: Any) -> str:
    """How a value is compared: whole numbers without a decimal point, booleans in lower case."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)


_NUMERIC = ("integer", "float", "decimal", "boolean")


def declared_columns(
    schema: Sequence[SchemaColumn],
    bounds: Mapping[str, str],
    values: Mapping[str, str],
    ordered: Mapping[str, str],
    missing: Mapping[str, str],
    ask: Callable[[str], str] | None,
) -> tuple[Column, ...]:
    """The agreement's columns from declarations; what was not declared is asked for.

    Nothing is ever filled in from the rows: the bounds of an agreement are public.
    """
    known = [column.name for column in schema]
    for name in (*bounds, *values, *ordered, *missing):
        if name not in known:
            raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, known))
    columns: list[Column] = []
    undeclared: list[str] = []
    for column in schema:
        name = column.name
        texts = {
            "bounds": bounds.get(name),
            "values": values.get(name),
            "ordered": ordered.get(name),
        }
        given = {key: text for key, text in texts.items() if text is not None}
        if len(given) > 1:
            raise ParameterError(
                f"column `{name}` is declared in two ways", remedy="Keep one declaration of it."
            )
        if not given and ask is not None:
            given = _asked(column, ask)
        if not given:
            undeclared.append(name)
            continue
        (way, text), stand_in = next(iter(given.items())), missing.get(name)
        if way == "bounds":
            columns.append(_declared_number(name, text, column.kind == "integer", stand_in))
        else:
            categories = tuple(part.strip() for part in text.split(","))
            columns.append(Category(name, categories, way == "ordered", stand_in))
    if undeclared:
        raise ParameterError(
            f"nothing is declared about {', '.join(f'`{name}`' for name in undeclared)}",
            remedy="Use --bounds, --values or --ordered, or name the columns to use with -c.",
        )
    return tuple(columns)


def _asked(column: SchemaColumn, ask: Callable[[str], str]) -> dict[str, str]:
    if column.kind in _NUMERIC:
        return {"bounds": ask(f"Bounds of `{column.name}`, as low:high or low:high:step")}
    return {"values": ask(f"Categories of `{column.name}`, separated by commas")}


def _declared_number(name: str, text: str, whole: bool, stand_in: str | None) -> Number:
    where = f"column `{name}`"
    parts = text.split(":")
    try:
        low, high, *rest = (float(part) for part in parts)
        if len(rest) > 1 or not all(math.isfinite(v) for v in (low, high, *rest)):
            raise ValueError
        fill = None if stand_in is None else float(stand_in)
    except ValueError:
        raise ParameterError(
            "the bounds could not be read", where=where, remedy=f"Write e.g. {name}=0:120:1"
        ) from None
    # Without a unit, whole numbers count in ones and others in thousandths of the range.
    step = rest[0] if rest else 1.0 if whole else (high - low) / 1000.0
    return Number(name, low, high, step, fill)
