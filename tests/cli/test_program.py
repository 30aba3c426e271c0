"""The program itself: its list of verbs, its common options, and how it ends."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from operator import attrgetter

import pytest
import typer

from cli_tools import sfumato
from sfumato import cli
from sfumato._version import __version__
from sfumato.cli import VERBS, guarded, load
from sfumato.engines import staging
from sfumato.errors import EngineError, PromiseError
from sfumato.quasi import measure as measure_module

PROGRAM = [sys.executable, "-m", "sfumato"]


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n20,F\n30,F\n30,F\n")
    return path


def test_help_lists_every_verb():
    done = sfumato("--help")
    assert done.code == 0
    for verb in VERBS:
        assert verb.name in done.out
        assert verb.summary.rstrip(".").split(",")[0][:20] in done.out


def test_version():
    assert sfumato("--version").out == f"sfumato {__version__}\n"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_loads_and_explains_itself(verb):
    module = importlib.import_module(f"sfumato.cli.{verb.module}")
    assert module.app is not None
    assert load(verb).name == verb.name
    done = sfumato(verb.name, "--help")
    assert done.code == 0
    assert "Usage: sfumato" in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_unknown_verb_suggests_the_nearest():
    done = sfumato("scann")
    assert done.code == 2
    assert "scan" in done.err
    assert done.out == ""


def test_unknown_option_is_bad_usage(people):
    done = sfumato("measure", people, "--colums", "age")
    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--memory", "lots", "not a memory size"),
        ("--memory", "1KB", "1,024 bytes is too small. Give at least 256MB."),
        ("--memory", "0", "Give at least 256MB."),
        ("--time", "soon", "not a duration"),
        ("--threads", "0", "--threads"),
        ("--engine", "oracle", "--engine"),
    ],
)
def test_bad_values_of_common_options(people, option, value, word):
    done = sfumato("measure", people, option, value)
    assert (done.code, done.out) == (2, "")
    assert word in " ".join(done.err.split())


def test_an_error_is_one_sentence_on_standard_error(people):
    done = sfumato("measure", people, "-c", "agee")
    assert (done.code, done.out) == (2, "")
    assert "there is no column `agee`" in done.err
    assert "Did you mean `age`?" in done.err
    assert "Traceback" not in done.err


def test_under_json_an_error_is_an_object_on_standard_error(people):
    done = sfumato("measure", people, "-c", "agee", "--json")
    assert (done.code, done.out) == (2, "")
    error = json.loads(done.err)["error"]
    assert error["kind"] == "ColumnError"
    assert error["exit_code"] == 2
    assert error["where"].endswith("people.csv")
    assert "age" in error["remedy"]


def failing(error):
    def fail(*arguments, **options):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (PromiseError("k is 2, not 5"), 1, "k is 2, not 5"),
        (EngineError("the server is gone"), 3, "the server is gone"),
        (MemoryError(), 3, "not enough memory"),
        (OSError(28, "No space left on device", "out.csv"), 3, "the disk is full"),
        (PermissionError(13, "Permission denied", "in.csv"), 2, "permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(monkeypatch, people, error, code, words):
    monkeypatch.setattr(measure_module, "measure", failing(error))
    done = sfumato("measure", people)
    assert (done.code, done.out) == (code, "")
    assert words in done.err.lower() or words in done.err


def test_an_unexpected_error_does_not_quote_cells(monkeypatch, people):
    monkeypatch.setattr(measure_module, "measure", failing(ValueError("cell: Ada Lovelace")))
    done = sfumato("measure", people)
    assert (done.code, done.out) == (3, "")
    assert "ValueError" in done.err
    assert "Ada" not in done.err


def test_an_unexpected_error_is_told_whole_to_those_who_ask(monkeypatch, people):
    monkeypatch.setenv("SFUMATO_DEBUG", "1")
    monkeypatch.setattr(measure_module, "measure", failing(ValueError("the whole story")))
    with pytest.raises(ValueError, match="the whole story"):
        sfumato("measure", people)


def test_a_reader_who_goes_away_is_not_an_error(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(400)]
    path.write_text(",".join(names) + "\n" + ",".join("1" * 400) + "\n")
    program = subprocess.Popen(
        [*PROGRAM, "scan", str(path), "--json", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    program.stdout.close()  # what `head` does
    _, err = program.communicate(timeout=120)
    assert program.returncode == 141
    assert err == b""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "kill"]
)
def test_interrupted_work_leaves_nothing_behind(tmp_path, number, code):
    out = tmp_path / "people.parquet"
    program = subprocess.Popen(
        [*PROGRAM, "demo-data", "-o", str(out), "--rows", "20000000", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 60
        while not os.listdir(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert os.listdir(tmp_path), "the work did not begin"
        program.send_signal(number)
        program.wait(timeout=60)
    finally:
        program.kill()
        program.communicate()
    assert program.returncode == code
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("late", ["synced", "Staged.discard"])
def test_who_is_interrupted_too_late_is_told_that_the_release_is_there(
    tmp_path, people, monkeypatch, late
):
    out = tmp_path / "out.csv"
    usual = attrgetter(late)(staging)

    def interrupted(*given):
        usual(*given)
        if out.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"sfumato.engines.staging.{late}", interrupted)
        done = sfumato("anonymize", people, "-k", 3, "--qi", "age", "-o", out)
    assert done.code == 130
    said = f"Interrupted. The release beside {out}.certificate.json is there, and whole."
    assert said in " ".join(done.err.split())
    assert sfumato("verify", out).code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_who_cannot_be_answered_is_told_that_the_release_is_there(tmp_path, people):
    out = tmp_path / "out.csv"
    asked = ["anonymize", people, "-k", "3", "--qi", "age", "-o", out, "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, *asked], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    said = f"The release beside {out}.certificate.json is there, and whole."
    assert said in json.loads(done.stderr)["error"]["remedy"]


def test_the_code_is_that_of_the_signal_wherever_it_comes(people, tmp_path):
    """Libraries make functions from text, and Python remembers a signal that came meanwhile."""
    (tmp_path / "program.py").write_text("""
