"""What work costs against the size of the world and against the budget, as two figures.

    python benchmarks/scaling.py [--quick] [--out FOLDER] [figure ...]

*optimal_scaling*: an optimal plan against the number of states. Hard maps (variances over five
decades, slip 0.1) and the paper's Garnets (three actions, two branches), gap 1e-9 proved; beside
them Clarabel, called as in ``bench_optimal.py``, up to the first size that takes it more than half
a minute.

*budget_scaling*: exact finite losses and whole walks against the number of steps n, on a Garnet of
10 states and a hard map of 100.

Processor time on one thread, so that other work on the machine matters little; of several calls
the quickest where they are short. Writes each figure and the numbers behind it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# First: it limits the threads before NumPy starts.
import bench_optimal as direct
import numpy as np
from harness import machine

import sojourn as sj
from sojourn.experiments import save_table
from sojourn.plots.curves import CurvesRecord, Line, draw

LIMIT = 30.0
MAPS = (4, 7, 10, 18, 32, 56, 100, 178, 316)
GARNETS = (10, 30, 100, 300, 1000, 3000)
BUDGETS = (100, 1_000, 10_000, 100_000, 1_000_000)
Rows = list[dict[str, Any]]


def processor_seconds(f: Callable[[], Any]) -> float:
    """The quickest of as many calls as fit into half a second, but one at least."""
    best, spent = np.inf, 0.0
    while spent < 0.5:
        began = time.process_time()
        f()
        once = time.process_time() - began
        best, spent = min(best, once), spent + max(once, 1e-5)
    return best


def paper_garnet(n_states: int) -> sj.World:
    return sj.instances.garnet(n_states, 3, 2, seed=1)


def optimal_rows(quick: bool) -> Iterator[dict[str, Any]]:
    """A plan and the rival's, on maps and Garnets of growing size."""
    for kind, sizes in (("hard map", MAPS), ("Garnet", GARNETS)):
        rival = True
        for size in sizes[:2] if quick else sizes:
            if kind == "Garnet":
                world = paper_garnet(size)
                mdp, variance = world.mdp, world.variance
            else:
                mdp, variance = direct.hard_map(size, 0.1)
            plan = sj.optimal_plan(mdp, variance)
            ours = processor_seconds(lambda m=mdp, v=variance: sj.optimal_plan(m, v))
            theirs = np.nan
            if rival:
                method = "faer" if kind == "Garnet" and size >= 1000 else "qdldl"
                solver = direct.rival_solver(direct.rival_problem(mdp, variance), method)
                theirs = processor_seconds(solver.solve)
                rival = theirs < LIMIT
            yield {
                "kind": kind, "states": mdp.n_states, "seconds": ours, "rival_seconds": theirs,
                "iterations": plan.stats.iterations, "gap": plan.gap,
                "linear_algebra": plan.stats.linear_algebra,
            }  # fmt: skip


def optimal_figure(rows: Rows) -> CurvesRecord:
    lines = [
        line(f"{kind}, {who}", rows, kind, "states", column, colour, dashed=who == "Clarabel")
        for colour, kind in enumerate(("hard map", "Garnet"))
        for column, who in (("seconds", "sojourn"), ("rival_seconds", "Clarabel"))
    ]
    return CurvesRecord(
        "A plan with a proved gap of 1e-9", "states", "seconds of one core", tuple(lines),
        log_x=True, log_y=True,
    )  # fmt: skip


def budget_rows(quick: bool) -> Iterator[dict[str, Any]]:
    """Exact losses and whole walks, for growing budgets."""
    worlds = {"S = 10": paper_garnet(10)}
    if not quick:
        worlds["S = 100"] = sj.instances.grid_survey(10, 10, slip=0.05, field="hard", seed=2)
    for size, world in worlds.items():
        policy = sj.optimal_plan(world.mdp, world.variance, tolerance=1e-6).policy

        def loss(n: int, policy: Any = policy, variance: Any = world.variance) -> Any:
            return sj.finite_loss(policy, variance, n)

        def walk(n: int, strategy: Any, world: sj.World = world) -> Any:
            return sj.simulate(world, strategy, n, runs=1, seed=0, threads=1)

        work: dict[str, tuple[Callable[[int], Any], int]] = {
            "exact loss": (loss, BUDGETS[-1]),
            "walk, fixed policy": (lambda n, w=walk, p=policy: w(n, sj.Fixed(p)), BUDGETS[-1]),
            "walk, FW-AME": (lambda n, w=walk: w(n, sj.FrankWolfe()), BUDGETS[-1]),
            "walk, Lookahead": (lambda n, w=walk: w(n, sj.Lookahead()), BUDGETS[-2]),
        }
        for name, (call, most) in work.items():
            for n in BUDGETS[:2] if quick else BUDGETS:
                if n <= most:
                    call(n)
                    yield {"kind": f"{name}, {size}", "steps": n,
                           "seconds": processor_seconds(lambda c=call, n=n: c(n))}  # fmt: skip


def budget_figure(rows: Rows) -> CurvesRecord:
    kinds = dict.fromkeys(row["kind"] for row in rows)
    colours = {name: k for k, name in enumerate(dict.fromkeys(k.rpartition(",")[0] for k in kinds))}
    lines = [
        line(kind, rows, kind, "steps", "seconds", colours[kind.rpartition(",")[0]],
             dashed=kind.endswith("100"))
        for kind in kinds
    ]  # fmt: skip
    return CurvesRecord(
        "What n steps cost to compute", "steps n", "seconds of one core", tuple(lines),
        log_x=True, log_y=True,
    )  # fmt: skip


def line(
    name: str, rows: Rows, kind: str, x: str, y: str, colour: int, *, dashed: bool
) -> Line:  # fmt: skip
    kept = [row for row in rows if row["kind"] == kind and np.isfinite(row[y])]
    return Line(
        name, np.array([row[x] for row in kept], dtype=float), np.array([row[y] for row in kept]),
        dashed=dashed, colour=colour,
    )  # fmt: skip


FIGURES = {
    "optimal_scaling": (optimal_rows, optimal_figure),
    "budget_scaling": (budget_rows, budget_figure),
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", nargs="*", metavar="figure", help=", ".join(FIGURES))
    parser.add_argument("--quick", action="store_true", help="the smallest sizes only")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args(arguments)
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    print(machine())
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.figures or FIGURES:
        make, figure = FIGURES[name]
        rows: Rows = []
        for row in make(options.quick):
            rows.append(row)
            cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
            print("  ".join(cells), flush=True)
        print(*save_table(rows, options.out / name))
        print(*draw(figure(rows), options.out / f"{name}.png"))


if __name__ == "__main__":
    main()
