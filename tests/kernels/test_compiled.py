"""When loops are compiled, what they give before that, and where compiled code is kept."""

from __future__ import annotations

import ast
import gc
import importlib
import math
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import sfumato
from sfumato import kernels
from sfumato.budget import Budget, Clock, together
from sfumato.errors import UnfinishedError
from sfumato.kernels import compiler_process, compiling, translating
from sfumato.kernels.compiling import Loop
from sfumato.kernels.ranking import translate


def run(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_importing_loads_no_compiler():
    code = "import sys; from sfumato import kernels; print('numba' in sys.modules)"
    assert run(code) == "False"


def test_loading_compiled_loops_loads_neither_linear_algebra_nor_what_compiles():
    translate(np.ones(1 << 18, np.uint8), np.arange(2))  # it is stored now
    code = (
        "import sys, numpy as np; from sfumato.kernels.ranking import translate; "
        "print(translate(np.ones(1 << 18, np.uint8), np.arange(2))[-1], "
        "*(name in sys.modules for name in ('numba', 'scipy.linalg', 'numba.typed.typeddict')))"
    )
    assert run(code) == "1 True False False"


def test_small_tables_load_no_compiler(tmp_path):
    code = (
        "import sys, sfumato as sf; table = sf.table(sys.argv[1]); "
        "sf.measure(table); sf.scan(table); print('numba' in sys.modules)"
    )
    people = tmp_path / "people.csv"
    people.write_text("a,b\n" + "\n".join(f"{i % 7},x{i % 90}" for i in range(600)))
    assert run(code, str(people)) == "False"


def test_a_file_is_released_without_what_writes_statements(tmp_path):
    code = (
        "import sys, sfumato as sf; release = sf.anonymize(sys.argv[1], k=5, qi=['a', 'b']); "
        "release.to_arrow(); print('sqlglot' in sys.modules)"
    )
    people = tmp_path / "people.csv"
    people.write_text("a,b\n" + "\n".join(f"{i % 7},{i % 90}" for i in range(600)))
    assert run(code, str(people)) == "False"


FIRST = """
import sys
from numba.core import event
import sfumato as sf

class Compiling(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass

event.register("numba:compile", Compiling())
for method in sys.argv[2:]:
    asked = {"qi": ["a", "b", "c"], "k": 5, "l": 2, "sensitive": ["ill"]}
    sf.anonymize(sys.argv[1], method=method, **asked).to_arrow()
"""


def test_the_first_releases_of_a_machine_compile_nothing(tmp_path):
    people = tmp_path / "people.csv"
    rows = (f"{i % 89},x{i * 7 % 60},{i % 2},{'abcd'[i % 4]}" for i in range(1000))
    people.write_text("a,b,c,ill\n" + "\n".join(rows))
    methods = ["mondrian", "lattice", "full-domain", "kmember", "cells"]
    assert run(FIRST, str(people), *methods, NUMBA_CACHE_DIR=str(tmp_path)) == ""


VERBS = {
    "scan": "scan people.csv",
    "key": "key people.csv --proven -x patient_id,name,ssn,email,phone,note,cost",
    "keys": "keys people.csv",
    "violations": "violations people.csv -k 2 -c sex,zip,language,department",
    "population": "population people.csv --universe 1e6 --qi sex,birth_date,zip -k 50",
    "verify": "verify release.csv",
    "attack": "attack release.csv people.csv --on birth_date,sex,zip -k 5",
    "risk": "risk people.csv --qi birth_date,sex,zip --released release.csv",
    "utility": "utility release.csv --of people.csv",
    "report": "report people.csv --released release.csv -o report.html",
    "key of many columns": "key wide.csv --proven",
    "violations of many columns": "violations wide.csv -k 3",
    "uniques of many columns": "uniques wide.csv",
}
BLUR = (
    "anonymize people.csv -k 5 --qi birth_date,sex,zip,department --sensitive diagnosis -l 2 "
    "--identifiers patient_id,name,ssn,email,phone,note,doctor --method {} -o {}.csv"
)
for name in ("lattice", "full-domain", "kmember", "best", "cells"):
    VERBS[name] = BLUR.format(name, name)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="seconds of CPU of POSIX")
