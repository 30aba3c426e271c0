"""Times alternatives in turn, insists on equal answers, prints ratios and writes JSON.

Alternatives run interleaved in one process, so that a busy machine disturbs all of them alike, and
the best of several repetitions counts. CPU time is that of the whole process with all its threads.
A peer that pins other versions lives in an environment of its own (`peer_environment`) and reports
its own timings (`ask_peer`); one that cannot be installed is named in the report.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import rich.console
import rich.table

from sfumato.kernels import compiling

__all__ = [
    "RESULTS",
    "Comparison",
    "Measured",
    "PeerMissing",
    "ask_peer",
    "cache_folder",
    "compare",
    "compile_first",
    "measure",
    "peer_environment",
    "report",
]

RESULTS = Path(__file__).parents[1] / ".benchmarks"
"""What was measured: a record of each benchmark, and what it reported below ``reports``."""

_missing: list[str] = []


class PeerMissing(RuntimeError):
    """A peer cannot be installed on this machine."""


@dataclass(frozen=True)
class Measured:
    """Seconds that one call took."""

    wall: float
    cpu: float


@dataclass
class Comparison:
    """One task, done by several alternatives; the first is ours."""

    task: str
    measured: dict[str, Measured] = field(default_factory=dict)

    def ratio(self, peer: str, clock: str) -> float:
        """How many times as long as ours the peer took."""
        ours = next(iter(self.measured.values()))
        least = 1e-9  # clocks tick in nanoseconds
        return float(getattr(self.measured[peer], clock) / max(getattr(ours, clock), least))


def cache_folder() -> Path:
    """Where tables and environments are kept between runs; SFUMATO_BENCH_CACHE moves it."""
    default = Path.home() / ".cache" / "sfumato-benchmarks"
    folder = Path(os.environ.get("SFUMATO_BENCH_CACHE", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_first() -> None:
    """Compile loops at their first call, as on a machine that was at work before.

    On a new one they run as Python until that takes longer than compiling.
    """
    compiling.Loop.at_once = True


def measure(call: Callable[[], Any]) -> tuple[Any, Measured]:
    """The answer of a call and the time it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = call()
    return answer, Measured(time.perf_counter() - wall, time.process_time() - cpu)


def compare(
    task: str,
    alternatives: Mapping[str, Callable[[], Any]],
    *,
    repetitions: int = 3,
    same: Callable[[Any, Any], bool] = lambda ours, theirs: bool(ours == theirs),
) -> Comparison:
    """Time alternatives in turn and keep the best of each; ours comes first.

    Raises `AssertionError` if an answer differs from ours.
    """
    best: dict[str, list[Measured]] = {name: [] for name in alternatives}
    for _ in range(repetitions):
        ours: Any = None
        for at, (name, call) in enumerate(alternatives.items()):
            answer, taken = measure(call)
            if at == 0:
                ours = answer
            elif not same(ours, answer):
                raise AssertionError(f"{task}: {name} gives another answer")
            best[name].append(taken)
    return Comparison(
        task,
        {
            name: Measured(min(m.wall for m in times), min(m.cpu for m in times))
            for name, times in best.items()
        },
    )


def report(
    title: str,
    comparisons: Sequence[Comparison],
    *,
    data: str,
    versions: Mapping[str, str],
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Print a table of ratios and write all of it to ``.benchmarks/reports/<title>.json``."""
    console = rich.console.Console()
    table = rich.table.Table(title=f"{title} on {data}", title_justify="left")
    for heading in ("task", "who", "CPU s", "wall s", "CPU ratio", "wall ratio"):
        table.add_column(heading, justify="left" if heading in ("task", "who") else "right")
    for comparison in comparisons:
        for at, (name, taken) in enumerate(comparison.measured.items()):
            ratios = [f"{comparison.ratio(name, clock):.2f}x" for clock in ("cpu", "wall")]
            table.add_row(
                comparison.task if at == 0 else "",
                name,
                f"{taken.cpu:.3f}",
                f"{taken.wall:.3f}",
                *(ratios if at else ("", "")),
            )
    if comparisons:
        console.print(table)
    medians = _medians(comparisons)
    for name, (cpu, wall) in medians.items():
        console.print(f"median ratio to {name}: CPU {cpu:.2f}x, wall {wall:.2f}x")
    for name, value in (facts or {}).items():
        console.print(f"{name}: {value}")
    written = {
        "title": title,
        "data": data,
        "versions": {"python": platform.python_version(), **versions},
        "machine": {"processor": platform.processor(), "cores": os.cpu_count()},
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "medians": {name: {"cpu": cpu, "wall": wall} for name, (cpu, wall) in medians.items()},
        "missing": list(dict.fromkeys(_missing)),
        "facts": dict(facts or {}),
    }
    folder = RESULTS / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{title.replace(' ', '-')}.json"
    path.write_text(json.dumps(written, indent=2) + "\n")
    return written


def _medians(comparisons: Sequence[Comparison]) -> dict[str, tuple[float, float]]:
    """Median ratio of each peer, over the tasks it took part in."""
    peers = dict.fromkeys(
        name for comparison in comparisons for name in list(comparison.measured)[1:]
    )
    return {
        peer: tuple(  # type: ignore[misc]
            statistics.median(c.ratio(peer, clock) for c in comparisons if peer in c.measured)
            for clock in ("cpu", "wall")
        )
        for peer in peers
    }


def peer_environment(name: str, packages: Sequence[str], python: str | None = None) -> Path:
    """The interpreter of an environment with exactly these packages, made once and kept.

    Parameters
    ----------
    name
        What the environment is for.
    packages
        Requirements as pip takes them, pinned where the peer pins them.
    python
        Another interpreter to build on, where the peer needs an older one.

    Raises
    ------
    PeerMissing
        If it cannot be installed; reports written after that name it.
    """
    wanted = "\n".join([*packages, python or sys.executable])
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    folder = cache_folder() / "peers" / f"{name}-{digest}"
    interpreter = folder / "bin" / "python"
    if (folder / "complete").exists():
        return interpreter
    make = [python or sys.executable, "-m", "venv", "--clear", str(folder)]
    install = [str(interpreter), "-m", "pip", "install", "--quiet", *packages]
    try:
        for command in (make, install):
            subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        _missing.append(" ".join(packages))
        raise PeerMissing(f"{' '.join(packages)} cannot be installed here") from error
    (folder / "complete").write_text(wanted)
    return interpreter


def ask_peer(interpreter: Path, script: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """Run a peer's script: it reads the question as JSON from stdin and prints JSON.

    The answer holds its own ``wall`` and ``cpu`` seconds, measured around the work alone.
    """
    done = subprocess.run(
        [str(interpreter), str(script)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{script.name} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
