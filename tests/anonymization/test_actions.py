"""Actions on single columns: what values become, and that the recoding still finds the old ones."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.anonymization.actions import Merged, new_values
from sfumato.engines.protocol import Codes
from sfumato.errors import ColumnError, InputError, ParameterError
from sfumato.files import write_secret


def cells(release, *names):
    table = pa.Table.from_batches(list(release.table.batches(names)))
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.mark.parametrize(
    ("values", "actions", "wanted"),
    [
        ([3, 17, None, 99], {"top": 90, "bottom": 10}, [10, 17, None, 90]),
        ([1, 2, 3, 7], {"round": 5}, [0, 0, 5, 5]),
        ([0.14, 0.26], {"round": 0.1}, [0.1, 0.3]),
        ([1, 2], {"top": 1.5}, [1.0, 1.5]),
        ([2**53 + 1, 4], {"bottom": 5}, [2**53 + 1, 5]),
        (["a", "b", None], {"recode": {"b": "c"}}, ["a", "c", None]),
        ([1, 2, 3], {"recode": {"1": 7}, "top": 5}, [5, 2, 3]),
        ([1, 2, 3], {"recode": {"1": "few"}}, ["few", "2", "3"]),
    ],
)
def test_what_values_become(values, actions, wanted):
    assert new_values(pa.array(values), actions, "x").to_pylist() == wanted


def test_a_type_stays_where_it_can():
    assert new_values(pa.array([1, 99], pa.int16()), {"top": 90}, "x").type == pa.int16()
    assert new_values(pa.array([1.0], pa.float32()), {"round": 2}, "x").type == pa.float32()
    wide = new_values(pa.array([1, 99], pa.int8()), {"bottom": 500}, "x")
    assert wide.to_pylist() == [500, 500]
    price = pa.array([Decimal("1.25"), Decimal("9.50")])
    assert new_values(price, {"top": 5}, "x").to_pylist() == [Decimal("1.25"), Decimal("5.00")]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=4, max_size=60),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=60)
def test_quasi_identifiers_change_before_they_are_blurred(rows, k, relaxed):
    """The oracle changes the table first and anonymizes it then."""
    table = pa.table(
        {"age": [age for age, _ in rows], "job": [job for _, job in rows], "n": range(len(rows))}
    )
    k = min(k, len(rows))
    actions = {"age": {"top": 6, "round": 2}, "job": {"recode": dict.fromkeys(["a"], "b")}}
    if not any(job == "a" for _, job in rows):
        actions.pop("job")
    changed = pa.table(
        {
            "age": [min(2 * int(np.floor(age / 2 + 0.5)), 6) for age, _ in rows],
            "job": ["b" if job == "a" else job for _, job in rows],
            "n": range(len(rows)),
        }
    )
    asked = {"qi": ["age", "job"], "k": k, "relaxed": relaxed}
    at_once = sf.anonymize(table, columns=actions, **asked)
    in_turn = sf.anonymize(changed, **asked)
    assert Counter(cells(at_once, "age", "job")) == Counter(cells(in_turn, "age", "job"))
    assert at_once.k == in_turn.k >= k
    assert at_once.utility == in_turn.utility
    if not relaxed:
        assert cells(at_once, "age", "job", "n") == cells(in_turn, "age", "job", "n")


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=1, unique_by=lambda x: x[0]),
    st.data(),
)
def test_pieces_of_merged_entries_are_dealt_to_the_original_ones(held, data):
    values = pa.array([value for value, _ in sorted(held)])
    counts = np.array([count for _, count in sorted(held)])
    original = Codes(("x",), (np.arange(len(values)),), (values,), counts)
    merged = Merged.of(original, {"x": {"round": 3}})
    entry, rows = [], []
    for new in range(merged.entries.entries):
        left = int(merged.entries.counts[new])
        while left:
            rows.append(data.draw(st.integers(1, left)))
            entry.append(new)
            left -= rows[-1]
    groups = np.arange(len(rows))
    got, owner, taken, source = merged.expanded(groups, np.array(entry), np.array(rows))
    assert np.array_equal(np.bincount(got, weights=taken), rows)
    assert np.array_equal(np.bincount(owner, weights=taken), counts)
    assert np.array_equal(merged.into[owner], source)
    assert (np.diff(owner) >= 0).all()


def test_columns_that_are_no_quasi_identifiers_change_too(tmp_path):
    key = tmp_path / "secret.key"
    write_secret(key, b"8f14e45fceea167a5a36dedd4bea2543\n")
    table = pa.table(
        {
            "id": [7, 8, 7, 9],
            "age": [20, 20, 30, 30],
            "pay": [10, 25, 99, None],
            "name": list("abcd"),
        }
    )
    release = sf.anonymize(
        table,
        qi=["age"],
        k=2,
        columns={"id": {"pseudonym": True}, "pay": {"top": 50}, "name": {"drop": True}},
        key_file=key,
    )
    assert release.table.columns == ("id", "age", "pay")
    assert [pay for (pay,) in cells(release, "pay")] == [10, 25, 50, None]
    ids = [name for (name,) in cells(release, "id")]
    assert ids[0] == ids[2] != ids[1]
    assert all(len(name) == 32 for name in ids)
    assert release.column_actions == {
        "id": "replaced by pseudonyms",
        "age": "kept",
        "pay": "top-coded at 50",
        "name": "dropped",
    }
    again = sf.anonymize(pa.table({"id": ["9", "7"], "age": [1, 1]}), qi=["age"], k=2,
                         pseudonyms=["id"], key_file=key)  # fmt: skip
    assert [name for (name,) in cells(again, "id")] == [ids[3], ids[0]]


def test_a_recoded_sensitive_column_counts_as_recoded():
    table = pa.table({"age": [20, 20, 30, 30], "ill": ["flu", "cold", "flu", "gout"]})
    same = {"ill": {"recode": {"cold": "flu", "gout": "flu"}}}
    with pytest.raises(ParameterError, match="1 distinct value,"):
        sf.anonymize(table, qi=["age"], sensitive=["ill"], l=2, columns=same)
    other = {"ill": {"recode": {"cold": "other", "gout": "other"}}}
    release = sf.anonymize(table, qi=["age"], sensitive=["ill"], l=2, columns=other)
    assert cells(release, "ill") == [("flu",), ("other",), ("flu",), ("other",)]


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"agge": {"top": 5}}, ColumnError, "Did you mean `age`"),
        ({"age": {"topp": 5}}, ParameterError, "Did you mean `top`"),
        ({"job": {"top": 5}}, ColumnError, "needs numbers"),
        ({"age": {"top": "old"}}, ParameterError, "must be a number"),
        ({"age": {"top": 1, "bottom": 5}}, ParameterError, "below"),
        ({"age": {"round": 0}}, ParameterError, "larger than zero"),
        ({"age": {"top": float("nan")}}, ParameterError, "must be a number"),
        ({"age": {"bottom": float("inf")}}, ParameterError, "must be a number"),
        ({"age": {"round": float("inf")}}, ParameterError, "must be a number"),
        ({"pay": {"drop": "no"}}, ParameterError, "must be true or false"),
        ({"pay": {"pseudonym": 1}}, ParameterError, "must be true or false"),
        ({"job": {"recode": {"a": ["b"]}}}, ParameterError, "to one value"),
        ({"age": {"recode": {"17": "x"}}}, ParameterError, "1 of 1 recoded values do not occur"),
        ({"age": {"recode": {}}}, ParameterError, "table of old and new"),
        ({"age": {"recode": {"1": "x"}, "top": 3}}, ParameterError, "holds text"),
        ({"job": {"drop": True, "recode": {"a": "b"}}}, ParameterError, "nothing for other"),
        ({"pay": {"pseudonym": True}}, ParameterError, "secret key"),
        ({"age": {"drop": True}}, ColumnError, "at the same time"),
        ({"age": 3}, ParameterError, "must be a dictionary"),
    ],
)
def test_bad_actions_are_refused(columns, error, words):
    table = pa.table({"age": [1, 2], "job": ["a", "b"], "pay": [3, 4]})
    with pytest.raises(error, match=words):
        sf.anonymize(table, qi=["age", "job"], k=1, columns=columns)


def test_a_short_key_is_refused(tmp_path):
    key = tmp_path / "key"
    write_secret(key, b"short")
    with pytest.raises(InputError, match="5 bytes"):
        sf.anonymize(pa.table({"a": [1], "b": [2]}), qi=["a"], k=1, pseudonyms=["b"], key_file=key)


def test_a_key_that_nothing_needs_is_refused(tmp_path):
    write_secret(tmp_path / "secret.key", b"8f14e45fceea167a5a36dedd4bea2543\n")
    settings = tmp_path / "anonymize.toml"
    settings.write_text('qi = ["a"]\nk = 1\nkey_file = "secret.key"\n')
    table = pa.table({"a": [1], "b": [2]})
    with pytest.raises(ParameterError, match=r"no column that becomes a pseudonym.*pseudonyms="):
        sf.anonymize(table, config=settings)
    assert sf.anonymize(table, config=settings, pseudonyms=["b"]).k == 1
    assert sf.anonymize(table, config=settings, columns={"b": {"pseudonym": True}}).k == 1
