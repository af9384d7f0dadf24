"""Eigenvalues and gaps against numpy, the norm formula, mpmath and closed forms."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

from sojourn import Chain
from sojourn.chains import linear, spectrum
from sojourn.errors import ArgumentError, ModelError, NotReversible, SeveralClasses, SolverFailure
from sojourn.testing import (
    random_reversible,
    random_stochastic,
    reversible_chains,
    stochastic_matrices,
)


def eigenvalues_but_one(P: np.ndarray) -> np.ndarray:
    values = np.linalg.eigvals(P)
    return np.delete(values, np.argmin(np.abs(values - 1.0)))


def lazy(P: np.ndarray, stay: float) -> np.ndarray:
    return (1 - stay) * P + stay * np.eye(len(P))


@given(reversible_chains(min_states=2))
def test_slem_of_reversible_chains_is_numpys_and_the_norm(drawn):
    P, eta = drawn
    chain = Chain(P)
    expected = np.abs(eigenvalues_but_one(P)).max()
    assert chain.slem == pytest.approx(expected, abs=1e-9)
    assert chain.slem_as_norm() == pytest.approx(expected, abs=1e-9)
    root = np.sqrt(eta)
    norm = np.linalg.norm(np.diag(root) @ P @ np.diag(1 / root) - np.outer(root, root), 2)
    assert chain.slem == pytest.approx(norm, abs=1e-11)
    assert chain.spectral_gap == pytest.approx(1 - norm, abs=1e-11)
    second = np.sort(eigenvalues_but_one(P).real)[-1]
    assert chain.one_sided_gap == pytest.approx(1 - second, abs=1e-9)


@given(stochastic_matrices())
def test_slem_of_any_chain(P):
    chain = Chain(P)
    if len(chain.recurrent_classes()) > 1 or chain.period() > 1:
        assert chain.slem == 1.0
        assert chain.spectral_gap == 0.0
    else:
        # Defective eigenvalues move by the root of the rounding.
        expected = np.abs(eigenvalues_but_one(P)).max(initial=0.0)
        assert chain.slem == pytest.approx(expected, abs=1e-6)
        assert 0.0 <= chain.slem < 1.0


def test_the_formula_read_literally_would_call_these_fast():
    """Eq. slem.spectral.gap skips every eigenvalue that is 1, and a reducible chain has two."""
    fast = np.full((2, 2), 0.5)
    assert Chain(np.kron(np.eye(2), fast)).slem == 1.0
    assert Chain(np.array([[0.0, 1.0], [1.0, 0.0]])).slem == 1.0
    assert Chain(fast).slem == pytest.approx(0.0, abs=1e-15)
    assert Chain([[1.0]]).slem == 0.0
    assert Chain([[1.0]]).spectral_gap == 1.0
    assert Chain([[1.0]]).one_sided_gap == 1.0


def test_transient_states_count_in_the_slem():
    # The transient state stays with 0.9: an eigenvalue; the class forgets at once.
    P = [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    chain = Chain(P)
    assert chain.slem == pytest.approx(0.9, abs=1e-14)
    assert chain.one_sided_gap == pytest.approx(1.0)
    with pytest.raises(NotReversible):
        chain.slem_as_norm()
    with pytest.raises(ModelError, match="transient"):
        chain.time_reversal()


@pytest.mark.parametrize("n", [3, 10, 51])
def test_lazy_walk_on_a_cycle(n):
    P = lazy((np.roll(np.eye(n), 1, 1) + np.roll(np.eye(n), -1, 1)) / 2, 0.5)
    chain = Chain(P)
    assert chain.one_sided_gap == pytest.approx((1 - np.cos(2 * np.pi / n)) / 2, rel=1e-11)
    assert chain.spectral_gap == pytest.approx((1 - np.cos(2 * np.pi / n)) / 2, rel=1e-11)


@pytest.mark.parametrize("leak", [1e-6, 1e-12, 1e-100])
def test_tiny_gaps_keep_their_digits(leak):
    """Two states: the eigenvalues are 1 and 1 − a − b."""
    chain = Chain([[1 - leak, leak], [2 * leak, 1 - 2 * leak]])
    assert chain.spectral_gap == pytest.approx(3 * leak, rel=1e-13)
    assert chain.one_sided_gap == pytest.approx(3 * leak, rel=1e-13)


@pytest.mark.parametrize("reversible", [True, False])
def test_tiny_gap_of_two_blocks_against_many_digits(reversible, rng):
    blocks = [random_reversible(4, rng, ratio=10)[0] if reversible else rng.dirichlet(np.ones(4), 4)
              for _ in range(2)]  # fmt: skip
    P = np.zeros((8, 8))
    P[:4, :4], P[4:, 4:] = lazy(blocks[0], 0.2), lazy(blocks[1], 0.2)
    P[0, 4], P[4, 0] = 3e-13, 1e-12
    chain = Chain(P)
    assert chain.is_reversible() == reversible
    with mpmath.workdps(60):
        A = mpmath.matrix(chain.transitions.tolist())
        for s in range(8):
            A[s, s] = 1 - mpmath.fsum(A[s, t] for t in range(8) if t != s)
        values = sorted(mpmath.eig(A, left=False, right=False), key=lambda v: abs(1 - v))
        expected = float(min(1 - abs(v) for v in values[1:]))
    assert chain.spectral_gap == pytest.approx(expected, rel=1e-10)


def test_nearly_periodic_chains_have_a_tiny_gap_but_a_large_one_sided_gap():
    P = lazy(np.array([[0.0, 1.0], [1.0, 0.0]]), 1e-9)
    chain = Chain(P)
    assert chain.spectral_gap == pytest.approx(2e-9, rel=1e-6)
    assert chain.one_sided_gap == pytest.approx(2 - 2e-9)


@given(stochastic_matrices(max_states=7))
def test_fundamental_matrix_and_visit_variance(P):
    chain = Chain(P)
    assume(len(chain.recurrent_classes()) == 1)
    n, eta, Z = len(P), chain.stationary(), chain.fundamental_matrix()
    inverse = np.eye(n) - P + np.outer(np.ones(n), eta)
    np.testing.assert_allclose(Z @ inverse, np.eye(n), atol=1e-13 * max(1, np.abs(Z).max()))
    tau = chain.visit_variance()
    np.testing.assert_allclose(
        tau, np.maximum(eta * (2 * np.diag(Z) - 1 - eta), 0), rtol=1e-9, atol=1e-13
    )
    # Design 4.4: only the one-sided gap bounds the variance of averages.
    assert (tau <= 2 * eta * (1 - eta) / chain.one_sided_gap * (1 + 1e-9) + 1e-14).all()


def test_visit_variance_is_the_limit_of_the_variance_of_visits(rng):
    P = random_stochastic(6, rng)
    chain = Chain(P)
    eta, power, n = chain.stationary(), np.eye(6), 20_000
    covariance = eta * (1 - eta)
    for k in range(1, 400):  # the correlation is gone long before
        power = power @ P
        covariance = covariance + 2 * (1 - k / n) * (eta * np.diag(power) - eta**2)
    np.testing.assert_allclose(chain.visit_variance(), covariance, rtol=2e-3, atol=1e-6)
    # A cycle visits every state in turn: no variance at all.
    np.testing.assert_allclose(Chain(np.roll(np.eye(5), 1, 1)).visit_variance(), 0, atol=1e-15)


@pytest.mark.parametrize("kind", ["ragged", "periodic", "near_reducible"])
def test_visit_variance_of_a_sparse_chain_needs_no_dense_matrix(kind, rng, monkeypatch):
    P = random_stochastic(150, rng, kind=kind)
    expected = Chain(P).visit_variance()
    monkeypatch.setattr(spectrum, "FEW_STATES", 10)
    monkeypatch.setattr(spectrum, "deviation_matrix", None)
    found = Chain(sp.csr_matrix(P)).visit_variance()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12 * expected.max())


@given(stochastic_matrices(min_states=2, max_states=6), st.integers(1, 12))
def test_pseudo_spectral_gap_by_definition(P, cap):
    chain = Chain(P)
    assume(len(chain.recurrent_classes()) == 1)
    assume(1 < len(chain.recurrent_classes()[0]) == len(P))
    found = chain.pseudo_spectral_gap(max_power=cap)
    eta = chain.stationary()
    reversal = np.diag(1 / eta) @ P.T @ np.diag(eta)
    by_power = []
    for k in range(1, 200):
        product = np.linalg.matrix_power(reversal, k) @ np.linalg.matrix_power(P, k)
        second = np.sort(np.linalg.eigvals(product).real)[-2]
        by_power.append((1 - second) / k)
    assert 1 <= found.power <= cap
    assert found == pytest.approx(max(*by_power[:cap], 0.0), abs=1e-7)
    assert max(by_power) <= found.upper_bound + 1e-7
    assert found <= found.upper_bound


def test_pseudo_spectral_gap_sees_what_the_first_power_hides():
    # 0 → 1 surely, and only from 0: P̂P is reducible, P̂²P² is not.
    P = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.5]]
    found = Chain(P).pseudo_spectral_gap()
    assert found.power > 1
    assert found > 0.05
    assert found == found.upper_bound
    assert Chain(np.roll(np.eye(4), 1, 1)).pseudo_spectral_gap() == 0.0
    with pytest.raises(ArgumentError, match="max_power"):
        Chain(P).pseudo_spectral_gap(max_power=0)


@given(reversible_chains(min_states=2))
def test_pseudo_spectral_gap_of_reversible_chains(drawn):
    chain = Chain(drawn[0])
    gap = chain.spectral_gap
    found = chain.pseudo_spectral_gap()
    assert found == pytest.approx(gap * (2 - gap), abs=1e-12)
    assert found.upper_bound == found


@given(reversible_chains())
def test_reversible_is_recognised(drawn):
    assert Chain(drawn[0]).is_reversible()
    assert Chain(sp.csr_matrix(drawn[0])).is_reversible(1e-11)


@given(stochastic_matrices(min_states=2))
def test_time_reversal(P):
    chain = Chain(P)
    assume([len(c) for c in chain.recurrent_classes()] == [len(P)])
    back = chain.time_reversal()
    np.testing.assert_allclose(back.stationary(), chain.stationary(), rtol=1e-11)
    np.testing.assert_allclose(back.time_reversal().transitions, chain.transitions, rtol=1e-9)
    eta = chain.stationary()
    flow = eta[:, None] * chain.transitions
    np.testing.assert_allclose(eta[:, None] * back.transitions, flow.T, rtol=1e-11)
    both = np.maximum(flow, flow.T)
    imbalance = np.abs(flow - flow.T)[both > 0] / both[both > 0]
    assume(not ((imbalance > 1e-11) & (imbalance < 1e-7)).any())
    assert chain.is_reversible() == (imbalance < 1e-9).all()


def test_norm_formula_is_refused_where_it_is_false():
    """Three states in a hurry: the norm is 1, the slem is not (the paper states no condition)."""
    P = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.0, 0.5]])
    eta = Chain(P).stationary()
    root = np.sqrt(eta)
    assert np.linalg.norm(root[:, None] * P / root - np.outer(root, root), 2) == pytest.approx(1)
    assert Chain(P).slem < 0.75
    with pytest.raises(NotReversible):
        Chain(P).slem_as_norm()
    with pytest.raises(SeveralClasses):
        Chain(np.eye(2)).slem_as_norm()
    with pytest.raises(ArgumentError, match="tolerance"):
        Chain(P).is_reversible(-1.0)


@pytest.mark.parametrize("kind", ["reversible", "lazy", "not", "near_reducible", "expander"])
def test_large_chains_agree_with_small_ones(kind, rng, monkeypatch):
    """The methods for large chains, forced upon a small one, against all eigenvalues."""
    n = 120
    P = random_reversible(n, rng, ratio=100)[0]
    if kind == "lazy":
        P = lazy(P, 0.6)
    elif kind == "not":
        P = random_stochastic(n, rng)
    elif kind == "expander":
        P = rng.random((n, n))
        P /= P.sum(axis=1, keepdims=True)
    elif kind == "near_reducible":
        P = np.kron(np.eye(2), lazy(P, 0.3))
        P[3, n + 5], P[n + 8, 1] = 1e-13, 4e-13
    if Chain(P).period() > 1:
        P = lazy(P, 0.01)

    def measured(P):
        chain = Chain(P)
        gap = chain.pseudo_spectral_gap(2)
        norm = chain.slem_as_norm() if chain.is_reversible() else 0.0
        return chain.spectral_gap, chain.one_sided_gap, float(gap), gap.upper_bound, norm

    expected = measured(P)
    monkeypatch.setattr(spectrum, "LARGE", 20)
    monkeypatch.setattr(linear, "FEW_STATES", 20)
    for given_as in (P, sp.csr_matrix(P)):
        found = measured(given_as)
        np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-8)
        np.testing.assert_allclose(found[2:], expected[2:], atol=1e-9)
    monkeypatch.setattr(spectrum, "is_wide", lambda P: True)
    np.testing.assert_allclose(measured(sp.csr_matrix(P))[:2], expected[:2], atol=1e-9)


def test_gap_of_a_map_of_10_000_sites():
    """A torus, lazy: 1 − (3 + cos(2π/n))/4 · ½ − ½, in closed form."""
    n = 100
    line = sp.diags([np.ones(n - 1), np.ones(n - 1)], [-1, 1]).tolil()
    line[0, n - 1] = line[n - 1, 0] = 1
    walk = (sp.kron(line, sp.identity(n)) + sp.kron(sp.identity(n), line)) / 4
    chain = Chain((0.5 * walk + 0.5 * sp.identity(n * n)).tocsr())
    assert chain.spectral_gap == pytest.approx((1 - np.cos(2 * np.pi / n)) / 4, rel=1e-8)


def test_what_underflows_is_said():
    P = np.diag(np.full(999, 0.99), 1) + np.diag(np.full(999, 0.01), -1)
    P += np.diag(1 - P.sum(axis=1))
    with pytest.raises(SolverFailure, match="below 1e-308"):
        Chain(P).one_sided_gap  # noqa: B018
