"""Contingency tables of rows and cells that two parties hold, against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import secure
from sfumato.errors import ParameterError, PeerError
from sfumato.secure import HeldCells, HeldRows, Ring, Schema, counting, reveal, together
from sfumato.secure.counting import many_cross_counts


@st.composite
def held(draw):
    """A table, and how it is divided."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    schema = Schema.of({f"c{i}": [str(v) for v in range(n)] for i, n in enumerate(sizes)})
    way = draw(st.sampled_from(["rows", "cells", "columns"]))
    if way == "rows":
        alices = rng.random(rows) < 0.5
        sides = {"alice": HeldRows(schema, codes[alices]), "bob": HeldRows(schema, codes[~alices])}
        return schema, codes, sides
    shape = codes.shape if way == "cells" else codes.shape[1:]
    alices = np.broadcast_to(rng.random(shape) < 0.5, codes.shape)
    sides = {
        "alice": HeldCells(schema, np.where(alices, codes, -1)),
        "bob": HeldCells(schema, np.where(alices, -1, codes)),
    }
    return schema, codes, sides


@settings(max_examples=30, deadline=None)
@given(held(), st.data())
def test_tables_of_parts(table, data):
    schema, codes, sides = table
    positions = range(len(schema.columns))
    asked, expected = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        columns = data.draw(st.permutations(positions))[: data.draw(st.integers(1, 3))]
        condition = data.draw(st.none() | st.sampled_from(positions))
        value = 0 if condition is None else data.draw(st.integers(0, schema.sizes[condition] - 1))
        asked.append((columns, condition, value))
        counts = np.zeros([schema.sizes[c] for c in columns], int)
        for record in codes:
            if condition is None or record[condition] == value:
                counts[tuple(record[c] for c in columns)] += 1
        expected += counts.reshape(-1).tolist()

    def party(session):
        mine = sides[session.role]
        mine.agree(session, {})
        parts = [
            mine.everything() if c is None else mine.narrow(mine.everything(), c, v)
            for _, c, v in asked
        ]
        wanted = [(part, columns) for part, (columns, _, _) in zip(parts, asked, strict=True)]
        return reveal(session, mine.counts(session, wanted), what="the tables").tolist()

    alice, bob = together(party, party)
    assert alice == bob == expected


@pytest.mark.parametrize("together_bytes", [1 << 10, 1 << 22])
@pytest.mark.parametrize("ring", [Ring.power_of_two(64), Ring.power_of_two(20), Ring.odd(10007)])
def test_many_tasks_in_common_messages(monkeypatch, ring, together_bytes):
    monkeypatch.setattr(counting, "_BYTES", together_bytes)
    rng = np.random.default_rng(4)
    shapes = [(1, 1, 5), (3, 2, 300), (40, 1, 17), (1, 6, 129)]
    tasks = [(rng.random((a, n)) < 0.5, rng.random((b, n)) < 0.5) for a, b, n in shapes]

    def party(session):
        mine = [(a, len(b)) if session.is_alice else (b, len(a)) for a, b in tasks]
        counts = many_cross_counts(session, mine, ring=ring)
        rounds = session.report().rounds
        return [reveal(session, c, what="counts").tolist() for c in counts], rounds

    (alice, rounds), (bob, _) = together(party, party)
    wanted = [(a.astype(int) @ b.T.astype(int)).reshape(-1).tolist() for a, b in tasks]
    assert alice == bob == wanted
    if ring.bits > 14 and together_bytes > 1 << 20:
        assert rounds <= 4  # greeting, base transfers, one for all tasks


def test_large_batches_are_counted_in_turn(monkeypatch):
    monkeypatch.setattr(counting, "_VECTOR_BYTES", 50)
    schema = Schema.of({"a": ["x", "y"], "b": ["x", "y"]})
    codes = np.array([[0, 1], [1, 1], [0, 0], [0, 1]] * 10)
    owner = np.array([True, False])

    def party(session):
        mine = HeldCells(schema, np.where(owner == session.is_alice, codes, -1))
        asked = [(mine.everything(), columns) for columns in ([0, 1], [1], [1, 0])]
        return reveal(session, mine.counts(session, asked), what="the tables").tolist()

    assert together(party, party)[0] == [10, 20, 0, 10, 10, 30, 10, 0, 20, 10]


def test_the_number_of_rows_is_told_to_within_a_factor_of_two():
    schema, told = Schema.of({"a": ["x", "y"]}), []

    def party(session):
        exchange = session.exchange_json
        session.exchange_json = lambda step, value, **rest: (
            told.append(value["told"]) or exchange(step, value, **rest)
        )
        HeldRows(schema, np.zeros((8 if session.is_alice else 15, 1), int)).agree(session, {})

    together(party, party)
    assert told == [4, 4]


def test_other_shapes_stop_both_sides():
    def party(session):
        length = 10 if session.is_alice else 11
        secure.scalar_product(session, np.ones(length, bool), ring=Ring.power_of_two(32))

    with pytest.raises(PeerError):
        together(party, party, timeout=20)


def test_tables_beyond_reason_are_refused():
    schema = Schema.of({f"c{i}": [str(v) for v in range(300)] for i in range(2)})
    for mine in (HeldRows(schema, [[0, 0]]), HeldCells(schema, [[0, -1]])):
        with pytest.raises(ParameterError, match="90,000 combinations"):
            mine.counts(None, [(mine.everything(), [0, 1])])
