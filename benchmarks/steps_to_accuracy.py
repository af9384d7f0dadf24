"""How many steps does each strategy need for the same accuracy? On the harbour and ten worlds.

    python benchmarks/steps_to_accuracy.py [--quick]

The accuracy is that of an ideal survey of 8 steps per site: a mean squared error of 𝓛(λ*)/(8S).
For each strategy budgets are doubled, one simulation per budget, until its mean squared error
(σ²/T averaged over sites and walks, an unvisited site costing 9σ²_max) is as small; between the
last two budgets the logarithms are interpolated. "> n" means: not within n steps. The table is
kept beside this file, where docs/benchmarks.md shows it; a quick one is only printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from harness import machine

import sojourn as sj
from sojourn.learning import Lawnmower

HARBOUR = Path(sj.__file__).parent / "importing/examples/harbour.toml"
KEPT = Path(__file__).with_suffix(".md")


def worlds() -> dict[str, tuple[sj.World, np.ndarray | None]]:
    """Name → (world, weights)."""
    site = sj.load_site(HARBOUR)
    harbour = sj.World(site.mdp, 0.0, site.guessed_variance(), start=site.home)
    i = sj.instances
    return {
        "harbour": (harbour, site.weight),
        "three-state": (i.three_state(), None),
        "corridor 20": (i.corridor(20), None),
        "river 6": (i.river_swim(6), None),
        "rooms 4x4": (i.rooms(4, 4), None),
        "survey 12x8": (i.grid_survey(12, 8, slip=0.1, field="smooth", seed=1), None),
        "survey hard": (i.grid_survey(10, 10, slip=0.05, field="hard", seed=2), None),
        "drift": (i.grid_survey(8, 8, slip=0.05, drift=(1, 0, 0.3), seed=3), None),
        "FrozenLake": (i.frozen_lake(), None),
        "Garnet 10": (i.garnet(10, 3, 2, seed=1), None),
        "Garnet_R 10": (i.garnet(10, 2, 3, reversible=True, seed=2), None),
    }


def steps_needed(world: sj.World, weight, strategy, target: float, runs: int, most: int) -> float:  # type: ignore[no-untyped-def]
    """Steps until the mean squared error is ``target``; infinite beyond ``most``."""
    budget, before = 2 * world.mdp.n_states, None
    while budget <= most:
        loss = sj.simulate(
            world, strategy, budget, runs, seed=0, weight=weight, allow_infinite=True
        ).allocation_loss.mean()
        error = loss / budget
        if error <= target:
            if before is None:
                return float(budget)
            share = np.log(before[1] / target) / np.log(before[1] / error)
            return float(before[0] * (budget / before[0]) ** share)
        before = (budget, error)
        budget *= 2
    return np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small worlds only; nothing is kept")
    quick = parser.parse_args().quick
    strategies = {
        "uniform": sj.Uniform(), "lawnmower": Lawnmower(), "FW-AME": sj.FrankWolfe(),
        "Lookahead": sj.Lookahead(),
    }  # fmt: skip
    lines = [
        f"*{machine()}*", "", f"| world | sites | ideal | {' | '.join(strategies)} |",
        "|---" * (3 + len(strategies)) + "|",
    ]  # fmt: skip
    print(*lines, sep="\n", flush=True)
    for name, (world, weight) in worlds().items():
        n = world.mdp.n_states
        if quick and n > 50:
            continue
        best = sj.optimal_plan(world.mdp, world.variance, weight=weight, tolerance=1e-6).loss
        shown = []
        for label, strategy in strategies.items():
            slow = label == "Lookahead" and n > 200
            runs = 4 if quick else 2 if slow else 10
            most = (64 if label == "Lookahead" else 2000 if n < 200 else 500) * n
            if quick:
                most = min(most, 40 * n)
            needed = steps_needed(world, weight, strategy, best / (8 * n), runs, most)
            shown.append(f"{needed:.0f}" if np.isfinite(needed) else f"> {most}")
        lines.append(f"| {name} | {n} | {8 * n} | {' | '.join(shown)} |")
        print(lines[-1], flush=True)
    if not quick:
        KEPT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
