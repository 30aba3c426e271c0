"""Whatever is given to a public function, an error is one of ours."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError, SfumatoError
from sfumato.fields import checked

PEOPLE = pa.table(
    {
        "age": [20, 20, 30, 30, 40, 40],
        "sex": ["F", "M"] * 3,
        "zip": ["12345", "12346"] * 3,
    }
)
WRONG: dict[str, Any] = {
    "a number": 3.5,
    "a negative number": -1,
    "nan": float("nan"),
    "a list": [1, None],
    "a list of text": ["nope"],
    "none": None,
    "a frame": pd.DataFrame({"x": [1]}),
    "an Arrow table": pa.table({"x": [1]}),
    "a series": pd.Series([1.0, 2.0]),
    "an array": np.array([1, 2]),
    "text": "nonsense",
    "no text": "",
    "text with a zero byte": "a\0b",
    "half a character": "\ud800",
    "a path": Path("gone/nowhere"),
    "bytes": b"x",
    "a set": {1, 2},
    "a dictionary of numbers": {3: 1},
    "a dictionary of lists": {"age": [1]},
    "a dictionary of text": {"age": "z"},
    "a dictionary of arrays": {"age": np.array([1, 2])},
    "a dictionary of None": {"age": None},
    "a dictionary of nan": {"age": float("nan")},
    "an object": object(),
    "true": True,
    "a date": dt.date(2020, 1, 1),
    "a class": int,
    "a number without end": 10**5000,
    "a name without end": "x" * 5000,
}
VALUES = pa.array([20, 30, 40, 50])
H = sf.hierarchy
R = sf.relational
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "Budget": (sf.Budget, (), {}),
    "Recoding.load": (sf.Recoding.load, ("gone.json",), {}),
    "Recoding.of": (sf.Recoding.of, (PEOPLE,), {}),
    "anonymize": (sf.anonymize, (PEOPLE,), {"qi": ["age"], "k": 2}),
    "attack": (sf.attack, (PEOPLE, PEOPLE), {"on": ["age"]}),
    "datasets.describe": (sf.datasets.describe, ("adult",), {}),
    "datasets.hierarchies": (sf.datasets.hierarchies, ("adult",), {}),
    "datasets.path": (sf.datasets.path, ("adult",), {}),
    "datasets.save": (sf.datasets.save, ("adult", "adult.csv"), {"force": True}),
    "demo.people": (sf.demo.people, (), {"rows": 10}),
    "demo.write_hospital": (sf.demo.write_hospital, ("hospital",), {"rows": 10}),
    "demo.write_people": (sf.demo.write_people, ("people.csv",), {"rows": 10, "force": True}),
    "hierarchy.dates": (H.dates, (pa.array([dt.date(2020, 1, 1)]),), {}),
    "hierarchy.equal_frequency": (H.equal_frequency, (VALUES,), {"groups": 2}),
    "hierarchy.flat": (H.flat, (VALUES,), {}),
    "hierarchy.infer": (H.infer, ("x", VALUES), {}),
    "hierarchy.intervals": (H.intervals, (VALUES,), {"width": 10}),
    "hierarchy.neighbours": (H.neighbours, (VALUES,), {}),
    "hierarchy.ordered_groups": (H.ordered_groups, (["a", "b"], [[1, 1]]), {}),
    "hierarchy.parse_arx": (H.parse_arx, ("a;b;*",), {}),
    "hierarchy.prefixes": (H.prefixes, (pa.array(["12", "13"]),), {}),
    "hierarchy.read_arx": (H.read_arx, ("gone.csv",), {}),
    "hierarchy.read_folder": (H.read_folder, ("gone", ["age"]), {}),
    "hierarchy.read_taxonomy": (H.read_taxonomy, ("gone.csv",), {}),
    "hierarchy.taxonomy": (H.taxonomy, ([("a", "*")],), {}),
    "hierarchy.write_arx": (H.write_arx, (H.flat(VALUES), "tree.csv"), {}),
    "joint.read_agreement": (sf.joint.read_agreement, ("gone.toml",), {}),
    "joint.read_model": (sf.joint.read_model, ("gone.json",), {}),
    "joint.read_share": (sf.joint.read_share, ("gone.parquet",), {}),
    "mask": (sf.mask, (PEOPLE,), {"beta": 0.9}),
    "measure": (sf.measure, (PEOPLE,), {}),
    "midpoints": (sf.midpoints, (PEOPLE.to_pandas(),), {}),
    "minimal_keys": (sf.minimal_keys, (PEOPLE,), {}),
    "minimum_key": (sf.minimum_key, (PEOPLE,), {}),
    "population": (sf.population, (PEOPLE,), {"universe": 1e6}),
    "relational.anonymize": (R.anonymize, ("gone",), {"k": 2}),
    "relational.attack": (R.attack, ("gone", "gone"), {}),
    "relational.dataset": (R.dataset, ("gone",), {}),
    "relational.scan": (R.scan, ("gone",), {}),
    "relational.verify": (R.verify, ("gone",), {}),
    "risk": (sf.risk, (PEOPLE,), {"qi": ["age"]}),
    "safe_harbor": (sf.safe_harbor, (PEOPLE,), {}),
    "scan": (sf.scan, (PEOPLE,), {}),
    "secure.make_keys": (sf.secure.make_keys, ("keys", "alice"), {}),
    "secure.read_schema": (sf.secure.read_schema, ("gone.toml",), {}),
    "secure.told_categories": (sf.secure.told_categories, (PEOPLE,), {}),
    "table": (sf.table, (PEOPLE,), {}),
    "uniques": (sf.uniques, (PEOPLE,), {}),
    "verify": (sf.verify, (PEOPLE,), {"qi": ["age"], "k": 2}),
    "violations": (sf.violations, (PEOPLE,), {}),
}
OPENED = sf.table(PEOPLE)
CALLS |= {
    f"Table.{name}": (getattr(OPENED, name), given, {})
    for name, given in {
        "column": ("age",),
        "require": (["age"],),
        "select": (["age"],),
        "exclude": (["age"],),
        "class_sizes": (),
        "person_sizes": (["age"], "sex"),
        "classes": (),
        "codes": (),
        "values": ("age",),
        "sample": (2,),
        "batches": (),
    }.items()
}


def refused_otherwise(
    function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
) -> list[str]:
    """Where another error than ours comes out, whichever parameter is of whichever wrong kind."""
    found = []
    parameters = inspect.signature(function).parameters
    usual = dict(zip(parameters, given, strict=False)) | named
    for name in parameters:
        for what, wrong in WRONG.items():
            try:
                made = function(**(usual | {name: wrong}))
                if inspect.isgenerator(made):
                    list(made)
            except SfumatoError as error:
                if error.remedy is None:
                    found.append(f"{name} = {what}: no remedy in {error}")
            except Exception as error:
                found.append(f"{name} = {what}: {error!r}")
    return found


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_a_wrong_kind_are_refused_in_our_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, given, named = CALLS[name]
    if name == "relational.dataset":  # whatever can be called may open a table
        monkeypatch.delitem(WRONG, "a class")
    assert refused_otherwise(function, given, named) == []


def test_every_verb_is_called() -> None:
    verbs = {name for name in sf.__all__ if inspect.isfunction(getattr(sf, name))}
    assert verbs <= CALLS.keys()
    assert {
        f"hierarchy.{n}" for n in H.__all__ if inspect.isfunction(getattr(H, n))
    } <= CALLS.keys()


def test_a_release_is_written_only_where_a_path_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    release = sf.anonymize(PEOPLE, qi=["age"], k=2)
    known = sf.Recoding.of(release)
    for function, given in (
        (release.write, (tmp_path / "out.csv",)),
        (known.save, (tmp_path / "recoding.json",)),
        (known.apply, (PEOPLE,)),
    ):
        found = [one for one in refused_otherwise(function, given, {}) if "frame" not in one[:5]]
        assert found == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"weights": pd.Series([1.0])}, "`weights` must be a dictionary"),
        ({"weights": {"age": None}}, "`weights` of `age` must be a number. It is None now"),
        ({"weights": {3: 1.0}}, "a name in `weights` must be text. It is 3 now"),
        ({"beta": float("nan")}, "nan"),
        ({"must_drop": ["age", 3]}, "entry 2 of `must_drop` must be text. It is 3 now"),
        ({"sample": 2.5}, "`sample` must be a whole number. It is 2.5 now"),
        ({"output": "a\0b"}, "`output` holds what is no character"),
        ({"budget": 60}, "`budget` must be a Budget. It is 60 now"),
        ({"seed": -1}, "`seed` must be zero or larger"),
    ],
)
def test_an_error_names_the_argument(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError) as caught:
        sf.mask(PEOPLE, **({"beta": 0.5} | given))
    assert says in str(caught.value)


def test_what_is_of_the_right_kind_gets_there() -> None:
    @checked
    def echo(number: float, names: tuple[str, ...] | None = None, *rest: Any, **named: int) -> Any:
        return number, names, rest, named

    assert echo(np.int64(3)) == (3, None, (), {})
    assert echo(2.5, ("a",), [], x=np.int8(1)) == (2.5, ("a",), ([],), {"x": 1})
    frame = PEOPLE.to_pandas()
    assert sf.measure(PEOPLE, frame.columns[:2]) == sf.measure(PEOPLE, ["age", "sex"])
    assert sf.measure(PEOPLE, np.array(["age"])) == sf.measure(PEOPLE, "age")


def test_a_name_of_half_a_character_is_refused() -> None:
    with pytest.raises(ColumnError, match="the name of column 1 holds half of a character"):
        sf.measure(pd.DataFrame({"\ud800": [1, 2], "age": [1, 1]}))


def test_impossible_numbers_of_threads_are_refused() -> None:
    for number in (0, -1, 10**20):
        with pytest.raises(ParameterError, match="threads are not possible"):
            sf.Budget(threads=number)


def test_a_column_of_infinities_alone_is_blurred_too() -> None:
    nowhere = [float("nan"), float("inf"), float("-inf"), float("nan")]
    found = sf.population(pa.table({"a": nowhere, "b": [1, 2, 3, 4]}), universe=1e6)
    assert found.plan is not None


def test_a_question_is_not_ended_twice() -> None:
    said = str(SfumatoError("is the server there?", remedy="Start it."))
    assert said == "is the server there? Start it."


def test_one_row_is_one_row() -> None:
    one = pa.table({"age": [1], "ill": ["flu"]})
    with pytest.raises(ParameterError, match="p = 2 is larger than the table, which has 1 row"):
        sf.anonymize(one, qi=["age"], p=2, sensitive=["ill"])
    with pytest.raises(ParameterError, match=r"the only row holds 1 distinct .* in 1 row\. Ask"):
        sf.anonymize(one, qi=["age"], l=2, sensitive=["ill"])
    with pytest.raises(ParameterError, match="`sensitive_bins` of `ill` must be a number"):
        sf.anonymize(one, qi=["age"], l=2, sensitive=["ill"], sensitive_bins={"ill": None})  # type: ignore[dict-item]


def test_a_path_is_as_good_as_text(tmp_path: Path) -> None:
    for at, (verb, asked) in enumerate({
        sf.anonymize: {"qi": ["age"], "k": 2},
        sf.mask: {"beta": 0.9},
        sf.population: {"universe": 1e6, "k": 2},
        sf.safe_harbor: {"keep": ["sex"]},
    }.items()):  # fmt: skip
        verb(PEOPLE, output=tmp_path / f"{at}.csv", **asked)  # type: ignore[operator]
        assert (tmp_path / f"{at}.csv").exists()
    H.write_arx(H.flat(PEOPLE["sex"].combine_chunks().unique()), tmp_path / "sex.csv")
    trees = {"hierarchies": tmp_path}
    for left in tmp_path.glob("[0-9].*"):
        left.unlink()
    assert sf.attack(PEOPLE, PEOPLE, on=["sex"], **trees).people == 6  # type: ignore[arg-type]
    assert sf.population(PEOPLE, universe=1e6, **trees).domains  # type: ignore[arg-type]
