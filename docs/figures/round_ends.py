"""What ranges with round ends cost against exact ones, and whose values their ends are.

Prints the table of docs/verbs/anonymize.md::

    python docs/figures/round_ends.py
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc

import sfumato as sf

TABLES = {
    "adult": "age, education-num, hours-per-week, sex, race",
    "adult_all": "age, fnlwgt, education-num, hours-per-week, sex",
    "arx_fars_subset": "iage, irace, isex",
    "covtype": "Elevation, Aspect, Slope, Horizontal_Distance_To_Hydrology, "
    "Horizontal_Distance_To_Roadways",
    "crx": "A2, A3, A8, A14",
    "nist_acs_national2019": "AGEP, SEX, RAC1P, DENSITY",
    "letter": "x-box, y-box, width, high, onpix",
    "pums_oregon_calm_person": "AGEP, SEX, PINCP, WKHP",
    "census_income_kdd_test": "age, wage per hour, capital gains, sex, race",
    "pums_oregon_calm_household": "BDS, NP, HINCP",
}
K = 5


def main() -> None:
    """Release every table with exact and with round ends, and print what is lost."""
    say("| table, quasi-identifiers | exact ends | round ends | more | rare ends before | after |")
    say("|---|---:|---:|---:|---:|---:|")
    for name, columns in TABLES.items():
        qi = columns.split(", ")
        table = sf.datasets.load(name).to_arrow().select(qi)
        exact = sf.anonymize(table, qi=qi, k=K, exact_ends=True)
        rounded = sf.anonymize(table, qi=qi, k=K)
        before, after = (release.utility["ncp"] for release in (exact, rounded))
        rare, left = (
            sum(rare_ends(table, release, column) for column in qi) for release in (exact, rounded)
        )
        say(
            f"| {name}: {columns} | {before:.5f} | {after:.5f} | {after / before - 1:.1%} | "
            f"{rare:,} | {left:,} |"
        )


def say(line: str) -> None:
    """Print a line as soon as it is known."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def rare_ends(table: pa.Table, release: sf.Release, column: str) -> int:
    """How many different ends of ranges are values that fewer than k rows hold."""
    original, shown = table[column], release.to_arrow()[column]
    if not pa.types.is_string(shown.type) or pa.types.is_string(original.type):
        return 0
    counted = pc.value_counts(original.drop_null())
    held = {
        float(value): rows
        for value, rows in zip(
            counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
        )
    }
    labels = [label for label in shown.unique().to_pylist() if label and label.startswith("[")]
    ends = {float(end) for label in labels for end in label[1:-1].split(", ")}
    return sum(held.get(end, K) < K for end in ends)


if __name__ == "__main__":
    main()
