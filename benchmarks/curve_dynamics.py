"""What not knowing the dynamics costs, against the budget: the figure of docs/unknown_dynamics.md.

    python benchmarks/curve_dynamics.py                 half an hour on one core; prints and draws
    python benchmarks/curve_dynamics.py --quick         a few seconds, small budgets
    python benchmarks/curve_dynamics.py --worlds S5     only some worlds; --strategies likewise
    python benchmarks/curve_dynamics.py --draw          prints and draws what is kept

What is done is kept beside this file after every strategy, and not done again; delete it to
measure anew.

The loss is that of the allocation (noise averaged out) and n·loss / 𝓛(λ*) − 1 its *ratio*; the
*excess* is the ratio of a learner of the dynamics minus that of the same learner that knows them.
A mean is over all walks in all worlds of a group, its error that of the mean over these very
worlds, and *worst* is the mean in the worst of them. The exponent is the slope of the line through
log excess against log n, by least squares weighted with the standard errors of the excess; its
error is the one that these weights give, enlarged by the misfit where that is larger. It is fitted
over all budgets, and over those from 10⁴ on, when all states were found and tried. The
*random-walk cover* walks at random until every pair was tried, and then does as Lookahead does.
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
    "river": Group((instances.river_swim,), 16),
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


def summary(values: Any) -> dict[str, list[float]]:
    """Mean, error and worst world, per budget."""
    worlds, runs, _ = values.shape
    within = values.var(axis=1, ddof=1) / runs if runs > 1 else np.zeros(values[:, 0].shape)
    return {
        "mean": values.mean(axis=(0, 1)).tolist(),
        "error": (np.sqrt(within.sum(axis=0)) / worlds).tolist(),
        "worst": values.mean(axis=1).max(axis=0).tolist(),
    }


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
    """What is kept: world → budgets and, by strategy, what :func:`summary` says."""
    found: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def report(kept: dict[str, Any]) -> None:
    for key, group in kept.items():
        n, rows = np.array(group["budgets"], dtype=float), group["rows"]
        print(f"\n{TITLES[key]}: ratio ± standard error at n =")
        print(f"{'':34s}" + "".join(f"{int(k):>18d}" for k in n))
        for name, row in rows.items():
            _line(name, row["mean"], row["error"])
            if len(GROUPS[key].worlds) > 1:
                print(
                    f"{'    worst world':34s}" + "".join(f"{m:10.4f}{'':8s}" for m in row["worst"])
                )
        for known, learned in PAIRS:
            if not {known, learned} <= rows.keys():
                continue
            a, b = rows[known], rows[learned]
            excess = np.subtract(b["mean"], a["mean"])
            error = np.hypot(a["error"], b["error"])
            _line("excess of " + learned, excess, error)
            for since, said in ((0.0, "all budgets"), (1e4, "n ≥ 10⁴")):
                late = n >= since
                fit = exponent(n[late], excess[late], error[late])
                if fit is not None:
                    print(f"{'':34s}  {said}: n^({fit[0]:.2f} ± {fit[1]:.2f})")


def _line(name: str, mean: Any, error: Any) -> None:
    print(f"{name:34s}" + "".join(f"{m:10.4f} ±{e:6.4f}" for m, e in zip(mean, error)))


def draw(kept: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(kept), figsize=(3.2 * len(kept), 4.0), squeeze=False, sharey=True
    )
    colours = dict(zip(STRATEGIES, ("C0", "C0", "C1", "C1", "C2", "0.5")))
    for axis, (key, group) in zip(axes[0], kept.items()):
        for name, row in group["rows"].items():
            knows = name in ("Lookahead", "FW-AME")
            # What lies below the optimum by chance has no logarithm.
            n, mean, error = np.array([group["budgets"], row["mean"], row["error"]])
            above = mean > 0
            axis.errorbar(
                n[above], mean[above], error[above], ls="--" if knows else "-",
                marker=".", color=colours[name], label=name + (", moves known" if knows else ""),
            )  # fmt: skip
        axis.axhline(0.05, color="0.3", lw=0.8, ls=":")
        axis.set(xscale="log", yscale="log", title=TITLES[key], xlabel="budget n")
        axis.set_ylim(1e-4, 1e2)
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("loss above the optimum, relative")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncol=3,
                  frameon=False)  # fmt: skip
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds; nothing is written")
    parser.add_argument("--worlds", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--strategies", nargs="*", choices=list(STRATEGIES),
                        default=list(STRATEGIES))  # fmt: skip
    parser.add_argument("--draw", action="store_true", help="only draw and print what is kept")
    options = parser.parse_args()
    kept = {} if options.quick else read()
    for key in [] if options.draw else options.worlds:
        group, budgets = GROUPS[key], BUDGETS
        if options.quick:
            budgets, group = (300, 1000), Group(group.worlds[:1], 1 if key == "grid" else 2)
        record = kept.setdefault(key, {"budgets": list(budgets), "rows": {}})
        for name in options.strategies:
            if name in record["rows"]:
                continue
            began = time.perf_counter()
            record["rows"][name] = summary(measured(group, name, budgets, seed=1))
            record["rows"] = {k: record["rows"][k] for k in STRATEGIES if k in record["rows"]}
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
