"""Public tables: what is said of them, and how those that did not come along are fetched."""

from __future__ import annotations

import http.server
import re
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from cli_tools import sfumato
from samples import FOLDER
from sfumato import datasets
from sfumato.errors import EngineError, ParameterError

ROOT = FOLDER.parent
CREDIT = (FOLDER / "crx.parquet").read_bytes()


@pytest.mark.parametrize("name", datasets.names())
def test_the_registry_tells_the_truth(name: str) -> None:
    told, path = datasets.describe(name), datasets.path(name)
    found = pq.read_metadata(path)
    assert path == FOLDER / f"{name}.parquet"
    assert (found.num_rows, found.num_columns) == (told.rows, told.columns)
    assert path.stat().st_size == told.size
    assert datasets._digest(path.read_bytes()) == told.sha256
    assert told.licence in ("CC BY 4.0", "CC BY 4.0, Apache-2.0", "Apache-2.0", "public domain")


def test_every_file_is_registered_and_described() -> None:
    files = {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.parquet")}
    assert files == {datasets.describe(name).file for name in datasets.names()}
    page = (FOLDER / "README.md").read_text()
    for one in datasets.listing().datasets:
        line = f"| {one.file} | {one.rows:,} | {one.columns} | {one.licence} | `{one.sha256}` |"
        assert line in page


def test_the_page_lists_what_there_is() -> None:
    page = (ROOT / "docs" / "datasets.md").read_text()
    told = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert told == [
        (one.name, f"{one.rows:,}", str(one.columns), one.licence, one.about)
        for one in datasets.listing().datasets
    ]


def test_the_wheel_holds_small_tables_and_their_attribution() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    held = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {f"data/{name}" for name in ("crx.parquet", "README.md", "hierarchies")} <= set(held)
    places = [ROOT / name for name in held]
    files = [file for place in places for file in (place, *place.rglob("*")) if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 300_000
    assert all(f"sfumato/{name}" == place for name, place in held.items())


def test_load_and_hierarchies() -> None:
    adult = sf.datasets.load("arx_adult")
    trees = str(sf.datasets.hierarchies("arx_adult"))
    release = sf.anonymize(adult, qi=["age", "sex"], k=5, hierarchies=trees)
    assert release.k >= 5
    with pytest.raises(ParameterError, match=r"without hierarchies. Choose `arx_adult`, or make"):
        datasets.hierarchies("crx")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"no dataset `adlt`. Did you mean `adult`"):
        datasets.load("adlt")


class Server(http.server.ThreadingHTTPServer):
    """Sends the same bytes whatever is asked for; `promised` is the length it announces."""

    content, promised, status = CREDIT, len(CREDIT), 200
    asked: list[str]


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(self.server.promised))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the repository: the place where the file is kept after fetching."""
    monkeypatch.setattr(datasets, "_folders", lambda: ())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SFUMATO_DATASETS_URL", raising=False)
    return tmp_path / "sfumato" / "datasets" / "crx.parquet"


@pytest.fixture
def server(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Answer) as server:
        server.asked = []
        address = f"http://127.0.0.1:{server.server_port}/tables/"
        monkeypatch.setenv("SFUMATO_DATASETS_URL", address)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def left(place: Path) -> list[Path]:
    """Files below the cache, unfinished ones too."""
    return [file for file in place.parents[2].rglob("*") if file.is_file()]


def test_a_table_is_fetched_once(elsewhere: Path, server: Server) -> None:
    assert datasets.path("crx") == datasets.path("crx") == elsewhere
    assert elsewhere.read_bytes() == CREDIT
    assert server.asked == ["/tables/crx.parquet"]
    assert left(elsewhere) == [elsewhere]
    assert datasets.load("crx").rows == 690


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": CREDIT[:-1] + b"!"}, "has another checksum"),
        ({"content": CREDIT + b"!", "promised": len(CREDIT) + 1}, "has another checksum"),
        ({"content": CREDIT[:5000]}, "broke off after 5,000 of 12,002 bytes"),
        ({"content": CREDIT[:5000], "promised": 5000}, "broke off after 5,000 of 12,002 bytes"),
        ({"status": 404}, "cannot be read: HTTP Error 404"),
    ],
)
def test_nothing_else_is_kept(
    elsewhere: Path, server: Server, change: dict[str, Any], words: str
) -> None:
    vars(server).update(change)
    with pytest.raises(EngineError, match=words) as told:
        datasets.path("crx")
    assert left(elsewhere) == []
    assert told.value.where == str(elsewhere)
    assert "by hand; it is data/crx.parquet" in str(told.value)


def test_a_server_that_is_gone(elsewhere: Path, server: Server) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(EngineError, match=r"is not on this machine, and http.*cannot be read"):
        datasets.path("crx")
    assert left(elsewhere) == []


def test_a_damaged_file_is_fetched_again(elsewhere: Path, server: Server) -> None:
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(CREDIT[:100])
    assert datasets.path("crx").read_bytes() == CREDIT
    elsewhere.write_bytes(CREDIT[:100])
    server.status = 500
    with pytest.raises(EngineError, match="`crx` is damaged"):
        datasets.path("crx")


def test_without_an_address_the_file_may_be_put_there_by_hand(elsewhere: Path) -> None:
    with pytest.raises(EngineError, match="does not say from where"):
        datasets.path("crx")
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(CREDIT)
    assert datasets.path("crx") == elsewhere


def test_a_cache_that_cannot_be_made(elsewhere: Path, server: Server) -> None:
    (elsewhere.parents[2] / "sfumato").write_text("a file where the folder should be")
    with pytest.raises(EngineError, match="its folder cannot be made"):
        datasets.path("crx")


def test_the_project_names_its_address(
    elsewhere: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told:
        def get_all(self, field: str) -> list[str]:
            assert field == "Project-URL"
            return ["Source, https://example.org", f"Datasets, http://127.0.0.1:{port}/tables"]

    port = server.server_port
    monkeypatch.delenv("SFUMATO_DATASETS_URL")
    monkeypatch.setattr(datasets, "metadata", lambda name: Told())
    assert datasets.path("crx") == elsewhere


def test_the_verb_lists_all() -> None:
    assert sfumato("datasets", "--json").json == datasets.listing().answer()
    page = sfumato("datasets").out
    assert all(name in page for name in datasets.names())
    assert max(map(len, page.splitlines())) <= 80


def test_the_verb_describes_one() -> None:
    assert sfumato("datasets", "crx", "--json").json == datasets.describe("crx").answer()
    assert "Licence: CC BY 4.0" in sfumato("datasets", "crx").out


def test_the_verb_writes_a_file_and_trees(tmp_path: Path) -> None:
    out, trees = tmp_path / "adult.csv", tmp_path / "trees"
    told = sfumato("datasets", "arx_adult", "-o", out, "--hierarchies", trees, "--json").json
    assert told["output"] == str(out)
    assert sf.table(out).class_sizes() == sf.datasets.load("arx_adult").class_sizes()
    assert (trees / "age.csv").exists()
    again = sfumato("datasets", "arx_adult", "-o", out)
    assert again.code == 2
    assert "exists already" in again.err
    assert sfumato("datasets", "arx_adult", "-o", out, "--force").code == 0
    assert "exists already" in sfumato("datasets", "arx_adult", "-o", out, "--force",
                                       "--hierarchies", trees).err  # fmt: skip


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-o", "a.csv"], "no dataset is named"),
        (["crx", "--hierarchies", "trees"], "no file to write"),
        (["crx", "-o", "a.csv", "--hierarchies", "trees"], "without hierarchies"),
        (["adlt"], "Did you mean `adult`"),
        (["crx", "-o", "a.docx"], "a.docx"),
    ],
)
def test_bad_usage(
    words: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = sfumato("datasets", *words)
    assert (done.code, done.out) == (2, "")
    assert error in " ".join(done.err.split())
    assert not any(tmp_path.iterdir())
