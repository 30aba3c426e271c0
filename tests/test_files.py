"""Files: what is told when they are not there; they appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat

import pytest

import sfumato as sf
from sfumato.cli._options import new_file
from sfumato.errors import EngineError, HierarchyError, ParameterError, SourceError
from sfumato.files import (
    appearing,
    read_bytes,
    read_text,
    require_file,
    require_folder,
    unreadable,
    write_text,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "queries.sql").write_text("SELECT 1")
    (tmp_path / "weights.toml").write_text("age = 1")
    (tmp_path / "trees").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("querys.sql", r"the log: there is no such file\. Did you mean `queries\.sql`\?"),
        ("QUERIES.SQL", r"Did you mean `queries\.sql`\?"),
        ("x.toml", r"That folder holds `weights\.toml`\."),
        ("nothing", r"Check its name; it was looked for in /"),
        ("nowhere/queries.sql", r"There is no folder .*nowhere either: check the path\."),
        ("queries.sql/inside", r"There is no folder .* either"),
        ("trees", r"the log: this is a folder\. Name a file in it\."),
        ("", r"this is a folder\. Name a file in it\."),
        ("a\0b", r"this cannot be the name of a file"),
        ("x" * 300, r"file name too long\. Check its name"),
    ],
)
@pytest.mark.parametrize("act", [read_text, read_bytes, require_file])
def test_a_missing_file_is_explained(folder, act, name, words):
    with pytest.raises(SourceError, match=words):
        act(os.path.join(folder, name), "the log")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tree", r"there is no such folder\. Did you mean `trees`\?"),
        ("weights.toml", r"this is a file\. Name the folder it is in\."),
        ("nowhere/trees", r"There is no folder"),
        ("others", r"Check its name"),
    ],
)
def test_a_missing_folder_is_explained(folder, name, words):
    with pytest.raises(HierarchyError, match=words):
        require_folder(folder / name, "the trees", kind=HierarchyError)


def test_what_is_there_is_read(folder):
    (folder / "windows.sql").write_bytes(b"\xef\xbb\xbfSELECT\r\n1\r2")
    assert read_text(folder / "windows.sql", "the log") == "SELECT\n1\n2"
    assert read_bytes(folder / "queries.sql", "the log") == b"SELECT 1"
    assert require_file(folder / "queries.sql", "the log") == str(folder / "queries.sql")
    assert require_folder(folder / "trees", "the trees") == folder / "trees"


def test_text_of_another_encoding_is_refused_without_quoting_it(folder):
    (folder / "latin.sql").write_bytes("SELECT 'caf\xe9'".encode("latin-1"))
    with pytest.raises(SourceError, match=r"not UTF-8 text, from byte 12 on\. Save it as UTF-8"):
        read_text(folder / "latin.sql", "the log")


def test_no_hidden_file_is_suggested(folder):
    (folder / ".secret.sql").write_text("")
    with pytest.raises(SourceError) as error:
        read_text(folder / "secret.sql", "the log")
    assert ".secret" not in str(error.value)


def test_refused_rights_have_a_remedy():
    assert unreadable("x", PermissionError(errno.EACCES, "Permission denied"))[0] == (
        "permission denied"
    )


def test_a_file_is_replaced_in_one_step(tmp_path):
    place = tmp_path / "notes.txt"
    write_text(place, "first")
    write_text(place, "second")
    assert place.read_text() == "second"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("linked", [False, True])
def test_devices_and_pipes_are_never_replaced(folder, linked):
    there = pipe = folder / "pipe.csv"
    os.mkfifo(pipe)
    if linked:
        there = folder / "link.csv"
        there.symlink_to(pipe)
    table = sf.demo.people(20)
    refused = pytest.raises(ParameterError, match=r"this is a device or a pipe, not a file\.")
    with refused:
        write_text(there, "notes")
    with refused:
        sf.mask(table, beta=1.0, must_drop=["name"], output=there, force=True)
    with refused:
        sf.measure(table, ["sex"]).report(there, force=True)
    with refused:
        new_file(str(there), True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert there.is_symlink() == linked


def test_an_error_leaves_what_was_there(tmp_path):
    place = tmp_path / "notes.txt"
    write_text(place, "first")

    def interrupted():
        with appearing(place) as unfinished:
            unfinished.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert place.read_text() == "first"
    assert list(tmp_path.iterdir()) == [place]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(EngineError, match="could not be written"):
        write_text(tmp_path / "nowhere" / "notes.txt", "text")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o027])
def test_files_get_the_permissions_of_any_new_file(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "notes.txt", "text")
        (tmp_path / "other.txt").touch()
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    modes = {place.name: stat.S_IMODE(place.stat().st_mode) for place in tmp_path.iterdir()}
    assert modes["notes.txt"] == modes["other.txt"] == 0o666 & ~mask
