"""Finite loss against the budget, for any set of policies, with their asymptotes.

The picture of the mixing issue: a policy may have the best asymptote and be far above it for
every budget that one can pay. :func:`finite_loss_curves` makes the record from numbers that
``finite_loss`` computed; :func:`draw` turns it into a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.plots.style import new_figure, plain_numbers


@dataclass(frozen=True, eq=False)
class LossCurve:
    """One policy's loss at each budget, and where it tends to (None if unknown)."""

    label: str
    losses: NDArray[np.float64]
    asymptote: float | None = None


@dataclass(frozen=True, eq=False)
class FiniteLossCurves:
    """All numbers of the figure."""

    budgets: NDArray[np.int64]
    curves: tuple[LossCurve, ...]
    bound: NDArray[np.float64] | None = None
    """What no policy can be below, at each budget."""
    title: str = ""


def finite_loss_curves(
    budgets: ArrayLike,
    losses: Mapping[str, ArrayLike],
    asymptotes: Mapping[str, float] | None = None,
    bound: ArrayLike | None = None,
    title: str = "",
) -> FiniteLossCurves:
    """The record: ``losses`` and ``asymptotes`` by the policies' names."""
    steps = np.array(budgets, dtype=np.int64).ravel()
    if steps.size == 0 or (np.diff(steps) <= 0).any() or steps[0] < 1:
        raise ArgumentError("the budgets of a curve are positive and ascend", "sort them")
    if not losses:
        raise ArgumentError("there is no curve to draw", "give the losses of at least one policy")
    asymptotes = {} if asymptotes is None else dict(asymptotes)
    unknown = [name for name in asymptotes if name not in losses]
    if unknown:
        raise ArgumentError(
            f"there is an asymptote for {unknown[0]!r} and no curve of that name",
            f"the curves are {', '.join(map(repr, losses))}",
        )
    curves = tuple(
        LossCurve(name, _matching(values, steps, f"the curve {name!r}"), asymptotes.get(name))
        for name, values in losses.items()
    )
    limit = None if bound is None else _matching(bound, steps, "the bound")
    return FiniteLossCurves(steps, curves, limit, title)


def _matching(values: ArrayLike, budgets: NDArray, what: str) -> NDArray[np.float64]:
    array = np.array(values, dtype=float)
    if array.shape != budgets.shape:
        raise ArgumentError(
            f"{what} has shape {array.shape} for {budgets.size} budgets",
            "give one number per budget",
        )
    return array


def draw(record: FiniteLossCurves, axes: Any = None, path: str | Path | None = None) -> Any:
    """Draw on ``axes`` (a new figure's by default), write to ``path`` if given; the axes."""
    if axes is None:
        axes = new_figure(7.0, 4.2).subplots()
    for curve in record.curves:
        (line,) = axes.plot(record.budgets, curve.losses, label=curve.label, lw=1.8)
        if curve.asymptote is not None:
            axes.axhline(curve.asymptote, color=line.get_color(), ls="--", lw=0.9)
    if record.bound is not None:
        axes.fill_between(
            record.budgets, record.bound, alpha=0.12, color="k", lw=0, label="no policy gets here"
        )
    axes.set(
        xscale="log", yscale="log", xlabel="budget n", ylabel="finite loss", title=record.title
    )
    # Losses span less than two decades as a rule: powers of ten alone would say little.
    plain_numbers(axes.yaxis)
    axes.set_xlim(record.budgets[0], max(record.budgets[-1], record.budgets[0] + 1))
    axes.grid(alpha=0.25, which="both", lw=0.5)
    axes.legend(frameon=False)
    if path is not None:
        axes.get_figure().savefig(path, dpi=150)
    return axes
