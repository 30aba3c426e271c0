"""All tables appear together or not at all, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import killed_house
import sfumato as sf
from cli_tools import killed_again
from sfumato.engines import staging
from sfumato.errors import ParameterError, PromiseError
from sfumato.relational import release as releasing
from sfumato.release import Finding


def digest(folder: Path) -> dict[str, str]:
    return {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in sorted(folder.iterdir())
    }


def killed(times: int, house: Path, key: Path, tmp_path: Path) -> None:
    """Kill releases at any moment; each left all tables or none."""
    asked: dict[str, Any] = {"qi": ["patients.sex", "visits.ward"], "k": 2, "m": 2}
    whole = tmp_path / "whole"
    sf.relational.anonymize(house, linkable=True, key_file=key, output=whole, **asked)
    expected = {n: d for n, d in digest(whole).items() if n != "certificate.json"}
    assert len(expected) == 4
    there, folder = 0, tmp_path / "out"
    output = folder / "released"
    folder.mkdir()
    for _ in killed_again(times, killed_house.write, str(house), str(output), str(key)):
        if output.exists():
            there += 1
            found = digest(output)
            assert {n: d for n, d in found.items() if n != "certificate.json"} == expected
            assert sf.relational.verify(output).holds
        shutil.rmtree(folder)
        folder.mkdir()
    assert there >= 1


def test_a_killed_release_leaves_all_tables_or_none(house: Path, key: Path, tmp_path: Path) -> None:
    killed(3, house, key, tmp_path)


@pytest.mark.slow
def test_fifty_killed_releases_leave_all_tables_or_none(
    house: Path, key: Path, tmp_path: Path
) -> None:
    killed(50, house, key, tmp_path)


def test_a_broken_promise_publishes_nothing(
    house: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Finding:
        return Finding("linked-tables", False, "nobody is safe", {"k": 1})

    monkeypatch.setattr(releasing.LinkedTables, "check", refused)
    with pytest.raises(PromiseError, match="nobody is safe"):
        release(house, key, tmp_path / "released")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["house"]


def release(house: Path, key: Path, output: Path, **more: Any) -> sf.relational.TablesRelease:
    return sf.relational.anonymize(
        house,
        qi=["patients.sex", "visits.ward"],
        k=2,
        m=1,
        linkable=True,
        key_file=key,
        output=output,
        **more,
    )


@pytest.mark.parametrize("done", [0, 1, 2])
def test_whoever_interrupts_while_one_dataset_replaces_another_has_one_of_both(
    done: int, house: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after so many renamings, where two names cannot be exchanged at once."""
    output, rename, times = tmp_path / "released", os.rename, 0
    release(house, key, output)
    earlier = digest(output)

    def interrupted(*names: Any) -> None:
        nonlocal times
        times += 1
        if times <= done or times > max(done, 1):
            rename(*names)
        if times == max(done, 1):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patched.setattr(staging, "_exchanged", lambda *_: False, raising=False)
        patched.setattr(os, "rename", interrupted)
        release(house, key, output, force=True, exact_ends=True)
    assert sf.relational.verify(output).holds
    assert (digest(output) == earlier) == (done < 2)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["house", "released"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges names")
def test_one_dataset_replaces_another_in_one_step(
    house: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "released"
    release(house, key, output)
    earlier = digest(output)
    monkeypatch.setattr(os, "rename", None)
    release(house, key, output, force=True, exact_ends=True)
    assert digest(output) != earlier
    assert sorted(one.name for one in tmp_path.iterdir()) == ["house", "released"]


def test_only_a_released_dataset_is_replaced(house: Path, key: Path, tmp_path: Path) -> None:
    output = tmp_path / "released"
    release(house, key, output)
    first = digest(output)
    with pytest.raises(ParameterError, match="of this name already"):
        release(house, key, output)
    release(house, key, output, force=True)
    assert digest(output) == first
    other = tmp_path / "precious"
    other.mkdir()
    (other / "thesis.txt").write_text("all of it")
    with pytest.raises(ParameterError, match="not a released dataset"):
        release(house, key, other, force=True)
    assert (other / "thesis.txt").exists()
    with pytest.raises(ParameterError, match="the tables being read"):
        release(house, key, house, force=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["house", "precious", "released"]
