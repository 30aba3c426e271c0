"""Run benchmarks within a time: ``python -m benchmarks [--budget 30m] [name …]``.

Each runs in a process of its own, the short ones first, and its results are kept in
``.benchmarks/NAME.json``: a run that was stopped goes on where it ended, and ``--fresh`` begins
anew. What was measured is written to ``benchmarks/RESULTS.md`` after each of them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import summary
from benchmarks.runner import RESULTS
from sfumato.budget import parse_time
from sfumato.errors import ParameterError

BENCHMARKS = (
    "privacy_models", "encoding", "masking", "secure", "workbench",
    "class_sizes", "joint", "population", "secure_models", "cells", "recoding", "finding",
    "scale", "iterated",
)  # fmt: skip
"""All of them, shorter ones first."""
PAGE = Path(__file__).parent / "RESULTS.md"

Command = Callable[[str], Sequence[str]]


def main(words: Sequence[str]) -> int:
    """Read the command line, run, and tell how many failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="which ones; all if none is named")
    parser.add_argument("--budget", default="1h", help="total time, such as 30m (default: 1h)")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    given = parser.parse_args(words)
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; choose {', '.join(BENCHMARKS)}")
    try:
        seconds = parse_time(given.budget)
    except ParameterError as error:
        parser.error(str(error))
    if given.fresh:
        for name in given.names or BENCHMARKS:
            (RESULTS / f"{name}.json").unlink(missing_ok=True)
    return run(given.names or BENCHMARKS, seconds)


def run(
    names: Sequence[str],
    seconds: float,
    *,
    folder: Path = RESULTS,
    page: Path = PAGE,
    known: Sequence[str] = BENCHMARKS,
    command: Command = lambda name: (sys.executable, "-m", f"benchmarks.{name}"),
) -> int:
    """Run benchmarks one after the other until the time is over; gives 1 if one failed.

    A benchmark may take half of the time that is left, the last one all of it; then it is stopped
    and counts as not run. Next time it is not started unless it may take longer than it did.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    waiting = [name for name in names if _record(folder, name).get("state") != "done"]
    states = []
    for at, name in enumerate(names, start=1):
        record = _record(folder, name)
        left = (end - time.monotonic()) / (1 if waiting[-1:] == [name] else 2)
        if record.get("state") == "done":
            told = f"measured on {record['when']}"
        elif left <= record.get("seconds", 0) * (record.get("state") == "not run"):
            told = "not run, too little time is left"
            record |= {"state": "not run", "why": "the time was over"}
        else:
            _say(f"[{at}/{len(names)}] {name} …")
            record = _one(name, command(name), left, folder)
            told = f"{record['state']} after {record['seconds']:.0f} s {record.get('why', '')}"
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        page.write_text(summary.page({name: _record(folder, name) for name in known}))
        states.append(record["state"])
        _say(f"[{at}/{len(names)}] {name}: {told}")
    _say(f"{states.count('done')} of {len(names)} measured; see {page}")
    return int("failed" in states)


def _one(name: str, command: Sequence[str], seconds: float, folder: Path) -> dict[str, Any]:
    """Run one benchmark, keep what it says in a file, and collect what it reports."""
    record: dict[str, Any] = {"when": time.strftime("%Y-%m-%d %H:%M"), **summary.machine()}
    log = folder / f"{name}.log"
    begin, started = time.time_ns(), time.monotonic()
    with log.open("w") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(timeout=seconds)
            record["state"] = "failed" if code else "done"
        except subprocess.TimeoutExpired:
            record |= {"state": "not run", "why": "did not end in time"}
        finally:  # also when a person interrupts; its own children must not stay behind
            _end(process)
    record["seconds"] = round(time.monotonic() - started, 1)
    if record["state"] == "failed":
        record["why"] = (log.read_text().strip().splitlines() or ["it said nothing"])[-1][:300]
    written = [file for file in sorted((folder / "reports").glob("*.json"))
               if file.stat().st_mtime_ns >= begin]  # fmt: skip
    record["reports"] = [json.loads(file.read_text()) for file in written]
    return record


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all it has started, kindly first."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _record(folder: Path, name: str) -> dict[str, Any]:
    """What is known of a benchmark; nothing if it never ran."""
    path = folder / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
