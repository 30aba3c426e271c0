"""How a file is read: found out, shown, and set where it was not as meant."""

from __future__ import annotations

import html
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

import sfumato as sf
from cli_tools import sfumato
from clicking import at, entered, look, no_issues
from sfumato.engines.foreign import write_foreign
from sfumato.errors import SourceError
from sfumato.web.project import Project
from sfumato.web.sources import Reading, read_reading
from workbench import Running, running

HEAD = "Größe;Einkommen;gesehen;Ort\n"
ROWS = [
    f"{1 + row % 2},{row % 90:02};1.{row % 9:03},00;0{1 + row % 9}.{1 + row % 12:02}.1999;"
    f"Köln{row % 4}"
    for row in range(120)
]
EURO = (HEAD + "\n".join(ROWS) + "\n").encode("cp1252")
RAGGED = "age,town\n" + "".join(f"{20 + row % 9},Aton; left\n" for row in range(60)) + "31,a,b\n"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "euro.csv").write_bytes(EURO)
    (tmp_path / "ragged.csv").write_text(RAGGED)
    book = pa.table({"age": [20, 30, 20, 30] * 20, "sex": ["F", "M"] * 40})
    write_foreign("sqlite", book, tmp_path / "clinic.sqlite", "clinic.sqlite")
    with sqlite3.connect(tmp_path / "clinic.sqlite") as database:
        database.execute("CREATE TABLE staff AS SELECT age AS years FROM release")
    database.close()
    with running([tmp_path]) as found:
        yield found


def opened(bench: Running, tmp_path: Path, name: str) -> tuple[Project, str]:
    bench.follow(bench.post("/open", table=str(tmp_path / name)))
    (project,) = (one for one in bench.workbench.projects.values() if one.source.name == name)
    return project, f"/p/{project.number}"


def said(text: str) -> str:
    """What a page says; names that are set as code stand between backticks."""
    return html.unescape(text.replace("<code>", "`").replace("</code>", "`"))


def test_what_was_found_out_is_said_and_rows_only_when_asked_for(
    bench: Running, tmp_path: Path
) -> None:
    project, base = opened(bench, tmp_path, "euro.csv")
    page = said(bench.get(f"{base}/import").text)
    assert "120 rows, 4 columns; semicolon between cells, cp1252." in page
    assert "all cells are numbers (decimal comma" in page
    assert "Köln" not in page
    assert bench.post(f"{base}/import/rows").place == f"{base}/import#rows"
    shown = said(bench.get(f"{base}/import").text)
    assert shown.count("<tr>") == 1 + 4 + 1 + 20  # heads, columns, and the first rows
    assert "<td>Köln3</td>" in shown
    assert [cells[3] for cells in project.first.rows] == [f"Köln{row % 4}" for row in range(20)]


def test_columns_become_dates_and_numbers_and_a_release_repeats_that(
    bench: Running, tmp_path: Path
) -> None:
    project, base = opened(bench, tmp_path, "euro.csv")
    form = {"text": 1, "header": 1, "parse-0": "number", "parse-1": "number:comma",
            "parse-2": "date:dmy"}  # fmt: skip
    page = bench.follow(bench.post(f"{base}/import", **form))
    assert "verdict bad" not in page.text
    kinds = {column.name: column.type for column in project.columns}
    assert kinds == {"Größe": "float", "Einkommen": "float", "gesehen": "date", "Ort": "text"}
    roles = {"role-0": "quasi-identifier", "role-1": "other", "role-2": "quasi-identifier",
             "role-3": "sensitive"}  # fmt: skip
    bench.post(f"{base}/configure", k=3, method="mondrian", **roles)
    done = bench.follow(bench.post(f"{base}/release"))
    assert 'data-holds="yes"' in done.text
    settings = tmp_path / "euro.csv.sfumato" / "release.toml"
    command = settings.read_text().partition("\n")[0].removeprefix("# ")
    words = shlex.split(command)
    with chdir(tmp_path):
        assert sfumato(*words[1:]).code == 0
    made = tmp_path / "euro.csv.sfumato" / "release.csv"
    assert (tmp_path / "again.csv").read_bytes() == made.read_bytes()
    report = (tmp_path / "euro.csv.sfumato" / "release.html").read_text()
    assert "1.001,00" not in report, "no cell of a single row"
    # another day
    bench.post(f"{base}/close")
    again, _ = opened(bench, tmp_path, "euro.csv")
    assert again.reading == project.reading
    assert {column.name: column.type for column in again.columns} == kinds


