"""Eigenvalues of a chain, and how far they are from 1.

A chain with one recurrent class has the eigenvalue 1 once. With δ = 1 − ξ for the others,

    slem            ξ_max = max |ξ|                       (Eq. slem.spectral.gap)
    spectral gap    γ = 1 − ξ_max
    one-sided gap   min δ of the additive reversibilisation (P + P̂)/2, which is reversible

The interesting chains are nearly reducible: some δ is tiny, and 1 − ξ would cancel its digits.
The *deviation matrix* G = (I − P)^# (the group inverse) has the eigenvalues 1/δ, so a tiny δ is
its *largest* eigenvalue; and G is computed from expected visits, without any subtraction
(:mod:`sojourn.chains.elimination`). Hence eigenvalues near 1 are read off G, and the others,
where an absolute error does no harm, off P.

    G = (I − 1η) N (I − 1η),    N(s, t) = expected visits to t from s before state r is hit

for any recurrent r. The most visited one keeps N small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from sojourn.chains.elimination import DenseElimination
from sojourn.chains.graph import strong_labels
from sojourn.chains.linear import FEW_STATES, dense, is_wide
from sojourn.chains.sparse import SparseElimination, TooMuchFill
from sojourn.errors import SolverFailure

LARGE = 1000
"""States beyond which single eigenvalues are computed by ARPACK instead of all of them."""

NEAR_ONE = 1e-3
"""The distance from 1 below which eigenvalues are read off G."""

ARPACK_TOLERANCE = 1e-12

Vector = NDArray[np.float64]


def deviation_matrix(P: Any, eta: Vector) -> Vector:
    """G = (I − P)^# of a chain with one recurrent class, dense."""
    matrix = dense(P)
    rest, hub = _pinned(eta)
    visits = np.zeros_like(matrix)
    inner = DenseElimination(matrix[np.ix_(rest, rest)], matrix[rest, hub])
    visits[np.ix_(rest, rest)] = inner.solve(np.eye(rest.size))
    visits -= eta @ visits
    visits -= np.outer(visits.sum(axis=1), eta)
    return visits


def deviation_diagonal(P: Any, eta: Vector) -> Vector:
    """The diagonal of G; of a sparse chain without its other entries."""
    if isinstance(P, np.ndarray) or eta.size <= FEW_STATES:
        return np.diagonal(deviation_matrix(P, eta))
    rest, hub = _pinned(eta)
    try:
        inner = SparseElimination(P[rest][:, rest], dense(P[rest][:, [hub]]).ravel())
    except TooMuchFill:
        raise SolverFailure(
            f"the visit variance of {eta.size} states would need too much memory",
            "the chain's graph is too widely connected; a smaller chain can be given as a dense "
            "array",
        ) from None
    visits, before, after = np.zeros_like(eta), np.zeros_like(eta), np.zeros_like(eta)
    visits[rest] = inner.inverse_diagonal()
    before[rest] = inner.solve_left(eta[rest])
    after[rest] = inner.solve(np.ones(rest.size))
    return visits - before - eta * after + eta * float(eta @ after)


def spectral_gap(P: Any, eta: Vector, reversible: bool) -> float:
    """γ = 1 − max |ξ| over the eigenvalues other than the first, of an aperiodic chain with
    one recurrent class."""
    n = eta.size
    if n == 1:
        return 1.0
    if n > LARGE:
        return _large_reversible_gap(P, eta) if reversible else _large_gap(P, eta)
    matrix = dense(P)
    solve = np.linalg.eigvalsh if reversible else np.linalg.eigvals
    far: NDArray[Any] = solve(_symmetric(matrix, eta) if reversible else matrix)
    others = np.delete(far, np.argmin(np.abs(1.0 - far)))
    if np.abs(1.0 - others).min() > NEAR_ONE:
        return float(1.0 - np.abs(others).max())
    deviation = deviation_matrix(matrix, eta)
    near: NDArray[Any] = solve(_symmetric(deviation, eta) if reversible else deviation)
    # The error of δ is eps off P and eps·|G|·|δ|² off G: equal at |δ| = |G|^(-1/2). The two
    # ranges overlap, so no eigenvalue falls between them; neither holds the first one, which
    # is δ = 0 for P and 0 for G.
    border = min(0.5, float(np.abs(near).max()) ** -0.5)
    off_p = far[np.abs(1.0 - far) > border / 2]
    delta = 1.0 / near[np.abs(near) > 0.5 / border]
    return float(min([*(1.0 - np.abs(off_p)), *_modulus_gap(delta)]))


