"""One picture for each privacy model: classes as boxes, rows as dots, sensitive values as colours.

`python docs/figures/models.py` writes them. What stands below a box is computed from its dots.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
COLOURS = {"a": "#0068a8", "b": "#b84000", "c": "#007a5e", "d": "#8a5a9e", ".": "#77736b"}
"""Blue, vermilion, green, purple; grey where the value does not matter."""
INK, PALE, GOOD, BAD, PAPER = "#22201c", "#d8d4c8", "#007a5e", "#b84000", "#fcfbf7"
DOT, GAP, TOP = 8, 24, 46
FONT = 'font-family="sans-serif"'

Judge = Callable[[str], tuple[bool, str]]


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 13,
    anchor: str = "start",
    colour: str = INK,
    weight: str = "normal",
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" {FONT} font-size="{size}" text-anchor="{anchor}" '
        f'fill="{colour}" font-weight="{weight}">{words}</text>'
    )


def dots(x: float, y: float, values: str) -> str:
    """Rows side by side, coloured by what is worth hiding."""
    return "".join(
        f'<circle cx="{x + GAP * n:g}" cy="{y:g}" r="{DOT}" fill="{COLOURS[value]}"/>'
        for n, value in enumerate(values)
    )


def box(x: float, values: str, judge: Judge) -> tuple[str, float]:
    """A class with its verdict; also where the next one begins."""
    holds, figure = judge(values)
    width = max(GAP * len(values) + 20, 104)
    colour = GOOD if holds else BAD
    inner = x + (width - GAP * (len(values) - 1)) / 2
    drawn = (
        f'<rect x="{x:g}" y="{TOP}" width="{width:g}" height="46" rx="8" fill="#ffffff" '
        f'stroke="{colour}" stroke-width="2"/>'
        + dots(inner, TOP + 23, values)
        + text(x + width / 2, TOP + 66, figure, size=12, anchor="middle")
        + text(
            x + width / 2,
            TOP + 84,
            "holds" if holds else "does not hold",
            size=12,
            anchor="middle",
            colour=colour,
            weight="bold",
        )
    )
    return drawn, x + width + 18


def picture(name: str, title: str, classes: Sequence[str], judge: Judge, more: str = "") -> None:
    """Write the picture of one model."""
    x, drawn = 20.0, ""
    for values in classes:
        part, x = box(x, values, judge)
        drawn += part
    width = max(x + 2, 560.0)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} 150" role="img" '
        f'width="{width:g}" height="150"><title>{title}</title>'
        f'<rect width="{width:g}" height="150" rx="10" fill="{PAPER}" stroke="{PALE}"/>'
        f"{text(20, 28, title, weight='bold')}{drawn}{more}</svg>\n"
    )
    (HERE / f"model-{name}.svg").write_text(svg, encoding="utf-8")


def shares(values: str) -> list[float]:
    """Shares of the sensitive values, the largest first."""
    return sorted((n / len(values) for n in Counter(values).values()), reverse=True)


def entropy_l(values: str) -> float:
    """The number of equally common values that are as hard to guess."""
    return math.exp(-sum(share * math.log(share) for share in shares(values)))


def recursive_ratio(values: str, l: int) -> float:  # noqa: E741 (the field's own name)
    """r₁ over the sum of those from the l-th on."""
    counts = sorted(Counter(values).values(), reverse=True)
    rest = sum(counts[l - 1 :])
    return counts[0] / rest if rest else math.inf


def distance(values: str, whole: str) -> float:
    """Earth mover's distance where all values are equally far apart."""
    mine, all_of_them = Counter(values), Counter(whole)
    return sum(abs(mine[v] / len(values) - all_of_them[v] / len(whole)) for v in all_of_them) / 2


def gain(values: str, whole: str) -> float:
    """How much likelier the value that gains most is in a class than among all rows."""
    mine, all_of_them = Counter(values), Counter(whole)
    return max(mine[v] / len(values) / (all_of_them[v] / len(whole)) - 1 for v in all_of_them)


def counted(number: int, what: str) -> str:
    """``1 row``, ``3 rows``."""
    return f"{number} {what}" + "s" * (number != 1)


def main() -> None:
    """Draw all models."""
    picture(
        "k-anonymity",
        "k-anonymity, k = 3: at least 3 rows in every class",
        ["....", "...", "."],
        lambda v: (len(v) >= 3, counted(len(v), "row")),
    )
    picture(
        "distinct-diversity",
        "distinct l-diversity, l = 2: at least 2 sensitive values",
        ["aabc", "abb", "aaaa"],
        lambda v: (len(set(v)) >= 2, counted(len(set(v)), "value")),
    )
    picture(
        "entropy-diversity",
        "entropy l-diversity, l = 2: as hard to guess as 2 equal values",
        ["aabb", "abcd", "aaaaab"],
        lambda v: (entropy_l(v) >= 2 - 1e-12, f"exp H = {entropy_l(v):.2f}"),
    )
    picture(
        "recursive-diversity",
        "recursive (c,l)-diversity, c = l = 2: r₁ &lt; 2·(r₂ + … + rₘ)",
        ["aabbc", "aaab", "aaabb"],
        lambda v: (recursive_ratio(v, 2) < 2, f"r₁/… = {recursive_ratio(v, 2):.2g}"),
    )
    whole = "aabbbc" + "aab" + "aaa"
    picture(
        "t-closeness",
        "t-closeness, t = 0.3: each class is distributed as all rows are",
        ["aabbbc", "aab", "aaa"],
        lambda v: (distance(v, whole) <= 0.3, f"distance {distance(v, whole):.2f}"),
    )
    picture(
        "p-sensitivity",
        "p-sensitive k-anonymity, p = 2, k = 3: 3 rows and 2 values",
        ["abb", "aaab", "ab", "aaa"],
        lambda v: (
            len(v) >= 3 and len(set(v)) >= 2,
            f"{counted(len(v), 'row')}, {counted(len(set(v)), 'value')}",
        ),
    )
    picture(
        "alpha-k",
        "(α,k)-anonymity, α = 0.5, k = 3: no value takes more than half",
        ["aabb", "abc", "aaab"],
        lambda v: (len(v) >= 3 and shares(v)[0] <= 0.5, f"largest share {shares(v)[0]:.2f}"),
    )
    everybody = "aaaabc" + "aaab" + "aacc"
    picture(
        "likeness",
        "β-likeness, β = 1: no value gets more than twice as likely",
        ["aaaabc", "aaab", "aacc"],
        lambda v: (gain(v, everybody) <= 1, f"largest gain {gain(v, everybody):.2f}"),
    )
    picture(
        "k-map",
        "k-map, k = 4: every class matches 4 people of the population",
        ["....", ".."],
        lambda v: (len(v) >= 4, f"{len(v)} people match"),
        text(290, 66, "The boxes hold people outside;", size=12)
        + text(290, 84, "the release itself may show", size=12)
        + text(290, 102, "a single row of each.", size=12),
    )


if __name__ == "__main__":
    main()
