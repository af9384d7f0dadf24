"""How fast learners approach the optimum: exponents with their errors.

Thm. thm:regret_FWAME promises a regret of Õ(t^{−1/3}) for FW-AME. Per world, the exponent is the
slope of the least-squares line through log excess against log n; over the worlds, its mean and
standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.experiments.analysis.report import (
    COLOUR,
    Report,
    number,
    one_of,
    standard_error,
    with_error,
)
from sojourn.experiments.definition import Row
from sojourn.plots.curves import CurvesRecord, Line

PROMISED = -1.0 / 3.0


def slope(n: NDArray[np.float64], excess: NDArray[np.float64]) -> float | None:
    """The exponent on one world; None where fewer than three excesses are positive."""
    good = excess > 0
    if good.sum() < 3:
        return None
    return float(np.polyfit(np.log(n[good]), np.log(excess[good]), 1)[0])


def rates_report(rows: Sequence[Row]) -> Report:
    """Mean excess at every n, and the exponent, per strategy."""
    lines, table, remarks, curves = [], [], [], []
    budgets = sorted({int(row["n"]) for row in rows})
    n = np.array(budgets, dtype=float)
    for label in one_of(rows, "label"):
        mine = [row for row in rows if row["label"] == label]
        by_world = np.array([
            [row["excess"] for row in sorted(mine, key=lambda r: int(r["n"]))
             if row["world"] == world]
            for world in one_of(mine, "world")
        ])  # fmt: skip
        slopes = np.array([s for curve in by_world if (s := slope(n, curve)) is not None])
        mean = float(slopes.mean()) if slopes.size else None
        error = standard_error(slopes)
        excess = by_world.mean(axis=0)
        table += [
            {"label": label, "n": k, "excess": float(x), "worlds": len(by_world),
             "exponent": mean, "exponent_se": error}
            for k, x in zip(budgets, excess)
        ]  # fmt: skip
        exponent = "–" if mean is None else with_error(mean, error, 3)
        lines.append((label, exponent, *(number(float(x), 4) for x in excess)))
        curves.append(Line(label, n, excess, colour=COLOUR.get(mine[0]["strategy"])))
        if mean is not None and error is not None:
            remarks.append(_remark(label, mean, error))
    height = curves[0].y[0] * (n / n[0]) ** PROMISED
    curves.append(Line(r"$n^{-1/3}$", n, height, dashed=True, colour=6))
    worlds = len({row["world"] for row in rows})
    figure = CurvesRecord(
        f"Loss above the optimum, noise averaged out, mean of {worlds} Garnets", "n",
        r"loss $/\ \mathcal{L}(\lambda^\star) - 1$", tuple(curves), log_x=True, log_y=True,
    )  # fmt: skip
    return Report(
        "How fast learners approach the optimum (Thm. thm:regret_FWAME promises n^(−1/3))",
        ("strategy", "exponent ± s.e.", *(f"n={k}" for k in budgets)),
        tuple(lines), tuple(remarks), {"rates": figure}, tuple(table),
    )  # fmt: skip


def _remark(label: str, mean: float, error: float) -> str:
    if mean < PROMISED - 2 * error:
        verdict = "faster than the theorem promises for FW-AME"
    elif mean > PROMISED + 2 * error:
        verdict = "slower than the theorem's bound, which these n have not reached"
    else:
        verdict = "within two standard errors of the theorem's −1/3"
    return f"{label}: {mean:.3f} ± {error:.3f}, {verdict}."
