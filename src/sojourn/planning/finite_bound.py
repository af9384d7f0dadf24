r"""A proved lower bound on the finite-budget loss of *every* policy, history-dependent ones too.

Write the loss as E Σ_s φ_s(V_s) with V_s the number of visits, φ_s(k) = (n/S) weight·σ²/(prior+k)
and φ_s(0) the cost of an unvisited state where there is no prior sample. For any price c_s ≥ 0
per visit,

    φ_s(V) ≥ min_{k=0..N} [φ_s(k) + c_s k] − c_s V,

and whatever a policy does, the visits are worth at most W_N(c) = the most that can be collected
in N moves at these prices, a backward induction. Taking expectations,

    𝓛_n(π) ≥ Σ_s min_k [φ_s(k) + c_s k] − W_N(c)     for every π and every c ≥ 0.          (1)

Nothing about convexity, stationarity or ergodicity is used. (The asymptotic optimum 𝓛(λ*) is
*not* such a bound: with a prior sample T sums to more than n, and within few steps no walk is
bound to be stationary.)

The best prices solve a convex problem: (1) is the Lagrangian dual of minimising the convex
envelope of φ over the attainable expected visits, the fluid relaxation. We solve that with
Frank–Wolfe, whose oracle is the backward induction, keep the vertices (they say that W_N is at
least their worth), and finish with cutting planes on (1) itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from sojourn.arguments import number, start_distribution
from sojourn.errors import SojournError
from sojourn.model import MDP, Counting, Policy, check_model
from sojourn.planning.finite import (
    PRIOR_SAMPLE,
    Array,
    Prices,
    one_budget,
)
from sojourn.planning.optimal import optimal_plan
from sojourn.solvers.finite_horizon import (
    envelope_slope,
    most_collected,
    pair_counts,
    spread,
)

TABLE_ENTRIES = 50_000_000
"""Decisions that are kept for the forward pass (4 bytes each)."""


@dataclass(frozen=True, eq=False)
class FiniteBound:
    """``bound`` is proved, and ``prices`` per visit prove it."""

    bound: float
    prices: Array
    pair_counts: Array
    """How often the fluid solution takes each pair (sums to the number of moves)."""
    mdp: MDP

    @property
    def policy(self) -> Policy:
        """The stationary policy with the fluid solution's shares."""
        return Policy.from_occupancy(self.mdp, self.pair_counts)


def finite_bound(
    mdp: MDP,
    variance: ArrayLike,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    weight: ArrayLike | None = None,
    tolerance: float = 1e-4,
) -> FiniteBound:
    """The best bound (1) to within about ``tolerance``, relative."""
    check_model(mdp)
    tolerance = number(tolerance, "tolerance", "give a number between 0 and 1", 1e-12, 1.0)
    prices = Prices.of(variance, mdp.n_states, one_budget(budget), counting, weight)
    return best_bound(mdp, prices, start_distribution(start, mdp.n_states), tolerance)


class _Costs:
    """φ_s(k), its convex envelope's slope, and the conjugate in (1)."""

    def __init__(self, prices: Prices) -> None:
        self.prior, self.moves = prices.prior, prices.moves
        self.sampled, self.unvisited = prices.sampled, prices.unvisited
        near = np.arange(1.0, min(self.moves, 1000) + 1)[:, None]
        drop = (self.cost(np.zeros((1, 1))) - self.cost(near)) / near
        self.steepest = drop.max(axis=0, initial=0.0)

    def cost(self, k: Array) -> Array:
        """φ_s(k) for integers k (last axis: states)."""
        return self.cost_at(k, np.arange(self.sampled.size))

    def cost_at(self, k: Array, state: NDArray[np.int64]) -> Array:
        """φ_s(k) for matching lists of k and s."""
        total = self.prior + k
        seen = self.sampled[state] / np.maximum(total, 1)
        return np.where(total > 0, seen, self.unvisited[state])

    def slope(self, visits: Array) -> Array:
        """−φ̃′: continuous, and exact half-way between integers, where the envelope's is
        sampled/(T(T+1)) = sampled/((T+½)² − ¼)."""
        return envelope_slope(self.sampled, self.steepest, self.prior + visits)

    def conjugate(self, price: Array) -> tuple[Array, Array]:
        """min_k φ_s(k) + price k and the k that attains it. Beyond k = 0 the costs are convex,
        so the integers around the continuous minimiser decide."""
        centre = np.sqrt(self.sampled / np.maximum(price, 1e-300)) - self.prior
        k = np.floor(np.minimum(centre, self.moves)) + np.arange(-1, 3)[:, None]
        k = np.vstack([np.clip(k, 0, self.moves), np.zeros_like(price)])
        value = self.cost(k) + price * k
        best = value.argmin(axis=0), np.arange(price.size)
        return value[best], k[best]


