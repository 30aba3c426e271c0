"""Break every guarantee on purpose, one at a time, and see that the tests notice.

`tests/mutants.toml` lists the mutants by room: a piece of source that occurs once, what takes its
place, which guarantee is gone then, and the tests that must fail. Each is put into a copy of the
tree, in which compiled loops that the change may reach are compiled again, and those tests are run
there. Mutants that were killed before are not tried again until they, their source or their tests
change. Exits with 1 if a mutant survives, or cannot be tried.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
LISTED = "tests/mutants.toml"
PACKAGE = "src/sfumato"
SECONDS = 240
"""That the tests of one mutant may take; most take a few."""
QUICK = "not slow and not spark and not browser"
"""Of the tests those that `make test` runs, and that start in a moment."""
SERVES = "--serve-bench"
LIBRARIES = (
    "numpy", "numba.core.event", "numba.extending", "numba.typed", "pyarrow.compute", "pyarrow.csv",
    "pyarrow.parquet", "duckdb", "scipy.optimize", "scipy.sparse", "scipy.stats", "sqlglot",
    "typer", "rich.console", "rich.table", "jinja2", "cryptography.x509", "nacl.bindings", "pandas",
)  # fmt: skip
FAILED, SURVIVED = 1, 0
"""As pytest ends where a test failed, and where none did."""


@dataclass(frozen=True)
class Mutant:
    """One change of the source that a test must notice.

    `why` says of the few that no test can notice why nothing is broken by them.
    """

    room: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str | None = None

    def source(self, root: Path) -> Path:
        """The file that it changes."""
        return root / PACKAGE / self.file

    def mutated(self, text: str) -> str:
        """The text of that file with the change; refused where it is not to be found once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)

    def key(self, root: Path) -> str:
        """What must be the same for an earlier outcome to hold."""
        whole = hashlib.sha256(repr(self).encode())
        for path in (self.source(root), *(root / "tests" / t.split("::")[0] for t in self.tests)):
            whole.update(path.read_bytes() if path.is_file() else b"")
        return whole.hexdigest()

    def place(self, root: Path) -> str:
        """File and line of the change."""
        text = self.source(root).read_text("utf-8")
        return f"{self.file}:{text[: text.find(self.old)].count(chr(10)) + 1}"


def listed(root: Path = ROOT) -> list[Mutant]:
    """All mutants, in the order of the list."""
    rooms = tomllib.loads((root / LISTED).read_text("utf-8"))
    return [
        Mutant(room, **{**entry, "tests": tuple(entry["tests"])})
        for room, entries in rooms.items()
        for entry in entries
    ]


def copied(root: Path, into: Path) -> Path:
    """A copy of source and tests, with what was compiled of them; all else is linked."""
    tree = into / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for entry in root.iterdir():
        if entry.name in ("src", "tests"):
            shutil.copytree(entry, tree / entry.name)
        elif entry.name not in ("build", ".git", ".pytest_cache", ".hypothesis"):
            (tree / entry.name).symlink_to(entry.resolve())
    return tree


def reached(package: Path, changed: Path) -> list[Path]:
    """The changed module, and modules whose compiled loops may hold a part of it.

    Those are modules with compiled loops that import it, and on: numba notices that a source has
    changed, and not that another one has from which it takes a loop or a constant.
    """
    modules = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    names = {
        path: ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        for path in modules
    }
    carries = {
        path
        for path, text in modules.items()
        if path.name == "__init__.py" or re.search(r"compiled|njit|\bbare\b", text)
    }
    found, waiting = {changed}, [changed]
    while waiting:
        one = names[waiting.pop()]
        parent, _, last = one.rpartition(".")
        imports = re.compile(
            rf"^\s*(?:from {re.escape(one)} import|import {re.escape(one)}\b"
            rf"|from {re.escape(parent)} import [^\n]*\b{last}\b)",
            re.MULTILINE,
        )
        new = [p for p in carries - found if imports.search(modules[p])]
        found.update(new)
        waiting += new
    return sorted(found)


