"""Every command that a help text shows runs as it stands, pasted into bash."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.cli import VERBS, load
from sfumato.demo import people, write_hospital

NOT_RUN = {
    "needs a database server": r"postgresql://",
    "needs another party": r"party (log|id3|bayes) |joint fit .*--exact",
    "serves until it is stopped": r"sfumato serve",
    "takes minutes": r"sfumato paper \w|--rows 1000000|joint evaluate",
}
"""Why an example is not run, and by what it is known; all others are."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the program, by its name."""
    for verb in VERBS:
        loaded = load(verb)
        inner = getattr(loaded, "commands", None)
        if inner is None:
            yield verb.name, loaded
        else:
            yield from ((f"{verb.name} {name}", command) for name, command in inner.items())


def examples() -> Iterator[tuple[str, str]]:
    """Each example, and the command whose help shows it."""
    for name, command in commands():
        _, _, shown = (command.epilog or "").partition("[bold]Examples[/bold]\n\n")
        yield from ((name, line) for line in shown.split("\n\n") if line)


EXAMPLES = list(examples())
RUN = [one for one in EXAMPLES if not any(re.search(p, one[1]) for p in NOT_RUN.values())]


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo table, and the files that examples name besides."""
    folder = tmp_path_factory.mktemp("office")
    rows = people(800)
    with chdir(folder):
        pa.csv.write_csv(rows, "people.csv")
        pq.write_table(rows, "people.parquet")
        Path("people.csv.gz").write_bytes(gzip.compress(Path("people.csv").read_bytes()))
        pa.csv.write_csv(rows.select(["name", "birth_date", "sex", "zip"]), "voters.csv")
        pq.write_table(rows.select(["birth_date", "sex", "zip"]), "census.parquet")
        pa.csv.write_csv(rows.slice(400), "february.csv")
        pa.csv.write_csv(rows.drop_columns(["doctor", "note"]), "patients.csv")
        survey = {"age": np.arange(500) % 60, "sex": ["f", "m"] * 250, "weight": [20.0] * 500}
        pq.write_table(pa.table(survey), "survey.parquet")
        Path("zip3.csv").write_text(
            "zip3,population\n" + "".join(f"{n:03},90000\n" for n in range(1000))
        )
        Path("secret.key").write_bytes(bytes(range(32)))
        Path("secret.key").chmod(0o600)
        told = 'k = 5\nqi = ["sex", "zip"]\nidentifiers = '
        Path("anonymize.toml").write_text(
            f'{told}["patient_id","name","ssn","email","phone","note"]'
        )
        Path("bounds.toml").write_text("[birth_date]\nmax_width = 40000\n")
        Path("animals.csv").write_text("cat,pet\ndog,pet\npet,animal\n")
        sfumato("keygen", "hospital")
        sfumato("keygen", "hospital", "--folder", "keys")
        named = ["name", "ssn", "email", "phone", "note"]
        asked: dict[str, Any] = {"k": 5, "rows_are_people": True, "identifiers": named}
        asked |= {"qi": ["birth_date", "sex", "zip"], "sensitive": ["diagnosis"], "l": 3}
        sf.anonymize("people.csv", **asked, output="release.csv", sign="hospital.key")
        sf.anonymize("people.csv", **asked, output="release.parquet")
        sf.anonymize("people.csv", **asked, output="earlier.csv")
        asked |= {"k": 8, "identifiers": ["patient_id", *named]}
        sf.anonymize(rows.slice(0, 400), **asked, output="january.csv")
        sf.anonymize("february.csv", like="january.csv", k=5, output="february_release.csv")
        sf.anonymize("people.csv", **asked, output="out.csv", sign="keys/hospital.key")
        write_hospital("hospital", 200)
        told = "patients.name,patients.ssn,patients.email,patients.phone"
        sfumato(
            "anonymize", "hospital", "-k", 3, "-o", "released", "--identifiers", told,
            "-m", 1, "--linkable", "--key-file", "secret.key",
            "--qi", "patients.birth_date,patients.sex,admissions.diagnosis",
        )  # fmt: skip
        sfumato("hierarchy", "make", "people.csv", "-c", "zip", "-o", "trees")
    return folder


@pytest.fixture(scope="session")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of institutions that fit a model together, and what they hand on."""
    folder = tmp_path_factory.mktemp("clinic")
    random = np.random.default_rng(1)
    with chdir(folder):
        for name in "ABCD":
            rows = {
                "age": random.integers(20, 90, 300),
                "sex": random.choice(["f", "m"], 300),
                "stage": random.choice(["I", "II", "III"], 300),
                "days": random.integers(1, 4_000, 300),
                "dead": random.integers(0, 2, 300),
            }
            pa.csv.write_csv(pa.table(rows), f"{name}.csv")
        treated = {"gy": [60.0, 66.0], "gy_each": [2.0, 2.75], "days": [38, 32]}
        pa.csv.write_csv(pa.table(treated), "treated.csv")
        other = {"days": "t", "dead": "died"}  # as D calls them
        pa.csv.write_csv(pa.table({other.get(n, n): v for n, v in rows.items()}), "D.csv")
        pa.csv.write_csv(pa.table(rows), "new.csv")
        agreed = next(line for _, line in EXAMPLES if "joint agreement" in line)
        sfumato(*agreed.split()[1:])
        for name in "ABC":
            asked = [f"{name}.csv", "-a", "study.toml", "-o"]
            sfumato("joint", "share", *asked, f"{name}.share.parquet")
            sfumato("joint", "seeds", *asked, f"{name}.seeds.json")
        sfumato("joint", "fit", "cox", *sorted(Path().glob("*.share.parquet")), "-o", "model.json")
    return folder


