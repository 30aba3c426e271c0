"""Tables of the papers, or what stands in for them, as Arrow tables."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato import datasets

__all__ = ["adult_complete", "adult_distinct", "census_adults", "covtype", "oregon_adults", "read"]

COLUMNS = 41
"""How many attributes Motwani & Xu took from the census."""


def read(name: str) -> pa.Table:
    """A table that comes with the repository."""
    return pq.read_table(datasets.path(name))


@cache
def adult_complete() -> pa.Table:
    """The 30,162 rows of Adult's training part that miss no value."""
    return read("adult").drop_null()


@cache
def adult_distinct() -> pa.Table:
    """Adult as Motwani & Xu used it: 29,096 x 14.

    Training rows without `fnlwgt`, ``?`` as a value, each different row once in the order in which
    rows first appear.
    """
    return _distinct(read("adult").drop(["fnlwgt"]))


@cache
def covtype() -> pa.Table:
    """Covtype without its label: 581,012 x 54."""
    table = read("covtype")
    return table.select(table.column_names[:54])


@cache
def oregon_adults() -> pa.Table:
    """Adults of Oregon in the American Community Survey, the first 41 columns that vary.

    Stands in for a state of the census of 2000: numbers of households and persons, weights and
    flags of imputation are left out, and so are columns that mostly miss.
    """
    table = read("pums_oregon_calm_person")
    table = table.filter(pc.greater_equal(table.column("AGEP"), 20))
    skipped = {"SERIALNO", "SPORDER", "PUMA", "PUMA00", "PUMA10", "RT", "ST", "DIVISION", "REGION"}
    chosen = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name not in skipped
        and name.isupper()
        and not name.startswith(("F", "PWGT", "WGT", "ADJ"))
        and column.null_count < 0.7 * len(column)
        and pc.count_distinct(column, mode="all").as_py() > 1
    ]
    return _distinct(table.select(chosen[:COLUMNS]))


@cache
def census_adults() -> pa.Table:
    """Adults of Census-income (its test part), all 41 columns but the sampling weight.

    Stands in for the states of Motwani & Xu; it has the same questions but is another survey.
    """
    table = read("census_income_kdd_test")
    table = table.filter(pc.greater_equal(table.column("age"), 20))
    return _distinct(table.drop(["instance weight"]))


def _distinct(table: pa.Table) -> pa.Table:
    """Each different row once, in the order in which rows first appear; null becomes ``?``."""
    names = table.column_names
    filled = [
        pc.fill_null(column, "?") if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    table = pa.table(dict(zip(names, filled, strict=True)))
    at = table.append_column("row", pa.array(range(table.num_rows)))
    first = at.group_by(names).aggregate([("row", "min")]).column("row_min")
    return table.take(first.take(pc.sort_indices(first)))
