"""Attacks on certificates: guesses of what was hidden, forged promises, strange signatures."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.engines.recoding import Cells, Recoding, Step
from sfumato.errors import InputError, ParameterError, SourceError
from sfumato.files import INPUT_KEY
from sfumato.keyfiles import make_pair
from sfumato.privacy import KAnonymity
from sfumato.release import Release, publish
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.other_promises import WithoutColumns
from sfumato.release.promise import Anonymity
from sfumato.tables.source import rows_fingerprint

KEYED = ("input", "fingerprint")
"""The one field of a certificate that depends on what was hidden."""
TOWNS = ["Arezzo", "Lucca", "Pisa", "Prato", "Siena"]
ROWS = 24


def people(changed: dict[tuple[int, str], Any] | None = None) -> pa.Table:
    """Some people, with some cells changed."""
    rows: dict[str, list[Any]] = {
        "age": [20 + (7 * i) % 24 for i in range(ROWS)],
        "town": [TOWNS[(i * i) % 5] for i in range(ROWS)],
        "ill": [["flu", "gout", "cold"][i % 3] for i in range(ROWS)],
        "name": [f"person {i}" for i in range(ROWS)],
    }
    for (at, name), value in (changed or {}).items():
        rows[name][at] = value
    return pa.table(rows)


def leaves(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every single value of a certificate, and where it stands."""
    if isinstance(body, dict) and body:
        for name, item in body.items():
            yield from leaves(item, (*path, name))
    elif isinstance(body, list) and body:
        for at, item in enumerate(body):
            yield from leaves(item, (*path, at))
    else:
        yield path, body


def csv(table: pa.Table, place: Path) -> Path:
    names = table.column_names
    lines = [",".join(names), *(",".join(str(row[n]) for n in names) for row in table.to_pylist())]
    place.write_text("\n".join(lines) + "\n")
    return place


Verb = Callable[[Path, Path], Any]


def by(method: str, **more: Any) -> Verb:
    def made(source: Path, out: Path) -> Any:
        return sf.anonymize(
            source, qi=["age", "town"], k=3, identifiers=["name"], method=method, output=out, **more
        )

    return made


def of_persons(source: Path, out: Path) -> Any:
    return sf.anonymize(source, qi=["age", "town"], k=3, person="name", output=out)


def masked(source: Path, out: Path) -> Any:
    return sf.mask(source, beta=0.5, must_drop=["name"], output=str(out))


def harbored(source: Path, out: Path) -> Any:
    import datetime as dt

    return sf.safe_harbor(source, drop=["name"], as_of=dt.date(2026, 1, 1), output=str(out))


def surveyed(source: Path, out: Path) -> Any:
    return sf.population(
        source, universe=1e6, qi=["age", "town"], k=1000, bootstrap=0, output=str(out)
    )


VERBS: dict[str, Verb] = {
    **{name: by(name) for name in ("mondrian", "kmember", "cells")},
    "full-domain": by("full-domain"),
    "with a workload": by("mondrian", workload=["age >= 30", "town = 'Pisa'"]),
    "with persons": of_persons,
    "mask": masked,
    "safe-harbor": harbored,
    "population": surveyed,
}


def guesses() -> list[dict[tuple[int, str], Any]]:
    """Inputs that differ from the true one in one cell."""
    ages = [{(at, "age"): 20 + (7 * at + step) % 24} for at in range(0, ROWS, 2) for step in (1, 5)]
    towns = [{(at, "town"): TOWNS[(at * at + 1) % 5]} for at in range(1, ROWS, 2)]
    return [*ages, *towns, {(3, "name"): "somebody else"}, {(5, "name"): "person 6"}]


