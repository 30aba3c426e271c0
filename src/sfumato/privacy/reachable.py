"""What no amount of blurring can reach: demands that even one single class would not satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.errors import ParameterError
from sfumato.privacy.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    KMap,
    Model,
    RecursiveDiversity,
    Sensitivity,
)
from sfumato.privacy.rules import TOLERANCE, SensitiveColumn

__all__ = ["require_reachable"]


def require_reachable(
    models: Sequence[Model], sensitive: Mapping[str, SensitiveColumn], rows: int
) -> None:
    """Refuse demands that the whole table as one class does not satisfy.

    All models are monotone: the union of classes is never worse than the worst of them, so what
    fails for the whole table fails for every release of it.

    Parameters
    ----------
    models
        What is asked.
    sensitive
        The sensitive columns of the table.
    rows
        Rows of the table.

    Raises
    ------
    ParameterError
        Says what is asked and the best that can be reached.

    Examples
    --------
    >>> illness = SensitiveColumn(np.array([5, 3]))
    >>> require_reachable([DistinctDiversity(3, "illness")], {"illness": illness}, 8)
    Traceback (most recent call last):
        ...
    sfumato.errors.ParameterError: column `illness`: distinct l-diversity with l = 3 cannot be \
reached: the table holds 2 distinct values. Ask for l <= 2.
    """
    for model in models:
        if isinstance(model, (KAnonymity, Sensitivity, AlphaK)) and model.k > rows:
            raise ParameterError(
                f"{model.name} with k = {model.k:,} cannot be reached: the table has {rows:,} rows",
                remedy=f"Ask for k <= {rows:,}." if rows else "There is nothing to release.",
            )
        if isinstance(model, (KAnonymity, KMap, Closeness)) or rows == 0:
            continue
        _refuse(model, sensitive[model.column])


def _refuse(
    model: DistinctDiversity | EntropyDiversity | RecursiveDiversity | Sensitivity | AlphaK,
    column: SensitiveColumn,
) -> None:
    counts = np.sort(column.counts[column.counts > 0])[::-1]
    rows = int(counts.sum())
    where = f"column `{model.column}`"
    if isinstance(model, (DistinctDiversity, Sensitivity)):
        letter, asked = ("l", model.l) if isinstance(model, DistinctDiversity) else ("p", model.p)
        if asked > len(counts):
            raise ParameterError(
                f"{model.name} with {letter} = {asked} cannot be reached: the table holds "
                f"{len(counts)} distinct values",
                where=where,
                remedy=f"Ask for {letter} <= {len(counts)}.",
            )
    elif isinstance(model, EntropyDiversity):
        share = counts / rows
        entropy = float(-(share * np.log(share)).sum())
        if entropy < np.log(model.l) - TOLERANCE:
            raise ParameterError(
                f"{model.name} with l = {model.l:g} cannot be reached: the whole table has "
                f"{np.exp(entropy):.6g}, since {counts[0]:,} of {rows:,} rows hold one value",
                where=where,
                remedy=f"Ask for l <= {np.floor(np.exp(entropy) * 1e4) / 1e4:g}, or for distinct "
                "l-diversity.",
            )
    elif isinstance(model, RecursiveDiversity):
        rest = int(counts[model.l - 1 :].sum())
        if not counts[0] < model.c * rest:
            best = f"c > {counts[0] / rest:.6g}" if rest else f"l <= {len(counts)}"
            raise ParameterError(
                f"{model.name} with c = {model.c:g} and l = {model.l} cannot be reached: "
                f"{counts[0]:,} of {rows:,} rows hold one value, and {rest:,} the {model.l}th "
                "commonest or a rarer one",
                where=where,
                remedy=f"The whole table needs {best}.",
            )
    else:
        held = counts[0]
        if model.value is not None:
            held = column.counts[column.code_of(model.value, model.column)]
        if held > (model.alpha + TOLERANCE) * rows:
            raise ParameterError(
                f"{model.name} with α = {model.alpha:g} cannot be reached: in the whole table "
                f"{held:,} of {rows:,} rows hold one value, a share of {held / rows:.6g}",
                where=where,
                remedy=f"Ask for α >= {held / rows:.6g}.",
            )
