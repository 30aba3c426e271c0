"""What overlapping sets of quasi-identifiers save against their union, on Adult.

Prints the table of docs/verbs/anonymize.md::

    python docs/figures/several_sets.py
"""

from __future__ import annotations

import sys

import sfumato as sf

SETS = [
    ["sex", "age", "marital-status", "education", "native-country"],
    ["sex", "age", "race", "workclass", "occupation"],
]


def main() -> None:
    """Anonymize for both sets and for their union, and print what is lost."""
    table = sf.datasets.load("arx_adult")
    union = list(dict.fromkeys(name for names in SETS for name in names))
    lines = ["| method | k | each set | their union | saved |", "|---|---:|---:|---:|---:|"]
    for method in ("mondrian", "lattice", "full-domain"):
        for k in (5, 25):
            lost = sf.anonymize(table, qi=SETS, k=k, method=method).utility["ncp"]
            whole = sf.anonymize(table, qi=union, k=k, method=method).utility["ncp"]
            lines.append(f"| {method} | {k} | {lost:.4f} | {whole:.4f} | {1 - lost / whole:.0%} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
