"""ID3 between two parties: the tree of the pooled rows, on both sides."""

from __future__ import annotations

import contextlib
import math
from collections import Counter

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pooled_models import plain_id3, taylor_ln
from samples import sample_path
from sfumato import secure
from sfumato.errors import ColumnError, ParameterError, PeerError
from sfumato.secure import HeldCells, HeldRows, Schema, decision_tree, polynomial, together
from sfumato.secure.decision_tree import Leaf, Split
from sfumato.secure.logarithm import Setting
from two_parties import pooled_bits, split_cells, split_rows

TENNIS = """
sunny hot high weak no / sunny hot high strong no / overcast hot high weak yes
rain mild high weak yes / rain cool normal weak yes / rain cool normal strong no
overcast cool normal strong yes / sunny mild high weak no / sunny cool normal weak yes
rain mild normal weak yes / sunny mild normal strong yes / overcast mild high strong yes
overcast hot normal weak yes / rain mild high strong no
"""


def coded(columns, records):
    """A schema of the values that occur, and the records as codes."""
    categories = {name: sorted({r[i] for r in records}) for i, name in enumerate(columns)}
    codes = [[categories[n].index(r[i]) for i, n in enumerate(columns)] for r in records]
    return Schema.of(categories), np.array(codes)


def tennis():
    lines = TENNIS.replace("\n", "/").split("/")
    records = [line.split() for line in lines if line.strip()]
    return coded(["outlook", "temperature", "humidity", "wind", "play"], records)


def grow(held, **options):
    """The tree on which both sides agree."""
    alice, bob = together(*[lambda s: secure.grow_tree(s, held[s.role], **options)] * 2)
    assert alice == bob
    return alice


def assert_same_where_gains_differ(found, plain):
    """Equal, but below nodes where two columns gain the same within the stated error."""
    below = []
    expected = dict(plain.tree.walk())
    for path, node in sorted(found.walk(), key=lambda item: len(item[0])):
        if any(path[: len(close)] == close for close in below):
            continue
        wanted = expected[path]
        if isinstance(node, Split) and isinstance(wanted, Split) and node.column != wanted.column:
            assert plain.gaps[path] <= found.tolerance, path
            below.append(path)
        elif isinstance(node, Leaf) or isinstance(wanted, Leaf):
            assert node == wanted, path


