"""This party's table as codes of public categories, the only form in which it is counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sfumato.cli._running import Run
from sfumato.errors import ColumnError, SourceError, did_you_mean
from sfumato.files import read_text

if TYPE_CHECKING:
    from sfumato.secure import HeldCells, HeldRows, Schema, Session

__all__ = ["MISSING", "OwnTable", "Split", "read_schema"]

MISSING = "(missing)"
"""The category of empty cells, where each side has whole rows."""

_WRITTEN = 'Write e.g. {"sex": ["f", "m"], "stage": ["I", "II"]}'


class Split(StrEnum):
    """How the table is divided between the two."""

    rows = "rows"
    cells = "cells"


def read_schema(path: str) -> Schema:
    """Columns and categories from a JSON file, as both sides agreed on them."""
    from sfumato.secure import Schema

    try:
        told = json.loads(read_text(path, "the schema"))
    except ValueError as error:
        raise SourceError("this is not JSON", where=path, remedy=_WRITTEN) from error
    if not isinstance(told, dict) or not all(
        isinstance(values, list) and all(isinstance(value, str) for value in values)
        for values in told.values()
    ):
        raise SourceError(
            "a schema names columns, each with a list of categories as text",
            where=path,
            remedy=_WRITTEN,
        )
    return Schema.of(told)


class OwnTable:
    """The chosen columns of this side's table.

    Parameters
    ----------
    columns
        The columns to use; all if None.
    split
        Whole rows, or cells of common rows: then an empty cell is the other side's.
    max_values
        No column may have more categories: they are told to the other side.
    """

    def __init__(
        self, run: Run, columns: Sequence[str] | None, split: Split, max_values: int
    ) -> None:
        import numpy as np
        import pyarrow as pa

        self.split = split
        self.categories: dict[str, list[str]] = {}
        self._codes: dict[str, Any] = {}
        names = run.table.require(columns)
        batches = list(run.table.batches(names))
        self.rows = sum(batch.num_rows for batch in batches)
        table = pa.Table.from_batches(batches) if batches else None
        for name in names:
            if table is None:
                self.categories[name], self._codes[name] = [], np.zeros(0, np.int64)
                continue
            encoded = table.column(name).combine_chunks().dictionary_encode()
            values = [_text(value) for value in encoded.dictionary.to_pylist()]
            codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            self._codes[name] = codes.astype(np.int64)
            if split is Split.rows and (codes < 0).any():
                if MISSING in values:
                    raise ColumnError(
                        f"column `{name}` has empty cells and the category {MISSING}",
                        remedy="Fill the empty cells.",
                    )
                self._codes[name][codes < 0] = len(values)
                values.append(MISSING)
            if len(values) > max_values:
                raise ColumnError(
                    f"column `{name}` has {len(values):,} different values",
                    remedy="Leave it out (-x), make it coarser, or raise --max-values.",
                )
            self.categories[name] = values

    def held(self, schema: Schema) -> HeldRows | HeldCells:
        """The table in terms of the schema, whose order of columns it takes."""
        import numpy as np

        from sfumato.secure import HeldCells, HeldRows

        unknown = [name for name in self.categories if name not in schema.columns]
        lacking = [name for name in schema.columns if name not in self.categories]
        if unknown:
            raise ColumnError(
                f"column `{unknown[0]}` is not in the schema",
                remedy=did_you_mean(unknown[0], schema.columns),
            )
        if lacking and self.split is Split.rows:
            raise ColumnError(
                f"column `{lacking[0]}` of the schema is not in this table",
                remedy="Add it, or agree on a schema without it.",
            )
        codes = np.full((self.rows, len(schema.columns)), -1, np.int64)
        for name, values in self.categories.items():
            at = schema.position(name)
            place = {value: i for i, value in enumerate(schema.values[at])}
            outside = sum(value not in place for value in values)
            if outside:
                raise ColumnError(
                    f"column `{name}` has {outside:,} categories that the schema does not name",
                    remedy="Add them on both sides.",
                )
            translated = np.array([*(place[value] for value in values), -1], np.int64)
            codes[:, at] = translated[self._codes[name]]
        return HeldRows(schema, codes) if self.split is Split.rows else HeldCells(schema, codes)

    def agreed(self, session: Session, schema: Schema | None) -> HeldRows | HeldCells:
        """The table as both sides see it: by a schema at hand, or by telling each other."""
        from sfumato.secure import pool_categories

        if schema is None:
            same = self.split is Split.rows
            schema = pool_categories(session, self.categories, same_columns=same)
        return self.held(schema)

    def require(self, names: Sequence[str], schema: Schema | None) -> None:
        """Whatever can be wrong on this side alone, found before anybody is bothered."""
        known: Sequence[str] = tuple(self.categories)
        if schema is not None:
            self.held(schema)
            known = schema.columns
        elif self.split is Split.cells:
            return
        for name in names:
            if name not in known:
                raise ColumnError(f"there is no column `{name}`", remedy=did_you_mean(name, known))

    def require_complete(self, column: str) -> None:
        """Refuse empty cells in a column of whole rows."""
        if MISSING in self.categories.get(column, ()):
            empty = int((self._codes[column] == self.categories[column].index(MISSING)).sum())
            raise ColumnError(
                f"column `{column}` has {empty:,} empty cells",
                remedy="Remove those rows: what is to be predicted must be known.",
            )


def _text(value: Any) -> str:
    """A value as both sides write it: whole numbers alike, whatever their type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
