"""What not knowing the dynamics costs, against the budget: the figure of docs/unknown_dynamics.md.

    python benchmarks/curve_dynamics.py                 an hour on one core; prints and draws
    python benchmarks/curve_dynamics.py --quick         a few seconds, small budgets
    python benchmarks/curve_dynamics.py --worlds S5     only some worlds
    python benchmarks/curve_dynamics.py --draw          prints and draws what is kept

What is done is kept beside this file after every strategy, and not done again; delete it to
measure anew.

The loss is that of the allocation (noise averaged out) and n·loss / 𝓛(λ*) − 1 its *ratio*; the
*excess* is the ratio of a learner of the dynamics minus that of the same learner that knows them.
The exponent is the slope of the line through log excess against log n, by least squares weighted
with the standard errors of the excess; its error is the one that these weights give, enlarged by
the misfit where that is larger. The *random-walk cover* walks at random until every pair was
tried, and then does as Lookahead does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn import instances, learning, simulate
from sojourn.learning import Decision
from sojourn.model import World

HERE = Path(__file__).parent
KEPT = HERE / "curve_dynamics.json"
FIGURE = HERE.parent / "docs" / "figures" / "unknown_dynamics.png"

BUDGETS = (1_000, 3_000, 10_000, 30_000, 100_000)
PAIRS = (("Lookahead", "Lookahead, learned"), ("FW-AME", "FW-AME, learned"))


class Cover:
    """A random walk until every pair was tried, then Lookahead on what was learned."""

    name = "random-walk cover"
    needs = frozenset({"transitions"})

    def __init__(self) -> None:
        self.later = learning.Lookahead(dynamics="learned")

    def start(self, task: Any) -> Any:
        return self.later.start(task)

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        walking = (seen.pair_visits[walks] == 0).any(axis=1)
        if not walking.any():
            return self.later.plan(task, state, seen, walks)
        # One walk at a time is asked here: policies and actions don't mix in one decision.
        assert walks.size == 1
        counts = np.diff(task.pair_start)
        policy = np.repeat(1.0 / counts, counts)[None]
        untried = np.where(seen.pair_visits[walks] == 0, 1, np.iinfo(np.int64).max)
        return Decision(seen.time[walks] + 10**9, policy=policy, pair_limit=untried)


@dataclass(frozen=True)
class Group:
    """Worlds that are averaged over, and how many walks in each."""

    worlds: tuple[Callable[[], World], ...]
    runs: int


def garnets(n_states: int, count: int) -> tuple[Callable[[], World], ...]:
    return tuple(lambda k=k: instances.garnet(n_states, 3, 2, seed=k) for k in range(count))


def drift_grid() -> World:
    """Ten by ten sites, log-uniform variances; every tenth move is carried on to the east."""
    return instances.grid_survey(
        10, 10, obstacles=0.0, slip=0.05, drift=(1, 0, 0.1), field="hard", seed=0
    )


GROUPS = {
    "S5": Group(garnets(5, 10), 4),
    "S10": Group(garnets(10, 10), 4),
    "river": Group((instances.river_swim,), 24),
    "grid": Group((drift_grid,), 2),
}
TITLES = {"S5": "10 Garnets, S = 5", "S10": "10 Garnets, S = 10", "river": "RiverSwim",
          "grid": "10 × 10 drift grid"}  # fmt: skip

STRATEGIES: dict[str, tuple[Callable[[], Any], bool]] = {
    # What makes it, and whether it plans for its budget: then each budget is a simulation.
    "Lookahead": (learning.Lookahead, True),
    "Lookahead, learned": (lambda: learning.Lookahead(dynamics="learned"), True),
    "FW-AME": (learning.FrankWolfe, False),
    "FW-AME, learned": (lambda: learning.FrankWolfe(dynamics="learned"), False),
    "random-walk cover": (Cover, True),
    "uniform": (learning.Uniform, False),
}


def ratios(world: World, name: str, budgets: tuple[int, ...], runs: int, seed: int) -> Any:
    """One ratio per walk and budget."""
    make, plans = STRATEGIES[name]
    if name == "random-walk cover":
        columns = [
            [simulate(world, make(), n, 1, seed=seed + k).normalized("allocation")[0, 0]
             for k in range(runs)] for n in budgets
        ]  # fmt: skip
        sim = simulate(world, learning.Uniform(), 1, 1)
        return np.array(columns).T / sim.optimal_loss - 1.0
    if plans:
        sims = [simulate(world, make(), n, runs, seed=seed) for n in budgets]
        return np.column_stack(
            [s.normalized("allocation")[:, 0] / s.optimal_loss - 1.0 for s in sims]
        )
    sim = simulate(world, make(), budgets[-1], runs, seed=seed, checkpoints=list(budgets))
    return sim.normalized("allocation") / sim.optimal_loss - 1.0


def measured(group: Group, name: str, budgets: tuple[int, ...], seed: int) -> Any:
    """Worlds × walks × budgets."""
    return np.array([ratios(make(), name, budgets, group.runs, seed) for make in group.worlds])


def mean_and_error(values: Any) -> tuple[Any, Any]:
    """Over worlds and walks; the error is that of the mean over these very worlds."""
    worlds, runs, _ = values.shape
    within = values.var(axis=1, ddof=1) / runs if runs > 1 else np.zeros(values[:, 0].shape)
    return values.mean(axis=(0, 1)), np.sqrt(within.sum(axis=0)) / worlds


def exponent(n: Any, excess: Any, error: Any) -> tuple[float, float] | None:
    """Slope of log excess against log n and its error; None with fewer than three points above
    zero."""
    good = excess > 0
    if good.sum() < 3:
        return None
    x, y = np.log(n[good]), np.log(excess[good])
    weight = 1.0 / np.maximum(error[good] / excess[good], 0.02) ** 2
    x0 = np.average(x, weights=weight)
    y0 = np.average(y, weights=weight)
    spread = (weight * (x - x0) ** 2).sum()
    slope = (weight * (x - x0) * (y - y0)).sum() / spread
    misfit = (weight * (y - y0 - slope * (x - x0)) ** 2).sum() / max(x.size - 2, 1)
    return float(slope), float(np.sqrt(max(misfit, 1.0) / spread))


def read() -> dict[str, Any]:
    """What is kept: world → budgets and, by strategy, means and errors."""
    found: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def report(kept: dict[str, Any]) -> None:
    for key, group in kept.items():
        n = np.array(group["budgets"], dtype=float)
        print(f"\n{TITLES[key]}: ratio ± standard error at n =")
        print(f"{'':32s}" + "".join(f"{int(k):>18d}" for k in n))
        for name, (mean, error) in group["rows"].items():
            print(f"{name:32s}" + "".join(f"{m:10.4f} ±{e:6.4f}" for m, e in zip(mean, error)))
        for known, learned in PAIRS:
            if not {known, learned} <= group["rows"].keys():
                continue
            (a, da), (b, db) = (map(np.array, group["rows"][x]) for x in (known, learned))
            excess, error = b - a, np.hypot(da, db)
            fit = exponent(n, excess, error)
            said = "–" if fit is None else f"n^({fit[0]:.2f} ± {fit[1]:.2f})"
            cells = "".join(f"{m:10.4f} ±{e:6.4f}" for m, e in zip(excess, error))
            print(f"{'excess of ' + learned:32s}{cells}", said)


def draw(kept: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(kept), figsize=(3.4 * len(kept), 3.6), squeeze=False)
    colours = dict(zip(STRATEGIES, ("C0", "C0", "C1", "C1", "C2", "0.5")))
    for axis, (key, group) in zip(axes[0], kept.items()):
        for name, (mean, error) in group["rows"].items():
            style = "-" if "learned" in name or name in ("uniform", "random-walk cover") else "--"
            axis.errorbar(group["budgets"], np.maximum(mean, 1e-5), error, ls=style, marker=".",
                          color=colours[name], label=name)  # fmt: skip
        axis.set(xscale="log", yscale="log", title=TITLES[key], xlabel="budget n")
        axis.set_ylim(5e-4, max(10.0, 0))
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("loss above the optimum")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncol=6,
                  frameon=False)  # fmt: skip
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds; nothing is written")
    parser.add_argument("--worlds", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--draw", action="store_true", help="only draw and print what is kept")
    options = parser.parse_args()
    kept = {} if options.quick else read()
    for key in [] if options.draw else options.worlds:
        group, budgets = GROUPS[key], BUDGETS
        if options.quick:
            budgets, group = (300, 1000), Group(group.worlds[:1], 1 if key == "grid" else 2)
        record = kept.setdefault(key, {"budgets": list(budgets), "rows": {}})
        for name in STRATEGIES:
            if name in record["rows"]:
                continue
            began = time.perf_counter()
            mean, error = mean_and_error(measured(group, name, budgets, seed=1))
            record["rows"][name] = mean.tolist(), error.tolist()
            print(f"{TITLES[key]}, {name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
            if not options.quick:
                # Another process may have added worlds meanwhile.
                KEPT.write_text(json.dumps(read() | {key: record}, indent=1) + "\n")
    kept = kept if options.quick else read()
    kept = {key: kept[key] for key in GROUPS if key in kept}
    report(kept)
    if not options.quick:
        draw(kept, FIGURE)


if __name__ == "__main__":
    main()
