r"""The law of the number of visits, for every horizon at once, from survival functions.

A chain P starts from a distribution μ₀ and makes N moves; V_N(s) counts its arrivals in s. The
visits of one state form a renewal process, so two sequences say everything about V_N(s):

    x_t = P_μ₀(no visit of s at moves 1..t)      how long the first visit keeps us waiting
    y_t = P_s (no visit of s at moves 1..t)      how long the next one does

Both come from one recursion, for all states together: with X_0 = 1 (a matrix of ones, one
column per state s) and M(X) = X with its entries (s, s) set to zero,

    X_{t+1} = P M(X_t),       x_t = μ₀ᵀ X_t,     y_t = diag X_t.

Nothing is ever subtracted, so they are exact to rounding for every chain: periodic, reducible
or defective. Once X_{t+1} = ρ X_t entry by entry the rest is geometric, and by positivity a
relative error ε of that stays below kε after k further steps, so the recursion stops early.

With generating functions X(w) = Σ x_t wᵗ, Y(w), put H = 1 − (1−w) X (first visit) and
F = 1 − (1−w) Y =: 1 − g (return). V has P(V = k) ↔ H F^{k−1} (1−F)/(1−w), hence

    Σ_N wᴺ E[1/(1+V_N)]       = (1 − H K₁(F)) / (1−w)
    Σ_N wᴺ E[1/V_N ; V_N > 0] =      H K₀(F)  / (1−w)

    K₁ = Σ_k F^{k−1}/(k(k+1)) = (F + g log g)/F²
    K₀ = (1−F) Σ_k F^{k−1}/k  = −g log g / F

and the coefficients are read off with an FFT on a circle of radius < 1. The sequences may be
cut at the longest horizon: a cut Y is that of a process which returns at the latest one step
later, a true renewal process, so what the FFT folds back is below ``ALIAS`` (proved, not hoped).
The derivatives are coefficients again: ∂E_N/∂x_t = ∓[w^{N−t}] K(F), ∂E_N/∂y_t = ∓[w^{N−t}] H K′(F).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.fft
from numba import njit
from numpy.typing import NDArray

ALIAS = 1e-14
"""What a coefficient may gain by folding, relative to the largest possible one."""

OVERSAMPLING = 6
"""FFT length over horizon: a smaller one costs accuracy, as r^(−N) amplifies the rounding."""

GEOMETRIC = 1e-14
"""Spread of X_{t+1}/X_t below which the survival functions are taken for geometric."""

SAMPLE_BYTES = 1 << 27
"""What the samples of one block of states may take."""

SERIES_BELOW = 0.03
"""|F| below which K is summed as a series: the closed form divides rounding by F³."""

Array = NDArray[np.float64]
States = NDArray[np.int64]


# -- survival functions ---------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _ratio_bounds(
    now: Array, before: Array, states: States, diagonal: Array, k: int
) -> tuple[float, float]:
    """Smallest and largest entry of X_t / X_{t-1} in column k (Collatz–Wielandt)."""
    low, high = np.inf, 0.0
    for i in range(now.shape[0]):
        old = diagonal[k] if i == states[k] else before[i, k]
        if old > 0.0:
            ratio = now[i, k] / old
            low = min(low, ratio)
            high = max(high, ratio)
    return (0.0, 0.0) if high == 0.0 else (low, high)


@njit(cache=True, nogil=True)
def _finish_geometric(
    now: Array,
    before: Array,
    states: States,
    diagonal: Array,
    x: Array,
    y: Array,
    t: int,
    tolerance: float,
) -> bool:
    """Fill x, y beyond t when every column has become geometric; say whether it was done."""
    n_columns = states.size
    for k in range(n_columns):
        low, high = _ratio_bounds(now, before, states, diagonal, k)
        if high - low > tolerance * high:
            return False
    for k in range(n_columns):
        low, high = _ratio_bounds(now, before, states, diagonal, k)
        ratio = 0.5 * (low + high)
        for u in range(t + 1, x.shape[1]):
            x[k, u] = x[k, u - 1] * ratio
            y[k, u] = y[k, u - 1] * ratio
    return True


@njit(cache=True, nogil=True)
def survival_dense(
    P: Array, start: Array, states: States, x: Array, y: Array, tolerance: float
) -> int:
    """Fill x, y (one row per state of ``states``, columns t = 0..N); return the steps made."""
    n_states, n_columns, horizon = P.shape[0], states.size, x.shape[1] - 1
    before = np.ones((n_states, n_columns))
    now = np.ones((n_states, n_columns))
    diagonal = np.ones(n_columns)
    x[:, 0] = 1.0
    y[:, 0] = 1.0
    for t in range(1, horizon + 1):
        before, now = now, before
        for k in range(n_columns):
            diagonal[k] = before[states[k], k]
            before[states[k], k] = 0.0
        np.dot(P, before, now)
        for k in range(n_columns):
            y[k, t] = now[states[k], k]
        x[:, t] = np.dot(start, now)
        if t % 8 or t == horizon:
            continue
        if _finish_geometric(now, before, states, diagonal, x, y, t, tolerance):
            return t
    return horizon


@njit(cache=True, nogil=True)
def survival_sparse(
    indptr: NDArray,
    indices: NDArray,
    data: Array,
    start: Array,
    states: States,
    x: Array,
    y: Array,
    tolerance: float,
) -> int:
    """:func:`survival_dense` for a CSR matrix: the inner loop runs over the columns."""
    n_states, n_columns, horizon = indptr.size - 1, states.size, x.shape[1] - 1
    before = np.ones((n_states, n_columns))
    now = np.ones((n_states, n_columns))
    diagonal = np.ones(n_columns)
    first = np.empty(n_columns)
    x[:, 0] = 1.0
    y[:, 0] = 1.0
    for t in range(1, horizon + 1):
        before, now = now, before
        for k in range(n_columns):
            diagonal[k] = before[states[k], k]
            before[states[k], k] = 0.0
        first[:] = 0.0
        for i in range(n_states):
            row = now[i]
            row[:] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                p = data[e]
                source = before[indices[e]]
                for k in range(n_columns):
                    row[k] += p * source[k]
            if start[i] > 0.0:
                for k in range(n_columns):
                    first[k] += start[i] * row[k]
        for k in range(n_columns):
            x[k, t] = first[k]
            y[k, t] = now[states[k], k]
        if t % 8 or t == horizon:
            continue
        if _finish_geometric(now, before, states, diagonal, x, y, t, tolerance):
            return t
    return horizon


# -- coefficients ---------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def kernel(F: complex, g: complex, prior: int) -> tuple[complex, complex]:
    """K(F) and K′(F), with the sign they have above: K is −K₁ (prior 1) or K₀ (prior 0).

    ``g`` = 1 − F is given apart: near w = 1 it is small and must not come from a difference.
    """
    if abs(F) < SERIES_BELOW:
        value = 0.0 * F
        slope = 0.0 * F
        for k in range(10, -1, -1):
            if prior:
                c = -1.0 / ((k + 1) * (k + 2))
            else:
                c = 1.0 if k == 0 else -1.0 / (k * (k + 1))
            slope = slope * F + value
            value = value * F + c
        return value, slope
    log_g = np.log(g)
    if prior:
        value = -(F + g * log_g) / (F * F)
        return value, (log_g / F - 2.0 * value) / F
    value = -g * log_g / F
    return value, (1.0 + log_g - value) / F


@njit(cache=True, nogil=True)
def _transform(x: NDArray, y: NDArray, one_minus_w: NDArray, prior: int, slopes: bool) -> None:
    """Overwrite the samples of x, y with those of E (in ``x``), or of both slopes."""
    for s in range(x.shape[0]):
        for j in range(x.shape[1]):
            d = one_minus_w[j]
            g = d * y[s, j]
            H = 1.0 - d * x[s, j]
            value, slope = kernel(1.0 - g, g, prior)
            if slopes:
                x[s, j] = -value
                y[s, j] = -H * slope
            else:
                x[s, j] = (prior + H * value) / d


class Circle:
    """Nodes of radius < 1 on which power series are sampled and read off again."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.length = scipy.fft.next_fast_len(OVERSAMPLING * (horizon + 1) + 8, real=True)
        log_radius = np.log(ALIAS) / self.length
        self.powers = np.exp(log_radius * np.arange(horizon + 1))
        angle = -2j * np.pi * np.arange(self.length // 2 + 1) / self.length
        self.one_minus_w = -np.expm1(log_radius + angle)

    def blocks(self, n_rows: int) -> Iterator[slice]:
        """As many rows at a time as their samples' memory allows."""
        size = max(1, SAMPLE_BYTES // (32 * self.length))
        for first in range(0, n_rows, size):
            yield slice(first, first + size)

    def sample(self, coefficients: Array) -> NDArray[np.complex128]:
        """Σ c_t wᵗ at the nodes, row by row."""
        return scipy.fft.rfft(coefficients * self.powers, self.length, axis=-1)

    def read(self, values: NDArray[np.complex128]) -> Array:
        """The coefficients up to the horizon."""
        series = scipy.fft.irfft(values, self.length, axis=-1)
        return series[..., : self.horizon + 1] / self.powers


def mean_inverse(x: Array, y: Array, prior: int, horizons: NDArray[np.int64]) -> Array:
    """E[1/(1+V_N)] (prior 1) or E[1/V_N; V_N > 0] (prior 0) for each N of ``horizons``."""
    circle = Circle(x.shape[-1] - 1)
    result = np.empty((x.shape[0], horizons.size))
    for rows in circle.blocks(x.shape[0]):
        first, between = circle.sample(x[rows]), circle.sample(y[rows])
        _transform(first, between, circle.one_minus_w, prior, False)
        result[rows] = circle.read(first)[:, horizons]
    return result


def mean_inverse_slopes(x: Array, y: Array, prior: int) -> tuple[Array, Array]:
    """∂E_N/∂x_t and ∂E_N/∂y_t for N = the horizon and t = 0..N."""
    circle = Circle(x.shape[-1] - 1)
    by_x, by_y = np.empty_like(x), np.empty_like(y)
    for rows in circle.blocks(x.shape[0]):
        first, between = circle.sample(x[rows]), circle.sample(y[rows])
        _transform(first, between, circle.one_minus_w, prior, True)
        by_x[rows] = circle.read(first)[:, ::-1]
        by_y[rows] = circle.read(between)[:, ::-1]
    return by_x, by_y


# -- gradient -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _advance(P: Array, before: Array, now: Array) -> None:
    """now = P M(before); ``before`` keeps the zeros."""
    for s in range(P.shape[0]):
        before[s, s] = 0.0
    np.dot(P, before, now)


@njit(cache=True, nogil=True)
def pull_back(P: Array, start: Array, by_x: Array, by_y: Array, gradient: Array) -> None:
    """∂L/∂P from ∂L/∂x and ∂L/∂y: the recursion backwards, recomputed from √N checkpoints."""
    n, horizon = P.shape[0], by_x.shape[1] - 1
    stride = int(np.ceil(np.sqrt(horizon + 1.0)))
    n_marks = horizon // stride + 1
    marks = np.empty((n_marks, n, n))
    segment = np.empty((stride + 1, n, n))
    marks[0] = 1.0
    for m in range(1, n_marks):
        segment[0] = marks[m - 1]
        for j in range(stride):
            _advance(P, segment[j], segment[j + 1])
        marks[m] = segment[stride]
    carry = np.zeros((n, n))
    transposed = np.ascontiguousarray(P.T)
    gradient[:] = 0.0
    for m in range(n_marks - 1, -1, -1):
        first = m * stride
        last = min(first + stride, horizon)
        segment[0] = marks[m]
        for j in range(last - first):
            _advance(P, segment[j], segment[j + 1])
        for t in range(last, first, -1):
            for s in range(n):
                carry[s, s] += by_y[s, t]
                for i in range(n):
                    carry[i, s] += start[i] * by_x[s, t]
            gradient += np.dot(carry, segment[t - 1 - first].T)
            carry = np.dot(transposed, carry)
            for s in range(n):
                carry[s, s] = 0.0


def price_gradient(
    P: Array, start: Array, moves: int, prior: int, price: Array, unvisited: Array
) -> tuple[float, Array]:
    """Σ price·E[1/T; T>0] + unvisited·P(T=0) and its gradient in P (dense, any chain)."""
    n = P.shape[0]
    x, y = np.empty((n, moves + 1)), np.empty((n, moves + 1))
    survival_dense(P, start, np.arange(n), x, y, GEOMETRIC)
    value = float(price @ mean_inverse(x, y, prior, np.array([moves]))[:, 0])
    by_x, by_y = mean_inverse_slopes(x, y, prior)
    by_x, by_y = by_x * price[:, None], by_y * price[:, None]
    if not prior:
        value += float(unvisited @ x[:, moves])
        by_x[:, moves] += unvisited
    gradient = np.empty((n, n))
    pull_back(P, start, by_x, by_y, gradient)
    return value, gradient
