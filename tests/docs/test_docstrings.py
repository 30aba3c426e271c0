"""Every example in a docstring of the package gives what it says."""

from __future__ import annotations

import doctest
import importlib
import linecache
from pathlib import Path

import pytest

import sfumato

HOME = Path(sfumato.__file__).parent
WITH_EXAMPLES = sorted(
    path for path in HOME.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_examples_of_a_module(path: Path) -> None:
    parts = path.relative_to(HOME.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    linecache.clearcache()  # else each example looks whether any file of all tests has changed
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed
