"""Keys and quasi-identifiers, against Desbordante, loops of DuckDB group-bys, and `suda`.

Peers that read files are timed with reading, on the same CSV; both sides are warm. Answers must be
equal. PyroUCC rounds its error to 1/32768 and so finds other sets: there the counts stand beside
each other, and ours is checked against counting all column sets.

``python -m benchmarks.finding`` runs all; ``--only adult covtype census …`` a part.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from benchmarks.census import census_file
from benchmarks.runner import (
    Comparison,
    Measured,
    PeerMissing,
    ask_peer,
    compare,
    measure,
    peer_environment,
    report,
)
from benchmarks.tables import adult, as_csv, covtype

__all__ = ["main"]

PEERS = Path(__file__).parent / "peers"
REPETITIONS = 5
Facts = dict[str, Any]


def desbordante(
    file: Path, algorithm: str, *, repetitions: int = REPETITIONS, **options: float
) -> dict[str, Any]:
    """What Desbordante finds in a file, and how long it took with reading."""
    interpreter = peer_environment("desbordante", ["desbordante==2.5.0"])
    return ask_peer(
        interpreter,
        PEERS / "desbordante_keys.py",
        {
            "file": str(file),
            "algorithm": algorithm,
            "options": options,
            "repetitions": repetitions,
        },
    )


def best(call: Callable[[], Any], repetitions: int = REPETITIONS) -> tuple[Any, Measured]:
    """The answer and the least time of several calls, after one that warms up."""
    answer = call()
    times = [measure(call)[1] for _ in range(repetitions)]
    return answer, Measured(min(t.wall for t in times), min(t.cpu for t in times))


def positions(file: Path, keys: Any) -> list[list[int]]:
    """Sets of names as sorted sets of column numbers, as Desbordante reports them."""
    columns = sf.table(str(file)).columns
    return sorted(sorted(columns.index(name) for name in key) for key in keys)


def minimal_keys(name: str, file: Path, algorithms: tuple[str, ...]) -> list[Comparison]:
    """All minimal keys of a CSV file, reading included."""
    found, taken = best(lambda: sf.minimal_keys(str(file), expand=True))
    ours = positions(file, found.keys)
    comparisons = []
    for algorithm in algorithms:
        theirs = desbordante(file, algorithm)
        assert ours == sorted(theirs["sets"]), f"{algorithm} finds other keys in {name}"
        peer = {f"{algorithm}": Measured(theirs["wall"], theirs["cpu"])}
        comparisons.append(
            Comparison(f"{name}: all {len(ours)} minimal keys", {"sfumato": taken, **peer})
        )
    return comparisons


def separation_sets(file: Path, facts: Facts) -> list[Comparison]:
    """Minimal 0.999-separation sets of Adult; PyroUCC's are not quite those."""
    found, taken = best(
        lambda: sf.minimal_keys(str(file), measure="separation", beta=0.999, expand=True)
    )
    counted = sf.minimal_keys(
        str(file), measure="separation", beta=0.999, expand=True, method="agree-sets"
    )
    assert counted.keys == found.keys
    theirs = desbordante(file, "PyroUCC", repetitions=2, error=0.001, seed=0)
    facts["minimal 0.999-separation sets"] = len(found.keys)
    facts["sets that PyroUCC reports"] = len(theirs["sets"])
    return [
        Comparison(
            "Adult: minimal 0.999-separation sets",
            {"sfumato": taken, "PyroUCC": Measured(theirs["wall"], theirs["cpu"])},
        )
    ]


def greedy_by_group_bys(connection: duckdb.DuckDBPyConnection, names: list[str]) -> list[str]:
    """A greedy key as one would write it on a database: a group-by for every candidate."""
    chosen: list[str] = []
    left: int | None = None
    while left is None or left > 0:
        pairs: dict[str, int] = {}
        for name in names:
            if name not in chosen:
                quoted = ", ".join(f'"{column}"' for column in (*chosen, name))
                pairs[name] = connection.execute(
                    "SELECT coalesce(sum(size * (size - 1) // 2), 0) FROM "
                    f"(SELECT count(*) AS size FROM t GROUP BY {quoted})"
                ).fetchall()[0][0]
        best_name = min(pairs, key=lambda name: pairs[name])
        if pairs[best_name] == left:
            break
        left = pairs[best_name]
        chosen.append(best_name)
    return chosen


def exact_greedy(table: pa.Table) -> list[Comparison]:
    """Exact greedy key of covtype; DuckDB works on the same integer codes."""
    codes = sf.table(table).codes()
    connection = duckdb.connect()
    loaded = pa.table(dict(zip(codes.columns, codes.arrays, strict=True)))
    connection.register("loaded", loaded)
    connection.execute("CREATE TABLE t AS SELECT * FROM loaded")
    names = list(codes.columns)

    def ours() -> list[str]:
        found = sf.minimum_key(sf.table(table))
        return [str(step["column"]) for step in found.steps]

    ours()
    return [
        compare(
            "covtype: exact greedy key",
            {"sfumato": ours, "duckdb": lambda: greedy_by_group_bys(connection, names)},
            repetitions=2,
        )
    ]


def proven(tables: Mapping[str, pa.Table]) -> Facts:
    """Proven minimum keys, encoding included."""
    facts: Facts = {}
    for name, table in tables.items():
        found, taken = best(lambda t=table: sf.minimum_key(sf.table(t), proven=True), 3)
        assert found.proven_minimum
        facts[f"{name}: CPU seconds to a proven minimum of {found.size}"] = round(taken.cpu, 3)
    return facts


