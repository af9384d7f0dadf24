"""Which reversible Garnets stand for Fig. plot_learning_mixing, whose instances nobody has.

The paper describes its two worlds by the average SLEM of the policies that FW-AME generated,
with and without FMH-SDP. The rule: of the seeds searched, the one whose worse deviation from
the two printed numbers is smallest. Losses play no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.experiments.analysis.report import Report, number, one_of
from sojourn.experiments.definition import Row
from sojourn.experiments.paper import PAPER_SLEM, WORLDS

SHOWN = 5


def deviation(row: Row) -> float:
    """The worse deviation from the printed SLEMs; infinite where it can't be small."""
    paper = PAPER_SLEM[row["which"]]
    found = [row["slem_fw-ame"], row["slem_fw-ame-fmh-sdp"]]
    if None in found:
        return float("inf")
    return max(abs(f - p) for f, p in zip(found, paper.values()))


def worlds_report(rows: Sequence[Row]) -> Report:
    """The nearest seeds, and what FMH-SDP does in the other candidates."""
    lines, remarks = [], []
    for which in one_of(rows, "which"):
        mine = [row for row in rows if row["which"] == which]
        ranked = sorted(mine, key=deviation)
        for row in ranked[:SHOWN]:
            lines.append((
                which, str(row["world"]), number(row["slem_fw-ame"], 4),
                number(row["slem_fw-ame-fmh-sdp"], 4), number(deviation(row), 4),
                number(row["allocation_uniform"]), number(row["allocation_fw-ame"]),
                number(row["allocation_fw-ame-fmh-sdp"]),
            ))  # fmt: skip
        chosen, paper = WORLDS[which][3], PAPER_SLEM[which]
        found = ranked[0]["world"]
        remarks.append(
            f"{which}: of {len(mine)} seeds, {found} is nearest to the paper's "
            f"{paper['fw-ame']} and {paper['fw-ame-fmh-sdp']}; the definition of the figure has "
            f"{chosen}" + ("." if found == chosen else ", the outcome of the full search.")
        )
        remarks.append(_candidates(which, mine))
    return Report(
        "Reversible Garnets nearest to those of Fig. plot_learning_mixing",
        ("world", "seed", "SLEM FW-AME", "w/ FMH-SDP", "deviation", "loss: uniform", "FW-AME",
         "w/ FMH-SDP"),
        tuple(lines), tuple(remarks), {}, tuple(rows),
    )  # fmt: skip


def _candidates(which: str, rows: Sequence[Row]) -> str:
    """How typical the figure is among worlds in which FW-AME's policies mix like that."""
    tried = [row for row in rows if row["slem_fw-ame-fmh-sdp"] is not None]
    if not tried:
        return f"{which}: in none of them FW-AME's policies mix as in the paper."
    drop = np.array([row["slem_fw-ame"] - row["slem_fw-ame-fmh-sdp"] for row in tried])
    gain = np.array([
        row["allocation_fw-ame"] / row["allocation_fw-ame-fmh-sdp"] for row in tried
    ])  # fmt: skip
    return (
        f"{which}: in {len(tried)} of them FW-AME's average SLEM is near the paper's. There "
        f"FMH-SDP lowers it by {np.median(drop):.3f} in the median (95 % quantile "
        f"{np.quantile(drop, 0.95):.3f}), and the loss is lower with it in "
        f"{100 * np.mean(gain > 1):.0f} % of them (loss without / with: median "
        f"{np.median(gain):.2f}, 5 % {np.quantile(gain, 0.05):.2f}, 95 % "
        f"{np.quantile(gain, 0.95):.2f})."
    )
