"""Fig. plot_learning_mixing: mean and 5 %/95 % quantiles of walks that learn, and the SLEM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.experiments.analysis.report import (
    BEST,
    COLOUR,
    LABELS,
    Report,
    columns,
    number,
    one_of,
    with_error,
)
from sojourn.experiments.definition import Row
from sojourn.experiments.paper import PAPER_SLEM
from sojourn.experiments.statistics import spread
from sojourn.plots.curves import CurvesRecord, Line

WHAT = {
    "fast": r"A fast-mixing world, $\mathcal{G}_R(5,3,3)$",
    "slow": r"A slowly mixing world, $\mathcal{G}_R(10,2,2)$",
}


def learning_report(rows: Sequence[Row]) -> Report:
    """One figure per world; the printed table is at the largest n."""
    figures = {}
    lines: list[tuple[str, ...]] = []
    table: list[Row] = []
    remarks: list[str] = []
    for which in one_of(rows, "which"):
        mine = [row for row in rows if row["which"] == which]
        curves, last = [], {}
        for name in one_of(mine, "strategy"):
            records = _records(which, name, [row for row in mine if row["strategy"] == name])
            table += records
            last[name] = records[-1]
            n, loss, low, high = columns(records, "n", "loss", "loss_q05", "loss_q95")
            curves.append(Line(LABELS[name], n, loss, low, high, colour=COLOUR[name]))
            lines.append(_line(records[-1]))
        best = float(mine[0]["optimal_loss"])
        figures[f"learning-{which}"] = CurvesRecord(
            f"{WHAT[which]}: mean and 5 %, 95 % quantiles of {last['fw-ame']['runs']} walks",
            "steps n", r"$n\cdot$LOSS", tuple(curves), log_y=True, rule=(best, BEST),
        )  # fmt: skip
        remarks += _remarks(which, last, best)
    return Report(
        "Learning while walking on reversible Garnets, at the largest n "
        "(Fig. plot_learning_mixing)",
        ("world", "strategy", "n", "SLEM", "paper", "n·LOSS ± s.e.", "median", "5 %", "95 %",
         "max", "noise averaged out"),
        tuple(lines), tuple(remarks), dict(figures), tuple(table),
    )  # fmt: skip


def _records(which: str, name: str, group: Sequence[Row]) -> list[Row]:
    """Statistics over the walks, per n."""
    slem = [row["slem"] for row in group if row.get("slem") is not None]
    records = []
    for n in sorted({int(row["n"]) for row in group}):
        walks = [row for row in group if row["n"] == n]
        loss = np.array([row["loss"] for row in walks])
        clean = np.array([row["allocation"] for row in walks])
        records.append({
            "world": which, "strategy": name, "n": n, "runs": loss.size,
            "slem": float(np.mean(slem)) if slem else None,
            "paper_slem": PAPER_SLEM[which].get(name), **spread("loss", loss),
            "loss_q05": float(np.quantile(loss, 0.05)), **spread("allocation", clean),
        })  # fmt: skip
    return records


def _line(r: Row) -> tuple[str, ...]:
    return (
        r["world"], LABELS[r["strategy"]], str(r["n"]), number(r["slem"], 3),
        number(r["paper_slem"]), with_error(r["loss"], r["loss_se"]), number(r["loss_median"]),
        number(r["loss_q05"]), number(r["loss_q95"]), number(r["loss_max"], 1),
        with_error(r["allocation"], r["allocation_se"]),
    )  # fmt: skip


def _remarks(which: str, last: dict[str, Row], best: float) -> list[str]:
    """The paper's sentences about its figure, checked one by one on ours."""
    plain, faster, uniform = (last[name] for name in ("fw-ame", "fw-ame-fmh-sdp", "uniform"))
    near = all(abs(r["slem"] - r["paper_slem"]) <= 0.015 for r in (plain, faster))
    said = [
        f"{which}: the average SLEM of the policies played is {plain['slem']:.3f}, and "
        f"{faster['slem']:.3f} with FMH-SDP; the paper's instance has {plain['paper_slem']} and "
        f"{faster['paper_slem']}. " + (
            "They agree; the instance was searched for by that (`sojourn reproduce worlds`)."
            if near else "They do not agree."
        )
    ]  # fmt: skip
    n = plain["n"]
    same, error = _difference(faster, plain)
    if which == "fast":
        claim = "FMH-SDP has the same performance as FW-AME, both significantly better than uniform"
        holds = abs(same) <= max(3 * error, 0.05 * plain["allocation"]) and all(
            -_difference(r, uniform)[0] > 3 * _difference(r, uniform)[1] for r in (plain, faster)
        )
    else:
        claim = "FMH-SDP obtains a much better finite-time performance than FW-AME"
        holds = same < -3 * error
    said.append(
        f"{which}: the paper says that {claim}. At n={n}, noise averaged out, the losses are "
        f"{plain['allocation']:.2f} for FW-AME, {faster['allocation']:.2f} with FMH-SDP "
        f"(difference {same:+.2f} ± {error:.2f}) and {uniform['allocation']:.2f} for uniform: "
        + ("so it is here." if holds else "so it is not here.")
    )
    ours = last.get("lookahead")
    if ours is not None:
        said.append(
            f"{which}: Lookahead has {ours['allocation']:.2f}, {ours['allocation'] / best:.3f} of "
            f"𝓛(λ*) = {best:.2f}; FW-AME {plain['allocation'] / best:.3f} of it. Each point of its "
            "curve is a simulation of its own, since it plans for the budget."
        )
    return said


def _difference(a: Row, b: Row) -> tuple[float, float]:
    """Of the mean allocation losses, and its standard error."""
    error = np.hypot(a["allocation_se"] or 0.0, b["allocation_se"] or 0.0)
    return a["allocation"] - b["allocation"], float(error)
