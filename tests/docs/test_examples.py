"""Every example of README and the documentation runs, and prints what the page says it prints.

A page's ```console and ```python blocks run in order, in a folder of their own that holds the demo
table as `people.csv`, `people.parquet` and `demo/people.parquet`. What a page shows of the output
is compared; a line of ``⋮`` or ``…`` stands for any lines, ``…`` within a line for anything.
In Python ``# → value`` at the end of an expression is compared with its value. Comments steer:

    <!-- not run: REASON -->      the next block is not run; REASON is one of `REASONS`
    <!-- exit code 1 -->          the last command of the next block ends with this code
    <!-- setup … -->              Python that runs here and is not shown

A block titled with a file of ours is that file, or an edit of it (```diff): the commands of such a
page run in a copy of the package that has them.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Program, sfumato
from ports import free_port
from sfumato.demo import write_people

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REASONS = {
    "installs packages": 2,
    "needs a database server": 3,
    "needs a Spark cluster": 2,
    "needs two machines": 8,
    "opens a browser": 2,
    "takes minutes": 1,
}
"""Why a block is not run, and how many blocks there are of each kind in all pages together."""
HELPERS = ("cat", "cp", "head", "ls", "mkdir", "openssl", "printf", "python")
"""Commands other than ours that pages use."""
EXTENDED = """
import json, sys
from cli_tools import sfumato
for line in sys.stdin:
    program, *words = json.loads(line)
    told = [0, "", ""]
    if program == "sfumato":
        done = sfumato(*words)
        told = [done.code, done.out, done.err]
    else:
        assert (program, words[0]) == ("python", "-c")
        exec(words[1], {"__name__": "__main__"})
    print(json.dumps(told), flush=True)
