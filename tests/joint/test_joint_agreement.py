"""The agreement file: written once, read back the same, refused when it makes no sense."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError, ParameterError, SourceError
from sfumato.joint import Agreement, Category, Number, Outcome, Projection, read_agreement


def agreed(**changes: Any) -> Agreement:
    parts: dict[str, Any] = {
        "study": 'breast "2026"',
        "columns": (
            Number("age", 18, 100, 1, missing=60),
            Category("cell type", ("small", "large", "other"), missing="other"),
            Category("grade", ("I", "II", "III"), ordered=True),
        ),
        "outcome": Outcome(time="days", event="dead", time_max=5000, horizon=730),
        "projection": Projection("common seed", 3),
    }
    return Agreement(**{**parts, **changes})


def test_toml_round_trip(tmp_path: Path) -> None:
    agreement = agreed()
    path = tmp_path / "study.toml"
    path.write_text(agreement.to_toml(), encoding="utf-8")
    assert read_agreement(path) == agreement
    assert read_agreement(path).hash == agreement.hash


@given(st.text(max_size=20), st.text(min_size=1, max_size=10), st.floats(0.001, 5.0))
def test_any_names_survive_the_file(study: str, name: str, rounding: float) -> None:
    agreement = agreed(
        study=study,
        columns=(Number(name, 0, 9, 0.5), Number(name + "'", -1e-3, 1e6, 100)),
        outcome=Outcome(label=name + "!", positive="yes"),
        projection=Projection("s", 1, rounding=rounding),
    )
    assert Agreement.from_dict(tomllib.loads(agreement.to_toml())) == agreement


def test_the_hash_tells_contents_apart_but_not_spellings(tmp_path: Path) -> None:
    agreement = agreed()
    spaced = "# a comment\n" + agreement.to_toml().replace(" = ", "=")
    assert Agreement.from_dict(tomllib.loads(spaced)).hash == agreement.hash
    floats = agreement.to_toml().replace("5000.0", "5000").replace("730.0", "730")
    assert Agreement.from_dict(tomllib.loads(floats)).hash == agreement.hash
    assert "730\n" in floats
    assert agreed(study="other").hash != agreement.hash
    assert agreement.with_projection(seed="x").hash != agreement.hash


def test_encoded_columns_are_counted_and_named() -> None:
    agreement = agreed()
    assert agreement.encoded == 4
    assert agreement.encoded_names == ("age", "cell type=large", "cell type=other", "grade")


def test_whole_numbers_name_the_same_category_however_written() -> None:
    plain = agreed().to_dict()
    plain["column"][1] |= {"values": [1, 2.0, "3"], "missing": 1}
    assert Agreement.from_dict(plain).columns[1] == Category(
        "cell type", ("1", "2", "3"), False, "1"
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Number("a", 5, 5, 1), "below the upper"),
        (lambda: Number("a", 0, float("inf"), 1), "below the upper"),
        (lambda: Number("a", 0, 5, 0), "step"),
        (lambda: Number("a", 0, 5, 6), "step"),
        (lambda: Number("a", 0, 1e9, 1), "values"),
        (lambda: Number("a", 0, 5, 1, missing=7), "outside the bounds"),
        (lambda: Category("a", ("x",)), "two categories"),
        (lambda: Category("a", ("x", "x")), "all different"),
        (lambda: Category("a", ("x", "y"), missing="z"), "not a category"),
        (lambda: Outcome(), "either survival or a label"),
        (lambda: Outcome(time="t", event="e", label="l", positive="p"), "either survival"),
        (lambda: Outcome(label="l"), "positive"),
        (lambda: Outcome(time="t", event="e", time_step=0), "time_step"),
        (lambda: Outcome(time="t", event="e", horizon=-1), "horizon"),
        (lambda: Projection("s", 0), "dimensions"),
        (lambda: Projection("s", 1, matrix="sparse"), "matrix"),  # type: ignore[arg-type]
        (lambda: Projection("s", 1, kernel="cubic"), "kernel"),  # type: ignore[arg-type]
        (lambda: Projection("s", 1, width=0), "width"),
        (lambda: Projection("s", 1, rounding=-0.1), "rounding"),
        (lambda: agreed(projection=Projection("s", 4)), "not smaller than the 4"),
        (lambda: agreed(columns=(Number("a", 0, 1, 1),)), "one alone cannot be hidden"),
        (lambda: agreed(columns=()), "no columns"),
        (lambda: agreed(columns=(Number("a", 0, 1, 1),) * 2), "named twice"),
        (lambda: agreed(outcome=Outcome(time="age", event="dead")), "outcome and predictor"),
    ],
)
def test_senseless_agreements_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make()


def test_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_agreement(tmp_path / "none.toml")
    path = tmp_path / "study.toml"
    path.write_text("format = [")
    with pytest.raises(InputError, match="TOML"):
        read_agreement(path)
    path.write_text("format = 99")
    with pytest.raises(InputError, match="format 1"):
        read_agreement(path)
    path.write_text("format = 1\nstudy = 'x'")
    with pytest.raises(InputError, match="missing or malformed"):
        read_agreement(path)
    path.write_text(agreed().to_toml().replace("step", "stepp", 2))
    with pytest.raises(InputError, match="stepp"):
        read_agreement(path)
    path.write_text(agreed().to_toml().replace("study", "studi = 1\nstudy", 1))
    with pytest.raises(InputError, match=r"`studi` is not known\. Did you mean `study`"):
        read_agreement(path)
    path.write_text(agreed().to_toml().replace('"number"', '"numbr"'))
    with pytest.raises(InputError, match=r"study\.toml, column `.*Did you mean `number`"):
        read_agreement(path)
    path.write_text(agreed().to_toml().replace("max = 100.0", "max = 1e308"))
    with pytest.raises(InputError, match=r"study\.toml, column `.*more than 100,000 values"):
        read_agreement(path)
    path.write_text(agreed().to_toml().replace("max = 100.0", f"max = {10**400}"))
    with pytest.raises(InputError, match="malformed"):
        read_agreement(path)
    for junk in ("[" * 100_000, "1" * 5_000):
        path.write_text(f"format = {junk}")
        with pytest.raises(InputError, match="TOML"):
            read_agreement(path)
    for name in ("5", '["days"]'):
        path.write_text(agreed().to_toml().replace('time = "days"', f"time = {name}"))
        with pytest.raises(InputError, match=r"\[outcome\]: `time` is not text"):
            read_agreement(path)
