"""Importing the joint models is cheap: compiled loops and peers load on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_heavy_libraries_are_not_loaded() -> None:
    code = (
        "import sys, sfumato.joint as joint; "
        "[getattr(joint, name) for name in joint.__all__]; "
        "heavy = {'numba', 'pandas', 'pyarrow', 'sklearn', 'scipy', 'lifelines', 'sksurv'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists() -> None:
    import sfumato.joint as joint

    assert len(joint.__all__) == len(set(joint.__all__))
    for name in joint.__all__:
        assert getattr(joint, name) is not None
    assert set(joint.__all__) <= set(dir(joint))


def test_only_one_module_reads_tables() -> None:
    import sfumato.joint as joint

    folder = Path(joint.__file__).parent
    reading = {p.name for p in folder.glob("*.py") if "sfumato.tables" in p.read_text()}
    assert reading == {"local_data.py"}
