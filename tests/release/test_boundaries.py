"""`verify` counts cells that are blurred beyond their boundary, in a release by any program."""

from __future__ import annotations

import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.errors import ParameterError
from sfumato.hierarchy import Boundaries

TREE = """San Diego;California;United States
Los Angeles;California;United States
Lincoln;Nebraska;United States
Omaha;Nebraska;United States
"""
BOUNDS = '[city]\nmarks = ["California", "Nebraska"]\n[age]\nmax_width = 10\n'


@pytest.fixture
def files(tmp_path):
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "city.csv").write_text(TREE)
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    (tmp_path / "people.csv").write_text(
        "id,city,age\n1,San Diego,20\n2,Los Angeles,25\n3,Lincoln,40\n4,Omaha,60\n"
    )
    (tmp_path / "good.csv").write_text(
        'id,city,age\n1,California,"[20, 26)"\n2,California,"[20, 26)"\n3,Nebraska,40\n4,Omaha,60\n'
    )
    (tmp_path / "bad.csv").write_text(
        'id,city,age\n4,United States,"[40, 61)"\n3,Nebraska,"[40, 61)"\n2,*,25\n1,San Diego,20\n'
    )
    return tmp_path


def options(files):
    bounds, trees = files / "bounds.toml", files / "trees"
    return ["--of", files / "people.csv", "--boundaries", bounds, "--hierarchies", trees]


def test_a_release_within_its_boundaries(files):
    done = sfumato("verify", files / "good.csv", *options(files), "--json")
    assert done.code == 0
    assert done.json["findings"][0]["measured"] == {"city": 0, "age": 0}


def test_cells_beyond_their_boundary_are_counted_by_row_key(files):
    done = sfumato("verify", files / "bad.csv", *options(files), "--row-key", "id")
    assert done.code == 1
    assert "4 cells are blurred beyond their boundary: 2 in `city`, 2 in `age`" in " ".join(
        done.out.split()
    )


def test_boundaries_and_promises_together(files):
    promised = ["-k", "2", "--qi", "city"]
    done = sfumato("verify", files / "good.csv", *promised, *options(files), "--json")
    assert done.code == 1
    assert [found["holds"] for found in done.json["findings"]] == [False, True]


def test_boundaries_need_the_table(files):
    done = sfumato("verify", files / "good.csv", "--boundaries", files / "bounds.toml")
    assert done.code == 2
    assert "--of" in done.err
    with pytest.raises(ParameterError, match="table is missing"):
        sf.verify(str(files / "good.csv"), boundaries=Boundaries({"age": {"max_width": 1}}))


def test_boundaries_are_given_to_verify_as_to_anonymize(files):
    said = sf.verify(
        files / "good.csv", of=files / "people.csv", boundaries={"age": {"max_width": 1}}
    )
    assert said.findings[0].measured == {"age": 2}
