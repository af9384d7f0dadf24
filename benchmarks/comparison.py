"""Every strategy on every kind of world, at every budget: the figure of docs/comparison.md.

    python benchmarks/comparison.py                  an hour on one core; prints and draws
    python benchmarks/comparison.py --quick          a few seconds; two worlds, small budgets
    python benchmarks/comparison.py --worlds rooms   only some worlds
    python benchmarks/comparison.py --held-out       the worlds that no choice was made on
    python benchmarks/comparison.py --draw           prints and draws what is kept

Lookahead's constants (when its sight begins to grow, how near ahead parts of a plan are compared,
when a path is kept to) were chosen on worlds that are, in part, those of the figure. The *held-out*
worlds were chosen afterwards, and nothing was changed for them.

What is done is kept beside this file after every strategy, and not done again; delete it to
measure anew.

The *ratio* is n·loss / 𝓛(λ*) − 1 with the loss of the allocation (noise averaged out); beside it,
in brackets, the same of the squared error. Each budget is a simulation of its own, and all
strategies have the same seeds. A star says where a strategy beats Lookahead by more than two
standard errors of the paired differences; the oracle plays the optimal plan for the true
variances, and is no rival.
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
from sojourn.plots.style import COLOURS, new_figure, written

HERE = Path(__file__).parent
KEPT = HERE / "comparison.json"
KEPT_HELD_OUT = HERE / "comparison_held_out.json"
FIGURE = HERE.parent / "docs" / "figures" / "comparison.png"

LONG = (50, 200, 1_000, 10_000, 100_000)


@dataclass(frozen=True)
class Group:
    """Worlds that are averaged over, budgets, and walks per world at each budget."""

    title: str
    worlds: tuple[str, ...]
    budgets: tuple[int, ...] = LONG
    runs: tuple[int, ...] = (24, 24, 24, 16, 8)


def garnets(
    title: str, shape: tuple[int, int, int], budgets: tuple[int, ...], runs: tuple[int, ...],
    count: int = 5, more: str = "", first: int = 0,
) -> Group:  # fmt: skip
    size, actions, branching = shape
    seeds = range(first, first + count)
    worlds = (f"garnet:{size},{actions},{branching},seed={k}{more}" for k in seeds)
    return Group(f"{count} {title}, S = {size}", tuple(worlds), budgets, runs)


FEW = (10, 10, 10, 6, 4)
LARGE = (8, 6, 4, 2)

GROUPS = {
    "garnet5": garnets("Garnets", (5, 3, 2), LONG[:4], FEW),
    "garnet10": garnets("Garnets", (10, 3, 2), LONG, FEW),
    "reversible": garnets(
        "reversible Garnets", (10, 2, 3), LONG[:4], FEW, more=",reversible=True"
    ),
    "garnet50": garnets("Garnets", (50, 3, 2), (100, 500, 5_000), (2, 2, 1), count=10),
    "three": Group("three-state world", ("three_state",)),
    "river": Group("RiverSwim, S = 6", ("river_swim:6",)),
    "river20": Group("RiverSwim, S = 20", ("river_swim:20",), LONG[1:], (24, 24, 16, 8)),
    "corridor20": Group("corridor of 20", ("corridor:20",), LONG, (24, 24, 24, 16, 6)),
    "corridor100": Group(
        "corridor of 100", ("corridor:100",), (250, 1_000, 10_000, 100_000), (12, 8, 4, 2)
    ),
    "rooms": Group("4 rooms, S = 103", ("rooms:4,5",), (200, 1_000, 10_000, 100_000), LARGE),
    "drift": Group(
        "8 × 8 grid with drift",
        ("grid_survey:8,8,slip=0.05,drift=(1,0,0.3),field=hard,seed=3",),
        (150, 1_000, 10_000, 100_000), LARGE,
    ),
    "hard": Group(
        "10 × 10 grid, σ² over 5 decades",
        ("grid_survey:10,10,slip=0.05,field=hard,seed=2",),
        (150, 1_000, 10_000, 100_000), LARGE,
    ),
    "lake": Group("FrozenLake", ("frozen_lake",)),
    "taxi": Group("Taxi, S = 404", ("taxi",), (800, 4_000, 20_000), (4, 3, 1)),
}  # fmt: skip

HELD_OUT = {
    "garnet5-new": garnets("new Garnets", (5, 3, 2), LONG[:4], (6, 6, 6, 4), 12, first=500),
    "garnet10-new": garnets("new Garnets", (10, 3, 2), LONG[:4], (6, 6, 6, 4), 12, first=500),
    "garnet30-new": garnets("new Garnets", (30, 2, 4), (60, 300, 3_000), (4, 4, 2), 10, first=500),
    "reversible-new": garnets(
        "new reversible Garnets", (8, 3, 3), LONG[:4], (6, 6, 6, 4), 8, ",reversible=True", 500
    ),
    "river15": Group("RiverSwim, S = 15", ("river_swim:15",), (100, 1_000, 10_000), (24, 24, 12)),
    "corridor45": Group("corridor of 45", ("corridor:45",), (100, 1_000, 10_000), (24, 16, 8)),
    "rooms-new": Group(
        "9 rooms", ("rooms:9,3,seed=501", "rooms:9,3,seed=502", "rooms:9,3,seed=503"),
        (250, 1_000, 10_000), (8, 4, 2),
    ),
    "smooth-new": Group(
        "12 × 7 grid, slip 0.2",
        ("grid_survey:12,7,slip=0.2,field=smooth,seed=501",
         "grid_survey:12,7,slip=0.2,field=patchy,seed=502"),
        (200, 1_000, 10_000), (8, 4, 2),
    ),
    "cliff": Group("CliffWalking", ("cliff_walking",), (100, 1_000, 10_000), (16, 8, 4)),
}  # fmt: skip

STRATEGIES: dict[str, Callable[[], Any]] = {
    "Lookahead": learning.Lookahead,
    "FW-AME": learning.FrankWolfe,
    "FW-AME with FMH-SDP": lambda: learning.FrankWolfe(mixing="sdp"),
    "weighted max entropy": learning.WeightedMaxEntropy,
    "max entropy": learning.MaxEntropy,
    "average reward": learning.AverageReward,
    "lawnmower": learning.Lawnmower,
    "uniform": learning.Uniform,
    "oracle": learning.Oracle,
}

LONGEST = {"average reward": 2e6, "FW-AME with FMH-SDP": 2e6}
"""Budget × states up to which a slow strategy is waited for."""


def measured(group: Group, name: str) -> dict[str, Any]:
    """Per budget the ratios of every walk, of the allocation and of the squared error."""
    loss: dict[str, list[float]] = {}
    error: dict[str, list[float]] = {}
    for request in group.worlds:
        world = instances.build(request)
        for n, runs in zip(group.budgets, group.runs):
            if n * world.mdp.n_states > LONGEST.get(name, np.inf):
                continue
            sim = simulate(world, STRATEGIES[name](), n, runs, seed=1, allow_infinite=True)
            best = sim.optimal_loss
            loss.setdefault(str(n), []).extend(sim.allocation_loss[:, 0] / best - 1.0)
            error.setdefault(str(n), []).extend(n * sim.error[:, 0] / best - 1.0)
    return {"loss": loss, "error": error}


def mean_and_error(values: Any) -> tuple[float, float]:
    """Of the mean over these very worlds and these walks."""
    values = np.asarray(values)
    spread = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else float("nan")
    return float(values.mean()), float(spread)


def better(ours: Any, theirs: Any) -> bool:
    """Whether the strategy beats Lookahead by more than two standard errors, paired."""
    mean, error = mean_and_error(np.asarray(ours) - np.asarray(theirs))
    return mean > 2 * error


def report(kept: dict[str, Any], groups: dict[str, Group]) -> None:
    beaten = []
    for key, rows in kept.items():
        group = groups[key]
        budgets = [n for n in group.budgets if str(n) in rows["Lookahead"]["loss"]]
        print(f"\n{group.title}: ratio ± standard error [of the squared error] at n =")
        print(f"{'':22s}" + "".join(f"{n:>30d}" for n in budgets))
        for name, row in rows.items():
            cells = []
            for n in map(str, budgets):
                if n not in row["loss"]:
                    cells.append(f"{'–':>30s}")
                    continue
                (a, da), (b, _) = mean_and_error(row["loss"][n]), mean_and_error(row["error"][n])
                mark = ""
                if name not in ("Lookahead", "oracle"):
                    mark = "*" if better(rows["Lookahead"]["loss"][n], row["loss"][n]) else ""
                    beaten += [f"{name} on {group.title} at n = {n}"] if mark else []
                cells.append(f"{f'{a:.4g} ± {da:.2g} [{b:.3g}]{mark}':>30s}")
            print(f"{name:22s}" + "".join(cells))
    print("\nBetter than Lookahead by more than two standard errors:", "; ".join(beaten) or "none")


def table(kept: dict[str, Any], groups: dict[str, Group]) -> None:
    """Lookahead and the best of its rivals, as a table of the docs."""
    print("\n| world | n | Lookahead | the best of the others | |\n|---|---|---|---|---|")
    for key, rows in kept.items():
        for n in rows["Lookahead"]["loss"]:
            rivals = {
                name: mean_and_error(row["loss"][n])
                for name, row in rows.items()
                if name not in ("Lookahead", "oracle") and n in row["loss"]
            }
            best = min(rivals, key=lambda name: rivals[name][0])
            cells = [f"{m:.3g} ± {e:.1g}" for m, e in
                     (mean_and_error(rows["Lookahead"]["loss"][n]), rivals[best])]  # fmt: skip
            print(f"| {groups[key].title} | {n} | {cells[0]} | {cells[1]} | {best} |")


def figure(kept: dict[str, Any]) -> Any:
    columns = 4
    height = -(-len(kept) // columns)
    drawn = new_figure(3.3 * columns, 2.8 * height + 0.6)
    panels = drawn.subplots(height, columns, squeeze=False).ravel()
    styles = {name: (COLOURS[k % len(COLOURS)], "-") for k, name in enumerate(STRATEGIES)}
    styles |= {"uniform": ("0.6", "-"), "oracle": ("0.2", ":")}
    for panel, (key, rows) in zip(panels, kept.items()):
        for name, row in rows.items():
            colour, style = styles[name]
            points = [(int(n), *mean_and_error(values)) for n, values in row["loss"].items()]
            n, mean, error = np.array(points).T
            panel.errorbar(
                n, np.maximum(mean, 1e-4), np.nan_to_num(error), color=colour, ls=style,
                lw=2.2 if name == "Lookahead" else 1.1, marker=".", ms=4, elinewidth=0.8,
                label=name, zorder=3 if name == "Lookahead" else 2,
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", title=GROUPS[key].title)
        low = min(min(np.mean(v) for v in rows["Lookahead"]["loss"].values()), 0.1)
        panel.set_ylim(max(0.5 * low, 1e-4), 300)
        panel.grid(alpha=0.25)
    for panel in panels[len(kept) :]:
        panel.set_axis_off()
    for k, panel in enumerate(panels[: len(kept)]):
        if k % columns == 0:
            panel.set_ylabel("loss above the optimum")
        if k + columns >= len(kept):
            panel.set_xlabel("budget n")
    handles = {}
    for panel in panels[: len(kept)]:
        handles |= {name: handle for handle, name in zip(*panel.get_legend_handles_labels())}
    drawn.legend(
        handles.values(), handles, loc="outside lower center", ncol=5, frameon=False
    )  # fmt: skip
    return drawn


def read(file: Path, groups: dict[str, Group]) -> dict[str, Any]:
    """What is kept: world → strategy → ratios."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return {
        key: {name: found[key][name] for name in STRATEGIES if name in found[key]}
        for key in groups
        if key in found
    }


