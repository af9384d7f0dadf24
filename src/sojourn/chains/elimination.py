"""Elimination without subtraction (Grassmann, Taksar, Heyman 1985).

Eliminating a state j from a chain leaves the chain *watched outside j*, again a Markov chain:

    P(i, l) ← P(i, j) P(j, l) / d_j + P(i, l),      d_j = Σ_{l ≠ j} P(j, l).

Gaussian elimination on I − P does the same with d_j = 1 − P(j, j), where a nearly closed set of
states cancels every digit. Summing the ways out instead uses additions, products and quotients
of nonnegative numbers only, so every result is right to a few units in its own last place,
however near to reducible the chain is. The diagonal is never read.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 64


def stationary_dense(P: NDArray[np.float64]) -> NDArray[np.float64]:
    """η P = η of an irreducible chain. ``P`` is overwritten."""
    matrix = np.ascontiguousarray(P)
    eta = np.empty(matrix.shape[0])
    _stationary(matrix, eta)
    return eta / eta.sum()


@njit(cache=True, nogil=True)
def _stationary(P, eta):  # type: ignore[no-untyped-def]
    """Right-looking blocked elimination; the trailing update is one matrix product."""
    n = P.shape[0]
    for start in range(0, n - 1, BLOCK):
        stop = min(start + BLOCK, n)
        for j in range(start, min(stop, n - 1)):
            out = 0.0
            for i in range(j + 1, n):
                out += P[j, i]
            for i in range(j + 1, n):
                if P[i, j] != 0.0:
                    P[i, j] /= out
                    factor = P[i, j]
                    last = n if i < stop else stop
                    for k in range(j + 1, last):
                        P[i, k] += factor * P[j, k]
        if stop < n:
            left = P[stop:, start:stop].copy()
            right = P[start:stop, stop:].copy()
            P[stop:, stop:] += left @ right
    eta[n - 1] = 1.0
    for j in range(n - 2, -1, -1):
        total = 0.0
        for i in range(j + 1, n):
            total += eta[i] * P[i, j]
        eta[j] = total
        # A chain with a steep potential spans more than the range of a double.
        if total > 1e100:
            for i in range(j, n):
                eta[i] /= total