@pytest.mark.parametrize("verb", VERBS)
def test_no_guess_about_the_input_can_be_tried_out_on_a_certificate(
    verb: str, tmp_path: Path
) -> None:
    """Whatever input leads to the same release leads to the same certificate, but for one digest.

    The attacker has the release and its certificate, and tries inputs: all that lead to the same
    release must look alike to him, field by field. The same goes for the fields of the answer,
    but for those that it says stay at home.
    """

    def made(changed: dict[tuple[int, str], Any]) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
        source, out = csv(people(changed), tmp_path / "people.csv"), tmp_path / "out.csv"
        out.unlink(missing_ok=True)
        certificate_path(out).unlink(missing_ok=True)
        found = VERBS[verb](source, out)
        answer = getattr(found, "release", found).answer()
        return out.read_bytes(), dict(Certificate.read(certificate_path(out)).body), answer

    released, true, answered = made({})
    told = dict(leaves(true))
    at_home = set(answered["stays_at_home"])
    alike = 0
    # every third: ages of both kinds, towns and a name; an estimate takes half a second
    for guess in guesses()[:: 9 if verb == "population" else 3]:
        try:
            other, body, answer = made(guess)
        except (InputError, sf.errors.PromiseError):
            continue  # not an input of this release either
        if other != released:
            continue
        alike += 1
        assert set(answer["stays_at_home"]) == at_home
        excluded_by = {name for name in answered if answer[name] != answered[name]}
        assert excluded_by <= at_home, f"{verb}: these tell a guess from the truth: {excluded_by}"
        differing = {p for p, value in leaves(body) if told.get(p) != value} | (
            set(told) - {p for p, _ in leaves(body)}
        )
        assert differing <= {KEYED}, f"{verb}: these tell a guess from the truth: {differing}"
        assert differing == {KEYED}, "the maker can tell them apart"
    assert alike >= 2, "some guesses must lead to the same release, or nothing was tested"


def starred(table: pa.Table) -> Release:
    """A release that stars the town of the first rows, whatever it is."""
    opened = sf.table(table)
    values = opened.values("town")
    shown = pa.array(["*"] * len(values.values[0]))
    step = Step(values, {"town": Cells(values.arrays[0] * 0, shown.slice(0, 1))})
    return Release.planned(
        opened,
        Recoding((step,), ("name", "age")),
        method="test",
        asked={"k": 3, "seed": 7, "key_file": "/home/ada/secret.key"},
        promises=(Anonymity((KAnonymity(3),), (("town",),)), WithoutColumns(("name", "age"))),
        qi=(("town",),),
        utility={"ncp": 0.123456789},
        lower_bound=3.25,
        seed=7,
        details={"secret": hash(str(table.column("town").to_pylist()))},
        warnings=("something about the input",),
    )


