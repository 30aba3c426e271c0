"""Joint models: leakage, exact fits, scale, and peers.

    python -m benchmarks.joint
    python -m benchmarks.joint --only peers,leakage

Prints tables and writes ``.benchmarks/joint-measured.json``. Seconds are CPU seconds of this
process and its children unless they say wall.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from benchmarks.runner import RESULTS, Comparison, compare, report
from sfumato.joint import (
    Agreement,
    Category,
    Number,
    Outcome,
    Projection,
    concordance,
    fit_cox,
    fit_shares,
    fit_svm,
    grid_attack,
    leakage,
    make_share,
    project,
    read_model,
    round_to,
    safe_rounding,
)
from sfumato.secure import make_keys

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "scikit-survival", "lifelines")
VERSIONS = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
PARTS = ("peers", "leakage", "exact", "scale")


def main() -> None:
    """Run the chosen parts and write what they measured."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    words.add_argument("--splits", type=int, default=100)
    words.add_argument("--out", type=Path, default=RESULTS / "joint-measured.json")
    given = words.parse_args()
    results: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    results["versions"] = VERSIONS
    for part in given.only.split(","):
        print(f"\n== {part}", flush=True)
        with threadpool_limits(1):  # threads that wait for each other would count as CPU seconds
            results[part] = globals()[f"measure_{part}"](given.splits)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    print(f"\nwritten to {given.out}")


def study(name: str, **projection: object) -> Any:
    """A study as the tests define it."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.insert(0, str(ROOT / "tests"))
    from joint_studies import study as made

    return made(name, **projection)


def cpu() -> float:
    """CPU seconds of this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(entry.ru_utime + entry.ru_stime for entry in used)


def measure_peers(splits: int) -> list[dict[str, Any]]:
    """The same answers as the usual libraries, and how much faster."""
    import pandas as pd
    from lifelines import CoxPHFitter
    from lifelines.utils import concordance_index
    from sklearn.svm import LinearSVC
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.metrics import concordance_index_censored

    flchain = study("flchain")
    x, (t, e) = flchain.encoded.matrix, flchain.outcome
    frame = pd.DataFrame(x).assign(t=t, e=e)
    outcome = np.array(list(zip(e, t, strict=True)), dtype=[("e", bool), ("t", float)])
    lived = t > 1825
    compared: list[Comparison] = []

    def against(
        what: str, ours: Callable[[], Any], peer: str, theirs: Callable[[], Any], tolerance: float
    ) -> None:
        def same(mine: Any, other: Any) -> bool:
            return bool(np.abs(np.asarray(mine) - np.asarray(other)).max() <= tolerance)

        compared.append(compare(what, {"sfumato": ours, peer: theirs}, same=same))

    against(
        "Cox, Efron ties, flchain",
        lambda: fit_cox(x, t, e).coefficients,
        "lifelines",
        lambda: CoxPHFitter().fit(frame, "t", "e", fit_options={"precision": 1e-11}).params_,
        1e-6,
    )
    against(
        "Cox, Efron ties, flchain",
        lambda: fit_cox(x, t, e).coefficients,
        "scikit-survival",
        lambda: CoxPHSurvivalAnalysis(ties="efron", tol=1e-12).fit(x, outcome).coef_,
        1e-6,
    )
    risk = fit_cox(x, t, e).risk(x)
    against(
        "concordance, flchain",
        lambda: concordance(t, e, risk),
        "scikit-survival",
        lambda: concordance_index_censored(e, t, risk)[0],
        1e-9,
    )
    against(
        "concordance, flchain",
        lambda: concordance(t, e, risk),
        "lifelines",
        lambda: concordance_index(t, -risk, e),
        1e-3,
    )
    against(
        "SVM, squared hinge, flchain",
        lambda: fit_svm(x, lived, nu=2.0).coefficients,
        "scikit-learn",
        lambda: LinearSVC(C=1.0, dual=False, tol=1e-10, max_iter=10_000).fit(x, lived).coef_[0],
        1e-4,
    )
    report("joint", compared, data="flchain, 7,874 rows of 8 columns", versions=VERSIONS)
    return [asdict(comparison) for comparison in compared]


def measure_leakage(splits: int) -> dict[str, Any]:
    """What lung shares give away by m̄ and rounding, and the step each study would publish at."""
    table = []
    for matrix in ("gaussian", "orthonormal"):
        for size in (5, 4, 3, 2, 1):
            lung = study("lung", dimensions=size, matrix=matrix)
            encoded = lung.encoded
            published = project(encoded.matrix, lung.agreement)
            row: dict[str, Any] = {"matrix": matrix, "dimensions": size}
            for step in (0.0, 1e-4, 1e-3, 1e-2, 1e-1):
                found = grid_attack(
                    round_to(published, step), encoded.options, lung.agreement, step
                )
                row[f"{step:g}"] = float(found.recovered.mean())
            row["safe"] = safe_rounding(encoded, lung.agreement, sample=None)[0]
            table.append(row)
            print(row, flush=True)
    studies = []
    for name in ("lung", "whas500", "gbsg2", "veteran", "flchain"):
        one = study(name)
        before = cpu()
        step, _ = safe_rounding(one.encoded, one.agreement)
        found = leakage(one.encoded, one.agreement, step, interval_rows=10)
        entry = {"study": name, "seconds": cpu() - before, **found.to_dict()}
        studies.append(entry)
        print(name, step, f"recovered {found.recovered} guessed {found.guessed:.4f}", found.pinned)
    return {"lung": table, "studies": studies}


