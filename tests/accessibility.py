"""Accessibility of a page, as axe-core sees it.

The checker is no part of this project: npm fetches it once into the user's cache, a fixed version
whose contents are known by their hash. Where npm or the network is missing, tests that need it are
skipped and say so.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest

from browser import Tab

__all__ = ["COLOURS", "EVERYTHING", "accessibility_issues", "axe_or_skip"]

VERSION = "4.14.0"
SHA256 = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sfumato-tests"
EVERYTHING = """axe.run(document, {resultTypes: ['violations']}).then(found =>
  found.violations.flatMap(rule => rule.nodes.map(node => `${rule.id} (${rule.impact}): ` +
    `${rule.help}: ${node.target.join(' ')}: ${node.html.slice(0, 160)}`)))"""
COLOURS = EVERYTHING.replace("{", "{runOnly: ['color-contrast', 'link-in-text-block'], ", 1)
"""The rules that look at colours: all that can change from day to night."""


@cache
def axe_or_skip() -> str:
    """The checker's script; skips the test, saying so, where it cannot be had."""
    place = CACHE / f"axe-core-{VERSION}.tgz"
    if not place.exists():
        _fetch(place)
    packed = place.read_bytes()
    if hashlib.sha256(packed).hexdigest() != SHA256:
        raise RuntimeError(f"{place} is not axe-core {VERSION}: remove it")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def _fetch(place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("NOT TESTED for accessibility: npm, which fetches axe-core, is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        done = subprocess.run(
            [npm, "pack", f"axe-core@{VERSION}", "--silent"],
            cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip("NOT TESTED for accessibility: npm could not fetch axe-core")
        next(Path(folder).glob("*.tgz")).replace(place)


def accessibility_issues(tab: Tab, rules: str = EVERYTHING) -> list[str]:
    """What axe-core finds wrong with the page as it is shown now, one line an element."""
    if not tab.value("typeof axe !== 'undefined'"):
        tab.value(axe_or_skip() + ";true")
    found: list[str] = tab.value(rules)
    return found
