"""``sfumato joint``: three clinics, from the agreement to scores at home."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli_tools import Program, sfumato
from joint_studies import study
from ports import free_port
from sfumato.cli._options import parse_pairs
from sfumato.engines.protocol import column_of
from sfumato.errors import ColumnError, InputError, ParameterError
from sfumato.joint import (
    Category,
    Number,
    encode_outcome,
    fit_cox,
    read_agreement,
    read_model,
    read_share,
)
from sfumato.joint.agreement import declared_columns
from sfumato.joint.validation import read_seed_scores
from sfumato.secure import make_keys


def clinics(folder: Path) -> dict[str, Path]:
    """Tables of three clinics and their agreement, as files."""
    lung = study("lung")
    (folder / "study.toml").write_text(lung.agreement.to_toml(), encoding="utf-8")
    paths = {}
    for name, members in (("A", "AB"), ("B", "C"), ("C", "D")):
        mask = np.isin(lung.institution, list(members))
        paths[name] = folder / f"clinic{name}.parquet"
        pq.write_table(lung.table.filter(pa.array(mask)), paths[name])
    return paths


def share(folder: Path, name: str, *more: object) -> Any:
    return sfumato(
        "joint", "share", folder / f"clinic{name}.parquet", "-a", folder / "study.toml",
        "-o", folder / f"clinic{name}.share.parquet", "--json", *more,
    )  # fmt: skip


def test_from_shares_to_scores(tmp_path: Path) -> None:
    clinics(tmp_path)
    for name in "ABC":
        told = share(tmp_path, name).json
        assert told["institution"] == f"clinic{name}"
        assert told["leakage"]["recovered"] == 0.0
        assert told["chosen_by"] == "attack"
        assert set(told["price"]) == {"measure", "rows", "all_columns", "projected", "published"}
        assert "projected" not in told
    shares = sorted(tmp_path.glob("*.share.parquet"))
    fit = sfumato("joint", "fit", "cox", *shares, "-o", tmp_path / "model.json", "--json").json
    assert fit["kind"] == "cox"
    rows = [len(read_share(path).event) for path in shares]
    assert fit["institutions"] == dict(zip(("clinicA", "clinicB", "clinicC"), rows, strict=True))
    assert fit["concordance"] > 0.6
    found = sfumato(
        "joint", "score", tmp_path / "model.json", tmp_path / "clinicB.parquet", "--at", 365,
        "--json",
    ).json  # fmt: skip
    assert len(found["score"]) == len(found["survival"]) == found["rows"]
    assert all(0 < value < 1 for value in found["survival"])


def test_people_get_readable_answers(tmp_path: Path) -> None:
    clinics(tmp_path)
    told = sfumato(
        "joint", "share", tmp_path / "clinicA.parquet", "-a", tmp_path / "study.toml",
        "-o", tmp_path / "A.share.parquet", "--report", tmp_path / "leaks.json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert "0 recovered" in told.out
    assert "Price (concordance" in told.out
    report = json.loads((tmp_path / "leaks.json").read_text())
    assert report["leakage"]["recovered"] == 0.0
    assert min(entry["candidates"] for entry in report["by_row"]) > 1
    assert len(report["by_row"]) == report["rows"]
    told = sfumato("joint", "fit", "svm", tmp_path / "A.share.parquet", "-o", tmp_path / "m.json")
    assert "AUC" in told.out
    told = sfumato(
        "joint", "score", tmp_path / "m.json", tmp_path / "clinicB.parquet", "-o",
        tmp_path / "s.csv",
    )  # fmt: skip
    assert "rows scored" in told.out
    scores = pyarrow.csv.read_csv(tmp_path / "s.csv")
    assert scores.column_names == ["score", "positive"]
    assert scores.num_rows == pq.read_table(tmp_path / "clinicB.parquet").num_rows


def test_csv_tables_and_other_names_of_the_outcome(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    table = pq.read_table(paths["A"])
    names = {"time": "days", "status": "how it ended"}
    renamed = table.rename_columns([names.get(name, name) for name in table.column_names])
    pyarrow.csv.write_csv(renamed, tmp_path / "a.csv")
    told = sfumato(
        "joint", "share", tmp_path / "a.csv", "-a", tmp_path / "study.toml", "--time", "days",
        "--event", "how it ended", "-o", tmp_path / "csv.share.parquet", "--institution", "A",
        "--json",
    ).json  # fmt: skip
    share(tmp_path, "A", "--institution", "A")
    one = read_share(tmp_path / "csv.share.parquet")
    assert one.digest == read_share(tmp_path / "clinicA.share.parquet").digest
    assert told["rows"] == table.num_rows


def test_a_recoverable_share_is_refused_with_code_1_and_nothing_written(tmp_path: Path) -> None:
    clinics(tmp_path)
    told = share(tmp_path, "A", "--decimals", 4)
    assert told.code == 1
    assert not told.out
    assert json.loads(told.err)["error"]["kind"] == "PromiseError"
    assert not (tmp_path / "clinicA.share.parquet").exists()
    told = share(tmp_path, "A", "--decimals", 4, "--publish-anyway")
    assert told.json["leakage"]["recovered"] > 0.9


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--rounding", 0.1, "--decimals", 1], "mean the same thing"),
        (["--time", "dayz"], "dayz"),
        (["--rounding", -1], "negative"),
        (["--rounding", "nan"], "finite number"),
        (["--decimals", -400], "between 0 and 15"),
    ],
)
def test_bad_options_end_with_code_2(tmp_path: Path, more: list[object], words: str) -> None:
    clinics(tmp_path)
    told = share(tmp_path, "A", *more)
    assert told.code == 2
    assert words in told.err
    assert not (tmp_path / "clinicA.share.parquet").exists()


def test_an_exact_fit_finds_its_own_mistakes_before_anybody_is_met(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    for name in "ABC":
        make_keys(tmp_path, name)
    place = ["--coordinator", "B", "--connect", "127.0.0.1:9", "--name", "A", "--timeout", 0.1]
    files = ["--certificate", tmp_path / "A.crt", "--key", tmp_path / "A.key"]
    fit = ["joint", "fit", "cox", "--exact", "-o", tmp_path / "model.json", *place, *files]
    fit += ["--party", f"B={tmp_path / 'B.crt'}", "--agreement", tmp_path / "study.toml"]
    fit += ["--party", f"C={tmp_path / 'C.crt'}"]
    wild = pq.read_table(paths["A"])
    at = wild.column_names.index("age")
    pq.write_table(
        wild.set_column(at, "age", pa.array([999] * len(wild))), tmp_path / "wild.parquet"
    )
    for more, code, words in (
        ([tmp_path / "wild.parquet"], 2, "outside the agreed bounds"),
        ([paths["A"], "--penalty", -1], 2, "penalty must not be negative"),
        ([paths["A"], "--institution-weights", "A=0"], 2, "weight"),
        ([paths["A"], "--institution-weights", "A=1000"], 2, "weight"),
        ([paths["A"], "--precision", 0], 2, "precision"),
        ([paths["A"]], 3, "nobody answers"),
    ):
        told = sfumato(*fit, *more)
        assert told.code == code, told.err
        assert words in " ".join(told.err.split())


def test_bad_inputs_end_with_code_2(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    share(tmp_path, "A")
    made = tmp_path / "clinicA.share.parquet"
    again = share(tmp_path, "A")
    assert again.code == 2
    assert "--force" in again.err
    assert share(tmp_path, "A", "--force").code == 0
    model = tmp_path / "m.json"
    for arguments, words in (
        (["joint", "fit", "cox", made, made, "-o", model], "same institution"),
        (["joint", "fit", "cox", paths["A"], "-o", model], "is not a share"),
        (["joint", "fit", "cox", paths["A"], "--exact", "-o", model], "--agreement"),
        (
            [
                "joint", "fit", "cox", paths["A"], "--exact", "-a", tmp_path / "study.toml",
                "--name", "A", "--coordinator", "A", "--listen", "127.0.0.1:1", "--certificate",
                "A.crt", "--key", "A.key", "--party", "A=A.crt", "-o", model,
            ],
            "this party itself",
        ),
        (["joint", "score", tmp_path / "none.json", paths["A"]], "there is no such file"),
        (
            ["joint", "share", paths["A"], "-a", "none.toml", "-o", tmp_path / "s.parquet"],
            "no such file",
        ),
    ):  # fmt: skip
        told = sfumato(*arguments)
        assert told.code == 2, told.err
        assert words in " ".join(told.err.split())
    other = tmp_path / "other.toml"
    other.write_text(
        read_agreement(tmp_path / "study.toml").with_projection(seed="other").to_toml()
    )
    told = sfumato("joint", "fit", "cox", made, "--agreement", other, "-o", model)
    assert told.code == 2
    assert "another agreement" in " ".join(told.err.split())


def test_an_agreement_names_only_columns_of_the_table(tmp_path: Path) -> None:
    clinics(tmp_path)
    told = sfumato(
        "joint", "agreement", tmp_path / "clinicA.parquet", "--time", "dayz", "--event", "status",
        "-o", tmp_path / "new.toml",
    )  # fmt: skip
    assert told.code == 2
    assert "`dayz`" in told.err
    assert not (tmp_path / "new.toml").exists()


def test_no_survival_at_a_moment_that_is_none(tmp_path: Path) -> None:
    clinics(tmp_path)
    share(tmp_path, "A")
    model = tmp_path / "model.json"
    sfumato("joint", "fit", "cox", tmp_path / "clinicA.share.parquet", "-o", model, "-q")
    for moment in ("nan", "-1"):
        told = sfumato("joint", "score", model, tmp_path / "clinicA.parquet", "--at", moment)
        assert told.code == 2
        assert "--at 730" in told.err


def test_an_agreement_holds_declarations_and_nothing_of_the_rows(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    declared = [
        "joint", "agreement", paths["A"], "-c", "age,sex,ph.ecog", "--time", "time", "--event",
        "status", "--event-value", "2", "--bounds", "age=18:100", "--values", "sex=1,2",
        "--ordered", "ph.ecog=0,1,2,3", "--missing", "ph.ecog=1", "--time-max", 1100,
        "--horizon", 365, "-o", tmp_path / "new.toml", "--json",
    ]  # fmt: skip
    told = sfumato(*declared).json
    agreed = read_agreement(tmp_path / "new.toml")
    assert told["hash"] == agreed.hash
    assert (told["columns"], told["encoded"], told["dimensions"]) == (3, 3, 2)
    assert agreed.columns[0] == Number("age", 18, 100, 1)
    assert agreed.columns[2] == Category("ph.ecog", ("0", "1", "2", "3"), True, "1")
    assert len(agreed.projection.seed) == 32
    short = [text for text in declared if text not in ("--bounds", "age=18:100")]
    told = sfumato(*short, "--force")
    assert told.code == 2
    assert "nothing is declared about `age`" in told.err


def test_choosing_the_matrix_by_scores_alone(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    for name, path in paths.items():
        told = sfumato(
            "joint", "seeds", path, "-a", tmp_path / "study.toml", "--candidates", 4,
            "-o", tmp_path / f"{name}.seeds.json", "--json",
        ).json  # fmt: skip
        assert set(told) == {"agreement", "rows", "scores", "stays_at_home"}
        assert told["stays_at_home"] == []
    scores = sorted(tmp_path.glob("*.seeds.json"))
    told = sfumato(
        "joint", "choose", *scores, "-a", tmp_path / "study.toml", "-o", tmp_path / "final.toml",
        "--json",
    ).json  # fmt: skip
    final = read_agreement(tmp_path / "final.toml")
    assert final.hash == told["hash"]
    copy = tmp_path / "copy.json"
    copy.write_bytes(scores[0].read_bytes())
    for again in (scores[0], copy):
        told = sfumato(
            "joint", "choose", *scores, again, "-a", tmp_path / "study.toml",
            "-o", tmp_path / "twice.toml",
        )  # fmt: skip
        assert (told.code, "these scores were given before" in told.err) == (2, True)
    whole = json.loads(scores[0].read_text())
    assert final.projection.seed in whole["scores"]
    first = next(iter(whole["scores"]))
    forged = tmp_path / "forged.json"
    strange = {**whole["scores"], first: 1e300}
    for bad in ({"rows": -5}, {"rows": 10**400}, {"scores": strange}, {"scores": {}}):
        forged.write_text(json.dumps({**whole, **bad}))
        with pytest.raises(InputError, match=r"no rows give|does not hold scores"):
            read_seed_scores(forged, whole["agreement"])
    forged.write_text("[" * 100_000)
    with pytest.raises(InputError, match="does not hold scores"):
        read_seed_scores(forged, whole["agreement"])
    final_path, other_path = tmp_path / "final.toml", tmp_path / "x.toml"
    told = sfumato("joint", "choose", *scores, "-a", final_path, "-o", other_path)
    assert told.code == 2
    assert "another agreement" in " ".join(told.err.split())


def test_declarations_are_checked() -> None:
    with pytest.raises(ParameterError, match="could not be read"):
        parse_pairs(["age"], "--bounds", "age=0:1")
    with pytest.raises(ParameterError, match="twice"):
        parse_pairs(["a=1", "a=2"], "--bounds", "age=0:1")
    schema = [column_of("age", pa.float64()), column_of("sex", pa.string())]
    with pytest.raises(ColumnError, match="Did you mean `age`"):
        declared_columns(schema, {"aeg": "0:1"}, {}, {}, {}, None)
    with pytest.raises(ParameterError, match="two ways"):
        declared_columns(schema, {"age": "0:1"}, {"age": "x,y"}, {}, {}, None)
    for bounds in ("0", "a:b", "0:1:2:3", "0:inf"):
        with pytest.raises(ParameterError, match="bounds could not be read"):
            declared_columns(schema[:1], {"age": bounds}, {}, {}, {}, None)
    asked = declared_columns(
        schema, {}, {}, {}, {}, lambda text: "0:10" if "age" in text else "f,m"
    )
    assert asked == (Number("age", 0, 10, 0.01), Category("sex", ("f", "m")))


def test_keys_are_made_once(tmp_path: Path) -> None:
    told = sfumato("joint", "keys", "A", "--folder", tmp_path, "--json").json
    assert Path(told["certificate"]).exists()
    assert Path(told["key"]).stat().st_mode & 0o077 == 0
    assert len(told["fingerprint"]) == 64
    again = sfumato("joint", "keys", "A", "--folder", tmp_path)
    assert again.code == 2
    assert "already exists" in again.err


def test_three_processes_over_tls_equal_the_pooled_fit(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    keys = {name: make_keys(tmp_path / "keys", name) for name in "ABC"}
    port = free_port()
    running = []
    for name in "ABC":
        others = []
        for other in sorted(set("ABC") - {name}):
            others += ["--party", f"{other}={keys[other].certificate}"]
        program = Program(
            "joint", "fit", "cox", str(paths[name]), "--exact",
            "--agreement", str(tmp_path / "study.toml"), "--name", name,
            "--coordinator", "A", "--listen" if name == "A" else "--connect", f"127.0.0.1:{port}",
            "--certificate", str(keys[name].certificate), "--key", str(keys[name].key), *others,
            "-o", str(tmp_path / f"{name}.json"), *([] if name == "C" else ["--json"]),
        )  # fmt: skip
        running.append(program)
    lung = study("lung")
    for name, process in zip("ABC", running, strict=True):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        events = int(encode_outcome(pq.read_table(paths[name]), lung.agreement)[1].sum())
        if name == "C":
            opened = read_model(tmp_path / "C.json").revealed
            assert opened is not None
            assert f" rows {events} have the event." in " ".join(out.split())
            assert f"This fit opened {opened['bits']:,.0f}, counts" in " ".join(out.split())
        else:
            assert json.loads(out)["leakage"]["events"] == events
    pooled = fit_cox(lung.encoded.matrix, *lung.outcome)
    for name in "ABC":
        model = read_model(tmp_path / f"{name}.json")
        np.testing.assert_allclose(model.coefficients, pooled.coefficients, rtol=0, atol=1e-6)
        assert model.iterations <= 10
        assert model.institutions == {"A": None, "B": None, "C": None}


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=["ctrl-c", "kill", "kill -9"],
)
def test_a_share_that_is_interrupted_leaves_nothing_behind(
    tmp_path: Path, number: int, code: int
) -> None:
    clinics(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    program = subprocess.Popen(
        [
            sys.executable, "-c", SLOWLY, "joint", "share", str(tmp_path / "clinicA.parquet"),
            "-a", str(tmp_path / "study.toml"), "-o", str(tmp_path / "A.share.parquet"),
            "--report", str(tmp_path / "leaks.json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stdout.readline() == b"attacking\n"
    program.send_signal(number)
    program.communicate(timeout=60)
    assert program.returncode == code
    assert sorted(path.name for path in tmp_path.iterdir()) == before


SLOWLY = """
import sys, time
from sfumato.cli import main
from sfumato.joint import leakage_report

