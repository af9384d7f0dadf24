"""The most that can be collected in N moves when every arrival in s pays ``price[s]``.

Backward induction over all history-dependent policies (a deterministic one that looks at the
state and the time is among the best), what that policy visits on the way, and how to mix the
visits of several such policies when a state's worth falls with its visits:

    slope(T) = sampled/(T² − ¼), at most ``steepest``,

which half-way between two integers is the difference sampled/T of the next visit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True, nogil=True)
def most_collected(
    pair_start: NDArray,
    indptr: NDArray,
    indices: NDArray,
    data: Array,
    price: Array,
    moves: int,
    ahead: Array,
    choice: NDArray,
) -> None:
    """``ahead``[s]: the best expected total from s; ``choice``[t, s]: the pair taken at time t.

    A ``choice`` with fewer rows than moves is left alone.
    """
    n = pair_start.size - 1
    worth = np.empty(n)
    keep = choice.shape[0] >= moves
    ahead[:] = 0.0
    for t in range(moves - 1, -1, -1):
        for s in range(n):
            worth[s] = price[s] + ahead[s]
        for s in range(n):
            best = -np.inf
            taken = pair_start[s]
            for pair in range(pair_start[s], pair_start[s + 1]):
                total = 0.0
                for e in range(indptr[pair], indptr[pair + 1]):
                    total += data[e] * worth[indices[e]]
                if total > best:
                    best = total
                    taken = pair
            ahead[s] = best
            if keep:
                choice[t, s] = taken


@njit(cache=True, nogil=True)
def pair_counts(
    indptr: NDArray,
    indices: NDArray,
    data: Array,
    start: Array,
    choice: NDArray,
    counts: Array,
) -> None:
    """``counts``[pair]: how often the policy ``choice`` is expected to take each pair."""
    moves, n = choice.shape
    now = start.copy()
    after = np.empty(n)
    counts[:] = 0.0
    for t in range(moves):
        after[:] = 0.0
        for s in range(n):
            mass = now[s]
            if mass > 0.0:
                pair = choice[t, s]
                counts[pair] += mass
                for e in range(indptr[pair], indptr[pair + 1]):
                    after[indices[e]] += mass * data[e]
        now, after = after, now


@njit(cache=True, nogil=True)
def envelope_slope(sampled: Array, steepest: Array, total: Array) -> Array:
    """What one more visit is worth at ``total`` visits, per state."""
    slope = np.empty(total.size)
    for s in range(total.size):
        above = total[s] * total[s] - 0.25
        slope[s] = steepest[s]
        if above > 0.0:
            slope[s] = min(slope[s], sampled[s] / above)
    return slope


@njit(cache=True, nogil=True)
def spread(vertices: Array, shares: Array, sampled: Array, steepest: Array, prior: float) -> None:
    """Pairwise Frank–Wolfe over known ``vertices`` (visits of policies): move ``shares`` from
    the worst one in use to the best one, with an exact line search, until they are worth the
    same to 1e-6."""
    n_vertices = vertices.shape[0]
    total = np.dot(shares, vertices) + prior
    for _ in range(50 + 10 * n_vertices):
        worth = np.dot(vertices, envelope_slope(sampled, steepest, total))
        best, worst = 0, -1
        for v in range(n_vertices):
            if worth[v] > worth[best]:
                best = v
            if shares[v] > 0.0 and (worst < 0 or worth[v] < worth[worst]):
                worst = v
        if worth[best] - worth[worst] <= 1e-6 * abs(worth[best]):
            break
        direction = vertices[best] - vertices[worst]
        low, high = 0.0, shares[worst]
        ahead = envelope_slope(sampled, steepest, total + high * direction)
        if np.dot(ahead, direction) < 0.0:
            for _ in range(40):
                middle = 0.5 * (low + high)
                ahead = envelope_slope(sampled, steepest, total + middle * direction)
                if np.dot(ahead, direction) > 0.0:
                    low = middle
                else:
                    high = middle
            shares[worst] -= high
        else:
            shares[worst] = 0.0
        shares[best] += high
        total += high * direction
