"""One page of what all benchmarks measured: machine, versions, ratios, and what was not run."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["QUIET", "machine", "others", "page"]

QUIET = 0.5
"""Up to so many other threads at work the machine counts as quiet."""
LONG = 200
"""Facts that take more letters than this stay in the JSON files."""

INTRODUCTION = """# What the benchmarks measured

Written by `make bench`. A ratio says how many times as long as ours another tool took for the
same answer, both timed in turns in one run, so ratios bear a busy machine better than seconds do,
and those of CPU seconds better than those of the wall clock. *Others* is how many threads of other
programs were at work in the second before a benchmark began.
"""


def machine() -> dict[str, Any]:
    """What a benchmark runs on, and how busy that is right now."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(errors="replace").splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "machine": f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": {"sfumato": version("sfumato"), "python": platform.python_version()},
        "load": round(os.getloadavg()[0], 1),
        "others": others(),
    }


def others() -> float | None:
    """Threads of others at work, on average over a second; the load average is slow to forget."""
    place = Path("/proc/loadavg")
    if not place.exists():
        return None
    seen = []
    for _ in range(10):
        seen.append(int(place.read_text().split()[3].split("/")[0]) - 1)  # without this thread
        time.sleep(0.1)
    return sum(seen) / len(seen)


def page(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The page, from the record of each benchmark; an empty record was never run."""
    done = {name: record for name, record in records.items() if record.get("state") == "done"}
    parts = [INTRODUCTION, *_machines(done), _overview(records)]
    parts += [_benchmark(name, record) for name, record in done.items()]
    return "\n".join(parts)


def _machines(done: Mapping[str, Mapping[str, Any]]) -> list[str]:
    told = dict.fromkeys(
        f"{record['machine']}; {_listed(record['versions'])}" for record in done.values()
    )
    return [f"- {line}" for line in told] + [""] * bool(told)


def _overview(records: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| benchmark | when | took | load | others | |", "|---|---|---:|---:|---:|---|"]
    for name, record in records.items():
        if record.get("state") == "done":
            took, others = f"{record['seconds']:,.0f} s", record["others"]
            busy = "" if others is None else "quiet" if others <= QUIET else "loaded"
            shown = "" if others is None else f"{others:.1f}"
            lines.append(
                f"| {name} | {record['when']} | {took} | {record['load']} | {shown} | {busy} |"
            )
        else:
            state = record.get("state", "not run")
            why = f": {record['why']}" if "why" in record else ""
            lines.append(f"| {name} | | | | | {state}{why.replace('|', '/')} |")
    return "\n".join([*lines, ""])


def _benchmark(name: str, record: Mapping[str, Any]) -> str:
    parts = []
    for report in record["reports"]:
        parts += [f"## {report['title']}", "", f"{report['data']}; {_listed(report['versions'])}."]
        parts += ["", *_ratios(report["comparisons"])]
        for peer, ratio in report["medians"].items():
            parts.append(
                f"- median ratio to {peer}: CPU {ratio['cpu']:.2f}, wall {ratio['wall']:.2f}"
            )
        for missing in report.get("missing", ()):
            parts.append(f"- not measured: {missing}, which cannot be installed here")
        for fact, value in report["facts"].items():
            told = _listed(value) if isinstance(value, dict) else str(value)
            if len(told) <= LONG:
                parts.append(f"- {fact}: {told}")
        parts.append("")
    return "\n".join(parts or [f"## {name}", "", "Its figures are on the pages it writes.", ""])


def _ratios(comparisons: list[dict[str, Any]]) -> list[str]:
    if not comparisons:
        return []
    lines = ["| task | who | CPU s | wall s | CPU ratio | wall ratio |",
             "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    for comparison in comparisons:
        first = next(iter(comparison["measured"].values()))
        for at, (who, taken) in enumerate(comparison["measured"].items()):
            seconds = [f"{taken[clock]:.3g}" for clock in ("cpu", "wall")]
            ratios = [
                f"{taken[c] / max(first[c], 1e-9):.2f}" if at else "" for c in ("cpu", "wall")
            ]
            task = "" if at else comparison["task"]
            lines.append(f"| {' | '.join([task, who, *seconds, *ratios])} |")
    return [*lines, ""]


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
