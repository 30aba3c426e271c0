"""Datasets: several tables about the same people, with the keys between them."""

from sfumato.relational.description import Dataset, Reference, TableOf, dataset, is_dataset
from sfumato.relational.first_look import DatasetScan, TableScan, scan
from sfumato.relational.joined_attack import TablesAttack, attack
from sfumato.relational.publishing import TableRelease, TablesRelease
from sfumato.relational.release import anonymize
from sfumato.relational.verification import is_released, verify

__all__ = [
    "Dataset",
    "DatasetScan",
    "Reference",
    "TableOf",
    "TableRelease",
    "TableScan",
    "TablesAttack",
    "TablesRelease",
    "anonymize",
    "attack",
    "dataset",
    "is_dataset",
    "is_released",
    "scan",
    "verify",
]
