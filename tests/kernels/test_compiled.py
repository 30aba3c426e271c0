"""Compiling once: what is loaded, and when a first run is told apart."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import sfumato
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


def test_compiled_loops_order_by_merging():
    """Numba names what it compiles by a number that starts anew in every process. In a cache that
    several processes filled, its quicksort that sorts and its quicksort that orders can therefore
    have one name, and the wrong one is called: a crash. So compiled loops order by merging only.
    """
    found = 0
    for path in Path(sfumato.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or not _compiled(function):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("argsort"):
                    found += 1
                    assert any(ast.unparse(k.value) == "'mergesort'" for k in call.keywords), path
    assert found


def _compiled(function: ast.FunctionDef) -> bool:
    by = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    return "njit" in by or "bare" in by
