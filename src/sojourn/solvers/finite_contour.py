r"""The mean inverse number of visits for one horizon N, from 16 points of the complex plane.

With R(w) = (I − wP)⁻¹ the generating functions of :mod:`sojourn.solvers.finite_series` are

    F_s(w) = 1 − 1/R_ss,        H_s(w) = (μ₀ᵀR − μ₀ᵀ)_s / R_ss,

so one matrix inverse gives every state's at one point w, and its gradient costs one product
more. The coefficient of wᴺ of a generating function Φ is

    (1/2πi) ∮ Φ(w) w^{−N−1} dw = (1/2πiN) ∫ Φ(e^{−p/N}) eᵖ dp,       w = e^{−p/N},

over a vertical line. Where the only singularities that matter lie on the ray w ≥ 1 (p ≤ 0), the
line may be bent into the parabola p = μ(1 + iu)², on which eᵖ dies out: the trapezoidal rule
with M points and μ = πM/12, Δu = 3/M then has an error of e^{−2πM/3} (Weideman and Trefethen,
2007).

The others are left out on the way: a pole or branch point w_j elsewhere contributes about
|w_j|^{−N}. They are the reciprocal eigenvalues of P and of P without s. So the rule is exact to
rounding for a chain that mixes well within N moves and *wrong* for a nearly periodic one. That
can't be seen from the result; :func:`trusted` compares with what is known exactly at little
cost: the N-step probabilities of return and of arrival (poles of R) and the probability of no
visit (zeros of R_ss), both by repeated squaring, and that log R_ss stays on its branch.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.chains.sparse import SparseElimination, SparseShape, TooMuchFill
from sojourn.errors import SolverFailure
from sojourn.solvers import finite_series
from sojourn.solvers.finite_series import GEOMETRIC, Array, kernel, survival_sparse

POINTS = 16
"""Points M on the upper half of the parabola: e^{−2πM/3} = 3e-15."""

AGREED, PER_MOVE, LOOSEST = 1e-11, 1e-15, 1e-10
"""How closely exact probabilities have to be reproduced: a pole that was left out may add ten times
as much to E[1/T], relative to it. Many moves need more for their rounding, up to the last."""

SMALL = 32
"""Up to this many states our own elimination is as fast as LAPACK, and more accurate."""

SAMPLE_STEPS, FEWEST = 32_000, 4
"""Steps, over all of them, of the states on which a large chain is compared with the series."""

SLOW = 150
"""Steps within which survival is geometric on a random graph, where factors fill, and the
series is short."""

PER_STEP = 1000
"""Steps of the series, per entry of P and state, that take as long as one multiplication of the
factors at all nodes."""

WIDE = 1e-4
"""A gap 1 − w that LAPACK may meet in larger chains: it loses as many digits as the gap has."""


def _bent_line() -> tuple[NDArray, NDArray]:
    """Nodes p_k on the upper half of the parabola, and their weights."""
    step, stretch = 3.0 / POINTS, np.pi * POINTS / 12.0
    u = (np.arange(POINTS) + 0.5) * step
    p = stretch * (1 + 1j * u) ** 2
    return p, 2 * step * stretch / np.pi * np.exp(p) * (1 + 1j * u)


NODES, WEIGHTS = _bent_line()


@lru_cache
def parabola(moves: int) -> tuple[NDArray, NDArray]:
    """Gaps 1 − w_k and weights c_k: the coefficient of w^moves of Φ is about Re Σ c_k Φ(w_k)."""
    return -np.expm1(NODES / -moves), WEIGHTS / moves


@njit(cache=True, nogil=True)
def _inverse(z: complex) -> complex:
    """1/z, and NaN for 1/0, where compiled complex division would raise: the check refuses it."""
    return 1.0 / z if z != 0.0 else np.nan * z


@njit(cache=True, nogil=True)
def _resolvent(P: Array, gap: complex) -> NDArray[np.complex128]:
    """(I − wP)⁻¹ at w = 1 − gap.

    While P or the gap is small, by elimination without subtraction: P has row sums 1, so a pivot
    is the gap plus the row's other entries, and every update adds. Near w = 1, where I − wP is
    nearly singular, nothing is lost, and rounding in the rows of P doesn't leak probability.
    """
    n = P.shape[0]
    if n > SMALL and gap.real > WIDE:
        return np.ascontiguousarray(np.linalg.inv(np.eye(n) - (1.0 - gap) * P))
    others = (1.0 - gap) * P
    excess = np.full(n, gap)
    R = np.eye(n, dtype=np.complex128)
    for k in range(n):
        pivot = excess[k]
        for j in range(k + 1, n):
            pivot += others[k, j]
        pivot = _inverse(pivot)
        excess[k] *= pivot
        for j in range(k + 1, n):
            others[k, j] *= pivot
        # Further to the right R is still the identity.
        for j in range(k + 1):
            R[k, j] *= pivot
        for i in range(n):
            factor = others[i, k]
            if i == k or factor == 0.0:
                continue
            excess[i] += factor * excess[k]
            for j in range(k + 1, n):
                others[i, j] += factor * others[k, j]
            for j in range(k + 1):
                R[i, j] += factor * R[k, j]
    return R


@njit(cache=True, nogil=True)
def mean_inverse_at(
    P: Array,
    start: Array,
    gaps: NDArray,
    weights: NDArray,
    prior: int,
    mean: Array,
    unvisited: Array,
    arrival: Array,
    back: Array,
) -> bool:
    """E[1/T; T>0], P(no visit), P(there at N), P(back at N) per state; say if the branch held."""
    n = P.shape[0]
    mean[:] = 0.0
    unvisited[:] = 0.0
    arrival[:] = 0.0
    back[:] = 0.0
    held = True
    a, diagonal = np.empty((2, n), dtype=np.complex128)
    for k in range(gaps.size):
        R = _resolvent(P, gaps[k])
        for s in range(n):
            a[s] = -start[s]
            diagonal[s] = R[s, s]
        for i in range(n):
            for s in range(n):
                a[s] += start[i] * R[i, s]
        node = gaps[k], weights[k], abs(weights[0])
        held &= _add_node(node, a, diagonal, prior, mean, unvisited, arrival, back)
    return held


@njit(cache=True, nogil=True)
def _add_node(
    node: tuple[complex, complex, float],
    a: NDArray,
    diagonal: NDArray,
    prior: int,
    mean: Array,
    unvisited: Array,
    arrival: Array,
    back: Array,
) -> bool:
    """Add what one node contributes, from a = μ₀ᵀR − μ₀ᵀ and R_ss there."""
    d, c, largest = node
    held, scale = True, c / d
    for s in range(a.size):
        g = _inverse(diagonal[s])
        H = a[s] * g
        value, _ = kernel(1.0 - g, g, prior)
        mean[s] += (scale * (prior + H * value)).real
        unvisited[s] += (scale * (1.0 - H)).real
        arrival[s] += (c * a[s]).real
        back[s] += (c * (diagonal[s] - 1.0)).real
        # Im w > 0 on the upper half, and F has positive coefficients: R_ss starts out in the
        # upper half-plane, and log R_ss is the principal one until R_ss has left it through the
        # negative axis and is found in the third quadrant.
        astray = diagonal[s].imag * d.imag > 0.0 and diagonal[s].real < 0.0
        if astray and abs(c) * abs(value) > 1e-10 * largest:
            held = False
    return held


@njit(cache=True, nogil=True)
def _onward(row: Array, power: Array, out: Array) -> None:
    """out = row·power, where a call of BLAS would cost more than the work."""
    out[:] = 0.0
    for i in range(row.size):
        for j in range(row.size):
            out[j] += row[i] * power[i, j]


@njit(cache=True, nogil=True)
def _carried(row: Array, power: Array, moves: int, total: Array, square: Array) -> Array:
    """``row`` after so many moves by ``power``, by repeated squaring. ``total``, if it has rows,
    is moved along; ``row``, ``power`` and ``square`` are overwritten."""
    out = np.empty_like(row)
    while moves:
        if moves & 1:
            _onward(row, power, out)
            row, out = out, row
            if total.shape[0]:
                total[:] = np.dot(total, power)
        moves >>= 1
        if moves:
            np.dot(power, power, square)
            power, square = square, power
    return row


@njit(cache=True, nogil=True)
def trusted(
    P: Array,
    start: Array,
    moves: int,
    unvisited: Array,
    arrival: Array,
    back: Array,
    tolerance: float,
) -> bool:
    """Whether the contour reproduces the exact probabilities within ``tolerance``; on the way
    ``unvisited`` is overwritten with the exact ones."""
    n = P.shape[0]
    power, square, total = P.copy(), np.empty_like(P), np.eye(n)
    there = _carried(start.copy(), power, moves, total, square)
    for s in range(n):
        if not (
            abs(there[s] - arrival[s]) <= tolerance and abs(total[s, s] - back[s]) <= tolerance
        ):
            return False
    nothing = np.empty((0, n))
    for s in range(n):
        # P(no visit of s): walk without the arrivals in s, and see what is left.
        power[:] = P
        power[:, s] = 0.0
        exact = _carried(start.copy(), power, moves, nothing, square).sum()
        if not abs(exact - unvisited[s]) <= tolerance:
            return False
        unvisited[s] = exact
    return True


def mean_inverse(P: Array, start: Array, moves: int, prior: int) -> tuple[Array, Array] | None:
    """E[1/T; T>0] and P(no visit) for every state after ``moves`` moves, or None if unsafe."""
    n = P.shape[0]
    gaps, weights = parabola(moves)
    mean, unvisited, arrival, back = np.empty((4, n))
    if not mean_inverse_at(P, start, gaps, weights, prior, mean, unvisited, arrival, back):
        return None
    tolerance = min(max(AGREED, PER_MOVE * moves), LOOSEST)
    if not trusted(P, start, moves, unvisited, arrival, back, tolerance):
        return None
    return mean, unvisited


# -- large sparse chains --------------------------------------------------------------------


def sparse_mean_inverse(
    P: Any, start: Array, moves: list[int], prior: int
) -> tuple[Array, Array] | None:
    """:func:`mean_inverse` of a CSR chain for several horizons (rows): of R only the diagonal
    and two rows μᵀR are computed. None if it is unsafe, or no faster than the series.

    What can't be checked for every state at little cost is checked otherwise. Poles of R: the
    distribution after N moves is compared from the start and from a vector of random signs,
    which no eigenvector is orthogonal to. Zeros of R_ss: on a sample of states the result
    itself is compared with that of the series.
    """
    n, longest = start.size, max(moves)
    rng = np.random.default_rng(0)
    sample = rng.choice(n, min(n, max(FEWEST, SAMPLE_STEPS // longest)), replace=False)
    x, y = np.empty((2, sample.size, longest + 1))
    made = survival_sparse(P.indptr, P.indices, P.data, start, sample, x, y, GEOMETRIC)
    if made < SLOW:
        return None
    try:
        shape = SparseShape(P, n * P.nnz * made / (PER_STEP * len(moves)))
    except TooMuchFill:
        return None
    exact = finite_series.mean_inverse(x, y, prior, np.array(moves))
    signs = rng.choice([-1.0, 1.0], n)
    rows = _rows_after(P, np.array([start, signs]), moves)
    mean, unvisited = np.empty((2, len(moves), n))
    for k, horizon in enumerate(moves):
        found = _sparse_horizon(P, start, signs, horizon, prior, shape)
        if found is None:
            return None
        mean[k], unvisited[k], there = found
        # Where a state can be missed the loss also has its P(no visit), and is relative to both.
        missed = x[:, horizon]
        scale = exact[:, k] if prior else exact[:, k] + missed
        near = np.abs(mean[k, sample] - exact[:, k]) <= LOOSEST * scale
        near &= np.abs(unvisited[k, sample] - missed) <= LOOSEST
        if not (near.all() and (np.abs(there - rows[k]) <= LOOSEST).all()):
            return None
    return mean, np.clip(unvisited, 0.0, 1.0)


def _sparse_horizon(
    P: Any, start: Array, signs: Array, moves: int, prior: int, shape: SparseShape
) -> tuple[Array, Array, Array] | None:
    """E[1/T; T>0], P(no visit), and the rows start·P^N and signs·P^N; None if the branch is
    lost."""
    gaps, weights = parabola(moves)
    n = start.size

    def at(k: int) -> tuple[NDArray, NDArray, NDArray] | None:
        # At nodes with |w| > 1 a walk that hardly spreads out has weights |w|ᵗ on both sides of
        # a pivot, which cancel to nothing or leave the range of numbers.
        try:
            with np.errstate(all="ignore"):
                R = SparseElimination((1.0 - gaps[k]) * P, np.full(n, gaps[k]), shape=shape)
                a, b = R.solve_left(start) - start, R.solve_left(signs) - signs
                return a, R.inverse_diagonal(), b
        except (ZeroDivisionError, SolverFailure):
            return None

    mean, unvisited, there, _, signed = sums = np.zeros((5, n))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, np.errstate(all="ignore"):
        for k, found in enumerate(pool.map(at, range(gaps.size))):
            if found is None:
                return None
            a, diagonal, b = found
            node = gaps[k], weights[k], abs(weights[0])
            if not _add_node(node, a, diagonal, prior, *sums[:4]):
                return None
            signed += (weights[k] * b).real
    return mean, unvisited, np.array([there, signed])


def _rows_after(P: Any, rows: Array, moves: list[int]) -> Array:
    """``rows``·P^N for each N of ``moves``."""
    forward, columns = P.T.tocsr(), np.ascontiguousarray(rows.T)
    result, t = np.empty((len(moves), *rows.shape)), 0
    for k in np.argsort(moves):
        while t < moves[k]:
            columns = forward @ columns
            t += 1
        result[k] = columns.T
    return result


# -- gradient -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def price_gradient(
    P: Array,
    start: Array,
    gaps: NDArray,
    weights: NDArray,
    prior: int,
    price: Array,
    unvisited: Array,
    gradient: Array,
) -> float:
    """Σ price·E[1/T; T>0] + unvisited·P(T=0), and its gradient in P, unchecked.

    dR = w R dP R, so with φ_a, φ_R the slopes in a_s = (μ₀ᵀR − μ₀ᵀ)_s and in R_ss,
    ∂/∂P = Re Σ_k w [ (R diag(φ_R) R)ᵀ + (μ₀ᵀR)ᵀ (R φ_a)ᵀ ].
    """
    n = P.shape[0]
    total = 0.0
    gradient[:] = 0.0
    scaled = np.empty((n, n), dtype=np.complex128)
    by_a = np.empty(n, dtype=np.complex128)
    left = np.empty(n, dtype=np.complex128)
    for k in range(gaps.size):
        w = 1.0 - gaps[k]
        R = _resolvent(P, gaps[k])
        c = weights[k] / gaps[k]
        for s in range(n):
            left[s] = 0.0
            for i in range(n):
                left[s] += start[i] * R[i, s]
        for s in range(n):
            g = _inverse(R[s, s])
            H = (left[s] - start[s]) * g
            value, slope = kernel(1.0 - g, g, prior)
            by_H = price[s] * value - (0.0 if prior else unvisited[s])
            level = price[s] if prior else unvisited[s]
            total += (c * (level + H * by_H)).real
            by_a[s] = c * by_H * g
            by_R = c * (price[s] * H * slope * g - by_H * H) * g
            for j in range(n):
                scaled[s, j] = by_R * R[s, j]
        product = np.dot(R, scaled)
        right = np.dot(R, by_a)
        for i in range(n):
            for j in range(n):
                gradient[i, j] += (w * (product[j, i] + left[i] * right[j])).real
    return total