def test_hidden_cells_cannot_be_recovered_by_trying_code_lists(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    publish(starred(people()), out)
    told = certificate_path(out).read_text()
    for town in TOWNS:  # the truth is among them, and every digest we know of it is not there
        guess = people({(0, "town"): town})
        schema = sf.table(guess).schema
        digests = {
            rows_fingerprint(schema, guess.to_batches()),
            sf.table(csv(guess, tmp_path / "guess.csv")).fingerprint(),
            hashlib.sha256((tmp_path / "guess.csv").read_bytes()).hexdigest(),
        }
        assert not any(digest.rpartition(":")[2] in told for digest in digests)
    for secret in ("0.123", "3.25", "secret", "something about", '"seed"', "ada/"):
        assert secret not in told


def test_what_the_method_says_about_the_input_is_marked_in_the_json(tmp_path: Path) -> None:
    told = publish(starred(people()), tmp_path / "out.csv").answer()
    assert {"utility", "lower_bound", "secret", "seed", "asked", "warnings"} <= set(
        told["stays_at_home"]
    )
    assert not {"k", "rows", "qi", "method"} & set(told["stays_at_home"])
    assert "sha256:" not in json.dumps(told)


def test_what_stays_at_home_does_tell_guesses_apart(tmp_path: Path) -> None:
    """Were nothing to be found out from these fields, marking them would be idle."""

    def made(changed: dict[tuple[int, str], Any]) -> tuple[bytes, dict[str, Any]]:
        source, out = csv(people(changed), tmp_path / "people.csv"), tmp_path / "out.csv"
        answer = by("mondrian", force=True)(source, out).answer()
        return out.read_bytes(), answer

    released, true = made({})
    excluding: dict[str, int] = {}
    for guess in guesses()[::3]:
        other, answer = made(guess)
        for name in true:
            excluding[name] = excluding.get(name, 0) + (
                other == released and answer[name] != true[name]
            )
    assert {"utility", "risk"} <= {name for name, guesses in excluding.items() if guesses}


def test_figures_of_a_table_stay_at_home(tmp_path: Path) -> None:
    """Verbs that look at a table say so of every field; only reasons let one leave."""
    source = csv(people(), tmp_path / "people.csv")
    columns = ("-c", "age,town")
    for verb, *options in (
        ("measure", *columns), ("key", *columns), ("keys", *columns), ("violations", *columns),
        ("risk", "--qi", "age,town"), ("scan",), ("uniques", "--max-size", 1, *columns),
        ("verify", "--qi", "age,town", "-k", 1),
    ):  # fmt: skip
        told = sfumato(verb, source, *options, "--json").json
        assert set(told["stays_at_home"]) == set(told) - {"stays_at_home"}, verb
    out = certified(tmp_path)
    assert sfumato("verify", out, "--json").json["stays_at_home"] == []
    compared = sfumato("verify", out, "--of", source, "--json").json
    assert compared["stays_at_home"] == ["findings"]


def test_a_field_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="no field of a certificate: skew"):
        Certificate.of(method="x", skew=0.25)


