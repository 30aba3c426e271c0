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
        "--splits", "3", "--dimensions", "2,5", "--rounding", "0", "--json",
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


def test_shares_are_rounded_as_agreed(lung):
    """A coarse step costs; what was not rounded is called so, and cells cost more than rows."""
    folder, one = lung
    coarse = folder / "coarse.toml"
    coarse.write_text(one.agreement.with_projection(rounding=2.0).to_toml())
    asked = ("joint", "evaluate", *sites(folder), "--splits", "2", "--dimensions", "2")
    runs = {
        "agreed": ("-a", coarse),
        "none": ("-a", coarse, "--rounding", "0"),
        "safe": ("-a", folder / "study.toml"),
        "cells": ("-a", folder / "study.toml", "--protect", "cells"),
    }
    told = {name: sfumato(*asked, *run, "--json").json for name, run in runs.items()}
    assert [told[name]["rounding"] for name in runs] == [2.0, 0.0, "safe", "safe"]
    assert told["cells"]["protect"] == "cells"
    private = {name: one["models"][-1]["concordance"] for name, one in told.items()}
    assert len(set(private.values())) == 4
    for name, said in (
        ("agreed", "shares rounded to 2"),
        ("none", "not rounded, which can give rows away"),
        ("cells", "from which no cell is recovered"),
    ):
        assert said in " ".join(sfumato(*asked, *runs[name], "-q").out.split())


def test_what_could_not_be_fitted_is_explained(lung):
    folder, _ = lung
    told = sfumato(
        "joint", "evaluate", *sites(folder), "-a", folder / "study.toml", "--rounding", "0",
        "--splits", "2", "--train", "0.01", "-q",
    )  # fmt: skip
    said = " ".join(told.out.split())
    assert "nan" not in said
    assert "in no split could this be fitted and judged" in said


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
