"""Fig. table_rnl: the mean competitive ratio beside the paper's, and what the mean hangs on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.experiments.analysis.report import (
    COLOUR,
    LABELS,
    Lines,
    Report,
    number,
    with_error,
)
from sojourn.experiments.definition import Row
from sojourn.experiments.paper import PAPER_TABLE
from sojourn.experiments.statistics import spread, standard_error
from sojourn.plots.spread import Scatter, SpreadRecord

RESAMPLES = 20_000
ROUNDING = 0.005
"""The paper prints two digits."""

Ratios = dict[tuple[int, str, int], list[Row]]


def table_report(rows: Sequence[Row]) -> Report:
    """Each mean is split into what states without a sample add, by their default cost, and the
    rest, which is about the strategies."""
    grouped: Ratios = defaultdict(list)
    for row in rows:
        grouped[int(row["S"]), str(row["strategy"]), int(row["n"])].append(row)
    lines, clean, table, remarks = [], [], [], []
    for (size, name, n), group in sorted(grouped.items(), key=lambda item: _order(*item[0])):
        ratio, rest = _column(group, "ratio"), _rest(group)
        paper = PAPER_TABLE.get((size, name, n))
        record: Row = {
            "S": size, "strategy": name, "n": n, "instances": len(group), "paper": paper,
            **spread("ratio", ratio), **spread("without_unvisited", rest),
            **spread("allocation_ratio", _column(group, "allocation_ratio")),
        }  # fmt: skip
        table.append(record)
        lines.append((
            str(size), LABELS.get(name, name), str(n), number(paper),
            with_error(record["ratio"], record["ratio_se"]), number(record["ratio_median"]),
            number(record["ratio_q95"]), number(record["ratio_max"]),
            with_error(record["without_unvisited"], record["without_unvisited_se"]),
        ))  # fmt: skip
        clean.append((
            str(size), LABELS.get(name, name), str(n),
            with_error(record["allocation_ratio"], record["allocation_ratio_se"]),
            *(number(record[f"allocation_ratio_{k}"]) for k in ("median", "q95", "max")),
            str(sum(row["unvisited_ratio"] > 0 for row in group)), str(int(group[0]["runs"])),
        ))  # fmt: skip
        if paper is not None:
            remarks.append(_agreement(size, name, n, paper, group))
    return Report(
        "Competitive ratio n·LOSS/𝓛(λ*) − 1, averaged over Garnets (Fig. table_rnl)",
        ("S", "strategy", "n", "paper", "mean ± s.e.", "median", "95 %", "max",
         "mean without unvisited"),
        tuple(lines), (*remarks, *_why(rows, grouped)), {"table": _figure(grouped)},
        tuple(table), (Lines(
            ("S", "strategy", "n", "mean ± s.e.", "median", "95 %", "max", "with a missed state",
             "walks each"),
            tuple(clean), "The same with the noise of the samples averaged out",
        ),),
    )  # fmt: skip


def _order(size: int, name: str, n: int) -> tuple[int, int, int]:
    return size, list(LABELS).index(name), n


def _column(group: Sequence[Row], key: str) -> NDArray[np.float64]:
    return np.array([row[key] for row in group], dtype=float)


def _rest(group: Sequence[Row]) -> NDArray[np.float64]:
    return _column(group, "ratio") - _column(group, "unvisited_ratio")


def _agreement(size: int, name: str, n: int, paper: float, group: Sequence[Row]) -> str:
    """The paper's mean beside ours, and how often instances like ours have such a mean."""
    ratio, rest = _column(group, "ratio"), _rest(group)
    missed = int((_column(group, "unvisited_ratio") > 0).sum())
    error, rest_error = standard_error(ratio) or np.inf, standard_error(rest) or np.inf
    said = f"S={size}, {LABELS[name]}, n={n}: the paper has {paper:.2f}"
    apart = abs(rest.mean() - paper) > 2 * rest_error + ROUNDING
    if abs(ratio.mean() - paper) <= 2 * error + ROUNDING and not missed:
        return (
            f"{said}, we {ratio.mean():.2f} ± {error:.2f}: they agree within two standard errors."
        )
    draws = np.random.default_rng(0).integers(ratio.size, size=(RESAMPLES, ratio.size))
    below = float((ratio[draws].mean(axis=1) <= paper + ROUNDING).mean())
    verdict = "differs" if apart else "agrees within two standard errors"
    tail = (
        f"in {missed} of {ratio.size} instances some walk misses a state, and without what that "
        f"costs our mean is {rest.mean():.2f} ± {rest_error:.2f}, which {verdict}"
        if missed
        else f"no state was missed, and it {verdict}"
    )
    return (
        f"{said}, we {ratio.mean():.2f} ± {error:.2f} (median {np.median(ratio):.2f}); {tail}. "
        f"Of means of {ratio.size} instances drawn again from ours, {100 * below:.0f} % are as low "
        "as the paper's."
    )


