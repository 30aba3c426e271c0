"""``sfumato party``: two processes that meet over TLS on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from cli_tools import Program, sfumato
from namespaces import two_hosts
from pooled_models import plain_bayes_net, plain_id3
from ports import connected, free_port
from sfumato.secure import Schema, make_keys
from sfumato.secure.party import MISSING


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob", "mallory"):
        make_keys(folder, name)
    return folder


def tls(keys, me, peer):
    files = {"--cert": f"{me}.crt", "--key": f"{me}.key", "--peer-cert": f"{peer}.crt"}
    return [word for option, name in files.items() for word in (option, keys / name)]


def meeting(keys, role, port, *, trusting=None, timeout=30):
    peer = "bob" if role == "alice" else "alice"
    place = ["--listen" if role == "alice" else "--peer", f"127.0.0.1:{port}"]
    return ["--me", role, *place, *tls(keys, role, trusting or peer), "--timeout", timeout]


def start(*words, prefix=()):
    if not prefix:
        return Program("party", *words)
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "sfumato", "party", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
    )


def ended(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, " ".join(err.split())


def both(keys, program, alice, bob, **settings):
    """Exit code, output and messages of each side, of which one is here and one a process."""
    port = free_port()
    hers = start(program, *meeting(keys, "alice", port, **settings), *alice)
    his = sfumato("party", program, *meeting(keys, "bob", port), *bob)
    return [ended(hers), (his.code, his.out, " ".join(his.err.split()))]


def patients(rows=400, seed=0):
    """Columns of several types, with empty cells, and something to learn."""
    rng = np.random.default_rng(seed)
    stage = rng.integers(1, 4, rows)
    sex = rng.choice(["f", "m"], rows)
    smokes = rng.random(rows) < 0.4
    ward = rng.choice(["north", "south", None], rows, p=[0.5, 0.4, 0.1])
    ill = np.where(rng.random(rows) < 0.1 + 0.2 * stage + 0.15 * smokes, "yes", "no")
    return pa.table({"stage": stage, "sex": sex, "smokes": smokes, "ward": ward, "ill": ill})


def text(value):
    if value is None:
        return MISSING
    return str(value).lower() if isinstance(value, bool) else str(value)


def coded(table):
    """The pooled rows as the two sides should see them."""
    columns = {name: [text(v) for v in table[name].to_pylist()] for name in table.column_names}
    schema = Schema.of({name: sorted(set(values)) for name, values in columns.items()})
    places = [{v: i for i, v in enumerate(values)} for values in schema.values]
    lists = zip(columns.values(), places, strict=True)
    return schema, np.array([[place[v] for v in values] for values, place in lists]).T


@pytest.fixture
def rows(tmp_path):
    """Alice has Parquet without anybody of stage 3, Bob CSV with the columns in another order."""
    table = patients()
    hers = np.array(table["stage"]) < 3
    hers[::3] = False
    pq.write_table(table.filter(pa.array(hers)), tmp_path / "alice.parquet")
    his = table.filter(pa.array(~hers)).select(["ill", "ward", "smokes", "sex", "stage"])
    csv.write_csv(his, tmp_path / "bob.csv")
    return tmp_path, table


def test_id3_of_rows(keys, rows):
    folder, table = rows
    options = ["--target", "ill", "--min-rows", "10", "--json", "--share-categories"]
    files = ["alice.parquet", "bob.csv"]
    (code_a, out_a, err_a), (code_b, out_b, err_b) = both(
        keys,
        "id3",
        *(["--rows", folder / name, *options, "-o", folder / f"{name}.json"] for name in files),
    )
    assert (code_a, code_b) == (0, 0), (err_a, err_b)
    alice, bob = json.loads(out_a), json.loads(out_b)
    schema, codes = coded(table)
    plain = plain_id3(schema, codes, target="ill", min_rows=10).tree
    assert alice["tree"] == bob["tree"] == plain.to_dict()["tree"]
    assert alice["splits"] > 3
    written = [(folder / f"{name}.json").read_bytes() for name in files]
    assert written[0] == written[1]
    assert json.loads(written[0])["tree"] == alice["tree"]
    assert "session" not in json.loads(written[0])
    session = alice["session"]
    assert session["encrypted"]
    assert session["bytes_sent"] == bob["session"]["bytes_received"] > 0
    assert session["rounds"] > 0
    assert session["learned"] == [
        {"who": "both", "what": "which categories occur in the other's columns"},
        {"who": "both", "what": "the other's number of rows, to within a factor of two"},
        {"who": "both", "what": "the tree"},
    ]


def test_id3_by_an_agreed_schema_tells_no_categories(keys, rows):
    folder, table = rows
    schema, _ = coded(table.drop_columns("ward"))
    agreed = {
        **dict(zip(schema.columns, schema.values, strict=True)),
        "stage": ["1", "2", "3", "4"],
    }
    (folder / "schema.json").write_text(json.dumps(agreed))
    options = [
        "--target",
        "ill",
        "--max-depth",
        2,
        "-x",
        "ward",
        "--schema",
        folder / "schema.json",
    ]
    (code, out, err), (other, _, _) = both(
        keys,
        "id3",
        ["--rows", folder / "alice.parquet", *options],
        ["--rows", folder / "bob.csv", *options],
    )
    assert (code, other) == (0, 0), err
    assert "ill, by" in out
    assert "stage = 3: yes" in out
    assert "categories" not in out
    assert "Both learned the tree." in out
    assert "rounds (TLS 1.3)" in out
    assert "Nothing else was shown to either side." in out
    assert "Both sides ended with the same result and transcript (" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_categories_are_told_only_by_consent(rows, monkeypatch):
    """They used to be sent in clear before anybody was asked."""
    folder, _ = rows
    monkeypatch.chdir(folder)
    reached = []
    monkeypatch.setattr("sfumato.secure.session.dial", lambda *_: reached.append(1))
    words = ["--me", "bob", "--peer", "127.0.0.1:9", "--plain", "--rows", "bob.csv"]
    for program in (["id3", "--target", "ill"], ["bayes"]):
        done = sfumato("party", *program, *words)
        assert done.code == 2
        assert "--share-categories" in done.err
        assert "`stage` (3)" in " ".join(done.err.split())
        assert "north" not in done.err
        assert "ward: " in done.out
        assert "north" in done.out
    assert not reached


def test_bayes_of_cells(keys, tmp_path):
    """Alice has one column and half of another, Bob the rest."""
    rng = np.random.default_rng(2)
    a = rng.integers(0, 3, 300)
    b = np.where(rng.random(300) < 0.8, a, rng.integers(0, 3, 300))
    c = rng.integers(0, 2, 300)
    half = np.arange(300) < 150
    hers = {"a": a, "b": pa.array(b, mask=half)}
    his = {"b": pa.array(b, mask=~half), "c": c}
    for name, columns in (("alice", hers), ("bob", his)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    options = ["--split", "cells", "--json", "--share-categories"]
    (code, out, err), (other, out_b, _) = both(
        keys,
        "bayes",
        *(["--rows", tmp_path / f"{name}.parquet", *options] for name in ("alice", "bob")),
    )
    assert (code, other) == (0, 0), err
    schema, codes = coded(pa.table({"a": a, "b": b, "c": c}))
    plain = plain_bayes_net(schema, codes).net
    found = json.loads(out)
    assert found["parents"] == json.loads(out_b)["parents"] == plain.to_dict()["parents"]
    assert found["parents"]["b"] == ["a"]


def test_log(keys):
    (code, out, err), (other, out_b, _) = both(
        keys, "log", ["--number", 600, "--number", 12], ["--number", 400, "--number", 30, "--json"]
    )
    assert (code, other) == (0, 0), err
    assert "ln of sum 1: 6.9077" in out
    assert json.loads(out_b)["logarithms"] == pytest.approx([np.log(1000), np.log(42)], abs=3e-5)


@pytest.mark.parametrize("scaling", ["table", "exact", "statistical"])
def test_log_as_in_the_paper(keys, scaling):
    how = ["--modulus", 2**60 - 93, "--bits", 13, "--terms", 4, "--scaling", scaling, "--json"]
    (code, out, err), (other, out_b, _) = both(
        keys, "log", ["--number", 600, *how], ["--number", 400, *how]
    )
    assert (code, other) == (0, 0), err
    found = json.loads(out)
    assert found["logarithms"] == json.loads(out_b)["logarithms"]
    assert abs(found["logarithms"][0] - np.log(1000)) <= found["error"] < 0.0047


def test_id3_as_in_the_paper(keys, tmp_path):
    for name, rows in (("alice", [1, 0, 0]), ("bob", [1, 1, 0])):
        pq.write_table(pa.table({"smokes": rows, "ill": rows}), tmp_path / f"{name}.parquet")
    how = ["--target", "ill", "--share-categories", "--setting", "paper", "--terms", 2, "--json"]
    (code, out, err), (other, out_b, _) = both(
        keys, "id3", *(["--rows", tmp_path / f"{name}.parquet", *how] for name in ("alice", "bob"))
    )
    assert (code, other) == (0, 0), err
    assert json.loads(out)["tree"] == json.loads(out_b)["tree"]
    assert json.loads(out)["tree"]["column"] == "smokes"


def test_log_by_dual_execution(keys):
    (code, out, err), (other, out_b, err_b) = both(
        keys, "log", ["--number", 600, "--dual", "--json"], ["--number", 400, "--dual", "--json"]
    )
    assert (code, other) == (0, 0), (err, err_b)
    alice, bob = json.loads(out), json.loads(out_b)
    assert alice["logarithms"] == bob["logarithms"] == pytest.approx([np.log(1000)], abs=2e-5)
    assert alice["session"]["confirmed"] == bob["session"]["confirmed"] is not None


def test_keys(tmp_path):
    told = sfumato("party", "keys", "alice", "--folder", tmp_path, "--json").json
    assert Path(told["certificate"]).read_text().startswith("-----BEGIN CERTIFICATE")
    assert Path(told["key"]).stat().st_mode & 0o777 == 0o600
    again = sfumato("party", "keys", "alice", "--folder", tmp_path)
    assert again.code == 2
    shown = sfumato("party", "keys", "bob", "--folder", tmp_path).out
    assert "it stays here" in " ".join(shown.split())


# What goes wrong between the two


@pytest.mark.parametrize(
    ("alice", "bob", "words"),
    [
        (["--min-rows", 5], ["--min-rows", 6], "min_rows"),
        (["-c", "sex,stage"], ["-c", "sex"], "columns"),
        (["--split", "cells"], [], "split"),
    ],
)
def test_what_differs_is_named_on_both_sides(keys, rows, alice, bob, words):
    folder, _ = rows
    options = ["--target", "ill", "-o", folder / "t.json", "--share-categories"]
    (code, out, err), (other, out_b, err_b) = both(
        keys,
        "id3",
        ["--rows", folder / "alice.parquet", *options, *alice],
        ["--rows", folder / "bob.csv", *options, *bob],
    )
    assert (code, other) == (3, 3)
    assert out == out_b == ""
    assert words in err
    assert words in err_b
    assert not (folder / "t.json").exists()


def test_another_certificate_is_refused(keys, rows):
    folder, _ = rows
    (code, _, err), (other, _, err_b) = both(
        keys,
        "id3",
        ["--rows", folder / "alice.parquet", "--target", "ill", "--share-categories"],
        ["--rows", folder / "bob.csv", "--target", "ill", "--share-categories"],
        trusting="mallory",
        timeout=10,
    )
    assert (code, other) == (3, 3)
    assert "did not connect within 10 s (1 turned away" in err
    assert "certificate" in err
    assert err_b


DYING = """
import os, signal, sys
from pathlib import Path
from sfumato import secure

