"""Which engine a table gets: in memory where its codes fit, DuckDB where they do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sfumato.budget import checked_memory, parse_memory
from sfumato.errors import ParameterError, did_you_mean

if TYPE_CHECKING:
    from sfumato.engines.protocol import Engine, Source

__all__ = ["EngineName", "available_memory", "embedded_engine", "memory_in_bytes"]

EngineName = Literal["auto", "memory", "duckdb"]
_ENGINES = ("auto", "memory", "duckdb")
_UNKNOWN_MEMORY = 1 << 31
"""Assumed to be free on a system that cannot tell."""


def embedded_engine(source: Source, engine: str, memory: int | None, threads: int | None) -> Engine:
    """The engine for rows that this process reads itself.

    Parameters
    ----------
    source
        The rows.
    engine
        ``memory``, ``duckdb``, or ``auto`` to go by size.
    memory
        Bytes the engine may take; None is half of the memory that is free now.
    threads
        Upper limit of threads; None means all cores.
    """
    check_engine(engine)
    if engine == "auto":
        limit = memory if memory is not None else available_memory() // 2
        engine = "memory" if source.code_bytes() <= limit else "duckdb"
    if engine == "memory":
        from sfumato.engines.memory import MemoryEngine

        return MemoryEngine(source, threads=threads, memory=memory)
    from sfumato.engines.duckdb import DuckDB
    from sfumato.engines.sql_engine import SQLEngine

    return SQLEngine(DuckDB(source, memory=memory, threads=threads))


def check_engine(engine: str) -> None:
    """Refuse an engine that does not exist."""
    if engine not in _ENGINES:
        raise ParameterError(
            f"there is no engine `{engine}`",
            remedy=did_you_mean(engine, _ENGINES)
            + " Databases are chosen by their URL, Spark by its data frame.",
        )


def memory_in_bytes(memory: int | str | None) -> int | None:
    """A memory limit given as a number of bytes or as people write it.

    Examples
    --------
    >>> memory_in_bytes("1GB"), memory_in_bytes(None)
    (1073741824, None)
    """
    if isinstance(memory, str):
        return parse_memory(memory)
    return None if memory is None else checked_memory(memory)


def available_memory() -> int:
    """Bytes of memory that are free for use, also inside a container."""
    free = _free_of_machine()
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        if limit != "max":
            free = min(free, max(int(limit) - int(used), 0))
    except (OSError, ValueError):
        pass
    return free


def _free_of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    if not hasattr(os, "sysconf"):  # Windows
        return _UNKNOWN_MEMORY
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
