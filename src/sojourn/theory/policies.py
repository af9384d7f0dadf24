"""Constants over all stationary policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from sojourn.errors import ArgumentError
from sojourn.model import MDP, Policy
from sojourn.planning import linear_oracle


@dataclass(frozen=True)
class SmallestShare:
    """η_min, the state where it is taken and the occupancy that takes it."""

    value: float
    state: int
    occupancy: np.ndarray


def eta_min(mdp: MDP) -> SmallestShare:
    """η_min = inf over policies of min_s η_π(s) (Asm. asm:ergodic), exactly: one LP per state.

    min η(s) over Λ is taken at a vertex, a deterministic policy on one recurrent class; it is 0
    exactly where some policy can avoid a state, and Asm. asm:ergodic then fails.
    """
    best: SmallestShare | None = None
    for s in range(mdp.n_states):
        cost = np.zeros(mdp.n_states)
        cost[s] = 1.0
        occupancy = linear_oracle(mdp, cost)
        value = max(0.0, float(mdp.state_sums(occupancy)[s]))
        if best is None or value < best.value:
            best = SmallestShare(value, s, occupancy)
    assert best is not None
    return best


@dataclass(frozen=True)
class SmallGap:
    """A policy with a small spectral gap: γ_min is at most ``value``."""

    value: float
    policy: Policy


def gamma_min_upper(
    mdp: MDP, tries: int = 50, seed: int | np.random.Generator = 0, polish: bool = True
) -> SmallGap:
    """An *upper* bound of γ_min = min over policies of γ_π, by search: nothing more is claimed.

    Random deterministic and random mixed policies, the best then improved by a local search
    without derivatives. Computing γ_min is not convex, and no certificate is known.
    """
    if tries < 1:
        raise ArgumentError(f"tries is {tries}", "give at least 1")
    rng = np.random.default_rng(seed)
    counts = np.diff(mdp.pair_start)
    best: SmallGap | None = None
    for k in range(tries):
        if k % 2:
            drawn = rng.gamma(0.3, size=mdp.n_pairs) + 1e-12
            policy = Policy(mdp, drawn / mdp.to_pairs(mdp.state_sums(drawn)))
        else:
            policy = Policy.deterministic(mdp, mdp.pair_start[:-1] + rng.integers(0, counts))
        gap = float(policy.chain().spectral_gap)
        if best is None or gap < best.value:
            best = SmallGap(gap, policy)
    assert best is not None
    if polish and best.value > 0 and mdp.n_pairs > mdp.n_states:

        def gap_of(x: np.ndarray) -> float:
            weight = np.exp(np.clip(x, -30, 30))
            chain = Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight))).chain()
            return float(chain.spectral_gap)

        found = minimize(
            gap_of, np.log(best.policy.probability + 1e-9), method="Powell",
            options={"maxfev": 40 * mdp.n_pairs},
        )  # fmt: skip
        if found.fun < best.value:
            weight = np.exp(np.clip(found.x, -30, 30))
            policy = Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight)))
            best = SmallGap(float(policy.chain().spectral_gap), policy)
    return best
