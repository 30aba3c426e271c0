"""What is published says the same everywhere, and can be read by the programs that it is for."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import sfumato

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path):
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_there_is(path):
    text = path.read_text("utf-8")
    workflow = yaml.safe_load(text)
    assert workflow[True], "YAML reads `on` as true"
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert {"runs-on", "steps"} <= set(job)
        assert all({"uses", "run"} & set(step) for step in job["steps"])
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"run: make (\w+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for program in re.findall(r"run: (?:sudo )?((?:scripts|\.ci)/\w+)", text):
        assert (ROOT / program).stat().st_mode & 0o100, program


def test_issue_forms_ask_something():
    forms = [read(path) for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")]
    asked = [form for form in forms if "body" in form]
    assert len(asked) >= 2
    for form in asked:
        assert form["name"]
        assert form["description"]
        assert any(part["type"] != "markdown" for part in form["body"])


def test_versions_and_requirements_are_the_same_everywhere():
    recipe, citation = read("packaging/conda/recipe.yaml"), read("CITATION.cff")
    assert recipe["context"]["version"] == citation["version"] == sfumato.__version__
    assert recipe["about"]["license"] == citation["license"] == PROJECT["license"]
    run = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    wanted = {re.sub("^duckdb", "python-duckdb", line) for line in PROJECT["dependencies"]}
    assert run == wanted | {f"python{PROJECT['requires-python']}"}
    assert f"## {sfumato.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_image_is_given_what_it_copies():
    allowed = (ROOT / ".dockerignore").read_text("utf-8").split()
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY ") and "--from" not in line
              for word in line.split()[1:-1]]  # fmt: skip
    assert copied
    for name in copied:
        assert f"!{name}" in allowed
        assert (ROOT / name).exists()
    assert lines.index("USER sfumato") < next(
        at for at, line in enumerate(lines) if line.startswith("ENTRYPOINT")
    )


ASKED = """
sfumato --install-completion >/dev/null && source ~/.bashrc
COMP_WORDS=(sfumato sc) COMP_CWORD=1
_sfumato_completion sfumato && echo "${COMPREPLY[@]}"
"""


def test_the_shell_completes_verbs(tmp_path):
    program = tmp_path / "sfumato"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sfumato "$@"\n')
    program.chmod(0o700)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", ASKED],
        env={**os.environ, "HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["scan"], done.stderr


TRIED = """
import os, signal, sys
import pytest

@pytest.fixture(scope="session")
def once(tmp_path_factory):
    yield tmp_path_factory.mktemp("once")

@pytest.mark.parametrize("turn", range(40))
def test_right(turn, once, tmp_path):
    assert once.exists() and not list(tmp_path.iterdir())

def test_wrong():
    print("said by one that fails")
    assert 1 + 1 == 3

def test_left_out():
    pytest.skip("for a reason")

def test_never_ready(missing):
    pass

def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("turn", range(40))
def test_right_later(turn, once):
    print("said by one that does not fail")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no copies of a process on this system")
def test_workers_lose_no_test_and_no_word(tmp_path: Path) -> None:
    (tmp_path / "test_tried.py").write_text(TRIED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def tried(*asked: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "workers", "-rs", *asked, "test_tried.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stdout

    told = tried("--workers", "3")
    assert "2 failed, 80 passed, 1 skipped, 1 error" in told
    assert "said by one that fails" in told
    assert "does not fail" not in told
    assert "the process that ran it ended with -9" in told
    assert "for a reason" in told
    assert "fixture 'missing' not found" in told
    assert "1 failed" in tried("--workers", "2", "-x", "-k", "wrong or later")