@st.composite
def tables(draw, most_rows=60):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    sizes.append(draw(st.integers(2, 3)))
    rows = draw(st.integers(0, most_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    if rows and draw(st.booleans()):  # something to learn
        codes[:, -1] = np.minimum(codes[:, 0], sizes[-1] - 1)
    names = {f"c{i}": [f"v{v}" for v in range(size)] for i, size in enumerate(sizes)}
    return Schema.of(names), codes


def test_tennis():
    """Quinlan's example: fourteen days, five of them without play."""
    schema, codes = tennis()
    tree = grow(split_rows(schema, codes), target="play").to_dict()["tree"]
    assert tree["column"] == "outlook"
    assert tree["branches"]["overcast"] == {"label": "yes"}
    assert tree["branches"]["sunny"] == {
        "column": "humidity",
        "branches": {"high": {"label": "no"}, "normal": {"label": "yes"}},
    }
    assert tree["branches"]["rain"] == {
        "column": "wind",
        "branches": {"strong": {"label": "no"}, "weak": {"label": "yes"}},
    }
    assert grow(split_cells(schema, codes), target="play").to_dict()["tree"] == tree


@settings(max_examples=25, deadline=None)
@given(tables(), st.integers(0, 9), st.sampled_from([None, 0, 1, 2]), st.integers(1, 12))
def test_rows_give_the_pooled_tree(table, seed, max_depth, min_rows):
    held = split_rows(*table, seed)
    options = {"target": table[0].columns[-1], "max_depth": max_depth, "min_rows": min_rows}
    plain = plain_id3(*table, bits=pooled_bits(held), **options)
    assert_same_where_gains_differ(grow(held, **options), plain)


@settings(max_examples=12, deadline=None)
@given(tables(most_rows=30), st.integers(0, 9), st.sampled_from([1, 2]))
def test_cells_give_the_pooled_tree(table, seed, max_depth):
    held = split_cells(*table, seed)
    options = {"target": table[0].columns[-1], "max_depth": max_depth}
    plain = plain_id3(*table, bits=pooled_bits(held), **options)
    assert_same_where_gains_differ(grow(held, **options), plain)


@settings(max_examples=15, deadline=None)
@given(tables(), st.integers(0, 9))
def test_fine_work_gives_the_pooled_tree_whole(table, seed):
    """Columns that gain the same, by whichever counts, are decided by their order."""
    held = split_rows(*table, seed)
    options = {"target": table[0].columns[-1], "fine": True}
    plain = plain_id3(*table, bits=pooled_bits(held), **options)
    assert grow(held, **options).root == plain.tree.root


@settings(max_examples=15, deadline=None)
@given(tables(), st.integers(0, 9), st.sampled_from([2, 3, 5]), st.sampled_from(["rows", "cells"]))
def test_the_setting_of_the_paper_is_id3_with_its_series(table, seed, terms, by):
    """Every decision, ties among them, is that of whole numbers in plain text."""
    held = (split_rows if by == "rows" else split_cells)(*table, seed)
    bits = max(4, pooled_bits(held))
    options = {"target": table[0].columns[-1], "max_depth": 2}
    plain = plain_id3(*table, bits=bits, ln=taylor_ln(bits, terms), **options)
    found = grow(held, setting=Setting("paper", terms, "ot"), **options)
    assert found.root == plain.tree.root


@pytest.mark.parametrize("by", [split_rows, split_cells])
def test_tennis_in_the_setting_of_the_paper(by, monkeypatch):
    """A prime of the size of section 3, Taylor's series and Paillier's encryption throughout."""
    monkeypatch.setattr(polynomial, "KEY_BITS", 512)  # far too short for use
    schema, codes = tennis()
    found = grow(by(schema, codes), target="play", setting=Setting("paper", 3))
    assert found.to_dict()["tree"] == grow(by(schema, codes), target="play").to_dict()["tree"]
    assert 4 * 0.0112 <= found.tolerance < 4 * 0.0115


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 6))
def test_plain_tree_takes_the_largest_gain(table, min_rows):
    """The reference against entropies counted one record at a time."""
    schema, codes = table
    target = len(schema.columns) - 1
    tree = plain_id3(schema, codes, target=schema.columns[target], min_rows=min_rows).tree
    records = [tuple(int(v) for v in row) for row in codes]

    def entropy(rows):
        counts = Counter(r[target] for r in rows).values()
        return -sum(c / len(rows) * math.log2(c / len(rows)) for c in counts)

    def gain(rows, column):
        groups = [[r for r in rows if r[column] == v] for v in {r[column] for r in rows}]
        return entropy(rows) - sum(len(g) / len(rows) * entropy(g) for g in groups)

    for path, node in tree.walk():
        rows = [r for r in records if all(r[c] == v for c, v in path)]
        labels = Counter(r[target] for r in rows)
        if isinstance(node, Split):
            assert len(rows) >= min_rows
            assert len(labels) > 1
            left = [c for c in range(target) if c not in dict(path)]
            gains = [gain(rows, c) for c in left]
            assert gain(rows, node.column) >= max(gains) - 1e-6
            first = min(c for c, g in zip(left, gains, strict=True) if g > max(gains) - 1e-9)
            assert node.column == first
        elif rows:
            assert labels[node.label] == max(labels.values())
            assert len(rows) < min_rows or len(labels) == 1 or len(path) == target


def test_a_category_that_nobody_has_ends_with_the_commonest_label_above():
    schema = Schema.of({"x": ["a", "b", "nobody"], "y": ["no", "yes"]})
    codes = np.array([[0, 1]] * 5 + [[1, 0]] * 3)
    tree = grow(split_rows(schema, codes), target="y").to_dict()["tree"]
    assert tree["branches"]["nobody"] == {"label": "yes"}


def test_one_side_without_rows_and_both_without():
    schema, codes = tennis()
    none = HeldRows(schema, [])
    tree = grow({"alice": none, "bob": HeldRows(schema, codes)}, target="play")
    assert tree.to_dict()["tree"] == plain_id3(schema, codes, target="play").tree._named(tree.root)
    assert grow({"alice": none, "bob": none}, target="play").root == Leaf(0)


def test_the_first_of_equal_columns_is_asked_and_ties_of_labels_go_up():
    schema = Schema.of({"copy": ["a", "b"], "same": ["a", "b"], "y": ["no", "yes"]})
    codes = np.array([[0, 0, 0], [1, 1, 1]] * 20 + [[0, 0, 1]] * 20 + [[1, 1, 1]])
    for seed in range(5):
        tree = grow(split_rows(schema, codes, seed), target="y", max_depth=1)
        assert tree.root == Split(0, (Leaf(1), Leaf(1)))  # 20 to 20: more "yes" above
    assert tree.simplified().root == Leaf(1)


