"""Fig. plot_mixing_3state: what faster mixing is worth, exactly and simulated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.experiments.analysis.report import BEST, Lines, Report, number, with_error
from sojourn.experiments.definition import Row
from sojourn.plots.curves import CurvesRecord, Line

POLICIES = {
    "lambda-star": ("π_λ*", r"$\pi_{\lambda^\star}$", 1),
    "fmh": ("FMH", "FMH", 4),
    "fmh-sdp": ("FMH-SDP", "FMH-SDP", 3),
    "joint": ("joint form", "joint form (ours)", 2),
    "stationary": ("stationary", "best stationary", 5),
    "lookahead": ("Lookahead", "Lookahead, learning", 0),
    "any": ("any walk", "best of all walks", 6),
}
"""Name in the rows → in the table, in the figure, and its colour."""


OF_THE_PAPER = ("lambda-star", "fmh-sdp", "fmh")
"""What the paper's figure shows; these are drawn as simulated, too."""


def three_state_report(rows: Sequence[Row]) -> Report:
    """Exact values as curves, and as points what the walks of the paper's policies lost."""
    budgets = sorted({int(row["n"]) for row in rows})
    names = [name for name in POLICIES if any(row["policy"] == name for row in rows)]
    at = {(row["policy"], int(row["n"])): row for row in rows}
    lines = []
    for n in budgets:
        cells = [str(n)]
        for name in names:
            row = at.get((name, n))
            if row is None:
                cells.append("–")
            elif name == "lookahead":
                cells.append(_clean(row))
            else:
                cells.append(number(row["exact"], 3))
        lines.append(tuple(cells))
    best = float(rows[0]["optimal_loss"])
    figure = CurvesRecord(
        "Three states in a row: exact losses (lines), means of 100 walks (points)",
        "budget n", r"$n\cdot$LOSS$(\pi,n)$", tuple(_curves(rows, names)), log_x=True, log_y=True,
        rule=(best, BEST),
    )  # fmt: skip
    return Report(
        "Normalised loss n·LOSS on the three-state world, exact; Lookahead's simulated, noise "
        "averaged out (Fig. plot_mixing_3state)",
        ("n", *(POLICIES[name][0] for name in names)),
        tuple(lines), tuple(_remarks(at, budgets, best)), {"three-state": figure}, tuple(rows),
        (_walks(at, names, budgets),),
    )  # fmt: skip


def _clean(row: Row) -> str:
    """What Lookahead loses, the noise of the samples averaged out."""
    best = float(row["optimal_loss"])
    loss, error = 1.0 + row["allocation_ratio"], row["allocation_ratio_se"]
    return with_error(best * loss, best * error, 3)


def _walks(at: dict[tuple[str, int], Row], names: Sequence[str], budgets: Sequence[int]) -> Lines:
    """What walks of each policy lost, at three budgets."""
    shown = [budgets[0], budgets[len(budgets) // 2], budgets[-1]]
    lines = tuple(
        (str(n), POLICIES[name][0], number(row.get("exact"), 3),
         with_error(row["loss"], row["loss_se"]), number(row["loss_median"]),
         number(row["loss_q95"]), number(row["loss_max"]))
        for n in dict.fromkeys(shown) for name in names
        if (row := at.get((name, n))) is not None and "loss" in row
    )  # fmt: skip
    runs = next(int(row["runs"]) for row in at.values() if "runs" in row)
    return Lines(
        ("n", "policy", "exact", "mean ± s.e.", "median", "95 %", "max"), lines,
        f"n·LOSS of {runs} walks",
    )  # fmt: skip


def _curves(rows: Sequence[Row], names: Sequence[str]) -> list[Line]:
    curves = []
    for name in names:
        _, label, colour = POLICIES[name]
        group = sorted((r for r in rows if r["policy"] == name), key=lambda row: int(row["n"]))
        n = np.array([row["n"] for row in group], dtype=float)
        if name == "lookahead":
            best = float(group[0]["optimal_loss"])
            loss = [best * (1.0 + row["allocation_ratio"]) for row in group]
        else:
            loss = [row["exact"] for row in group]
        curves.append(Line(label, n, np.array(loss, dtype=float), colour=colour,
                           dashed=name == "any"))  # fmt: skip
        if name in OF_THE_PAPER:
            walked = np.array([row["loss"] for row in group], dtype=float)
            curves.append(Line("", n, walked, points=True, colour=colour))
    return curves


def _remarks(at: dict[tuple[str, int], Row], budgets: list[int], best: float) -> list[str]:
    off = [
        (row["loss_many"] - row["exact"]) / row["loss_many_se"]
        for row in at.values()
        if row.get("loss_many_se")
    ]
    gain = {n: at["lambda-star", n]["exact"] / at["fmh-sdp", n]["exact"] for n in budgets}
    top = max(gain, key=lambda n: gain[n])
    last = budgets[-1]
    said = [
        "The paper's figure prints no numbers; it shows that π_λ*, which mixes poorly, loses far "
        f"more than FMH at small n. It agrees: FMH-SDP's loss is {gain[top]:.2f} times smaller at "
        f"n={top}, and {gain[last]:.2f} times at n={last}.",
        f"That is far from all: at n={top} the best stationary policy has "
        f"{at['stationary', top]['exact']:.2f} where FMH-SDP has "
        f"{at['fmh-sdp', top]['exact']:.2f}, and Lookahead, which doesn't know the variances, "
        f"{_clean(at['lookahead', top])}. FMH takes the optimal distribution for given; a small "
        "budget asks for another one.",
        f"Check: means of {at['lambda-star', top]['many']} walks differ from exact losses by "
        f"{np.sqrt(np.mean(np.square(off))):.2f} of their standard errors (root mean square over "
        f"{len(off)}; 1 is what chance gives). With the paper's R = "
        f"{at['lambda-star', top]['runs']} (the points) walks that never cross are rare and "
        "costly, so a mean may be far off at a budget where few or none of them is one.",
        f"Counting as in the experiments: n samples in n steps, a missed state costs 9σ²_max; the "
        f"dotted line is 𝓛(λ*) = {best:.4f}. The paper plots LOSS, which is this divided by n.",
    ]
    exact = [n for n in budgets if ("any", n) in at]
    if exact:
        n = exact[-1]
        said.append(
            f"“any walk” is the optimum over all walks that may depend on their past, by dynamic "
            f"programming over state and counts (n ≤ {n}): {at['any', n]['exact']:.4f} at n={n}."
        )
    return said