@pytest.mark.parametrize("verb", VERBS)
def test_the_first_run_of_a_verb_takes_four_seconds(verb, tmp_path):
    def sfumato(command, **environment):
        before = os.times()
        subprocess.run(
            [sys.executable, "-m", "sfumato", *command.split()],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            check=True,
        )
        now = os.times()
        return now.children_user + now.children_system - sum(before[2:4])

    sfumato("demo-data -o people.csv --rows 1000")
    cells = np.random.default_rng(7).integers(0, np.arange(4, 64), (1000, 60))
    names = ",".join(f"c{at}" for at in range(60))
    np.savetxt(tmp_path / "wide.csv", cells, "%d", ",", header=names, comments="")
    if "release.csv" in VERBS[verb]:
        sfumato(BLUR.format("mondrian", "release"))
    assert sfumato(VERBS[verb], NUMBA_CACHE_DIR=str(tmp_path / "empty")) <= 4


def test_nothing_is_compiled_for_a_thousand_rows_however_often_they_are_counted(monkeypatch):
    monkeypatch.setattr(compiling._Work, "entries", 1 << 40)
    assert compiling.by_numpy(1_000)
    assert not compiling.by_numpy(10_000)


def test_unknown_names_are_refused():
    assert not hasattr(kernels, "no_such_loop")


def _double(number):
    return number + number


double = Loop(_double)


def _add_up(numbers, narrow, total):
    for i in range(numbers.shape[0]):
        total[0] += double(numbers[i]) * narrow[i]
        narrow[i] = 0
    return total[0]


def _arguments():
    return np.arange(5), np.full(5, 200, np.uint8), np.zeros(1, np.int64)


def test_a_loop_gives_the_same_as_python_and_compiled():
    loop = Loop(_add_up)
    first, second = _arguments(), _arguments()
    assert loop.interpreted(*first) == loop.dispatcher(*second) == 4_000  # more than a byte holds
    assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(first, second, strict=True))


class Board(NamedTuple):
    fields: object
    moved: object


@compiling.bare
def _cut(numbers, low, high):
    if low > high:
        return -1, 0.5
    return low // 3, numbers[low % 2]


@compiling.bare
def _largest(row):
    largest = 0
    for number in row:
        largest = max(largest, number)
    return largest


@compiling.bare
def _count(counts, at):
    counts[at] += 1


STEP = 2


