"""Outputs that cannot be written are refused before the work; time is for the search only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.demo import people
from sfumato.errors import ParameterError, SourceError

PEOPLE = people(600, seed=3).select(["sex", "birth_date", "zip", "diagnosis"])

Verb = Callable[..., Any]


def anonymize(source: Any, **given: Any) -> Any:
    return sf.anonymize(source, qi=["sex", "zip"], k=3, **given)


def mask(source: Any, **given: Any) -> Any:
    return sf.mask(source, beta=0.5, **given)


def population(source: Any, **given: Any) -> Any:
    return sf.population(source, universe=1e6, qi=["sex", "zip"], k=50, bootstrap=0, **given)


def safe_harbor(source: Any, **given: Any) -> Any:
    return sf.safe_harbor(source, **given)


@pytest.mark.parametrize("verb", [anonymize, mask, population, safe_harbor])
def test_an_existing_output_is_refused_before_the_table_is_counted(
    verb: Verb, tmp_path: Path
) -> None:
    place = tmp_path / "people.parquet"
    pq.write_table(PEOPLE, place)
    opened = sf.table(place)

    def counted(*_: Any, **__: Any) -> None:
        raise AssertionError("the work had begun")

    opened.engine.class_sizes = counted  # type: ignore[method-assign]
    opened.engine.classes = counted  # type: ignore[method-assign]
    opened.engine.codes = counted  # type: ignore[attr-defined]
    there = tmp_path / "there.csv"
    there.write_text("mine")
    for output, says in (
        (there, "exists already"),
        (tmp_path / "no" / "out.csv", "folder to write to does not exist"),
        (tmp_path / "out.xyz", "cannot tell the format"),
        (tmp_path, "this is a folder|cannot tell the format"),
    ):
        with pytest.raises(ParameterError, match=says):
            verb(opened, output=str(output))
    with pytest.raises(ParameterError, match="table being read"):
        verb(opened, output=str(place), force=True)
    (tmp_path / "free.csv.certificate.json").write_text("{}")
    with pytest.raises(ParameterError, match="certificate of an earlier release"):
        verb(opened, output=str(tmp_path / "free.csv"))
    assert there.read_text() == "mine"


class Hurried(Budget):
    """A budget that is spent as soon as the table has been read."""

    def progress(self, doing: str, share: float | None = None) -> None:
        if doing.startswith(("anonymizing", "plan")):
            self.seconds = 0.0


@pytest.mark.parametrize("verb", [anonymize, mask, population])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_what_a_search_found_is_written_when_its_time_is_over(
    verb: Verb, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.quasi import mask as masking

    budget = Hurried(seconds=600)
    search = masking.greedy_publishable

    def out_of_time(*given: Any, **named: Any) -> Any:
        found = search(*given, **named)
        budget.seconds = 0.0
        return found

    monkeypatch.setattr(masking, "greedy_publishable", out_of_time)
    place = tmp_path / "people.parquet"
    pq.write_table(PEOPLE, place)
    opened = sf.table(place, engine=engine)
    out = tmp_path / "out.parquet"
    verb(opened, output=str(out), budget=budget)
    assert budget.seconds == 0.0, "the time was over before the release was written"
    assert out.exists()
    assert sf.verify(str(out)).holds


def test_cancelling_still_stops_the_writing(tmp_path: Path) -> None:
    budget = Budget()
    release = anonymize(PEOPLE, budget=budget)
    budget.cancel()
    with pytest.raises(sf.errors.BudgetError):
        release.write(str(tmp_path / "out.csv"), budget=budget)
    assert not list(tmp_path.iterdir())


def test_weights_of_a_population_are_refused_before_the_work() -> None:
    opened = sf.table(PEOPLE)

    def counted(*_: Any, **__: Any) -> None:
        raise AssertionError("the work had begun")

    opened.engine.codes = counted  # type: ignore[attr-defined]
    for wrong, says in (({"zpi": 2.0}, "Did you mean `zip`"), ({"zip": 0.0}, "larger than zero")):
        with pytest.raises(ParameterError, match=says):
            population(opened, weights=wrong)


def test_tables_without_rows_are_no_evidence() -> None:
    empty = PEOPLE.slice(0, 0)
    with pytest.raises(SourceError, match="no rows"):
        sf.safe_harbor(empty)
    with pytest.raises(SourceError, match="nobody to look for"):
        sf.attack(empty, PEOPLE, on=["sex"])
    with pytest.raises(SourceError, match="no people to match"):
        sf.attack(PEOPLE, empty, on=["sex"])


def test_an_identity_that_repeats_is_told() -> None:
    known = pa.table({"who": [1, 2, 2], "age": [20, 30, 31]})
    released = pa.table({"who": [1, 2], "age": ["20", "[30, 40)"]})
    (warning,) = sf.attack(released, known, on=["age"], identity="who").warnings
    assert "does not identify rows in the outside table: 1 of its values" in warning
    assert not sf.attack(released, known, on=["age"], identity="who", person="who").warnings
    assert not sf.attack(released, known.slice(0, 2), on=["age"], identity="who").warnings
