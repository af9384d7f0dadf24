"""Which linear algebra a chain gets.

    dense elimination    a dense array, or few states
    sparse elimination   graphs with small separators: maps, roads, rivers, anything drawn on
                         paper; 10⁶ sites in seconds
    iteration            large graphs without: random ones, whose walks mix within a few steps

Both eliminations are right to nearly every digit, however slowly the chain mixes, so they are
preferred wherever memory allows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from sojourn.chains.elimination import DenseElimination
from sojourn.chains.iterative import collect_iterative, stationary_iterative
from sojourn.chains.sparse import MUCH_WORK, SparseElimination, TooMuchFill
from sojourn.errors import SolverFailure

FEW_STATES = 400
WIDE = 3000
ORDERABLE = 20_000

Vector = NDArray[np.float64]


def stationary(P: Any) -> Vector:
    """η P = η, Σ η = 1 of an irreducible chain."""
    if isinstance(P, np.ndarray) or P.shape[0] <= FEW_STATES:
        return DenseElimination(dense(P)).stationary()
    return _first_that_works(
        P,
        lambda most_work: SparseElimination(P, solvable=False, most_work=most_work).stationary(),
        lambda: stationary_iterative(P),
    )


def absorb(P: Any, exits: Vector, b: Vector) -> Vector:
    """x = (I − P)⁻¹ b for a P that loses mass, P·1 + exits = 1: what a walk collects before it
    leaves, when it collects b(s) > 0 at each visit to s."""
    if isinstance(P, np.ndarray) or P.shape[0] <= FEW_STATES:
        return DenseElimination(dense(P), exits).solve(b)
    return _first_that_works(
        P,
        lambda most_work: SparseElimination(P, exits, most_work=most_work).solve(b),
        lambda: collect_iterative(P, b),
    )


def _first_that_works(
    P: Any, eliminate: Callable[[float], Vector], iterate: Callable[[], Vector]
) -> Vector:
    """Elimination where it is cheap, else iteration, else elimination where it is possible."""
    wide = is_wide(P)
    if not wide:
        with suppress(TooMuchFill):
            return eliminate(MUCH_WORK)
    try:
        return iterate()
    except SolverFailure:
        # The minimum-degree order of a wide graph takes time that grows like n².
        if wide and P.shape[0] > ORDERABLE:
            raise
        with suppress(TooMuchFill):
            return eliminate(np.inf)
        raise


def is_wide(P: Any) -> bool:
    """Whether the chain's graph looks like an expander: more than a tree, and the states at
    equal distance from a far one are many, so that no small set separates it."""
    both = csr_matrix(P + P.T)
    if both.nnz < 2.2 * P.shape[0] + both.diagonal().astype(bool).sum():
        return False
    _, far = _levels(both.indptr, both.indices, 0)
    width, _ = _levels(both.indptr, both.indices, far)
    return bool(width > WIDE)


def dense(P: Any) -> Vector:
    """The matrix as a dense array, itself if it is one."""
    return P if isinstance(P, np.ndarray) else P.toarray()


@njit(cache=True, nogil=True)
def _levels(indptr, indices, start):  # type: ignore[no-untyped-def]
    """Breadth first from ``start``: the size of the largest level, and a last node."""
    n = indptr.size - 1
    queue = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    queue[0] = start
    seen[start] = True
    begin, end, largest = 0, 1, 1
    while begin < end:
        stop = end
        for k in range(begin, stop):
            for e in range(indptr[queue[k]], indptr[queue[k] + 1]):
                if not seen[indices[e]]:
                    seen[indices[e]] = True
                    queue[end] = indices[e]
                    end += 1
        begin = stop
        largest = max(largest, end - stop)
    return largest, queue[end - 1]
