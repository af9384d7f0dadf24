"""Which reversible Garnets stand for Fig. plot_learning_mixing, whose instances nobody has.

The paper describes its two worlds by the average SLEM of the policies that FW-AME generated with
and without FMH-SDP, and says of each what it shows: on the fast one both are much better than
uniform, on the slow one FMH-SDP is much better than without. Those are sentences of existence.
The rule: of the seeds whose two SLEMs are within :data:`NEAR` of the printed ones, the one that
shows most what the paper shows. How typical that is, the other candidates tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sojourn.experiments.analysis.report import Figure, Report, number, one_of
from sojourn.experiments.definition import Row
from sojourn.experiments.paper import PAPER_SLEM, WORLDS
from sojourn.plots.spread import Scatter, SpreadRecord

NEAR = 0.01
SHOWN = 6
SHOWS = {"fast": "uniform's loss over FW-AME's", "slow": "FW-AME's loss over that with FMH-SDP"}


def deviation(row: Row) -> float:
    """The worse deviation from the printed SLEMs; infinite where it can't be small."""
    paper = PAPER_SLEM[row["which"]]
    found = [row["slem_fw-ame"], row["slem_fw-ame-fmh-sdp"]]
    if None in found:
        return float("inf")
    return max(abs(f - p) for f, p in zip(found, paper.values()))


def effect(row: Row) -> float:
    """How much a world shows of what the paper says of it: a ratio of losses."""
    uniform, plain, faster = (
        float(row[f"allocation_{name}"]) for name in ("uniform", "fw-ame", "fw-ame-fmh-sdp")
    )
    return uniform / max(plain, faster) if row["which"] == "fast" else plain / faster


def nearest(rows: Sequence[Row]) -> list[Row]:
    """The candidates for a figure, the chosen one first; where none is near, by deviation."""
    near = [row for row in rows if deviation(row) <= NEAR]
    return sorted(near, key=effect, reverse=True) or sorted(rows, key=deviation)


def worlds_report(rows: Sequence[Row]) -> Report:
    """The candidates for the figures, and what FMH-SDP does in all worlds that mix like theirs."""
    lines, remarks = [], []
    for which in one_of(rows, "which"):
        mine = [row for row in rows if row["which"] == which]
        ranked = nearest(mine)
        for row in ranked[:SHOWN]:
            lines.append((
                which, str(row["world"]), number(row["slem_fw-ame"], 4),
                number(row["slem_fw-ame-fmh-sdp"], 4), number(row["allocation_uniform"]),
                number(row["allocation_fw-ame"]), number(row["allocation_fw-ame-fmh-sdp"]),
            ))  # fmt: skip
        remarks += [_choice(which, mine, ranked), _all(which, mine)]
    return Report(
        "Reversible Garnets that mix like those of Fig. plot_learning_mixing",
        ("world", "seed", "SLEM FW-AME", "w/ FMH-SDP", "loss: uniform", "FW-AME", "w/ FMH-SDP"),
        tuple(lines), tuple(remarks), _figure(rows), tuple(rows),
    )  # fmt: skip


def _figure(rows: Sequence[Row]) -> dict[str, Figure]:
    """What FMH-SDP gains in all worlds where FW-AME's policies mix as in the paper."""
    groups = []
    for which in one_of(rows, "which"):
        gain = _gain(_tried([row for row in rows if row["which"] == which]))
        if gain.size:
            S, A, b, _ = WORLDS[which]
            size = f"{which}: {gain.size} worlds of $\\mathcal{{G}}_R({S},{A},{b})$"
            groups.append((size, (Scatter("loss without / with", gain, colour=3),)))
    if not groups:
        return {}
    return {
        "worlds": SpreadRecord(
            "FMH-SDP in worlds where FW-AME's policies mix like the paper's",
            "FW-AME's loss without FMH-SDP / with it", tuple(groups), log_x=True,
            rule=(1.0, "no difference"), means=False,
        )
    }  # fmt: skip


def _tried(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["slem_fw-ame-fmh-sdp"] is not None]


def _gain(rows: Sequence[Row]) -> NDArray[np.float64]:
    return np.array([
        row["allocation_fw-ame"] / row["allocation_fw-ame-fmh-sdp"] for row in rows
    ])  # fmt: skip


def _choice(which: str, rows: Sequence[Row], ranked: Sequence[Row]) -> str:
    first, paper, figure = ranked[0], PAPER_SLEM[which], WORLDS[which][3]
    printed = f"{paper['fw-ame']} and {paper['fw-ame-fmh-sdp']}"
    if deviation(first) > NEAR:
        return f"{which}: none of {len(rows)} seeds is within {NEAR} of the paper's {printed}."
    same = (
        "the figure's instance"
        if first["world"] == figure
        else f"the figure has {figure}, the outcome of the full search"
    )
    return (
        f"{which}: of {len(rows)} seeds, {len(ranked)} have both SLEMs within {NEAR} of the "
        f"paper's {printed}. Of these, seed {first['world']} shows most what the paper shows "
        f"({SHOWS[which]}: {effect(first):.2f}; in the others down to {effect(ranked[-1]):.2f}): "
        f"{same}."
    )


def _all(which: str, rows: Sequence[Row]) -> str:
    """How typical the figure is among worlds in which FW-AME's policies mix like that."""
    tried = _tried(rows)
    if not tried:
        return f"{which}: in none of them FW-AME's policies mix as in the paper."
    drop = np.array([row["slem_fw-ame"] - row["slem_fw-ame-fmh-sdp"] for row in tried])
    gain = _gain(tried)
    return (
        f"{which}: in {len(tried)} of the {len(rows)} FW-AME's average SLEM is near the paper's. "
        f"There FMH-SDP lowers it by {np.median(drop):.3f} in the median (95 % quantile "
        f"{np.quantile(drop, 0.95):.3f}); the loss is lower with it by more than 5 % in "
        f"{100 * np.mean(gain > 1.05):.0f} % of them, higher by more than 5 % in "
        f"{100 * np.mean(gain < 1 / 1.05):.0f} % (loss without / with: median "
        f"{np.median(gain):.2f}, 5 % {np.quantile(gain, 0.05):.2f}, 95 % "
        f"{np.quantile(gain, 0.95):.2f})."
    )
