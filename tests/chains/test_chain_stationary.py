"""Stationary distributions: every method against closed forms and independent solvers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import quantecon
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import splu

from sojourn import Chain
from sojourn.chains import linear
from sojourn.chains.elimination import BLOCK, DenseElimination
from sojourn.chains.iterative import collect_iterative, stationary_iterative
from sojourn.chains.sparse import SparseElimination
from sojourn.errors import ArgumentError, SeveralClasses, SojournError, SolverFailure
from sojourn.testing import random_stochastic, reversible_chains, stochastic_matrices


def grid_walk(rows: int, columns: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """The walk on a map that stays or moves to a neighbour, all equally likely; η is
    proportional to the number of moves."""

    def line(n: int) -> sp.csr_matrix:
        return sp.diags([np.ones(n - 1), np.ones(n - 1)], [-1, 1], format="csr")

    edges = (
        sp.kron(line(rows), sp.identity(columns))
        + sp.kron(sp.identity(rows), line(columns))
        + sp.identity(rows * columns)
    ).tocsr()
    moves = np.asarray(edges.sum(axis=1)).ravel()
    return (sp.diags(1 / moves) @ edges).tocsr(), moves / moves.sum()


def expander(n: int, rng: np.random.Generator, branching: int = 8) -> sp.csr_matrix:
    """A random graph with a cycle through all, so that it is irreducible."""
    columns = np.concatenate(
        (rng.integers(n, size=(n, branching)), np.roll(np.arange(n), -1)[:, None]), 1
    )
    weights = rng.exponential(size=columns.shape)
    rows = np.repeat(np.arange(n), branching + 1)
    matrix = sp.csr_matrix((weights.ravel(), (rows, columns.ravel())), shape=(n, n))
    return (sp.diags(1 / np.asarray(matrix.sum(axis=1)).ravel()) @ matrix).tocsr()


def textbook_gth(P: np.ndarray) -> np.ndarray:
    """Grassmann, Taksar and Heyman as printed, from the last state down; nothing blocked."""
    A = np.array(P)
    n = len(A)
    for k in range(n - 1, 0, -1):
        A[:k, k] /= A[k, :k].sum()
        A[:k, :k] += np.outer(A[:k, k], A[k, :k])
    eta = np.ones(n)
    for k in range(1, n):
        eta[k] = eta[:k] @ A[:k, k]
    return eta / eta.sum()


def by_sparse_lu(P: sp.csr_matrix) -> np.ndarray:
    """(I − P)ᵀ with one state pinned, by SuperLU."""
    n = P.shape[0]
    A = (sp.identity(n) - P).T.tocsc()
    rest = splu(A[1:, 1:].tocsc()).solve(-A[1:, [0]].toarray().ravel())
    eta = np.concatenate(([1.0], rest))
    return eta / eta.sum()


@given(stochastic_matrices(max_states=8))
def test_what_comes_out_is_stationary_for_every_class(P):
    chain = Chain(P)
    classes = chain.recurrent_classes()
    for k, states in enumerate(classes):
        eta = chain.stationary(k)
        assert eta.sum() == pytest.approx(1.0, abs=1e-14)
        assert (eta[states] > 0).all()
        assert np.delete(eta, states).sum() == 0.0
        np.testing.assert_allclose(eta @ P, eta, rtol=1e-12, atol=1e-16)
    theirs = quantecon.MarkovChain(P)
    assert sorted(c.tolist() for c in classes) == sorted(
        c.tolist() for c in map(np.sort, theirs.recurrent_classes_indices)
    )
    np.testing.assert_allclose(
        np.sort(np.array([chain.stationary(k) for k in range(len(classes))]), axis=0),
        np.sort(theirs.stationary_distributions, axis=0),
        rtol=1e-11,
        atol=1e-15,
    )


@given(stochastic_matrices(max_states=8))
def test_dense_and_sparse_input_agree(P):
    dense, sparse = Chain(P), Chain(sp.csr_matrix(P))
    assert [c.tolist() for c in dense.recurrent_classes()] == [
        c.tolist() for c in sparse.recurrent_classes()
    ]
    for k in range(len(dense.recurrent_classes())):
        np.testing.assert_allclose(dense.stationary(k), sparse.stationary(k), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7, 500])
def test_blocked_elimination_equals_the_textbook(n, rng):
    P = rng.random((n, n)) ** 8
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(DenseElimination(P).stationary(), textbook_gth(P), rtol=1e-12)


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_sparse_elimination_equals_dense(n, seed):
    rng = np.random.default_rng(seed)
    P = expander(n, rng, branching=int(rng.integers(0, 4)))
    np.testing.assert_allclose(
        SparseElimination(P).stationary(), DenseElimination(P.toarray()).stationary(), rtol=1e-12
    )
    # A chain that leaks: whatever is collected before it leaves.
    exits = rng.random(n) * (rng.random(n) < 0.3)
    exits[rng.integers(n)] = 0.1
    inner = sp.diags(1 - exits) @ P
    b = rng.normal(size=n)
    sparse = SparseElimination(inner, exits)
    x = sparse.solve(b)
    np.testing.assert_allclose(x, np.linalg.solve(np.eye(n) - inner.toarray(), b), rtol=1e-9)
    np.testing.assert_allclose(DenseElimination(inner.toarray(), exits).solve(b), x, rtol=1e-9)
    inverse = np.linalg.inv(np.eye(n) - inner.toarray())
    np.testing.assert_allclose(sparse.solve_left(b), b @ inverse, rtol=1e-9)
    np.testing.assert_allclose(sparse.inverse_diagonal(), np.diag(inverse), rtol=1e-9)


@pytest.mark.parametrize(
    "make", [lambda rng: grid_walk(40, 60)[0], lambda rng: expander(1500, rng)]
)
def test_large_chains_against_sparse_lu(make, rng):
    P = make(rng)
    np.testing.assert_allclose(Chain(P).stationary(), by_sparse_lu(P), rtol=1e-9)


def test_a_map_of_90_000_sites_has_its_closed_form_to_the_last_digits():
    P, eta = grid_walk(300, 300)
    np.testing.assert_allclose(Chain(P).stationary(), eta, rtol=1e-12)


@pytest.mark.parametrize("as_given", [np.array, sp.csr_matrix])
@pytest.mark.parametrize("n", [2, 30, 700])
def test_birth_and_death(n, as_given, rng):
    up, down = rng.uniform(0.05, 0.45, n - 1), rng.uniform(0.05, 0.45, n - 1)
    P = np.diag(up, 1) + np.diag(down, -1)
    P += np.diag(1 - P.sum(axis=1))
    log_eta = np.concatenate(([0.0], np.cumsum(np.log(up / down))))
    expected = np.exp(log_eta - log_eta.max())
    expected /= expected.sum()
    np.testing.assert_allclose(Chain(as_given(P)).stationary(), expected, rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize("as_given", [np.array, sp.csr_matrix])
@pytest.mark.parametrize("forward", [True, False])
def test_a_steady_drift_spans_more_than_a_double_holds(as_given, forward):
    """1000 states, each 99 times as likely as its neighbour upstream: 1e-1994 in all."""
    P = np.diag(np.full(999, 0.99), 1) + np.diag(np.full(999, 0.01), -1)
    P += np.diag(1 - P.sum(axis=1))
    if not forward:
        P = P[::-1, ::-1]
    eta = Chain(as_given(P)).stationary()
    along = eta if forward else eta[::-1]
    assert np.isfinite(eta).all()
    np.testing.assert_allclose(along[-100:], 98 / 99 * 99.0 ** np.arange(-99, 1), rtol=1e-11)


@given(reversible_chains())
def test_walks_on_weighted_graphs(drawn):
    P, eta = drawn
    np.testing.assert_allclose(Chain(P).stationary(), eta, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 401])
def test_a_cycle_is_uniform(n):
    P = sp.csr_matrix((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)))
    chain = Chain(P)
    np.testing.assert_allclose(chain.stationary(), 1 / n, rtol=1e-13)
    assert chain.period() == n


def near_reducible(rng, sizes, leak):
    """Blocks that are left with a probability of about ``leak``, each for the next one."""
    n = sum(sizes)
    P = np.zeros((n, n))
    starts = np.cumsum([0, *sizes])
    for k, size in enumerate(sizes):
        block = slice(starts[k], starts[k + 1])
        P[block, block] = rng.random((size, size))
        P[starts[k], starts[(k + 1) % len(sizes)]] = leak * rng.uniform(1, 9)
    return P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("leak", [1e-3, 1e-12, 1e-80])
def test_nearly_reducible_chains_keep_every_digit(leak, rng):
    """Against 120 digits. Solvers that subtract lose all of theirs at a leak of 1e-16."""
    P = near_reducible(rng, (3, 4, 2), leak)
    with mpmath.workdps(120):
        A = mpmath.matrix(P.tolist())
        n = len(P)
        for s in range(n):
            # Rows sum to 1 up to rounding only: the diagonal is what makes them exact.
            A[s, s] = -mpmath.fsum(A[s, t] for t in range(n) if t != s)
        system = A.T
        for t in range(n):
            system[n - 1, t] = 1
        exact = mpmath.lu_solve(system, mpmath.matrix([0] * (n - 1) + [1]))
        expected = np.array([float(x) for x in exact])
    np.testing.assert_allclose(Chain(P).stationary(), expected, rtol=1e-13)
    np.testing.assert_allclose(
        SparseElimination(sp.csr_matrix(P)).stationary(), expected, rtol=1e-13
    )


def test_nearly_reducible_large_and_sparse(rng):
    """Two maps of 900 sites, joined by a narrow way each: the balance of the two ways decides."""
    block, eta = grid_walk(30, 30)
    P = sp.block_diag((block, block)).tolil()
    P[17, 1000] = 3e-13
    P[1500, 800] = 1e-13
    found = Chain(P.tocsr()).stationary()
    ratio = found[:900].sum() / found[900:].sum()
    assert ratio == pytest.approx(eta[600] * 1e-13 / (eta[17] * 3e-13), rel=1e-9)


def test_iteration_agrees_with_elimination_on_an_expander(rng):
    P = expander(3000, rng)
    np.testing.assert_allclose(
        stationary_iterative(P), SparseElimination(P).stationary(), rtol=1e-8
    )
    exits = np.zeros(3000)
    exits[5] = 0.5
    inner = (sp.diags(1 - exits) @ P).tocsr()
    one = np.ones(3000)
    np.testing.assert_allclose(
        collect_iterative(inner, one), SparseElimination(inner, exits).solve(one), rtol=1e-8
    )


def test_large_expanders_are_iterated_and_maps_are_not(rng):
    assert linear.is_wide(expander(20_000, rng))
    assert not linear.is_wide(grid_walk(300, 300)[0])
    assert not linear.is_wide(
        sp.csr_matrix(
            (np.ones(50_000), (np.arange(50_000), np.zeros(50_000, int))), shape=(50_000, 50_000)
        )
    )
    P = expander(30_000, rng)
    eta = Chain(P).stationary()
    np.testing.assert_allclose(P.T @ eta, eta, rtol=1e-7)


def test_iteration_refuses_what_it_cannot_know(rng):
    """Two expanders joined by 1e-12: any split of the mass has a residual of 1e-12."""
    block = expander(2000, rng)
    P = sp.block_diag((block, block)).tolil()
    P[3, 2500] = 1e-12
    P[3000, 4] = 1e-12
    P = P.tocsr()
    P = (sp.diags(1 / np.asarray(P.sum(axis=1)).ravel()) @ P).tocsr()
    with pytest.raises(SolverFailure):
        stationary_iterative(P)


def test_transient_states_have_no_mass():
    P = [[0.2, 0.5, 0.3, 0.0], [0.0, 0.4, 0.6, 0.0], [0.0, 0.3, 0.7, 0.0], [0.1, 0.1, 0.1, 0.7]]
    eta = Chain(P).stationary()
    np.testing.assert_allclose(eta, [0.0, 1 / 3, 2 / 3, 0.0], rtol=1e-14)


def test_several_classes_are_named_and_can_be_chosen():
    chain = Chain(np.diag([1.0, 1.0, 1.0]) + [[0, 0, 0]] * 3)
    with pytest.raises(SeveralClasses, match="3 recurrent classes") as caught:
        chain.stationary()
    assert "recurrent_class" in caught.value.hint
    np.testing.assert_array_equal(chain.stationary(recurrent_class=1), [0, 1, 0])
    for wrong in (-1, 3):
        with pytest.raises(ArgumentError, match="no recurrent class"):
            chain.stationary(recurrent_class=wrong)


def test_answers_belong_to_the_caller(rng):
    chain = Chain(random_stochastic(5, rng))
    first = chain.stationary()
    first[:] = 7.0
    assert chain.stationary().sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="read-only"):
        chain.transitions[0, 0] = 1.0


WRONG = [
    ([[0.5, 0.4], [0.0, 1.0]], "state 0 sum to 0.9"),
    ([[1.5, -0.5], [0.0, 1.0]], "state 0 to state 1 is -0.5"),
    ([[0.5, np.nan], [0.0, 1.0]], "state 0 to state 1 is nan"),
    ([[np.inf, 0.0], [0.0, 1.0]], "is inf"),
    ([[0.5, 0.5]], r"shape \(1, 2\)"),
]


@pytest.mark.parametrize(
    ("P", "said"),
    [
        *WRONG,
        *((sp.csr_matrix(np.array(P)), said) for P, said in WRONG),
        (np.ones((1, 1, 1)), r"shape \(1, 1, 1\)"),
        (np.empty((0, 0)), "not empty"),
        ([["a", "b"], ["c", "d"]], "not an array"),
        ([[1.0], [0.5, 0.5]], "not an array"),
        (np.eye(2) * 1j, "not an array of real"),
        (sp.csr_matrix(np.eye(2) * 1j), "not an array of real"),
    ],
)
def test_bad_matrices_are_refused_by_name(P, said):
    with pytest.raises(SojournError, match=said) as caught:
        Chain(P)
    assert caught.value.hint


def test_rounding_in_rows_is_repaired():
    P = np.array([[0.1, 0.9], [0.3, 0.7]])
    noisy = Chain(P * (1 + 1e-10))
    np.testing.assert_allclose(noisy.transitions, P, rtol=1e-15)
    assert "2 states" in repr(noisy)
