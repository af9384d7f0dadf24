"""What Lookahead loses on a hundred of the paper's Garnets, with a hundred walks on each.

    python benchmarks/garnet_reach.py [--quick]

The ratio n·loss/𝓛(λ*) − 1 of the allocation, noise averaged out, and of the squared error; the
mean over the Garnets with its standard error, and every Garnet beyond 0.15. Beside those stands
what Lookahead loses there when it knows the variances, and how many walks miss a state at the very
least, whoever walks: the state that is hardest to find, sought by the policy that finds it most
often (backward induction). Ten minutes on two cores; the table is kept beside this file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from harness import machine

import sojourn as sj

KEPT = Path(__file__).with_suffix(".md")
FAR = 0.15
TARGETS = {(5, 500): 0.030, (5, 1000): 0.020, (10, 500): 0.050, (10, 1000): 0.032}


def ratios(world: sj.World, strategy: sj.Lookahead, n: int, runs: int) -> tuple[float, float]:
    """Of the allocation, and of the squared error."""
    sim = sj.simulate(world, strategy, n, runs, seed=0)
    return float(sim.allocation_ratio[0]), float(sim.ratio[0])


def least_missed(world: sj.World, n: int) -> float:
    """The share of walks that miss a state within n steps, at the least."""
    mdp, missed = world.mdp, 0.0
    for target in range(mdp.n_states):
        chance = np.zeros(mdp.n_states)
        for _ in range(n):
            arrived = chance.copy()
            arrived[target] = 1.0
            chance = np.maximum.reduceat(mdp.transitions @ arrived, mdp.pair_start[:-1])
        missed = max(missed, 1.0 - float(world.start @ chance))
    return missed


def mean(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(values.size):.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few walks; nothing is kept")
    quick = parser.parse_args().quick
    count, runs = (5, 4) if quick else (100, 100)
    lines = [
        f"*{machine()}*", "",
        "| S | n | mean | asked for | squared error | median | largest |"
        f" beyond {FAR}: seed, ratio, with known variances, walks that must miss a state |",
        "|---" * 8 + "|",
    ]  # fmt: skip
    print(*lines, sep="\n", flush=True)
    for (size, n), target in TARGETS.items():
        worlds = [sj.instances.garnet(size, 3, 2, seed=k) for k in range(count)]
        found = np.array([ratios(world, sj.Lookahead(), n, runs) for world in worlds])
        far = []
        for k in np.flatnonzero(found[:, 0] > FAR):
            known = ratios(worlds[k], sj.Lookahead(known_variance=True), n, runs)
            missed = least_missed(worlds[k], n)
            far.append(f"{k}: {found[k, 0]:.2f}, {known[0]:.2f}, {missed:.1%}")
        lines.append(
            f"| {size} | {n} | {mean(found[:, 0])} | {target:.3f} | {mean(found[:, 1])} "
            f"| {np.median(found[:, 0]):.4f} | {found[:, 0].max():.3f} | {'; '.join(far)} |"
        )
        print(lines[-1], flush=True)
    if not quick:
        KEPT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
