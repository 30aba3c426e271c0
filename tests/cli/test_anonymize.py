"""``sfumato anonymize`` as users meet it."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.anonymization.registry import METHODS
from sfumato.demo import people
from sfumato.files import write_secret

QI = ("--qi", "birth_date,sex,zip")
OUT = ("--identifiers", "patient_id,name,ssn,email,phone", "--identifiers", "note")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "people.parquet"
    pq.write_table(people(1500), path)
    return path


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """So small that no method needs a compiler."""
    path = tmp_path_factory.mktemp("demo") / "ward.parquet"
    pq.write_table(people(200), path)
    return path


def plain(text):
    return " ".join(text.split())


def test_the_json_is_the_release(hospital):
    told = sfumato("anonymize", hospital, "-k", 5, *QI, *OUT, "--sort", "--json").json
    release = sf.anonymize(
        hospital,
        qi=["birth_date", "sex", "zip"],
        k=5,
        sort=True,
        identifiers=["patient_id", "name", "ssn", "email", "phone", "note"],
    )
    assert "utility" in told.pop("stays_at_home")
    assert told == release.to_dict()
    promised = (
        "method asked k rows suppressed_rows suppressed_cells classes lower_bound utility "
        "column_actions"
    )
    assert set(promised.split(" ")) <= set(told)
    assert told["asked"]["k"] == 5


def test_the_page_fits_80_columns_and_tells_the_whole_story(hospital, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = "release.parquet"
    done = sfumato(
        "anonymize", hospital, "-k", 5, *QI, *OUT, "--sensitive", "diagnosis", "-l", 3,
        "-o", out, "-q",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.err == ""
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 80
    words = plain(done.out)
    for told in ("1,500 rows in", "✓ k-anonymity k = 5",
                 "✓ distinct l-diversity of diagnosis l = 3",
                 "birth_date blurred in", "normalized certainty penalty", "prosecutor 100.00%",
                 "Written and verified", "release.parquet.certificate.json"):  # fmt: skip
        assert told in words, told
    order, together, alone = (line for line in done.out.splitlines() if line.startswith("!"))
    assert "neighbouring rows of the table are more alike" in order
    assert "(--sort)" in words
    assert "not promised: 1,500 of 1,500 rows" in together
    assert "not promised: `cost` has a value of its own in most rows" in alone
    assert sfumato("verify", out).code == 0


def test_a_long_list_of_columns_is_told_once(ward):
    asked = ("anonymize", ward, "-k", 5, "--sensitive", "diagnosis", "-l", 2, *OUT, "-q")
    few = plain(sfumato(*asked, "--qi", "sex,zip,language").out)
    many = plain(sfumato(*asked, "--qi", "sex,zip,language,insurance").out)
    assert "k = 5 sex, zip, language ✓" in few
    assert "the same columns" not in few
    assert "k = 5 sex, zip, language, insurance ✓" in many
    assert "the same columns" in many
    two = plain(sfumato(*asked, "--qi", "sex,zip", "--qi", "language,insurance").out)
    assert "the same columns" not in two


@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_every_method(ward, tmp_path, name):
    column = "cost" if name in ("quantiles", "optimal-1d") else "sex,zip"
    out = tmp_path / "release.parquet"
    done = sfumato(
        "anonymize", ward, "-k", 5, "--qi", column, *OUT, "--method", name, "-o", out, "-q"
    )
    assert (done.code, done.err) == (0, "")
    assert "Written and verified" in done.out


def test_a_proven_bound_is_told(ward, tmp_path):
    asked = ("anonymize", ward, "-k", 5, "--qi", "sex,zip", *OUT, "--method", "best")
    trees = tmp_path / "trees"
    trees.mkdir()
    done = sfumato(*asked, "--hierarchies", trees, "--option", "bound=lp", "-q")
    assert done.code == 0, done.err
    assert "proven no recoding with these trees loses less than 0." in plain(done.out)
    assert sfumato(*asked, "--option", "bound=lp").code == 2


def test_the_page_says_how_stars_are_read(hospital, tmp_path):
    output = tmp_path / "release.parquet"
    asked = ["anonymize", hospital, "-k", "3", "--qi", "sex,zip", "--method", "cells", *OUT]
    asked += ["-o", output]
    assert "stars match anything" not in sfumato(*asked).out
    read = " ".join(sfumato(*asked, "--missing", "wildcard", "--force").out.split())
    assert "k-anonymity, stars match anything" in read
    assert "with stars that match anything, k-anonymity" in sfumato("verify", output).out


def test_no_value_held_by_few_is_printed(hospital):
    done = sfumato("anonymize", hospital, "-k", 5, *QI, "--sensitive", "diagnosis", "-l", 2)
    table = pq.read_table(hospital)
    for name in ("name", "ssn", "email", "phone", "zip", "birth_date"):
        cells = {str(cell) for cell in table.column(name).to_pylist()[:300]} - {"None"}
        assert not [cell for cell in cells if cell in done.out], name


def test_identifiers_that_stay_stop_a_release(hospital):
    done = sfumato("anonymize", hospital, "-k", 5, *QI)
    assert done.code == 2
    assert "`patient_id`" in plain(done.err)
    assert "--identifiers patient_id," in plain(done.err)
    assert "--rows-are-people" in plain(done.err)
    said = sfumato("anonymize", hospital, "-k", 5, *QI, "--rows-are-people")
    assert plain(said.out).endswith("Nothing was written; give -o FILE to publish.")


def test_a_dry_run_writes_nothing(hospital, tmp_path):
    done = sfumato("anonymize", hospital, "-k", 5, *QI, *OUT, "-o", tmp_path / "x.csv", "--dry-run")
    assert done.code == 0
    assert "Nothing was written" in done.out
    assert list(tmp_path.iterdir()) == []


def test_several_sets_weights_and_options(hospital):
    told = sfumato(
        "anonymize", hospital, "-k", 4, "--qi", "birth_date,sex", "--qi", "zip", *OUT,
        "--weights", "birth_date=5", "--cut-weights", "spread=1,priority=3", "--relaxed",
        "--sensitive", "cost", "-t", 0.4, "--t-distance", "cost=ordered", "--seed", 7, "--json",
    ).json  # fmt: skip
    assert told["asked"]["qi"] == [["birth_date", "sex"], ["zip"]]
    assert told["asked"]["cut_weights"] == {"spread": 1.0, "priority": 3.0}
    assert told["asked"]["relaxed"] is True
    assert told["seed"] == 7
    models = [check["model"] for check in told["findings"][0]["measured"]["checks"]]
    assert models == ["k-anonymity", "t-closeness (ordered distance)"] * 2


@pytest.mark.parametrize(
    "options",
    [
        ["--option", "protected=sex,zip"],
        ["--option", "protected=sex", "--option", "protected=zip"],
        ["--option", 'protected=["sex", "zip"]'],
    ],
)
def test_several_columns_are_protected_however_they_are_named(hospital, options):
    told = sfumato(
        "anonymize", hospital, "-k", 2, *QI, *OUT, "--method", "cells", *options, "--json"
    ).json
    assert told["asked"]["protected"] == ["sex", "zip"]
    assert told["column_actions"]["sex"] == told["column_actions"]["zip"] == "kept"


def test_a_configuration_is_read_written_and_overridden(hospital, tmp_path):
    config, first, second = tmp_path / "a.toml", tmp_path / "1.csv", tmp_path / "2.csv"
    done = sfumato(
        "anonymize", hospital, "-k", 5, *QI, *OUT, "--strict", "--weights", "zip=2",
        "--write-config", config, "-o", first,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert tomllib.loads(config.read_text())["weights"] == {"zip": 2.0}
    assert sfumato("anonymize", hospital, "--config", config, "-o", second).code == 0
    assert first.read_bytes() == second.read_bytes()
    third = sfumato("anonymize", hospital, "--config", config, "-k", 9, "--json").json
    assert third["asked"]["k"] == 9
    assert third["k"] >= 9
    refused = sfumato("anonymize", hospital, *QI, "-k", 5, "--write-config", config)
    assert refused.code == 2
    assert "exists already" in plain(refused.err)


def test_boundaries_hierarchies_and_workload(hospital, tmp_path):
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "sex.csv").write_text("F;*\nM;*\nX;*\n")
    (tmp_path / "bounds.toml").write_text('[sex]\nmarks = ["F", "M", "X"]\n')
    (tmp_path / "log.sql").write_text("SELECT zip FROM t WHERE sex = 'F'\nSELECT FROM (\n")
    done = sfumato(
        "anonymize", hospital, "-k", 5, "--qi", "sex,zip", *OUT,
        "--hierarchies", tmp_path / "trees", "--boundaries", tmp_path / "bounds.toml",
        "--workload", tmp_path / "log.sql",
    )  # fmt: skip
    assert done.code == 0, done.err
    words = plain(done.out)
    assert "sex kept 0.000" in words
    assert "1 query was skipped (line 2: it does not parse" in words
    assert "Inferred hierarchies zip" in words
    assert "1 query, relative error" in words


def test_pseudonyms(hospital, tmp_path):
    key, out = tmp_path / "key", tmp_path / "out.csv"
    write_secret(key, b"8f14e45fceea167a5a36dedd4bea2543")
    done = sfumato(
        "anonymize", hospital, "-k", 5, *QI, "--identifiers", "name,ssn,email,phone,note",
        "--pseudonyms", "patient_id", "--key-file", key, "-o", out,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "patient_id replaced by pseudonyms" in plain(done.out)
    ids = sf.table(out).sample(5, ["patient_id"]).column(0).to_pylist()
    assert all(len(name) == 32 for name in ids)


def test_several_releases_are_verified_together(hospital, tmp_path):
    for name, weight in (("a", "zip"), ("b", "birth_date")):
        done = sfumato(
            "anonymize", hospital, "-k", 5, "--qi", "birth_date,zip", "--weights", f"{weight}=9",
            "--cut-weights", "spread=0,priority=1", "--rows-are-people",
            "-o", tmp_path / f"{name}.csv",
        )  # fmt: skip
        assert done.code == 0
    assert "already holds a release of the same table (a.csv)" in plain(done.out)
    both = sfumato(
        "verify", tmp_path / "a.csv", "--with", tmp_path / "b.csv", "--row-key", "patient_id"
    )
    assert both.code == 1
    assert "✗ 2 releases joined: k-anonymity on" in plain(both.out)
    assert sfumato("verify", tmp_path / "a.csv", "--with", tmp_path / "b.csv").code == 2


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "5"], "no quasi-identifiers were named"),
        (["--qi", "zip"], "nothing was asked for"),
        (["-k", "9999", "--qi", "zip", *OUT], "k = 9,999 is larger than the table"),
        (["-k", "5", "--qi", "zipp"], "Did you mean `zip`?"),
        (["-k", "5", "--qi", "zip", "--sensitive", "zip", "-l", "2"], "at the same time"),
        (["-k", "5", "--qi", "zip", "--sensitive", "sex", "-l", "9", *OUT], "distinct values"),
        (["-k", "5", "--qi", "zip", "--method", "mondrain"], "Did you mean `mondrian`?"),
        (["-k", "5", "--qi", "zip", "--option", "relax=1"], "Did you mean `relaxed`?"),
        (["-k", "5", "--qi", "zip", "--option", "relax"], "Write --option name=value"),
        (["-k", "5", "--qi", "zip", "--option", "a=1", "--option", "a=2"], "`a` is given twice"),
        (["-k", "5", "--qi", ","], "no columns were named. Name some, e.g. age,sex,zip."),
        (["-k", "5", "--qi", "zip", "--config", "nowhere.toml"], "no such file"),
        (["-k", "5", "--qi", "zip", "--hierarchies", "nowhere"], "there is no such folder"),
        (["-k", "5", "--qi", "zip", "--boundaries", "nowhere"], "no such file"),
        (["-k", "5", "--qi", "zip", "--workload", "nowhere"], "no such file"),
        (["-k", "5", "--qi", "zip", "--pseudonyms", "name"], "secret key"),
        (["-k", "5", "--qi", "zip", "--pseudonyms", "name", "--key-file", "no"], "no such file"),
        (["-k", "5", "--qi", "zip", "--key-file", __file__], "e.g. --pseudonyms patient_id"),
        (["-k", "5", "--qi", "zip", "--suppressed-as", "x"], "cannot be `x`"),
        (["-k", "5", "--qi", "zip", "--weights", "age=2"], "not a quasi-identifier"),
        (["-k", "5", "--qi", "zip", "--format", "docx", "-o", "x"], "docx"),
    ],
)
def test_bad_input_is_explained_and_nothing_written(
    hospital, tmp_path, monkeypatch, engine, arguments, words
):
    monkeypatch.chdir(tmp_path)
    done = sfumato("anonymize", hospital, "--engine", engine, *arguments)
    assert done.code == 2, done.err
    assert words in plain(done.err)
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_release_is_not_overwritten_unasked(hospital, tmp_path):
    out = tmp_path / "out.csv"
    assert sfumato("anonymize", hospital, "-k", 5, *QI, *OUT, "-o", out).code == 0
    before = out.read_bytes()
    assert sfumato("anonymize", hospital, "-k", 9, *QI, *OUT, "-o", out).code == 2
    assert out.read_bytes() == before
    assert sfumato("anonymize", hospital, "-k", 9, *QI, *OUT, "-o", out, "--force").code == 0


def test_help_lists_every_method():
    words = plain(sfumato("anonymize", "--help").out)
    for name in METHODS:
        assert f"{name}:" in words


def test_the_next_steps_of_scan_run_as_they_are_printed(tmp_path):
    table = people(300, seed=5)
    odd = {"zip": 'zip, "five"', "doctor": "the doctor"}
    place = tmp_path / "some people.parquet"
    pq.write_table(table.rename_columns([odd.get(n, n) for n in table.column_names]), place)
    printed = sfumato("scan", place, "-q").out.splitlines()
    commands = [line.strip() for line in printed if line.strip().startswith("sfumato ")]
    assert [command.split()[1] for command in commands] == ["measure", "risk", "anonymize"]
    for command in commands:
        done = sfumato(*shlex.split(command)[1:], "--json")
        assert done.code == 0, done.err
    assert done.json["k"] >= 5
    assert set(odd.values()) <= set(done.json["asked"]["qi"][0])


def test_verify_checks_every_model_that_anonymize_promises(hospital, tmp_path):
    out = tmp_path / "release.csv"
    asked = (*QI, "--sensitive", "diagnosis", "-k", 5, "-l", 2, "-p", 2, "--alpha", 0.8, "-t", 0.7)
    assert sfumato("anonymize", hospital, *asked, *OUT, "-o", out, "-q").code == 0
    found = sfumato("verify", out, *asked, "--json").json
    assert found["holds"]
    checks = found["findings"][0]["measured"]["checks"]
    assert [check["model"] for check in checks] == [
        "k-anonymity", "distinct l-diversity", "t-closeness (equal distance)",
        "p-sensitive k-anonymity", "(α,k)-anonymity",
    ]  # fmt: skip
    for stricter in (("-p", 60), ("--alpha", 0.05)):
        done = sfumato("verify", out, *QI, "--sensitive", "diagnosis", *stricter, "-q")
        assert done.code == 1, done.err
    assert "no quasi-identifiers" in sfumato("verify", out, "-p", 2, "-q").err


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_settings_are_never_written_over_a_table(hospital, tmp_path, options):
    table, out = tmp_path / "people.parquet", tmp_path / "out.csv"
    table.write_bytes(hospital.read_bytes())
    for place, words in [
        (table, "it would be lost"),
        (out, "it would be lost"),
        (tmp_path / "out.csv.certificate.json", "it would be lost"),
        (tmp_path / "nowhere" / "x.toml", "there is no such folder"),
    ]:
        done = sfumato(
            "anonymize", table, "-k", 5, *QI, *OUT, "-o", out, "--write-config", place, *options
        )
        assert (done.code, done.out) == (2, "")
        assert words in plain(done.err)
    assert table.read_bytes() == hospital.read_bytes()
    assert list(tmp_path.iterdir()) == [table]


def test_settings_are_written_with_the_release_or_not_at_all(hospital, tmp_path):
    settings = tmp_path / "settings.toml"
    line = ("anonymize", hospital, *OUT, "--write-config", settings)
    assert sfumato(*line, "-k", 5, "--qi", "nope").code == 2
    assert not settings.exists()
    assert sfumato(*line, "-k", 5, *QI).code == 0
    assert tomllib.loads(settings.read_text())["k"] == 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-k 5 --qi zip --sensitive sex -l nan", "l = nan is not a number. Give a number."),
        ("-k 5 --qi zip --sensitive sex -l inf", "l = inf is not a number"),
        ("-k 5 --qi zip --sensitive sex -t nan", "t = nan is not a number"),
        ("-k 5 --qi zip --sensitive sex -t 1.5", "Give a t between 0 and 1"),
        ("-k 5 --qi zip --sensitive sex --alpha nan", "alpha = nan is not a number"),
        (
            "-k 5 --qi zip --sensitive sex -l 2 --l-kind recursive --c inf",
            "c = inf is not a number",
        ),
        ("-k 5 --qi zip --sensitive sex -t 0.2 --t-distance sex=", "Write e.g. sex=ordered"),
        ("-k 5 --qi zip --format csv", "no output to write in it. Give -o FILE as well."),
        ("-k 5 --qi zip -o x.csv --format parquet", "named csv and would be written as parquet"),
        ("-k 5 --qi zip -o x.parquet --format csv", "named parquet and would be written as csv"),
        ("-k 5 --qi zip -o postgresql://localhost/db#t", "not to a database. Write a file"),
        ("-k 5 --qi zip --weights zip=-1", "zero or larger. Write e.g. zip = 2."),
        ("-k 5 --qi zip --option relaxed=maybe", "must be true or false. It is text now."),
        ("-k 5 --qi zip --method kmember --target sex", "It is an option of --method mondrian"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_remedy(
    hospital, tmp_path, monkeypatch, line, words
):
    monkeypatch.chdir(tmp_path)
    done = sfumato("anonymize", hospital, *line.split(" "))
    assert (done.code, done.out) == (2, ""), done.err
    assert words in plain(done.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "anonymize people.csv -k 1 --qi age --boundaries other.csv -o other.csv --force",
        "anonymize people.csv --qi age --k-map 1 --population other.csv -o other.csv --force",
        "anonymize people.csv -k 1 --qi age --workload other.csv -o other.csv --force",
        "anonymize people.csv -k 1 --qi age --pseudonyms sex --key-file other.csv "
        "--write-config other.csv --force",
        "safe-harbor people.csv --areas other.csv -o other.csv --force",
    ],
)
def test_nothing_that_is_read_is_written_over(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,sex\n20,F\n")
    (tmp_path / "other.csv").write_text("age,sex\n20,F\n30,M\n")
    done = sfumato(*line.split(" "))
    assert (done.code, done.out) == (2, ""), done.err
    assert "it would be lost. Choose another name." in plain(done.err)
    assert (tmp_path / "other.csv").read_text() == "age,sex\n20,F\n30,M\n"


SMALL = "anonymize small.csv -k 2 --rows-are-people -q"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A table of two columns in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{20 + n % 10},{n % 3}\n" for n in range(30))
    (tmp_path / "small.csv").write_text(f"age,zip\n{rows}")
    return tmp_path


def names(folder):
    return sorted(place.name for place in folder.iterdir())


@pytest.mark.parametrize("other", ["--save-recoding r.json", "--write-config c.toml"])
def test_a_dry_run_writes_nothing_at_all(small, other):
    done = sfumato(*f"{SMALL} --qi age,zip --dry-run {other}".split())
    assert (done.code, done.out) == (2, "")
    assert "--dry-run writes nothing" in plain(done.err)
    assert names(small) == ["small.csv"]


def test_what_is_written_without_a_release_is_said(small):
    done = sfumato(
        *f"{SMALL} --qi age,zip --save-recoding r.json --write-config c.toml".split(), "-q"
    )
    assert done.code == 0, done.err
    assert done.out.splitlines()[-3:] == [
        "The release was not written; give -o FILE to publish.",
        "Groups written: r.json",
        "Settings written: c.toml",
    ]
    assert names(small) == ["c.toml", "r.json", "small.csv"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("--qi age,zip --numbers-as mean", "shows numbers in place of ranges"),
        ("--qi age --qi zip", "of one set of quasi-identifiers, and this release has 2"),
    ],
)
def test_groups_that_cannot_be_saved_are_refused_before_the_release(small, asked, says):
    done = sfumato(*f"{SMALL} {asked} -o out.csv --save-recoding r.json".split())
    assert (done.code, done.out) == (2, "")
    assert says in plain(done.err)
    assert names(small) == ["small.csv"]


def test_the_name_in_a_recoding_prints_no_line_of_its_own(small):
    assert sfumato(*f"{SMALL} --qi age,zip --save-recoding r.json".split()).code == 0
    body = json.loads((small / "r.json").read_text())
    body["release"] = "\x1b[31mX\n✓ everything holds"
    (small / "r.json").write_text(json.dumps(body))
    done = sfumato(*f"{SMALL} --recoding r.json".split())
    assert done.code == 0, done.err
    assert r"like \x1b[31mX\n✓ everything holds" in plain(done.out)
    assert not any(line.startswith("✓ everything") for line in done.out.splitlines())


def test_the_help_shows_brackets():
    assert "a table [parse]." in plain(sfumato("anonymize", "--help").out.replace("│", ""))


def test_one_row_is_one_row_in_one_class(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("age\n5\n")
    said = sfumato("anonymize", tmp_path / "one.csv", "-k", "1", "--qi", "age")
    assert said.code == 0, said.err
    assert said.out.startswith("1 row in 1 class, by mondrian\n")


def test_too_small_a_sample_of_quantiles_claims_nothing(tmp_path: Path) -> None:
    """One row says nothing about ranks, and a large k is written as a count."""
    table = tmp_path / "ages.csv"
    table.write_text("age\n" + "".join(f"{row % 60}\n" for row in range(12_000)))
    asked = ("anonymize", table, "--qi", "age", "-k", "5", "--method", "quantiles")
    shown = sfumato(*asked, "--sample", "1", "-o", tmp_path / "out.csv", "-q")
    said = " ".join(shown.out.split())
    assert "read from 1 row: too few to say how far ranks are off" in said
    assert "groups were counted, and have at least k rows" in said
    assert "k = 12,000" in said
