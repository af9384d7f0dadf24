"""The spectral kernel: its gathers against plain NumPy, its bound against everything."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sojourn.solvers import mixing_sdp
from sojourn.solvers.feasibility import (
    largest_support,
    nearest_in_norm,
    nearest_rows,
    quadratic_program,
)
from sojourn.solvers.mixing_sdp import MixingProblem, Multipliers, lower_bound, solve_mixing


def random_problem(rng, **changes):
    """A small program with every kind of term, and a point inside."""
    n, m = int(rng.integers(2, 6)), int(rng.integers(6, 14))
    heads = np.sort(np.concatenate([np.arange(n), rng.integers(0, n, m - n)])).astype(np.int64)
    tails = np.where(rng.random((n, m)) < 0.5, rng.random((n, m)), 0.0)
    rows = np.eye(n)[:, heads] + np.where(rng.random((n, m)) < 0.2, rng.random((n, m)), 0.0)
    inside = rng.uniform(0.5, 1.5, m)
    mass = rng.uniform(0.5, 2.0, m)
    inside /= mass @ inside
    rows /= (rows @ inside)[:, None]  # so that r = 1 inside, as in every use
    q = rng.random(n)
    q /= np.linalg.norm(q)
    problem = MixingProblem(
        heads=heads,
        tails=sp.csc_matrix(tails),
        shift=np.outer(q, q),
        rows=sp.csr_matrix(rows),
        mass=mass,
        weight=rng.uniform(0.0, 1.0, n),
        **changes,
    )
    # Few enough flows are in the way that every t < 1 stays reachable.
    size = problem.level(inside)
    tails *= 0.5 / max(abs(size), 0.5)
    return replace(problem, tails=sp.csc_matrix(tails)), inside


def random_terms(rng, problem, inside):
    """Bounds, a ball and an equality that ``inside`` fulfils."""
    n = problem.shift.shape[0]
    A = rng.normal(size=(1, inside.size))
    return replace(
        problem,
        penalty=None if rng.random() < 0.3 else float(rng.uniform(0.0, 2.0)),
        two_sided=bool(rng.random() < 0.5),
        low=None if rng.random() < 0.5 else rng.uniform(0.3, 0.9, n),
        high=None if rng.random() < 0.5 else np.where(rng.random(n) < 0.3, np.inf, 1.2),
        ball=None if rng.random() < 0.5 else rng.uniform(1.0, 20.0, n),
        equalities=None if rng.random() < 0.5 else A,
        right=A @ inside,
    )


def flow_matrix(problem, e):
    head = np.eye(problem.shift.shape[0])[problem.heads[e]]
    tail = problem.tails.toarray()[:, e]
    return 0.5 * (np.outer(head, tail) + np.outer(tail, head))


def test_gathers_are_what_they_say(rng):
    for _ in range(20):
        problem, x = random_problem(rng)
        m, n = x.size, problem.shift.shape[0]
        matrices = np.array([flow_matrix(problem, e) for e in range(m)])
        np.testing.assert_allclose(
            problem.matrix(x), np.einsum("e,eij->ij", x, matrices) - problem.shift, atol=1e-14
        )
        Z = rng.normal(size=(n, n))
        Z = Z + Z.T
        np.testing.assert_allclose(
            problem.prices(Z), np.einsum("eij,ij->e", matrices, Z), atol=1e-13
        )
        Omega = Z @ Z
        H = np.zeros((m, m))
        mixing_sdp._gram(
            problem.heads, problem.tails.indptr, problem.tails.indices, problem.tails.data, Omega, H
        )
        wanted = np.einsum("eij,jk,fkl,li->ef", matrices, Omega, matrices, Omega)
        np.testing.assert_allclose(H, np.tril(wanted), atol=1e-11 * np.abs(wanted).max())
        H[:] = 0.0
        R, w = problem.rows, rng.random(n)
        mixing_sdp._add_rows(R.indptr, R.indices, R.data, w, H)
        np.testing.assert_allclose(H, np.tril(R.toarray().T * w @ R.toarray()), atol=1e-13)


@given(st.integers(0, 2**32 - 1))
def test_any_multipliers_prove_a_bound(seed):
    """Weak duality: arbitrary multipliers never exceed the value of a feasible point."""
    rng = np.random.default_rng(seed)
    problem, inside = random_problem(rng)
    problem = random_terms(rng, problem, inside)
    n = problem.shift.shape[0]
    blocks = rng.normal(size=(2 if problem.two_sided else 1, n, n)) * 10.0 ** rng.uniform(-2, 1)
    dual = Multipliers(
        blocks @ blocks.transpose(0, 2, 1),
        rng.normal(size=0 if problem.equalities is None else 1),
        rng.normal(size=n),
        rng.normal(size=n),
        rng.normal(size=n),
        rng.normal(size=n),
    )
    assert lower_bound(problem, dual) <= problem.value(inside) + 1e-9


@given(st.integers(0, 2**32 - 1))
def test_solutions_are_feasible_and_certified(seed):
    rng = np.random.default_rng(seed)
    problem, inside = random_problem(rng)
    problem = random_terms(rng, problem, inside)
    if problem.penalty is not None and problem.level(inside) > 0.95:
        return
    solution = solve_mixing(problem, np.full(inside.size, 0.3))
    x, r = solution.x, problem.rows @ solution.x
    assert solution.residual <= 1e-6
    assert (x >= 0).all()
    assert problem.mass @ x == pytest.approx(1.0, abs=1e-6)
    if problem.low is not None:
        assert (r >= problem.low - 1e-6).all()
    if problem.high is not None:
        assert (r <= problem.high + 1e-6).all()
    if problem.ball is not None:
        assert np.linalg.norm(problem.ball * (r - 1.0)) <= 1.0 + 1e-6
    if problem.equalities is not None:
        np.testing.assert_allclose(problem.equalities @ x, problem.right, atol=1e-6)
    scale = 1.0 if problem.penalty is None else abs(solution.value)
    assert solution.value - solution.bound <= 1e-6 * max(scale, 1.0)
    # Nothing feasible is better than the bound.
    assert problem.value(inside) >= solution.bound - 1e-9


def reference(problem):
    """The same program in the words of cvxpy."""
    m, n = problem.heads.size, problem.shift.shape[0]
    x, t = cp.Variable(m, nonneg=True), cp.Variable()
    E = np.eye(n)[problem.heads].T
    half = E @ cp.diag(x) @ problem.tails.toarray().T
    M = 0.5 * (half + half.T) - problem.shift
    r = problem.rows.toarray() @ x
    limits = [cp.lambda_max(M) <= t, problem.mass @ x == 1]
    if problem.two_sided:
        limits.append(cp.lambda_max(-M) <= t)
    if problem.low is not None:
        limits.append(r >= problem.low)
    if problem.high is not None:
        finite = np.isfinite(problem.high)
        limits.append(r[finite] <= problem.high[finite])
    if problem.ball is not None:
        limits.append(cp.norm(cp.multiply(problem.ball, r - 1)) <= 1)
    if problem.equalities is not None:
        limits.append(problem.equalities @ x == problem.right)
    objective = t
    if problem.penalty is not None:
        objective = problem.weight @ cp.inv_pos(r) + problem.penalty * cp.inv_pos(1 - t)
    return cp.Problem(cp.Minimize(objective), limits).solve(solver="CLARABEL")


def test_agrees_with_cvxpy(rng):
    for _ in range(25):
        problem, inside = random_problem(rng)
        problem = random_terms(rng, problem, inside)
        if problem.penalty is not None and problem.level(inside) > 0.95:
            continue
        solution = solve_mixing(problem, np.full(inside.size, 0.3))
        assert solution.value == pytest.approx(reference(problem), rel=1e-6, abs=1e-6)


def test_same_question_same_bits(rng):
    problem, inside = random_problem(rng, penalty=1.0)
    first, second = (solve_mixing(problem, inside) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()
    assert first.bound == second.bound


def test_an_empty_set_is_not_called_solved(rng):
    problem, inside = random_problem(rng)
    n = problem.shift.shape[0]
    impossible = replace(problem, low=np.full(n, 50.0), high=np.full(n, 51.0))
    assert not solve_mixing(impossible, inside).converged


def test_largest_support():
    # y0 = y1, y2 = 0 (it only flows out), y3 free.
    A = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert largest_support(A).tolist() == [True, True, False, True]
    # 1e-6 of the rest is still positive.
    assert largest_support(np.array([[1.0, -1e-6]])).all()


def test_nearest_rows():
    rows, equal, right = np.eye(2), np.array([[1.0, 1.0]]), np.array([3.0])
    times, r = nearest_rows(rows, equal, right, np.array([0.25, 0.25]), np.zeros(2))
    assert times == pytest.approx(2.0)
    np.testing.assert_allclose(r, [1.5, 1.5], atol=1e-7)
    assert nearest_rows(rows, equal, right, np.ones(2), np.array([4.0, 0.0]))[0] == np.inf
    closest = nearest_in_norm(rows, equal, right, np.array([1.0, 2.0]), np.zeros(2))
    np.testing.assert_allclose(closest, [1.8, 1.2], atol=1e-6)


def test_quadratic_program_tells_the_impossible():
    A, b = np.array([[1.0, 1.0]]), np.array([1.0])
    F, f = np.eye(2), np.zeros(2)
    x = quadratic_program(F, f, A, b, -np.eye(2), np.zeros(2))
    np.testing.assert_allclose(x, [0.5, 0.5], atol=1e-7)
    assert quadratic_program(F, f, A, b, -np.eye(2), np.full(2, -1.0)) is None
