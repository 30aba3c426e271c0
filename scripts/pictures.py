"""Pictures of the real program for README and documentation: the report and the workbench.

`python scripts/pictures.py` makes the demo hospital, a release and its report, clicks through the
workbench in chromium, and writes PNG files of at most 256 colours to docs/pictures. It needs the
extras ``report`` and ``web``, playwright, Pillow and a chromium.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

import sfumato as sf
from sfumato.demo import write_people

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZE = {"width": 1180, "height": 760}
SHARP = 1.5
"""Pixels of the picture for each pixel of the page."""
PATIENCE = 120_000
LARGEST = 250_000
ASKED = {
    "k": 5,
    "qi": ["birth_date", "sex", "zip"],
    "sensitive": ["diagnosis"],
    "l": 3,
    "identifiers": ["patient_id", "name", "ssn", "email", "phone", "note"],
}


def main() -> None:
    """Make every picture."""
    OUT.mkdir(exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    folder = Path(tempfile.gettempdir(), "hospital")  # a name that may be seen in pictures
    folder.mkdir()
    try:
        take(folder, program)
    finally:
        shutil.rmtree(folder)


def take(folder: Path, program: str | None) -> None:
    """Make every picture of the tables in a folder."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=SHARP, color_scheme="light")
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        write_people(folder / "people.csv")
        report(page, folder)
        workbench(page, folder)
        browser.close()


def report(page: Page, folder: Path) -> None:
    """The page of a table, and that of a release beside the table it was made of."""
    sf.scan(folder / "people.csv").report(folder / "scan.html")
    sf.anonymize(folder / "people.csv", **ASKED).report(folder / "release.html")
    for name in ("scan", "release"):
        page.goto((folder / f"{name}.html").as_uri())
        keep(page, f"report-{name}")


def workbench(page: Page, folder: Path) -> None:
    """Every step from the table to its release."""
    command = [sys.executable, "-m", "sfumato", "serve", str(folder), "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        found = next(filter(None, (re.search(r"http://\S+", line) for line in server.stderr)))
        page.goto(found[0])
        step(page, "Open people.csv", "What may others know?", "workbench-configure")
        step(page, "Save and explore", "Who can be found?", "workbench-explore")
        step(page, "On to the risk", "How many should look alike?", "workbench-risk")
        step(page, "On to the cost", "What does it cost?", None)
        step(page, "Try k from", "What does it cost?", "workbench-cost")
        step(page, "On to the release", "Release", None)
        step(page, "Make the release", "Release", "workbench-release")
    finally:
        server.terminate()
        server.wait()


def step(page: Page, click: str, heading: str, name: str | None) -> None:
    """Click a button or link, wait for the page it leads to, and take its picture."""
    button = page.get_by_role("button", name=click).or_(page.get_by_role("link", name=click))
    button.first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.wait_for_load_state("load")
    if click.startswith("Try k"):
        expect(page.locator(".candidates tbody tr")).to_have_count(6)
        page.get_by_role("heading", name="Compared").evaluate("e => e.scrollIntoView()")
        page.mouse.wheel(0, -90)
    if click == "Make the release":
        expect(page.locator("#verified")).to_have_attribute("data-holds", "yes")
    if name is not None:
        page.wait_for_timeout(1500)  # charts and counts that arrive after the page
        keep(page, name)


def keep(page: Page, name: str) -> None:
    """Write what the window shows, with as many colours as a picture of text needs."""
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    target = OUT / f"{name}.png"
    picture.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)
    assert target.stat().st_size < LARGEST, f"{target.name} has {target.stat().st_size:,} bytes"


if __name__ == "__main__":
    main()
