"""ZIP-like codes: digits that are no number, whose first digits name an area."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sfumato.errors import ColumnError, spell

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "RESTRICTED_AREAS",
    "is_postal_name",
    "looks_postal",
    "postal_text",
]


RESTRICTED_AREAS = frozenset(
    {
        "036", "059", "063", "102", "203", "556", "692", "790", "821",
        "823", "830", "831", "878", "879", "884", "890", "893",
    }
)  # fmt: skip
"""Three-digit ZIP areas with 20,000 people or fewer, as in the guidance of the US Department of
Health and Human Services on de-identification (from the Census of 2000). The law asks for current
figures: give another list where there is one."""

_NAME = re.compile(r"(?:^|_)(?:zip(?:_?code)?\d?|postal(?:_?code)?|post_?code|plz)(?:$|_)")
_CODE = r"^\d{3,10}(?:-\d{4})?$"


def is_postal_name(name: str) -> bool:
    """Whether a column's name says that it holds postal codes.

    Examples
    --------
    >>> [is_postal_name(name) for name in ("zip", "ZipCode", "home_zip_5", "unzipped")]
    [True, True, True, False]
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()
    return _NAME.search(snake) is not None


def looks_postal(name: str, values: pa.Array) -> bool:
    """Whether a column holds ZIP-like codes: text of digits of one length, or the name says so.

    Examples
    --------
    >>> import pyarrow as pa
    >>> looks_postal("area", pa.array(["02138", "02139"])), looks_postal("age", pa.array([2138]))
    (True, False)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    present = values.drop_null()
    if len(present) == 0:
        return False
    if pa.types.is_integer(present.type):
        return is_postal_name(name) and bool(pc.min(present).as_py() >= 0)
    if not (pa.types.is_string(present.type) or pa.types.is_large_string(present.type)):
        return False
    if not pc.all(pc.match_substring_regex(present, _CODE)).as_py():
        return False
    lengths = pc.unique(pc.utf8_length(present))
    return is_postal_name(name) or len(lengths) == 1


def postal_text(name: str, values: pa.Array, *, pad: bool = False) -> pa.Array:
    """ZIP-like codes as text of one length.

    Codes shorter than the others have lost leading zeros, mostly to a spreadsheet. With `pad` they
    get them back; otherwise the column is refused, since 2138 cut to three digits is another place.

    Examples
    --------
    >>> import pyarrow as pa
    >>> postal_text("zip", pa.array([2138, 10001]), pad=True).to_pylist()
    ['02138', '10001']
    """
    import pyarrow as pa

    texts = values.cast(pa.string()).to_pylist()
    heads = [None if text is None else text.partition("-")[0] for text in texts]
    longest = max((len(head) for head in heads if head is not None), default=0)
    if longest == 4 and is_postal_name(name) and pa.types.is_integer(values.type):
        longest = 5  # every code lost its zero
    short = sum(head is not None and len(head) < longest for head in heads)
    if short and not pad:
        raise ColumnError(
            f"{short:,} distinct codes have fewer than {longest} digits: their leading zeros were "
            "lost, as spreadsheets do",
            where=f"column `{name}`",
            remedy=f"Read the column as text, or put the zeros back ({spell('pad_zip', True)}).",
        )
    padded = [
        text if text is None or head is None else head.zfill(longest) + text[len(head) :]
        for text, head in zip(texts, heads, strict=True)
    ]
    return pa.array(padded, pa.string())
