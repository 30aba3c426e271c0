"""What type checkers see of the package, and what notebooks show of a verb."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.anonymization.request import RequestFields
from sfumato.errors import ColumnError, ParameterError
from sfumato.fields import parameters

GOOD = """
import sfumato as sf

release = sf.anonymize("people.csv", k=5, qi=["age", "sex"], sensitive=["ill"], l=2, relaxed=True)
rows: int = len(release)
smallest: int | None = release.k
found = sf.verify("people.csv", k=5, qi=[["age", "sex"], ["zip"]], sensitive="ill", alpha=0.5)
holds: bool = found.holds
table: sf.Table = sf.table("people.csv")
names: tuple[str, ...] = table.columns
kind: type[Exception] = sf.errors.ParameterError
budget = sf.Budget(seconds=5)
"""
WRONG = [
    'sf.anonymize("x", nonsense=1)',
    'sf.anonymize("x", k="five")',
    'sf.anonymize("x", qi=5)',
    'sf.anonymize("x", l_kind="entropic")',
    'sf.verify("x", kk=5)',
    'sf.measure(frame="x")',
    "sf.unknown",
]


def test_a_type_checker_passes_good_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    lines = GOOD.splitlines()
    script.write_text("\n".join([*lines, *WRONG]) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],  # for its settings, and what it knows already
    )
    told = [line for line in done.stdout.splitlines() if "user.py" in line and "error" in line]
    refused = {int(line.split(":")[1]) for line in told}
    assert refused == set(range(len(lines) + 1, len(lines) + len(WRONG) + 1)), done.stdout


def test_a_verb_shows_every_parameter_it_takes() -> None:
    shown = inspect.signature(sf.anonymize).parameters
    for name, one in parameters(RequestFields).items():
        assert shown[name].default == one.default
        assert one.field.help in (sf.anonymize.__doc__ or "")
    assert "VAR_KEYWORD" not in {one.kind.name for one in shown.values()}


def test_errors_speak_the_language_they_are_raised_in(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("age,ill\n1,flu\n2,gout\n")
    assert "--sensitive diagnosis" in sfumato("anonymize", table, "--qi", "age", "-l", 2).err
    people = pa.table({"age": [1, 2], "ill": ["flu", "gout"]})
    with pytest.raises(ParameterError, match=r'sensitive=\["diagnosis"\]'):
        sf.anonymize(people, qi=["age"], k=2, l=2)
    with pytest.raises(ParameterError, match=r'qi=\["age", "sex", "zip"\]'):
        sf.verify(people, k=2)


def test_verify_takes_the_words_of_anonymize() -> None:
    people = pa.table({"age": [1, 1, 2, 2], "ill": ["flu", "gout", "flu", "flu"]})
    assert sf.verify(people, qi=["age"], k=2).holds
    found = sf.verify(people, qi="age", k=2, sensitive=["ill"], l=2)
    assert not found.holds
    assert "distinct l-diversity of ill" in found.findings[0].say
    with pytest.raises(ParameterError, match="Did you mean `sensitive`"):
        sf.verify(people, qi=["age"], sensitiv=["ill"])  # type: ignore[call-arg]
    with pytest.raises(ColumnError, match="at the same time"):
        sf.verify(people, qi=["age"], k=2, sensitive=["age"], l=2)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": pd.array([1, 2, 3, 4], dtype="Int8"),
            "age": [21, 22, 35, 36],
            "ward": pd.Categorical(["a", "b", "a", "b"]),
            "seen": pd.to_datetime(["2020-01-01", "2020-02-01", None, "2020-04-01"]),
        },
        index=pd.Index(["p", "q", "r", "s"], name="who"),
    )


def test_a_pandas_frame_comes_back_as_it_was_where_nothing_was_touched(frame: pd.DataFrame) -> None:
    release = sf.anonymize(frame, qi=["age"], k=2, identifiers=["id"])
    made = release.to_pandas()
    assert made.index.equals(frame.index)
    assert list(made.columns) == ["age", "ward", "seen"]
    assert made["age"].tolist() == ["[20, 23)", "[20, 23)", "[34, 37)", "[34, 37)"]
    pd.testing.assert_frame_equal(made[["ward", "seen"]], frame[["ward", "seen"]])


def test_releases_and_tables_are_frames(frame: pd.DataFrame, tmp_path: Path) -> None:
    release = sf.anonymize(frame, qi=["age"], k=2, rows_are_people=True)
    written = release.write(tmp_path / "out.parquet")
    for one in (release, written, sf.table(tmp_path / "out.parquet")):
        assert len(one) == 4
        assert one.to_arrow().column_names == ["id", "age", "ward", "seen"]
        assert one.to_polars()["age"].to_list() == one.to_pandas()["age"].tolist()
        assert pl.DataFrame(one).height == pa.table(one).num_rows == 4
        assert next(iter(one))["age"] == "[20, 23)"
    empty = sf.table(pa.table({"a": pa.array([], pa.int64())}))
    assert (len(empty), list(empty), bool(empty)) == (0, [], True)


def test_what_only_some_methods_say_is_an_attribute(frame: pd.DataFrame) -> None:
    release = sf.anonymize(frame, qi=["age"], k=2, method="full-domain", identifiers="id")
    assert release.levels == release.to_dict()["levels"]
    with pytest.raises(AttributeError, match="full-domain"):
        release.nonsense
