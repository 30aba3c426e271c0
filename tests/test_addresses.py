"""No output of the program holds a part of a password, however strange that is."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from cli_tools import sfumato
from servers import PostgresServer
from sfumato.anonymization.request import Request
from sfumato.errors import SourceError
from sfumato.release.certificate import certificate_path
from sfumato.wording import shown

MARK = "Xyzzy7"
"""Part of every password, and of nothing else."""
STRANGE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
PASSWORDS = st.builds(lambda before, after: f"{before}{MARK}{after}", STRANGE, STRANGE)
ODD = ("/Xyzzy7", "p@Xyzzy7", "Xyzzy7@x", "12/Xyzzy7", "12#Xyzzy7", "?Xyzzy7", "Xyzzy7?a=b",
       "Xyzzy7#a.b", "%Xyzzy7", "Xyzzy7%zz", " Xyzzy7 ", "'Xyzzy7\"", "\\Xyzzy7", "\nXyzzy7",
       ":Xyzzy7", "Xyzzy7\x1b[2J")  # fmt: skip


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """A port that nobody listens at, and that nobody else gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def addresses(password: str, port: int) -> list[str]:
    """Where a password may stand, written as it should be and as it should not."""
    place = f"127.0.0.1:{port}/clinic"
    encoded = quote(password, safe="")
    inside = [
        f"postgresql://ada:{password}@{place}#people",
        f"postgresql://ada:{encoded}@{place}#people",
        f"postgresql://:{encoded}@{place}#people",
        f"postgresql://ada:{password}@{place}",
        f"mysql://ada:{password}@{place}#people",
    ]
    if "#" not in password:  # there it ends the address: what follows names a table
        inside += [
            f"postgresql://{place}?{name}={password}#people"
            for name in ("password", "PASSWORD", "sslpassword", "pass%77ord")
        ]
    return inside


@given(PASSWORDS)
@settings(max_examples=100)
def test_an_address_is_shown_without_its_password(password: str) -> None:
    for text in addresses(password, 5432):
        said = json.dumps({"where": shown(text)}), str(SourceError("x", where=text))
        for told in (shown(text), *said, str(certificate_path(text))):
            assert MARK not in told


@pytest.mark.parametrize(
    "text",
    [
        f"  postgresql://ada:{MARK}@127.0.0.1:1/clinic#people",
        f"'postgresql://ada:{MARK}@127.0.0.1:1/clinic#people'",
        f"postgresql:/ada:{MARK}@127.0.0.1:1/clinic#people",
        f"postgresql//ada:{MARK}@127.0.0.1:1/clinic",
        f"postgresql:ada:{MARK}@127.0.0.1",
        f"host=127.0.0.1 port=1 password={MARK} dbname=clinic",
        f"people.sav?postgresql://ada:{MARK}@127.0.0.1/clinic",
        f"ada:{MARK}@127.0.0.1/clinic",
    ],
)
def test_what_was_to_be_an_address_is_not_shown(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("a,b\n1,2\n")
    for words in (
        ["measure", text, "-c", "a"],
        ["verify", text],
        ["scan", text],
        ["mask", "people.csv", "--alpha", "0.5", "-o", text],
        ["anonymize", "people.csv", "-k", "1", "--qi", "a", "-o", text, "--population", text],
    ):
        done = sfumato(*words)
        assert done.code != 0, words
        assert MARK not in done.out + done.err, words


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql://ada:secret", "postgresql://ada"),  # the host was forgotten
        ("postgresql://ada:5432secret/clinic", "postgresql://ada"),
        ("postgresql://db/clinic?password=se@cret", "postgresql://db"),
        ("postgresql://ada:se?c@ret@db/clinic#people", "postgresql://ada#people"),
        ("postgresql://db/clinic?sslmode=require&password=x", "postgresql://db/clinic"),
    ],
)
def test_what_may_be_half_a_password_is_not_shown(given: str, told: str) -> None:
    assert shown(given) == told


