"""Key files are private, are written once, and hold what nobody can guess."""

from __future__ import annotations

import os
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sfumato import files
from sfumato.errors import InputError, ParameterError, SourceError
from sfumato.files import INPUT_KEY, keyed_digest, names_same, read_secret, write_secret
from sfumato.keyfiles import is_signed_by, make_pair, pseudonym_key, public_key, signature


def test_a_secret_is_written_once_and_for_its_owner(tmp_path: Path) -> None:
    place = tmp_path / "a.key"
    write_secret(place, b"first")
    assert place.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ParameterError, match="never overwritten"):
        write_secret(place, b"second")
    assert read_secret(place, "the key") == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["a.key"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    for name, leads in (("to-nothing.key", "planted"), ("to-a-file.key", "precious")):
        (tmp_path / "precious").write_text("mine")
        (tmp_path / name).symlink_to(tmp_path / leads)
        with pytest.raises(ParameterError, match="already exists"):
            write_secret(tmp_path / name, b"secret")
    assert not (tmp_path / "planted").exists()
    assert (tmp_path / "precious").read_text() == "mine"
    (tmp_path / "eve.pub").symlink_to(tmp_path / "planted")
    with pytest.raises(ParameterError, match="already exists"):
        make_pair(tmp_path, "eve")
    assert not (tmp_path / "eve.key").exists(), "half a pair is of no use"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602])
def test_a_key_that_others_can_touch_is_refused_with_what_mends_it(
    tmp_path: Path, mode: int
) -> None:
    place = make_pair(tmp_path, "ada").key
    place.chmod(mode)
    for read in (pseudonym_key, lambda path: signature(b"", path)):
        with pytest.raises(InputError, match=re.escape(f"chmod 600 {place}")):
            read(place)
    place.chmod(0o600)
    assert signature(b"", place)["by"].startswith("ed25519:")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "0 bytes"),
        (b"short", "5 bytes"),
        (b"8f14e45fceea167a", "8 bytes"),
        (b"correct horse battery staple", "can be guessed"),
        (b"Hospital-of-Florence-2026", "can be guessed"),
        (b"0" * 64, "can be guessed"),
        (b"0123456789abcdef" * 4, "can be guessed"),
        ("ein Passwort, das länger ist".encode(), "can be guessed"),
        (bytes(64), "can be guessed"),
    ],
)
def test_weak_keys_of_pseudonyms_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    write_secret(tmp_path / "weak.key", content)
    with pytest.raises(InputError, match=says):
        pseudonym_key(tmp_path / "weak.key")


def test_random_keys_are_taken(tmp_path: Path) -> None:
    for at in range(200):
        raw = secrets.token_bytes(32)
        for form, content in (("raw", raw.rstrip(b"\r\n")), ("hex", raw.hex().encode() + b"\n")):
            place = tmp_path / f"{form}{at}"
            write_secret(place, content)
            assert pseudonym_key(place) == content.rstrip(b"\r\n")


def test_a_pair_makes_pseudonyms_with_a_key_of_their_own(tmp_path: Path) -> None:
    ada, eve = make_pair(tmp_path, "ada"), make_pair(tmp_path, "eve")
    key = pseudonym_key(ada.key)
    assert len(key) == 32
    assert key != pseudonym_key(eve.key)
    assert key.hex() not in ada.key.read_text() + ada.fingerprint


def test_a_signature_is_of_one_message_and_one_key(tmp_path: Path) -> None:
    ada, eve = make_pair(tmp_path, "ada"), make_pair(tmp_path, "eve")
    signed = signature(b"message", ada.key)
    assert public_key(ada.public) == ada.fingerprint == signed["by"]
    assert is_signed_by(signed, b"message", public_key(ada.public))
    assert not is_signed_by(signed, b"massage")
    assert not is_signed_by(signed, b"message", public_key(eve.public))
    assert not is_signed_by({**signed, "by": eve.fingerprint}, b"message")


def test_halves_of_a_pair_are_told_apart(tmp_path: Path) -> None:
    ada = make_pair(tmp_path, "ada")
    with pytest.raises(SourceError, match="secret half"):
        public_key(ada.key)
    ada.public.chmod(0o600)
    with pytest.raises(InputError, match="not a key that signs"):
        signature(b"", ada.public)
    with pytest.raises(ParameterError, match="the name of a key"):
        make_pair(tmp_path, "../ada")


def test_pipes_and_folders_are_no_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(InputError, match="not a file"):
        read_secret(tmp_path / "pipe", "the key")
    with pytest.raises(InputError, match="not a file"):
        read_secret(tmp_path, "the key")
    write_secret(tmp_path / "huge", bytes(1 << 17))
    with pytest.raises(InputError, match="too large"):
        read_secret(tmp_path / "huge", "the key")


def test_a_digest_of_the_input_depends_on_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has another key, or none, can try no guess on it."""
    digests = []
    for name in ("one", "two"):
        monkeypatch.setenv(files.INPUT_KEY, str(tmp_path / name))
        digests.append(files.keyed_digest("the rows"))
        assert files.names_same(digests[-1], "the rows") is True
        assert files.names_same(digests[-1], "other rows") is False
    first, second = (digest.split(":") for digest in digests)
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert first[2] != second[2]
    assert files.names_same(digests[0], "the rows") is None


def test_many_at_once_make_one_input_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INPUT_KEY, str(tmp_path / "deep" / "input.key"))
    assert names_same("blake2b:0:0", "text") is None
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: keyed_digest("text"), range(32)))
    assert len(made) == 1
    (digest,) = made
    assert names_same(digest, "text") is True
    assert names_same(digest, "test") is False
    (tmp_path / "deep" / "input.key").write_text("damaged")
    with pytest.raises(InputError, match="damaged"):
        keyed_digest("text")
