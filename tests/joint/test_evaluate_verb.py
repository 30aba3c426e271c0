"""`sfumato joint evaluate`: the paper's experiment on tables of one's own."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from cli_tools import sfumato
from joint_studies import study
from sfumato.joint import evaluate


@pytest.fixture(scope="module")
def lung(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lung")
    one = study("lung", matrix="gaussian")
    for site in ("A", "B", "C", "D"):
        pq.write_table(one.part(site), folder / f"{site}.parquet")
    (folder / "study.toml").write_text(one.agreement.to_toml())
    return folder, one


def sites(folder):
    return [folder / f"{site}.parquet" for site in ("A", "B", "C", "D")]


def test_it_is_the_experiment_of_the_paper(lung):
    folder, one = lung
    told = sfumato(
        "joint", "evaluate", *sites(folder), "-a", folder / "study.toml",
        "--splits", "3", "--dimensions", "2,5", "--json",
    ).json  # fmt: skip
    assert [model["model"] for model in told["models"]] == [
        "pooled", "A", "B", "C", "D", "private m̄=2", "private m̄=5",
    ]  # fmt: skip
    assert told["institutions"] == {site: one.part(site).num_rows for site in ("A", "B", "C", "D")}
    order = one.institution.argsort(kind="stable")
    encoded, (time, event) = one.encoded, one.outcome
    kept = type(encoded)(encoded.matrix[order], encoded.options[order])
    again = evaluate(
        kept, time[order], event[order], one.institution[order], one.agreement,
        horizon=one.horizon, splits=3, dimensions=(2, 5),
    )  # fmt: skip
    assert told["models"] == again.to_dict()["models"]


def test_bad_input(lung):
    folder, _ = lung
    agreed = ["-a", folder / "study.toml"]
    one = sfumato("joint", "evaluate", folder / "A.parquet", *agreed)
    assert (one.code, "every institution" in one.err) == (2, True)
    twice = sfumato("joint", "evaluate", folder / "A.parquet", folder / "A.parquet", *agreed)
    assert (twice.code, "same name" in twice.err) == (2, True)
    wide = sfumato("joint", "evaluate", *sites(folder), *agreed, "--dimensions", "9")
    assert (wide.code, "between 1 and 5" in wide.err) == (2, True)
    words = sfumato("joint", "evaluate", *sites(folder), *agreed, "--dimensions", "two")
    assert (words.code, "whole numbers" in words.err) == (2, True)
