"""``sfumato report``, as a shell sees it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from cli_tools import Program, sfumato
from ports import free_port
from sfumato.joint import (
    Agreement,
    Category,
    Number,
    Outcome,
    Projection,
    fit_shares,
    make_share,
    write_model,
)
from sfumato.report.page import page_html
from sfumato.report.registry import page_of

TABLE = "age,sex,town\n" + "".join(
    f"{20 + row % 30},{'FM'[row % 2]},{'Aton' if row % 3 else 'Berg'}\n" for row in range(240)
)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    place = tmp_path / "people.csv"
    place.write_text(TABLE)
    return place


def test_it_writes_one_file_and_says_what_it_says_first(people: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    done = sfumato("report", people, "-o", output, "--json")
    assert done.code == 0
    assert done.json["output"] == str(output)
    assert done.json["verdict"] in output.read_text(encoding="utf-8")
    assert set(done.json["qi"]) <= {"age", "sex", "town"}
    assert sorted(place.name for place in tmp_path.iterdir()) == ["people.csv", "report.html"]


def test_it_is_the_same_every_time(people: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    for output in (first, second):
        assert sfumato("report", people, "-o", output, "--qi", "age,sex").code == 0
    assert first.read_bytes() == second.read_bytes()


def test_it_replaces_only_when_told(people: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    output.write_text("mine")
    refused = sfumato("report", people, "-o", output)
    assert refused.code == 2
    assert "exists" in refused.err
    assert output.read_text() == "mine"
    assert sfumato("report", people, "-o", output, "--force").code == 0
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["-k", "1"], "out of range"), (["--qi", "aeg"], "age"), (["--qi", ""], "column")],
)
def test_bad_demands_are_refused_before_anything_is_written(
    people: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = sfumato("report", people, "-o", tmp_path / "report.html", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "report.html").exists()


def test_a_folder_that_is_not_there(people: Path, tmp_path: Path) -> None:
    done = sfumato("report", people, "-o", tmp_path / "nowhere" / "report.html")
    assert done.code in (2, 3)
    assert "does not exist" in done.err


def _between_verdict_and_record(page: str) -> str:
    body = page.partition('<dl class="facts">')[2].partition("For the record")[0]
    assert "What it protects" in body
    return body


def test_before_and_after_from_the_files_alone(people: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.csv"
    made = sf.anonymize(str(people), k=5, qi=["age", "sex", "town"]).write(release)
    output = tmp_path / "both.html"
    done = sfumato("report", people, "--released", release, "-o", output, "--json")
    assert done.json["qi"] == ["age", "sex", "town"]
    from_files, from_python = output.read_text(encoding="utf-8"), page_html(page_of(made))
    # The checks differ: those of the files are about the certificate too. What a release cost is
    # not in the files, since it would tell about the original: it is measured again.
    assert "The certificate is whole" in from_files
    body = _between_verdict_and_record(from_python)
    assert "Utility" in body
    without = re.sub(r"<tr><th[^>]*>information loss</th>.*?</tr>\n", "", body)
    assert without != body
    assert without == _between_verdict_and_record(from_files)


def test_a_mask_is_compared_with_what_it_left_out(people: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.csv"
    sf.mask(str(people), measure="distinct", beta=0.1).write(release)
    output = tmp_path / "both.html"
    assert sfumato("report", people, "--released", release, "-o", output).code == 0
    assert "What it protects" in output.read_text(encoding="utf-8")


def test_a_release_of_another_table_or_altered_is_refused(people: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.csv"
    sf.anonymize(str(people), k=5, qi=["age", "sex", "town"]).write(release)
    other = tmp_path / "other.csv"
    other.write_text(TABLE.replace("Aton", "Cove"))
    output = tmp_path / "both.html"
    refused = sfumato("report", other, "--released", release, "-o", output)
    assert refused.code == 2
    assert "another table" in refused.err
    both = sfumato("report", people, "--released", release, "--qi", "age", "-o", output)
    assert both.code == 2
    beside = tmp_path / "release.csv.certificate.json"
    beside.write_text(beside.read_text().replace('"k": 5', '"k": 50'))
    assert sfumato("report", people, "--released", release, "-o", output).code == 1
    beside.unlink()
    assert sfumato("report", people, "--released", release, "-o", output).code == 2
    assert not output.exists()


def test_a_joint_model_has_a_page_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    agreed = Agreement(
        "made up",
        (Number("age", 18, 98, 1), Category("sex", ("f", "m"))),
        Outcome(time="days", event="dead"),
        Projection("5", 1),
    )
    rows = pa.table(
        {
            "age": rng.integers(18, 99, 90),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, 90)],
            "days": rng.integers(1, 400, 90),
            "dead": ["1"] * 90,
        }
    )
    share = make_share(rows, agreed, "A", rounding=0.2, publish_anyway=True, attack_rows=5).share
    assert share is not None
    write_model(fit_shares([share], "cox", penalty=0.1), tmp_path / "model.json")
    output = tmp_path / "model.html"
    done = sfumato("report", tmp_path / "model.json", "-o", output, "--json")
    assert done.code == 0
    assert done.json["qi"] == []
    assert "Baseline hazard" in output.read_text(encoding="utf-8")
    for words in (["--qi", "age"], ["--released", "x.csv"]):
        refused = sfumato("report", tmp_path / "model.json", "-o", output, "--force", *words)
        assert refused.code == 2
        assert "a model has no rows" in refused.err
    (tmp_path / "other.json").write_text("{}")
    assert sfumato("report", tmp_path / "other.json", "-o", output, "--force").code == 2


def test_two_parties_write_a_page_of_their_run(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("job,ill\n" + "baker,yes\nclerk,no\n" * 20)
    port = free_port()

    def asked(me: str, place: str) -> list[str]:
        words = ["party", "id3", "--me", me, place, f"127.0.0.1:{port}", "--plain", "--rows", rows]
        words += ["--target", "ill", "--report", tmp_path / f"{me}.html", "--timeout", "120"]
        return [*map(str, words), "--share-categories"]

    alice = Program(*asked("alice", "--listen"))
    bob = sfumato(*asked("bob", "--peer"))
    assert bob.code == 0, bob.err
    _, said = alice.communicate(timeout=120)
    assert alice.returncode == 0, said
    for me in ("alice", "bob"):
        text = (tmp_path / f"{me}.html").read_text(encoding="utf-8")
        assert "Which columns the tree asks for" in text
        assert "who learned what" in text
        assert "baker" not in text


def test_interactive_is_asked_for(people: Path, tmp_path: Path) -> None:
    output = tmp_path / "live.html"
    assert sfumato("report", people, "-o", output, "--interactive").code == 0
    assert "<script>" in output.read_text(encoding="utf-8")
    told = sfumato("report", "--help").out.replace("│", " ")
    assert "grows by about 1 MB" in " ".join(told.split())


def test_a_report_never_replaces_what_it_is_about(people: Path) -> None:
    done = sfumato("report", str(people), "-o", str(people), "--force")
    assert done.code == 2
    assert "it would be lost" in done.err
    assert people.read_text() == TABLE
