"""Every result has a page; every page stands on its own, says its pictures, and leaks nothing."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from cli_tools import sfumato
from planted import QI, RARE_TEXTS, RESULTS, assert_nothing_rare, people
from sfumato.errors import ParameterError
from sfumato.report import drawing
from sfumato.report.charts import class_sizes, histogram, shares
from sfumato.report.diagrams import levels_svg
from sfumato.report.drawing import picture as drawn_alone
from sfumato.report.page import Figure, Page, Section, body_html, page_html
from sfumato.report.pages.people import _people, uniqueness_page
from sfumato.report.pages.release import release_page
from sfumato.report.pages.risk import inferences
from sfumato.report.pages.table import findings_of, table_page
from sfumato.report.registry import _HOMES, page_of
from sfumato.results import Result
from sfumato.risks import alike


@cache
def result(name: str) -> Any:
    return RESULTS[name]()


@cache
def html_of(name: str) -> str:
    if name == "table":
        return page_html(table_page(findings_of(people(), qi=QI, k=5)))
    return page_html(page_of(result(name)))


PAGES = ["table", *RESULTS]


@dataclass
class Outline(HTMLParser):
    """What a page is made of."""

    tags: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    pictures: list[dict[str, str | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        found = dict(attrs)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if "id" in found:
            self.ids[str(found["id"])] += 1
        if tag == "svg":
            self.pictures.append(found)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    return found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_alone(name: str) -> None:
    text = html_of(name)
    found = outline(text)
    assert found.open == []
    assert found.tags["h1"] == 1
    assert found.tags["main"] == 1
    assert found.tags["h2"] >= 1
    assert not {"script", "iframe", "object", "embed", "link", "img", "base"} & set(found.tags)
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert not [name for _, name, _ in found.attributes if name in ("href", "src", "xlink:href")]
    without_namespace = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)|javascript:", without_namespace)
    assert [name for name, times in found.ids.items() if times > 1] == []
    assert len(text.encode()) <= 1_000_000
    assert "default-src 'none'" in text


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_says_what_it_shows(name: str) -> None:
    text = html_of(name)
    found = outline(text)
    for picture in found.pictures:
        assert picture["role"] == "img"
        said = picture.get("aria-label") or picture.get("aria-labelledby")
        assert said
        if "aria-labelledby" in picture:
            assert re.search(rf'<title id="{said}">[^<]+</title>', text)
    assert (
        found.tags["figure"] == found.tags["figcaption"] == len(re.findall("<figure.*?<h3>", text))
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_value_held_by_few_rows_is_nowhere(name: str) -> None:
    texts = [html_of(name)]
    if name != "table":
        texts.append(result(name)._repr_html_())
    for text in texts:
        assert_nothing_rare(text)


def test_the_planted_values_would_be_seen_if_many_held_them() -> None:
    common = people()
    town = common["town"].to_pylist()
    town[:40] = [RARE_TEXTS[0]] * 40
    common = common.set_column(2, "town", pa.array(town))
    assert RARE_TEXTS[0] in page_html(page_of(sf.anonymize(common, k=5, qi=QI)))


def test_a_written_release_is_reported_from_where_it_lies(tmp_path: Path) -> None:
    release = sf.anonymize(people(), k=5, qi=QI).write(tmp_path / "out.parquet")
    assert release.table is None
    place = release.report(tmp_path / "release.html")
    text = place.read_text(encoding="utf-8")
    assert "What it protects" in text
    assert "output fingerprint" in text
    assert str(tmp_path) not in text
    with pytest.raises(ParameterError, match="exists"):
        release.report(place)
    before = place.read_bytes()
    release.report(place, force=True)
    assert place.read_bytes() == before


def test_the_page_of_a_release_agrees_with_its_measures() -> None:
    release = result("mondrian")
    text = html_of("mondrian")
    before = sf.measure(people(), QI)
    assert f"Before, {before.unique_rows:,} of {before.rows:,} rows stood alone" in text
    assert "afterwards 0 of" in text
    first = 1 / before.k
    assert f"prosecutor: {first:.0%} before, {1 / release.k:.1%}".replace(".0%", "%") in text


def test_who_is_alone_beside_a_promise_is_said_once() -> None:
    """The list counts those who know what is worth hiding, too: they are no fewer."""
    rows = pa.table({"age": [*range(40)], "job": [*"abcdefgh"] * 5, "ill": [*"vwxyz"] * 8})
    page = page_of(sf.anonymize(rows, k=10, l=2, qi=["age"], sensitive=["ill"]))
    (said,) = (one for one in page.beside if " alone for whoever knows " in one)
    assert "`job` and `ill`" in said


def test_what_can_be_inferred_is_no_wall_of_words() -> None:
    """Of three columns that give themselves away in several ways, the worst is told first."""
    rows = {
        "age": [*range(100)],
        **{f"ill_{n}": [0] * 40 + [1] * 45 + [*range(2, 17)] for n in "abc"},
    }
    made = sf.anonymize(pa.table(rows), k=10, qi=["age"], sensitive=["ill_a", "ill_b", "ill_c"])
    (light,) = (one for one in page_of(made).lights if "inferred" in one.question)
    assert light.answer.startswith("`ill_a` is the worst of 3 columns. ")
    assert light.answer.endswith(" The other 2 are below.")
    assert any("`ill_c`" in one for one in light.more)


def test_an_empty_table_has_a_page() -> None:
    nobody = people(rows=20, rare=False).slice(0, 0)
    text = page_html(table_page(findings_of(nobody, qi=QI)))
    assert "there is nobody to find" in text
    for made in (sf.scan(nobody), sf.measure(nobody, QI), sf.risk(nobody, QI)):
        assert outline(page_html(page_of(made))).open == []


def test_verdicts_stay_short_however_many_columns_there_are() -> None:
    names = [f"a rather long name of column {at}" for at in range(60)]
    wide = pa.table({name: [row % (at + 2) for row in range(400)] for at, name in enumerate(names)})
    left_out = sf.anonymize(wide, k=5, qi=names[:20], identifiers=names[20:])
    for page in (
        table_page(findings_of(wide, qi=names)),
        page_of(sf.scan(wide)),
        page_of(left_out),
    ):
        said = " ".join([page.verdict, *(check for _, check in page.checks)])
        assert len(said) < 900
        assert said.count(names[0][:-2]) <= 12
    assert names[59] in page_html(page_of(left_out)), "the record has all of them"


def test_of_many_columns_the_pairs_that_single_out_most_are_drawn() -> None:
    dull = {f"dull_{at}": [row % 2 for row in range(400)] for at in range(20)}
    wide = pa.table({**dull, "row": [row // 20 for row in range(400)], "seat": [*range(20)] * 20})
    page = table_page(findings_of(wide, qi=wide.column_names))
    (pairs,) = (f for s in page.sections for f in s.figures if f.title == "Pairs of columns")
    assert "Drawn are 14 of 22 columns. The most telling: row and seat with 100%." in pairs.caption


def test_one_row_is_said_and_counted_as_one() -> None:
    page = table_page(findings_of(people(rows=20, rare=False).slice(0, 1), qi=QI))
    assert "1 of 1 row (100%) is the only one" in page.verdict
    assert page.subtitle.endswith("1 row, 6 columns")
    text = page_html(page)
    assert "1 rows" not in text
    assert not re.search(r">\d00m<", text), "half a row is no tick of an axis"


def test_columns_of_rare_values_are_named_and_not_drawn() -> None:
    rows = 300
    codes = [f"code {row // 10 if row < 50 else 1000 + row}" for row in range(rows)]
    table = pa.table({"code": codes, "age": [20 + row % 40 for row in range(rows)]})
    page = page_of(sf.anonymize(table, k=5, qi=["code", "age"], method="kmember"))
    (shapes,) = [s for s in page.sections if s.title == "Distributions before and after"]
    assert "code" not in [figure.title for figure in shapes.figures]
    assert any("Not drawn" in words and "code" in words for words in shapes.paragraphs)


def test_every_measure_of_a_release_says_what_it_means() -> None:
    page = page_of(RESULTS["mondrian"]())
    (utility,) = [section for section in page.sections if section.title == "Utility"]
    assert all(meaning for _, _, meaning in utility.grids[0].rows)


def test_column_names_are_text_and_nothing_else() -> None:
    name = "<script>alert('x')</script>\"&"
    odd = people().rename_columns([name, *people().column_names[1:]])
    for made in (
        page_of(sf.scan(odd)),
        page_of(sf.anonymize(odd, k=5, qi=[name, "sex", "town"])),
        page_of(sf.minimal_keys(odd, measure="separation", beta=0.95)),
        table_page(findings_of(odd, qi=[name, "sex"])),
    ):
        text = page_html(made)
        assert "<script" not in text
        assert outline(text).open == []


def test_the_registry_names_only_what_exists() -> None:
    for found in pkgutil.walk_packages(sf.__path__, "sfumato."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    kinds = _subclasses(Result)
    for kind, home in _HOMES.items():
        assert kinds.count(kind) == 1
        module, name = home.split(":")
        found = importlib.import_module(f"sfumato.report.pages.{module}")
        assert callable(getattr(found, f"{name}_page"))
        assert callable(getattr(found, f"{name}_summary"))


def _subclasses(kind: type) -> list[str]:
    below = kind.__subclasses__()
    return [one.__qualname__ for one in below] + [n for one in below for n in _subclasses(one)]


def test_a_result_without_a_page_of_its_own_shows_figures_and_no_text() -> None:
    @dataclass(frozen=True)
    class Inner(Result):
        share: float
        label: str

    @dataclass(frozen=True)
    class Outcome(Result):
        rows: int
        holds: bool
        name: str
        values: tuple[str, ...]
        by_value: dict[str, int]
        inner: Inner

    made = Outcome(
        12345, True, "Rareflower", ("Rareflower",), {"Rareflower": 1}, Inner(0.25, "Aton")
    )
    text = page_html(page_of(made)) + made._repr_html_()
    assert "12,345" in text
    assert "0.25" in text
    assert "yes" in text
    assert "Rareflower" not in text
    assert "Aton" not in text


def test_results_do_not_import_the_report_room() -> None:
    import subprocess
    import sys

    code = (
        "import sys, sfumato.results; "
        "late = ('sfumato.report', 'jinja2', 'vl_convert'); "
        "print([m for m in sys.modules if m.startswith(late)])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_tables_of_one_row_or_none_are_spoken_of_as_what_they_are() -> None:
    one = sf.scan(pa.table({"age": [33], "town": ["Berg"]}))
    known = replace(one.columns[0], role="quasi-identifier")
    marked = page_of(replace(one, columns=(known, one.columns[1])))
    assert marked.verdict == "The only row stands alone, whatever is known of it."
    none = sf.scan(pa.table({"age": pa.array([], pa.int64())}))
    assert page_of(none).verdict == "There are no rows, so nothing was counted."
    assert [column.unique for column in none.columns] == [0.0]


def test_columns_that_help_alike_are_named_together() -> None:
    rows = {"a": [1, 2, 3, 4, 4, 4], "b": [1, 2, 3, 4, 4, 4], "c": [1] * 6}
    (section,) = page_of(sf.violations(pa.table(rows), k=2)).sections
    assert "a and b are in 50% of the sets each: leaving out any of them helps most." in (
        section.paragraphs
    )
    (section,) = page_of(sf.violations(pa.table(rows).drop(["b"]), k=2)).sections
    assert "a is in 100% of the sets: leaving it out helps most." in section.paragraphs


def test_one_of_something_is_spoken_of_as_one() -> None:
    people = pa.table({"a": [1, 2, 3, 4], "b": [4, 3, 2, 1], "c": [1, 1, 1, 1]})
    masked = page_of(sf.mask(people, beta=0.3, measure="distinct"))
    assert "Distinct ratio of the 1 published column is 0.25" in masked.checks[0][1]
    jobs = [job for job, rows in (("a", 60), ("b", 60), ("rare", 1)) for _ in range(rows)]
    ages = [20 + at % 40 for at in range(len(jobs))]
    released = sf.anonymize(pa.table({"job": jobs, "age": ages}), qi=["job", "age"], k=20)
    captions = [f.caption for s in release_page(released).sections for f in s.figures]
    assert any("1 rarer value is not shown." in caption for caption in captions)
    few = release_page(sf.anonymize(pa.table({"job": jobs}), qi=["job"], k=5))
    captions = [f.caption for s in few.sections for f in s.figures]
    assert any("Below 5 alike: 1 row before, 0 after." in caption for caption in captions)


def test_a_share_of_nearly_all_is_said_in_words() -> None:
    assert _people(0.9999, 1000, "At most") == "Up to nearly all of 1,000 people"
    assert _people(0.9999, 1000) == "Nearly all of 1,000 people"
    found = result("population").uniqueness
    (figure, *_) = (f for s in uniqueness_page(found).sections for f in s.figures)
    fewer = "Fewer people are alone among all than in a sample"
    assert (figure.title == fewer) == (found.estimate < found.sample_unique)
    all_alone = replace(found, estimate=1.0, sample_unique=1.0)
    (figure, *_) = (f for s in uniqueness_page(all_alone).sections for f in s.figures)
    assert figure.title != fewer


def test_names_that_differ_in_their_ends_are_told_apart() -> None:
    names = [f"a rather long name of a question of a survey, number {at}" for at in (1, 2)]
    svg = drawn_alone(shares("Shares", dict.fromkeys(names, 0.5), what="share"), "x")
    drawn = re.findall(r">([^<>]*…[^<>]*)</text>", svg)
    assert {text[-8:] for text in drawn} == {"number 1", "number 2"}


def test_a_page_of_keys_says_what_equal_rows_mean() -> None:
    """No set is announced that is not listed, and nothing is green that was not looked at."""
    rows = pa.table({"a": [1, 1, 1, 2], "b": [1, 1, 2, 1], "c": [3, 4, 5, 6]})
    found = sf.minimal_keys(rows, columns=["a", "b"], max_size=1)
    assert found.keys == ()
    page = page_of(found)
    said = page_html(page)
    assert "1 row equals an earlier row in all columns that were looked at" in said
    assert "these sets" not in said
    assert "There may be more" not in page.verdict
    assert "No set of at most 1 of the columns" in page.verdict
    assert page.tone == "warn"
    page = page_of(sf.minimal_keys(rows, columns=["a", "b"]))
    assert "these sets tell rows apart as well as all of those columns do" in page_html(page)
    assert "tell all rows apart" not in page.verdict


def test_a_page_of_a_mask_says_why_each_column_is_left_out() -> None:
    rows = pa.table({"id": [f"n{at}" for at in range(40)], "sex": ["F", "M"] * 20,
            "pay": list(range(40)), "town": [at % 5 for at in range(40)]})  # fmt: skip
    found = sf.mask(rows, beta=0.2, measure="distinct", must_drop=["id"])
    (section,) = (s for s in page_of(found).sections if s.title == "Why columns were left out")
    (grid,) = section.grids
    why = dict(grid.rows)
    assert why["id"] == "left out on request"
    assert why["pay"] == "would break the promise by itself"
    assert all(len(text) > 10 for text in why.values())


def test_what_is_said_of_a_population_is_what_is_drawn() -> None:
    """Where the bound is said, no model is called chosen, and columns asked about are counted."""
    found = result("population")
    estimate = 0.5
    bounded = replace(
        found,
        uniqueness=replace(found.uniqueness, estimate=estimate, chosen="pitman",
                           estimates={"pitman": estimate}),
        whole=replace(found.whole, bound=0.25, certain=0.0),
    )  # fmt: skip
    assert bounded.unique_by == "bound"
    page = page_of(bounded)
    said = page_html(page)
    assert "At most 25" in page.verdict
    assert "(chosen)" not in said
    assert "all people, at most" in said
    facts = dict(page.facts)
    assert facts["columns looked at"] == str(len(found.whole.columns))
    assert "quasi-identifiers" not in facts
    said = page_html(page_of(replace(bounded, whole=replace(bounded.whole, bound=0.75))))
    assert "(chosen)" in said
    assert "all people, at most" not in said


def test_a_report_speaks_of_what_it_counted(tmp_path: Path) -> None:
    where = tmp_path / "stays.csv"
    days = [f"2024-01-{1 + row * 7 % 28:02},{'FM'[row // 5 % 2]}" for row in range(100)]
    lines = [f"P{row // 5:03},{1950 + row // 5 % 10},{day}" for row, day in enumerate(days)]
    where.write_text("\n".join(["patient_id,birth_year,day,sex", *lines]))
    asked = ["--qi", "birth_year,sex", "-o", tmp_path / "page.html", "--force"]

    def told(*arguments: object) -> str:
        return " ".join(sfumato("report", *arguments, *asked).out.split())

    assert "100 of 100 rows (100%) share" in told(where, "-k", 50)
    page = (tmp_path / "page.html").read_text()
    assert "patient_id seems to name 20 persons with 100 rows. Rows are counted here" in page
    some = "20 of 20 people (100%) have a combination of birth_year and sex that fewer than 2"
    assert some in told(where, "-k", 3, "--person", "patient_id")
    least = "Every combination of birth_year and sex is that of at least 2 people."
    assert least in told(where, "-k", 2, "--person", "patient_id")
    out = tmp_path / "out.csv"
    sf.anonymize(where, k=2, qi=["birth_year", "sex"], person="patient_id", output=out)
    assert " of 100 rows (" in told(out, "-k", 50)
    assert "promises something about persons" in (tmp_path / "page.html").read_text()
    both = ["report", where, "--released", out, "-o", tmp_path / "both.html", "--force"]
    assert sfumato(*both, "--person", "patient_id").code == 0
    assert "20 persons had" in (tmp_path / "both.html").read_text()
    rows = tmp_path / "rows.csv"
    sf.anonymize(where, k=2, qi=["birth_year", "sex"], identifiers=["patient_id"], output=rows)
    both[3] = rows
    assert sfumato(*both, "--person", "patient_id").code == 0
    assert "How many persons have them was not counted" in (tmp_path / "both.html").read_text()
    refused = sfumato(*both, "--person", "sex")
    assert refused.code == 2
    assert "cannot be a quasi-identifier" in " ".join(refused.err.split())


def test_ticks_of_huge_numbers_are_short_and_without_noise() -> None:
    for step, longest in ((1e29, 7), (1e4, 9)):
        bins = [(step * at, step * (at + 1), 10.0, 10.0) for at in range(10)]
        svg = drawn_alone(histogram("Huge", bins, "huge"), "x")
        texts = re.findall(r">([^<>]+)</text>", svg)
        ticks = texts[: texts.index("huge")]
        assert len(ticks) > 2
        assert max(map(len, ticks)) <= longest, ticks
    assert "80,000" in ticks


def test_a_code_stands_below_its_bar() -> None:
    bins = [(code, code + 1.0, 20.0, 20.0) for code in (1.0, 2.0, 3.0, 4.0, 5.0)]
    for whole, places in ((True, [56, 168, 280, 392, 504]), (False, [0, 112, 224, 336, 448, 560])):
        svg = drawing.draw(histogram("Codes", bins, "code", whole=whole), 0)
        marks = re.findall(r"translate\(([\d.]+),16\)[^>]*>(\d)</text>", svg)
        assert marks[: len(places)] == [(f"{at}", f"{code}") for code, at in enumerate(places, 1)]
    for step, whole in ((1, True), (0.5, False)):
        codes = pa.array([1 + step * (row % 5) for row in range(200)], pa.float64())
        rows = pa.table({"code": codes, "job": ["a", "b"] * 100})
        made = sf.anonymize(rows, k=60, qi=["code"])
        (section,) = (one for one in release_page(made).sections if one.title.startswith("Distrib"))
        assert [("labelExpr" in str(one.spec)) for one in section.figures] == [whole]


def test_no_gauge_is_green_below_a_verdict_of_danger() -> None:
    rows = pa.table({"a": list(range(99)) + [98] * 901, "b": [0, 1] * 500})
    page = page_of(sf.uniques(rows, max_size=1))
    assert page.tone == "bad"
    assert "var(--good)" in page.gauges[0]  # few are exposed
    shown = body_html(page)
    assert '<svg class="gauge"' in shown
    assert "var(--good)" not in shown
    assert "var(--good)" in body_html(replace(page, tone="good"))


@pytest.mark.parametrize(
    ("worth", "single"),
    [
        (pa.array(range(40)), 40),
        (pa.array(range(40), pa.int32()).cast(pa.date32()), 40),
        (pa.array([f"title {row}" for row in range(40)]), 40),
        (pa.array(["flu", "cold"] * 19 + ["gout", "rabies"]), 0),  # few know a rare word
        (pa.array([str(row) if row % 2 else "N" for row in range(40)]), 20),  # a code for missing
    ],
    ids=["number", "date", "text", "words", "numbers in text"],
)
def test_whoever_knows_an_exact_value_of_ones_own_finds_the_row(
    worth: pa.Array, single: int
) -> None:
    rows = sf.table(pa.table({"grp": ["a", "b"] * 20, "worth": worth}))
    (found,) = inferences(rows, ["grp"], ["worth"])
    assert found.single == single


def test_a_lattice_of_which_few_nodes_were_looked_at_lies_in_its_picture() -> None:
    levels = [[0, 0], [5, 4], [4, 5], [9, 9]]
    lattice = {"levels": levels, "holds": [False, True, True, True], "optimal": 1}
    picture = levels_svg(lattice, "Levels", said=str)
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
    assert size is not None
    for x, y in re.findall(r'<rect x="(-?\d+)" y="(-?\d+)"', picture):
        assert 0 <= int(x) < int(size[1])
        assert 0 <= int(y) < int(size[2])


def test_marks_say_whole_numbers_as_pages_do() -> None:
    ages = sf.table(pa.table({"age": [*range(14_021), *[99_999] * 20]}))
    found = class_sizes("Rows", {"before": alike(ages, [["age"]])}, 5)
    section = Section("s", (), [Figure("f", "", found)])
    shown = body_html(Page("a", "", "b", "good", sections=[section]))
    assert "rows: 14,021;" in shown


def test_next_to_nothing_does_not_fill_a_picture() -> None:
    for share, whole in ((8e-7, 0.01), (0.3, 0.3), (0.0, 1.0)):
        spec = shares("Alone", {"age": share}, what="rows that stand alone")
        assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, whole * 1.15]


def test_a_chart_drawn_by_a_process_of_its_own_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = shares("Läge ≤ 5", {"ä": 0.5, "b": 0.25}, what="rows")
    here = drawing.picture(spec, "c")
    with drawing.in_own_process():
        with monkeypatch.context() as alone:
            alone.setattr(drawing, "_svg", lambda _: pytest.fail("drawn here"))
            assert drawing.picture(spec, "c") == here
        drawing._apart[0].close()
        assert drawing.picture(spec, "c") == here, "one that has ended is not waited for"
    assert drawing._apart == []


def test_many_notes_share_one_box() -> None:
    """What is not promised does not push the lights out of sight."""
    for notes, boxes in ((3, 3), (4, 1)):
        shown = body_html(
            Page("R", "", "It holds.", "good", beside=[f"n{n}" for n in range(notes)])
        )
        assert shown.count('class="verdict warn"') == boxes
        assert all(f"n{n}<" in shown for n in range(notes))
