"""Efficient apportionment, the bandit closed form, and Prop. prop:bandit.perf.loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import ArgumentError
from sojourn.planning import bandit_allocation, bandit_counts, bandit_loss


def all_counts(n: int, k: int) -> Iterator[np.ndarray]:
    """All ways to give n samples to k states, one at least to each."""
    for cuts in combinations(range(1, n), k - 1):
        yield np.diff(np.r_[0, cuts, n])


shares = st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e12)), min_size=1, max_size=12).filter(
    any
)


@settings(max_examples=300, deadline=None)
@given(allocation=shares, n=st.integers(0, 10**6))
def test_apportionment_is_efficient(allocation: list[float], n: int) -> None:
    w = np.array(allocation)
    counts = sj.apportion(w, n)
    assert counts.sum() == n
    assert counts.dtype == np.int64
    assert (counts >= 0).all()
    assert not counts[w == 0].any()
    positive = w > 0
    if n >= positive.sum():
        T, share = counts[positive], w[positive] / w.sum()
        assert (T >= 1).all()
        # The multiplier ν with T = ⌈ν·share⌉ exists (Pukelsheim 2006, ch. 12).
        assert ((T - 1) / share).max() <= (T / share).min() * (1 + 1e-9)
        assert T.min() / n >= 0
        assert (T / n >= share * (1 - positive.sum() / n) - 1e-12).all()


def test_apportionment_of_exact_shares_and_ties() -> None:
    np.testing.assert_array_equal(sj.apportion([0.5, 0.3, 0.2], 10), [5, 3, 2])
    np.testing.assert_array_equal(sj.apportion([1, 1, 1], 4), [2, 1, 1])
    np.testing.assert_array_equal(sj.apportion([1, 0, 3], 2), [1, 0, 1])
    np.testing.assert_array_equal(sj.apportion([1, 5, 3], 2), [0, 1, 1])
    np.testing.assert_array_equal(sj.apportion([7], 12), [12])
    np.testing.assert_array_equal(sj.apportion([0, 0], 0), [0, 0])
    # Far apart, but every positive share is seen.
    np.testing.assert_array_equal(sj.apportion([1e300, 1e-300, 5e-324], 5), [3, 1, 1])
    assert sj.apportion(np.ones(7), 10**15).sum() == 10**15


def test_more_samples_never_mean_fewer_for_anyone() -> None:
    w = np.random.default_rng(0).dirichlet(np.ones(6))
    counts = np.array([sj.apportion(w, n) for n in range(6, 120)])
    assert (np.diff(counts, axis=0) >= 0).all()


@pytest.mark.parametrize("seed", range(14))
def test_both_bounds_of_the_proposition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, 4))
    variance = rng.uniform(0.2, 1.0, S) if seed % 2 else 10.0 ** rng.uniform(-1.5, 0, S)
    share = bandit_allocation(variance)
    optimum = bandit_loss(variance)
    for n in range(2 * S + 1, 60, 7):
        best = min(bandit_loss(variance, allocation=T) for T in all_counts(n, S))
        rounded = bandit_loss(variance, allocation=sj.apportion(share, n))
        assert rounded >= best - 1e-12
        assert rounded - best <= 2 * S / n * optimum
        if n >= 4 / (S * share.min() ** 2):
            assert rounded - best <= 8 * variance.max() / (share.min() ** 3 * n**2)
        assert bandit_loss(variance, allocation=bandit_counts(variance, n)) == pytest.approx(best)


def test_the_second_bound_is_met_at_all_in_the_test_above() -> None:
    variance = np.array([0.6, 0.8, 1.0])
    assert 4 / (3 * bandit_allocation(variance).min() ** 2) < 57


def test_best_counts_beat_rounding_and_every_single_move() -> None:
    rng = np.random.default_rng(1)
    better = 0
    for _ in range(100):
        variance = 10.0 ** rng.uniform(-6, 0, 9)
        weight = rng.uniform(0, 2, 9)
        n = int(rng.integers(9, 300))
        T = bandit_counts(variance, n, weight)
        assert T.sum() == n
        best = bandit_loss(variance, weight, T)
        rounded = bandit_loss(
            variance, weight, sj.apportion(bandit_allocation(variance, weight), n)
        )
        assert best <= rounded * (1 + 1e-12)
        better += best < rounded * (1 - 1e-9)
        for source, to in rng.integers(9, size=(20, 2)):
            other = T.copy()
            other[source] -= 1
            other[to] += 1
            assert bandit_loss(variance, weight, np.maximum(other, 0)) >= best * (1 - 1e-12)
    assert better > 0


def test_the_closed_form_is_the_optimal_plan_of_a_fully_connected_world() -> None:
    world = sj.instances.complete(5, variance=np.array([1.0, 4.0, 0.25, 9.0, 1e-3]))
    weight = np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    plan = sj.optimal_plan(world.mdp, world.variance, weight)
    assert plan.loss == pytest.approx(bandit_loss(world.variance, weight), rel=1e-8)
    np.testing.assert_allclose(
        plan.distribution, bandit_allocation(world.variance, weight), atol=1e-5
    )
    root = np.sqrt(weight * world.variance)
    assert bandit_loss(world.variance, weight) == pytest.approx(root.sum() ** 2 / 5)


def test_nothing_uncertain_and_nobody_seen() -> None:
    np.testing.assert_array_equal(bandit_allocation([0.0, 0.0]), [0.5, 0.5])
    np.testing.assert_array_equal(bandit_allocation([0.0, 2.0, 1.0], [1.0, 1.0, 0.0]), [0, 1, 0])
    assert bandit_loss([0.0, 0.0]) == 0.0
    assert bandit_loss([1.0, 1.0], allocation=[1, 0]) == np.inf
    assert bandit_loss([1.0, 0.0], allocation=[1, 0]) == 0.5
    np.testing.assert_array_equal(bandit_counts([1.0, 0.0, 1.0], 5), [3, 0, 2])


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="share of state 1 is -1"):
        sj.apportion([1, -1], 3)
    with pytest.raises(ArgumentError, match="share of state 0 is nan"):
        sj.apportion([np.nan, 1], 3)
    with pytest.raises(ArgumentError, match="every share is 0"):
        sj.apportion([0, 0], 3)
    with pytest.raises(ArgumentError, match="one share >= 0 per state"):
        sj.apportion([], 3)
    for n in (-1, 2.5, True, 2**60, "3"):
        with pytest.raises(ArgumentError, match="whole number"):
            sj.apportion([1, 2], n)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="variance of state 1"):
        bandit_allocation([1, np.inf])
    with pytest.raises(ArgumentError, match="weight has shape"):
        bandit_allocation([1, 2], [1])
    with pytest.raises(ArgumentError, match="can't visit 3 states"):
        bandit_counts([1, 2, 3], 2)
    with pytest.raises(ArgumentError, match="not one share"):
        bandit_loss([1, 2], allocation=[1, 2, 3])
