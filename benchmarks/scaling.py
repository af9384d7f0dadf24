"""What an optimal plan costs against the number of states, as a figure.

    python benchmarks/scaling.py [--quick] [--out FOLDER]

Hard maps (variances over five decades, slip 0.1) and the paper's Garnets (three actions, two
branches), gap 1e-9 proved; beside them Clarabel, called as in ``bench_optimal.py``, up to the
first size that takes it more than half a minute. Processor time on one thread, so that other work
on the machine matters little; of several calls the quickest where they are short. Writes
``optimal_scaling.png`` and the numbers behind it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# First: it limits the threads before NumPy starts.
import bench_optimal as direct
import numpy as np
from harness import machine

from sojourn.experiments import save_table
from sojourn.instances import garnet
from sojourn.planning import optimal_plan
from sojourn.plots.curves import CurvesRecord, Line, draw

LIMIT = 30.0
MAPS = (4, 7, 10, 18, 32, 56, 100, 178, 316)
GARNETS = (10, 30, 100, 300, 1000, 3000)


def processor_seconds(f: Callable[[], Any]) -> float:
    """The quickest of as many calls as fit into half a second, but one at least."""
    best, spent = np.inf, 0.0
    while spent < 0.5:
        began = time.process_time()
        f()
        once = time.process_time() - began
        best, spent = min(best, once), spent + max(once, 1e-5)
    return best


def measured(kind: str, size: int, rival: bool) -> dict[str, Any]:
    """One row: both times on one world."""
    if kind == "map":
        mdp, variance = direct.hard_map(size, 0.1)
    else:
        world = garnet(size, 3, 2, seed=1)
        mdp, variance = world.mdp, world.variance
    plan = optimal_plan(mdp, variance)
    ours = processor_seconds(lambda: optimal_plan(mdp, variance))
    theirs = np.nan
    if rival:
        method = "faer" if kind == "garnet" and size >= 1000 else "qdldl"
        solver = direct.rival_solver(direct.rival_problem(mdp, variance), method)
        theirs = processor_seconds(solver.solve)
    return {
        "kind": kind, "states": mdp.n_states, "seconds": ours, "rival_seconds": theirs,
        "iterations": plan.stats.iterations, "gap": plan.gap,
        "linear_algebra": plan.stats.linear_algebra,
    }  # fmt: skip


def figure(rows: list[dict[str, Any]]) -> CurvesRecord:
    lines = []
    for colour, (kind, name) in enumerate((("map", "hard map"), ("garnet", "Garnet"))):
        part = [row for row in rows if row["kind"] == kind]
        for column, label in (("seconds", "sojourn"), ("rival_seconds", "Clarabel")):
            kept = [row for row in part if np.isfinite(row[column])]
            lines.append(
                Line(
                    f"{name}, {label}",
                    np.array([row["states"] for row in kept], dtype=float),
                    np.array([row[column] for row in kept]),
                    dashed=label == "Clarabel",
                    colour=colour,
                )
            )
    return CurvesRecord(
        "A plan with a proved gap of 1e-9", "states", "seconds of one core", tuple(lines),
        log_x=True, log_y=True,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest sizes only")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args(arguments)
    print(machine())
    rows: list[dict[str, Any]] = []
    for kind, sizes in (("map", MAPS), ("garnet", GARNETS)):
        rival = True
        for size in sizes[:2] if options.quick else sizes:
            row = measured(kind, size, rival)
            rival = rival and row["rival_seconds"] < LIMIT
            rows.append(row)
            print(
                f"{kind:>7} {row['states']:>7} {row['seconds']:10.3g} "
                f"{row['rival_seconds']:10.3g} {row['iterations']:>3} {row['linear_algebra']}",
                flush=True,
            )
    options.out.mkdir(parents=True, exist_ok=True)
    print(*save_table(rows, options.out / "optimal_scaling"))
    print(*draw(figure(rows), options.out / "optimal_scaling.png"))


if __name__ == "__main__":
    main()
