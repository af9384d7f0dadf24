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

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError, InfeasibleFloor, SolverFailure
from sojourn.model import per_state
from sojourn.solvers.linear_oracle_kernel import OPTIMAL, solve_kernel
from sojourn.solvers.plausible import Plausible, best_members

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
    model: Plausible, cost: ArrayLike, lower: ArrayLike = 0.0, members: Floats | None = None
) -> ExtendedOccupancy:
    """``cost`` per state or per pair; ``lower`` bounds the distribution (one number or one per
    state). ``members`` (n_pairs × n_states) are members to start from, a good guess."""
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
    master.add(np.arange(model.n_pairs), model.even())
    if members is not None:
        master.add(np.arange(model.n_pairs), members)
    if not master.solve():
        _make_feasible(model, bounds, master)
    rounds = master.generate()
    answer = master.answer(rounds)
    return ExtendedOccupancy(
        answer.occupancy, answer.transitions, least + span * answer.value,
        least + span * answer.bound, answer.recurrent_classes, rounds,
    )  # fmt: skip


class _Master:
    """The problem on the members found so far, its answer, and which members it lacks."""

    def __init__(self, model: Plausible, cost: Floats, lower: Floats) -> None:
        self.model, self.cost, self.lower = model, cost, lower
        self.pair = np.empty(0, np.int64)
        self.rows = np.empty((0, model.n_states))
        self.free = np.empty(0, np.int64)
        self.bound = -np.inf

    def add(self, pair: Ints, rows: Floats) -> None:
        self.pair = np.concatenate((self.pair, pair))
        self.rows = np.concatenate((self.rows, rows))

    def forget(self) -> None:
        """Throw away the columns that carry nothing, but for the first ones, which lead wherever
        they can: without them some states might not be left any more."""
        keep = self.x[: self.pair.size] > 0.0
        keep[: self.model.n_pairs] = True
        self.pair, self.rows = self.pair[keep], self.rows[keep]

    def allow_jumps(self) -> None:
        """One artificial pair per state that leads wherever the floor asks for."""
        n = self.model.n_states
        self.free = np.arange(n)
        self.jump = np.broadcast_to(self.lower / self.lower.sum(), (n, n))

    def solve(self) -> bool:
        """Solve the master; False where it has no proved answer."""
        state = np.concatenate((self.model.pair_state[self.pair], self.free))
        g = np.concatenate((self.cost[self.pair], np.ones(self.free.size)))
        rows = np.concatenate((self.rows, self.jump)) if self.free.size else self.rows
        # By state, as the kernel wants it; the stable sort keeps old columns in their order.
        self.order = np.argsort(state, kind="stable")
        n, k = self.model.n_states, state.size
        self.state = state[self.order]
        start = np.searchsorted(self.state, np.arange(n + 1))
        self.P = np.ascontiguousarray(rows[self.order])
        chosen = start[:-1][None].copy()
        x, h, y = np.empty((1, k)), np.empty((1, n)), np.empty((1, n))
        value, bound, status = np.empty(1), np.empty(1), np.empty(1, np.int64)
        classes, active = np.empty(1, np.int64), np.empty(1, np.bool_)
        solve_kernel(
            self.P, start, self.state, np.ascontiguousarray(g[self.order])[None], self.lower,
            chosen, x, h, y, value, bound, status, classes, active,
        )  # fmt: skip
        self.x = np.empty(k)
        self.x[self.order] = x[0]
        self.h, self.y = h[0], np.maximum(y[0], 0.0)
        self.value, self.classes = float(value[0]), int(classes[0])
        return bool(status[0] == OPTIMAL)

    def generate(self, enough: float = -np.inf) -> int:
        """Add members until the answer is proved (or its value is ``enough``); the rounds."""
        model = self.model
        settled = self.value
        for round in range(ROUNDS):
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
            if self.value - self.bound <= TOLERANCE or self.value <= enough:
                return round
            # One per state: two members that lead the same way from one state are hardly both used.
            best = np.lexsort((reduced, state))[model.pair_start[:-1]]
            better = best[reduced[best] < self.value - floor - 0.5 * TOLERANCE]
            if better.size == 0:
                break
            # Only after progress: what a degenerate master forgot it would look for again for ever.
            if self.pair.size > KEPT * model.n_pairs and self.value < settled - TOLERANCE:
                self.forget()
                settled = self.value
            self.add(better, rows[better])
            if not self.solve():
                break
        raise SolverFailure(
            f"the extended occupancy was left with a gap of {self.value - self.bound:.3g} "
            "(relative to the span of the cost)",
            "are there moves with probabilities far below 1e-10?",
        )

    def answer(self, rounds: int) -> ExtendedOccupancy:
        """Marginals of the columns."""
        model, x = self.model, self.x[: self.pair.size]
        occupancy = np.bincount(self.pair, x, model.n_pairs).astype(float)
        flow = np.zeros((model.n_pairs, model.n_states))
        np.add.at(flow, self.pair, x[:, None] * self.rows)
        used = occupancy > 0
        where = np.where(used, occupancy, 1.0)[:, None]
        transitions = np.where(used[:, None], flow / where, model.estimate)
        return ExtendedOccupancy(
            occupancy, transitions, self.value, self.bound, self.classes, rounds
        )


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
                raise SolverFailure("it could not be decided whether the floor can be met")
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
