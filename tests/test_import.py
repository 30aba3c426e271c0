"""Importing the package is quick: what it must not load."""

from __future__ import annotations

import subprocess
import sys

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


def test_public_names_all_resolve():
    import sfumato

    for name in sfumato.__all__:
        assert getattr(sfumato, name) is not None, name
    assert set(sfumato.__all__) <= set(dir(sfumato))


def test_a_verb_stays_a_verb_when_the_room_of_its_name_is_imported():
    """`sfumato.population` is a function and a package; whoever says `sf.` means the function."""
    import importlib
    import pkgutil

    import sfumato

    rooms = {module.name for module in pkgutil.iter_modules(sfumato.__path__)}
    for name in rooms.intersection(sfumato.__all__):
        importlib.import_module(f"sfumato.{name}")
        assert callable(getattr(sfumato, name)), name


def test_unknown_name_is_an_attribute_error():
    import pytest

    import sfumato

    with pytest.raises(AttributeError, match="anonymise_everything"):
        sfumato.anonymise_everything
