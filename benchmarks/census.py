"""A census-like table of any size: skewed, correlated, mostly of low cardinality.

The shape follows the UCI Census-Income table: 41 columns, most with a handful of values of which
one or two dominate ("not in universe" for everybody a question does not concern), groups of columns
that say almost the same thing, and a few wide ones (weight, birth date, postcode, income,
dividends). Rows depend on the seed and their number alone, not on how many are asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.runner import cache_folder

__all__ = ["census_batches", "census_file"]

CHUNK = 250_000
CHILD, WORKING, AT_HOME, RETIRED = range(4)
EVERYBODY: tuple[int, ...] = (CHILD, WORKING, AT_HOME, RETIRED)
ADULTS = (WORKING, AT_HOME, RETIRED)


@dataclass(frozen=True)
class Answer:
    """A question of the census: how many answers, how skewed, and on what it depends.

    A row whose life stage is not in `asked` answers 0 ("not in universe"), and so does the share
    `usual` of the others. The rest follows a power law with exponent `skew`, and the order of
    popularity turns with the column `follows`.
    """

    name: str
    answers: int
    skew: float
    follows: str = "stage"
    asked: tuple[int, ...] = EVERYBODY
    text: bool = True
    usual: float = 0.0
    null_share: float = 0.0


ANSWERS = (
    Answer("class_of_worker", 9, 1.6, "stage", (WORKING,)),
    Answer("industry_code", 52, 0.7, "class_of_worker", (WORKING,), text=False),
    Answer("occupation_code", 47, 0.9, "industry_code", (WORKING,), text=False),
    Answer("education", 17, 0.8, "stage", ADULTS),
    Answer("wage_per_hour", 1200, 1.1, "occupation_code", (WORKING,), text=False, usual=0.88),
    Answer("enrolled", 3, 2.5, "stage", (AT_HOME,)),
    Answer("marital_status", 7, 1.2, "stage", ADULTS),
    Answer("industry", 24, 1.9, "industry_code", (WORKING,)),
    Answer("occupation", 15, 1.9, "occupation_code", (WORKING,)),
    Answer("race", 5, 2.2, "origin", usual=0.7),
    Answer("hispanic_origin", 10, 2.6, "origin", usual=0.75),
    Answer("union_member", 3, 2.0, "class_of_worker", (WORKING,), usual=0.8),
    Answer("unemployment_reason", 6, 1.5, "education", (AT_HOME,), usual=0.7),
    Answer("employment", 8, 1.4, "stage"),
    Answer("capital_gains", 123, 2.4, "education", ADULTS, text=False, usual=0.95),
    Answer("capital_losses", 111, 2.8, "education", ADULTS, text=False, usual=0.97),
    Answer("tax_filer", 6, 1.6, "marital_status", ADULTS),
    Answer("region_before", 6, 2.8, "state", usual=0.9),
    Answer("state", 50, 0.6, "origin"),
    Answer("state_before", 51, 2.7, "state", usual=0.9, null_share=0.003),
    Answer("household_detail", 37, 1.2, "marital_status", usual=0.1),
    Answer("household", 8, 2.4, "household_detail"),
    Answer("migration_msa", 10, 1.7, "state", usual=0.3, null_share=0.5),
    Answer("migration_region", 9, 1.8, "state", usual=0.3, null_share=0.5),
    Answer("migration_within", 10, 2.4, "migration_region", usual=0.3, null_share=0.5),
    Answer("same_house", 3, 1.0, "migration_region", usual=0.3),
    Answer("previous_sunbelt", 4, 1.6, "region_before", usual=0.6, null_share=0.5),
    Answer("employer_size", 7, 0.5, "class_of_worker", (WORKING,), text=False),
    Answer("parents_present", 5, 1.6, "household", (CHILD,)),
    Answer("birth_country_father", 43, 2.2, "origin", usual=0.75, null_share=0.034),
    Answer("birth_country_mother", 43, 2.2, "birth_country_father", usual=0.75, null_share=0.031),
    Answer("citizenship", 5, 2.4, "origin", usual=0.8),
    Answer("self_employed", 3, 1.6, "class_of_worker", (WORKING,), text=False, usual=0.75),
    Answer("veteran_benefits", 3, 2.0, "stage", text=False, usual=0.5),
    Answer("weeks_worked", 53, 0.9, "class_of_worker", (WORKING,), text=False),
)
"""35 columns drawn by rule; age, sex and four wide ones make it 41."""


def census_batches(rows: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """The table in chunks."""
    for chunk in range(-(-rows // CHUNK)):
        many = min(CHUNK, rows - chunk * CHUNK)
        whole = _chunk(np.random.default_rng([seed, chunk]))
        yield whole.slice(0, many)


def census_file(rows: int, seed: int = 0) -> Path:
    """Parquet file with the table, made on first use and kept in the cache folder."""
    path = cache_folder() / f"census-{rows}-{seed}.parquet"
    if path.exists():
        return path
    partial = path.with_suffix(".partial")
    batches = census_batches(rows, seed)
    first = next(batches)
    with pq.ParquetWriter(partial, _plain(first.schema), store_schema=False) as writer:
        held = [first]
        for batch in batches:
            held.append(batch)
            if len(held) == 4:
                writer.write_table(_decoded(held))
                held = []
        if held:
            writer.write_table(_decoded(held))
    partial.rename(path)
    return path


def _chunk(random: np.random.Generator) -> pa.RecordBatch:
    age = np.clip(random.gamma(2.4, 15.0, CHUNK).astype(np.int64), 0, 90)
    works = random.random(CHUNK)
    stage = np.where(
        age < 16, CHILD, np.where(age > 66, RETIRED, np.where(works < 0.72, WORKING, AT_HOME))
    )
    drawn: dict[str, npt.NDArray[np.int64]] = {
        "stage": stage,
        "origin": _power_law(random, 43, 2.3),
    }
    arrays: dict[str, pa.Array] = {
        "age": pa.array(age),
        "sex": pa.DictionaryArray.from_arrays(
            pa.array((random.random(CHUNK) < 0.52).astype(np.int32)), ["Male", "Female"]
        ),
    }
    order = sorted(ANSWERS, key=lambda answer: answer.name != "state")  # others follow it
    for answer in order:
        drawn[answer.name] = _answers(random, answer, drawn)
    for answer in ANSWERS:
        arrays[answer.name] = _column(random, answer, drawn[answer.name])
    arrays |= _wide(random, age, stage, drawn)
    return pa.RecordBatch.from_pydict(arrays)


def _power_law(random: np.random.Generator, values: int, skew: float) -> npt.NDArray[np.int64]:
    weights = np.arange(1, values + 1, dtype=np.float64) ** -skew
    edges = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(edges, random.random(CHUNK)), values - 1)


def _answers(
    random: np.random.Generator, answer: Answer, drawn: dict[str, npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    turned = drawn[answer.follows] * 7
    values = (_power_law(random, answer.answers, answer.skew) + turned) % answer.answers
    concerned = np.isin(drawn["stage"], answer.asked)
    if answer.usual:
        concerned &= random.random(CHUNK) >= answer.usual
    return np.where(concerned, values, 0)


def _column(random: np.random.Generator, answer: Answer, values: npt.NDArray[np.int64]) -> pa.Array:
    null = random.random(CHUNK) < answer.null_share if answer.null_share else None
    if not answer.text:
        return pa.array(values, mask=null)
    labels = ["Not in universe", *(f"{answer.name} {i:02}" for i in range(1, answer.answers))]
    return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32), mask=null), labels)


def _wide(
    random: np.random.Generator,
    age: npt.NDArray[np.int64],
    stage: npt.NDArray[np.int64],
    drawn: dict[str, npt.NDArray[np.int64]],
) -> dict[str, pa.Array]:
    """Weight, birth date, postcode and income."""
    earning = np.isin(stage, ADULTS) & (random.random(CHUNK) < 0.8)
    income = np.where(earning, np.round(random.lognormal(9.8, 0.8, CHUNK) / 10) * 10, 0)
    birth = 20_000 - age * 365 - random.integers(0, 365, CHUNK)
    area = drawn["state"] * 600 + _power_law(random, 600, 0.8)
    weight = np.round(np.clip(random.gamma(4.0, 450.0, CHUNK), 30, 9_000), 1)
    codes = [f"{code:05}" for code in range(30_000)]
    return {
        "weight": pa.array(weight),
        "birth_date": pa.array(birth.astype(np.int32)).cast(pa.date32()),
        "postcode": pa.DictionaryArray.from_arrays(pa.array(area.astype(np.int32)), codes),
        "income": pa.array(income.astype(np.int64)),
    }


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            (
                field.name,
                field.type.value_type if pa.types.is_dictionary(field.type) else field.type,
            )
            for field in schema
        ]
    )


def _decoded(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    return table.cast(_plain(table.schema))


def main() -> None:
    """Make the table and say where it is."""
    parser = argparse.ArgumentParser(description="Make the census-like table.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(census_file(options.rows, options.seed))


if __name__ == "__main__":
    main()