def test_an_address_stays_recognisable() -> None:
    assert shown("postgresql://ada:x@db:5432/clinic?sslmode=require#a.b") == (
        "postgresql://ada@db:5432/clinic?sslmode=require#a.b"
    )
    assert shown("postgresql://db:5432/clinic#people") == "postgresql://db:5432/clinic#people"
    for path in ("people@home.csv", "C:/Users/ada@home/a.csv", r"C:\ada@home\a.csv", "a:b.csv"):
        assert shown(path) == path


@given(PASSWORDS)
@settings(max_examples=8)
@example(ODD[0]).via("a slash ends the name of a server")
def test_no_verb_says_a_password(closed_port: int, password: str) -> None:
    check_verbs(password, closed_port)


@pytest.mark.parametrize("password", ODD)
def test_no_verb_says_a_password_that_ends_an_address(closed_port: int, password: str) -> None:
    check_verbs(password, closed_port)


def check_verbs(password: str, port: int) -> None:
    for address in addresses(password, port):
        runs = [
            ("measure", address, "--json"),
            ("verify", address),
            ("mask", address, "--beta", "0.5", "-o", address),
        ]
        for arguments in runs:
            done = sfumato(*arguments)
            assert done.code in (2, 3)
            assert MARK not in done.out + done.err, arguments[0]


def test_complaints_about_arguments_quote_no_password() -> None:
    for password in ODD:
        address = f"postgresql://ada:{password}@db/clinic#people"
        runs = (
            ("measure", "people.csv", address),
            ("anonymize", "people.csv", "-k", address),
            ("anonymize", "people.csv", f"--seed={address}"),
            ("mask", "people.csv", "--measure", address, "--beta", "1"),
        )
        for arguments in runs:
            done = sfumato(*arguments)
            assert done.code == 2
            assert MARK not in done.out + done.err, arguments


def test_settings_and_certificates_keep_names(tmp_path: Path) -> None:
    secret = f"postgresql://ada:{MARK}@db/clinic#people"
    request = Request.of({"k": 2, "k_map": 2, "population": secret})
    assert MARK not in request.to_toml()
    assert "postgresql://ada@db/clinic#people" in request.to_toml()
    table = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [20, 20]}), table)
    release = sf.anonymize(table, qi=["age"], k=2)
    for told in (repr(release), release.to_json()):
        assert MARK not in told
    done = sfumato("anonymize", table, "--qi", "age", "-k", "2", "-o", secret)
    assert done.code == 2
    assert MARK not in done.out + done.err


@pytest.mark.postgres
def test_a_release_in_a_database_shows_no_password(
    postgres: PostgresServer, postgres_schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with postgres.connect() as connection:
        connection.execute(f"CREATE TABLE {postgres_schema}.secrets AS SELECT 20 AS age")
        connection.execute(f"INSERT INTO {postgres_schema}.secrets VALUES (20)")
    url = postgres.url.replace("open-sesame", MARK)
    assert MARK in url
    address = f"{url}#{postgres_schema}."
    asked = ("--qi", "age", "-k", "2", "--k-map", "1", "--population", f"{address}secrets")
    out = ("-o", f"{address}released", "--write-config", tmp_path / "kept.toml")
    for form in (("--json",), ("--force",)):
        config = out if form == ("--json",) else out[:2]
        done = sfumato("anonymize", f"{address}secrets", *asked, *config, *form)
        assert done.code == 0, done.err
        assert MARK not in done.out + done.err
    checked = sfumato("verify", f"{address}released", "--population", f"{address}secrets")
    assert checked.code == 0, checked.out + checked.err
    assert MARK not in checked.out + checked.err
    written = [place for place in tmp_path.iterdir() if place.is_file()]
    assert len(written) == 2
    for place in written:
        assert MARK not in place.name + place.read_text()