port, keys = sys.argv[1:]
files = [Path(keys, name) for name in ("bob.crt", "bob.key", "alice.crt")]
facts = {"target": "ill", "max_depth": None, "min_rows": 2, "fine": False}
facts |= {"setting": "fast", "terms": None, "backend": "ot"}
facts |= {"split": "rows", "schema": None}
session = secure.connect(
    "bob", ("127.0.0.1", int(port)), program="id3", parameters=facts, tls=secure.TLS(*files)
)
columns = {"stage": ["1"], "sex": ["f"], "smokes": ["true"], "ward": ["north"], "ill": ["no"]}
schema = secure.pool_categories(session, columns, same_columns=True)
told = {"the target": "ill", "max_depth": None, "min_rows": 2, "fine": False}
how = {"setting": "fast", "terms": None, "backend": "ot"}
secure.HeldRows(schema, [[0] * 5]).agree(session, {**told, **how})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_port_scanner_does_not_end_the_session(keys):
    port = free_port()
    alice = start("log", *meeting(keys, "alice", port), "--number", 600, "--json")
    for probe in (b"", b"GET / HTTP/1.1\r\n\r\n"):
        with connected(port) as stranger:
            stranger.sendall(probe)
    with connected(port):  # this one says nothing, and stays
        bob = start("log", *meeting(keys, "bob", port), "--number", 400, "--json")
        sides = [ended(side) for side in (alice, bob)]
    assert [code for code, _, _ in sides] == [0, 0], sides
    assert json.loads(sides[0][1])["logarithms"] == json.loads(sides[1][1])["logarithms"]


