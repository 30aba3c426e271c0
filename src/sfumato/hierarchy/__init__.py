"""Generalization: trees, ranges and sets of values, and how far they may go."""

from sfumato.hierarchy.boundaries import Boundaries, Limit
from sfumato.hierarchy.builders import (
    CALENDAR,
    dates,
    flat,
    infer,
    neighbours,
    ordered_groups,
    parse_arx,
    prefixes,
    read_arx,
    read_folder,
    read_taxonomy,
    taxonomy,
    write_arx,
)
from sfumato.hierarchy.hierarchy import EncodedHierarchy, Hierarchy
from sfumato.hierarchy.intervals import equal_frequency, intervals
from sfumato.hierarchy.labels import Published, ValueSets
from sfumato.hierarchy.ranges import Ranges
from sfumato.hierarchy.tree import Tree

__all__ = [
    "CALENDAR",
    "Boundaries",
    "EncodedHierarchy",
    "Hierarchy",
    "Limit",
    "Published",
    "Ranges",
    "Tree",
    "ValueSets",
    "dates",
    "equal_frequency",
    "flat",
    "infer",
    "intervals",
    "neighbours",
    "ordered_groups",
    "parse_arx",
    "prefixes",
    "read_arx",
    "read_folder",
    "read_taxonomy",
    "taxonomy",
    "write_arx",
]
