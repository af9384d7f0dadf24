"""A user's study: every world, every strategy, against n."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import numpy as np

from sojourn.experiments.analysis.report import (
    BEST,
    Figure,
    Report,
    columns,
    number,
    one_of,
    with_error,
)
from sojourn.experiments.definition import Row
from sojourn.plots.curves import CurvesRecord, Line
from sojourn.plots.spread import Scatter, SpreadRecord


def study_report(rows: Sequence[Row], title: str = "Study") -> Report:
    """Where there are several budgets a figure per world, and one of all worlds together."""
    figures: dict[str, Figure] = {}
    lines: list[tuple[str, ...]] = []
    name = str(rows[0]["experiment"]).replace("/", "-")
    several = len({row["n"] for row in rows}) > 1
    for world in one_of(rows, "world"):
        mine = sorted((row for row in rows if row["world"] == world), key=lambda row: int(row["n"]))
        groups = {
            strategy: [row for row in mine if row["strategy"] == strategy]
            for strategy in one_of(mine, "strategy")
        }
        lines += [_line(row) for group in groups.values() for row in group]
        if several:
            stem = f"{name}-{_safe(world)}"
            while stem in figures:
                stem += "+"
            figures[stem] = _curves(world, groups)
    known = [row for row in rows if row["allocation_ratio"] is not None]
    if known and (not several or len(one_of(known, "world")) > 1):
        figures[name] = _worlds(known, title)
    return Report(
        title,
        ("world", "strategy", "n", "runs", "n·LOSS ± s.e.", "median", "95 %", "max", "ratio ± s.e.",
         "noise averaged out"),
        tuple(lines), (), figures, tuple(rows),
    )  # fmt: skip


def _safe(world: str) -> str:
    return re.sub(r"[^\w.=+-]+", "-", world).strip("-.") or "world"


def _literal(text: str) -> str:
    """What somebody else wrote, for a figure: their dollars are no mathematics, and it has an
    edge."""
    return textwrap.fill(text.replace("$", r"\$"), 90)


def _line(row: Row) -> tuple[str, ...]:
    return (
        str(row["world"]), str(row["strategy"]), str(row["n"]), str(row["runs"]),
        with_error(row["loss"], row["loss_se"]), number(row["loss_median"]),
        number(row["loss_q95"]), number(row["loss_max"]),
        with_error(row["ratio"], row["ratio_se"], 3),
        with_error(row["allocation_ratio"], row["allocation_ratio_se"], 3),
    )  # fmt: skip


def _curves(world: str, groups: dict[str, list[Row]]) -> CurvesRecord:
    """The losses of each strategy in one world."""
    lines = []
    for strategy, group in groups.items():
        n, loss, low, high = columns(group, "n", "loss", "loss_q05", "loss_q95")
        lines.append(Line(_literal(strategy), n, loss, low, high))
    one = next(iter(groups.values()))[0]
    best = float(one["optimal_loss"])
    return CurvesRecord(
        f"{_literal(world)}: mean and 5 %, 95 % quantiles of {one['runs']} walks", "budget n",
        r"$n\cdot$LOSS", tuple(lines), log_x=True, log_y=best > 0.0, rule=(best, BEST),
    )  # fmt: skip


def _worlds(rows: Sequence[Row], title: str) -> SpreadRecord:
    """How the strategies fare in all worlds, at the largest n."""
    n = max(int(row["n"]) for row in rows)
    last = [row for row in rows if row["n"] == n]
    dots = tuple(
        Scatter(
            _literal(strategy),
            1.0 + np.array([r["allocation_ratio"] for r in last if r["strategy"] == strategy]),
            colour=k,
        )
        for k, strategy in enumerate(one_of(last, "strategy"))
    )
    count = len(one_of(last, "world"))
    worlds = "one world" if count == 1 else f"{count} worlds"
    return SpreadRecord(
        f"{_literal(title)}: loss relative to the best possible",
        r"$n\cdot$LOSS $/\ \mathcal{L}(\lambda^\star)$ = 1 + ratio, noise averaged out",
        ((f"n = {n}, {worlds}", dots),),
        log_x=True, rule=(1.0, "optimal in the long run"), means=count > 1,
    )  # fmt: skip
