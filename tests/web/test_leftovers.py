"""The program `sfumato serve` after hard use: no process, file or memory is left behind."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sfumato.engines.private_folder import PREFIX
from workbench import PATIENCE, answered

REQUESTS, AT_ONCE, CANCELLED = 56, 28, 8
ROUNDS, LITTLE = 12, 12 * 2**20
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="NOT TESTED for leftovers: there is no /proc here"
)


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    children: int
    files: int
    temporary: int
    memory: int


@dataclass
class Program:
    """`sfumato serve` in a process of its own, and a browser that opened its link."""

    process: subprocess.Popen[str]
    port: int
    cookie: str
    temporary: Path

    def ask(self, verb: str, place: str, /, **form: object) -> tuple[int, str, str]:
        headers = {"cookie": self.cookie, "origin": f"http://127.0.0.1:{self.port}"}
        body = urlencode(form, doseq=True) if form else None
        answer, text = answered(self.port, verb, place, body, headers)
        return answer.status, answer.headers.get("location", ""), text

    def listen(self, place: str) -> None:
        """Hear the first thing that a job tells, and hang up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", place, headers={"cookie": self.cookie})
        assert connection.getresponse().readline().startswith(b"data: ")
        connection.close()

    def follow(self, place: str) -> str:
        """Wait for the page behind a job."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            status, onward, text = self.ask("GET", place)
            if status == 303:
                place = onward
            elif 'id="job"' in text:
                time.sleep(0.1)
            else:
                assert status == 200, text
                return text
        raise AssertionError("the job never ends")

    def held(self) -> Held:
        own = Path("/proc") / str(self.process.pid)
        status = (own / "status").read_text()
        children = 0
        for task in (own / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # threads come and go
                started = (task / "children").read_text().split()
                children += sum(not draws(child) for child in started)
        return Held(
            children=children,
            files=sum(not locks(place) for place in (own / "fd").iterdir()),
            temporary=sum(len(below) + len(files) for _, below, files in os.walk(self.temporary)),
            memory=int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024,  # type: ignore[index]
        )

    def settled(self, before: Held | None = None) -> Held:
        """What is held once nothing changes any more: connections take a moment to close.

        With what was held `before`, it is waited for until there is no more of it; what stays
        more after a long time was left behind.
        """
        last, until = self.held(), time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(0.5)
            now = self.held()
            calm = (now.children, now.files, now.temporary) == (
                last.children, last.files, last.temporary,
            )  # fmt: skip
            if calm and (before is None or (now.files <= before.files and not now.children)):
                return now
            last = now
        return last


def draws(child: str) -> bool:
    """Whether it is the process that draws charts, which stays as long as the workbench does."""
    try:
        return b"vl_convert" in Path("/proc", child, "cmdline").read_bytes()
    except FileNotFoundError:
        return False


def locks(place: Path) -> bool:
    """Whether it is a file by which programs take turns to compile: one a folder, opened once."""
    try:
        return place.readlink().name == "compiling.lock"
    except FileNotFoundError:
        return False


@contextmanager
def serving(shelf: Path, temporary: Path) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, "
         "signal.default_int_handler); from sfumato.cli import main; main()",
         "serve", str(shelf), "--no-browser"],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        link = re.search(r"http://127.0.0.1:(\d+)(\S+)", process.stderr.readline())
        assert link is not None
        entered, _ = answered(int(link[1]), "GET", link[2], None, {})
        cookie = str(entered.headers["set-cookie"]).partition(";")[0]
        yield Program(process, int(link[1]), cookie, temporary)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def opened(program: Program) -> None:
    """The demo table, which lies in a temporary folder as all uploads do."""
    _, place, _ = program.ask("POST", "/demo")
    program.follow(place)
    assert list(program.temporary.rglob("*.csv"))


def seen(program: Program) -> str:
    """All pages of it, once."""
    _, _, home = program.ask("GET", "/")
    base = re.search(r'href="(/p/[0-9a-f]+)/configure"', home)
    assert base is not None
    for step in ("explore", "risk", "utility", "release", "columns/3"):
        program.follow(f"{base[1]}/{step}")
    return base[1]


def hard_use(program: Program, base: str, seed: int) -> None:
    """Many requests at once, then jobs that are cancelled while they wait or run."""
    places = ["/", f"{base}/configure", "/static/report.css", f"{base}/utility",
              f"{base}/risk/figure?k=9", f"{base}/columns/4", "/nowhere"]  # fmt: skip
    asked = [places[at % len(places)] for at in range(REQUESTS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda place: program.ask("GET", place)[0], asked))
    assert set(answers) == {200, 404}
    assert answers.count(404) == asked.count("/nowhere")
    jobs = []
    for at in range(CANCELLED):
        form = {"k": 2 + at + CANCELLED * seed, "method": "kmember"}
        _, place, _ = program.ask("POST", f"{base}/utility", **form)
        assert place.startswith("/jobs/")
        jobs.append(place)
    for place in jobs[::2]:
        program.listen(f"{place}/events")
    for place in jobs:
        program.ask("POST", f"{place}/cancel")
    until = time.monotonic() + PATIENCE
    while any('id="job"' in program.ask("GET", place)[2] for place in jobs):
        assert time.monotonic() < until, "a cancelled job goes on"
        time.sleep(0.2)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_hard_use_leaves_nothing_behind(ending: signal.Signals, tmp_path: Path) -> None:
    shelf, temporary = tmp_path / "shelf", tmp_path / "temporary"
    shelf.mkdir()
    temporary.mkdir()
    with serving(shelf, temporary) as program:
        opened(program)
        if ending == signal.SIGTERM:  # once is enough
            base = seen(program)
            hard_use(program, base, seed=0)  # threads and caches reach their full size
            before, growth = program.settled(), []
            # How memory is divided among threads is chance; what is left behind is so every time.
            for seed in range(1, ROUNDS + 1):
                hard_use(program, base, seed)
                after = program.settled(before)
                assert after.children == before.children == 0
                assert after.files <= before.files
                assert after.temporary == before.temporary
                growth.append(after.memory - before.memory)
                before = after
                if growth[-1] < LITTLE:
                    break
            assert min(growth) < LITTLE
        program.process.send_signal(ending)
        program.process.wait(PATIENCE)
        assert list(temporary.iterdir()) == []
        assert list(shelf.iterdir()) == []


def test_what_a_killed_workbench_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    shelf, temporary = tmp_path / "shelf", tmp_path / "temporary"
    shelf.mkdir()
    temporary.mkdir()
    with serving(shelf, temporary) as killed, serving(shelf, temporary) as living:
        opened(killed)
        (left,) = temporary.glob(f"{PREFIX}*")
        opened(living)
        (theirs,) = set(temporary.glob(f"{PREFIX}*")) - {left}
        killed.process.kill()
        killed.process.wait(PATIENCE)
        assert list(left.rglob("*.csv"))
        with serving(shelf, temporary) as following:
            assert following.ask("GET", "/")[0] == 200
            assert list(temporary.glob(f"{PREFIX}*")) == [theirs]
            assert list(theirs.rglob("*.csv"))
