"""Backward induction over (state, visit counts): the best that can be done in N moves.

After t moves the counts of k slots sum to t (states may share a slot). They are numbered by the
combinatorial number system: with the partial sums b_j = c_1 + … + c_j + j − 1,

    rank(c) = Σ_{j<k} C(b_j, j),

which doesn't depend on t, and one more visit to slot i adds Σ_{i≤j<k} C(b_j, j−1). There are
C(t+k−1, k−1) ranks at time t, visited in order by moving the lowest bar that can move.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rank_of(counts: NDArray[np.int64]) -> int:
    """The number of a count vector among those with its sum."""
    total, rank = 0, 0
    for j, count in enumerate(counts[:-1], start=1):
        total += int(count)
        rank += comb(total + j - 1, j)
    return rank


def binomials(moves: int, slots: int) -> NDArray[np.int64]:
    """C(b, j) for every bar that can occur."""
    table = np.zeros((moves + slots + 1, slots + 1), dtype=np.int64)
    table[:, 0] = 1
    for b in range(1, table.shape[0]):
        table[b, 1:] = table[b - 1, 1:] + table[b - 1, :-1]
    return table


@njit(cache=True, nogil=True)
def final_costs(cost: Array, moves: int, binomial: NDArray, value: Array) -> None:
    """``value``[rank, s] after the last move: Σ_i cost[i, c_i], whatever the state."""
    slots, n = cost.shape[0], value.shape[1]
    bars = np.arange(slots)
    bars[slots - 1] = moves + slots - 1
    for rank in range(binomial[moves + slots - 1, slots - 1]):
        total = 0.0
        for i in range(slots):
            total += cost[i, bars[i] - bars[i - 1] - 1 if i > 0 else bars[i]]
        for s in range(n):
            value[rank, s] = total
        _next(bars, slots)


@njit(cache=True, nogil=True)
def _next(bars: NDArray, slots: int) -> None:
    for j in range(slots - 1):
        if bars[j] + 1 < bars[j + 1]:
            bars[j] += 1
            for i in range(j):
                bars[i] = i
            return


@njit(cache=True, nogil=True)
def step_back(
    pair_start: NDArray,
    indptr: NDArray,
    indices: NDArray,
    data: Array,
    slot: NDArray,
    slots: int,
    time: int,
    binomial: NDArray,
    after: Array,
    now: Array,
    choice: NDArray,
) -> None:
    """``now``[rank, s] at ``time`` from ``after`` at time + 1. ``choice``[rank, s] becomes the
    number of the best action within its state; it may be empty."""
    n = slot.size
    keep = choice.shape[0] > 0
    bars = np.arange(slots)
    bars[slots - 1] = time + slots - 1
    successor = np.empty(slots, dtype=np.int64)
    for rank in range(binomial[time + slots - 1, slots - 1]):
        successor[slots - 1] = rank
        for i in range(slots - 2, -1, -1):
            successor[i] = successor[i + 1] + binomial[bars[i], i]
        for s in range(n):
            best = np.inf
            taken = 0
            for pair in range(pair_start[s], pair_start[s + 1]):
                total = 0.0
                for e in range(indptr[pair], indptr[pair + 1]):
                    reached = indices[e]
                    total += data[e] * after[successor[slot[reached]], reached]
                if total < best:
                    best = total
                    taken = pair - pair_start[s]
            now[rank, s] = best
            if keep:
                choice[rank, s] = taken
        _next(bars, slots)
