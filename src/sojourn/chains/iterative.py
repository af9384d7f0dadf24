"""Large chains whose graph is too widely connected for elimination: GMRES.

Such graphs (random ones, say) are expanders: walks on them usually forget where they started
within a few steps, and a Krylov method needs a few dozen products with P. Where they don't, a
small residual proves little: two halves joined by a chance of 1e-12 leave a residual of 1e-12
whatever their masses. So the stationary distribution is computed from two opposite starts,
spread evenly and gathered in one state, and is refused unless both lead to the same answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, identity
from scipy.sparse.linalg import gmres

from sojourn.errors import SolverFailure

RESIDUAL = 1e-13
AGREEMENT = 1e-9
RESTART = 60
CYCLES = 60


def stationary_iterative(P: Any) -> NDArray[np.float64]:
    """η P = η, Σ η = 1 of an irreducible chain, or a refusal."""
    n = P.shape[0]
    flow = csr_matrix(P.T)
    even = _from_start(flow, np.full(n, 1.0 / n))
    gathered = _from_start(flow, np.eye(1, n).ravel())
    apart = float(np.abs(even - gathered).sum())
    if apart > AGREEMENT:
        raise SolverFailure(
            f"the stationary distribution of {n} states is not certain: two ways of computing "
            f"it differ by {apart:.2g}",
            "the chain mixes too slowly for an iteration, and its graph is too widely connected "
            "for elimination; a smaller chain can be given as a dense array",
        )
    return even


def collect_iterative(P: Any, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """x = (I − P)⁻¹ b for a P ≥ 0 that loses mass and b > 0, or a refusal.

    The inverse is nonnegative, so a residual r bounds the error of every entry:
    |error| ≤ (I − P)⁻¹|r| ≤ max|r/b|·x.
    """
    n = P.shape[0]
    matrix = identity(n, format="csr") - csr_matrix(P)
    jacobi = diags(1.0 / matrix.diagonal())
    x = np.zeros(n)
    residual = b
    for _ in range(4):
        step, _ = gmres(
            matrix, residual, M=jacobi, rtol=1e-6, atol=0.0, restart=RESTART, maxiter=CYCLES
        )
        x = x + step
        residual = b - matrix @ x
        error = float(np.abs(residual / b).max())
        if error <= AGREEMENT / 100:
            break
    if not error <= AGREEMENT:
        raise SolverFailure(
            f"a linear system over {n} states was solved by iteration to {error:.2g} only",
            "the chain mixes too slowly; a smaller chain can be given as a dense array",
        )
    return np.asarray(x)


def _from_start(flow: Any, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correct ``start`` until the flow into each state equals the flow out of it."""
    n = start.size
    balance = identity(n, format="csr") - flow
    jacobi = diags(1.0 / np.maximum(balance.diagonal(), 1e-3))
    eta = start
    for _ in range(3):
        residual = -(balance @ eta)
        if np.abs(residual).sum() <= RESIDUAL:
            break
        step, _ = gmres(
            balance, residual, M=jacobi, rtol=1e-10, atol=RESIDUAL / 2, restart=RESTART,
            maxiter=CYCLES,
        )  # fmt: skip
        # Rounding may leave a rare state below zero. A lazy step is positive and keeps η.
        eta = np.maximum(eta + step, 0.0)
        eta = (eta + flow @ eta) / (2.0 * eta.sum())
    if not np.abs(balance @ eta).sum() <= 100 * RESIDUAL:
        raise SolverFailure(
            f"the stationary distribution of {n} states was not found by iteration",
            "the chain mixes too slowly; a smaller chain can be given as a dense array",
        )
    return eta / eta.sum()
