"""``sfumato risk`` as a user's shell sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli_tools import sfumato
from sfumato.cli.measure import app


def run(*arguments: object) -> Any:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    return runner.invoke(app, ["risk", *(str(argument) for argument in arguments)])


def test_before_and_after(tmp_path: Path) -> None:
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text("age,sex\n20,F\n21,F\n30,M\n31,M\n")
    after.write_text('age,sex\n"[20, 22)",F\n"[20, 22)",F\n"[30, 32)",M\n"[30, 32)",M\n')
    done = run(before, "--qi", "age,sex", "--released", after, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"prosecutor", "journalist", "marketer", "share_above", "threshold"} <= set(told)
    assert (told["prosecutor"], told["after"]["prosecutor"]) == (1.0, 0.5)
    drawn = run(before, "--qi", "age,sex", "--released", after).stdout
    assert "100.000%" in drawn
    assert "50.000%" in drawn


def test_bad_options(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age\n20\n")
    assert run(path, "--qi", "aeg").exit_code == 2
    assert run(path, "--qi", "age", "--threshold", "0").exit_code == 2
    assert run(path).exit_code == 2


def test_risks_are_written_row_by_row(tmp_path):
    people, out = tmp_path / "people.csv", tmp_path / "risks.csv"
    people.write_text("age,flag\n20,TRUE\n20,FALSE\n30,TRUE\n")
    done = sfumato("risk", people, "--qi", "age", "--per-row", out)
    assert done.code == 0, done.err
    assert out.read_text() == "age,flag,risk\n20,TRUE,0.5\n20,FALSE,0.5\n30,TRUE,1.0\n"
    again = sfumato("risk", people, "--qi", "age", "--per-row", out)
    assert (again.code, "exists already" in again.err) == (2, True)
    both = sfumato("risk", people, "--qi", "age", "--per-row", out, "--person", "flag", "--force")
    assert (both.code, "person by person" in both.err) == (2, True)
    itself = sfumato("risk", people, "--qi", "age", "--per-row", people, "--force")
    assert itself.code == 2
    named = sfumato("risk", out, "--qi", "age", "--per-row", tmp_path / "twice.csv")
    assert (named.code, "already has a column `risk`" in named.err) == (2, True)
