"""Run the tests that try random examples with new ones, room after room, until the time is up.

What fails is kept in ``.hypothesis/`` and tried first in the next round. Exits with 1 if anything
failed.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".hypothesis" / "fuzz"
NOTHING_CHOSEN = 5  # as pytest says
SHORT = 120
"""Seconds; a room that takes less is tried twice as often in its next round."""


@dataclass
class Room:
    """A folder of tests, and what has come of trying it."""

    name: str
    times: int = 1
    rounds: int = 0
    seconds: float = 0.0
    tests: int = 0
    examples: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """What was tried, for people."""
        return (
            f"{self.name:12} {self.rounds:4} rounds {self.tests:6,} tests {self.examples:10,} "
            f"examples {self.seconds / 60:7.1f} min  {len(self.failures)} fail"
        )


def one_round(room: Room, until: float) -> bool:
    """Try a room once; False if it has nothing that tries random examples."""
    seed = random.SystemRandom().randrange(1, 10**9)
    command = [
        sys.executable, "-m", "pytest", "-q", "-m", "hypothesis or fuzz", "-p", "no:cacheprovider",
        "--hypothesis-profile=fuzz", "--hypothesis-show-statistics", f"--fuzz-seed={seed}",
        f"--fuzz-times={room.times}", f"tests/{room.name}",
    ]  # fmt: skip
    start = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        try:
            output, _ = run.communicate(timeout=max(until - start, 1))
            finished = True
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGINT)
            output, _ = run.communicate()
            finished = False
    if finished and run.returncode == NOTHING_CHOSEN:
        return False
    took = time.monotonic() - start
    room.rounds += room.times if finished else 0
    room.seconds += took
    room.times *= 2 if took < SHORT else 1
    room.tests += sum(map(int, re.findall(r"(\d+) (?:passed|failed)", output)))
    room.examples += sum(map(int, re.findall(r"(\d+) passing", output)))
    failed = re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.MULTILINE)
    if not finished and re.search(r"^E +KeyboardInterrupt", output, re.MULTILINE):
        failed = []  # the end of the time, met where hypothesis takes it for a mistake
    if finished and run.returncode and not failed:
        failed = [f"tests/{room.name} ended with {run.returncode}"]
    if failed:
        room.failures.update(failed)
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{room.name}-{seed}.txt"
        log.write_text(output)
        blobs = re.findall(r"@reproduce_failure\(.*?\)", output)
        found = dict.fromkeys([*failed, *blobs])
        print(*found, f"--fuzz-seed={seed}, all of it in {log}", sep="\n", flush=True)
    return True


def main() -> int:
    """Give each room its share of the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("rooms", nargs="*", help="folders in tests/, all of them if none is named")
    asked = parser.parse_args()
    folders = sorted({path.parent.name for path in ROOT.glob("tests/*/test_*.py")})
    if unknown := sorted(set(asked.rooms) - set(folders)):
        parser.error(
            f"there is no {', '.join(unknown)} in tests/. Choose from {', '.join(folders)}."
        )
    until = time.monotonic() + 60 * asked.minutes
    rooms = [Room(name) for name in asked.rooms or folders]
    while rooms and time.monotonic() < until:
        room = min(rooms, key=lambda room: room.seconds)
        if one_round(room, until):
            print(room.line(), flush=True)
        else:
            rooms.remove(room)
    print("", *(room.line() for room in rooms), sep="\n")
    failures = sorted({test for room in rooms for test in room.failures})
    print(*failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
