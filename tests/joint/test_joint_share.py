"""Shares: what is published, what is refused, what is caught on reading."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from joint_studies import study
from sfumato.cli.joint import view_share
from sfumato.errors import ColumnError, InputError, ParameterError, PromiseError, SourceError
from sfumato.joint import (
    Agreement,
    Category,
    Number,
    Outcome,
    Projection,
    Share,
    make_share,
    project,
    random_matrix,
    read_share,
    stack,
    write_share,
)

AGREED = Agreement(
    "s",
    (Number("age", 0, 100, 1), Number("bmi", 10, 50, 0.5), Category("sex", ("f", "m"))),
    Outcome(time="t", event="e", time_max=1000, horizon=50),
    Projection("seed", 2),
)


def patients(seed: int = 0, rows: int = 80, **changes: Any) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(20, 90, rows),
        "bmi": rng.integers(30, 90, rows) / 2,
        "sex": rng.choice(["f", "m"], rows),
        "t": np.ceil(rng.exponential(60, rows)),
        "e": rng.integers(0, 2, rows),
    }
    return pa.table({**columns, **changes})


def share_of(name: str, seed: int = 0, agreement: Agreement = AGREED) -> Share:
    made = make_share(patients(seed), agreement, name, price=False, interval_rows=0).share
    assert made is not None
    return made


def test_a_share_holds_rounded_projections_in_sorted_order() -> None:
    table = patients()
    made = make_share(table, AGREED, "A")
    share = made.share
    assert share is not None
    assert made.chosen_by == "attack"
    assert made.leakage.recovered_rows == 0
    assert made.rounding == share.rounding > 0
    assert made.to_dict()["leakage"]["recovered"] == 0.0
    assert "share" not in made.to_dict()
    matrix = np.column_stack(
        (
            table["age"].to_numpy() / 100,
            (table["bmi"].to_numpy() - 10) / 40,
            table["sex"].to_numpy(zero_copy_only=False) == "m",
        )
    )
    expected = matrix @ random_matrix("seed", 2, 3, "orthonormal").T
    assert share.time is not None
    order = np.lexsort((share.projected[:, 1], share.projected[:, 0], share.event, share.time))
    np.testing.assert_array_equal(order, np.arange(80))
    near = np.abs(share.projected[:, None] - expected[None]).max(axis=2)
    assert near.min(axis=1).max() <= made.rounding / 2 + 1e-9


def test_same_input_same_bytes_whatever_the_order_of_rows(tmp_path: Path) -> None:
    table = patients()
    mixed = table.take(pa.array(np.random.default_rng(5).permutation(80)))
    for name, rows in (("one", table), ("two", mixed)):
        made = make_share(rows, AGREED, "A", price=False, rounding=0.5, publish_anyway=True)
        assert made.share is not None
        write_share(made.share, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_recoverable_rows_are_refused_unless_told_otherwise() -> None:
    with pytest.raises(PromiseError, match=r"of 80 attacked rows can be recovered") as caught:
        make_share(patients(), AGREED, "A", rounding=0.0)
    assert caught.value.exit_code == 1
    told = make_share(patients(), AGREED, "A", rounding=0.0, publish_anyway=True, price=False)
    assert told.chosen_by == "user"
    assert told.leakage.recovered == 1.0
    assert any("recoverable" in note for note in told.notes)


def test_pinned_cells_are_refused_on_request() -> None:
    lung = study("lung", dimensions=2)
    made = make_share(lung.table, lung.agreement, "A", price=False, interval_rows=0)
    assert max(made.leakage.pinned.values()) > 0
    with pytest.raises(PromiseError, match="certain in"):
        make_share(lung.table, lung.agreement, "A", rounding=made.rounding, protect="cells")
    safe = make_share(lung.table, lung.agreement, "A", protect="cells", price=False)
    assert safe.rounding > made.rounding
    assert set(safe.leakage.pinned.values()) == {0.0}


def test_the_price_is_told() -> None:
    made = make_share(patients(rows=300), AGREED, "A")
    assert made.price is not None
    assert made.price["measure"] == "concordance"
    assert 0.3 < float(made.price["published"]) < 0.8


def test_a_house_of_few_rows_is_told_what_holds() -> None:
    for rows in (2, 3, 4):
        few = patients(seed=1, rows=rows, e=[1] * rows)
        made = make_share(few, AGREED, "A", rounding=0.1, publish_anyway=True, allow_constant=True)
        assert made.price is not None
        assert np.isnan(float(made.price["published"]))
        assert "Price: not measured" in str(view_share(made).renderables)
    with pytest.raises(PromiseError, match="still tells rows apart"):
        make_share(patients(rows=1, e=[1]), AGREED, "A", allow_constant=True)


def test_round_trip(tmp_path: Path) -> None:
    share = share_of("A")
    path = tmp_path / "a.share.parquet"
    write_share(share, path)
    back = read_share(path)
    assert back.institution == "A"
    assert back.agreement == AGREED
    assert back.digest == share.digest
    assert [p.name for p in tmp_path.iterdir()] == ["a.share.parquet"]


def test_other_and_altered_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(SourceError, match="share cannot be read"):
        read_share(path)
    pq.write_table(patients(), path)
    with pytest.raises(InputError, match="is not a share"):
        read_share(path)
    write_share(share_of("A"), path)
    table = pq.read_table(path)
    changed = table.set_column(0, "p1", pa.array(table["p1"].to_numpy() + 1))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match="was altered after it was made"):
        read_share(path)
    pq.write_table(table.drop_columns(["p2"]), path)
    with pytest.raises(InputError, match="does not fit"):
        read_share(path)


def test_stacking_checks_agreement_and_identity() -> None:
    one, two = share_of("A", 1), share_of("B", 2)
    x, time, event, weights = stack([one, two], {"B": 2.5})
    assert x.shape == (160, 2)
    assert time is not None
    assert len(time) == len(event) == 160
    assert weights.tolist() == [1.0] * 80 + [2.5] * 80
    with pytest.raises(InputError, match="no shares"):
        stack([])
    with pytest.raises(InputError, match="two shares come from the same institution: `A`"):
        stack([one, share_of("A", 3)])
    with pytest.raises(InputError, match="`A` and `B`"):
        stack([one, replace(one, institution="B")])
    with pytest.raises(InputError, match="another agreement"):
        stack([one, share_of("B", 2, AGREED.with_projection(seed="other"))])
    with pytest.raises(ParameterError, match="weights name `C`"):
        stack([one, two], {"C": 1.0})
    with pytest.raises(ParameterError, match="positive"):
        stack([one, two], {"B": 0.0})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"e": np.zeros(80, int)}, ColumnError, "censored"),
        ({"sex": ["f"] * 80}, ColumnError, "`sex` holds one value"),
        ({"t": -np.ones(80)}, ColumnError, "negative"),
        ({"age": np.full(80, 101)}, ColumnError, "outside"),
        ({"sex": ["x"] * 80}, ColumnError, "not agreed"),
    ],
)
def test_bad_tables_are_refused(changes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_share(patients(**changes), AGREED, "A")


def test_constant_columns_may_be_allowed() -> None:
    made = make_share(patients(sex=["f"] * 80), AGREED, "A", allow_constant=True, price=False)
    assert "column `sex` holds one value in all rows" in made.notes


def test_empty_tables_nameless_institutions_and_single_classes() -> None:
    with pytest.raises(InputError, match="no rows"):
        make_share(patients().slice(0, 0), AGREED, "A")
    with pytest.raises(ParameterError, match="needs a name"):
        make_share(patients(), AGREED, "")
    label = Agreement("s", AGREED.columns, Outcome(label="y", positive="1"), AGREED.projection)
    with pytest.raises(ColumnError, match="one class"):
        make_share(patients(y=["1"] * 80), label, "A")
    made = make_share(patients(y=["1", "0"] * 40), label, "A")
    assert made.price is not None
    assert made.price["measure"] == "auc"


def test_nonlinear_shares_are_attacked_too() -> None:
    agreement = AGREED.with_projection(kernel="gaussian")
    with pytest.raises(PromiseError):
        make_share(patients(), agreement, "A", rounding=0.0)
    made = make_share(patients(), agreement, "A", price=False)
    assert made.leakage.recovered == 0.0
    assert made.leakage.interval is None
    share = made.share
    assert share is not None
    assert project(np.full((1, 3), 0.5), agreement).shape == (1, 2)
    assert (share.projected >= 0).all()


def test_the_owner_is_told_how_many_cells_are_certain_and_what_is_stricter() -> None:
    lung = study("lung")
    made = make_share(lung.table, lung.agreement, "A", price=False, interval_rows=0)
    told = made.to_dict()["leakage"]
    assert told["recovered_rows"] == 0
    assert told["judged_cells"] == 227 * 6
    assert told["certain_cells"] == int(made.leakage.row_pinned.sum()) > 0
    counted = sum(len(row["certain"]) for row in made.leakage.by_row())
    assert counted == told["certain_cells"]
    (note,) = [note for note in made.notes if "cells looked at are certain" in note]
    assert note.startswith(f"{counted} of 1,362")
    assert "--protect cells" in note
    assert "--exact" in note
    narrow = lung.agreement.with_projection(dimensions=1)
    strict = make_share(lung.table, narrow, "A", price=False, interval_rows=0, protect="cells")
    assert strict.leakage.certain_cells == 0
    assert not [note for note in strict.notes if "certain" in note]
