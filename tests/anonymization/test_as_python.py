"""Loops give the same release as Python, which small tables use, and compiled."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.kernels import compiling
from sfumato.kernels.compiling import Loop

MODELS = {
    "k": {"k": 4},
    "l": {"k": 4, "l": 2, "sensitive": ["illness"]},
    "recursive": {"k": 3, "l": 2, "l_kind": "recursive", "c": 3.0, "sensitive": ["illness"]},
    "t": {"k": 4, "t": 0.6, "sensitive": ["illness"]},
}


def people(rows: int = 120) -> pa.Table:
    draw = np.random.default_rng(7)
    return pa.table(
        {
            "age": draw.integers(18, 90, rows),
            "zip": [f"{number:05}" for number in draw.integers(0, 300, rows)],
            "sex": draw.choice(["f", "m"], rows),
            "illness": draw.choice(["flu", "cold", "gout", "mumps"], rows, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )


def as_it_is(loop: Loop, *given: object) -> object:
    return (loop.instead or loop.interpreted)(*given)


def by_numba(loop: Loop, *given: object) -> object:
    return loop.dispatcher(*given)


def compiled(loop: Loop, *given: object) -> object:
    return (loop.translated if loop.direct else loop.dispatcher)(*given)


def released(method: str, way: str, **asked: object) -> pa.Table:
    with pytest.MonkeyPatch.context() as patch:
        if way == "python":
            patch.setattr(Loop, "__call__", as_it_is)
            patch.setattr(compiling, "_Alarm", lambda seconds: nullcontext())  # however long
            patch.setattr(compiling, "by_numpy", lambda entries: True)
        else:
            patch.setattr(Loop, "__call__", by_numba if way == "numba" else compiled)
            patch.setattr(compiling, "by_numpy", lambda entries: False)
        release = sf.anonymize(people(), qi=["age", "zip", "sex"], method=method, **asked)
        return release.to_arrow()


@pytest.mark.crossed(6)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", ["mondrian", "kmember", "lattice"])
def test_groups_are_the_same(method, model):
    asked = MODELS[model]
    assert released(method, "python", **asked).equals(released(method, "compiled", **asked))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_best_groups_are_the_same(model):
    asked = MODELS[model]
    found = released("best", "python", **asked)
    assert found.equals(released("best", "compiled", **asked))
    if model == "k":
        assert found.equals(released("best", "numba", **asked))  # compiles for a minute


@pytest.mark.parametrize("k", [4, 30])
def test_no_loop_of_the_best_groups_needs_numba(k):
    assert released("best", "compiled", k=k).num_rows == 120


def test_stars_are_the_same():
    assert released("cells", "python", k=4).equals(released("cells", "compiled", k=4))
