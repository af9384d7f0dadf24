"""What slack buys: mixing and loss against the distance that a plan may keep from η*.

The record is :class:`sojourn.planning.MixingTradeoff`, which ``mixing_tradeoff`` computes;
:func:`draw` turns it into a figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sojourn.planning import MixingTradeoff
from sojourn.plots.style import new_figure, plain_numbers


def draw(record: MixingTradeoff, path: str | Path | None = None) -> Any:
    """Two panels over the slack, eigenvalues above and losses below; the figure.

    Dotted lines are the optimal plan. Written to ``path`` if given.
    """
    figure = new_figure(7.0, 6.0)
    upper, lower = figure.subplots(2, 1, sharex=True)
    before = record.before
    eigenvalue, start = 1.0 - record.one_sided_gap, 1.0 - before.one_sided_gap
    steps = f"loss after {record.budget} steps"
    panels = (
        (upper, "SLEM", "o-", record.slem, before.slem),
        # Dashed, because for reversible chains without negative eigenvalues they coincide.
        (upper, "1 − one-sided gap", "o--", eigenvalue, start),
        (lower, "asymptotic loss", "o-", record.loss, before.loss),
        (lower, steps, "o-", record.finite_loss, before.finite_loss),
    )
    for axes, label, style, values, start in panels:
        (line,) = axes.plot(record.slack, values, style, ms=3, lw=1.6, label=label)
        if np.isfinite(start):
            axes.axhline(start, color=line.get_color(), ls=":", lw=1.0)
    # A slack of 0 has its place left of the smallest one.
    positive = record.slack[record.slack > 0]
    if positive.size == record.slack.size:
        upper.set_xscale("log")
    elif positive.size:
        upper.set_xscale("symlog", linthresh=float(positive.min()))
        upper.set_xlim(left=0.0)
    lower.set(xlabel="slack", ylabel="loss", yscale="log")
    plain_numbers(lower.yaxis)
    upper.set(
        ylabel="eigenvalue", title=f"{record.method}: what slack buys in {record.budget} steps"
    )
    for axes in (upper, lower):
        axes.grid(alpha=0.25, which="major", lw=0.5)
        axes.legend(frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