def _played(board, at, share):
    fields, moved, bits = board.fields, board.moved, np.uint64(1) << np.uint64(at)
    rows, columns = fields.shape
    own, total = np.zeros((rows, columns), np.int64), 0  # a whole number, at first
    for i in range(rows - 1, -1, -1):
        for j in range(0, columns, STEP):
            if i == j or (fields[i, j] == at and not moved[-1] > 9.0):
                continue
            fields[i, j], own[i, j] = fields[i, j] - at, fields[i, j]
            total += own[i, j] * share if share < 1.0 else -7
        _count(fields[i], -1)
        total += _largest(fields[i][1:])
    while True:
        bits = bits * np.uint64(3) ^ (bits >> np.uint64(1))
        if bits > np.uint64(1000) or bits == 0:
            break
    low, found = _cut(moved, np.int64(-total), at)
    moved[0] = moved[1] = low + found + math.log(abs(total) + 2.0**-3) / (at % -5 - 1)
    moved[-1] -= min(-1 // 2, at) | 4
    return total + (0 < at <= 4) + int(bits) + int(2.9) + (math.inf if at > 90 else 0)


def _board():
    return Board(np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(3.0))


def test_a_loop_gives_the_same_without_numba(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    loop = Loop(_played, most=0, direct=True)
    for at, share in ((4, 0.25), (1, 2.0), (40, 0.1), (91, 1.0)):
        first, second = _board(), _board()
        assert loop(first, at, share) == loop.plain(second, at, share)
        assert str(first) == str(second) != str(_board())
    assert "dispatcher" not in vars(loop)  # numba was not asked


def test_code_is_kept_until_it_would_be_another(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compiled, compiling_now = [], compiling.compiled_code
    monkeypatch.setattr(
        compiling, "compiled_code", lambda *made: compiled.append(made) or compiling_now(*made)
    )

    def played(field=np.int32):
        board = Board(np.ones((1, 1), field), np.ones(1))
        return Loop(_played, most=0, direct=True)(board, 1, 0.5)

    assert played() == played()
    assert len(compiled) == 1
    played(np.int16)
    assert len(compiled) == 2
    for kept in tmp_path.glob("*.code"):
        kept.write_bytes(kept.read_bytes()[:-1])  # as after a full disk
    assert played() == played()
    assert len(compiled) == 3
    monkeypatch.setattr(sys.modules[__name__], "STEP", 3)
    played()
    assert len(compiled) == 4


def _many(numbers):
    return numbers.size


def test_numba_compiles_what_else_nobody_understands():
    for loop, numbers in (
        (Loop(_many, most=0, direct=True), np.arange(2)),
        (Loop(_largest.py_func, most=0, direct=True), np.arange(4)[::2]),  # not side by side
        (Loop(_largest.py_func, most=0, direct=2), np.arange(3)),  # more than a few
    ):
        assert loop(numbers) == 2
        assert "dispatcher" in vars(loop)
    assert loop(np.arange(2)) == 1
    assert "translated" in vars(loop)


@compiling.compiled
def _spread(many):
    spread = np.empty(many, np.int64)
    spread[:] = 1 << 40
    for at in range(0, len(spread), many - 2):
        spread[at] = at
    return spread, np.zeros(many)


def _drawn(board, whether):
    first, second = board[:2]
    spread, zeros = _spread(5)
    kept = 0
    for _ in range(3):
        kept += spread[2] + max(1, 2, first.shape[0])
        spread, zeros = _spread(4)
        zeros[0] = second[2]
    return kept if whether else zeros[0]


def test_a_loop_makes_arrays_and_hands_them_on():
    loop = Loop(_drawn, most=0, direct=True)
    for whether in (True, False):
        assert loop(_board(), whether) == loop.plain(_board(), whether)
    assert "dispatcher" not in vars(loop)


def _handed_out(many, share):
    full = np.full((many + 1, 2), -3, np.int32)
    full[0, 1], full[many, 0] = 4, many
    seen = np.zeros(many, np.bool_)
    for at in range(0, many, 2):
        seen[at] = True
    line, other = full[0, 1:], np.zeros(2, full.dtype)
    other[0] = line[0] + full.T[0, many] + (many in (9, 3))
    return full[1:], other, seen, math.log2(share) / 4, np.full(2, share)


def test_a_loop_hands_arrays_to_python(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    loop = Loop(_handed_out, most=0, direct=True)
    for many in (3, 1, 0):
        found, told = loop(many, 0.5), loop.plain(many, 0.5)
        assert str(found) == str(told)
        assert [np.asarray(one).dtype for one in found] == [np.asarray(one).dtype for one in told]
    assert Loop(_spread.py_func, direct=True, most=0)(5)[0].tolist() == _spread.plain(5)[0].tolist()
    assert "dispatcher" not in vars(loop)


def _ends(numbers, share):
    own = np.empty(3)
    own[:] = numbers[0]
    own[1:] = share
    return numbers[-1], own[0] + own[2]


def test_a_loop_runs_as_it_is_until_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    numbers, calls = np.r_[2, np.full(5_000, 4)], []
    few = {"instead": lambda *given: calls.append(given) or (4, 2.5), "direct": True}
    loop = Loop(_ends, **few)
    assert loop(numbers, 0.5) == (4, 2.5)
    loop.patience = 0.0
    assert loop(numbers, 0.5) == loop(numbers, 0.5) == (4, 2.5)
    assert len(calls) == 1
    assert Loop(_ends, **few)(numbers, 0.5) == (4, 2.5)  # what another process compiled
    assert len(calls) == 1
    assert Loop(_ends, **few)(numbers.astype(np.int8), 0.5) == (4, 2.5)
    assert Loop(_ends, **few)(numbers[:9], 0.5) == (4, 2.5)  # not worth loading
    assert len(calls) == 3


def _with_and_without_a_constant(number):
    return double(number) + double(1)


def test_a_constant_is_no_reason_to_compile_again():
    assert numba.njit(_with_and_without_a_constant)(3) == 8
    assert len(double.inside.signatures) == 1


@pytest.fixture
def ways(monkeypatch):
    """How loops ran."""
    taken = []
    interpreted = Loop.interpreted

    def as_python(self, *given):
        taken.append("python")
        return interpreted(self, *given)

    def dispatcher(self):
        taken.append("compiled")
        return self.plain

    monkeypatch.setattr(Loop, "stored", False)
    monkeypatch.setattr(Loop, "interpreted", as_python)
    monkeypatch.setattr(Loop, "dispatcher", property(dispatcher))
    return taken


def test_much_is_compiled(ways):
    loop = Loop(_add_up, most=10)
    loop(*_arguments())  # eleven numbers
    assert ways == ["compiled"]


def test_little_is_not(ways):
    loop = Loop(_add_up, most=11)
    assert loop(*_arguments()) == 4_000
    assert ways == ["python"]


def test_arrays_that_share_memory_are_not_copied_apart(ways):
    numbers = np.arange(10)
    Loop(_add_up)(numbers[:5], np.ones(5, np.int64), numbers[:1])
    assert ways[0] == "compiled"


class Stored:
    """What numba kept of a loop."""

    overload = ("i", "u", "i")
    typeof_pyval = staticmethod(lambda value: value.dtype.kind)
    _cache = property(lambda self: self)
    _cache_file = property(lambda self: self)
    _load_index = staticmethod(lambda: {(Stored.overload, "cpu"): "file"})

    def __call__(self, *given):
        return Loop(_add_up).plain(*given)


def test_what_was_compiled_before_is_used(ways, monkeypatch):
    monkeypatch.setattr(Loop, "lent", 0.0)
    monkeypatch.setattr(Stored, "overload", ("i", "u", "i"))
    monkeypatch.setattr(Loop, "stored", True)
    monkeypatch.setattr(Loop, "dispatcher", Stored())
    Loop(_add_up)(*_arguments())
    assert ways == []
    Stored.overload = ("f", "u", "i")  # compiled, but for other types
    Loop(_add_up)(*_arguments())
    assert ways == ["python"]


def test_numba_is_not_loaded_for_what_is_done_sooner(ways, monkeypatch):
    monkeypatch.setattr(Loop, "stored", True)
    monkeypatch.setattr(Loop, "dispatcher", Stored())
    monkeypatch.setattr(Loop, "lent", 1e-9)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    Loop(_add_up)(*_arguments())
    assert ways == ["python"]
    Loop(_add_up)(*_arguments())  # all such loops together have taken as long as loading it
    assert ways == ["python"]
    monkeypatch.setattr(Loop, "lent", 1.0)
    monkeypatch.setattr(compiling, "_LITTLE", 10)
    Loop(_add_up)(*_arguments())  # eleven numbers
    assert ways == ["python"]


def _count_to(end, count):
    while count[0] < end:
        count[0] += 1
    return end


def test_patience_ends_and_nothing_has_happened(ways, monkeypatch):
    seen = []

    def short(end, count):
        seen.append(count[0])
        return "compiled"

    monkeypatch.setattr(Loop, "dispatcher", property(lambda self: short))
    loop, count = Loop(_count_to, patience=0.05), np.zeros(1, np.int64)
    assert loop(10**12, count) == "compiled"
    assert ways == ["python"]
    assert (seen, count[0]) == ([0], 0)
    assert loop(3, count) == "compiled"  # from then on
    assert ways == ["python"]


def _doze(count):
    time.sleep(0.3)
    count[0] += 1


def _many_lists(count):
    return len([[at] for at in range(count[0])])


def test_no_garbage_is_collected_where_an_alarm_could_get_lost():
    told = []
    loop = Loop(_many_lists, patience=60)
    loop(np.array([0]))  # which loads numba, if nobody did
    gc.callbacks.append(lambda *_: told.append(1))
    try:
        assert _many_lists([500_000]) == 500_000
        assert told
        told.clear()
        assert loop(np.array([500_000])) == 500_000
        assert not told
        assert gc.isenabled()
    finally:
        gc.callbacks.pop()


def test_what_would_take_too_long_is_not_begun(ways):
    loop = Loop(_add_up, most=11, patience=60)
    loop.ahead(30)
    loop(*_arguments())
    loop.ahead(90)
    loop(*_arguments())
    assert ways == ["python", "compiled"]


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock of a thread")
def test_patience_is_not_lost_by_waiting(ways):
    loop, count = Loop(_doze, patience=0.1), np.zeros(1, np.int64)
    loop(count)
    loop(count)
    assert (ways, count[0]) == (["python", "python"], 2)


def _twice(number):
    return 2 * number


halved = Loop(_twice, instead=lambda number: number // 2)  # gives another number, to be told apart


def _through(number):
    return halved(number) + 1


def test_what_a_loop_names_instead_runs_while_there_is_little(ways):
    assert halved(10) == 5
    assert Loop(_through)(10) == 6  # also within another loop
    assert ways == ["python"]
    with compiling.without_delay():
        assert Loop(_twice, instead=lambda number: number // 2)(10) == 20
    assert ways == ["python", "compiled"]
    few = Loop(_add_up, most=10, instead=lambda *given: "instead")
    few(*_arguments())  # eleven numbers
    assert few.settled


def _never_compiled(number):
    return number


def test_a_stored_loop_is_recognised():
    from sfumato.kernels.sorted_groups import _traced_back

    _traced_back.dispatcher(np.array([0, 0], np.int64), 1)
    assert _traced_back.stored
    assert not Loop(_never_compiled).stored


def test_time_stands_still_while_numba_compiles():
    told = []
    budget = Budget(seconds=3600, on_progress=lambda doing, share: told.append(doing))
    Loop(_count_to).dispatcher  # whoever makes one listens
    import numba

    start, before = time.monotonic(), budget.elapsed
    with budget.at_work():
        numba.njit(lambda number: number + 1)(1.5)
    took = time.monotonic() - start
    assert told == ["compiling, once on this machine"]
    assert budget.elapsed - before < took
    assert Clock._stopped is None


def test_compiling_is_said_while_it_lasts_and_of_the_work_that_waits_for_it():
    import numba

    told, over = [], []
    budget = Budget(on_progress=lambda doing, share: told.append((doing, share)))
    before = Budget(on_progress=lambda doing, share: over.append(doing))
    Loop(_count_to).dispatcher
    with before.at_work():
        before.progress("counting")
    with budget.at_work():
        budget.part(0.5).progress("searching", 0.5)
        together(numba.njit(lambda number: number + 2), [(1.5,), (2.5,)])
    numba.njit(lambda number: number + 3)(1.5)
    compiling = ("compiling, once on this machine", None)
    assert told == [("searching", 0.5), compiling, ("searching", 0.5)]
    assert over == ["counting"]


def test_whoever_is_told_of_compiling_may_end_it():
    import numba

    def interrupt(doing, share):
        raise KeyboardInterrupt

    budget = Budget(on_progress=interrupt)
    Loop(_count_to).dispatcher
    with budget.at_work(), pytest.raises(KeyboardInterrupt):
        numba.njit(lambda number: number + 4)(1.5)
    assert Clock._stopped is None
    assert numba.njit(lambda number: number + 5)(1.5) == 6.5
    assert Clock._stopped is None


def test_without_a_folder_to_write_there_is_one_of_our_own(tmp_path, monkeypatch):
    import numba
    from numba.core import caching

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    asked = next(v for k, v in vars(caching).items() if k.endswith("UserProvidedCacheLocator"))
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [asked])
    assert Loop(_count_to).dispatcher(2, np.zeros(1)) == 2
    (folder,) = tmp_path.iterdir()
    assert any(folder.rglob("*.nbi"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_others_may_write_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Path(compiling._own_folder())
    assert Path(compiling._own_folder()) == own
    own.chmod(0o770)
    other = Path(compiling._own_folder())
    assert other != own
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    other.rmdir(), own.rmdir()
    own.symlink_to(tmp_path)
    assert Path(compiling._own_folder()) != own


def test_without_any_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file" / "below"))
    assert compiling._own_folder() is None
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)  # nothing can be written
    assert compiling._own_folder() is None


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A loop whose compiled code this process and others keep in one folder."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "shared.py").write_text(
        "from sfumato.kernels.compiling import Loop, without_numba\n\n"
        "@Loop\ndef loop(number):\n    return 3 * number\n\n"
        "@Loop\ndef outer(number):\n    return loop(loop(number))\n\n"
        "@without_numba\ndef plain(number):\n    return number + 1\n\n"
        "@without_numba\ndef joined(texts):\n    return ', '.join(texts)\n"
    )
    yield importlib.import_module("shared").loop.dispatcher
    del sys.modules["shared"]


def other_process(patience: float) -> subprocess.Popen[str]:
    """Uses the same loop; says when it compiles or waits, the answer, and if it compiled."""
    code = (
        "import sys, shared; from sfumato.budget import Budget; "
        "from sfumato.kernels import compiling; compiling._Turns.patience = float(sys.argv[1]); "
        "budget = Budget(on_progress=lambda doing, share: print(doing, flush=True)); "
        "working = budget.at_work(); working.__enter__(); "
        "loop = shared.loop.dispatcher; print(loop(3)); "
        "print(sum(loop.stats.cache_misses.values()))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(patience)], stdout=subprocess.PIPE, text=True
    )


def turn(dispatcher):
    """What a process holds while it compiles a loop."""
    kept = dispatcher._cache._cache_file
    return compiling._Turns.of(kept._cache_path).taken(kept._index_name)


COMPILING = "compiling, once on this machine\n"


def test_several_processes_compile_a_loop_once(shared):
    with turn(shared):
        other = other_process(patience=60)
        assert other.stdout.readline() == COMPILING  # it waits
        assert shared(2) == 6  # a process that holds a loop may need it again
    assert other.communicate() == ("9\n0\n", None)
    assert sum(shared.stats.cache_misses.values()) == 1


def test_what_loops_call_is_kept_apart_from_what_python_calls(shared):
    assert sys.modules["shared"].outer.dispatcher(2) == 18
    assert shared(2) == 6  # not with what was just compiled for a loop
    assert sum(shared.stats.cache_misses.values()) == 1
    other = other_process(patience=60)
    assert other.communicate()[0].endswith("9\n0\n")


def test_what_loops_call_is_made_into_machine_code_with_them_only(shared):
    loops = sys.modules["shared"]
    assert loops.outer.dispatcher(2) == 18
    (part,) = loops.loop.inside.overloads.values()
    (whole,) = loops.outer.dispatcher.overloads.values()
    assert list(part.library.get_defined_functions()) == []
    assert list(whole.library.get_defined_functions()) != []


@pytest.fixture
def limited():
    """Memory is limited, and what is said meanwhile."""
    told = []
    budget = Budget(
        memory=1 << 30, seconds=3600, on_progress=lambda doing, share: told.append(doing)
    )
    with budget.at_work():
        yield told
    assert Clock._stopped is None


def test_where_memory_is_limited_another_process_compiles(shared, limited, tmp_path):
    loops = sys.modules["shared"]
    assert (loops.outer.dispatcher(2), loops.plain.translated(2)) == (18, 3)
    assert "inside" not in vars(loops.loop)  # it would have been made to compile `outer`
    assert not loops.outer.dispatcher.stats.cache_misses
    assert limited == [COMPILING.rstrip()] * 2
    assert len(list(tmp_path.glob("*.code"))) == 1
    others = importlib.reload(loops)
    assert (others.outer.dispatcher(3), others.plain.translated(3)) == (27, 4)
    assert len(limited) == 2  # both were kept


def test_so_it_does_where_nothing_can_be_kept(shared, limited, monkeypatch):
    def nowhere(_):
        raise RuntimeError

    monkeypatch.setattr(compiling, "_own_folder", lambda: None)
    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "enable_caching", nowhere)
    dispatcher = importlib.reload(sys.modules["shared"]).outer.dispatcher
    assert dispatcher.stats.cache_path is None
    assert dispatcher(2) == 18
    assert (len(limited), "inside" in vars(sys.modules["shared"].loop)) == (1, False)


def test_what_fails_there_fails_here_as_it_does_without_a_limit(shared, limited):
    loops = sys.modules["shared"]
    with pytest.raises(numba.TypingError):
        loops.outer.dispatcher(None)
    with pytest.raises(translating.UntranslatableError):
        loops.joined.translated(np.zeros(1))


def test_a_process_that_ended_is_started_again_and_once_only(shared, limited, monkeypatch):
    loops = sys.modules["shared"]
    running = compiler_process._Process.running()
    running._process.kill()
    assert loops.plain.translated(2) == 3
    assert compiler_process._Process.running() is not running
    compiler_process._Process.running().end()
    monkeypatch.setattr(compiler_process, "_SERVES", "pass")
    with pytest.raises(UnfinishedError, match="Run the same once without the limit"):
        loops.loop.dispatcher(2)
    assert compiler_process._Process._running is None


def test_a_process_that_is_not_asked_ends():
    code = (
        "from sfumato.kernels import compiler_process as own; own._Process.idle = 0.01; own.serve()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        assert process.wait(60) == 0


FORKED = """
import os
from sfumato.kernels.compiler_process import _Process, made_apart
_Process.turn.acquire()  # as a thread does that waits for its answer
if not os.fork():
    print(made_apart(abs, -3), flush=True)
    os._exit(0)
os.wait()
"""

INTERRUPTED = """
import os, signal, threading, time
from sfumato.kernels.compiler_process import _Process, made_apart
made_apart(abs, -1)
first = _Process.running()._process
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    made_apart(time.sleep, 600)
except KeyboardInterrupt:
    print(first.poll() is not None, made_apart(abs, -3))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies processes")
@pytest.mark.parametrize(("code", "said"), [(FORKED, "3\n"), (INTERRUPTED, "True 3\n")])
def test_who_was_copied_or_interrupted_is_answered_all_the_same(code, said):
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=120) == said


def test_nobody_waits_for_ever(shared):
    with turn(shared), other_process(patience=0.05) as other:
        assert other.stdout.readline() == COMPILING  # it waits, and compiles then
        assert other.stdout.read() == COMPILING + "9\n1\n"


def test_where_nothing_can_be_locked_nobody_waits(tmp_path):
    nowhere = compiling._Turns(str(tmp_path / "missing"))
    with nowhere.taken("loop"):
        assert compiling._lock(1 << 20, 7)  # no such file


def test_compiled_loops_order_by_a_loop_of_their_own():
    """Numba names what it compiles by a number that starts anew in every process. In a cache that
    several processes filled, its quicksort that sorts and its quicksort that orders can therefore
    have one name, and the wrong one is called: a crash. Its merging is not kept in any cache.
    """
    calls = (call for _, loop in loops() for call in ast.walk(loop) if isinstance(call, ast.Call))
    called = {ast.unparse(call.func) for call in calls}
    assert "largest_first" in called
    assert not [name for name in called if name.endswith("argsort")]


def test_loops_take_logarithms_from_math():
    """Numpy's may differ from the compiled ones in the last digit."""
    other = {f"np.{name}" for name in ("log", "log2", "log10", "exp", "power", "sin", "cos")}
    for path, function in loops():
        called = {ast.unparse(c.func) for c in ast.walk(function) if isinstance(c, ast.Call)}
        assert not called & other, (path, function.name)


@cache
def loops():
    """Functions of the package that are compiled."""
    found = []
    for path in Path(sfumato.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^ *@.*(compiled|njit|bare|without_numba)", text, re.M):
            continue  # most files: reading their syntax takes longest
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef):
                by = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
                if any(name in by for name in ("compiled", "njit", "bare", "without_numba")):
                    found.append((path, function))
    return found


@pytest.mark.parametrize("ended_by", [None, KeyError, KeyboardInterrupt])
def test_an_alarm_that_comes_too_late_is_taken_back(monkeypatch, ended_by):
    """Else it would end whatever runs next, far from the loop that it was set for."""
    told: list[object] = []
    monkeypatch.setattr(compiling._Alarm, "_raise", lambda self, error: told.append(error))
    alarm = compiling._Alarm(60)
    alarm._ring()
    alarm.__exit__(ended_by)
    assert told[-1] is None
    heeded = compiling._Alarm(60)
    heeded._ring()
    heeded.__exit__(compiling._TooLong)
    assert told[-1] is not None


def test_what_others_write_while_a_loop_begins_stays(monkeypatch):
    copied = compiling._copied

    def meanwhile(value, copies):
        own = copied(value, copies)
        if isinstance(value, np.ndarray):
            value[1] = 7  # as another thread may, once this one has its copy
        return own

    loop, numbers = Loop(_first_becomes_one), np.zeros(3, np.int64)
    monkeypatch.setattr(compiling, "_copied", meanwhile)
    loop.interpreted(numbers)
    assert numbers.tolist() == [1, 7, 0]


def _first_becomes_one(numbers):
    numbers[0] = 1
