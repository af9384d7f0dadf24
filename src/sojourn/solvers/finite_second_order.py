r"""The mean inverse number of visits to second order, cheap for any size and horizon.

Expanding 1/T around m = E[T] with Var T ≈ N τ²,

    E[1/T] ≈ 1/m + N τ²/m³,      m = prior + Σ_{t=1..N} (μ₀ Pᵗ)_s   exactly,
    τ² = η (2 Z_ss − 1 − η),     Z = (I − P + 1ηᵀ)⁻¹ the fundamental matrix.

It is a value, not a bound: its error is O((Nη)⁻²) relative, and it means nothing for a state
with only a handful of visits. What it costs is the diagonal of Z:

    small       one dense inverse;
    mixing      Z_ss = η_s E_η[T_s⁺], the mean first arrival from stationarity, summed from
                survival functions that have become geometric;
    otherwise   a sparse LU of I − P without one state r, G = (I − P₋ᵣ)⁻¹ and
                Z_ss = G_ss − (ηᵀG)_s + η_s (1 + ηᵀG1 − (G1)_s).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from sojourn.solvers.finite_series import Array, survival_sparse

DENSE = 1500
"""Up to this many states the dense inverse takes about a second."""

PROBE_STEPS = 512
PROBE_STATES = 32
BLOCK = 32


def _transposed(P: Any) -> Any:
    return np.ascontiguousarray(P.T) if isinstance(P, np.ndarray) else P.T.tocsr()


def expected_visits(P: Any, start: Array, moves: list[int]) -> Array:
    """Σ_{t=1..N} μ₀ Pᵗ for every N in ``moves``, which must ascend (one row each)."""
    forward = _transposed(P)
    row, total, t = start, np.zeros_like(start), 0
    rows = []
    for stop in moves:
        while t < stop:
            row = forward @ row
            total = total + row
            t += 1
        rows.append(total.copy())
    return np.array(rows)


def _first_arrivals(P: Any, eta: Array, states: np.ndarray) -> Array | None:
    """E_η[T_s⁺] by summing the survival function, or None if it isn't geometric early on."""
    x = np.empty((states.size, PROBE_STEPS + 1))
    y = np.empty_like(x)
    made = survival_sparse(P.indptr, P.indices, P.data, eta, states, x, y, 1e-10)
    if made == PROBE_STEPS:
        return None
    # A state that is never visited has a survival function of 1 and no mean arrival.
    last, ratio = x[:, made], x[:, made] / np.where(x[:, made - 1] > 0, x[:, made - 1], 1)
    return x[:, :made].sum(axis=1) + last / np.where(eta[states] > 0, 1 - ratio, 1)


def fundamental_diagonal(P: Any, eta: Array) -> Array:
    """diag Z for a chain with one recurrent class and stationary distribution ``eta``."""
    n = eta.size
    if n <= DENSE or isinstance(P, np.ndarray):
        dense = P if isinstance(P, np.ndarray) else P.toarray()
        return np.diag(np.linalg.inv(np.eye(n) - dense + eta)).copy()
    probe = np.linspace(0, n - 1, PROBE_STATES).astype(np.int64)
    if _first_arrivals(P, eta, probe) is not None:
        arrivals = np.empty(n)
        for first in range(0, n, BLOCK):
            states = np.arange(first, min(first + BLOCK, n))
            mean = _first_arrivals(P, eta, states)
            if mean is None:
                break
            arrivals[states] = mean
        else:
            return eta * arrivals
    return _fundamental_by_elimination(P, eta)


def _fundamental_by_elimination(P: Any, eta: Array) -> Array:
    n = eta.size
    pinned = int(np.argmax(eta))
    keep = np.flatnonzero(np.arange(n) != pinned)
    system = (sp.identity(n, format="csr") - P)[keep][:, keep].tocsc()
    # I − P₋ᵣ is an M-matrix: elimination on the diagonal is stable in any symmetric order, and
    # off-diagonal pivots would only spoil the order that keeps the factors sparse.
    factor: Any = spla.splu(
        system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    diagonal = np.empty(n - 1)
    for first in range(0, n - 1, 64):
        states = np.arange(first, min(first + 64, n - 1))
        unit = np.zeros((n - 1, states.size))
        unit[states, states - first] = 1.0
        diagonal[states] = factor.solve(unit)[states, states - first]
    row_sum = factor.solve(np.ones(n - 1))
    column = factor.solve(eta[keep], trans="T")
    mean_wait = float(eta[keep] @ row_sum)
    result = eta * (1.0 + mean_wait)
    result[keep] += diagonal - column - eta[keep] * row_sum
    return result


def stationary_by_powers(P: Any, steps: int = 400, tolerance: float = 1e-13) -> Array | None:
    """η of a chain that mixes within ``steps``, where a factorisation would fill; else None."""
    forward = _transposed(P)
    eta = np.full(P.shape[0], 1.0 / P.shape[0])
    for _ in range(steps):
        following = forward @ eta
        if np.all(np.abs(following - eta) <= tolerance * following):
            return following / following.sum()
        eta = following
    return None


def mean_inverse(P: Any, eta: Array, start: Array, moves: list[int], prior: int) -> Array:
    """1/m + Nτ²/m³, one row per horizon."""
    order = np.argsort(moves)
    mean = np.empty((len(moves), eta.size))
    mean[order] = prior + expected_visits(P, start, [moves[k] for k in order])
    tau2 = np.maximum(eta * (2 * fundamental_diagonal(P, eta) - 1 - eta), 0.0)
    return 1 / mean + np.asarray(moves)[:, None] * tau2 / mean**3
