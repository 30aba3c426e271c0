"""File formats by name, and names that contradict them."""

from __future__ import annotations

import pytest

from sfumato.engines.writing import format_of
from sfumato.errors import ParameterError


@pytest.mark.parametrize(
    ("path", "named", "kind"),
    [("a.csv", "csv", "csv"), ("a.txt", "csv", "csv"), ("a.csv.gz", "csv.gz", "csv"),
     ("a.dat", "parquet", "parquet"), ("a", "tsv", "tsv"), ("a.parquet", None, "parquet")],
)  # fmt: skip
def test_a_name_and_a_format_that_agree(path, named, kind):
    assert format_of(path, named).kind == kind


@pytest.mark.parametrize(
    ("path", "named"), [("a.csv", "parquet"), ("a.parquet", "csv"), ("a.csv.gz", "arrow")]
)
def test_a_name_and_a_format_that_contradict_each_other(path, named):
    with pytest.raises(ParameterError, match=r"is named .* and would be written as"):
        format_of(path, named)
