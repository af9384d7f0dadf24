"""What linear equations allow for x ≥ 0: small convex programs in dense matrices.

An interior point needs an interior, and says nothing useful where there is no point at all.
The first three questions are asked before it starts where that is in doubt, or after it failed;
the last is the general quadratic program that they and others come down to.
"""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]


def largest_support(A: Array) -> NDArray[np.bool_]:
    """The entries that are positive in some solution of Ay = 0, y ≥ 0.

    Sums of solutions are solutions, so one of them is positive in all these entries at once,
    and a linear program finds it: maximise Σu over 0 ≤ u ≤ 1, u ≤ y. An optimal u is 0 or 1,
    because y may be scaled up freely.
    """
    n = A.shape[1]
    # y = u + v with v ≥ 0.
    answer: Any = linprog(
        np.concatenate([-np.ones(n), np.zeros(n)]),
        A_eq=np.hstack([A, A]),
        b_eq=np.zeros(A.shape[0]),
        bounds=[(0.0, 1.0)] * n + [(0.0, None)] * n,
    )
    return np.asarray(answer.x[:n] > 0.5)


def nearest_rows(
    rows: Array, equal: Array, right: Array, reach: Array, low: Array
) -> tuple[float, Array]:
    """The x ≥ 0 with ``equal`` x = ``right`` and ``rows`` x ≥ ``low`` whose row sums are
    closest to 1: the smallest ζ with |rows x − 1| ≤ ζ·reach, and these row sums. ζ is inf
    where no x fulfils the constraints at all."""
    count, n = rows.shape
    wide, one = reach[:, None], np.ones(count)
    answer: Any = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.block([[rows, -wide], [-rows, -wide], [-rows, np.zeros((count, 1))]]),
        b_ub=np.concatenate([one, -one, -low]),
        A_eq=np.hstack([equal, np.zeros((right.size, 1))]),
        b_eq=right,
    )
    if answer.x is None:
        return np.inf, np.full(count, np.nan)
    return float(answer.x[-1]), np.asarray(rows @ answer.x[:-1])


def nearest_in_norm(rows: Array, equal: Array, right: Array, metric: Array, low: Array) -> Array:
    """The row sums that minimise ‖metric·(rows x − 1)‖₂ over x ≥ 0 with ``equal`` x = ``right``
    and ``rows`` x ≥ ``low``."""
    x = quadratic_program(
        metric[:, None] * rows, metric, equal, right,
        np.vstack([-np.eye(rows.shape[1]), -rows]), np.concatenate([np.zeros(rows.shape[1]), -low]),
    )  # fmt: skip
    return np.full(rows.shape[0], np.nan) if x is None else rows @ x


def quadratic_program(
    F: Array, f: Array, A: Array, b: Array, G: Array, h: Array, scale: float = 1.0
) -> Array | None:
    """min ‖Fx − f‖₂² with Ax = b and Gx ≤ h, or ``None`` where no x fulfils these.

    The solver's tolerance of 1e-10 applies to the objective times ``scale``/2.
    """
    n, k = A.shape[1], f.size
    # Variables (x, d) with d = Fx − f: a small distance by its expansion would be rounding.
    matrix = np.zeros((k + b.size + h.size, n + k))
    matrix[:k, :n], matrix[k : k + b.size, :n], matrix[k + b.size :, :n] = F, A, G
    matrix[:k, n:] = -np.eye(k)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(np.diag(np.concatenate([np.zeros(n), np.full(k, scale)]))),
        np.zeros(n + k),
        sp.csc_matrix(matrix),
        np.concatenate([f, b, h]),
        [clarabel.ZeroConeT(k + b.size), clarabel.NonnegativeConeT(h.size)],
        settings,
    )
    answer = solver.solve()
    if "Infeasible" in str(answer.status):
        return None
    return np.asarray(answer.x)[:n]
