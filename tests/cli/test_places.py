"""Where commands write, and where parties meet."""

from __future__ import annotations

import os

import pytest

from cli_tools import sfumato
from sfumato.cli._options import new_file
from sfumato.engines.writing import check_destination
from sfumato.errors import ParameterError
from sfumato.secure.tls import parse_address


def test_a_new_file_is_taken(tmp_path):
    assert new_file(str(tmp_path / "new.json"), False, None) == tmp_path / "new.json"


def test_an_existing_file_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "old.json"
    path.touch()
    with pytest.raises(ParameterError, match="exists already"):
        new_file(str(path), False)
    assert new_file(str(path), True) == path


def test_what_is_read_is_never_replaced_by_whatever_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "people.csv"
    table.write_text("a\n1\n")
    os.link(table, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(table)
    for name in ("people.csv", "./people.csv", str(table), "hard.csv", "soft.csv"):
        with pytest.raises(ParameterError, match="it would be lost"):
            new_file(name, True, None, "people.csv")


def test_two_results_need_two_files(tmp_path):
    with pytest.raises(ParameterError, match="it would be lost"):
        new_file(str(tmp_path / "x.html"), False, str(tmp_path / "y" / ".." / "x.html"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ParameterError, match="this is a folder"):
        new_file(str(tmp_path), True)
    with pytest.raises(ParameterError, match="no such folder"):
        new_file(str(tmp_path / "none" / "x"), False)


def test_a_link_to_nowhere_is_refused_before_any_work(tmp_path):
    place = tmp_path / "out.csv"
    place.symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(ParameterError, match=r"out\.csv: this is a link"):
        check_destination(str(place))


@pytest.mark.parametrize(
    "text", ["host", ":7000", "host:", "host:0", "host:65536", "host:²", "h:-1", "h:" + "1" * 5000]
)
def test_an_address_has_a_host_and_a_port(text):
    with pytest.raises(ParameterError, match="--peer needs host:port"):
        parse_address(text, "--peer")


@pytest.mark.parametrize(
    "command",
    [
        ["party", "id3", "--me", "bob", "--peer", "127.0.0.1:9", "--plain", "--target", "a",
         "--rows", "people.csv", "-o", "people.csv"],
        ["party", "id3", "--me", "bob", "--peer", "127.0.0.1:9", "--plain", "--target", "a",
         "--rows", "people.csv", "--report", "people.csv"],
        ["joint", "agreement", "people.csv", "-o", "people.csv"],
        ["joint", "share", "people.csv", "-a", "study.toml", "-o", "people.csv"],
        ["joint", "share", "people.csv", "-a", "study.toml", "-o", "study.toml"],
        ["joint", "share", "people.csv", "-a", "study.toml", "-o", "x.parquet", "--report",
         "x.parquet"],
        ["joint", "seeds", "people.csv", "-a", "study.toml", "-o", "people.csv"],
        ["joint", "choose", "a.json", "b.json", "-a", "study.toml", "-o", "b.json"],
        ["joint", "fit", "cox", "a.json", "b.json", "-o", "b.json"],
        ["joint", "fit", "cox", "people.csv", "--exact", "--agreement", "study.toml", "-o",
         "people.csv"],
        ["joint", "score", "model.json", "people.csv", "-o", "people.csv"],
        ["joint", "score", "model.json", "people.csv", "-o", "model.json"],
    ],
)  # fmt: skip
def test_no_command_writes_over_what_it_reads(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    names = ("people.csv", "study.toml", "model.json", "a.json", "b.json")
    for name in names:
        (tmp_path / name).write_text("a,b\n1,2\n2,1\n")
    done = sfumato(*command, "--force")
    assert (done.code, done.out) == (2, "")
    assert "it would be lost" in " ".join(done.err.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    assert all((tmp_path / name).read_text() == "a,b\n1,2\n2,1\n" for name in names)


@pytest.mark.parametrize("option", ["--peer", "--listen"])
def test_party_looks_at_certificates_and_address_before_the_table(tmp_path, option):
    from sfumato.secure import make_keys

    make_keys(tmp_path, "alice")
    own = {"--cert": "alice.crt", "--key": "alice.key", "--peer-cert": "alice.crt"}
    files = [word for name, file in own.items() for word in (name, tmp_path / file)]
    words = ["party", "id3", "--me", "alice", "--rows", "none.csv", "--target", "x"]
    done = sfumato(*words, option, "127.0.0.1:7000", *files)
    assert done.code == 2
    assert "this side's own certificate" in " ".join(done.err.split())
    assert "needs host:port" in sfumato(*words, option, "localhost", "--plain").err


def test_a_share_is_named_as_what_it_is(tmp_path):
    done = sfumato("joint", "share", "none.csv", "-a", "none.toml", "-o", tmp_path / "share.csv")
    assert done.code == 2
    assert "a share is a Parquet file" in " ".join(done.err.split())
