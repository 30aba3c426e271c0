"""The workbench on a census of ten million rows: how long a person waits, and what it holds.

`sfumato serve` runs as a process of its own and is asked as a browser asks. Reading the table is
timed apart from what follows it: the first picture, the count of who looks alike, and every change
of k, for all guessed columns and for five of them; then a release with its drawing, and how long
every page takes while it is made. CPU seconds are those of the server with all its
threads; on a busy machine the wall clock says more about the others.
"""

from __future__ import annotations

import argparse
import http.client
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.census import census_file
from benchmarks.runner import Comparison, Measured, report

__all__ = ["main"]

MOVES = (2, 3, 5, 7, 10, 15, 20, 30, 50, 80, 100)
PAGES = ("configure", "explore", "risk", "utility", "release", "ask/keys", "lattice")
FIVE = ("age", "sex", "race", "education", "marital_status")


@dataclass
class Server:
    """The running program, its clocks and its memory."""

    process: subprocess.Popen[str]
    port: int
    cookie: str = ""
    peak: float = 0.0
    told: dict[str, dict[str, float]] = field(default_factory=dict)

    def ask(self, verb: str, place: str, /, **form: object) -> http.client.HTTPResponse:
        """One request, read whole."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        headers = {"cookie": self.cookie, "origin": f"http://127.0.0.1:{self.port}"}
        connection.request(verb, place, urlencode(form) if form else None, headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        connection.close()
        self.memory()
        return answer

    def follow(self, place: str | None, until: str | None = None) -> str | None:
        """Follow a job; None at its end, or its place once it does something else than `until`."""
        while place is not None and place.startswith("/jobs/"):
            answer = self.ask("GET", place)
            doing = re.search(r'id="doing"[^>]*>([^<]*)<', answer.text)  # type: ignore[attr-defined]
            if until and doing and not doing[1].startswith((until, "waiting")):
                return place
            place = answer.headers.get("location") if answer.status == 303 else place
            time.sleep(0.02)
        return None

    def memory(self) -> None:
        """Remember the largest resident size, in GiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        self.peak = max(self.peak, int(found[1]) / 2**20 if found else 0.0)

    def clocks(self) -> tuple[float, float]:
        """Wall clock and CPU seconds."""
        spent = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return time.perf_counter(), (int(spent[11]) + int(spent[12])) / 100

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Print and keep what something took."""
        wall, cpu = self.clocks()
        yield
        after = self.clocks()
        self.told[what] = {"wall": round(after[0] - wall, 3), "cpu": round(after[1] - cpu, 3)}
        print(f"{what:46} {after[0] - wall:7.2f} s wall {after[1] - cpu:7.2f} s CPU", flush=True)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """`sfumato serve` on the tables of a folder."""
    command = [sys.executable, "-m", "sfumato", "serve", str(folder), "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        link = re.search(r"http://127.0.0.1:(\d+)(\S+)", process.stderr.readline())
        assert link is not None
        server = Server(process, int(link[1]))
        server.cookie = str(server.ask("GET", link[2]).headers["set-cookie"]).partition(";")[0]
        yield server
    finally:
        process.terminate()
        process.communicate()


def moved(server: Server, base: str, what: str) -> None:
    """Every change of k, the slowest of them."""
    slowest = {"wall": 0.0, "cpu": 0.0}
    for k in MOVES:
        wall, cpu = server.clocks()
        assert server.ask("GET", f"{base}/risk/figure?k={k}").status == 200
        after = server.clocks()
        slowest = {
            "wall": max(slowest["wall"], round(after[0] - wall, 3)),
            "cpu": max(slowest["cpu"], round(after[1] - cpu, 3)),
        }
    server.told[what] = slowest
    print(f"{what:46} {slowest['wall']:7.2f} s wall {slowest['cpu']:7.2f} s CPU", flush=True)


def main() -> None:
    """Time the way from the table to the risk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    place = census_file(rows)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        pass  # the program's own start, and its compiled loops, are loaded once before the clock
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "census.parquet").hardlink_to(place)
        with serving(Path(folder)) as server:
            _walk(server, Path(folder) / "census.parquet")
    steps = [
        Comparison(step, {"sfumato": Measured(**taken)}) for step, taken in server.told.items()
    ]
    facts = {"peak memory (GiB)": round(server.peak, 2)}
    report("workbench", steps, data=f"census {rows:,} x 41", versions={}, facts=facts)


def _walk(server: Server, place: Path) -> None:
    with server.timed("reading the table"):
        opened = server.ask("POST", "/open", table=str(place)).headers["location"]
        job = server.follow(opened, until="reading")
    with server.timed("first picture, after that"):
        server.follow(job)
        home = server.ask("GET", "/").text  # type: ignore[attr-defined]
        found = re.search(r'href="(/p/[0-9a-f]+)/configure"', home)
        assert found is not None
        base = found[1]
        page = server.ask("GET", f"{base}/configure").text  # type: ignore[attr-defined]
    with server.timed("who looks alike, by all that others may know"):
        server.ask("GET", f"{base}/configure/meter")
    server.ask("GET", f"{base}/risk")
    moved(server, base, "the slowest change of k, by all of them")
    names = re.findall(r'aria-label="Role of ([^"]*)"', page)
    numbers = re.findall(r'name="role-(\d+)"', page)
    roles = {
        f"role-{number}": "quasi-identifier" if name in FIVE else "other"
        for number, name in zip(numbers, names, strict=True)
    }
    with server.timed("who looks alike, by five columns"):
        chosen = server.ask("POST", f"{base}/configure", k=5, method="mondrian", **roles)
        assert chosen.status == 303, "the roles were not taken"
        server.follow(server.ask("GET", f"{base}/risk").headers.get("location"))
    moved(server, base, "the slowest change of k, by five columns")
    with server.timed("which columns point at people together"):
        server.follow(server.ask("GET", f"{base}/explore").headers.get("location"))
    with server.timed("a release by five columns, verified and drawn"):
        job = server.ask("POST", f"{base}/release").headers["location"]
        waits = _looked_around(server, base, str(job))
    for what, at in (("half of the pages meanwhile, within", 0.5), ("the slowest of them", 1)):
        wall = round(waits[min(len(waits) - 1, int(at * len(waits)))], 3)
        server.told[what] = {"wall": wall, "cpu": 0.0}
        print(f"{what:46} {wall:7.3f} s wall", flush=True)


def _looked_around(server: Server, base: str, job: str) -> list[float]:
    """How long each page took while a job ran, in order of time."""
    waits: list[float] = []
    while server.ask("GET", job).status == 200:
        for page in PAGES:
            start = time.perf_counter()
            server.ask("GET", f"{base}/{page}")
            waits.append(time.perf_counter() - start)
        time.sleep(0.2)
    return sorted(waits)


if __name__ == "__main__":
    main()
