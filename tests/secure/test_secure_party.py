"""Tables of two parties from Python: each opens, meets, computes, and gets the same result."""

from __future__ import annotations

import json
import threading

import pyarrow as pa
import pytest

from ports import free_port
from sfumato import secure
from sfumato.errors import ColumnError, ParameterError, SourceError

ALICE = pa.table({"smokes": [True, False, False], "sex": ["f", "m", "f"], "ill": ["y", "n", "n"]})
BOB = pa.table({"ill": ["y", "y", "n"], "smokes": [True, True, False], "sex": ["m", "f", None]})


def both(alice, bob):
    """Two threads that meet on loopback; what each of them got."""
    address = f"127.0.0.1:{free_port()}"
    places = {"alice": {"listen": address}, "bob": {"peer": address}}
    found = {}

    def run(me, work):
        try:
            found[me] = work(secure.Meeting(me, **places[me], plain=True, timeout=60))
        except Exception as error:
            found[me] = error

    threads = [threading.Thread(target=run, args=pair) for pair in (("alice", alice), ("bob", bob))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
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
