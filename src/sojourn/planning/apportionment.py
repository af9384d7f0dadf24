"""From shares to whole numbers, and the bandit special case.

Where every state can be sampled directly (a fully connected deterministic model), the moves are
no constraint, and min (1/S) Σ weight·σ²/η over all distributions has the closed form

    η*(s) ∝ √(weight_s σ²_s),     𝓛(η*) = (1/S) (Σ_s √(weight_s σ²_s))².

A budget of n samples needs integers T with Σ T = n. Rounding n·η* can give the wrong sum, and a
state with a small share nothing at all, which costs everything. *Efficient apportionment*
(Pukelsheim 2006, ch. 12) is the rounding that keeps the smallest ratio T_s/(n η_s) as large as
possible: with a multiplier ν, T_s = ⌈ν η_s⌉, so every positive share gets at least one sample.
Since then T_s/n ≥ η*(s)(1 − S/n), Prop. prop:bandit.perf.loss bounds what the rounding costs, T*
being the best integers:

    𝓛(T/n) − 𝓛(T*/n) ≤ 2S/n · 𝓛(η*)               for n > 2S,
    𝓛(T/n) − 𝓛(T*/n) ≤ 8σ²_max / (η³_min n²)      for n ≥ 4/(S η²_min).

The proposition calls T* NP-hard. For a sum of convex functions of one integer each it is easy
(Fox 1966): an allocation is optimal as soon as moving *one* sample can't improve it.
:func:`bandit_counts` returns it.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import numbers
from sojourn.errors import ArgumentError


def apportion(allocation: ArrayLike, n: int) -> NDArray[np.int64]:
    """Integers that sum to ``n``, in proportion to ``allocation`` as nearly as possible.

    ``allocation`` are shares ≥ 0 in any unit; a share of 0 gets 0. Efficient rounding: start
    from ⌈(n − k/2) w⌉ with the k positive shares w, Σ w = 1, then, while the sum is too small,
    add one where T/w is smallest, and while it is too large, take one where (T − 1)/w is
    largest. Every positive share gets at least one if there are enough; where n is smaller than
    their number, the n largest shares get one each. Ties go to the first.
    """
    share = numbers(allocation, "the allocation")
    if share.ndim != 1 or share.size == 0:
        raise ArgumentError(
            f"the allocation has shape {share.shape}", "give one share >= 0 per state"
        )
    # A NaN compares false with everything: test for what is wanted.
    fine = np.isfinite(share) & (share >= 0)
    if not fine.all():
        s = int(np.flatnonzero(~fine)[0])
        raise ArgumentError(f"the share of state {s} is {share[s]}", "shares are numbers >= 0")
    # Beyond 2⁵³ floating point skips whole numbers, and the sum would be wrong unnoticed.
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 0 <= n <= 2**53:
        raise ArgumentError(f"n is {n!r}", "give the number of samples, a whole number >= 0")
    result = np.zeros(share.size, dtype=np.int64)
    if n == 0:
        return result
    positive = np.flatnonzero(share > 0)
    if positive.size == 0:
        raise ArgumentError("every share is 0", f"who should get the {n} samples?")
    weight = share[positive] / share.max()
    # A share that vanishes beside the largest still is one, and gets its sample.
    weight = np.maximum(weight / weight.sum(), np.finfo(float).tiny)
    if n <= positive.size:
        result[positive[np.argsort(-weight, kind="stable")[:n]]] = 1
        return result
    count = np.maximum(np.ceil((n - 0.5 * positive.size) * weight), 1.0)
    surplus = int(count.sum()) - int(n)
    # The discrepancy is at most about k/2, so a heap beats sorting again and again.
    if surplus < 0:
        heap = [(count[i] / weight[i], i) for i in range(positive.size)]
        heapq.heapify(heap)
        for _ in range(-surplus):
            _, i = heap[0]
            count[i] += 1.0
            heapq.heapreplace(heap, (count[i] / weight[i], i))
    elif surplus > 0:
        heap = [(-(count[i] - 1.0) / weight[i], i) for i in range(positive.size)]
        heapq.heapify(heap)
        for _ in range(surplus):
            _, i = heap[0]
            count[i] -= 1.0
            heapq.heapreplace(heap, (-(count[i] - 1.0) / weight[i], i))
    result[positive] = count.astype(np.int64)
    return result


def bandit_allocation(variance: ArrayLike, weight: ArrayLike | None = None) -> NDArray[np.float64]:
    """η* ∝ √(weight·σ²), the optimal shares where every state can be sampled directly.

    Where all of weight·σ² is 0 nothing is uncertain, every distribution is optimal, and the
    shares are equal.
    """
    error = np.array(variance, dtype=float)
    if error.ndim != 1 or error.size == 0:
        raise ArgumentError(f"the variance has shape {error.shape}", "give one per state")
    factor = np.ones_like(error) if weight is None else np.array(weight, dtype=float)
    if factor.shape != error.shape:
        raise ArgumentError(
            f"the weight has shape {factor.shape}, the variance {error.shape}",
            "give one of each per state",
        )
    for what, array in (("variance", error), ("weight", factor)):
        fine = np.isfinite(array) & (array >= 0)
        if not fine.all():
            s = int(np.flatnonzero(~fine)[0])
            raise ArgumentError(f"the {what} of state {s} is {array[s]}", "it must be >= 0")
    # Roots first: products of tiny or huge numbers would leave the range of floating point.
    root = np.sqrt(error) * np.sqrt(factor)
    if not root.any():
        return np.full(error.size, 1.0 / error.size)
    root /= root.max()
    return root / root.sum()


def bandit_counts(
    variance: ArrayLike, n: int, weight: ArrayLike | None = None
) -> NDArray[np.int64]:
    """The best integers: they minimise Σ weight·σ²/T over all T with Σ T = n.

    States with weight·σ² = 0 get nothing, unless all are. Needs a sample for every other state.
    """
    shares = bandit_allocation(variance, weight)
    count = apportion(shares, n)
    positive = np.flatnonzero(shares > 0)
    if n < positive.size:
        raise ArgumentError(
            f"n = {n} samples can't visit {positive.size} states",
            "with fewer samples than states every loss is infinite",
        )
    # weight·σ² is shares² up to a factor.
    T, error = count[positive].astype(float), shares[positive] ** 2
    while True:
        with np.errstate(divide="ignore"):
            gain, price = error / (T * (T + 1.0)), error / (T * (T - 1.0))
        to, source = int(np.argmax(gain)), int(np.argmin(price))
        # The margin keeps rounding from moving one sample to and fro.
        if gain[to] <= price[source] * (1.0 + 1e-12):
            break
        T[to] += 1.0
        T[source] -= 1.0
    count[positive] = T.astype(np.int64)
    return count


def bandit_loss(
    variance: ArrayLike, weight: ArrayLike | None = None, allocation: ArrayLike | None = None
) -> float:
    """𝓛(η) = (1/S) Σ weight·σ²/η for shares, or counts, ``allocation`` (default: the optimum)."""
    shares = bandit_allocation(variance, weight)
    error = np.array(variance, dtype=float) * (1.0 if weight is None else np.asarray(weight))
    if allocation is not None:
        given = np.asarray(allocation, dtype=float)
        if given.shape != error.shape or not (given >= 0).all() or not given.sum() > 0:
            raise ArgumentError(
                "the allocation is not one share >= 0 per state",
                f"give {error.size} shares or counts, not all of them 0",
            )
        shares = given / given.sum()
    if (error[shares == 0] > 0).any():
        return np.inf
    seen = shares > 0
    return float(np.sum(error[seen] / shares[seen]) / error.size)