def test_the_time_of_the_whole_session_holds(keys):
    """`--time` used to be taken and forgotten."""
    port = free_port()
    words = [*meeting(keys, "alice", port, timeout=600), "--number", 600, "--time", "3s"]
    with socket.create_server(("127.0.0.1", port)):  # takes the call and never answers
        words[words.index("--listen")] = "--peer"
        code, out, err = ended(start("log", *words))
    assert (code, out) == (3, "")
    assert "Traceback" not in err
    code, out, err = ended(start("log", *words))  # nobody is there at all
    assert (code, out) == (3, "")
    assert "the time was over before all sides had met" in err


def test_a_peer_that_dies(keys, rows):
    folder, _ = rows
    port = free_port()
    words = ["--rows", folder / "alice.parquet", "--target", "ill", "-o", folder / "tree.json"]
    words += ["--share-categories"]
    alice = start("id3", *meeting(keys, "alice", port), *words)
    bob = subprocess.Popen([sys.executable, "-c", textwrap.dedent(DYING), str(port), str(keys)])
    code, out, err = ended(alice)
    assert bob.wait(60) == -signal.SIGKILL
    assert (code, out) == (3, "")
    assert "other party" in err
    assert "Traceback" not in err
    assert sorted(p.name for p in folder.iterdir()) == ["alice.parquet", "bob.csv"]


