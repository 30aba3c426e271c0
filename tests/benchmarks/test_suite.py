"""All benchmarks as one run: its time, what it keeps, and the page it writes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as suite  # noqa: E402
from benchmarks import runner  # noqa: E402

REPORTS = """
import sys; sys.path.insert(0, {root!r})
from pathlib import Path
from benchmarks import runner
runner.RESULTS = Path({folder!r})
with Path({folder!r}, "started").open("a") as log: log.write({name!r} + "\\n")
times = {{"ours": runner.Measured(1.0, 2.0), "peer": runner.Measured(3.0, 8.0)}}
runner.report({name!r}, [runner.Comparison("a task", times)], data="ten rows",
              versions={{"peer": "1.2"}}, facts={{"k": 5, "much": "x" * 1000}})
"""
FAKES = {
    "quick": REPORTS,
    "also": REPORTS,
    "broken": "raise SystemExit('the peer gives another answer')",
    "slow": REPORTS + "import time; time.sleep(60)",
}


class Runs:
    """Runs fake benchmarks in a folder and remembers which were started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page = folder / "RESULTS.md"

    def command(self, name: str) -> Sequence[str]:
        """How the fake of that name is started."""
        script = FAKES[name].format(root=str(ROOT), folder=str(self.folder), name=name)
        return sys.executable, "-c", script

    def __call__(self, *names: str, seconds: float = 60) -> int:
        """Run those named."""
        given = {"folder": self.folder, "page": self.page, "known": tuple(FAKES)}
        return suite.run(names, seconds, command=self.command, **given)

    @property
    def started(self) -> list[str]:
        """Names in the order in which they were started."""
        log = self.folder / "started"
        return log.read_text().split() if log.exists() else []

    def record(self, name: str) -> dict[str, object]:
        """What is kept of a benchmark."""
        return dict(json.loads((self.folder / f"{name}.json").read_text()))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(suite.summary, "others", lambda: 3.0)
    return Runs(tmp_path)


def test_a_run_goes_on_where_it_ended(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs("quick") == 0
    assert runs("quick", "also") == 0
    assert runs.started == ["quick", "also"]
    told = capsys.readouterr().err
    assert "[1/2] quick: measured on" in told
    assert "[2/2] also: done after" in told
    assert "2 of 2 measured" in told


def test_the_page_shows_ratios_and_what_was_not_run(runs: Runs) -> None:
    runs("quick")
    page = runs.page.read_text()
    assert "| a task | ours | 2 | 1 |  |  |\n|  | peer | 8 | 3 | 4.00 | 3.00 |" in page
    assert "ten rows; python" in page
    assert "peer 1.2." in page
    assert "- k: 5\n" in page
    assert "- median ratio to peer: CPU 4.00, wall 3.00\n" in page
    assert "xxx" not in page, "long facts stay in the JSON files"
    assert "| slow | | | | | not run |" in page
    line = next(line for line in page.splitlines() if line.startswith("| quick |"))
    assert line.endswith("| 3.0 | loaded |")
    assert "cores" in page
    assert f"python {sys.version.split()[0]}" in page


def test_one_that_fails_is_named_and_tried_again(runs: Runs) -> None:
    assert runs("broken", "quick") == 1
    assert runs.record("broken")["why"] == "the peer gives another answer"
    assert "| broken | | | | | failed: the peer gives another answer |" in runs.page.read_text()
    assert runs.started == ["quick"], "the next one runs all the same"
    assert runs("broken") == 1


def test_the_time_is_kept(runs: Runs) -> None:
    begin = time.monotonic()
    assert runs("slow", seconds=2) == 0
    assert runs("quick", seconds=0) == 0
    assert time.monotonic() - begin < 30
    assert "quick" not in runs.started
    page = runs.page.read_text()
    assert "| slow | | | | | not run: did not end in time |" in page
    assert "| quick | | | | | not run: the time was over |" in page
    assert "## slow" not in page, "what a benchmark said before it was stopped is not shown"


def test_a_slow_one_leaves_time_to_others(runs: Runs) -> None:
    assert runs("slow", "quick", seconds=30) == 0
    assert runs.record("slow")["state"] == "not run"
    assert runs.record("quick")["state"] == "done"


def test_what_did_not_fit_is_not_started_with_less(runs: Runs) -> None:
    runs("slow", seconds=2)
    before = runs.started
    runs("slow", "quick", seconds=1.5)
    assert runs.started in (before, [*before, "quick"])
    assert runs.record("slow")["state"] == "not run"


def test_a_peer_that_cannot_be_installed_is_named(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(runner, "_missing", [])
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    with pytest.raises(runner.PeerMissing, match=r"nothing==1 cannot be installed here"):
        runner.peer_environment("nothing", ["nothing==1"], python=str(tmp_path / "no-python"))
    written = runner.report("title", [], data="", versions={})
    record = {"state": "done", "seconds": 1, "when": "", "load": 0, "others": None,
              "machine": "", "versions": {}, "reports": [written]}  # fmt: skip
    assert "- not measured: nothing==1, which cannot" in suite.summary.page({"title": record})


def test_fresh_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    monkeypatch.setattr(suite, "run", lambda names, seconds: asked.append((names, seconds)) or 0)
    for name in ("cells", "secure"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert suite.main(["--fresh", "--budget", "30m", "cells"]) == 0
    assert asked == [(["cells"], 1800.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["secure.json"]


@pytest.mark.parametrize("words", [["nonsense"], ["--budget", "soon"]])
def test_bad_arguments(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        suite.main(words)
    assert words[-1] in capsys.readouterr().err


def test_every_benchmark_is_listed() -> None:
    tools = {"__init__", "__main__", "census", "iteration", "runner", "summary", "tables"}
    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert files - tools == set(suite.BENCHMARKS)