def one_sided_gap(P: Any, eta: Vector) -> float:
    """The smallest positive eigenvalue of I − (P + P̂)/2, of an irreducible chain."""
    if eta.size == 1:
        return 1.0
    symmetric = _additive_reversibilisation(P, eta)
    return reversible_one_sided_gap(symmetric, eta)


def reversible_one_sided_gap(P: Any, eta: Vector) -> float:
    """1 − ξ₂ of an irreducible reversible chain."""
    if eta.size == 1:
        return 1.0
    if eta.size > LARGE:
        return _large_one_sided(P, eta)
    matrix = dense(P)
    return float(1.0 / np.linalg.eigvalsh(_symmetric(deviation_matrix(matrix, eta), eta))[-1])


def norm_of_rest(P: Any, eta: Vector) -> float:
    """‖D^{1/2} P D^{-1/2} − √η√ηᵀ‖₂, the right side of Eq. SLEM_as_norm."""
    root = _root(eta)
    if eta.size <= LARGE:
        matrix = dense(P)
        return float(np.linalg.norm(root[:, None] * matrix / root - np.outer(root, root), 2))
    forward, backward = _rest(P, eta)
    largest = _lanczos(lambda v: backward(forward(v)), eta.size, "LA")
    return float(np.sqrt(max(largest, 0.0)))


def pseudo_spectral_gap(
    P: Any, eta: Vector, slem: float, max_power: int
) -> tuple[float, int, float]:
    """max_k γ(P̂ᵏPᵏ)/k over k ≤ ``max_power``: the value, the k, and an upper bound on all k.

    P̂ᵏPᵏ is reversible and positive semidefinite with second eigenvalue ‖Yᵏ‖², Y the matrix of
    Eq. SLEM_as_norm. A norm is at least the spectral radius, so γ(P̂ᵏPᵏ) ≤ 1 − ξ_max^{2k}, and
    (1 − q^k)/k falls with k: once the best value reaches that bound for the next k, no later
    one can be better.
    """
    _root(eta)
    matrix = dense(P) if eta.size <= LARGE else P
    power = matrix
    best, best_power, bound = 0.0, 1, 1.0
    for k in range(1, max_power + 1):
        if eta.size > LARGE:
            value = _large_multiplicative_gap(P, eta, k) / k
        else:
            power = power @ matrix if k > 1 else matrix
            value = _multiplicative_gap(power, eta) / k
        if value > best:
            best, best_power = value, k
        bound = (1.0 - slem ** (2 * (k + 1))) / (k + 1)
        if best >= bound:
            break
    return best, best_power, max(best, bound)


def _multiplicative_gap(P: Vector, eta: Vector) -> float:
    """γ(P̂P), dense."""
    product = (P * eta[:, None]).T / eta[:, None] @ P
    support = csr_matrix(product)
    label, _ = strong_labels(support.indptr, support.indices)
    return 0.0 if label.any() else reversible_one_sided_gap(product, eta)


def _large_multiplicative_gap(P: Any, eta: Vector, k: int) -> float:
    """γ(P̂ᵏPᵏ) by products only."""
    forward, backward = _rest(P, eta)

    def both(v: Vector) -> Vector:
        for _ in range(k):
            v = forward(v)
        for _ in range(k):
            v = backward(v)
        return v

    return max(0.0, 1.0 - _lanczos(both, eta.size, "LA"))


def _modulus_gap(delta: NDArray[Any]) -> NDArray[Any]:
    """1 − |1 − δ| without cancellation."""
    return (2.0 * delta.real - np.abs(delta) ** 2) / (1.0 + np.abs(1.0 - delta))


def _root(eta: Vector) -> Vector:
    if not (eta > 0).all():
        s = int(np.flatnonzero(~(eta > 0))[0])
        raise SolverFailure(
            f"the stationary probability of state {s} is below 1e-308, so the chain can't be "
            "symmetrised",
            "restrict the chain to the states that it visits",
        )
    return np.sqrt(eta)


def _symmetric(matrix: Vector, eta: Vector) -> Vector:
    root = _root(eta)
    similar = root[:, None] * matrix / root
    return (similar + similar.T) / 2.0


def _additive_reversibilisation(P: Any, eta: Vector) -> Any:
    """(P + P̂)/2, dense or sparse as P is."""
    _root(eta)
    if isinstance(P, np.ndarray):
        return (P + (P * eta[:, None]).T / eta[:, None]) / 2.0
    return csr_matrix((P + diags(1.0 / eta) @ P.T @ diags(eta)) / 2.0)


