"""Trees and nets of two parties: two processes on loopback with TLS, compiled code warm.

``python benchmarks/secure_models.py`` (or ``python -m benchmarks secure_models``). Every result is
compared with the plain one of the pooled rows, on both sides. Wall seconds run from the greeting to
the end of the slower side; CPU seconds are those of the busier one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.runner import Comparison, Measured, report
from benchmarks.secure import free_port
from sfumato import datasets, secure

__all__ = ["main"]

ADULT = "workclass,education,marital-status,occupation,relationship,race,sex,native-country,income"
ROWS = 100_000


def real_table(name: str, columns: str | None = None) -> tuple[secure.Schema, Any]:
    """The complete rows of a real table as categories."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(datasets.path(name))
    for column in table.column_names:
        table = table.filter(pc.is_valid(table[column]))
    table = table.select(columns.split(",") if columns else table.column_names)
    categories, codes = {}, []
    for column in table.column_names:
        values, code = np.unique(table[column].to_numpy().astype(str), return_inverse=True)
        categories[column] = values.tolist()
        codes.append(code)
    return secure.Schema.of(categories), np.stack(codes, axis=1)


def made_table() -> tuple[secure.Schema, Any]:
    """Six binary columns with known dependencies, 100,000 rows."""
    rng = np.random.default_rng(5)

    def draw(chance: Any) -> Any:
        return (rng.random(ROWS) < chance).astype(np.int64)

    a = draw(0.3)
    b = draw(np.where(a, 0.7, 0.2))
    c = draw(0.5)
    d = draw(0.1 + 0.5 * (b & c) + 0.2 * b)
    e = draw(np.where(c, 0.55, 0.5))
    f = draw(0.2 + 0.3 * d + 0.3 * e)
    schema = secure.Schema.of({name: ["no", "yes"] for name in "abcdef"})
    return schema, np.stack([a, b, c, d, e, f], axis=1)


def half_the_rows(schema: secure.Schema, codes: Any, role: str) -> secure.HeldRows:
    """Rows given to one of the two at random."""
    alices = np.random.default_rng(1).random(len(codes)) < 0.5
    return secure.HeldRows(schema, codes[alices if role == "alice" else ~alices])


def half_the_cells(schema: secure.Schema, codes: Any, role: str) -> secure.HeldCells:
    """Each cell given to one of the two at random."""
    alices = np.random.default_rng(2).random(codes.shape) < 0.5
    return secure.HeldCells(schema, np.where(alices if role == "alice" else ~alices, codes, -1))


def half_the_columns(schema: secure.Schema, codes: Any, role: str) -> secure.HeldCells:
    """The first half of the columns is Alice's."""
    alices = np.arange(codes.shape[1]) < codes.shape[1] // 2
    return secure.HeldCells(schema, np.where(alices if role == "alice" else ~alices, codes, -1))


Task = tuple[str, Callable[[], tuple[secure.Schema, Any]], Callable[..., Any], str, dict[str, Any]]
TASKS: dict[str, Task] = {
    "adult": ("ID3, Adult, min_rows 100", lambda: real_table("adult", ADULT), half_the_rows,
              "id3", {"target": "income", "min_rows": 100}),
    "adult-all": ("ID3, Adult, min_rows 2, no limit", lambda: real_table("adult", ADULT),
                  half_the_rows, "id3", {"target": "income", "min_rows": 2}),
    "adult-fine": ("ID3, Adult, min_rows 100, fine", lambda: real_table("adult", ADULT),
                   half_the_rows, "id3", {"target": "income", "min_rows": 100, "fine": True}),
    "nursery": ("ID3, Nursery, no limit", lambda: real_table("nursery"), half_the_rows,
                "id3", {"target": "class"}),
    "nursery-cells": ("ID3, Nursery, cells split, depth 2", lambda: real_table("nursery"),
                      half_the_cells, "id3", {"target": "class", "max_depth": 2}),
    "net-rows": ("net, 100,000 x 6, rows split", made_table, half_the_rows,
                 "bayes_net", {"max_parents": 5, "score": "stirling"}),
    "net-columns": ("net, 100,000 x 6, columns split", made_table, half_the_columns,
                    "bayes_net", {"max_parents": 5, "score": "stirling"}),
    "net-cells": ("net, 100,000 x 6, cells split", made_table, half_the_cells,
                  "bayes_net", {"max_parents": 5, "score": "stirling"}),
}  # fmt: skip


