"""From rows to what is said: our numbers beside the paper's, and why they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.experiments.definition import Row
from sojourn.experiments.paper import PAPER_SLEM, PAPER_TABLE, PAPER_THETA
from sojourn.plots.curves import CurvesRecord, Line

LABELS = {
    "fw-ame": "FW-AME", "fw-ame-fmh-sdp": "FW-AME w/ FMH-SDP", "uniform": "uniform",
    "lookahead": "Lookahead", "lambda-star": "π_λ*", "fmh": "FMH", "fmh-sdp": "FMH-SDP",
    "joint": "joint form",
}  # fmt: skip


@dataclass(frozen=True)
class Report:
    """Lines to print, a table to keep, and figures to draw."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]
    figures: dict[str, CurvesRecord]
    table: tuple[Row, ...]


def table_report(rows: Sequence[Row]) -> Report:
    """Fig. table_rnl: the mean ratio beside the paper's, with median, quantile and maximum."""
    grouped: dict[tuple[int, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        size = int(str(row["experiment"]).split("/S")[1].split("-")[0])
        grouped[size, row["strategy"], int(row["n"])].append(row)
    lines, table, remarks = [], [], []
    for (size, name, n), group in sorted(grouped.items()):
        ratio = np.array([row["ratio"] for row in group])
        clean = np.array([row["allocation_ratio"] for row in group])
        paper = PAPER_TABLE.get((size, name, n))
        record: Row = {
            "S": size, "strategy": name, "n": n, "instances": len(group),
            "paper": paper, **_spread("ratio", ratio), **_spread("allocation_ratio", clean),
        }  # fmt: skip
        table.append(record)
        lines.append((
            str(size), LABELS.get(name, name), str(n), "–" if paper is None else f"{paper:.2f}",
            f"{record['ratio']:.3f} ± {record['ratio_se']:.3f}", f"{record['ratio_median']:.3f}",
            f"{record['ratio_q95']:.2f}", f"{record['ratio_max']:.2f}",
            f"{record['allocation_ratio']:.3f}",
        ))  # fmt: skip
        if paper is not None:
            remarks.append(_agreement(size, name, n, paper, ratio))
    redraws = sum(int(row["redraws"]) for row in rows if row["strategy"] == "uniform")
    drawn = len({(row["experiment"], row["cell"]) for row in rows})
    remarks.append(
        f"{redraws} Garnets that don't communicate were redrawn for the {drawn} used (their loss "
        "is infinite; the paper does not say what it did with them)."
    )
    return Report(
        "Competitive ratio n·LOSS/𝓛(λ*) − 1 over Garnets (Fig. table_rnl)",
        ("S", "strategy", "n", "paper", "mean ± s.e.", "median", "95 %", "max", "allocation"),
        tuple(lines), tuple(remarks), {}, tuple(table),
    )  # fmt: skip


def _spread(name: str, values: np.ndarray) -> Row:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return {
        name: float(values.mean()), f"{name}_se": float(error),
        f"{name}_median": float(np.median(values)),
        f"{name}_q95": float(np.quantile(values, 0.95)), f"{name}_max": float(values.max()),
    }  # fmt: skip


def _agreement(size: int, name: str, n: int, paper: float, ratio: np.ndarray) -> str:
    """Whether a mean agrees with the paper's, or why it can't be said."""
    mean, error = ratio.mean(), ratio.std(ddof=1) / np.sqrt(ratio.size)
    few = max(1, ratio.size // 20)
    worst = np.sort(ratio)[::-1][:few].sum()
    share = worst / ratio.sum() if ratio.sum() > 0 else 0.0
    where = (
        f"S={size}, {LABELS[name]}, n={n}: the paper has {paper:.2f}, we {mean:.2f} ± {error:.2f}"
    )
    tail = (
        f"the worst {few} of {ratio.size} instances make up {100 * share:.0f} % of our mean "
        f"(median {np.median(ratio):.2f})"
    )
    if share > 0.5:
        return f"{where}, but {tail}: such a mean depends on which instances were drawn."
    if abs(mean - paper) <= 2 * error + 0.005:
        return f"{where}: they agree within two standard errors."
    return f"{where}: they differ, and {tail}."


def three_state_report(rows: Sequence[Row]) -> Report:
    """Fig. plot_mixing_3state, exact and simulated."""
    by_policy: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_policy[row["policy"]].append(row)
    curves = []
    for name, group in by_policy.items():
        group.sort(key=lambda row: row["n"])
        n = np.array([row["n"] for row in group], dtype=float)
        simulated = np.array([row["loss"] for row in group])
        if group[0]["exact"] is not None:
            exact = np.array([row["exact"] for row in group])
            curves.append(Line(f"{LABELS[name]}, exact", n, exact))
            curves.append(Line(f"{LABELS[name]}, R = 100", n, simulated, points=True))
        else:
            curves.append(Line(LABELS[name], n, simulated))
    lines = []
    off = []
    for row in sorted(rows, key=lambda r: (r["n"], r["policy"])):
        exact = row["exact"]
        lines.append((
            str(row["n"]), LABELS[row["policy"]], "–" if exact is None else f"{exact:.4f}",
            f"{row['loss']:.3f} ± {row['loss_se']:.3f}",
        ))  # fmt: skip
        if exact is not None:
            off.append(abs(row["loss"] - exact) / row["loss_se"] if row["loss_se"] else 0.0)
    best = float(rows[0]["optimal_loss"])
    remarks = (
        f"Simulated and exact values differ by {np.median(off):.2f} standard errors in the median, "
        f"{max(off):.1f} at most (of {len(off)}; walks that never cross make the spread skewed).",
        "The paper's figure shows π_λ* far above FMH at small n and no numbers; the exact values "
        "show the same. Counting: visits only, an unvisited state costs 9σ²_max.",
    )
    figure = CurvesRecord(
        "Normalised loss on the three-state world", "n", "n · loss", tuple(curves),
        log_y=True, log_x=True, rule=(best, "optimum"),
    )  # fmt: skip
    return Report(
        "Finite budgets on the three-state world (Fig. plot_mixing_3state)",
        ("n", "policy", "exact n·loss", "simulated ± s.e."),
        tuple(lines), remarks, {"three-state": figure}, tuple(rows),
    )  # fmt: skip


def learning_report(rows: Sequence[Row]) -> Report:
    """Fig. plot_learning_mixing: mean and 5 %/95 % quantiles, and the average SLEM."""
    figures: dict[str, CurvesRecord] = {}
    lines, table, remarks = [], [], []
    for experiment in dict.fromkeys(row["experiment"] for row in rows):
        which = str(experiment).split("/")[1].removesuffix("-quick")
        mine = [row for row in rows if row["experiment"] == experiment]
        curves = []
        for name in dict.fromkeys(row["strategy"] for row in mine):
            group = [row for row in mine if row["strategy"] == name]
            slem = [row["mean_slem"] for row in group if row.get("mean_slem") is not None]
            points = sorted({row["n"] for row in group})
            stats = {n: np.array([r["loss"] for r in group if r["n"] == n]) for n in points}
            n_values = np.array(points, dtype=float)
            curves.append(Line(
                LABELS[name], n_values, np.array([stats[n].mean() for n in points]),
                low=np.array([np.quantile(stats[n], 0.05) for n in points]),
                high=np.array([np.quantile(stats[n], 0.95) for n in points]),
            ))  # fmt: skip
            paper = PAPER_SLEM[which].get(name)
            for n in points:
                values = stats[n]
                record: Row = {
                    "world": which, "strategy": name, "n": n, "runs": values.size,
                    "mean_slem": float(np.mean(slem)) if slem else None, "paper_slem": paper,
                    **_spread("loss", values), "loss_q05": float(np.quantile(values, 0.05)),
                }  # fmt: skip
                table.append(record)
            last = table[-1]
            lines.append((
                which, LABELS[name], str(points[-1]),
                "–" if last["mean_slem"] is None else f"{last['mean_slem']:.2f}",
                "–" if paper is None else f"{paper:.2f}",
                f"{last['loss']:.2f} ± {last['loss_se']:.2f}", f"{last['loss_median']:.2f}",
                f"{last['loss_q05']:.2f}", f"{last['loss_q95']:.2f}", f"{last['loss_max']:.1f}",
            ))  # fmt: skip
        best = float(mine[0]["optimal_loss"])
        figures[f"learning-{which}"] = CurvesRecord(
            f"Learning on a {which}-mixing reversible Garnet (mean, 5 % and 95 %)", "n",
            "n · loss", tuple(curves), log_y=True, rule=(best, "optimum"),
        )  # fmt: skip
    remarks.append(
        "The paper gives no numbers for these curves and not its instances: ours are chosen by "
        "their average SLEM alone (sojourn.experiments.choose)."
    )
    return Report(
        "Learning while walking (Fig. plot_learning_mixing), at the largest n",
        ("world", "strategy", "n", "SLEM", "paper", "mean ± s.e.", "median", "5 %", "95 %", "max"),
        tuple(lines), tuple(remarks), figures, tuple(table),
    )  # fmt: skip


def theta_report(rows: Sequence[Row]) -> Report:
    """Fig. fig:theta_m."""
    m = np.array([row["m"] for row in rows])
    exact = np.array([row["theta"] for row in rows])
    measured = np.array([row["theta_euler"] for row in rows])
    best = int(np.argmax(exact))
    figure = CurvesRecord(
        "Exponent θ of the regret Õ(t^−θ) with episodes t ~ k^m", "m", "θ",
        (Line("closed form", m, exact),
         Line("local exponent at x = 10¹²", m, measured, points=True)),
    )  # fmt: skip
    lines = tuple(
        (f"{row['m']:g}", f"{row['theta']:.4f}", f"{row['theta_euler']:.4f}")
        for row in rows
        if row["m"] == int(row["m"])
    )
    agrees = m[best] == PAPER_THETA[0] and abs(exact[best] - PAPER_THETA[1]) < 1e-12
    return Report(
        "The exponent θ(m) (Fig. fig:theta_m)", ("m", "θ", "measured"), lines,
        (f"The maximum {exact[best]:.4f} lies at m = {m[best]:g}; the paper has 1/3 at m = 3: "
         + ("it agrees." if agrees else "it does not agree."),),
        {"theta": figure}, tuple(rows),
    )  # fmt: skip


def study_report(rows: Sequence[Row]) -> Report:
    """A user's study: every world, every strategy, against n."""
    figures = {}
    lines = []
    for world in dict.fromkeys(row["world"] for row in rows):
        curves = []
        mine = [row for row in rows if row["world"] == world]
        for name in dict.fromkeys(row["strategy"] for row in mine):
            group = sorted((r for r in mine if r["strategy"] == name), key=lambda r: r["n"])
            n = np.array([row["n"] for row in group], dtype=float)
            curves.append(Line(
                name, n, np.array([row["loss"] for row in group]),
                low=np.array([row["loss_q05"] for row in group]),
                high=np.array([row["loss_q95"] for row in group]),
            ))  # fmt: skip
            for row in group:
                lines.append((
                    str(world), name, str(row["n"]), f"{row['loss']:.4g} ± {row['loss_se']:.2g}",
                    f"{row['ratio']:.3f}", f"{row['allocation_ratio']:.3f}",
                    f"{row['loss_median']:.4g}", f"{row['loss_q95']:.4g}",
                ))  # fmt: skip
        best = float(mine[0]["optimal_loss"])
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in str(world))
        figures[safe] = CurvesRecord(
            f"{world}", "n", "n · loss", tuple(curves), log_x=True, log_y=True,
            rule=(best, "optimum"),
        )  # fmt: skip
    return Report(
        "Study",
        ("world", "strategy", "n", "n·loss ± s.e.", "ratio", "allocation", "median", "95 %"),
        tuple(lines), (), figures, tuple(rows),
    )  # fmt: skip


REPORTS: dict[str, Any] = {
    "table": table_report, "three-state": three_state_report, "learning": learning_report,
    "theta": theta_report,
}  # fmt: skip


def text(report: Report) -> str:
    """A report as lines of text, columns aligned."""
    rows: Iterable[tuple[str, ...]] = (report.header, *report.lines)
    widths = [max(len(row[k]) for row in rows) for k in range(len(report.header))]
    shown = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]
    rule = "  ".join("─" * w for w in widths)
    remarks = [f"· {remark}" for remark in report.remarks]
    return "\n".join([report.title, "", shown[0], rule, *shown[1:], "", *remarks])
