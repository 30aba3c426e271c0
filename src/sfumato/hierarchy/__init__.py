"""Generalization: trees, ranges and sets of values, and how far they may go."""

from sfumato.hierarchy.bound import BoundHierarchy
from sfumato.hierarchy.boundaries import Boundaries, Limit
from sfumato.hierarchy.hierarchy import Hierarchy
from sfumato.hierarchy.published import Published
from sfumato.hierarchy.ranges import Ranges
from sfumato.hierarchy.sets import ValueSets
from sfumato.hierarchy.tree import Tree

__all__ = [
    "BoundHierarchy",
    "Boundaries",
    "Hierarchy",
    "Limit",
    "Published",
    "Ranges",
    "Tree",
    "ValueSets",
]
