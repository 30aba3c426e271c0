"""Drive the workbench through the whole flow and keep a picture of every page.

`python scripts/drive.py` opens four tables, the demo hospital, Adult, 86 columns of a survey and a
census of five million rows, walks through every page, and writes what a window of 1400 and of 400
pixels shows to artefacts/drive, for people to look at. Every page is asked of axe-core, which must
find nothing; one that answers with an error, or is wider than its window, ends the drive. It needs
the extras ``report`` and ``web``, playwright and a chromium.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from playwright.sync_api import Page, Response, TimeoutError, expect, sync_playwright

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "tests")]

from benchmarks.census import census_file  # noqa: E402

from accessibility import EVERYTHING, axe_or_skip  # noqa: E402
from sfumato.datasets import path, save  # noqa: E402
from sfumato.demo import write_people  # noqa: E402
from sfumato.web.verbs import VERBS  # noqa: E402

OUT = HERE / "artefacts" / "drive"
PATIENCE = 900_000
SHORT = 240_000
"""After so long, work on a large table is told to end with the best it has, or to stop."""
MANY = 5_000_000
SURVEY = 86
DONE = "main:not(:has(#job))"
FEW = {
    "census.parquet": ("age", "sex", "race", "education", "marital_status"),
    "survey.parquet": ("AGEP", "SEX", "PUMA", "MAR", "SCHL"),
}
"""What others may know of wide tables; elsewhere the guesses stand."""


def write_tables(folder: Path, asked: Mapping[str, bool]) -> None:
    """The four tables."""
    if asked["people.csv"]:
        write_people(folder / "people.csv")
    if asked["adult.csv"]:
        save("adult", folder / "adult.csv")
    if asked["survey.parquet"]:
        place = path("pums_oregon_calm_person")
        names = pq.read_schema(place).names[:SURVEY]
        pq.write_table(pq.read_table(place, columns=names), folder / "survey.parquet")
    if asked["census.parquet"]:
        shutil.copyfile(census_file(MANY), folder / "census.parquet")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """`sfumato serve` on the tables of a folder; the link that opens it."""
    command = [sys.executable, "-m", "sfumato", "serve", str(folder), "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        yield next(filter(None, (re.search(r"http://\S+", line) for line in server.stderr)))[0]
    finally:
        server.terminate()
        server.communicate()


@dataclass
class Drive:
    """One table, page by page."""

    page: Page
    table: str
    base: str = ""
    taken: int = 0

    @property
    def large(self) -> bool:
        """Whether nobody wants to wait for every method and question."""
        return self.table == "census.parquet"

    def go(self, place: str, name: str) -> None:
        """Go to a page, through the work it needs, and look at it."""
        self.page.goto(f"{self.base}/{place}")
        self.look(name)

    def look(self, name: str) -> None:
        """Two pictures, and what axe-core says."""
        try:
            self.page.wait_for_selector(DONE, timeout=SHORT if self.large else PATIENCE)
        except TimeoutError:
            print(f"{self.table:16} {name}: stopped", flush=True)
            ends = self.page.locator("main form button")
            ends.last.click()
            self.page.wait_for_selector(DONE, timeout=PATIENCE)
        self.page.wait_for_load_state("load")
        assert "An unexpected problem" not in self.page.content(), f"{self.table}, {name}"
        self.page.wait_for_timeout(300)  # counts that arrive after the page
        for width in (1400, 400):
            self.page.set_viewport_size({"width": width, "height": 900})
            picture = OUT / f"{self.table}-{self.taken:02}-{name}-{width}.png"
            # what sticks to a window has no place of its own in a picture of the whole page
            still = ".dock { position: static !important }"
            self.page.screenshot(path=picture, full_page=True, animations="disabled", style=still)
            wide = self.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{picture.name} is {wide} pixels wide"
        self.page.set_viewport_size({"width": 1400, "height": 900})
        self.page.evaluate(axe_or_skip() + ";true")
        found = self.page.evaluate(EVERYTHING)
        assert found == [], f"{self.table}, {name}: {found}"
        self.taken += 1
        print(f"{self.table:16} {name}", flush=True)

    def press(self, button: str) -> None:
        """Press a button of the page."""
        self.page.get_by_role("button", name=button).first.click()

    def begin(self) -> None:
        """From the list of tables to the roles."""
        self.press(f"Open {self.table}")
        expect(self.page.get_by_role("heading", level=1)).to_have_text("What may others know?")
        self.base = self.page.url.rsplit("/", 1)[0]
        if few := FEW.get(self.table):
            self.page.goto(f"{self.base}/configure?view=table")
            for column in few:
                self.page.get_by_label(f"Tick {column}", exact=True).click()
            self.page.locator("[name=bulk][value=quasi-identifier]").click()
            self.page.wait_for_load_state("load")
            self.page.locator("[name=rest][value=identifier]").click()
            self.page.wait_for_load_state("load")

    def walk(self) -> None:
        """Every page, in the order of the flow."""
        self.begin()
        self.go("configure?view=board", "configure-cards")
        self.go("configure?view=table", "configure-table")
        self.go("import", "import")
        self.press("Show rows")
        self.look("import-rows")
        self.page.goto(f"{self.base}/configure")
        for at, menu in enumerate(self.page.locator("select[name^=role-]").all()):
            if menu.input_value() == "quasi-identifier" and at % 2:
                number = str(menu.get_attribute("name")).rpartition("-")[2]
                self.go(f"columns/{number}", f"column-{number}")
                self.page.goto(f"{self.base}/configure")
        self.go("explore", "explore")
        self.go("risk", "risk")
        self.go("knowledge", "knowledge")
        self.go("utility", "utility-before")
        for method in ("lattice", "full-domain"):
            self.page.locator(f"[name=method][value={method}]").check()
        self.press("Try it")
        self.look("utility-tried")
        if not self.large:
            self.press("Try k from")
            self.look("utility-curve")
        self.go("lattice", "lattice-before")
        self.press("Look at the lattice")
        self.look("lattice")
        self.go("release", "release-before")
        self.press("Make the release")
        self.look("release")
        self.go("release/rows", "rows")
        self.go("release/rows?which=blurred", "rows-blurred")
        for name, verb in VERBS.items():
            self.page.goto(f"{self.base}/ask/{name}")
            self.press("See what would be" if verb.writes else "Ask")
            self.look(f"ask-{name}")
        self.go("release", "release-later")


def main() -> None:
    """Drive the tables that are named, or all."""
    tables = ("people.csv", "adult.csv", "survey.parquet", "census.parquet")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=(*tables, "all"), default="all")
    named = parser.parse_args().tables
    asked = list(tables) if "all" in named else named
    OUT.mkdir(parents=True, exist_ok=True)
    errors: list[str] = []

    def answered(response: Response) -> None:
        if response.status >= 400:
            errors.append(f"{response.status} {response.url}")

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        write_tables(Path(folder), {name: name in asked for name in tables})
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with serving(Path(folder)) as link:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(60_000)
            expect.set_options(timeout=PATIENCE)
            page.on("response", answered)
            page.goto(link)
            Drive(page, "home").look("home")
            for table in asked:
                page.goto("/".join([*link.split("/")[:3], ""]))
                Drive(page, table).walk()
        browser.close()
    assert errors == [], errors


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