def endless(*given, **settings):
    print("attacking", flush=True)
    time.sleep(60)

leakage_report.Attacker = endless
sys.argv[0] = "sfumato"
main()
"""


def test_who_presses_ctrl_c_ends_an_exact_fit_for_all(tmp_path: Path) -> None:
    paths = clinics(tmp_path)
    keys = {name: make_keys(tmp_path / "keys", name) for name in "ABC"}
    port = free_port()

    def start(name: str) -> subprocess.Popen[bytes]:
        others = []
        for other in sorted(set("ABC") - {name}):
            others += ["--party", f"{other}={keys[other].certificate}"]
        return subprocess.Popen(
            [
                sys.executable, "-m", "sfumato", "joint", "fit", "cox", str(paths[name]),
                "--exact", "-a", str(tmp_path / "study.toml"), "--name", name, "--coordinator",
                "A", "--listen" if name == "A" else "--connect", f"127.0.0.1:{port}",
                "--certificate", str(keys[name].certificate), "--key", str(keys[name].key),
                *others, "-o", str(tmp_path / f"{name}.json"),
                "--timeout", "120" if name == "A" else "6",  # A waits while B is being started
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    running = {name: start(name) for name in "AB"}  # C never comes: both wait for it
    for process in running.values():
        assert process.stderr is not None
        while b"waiting for the other parties" not in process.stderr.readline():
            assert process.poll() is None
    running["A"].send_signal(signal.SIGINT)
    running["A"].communicate(timeout=60)
    assert running["A"].returncode == 130
    _, said = running["B"].communicate(timeout=60)
    assert running["B"].returncode == 3
    assert b"Traceback" not in said
    assert not list(tmp_path.glob("[AB].json"))