def test_recodings_are_not_repeated(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    table = pa.table({"age": [20, 20], "name": ["Ada", "Bob"]})
    recoded = {"name": {"recode": {"Ada": "p1", "Bob": "p2"}}, "age": {"top": 90}}
    sf.anonymize(table, qi=["age"], k=2, columns=recoded, output=out)
    told = certificate_path(out).read_text()
    assert "Ada" not in told
    assert '"top": 90' in told
    with pytest.raises(ParameterError, match="recodings of name"):
        sf.anonymize(table, config=certificate_path(out))


# The input key


def test_only_the_key_of_the_maker_recognises_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    by("mondrian")(source, out)
    other = csv(people({(0, "age"): 99}), tmp_path / "other.csv")
    assert sf.verify(out, of=source).holds
    (wrong,) = [f for f in sf.verify(out, of=other).findings if not f.holds]
    assert "was not made of" in wrong.say
    monkeypatch.setenv(INPUT_KEY, str(tmp_path / "another.key"))
    for given in (source, other):
        (unknown,) = [f for f in sf.verify(out, of=given).findings if not f.holds]
        assert "was not checked" in unknown.say
    assert not (tmp_path / "another.key").exists(), "verifying makes no key"


def test_the_input_key_is_private_and_follows_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "config" / "input.key"
    monkeypatch.setenv(INPUT_KEY, str(key))
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    by("mondrian")(source, out)
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    key.chmod(0o644)
    with pytest.raises(InputError, match=re.escape(f"chmod 600 {key}")):
        sf.verify(out, of=source)
    key.chmod(0o600)
    key.rename(tmp_path / "elsewhere.key")
    key.symlink_to(tmp_path / "elsewhere.key")
    with pytest.raises(InputError, match="this is a link"):
        sf.verify(out, of=source)
    key.unlink()
    key.symlink_to(tmp_path / "planted.key")  # made by somebody else, leads nowhere yet
    with pytest.raises(InputError, match="this is a link"):
        by("mondrian")(source, tmp_path / "again.csv")
    assert not (tmp_path / "planted.key").exists()
    assert not (tmp_path / "again.csv").exists()


def test_without_any_place_for_a_key_the_input_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(INPUT_KEY, str(tmp_path / "file" / "input.key"))
    out = tmp_path / "out.csv"
    by("mondrian")(csv(people(), tmp_path / "people.csv"), out)
    assert json.loads(certificate_path(out).read_text())["input"]["fingerprint"] is None
    assert sf.verify(out).holds


# Signatures


def certified(tmp_path: Path, *options: object) -> Path:
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    asked = ("--qi", "age,town", "-k", 3, "--identifiers", "name", "-o", out, "--force", "-q")
    done = sfumato("anonymize", source, *asked, *options)
    assert done.code == 0, done.err
    return out


def forged(out: Path, change: Callable[[dict[str, Any]], None], sign: Path | None = None) -> None:
    """Change a certificate as somebody would who knows how they are made."""
    body = json.loads(certificate_path(out).read_text())
    body.pop("digest")
    signed = body.pop("signed", None)
    change(body)
    made = Certificate(body, signed)
    (made if sign is None else made.signed_with(sign)).write(certificate_path(out))


def test_only_a_signature_says_who_wrote_it(tmp_path: Path) -> None:
    ada, eve = make_pair(tmp_path, "ada"), make_pair(tmp_path, "eve")
    out = certified(tmp_path)
    unsigned = sfumato("verify", out)
    assert unsigned.code == 0
    assert "! unsigned: anybody could have written this" in unsigned.out
    assert "unaltered" not in unsigned.out
    assert sfumato("verify", out, "--signer", ada.public).code == 1
    out = certified(tmp_path, "--sign", ada.key)
    shown = sfumato("verify", out, "--json").json
    assert shown["signed_by"] == ada.fingerprint
    assert sfumato("verify", out, "--signer", ada.public).code == 0
    assert sfumato("verify", out, "--signer", eve.public).code == 1

    def bolder(body: dict[str, Any]) -> None:
        body["method"] = "best"

    forged(out, bolder)
    assert "signature is not one of this certificate" in sfumato("verify", out).out
    forged(out, bolder, sign=eve.key)
    assert sfumato("verify", out).code == 0, "it says itself that eve signed it"
    assert "signed, but with another key" in sfumato("verify", out, "--signer", ada.public).out


@pytest.mark.parametrize("verb", ["mask", "population", "safe-harbor"])
def test_every_verb_that_releases_signs(verb: str, tmp_path: Path) -> None:
    ada = make_pair(tmp_path, "ada")
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    options = {
        "mask": ("--beta", 0.5),
        "population": ("--universe", 1e6, "--qi", "age,town"),
        "safe-harbor": ("--drop", "name"),
    }[verb]
    nowhere = sfumato(verb, source, *options, "--sign", ada.key)
    assert (nowhere.code, "only a release that is written" in nowhere.err) == (2, True)
    done = sfumato(verb, source, *options, "-o", out, "--sign", ada.key, "-q")
    assert done.code == 0, done.err
    assert sfumato("verify", out, "--signer", ada.public).code == 0


@pytest.mark.parametrize(
    "broken",
    [
        [],
        "ed25519",
        {},
        {"by": 3, "signature": "00"},
        {"by": "ed25519:zz", "signature": "00"},
        {"by": "ed25519:" + "00" * 32, "signature": "00" * 64},
        {"by": "ed25519:" + "ff" * 31, "signature": ""},
    ],
)
def test_strange_signatures_are_no_signatures(tmp_path: Path, broken: Any) -> None:
    out = certified(tmp_path)
    body = json.loads(certificate_path(out).read_text())
    certificate_path(out).write_text(json.dumps({**body, "signed": broken}))
    done = sfumato("verify", out)
    assert (done.code, "not one of this certificate" in " ".join(done.out.split())) == (1, True)


def test_the_hmac_is_gone(tmp_path: Path) -> None:
    out = certified(tmp_path)
    assert "hmac" not in certificate_path(out).read_text()
    assert sfumato("verify", out, "--key", "secret.key").code == 2


# Forged promises


@pytest.mark.parametrize(
    ("promises", "says"),
    [
        ([], "promises nothing"),
        ([{"kind": "without-columns", "columns": [], "measured": {"present": []}}],
         "promises nothing"),
        ([{"kind": "without-columns", "columns": ["ssn"], "measured": {"present": []}}],
         "promises nothing"),
        ([{"kind": "anonymity", "models": [], "qi": [["age"]], "sensitive": [],
           "measured": {"checks": [], "wildcards": False}}], "promises nothing"),
        ([{"kind": "anonymity", "models": [{"model": "k-anonymity", "k": 5}], "qi": [],
           "sensitive": [], "measured": {"checks": [], "wildcards": False}}], "promises nothing"),
        ([{"kind": "anonymity", "qi": [], "sensitive": ["ill"], "measured": {},
           "models": [{"model": "distinct l-diversity", "column": "ill", "l": 1}]}],
         "promises nothing"),
        ([{"kind": "anonymity", "qi": [["age"]], "sensitive": ["ill"], "person": "ghost",
           "measured": {}, "models": [{"model": "distinct l-diversity", "column": "ill", "l": 1}]}],
         "not checked"),
        ([{"kind": "ratio-at-most", "measure": "distinct", "beta": 0.1, "columns": ["age"],
           "person": "ghost", "measured": {}}], "not checked"),
        ([{"kind": "harmless", "measured": {}}], "does not know"),
        ([{"kind": "anonymity", "models": [{"model": "magic"}], "qi": [["age"]], "sensitive": [],
           "measured": {}}], "does not know"),
    ],
)  # fmt: skip
def test_a_raw_table_does_not_hold_because_its_certificate_promises_nothing(
    tmp_path: Path, promises: list[Any], says: str
) -> None:
    raw = csv(people(), tmp_path / "raw.csv")
    out = certified(tmp_path)
    os.replace(certificate_path(out), certificate_path(raw))

    def lie(body: dict[str, Any]) -> None:
        body["promises"] = promises
        body["output"]["fingerprint"] = sf.table(raw).fingerprint()

    forged(raw, lie)
    done = sfumato("verify", raw)
    assert done.code == 1
    assert says in " ".join(done.out.split())


COUNTED = (
    ("k",), ("classes",), ("rows",), ("qi",), ("output", "rows"), ("output", "columns"),
    ("asked", "k"), ("asked", "k_map"), ("asked", "beta"), ("asked", "universe"),
    ("column_actions", "age"), ("column_actions", "name"),
)  # fmt: skip
"""What a certificate says of the released table, and anybody can count there."""


@pytest.mark.parametrize("verb", ["mondrian", "with persons", "mask", "population", "k-map"])
def test_figures_that_are_not_those_of_the_table_do_not_hold(verb: str, tmp_path: Path) -> None:
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    asked: Any = {}
    if verb == "k-map":
        asked = {"population": people()}
        sf.anonymize(source, qi=["age"], k_map=3, method="mondrian",
                     identifiers=["name"], output=out, **asked)  # fmt: skip
    else:
        VERBS[verb](source, out)
    true = certificate_path(out).read_text()
    assert "figures" not in {finding.check for finding in sf.verify(out, **asked).findings}
    body = json.loads(true)
    there = [path for path, _ in leaves(body)]
    paths = [next((path for path in there if path[: len(one)] == one), None) for one in COUNTED]
    for path in filter(None, paths):
        certificate_path(out).write_text(true)

        def lie(told: dict[str, Any], path: tuple[Any, ...] = path) -> None:
            *way, last = path
            for step in way:
                told = told[step]
            old = told[last]
            told[last] = (
                old + 1
                if isinstance(old, int | float)
                else "left out"
                if old != "left out"
                else "kept"
            )

        forged(out, lie)
        found = sf.verify(out, **asked)
        assert not found.holds, path
        assert any(f.check == "figures" and not f.holds for f in found.findings), path


MEANT: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"l": 2, "sensitive": ["ill"]}, {"l_kind": "entropy"}),
    ({"l": 2, "sensitive": ["ill"]}, {"l_kind": "magic"}),
    ({"l": 2, "sensitive": ["ill"]}, {"sensitive": ["ill", "age"]}),
    ({"likeness": 9, "sensitive": ["ill"]}, {"likeness_kind": "enhanced"}),
    ({"t": 0.9, "sensitive": ["ill"]}, {"t_distance": {"ill": "ordered"}}),
    ({"k": 2, "missing": "wildcard", "method": "cells"}, {"missing": "value"}),
    ({"k": 2}, {"person": "name"}),
    ({"k": 2}, {"qi": [["age", "town", "ill"]]}),
    ({"k": 2, "person": "name", "linkable": True, "m": 1}, {"m": "all"}),
)
"""What a release is asked for, and what its certificate says was asked."""


