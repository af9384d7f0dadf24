"""The cheapest occupancy of any plausible model, with a floor under every state.

The linear programme over λ and p ∈ 𝒞 together (Eq. dual_pbm, App. app:relaxing:asm:known.mdp)
becomes one in the *extended occupancy* q(s, a, s') = λ(s, a) p(s'|s, a):

    minimise Σ g(s,a) q(s,a,s')   over   q ≥ 0,   Σ q = 1,
        Σ_{a,s'} q(s,a,s') = Σ_{s',a} q(s',a,s)                      (balance)
        q(s,a,·) ∈ λ(s,a)·𝒞(s,a),    λ(s,a) = Σ_{s'} q(s,a,s')       (plausible)
        Σ_a λ(s,a) ≥ lower(s)                                        (floor)

It has S²A unknowns. But a vertex of it mixes few members of each 𝒞(s,a), so they are generated as
they are needed: the *master* problem is an ordinary linear oracle on a model whose actions are the
members found so far, and with its duals (h, y, ρ) the best member not yet there is the one with
the least ⟨q, h⟩. The least reduced cost over *all* members also gives a bound by weak duality,

    min_{s,a} { g(s,a) + min_{q ∈ 𝒞(s,a)} ⟨q, h⟩ − h(s) − y(s) } + ⟨lower, y⟩,

so the answer is proved against the whole programme, not against its master.

Whether the floor can be met at all is the same problem with another cost: pairs that lead
anywhere are added for a cost of 1, and nothing else costs anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from sojourn.errors import ArgumentError, InfeasibleFloor, SolverFailure
from sojourn.model import per_state
from sojourn.solvers.linear_oracle_kernel import OPTIMAL, solve_kernel
from sojourn.solvers.plausible import Plausible, best_members

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COMPILED = 20
"""Up to so many states the compiled oracle solves the master, above HiGHS."""
ROUNDS = 500
KEPT = 3
"""Columns per pair beyond which those that carry nothing are thrown away: what a round costs grows
with their number, and a member that is missed later is found again."""
TOLERANCE = 1e-9
"""Relative to the span of the cost."""


@dataclass(frozen=True, eq=False)
class ExtendedOccupancy:
    """The optimal q, by its marginals, and the proof."""

    occupancy: Floats
    """λ(s, a)."""
    transitions: Floats
    """n_pairs × n_states: the plausible model in which λ is stationary."""
    value: float
    bound: float
    recurrent_classes: int
    """Of the policy in that model: more than one, and a walk sees only its own."""
    rounds: int

    @property
    def gap(self) -> float:
        """value − bound, in the unit of the cost."""
        return self.value - self.bound


def extended_occupancy(
    model: Plausible,
    cost: ArrayLike,
    lower: ArrayLike = 0.0,
    members: Floats | None = None,
    tolerance: float = TOLERANCE,
    rounds: int = ROUNDS,
    throw: bool = True,
) -> ExtendedOccupancy:
    """``cost`` per state or per pair; ``lower`` bounds the distribution (one number or one per
    state). ``members`` (n_pairs × n_states) are members to start from, a good guess.

    Ends when the gap is at most ``tolerance`` times the span of the cost. With ``throw=False`` an
    answer that isn't proved that far, after ``rounds`` additions of members, is given with the
    gap that it has: it is feasible, and often near, long before it is proved.
    """
    g = np.asarray(cost, dtype=float)
    if g.shape == (model.n_states,):
        g = g[model.pair_state]
    if g.shape != (model.n_pairs,) or not np.isfinite(g).all():
        raise ArgumentError(
            f"the cost has shape {g.shape} or is not finite",
            f"one finite number for each of {model.n_states} states or {model.n_pairs} pairs",
        )
    bounds = per_state(lower, model.n_states, "lower", minimum=0.0)
    least, span = float(g.min()), float(np.ptp(g)) or 1.0
    master = _Master(model, (g - least) / span, bounds)
    everyone = np.arange(model.n_pairs)
    # Members that lead everywhere are good to begin with, but rows without zeros are slow.
    sparse = members is not None and model.n_states > COMPILED
    master.add(everyone, model.estimate if sparse else model.even())
    if members is not None:
        master.add(everyone, members)
    solved = master.solve()
    if sparse and not solved:
        master.add(everyone, model.even())
        solved = master.solve()
    if not solved:
        _make_feasible(model, bounds, master)
    done = master.generate(tolerance=tolerance, rounds=rounds)
    if throw and master.value - master.bound > tolerance:
        raise SolverFailure(
            f"the extended occupancy was left with a gap of {master.value - master.bound:.3g} "
            "(relative to the span of the cost)",
            "ask for less with tolerance=…, or take what it has with throw=False",
        )
    answer = master.answer(done)
    return ExtendedOccupancy(
        answer.occupancy, answer.transitions, least + span * answer.value,
        least + span * answer.bound, answer.recurrent_classes, done,
    )  # fmt: skip


class _Simplex:
    """The master as a linear programme that grows by columns."""

    def __init__(self, lower: Floats) -> None:
        import highspy

        self.n = lower.size
        self.bounded = np.flatnonzero(lower > 0)
        self.row = np.full(self.n, -1)
        self.row[self.bounded] = self.n + 1 + np.arange(self.bounded.size)
        self.highs: Any = highspy.Highs()
        for option, value in (
            ("output_flag", False), ("threads", 1), ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
            # By default entries below 1e-9 are dropped: a rare passage would become a wall.
            ("small_matrix_value", 1e-12),
        ):  # fmt: skip
            self.highs.setOptionValue(option, value)
        for low in (*np.zeros(self.n), 1.0, *lower[self.bounded]):
            high = highspy.kHighsInf if self.highs.getNumRow() > self.n else low
            self.highs.addRow(low, high, 0, np.empty(0, np.int32), np.empty(0))

    def add(self, state: Ints, rows: Floats, cost: Floats) -> None:
        """One column e_s − q for each state and member."""
        k = state.size
        flow = -rows
        flow[np.arange(k), state] += 1.0
        mass = np.ones((k, 1))
        floor = (self.row[state][:, None] == self.n + 1 + np.arange(self.bounded.size)) * 1.0
        matrix = sp.csr_matrix(np.hstack((flow, mass, floor)))
        self.highs.addCols(
            k, np.ascontiguousarray(cost, float), np.zeros(k), np.full(k, np.inf), matrix.nnz,
            matrix.indptr[:-1].astype(np.int32), matrix.indices.astype(np.int32), matrix.data,
        )  # fmt: skip

    def solve(self) -> tuple[Floats, Floats, Floats] | None:
        """x, h and y, or None."""
        self.highs.run()
        solution = self.highs.getSolution()
        if not (solution.value_valid and solution.dual_valid):
            return None
        dual = np.asarray(solution.row_dual)
        y = np.zeros(self.n)
        y[self.bounded] = np.maximum(dual[self.n + 1 :], 0.0)
        x = np.maximum(solution.col_value, 0.0)
        return x / x.sum(), dual[: self.n].copy(), y


class _Master:
    """The problem on the members found so far, its answer, and which members it lacks."""

    def __init__(self, model: Plausible, cost: Floats, lower: Floats) -> None:
        self.model, self.cost, self.lower = model, cost, lower
        self.pair = np.empty(0, np.int64)
        self.rows = np.empty((0, model.n_states))
        self.free = np.empty(0, np.int64)
        self.bound = -np.inf
        self.simplex: _Simplex | None = None
        self.passed = 0

    def add(self, pair: Ints, rows: Floats) -> None:
        self.pair = np.concatenate((self.pair, pair))
        self.rows = np.concatenate((self.rows, rows))

    def forget(self) -> None:
        """Throw away the columns that carry nothing, but for the first ones, which lead wherever
        they can: without them some states might not be left any more."""
        keep = self.x[: self.pair.size] > 0.0
        keep[: self.model.n_pairs] = True
        self.pair, self.rows = self.pair[keep], self.rows[keep]
        self.simplex = None

    def allow_jumps(self) -> None:
        """One artificial pair per state that leads wherever the floor asks for."""
        n = self.model.n_states
        self.free = np.arange(n)
        self.jump = np.broadcast_to(self.lower / self.lower.sum(), (n, n))

    def solve(self) -> bool:
        """Solve the master; False where it has no answer."""
        if self.model.n_states <= COMPILED and self._solve_compiled():
            return True
        return self._solve_simplex()

    def _solve_compiled(self) -> bool:
        state = np.concatenate((self.model.pair_state[self.pair], self.free))
        g = np.concatenate((self.cost[self.pair], np.ones(self.free.size)))
        rows = np.concatenate((self.rows, self.jump)) if self.free.size else self.rows
        # By state, as the kernel wants it; the stable sort keeps old columns in their order.
        order = np.argsort(state, kind="stable")
        n, k = self.model.n_states, state.size
        state = state[order]
        start = np.searchsorted(state, np.arange(n + 1))
        chosen = start[:-1][None].copy()
        x, h, y = np.empty((1, k)), np.empty((1, n)), np.empty((1, n))
        value, bound, status = np.empty(1), np.empty(1), np.empty(1, np.int64)
        classes, active = np.empty(1, np.int64), np.empty(1, np.bool_)
        solve_kernel(
            np.ascontiguousarray(rows[order]), start, state,
            np.ascontiguousarray(g[order])[None], self.lower,
            chosen, x, h, y, value, bound, status, classes, active,
        )  # fmt: skip
        if status[0] != OPTIMAL:
            return False
        self.x = np.empty(k)
        self.x[order] = x[0]
        self.h, self.y = h[0], np.maximum(y[0], 0.0)
        self.value = float(value[0])
        return True

    def _solve_simplex(self) -> bool:
        """With HiGHS, which goes on from its last basis when columns come in."""
        if self.simplex is None:
            self.simplex = _Simplex(self.lower)
            self.passed = 0
            if self.free.size:
                self.simplex.add(self.free, np.array(self.jump), np.ones(self.free.size))
        fresh = self.pair[self.passed :]
        self.simplex.add(self.model.pair_state[fresh], self.rows[self.passed :], self.cost[fresh])
        self.passed = self.pair.size
        answer = self.simplex.solve()
        if answer is None:
            return False
        x, self.h, self.y = answer
        k = self.free.size
        self.x = np.concatenate((x[k:], x[:k]))
        self.value = float(self.cost[self.pair] @ x[k:] + x[:k].sum())
        return True

    def generate(
        self, enough: float = -np.inf, tolerance: float = TOLERANCE, rounds: int = ROUNDS
    ) -> int:
        """Add members until the answer is proved (or its value is ``enough``), or can't be
        improved any more, or ``rounds`` are over; their number."""
        model = self.model
        settled = self.value
        for round in range(rounds):
            rows = np.empty_like(model.estimate)
            best_members(model.estimate, model.low, model.high, model.radius, -self.h, rows)
            state = model.pair_state
            reduced = self.cost - self.y[state] + _ahead(rows, self.h, state)
            least = float(reduced.min())
            if self.free.size:
                jumps = 1.0 - self.y + _ahead(np.array(self.jump), self.h, self.free)
                least = min(least, float(jumps.min()))
            floor = float(self.lower @ self.y)
            self.bound = max(self.bound, least + floor)
            if self.value - self.bound <= tolerance or self.value <= enough:
                return round
            better = np.flatnonzero(reduced < self.value - floor - 0.5 * TOLERANCE)
            # Only after progress: what a degenerate master forgot it would look for again for ever.
            if self.pair.size > KEPT * model.n_pairs and self.value < settled - TOLERANCE:
                self.forget()
                settled = self.value
            kept = self.x, self.h, self.y, self.value, self.pair, self.rows
            self.add(better, rows[better])
            if better.size == 0 or not self.solve():
                self.x, self.h, self.y, self.value, self.pair, self.rows = kept
                return round
        return rounds

    def answer(self, rounds: int) -> ExtendedOccupancy:
        """Marginals of the columns."""
        model, x = self.model, self.x[: self.pair.size]
        occupancy = np.bincount(self.pair, x, model.n_pairs).astype(float)
        carrying = np.flatnonzero(x > 0)
        flow = np.zeros((model.n_pairs, model.n_states))
        np.add.at(flow, self.pair[carrying], x[carrying, None] * self.rows[carrying])
        used = occupancy > 0
        where = np.where(used, occupancy, 1.0)[:, None]
        transitions = np.where(used[:, None], flow / where, model.estimate)
        return ExtendedOccupancy(
            occupancy, transitions, self.value, self.bound, self._classes(occupancy, flow), rounds
        )

    def _classes(self, occupancy: Floats, flow: Floats) -> int:
        """All states with mass are recurrent, so classes are the connected pieces."""
        first = self.model.pair_start[:-1]
        support = np.flatnonzero(np.add.reduceat(occupancy, first) > 0)
        graph = np.add.reduceat(flow, first, axis=0)[np.ix_(support, support)]
        return int(connected_components(graph, directed=False)[0])


def _make_feasible(model: Plausible, lower: Floats, master: _Master) -> None:
    """Give ``master`` members with which the floor can be met, or say that there are none."""
    if lower.sum() <= 1.0 and lower.any():
        first = _Master(model, np.zeros(model.n_pairs), lower)
        first.add(master.pair, master.rows)
        first.allow_jumps()
        if first.solve():
            first.generate(enough=0.0)
            if first.value <= TOLERANCE:
                master.pair, master.rows = first.pair, first.rows
                if master.solve():
                    return
            elif first.bound <= 0.0:
                raise SolverFailure(
                    "it could not be decided whether the floor can be met", "lower the floor"
                )
    raise InfeasibleFloor(
        "in no plausible model does a stationary occupancy meet the lower bounds",
        "lower the floor",
    )


@njit(cache=True, nogil=True)
def _ahead(rows: Floats, h: Floats, state: Ints) -> Floats:
    """Σ q (h(s') − h(s)) row by row: differences, which are exact where h is large."""
    out = np.empty(state.size)
    for p in range(state.size):
        total = 0.0
        for j in range(h.size):
            total += rows[p, j] * (h[j] - h[state[p]])
        out[p] = total
    return out
