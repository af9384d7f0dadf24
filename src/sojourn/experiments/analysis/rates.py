"""How fast learners approach the optimum: exponents with their errors.

Thm. thm:regret_FWAME promises a regret of Õ(t^{−1/3}) for FW-AME. The exponent is the slope of the
least-squares line through the logarithm of the excess, averaged over the worlds, against log n; its
error is the jackknife's, which leaves out one world after the other. On a single world the excess
may be below zero: n steps need not be stationary, and may be better than the best that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.experiments.analysis.report import (
    COLOUR,
    Report,
    one_of,
    with_error,
)
from sojourn.experiments.definition import Row
from sojourn.experiments.statistics import spread, standard_error
from sojourn.plots.curves import CurvesRecord, Line

PROMISED = -1.0 / 3.0

VARIANTS = (2, 5, 3)
"""Colours of further variants of a strategy."""


def exponent(
    n: NDArray[np.float64], excess: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """The exponent of ``excess`` (worlds × budgets) in ``n``, and its error; None where the mean
    over the worlds, or over all but one of them, is not positive."""

    def fitted(rows: NDArray[np.float64]) -> float | None:
        mean = rows.mean(axis=0)
        return float(np.polyfit(np.log(n), np.log(mean), 1)[0]) if (mean > 0).all() else None

    worlds = len(excess)
    without = [fitted(np.delete(excess, k, axis=0)) for k in range(worlds)] if worlds > 1 else []
    known = np.array([slope for slope in without if slope is not None])
    if known.size < max(worlds, 2):
        return fitted(excess), None
    error = np.sqrt((worlds - 1) * np.mean((known - known.mean()) ** 2))
    return fitted(excess), float(error)


def rates_report(rows: Sequence[Row]) -> Report:
    """Mean excess at every n, and the exponent, per strategy."""
    lines, table, remarks, curves = [], [], [], []
    budgets = sorted({int(row["n"]) for row in rows})
    n = np.array(budgets, dtype=float)
    variants = iter(VARIANTS)
    used: set[str] = set()
    for label in one_of(rows, "label"):
        mine = [row for row in rows if row["label"] == label]
        by_world = np.array([
            [row["excess"] for row in sorted(mine, key=lambda r: int(r["n"]))
             if row["world"] == world]
            for world in one_of(mine, "world")
        ])  # fmt: skip
        mean, error = exponent(n, by_world)
        table += [
            {"label": label, "n": k, "worlds": len(by_world), **spread("excess", x),
             "exponent": mean, "exponent_se": error}
            for k, x in zip(budgets, by_world.T)
        ]  # fmt: skip
        strategy = str(mine[0]["strategy"])
        colour = next(variants, None) if strategy in used else COLOUR.get(strategy)
        used.add(strategy)
        shown = "–" if mean is None else with_error(mean, error)
        lines.append((
            label, shown, *(with_error(x.mean(), standard_error(x), 4) for x in by_world.T)
        ))  # fmt: skip
        curves.append(Line(label, n, by_world.mean(axis=0), colour=colour))
        if mean is not None and error is not None:
            remarks.append(_remark(label, mean, error))
    height = curves[0].y[0] * (n / n[0]) ** PROMISED
    curves.append(Line(r"$n^{-1/3}$, promised", n, height, dashed=True, colour=6))
    last = [(str(row["label"]), float(row["excess_median"]), float(row["excess_max"]))
            for row in table if row["n"] == budgets[-1]]  # fmt: skip
    remarks.append(
        f"At n={budgets[-1]}, over the worlds (median, maximum): "
        + "; ".join(f"{label} {median:.4f}, {most:.4f}" for label, median, most in last)
        + ". Means of many walks on each; ± are standard errors over the worlds, and the "
        "jackknife's for exponents."
    )
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
        verdict = "faster than the −1/3 that the theorem promises for FW-AME"
    elif mean > PROMISED + 2 * error:
        verdict = "slower than the theorem's −1/3, which these n have not reached"
    else:
        verdict = "within two standard errors of the theorem's −1/3"
    near = [f"{shown} is" for rate, shown in ((-0.5, "−1/2"), (-1.0, "−1"))
            if abs(mean - rate) <= 2 * error]  # fmt: skip
    simple = f"; {near[0]} within two standard errors" if near else "; neither −1/2 nor −1"
    return f"{label}: {mean:.2f} ± {error:.2f}, {verdict}{simple}."
