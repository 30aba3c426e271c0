"""One-dimensional anonymizers, sampled quantiles and the join attack.

Peers: pandas' ``qcut`` for quantiles, the paper's own recursion (appendix B, compiled) for the
dynamic programs, and DuckDB's range join for the attack; all must give the same answer. The sampled
quantiles run in a process of their own, so that the growth of its memory is theirs.

``python -m benchmarks.population`` runs all of it; ``--sampled`` only the sampled quantiles.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numba
import numpy as np

from benchmarks.runner import Comparison, Measured, compare, report

__all__ = ["main"]

MILLION = 1_000_000
K = 100
STREAM = 100_000_000
BATCH = 131_072


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def recursion(x: Any, k: int, kind: int) -> float:
    """The paper's recursion: the last group has k … 2k-1 elements. O(n·k), least cost only."""
    n = len(x)
    sums = np.zeros(n + 1)
    for i in range(n):
        sums[i + 1] = sums[i] + x[i]
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    for j in range(k, n + 1):
        for size in range(k, min(2 * k, j + 1)):
            a = j - size
            if kind == 0:
                m = (a + j - 1) // 2
                cost = x[m] * (m - a) - (sums[m] - sums[a])
                cost += (sums[j] - sums[m]) - x[m] * (j - m)
                best[j] = min(best[j], best[a] + cost)
            elif kind == 1:
                best[j] = min(best[j], best[a] + 0.5 * (x[j - 1] - x[a]) * size)
            else:
                best[j] = min(best[j], max(best[a], 0.5 * (x[j - 1] - x[a])))
    return float(best[n])