@contextmanager
def applied(mutant: Mutant, tree: Path) -> Iterator[None]:
    """The copy with the mutant in it, for as long as the block lasts."""
    source, aside = mutant.source(tree), tree.parent / "aside"
    text, times = source.read_text("utf-8"), source.stat()
    modules = reached(tree / PACKAGE, source)

    def stored() -> list[Path]:
        return [
            path
            for module in modules
            for path in module.parent.glob(f"__pycache__/{module.stem}.*")
            if path.suffix in (".nbi", ".nbc") or module == source
        ]

    shutil.rmtree(aside, ignore_errors=True)
    moved = {path: aside / str(at) for at, path in enumerate(stored())}
    aside.mkdir(parents=True)
    for path, there in moved.items():
        path.rename(there)
    try:
        source.write_text(mutant.mutated(text), encoding="utf-8")
        yield
    finally:
        for path in stored():
            path.unlink()
        source.write_text(text, encoding="utf-8")
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
        for path, there in moved.items():
            there.rename(path)


@dataclass(frozen=True)
class Outcome:
    """How tests ended: pytest's own code (None: not in time), what it said, and the time taken."""

    code: int | None
    said: str
    seconds: float

    @property
    def killer(self) -> str | None:
        """The test that failed."""
        found = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", self.said, re.MULTILINE)
        return found[1] if found and self.code == FAILED else None

    @property
    def ended(self) -> str:
        """How it ended where no test failed, in words."""
        if self.code is None:
            return f"not within {SECONDS} s"
        if self.code != SURVIVED:
            return f"the tests could not be run (pytest ended with {self.code})"
        passed = re.search(r"\d+ passed", self.said)
        return "SURVIVED" if passed else "its tests were all skipped here"