def test_a_table_that_cannot_be_read_is_read_otherwise(bench: Running, tmp_path: Path) -> None:
    project, base = opened(bench, tmp_path, "ragged.csv")
    page = bench.follow(bench.get(f"{base}/release"))
    assert "line 62 has 3 cells, the header has 2" in said(page.text)
    assert f'href="{base}/configure"' in page.text, "the navigation stays"
    assert 'name="delimiter"' in page.text
    bench.follow(bench.post(f"{base}/import", text=1, header=1, delimiter=";"))
    assert "cells" in str(project.problem)
    assert not project.looked
    # a character that is not there leaves one column
    page = bench.follow(bench.post(f"{base}/import", text=1, header=1, other_delimiter="~"))
    assert project.looked
    assert "62 rows" not in page.text
    assert project.table.columns == ("age,town",)


def test_what_fails_leaves_open_what_was(bench: Running, tmp_path: Path) -> None:
    project, base = opened(bench, tmp_path, "euro.csv")
    table = project.table
    wrong: list[tuple[dict[str, object], str]] = [
        ({"encoding": "no-such"}, "There is no encoding `no-such`"),
        ({"parse-3": "date"}, "cells of column `Ort` are not dates"),
        ({"exclude": "Ortt"}, "Did you mean `Ort`?"),
        ({"encoding": "utf-8"}, "encoding cp1252"),
    ]
    for form, words in wrong:
        page = bench.follow(bench.post(f"{base}/import", text=1, header=1, **form))
        assert words in said(page.text)
        assert "What was read before is still open" in page.text
        assert project.table is table
        assert not (tmp_path / "euro.csv.sfumato" / "reading.toml").exists()
    page = bench.follow(bench.post(f"{base}/import", text=1, header=1, null_values="Köln1, Köln2"))
    assert "still open" not in page.text
    assert next(c for c in project.columns if c.name == "Ort").nulls == 60
    kept = tmp_path / "euro.csv.sfumato" / "reading.toml"
    assert read_reading(kept.parent) == Reading(null_values=("Köln1", "Köln2"))
    bench.follow(
        bench.post(f"{base}/import", text=1, header=1, **{"parse-3": "date", "unparsed": "null"})
    )
    assert "120 cells of column `Ort` are not dates and became missing" in project.first.noticed
    bench.follow(bench.post(f"{base}/import", text=1))
    assert project.table.columns == ("column_1", "column_2", "column_3", "column_4")
    assert project.rows == 121


def test_a_table_in_a_file_is_chosen(bench: Running, tmp_path: Path) -> None:
    project, base = opened(bench, tmp_path, "clinic.sqlite")
    page = bench.follow(bench.get(f"{base}/configure")).text
    assert "the file holds 2 tables: `release`, `staff`" in said(page)
    assert 'name="delimiter"' not in page
    for wrong in ("nobody", f"*/../../{tmp_path.name}/euro.csv#x", "/etc/passwd"):
        bench.follow(bench.post(f"{base}/import", part=wrong))
        assert "the file holds no" in str(project.problem)
    bench.follow(bench.post(f"{base}/import", part="staff"))
    assert project.table.columns == ("years",)


