"""Elimination without subtraction, dense (Grassmann, Taksar, Heyman 1985).

Eliminating a state j from a chain leaves the chain *watched outside j*, again a Markov chain:

    P(i, l) ← P(i, l) + P(i, j)/out(j) · P(j, l),      out(j) = exit(j) + Σ_{l ≠ j} P(j, l),

where ``exit(s)`` is the chance of leaving the states under consideration for good (zero for a
whole chain). Gaussian elimination on I − P does the same with out(j) = 1 − P(j, j), and where
a set of states is nearly closed that difference cancels every digit. Summing the ways out
instead adds, multiplies and divides nonnegative numbers only: every result is right to a few
units in its own last place, however near to reducible the chain is. The diagonal is never read.

    stationary     η(j) = Σ_{i > j} η(i) P(i, j)/out(j), backwards from the last state
    absorption     x = (I − P)⁻¹ b with b ≥ 0: b(i) ← b(i) + P(i, j)/out(j) · b(j) on the way,
                   then x(j) = (b(j) + Σ_{l > j} P(j, l) x(l))/out(j) backwards

After elimination the strict lower triangle holds the multipliers P(i, j)/out(j), the strict
upper one the rows P(j, l): together I − P = (I − lower)(diag out − upper).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from sojourn.errors import SolverFailure

BLOCK = 96


class DenseElimination:
    """I − P of a dense P ≥ 0 with the given exits, factored. Without exits it is singular."""

    def __init__(self, P: NDArray[np.float64], exits: NDArray[np.float64] | None = None) -> None:
        n = P.shape[0]
        self._matrix = np.array(P, order="C")
        self._out = np.ones(n)
        leaving = np.zeros(n) if exits is None else np.array(exits)
        eliminate(self._matrix, leaving, self._out, n if exits is not None else n - 1)
        check_escape(self._out)

    def stationary(self) -> NDArray[np.float64]:
        """η P = η, Σ η = 1 of an irreducible chain (factored without exits)."""
        eta = np.empty(self._out.size)
        _substitute(self._matrix, eta)
        return eta / eta.sum()

    def solve(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """x = (I − P)⁻¹ b, for one or many right-hand sides (the columns of b)."""
        # The triangles' off-diagonals are negative here, so substitution only adds.
        y = solve_triangular(-self._matrix, b, lower=True, unit_diagonal=True, check_finite=False)
        upper = np.negative(self._matrix)
        np.fill_diagonal(upper, self._out)
        return solve_triangular(upper, y, check_finite=False)


def check_escape(out: NDArray[np.float64]) -> None:
    """Refuse a chain in which a set of states is left with a chance that underflows."""
    if not (out > 0).all():
        raise SolverFailure(
            "some states are left so rarely that the chance is below 1e-308",
            "such a chain is reducible for every practical purpose: remove those transitions",
        )


@njit(cache=True, nogil=True)
def eliminate(P, exits, out, count):  # type: ignore[no-untyped-def]
    """Eliminate the first ``count`` states, in blocks: all that later states see of a block is
    one matrix product."""
    n = P.shape[0]
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        for j in range(start, stop):
            total = exits[j]
            for k in range(j + 1, n):
                total += P[j, k]
            out[j] = total
            for i in range(j + 1, n):
                if P[i, j] != 0.0:
                    factor = P[i, j] / total
                    P[i, j] = factor
                    exits[i] += factor * exits[j]
                    for k in range(j + 1, n if i < stop else stop):
                        P[i, k] += factor * P[j, k]
        if stop < n:
            if n - stop > BLOCK:
                P[stop:, stop:] += P[stop:, start:stop].copy() @ P[start:stop, stop:].copy()
            else:
                for i in range(stop, n):
                    for j in range(start, stop):
                        factor = P[i, j]
                        if factor != 0.0:
                            for k in range(stop, n):
                                P[i, k] += factor * P[j, k]


@njit(cache=True, nogil=True)
def _substitute(P, eta):  # type: ignore[no-untyped-def]
    n = eta.size
    eta[n - 1] = 1.0
    for j in range(n - 2, -1, -1):
        total = 0.0
        for i in range(j + 1, n):
            total += eta[i] * P[i, j]
        eta[j] = total
        # With a steady drift the distribution spans more than the range of a double.
        if total > 1e100:
            eta[j:] /= total
