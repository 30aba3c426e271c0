"""What is asked of `minimum_key`, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import ParameterError, did_you_mean
from sfumato.quasi import samples
from sfumato.quasi.measure import Measures
from sfumato.results import Result

__all__ = ["Key", "Question", "Sample"]

MEASURES = ("key", "distinct", "separation")


@dataclass(frozen=True)
class Question:
    """The parameters of a search, checked; see `sfumato.minimum_key` for their meaning."""

    measure: str = "key"
    eps: float | None = None
    delta: float = 0.01
    beta: float | None = None
    proven: bool = False
    by: str = "rows"
    sample: int | None = None
    max_size: int | None = None
    verify: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ParameterError(
                f"there is no measure `{self.measure}`",
                remedy=did_you_mean(self.measure, MEASURES),
            )
        if self.beta is not None and not 0 < self.beta <= 1:
            raise ParameterError(f"β = {self.beta:g} is out of range", remedy="Give 0 < β <= 1.")
        if self.by not in ("rows", "pairs"):
            raise ParameterError(
                f"samples are of rows or pairs, not `{self.by}`", remedy="Write rows or pairs."
            )
        for name in ("sample", "max_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ParameterError(f"{name} = {value} is out of range", remedy="Give 1 or more.")
        if self.eps is None and self.sample is not None:
            raise ParameterError("a sample needs an ε", remedy="Give --eps, e.g. --eps 0.001.")
        if self.eps is not None:
            self._check_sampled(self.eps)

    def _check_sampled(self, eps: float) -> None:
        samples.share("ε", eps)
        samples.share("δ", self.delta)
        if self.proven:
            raise ParameterError(
                "a sampled answer cannot be a proven minimum", remedy="Give --eps or --proven."
            )
        if self.measure == "distinct" and self.by == "pairs":
            raise ParameterError(
                "pairs say nothing about the distinct ratio", remedy="Sample rows for `distinct`."
            )
        if self.measure == "distinct" and self.beta is not None:
            raise ParameterError(
                "there is no sampled algorithm for the minimum β-distinct set",
                remedy="Leave out --eps for the exact one, or use --measure separation.",
            )

    @property
    def ratio(self) -> str:
        """The ratio that decides: separation unless distinct was asked."""
        return "distinct" if self.measure == "distinct" else "separation"


@dataclass(frozen=True)
class Sample(Result):
    """What a sampled answer was computed from, and what it promises.

    With probability at least 1-δ the column set has a `measure` ratio of at least `promised`.
    """

    unit: str
    size: int
    eps: float
    delta: float
    promised: float
    measure: str
    max_size: int | None = None


@dataclass(frozen=True)
class Key(Result):
    """A small column set that tells rows apart.

    Attributes
    ----------
    columns, size, weight
        The set, how many columns it has, and the sum of their weights.
    goal
        What was asked of it: ``{"measure": …, "at_least": …}``; a key must tell apart all rows
        that all columns together tell apart.
    is_key
        Whether every row is alone (None where that is not known).
    duplicate_rows
        Rows that equal an earlier row in all columns, where the exact search saw all of them.
    measures
        Exact measures of the set on the whole table; None where nothing was verified.
    proven_minimum, lower_bound
        Whether no cheaper set reaches the goal, and the weight no set undercuts.
    sample, verified
        What a sampled answer rests on, and whether an exact pass confirmed its promise (None: not
        checked).
    steps
        How the greedy search got there: column, and pairs of rows still together after it.
    """

    columns: tuple[str, ...]
    size: int
    weight: float
    goal: Mapping[str, Any]
    is_key: bool | None
    duplicate_rows: int | None
    measures: Measures | None
    proven_minimum: bool
    lower_bound: float | None
    sample: Sample | None
    verified: bool | None
    steps: tuple[Mapping[str, Any], ...] = ()
    stopped_by: str | None = None
    notes: tuple[str, ...] = ()
