"""The methods `anonymize` knows, by the names users give; each is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from sfumato.fields import Columns, Field

BLURRING = "How to blur"
"""The group of the parameters that say how."""


@dataclass(frozen=True)
class Method:
    """One way to anonymize.

    Parameters
    ----------
    home
        Module with a function ``solve(problem) -> Solution``, or ``module:function``.
    says
        One line for help texts.
    options
        Names of the options it understands.
    needs_trees
        Whether every column must have a hierarchy; missing ones are then inferred.
    blurs
        Whether it blurs any number of columns group by group, so that sets of quasi-identifiers
        with common columns can be solved in two stages (see `several_sets`).
    judges_sets
        Whether it judges each of several sets of quasi-identifiers itself.
    parts
        Whether it may put some rows of a combination of values here and some there.
    stars
        Whether it stars cells and leaves all others as they are.
    """

    home: str
    says: str
    options: tuple[str, ...] = ()
    needs_trees: bool = False
    blurs: bool = False
    judges_sets: bool = False
    parts: bool = False
    stars: bool = False

    @property
    def maps_people(self) -> bool:
        """Whether k-map can steer it: it keeps people of a population in its groups."""
        return self.blurs or self.judges_sets


METHODS: dict[str, Method] = {
    "mondrian": Method(
        "sfumato.anonymization.methods.mondrian",
        "cuts the space of quasi-identifiers top down, first where precision matters; fast",
        ("cut_weights", "target", "relaxed", "cuts"),
        blurs=True,
    ),
    "cells": Method(
        "sfumato.anonymization.cells.method",
        "stars as few cells as it can and proves how many fewer there could be; values stay exact",
        ("algorithm", "beta", "improve", "bound", "protected", "marker"),
        parts=True,
        stars=True,
    ),
    "kmember": Method(
        "sfumato.anonymization.methods.kmember",
        "clusters rows greedily by least loss; with boundaries it is GreedyCKA",
        ("loss", "part_size"),
        blurs=True,
        parts=True,
    ),
    "lattice": Method(
        "sfumato.anonymization.methods.lattice",
        "covers rows from the finest levels to the coarsest; fast and close to the best",
        blurs=True,
    ),
    "full-domain": Method(
        "sfumato.anonymization.methods.full_domain",
        "one level per column for the whole table, the optimum; lists the lattice of levels",
        ("suppression_limit", "levels", "every_node"),
        needs_trees=True,
        judges_sets=True,
    ),
    "best": Method(
        "sfumato.anonymization.methods.best",
        "starts from the best of the others and improves it while the time lasts",
        ("loss", "bound", "rounds", "suppression_limit"),
        blurs=True,
        parts=True,
    ),
    "quantiles": Method(
        "sfumato.anonymization.methods.one_dimension:solve_quantiles",
        "cuts one column at its quantiles: the least total change of rank",
        ("ties", "sample"),
    ),
    "optimal-1d": Method(
        "sfumato.anonymization.methods.one_dimension:solve_optimal",
        "groups one column at the least k-median, cellular or k-center cost",
        ("cost", "ties"),
    ),
}
"""All methods, in the order help texts list them."""


class MethodFields(TypedDict, total=False):
    """Options of methods; each is only understood by those that list it."""

    cut_weights: Annotated[
        Mapping[str, float | int] | None,
        Field(
            "What decides where Mondrian cuts: spread (width), priority (weights), or gain (what a "
            "cut says about the target).",
            BLURRING,
            "--cut-weights",
            "spread=1,priority=1,gain=0",
        ),
    ]
    target: Annotated[
        str | None,
        Field("A column that should stay predictable.", BLURRING, "--target", "COLUMN"),
    ]
    relaxed: Annotated[
        bool | None,
        Field("Whether Mondrian may separate equal values.", BLURRING, "--relaxed/--strict"),
    ]
    cuts: Annotated[
        Mapping[str, Sequence[Any]] | None,
        Field("Where Mondrian should cut, by column.", BLURRING),
    ]
    algorithm: Annotated[str | None, Field("How `cells` searches.", BLURRING)]
    beta: Annotated[
        float | None,
        Field("Candidates of algorithm cf of `cells` have fewer than m/β stars.", BLURRING),
    ]
    improve: Annotated[str | None, Field("How `cells` improves what it found.", BLURRING)]
    bound: Annotated[str | None, Field("How a lower bound is proven.", BLURRING)]
    protected: Annotated[
        Columns | None,
        Field("Columns in which `cells` stars nothing.", BLURRING, what="a list of column names"),
    ]
    marker: Annotated[str | None, Field("What `cells` writes in place of `*`.", BLURRING)]
    loss: Annotated[str | None, Field("What a group loses: certainty or another.", BLURRING)]
    rounds: Annotated[
        int | None,
        Field("Rounds in which `best` improves what it found, each twice as long.", BLURRING),
    ]
    part_size: Annotated[
        float | None, Field("Rows among which `kmember` looks for neighbours.", BLURRING)
    ]
    suppression_limit: Annotated[
        float | None,
        Field(
            "Share of rows that `full-domain` may leave out, and `best` if that loses less.",
            BLURRING,
        ),
    ]
    levels: Annotated[
        Mapping[str, int] | None,
        Field(
            "Levels of trees that `full-domain` uses, by column (0 is exact); it searches those of "
            "the other columns.",
            BLURRING,
            "--levels",
            "age=2,zip=1",
        ),
    ]
    every_node: Annotated[
        bool | None,
        Field(
            "Whether `full-domain` evaluates every node of its lattice and lists all with k and "
            "loss, or only those the search needs.",
            BLURRING,
        ),
    ]
    ties: Annotated[bool | None, Field("Whether equal values stay together.", BLURRING)]
    cost: Annotated[str | None, Field("What `optimal-1d` makes smallest.", BLURRING)]
    sample: Annotated[
        int | None,
        Field(
            "Sample size from which `quantiles` takes its cuts; all rows by default.",
            BLURRING,
            "--sample",
            "N",
        ),
    ]