class _Oracle:
    """The bound (1) at given prices; remembers where each of its two terms was attained."""

    def __init__(self, mdp: MDP, costs: _Costs, start: Array) -> None:
        self.mdp, self.costs, self.start = mdp, costs, start
        P = mdp.transitions
        self.arrays = (P.indptr, P.indices, P.data)
        self.forward = P.T.tocsr()
        self.steps = costs.moves if costs.moves * mdp.n_states <= TABLE_ENTRIES else 0
        self.choice = np.empty((self.steps, mdp.n_states), dtype=np.int32)
        # What rounding can have taken off the sum of N moves over rows of so many terms.
        terms = int(np.diff(P.indptr).max()) + 2
        self.safety = 1.0 + 4 * np.finfo(float).eps * costs.moves * terms
        self.pairs: list[Array] = []
        self.visits: list[Array] = []
        self.pieces: list[Array] = []
        self.best = -np.inf
        self.best_price = np.zeros(mdp.n_states)

    def __call__(self, price: Array) -> float:
        """The bound (1) at these prices; the best is kept."""
        ahead = np.empty(self.mdp.n_states)
        most_collected(
            self.mdp.pair_start, *self.arrays, price, self.costs.moves, ahead, self.choice
        )
        kept, k = self.costs.conjugate(price)
        bound = float(kept.sum() - self.safety * (self.start @ ahead))
        if bound > self.best:
            self.best, self.best_price = bound, price
        if self.steps:
            counts = np.empty(self.mdp.n_pairs)
            pair_counts(*self.arrays, self.start, self.choice, counts)
            self.pairs.append(counts)
            self.visits.append(self.forward @ counts)
            self.pieces.append(k)
        return bound


def best_bound(
    mdp: MDP, prices: Prices, start: Array, tolerance: float = 1e-4, rounds: int = 60
) -> FiniteBound:
    """Frank–Wolfe on the fluid relaxation, then cutting planes on the bound."""
    costs = _Costs(prices)
    if not costs.moves:
        stuck = float(costs.cost(np.zeros(mdp.n_states)).sum())
        return FiniteBound(stuck, np.zeros(mdp.n_states), np.zeros(mdp.n_pairs), mdp)
    oracle = _Oracle(mdp, costs, start)
    # The first vertex: as if every state had its share of the moves.
    oracle(costs.slope(np.full(mdp.n_states, costs.moves / mdp.n_states)))
    if not oracle.steps:
        # Budgets so long that the decisions don't fit are nearly asymptotic.
        try:
            shares = optimal_plan(mdp, prices.sampled).occupancy
        except SojournError:
            shares = mdp.to_pairs(1.0 / np.diff(mdp.pair_start)) / mdp.n_states
        oracle(costs.slope(mdp.state_sums(shares) * costs.moves))
        return FiniteBound(oracle.best, oracle.best_price, shares * costs.moves, mdp)
    shares = np.ones(1)
    for _ in range(rounds):
        visits = shares @ np.array(oracle.visits)
        slope = costs.slope(visits)
        oracle(slope)
        vertices = np.array(oracle.visits)
        if slope @ (vertices[-1] - visits) <= 0.1 * tolerance * abs(oracle.best):
            shares = np.append(shares, 0.0)
            break
        shares = np.append(shares, 0.0)
        spread(vertices, shares, costs.sampled, costs.steepest, costs.prior)
    _cutting_planes(costs, oracle, tolerance)
    shares = np.append(shares, np.zeros(len(oracle.pairs) - shares.size))
    return FiniteBound(oracle.best, oracle.best_price, shares @ np.array(oracle.pairs), mdp)


def _cutting_planes(costs: _Costs, oracle: _Oracle, tolerance: float, rounds: int = 40) -> None:
    """Maximise (1) over prices in a box around the best ones, by linear programmes.

    Unknowns are the prices c, for each state its conjugate (below the pieces φ(k) + c k that
    were attained so far), and W (above the worth of every policy met so far), so the programme
    agrees with (1) wherever that was evaluated. The box grows and shrinks with its success.
    """
    n = costs.sampled.size
    objective = np.r_[np.zeros(n), -np.ones(n), 1.0]
    reach = 0.5
    for _ in range(rounds):
        centre, before = oracle.best_price, oracle.best
        width = reach * np.maximum(centre, 1e-3 * costs.steepest)
        low, high = np.maximum(centre - width, 0.0), np.minimum(centre + width, costs.steepest)
        attained = np.concatenate(oracle.pieces).astype(np.int64)
        k, state = np.unique([attained, np.tile(np.arange(n), len(oracle.pieces))], axis=1)
        rows = np.arange(k.size)
        pieces = sp.csr_matrix(
            (np.r_[np.ones(k.size), -k], (np.r_[rows, rows], np.r_[n + state, state])),
            shape=(k.size, 2 * n + 1),
        )
        vertices: Any = sp.csr_matrix(np.array(oracle.visits))
        worth: Any = -np.ones((vertices.shape[0], 1))
        cuts: Any = sp.hstack([vertices, sp.csr_matrix(vertices.shape), worth])
        found: Any = linprog(
            objective,
            A_ub=sp.vstack([pieces, cuts]),
            b_ub=np.r_[costs.cost_at(k, state), np.zeros(vertices.shape[0])],
            bounds=[*zip(low, np.maximum(low, high)), *[(None, None)] * (n + 1)],
            method="highs",
        )
        if found.status != 0:
            return
        promised = -found.fun - before
        if promised <= tolerance * abs(before):
            if reach >= 0.5:
                return
            reach *= 4
            continue
        gained = oracle(np.maximum(found.x[:n], 0.0)) - before
        reach = min(1.0, 2 * reach) if gained >= 0.25 * promised else reach / 2