def one_column() -> list[Comparison]:
    """A million values, k = 100: quantiles and the three costs."""
    import pandas as pd

    from sfumato.kernels.sorted_groups import COSTS, grouping_cost, optimal_groups, quantile_mask

    values = np.random.default_rng(1).lognormal(size=MILLION)
    frame = pd.Series(values)

    def by_pandas() -> Any:
        group = pd.qcut(frame, MILLION // K, labels=False)
        return frame.groupby(group).transform("median").to_numpy()

    def close(ours: Any, theirs: Any) -> bool:
        # pandas takes the mean of the two middle elements and cuts one rank off here and there
        order = np.argsort(values)
        apart = np.abs(ours[order] - theirs[order]) > 0.02 * np.maximum(1.0, ours[order])
        return bool(apart.mean() < 0.02)

    quantile_mask(values[:1000], 10)
    found = [
        compare(
            "exact quantiles, 1 M values, k = 100",
            {"sfumato": lambda: quantile_mask(values, K), "pandas qcut": by_pandas},
            same=close,
        )
    ]
    x = np.sort(values)
    for kind, cost in enumerate(COSTS):
        for k in (K, 1_000):
            optimal_groups(x[:1000], 10, cost)
            recursion(x[:1000], 10, kind)

            def ours(cost: Any = cost, k: int = k) -> Any:
                return optimal_groups(x, k, cost)

            def plain(kind: int = kind, k: int = k) -> float:
                return recursion(x - x[len(x) // 2], k, kind)

            found.append(
                compare(
                    f"{cost}, 1 M values, k = {k}",
                    {"sfumato": ours, "the paper's recursion": plain},
                    repetitions=2,
                    same=lambda groups, least, cost=cost: bool(
                        abs(grouping_cost(x, groups, cost) - least) <= 1e-6 * least
                    ),
                )
            )
    return found


def masked_columns() -> Comparison:
    """The paper's table: 250,000 rows, 10 columns, k = 10,000 (the paper: 100 seconds)."""
    import pandas as pd

    from sfumato.kernels.sorted_groups import quantile_mask

    random = np.random.default_rng(2)
    columns = [random.normal(size=250_000) for _ in range(10)]

    def ours() -> Any:
        return [quantile_mask(column, 10_000) for column in columns]

    def by_pandas() -> Any:
        masked = []
        for column in columns:
            series = pd.Series(column)
            group = pd.qcut(series, 25, labels=False)
            masked.append(series.groupby(group).transform("median").to_numpy())
        return masked

    def close(a: Any, b: Any) -> bool:
        return all(bool(np.abs(u - v).mean() < 1e-3) for u, v in zip(a, b, strict=True))

    return compare(
        "250,000 rows x 10 columns", {"sfumato": ours, "pandas qcut": by_pandas}, same=close
    )


def attacked() -> Comparison:
    """2,000 released boxes of four columns against 200,000 people."""
    import duckdb
    import pyarrow as pa

    from sfumato.engines.protocol import Codes
    from sfumato.populations.attack import join_attack

    random = np.random.default_rng(3)
    names = ("age", "zip", "income", "children")
    people = random.integers(0, 100, size=(200_000, 4)).astype(np.uint8)
    low = random.integers(0, 80, size=(2_000, 4))
    high = low + random.integers(5, 40, size=(2_000, 4))
    outside = Codes(
        names,
        tuple(np.ascontiguousarray(people[:, i]) for i in range(4)),
        tuple(pa.array(range(100)) for _ in names),
    )
    arrays, labels = [], []
    for i in range(4):
        texts = [f"[{a}, {b}]" for a, b in zip(low[:, i], high[:, i], strict=True)]
        encoded = pa.array(texts).dictionary_encode()
        arrays.append(encoded.indices.to_numpy().astype(np.uint16))
        labels.append(encoded.dictionary)
    release = Codes(names, tuple(arrays), tuple(labels))
    table = pa.table({name: people[:, i] for i, name in enumerate(names)})
    boxes = pa.table(
        {"row": np.arange(2_000)}
        | {f"low_{name}": low[:, i] for i, name in enumerate(names)}
        | {f"high_{name}": high[:, i] for i, name in enumerate(names)}
    )
    connection = duckdb.connect()
    connection.register("people", table)
    connection.register("boxes", boxes)
    where = " and ".join(f"{n} between low_{n} and high_{n}" for n in names)
    query = f"select count(*) c from boxes left join people on {where} group by row"

    def ours() -> tuple[int, int]:
        found = join_attack(release, outside, names, k=100)
        return found.matches_k, int(found.smallest or 0)

    def by_duckdb() -> tuple[int, int]:
        counts = connection.sql(query).fetchnumpy()["c"]
        return int((counts >= 100).sum()), int(counts[counts > 0].min())

    ours()
    return compare(
        "join attack, 2,000 boxes x 200,000 people",
        {"sfumato": ours, "DuckDB range join": by_duckdb},
        repetitions=2,
    )


def sampled() -> dict[str, float]:
    """100 million values in one pass: CPU seconds and growth of memory in MiB."""
    from sfumato.populations.sampled_quantiles import ValueReservoir

    eps, delta = 0.001, 0.01
    warm = ValueReservoir(10)
    warm.add(np.arange(100.0))
    random = np.random.default_rng(4)
    batch = random.normal(size=BATCH)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    reservoir = ValueReservoir.for_ranks(eps, delta, seed=1)
    for start in range(0, STREAM, BATCH):
        reservoir.add((batch + start / BATCH)[: STREAM - start])
    median = float(reservoir.quantile([0.5])[0])
    taken = time.process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "values": STREAM,
        "sample": reservoir.size,
        "cpu": taken,
        "growth_mib": grown,
        "median": median,
    }


def main() -> None:
    """Run everything."""
    import duckdb
    import pandas as pd

    alone = subprocess.run(
        [sys.executable, "-m", "benchmarks.population", "--sampled"],
        check=True,
        capture_output=True,
        text=True,
    )
    stream = json.loads(alone.stdout.splitlines()[-1])
    comparisons = [*one_column(), masked_columns(), attacked()]
    comparisons.append(
        Comparison(
            "sampled quantiles, 100 M values in one pass",
            {"sfumato": Measured(stream["cpu"], stream["cpu"])},
        )
    )
    report(
        "population",
        comparisons,
        data="generated values",
        versions={"numpy": np.__version__, "pandas": pd.__version__, "duckdb": duckdb.__version__},
        facts={"sampled quantiles": stream},
    )


if __name__ == "__main__":
    if "--sampled" in sys.argv:
        print(json.dumps(sampled()))
    else:
        main()
