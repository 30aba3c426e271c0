"""Finding and masking where rows live on a server: few statements, the same answers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget import Budget
from sfumato.engines.sql_engine import SQLEngine
from sfumato.errors import EngineError
from sfumato.release import publish
from sfumato.release.certificate import certificate_path

ROWS = 6000
QUERY = "i, i % 89 AS age, i % 2 AS sex, i % 13 AS area, (i * i) % 31 AS job"


def here() -> pa.Table:
    return pa.table(
        {
            "i": list(range(1, ROWS + 1)),
            "age": [i % 89 for i in range(1, ROWS + 1)],
            "sex": [i % 2 for i in range(1, ROWS + 1)],
            "area": [i % 13 for i in range(1, ROWS + 1)],
            "job": [(i * i) % 31 for i in range(1, ROWS + 1)],
        }
    )


@pytest.fixture(
    params=[
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def remote(request):
    """The table on a server."""
    if request.param == "spark":
        spark = request.getfixturevalue("spark")
        frame = spark.range(1, ROWS + 1).selectExpr(
            "id AS i", "id % 89 AS age", "id % 2 AS sex", "id % 13 AS area", "(id * id) % 31 AS job"
        )
        with sf.table(frame) as opened:
            yield opened
        return
    server = request.getfixturevalue("postgres")
    schema = request.getfixturevalue("postgres_schema")
    with server.connect() as connection:
        connection.execute(
            f"CREATE TABLE {schema}.people AS SELECT {QUERY} FROM generate_series(1, {ROWS}) AS i"
        )
    with sf.table(f"{server.url}#{schema}.people") as opened:
        yield opened


@pytest.fixture
def scans(monkeypatch):
    """Questions to a server that read its rows."""
    asked = []
    for question in ("row_count", "class_sizes", "classes", "sample", "fingerprint", "batches"):
        original = getattr(SQLEngine, question)

        def counted(self, *given, original=original, question=question, **named):
            asked.append(question)
            return original(self, *given, **named)

        monkeypatch.setattr(SQLEngine, question, counted)
    return asked


def test_a_sampled_key_scans_at_most_three_times(remote, scans):
    found = sf.minimum_key(remote, eps=0.001)
    assert found.columns == ("i",)
    assert found.verified is None
    assert 1 <= len(scans) <= 3, scans
    scans.clear()
    assert sf.minimum_key(remote.exclude(["i"]), eps=0.01, verify=True).verified
    assert 1 <= len(scans) <= 3, scans


def test_an_exact_key_scans_at_most_three_times(remote, scans):
    found = sf.minimum_key(remote.exclude(["i"]), proven=True)
    assert found.columns == sf.minimum_key(here().drop(["i"]), proven=True).columns
    assert 1 <= len(scans) <= 3, scans
    assert any("pulled over" in note for note in found.notes)


def test_exact_searches_agree_with_those_at_home(remote):
    away, home = remote.exclude(["i"]), here().drop(["i"])
    assert sf.minimal_keys(away).keys == sf.minimal_keys(home).keys
    assert sf.violations(away, k=3).minimal == sf.violations(home, k=3).minimal
    assert sf.uniques(away, max_size=2).by_size == sf.uniques(home, max_size=2).by_size


def test_what_does_not_fit_is_said(remote):
    with pytest.raises(EngineError, match="distinct combinations of its 5 columns") as error:
        sf.uniques(remote, budget=Budget(memory=100_000))
    assert "eps=" in str(error.value)


@pytest.mark.parametrize("ask", [sf.minimal_keys, sf.violations])
def test_what_does_not_fit_is_asked_where_the_rows_are(remote, ask):
    found = ask(remote, budget=Budget(memory=100_000))
    assert any("were answered where the rows are" in note for note in found.notes)
    home = ask(here())
    told = "minimal" if ask is sf.violations else "keys"
    assert getattr(found, told) == getattr(home, told)


def test_a_mask_is_written_where_the_rows_are(remote, tmp_path, request):
    local = sf.mask(here(), measure="separation", beta=0.95)
    asked = sf.mask(remote, measure="separation", beta=0.95)
    assert asked.details["published"] == local.details["published"]
    assert (asked.verified, asked.table) == (False, None)
    if remote.engine.kind == "spark":
        output = str(tmp_path / "masked")
        place = certificate_path(output)
        reopen = output
    else:
        schema = request.getfixturevalue("postgres_schema")
        server = request.getfixturevalue("postgres")
        output, reopen = f"{schema}.masked", f"{server.url}#{schema}.masked"
        place = tmp_path / "masked.json"
    written = publish(asked, output, certificate=place)
    assert written.verified
    with sf.table(reopen) as back:
        assert back.columns == local.details["published"]
        assert back.rows == ROWS
        assert sf.verify(back, certificate=place).findings[0].holds
