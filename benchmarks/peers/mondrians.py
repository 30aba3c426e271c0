"""Other people's Mondrians: reads a question, prints groups of row numbers and timings as JSON.

Each lives in an environment of its own and is asked for its partitions alone, without the text of
the release where it can be asked that way; the frame is loaded before the clock starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Groups = Iterable[Iterable[int]]
Work = Callable[[], Groups]


def anonypy(frame: Any, columns: list[str], k: int) -> Work:
    """Its preserver's partitions."""
    import anonypy as peer

    frame = categorical(frame, columns)
    return lambda: peer.Preserver(frame, columns, columns[0]).modrian.partition(k)


def anonypyx(frame: Any, columns: list[str], k: int) -> Work:
    """The fork's partitions."""
    from anonypyx.anonymiser import Anonymiser

    frame = categorical(frame, columns)

    def work() -> Groups:
        asked = Anonymiser(frame, k=k, feature_columns=columns, algorithm="Mondrian")
        return asked.algorithm.partition(asked.parameters)

    return work


def umbra(frame: Any, columns: list[str], k: int) -> Work:
    """umbra-k's partitions; it parts equal values (relaxed Mondrian)."""
    from umbra_k import MondrianAnonymizer

    def work() -> Groups:
        asked = MondrianAnonymizer(k=k, quasi_id=columns)
        asked._partition(frame)
        return asked._partitions

    return work


def polarfrost(frame: Any, columns: list[str], k: int) -> Work:
    """polarfrost gives one row a group; the row numbers as sensitive values tell who is in it."""
    import polars
    from polarfrost.mondrian import mondrian_k_anonymity_polars

    table = polars.DataFrame(frame.to_dict("list")).with_columns(
        polars.int_range(polars.len()).cast(polars.String).alias("the row")
    )
    texts = textual(frame, columns)

    def work() -> Groups:
        made = mondrian_k_anonymity_polars(table, columns, "the row", k, texts)
        return [[int(row) for row in text.split(",")] for text in made["the row"].to_list()]

    return work


def privacy_preserver(frame: Any, columns: list[str], k: int) -> Work:
    """Its partitions, made as its `k_anonymizer` makes them."""
    from preserver.mondrian_utils.utility import get_full_span, partition_dataset

    texts = set(textual(frame, columns))

    def work() -> Groups:
        scale = get_full_span(frame, texts)
        return partition_dataset(frame, k, None, None, texts, columns, columns[0], scale)

    return work


def aijack(frame: Any, columns: list[str], k: int) -> Work:
    """AIJack's Mondrian in C++, compiled from its source distribution without its other parts."""
    core = compiled_aijack()
    texts = textual(frame, columns)
    ordered = {name: name not in texts for name in columns}
    table = core.DataFrame(columns, ordered, 0)
    for name, numbers in ordered.items():
        kind = "continuous" if numbers else "categorical"
        getattr(table, f"insert_{kind}_column")(name, frame[name].tolist())

    def work() -> Groups:
        asked = core.Mondrian(k)
        asked.anonymize(table, columns, columns[0])
        return asked.get_final_partitions()

    return work


def compiled_aijack() -> Any:
    """The module around AIJack's headers, built beside the environment on first use."""
    import importlib.util

    folder = Path(sys.prefix) / "aijack"
    built = folder / f"aijack_mondrian{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not built.exists():
        import pybind11

        download = ["pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        download += ["--no-build-isolation", "--dest", str(folder), "aijack==0.0.1b2"]
        subprocess.run([sys.executable, "-m", *download], check=True)
        (archive,) = folder.glob("*.tar.gz")
        subprocess.run(["tar", "xzf", str(archive), "-C", str(folder)], check=True)
        (source,) = folder.glob("aijack-*/src")
        glue = Path(__file__).with_name("aijack_mondrian.cpp")
        includes = [source, pybind11.get_include(), sysconfig.get_path("include")]
        flags = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC"]
        flags += [f"-I{place}" for place in includes]
        subprocess.run(["g++", *flags, str(glue), "-o", str(built)], check=True)
    spec = importlib.util.spec_from_file_location("aijack_mondrian", built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def categorical(frame: Any, columns: list[str]) -> Any:
    """The frame with text columns as categories, as some ask for."""
    return frame.astype(dict.fromkeys(textual(frame, columns), "category"))


def textual(frame: Any, columns: list[str]) -> list[str]:
    """Columns that hold no numbers."""
    from pandas.api.types import is_numeric_dtype

    return [name for name in columns if not is_numeric_dtype(frame[name])]


PEERS = {
    work.__name__: work
    for work in (anonypy, anonypyx, umbra, polarfrost, privacy_preserver, aijack)
}


def main() -> None:
    """Answer one question: which peer, a Parquet file, columns, k, and how often."""
    import pandas

    question = json.load(sys.stdin)
    frame = pandas.read_parquet(question["path"], columns=question["columns"])
    work = PEERS[question["peer"]](frame, question["columns"], question["k"])
    walls, cpus = [], []
    groups: Groups = []
    for _ in range(question.get("repetitions", 1)):
        wall, cpu = time.perf_counter(), time.process_time()
        groups = work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    rows = [[int(row) for row in group] for group in groups]
    print(json.dumps({"groups": rows, "wall": min(walls), "cpu": min(cpus)}))


if __name__ == "__main__":
    main()
