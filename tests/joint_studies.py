"""Public survival studies with institutions, real (lung) or constructed, as joint studies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from samples import survival
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

NAMES = ("lung", "whas500", "gbsg2", "veteran", "flchain")
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
    """A study by name."""
    table = survival(name)
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
    "whas500": (
        (
            Number("age", 30, 105, 1),
            Category("gender", ("0", "1")),
            Number("bmi", 13, 45, 0.1),
            Number("hr", 35, 190, 1),
            Number("sysbp", 55, 245, 1),
            Category("chf", ("0", "1")),
            Category("sho", ("0", "1")),
            Category("mitype", ("0", "1")),
        ),
        Outcome(time="lenfol", event="fstat", time_max=2400, horizon=365),
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
