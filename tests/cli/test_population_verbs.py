"""The command lines of population, safe-harbor and attack."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from cli_tools import sfumato
from sfumato.demo import people

QI = "sex,birth_date,zip"


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(people(3_000, seed=1), path)
    return path


def test_population_reads_well_and_as_json(patients: Path) -> None:
    shown = sfumato("population", patients, "--universe", "1e6", "--qi", QI, "-k", "50", "-q")
    assert shown.code == 0
    assert "3,000 rows as a sample of 1,000,000 people" in shown.out
    said = " ".join(shown.out.split())
    assert "Unique among all people: at most" in said
    assert "That is more than D values let expect" in said  # nearly every row is unique here
    assert max(map(len, shown.out.splitlines())) <= 80
    asked = ("population", patients, "--universe", "1e6", "--qi", QI, "-k", "50", "--json")
    found = sfumato(*asked).json
    assert found["whole"]["columns"] == QI.split(",")
    assert found["plan"]["k"] == 50
    assert found["release"] is None
    assert found["uniqueness"]["estimate"] > found["whole"]["bound"]


def test_population_goes_by_the_estimate_where_the_bound_says_more(tmp_path: Path) -> None:
    table = tmp_path / "few.csv"
    table.write_text("age\n" + "".join(f"{row % 90}\n" for row in range(5_000)) + "99\n")
    shown = sfumato("population", table, "--universe", "6000", "--qi", "age", "-k", "2", "-q")
    said = " ".join(shown.out.split())
    assert "Unique among all people: about 0.0" in said
    assert "That is more than D" not in said


def test_population_counts_where_the_table_is_everybody(tmp_path: Path) -> None:
    """A thousand different values: no bound stands beside the count, and none contradicts it."""
    table = tmp_path / "all.csv"
    table.write_text("number\n" + "".join(f"{row}\n" for row in range(1_000)))
    asked = ("population", table, "--qi", "number", "-k", "5")
    for universe in ("table", "1000"):
        shown = sfumato(*asked, "--universe", universe, "-q")
        said = " ".join(shown.out.split())
        assert "Unique among all people: 100.00%, counted." in said
        assert "1 minimal column set makes at least 50% of the people unique" in said
        assert "expected" not in said
        assert "zayatz" not in said
        whole = sfumato(*asked, "--universe", universe, "--json").json["whole"]
        assert (whole["bound"], whole["certain"], whole["quasi_identifier"]) == (None, 1, True)


def test_population_knows_who_is_unique_whoever_is_missing(tmp_path: Path) -> None:
    """A thousand different values and 100 people not in the table: 900 of 1,100 are unique."""
    table = tmp_path / "most.csv"
    table.write_text("number,sex\n" + "".join(f"{row},{row % 2}\n" for row in range(1_000)))
    asked = ("population", table, "--qi", "number,sex", "-k", "5", "--universe", "1100")
    declared = (*asked, "--domains", "number=10")  # too few: the count says so
    for run in (asked, declared):
        found = sfumato(*run, "--json").json
        assert found["whole"]["certain"] == pytest.approx(900 / 1100)
        assert found["whole"]["quasi_identifier"]
        assert [one["columns"] for one in found["sets"]] == [["number"]]
    said = " ".join(sfumato(*declared, "-q").out.split())
    assert "at least 81.82%, counted: only 100 of them are not in the table" in said


def test_population_writes_a_release(patients: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    release = sfumato(
        "population", patients, "--universe", "1e6", "--qi", QI, "-k", "50", "-o", target, "--json"
    ).json
    assert release["method"] == "population"
    assert release["asked"]["k"] == 50
    assert release["verified"] is True
    assert release["plan"]["holds"] is True
    assert target.exists()
    assert (tmp_path / "out.csv.certificate.json").exists()
    header = target.read_text().splitlines()[0]
    assert "ssn" not in header
    again = sfumato("population", patients, "--universe", "1e6", "--qi", QI, "-o", target, "-q")
    assert again.code == 2
    assert "--force" in again.err


def test_population_domains_and_bad_options(patients: Path) -> None:
    found = sfumato(
        "population", patients, "--universe", "3e8", "--qi", QI, "--domains",
        "birth_date=2e4,zip=1e5", "--json",
    ).json  # fmt: skip
    assert found["whole"]["distinct"] == 4e9
    for wrong, says in (
        (["--universe", "100"], "already has 3,000 rows"),
        (["--universe", "1e6", "--beta", "2"], "β"),
        (["--universe", "1e6", "-k", "9999999"], "more than the"),
        (["--universe", "1e6", "--domains", "zip=many"], "domain size"),
        (["--universe", "1e6", "--weights", "zip=0"], "larger than zero"),
        (["--universe", "some"], "number of people"),
    ):
        done = sfumato("population", patients, "--qi", QI, *wrong, "-q")
        assert done.code == 2
        assert says in done.err.replace("\n", " ")


def test_safe_harbor_shows_first_and_writes_when_asked(patients: Path, tmp_path: Path) -> None:
    shown = sfumato("safe-harbor", patients, "--as-of", "2024-12-31", "-q")
    assert shown.code == 0
    assert "Nothing was written" in shown.out
    assert "dropped" in shown.out
    target = tmp_path / "release.parquet"
    release = sfumato(
        "safe-harbor", patients, "--as-of", "2024-12-31", "--drop", "doctor", "-o", target, "--json"
    ).json
    assert release["undecided"] == []
    assert release["column_actions"]["doctor"] == "dropped"
    assert {c["column"] for c in release["columns"]} >= {"name", "zip", "diagnosis"}
    assert "ssn" not in pq.read_schema(target).names


def test_safe_harbor_that_changes_nothing_verifies_nothing(tmp_path: Path) -> None:
    """What it says when it is written is what `verify` says of it."""
    plain, target = tmp_path / "plain.csv", tmp_path / "release.csv"
    plain.write_text("sex,ward\nF,eyes\nM,eyes\nF,surgery\n")
    made = sfumato("safe-harbor", plain, "-o", target, "-q")
    told = " ".join(made.out.split())
    assert (made.code, f"Written: {target}" in "".join(made.out.split("\n"))) == (0, True)
    assert "a certificate has nothing to promise, and `sfumato verify` nothing to check" in told
    checked = sfumato("verify", target, "-q")
    assert (checked.code, "promises nothing that could be checked" in checked.out) == (1, True)
    plain.write_text("sex,name\nF,Ann Lee\nM,Bob Ray\n")
    made = sfumato("safe-harbor", plain, "-o", target, "--force", "-q")
    assert (made.code, "Written and verified" in made.out) == (0, True)
    assert "nothing to promise" not in made.out
    assert sfumato("verify", target, "-q").code == 0


def test_safe_harbor_with_another_list_of_areas(patients: Path, tmp_path: Path) -> None:
    areas = tmp_path / "areas.csv"
    areas.write_text("zip3,population\n021,15000\n024,90000\n")
    target = tmp_path / "release.parquet"
    asked = sfumato("safe-harbor", patients, "--areas", areas, "-o", target, "-q")
    assert asked.code == 2
    assert "--keep doctor" in asked.err.replace("\n", " ")
    assert not target.exists()
    sfumato("safe-harbor", patients, "--areas", areas, "--keep", "doctor", "-o", target, "-q")
    zips = set(pq.read_table(target)["zip"].to_pylist())
    assert "021" not in zips
    assert {"000", "024"} <= zips
    wrong = sfumato("safe-harbor", patients, "--as-of", "yesterday", "-q")
    assert wrong.code == 2
    assert "2024-12-31" in wrong.err
    assert sfumato("safe-harbor", patients, "--areas", tmp_path / "none.csv", "-q").code == 2


def test_attack_on_a_blurred_and_on_a_safe_harbor_release(patients: Path, tmp_path: Path) -> None:
    blurred, harbor = tmp_path / "blurred.csv", tmp_path / "harbor.csv"
    common = ("--universe", "1e6", "--qi", QI, "-k", "50", "--keep", "patient_id", "-q")
    assert sfumato("population", patients, *common, "-o", blurred).code == 0
    found = sfumato(
        "attack", blurred, patients, "--on", QI, "-k", "3", "--identity", "patient_id", "--json"
    ).json
    assert found["released"] == 3_000
    assert found["matches_none"] == 0
    assert found["contains_truth"] == 3_000
    assert found["certain_right"] == found["matches_one"]
    assert sfumato("safe-harbor", patients, "--drop", "doctor", "-o", harbor, "-q").code == 0
    found = sfumato("attack", harbor, patients, "--on", QI, "-k", "3", "--json").json
    assert found["matches_none"] == 0
    assert found["matches_one"] > 0
    assert found["unread"] == {}


def test_attack_checks_k_map_by_its_exit_code(tmp_path: Path) -> None:
    release, voters = tmp_path / "release.csv", tmp_path / "voters.csv"
    pacsv.write_csv(pa.table({"age": ["[20, 30)", "[40, 50)"], "ill": ["flu", "gout"]}), release)
    pacsv.write_csv(pa.table({"name": ["Ann", "Bob", "Cid"], "age": [21, 25, 40]}), voters)
    weak = sfumato("attack", release, voters, "--on", "age", "-k", "2", "--check", "-q")
    assert weak.code == 1
    assert "k-map does not hold" in weak.out
    assert sfumato("attack", release, voters, "--on", "age", "-k", "1", "--check", "-q").code == 0
    missing = sfumato("attack", release, voters, "--on", "agee", "-q")
    assert missing.code == 2
    assert "Did you mean `age`?" in missing.err.replace("\n", " ")