import signal
from sfumato import cli
from sfumato.quasi import measure

def interrupted(*_, **__):
    exec("signal.raise_signal(signal.SIGTERM)")

measure.measure = interrupted
cli._say("what is said is made by such a library, too")
cli.main()
""")
    ended = subprocess.run(
        [sys.executable, "-m", "program", "measure", people.resolve()],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert ended.stderr.endswith(b"too\nsfumato: Interrupted.\n")
    assert ended.returncode == 143


def test_an_interruption_that_a_library_disguises(monkeypatch, people):
    """Database drivers turn Ctrl-C into errors of their own."""

    def disguise(*arguments, **options):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise RuntimeError("query aborted") from None

    before = signal.getsignal(signal.SIGINT)  # Spark leaves one of its own
    monkeypatch.setattr(measure_module, "measure", disguise)
    done = sfumato("measure", people)
    assert (done.code, done.out, done.err) == (130, "", "sfumato: Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interruption_that_a_library_swallows(monkeypatch, people):
    def swallow(*arguments, **options):
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        time.sleep(60)  # somebody cleared the error, and the work goes on

    monkeypatch.setattr(measure_module, "measure", swallow)
    started = time.monotonic()
    done = sfumato("measure", people)
    assert (done.code, done.err) == (143, "sfumato: Interrupted.\n")
    assert time.monotonic() - started < 50


def test_who_is_interrupted_may_clean_up(monkeypatch, people):
    cleaned = []

    def tidy(*arguments, **options):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        finally:
            time.sleep(3 * cli._SECONDS_TO_HEED)
            cleaned.append("all of it")

    monkeypatch.setattr(measure_module, "measure", tidy)
    assert sfumato("measure", people).code == 130
    assert cleaned == ["all of it"]


def test_progress_is_silent_for_quick_work_and_speaks_on_standard_error(monkeypatch, capsys):
    from sfumato.cli import _running

    with _running.ProgressLine() as line:
        line("Reading", 0.5)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_running, "PATIENCE", 0.0)
    with _running.ProgressLine() as line:
        deadline = time.monotonic() + 20
        while line._show is None and time.monotonic() < deadline:
            time.sleep(0.01)
        line("Reading", 0.5)
    captured = capsys.readouterr()
    assert captured.err.startswith("sfumato: ")
    assert captured.out == ""
    with _running.ProgressLine(quiet=True) as line:
        line("Reading", 0.5)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_interrupt_lost_in_compiled_code_is_delivered_again():
    @ctypes.CFUNCTYPE(None)
    def callback():
        os.kill(os.getpid(), signal.SIGINT)

    def work():
        callback()  # an exception cannot pass through here
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(0.01)

    with pytest.raises(typer.Exit) as stopped, guarded(as_json=False):
        work()
    assert stopped.value.exit_code == 130


def test_standard_output_that_is_closed(people):
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *PROGRAM, "measure", people, "--json"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "standard output is closed" in done.stderr
