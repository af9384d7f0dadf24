"""Which reversible Garnet stands for a figure whose instance the paper does not give.

The paper describes its two learning worlds by the average SLEM of the policies that FW-AME
played (0.55 and 0.95). The rule: of the seeds 0..N−1, the one whose average SLEM over some short
walks is nearest to the printed one. Losses play no part in it.
"""

from __future__ import annotations

from sojourn import instances
from sojourn.experiments.paper import PAPER_SLEM, WORLDS
from sojourn.learning import FrankWolfe
from sojourn.simulation import simulate


def average_slem(which: str, seed: int, runs: int = 8, budget: int = 500) -> float:
    """The average SLEM of the policies that FW-AME plays on the world of this seed."""
    n_states, n_actions, branching, _ = WORLDS[which]
    world = instances.garnet(n_states, n_actions, branching, reversible=True, seed=seed)
    played = simulate(world, FrankWolfe(), budget, runs, 0, record_policies=True).played
    assert played is not None
    return played.average_slem()


def nearest_seed(which: str, seeds: int = 40) -> tuple[int, float]:
    """The seed by the rule, and its average SLEM."""
    target = PAPER_SLEM[which]["fw-ame"]
    found = [(abs(average_slem(which, seed) - target), seed) for seed in range(seeds)]
    _, best = min(found)
    return best, average_slem(which, best)


if __name__ == "__main__":
    for name in WORLDS:
        seed, slem = nearest_seed(name)
        print(f"{name}: seed {seed}, average SLEM {slem:.3f} (paper {PAPER_SLEM[name]['fw-ame']})")
