"""Every statement Sfumato sends to a database, built from syntax nodes.

One function a question; each returns an expression that `text` writes in the dialect of its rows.
Nothing is pasted into strings. Columns are addressed by position (``c0``, ``c1``, …), so reserved
words, quotes, dots and names that differ in case only cannot confuse any engine; the user's own
names appear only where a release is written, quoted.
"""

from __future__ import annotations

from sfumato.engines.sql.fingerprints import fingerprint
from sfumato.engines.sql.nodes import Dialect, Node, table, text
from sfumato.engines.sql.parsing import parsed_name, parsed_query
from sfumato.engines.sql.questions import (
    all_rows,
    at_positions,
    at_random,
    class_sizes,
    classes,
    no_rows,
    null_counts,
    row_count,
    unconstrained,
)
from sfumato.engines.sql.releases import TUPLE, Mapping, entries, matched, recoded
from sfumato.engines.sql.rows import POSITION, Rows
from sfumato.engines.sql.transfers import (
    analyzed,
    copied_in,
    copied_out,
    dropped,
    new_table,
    renamed,
    table_of,
)

__all__ = [
    "POSITION",
    "TUPLE",
    "Dialect",
    "Mapping",
    "Node",
    "Rows",
    "all_rows",
    "analyzed",
    "at_positions",
    "at_random",
    "class_sizes",
    "classes",
    "copied_in",
    "copied_out",
    "dropped",
    "entries",
    "fingerprint",
    "matched",
    "new_table",
    "no_rows",
    "null_counts",
    "parsed_name",
    "parsed_query",
    "recoded",
    "renamed",
    "row_count",
    "table",
    "table_of",
    "text",
    "unconstrained",
]
