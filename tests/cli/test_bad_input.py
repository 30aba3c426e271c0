"""Bad input through the command line: a clear error, the right code, nothing on standard output."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_tools import sfumato


def csv(text):
    return lambda path: path.write_bytes(text if isinstance(text, bytes) else text.encode())


def nested(path):
    pq.write_table(pa.table({"a": [1], "b": [[1, 2]]}), path)


BAD_FILES = {
    "missing": ("gone.csv", lambda path: None, "no such file"),
    "folder": ("folder.csv", lambda path: path.mkdir(), "folder"),
    "empty": ("empty.csv", csv(""), "empty"),
    "ragged": ("ragged.csv", csv("a,b\n1,2\n3\n4,5\n"), "line 3"),
    "undecodable": ("bytes.csv", csv(b"a,b\n1,caf\xe9 \x81\n"), "byte"),
    "doubled name": ("twice.csv", csv("a,a\n1,2\n"), "`a`"),
    "nameless column": ("nameless.csv", csv("a,,c\n1,2,3\n"), "name"),
    "nested": ("nested.parquet", nested, "nested"),
    "not parquet": ("text.parquet", csv("PAR1 but then it is not"), "parquet"),
    "tiny parquet": (
        "tiny.parquet",
        csv("x"),
        "the name says parquet, but the content begins like",
    ),
    "table named parquet": ("csv.pq", csv("a,b\n1,2\n"), "begins like text"),
    "gzip named parquet": ("packed.parquet", csv(gzip.compress(b"a,b\n1,2\n")), "like gzip"),
    "text named arrow": ("text.arrow", csv("a,b\n1,2\n"), "the name says arrow"),
    "empty parquet": ("empty.parquet", csv(""), "the file is empty"),
    "broken gzip": ("cut.csv.gz", csv(gzip.compress(b"a,b\n1,2\n" * 999)[:-9]), ""),
}


@pytest.mark.parametrize("verb", ["measure", "scan"])
@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path, verb, case):
    name, make, words = BAD_FILES[case]
    path = tmp_path / name
    make(path)
    before = sorted(tmp_path.rglob("*"))
    options = ["--encoding", "utf-8"] if case == "undecodable" else []
    done = sfumato(verb, path, *options)
    message = " ".join(done.err.split())
    assert (done.code, done.out) == (2, ""), message
    assert words in message.lower(), message
    assert name in message
    assert "unexpected" not in message
    assert sorted(tmp_path.rglob("*")) == before


def test_excluding_a_nested_column_lets_the_rest_be_measured(tmp_path):
    nested(tmp_path / "nested.parquet")
    done = sfumato("measure", tmp_path / "nested.parquet", "--exclude", "b", "--json")
    assert done.json["columns"] == ["a"]


def test_header_only_is_a_table_without_rows(tmp_path):
    path = tmp_path / "header.csv"
    path.write_text("a,b\n")
    assert sfumato("measure", path, "--json").json["rows"] == 0
    done = sfumato("scan", path)
    assert done.code == 0
    assert "Nobody" in done.out


@pytest.mark.parametrize("verb", ["measure", "scan"])
@pytest.mark.parametrize(
    ("columns", "words"),
    [("agee", "`agee`"), ("age,age", "named twice"), (",", "no columns were named")],
)
def test_bad_columns(tmp_path, verb, columns, words):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n20,F\n")
    done = sfumato(verb, path, "-c", columns)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_server_that_is_not_there():
    done = sfumato("measure", "postgresql://nobody@127.0.0.1:9/none#people", "-c", "age")
    assert (done.code, done.out) == (3, "")
    assert "Traceback" not in done.err


def test_demo_data_refuses_to_replace_a_file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("precious")
    done = sfumato("demo-data", "-o", path, "--rows", "10")
    assert (done.code, done.out) == (2, "")
    assert "--force" in done.err
    assert path.read_text() == "precious"
    assert sfumato("demo-data", "-o", path, "--rows", "10", "--force").code == 0
    assert path.read_text().startswith("patient_id,")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-o", "people.docx"], 2),
        (["-o", "nowhere/people.csv"], 2),
        (["-o", "people.csv", "--rows", "-1"], 2),
        (["-o", "people.csv", "--rows", "50000001"], 2),
        (["-o", "people.csv", "--seed", "-1"], 2),
        (["-o", "people.csv", "--rows", "1000", "--time", "0s"], 3),
        ([], 2),
    ],
)
def test_demo_data_bad_usage(tmp_path, monkeypatch, arguments, code):
    monkeypatch.chdir(tmp_path)
    done = sfumato("demo-data", *arguments)
    assert (done.code, done.out) == (code, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "anonymize people.csv -k 1 --qi age --config setings.toml",
        "anonymize people.csv -k 1 --qi age --boundaries setings.toml",
        "anonymize people.csv -k 1 --qi age --workload setings.toml",
        "anonymize people.csv -k 1 --qi age --weights setings.toml",
        "anonymize people.csv -k 1 --qi age --pseudonyms sex --key-file setings.toml",
        "anonymize people.csv --k-map 1 --qi age --population peple.csv",
        "anonymize people.csv -k 1 --qi age --hierarchies tres",
        "population people.csv --universe 1e6 --hierarchies tres",
        "hierarchy show setings.toml",
        "hierarchy show --taxonomy setings.toml",
        "verify people.csv --certificate setings.toml",
        "verify people.csv -k 1 --qi age --signer setings.toml",
        "verify people.csv -k 1 --qi age --with peple.csv --row-key sex",
        "risk people.csv --qi age --population peple.csv",
        "report people.csv -o out.html --released peple.csv",
        "safe-harbor people.csv --areas setings.toml",
        "joint share people.csv -a setings.toml -o share.parquet",
        "joint fit cox peple.csv -o model.json",
        "joint score setings.toml people.csv",
        "party id3 --rows people.csv --target sex --me alice --peer localhost:9 --plain "
        "--schema setings.toml",
        "party log --number 1 --me alice --peer localhost:9 --cert setings.toml "
        "--key settings.toml --peer-cert settings.toml",
        "measure peple.csv",
    ],
)
def test_a_file_that_is_not_there_and_what_may_have_been_meant(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,sex\n20,F\n")
    (tmp_path / "settings.toml").write_text("")
    (tmp_path / "trees").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = sfumato(*line.split(" "))
    message = " ".join(done.err.split())
    assert (done.code, done.out) == (2, ""), message
    assert "there is no such" in message
    meant = {"setings.toml": "settings.toml", "tres": "trees", "peple.csv": "people.csv"}
    (wrong,) = (word for word in line.split(" ") if word in meant)
    assert f"{wrong}: " in message
    assert f"Did you mean `{meant[wrong]}`?" in message
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("measure people.csv -c age -x age", "asked for and excluded at the same time. Take it"),
        ("measure people.csv --delimiter ;;", "Write e.g. --delimiter ';'"),
        ("risk people.csv --qi age --population nobody.csv", "the population has no rows. Give"),
        ("risk people.csv --qi age --population words.csv", "holds string where the table holds"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,sex\n20,F\n")
    (tmp_path / "nobody.csv").write_text("age\n")
    (tmp_path / "words.csv").write_text("age\nold\n")
    done = sfumato(*line.split(" "))
    assert (done.code, done.out) == (2, ""), done.err
    assert words in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("verify people.csv --missing wildcard", "a certificate says it for itself. Leave it out"),
        ("verify people.csv -k 1 --qi age --certificate x", "there is no such"),
        ("verify people.csv --signer empty.key", "not an Ed25519 public key. Name the .pub"),
        ("verify people.csv -k 1 --qi age,sex --sensitive sex -l 1", "sensitive at the same time"),
        ("hierarchy make people.csv -c age --width 5", "Say --kind intervals as well."),
        ("hierarchy make people.csv -c age --kind flat --fanout 3", "--fanout has no effect"),
        ("hierarchy make people.csv -c age --kind intervals", "Give one, e.g. --width 5"),
        ("hierarchy make people.csv -c age -o people.csv", "Name a folder, e.g. -o hierarchies."),
        ("hierarchy make age.csv -c age -o . --force", "this is the table being read"),
        ("report people.csv -o report.pdf", "a report is an HTML file. Give it a name"),
        (
            "report people.csv -o out.html --released people.csv",
            "there is no certificate beside it",
        ),
    ],
)
def test_what_has_no_effect_or_does_harm_is_refused(tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    for name in ("people.csv", "age.csv"):
        (tmp_path / name).write_text("age,sex\n20,F\n30,M\n")
    (tmp_path / "nobody.csv").write_text("age\n")
    (tmp_path / "empty.key").write_text("\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = sfumato(*line.split(" "))
    assert (done.code, done.out) == (2, ""), done.err
    assert words in " ".join(done.err.split())
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('k = 2\n[cut_weights]\nspread = "a"', "`cut_weights` of `spread` must be a number"),
        ("k = 2\n[cut_weights]\nspread = nan", "Give e.g. spread=1,priority=1,gain=0."),
        ('k = 2\n[cuts]\nage = "a"', "`cuts` of `age` must be a list"),
        ("k = 2\n[cuts]\nage = [7]", "must be places among its values, from 0 to 1"),
        (
            "k = 2\n[cuts]\nagee = [1]",
            "`agee` has cuts but is not a quasi-identifier. Did you mean",
        ),
        ("k = 1e300", "`k` is larger than any table"),
        ("k_map = 2\npopulation = 5", 'Write e.g. population = "voters.parquet".'),
        ("k = 2\n[columns.age]\ntop = nan", "`top` must be a number. Write e.g. top = 5."),
        ("k = 2\nhierarchies = 5", "`hierarchies` must be a folder. It is a number now."),
    ],
)
def test_settings_of_the_wrong_kind(tmp_path, monkeypatch, settings, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,sex\n" + "20,F\n30,M\n" * 2)
    (tmp_path / "a.toml").write_text(f'qi = ["age"]\n{settings}\n')
    done = sfumato("anonymize", "people.csv", "--config", "a.toml")
    assert (done.code, done.out) == (2, ""), done.err
    assert words in " ".join(done.err.split())


def test_people_are_not_told_apart_by_a_column_that_was_blurred(tmp_path):
    (tmp_path / "people.csv").write_text("age,id\n20,1\n30,2\n")
    (tmp_path / "release.csv").write_text("age,id\n20,1-2\n30,1-2\n")
    done = sfumato(
        "attack", tmp_path / "release.csv", tmp_path / "people.csv", "--on", "age",
        "--identity", "id",
    )  # fmt: skip
    assert (done.code, done.out) == (2, "")
    assert "Name a column that was released as it was." in " ".join(done.err.split())


@pytest.mark.parametrize(
    "option", ["--delimiter ;", "--encoding utf-16", "--null ?", "--no-header"]
)
@pytest.mark.parametrize("name", ["people.parquet", ".", "people.arrow", "SELECT 1 AS a"])
def test_what_is_said_of_text_files_is_not_ignored(tmp_path, monkeypatch, name, option):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"age": [1, 2]})
    pq.write_table(table, "people.parquet")
    with pa.ipc.new_file("people.arrow", table.schema) as file:
        file.write_table(table)
    done = sfumato("measure", name, *option.split(" "))
    assert (done.code, done.out) == (2, ""), done.err
    assert "is about text files, and this is" in " ".join(done.err.split())
    assert sfumato("measure", name, "--header").code == 0


def test_a_table_beside_a_text_file_may_be_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"age": [1, 2]}), "voters.parquet")
    (tmp_path / "people.csv").write_text("age;sex\n1;F\n2;?\n")
    line = "risk people.csv --qi age --delimiter ; --null ? --population voters.parquet --json"
    assert sfumato(*line.split(" ")).json["rows"] == 2


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("mask t.csv --beta abc --json", "--beta"),
        ("measure t.csv --bogus --json", "--bogus"),
        ("mesure t.csv --json", "mesure"),
        ("risk --json", "table"),
    ],
)
def test_complaints_about_arguments_are_json_where_it_was_asked_for(line, word):
    done = sfumato(*line.split())
    error = json.loads(done.err)["error"]
    assert (done.code, error["exit_code"], done.out) == (2, 2, "")
    assert word in error["what"].lower()
    assert "--help" in error["remedy"]
