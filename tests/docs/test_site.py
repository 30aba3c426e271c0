"""The site builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_site_builds_without_warnings_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # about another version, as `make docs`
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]*)"', text)
        loaded += re.findall(r'<link[^>]* rel="stylesheet"[^>]* href="([^"]*)"', text)
        assert [place for place in loaded if "//" in place] == [], page