@pytest.mark.parametrize(("asked", "told"), MEANT)
def test_what_was_asked_means_what_is_promised(
    asked: dict[str, Any], told: dict[str, Any], tmp_path: Path
) -> None:
    """The page of a release shows what was asked: entropy, or persons, that nobody measured."""
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    key = tmp_path / "secret.key"
    key.write_text("7d1c55e0b94f3a286c0b9d83e1f4a7526f0c9e8d7b6a51423f8e6d5c4b3a2910")
    key.chmod(0o600)
    secret = {"key_file": key} if "linkable" in asked else {}
    names = {} if "person" in asked else {"identifiers": ["name"]}
    sf.anonymize(source, **{"qi": ["age", "town"], "output": out, **names, **secret, **asked})
    assert sf.verify(out).holds
    forged(out, lambda body: body["asked"].update(told))
    (found,) = (one for one in sf.verify(out).findings if one.check == "figures")
    assert not found.holds


@pytest.mark.parametrize(
    "told", [{"qi": ["age", "town", "income"]}, {"qi": [["age"], ["income"]]}, {"person": "income"},
             {"identifiers": ["name", "income"]}, {"pseudonyms": "income"}],
)  # fmt: skip
def test_nothing_is_asked_of_a_column_that_was_not_there(
    told: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    sf.anonymize(people(), k=2, qi=["age", "town"], identifiers=["name"], output=out)
    assert sf.verify(out).holds
    forged(out, lambda body: body["asked"].update(told))
    (found,) = (one for one in sf.verify(out).findings if one.check == "figures")
    assert "columns that were asked" in found.measured["differ"]


@pytest.mark.parametrize("repair", ["bound", "none"])
@pytest.mark.parametrize("told", [{"k": 40}, {"beta": 0.2}, {"universe": 2e4}, {"k": "many"}])
def test_numbers_asked_of_a_plan_are_those_that_are_promised(
    repair: str, told: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    sf.population(people(), universe=1e4, k=20, qi=["age"], repair=repair, output=out, bootstrap=0)
    assert sf.verify(out).holds
    forged(out, lambda body: body["asked"].update(told))
    (found,) = (one for one in sf.verify(out).findings if one.check == "figures")
    assert not found.holds


def test_numbers_asked_of_a_map_alone_are_those_that_are_promised(tmp_path: Path) -> None:
    out, crowd = tmp_path / "out.csv", {"population": people()}
    sf.anonymize(people(), k_map=3, qi=["age"], identifiers=["name"], output=out, **crowd)
    assert sf.verify(out, **crowd).holds
    forged(out, lambda body: body["asked"].update(k_map=4))
    (found,) = (one for one in sf.verify(out, **crowd).findings if one.check == "figures")
    assert not found.holds


@pytest.mark.parametrize("told", [{}, {"k": 1_000, "l": 3}], ids=["as asked", "more"])
def test_models_that_were_asked_are_promised_at_all(told: dict[str, Any], tmp_path: Path) -> None:
    """A certificate that says k = 5 was asked promises more than that a column is absent."""
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    asked: dict[str, Any] = {"k": 2, "l": 2, "sensitive": ["ill"], "identifiers": ["name"]}
    sf.anonymize(source, qi=["age", "town"], output=out, **asked)

    def lie(body: dict[str, Any]) -> None:
        body["promises"] = [one for one in body["promises"] if one["kind"] != "anonymity"]
        body["asked"].update(told)

    forged(out, lie)
    (found,) = (one for one in sf.verify(out).findings if one.check == "figures")
    assert found.measured["differ"] == [
        "k that was asked",
        "l that was asked",
        "models that were asked",
    ]


def test_a_page_speaks_of_persons_only_where_they_were_promised(tmp_path: Path) -> None:
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    VERBS["mondrian"](source, out)
    forged(out, lambda body: body["asked"].update(person="name"))
    page = tmp_path / "page.html"
    assert sfumato("report", source, "--released", out, "-o", page).code == 0
    text = page.read_text()
    assert "person that was asked" in text
    assert "rows look alike: " in text
    assert "persons" not in text


@pytest.mark.parametrize(("field", "value"), [("suppressed_rows", 5), ("column_actions", "name")])
def test_what_a_certificate_says_of_its_input_is_looked_up_there(
    field: str, value: Any, tmp_path: Path
) -> None:
    source, out = csv(people(), tmp_path / "people.csv"), tmp_path / "out.csv"
    masked(source, out)
    assert sf.verify(out, of=source).holds

    def lie(body: dict[str, Any]) -> None:
        if field == "column_actions":
            del body[field][value]
        else:
            body[field] = value

    forged(out, lie)
    assert sf.verify(out).holds  # nothing to compare it with
    found = sf.verify(out, of=source)
    assert [one.check for one in found.findings if not one.holds] == ["figures"]
    page = tmp_path / "page.html"
    assert sfumato("report", source, "--released", out, "-o", page).code == 0
    assert "does not fit the table it was made of: " in page.read_text()
    assert "of 29" not in page.read_text()  # 24 rows, and 5 that were never there
    assert "keeps its promises" not in page.read_text()


@pytest.mark.parametrize(
    "promises",
    [None, {}, "all", [3], [{}], [{"kind": "ratio-at-most", "measured": {}}],
     [{"kind": "anonymity", "models": [{"model": "distinct l-diversity", "column": None, "l": 2}],
       "qi": [["age"]], "sensitive": ["ill"], "measured": {}}],
     [{"kind": "ratio-at-most", "measure": "magic", "beta": 1, "columns": ["age"], "measured": {}}],
     [{"kind": "k-map", "k": "x", "qi": 3, "population": "p", "fingerprint": 1, "trees": 2,
       "measured": {}}]],
)  # fmt: skip
def test_malformed_promises_are_bad_input(tmp_path: Path, promises: Any) -> None:
    out = certified(tmp_path)
    forged(out, lambda body: body.update(promises=promises))
    with pytest.raises(SourceError, match="lacks what it must say"):
        sf.verify(out)


@pytest.mark.parametrize(
    ("parameter", "value", "says"),
    [
        ("k", 2.9, "an impossible `k`"),
        ("k", True, "an impossible `k`"),
        ("universe", "3e6", "an impossible `universe`"),
        ("columns", "age", "an impossible `columns`"),
        ("figure", "guess", "no figure `guess`"),
        ("beta", 1.5, "β, the probability"),
    ],
)
def test_promises_mean_exactly_what_is_written(
    tmp_path: Path, parameter: str, value: Any, says: str
) -> None:
    out = certified(tmp_path)
    told = {"kind": "matches-people", "universe": 3e6, "k": 2, "beta": 0.5, "columns": ["age"]}
    promise = {**told, "figure": "estimate", "measured": {}, parameter: value}
    forged(out, lambda body: body.update(promises=[promise]))
    found = [one.say for one in sf.verify(out).findings if one.check == "promises" and one.broken]
    assert any(says in say for say in found), found


def test_what_nobody_promised_is_always_said(tmp_path: Path) -> None:
    out = certified(tmp_path)
    shown = sfumato("verify", out, "--json").json
    assert shown["not_promised"]["columns"] == ["ill"]
    assert "t-closeness" in shown["not_promised"]["models"]
    assert "k-anonymity" not in shown["not_promised"]["models"]
    assert [one["kind"] for one in shown["promised"]] == ["anonymity", "without-columns"]
    page = " ".join(sfumato("verify", out).out.split())
    assert "Nothing is promised about: ill." in page
    assert "Not asked for: k-map, distinct l-diversity" in page
    asked = sf.verify(out, qi=["age"], k=2, l=1, sensitive=["ill"])
    assert asked.not_promised["columns"] == ("town",)


# A certificate opens nothing


def test_a_certificate_opens_no_population(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = certified(tmp_path)
    from sfumato.tables import open as opening

    touched: list[Any] = []
    real = opening.table

    def watched(source: Any, *given: Any, **named: Any) -> Any:
        touched.append(source)
        return real(source, *given, **named)

    for module in ("sfumato.release.verify", "sfumato.tables"):
        monkeypatch.setattr(f"{module}.table", watched)
    named = [
        "postgresql://127.0.0.1:1/x#people", "SELECT * FROM read_csv('/etc/passwd')",
        "/etc/passwd", str(tmp_path / "people.csv"),
    ]  # fmt: skip
    for place in named:
        promise = {"kind": "k-map", "k": 1, "qi": [["age"]], "population": place,
                   "fingerprint": None, "trees": [], "measured": {}}  # fmt: skip
        forged(out, lambda body, promise=promise: body.update(promises=[promise]))  # type: ignore[misc]
        found = sf.verify(str(out))
        assert not found.holds
        assert any("was not checked" in finding.say for finding in found.findings)
        forged(out, lambda body, place=place: body["asked"].update(population=place, k_map=1))  # type: ignore[misc]
        with pytest.raises(ParameterError, match="a certificate opens nothing"):
            sf.anonymize(people(), config=certificate_path(out))
    assert set(map(str, touched)) == {str(out)}


JUNK: list[Any] = [
    None, True, -1, 10**30, 1e308, float("nan"), "", "\x1b[2J", "x" * 10_000, [], {}, [[]],
    ["age"], [["age"]], [None], [["nope"]], {"model": "k-anonymity", "k": 0}, "k-map", "../../x",
]  # fmt: skip


def test_certificates_with_junk_in_them_end_in_plain_answers(tmp_path: Path) -> None:
    """At every place of a certificate: no traceback, and nothing that steers a terminal."""
    out = certified(tmp_path)
    whole = json.loads(certificate_path(out).read_text())
    places = [path for path, _ in leaves({k: v for k, v in whole.items() if k != "digest"})]
    places += [(*path[:length],) for path in places for length in range(1, len(path))]
    rng = random.Random(0)
    for path in dict.fromkeys(places):

        def spoil(body: dict[str, Any], path: tuple[Any, ...] = path) -> None:
            at: Any = body
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = rng.choice(JUNK)

        certificate_path(out).write_text(json.dumps(whole))
        forged(out, spoil)
        done = sfumato("verify", out, "-q")
        assert done.code in (0, 1, 2), (path, done.err)
        assert "unexpected" not in done.err, (path, done.err)
        assert "\x1b" not in done.out + done.err, path


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"[" * 200_000, b'{"certificate":2,"rows":' + b"9" * 5000 + b"}", b"", b"{"],
)
def test_files_that_are_no_certificates_are_not_whole(tmp_path: Path, content: bytes) -> None:
    out = certified(tmp_path)
    certificate_path(out).write_bytes(content)
    done = sfumato("verify", out)
    assert (done.code, "the certificate is not whole" in " ".join(done.out.split())) == (1, True)
