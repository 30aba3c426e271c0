"""Releases: written, verified, certified, and never half there."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import killed_writer
import sfumato as sf
from cli_tools import killed_again, sfumato
from sfumato.engines.recoding import Recoding
from sfumato.errors import EngineError, ParameterError, PromiseError, SourceError
from sfumato.privacy import DistinctDiversity, KAnonymity
from sfumato.release import Finding, Release, publish, rehearse
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.other_promises import RatioAtMost, WithoutColumns
from sfumato.release.promise import Anonymity, promise_from_dict, require_same_classes


def people(rows: int = 60) -> pa.Table:
    return pa.table(
        {
            "id": list(range(rows)),
            "age": [20 + i % 5 for i in range(rows)],
            "zip": [f"0{i % 3}" for i in range(rows)],
            "note": [None if i % 7 == 0 else "" if i % 7 == 1 else "x" for i in range(rows)],
        }
    )


def plan(table: pa.Table, beta: float = 0.9, drop: tuple[str, ...] = ("id",), **more) -> Release:
    kept = tuple(name for name in table.column_names if name not in drop)
    return Release.planned(
        sf.table(table),
        Recoding(drop=drop),
        method="test",
        asked={"beta": beta},
        promises=(RatioAtMost("distinct", beta, kept), WithoutColumns(drop)),
        qi=(kept,),
        **more,
    )


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "arrow"])
def test_what_is_written_is_verified_and_can_be_verified_again(tmp_path, ending):
    output = tmp_path / f"out.{ending}"
    release = publish(plan(people()), output)
    assert release.verified
    assert all(finding.holds for finding in release.findings)
    assert sf.table(str(output)).columns == ("age", "zip", "note")
    assert sf.verify(str(output)).holds
    record = json.loads(certificate_path(output).read_text())
    assert record["output"]["rows"] == release.rows == 60
    assert [p["kind"] for p in record["promises"]] == ["ratio-at-most", "without-columns"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"out.{ending}",
        f"out.{ending}.certificate.json",
    ]


CELLS = st.sampled_from(
    [None, "", "01", "1", "1.0", "1e0", " 1", "-0", "0", "NA", "nan", "NULL", "null", "true",
     "2020-01-01", '"', "a,b", "x\ny", "\\N", "é", "*"]
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8), st.integers(1, 2))
def test_text_keeps_its_classes_on_the_way_through_a_csv_file(tmp_path_factory, rows, width):
    table = pa.table({f"c{i}": pa.array([row[i] for row in rows], "string") for i in range(width)})
    output = tmp_path_factory.mktemp("out") / "out.csv"
    release = publish(plan(table, beta=1.0, drop=()), output)
    assert release.classes == sf.measure(table).classes
    found = sf.verify(str(output))
    assert found.holds, [finding.say for finding in found.findings if not finding.holds]


def test_the_same_plan_gives_the_same_bytes(tmp_path):
    for name in ("one.csv", "two.csv"):
        publish(plan(people(), seed=3), tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.csv", "two.csv"))
    assert one == two
    certificates = [
        json.loads(certificate_path(tmp_path / name).read_text()) for name in ("one.csv", "two.csv")
    ]
    for body in certificates:
        body["output"].pop("name")
        body.pop("digest")
    assert certificates[0] == certificates[1]


def test_promises_at_their_edges():
    four = sf.table(pa.table({"a": [1, 1, 2, 2], "b": [1, 1, 1, 2]}))
    for measure, ratio in (("distinct", 0.5), ("separation", 2 / 3)):
        assert RatioAtMost(measure, ratio, ("a",)).check(four).holds
        assert not RatioAtMost(measure, ratio - 1e-4, ("a",)).check(four).holds
    assert WithoutColumns(("c",)).check(four).holds
    assert not WithoutColumns(("b", "c")).check(four).holds
    two, three = KAnonymity(2), KAnonymity(3)
    assert Anonymity((two,), (("a",),)).check(four).holds
    assert not Anonymity((two, three), (("a",),)).check(four).holds
    assert not Anonymity((two,), (("a",), ("b",))).check(four).holds


def test_persons_who_cannot_be_counted_again_have_at_least_as_many_rows():
    four = sf.table(pa.table({"a": [1, 1, 2, 2], "b": [1, 1, 1, 2]}))

    def checked(*models):
        return Anonymity(models, (("a",),), ("b",), "value", "who").check(four)

    assert checked(KAnonymity(2)).holds
    assert not checked(KAnonymity(3)).holds
    assert not checked(DistinctDiversity(1, "b")).holds
    assert "not checked" in checked(DistinctDiversity(1, "b")).say
    nobody = checked(KAnonymity(1))
    assert (nobody.holds, nobody.unchecked) == (True, ())
    assert "every class of any table has one" in nobody.say
    assert not checked(KAnonymity(1), DistinctDiversity(1, "b")).holds


def test_a_witness_has_the_same_classes_as_often():
    def rows(*values):
        return sf.table(pa.table({"a": list(values)}))

    require_same_classes(rows(1, 1, 2), rows(2, 1, 1), ["a"], None)
    for other in (rows(1, 2, 2), rows(1, 1, 3), rows(1, 1), rows(1, 1, 2, 2), rows(1, 2, 3)):
        with pytest.raises(EngineError, match="are not the same"):
            require_same_classes(rows(1, 1, 2), other, ["a"], None)


def test_figures_of_a_certificate_are_measured_again(tmp_path):
    output = tmp_path / "out.csv"
    sealed = publish(plan(people()), output).certificate
    promises = [dict(told) for told in sealed.body["promises"]]
    promises[0]["measured"] = {**promises[0]["measured"], "rows": 61}
    Certificate({**sealed.body, "promises": promises}).write(certificate_path(output))
    found = sf.verify(str(output))
    assert [one.check for one in found.findings if not one.holds] == ["measures"]
    assert not found.holds


def test_no_certificate_is_endless(tmp_path, monkeypatch):
    output = tmp_path / "out.csv"
    publish(plan(people()), output)
    monkeypatch.setattr("sfumato.release.certificate._LONGEST", 100)
    with pytest.raises(SourceError, match="so it is no certificate"):
        sf.verify(str(output))


def test_a_broken_promise_publishes_nothing(tmp_path):
    output = tmp_path / "out.csv"
    with pytest.raises(PromiseError, match=r"nothing was published.*at most 0.1 was promised"):
        publish(plan(people(), beta=0.1), output)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PromiseError):
        rehearse(plan(people(), beta=0.1))


def test_a_rehearsal_leaves_nothing_behind_and_can_be_written(tmp_path):
    release = rehearse(plan(people()))
    assert (release.output, release.verified, release.rows) == (None, True, 60)
    assert release.table.columns == ("age", "zip", "note")
    written = release.write(tmp_path / "out.parquet")
    assert written.output == str(tmp_path / "out.parquet")
    assert written.classes == release.classes


def test_a_release_without_any_column_is_refused(tmp_path):
    people = pa.table({"name": ["Ann", "Bo"], "age": [1, 2]})
    with pytest.raises(ParameterError, match="every column would be left out"):
        sf.safe_harbor(people, drop=["name", "age"], output=tmp_path / "safe.csv")
    with pytest.raises(ParameterError, match="every column would be left out"):
        sf.population(people, universe=3e8, k=50, output=tmp_path / "blurred.csv")
    assert not list(tmp_path.iterdir())


def test_an_existing_output_or_certificate_is_not_replaced_unless_asked(tmp_path):
    output = tmp_path / "out.csv"
    output.write_text("precious")
    with pytest.raises(ParameterError):
        publish(plan(people()), output)
    assert output.read_text() == "precious"
    assert not certificate_path(output).exists()
    publish(plan(people()), output, force=True)
    assert sf.verify(str(output)).holds
    output.unlink()
    with pytest.raises(ParameterError, match="certificate of an earlier release"):
        publish(plan(people()), output)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_release_never_replaces_its_input(tmp_path, force):
    source = tmp_path / "people.parquet"
    pq.write_table(people(), source)
    before = source.read_bytes()
    link = tmp_path / "link.parquet"
    link.symlink_to(source)
    for name in (source, link):
        done = sfumato("mask", source, "--beta", "0.9", "-o", name, *force)
        assert done.code == 2, done.err
        assert source.read_bytes() == before
    assert not certificate_path(source).exists()


def test_folders_that_are_missing_or_closed(tmp_path):
    with pytest.raises(ParameterError, match="does not exist"):
        publish(plan(people()), tmp_path / "no" / "out.csv")
    with pytest.raises(ParameterError, match="folder"):
        publish(plan(people()), tmp_path)


@dataclass(frozen=True)
class Vanishing:
    """Holds, but takes away the place of the certificate while it is checked."""

    folder: Path
    kind: str = field(default="vanishing", init=False)

    def to_dict(self):
        return {}

    def check(self, table, budget=None):
        certificate_path(self.folder / "out.csv").mkdir()
        return Finding(self.kind, True, "fine")


def test_no_output_without_its_certificate(tmp_path):
    made = plan(people())
    made = replace(made, promises=(Vanishing(tmp_path),))
    with pytest.raises(ParameterError, match="this is a folder"):
        publish(made, tmp_path / "out.csv", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv.certificate.json"]


def altered(path: Path, change) -> None:
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def test_no_certificate_without_its_output(tmp_path, monkeypatch):
    def fails(self, *, force=False):
        raise EngineError("the disk is gone")

    monkeypatch.setattr("sfumato.engines.staging.Staged.commit", fails)
    with pytest.raises(EngineError, match="the disk is gone"):
        publish(plan(people()), tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_is_not_replaced_keeps_its_certificate(tmp_path, monkeypatch):
    output = tmp_path / "out.csv"
    publish(plan(people()), output)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fails(self, *, force=False):
        raise EngineError("the disk is gone")

    monkeypatch.setattr("sfumato.engines.staging.Staged.commit", fails)
    with pytest.raises(EngineError, match="the disk is gone"):
        publish(plan(people(50)), output, force=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@dataclass(frozen=True)
class Overtaken(Vanishing):
    """While it is checked somebody else publishes under the same name."""

    def check(self, table, budget=None):
        publish(plan(people(50)), self.folder / "out.csv")
        return Finding(self.kind, True, "fine")


def test_a_release_of_another_program_keeps_its_certificate(tmp_path):
    made = replace(plan(people()), promises=(Overtaken(tmp_path),))
    with pytest.raises(ParameterError, match="certificate of an earlier release"):
        publish(made, tmp_path / "out.csv")
    assert sfumato("verify", tmp_path / "out.csv").code == 0


@pytest.mark.parametrize("force", [False, True])
def test_an_interrupted_release_that_has_its_name_has_its_certificate(tmp_path, monkeypatch, force):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.engines.staging.synced", interrupted)
    if force:
        publish_in_peace(plan(people(50)), tmp_path / "out.csv", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        publish(plan(people()), tmp_path / "out.csv", force=force)
    assert sfumato("verify", tmp_path / "out.csv").code == 0


@pytest.mark.parametrize("force", [False, True])
def test_a_release_that_was_interrupted_before_it_got_its_name_has_none(
    tmp_path, monkeypatch, force
):
    def interrupted(sealed, path):
        write(sealed, path)
        raise KeyboardInterrupt

    write, output = Certificate.write, tmp_path / "out.csv"
    if force:
        publish(plan(people(50)), output)
    monkeypatch.setattr(Certificate, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(plan(people()), output, force=force)
    assert sfumato("verify", output).code == (0 if force else 2)
    assert bool(list(tmp_path.iterdir())) == force


def publish_in_peace(made, output, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("sfumato.engines.staging.synced", lambda path: None)
        publish(made, output)


def test_an_altered_certificate_is_a_failed_promise(tmp_path):
    output = tmp_path / "out.csv"
    publish(plan(people()), output)
    beside = certificate_path(output)
    altered(beside, lambda body: body["asked"].update(beta=0.5))
    done = sfumato("verify", output)
    assert done.code == 1
    assert "altered" in done.out
    beside.write_text(beside.read_text()[:-20])
    assert sfumato("verify", output).code == 1


def test_an_altered_byte_is_a_failed_promise(tmp_path):
    output = tmp_path / "out.csv"
    publish(plan(people()), output)
    output.write_bytes(output.read_bytes().replace(b"20", b"21", 1))
    done = sfumato("verify", output, "--json")
    assert done.code == 1
    assert "fingerprint" in [f["check"] for f in done.json["findings"] if not f["holds"]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: body.update(certificate=1), "has form 1"),
        (lambda body: body.pop("certificate"), "not a certificate"),
    ],
)
def test_certificates_of_another_form(tmp_path, change, words):
    output = tmp_path / "out.csv"
    publish(plan(people()), output)
    altered(certificate_path(output), change)
    done = sfumato("verify", output)
    assert done.code == 2
    assert words in " ".join(done.err.split())


def test_a_missing_certificate_is_bad_input(tmp_path):
    (tmp_path / "out.csv").write_text("a\n1\n")
    done = sfumato("verify", tmp_path / "out.csv")
    assert (done.code, "there is no certificate" in done.err) == (2, True)


def test_a_certificate_that_lacks_what_it_must_say(tmp_path):
    (tmp_path / "out.csv").write_text("a\n1\n")
    Certificate.of(method="x").write(certificate_path(tmp_path / "out.csv"))
    with pytest.raises(SourceError, match="lacks what it must say"):
        sf.verify(str(tmp_path / "out.csv"))


def test_a_certificate_says_when_with_what_and_by_whom_it_was_made(tmp_path, monkeypatch):
    from sfumato._version import __version__

    publish(plan(people()), tmp_path / "out.csv", author=" Ada Lovelace ")
    body = Certificate.read(certificate_path(tmp_path / "out.csv")).body
    assert (body["date"], body["author"]) == ("2023-11-14", "Ada Lovelace")
    told = f"made on 2023-11-14 by Ada Lovelace, with Sfumato {__version__}"
    assert sf.verify(str(tmp_path / "out.csv")).made == told
    assert told in " ".join(sfumato("verify", tmp_path / "out.csv").out.split())
    publish(plan(people()), tmp_path / "nobody.csv")
    assert "author" not in Certificate.read(certificate_path(tmp_path / "nobody.csv")).body
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    now = Certificate.of(method="x").body["date"]
    assert abs(dt.date.fromisoformat(now) - dt.datetime.now(dt.UTC).date()) <= dt.timedelta(days=1)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ParameterError, match="SOURCE_DATE_EPOCH"):
        Certificate.of(method="x")


@pytest.mark.parametrize("author", ["", "  ", "a\nb", "x" * 201, "\x1b[31mred", 7])
def test_an_author_is_a_line_of_text(tmp_path, author):
    with pytest.raises(ParameterError, match="one line of text"):
        publish(plan(people()), tmp_path / "out.csv", author=author)
    assert not list(tmp_path.iterdir())


def test_what_a_received_certificate_says_of_its_maker_is_printed_only_if_it_is_plain():
    for odd in ("\x1b[31m", 7, ["Ada"], "x" * 999, ""):
        assert (
            Certificate({"date": odd, "author": odd}).maker == "made on a day that it does not say"
        )


def test_a_certificate_may_lie_elsewhere(tmp_path):
    place = tmp_path / "kept.json"
    publish(plan(people()), tmp_path / "out.csv", certificate=place)
    assert not certificate_path(tmp_path / "out.csv").exists()
    assert sf.verify(str(tmp_path / "out.csv"), certificate=place).holds


def test_unknown_promises_are_named():
    with pytest.raises(Exception, match="does not know"):
        promise_from_dict("no-such-promise", {})


@pytest.mark.parametrize(
    ("rows", "times"), [(20_000, 6), pytest.param(400_000, 50, marks=pytest.mark.slow)]
)
def test_killed_at_any_moment_nothing_partial_has_the_final_name(tmp_path, rows, times):
    """Processes are killed while they write; each leaves the whole output or none."""
    source = tmp_path / "people.parquet"
    pq.write_table(people(rows), source)
    made = tmp_path / "whole.csv"
    sf.mask(str(source), beta=0.9, must_drop=["id"], output=str(made))
    whole = hashlib.sha256(made.read_bytes()).digest()
    there, output = 0, tmp_path / "out" / "out.csv"
    output.parent.mkdir()
    for _ in killed_again(times, killed_writer.write, str(source), str(output)):
        if output.exists():
            there += 1
            assert hashlib.sha256(output.read_bytes()).digest() == whole
            assert certificate_path(output).exists()
        for path in output.parent.iterdir():
            path.unlink()
    assert 1 <= there < times


def test_what_cannot_be_checked_is_not_called_broken(tmp_path):
    people, output = tmp_path / "people.csv", tmp_path / "release.csv"
    people.write_text("who,age,ill\na,1,x\na,2,y\nb,3,x\nc,4,z\n")
    asked = ["anonymize", people, "--qi", "age", "--person", "who", "-o", output, "--force"]
    assert sfumato(*asked, "-k", 1).code == 0
    told = sfumato("verify", output)
    assert (told.code, "every class of any table has one" in told.out) == (0, True)
    assert sfumato(*asked, "-k", 1, "-t", 0.9, "--sensitive", "ill").code == 0
    told = sfumato("verify", output)
    assert (told.code, "It does not hold" in told.out) == (1, False)
    assert "What was promised cannot be checked here." in told.out


@pytest.mark.parametrize(
    "made",
    [
        lambda table: sf.mask(table, beta=0.9),
        sf.safe_harbor,
        lambda table: sf.anonymize(table, k=3, qi=["a", "b"]),
    ],
    ids=["mask", "safe_harbor", "anonymize"],
)
def test_a_column_that_was_excluded_is_not_published(made: Any) -> None:
    """The engine still holds it: of a database all of its rows are there, whatever was left out."""
    rows = range(200)
    held = {"id": list(rows), "a": [n % 5 for n in rows], "b": [n % 3 for n in rows]}
    source = sf.table(pa.table({**held, "email": [f"x{n}@y.org" for n in rows]}))
    assert made(source.exclude(["id", "email"])).to_arrow().column_names == ["a", "b"]


@pytest.mark.postgres
@pytest.mark.parametrize("verb", [["mask", "--beta", "0.9"], ["safe-harbor"]])
def test_a_column_of_a_database_that_was_excluded_is_not_published(
    postgres: Any,
    postgres_schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # where the certificate goes
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE TABLE {postgres_schema}.people AS SELECT i AS id, i % 5 AS a, i % 3 AS b "
            "FROM generate_series(1, 90) AS i"
        )
    place, out = f"{postgres.url}#{postgres_schema}", f"{postgres_schema}.out"
    assert sfumato(verb[0], f"{place}.people", *verb[1:], "-x", "id", "-o", out).code == 0
    with sf.table(f"{place}.out") as released:
        assert list(released.columns) == ["a", "b"]
