"""Reports as a browser shows them: from a file, without a network, on screens large and small."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from accessibility import COLOURS, EVERYTHING, accessibility_issues, axe_or_skip
from artefacts import keep
from browser import Tab
from joint_studies import study
from samples import sample_path
from sfumato import secure
from sfumato.joint import fit_shares, make_share
from sfumato.report import write_page
from sfumato.report.drawing import gauge
from sfumato.report.pages.table import findings_of, table_page
from sfumato.results import Result
from sfumato.secure import Outcome

pytestmark = pytest.mark.browser

SCREENS = [(400, True), (1400, False)]
"""What fits depends on the width of a screen, what can be read on its colours as well. Each screen
is looked at once, with all that is asked of it."""

VISIBLE = "[...document.querySelectorAll('figure svg')].filter(s => s.getClientRects().length)"

OUTSIDE = """[...document.querySelectorAll('svg.gauge, svg.flow .goal')].flatMap(frame => {
  const svg = frame.closest('svg'), room = frame.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
  const own = frame === svg ? texts : texts.filter(([t, r]) => r.width && r.left > room.left &&
    r.left < room.right && r.top > room.top && r.top < room.bottom);
  return own.filter(([t, r]) => r.left < room.left - 1 || r.right > room.right + 1)
    .map(([t]) => t.textContent);
})"""
"""Words that are wider than the gauge or the box in which they stand."""

SHOWN = f"""[
  document.querySelectorAll('figure').length,
  {VISIBLE}.map(s => [s.getBBox().width, s.getBBox().height,
    s.querySelectorAll('path, rect, circle').length]),
  document.documentElement.scrollWidth,
  {OUTSIDE},
  Math.min(...{VISIBLE}.flatMap(s => [...s.querySelectorAll('text')].map(t =>
    parseFloat(getComputedStyle(t).fontSize) * s.getScreenCTM().a))),
]"""
"""What `Seen` says of a page, but for its requests and issues."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    adult = sf.table(pq.read_table(sample_path("adult.parquet")).slice(0, 8_000))
    adult = adult.exclude(["fnlwgt"])
    qi = ["age", "sex", "race", "education", "marital-status"]
    made = {
        "release": sf.anonymize(adult, k=5, qi=qi),
        "mask": sf.mask(adult, measure="distinct", beta=0.1),
        "keys": sf.minimal_keys(adult, measure="separation", beta=0.999),
        "lattice": sf.minimal_keys(adult.select(qi), measure="separation", beta=0.98),
        "key": sf.minimum_key(adult, eps=0.001),
        "population": sf.population(adult, universe=3e8, qi=qi, k=100, bootstrap=10),
        "uniques": sf.uniques(adult, max_size=2),
        **_joint(),
        "party": _party(),
    }
    places = {name: found.report(folder / f"{name}.html") for name, found in made.items()}
    page = table_page(findings_of(adult, k=5))
    return {"table": write_page(page, folder / "table.html"), **places}


def _joint() -> dict[str, Result]:
    lung = study("lung")
    made = [
        make_share(lung.part(name), lung.agreement, name, rounding=0.2, attack_rows=10,
                   publish_anyway=True)
        for name in sorted(set(lung.institution))
    ]  # fmt: skip
    shares = [found.share for found in made if found.share is not None]
    models = {
        name: fit_shares(shares, kind, penalty=1.0, horizon=365)
        for name, kind in (("joint", "cox"), ("classifier", "svm"))
    }
    return {"share": made[0], **models}


def _party() -> Outcome:
    schema = secure.Schema.of({"job": ["baker", "clerk"], "ill": ["no", "yes"]})

    def side(session: secure.Session) -> tuple[secure.DecisionTree, secure.SessionReport]:
        held = secure.HeldRows(schema, np.array([[0, 0], [1, 1]] * 20))
        return secure.grow_tree(session, held, target="ill"), session.report()

    (tree, cost), _ = secure.together(side, side)
    return Outcome(tree, cost)


@dataclass(frozen=True)
class Seen:
    """What a browser shows of a report on one screen."""

    figures: int
    drawn: list[tuple[float, float, int]]
    """Width and height of each picture in sight, and how many marks it has."""
    width: int
    outside: list[str]
    smallest: float
    """Size of the smallest text in pictures."""
    asked: list[str]
    """Addresses that the page asked for."""
    issues: list[str] | None
    """What is hard to read; None where nobody can tell."""