def _pinned(eta: Vector) -> tuple[NDArray[np.int64], int]:
    hub = int(np.argmax(eta))
    return np.delete(np.arange(eta.size), hub), hub


# -- large chains -----------------------------------------------------------------------


def _lanczos(apply: Callable[[Vector], Vector], n: int, which: Literal["LA", "SA"]) -> float:
    """The largest ("LA") or smallest ("SA") eigenvalue of a symmetric operator."""
    operator: Any = LinearOperator((n, n), matvec=apply, dtype=float)
    try:
        value = eigsh(
            operator, k=1, which=which, v0=_first_vector(n), tol=ARPACK_TOLERANCE, ncv=60,
            maxiter=1000, return_eigenvectors=False,
        )  # fmt: skip
    except ArpackNoConvergence:
        raise _no_convergence(n) from None
    return float(value[0])


def _no_convergence(n: int) -> SolverFailure:
    return SolverFailure(
        f"ARPACK found no converged eigenvalue of a chain with {n} states",
        "its eigenvalues crowd together; for up to a few thousand states, give a dense array",
    )


def _first_vector(n: int) -> Vector:
    return np.random.default_rng(0).standard_normal(n)


def _rest(P: Any, eta: Vector) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """v ↦ Yv and v ↦ Yᵀv with Y = D^{1/2} P D^{-1/2} − √η√ηᵀ."""
    root = _root(eta)
    back = P.T if isinstance(P, np.ndarray) else csr_matrix(P.T)
    return (
        lambda v: root * (P @ (v / root)) - root * (root @ v),
        lambda v: (back @ (v * root)) / root - root * (root @ v),
    )


def _deviation_operator(P: Any, eta: Vector) -> Callable[[Vector], Vector] | None:
    """v ↦ Gv, or None where the chain's graph does not allow elimination."""
    rest, hub = _pinned(eta)
    inner = P[rest][:, rest]
    exits = P[rest][:, [hub]]
    exits = dense(exits).ravel()
    solve: Callable[[Vector], Vector]
    if isinstance(P, np.ndarray):
        solve = DenseElimination(inner, exits).solve
    elif is_wide(P):
        return None
    else:
        try:
            solve = SparseElimination(inner, exits).solve
        except TooMuchFill:
            return None

    def apply(v: Vector) -> Vector:
        centred = np.ravel(v) - eta @ np.ravel(v)
        result = np.zeros(eta.size)
        result[rest] = solve(centred[rest])
        # (The hub's own entry of ``centred`` is never collected before the hub is hit.)
        return result - eta @ result

    return apply


def _large_one_sided(P: Any, eta: Vector) -> float:
    root = _root(eta)
    deviation = _deviation_operator(P, eta)
    if deviation is None:
        return 1.0 - _lanczos(_rest(P, eta)[0], eta.size, "LA")
    return 1.0 / _lanczos(lambda v: root * deviation(np.ravel(v) / root), eta.size, "LA")


def _large_reversible_gap(P: Any, eta: Vector) -> float:
    gap = _large_one_sided(P, eta)
    # Gershgorin: no eigenvalue is below 2·min P(s, s) − 1.
    if 2.0 * float(P.diagonal().min()) >= gap:
        return gap
    return min(gap, 1.0 + _lanczos(_rest(P, eta)[0], eta.size, "SA"))


def _large_gap(P: Any, eta: Vector) -> float:
    n = eta.size

    def largest(apply: Callable[[Vector], Vector]) -> NDArray[Any]:
        operator: Any = LinearOperator((n, n), matvec=apply, dtype=float)
        try:
            return eigs(
                operator, k=2, which="LM", v0=_first_vector(n), tol=ARPACK_TOLERANCE, ncv=60,
                maxiter=1000, return_eigenvectors=False,
            )  # fmt: skip
        except ArpackNoConvergence:
            raise _no_convergence(n) from None

    found = largest(lambda v: P @ v - eta @ v)
    worst = found[np.argmax(np.abs(found))]
    deviation = _deviation_operator(P, eta) if abs(1.0 - worst) < NEAR_ONE else None
    if deviation is None:
        return float(1.0 - abs(worst))
    # An eigenvalue next to 1 is among the largest of G, where it keeps its digits.
    return float(_modulus_gap(1.0 / largest(deviation)).min())
