"""Tables of two parties from Python: each opens, meets, computes, and gets the same result."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from ports import at_once, free_port
from sfumato import secure
from sfumato.errors import ColumnError, ParameterError, SourceError
from sfumato.secure import polynomial
from sfumato.secure.decision_tree import Split

ALICE = pa.table({"smokes": [True, False, False], "sex": ["f", "m", "f"], "ill": ["y", "n", "n"]})
BOB = pa.table({"ill": ["y", "y", "n"], "smokes": [True, True, False], "sex": ["m", "f", None]})


def both(alice, bob):
    """Two threads that meet on loopback; what each of them got."""
    address = f"127.0.0.1:{free_port()}"
    places = {"alice": {"listen": address}, "bob": {"peer": address}}
    work = {"alice": alice, "bob": bob}

    def party(me):
        return work[me](secure.Meeting(me, **places[me], plain=True, timeout=60))

    found = at_once(work, party)
    return found["alice"], found["bob"]


def test_a_tree_of_two_tables():
    alice, bob = both(
        lambda peer: secure.id3(ALICE, target="ill", peer=peer, share_categories=True),
        lambda peer: secure.id3(BOB, target="ill", peer=peer, share_categories=True),
    )
    assert alice.found == bob.found
    assert alice.to_dict()["tree"]["column"] == "smokes"
    assert alice.session.bytes_sent == bob.session.bytes_received
    assert ("both", "the tree") in alice.session.learned


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (pa.nulls(2), ("(missing)",)),
        (pa.array([0.0, -0.0, 1.0]), ("0", "1")),
        (pa.array([Decimal("1.00"), Decimal("-0.00"), Decimal("2.50")]), ("0", "1", "2.5")),
        (pa.array([10**30 + 1, 10**30], pa.decimal128(38, 2)), (str(10**30), str(10**30 + 1))),
        (pa.array([float("inf"), 1e16, None]), ("10000000000000000", "(missing)", "inf")),
    ],
    ids=["nothing", "two zeros", "decimals", "long decimals", "floats"],
)
def test_a_category_is_told_once_and_alike_whatever_its_type(cells, told):
    assert secure.told_categories(pa.table({"a": cells})).columns["a"] == told


def test_an_empty_column_of_the_others_cells_brings_no_category():
    ills, empty = ["y", "n", "n", "y"], pa.nulls(4)
    smokes = ["yes", "no", "no", "yes"]
    alice, bob = both(
        lambda peer: secure.id3(
            pa.table({"smokes": smokes, "ill": empty}),
            target="ill", peer=peer, split="cells", share_categories=True,
        ),
        lambda peer: secure.id3(
            pa.table({"smokes": empty, "ill": ills}),
            target="ill", peer=peer, split="cells", share_categories=True,
        ),
    )  # fmt: skip
    assert alice.found == bob.found
    assert alice.to_dict()["tree"]["branches"] == {"no": {"label": "n"}, "yes": {"label": "y"}}


def test_times_that_no_calendar_has_are_refused():
    cells = pa.array([0, 2**62], pa.timestamp("s"))
    with pytest.raises(ColumnError, match="`seen` holds times that no calendar has"):
        secure.told_categories(pa.table({"seen": cells}))


def test_a_net_of_files_by_a_schema(tmp_path):
    import pyarrow.parquet as pq

    categories = {"sex": ["f", "m", "(missing)"], "smokes": ["false", "true"], "ill": ["n", "y"]}
    (tmp_path / "schema.json").write_text(json.dumps(categories))
    schema = secure.read_schema(tmp_path / "schema.json")
    pq.write_table(ALICE, tmp_path / "a.parquet")
    alice, bob = both(
        lambda peer: secure.bayes_net(tmp_path / "a.parquet", peer=peer, schema=schema),
        lambda peer: secure.bayes_net(BOB, peer=peer, schema=schema),
    )
    assert alice.found == bob.found
    assert alice.found.order == ("sex", "smokes", "ill")
    assert not any("categories" in what for _, what in alice.session.learned)


@pytest.mark.parametrize("setting", ["fast", "paper"])
def test_models_in_either_setting(setting, monkeypatch):
    monkeypatch.setattr(polynomial, "KEY_BITS", 512)  # far too short for use

    def side(session):
        how = {"peer": session, "share_categories": True, "setting": setting}
        rows = ALICE if session.is_alice else BOB
        tree = secure.id3(rows, target="ill", **how).found
        return tree.root, secure.bayes_net(rows, **how).found.arrows

    alice, bob = secure.together(side, side)
    assert alice == bob
    assert isinstance(alice[0], Split)


def test_other_settings_stop_both():
    how = {"target": "ill", "share_categories": True}
    alice, bob = both(
        lambda peer: secure.id3(ALICE, peer=peer, setting="paper", backend="ot", **how),
        lambda peer: secure.id3(BOB, peer=peer, **how),
    )
    assert "setting" in str(alice)
    assert "setting" in str(bob)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"setting": "slow"}, "fast or paper"),
        ({"terms": 4}, "fast setting has its own"),
        ({"setting": "paper", "terms": 99}, "99 terms"),
        ({"backend": "rsa"}, "ot or paillier"),
    ],
)
def test_settings_that_cannot_be(how, told):
    meeting = secure.Meeting("bob", peer="127.0.0.1:9", plain=True)
    with pytest.raises(ParameterError, match=told):
        secure.bayes_net(BOB, peer=meeting, share_categories=True, **how)


def test_other_options_stop_both():
    alice, bob = both(
        lambda peer: secure.id3(ALICE, target="ill", peer=peer, share_categories=True, min_rows=3),
        lambda peer: secure.id3(BOB, target="ill", peer=peer, share_categories=True),
    )
    assert "min_rows" in str(alice)
    assert "min_rows" in str(bob)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda peer: secure.id3(BOB, target="sick", peer=peer), ColumnError, "no column `sick`"),
        (lambda peer: secure.id3(BOB, target="sex", peer=peer), ColumnError, "1 empty cells"),
        (lambda peer: secure.id3(BOB, target="ill", peer=peer, max_values=1), ColumnError, "diff"),
        (lambda peer: secure.bayes_net(BOB, peer=peer, split="x"), ParameterError, "rows or cells"),
        (lambda peer: secure.bayes_net(BOB, peer=peer), ParameterError, "nothing was sent"),
        (lambda peer: secure.log_of_sums([0], peer=peer), ParameterError, "positive whole number"),
        (lambda peer: secure.read_schema("none.json"), SourceError, "no such file"),
    ],
)
def test_mistakes_are_told_before_anybody_is_met(call, error, told):
    with pytest.raises(error, match=told):
        call(secure.Meeting("bob", peer="127.0.0.1:9", plain=True))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"plain": True}, "one side listens"),
        ({"peer": "127.0.0.1:9"}, "certificates"),
        ({"peer": "127.0.0.1:9", "cert": "a.crt"}, "peer_cert="),
        ({"peer": "127.0.0.1", "plain": True}, "host:port"),
        ({"peer": "127.0.0.1:9", "plain": True, "timeout": 0}, "timeout="),
    ],
)
def test_meetings_that_cannot_be(given, told):
    with pytest.raises(ParameterError, match=told):
        secure.Meeting("bob", **given)


P60 = 2**60 - 93


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"modulus": P60, "bits": 13, "terms": 4}, 0.00443),
        ({"modulus": P60, "bits": 10, "terms": 5}, 0.00183),
        ({"modulus": P60, "bits": 10, "terms": 2, "precision": 8}, 0.05),
        ({"modulus": P60, "bits": 10, "terms": 5, "backend": "paillier"}, 0.00183),
        ({"modulus": P60, "bits": 13, "terms": 4, "scaling": "table"}, 0.0045),
        ({"modulus": P60, "bits": 13, "terms": 4, "scaling": "statistical"}, 0.0046),
        ({"bits": 20}, 3e-5),
    ],
)
def test_logarithms_in_the_setting_of_the_paper(settings, error):
    def side(session):
        mine = [500, 7] if session.is_alice else [500, 9]
        return secure.log_of_sums(mine, peer=session, **settings).found

    alice, bob = secure.together(side, side)
    assert alice == bob
    assert alice.base == "e"
    assert alice.error <= error
    assert alice.logarithms == pytest.approx([math.log(1000), math.log(16)], abs=alice.error)


def test_the_quick_logarithm_is_of_base_two():
    def side(session):
        mine = [500, 7] if session.is_alice else [500, 9]
        return secure.log_of_sums(mine, peer=session, quick=True, bits=12).found

    alice, _ = secure.together(side, side)
    assert (alice.base, alice.error) == ("2", 0.0745)
    assert alice.logarithms == pytest.approx([math.log2(1000), 4], abs=0.0745)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modulus": 10}, "odd modulus"),
        ({"modulus": -3}, "odd modulus"),
        ({"bits": 1}, "2 to 40 bits"),
        ({"bits": 41}, "2 to 40 bits"),
        ({"dual": True, "terms": 3}, "one setting"),
        ({"quick": True, "terms": 3}, "no polynomial"),
        ({"bits": 8}, "Use 1 to 127"),
    ],
)
def test_settings_that_do_not_go_together(settings, words):
    def side(session):
        return secure.log_of_sums([200], peer=session, **settings)

    with pytest.raises(ParameterError, match=words):
        secure.together(side, side)