class Bench:
    """Runs tests in the copy, each time in a new process.

    Those processes are branches of one that has loaded the libraries already: loading them takes
    longer than most of the tests.
    """

    def __init__(self, tree: Path) -> None:
        self._tree = tree

    @cached_property
    def _process(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(self._tree / "src")}
        environment.pop("PYTEST_ADDOPTS", None)
        return subprocess.Popen(
            [sys.executable, __file__, SERVES, *LIBRARIES],
            cwd=self._tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "_process" in vars(self):
            self._process.communicate()

    def outcome_of(self, tests: Iterable[str], *options: str, seconds: float = SECONDS) -> Outcome:
        """How tests end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        arguments = ["-q", "--tb=line", "-p", "no:cacheprovider", "-m", QUICK, *options]
        arguments += ["--hypothesis-profile=mutants", *(f"tests/{test}" for test in tests)]
        print(json.dumps([arguments, seconds]), file=self._process.stdin, flush=True)
        return Outcome(*json.loads(self._process.stdout.readline()))


def serve() -> int:
    """What the process of a bench does."""
    import pytest

    for name in sys.argv[2:]:
        with suppress(ImportError):
            importlib.import_module(name)
    for asked in sys.stdin:
        arguments, seconds = json.loads(asked)
        with tempfile.TemporaryFile() as said:
            start = time.monotonic()
            child = os.fork()
            if not child:
                os.setsid()
                for stream in (1, 2):
                    os.dup2(said.fileno(), stream)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                sys.path[:2] = ["", str(Path("src").resolve())]
                code = int(pytest.main(arguments))
                sys.stdout.flush()
                os._exit(code)
            code = waited_for(child, start + seconds)
            taken = time.monotonic() - start
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        print(json.dumps([code, text, taken]), flush=True)
    return 0


def waited_for(child: int, until: float) -> int | None:
    """How a process ended; None if it had to be ended."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def untouched(bench: Bench, killers: Iterable[str]) -> str | None:
    """What is wrong with tests where nothing was changed: they have killed something only then."""
    tests = sorted({killer.partition("[")[0] for killer in killers})
    found = bench.outcome_of(tests, seconds=120 + 20 * len(tests))
    return None if found.code == SURVIVED else found.said


def tried(mutant: Mutant, tree: Path, bench: Bench) -> dict[str, object]:
    """What became of one mutant."""
    with applied(mutant, tree):
        found = bench.outcome_of(mutant.tests, "-x")
    told = found.killer or found.ended
    if mutant.why is not None and found.code == SURVIVED:
        told = "explained"
    elif mutant.why is not None and found.killer:
        told = f"explained, and yet killed by {found.killer}"
    good = told in (found.killer, "explained") if mutant.why is None else told == "explained"
    return {"told": told, "good": bool(good), "sure": False, "seconds": round(found.seconds, 1)}


def line(mutant: Mutant, outcome: dict[str, object], root: Path) -> str:
    """One line of the table."""
    old, new = (" ".join(text.split()) for text in (mutant.old, mutant.new))
    cells = (
        mutant.place(root),
        f"{old[:70]} → {new[:70]}",
        mutant.breaks,
        str(outcome["told"]),
        f"{outcome['seconds']}",
    )
    return " | ".join(cell.replace("|", "¦") for cell in cells)


HEADS = ("place", "change", "guarantee", "killed by", "seconds")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Try all mutants, or those of some rooms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rooms", nargs="*", help="rooms of tests/mutants.toml; all if none is named"
    )
    parser.add_argument("--fresh", action="store_true", help="also those that were killed before")
    asked = parser.parse_args(arguments)
    mutants = listed(root)
    rooms = list(dict.fromkeys(mutant.room for mutant in mutants))
    if unknown := sorted(set(asked.rooms) - set(rooms)):
        parser.error(f"there is no room {', '.join(unknown)}. Choose from {', '.join(rooms)}.")
    mutants = [mutant for mutant in mutants if mutant.room in (asked.rooms or rooms)]
    home = root / "build" / "mutants"
    home.mkdir(parents=True, exist_ok=True)
    record = home / "outcomes.json"
    known = json.loads(record.read_text("utf-8")) if record.is_file() else {}
    tree = copied(root, home)
    keys = {mutant: mutant.key(tree) for mutant in mutants}  # whatever changes meanwhile
    print(*HEADS, sep=" | ")
    with Bench(tree) as bench:
        for room in rooms:
            chosen = {keys[mutant]: mutant for mutant in mutants if mutant.room == room}
            for key, mutant in chosen.items():
                if asked.fresh or not known.get(key, {}).get("good"):
                    known[key] = tried(mutant, tree, bench)
                    record.write_text(json.dumps(known, indent=1), encoding="utf-8")
                print(line(mutant, known[key], root), flush=True)
            unsure = [known[key] for key in chosen if known[key]["good"] and not known[key]["sure"]]
            killers = [outcome["told"] for outcome in unsure if outcome["told"] != "explained"]
            if killers and (wrong := untouched(bench, killers)):
                print(wrong, f"tests of {room} fail where nothing is changed", sep="\n")
                return 1
            for outcome in unsure:
                outcome["sure"] = True
            record.write_text(json.dumps(known, indent=1), encoding="utf-8")
    found = [(mutant, known[keys[mutant]]) for mutant in mutants]
    table = [" | ".join(HEADS), "|".join(["---"] * len(HEADS))]
    table += [line(mutant, outcome, root) for mutant, outcome in found]
    (home / "table.md").write_text("\n".join(table) + "\n", encoding="utf-8")
    print()
    for room, number in Counter(mutant.room for mutant in mutants).items():
        killed = sum(o["good"] for m, o in found if m.room == room and m.why is None)
        explained = sum(m.why is not None for m, _ in found if m.room == room)
        print(f"{room:14} {number:4} mutants {killed:4} killed {explained:3} explained")
    alive = [mutant for mutant, outcome in found if not outcome["good"]]
    print(f"{len(mutants)} mutants, {len(alive)} of them alive; {home / 'table.md'}")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(serve() if SERVES in sys.argv else main())
