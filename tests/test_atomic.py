"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from sfumato.atomic import appearing, write_text
from sfumato.errors import EngineError


def test_a_file_is_replaced_in_one_step(tmp_path):
    place = tmp_path / "notes.txt"
    write_text(place, "first")
    write_text(place, "second")
    assert place.read_text() == "second"
    assert list(tmp_path.iterdir()) == [place]


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
