"""A user's study: every world, every strategy, against n."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.experiments.analysis.report import BEST, Report, columns, number, one_of, with_error
from sojourn.experiments.definition import Row
from sojourn.plots.curves import CurvesRecord, Line


def study_report(rows: Sequence[Row], title: str = "Study") -> Report:
    """One figure per world."""
    figures = {}
    lines: list[tuple[str, ...]] = []
    for world in one_of(rows, "world"):
        mine = [row for row in rows if row["world"] == world]
        curves = []
        for name in one_of(mine, "strategy"):
            group = sorted(
                (row for row in mine if row["strategy"] == name), key=lambda row: int(row["n"])
            )
            n, loss, low, high = columns(group, "n", "loss", "loss_q05", "loss_q95")
            curves.append(Line(str(name), n, loss, low, high))
            lines += [_line(row) for row in group]
        several = len({row["n"] for row in mine}) > 1
        if several:
            safe = re.sub(r"[^\w.=+-]+", "-", str(world)).strip("-.") or "world"
            while safe in figures:
                safe += "+"
            walks = mine[0]["runs"]
            figures[safe] = CurvesRecord(
                f"{world}: mean and 5 %, 95 % quantiles of {walks} walks", "budget n",
                r"$n\cdot$LOSS", tuple(curves), log_x=True, log_y=True,
                rule=(float(mine[0]["optimal_loss"]), BEST),
            )  # fmt: skip
    return Report(
        title,
        ("world", "strategy", "n", "runs", "n·LOSS ± s.e.", "median", "95 %", "max", "ratio",
         "ratio, noise averaged out"),
        tuple(lines), (), dict(figures), tuple(rows),
    )  # fmt: skip


def _line(row: Row) -> tuple[str, ...]:
    return (
        str(row["world"]), str(row["strategy"]), str(row["n"]), str(row["runs"]),
        with_error(row["loss"], row["loss_se"]), number(row["loss_median"]),
        number(row["loss_q95"]), number(row["loss_max"]), number(row["ratio"], 3),
        with_error(row["allocation_ratio"], row["allocation_ratio_se"], 3),
    )  # fmt: skip
