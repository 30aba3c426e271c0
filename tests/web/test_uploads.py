"""Tables that come through the browser: private while they are here, and gone afterwards."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.engines.private_folder import MARK
from sfumato.web.sources import Uploads
from workbench import Running, running

TABLE = b"age,sex,town\n" + b"".join(
    b"%d,%s,%s\n" % (20 + row % 30, b"FM"[row % 2 : row % 2 + 1], b"Aton" if row % 3 else b"Berg")
    for row in range(240)
)


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A workbench whose temporary files lie in `tmp_path`."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running([tmp_path_factory.mktemp("shelf")], Uploads(most=10_000)) as found:
        yield found


def kept(folder: Path) -> list[Path]:
    """Files that are there, whoever made them, except for the mark of the folder they lie in."""
    files = (place for place in folder.rglob("*") if place.is_file())
    return sorted(place for place in files if place.name != MARK)


def test_an_uploaded_table_is_private_and_goes_with_its_project(
    bench: Running, tmp_path: Path
) -> None:
    page = bench.follow(bench.upload("people.csv", TABLE))
    assert "What may others know?" in page.text
    (project,) = bench.workbench.projects.values()
    assert not project.kept
    assert project.source.read_bytes() == TABLE
    assert project.source.name == "people.csv"
    for place in (project.source.parent, project.source.parent.parent):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert tmp_path in place.parents
    roles = {f"role-{at}": "quasi-identifier" for at in range(3)}
    base = f"/p/{project.number}"
    bench.follow(bench.post(f"{base}/configure", k=3, method="mondrian", **roles))
    done = bench.follow(bench.post(f"{base}/release"))
    assert "everything is removed when it is closed" in done.text
    taken = bench.get(f"{base}/release/files/release.csv")
    assert taken.status == 200
    assert taken.text == (project.folder / "release.csv").read_text()
    home = bench.get("/").text  # whoever closes it is asked: the button is inside what opens
    asked = home[home.index('<details class="closing">') : home.index("</details>")]
    assert f'action="{base}/close"' in asked
    assert home.count(f'action="{base}/close"') == 1
    assert "removes it with its releases, for good" in asked
    bench.post(f"{base}/close")
    assert kept(tmp_path) == []


def test_what_may_be_taken_away_is_the_release_and_nothing_else(bench: Running) -> None:
    bench.follow(bench.upload("people.csv", TABLE))
    (project,) = bench.workbench.projects.values()
    base = f"/p/{project.number}/release/files"
    assert bench.get(f"{base}/release.csv").status == 404  # not made yet
    roles = {f"role-{at}": "quasi-identifier" for at in range(3)}
    bench.post(f"/p/{project.number}/configure", k=3, method="mondrian", **roles)
    bench.follow(bench.post(f"/p/{project.number}/release"))
    for name in ("release.toml", "release.html", "release.csv.certificate.json"):
        assert bench.get(f"{base}/{name}").status == 200
    for wrong in ("project.toml", "../people.csv", "..%2fpeople.csv", "%2e%2e/people.csv",
                  "/etc/passwd", "//etc/passwd", "release.csv/", "", "%00"):  # fmt: skip
        assert bench.get(f"{base}/{wrong}").status == 404


@pytest.mark.parametrize(
    "name",
    ["people.exe", "", ".csv", "../../.hidden.csv", "a\nb.csv", "x" * 250 + ".csv", "people"],
)
def test_names_that_are_refused(bench: Running, tmp_path: Path, name: str) -> None:
    assert bench.upload(name, TABLE).status == 400
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["../../etc/people.csv", "C:\\data\\people.csv", "/abs/people.csv"]
)
def test_names_lead_nowhere(bench: Running, tmp_path: Path, name: str) -> None:
    bench.follow(bench.upload(name, TABLE))
    (project,) = bench.workbench.projects.values()
    assert project.source.name == "people.csv"
    assert tmp_path in project.source.parents


def test_too_large_is_refused_before_and_while_it_comes(bench: Running, tmp_path: Path) -> None:
    assert bench.upload("people.csv", TABLE * 10).status == 413
    bench.workbench.uploads.most = len(TABLE) - 1  # as if the browser had told a smaller size
    assert bench.upload("people.csv", TABLE).status in (400, 413)
    assert kept(tmp_path) == []
    assert bench.workbench.projects == {}


def test_only_files_as_they_are(bench: Running, tmp_path: Path) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert bench.upload("people.csv", TABLE, **form).status == 415
    assert kept(tmp_path) == []
    page = bench.follow(bench.upload("people.parquet", b"PAR1" + TABLE))  # no Parquet inside
    assert 'class="verdict bad"' in page.text
    for number in list(bench.workbench.projects):
        bench.post(f"/p/{number}/close")
    assert kept(tmp_path) == []


async def _endless() -> object:
    while True:
        yield b"x" * 4096


def test_a_stream_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from sfumato.errors import ParameterError

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uploads = Uploads(most=100_000)
    with pytest.raises(ParameterError, match="larger than"):
        asyncio.run(uploads.receive("people.csv", _endless()))  # type: ignore[arg-type]
    assert kept(tmp_path) == []
    uploads.close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_the_workbench_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running([tmp_path_factory.mktemp("shelf")]) as bench:
        bench.follow(bench.upload("people.csv", TABLE))
        bench.follow(bench.post("/demo"))
        assert len(bench.workbench.projects) == 2
        assert len(kept(tmp_path)) >= 2
    assert list(tmp_path.iterdir()) == []


def test_tables_of_one_name_are_told_apart(bench: Running) -> None:
    """On the first page, and above every step, while they are open."""
    (shelf,) = bench.workbench.shelf._folders
    (shelf / "people.csv").write_bytes(TABLE)
    bench.follow(bench.post("/open", table=str(shelf / "people.csv")))
    assert f"(in {shelf})" not in bench.get("/").text
    for _ in range(2):
        bench.follow(bench.upload("people.csv", TABLE))
    bench.follow(bench.upload("persons.csv", TABLE))
    labels = [f"people.csv (in {shelf})", "people.csv (upload 1)", "people.csv (upload 2)"]
    projects = list(bench.workbench.projects.values())
    assert [one.label for one in projects] == [*labels, "persons.csv"]
    home = bench.get("/").text
    for one, label in zip(projects, labels, strict=False):
        assert home.count(f">{label}</a>") == 1
        assert f'<span class="table">{label}</span>' in bench.get(f"/p/{one.number}/configure").text
    for one in projects[:2]:
        bench.post(f"/p/{one.number}/close")
    assert projects[2].label == "people.csv"


def test_a_file_where_a_folder_should_be_is_named(bench: Running) -> None:
    (shelf,) = bench.workbench.shelf._folders
    (shelf / "blk.csv").write_bytes(TABLE)
    (shelf / "blk.csv.sfumato").write_text("a note")
    page = bench.follow(bench.post("/open", table=str(shelf / "blk.csv")))
    assert "unexpected" not in page.text
    assert f"{shelf / 'blk.csv.sfumato'}: a file lies where decisions and releases" in page.text
    assert "Rename or move that file" in page.text
    assert not bench.workbench.projects