def _why(rows: Sequence[Row], grouped: Ratios) -> list[str]:
    """What the numbers say together."""
    worlds = {(row["experiment"], row["cell"]): row for row in rows}
    said = []
    missed = {
        name: {place for row in rows if row["strategy"] == name and row["unvisited_ratio"] > 0
               for place in [(row["experiment"], row["cell"])]}
        for name in LABELS
    }  # fmt: skip
    if missed["fw-ame"]:
        said.append(_tails([worlds[place] for place in sorted(missed["fw-ame"])], len(worlds)))
    even = {key: group for key, group in sorted(grouped.items()) if key[1] == "fw-ame-even"}
    if even:
        means = ", ".join(
            f"{with_error(_column(g, 'ratio').mean(), standard_error(_column(g, 'ratio')))} "
            f"(S={s}, n={n}; the paper has {number(PAPER_TABLE.get((s, 'fw-ame', n)))})"
            for (s, _, n), g in even.items()
        )
        said.append(
            "What the first episode does, the paper leaves open. Started evenly, with the optimal "
            "plan for equal variances, which is what is known then, FW-AME misses a state in "
            f"{len(missed['fw-ame-even'])} instances instead of {len(missed['fw-ame'])}, and its "
            f"means are {means}. Lookahead misses a state in {len(missed['lookahead'])}."
        )
    for size in sorted({key[0] for key in grouped}):
        fixed = [
            (n, _column(group, "ratio")) for (s, name, n), group in sorted(grouped.items())
            if s == size and name == "uniform"
        ]  # fmt: skip
        long_run = np.array([
            row["long_run_ratio"] for row in rows
            if row["S"] == size and row["strategy"] == "uniform" and row["n"] == fixed[0][0]
        ])  # fmt: skip
        medians = ", ".join(f"{np.median(ratio):.2f} at n={n}" for n, ratio in fixed)
        printed = [PAPER_TABLE.get((size, "uniform", n)) for n, _ in fixed]
        said.append(
            f"S={size}: the uniform policy is stationary, so its ratio tends to "
            f"𝓛(λ_unif)/𝓛(λ*) − 1, whose median is {np.median(long_run):.2f} (ours: {medians}). "
            f"The paper's {' and '.join(number(p) for p in printed)} still fall with n, so they "
            "too hold states that were rarely or never seen."
        )
    off = [
        (row["ratio"] - row["exact_ratio"]) / row["ratio_se"]
        for row in rows if row.get("exact_ratio") is not None and row["ratio_se"]
    ]  # fmt: skip
    if off:
        said.append(
            f"Check: the uniform policy's exact finite loss is known. Over the {len(off)} cases "
            f"our simulated ratios differ from it by {np.sqrt(np.mean(np.square(off))):.2f} of "
            "their standard errors (root mean square; 1 is what chance gives)."
        )
    ergodic = sum(bool(row["ergodic"]) for row in worlds.values())
    said.append(
        f"The paper's theorem asks that every policy visits every state (Asm. asm:ergodic): so it "
        f"is in {ergodic} of the {len(worlds)} instances. In the others some policy never sees "
        "some state."
    )
    redraws = sum(int(row["redraws"]) for row in worlds.values())
    said.append(
        f"{redraws} drawn Garnets did not communicate and were drawn again, for the {len(worlds)} "
        "used (their loss is infinite for every policy; the paper does not say what it did)."
    )
    return said


def _tails(hard: Sequence[Row], instances: int) -> str:
    """Where FW-AME's means come from."""
    walk, best = (np.array([float(row[key]) for row in hard]) for key in ("uniform_reach", "reach"))
    return (
        f"Why means are no summary here: in {len(hard)} of {instances} instances FW-AME misses a "
        "state. A missed state costs 9σ²_max instead of σ²/T, which n·LOSS multiplies by n/S: one "
        "such instance outweighs a hundred others. FW-AME's first episode is a uniform walk until "
        "every state has a sample, so it misses what the uniform policy misses. It is not that "
        "those states are out of reach: the uniform walk visits the rarest one with a frequency of "
        f"{np.median(walk):.1g} (median over these instances), some policy {np.median(best):.1g}, "
        f"{np.median(best / walk):.0f} times as often. Medians are stable."
    )


def _figure(grouped: Ratios) -> SpreadRecord:
    groups = []
    for size in sorted({key[0] for key in grouped}):
        dots = tuple(
            Scatter(
                f"{LABELS[name]}, n = {n}", 1.0 + _column(group, "allocation_ratio"),
                None if (paper := PAPER_TABLE.get((size, name, n))) is None else 1.0 + paper,
                COLOUR[name],
            )
            for (s, name, n), group in sorted(grouped.items(), key=lambda i: _order(*i[0]))
            if s == size
        )  # fmt: skip
        count = max(len(group) for (s, _, _), group in grouped.items() if s == size)
        groups.append((f"S = {size}, {count} Garnets", dots))
    return SpreadRecord(
        "Loss relative to the best possible: a few instances decide the means",
        r"$n\cdot$LOSS $/\ \mathcal{L}(\lambda^\star)$ = 1 + ratio, noise averaged out",
        tuple(groups),
        log_x=True, rule=(1.0, "optimal in the long run"),
    )  # fmt: skip
