"""Compiling once: what is loaded, and when a first run is told apart."""

from __future__ import annotations

import os
import subprocess
import sys

from sfumato import kernels


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_importing_loads_no_compiler():
    code = "import sys; from sfumato import kernels; print('numba' in sys.modules)"
    assert run(code) == "False"


def test_an_empty_cache_is_cold(tmp_path):
    code = "from sfumato import kernels; print(kernels.cold())"
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "True"


def test_after_warming_nothing_is_cold():
    kernels.warm()
    assert not kernels.cold()


def test_unknown_names_are_refused():
    assert not hasattr(kernels, "no_such_loop")
