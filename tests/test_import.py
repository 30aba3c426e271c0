"""Importing the package is quick: what it must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from cli_tools import Program

HEAVY = ("numba", "pyarrow", "pyspark", "sklearn", "scipy", "pandas", "polars", "duckdb", "ibis")


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in a fresh interpreter after the statement."""
    script = f"import sys\n{statement}\nprint(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert not loaded_by("import sfumato").intersection({*HEAVY, "numpy", "typer", "rich"})


def test_program_lists_its_verbs_without_loading_them():
    statement = (
        "import contextlib, io\n"
        "from sfumato.cli import main\n"
        "sys.argv = ['sfumato', '--help']\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert not loaded_by(statement).intersection({*HEAVY, "numpy"})


def test_a_small_table_is_answered_without_numba(tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("age,sex\n20,F\n30,M\n")
    statement = (
        "import contextlib, io\n"
        "from sfumato.cli import main\n"
        f"sys.argv = ['sfumato', 'risk', {str(table)!r}, '--qi', 'age,sex', '--threads', '1']\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert not loaded_by(statement).intersection({"numba"})


def test_public_names_all_resolve():
    import sfumato

    for name in sfumato.__all__:
        assert getattr(sfumato, name) is not None, name
    assert set(sfumato.__all__) <= set(dir(sfumato))


def test_what_is_loaded_lazily_is_what_type_checkers_see():
    import importlib

    import sfumato

    tree = ast.parse(Path(sfumato.__file__).read_text("utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n))
    static = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*static, "__version__"} == set(sfumato.__all__)
    for name, home in static.items():
        value = getattr(sfumato, name)
        if home == "sfumato":
            assert value is importlib.import_module(f"sfumato.{name}")
        else:
            assert value is getattr(importlib.import_module(home), name), name


def test_no_module_has_the_name_of_a_verb():
    import pkgutil

    import sfumato

    rooms = {module.name for module in pkgutil.iter_modules(sfumato.__path__)}
    assert not rooms.intersection(sfumato._HOMES)


def test_unknown_name_is_an_attribute_error():
    import pytest

    import sfumato

    with pytest.raises(AttributeError, match="anonymise_everything"):
        sfumato.anonymise_everything


WITHOUT_POSIX = """
import importlib, os, pkgutil, signal, sys
import duckdb, numba, pyarrow.parquet, scipy.optimize, scipy.stats  # what they do is not asked
import sfumato

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for module, names in {
    os: "O_DIRECTORY O_NOFOLLOW O_NONBLOCK fork geteuid getuid sched_getaffinity sysconf",
    signal: "SIGALRM SIGHUP SIGKILL SIGPIPE SIGUSR1 pthread_kill pthread_sigmask",
}.items():
    for name in names.split():
        delattr(module, name)
for found in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
from sfumato.cli import main
main()
"""


def test_nothing_needs_what_windows_does_not_have(tmp_path):
    target = tmp_path / "people.parquet"
    done = Program("demo-data", "--rows", "50", "-o", target, code=WITHOUT_POSIX)
    _, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    assert target.exists()
