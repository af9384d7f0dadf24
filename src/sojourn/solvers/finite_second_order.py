r"""The mean inverse number of visits to second order, cheap for any size and horizon.

Expanding 1/T around m = E[T] with Var T ≈ N τ²,

    E[1/T] ≈ 1/m + N τ²/m³,      m = prior + Σ_{t=1..N} (μ₀ Pᵗ)_s   exactly,
    τ² = η (2 Z_ss − 1 − η),     Z = (I − P + 1ηᵀ)⁻¹ the fundamental matrix.

It is a value, not a bound: its error is O((Nη)⁻²) relative, and it means nothing for a state
with only a handful of visits. What it costs is the diagonal of Z, for which a chain factorises
I − P. Large chains whose factors would fill are expanders as a rule and mix within a few dozen
steps. For these

    Z_ss = η_s + Σ_t (p⁽ᵗ⁾_ss − η_s) = η_s E_η[T_s⁺],

and both sides are sums that may be cut. On the left the probabilities of return within four
steps come from products of sparse matrices; whether they are enough is seen on a few dozen states
by the right: the mean first arrival from stationarity, by survival functions that have become
geometric. Where they aren't, every state's is found that way.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.chains import Chain
from sojourn.solvers.finite_series import Array, survival_sparse

DENSE = 1500
"""Up to this many states a chain inverts densely, in about a second."""

LONG = 30
"""About log N: what doubling costs more than one product of matrices."""

STEPS = 128
PROBE = 32
BLOCK = 32
ROWS = 1000
TAIL = 1e-6
"""Accuracy of first arrivals."""

ENOUGH = 1e-4
"""Relative accuracy of Z, which enters a correction only."""


def expected_visits(P: Any, start: Array, moves: list[int]) -> Array:
    """Σ_{t=1..N} μ₀ Pᵗ for every N in ``moves``, in any order (one row each)."""
    if isinstance(P, np.ndarray) and max(moves) > 2 * len(moves) * start.size * LONG:
        return np.array([_by_doubling(P, start, N) for N in moves])
    forward = np.ascontiguousarray(P.T) if isinstance(P, np.ndarray) else P.T.tocsr()
    row, total, t = start, np.zeros_like(start), 0
    result = np.empty((len(moves), start.size))
    for k in np.argsort(moves):
        while t < moves[k]:
            row = forward @ row
            total += row
            t += 1
        result[k] = total
    return result


def _by_doubling(P: Array, start: Array, moves: int) -> Array:
    """Σ_{t=1..N} μ₀ Pᵗ from the powers P^(2ᵏ) and the sums of 2ᵏ of them: S³ log N."""
    power, several = P, P
    row, total = start, np.zeros_like(start)
    while moves:
        if moves & 1:
            total, row = total + row @ several, row @ power
        moves >>= 1
        if moves:
            power, several = power @ power, several + power @ several
    return total


def _first_arrivals(P: Any, eta: Array, states: NDArray[np.int64]) -> Array | None:
    """E_η[T_s⁺] by summing the survival function, or None if it isn't geometric early on."""
    x, y = np.empty((2, states.size, STEPS + 1))
    made = survival_sparse(P.indptr, P.indices, P.data, eta, states, x, y, TAIL)
    if made == STEPS:
        return None
    # A state that is never visited has a survival function of 1 and no mean arrival.
    last, ratio = x[:, made], x[:, made] / np.where(x[:, made - 1] > 0, x[:, made - 1], 1)
    return x[:, :made].sum(axis=1) + last / np.where(eta[states] > 0, 1 - ratio, 1)


def _few_returns(P: Any, eta: Array) -> Array:
    """η + Σ_{t=0..4} (p⁽ᵗ⁾_ss − η): rows of P² meet columns of P and of P²."""
    transposed = P.T.tocsr()
    total = 1.0 + P.diagonal() - 4.0 * eta
    for first in range(0, eta.size, ROWS):
        rows = slice(first, first + ROWS)
        two, back = P[rows] @ P, transposed[rows]
        returns = two.diagonal(k=first) if two.shape[0] else np.zeros(0)
        for arrivals in (back, back @ transposed):
            returns = returns + np.asarray(two.multiply(arrivals).sum(axis=1)).ravel()
        total[rows] += returns
    return total


def visit_variance(chain: Chain, eta: Array) -> Array:
    """τ² of every state of a chain with one recurrent class."""
    P, n = chain.transitions, eta.size
    if n <= DENSE or isinstance(P, np.ndarray):
        return chain.visit_variance()
    probe = np.linspace(0, n - 1, min(n, PROBE)).astype(np.int64)
    first = _first_arrivals(P, eta, probe)
    if first is None:
        return chain.visit_variance()
    Z = _few_returns(P, eta)
    if (np.abs(eta[probe] * (Z[probe] - eta[probe] * first)) > ENOUGH * eta[probe]).any():
        blocks = [np.arange(k, min(k + BLOCK, n)) for k in range(0, n, BLOCK)]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            arrivals = list(pool.map(lambda states: _first_arrivals(P, eta, states), blocks))
        known = [mean for mean in arrivals if mean is not None]
        if len(known) < len(blocks):
            return chain.visit_variance()
        Z = eta * np.concatenate(known)
    return np.maximum(eta * (2 * Z - 1 - eta), 0.0)


def mean_inverse(chain: Chain, start: Array, moves: list[int], prior: int) -> Array:
    """1/m + Nτ²/m³, one row per horizon."""
    mean = prior + expected_visits(chain.transitions, start, moves)
    tau2 = visit_variance(chain, chain.stationary())
    return 1 / mean + np.asarray(moves)[:, None] * tau2 / mean**3