def test_nobody_comes(keys, rows):
    folder, _ = rows
    words = ["--me", "bob", "--peer", f"127.0.0.1:{free_port()}", "--timeout", "0.5"]
    done = sfumato(
        "party", "id3", *words, *tls(keys, "bob", "alice"), "--rows", folder / "bob.csv",
        "--target", "ill", "-o", folder / "tree.json", "--share-categories",
    )  # fmt: skip
    assert (done.code, done.out) == (3, "")
    assert "nobody answers" in done.err
    assert not (folder / "tree.json").exists()


# What is wrong on one side alone


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--listen", "127.0.0.1:7000"], "one side listens"),
        (["--cert", "x.crt"], "--peer-cert"),
        (["--peer", "127.0.0.1"], "host:port"),
        (["--timeout", "0"], "--timeout"),
        (["--target", "il"], "Did you mean `ill`?"),
        (["--target", "ward"], "empty cells"),
        (["--max-values", "2"], "different values"),
        (["--schema", "bad.json"], "list of categories"),
        (["--schema", "none.json"], "none.json"),
        (["--schema", "few.json"], "is not in the schema"),
        (["--schema", "short.json"], "categories that the schema does not name"),
        (["-o", "alice.parquet"], "exists already"),
        (["-o", "bob.csv"], "it would be lost"),
        (["--min-rows", "0"], "--min-rows"),
    ],
)
def test_bad_usage_is_told_before_anybody_is_met(rows, monkeypatch, words, told):
    folder, table = rows
    monkeypatch.chdir(folder)
    schema, _ = coded(table)
    full = dict(zip(schema.columns, schema.values, strict=True))
    Path("bad.json").write_text('{"sex": "f"}')
    Path("few.json").write_text(json.dumps({"ill": ["no", "yes"]}))
    Path("short.json").write_text(json.dumps({**full, "stage": ["1", "2"]}))
    given = {"--me": "bob", "--peer": "127.0.0.1:7000", "--rows": "bob.csv", "--target": "ill"}
    given |= {words[0]: words[1]}
    plain = [] if words[0] == "--cert" else ["--plain"]
    plain += [] if words[0] == "--schema" else ["--share-categories"]
    done = sfumato("party", "id3", *[w for pair in given.items() for w in pair], *plain)
    assert (done.code, done.out) == (2, "")
    assert told in " ".join(done.err.split())


def test_without_certificates_only_on_this_machine(rows):
    folder, _ = rows
    words = ["--me", "bob", "--rows", folder / "bob.csv", "--target", "ill", "--share-categories"]
    assert "certificates" in sfumato("party", "id3", *words, "--peer", "127.0.0.1:7000").err
    done = sfumato("party", "id3", *words, "--peer", "192.0.2.1:7000", "--plain")
    assert done.code == 2
    assert "loopback" in done.err


def test_a_hostile_category_cannot_steer_the_terminal():
    from sfumato.cli.party import _printable

    assert _printable("a\x1b[2Jb\nc") == "a�[2Jb\nc"


@pytest.mark.slow  # the command is that of `test_id3_of_rows`
def test_two_hosts_in_two_network_namespaces(keys, rows):
    """The same command across a virtual cable, where the machine allows it."""
    folder, _ = rows
    with two_hosts() as (address, first, second):
        sides = [
            start(
                "id3", "--me", me, place, f"{address}:7000", *tls(keys, me, peer), "--rows",
                folder / file, "--target", "ill", "--max-depth", 1, "--json", "--share-categories",
                prefix=host,
            )
            for me, peer, place, file, host in (
                ("alice", "bob", "--listen", "alice.parquet", first),
                ("bob", "alice", "--peer", "bob.csv", second),
            )
        ]  # fmt: skip
        outputs = [ended(side) for side in sides]
    assert [code for code, _, _ in outputs] == [0, 0], outputs
    trees = [json.loads(out)["tree"] for _, out, _ in outputs]
    assert trees[0] == trees[1]