def test_a_book_of_several_sheets_asks_for_one_in_the_words_of_its_page(
    bench: Running, tmp_path: Path
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "About"
    book.create_sheet("Visits")
    book.save(tmp_path / "book.xlsx")
    page = bench.follow(bench.post("/open", table=str(tmp_path / "book.xlsx"))).text
    assert "the file holds 2 sheets: <code>About</code>, <code>Visits</code>. Choose one at" in page
    assert re.search(r'“Sheet or table” <a href="/p/\w+/import">under “how the file', page)
    assert "behind #" not in page


def test_sheets_and_statistical_files_can_be_opened(bench: Running, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    pytest.importorskip("pyreadstat")
    rows = pa.table({"age": [20, 30] * 20, "sex": ["F", "M"] * 20})
    write_foreign("excel", rows, tmp_path / "ward.xlsx", "ward.xlsx")
    write_foreign("spss", rows, tmp_path / "ward.sav", "ward.sav")
    for name in ("ward.xlsx", "ward.sav"):
        project, base = opened(bench, tmp_path, name)
        assert project.table.columns == ("age", "sex")
        roles = {"role-0": "quasi-identifier", "role-1": "quasi-identifier"}
        bench.post(f"{base}/configure", k=2, method="mondrian", **roles)
        assert 'data-holds="yes"' in bench.follow(bench.post(f"{base}/release")).text
        assert sf.verify(str(tmp_path / f"{name}.sfumato" / "release.csv")).holds


def test_a_column_that_is_left_unread_is_turned_into_nothing() -> None:
    form = {"exclude": ["b"], "parse-0": ["date"], "parse-1": ["number"]}
    assert Reading.asked(form, ["a", "b"]).parse == {"a": "date"}
    named = {"column-0": ["a"], "column-1": ["b"], "column-2": ["c"], "parse-1": ["number"]}
    assert Reading.asked(named, ["a", "c"]).parse == {"b": "number"}  # of an older page


def test_saved_words_that_are_none_are_refused(tmp_path: Path) -> None:
    for text in ("delimiter = 3", "header = 'yes'", "null_values = 'NA'", "parse = []", "= ="):
        (tmp_path / "reading.toml").write_text(text)
        with pytest.raises(SourceError, match=r"reading\.toml"):
            read_reading(tmp_path)


@pytest.mark.browser
def test_a_preview_in_the_browser(bench: Running, page: Page) -> None:
    entered(page, bench.server.guard.link)
    page.get_by_role("button", name="Open euro.csv").click()
    at(page, "What may others know?")
    page.get_by_role("link", name="how the file is read").click()
    at(page, "Is it read as intended?")
    page.get_by_label("Read gesehen as").select_option("date:dmy")
    page.get_by_role("button", name="Read it this way").click()
    row = page.locator("tr", has=page.get_by_role("rowheader", name="gesehen"))
    expect(row.locator("td").first).to_have_text("date")
    page.get_by_role("button", name="Show rows").click()
    expect(page.locator(".first tbody tr")).to_have_count(20)
    look(page, "import")
    no_issues(page, "import")
    page.get_by_role("link", name="On to the roles").click()
    at(page, "What may others know?")


def test_configure_says_which_columns_stay_text(tmp_path: Path) -> None:
    """Decimal commas and dates of another form are text until somebody says what they are."""
    rows = "".join(
        f"{20 + n % 9},{n % 28 + 1:02}.{n % 12 + 1:02}.19{50 + n % 40}\n" for n in range(90)
    )
    lines = "".join(
        f'"{n},5";{row.strip().replace(",", ";", 1)};{30 + n % 13},{n % 3}\n'
        for n, row in enumerate(rows.splitlines())
    )
    (tmp_path / "prices.csv").write_text(f"price;age;born;temp\n{lines}")
    with running([tmp_path]) as bench:
        opened = bench.follow(bench.post("/open", table=str(tmp_path / "prices.csv")))
        assert "<strong>price</strong> stays text, although all cells are numbers" in opened.text
        assert "<strong>born</strong> stays text, although all cells are dates" in opened.text
        assert "<strong>age</strong> stays text" not in opened.text
        assert "As text they are blurred in sets" in opened.text
        assert 'id="guessed"' not in opened.text
        (project,) = bench.workbench.projects.values()
        base = f"/p/{project.number}"
        form = bench.get(f"{base}/import").text
        assert form.index(">Read it this way<") > form.index('aria-label="Read born as"')
        asked = {"text": 1, "header": 1, "unparsed": "stop", "parse-0": "number:comma",
                 "parse-2": "date:dmy", "parse-3": "number:comma"}  # fmt: skip
        bench.follow(bench.post(f"{base}/import", **asked))
        anew = bench.get(f"{base}/configure").text
        assert "stays text" not in anew
        assert "<strong>temp</strong> was “Others may know” and is “Other”" in anew
        project.alter(lambda now: replace(now, k=7))
        assert 'id="guessed"' not in bench.get(f"{base}/configure").text, "somebody looked"


def test_cells_that_are_no_numbers_are_counted_before_the_reading_stops(tmp_path: Path) -> None:
    rows = "".join(f"{n % 60},{'N' if n % 4 == 0 else 100 * n}\n" for n in range(400))
    (tmp_path / "pay.csv").write_text(f"age,income\n{rows}")
    told = "300 of 400 cells are numbers, 100 hold one other text, perhaps a code for missing"
    with running([tmp_path]) as bench:
        opened = bench.follow(bench.post("/open", table=str(tmp_path / "pay.csv")))
        assert f"<strong>income</strong> stays text, although {told}" in opened.text
        (project,) = bench.workbench.projects.values()
        base = f"/p/{project.number}"
        assert "reading the column as dates or numbers stops, unless" in (
            form := bench.get(f"{base}/import").text
        )
        assert f"<td>{told}</td>" in form
        asked = {"text": 1, "header": 1, "unparsed": "stop", "parse-1": "number"}
        stopped = bench.follow(bench.post(f"{base}/import", **asked)).text
        assert "100 cells of column" in stopped
        bench.follow(bench.post(f"{base}/import", **{**asked, "null_values": "N"}))
        assert "reading the column as dates" not in bench.get(f"{base}/import").text


def test_home_says_what_is_for_the_command_line(tmp_path: Path) -> None:
    with running([tmp_path]) as bench:
        home = bench.get("/").text
        assert "Each table is worked on by itself" in home
        assert "sfumato scan FOLDER" in home