def test_predictions_follow_the_tree():
    schema, codes = tennis()
    tree = grow(split_rows(schema, codes), target="play")
    np.testing.assert_array_equal(tree.predict(codes), codes[:, -1])
    np.testing.assert_array_equal(tree.simplified().predict(codes), codes[:, -1])
    assert (tree.depth, tree.leaves, tree.splits) == (2, 5, 3)
    with pytest.raises(ParameterError, match="one number for each column"):
        tree.predict(codes[:, :2])


def test_what_is_learned_is_the_tree():
    held = split_rows(*tennis())

    def party(session):
        secure.grow_tree(session, held[session.role], target="play")
        return session.report().learned

    rows = "the other's number of rows, to within a factor of two"
    assert together(party, party)[0] == (("both", rows), ("both", "the tree"))


def test_of_nodes_that_go_on_nothing_is_opened(monkeypatch):
    opened, run = [], decision_tree.run_circuit

    def watched(*args, **options):
        opened.append(run(*args, **options))
        return opened[-1]

    monkeypatch.setattr(decision_tree, "run_circuit", watched)
    tree = grow(split_rows(*tennis()), target="play").to_dict()["tree"]
    assert tree["column"] == "outlook"  # the root goes on, where the second category is commonest
    assert sum(int((~ended.astype(bool)).sum()) for ended, *_ in opened) == 2 * 3
    assert not any(label[ended == 0].any() for ended, *labels in opened for label in labels)


def test_nodes_of_fewer_rows_end():
    schema, codes = tennis()  # five days each of sun and rain
    trees = [grow(split_rows(schema, codes), target="play", min_rows=n).to_dict() for n in (5, 6)]
    assert [found["splits"] for found in trees] == [3, 1]
    assert trees[1]["tree"]["branches"]["sunny"] == {"label": "no"}


def test_messages_tell_the_shape_of_the_tree_and_no_more():
    """Other rows, other counts, same shape: same number of bytes each way."""
    schema = Schema.of({"x": ["a", "b"], "z": ["a", "b"], "y": ["no", "yes"]})
    costs = set()
    for first in (3, 9, 14):
        codes = np.array([[0, 0, 0]] * first + [[1, 0, 1]] * (25 - first) + [[0, 1, 0]] * 2)
        held = {"alice": HeldRows(schema, codes[:14]), "bob": HeldRows(schema, codes[14:])}

        def party(session, held=held):
            tree = secure.grow_tree(session, held[session.role], target="y")
            assert isinstance(tree.root, Split)
            return session.report()

        reports = together(party, party)
        costs.add(tuple((r.bytes_sent, r.messages_sent, r.rounds) for r in reports))
    assert len(costs) == 1


@pytest.mark.parametrize(
    ("alice", "bob", "words"),
    [
        ({"target": "play"}, {"target": "wind"}, "the target"),
        ({"min_rows": 2}, {"min_rows": 3}, "min_rows"),
        ({"max_depth": 2}, {}, "max_depth"),
        ({"fine": True}, {}, "fine"),
    ],
)
def test_other_options_stop_both_sides(alice, bob, words):
    held = split_rows(*tennis())
    both_stop(
        lambda s: secure.grow_tree(s, held["alice"], **{"target": "play", **alice}),
        lambda s: secure.grow_tree(s, held["bob"], **{"target": "play", **bob}),
        words,
    )


def both_stop(alice, bob, words):
    """Both sides end with an error that names what differs."""
    errors = []

    def caught(party):
        def call(session):
            with pytest.raises(PeerError) as error:
                party(session)
            errors.append(str(error.value))
            raise error.value

        return call

    with pytest.raises(PeerError):
        together(caught(alice), caught(bob), timeout=20)
    assert len(errors) == 2
    assert all(words in error for error in errors), errors


def test_other_columns_categories_or_holdings_stop_both_sides():
    schema, codes = tennis()
    more = Schema(schema.columns, (*schema.values[:3], ("strong", "weak", "none"), ("no", "yes")))
    renamed = Schema((*schema.columns[:3], "storm", "play"), schema.values)
    rows = HeldRows(schema, codes)
    cells = split_cells(schema, codes)
    twice = HeldCells(schema, codes)
    fewer = HeldCells(schema, np.full((9, 5), -1))
    for other, words in (
        (HeldRows(more, codes), "column `wind`"),
        (HeldRows(renamed, codes), "the order of the columns"),
        (cells["bob"], "who holds what"),
    ):
        both_stop(
            lambda s: secure.grow_tree(s, rows, target="play"),
            lambda s, other=other: secure.grow_tree(s, other, target="play"),
            words,
        )
    for other, words in ((twice, "whose each cell is"), (fewer, "the number of rows")):
        both_stop(
            lambda s: secure.grow_tree(s, cells["alice"], target="play"),
            lambda s, other=other: secure.grow_tree(s, other, target="play"),
            words,
        )


