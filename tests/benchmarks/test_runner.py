"""The benchmark runner keeps its promises: equal answers, interleaved, best of all."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import census, runner  # noqa: E402


def test_alternatives_run_in_turn():
    calls: list[str] = []

    def call(name: str) -> int:
        calls.append(name)
        return 7

    alternatives = {name: (lambda name=name: call(name)) for name in ("ours", "peer")}
    comparison = runner.compare("task", alternatives, repetitions=3)
    assert calls == ["ours", "peer"] * 3
    assert list(comparison.measured) == ["ours", "peer"]


def test_another_answer_is_refused():
    with pytest.raises(AssertionError, match="peer gives another answer"):
        runner.compare("task", {"ours": lambda: 1, "peer": lambda: 2})


def test_ratios_and_medians_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    comparisons = [
        runner.Comparison(
            f"task {at}",
            {"ours": runner.Measured(1.0, 2.0), "peer": runner.Measured(3.0 * at, 4.0 * at)},
        )
        for at in (1, 2, 4)
    ]
    runner.report("a title", comparisons, data="nothing", versions={"peer": "1"})
    written = json.loads((tmp_path / "reports" / "a-title.json").read_text())
    assert written["medians"] == {"peer": {"cpu": 4.0, "wall": 6.0}}
    assert "median ratio to peer: CPU 4.00x, wall 6.00x" in capsys.readouterr().out


def test_a_peer_answers_in_its_own_process(tmp_path):
    script = tmp_path / "peer.py"
    script.write_text(
        "import json, sys\nprint('noise')\n"
        "print(json.dumps({'answer': json.load(sys.stdin)['n'] + 1, 'wall': 0.5, 'cpu': 0.4}))\n"
    )
    assert runner.ask_peer(Path(sys.executable), script, {"n": 6})["answer"] == 7
    script.write_text("raise SystemExit('no such data')")
    with pytest.raises(RuntimeError, match="no such data"):
        runner.ask_peer(Path(sys.executable), script, {})


def test_the_census_depends_on_seed_and_row_alone(monkeypatch):
    monkeypatch.setattr(census, "CHUNK", 5_000)
    (small,) = census.census_batches(1000, seed=3)
    first, second = census.census_batches(census.CHUNK + 10, seed=3)
    assert small.num_columns == 41
    assert first.slice(0, 1000).equals(small)
    assert second.num_rows == 10
    assert not small.equals(next(census.census_batches(1000, seed=4)))