def party(role: str, port: int, keys: str, task: str) -> None:
    """One party's process: a task, its result and costs as JSON on the last line."""
    _, data, split, program, options = TASKS[task]
    held = split(*data(), role)
    secure.warm_up()
    other = "bob" if role == "alice" else "alice"
    folder = Path(keys)
    tls = secure.TLS(folder / f"{role}.crt", folder / f"{role}.key", folder / f"{other}.crt")
    meet = secure.listen if role == "alice" else secure.connect
    with meet(role, ("127.0.0.1", port), program=program, tls=tls) as session:
        wall, cpu = time.perf_counter(), time.process_time()
        protocol = secure.grow_tree if program == "id3" else secure.search_net
        result = protocol(session, held, **options)
        taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    costs = session.report().to_dict()
    print(json.dumps({"result": result.to_dict(), "costs": costs, **taken}))


def _plain(program: str) -> Callable[..., Any]:
    """The same model of the pooled rows, as the tests compute it."""
    tests = str(Path(__file__).parents[1] / "tests")
    if tests not in sys.path:
        sys.path.insert(0, tests)
    return getattr(import_module("pooled_models"), f"plain_{program}")  # type: ignore[no-any-return]


def run(task: str) -> dict[str, Any]:
    """Run two processes, check that both agree with the plain result."""
    title, data, split, program, options = TASKS[task]
    with tempfile.TemporaryDirectory() as keys:
        for role in ("alice", "bob"):
            secure.make_keys(keys, role)
        command = [sys.executable, __file__, "--party"]
        port = str(free_port())
        processes = [
            subprocess.Popen([*command, role, port, keys, task], stdout=subprocess.PIPE, text=True)
            for role in ("alice", "bob")
        ]
        outputs = [process.communicate()[0] for process in processes]
    alice, bob = (json.loads(output.splitlines()[-1]) for output in outputs)
    assert alice["result"] == bob["result"], f"{task}: the two sides differ"
    schema, codes = data()
    largest = max(len(split(schema, codes, r).everything()) for r in ("alice", "bob"))
    bits = largest.bit_length() + (split is half_the_rows)
    started = time.perf_counter()
    plain = _plain(program)(schema, codes, bits=bits, **options)
    plainly = time.perf_counter() - started
    found = plain.tree if program == "id3" else plain.net
    same = {**found.to_dict(), "tolerance": 0} == {**alice["result"], "tolerance": 0}
    closest = min(plain.gaps.values())
    if not same:
        assert program == "id3", f"{task}: another net than the plain one"
        trees = alice["result"]["tree"], found.to_dict()["tree"]
        tolerance = alice["result"]["tolerance"]
        assert explained(schema, *trees, plain.gaps, tolerance), f"{task}: another tree"
    costs = alice["costs"]
    return {
        "title": title,
        "equal to plain": same,
        "closest decision (nats)": closest,
        "tolerance (nats)": alice["result"]["tolerance"],
        "wall": max(alice["wall"], bob["wall"]),
        "cpu": max(alice["cpu"], bob["cpu"]),
        "plain": plainly,
        "bytes": costs["bytes_sent"] + costs["bytes_received"],
        "rounds": costs["rounds"],
        "and_gates": costs["and_gates"],
        "oblivious_transfers": costs["oblivious_transfers"],
        "size": alice["result"].get("splits") or alice["result"].get("parents"),
    }


def explained(
    schema: secure.Schema, found: Any, plain: Any, gaps: Any, tolerance: float, path: Any = ()
) -> bool:
    """Whether two trees part only where gains are equal within the stated error."""
    if found == plain:
        return True
    if "label" in found or "label" in plain:
        return False
    if found["column"] != plain["column"]:
        return bool(gaps[path] <= tolerance)
    column = schema.position(found["column"])
    branches = enumerate(zip(found["branches"].values(), plain["branches"].values(), strict=True))
    return all(
        explained(schema, *pair, gaps, tolerance, (*path, (column, value)))
        for value, pair in branches
    )


def main(chosen: list[str] | None = None) -> dict[str, Any]:
    """Run everything, print the table and write the results."""
    comparisons, facts = [], {}
    for task in chosen or TASKS:
        found = run(task)
        title = found.pop("title")
        ours = Measured(found.pop("wall"), found.pop("cpu"))
        comparisons.append(Comparison(title, {"two parties": ours}))
        facts[title] = found
    return report(
        "secure models", comparisons, data="rows of two parties, TLS on loopback", versions={},
        facts=facts,
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--party"]:
        party(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        main(sys.argv[1:])