def rounded(values: Any) -> Any:
    """Five digits are more than the noise leaves, and keep the file small."""
    if isinstance(values, dict):
        return {key: rounded(value) for key, value in values.items()}
    return [float(f"{value:.5g}") for value in values]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds; nothing is written")
    parser.add_argument("--worlds", nargs="*", metavar="WORLD", help="only these")
    parser.add_argument("--held-out", action="store_true", help="the worlds no choice was made on")
    parser.add_argument("--draw", action="store_true", help="only draw and print what is kept")
    options = parser.parse_args(arguments)
    if options.quick:
        small = {
            "three": Group("three-state world", ("three_state",), (50, 200), (4, 4)),
            "river20": Group("RiverSwim, S = 20", ("river_swim:20",), (200,), (2,)),
        }
        kept = {k: {s: measured(group, s) for s in STRATEGIES} for k, group in small.items()}
        report(kept, small)
        table(kept, small)
        figure(kept)
        return
    file, groups = (KEPT_HELD_OUT, HELD_OUT) if options.held_out else (KEPT, GROUPS)
    if unknown := set(options.worlds or ()) - set(groups):
        parser.error(f"no worlds {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
    for key in [] if options.draw else options.worlds or groups:
        for name in STRATEGIES:
            if name in read(file, groups).get(key, {}):
                continue
            began = time.perf_counter()
            found = measured(groups[key], name)
            seconds = time.perf_counter() - began
            print(f"{groups[key].title}, {name}: {seconds:.0f} s", file=sys.stderr, flush=True)
            if not found["loss"]:
                continue
            # Another process may have added worlds meanwhile.
            kept = read(file, groups)
            kept.setdefault(key, {})[name] = rounded(found)
            file.write_text(json.dumps(kept, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    kept = read(file, groups)
    report(kept, groups)
    table(kept, groups)
    if not options.held_out:
        written(lambda: figure(kept), (FIGURE,))


if __name__ == "__main__":
    main()