@pytest.fixture(scope="module", params=SCREENS, ids=str)
def screen(request: pytest.FixtureRequest) -> tuple[int, bool]:
    """Width of a window, and whether its reader likes it dark."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def seen(tab: Tab, reports: dict[str, Path], screen: tuple[int, bool]) -> dict[str, Seen]:
    """All reports on one screen, each opened once."""
    width, dark = screen
    try:
        axe_or_skip()
        rules = EVERYTHING if dark else COLOURS
    except pytest.skip.Exception:
        rules = None
    found = {}
    tab.look(width=width, dark=dark)
    for name, place in reports.items():
        before = len(tab.requests())
        tab.open(place.as_uri())
        found[name] = Seen(
            *tab.value(SHOWN),
            asked=tab.requests()[before:],
            issues=None if rules is None else accessibility_issues(tab, rules),
        )
        keep(f"report/{name}-{width}{'-dark' if dark else ''}.png", tab.picture)
    return found


def test_every_picture_is_drawn_and_fits(
    tab: Tab, reports: dict[str, Path], seen: dict[str, Seen], screen: tuple[int, bool]
) -> None:
    for name, page in seen.items():
        assert len(page.drawn) == page.figures > 0, name
        for wide, high, marks in page.drawn:
            assert wide > 100, name
            assert high > 40, name
            assert marks >= 1, name
        assert page.width <= screen[0], name
        assert page.asked == [reports[name].as_uri()]
    assert tab.complaints() == []


def test_no_word_leaves_its_gauge_or_box(
    tab: Tab,
    reports: dict[str, Path],
    seen: dict[str, Seen],
    screen: tuple[int, bool],
    tmp_path: Path,
) -> None:
    gauges = tmp_path / "gauges.html"
    pairs = [(0.5764, 0.1412), (0.99999, 0.00001), (1.0, 0.2), (0.0123, 0.0099), (None, None)]
    drawn = "".join(gauge("marketer", before, after) for before, after in pairs)
    style = reports["table"].read_text(encoding="utf-8").partition("</style>")[0]
    gauges.write_text(f"{style}</style><body>{drawn}</body>", encoding="utf-8")
    tab.look(width=screen[0])
    tab.open(gauges.as_uri())
    assert tab.value(OUTSIDE) == []
    assert {name: page.outside for name, page in seen.items() if page.outside} == {}


def test_people_of_all_abilities_can_read_it(seen: dict[str, Seen]) -> None:
    axe_or_skip()
    assert {name: page.issues for name, page in seen.items() if page.issues != []} == {}


def test_text_in_pictures_is_large_enough(seen: dict[str, Seen]) -> None:
    for name, page in seen.items():
        assert page.smallest >= 8, name


def test_a_table_of_two_columns_fits_a_telephone(tab: Tab, reports: dict[str, Path]) -> None:
    tab.look(width=400)
    tab.open(reports["classifier"].as_uri())
    assert tab.value(
        "[...document.querySelectorAll('.scroll')].every(s => s.scrollWidth <= s.clientWidth)"
    )


def test_what_cannot_be_read_is_found(tab: Tab, tmp_path: Path) -> None:
    axe_or_skip()
    place = tmp_path / "bad.html"
    place.write_text("<html><body style='color:#ccc'><p>pale</p><img src='x'></body></html>")
    tab.open(place.as_uri())
    found = {issue.partition(" ")[0] for issue in accessibility_issues(tab)}
    assert {"color-contrast", "image-alt", "html-has-lang"} <= found
    seen = {issue.partition(" ")[0] for issue in accessibility_issues(tab, COLOURS)}
    assert seen == {"color-contrast"}


def test_it_prints(tab: Tab, reports: dict[str, Path]) -> None:
    tab.look()
    tab.open(reports["release"].as_uri())
    paper = tab.paper()
    keep("report/release.pdf", lambda: paper)
    assert paper.startswith(b"%PDF")
    pages = paper.count(b"/Type /Page\n") or paper.count(b"/Type /Page ")
    assert 2 <= pages <= 14
