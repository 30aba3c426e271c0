"""What a missing cell is, on the command line."""

from __future__ import annotations

import pytest

from cli_tools import sfumato


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex,income\n20,F,1000\n20,,1010\n30,M,5000\n,M,9000\n30,M,70\n20,F,40\n")
    return path


def test_measures_and_risks_say_how_they_count(people):
    wild = sfumato("measure", people, "-c", "age,sex", "--missing", "wildcard").out
    assert "every row matches 3 rows" in " ".join(wild.split())
    assert (
        sfumato("measure", people, "-c", "age,sex", "--missing", "wildcard", "--json").json["k"]
        == 3
    )
    assert sfumato("measure", people, "-c", "age,sex", "--json").json["k"] == 1
    risk = sfumato("risk", people, "--qi", "age,sex", "--missing", "wildcard")
    assert "where a missing cell matches any value" in risk.out
    assert "33.333%" in risk.out


def test_a_release_and_its_certificate(people, tmp_path):
    out = tmp_path / "out.csv"
    asked = ("-k", 2, "--qi", "age,sex", "--missing", "wildcard", "-o", out)
    assert sfumato("anonymize", people, *asked).code == 0
    assert "with stars that match anything" in " ".join(sfumato("verify", out).out.split())
    assert sfumato("verify", people, "-k", 3, "--qi", "age,sex", "--missing", "wildcard").code == 0
    assert sfumato("verify", people, "-k", 3, "--qi", "age,sex").code == 1


def test_ranges_that_cannot_be_read(people):
    asked = ("-k", 2, "-l", 2, "--qi", "age", "--sensitive", "income")
    found = sfumato("anonymize", people, *asked, "--sensitive-bins", "income")
    assert found.code == 2
    assert "Write e.g. --sensitive-bins income=10" in found.err