def measure_exact(splits: int) -> dict[str, Any]:
    """Three processes over TLS on loopback, against the pooled fit."""
    results = {}
    for name in ("lung", "flchain"):
        one = study(name)
        parts = {"A": ["A", "B"], "B": ["C"], "C": ["D"]}
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home)
            (folder / "study.toml").write_text(one.agreement.to_toml())
            keys = {party: make_keys(folder / "keys", party) for party in parts}
            for party, members in parts.items():
                mask = np.isin(one.institution, members)
                pq.write_table(one.table.filter(pa.array(mask)), folder / f"{party}.parquet")
            with socket.socket() as sock:
                sock.bind(("127.0.0.1", 0))
                port = sock.getsockname()[1]
            before, started = cpu(), time.monotonic()
            running = [
                subprocess.Popen(_exact_command(party, parts, folder, keys, port), text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for party in parts
            ]  # fmt: skip
            for process in running:
                _, trouble = process.communicate(timeout=300)
                assert process.returncode == 0, trouble
            wall, spent = time.monotonic() - started, cpu() - before
            pooled = fit_cox(one.encoded.matrix, *one.outcome)
            models = [read_model(folder / f"{party}.json") for party in parts]
        difference = max(
            float(np.abs(model.coefficients - pooled.coefficients).max()) for model in models
        )
        assert difference <= 1e-6, difference
        results[name] = {
            "rows": one.table.num_rows,
            "wall_s": wall,
            "cpu_s": spent,
            "iterations": models[0].iterations,
            "difference": difference,
            "load": os.getloadavg()[0],
            "revealed": dict(models[0].revealed or {}),
        }
        print(name, results[name], flush=True)
    return results


def _exact_command(
    party: str, parts: dict[str, Any], folder: Path, keys: dict[str, Any], port: int
) -> list[str]:
    others = []
    for other in parts:
        if other != party:
            others += ["--party", f"{other}={keys[other].certificate}"]
    return [
        sys.executable, "-m", "sfumato", "joint", "fit", "cox", f"{folder}/{party}.parquet",
        "--exact", "--agreement", f"{folder}/study.toml", "--name", party, "--coordinator", "A",
        "--listen" if party == "A" else "--connect", f"127.0.0.1:{port}",
        "--certificate", str(keys[party].certificate), "--key", str(keys[party].key), *others,
        "-o", f"{folder}/{party}.json", "--json",
    ]  # fmt: skip


def measure_scale(splits: int) -> dict[str, Any]:
    """One million rows of 50 columns: share (2,000 rows attacked) and fit."""
    table, agreement = _million(1_000_000)
    fit_cox(np.random.default_rng(0).random((50, 2)), np.arange(1.0, 51), np.ones(50, bool))
    before = cpu()
    made = make_share(table, agreement, "A", attack_rows=2_000)
    shared = cpu() - before
    assert made.share is not None
    before = cpu()
    model = fit_shares([made.share], "cox")
    fitted = cpu() - before
    result = {
        "rows": table.num_rows,
        "columns": agreement.encoded,
        "attacked_rows": made.leakage.attacked_rows,
        "rounding": made.rounding,
        "share_s": shared,
        "fit_s": fitted,
        "iterations": model.iterations,
        "price": dict(made.price or {}),
    }
    print(result)
    return result


def _million(rows: int) -> tuple[pa.Table, Agreement]:
    rng = np.random.default_rng(0)
    columns: list[Category | Number] = []
    data: dict[str, Any] = {}
    score = np.zeros(rows)
    for k in range(50):
        name = f"c{k}"
        if k < 10:
            columns.append(Category(name, ("0", "1")))
            data[name] = rng.integers(0, 2, rows).astype(np.int8)
        elif k < 20:
            columns.append(Number(name, 0, 10, 1))
            data[name] = rng.integers(0, 11, rows).astype(np.int8)
        else:
            columns.append(Number(name, 0, 1, 0.01))
            data[name] = rng.integers(0, 101, rows) / 100
        score += data[name] / (10 if 10 <= k < 20 else 1) * rng.normal(0, 0.5)
    data["t"] = np.minimum(np.ceil(rng.exponential(np.exp(-score) * 500)), 3000)
    data["e"] = ((rng.random(rows) < 0.6) & (data["t"] < 3000)).astype(np.int8)
    outcome = Outcome(time="t", event="e", time_max=3000, horizon=730)
    return pa.table(data), Agreement("big", tuple(columns), outcome, Projection("s", 49))


if __name__ == "__main__":
    main()
