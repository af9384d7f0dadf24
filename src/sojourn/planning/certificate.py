"""Proofs of optimality, independent of the solver that found the plan.

Take any number h_s per state. A stationary occupancy λ has as much flow into each state as out
of it, so Σ λ(s,a) (h_s − (Ph)_sa) = 0, and a fortiori

    Σ_s m_s η_s ≤ 0   with   m_s = h_s − max_a (Ph)_sa.                               (1)

Whatever the objective, its smallest value over *all* probability vectors with the one property
(1) is a lower bound for its smallest value over the stationary ones. For the mean error and
any ρ > 0 with ρ + m ≥ 0, (1) says Σ (ρ + m_s) η_s ≤ ρ, and by Cauchy–Schwarz

    (Σ_s σ_s √(ρ+m_s))² ≤ Σ_s σ²_s/η_s · Σ_s (ρ+m_s) η_s ≤ ρ · S𝓛(λ).

No property of h is needed, hence none of the solver: one product P h, and one number ρ to choose
(``Objective.lower_bound`` does). h = 0 gives the bandit bound (Σσ)²/S.

Rounding: m is summed from differences, m_s = min_a Σ p (h_s − h_s'), which keeps its accuracy
where h is huge and nearly constant, and we subtract a bound of what rounding can have added.
So the certificate is a proof also in floating point, up to the rounding of one final sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.model import MDP
from sojourn.solvers.margins import margins
from sojourn.solvers.objectives import Objective


@dataclass(frozen=True)
class Certificate:
    """value and bound of an objective at one occupancy."""

    value: float
    bound: float
    gap: float
    imbalance: float
    """max_s |outflow − inflow| / η_s of the occupancy."""


def certify(
    mdp: MDP,
    objective: Objective,
    occupancy: ArrayLike,
    prices: ArrayLike,
    pairs: NDArray[np.bool_] | None = None,
    low: ArrayLike | None = None,
) -> Certificate:
    """What ``occupancy`` achieves and what ``prices`` prove that nothing can beat.

    ``pairs`` are the pairs that a plan may use at all (those of the end component); ``low`` are
    further digits of the prices.
    """
    x = np.ascontiguousarray(occupancy, dtype=float)
    P = mdp.transitions
    eta = np.empty(mdp.n_states)
    imbalance = _visits(mdp.pair_start, P.indptr, P.indices, P.data, x, eta)
    value = objective.value(eta)
    m = margins(mdp, prices, pairs, low)
    inside, choices = objective, mdp.n_pairs
    if pairs is not None:
        used = m != np.inf
        inside, choices = objective.restricted(np.flatnonzero(used)), int(pairs.sum())
        m = m[used]
    if choices == m.size:
        # One pair per state, in one end component: this occupancy is the only one.
        return Certificate(value, value, 0.0, imbalance)
    # Prices that overflow prove nothing.
    bound = inside.lower_bound(m) if m.min() > -np.inf else -np.inf
    return Certificate(value, bound, objective.gap(value, bound), imbalance)


@njit(cache=True, nogil=True)
def _visits(pair_start, indptr, indices, data, x, eta):  # type: ignore[no-untyped-def]
    """η into ``eta``; returns the largest |outflow − inflow| beside η."""
    left = np.zeros(eta.size)
    for s in range(eta.size):
        total = 0.0
        for p in range(pair_start[s], pair_start[s + 1]):
            total += x[p]
            for k in range(indptr[p], indptr[p + 1]):
                left[indices[k]] -= x[p] * data[k]
        eta[s] = total
        left[s] += total
    worst = 0.0
    for s in range(eta.size):
        # Not only max: a NaN must not pass for balance.
        if eta[s] > 0.0 and not abs(left[s]) <= worst * eta[s]:
            worst = abs(left[s]) / eta[s]
    return worst