def words_of(command: str) -> tuple[list[str], bytes | None]:
    """The words that bash hands to the program, and what it pipes into it."""
    catch = 'sfumato() { printf "%s\\0" "$@" >.words; case " $* " in *" - "*) cat >.piped;; esac; }'
    subprocess.run(["bash", "-c", f"{catch}\n{command}"], check=True)
    words = Path(".words").read_text(encoding="utf-8").split("\0")[:-1]
    return words, Path(".piped").read_bytes() if Path(".piped").exists() else None


@cache
def printed(verb: str) -> dict[str, str]:
    """The examples that the help of a command prints, by what they are on one line."""
    shown = sfumato(*verb.split(), "--help").out.partition("\n Examples\n\n")[2]
    commands = re.findall(r"^ \S(?:.*\\\n)*.*$", shown, re.M)
    return {" ".join(re.sub(r"\\\n", " ", text).split()): text for text in commands}


def _make_room(words: list[str]) -> None:
    """Remove what the command writes, so that each runs as if it were the first."""
    if "-o" in words:
        place = Path(words[words.index("-o") + 1])
        Path(f"{place}.certificate.json").unlink(missing_ok=True)
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    if words[0] == "keygen":
        shutil.rmtree("keys")


@pytest.mark.parametrize(("verb", "command"), RUN, ids=[line for _, line in RUN])
@pytest.mark.filterwarnings("default")
def test_an_example_runs(
    verb: str, command: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    prepared = request.getfixturevalue(
        "clinic" if re.search(r" joint | model\.json", command) else "office"
    )
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder, copy_function=os.link)
    with chdir(folder):
        words, piped = words_of(printed(verb)[command])
        _make_room(words)
        done = sfumato(*words, stdin=piped)
    assert done.code == 0, f"$ {command}\n{done.out}{done.err}"


def test_long_examples_are_continued_on_the_next_line() -> None:
    text = next(text for text in printed("anonymize").values() if "diagnosis -l 3" in text)
    assert " \\\n    --" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_verb_has_examples() -> None:
    shown = {name for name, _ in EXAMPLES}
    assert {name for name, _ in commands()} == shown
