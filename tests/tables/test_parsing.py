"""Columns written by hand: said to be dates or numbers, and turned into them when asked."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import sfumato as sf
from cli_tools import sfumato
from sfumato.columns import profile
from sfumato.errors import ColumnError, ParameterError
from sfumato.tables.parsing import guessed_kind

DATES = ["31.12.1999", "1999-12-30", "1.1.2000", "3 March 2001", "Feb 4, 2002", "20030506"]
READ = [
    dt.date(1999, 12, 31), dt.date(1999, 12, 30), dt.date(2000, 1, 1), dt.date(2001, 3, 3),
    dt.date(2002, 2, 4), dt.date(2003, 5, 6),
]  # fmt: skip


def parsed(cells, kind, **options):
    opened = sf.table(pa.table({"x": cells}), parse={"x": kind}, **options)
    return [value for batch in opened.batches() for value in batch.column(0).to_pylist()]


def test_dates_of_all_kinds():
    assert parsed([*DATES, None, "n/a", " 1.1.2000 "], "date") == [
        *READ, None, None, dt.date(2000, 1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "kind", "first"),
    [
        (["13/02/2020", "01/02/2020"], "date", dt.date(2020, 2, 13)),
        (["02/13/2020", "01/02/2020"], "date", dt.date(2020, 2, 13)),
        (["03/04/2020", "01/02/2020"], "date:dmy", dt.date(2020, 4, 3)),
        (["03/04/2020", "01/02/2020"], "date:mdy", dt.date(2020, 3, 4)),
        (["2020-02-29T00:00:00Z"], "date", dt.date(2020, 2, 29)),
    ],
)
def test_the_column_tells_what_comes_first(cells, kind, first):
    assert parsed(cells, kind)[0] == first


def test_times_of_day_that_dates_leave_out_are_counted():
    cells = ["2020-02-29T10:00:00Z", "2020-03-01 00:00", "1.3.2020 7:05", "2020-03-02", "20200304"]
    with pytest.warns(UserWarning, match="2 cells of column `x` hold a time of day"):
        assert parsed(cells, "date")[0] == dt.date(2020, 2, 29)
    moments = pa.array([dt.datetime(2020, 2, 29, 10)])
    with pytest.warns(UserWarning, match="holds points in time already, which keep their time"):
        opened = sf.table(pa.table({"x": moments}), parse={"x": "date"})
    assert opened.column("x").kind == "timestamp"


@pytest.mark.parametrize("cells", [["03/04/2020", "01/02/2020"], ["13/02/2020", "02/13/2020"]])
def test_a_column_that_does_not_tell_is_asked_for(cells):
    with pytest.raises(ColumnError, match=r"days or months come first.*date:dmy"):
        parsed(cells, "date")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["48.227,00", "1.500,50", "12,5"], [48227.0, 1500.5, 12.5]),
        (["48,227.00", "1,500.50", "12.5"], [48227.0, 1500.5, 12.5]),
        (["1 234 567", "12"], [1234567.0, 12.0]),
        (["1'234.50", "7"], [1234.5, 7.0]),
        (["€ 1.234,50", "-3,5 €", "(2,25)"], [1234.5, -3.5, -2.25]),
        (["$1,234,567", "$5"], [1234567.0, 5.0]),
        (["1.234.567", "1.000"], [1234567.0, 1000.0]),
        (["12", "01", "7.5"], [12.0, 1.0, 7.5]),
    ],
)
def test_numbers(cells, values):
    assert parsed(cells, "number") == values


def test_a_comma_that_could_be_both_is_asked_for():
    with pytest.raises(ColumnError, match=r"a comma begins the fraction.*number:comma"):
        parsed(["1,234", "5,678"], "number")
    assert parsed(["1,234", "5,678"], "number:comma") == [1.234, 5.678]
    assert parsed(["1,234", "5,678"], "number:point") == [1234.0, 5678.0]


def test_cells_that_do_not_parse_stop_it_or_are_counted():
    cells = ["1.1.2000", "soon", "soon", "31.02.2001", None, "NA"]
    with pytest.raises(ColumnError, match=r"3 cells of column `x` are not dates.*unparsed"):
        parsed(cells, "date")
    with pytest.warns(UserWarning, match="3 cells of column `x` are not dates and became missing"):
        assert parsed(cells, "date", unparsed="null") == [dt.date(2000, 1, 1), *[None] * 5]


def test_bad_requests():
    with pytest.raises(ColumnError, match="no column `y`"):
        sf.table(pa.table({"x": ["1"]}), parse={"y": "date"})
    with pytest.raises(ParameterError, match="cannot be turned into `dates`"):
        sf.table(pa.table({"x": ["1"]}), parse={"x": "dates"})
    with pytest.raises(ColumnError, match="holds a boolean"):
        sf.table(pa.table({"x": [True]}), parse={"x": "date"})
    with pytest.raises(ParameterError, match="do not parse"):
        sf.table(pa.table({"x": ["1"]}), parse={"x": "number"}, unparsed="zero")
    with pytest.raises(ParameterError, match="open already"):
        sf.table(sf.table(pa.table({"x": ["1"]})), parse={"x": "number"})
    assert parsed([1, 2], "number") == [1, 2]  # numbers already


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_engines_agree(engine):
    opened = sf.table(
        pa.table({"x": DATES, "k": list("aabbcc")}), parse={"x": "date"}, engine=engine
    )
    assert opened.column("x").kind == "date"
    assert sorted(opened.values("x").values[0].to_pylist()) == sorted(READ)


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["31.12.1999", "1999-12-30", "soon", "1.1.2000"],
         "3 of 4 cells are dates (dd.mm.yyyy, yyyy-mm-dd), 1 holds one other text"),
        (["03/04/2020", "01/02/2020", "05/06/2021"],
         "all cells are dates (dd/mm/yyyy or mm/dd/yyyy)"),
        (["48.227,00", "1.500,50", "unknown", "12,00"],
         "3 of 4 cells are numbers (decimal comma, points between thousands), "
         "1 holds one other text"),
        (["12", "15", "about 20", "31", "34", "dozens"],
         "4 of 6 cells are numbers, 2 hold other texts"),
    ],
)  # fmt: skip
def test_what_most_cells_are(cells, says):
    assert guessed_kind(cells).say == says


@pytest.mark.parametrize(
    "cells", [["red", "green", "blue"], ["02138", "10001", "90210"], ["1"], ["E11.9", "I10", "J45"]]
)
def test_text_that_is_text(cells):
    assert guessed_kind(cells) is None


def test_scan_says_it_and_parse_does_it(tmp_path):
    lines = [
        f"{1 + i % 28}.{1 + i % 12}.{1990 + i % 9};{i % 40}.{i % 10}00,{i % 90:02}"
        for i in range(90)
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["seen;paid", "soon;1.100,50", *lines]) + "\n")
    found = sfumato("scan", path, "--json").json
    mostly = {c["name"]: c["mostly"] for c in found["columns"]}
    assert mostly["seen"] == "90 of 91 cells are dates (dd.mm.yyyy), 1 holds one other text"
    assert mostly["paid"].startswith("all cells are numbers (decimal comma")
    assert any("--parse seen=date --parse paid=number" in step for step in found["next"])
    shown = sfumato("scan", path, "-q")
    assert "seen: 90 of 91 cells are dates (dd.mm.yyyy), 1 holds" in " ".join(shown.out.split())
    stopped = sfumato("scan", path, "--parse", "seen=date,paid=number", "-q")
    assert stopped.code == 2
    assert "1 cell of column `seen` cannot be read as dates" in " ".join(stopped.err.split())
    assert "--unparsed null" in " ".join(stopped.err.split())
    asked = ("scan", path, "--unparsed", "null", "--json")
    done = sfumato(*asked, "--parse", "seen=date", "--parse", "paid=number")
    assert {c["name"]: c["type"] for c in done.json["columns"]} == {"seen": "date", "paid": "float"}
    assert "became missing" in done.err
    settings = tmp_path / "columns.toml"
    settings.write_text('[parse]\nseen = "date"\npaid = "number"\n')
    assert sfumato(*asked, "--parse", settings).json["columns"] == done.json["columns"]
    assert sfumato("scan", path, "--parse", "seen", "-q").code == 2
    release = tmp_path / "release.csv"
    done = sfumato(
        "anonymize", path, "-k", "3", "--qi", "seen", "--parse", "seen=date", "--unparsed", "null",
        "-o", release, "-q",
    )  # fmt: skip
    assert done.code == 0, done.err


def test_what_is_said_of_a_column_holds_where_its_cells_look_like_something_else(tmp_path):
    path = tmp_path / "pay.csv"
    path.write_text("pay,n\n3.592,1\n4.100,2\n")
    with pytest.raises(ColumnError, match=r"a comma begins the fraction.*number:comma"):
        sf.table(path, parse={"pay": "number"})
    opened = sf.table(path, parse={"pay": "number:comma", "n": "number"}).to_arrow()
    assert opened.to_pydict() == {"pay": [3592.0, 4100.0], "n": [1, 2]}
    assert opened.schema.field("n").type == pa.int64()


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_columns_that_are_not_parsed_stay_as_they_came(tmp_path, engine):
    path, out = tmp_path / "kept.csv", tmp_path / "out.csv"
    rows = [
        "30;1.2.2020;TRUE;NA;2020-01-01 10:00;Jürg",
        "30;2.2.2020;FALSE;07.50;2020-01-02 10:00;",
    ]
    path.write_bytes("\n".join(["age;seen;ok;x;at;who", *rows, ""]).encode("cp1252"))
    opened = sf.table(path, encoding="cp1252", parse={"seen": "date"}, engine=engine)
    sf.anonymize(opened, k=2, qi=["age"], rows_are_people=True).write(out)
    dates = ("1.2.2020", "2020-02-01"), ("2.2.2020", "2020-02-02")
    expected = [row.replace(*date) for row, date in zip(rows, dates, strict=True)]
    assert out.read_bytes().decode("cp1252").splitlines()[1:] == expected


@pytest.mark.parametrize(
    ("cells", "asked"),
    [
        (["1.2.2020", "01/02/2020", "2020-02-01"], "--parse x=date:dmy"),
        (["1.2.2020", "2.2.2020", "3.2.2020", "soon"], "--parse x=date --unparsed null"),
        (['"1,234"', '"2,345"', '"3,456"'], "--parse x=number:point"),
    ],
)
def test_what_scan_proposes_runs(cells, asked, tmp_path):
    path = tmp_path / "hand.csv"
    path.write_text("\n".join(["x,y", *(f"{cell},a" for cell in cells), ""]))
    steps = sfumato("scan", path, "--json").json["next"]
    (command,) = [step.partition(": sfumato ")[2] for step in steps if "--parse" in step]
    assert command.endswith(asked)
    assert sfumato("scan", path, *asked.split(), "-q").code == 0


def test_few_numbers_among_cells_that_say_nothing_are_noticed() -> None:
    found = guessed_kind(["n/a", "1.234,56", "-2,5", "NULL"])
    assert found is not None
    assert found.say == (
        "all cells but those that say they are missing are numbers "
        "(decimal comma, points between thousands)"
    )
    assert guessed_kind(["n/a", "NULL"]) is None
    assert guessed_kind(["1,5", "unknown"]) is None


def test_what_cells_are_is_counted_in_cells_of_the_whole_column(tmp_path, monkeypatch) -> None:
    path = tmp_path / "codes.csv"
    days = [f"{1 + at % 28:02}/{1 + at % 12:02}/{1950 + at // 40}" for at in range(3_000)]
    cells = [f"{at},{'N' if at % 4 == 0 else 7 * at},{at // 50 % 5 if at % 50 == 1 else 'N'},{day}"
             for at, day in enumerate(days)]  # fmt: skip
    path.write_text("\n".join(["row,income,service,seen", *cells]) + "\n")
    told = {column.name: column.mostly for column in sf.scan(path).columns}
    code = "hold one other text, perhaps a code for missing"
    assert told["income"] == f"2,250 of 3,000 cells are numbers, 750 {code}"
    assert told["service"] == f"60 of 3,000 cells are numbers, 2,940 {code}"
    # Days above 12 are the last of some sorted cells: they say that days come first.
    assert told["seen"] == "all cells are dates (dd/mm/yyyy)"
    # Where not all rows were looked at, not all are spoken of.
    monkeypatch.setattr(profile, "ROWS_AT_HAND", 500)
    found = sf.scan(path)
    (seen,) = [column.mostly for column in found.columns if column.name == "seen"]
    assert seen == "all 500 cells looked at are dates (dd/mm/yyyy)"
    (step,) = [step for step in found.next if "--parse" in step]
    assert step.endswith("--unparsed null")