"""
"""Runs the commands of a page one after the other: loading a package takes longer than most."""
KNOWN_FENCES = {"", "console", "diff", "json", "python", "sql", "text", "toml"}


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    line: int
    kind: str
    code: str
    not_run: str | None = None
    exit_code: int = 0
    title: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is something to run, and not a file."""
        return self.not_run is None and self.title is None and self.kind in ("console", "python")


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that say what they do, and its hidden setups."""
    text = page.read_text(encoding="utf-8")
    fence = re.compile(
        r"<!-- setup\n(?P<setup>.*?)-->|(?P<marks>(?:<!-- (?:not run:|exit code).*?-->\n)*)"
        r'^(?P<indent> *)(?P<ticks>```+)(?P<kind>\w*)(?: title="(?P<title>[^"]+)")?[^\n]*\n'
        r"(?P<code>.*?)^ *(?P=ticks)$",
        re.M | re.S,
    )
    for found in fence.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["setup"] is not None:
            yield Block(line, "python", found["setup"])
            continue
        marks = found["marks"]
        reason = re.search(r"<!-- not run: (.*?) -->", marks)
        code = re.search(r"<!-- exit code (\d+) -->", marks)
        yield Block(
            line,
            found["kind"],
            re.sub(f"^{found['indent']}", "", found["code"], flags=re.M),
            reason[1] if reason else None,
            int(code[1]) if code else 0,
            found["title"],
        )


RUNNING = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo tables that pages speak of."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "demo").mkdir()
    write_people(folder / "people.csv")
    write_people(folder / "people.parquet")
    shutil.copy(folder / "people.parquet", folder / "demo" / "people.parquet")
    return folder


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.relative_to(ROOT).as_posix())
@pytest.mark.filterwarnings("default")  # what users do with their own tables may warn
def test_examples_of_a_page(page: Path, demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    shutil.copytree(demo, folder, copy_function=os.link)
    with chdir(folder):
        run = PageRun(page, extended(page, tmp_path / "package"))
        for block in blocks(page):
            if block.runs:
                run.block(block)
        run.finish()


def extended(page: Path, home: Path) -> Path | None:
    """A copy of the package with the files and edits of a page; None where it has none."""
    titled = [block for block in blocks(page) if block.title is not None]
    if not titled:
        return None
    shutil.copytree(ROOT / "src" / "sfumato", home / "src" / "sfumato")
    for block in titled:
        path, where = home / str(block.title), f"{page.name}:{block.line}"
        assert path.exists() == (block.kind == "diff"), f"{where}: {block.title}"
        text = block.code if block.kind != "diff" else path.read_text(encoding="utf-8")
        for hunk in block.code.split("@@\n") if block.kind == "diff" else ():
            before, after = (
                "".join(f"{line[1:]}\n" for line in hunk.splitlines() if line[:1] in (" ", sign))
                for sign in "-+"
            )
            assert text.count(before) == 1, f"{where}: these lines are not in {block.title}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")
    return home / "src"


def test_blocks_that_are_not_run_say_why() -> None:
    counted = Counter(b.not_run for page in PAGES for b in blocks(page) if b.not_run is not None)
    assert dict(counted) == REASONS
    for page in PAGES:
        for block in blocks(page):
            commands = re.search(r"^\$ ", block.code, re.M)
            assert block.kind == "console" or not commands, f"{page}:{block.line} is not run"


def test_every_block_says_what_it_is() -> None:
    odd = [(page.name, b.line, b.kind) for page in PAGES for b in blocks(page)
           if b.kind not in KNOWN_FENCES]  # fmt: skip
    assert not odd


class PageRun:
    """What a page's blocks share: variables of Python, and commands still running."""

    def __init__(self, page: Path, package: Path | None = None) -> None:
        self.page = page.relative_to(ROOT).as_posix()
        self.package = package
        self.names: dict[str, Any] = {"__name__": "page"}
        self.background: list[tuple[str, Program]] = []
        self.stage: subprocess.Popen[str] | None = None
        self.port = str(free_port())

    def block(self, block: Block) -> None:
        """Run one block."""
        where = f"{self.page}:{block.line}"
        if block.kind == "python":
            self.python(block, where)
        else:
            self.console(block, where)

    def python(self, block: Block, where: str) -> None:
        """Run the statements of a block; compare the values that it tells."""
        source = block.code
        lines = source.splitlines()
        for statement in ast.parse(source).body:
            told = re.search(r"# → (.*)$", lines[(statement.end_lineno or 1) - 1])
            code = ast.get_source_segment(source, statement) or ""
            if told is None or not isinstance(statement, ast.Expr):
                module = ast.Module([statement], [])
                with redirect_stdout(io.StringIO()):
                    exec(compile(module, where, "exec"), self.names)
            else:
                value = repr(eval(code, self.names))
                assert matches(told[1], value), f"{where}: {code} is {value}, not {told[1]}"

    def console(self, block: Block, where: str) -> None:
        """Run the commands of a block; compare the output that it shows."""
        commands = list(commands_of(block.code))
        for number, (command, shown) in enumerate(commands):
            expected = block.exit_code if number == len(commands) - 1 else 0
            code, out, err = self.command(command.replace("7000", self.port))
            assert code == expected, f"{where}: $ {command}\nends with {code}\n{out}{err}"
            if shown:
                told = f"{where}: $ {command}\nprints\n{out}\nand the page shows\n{shown}"
                assert matches(shown, out), told

    def command(self, command: str) -> tuple[int, str, str]:
        """Run one line of a shell."""
        words = shlex.split(command, comments=True)
        if words[-1] == "&":
            self.background.append((command, Program(*words[1:-1])))
            return 0, "", ""
        stdin: bytes | None = None
        if "|" in words:
            stdin = Path(words[1]).read_bytes()
            assert words[0] == "cat"
            words = words[words.index("|") + 1 :]
        if self.package is not None:
            code, out, err = self.told(words)
            return code, out, err
        if words[0] == "sfumato":
            done = sfumato(*globbed(words[1:]), stdin=stdin)
            return done.code, done.out, done.err
        assert words[0] in HELPERS, f"{words[0]} is no command that pages may use"
        if words[0] == "python" and words[1].endswith(".py"):
            with redirect_stdout(io.StringIO()) as said:
                runpy.run_path(words[1], run_name="__main__")
            return 0, said.getvalue(), ""
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        ended = subprocess.run(
            command,
            shell=True,
            env={**os.environ, "PATH": here},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout, ended.stderr

    def told(self, words: list[str]) -> Any:
        """What the package that the page extends answers to a command."""
        if self.stage is None:
            paths = os.pathsep.join([str(self.package), str(ROOT / "tests")])
            self.stage = subprocess.Popen(
                [sys.executable, "-c", EXTENDED],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": paths},
            )
        assert self.stage.stdin is not None
        assert self.stage.stdout is not None
        print(json.dumps(words), file=self.stage.stdin, flush=True)
        answer = self.stage.stdout.readline()
        assert answer, f"{self.page}: {words} ends the program"
        return json.loads(answer)

    def finish(self) -> None:
        """Wait for what was left running."""
        if self.stage is not None:
            self.stage.communicate(timeout=120)
        for command, process in self.background:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, f"{self.page}: $ {command}\n{out}{err}"


def globbed(words: list[str]) -> Iterator[str]:
    """Words with file patterns spelled out, as a shell does."""
    for word in words:
        found = sorted(str(path) for path in Path().glob(word)) if "*" in word else []
        yield from found or [word]


def commands_of(code: str) -> Iterator[tuple[str, str]]:
    """Each command of a block with the output shown below it."""
    for part in re.split(r"^\$ ", code, flags=re.M)[1:]:
        lines = part.splitlines()
        count = 1
        while lines[count - 1].endswith("\\"):
            count += 1
        command = " ".join(line.removesuffix("\\").strip() for line in lines[:count])
        yield command, "\n".join(lines[count:])


def matches(shown: str, printed: str) -> bool:
    """Whether output is what a page shows of it."""
    pattern = ""
    for line in trimmed(shown):
        if line.strip() in ("⋮", "…"):
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("…"))) + "\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in trimmed(printed))) is not None


def trimmed(text: str) -> list[str]:
    """Lines without blanks at their ends, and without empty ones around them."""
    return [line.rstrip() for line in text.strip("\n").splitlines()] if text.strip() else []
