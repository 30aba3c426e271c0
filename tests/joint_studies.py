"""Public survival studies with institutions, real (lung, bmt) or constructed, as joint studies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samples import sample_path
from sfumato.joint import (
    Agreement,
    Category,
    Encoded,
    Number,
    Outcome,
    Projection,
    encode,
    encode_outcome,
)

__all__ = ["NAMES", "Study", "study"]

NAMES = ("lung", "bmt", "gbsg2", "veteran", "flchain")
_CENTRES = np.array(["A", "B", "C", "D"])


@dataclass(frozen=True)
class Study:
    """One study: everybody's rows, who holds them, and the agreement."""

    name: str
    table: pa.Table
    institution: NDArray[np.str_]
    agreement: Agreement
    horizon: float

    @property
    def encoded(self) -> Encoded:
        """All rows, encoded."""
        return encode(self.table, self.agreement)

    @property
    def outcome(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Time and event of all rows."""
        time, event = encode_outcome(self.table, self.agreement)
        assert time is not None
        return time, event

    def part(self, institution: str) -> pa.Table:
        """The rows of one institution."""
        return self.table.filter(pa.array(self.institution == institution))


def study(name: str, **projection: object) -> Study:
    """A study by name; skips the test where the data is missing."""
    table = pq.read_table(sample_path(f"surv_{name}.parquet"))
    columns, outcome = _AGREED[name]
    size = sum(column.width for column in columns) - 1
    settings = {"seed": f"{name} study", "dimensions": size, **projection}
    agreement = Agreement(name, columns, outcome, Projection(**settings))  # type: ignore[arg-type]
    if name == "lung":
        table = table.drop_columns(["meal.cal"]).filter(pa.compute.is_valid(table["inst"]))
        number = table["inst"].to_numpy()
        # 18 institutions of 2 to 36 patients, merged into four sites
        groups = {1: "A", 12: "B", 13: "B", 3: "C", 11: "C", 22: "C"}
        institution = np.array([groups.get(int(i), "D") for i in number])
    elif name == "bmt":
        institution = _CENTRES[table["z9"].to_numpy() - 1]
    else:
        # constructed centres of unequal size: the paper's largest had twice the smallest
        rng = np.random.default_rng(2008)
        institution = rng.choice(_CENTRES, table.num_rows, p=[0.4, 0.3, 0.2, 0.1])
    return Study(name, table, institution, agreement, float(outcome.horizon or 0))


_AGREED = {
    "lung": (
        (
            Number("age", 39, 82, 1),
            Category("sex", ("1", "2")),
            Number("ph.ecog", 0, 3, 1, missing=1),
            Number("ph.karno", 50, 100, 10, missing=80),
            Number("pat.karno", 30, 100, 10, missing=80),
            Number("wt.loss", -24, 68, 1, missing=10),
        ),
        Outcome(time="time", event="status", event_value="2", time_max=1100, horizon=365),
    ),
    "bmt": (
        (
            Category("group", ("1", "2", "3")),
            Number("z1", 5, 60, 1),
            Number("z2", 0, 60, 1),
            Category("z3", ("0", "1")),
            Category("z4", ("0", "1")),
            Category("z8", ("0", "1")),
            Category("z10", ("0", "1")),
        ),
        Outcome(time="t1", event="d1", time_max=2700, horizon=730),
    ),
    "gbsg2": (
        (
            Category("horTh", ("no", "yes")),
            Number("age", 20, 80, 1),
            Category("menostat", ("Pre", "Post")),
            Number("tsize", 0, 120, 1),
            Category("tgrade", ("I", "II", "III"), ordered=True),
            Number("pnodes", 0, 51, 1),
            Number("progrec", 0, 2400, 1),
            Number("estrec", 0, 1200, 1),
        ),
        Outcome(time="time", event="cens", time_max=2700, horizon=730),
    ),
    "veteran": (
        (
            Category("trt", ("1", "2")),
            Category("celltype", ("squamous", "smallcell", "adeno", "large")),
            Number("karno", 0, 100, 1),
            Number("diagtime", 0, 90, 1),
            Number("age", 30, 85, 1),
            Category("prior", ("0", "10")),
        ),
        Outcome(time="time", event="status", time_max=1000, horizon=90),
    ),
    "flchain": (
        (
            Number("age", 50, 105, 1),
            Category("sex", ("F", "M")),
            Number("sample.yr", 1995, 2003, 1),
            Number("kappa", 0, 25, 0.01),
            Number("lambda", 0, 30, 0.01),
            Number("flc.grp", 1, 10, 1),
            Number("creatinine", 0, 12, 0.1, missing=1.1),
            Category("mgus", ("0", "1")),
        ),
        Outcome(time="futime", event="death", time_max=5300, horizon=1825),
    ),
}
