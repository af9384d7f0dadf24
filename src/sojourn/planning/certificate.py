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

Rounding: m is computed with an error of a few units of roundoff of the terms that are summed;
we subtract a bound of that error first, so that the certificate is a proof also in floating
point, up to the rounding of the final sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.model import MDP
from sojourn.solvers.objectives import Objective

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Certificate:
    """value and bound of an objective at one occupancy."""

    value: float
    bound: float
    gap: float
    imbalance: float
    """max_s |outflow − inflow| / η_s of the occupancy."""


def margins(
    mdp: MDP, prices: ArrayLike, pairs: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """A proved lower bound of m_s = h_s − max_a (Ph)_sa, over the allowed ``pairs`` only.

    States without an allowed pair get +∞: no allowed occupancy visits them.
    """
    h = np.asarray(prices, dtype=float)
    P: sp.csr_matrix = mdp.transitions
    terms = np.diff(P.indptr) + 3
    ahead = P @ h + terms * EPS * (P @ np.abs(h))
    if pairs is not None:
        ahead = np.where(pairs, ahead, -np.inf)
    return h - np.maximum.reduceat(ahead, mdp.pair_start[:-1]) - EPS * np.abs(h)


def certify(
    mdp: MDP,
    objective: Objective,
    occupancy: ArrayLike,
    prices: ArrayLike,
    pairs: NDArray[np.bool_] | None = None,
) -> Certificate:
    """What ``occupancy`` achieves and what ``prices`` prove that nothing can beat.

    ``pairs`` are the pairs that a plan may use at all (those of the end component).
    """
    x = np.asarray(occupancy, dtype=float)
    eta = mdp.state_sums(x)
    m = margins(mdp, prices, pairs)
    used = np.isfinite(m)
    value = objective.value(eta)
    bound = objective.restricted(np.flatnonzero(used)).lower_bound(m[used])
    flow = np.abs(mdp.flow_residual(x))
    imbalance = float(np.max(np.divide(flow, eta, out=np.zeros_like(eta), where=eta > 0)))
    return Certificate(value, bound, objective.gap(value, bound), imbalance)
