"""Real public tables for tests: those of ``data/``, and survival studies of installed packages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa

__all__ = ["ADULT_QI", "FOLDER", "sample_path", "survival"]

FOLDER = Path(__file__).parents[1] / "data"
ADULT_QI = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass",
            "occupation"]  # fmt: skip
"""What others may know of the people in ``arx_adult.parquet``."""


def sample_path(name: str) -> Path:
    """Path of a real table such as ``adult.parquet``."""
    path = FOLDER / name
    assert path.exists(), f"{name} belongs to the repository"
    return path


def survival(name: str) -> pa.Table:
    """A survival study as R's package `survival` spells it, from the Python package that ships it.

    ``lung``, ``gbsg2`` and ``rossi`` come with lifelines; ``flchain``, ``veteran`` and ``whas500``
    with scikit-survival, which writes some columns and codes differently.
    """
    if name in ("lung", "gbsg2", "rossi"):
        from lifelines import datasets

        frame = getattr(datasets, f"load_{name}")()
        if name == "lung":
            frame["status"] += 1  # 1 censored, 2 dead
    else:
        from sksurv import datasets

        loaded = {"veteran": "veterans_lung_cancer"}.get(name, name)
        frame, outcome = getattr(datasets, f"load_{loaded}")()
        for column in outcome.dtype.names:
            frame[column] = outcome[column].astype(int)
        if name == "veteran":
            frame = frame.rename(columns=_VETERAN)
            frame["trt"] = (frame["trt"] == "test") + 1
            frame["prior"] = (frame["prior"] == "yes") * 10
        elif name == "flchain":
            frame["mgus"] = (frame["mgus"] == "yes").astype(int)
    return _whole_numbers(pa.Table.from_pandas(frame, preserve_index=False))


_VETERAN = {
    "Age_in_years": "age",
    "Celltype": "celltype",
    "Karnofsky_score": "karno",
    "Months_from_Diagnosis": "diagtime",
    "Prior_therapy": "prior",
    "Treatment": "trt",
    "Status": "status",
    "Survival_in_days": "time",
}


def _whole_numbers(table: pa.Table) -> pa.Table:
    """Categories as text, and every column of whole numbers as integers."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        with suppress(pa.ArrowInvalid):
            values = values.cast(pa.int64())
        columns[name] = values
    return pa.table(columns)
