"""Settings: from TOML, overridden, written down again, and repeated from a certificate."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from cli_tools import sfumato
from sfumato.anonymization.request import Request
from sfumato.errors import ParameterError, SfumatoError, SourceError
from sfumato.hierarchy import Hierarchy

FILE = """
k = 2
qi = ["age", "job"]
sensitive = ["ill"]
l = 2
relaxed = true
identifiers = ["name"]

[weights]
age = 3

[boundaries.age]
max_width = 30

[columns.age]
top = 50
"""


@pytest.fixture
def people():
    return pa.table(
        {
            "name": list("abcdefgh"),
            "age": [20, 21, 25, 30, 41, 45, 60, 70],
            "job": ["nurse", "cook"] * 4,
            "ill": ["flu", "cold", "gout", "flu"] * 2,
        }
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "anonymize.toml"
    path.write_text(FILE)
    return path


def test_a_file_says_what_python_says(people, file):
    by_file = sf.anonymize(people, config=file)
    by_hand = sf.anonymize(
        people,
        k=2,
        qi=["age", "job"],
        sensitive=["ill"],
        l=2,
        relaxed=True,
        identifiers=["name"],
        weights={"age": 3},
        boundaries={"age": {"max_width": 30}},
        columns={"age": {"top": 50}},
    )
    assert by_file.to_dict() == by_hand.to_dict()


def test_what_is_given_comes_before_the_file(people, file):
    release = sf.anonymize(people, config=file, k=4, weights={"job": 2}, relaxed=False)
    assert release.asked["k"] == 4
    assert release.asked["weights"] == {"age": 3.0, "job": 2.0}
    assert release.asked["relaxed"] is False


def test_options_do_not_follow_to_another_method(file):
    settings = Request.read(file).overridden({"method": "quantiles"})
    assert settings.options == {}


def test_a_certificate_repeats_its_release(people, file, tmp_path):
    first = tmp_path / "first.csv"
    sf.anonymize(people, config=file, output=first)
    second = tmp_path / "second.csv"
    sf.anonymize(people, config=f"{first}.certificate.json", output=second)
    assert first.read_bytes() == second.read_bytes()


def test_a_certificate_cannot_repeat_trees_it_only_names(people, tmp_path):
    tree = Hierarchy.from_levels([["nurse", "cook"], ["*", "*"]])
    out = tmp_path / "out.csv"
    sf.anonymize(
        people, qi=["job"], k=2, hierarchies={"job": tree}, identifiers=["name"], output=out
    )
    with pytest.raises(ParameterError, match="given in Python"):
        Request.read(f"{out}.certificate.json")


def test_paths_are_relative_to_the_file(people, tmp_path):
    folder = tmp_path / "settings"
    (folder / "trees").mkdir(parents=True)
    (folder / "trees" / "job.csv").write_text("nurse;*\ncook;*\n")
    (folder / "bounds.toml").write_text("[job]\nmarks = ['nurse', 'cook']\n")
    (folder / "queries.sql").write_text("age >= 40\n")
    path = folder / "a.toml"
    path.write_text(
        'k = 2\nqi = ["age", "job"]\nhierarchies = "trees"\nboundaries = "bounds.toml"\n'
        'identifiers = ["name"]\nworkload = "queries.sql"\n'
    )
    release = sf.anonymize(people, config=path)
    assert release.k >= 2
    assert release.asked["boundaries"] == {"job": {"marks": ["nurse", "cook"]}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kk = 5", "no setting `kk`"),
        ("sensitiv = ['ill']", "Did you mean `sensitive`"),
        ("relax = true", "Did you mean `relaxed`"),
        ("k = 'five'", "`k` must be a number"),
        ("k = true", "`k` must be a number"),
        ("qi = [1, 2]", "list of column names"),
        ("sensitive = 3", "list of column names"),
        ("weights = 3", "must be a table"),
        ("[weights]\nage = 'much'", "`weights` of `age`"),
        ("[weights]\nage = -1", "`weights` of `age`"),
        ("l_kind = 'entropic'", "Did you mean `entropy`"),
        ("suppressed_as = 'stars'", "cannot be `stars`"),
        ("method = 'mondrain'", "Did you mean `mondrian`"),
        ("method = 3", "`method` must be text"),
    ],
)
def test_what_a_file_must_not_say(people, tmp_path, text, words):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=words):
        sf.anonymize(people, config=path, qi=["age"], k=2)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        Request.read(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("k = \n")
    with pytest.raises(SourceError, match="line 1"):
        Request.read(broken)
    other = tmp_path / "other.json"
    other.write_text("[]")
    with pytest.raises(SourceError, match="not a certificate"):
        Request.read(other)


def test_the_example_of_the_documentation_is_understood(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "anonymize-toml.md").read_text()
    path = tmp_path / "anonymize.toml"
    path.write_text(page.split("```toml\n")[1].split("```")[0])
    settings = Request.read(path)
    assert settings.qi == (("birth_date", "sex", "zip"), ("doctor", "admission_date"))
    assert settings.columns["cost"] == {"top": 50000, "bottom": 100, "round": 10}
    assert settings.boundaries == {"zip": {"marks": ["021**", "024**"]}}
    assert settings.options == {"relaxed": False, "cut_weights": {"spread": 1, "priority": 2}}


names = st.text(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=6
)


@given(
    st.lists(st.lists(names, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3),
    st.dictionaries(names, st.floats(0, 1e6)),
    st.dictionaries(
        names,
        st.one_of(
            st.fixed_dictionaries({"top": st.integers(-5, 5)}),
            st.fixed_dictionaries({"recode": st.dictionaries(names, names, min_size=1)}),
        ),
    ),
    st.booleans(),
)
def test_settings_survive_being_written_down(qi, weights, columns, relaxed):
    given = {"qi": qi, "k": 3, "weights": weights, "columns": columns, "relaxed": relaxed}
    settings = Request.of({**given, "cut_weights": {"spread": 2.0}})
    assert Request.of(tomllib.loads(settings.to_toml())) == settings


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qi = 5", "`qi` must be a list of column names"),
        ("qi = [['age'], 3]", "`qi` must be a list of column names"),
        ("k = 5.5", "`k` must be a whole number"),
        ("seed = -1", "`seed` must be a whole number, zero or larger"),
        ("seed = 1.5", "`seed` must be a whole number"),
        ("hierarchies = 5", "`hierarchies` must be a folder"),
        ("boundaries = 5", "`boundaries` must be a file or a table"),
        ("workload = 5", "`workload` must be a file or a list"),
        ("t_distance = 3", "`t_distance` must be a kind of distance"),
        ("cut_weights = 3", "`cut_weights` must be a table"),
        ("cuts = 3", "`cuts` must be a table"),
        ("relaxed = 'maybe'", "`relaxed` must be true or false"),
        (
            "method = 'full-domain'\nsuppression_limit = true",
            "`suppression_limit` must be a number",
        ),
        ("method = 'cells'\nbeta = 'a'", "`beta` must be a number"),
        ("method = 'cells'\nprotected = 3", "`protected` must be a list of column names"),
        ("method = 'best'\nloss = 3", "`loss` must be text"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_file(tmp_path, text, says):
    place = tmp_path / "anonymize.toml"
    place.write_text(text)
    with pytest.raises(ParameterError, match=says) as error:
        Request.read(place)
    assert "anonymize.toml" in str(error.value)


def test_a_certificate_of_another_verb_is_no_configuration(tmp_path):
    place = tmp_path / "out.csv.certificate.json"
    place.write_text('{"method": "mask", "asked": {"beta": 0.5}}')
    with pytest.raises(ParameterError, match="certificate of `mask`"):
        Request.read(place)


def test_a_settings_file_says_what_text_means(tmp_path):
    """`1.200,50` is text until [parse] says that it is a number."""
    source, settings_file = tmp_path / "messy.csv", tmp_path / "anonymize.toml"
    cells = "".join(f'{row % 9},"1.{row:03},50"\n' for row in range(60))
    source.write_text("age,paid\n" + cells)
    settings_file.write_text('k = 5\nqi = ["age", "paid"]\n[parse]\npaid = "number:comma"\n')
    blurred = sf.anonymize(str(source), config=settings_file)
    assert blurred.to_arrow()["paid"][0].as_py().startswith("[1")
    assert blurred.asked["parse"] == {"paid": "number:comma"}
    done = sfumato("anonymize", source, "--config", settings_file, "-o", tmp_path / "out.csv")
    assert done.code == 0
    assert sf.table(str(tmp_path / "out.csv")).to_arrow()["paid"].equals(blurred.to_arrow()["paid"])
    again = sf.anonymize(str(source), config=f"{tmp_path}/out.csv.certificate.json")
    assert again.to_arrow().equals(blurred.to_arrow())
    written = tmp_path / "written.toml"
    asked = ("anonymize", source, "-k", 5, "--qi", "age,paid", "--parse", "paid=number:comma")
    assert sfumato(*asked, "--write-config", written).code == 0
    assert Request.read(written).parse == {"paid": "number:comma"}
    with pytest.raises(ParameterError, match="the table is open already"):
        sf.anonymize(sf.table(str(source)), config=settings_file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[parse]\npiad = "number:comma"', "Did you mean `paid`"),
        ('[parse]\npaid = "number:coma"', "Did you mean `number:comma`"),
        ("[parse]\npaid = 5", "`parse` of `paid` must be text"),
        ('parse = "paid"', "`parse` must be a table"),
        ('unparsed = "nul"\n[parse]\npaid = "number:comma"', "Did you mean `null`"),
        ('[parse]\npaid = "date"', "unparsed"),
    ],
)
def test_bad_parsing_in_a_settings_file_is_refused(tmp_path, text, says):
    source, settings_file = tmp_path / "messy.csv", tmp_path / "anonymize.toml"
    source.write_text("age,paid\n" + "".join(f'{row % 9},"1.{row:03},50"\n' for row in range(60)))
    settings_file.write_text(f'k = 5\nqi = ["age"]\n{text}\n')
    done = sfumato("anonymize", source, "--config", settings_file)
    assert done.code == 2
    assert says in " ".join(done.err.split())


def test_numbers_of_other_libraries_are_numbers() -> None:
    people = pa.table({"age": range(60), "sex": ["F", "M"] * 30})
    asked: dict[str, Any] = {"k": np.int8(3), "qi": ["age"], "weights": {"age": np.int64(2)}}
    assert sf.anonymize(people, **asked).k >= 3
    assert sf.anonymize(people, sensitive=["sex"], t=np.float32(0.5), **asked).k >= 3
    assert sf.mask(people, beta=0.5, weights={"sex": np.int64(2)}).table is not None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"weights": {3: 1}}, "`3`"),
        (
            {"hierarchies": {"age": "age.csv"}},
            "`age` must be a Hierarchy.*read_arx",
        ),
        ({"boundaries": {"age": 30}}, "`boundaries` of `age` must be a dictionary"),
        ({"numbers_as": {"age": ["mean"]}}, "`numbers_as` must be"),
        ({"numbers_as": np.array(["mean", "mean"])}, "`numbers_as` must be"),
        ({"k": np.array([3, 4])}, "`k` must be a number"),
        ({"config": 3}, "`config` must be"),
    ],
)
def test_what_is_of_another_kind_is_refused_in_our_words(asked: dict[str, Any], said: str) -> None:
    people = pa.table({"age": range(60), "sex": ["F", "M"] * 30})
    with pytest.raises(SfumatoError, match=said):
        sf.anonymize(people, **({"k": 3, "qi": ["age", "sex"]} | asked))