def all_subsets(table: pa.Table) -> list[Comparison]:
    """Both ratios of all 4,095 column sets of 12 columns, against one group-by each."""
    from sfumato.budget import Budget
    from sfumato.quasi.lattice import all_subsets as count_all

    chosen = table.select(table.column_names[:12])
    codes = sf.table(chosen).codes()
    rows = codes.rows
    connection = duckdb.connect()
    connection.register("loaded", pa.table(dict(zip(codes.columns, codes.arrays, strict=True))))
    connection.execute("CREATE TABLE t AS SELECT * FROM loaded")

    def ratios(pairs: Any, classes: Any) -> np.ndarray[Any, Any]:
        total = rows * (rows - 1) // 2
        return np.stack([1 - np.asarray(pairs) / total, np.asarray(classes) / rows])

    def ours() -> np.ndarray[Any, Any]:
        every = count_all(sf.table(chosen).codes(), Budget())
        return ratios(every[1:, 0], every[1:, 1])

    def theirs() -> np.ndarray[Any, Any]:
        found = []
        for mask in range(1, 1 << 12):
            names = ", ".join(f'"{n}"' for at, n in enumerate(codes.columns) if mask >> at & 1)
            found.append(
                connection.execute(
                    "SELECT sum(size * (size - 1) // 2)::BIGINT, count(*) FROM "
                    f"(SELECT count(*) AS size FROM t GROUP BY {names})"
                ).fetchall()[0]
            )
        pairs, classes = zip(*found, strict=True)
        return ratios(pairs, classes)

    ours()
    return [
        compare(
            "Adult: both ratios of 4,095 column sets",
            {"sfumato": ours, "duckdb": theirs},
            repetitions=1,
            same=lambda a, b: bool(np.abs(a - b).max() <= 1e-12),
        )
    ]


def minimal_uniques(file: Path) -> tuple[list[Comparison], str]:
    """Minimal sample uniques of at most three columns.

    The package `suda` counts sets that are not minimal too, so scores differ; the size of the
    smallest set that singles a row out does not.
    """
    interpreter = peer_environment("suda", ["suda==0.2.2"])
    theirs = ask_peer(
        interpreter,
        PEERS / "suda_uniques.py",
        {"file": str(file), "rows": 1 << 40, "max_size": 3},
    )
    table = sf.table(str(file))
    table.codes()
    found, taken = best(lambda: sf.uniques(table, max_size=3))
    assert found.smallest.tolist() == theirs["smallest"], "suda finds other uniques"
    peer = Measured(theirs["wall"], theirs["cpu"])
    task = "Adult: smallest uniques of at most 3 columns"
    return [Comparison(task, {"sfumato": taken, "suda": peer})], theirs["version"]


def sample_sizes() -> Facts:
    """Rows that do what pairs do, ε = 0.001, δ = 0.01."""
    from sfumato.quasi.sampling import pairs_for_separation, rows_for_separation

    facts: Facts = {}
    for width in (14, 41, 54):
        rows = rows_for_separation(width, 0.001, 0.01)
        pairs = pairs_for_separation(width, 0.001, 0.01)
        facts[f"{width} columns: rows, pairs, ratio"] = (rows, pairs, round(pairs / rows, 1))
    return facts


def ten_million(rows: int) -> Facts:
    """Exact greedy key of the census-like table, encoding included."""
    file = census_file(rows)
    found, taken = measure(lambda: sf.minimum_key(sf.table(str(file), engine="memory")))
    again = sf.table(str(file), engine="memory")
    _, encoding = measure(again.codes)
    return {
        f"census {rows:,} x 41: greedy key, columns": found.size,
        "CPU seconds with encoding": round(taken.cpu, 1),
        "of which encoding": round(encoding.cpu, 1),
    }


def main() -> None:
    """Run the benchmark."""
    parts = ("adult", "covtype", "greedy", "proven", "subsets", "uniques", "census")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=parts, default=parts)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options, _ = parser.parse_known_args()
    small, large = adult(), covtype()
    comparisons: list[Comparison] = []
    facts = sample_sizes()
    versions = {"desbordante": "2.5.0", "duckdb": duckdb.__version__}
    adult_file = as_csv("adult", small)
    with suppress(PeerMissing):
        if "adult" in options.only:
            comparisons += minimal_keys("Adult", adult_file, ("HPIValid", "HyUCC"))
            comparisons += separation_sets(adult_file, facts)
        if "covtype" in options.only:
            comparisons += minimal_keys("covtype", as_csv("covtype", large), ("HPIValid",))
    if "greedy" in options.only:
        comparisons += exact_greedy(large)
    if "proven" in options.only:
        facts |= proven({"Adult": small, "covtype": large})
    if "subsets" in options.only:
        comparisons += all_subsets(small)
    with suppress(PeerMissing):
        if "uniques" in options.only:
            found, versions["suda"] = minimal_uniques(adult_file)
            comparisons += found
    if "census" in options.only:
        facts |= ten_million(options.rows)
    title = "finding" if set(options.only) == set(parts) else "finding " + " ".join(options.only)
    report(title, comparisons, data="Adult and covtype", versions=versions, facts=facts)


if __name__ == "__main__":
    main()
