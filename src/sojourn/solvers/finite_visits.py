"""The mean inverse number of visits of every state, by whichever way suits chain and horizon.

    contour      a few horizons of a chain that mixes within them: a small one, a larger one over
                 long horizons, or a large map; checked, and refused where the check fails
                                                  (:mod:`sojourn.solvers.finite_contour`)
    quadrature   horizons of millions of moves    (:mod:`sojourn.solvers.finite_quadrature`)
    series       everything else: any chain, all horizons at once, dense or sparse
                                                  (:mod:`sojourn.solvers.finite_series`)

All are exact up to rounding: 1e-9 relative, in practice 1e-11 up to 10⁴ moves, and the error
grows with the number of moves as rounding in P itself does (2e-9 at 10⁶).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from sojourn.solvers import finite_contour, finite_quadrature, finite_series
from sojourn.solvers.finite_series import GEOMETRIC, Array, survival_dense, survival_sparse
from sojourn.solvers.threads import one_thread

METHODS = ("auto", "contour", "series", "quadrature")

CONTOUR_STATES = finite_contour.SMALL
CONTOUR_HORIZONS = 8
CONTOUR_MOVES = 32
"""Within fewer moves hardly any chain mixes well enough; the sequences are short then."""

MAP_STATES, MAP_DEGREE, MAP_HORIZONS = 500, 50, 64
"""From so many states on, with at most so many successors each, and for at most so many horizons
the sparse contour is tried."""

SERIES_MOVES = 200_000
"""Beyond, the series' FFTs take longer than repeated squaring on a chain of moderate size."""

LONG_STATES, LONG_MOVES = 500, 0.005
"""Up to so many states the contour, some S⁴ ns, is still the faster one beyond so many S³ moves."""

QUADRATURE_STATES = 128

SHARED_OUT, BLAS_ALONE = 64, 1000
"""Products of matrices of an order between these BLAS would share out among its threads although
they are too short for that; smaller ones it leaves alone by itself."""

BLOCK_BYTES = 1 << 27
"""What the survival functions of one block of states may take."""

SPARSE_COLUMNS = 32
"""States per sparse block: enough to fill vector registers, few enough to stay in the cache."""


class VisitLaw(NamedTuple):
    """One row per horizon, one column per state."""

    mean_inverse: Array
    """E[1/T; T > 0] with T = prior + visits."""
    unvisited: Array
    """P(no visit)."""
    method: str


def visit_law(
    P: Any, start: Array, moves: list[int], prior: int, method: str = "auto"
) -> VisitLaw | None:
    """The law of the visits after each number of ``moves``, for a dense or CSR chain.

    ``None`` where ``method="contour"`` was asked for and isn't safe.
    """
    n = P.shape[0]
    with one_thread() if SHARED_OUT < n <= BLAS_ALONE else nullcontext():
        if method == "auto":
            law = _quickest(P, start, moves, prior)
            if law is not None:
                return law
            too_long = max(moves) > SERIES_MOVES
            method = "quadrature" if too_long and n <= QUADRATURE_STATES else "series"
        if method == "series":
            return _by_series(P, start, moves, prior)
        if method == "contour" and _is_map(P):
            return _by_sparse_contour(P, start, moves, prior)
        way = finite_contour if method == "contour" else finite_quadrature
        return _each(way.mean_inverse, P, start, moves, prior, method)


def _quickest(P: Any, start: Array, moves: list[int], prior: int) -> VisitLaw | None:
    """By the contour, where that is likely to be quick and turns out to be safe."""
    n, shortest = P.shape[0], min(moves)
    if shortest < CONTOUR_MOVES:
        return None
    long = n <= LONG_STATES and shortest >= LONG_MOVES * n**3
    if len(moves) <= CONTOUR_HORIZONS and (n <= CONTOUR_STATES or long):
        return _each(finite_contour.mean_inverse, P, start, moves, prior, "contour")
    if len(moves) <= MAP_HORIZONS and _is_map(P):
        return _by_sparse_contour(P, start, moves, prior)
    return None


def _by_sparse_contour(P: Any, start: Array, moves: list[int], prior: int) -> VisitLaw | None:
    found = finite_contour.sparse_mean_inverse(P, start, moves, prior)
    return None if found is None else VisitLaw(*found, "contour")


def _is_map(P: Any) -> bool:
    """Large and sparse, as the chains on maps are."""
    return (
        not isinstance(P, np.ndarray)
        and P.shape[0] >= MAP_STATES
        and P.nnz <= MAP_DEGREE * P.shape[0]
    )


def _each(
    way: Any, P: Any, start: Array, moves: list[int], prior: int, name: str
) -> VisitLaw | None:
    dense = P if isinstance(P, np.ndarray) else P.toarray()
    mean, unvisited = np.empty((2, len(moves), start.size))
    for row, horizon in enumerate(moves):
        if horizon == 0:
            mean[row], unvisited[row] = prior, 1.0
            continue
        found = way(dense, start, horizon, prior)
        if found is None:
            return None
        mean[row], unvisited[row] = found
    return VisitLaw(mean, unvisited, name)


def _by_series(P: Any, start: Array, moves: list[int], prior: int) -> VisitLaw:
    n, horizon = P.shape[0], max(moves)
    sparse = not isinstance(P, np.ndarray)
    if sparse and (n <= 48 or P.nnz > n * n / 16):
        P, sparse = P.toarray(), False
    if not sparse:
        P = np.ascontiguousarray(P)
    columns = np.asarray(moves)
    mean, unvisited = np.empty((2, len(moves), n))

    def block(states: np.ndarray) -> None:
        x, y = np.empty((2, states.size, horizon + 1))
        if sparse:
            survival_sparse(P.indptr, P.indices, P.data, start, states, x, y, GEOMETRIC)
        else:
            survival_dense(P, start, states, x, y, GEOMETRIC)
        mean[:, states] = finite_series.mean_inverse(x, y, prior, columns).T
        unvisited[:, states] = x[:, columns].T

    size = max(1, min(n, BLOCK_BYTES // (16 * (horizon + 1))))
    if sparse:
        size = min(size, SPARSE_COLUMNS)
    blocks = [np.arange(first, min(first + size, n)) for first in range(0, n, size)]
    if sparse and len(blocks) > 1:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(block, blocks))
    else:
        for states in blocks:
            block(states)
    return VisitLaw(mean, unvisited, "series")