def test_a_peer_that_stops_half_way():
    held = split_rows(*tennis())

    facts = {"the target": "play", "max_depth": None, "min_rows": 2, "fine": False}
    facts |= Setting().facts

    def leaves(session):
        held["bob"].agree(session, facts)
        raise RuntimeError("gone")

    errors = []

    def stays(session):
        try:
            secure.grow_tree(session, held["alice"], target="play")
        except PeerError as error:
            errors.append(error)
            raise

    with pytest.raises(RuntimeError, match="gone"):
        together(stays, leaves, timeout=20)
    assert len(errors) == 1


@pytest.mark.parametrize("dying", ["alice", "bob"])
def test_a_line_that_breaks_at_any_message(dying):
    """Whichever message is the last one, the other side ends with an error of its own."""
    schema, codes = tennis()
    held = split_cells(schema, codes[:6])

    def run(fatal):
        """Messages the dying side sent, and who noticed that the line broke."""
        sent, noticed = [], []

        def party(session):
            channel = session.channel
            forward = channel.send

            def send(step, payload):
                sent.append(step)
                if len(sent) == fatal:
                    channel._sock.close()
                forward(step, payload)

            if session.role == dying:
                channel.send = send
            try:
                secure.grow_tree(session, held[session.role], target="play", max_depth=1)
            except PeerError:
                noticed.append(session.role)
                raise
            channel.send = forward

        with contextlib.suppress(PeerError):
            together(party, party, timeout=20)
        return len(sent), noticed

    messages, noticed = run(fatal=None)
    assert messages > 8
    assert not noticed
    for fatal in range(1, messages + 1):
        assert set(run(fatal)[1]) == {"alice", "bob"}, fatal


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"target": "Play"}, ColumnError),
        ({"target": "play", "max_depth": -1}, ParameterError),
        ({"target": "play", "min_rows": 0}, ParameterError),
    ],
)
def test_bad_options_are_refused_before_anything_is_sent(options, error):
    held = split_rows(*tennis())
    with pytest.raises(error):
        secure.grow_tree(None, held["alice"], **options)


def test_bad_cells_and_schemas():
    schema = Schema.of({"x": ["a", "b"], "y": ["no", "yes"]})
    for codes in ([[0, 2]], [[-1, 0]], [[0.5, 1]], [[0]], [0, 1]):
        with pytest.raises(ParameterError):
            HeldRows(schema, np.array(codes))
    with pytest.raises(ParameterError, match="column `y`"):
        HeldCells(schema, [[0, -2]])
    for bad in ({}, {"x": []}, {"x": ["a", "a"]}):
        with pytest.raises((ParameterError, ColumnError)):
            Schema.of(bad)
    with pytest.raises(ColumnError, match="twice"):
        Schema(("x", "x"), (("a",), ("b",)))
    with pytest.raises(ParameterError, match="one category"):
        secure.grow_tree(None, HeldRows(Schema.of({"x": ["a"]}), [[0]]), target="x")


def real(name, columns=None):
    table = pq.read_table(sample_path(f"{name}.parquet"))
    for column in table.column_names:
        table = table.filter(pc.is_valid(table[column]))
    table = table.select(columns or table.column_names)
    categories, codes = {}, []
    for column in table.column_names:
        values, code = np.unique(table[column].to_numpy().astype(str), return_inverse=True)
        categories[column] = values.tolist()
        codes.append(code)
    return Schema.of(categories), np.stack(codes, axis=1)


@pytest.mark.slow  # `test_nursery` is the same with another table
def test_adult():
    """Eight columns of categories, the 30,162 complete rows split at random."""
    columns = "workclass education marital-status occupation relationship race sex native-country"
    schema, codes = real("adult", [*columns.split(), "income"])
    assert len(codes) == 30_162
    held = split_rows(schema, codes)
    options = {"target": "income", "min_rows": 100}
    plain = plain_id3(schema, codes, bits=pooled_bits(held), **options)
    found = grow(held, **options)
    assert found.splits > 200
    assert found.root == plain.tree.root


def test_nursery():
    schema, codes = real("nursery")
    held = split_rows(schema, codes)
    plain = plain_id3(schema, codes, target="class", bits=pooled_bits(held))
    found = grow(held, target="class")
    assert found.root == plain.tree.root
    assert (found.predict(codes) == codes[:, -1]).all()
