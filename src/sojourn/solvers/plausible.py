"""Sets of transition models: where each pair may lead, as far as that is known.

The set of pair p = (s, a) is a polytope around an estimate p̂: a box cut with an L1 ball,

    𝒞(p) = { q ≥ 0 : Σ q = 1,  low ≤ q ≤ high,  ‖q − p̂‖₁ ≤ radius },      p̂ ∈ 𝒞(p).

A ``radius`` of 2 cuts nothing off; ``low`` = 0 and ``high`` = 1 leave the ball alone; ``high`` = 0
says that a state can't follow. A model of the set takes any q ∈ 𝒞(p) for each pair.

What optimism asks for is max { ⟨q, h⟩ : q ∈ 𝒞(p) } (Jaksch, Ortner & Auer 2010, Fig. 2, for the
ball). Every q is p̂ with some mass moved, and what is best is to move it, until half the radius is
used up, from the state with the least h that has some to give to the one with the largest h that
has room: each move gains less than the one before, so greed is optimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import ArgumentError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EVERYTHING = 2.0
"""No two distributions are farther apart in L1."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Plausible:
    """One set per pair; arrays are n_pairs × n_states, ``radius`` n_pairs."""

    pair_start: Ints
    estimate: Floats
    low: Floats
    high: Floats
    radius: Floats

    def __post_init__(self) -> None:
        shape = (int(self.pair_start[-1]), self.pair_start.size - 1)
        for name in ("estimate", "low", "high"):
            if getattr(self, name).shape != shape:
                raise ArgumentError(
                    f"{name} has shape {getattr(self, name).shape}, expected {shape}",
                    "one row per pair, one column per state",
                )
        # An estimate outside its own set would make "moved mass" mean something else.
        inside = (self.low <= self.estimate + ROUNDING) & (self.estimate <= self.high + ROUNDING)
        if not (inside.all() and np.abs(self.estimate.sum(axis=1) - 1.0).max() <= ROUNDING):
            raise ArgumentError(
                "an estimate lies outside of its own set",
                "rows of estimate sum to 1 and lie between low and high",
            )

    @property
    def n_states(self) -> int:
        return self.pair_start.size - 1

    @property
    def n_pairs(self) -> int:
        return int(self.pair_start[-1])

    @property
    def pair_state(self) -> Ints:
        return np.repeat(np.arange(self.n_states), np.diff(self.pair_start))

    def contains(self, transitions: Floats) -> NDArray[np.bool_]:
        """For each pair, whether the row of ``transitions`` (n_pairs × n_states) is plausible."""
        inside = (transitions >= self.low - ROUNDING) & (transitions <= self.high + ROUNDING)
        distance = np.abs(transitions - self.estimate).sum(axis=1)
        return inside.all(axis=1) & (distance <= self.radius + ROUNDING)

    def best(self, h: Floats) -> Floats:
        """The member that maximises ⟨q, h⟩, for every pair (n_pairs × n_states)."""
        members = np.empty_like(self.estimate)
        best_members(self.estimate, self.low, self.high, self.radius, np.asarray(h, float), members)
        return members

    def even(self) -> Floats:
        """The member of each pair on the way from its estimate to the uniform distribution over
        all states that can follow, as far as the set allows: it leads wherever it can."""
        possible = self.high > 0
        uniform = possible / possible.sum(axis=1, keepdims=True)
        way = uniform - self.estimate
        room = np.where(way > 0, self.high - self.estimate, self.estimate - self.low)
        size = np.abs(way)
        share = np.min(np.where(size > 0, room / np.where(size > 0, size, 1.0), 1.0), axis=1)
        length = size.sum(axis=1)
        ball = np.where(length > 0, self.radius / np.where(length > 0, length, 1.0), 1.0)
        step = np.clip(np.minimum(share, ball), 0.0, 1.0)
        return np.maximum(self.estimate + step[:, None] * way, 0.0)


@njit(cache=True, nogil=True)
def lift(
    estimate: Floats, low: Floats, high: Floats, radius: float, h: Floats, order: Ints
) -> float:
    """max ⟨q, h⟩ over one set; ``order`` lists the states by decreasing h."""
    value = 0.0
    for j in range(h.size):
        value += estimate[j] * h[j]
    budget = 0.5 * radius
    top = 0
    bottom = h.size - 1
    room = high[order[0]] - estimate[order[0]]
    spare = estimate[order[bottom]] - low[order[bottom]]
    while top < bottom and budget > 0.0:
        if room <= 0.0:
            top += 1
            room = high[order[top]] - estimate[order[top]]
        elif spare <= 0.0:
            bottom -= 1
            spare = estimate[order[bottom]] - low[order[bottom]]
        else:
            mass = min(room, spare, budget)
            value += mass * (h[order[top]] - h[order[bottom]])
            room -= mass
            spare -= mass
            budget -= mass
    return value


@njit(cache=True, nogil=True)
def member(
    estimate: Floats, low: Floats, high: Floats, radius: float, order: Ints, q: Floats
) -> None:
    """The q that attains :func:`lift`."""
    q[:] = estimate
    budget = 0.5 * radius
    top = 0
    bottom = order.size - 1
    while top < bottom and budget > 0.0:
        room = high[order[top]] - q[order[top]]
        spare = q[order[bottom]] - low[order[bottom]]
        if room <= 0.0:
            top += 1
        elif spare <= 0.0:
            bottom -= 1
        else:
            mass = min(room, spare, budget)
            # Exactly empty or full where it was meant: what is left by rounding is a move that
            # the set doesn't have.
            q[order[top]] = high[order[top]] if mass == room else q[order[top]] + mass
            q[order[bottom]] = low[order[bottom]] if mass == spare else q[order[bottom]] - mass
            budget -= mass


@njit(cache=True, nogil=True)
def best_members(
    estimate: Floats, low: Floats, high: Floats, radius: Floats, h: Floats, members: Floats
) -> None:
    """:func:`member` for every pair."""
    order = np.argsort(-h)
    for p in range(radius.size):
        member(estimate[p], low[p], high[p], radius[p], order, members[p])
