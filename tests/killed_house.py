"""Releases a dataset in a process that a test may kill at any moment."""

from __future__ import annotations

from typing import Any

from sfumato import relational


def write(source: str, output: str, key: str, began: Any) -> None:
    """Release a dataset, saying when it begins."""
    began.set()
    relational.anonymize(
        source,
        qi=["patients.sex", "visits.ward"],
        k=2,
        m=2,
        linkable=True,
        key_file=key,
        output=output,
        force=True,
    )


def write_by_spark(source: str, output: str, key: str, linkable: bool, began: Any) -> None:
    """The same of frames of a Spark of its own."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    frames = {
        name: session.read.parquet(f"{source}/{name}.parquet") for name in ("patients", "visits")
    }
    frames["visits"] = frames["visits"].drop("ward_id")
    asked: dict[str, Any] = {"m": 2, "linkable": True, "key_file": key} if linkable else {}
    began.set()
    relational.anonymize(
        {
            "person": "patients.id",
            "tables": {
                "patients": {"source": frames["patients"], "key": "id"},
                "visits": {"source": frames["visits"], "references": {"patient_id": "patients.id"}},
            },
        },
        qi=["patients.sex", "visits.ward"],
        k=2,
        output=output,
        **asked,
    )


def ask(source: str, asked: dict[str, Any], began: Any) -> None:
    """Whatever is asked, saying when it begins."""
    began.set()
    relational.anonymize(source, **asked)
