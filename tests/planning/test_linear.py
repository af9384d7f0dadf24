"""The public linear oracle: floors, what happens to infeasible ones, messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import sojourn as sj
from sojourn.errors import ArgumentError, InfeasibleFloor
from sojourn.planning.linear import (
    distribution_range,
    even_distribution,
    largest_floor,
    linear_result,
    lower_bounds,
)
from sojourn.solvers.linear_oracle import LinearOracle
from sojourn.testing.arbitrary import mdps
from sojourn.testing.generators import KINDS, random_mdp


def test_the_floor_is_half_of_what_every_state_gets() -> None:
    mdp = sj.instances.three_state().mdp
    x = sj.linear_oracle(mdp, [0.0, 1.0, 2.0], floor=0.05)
    eta = mdp.state_sums(x)
    assert eta.min() >= 0.1 - 1e-12
    assert eta.min() == pytest.approx(0.1)  # and not a bit more than that
    free = sj.linear_oracle(mdp, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(mdp.state_sums(free), [1, 0, 0], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(mdp=mdps(communicating=True, max_states=5), seed=st.integers(0, 2**32 - 1))
def test_no_policy_is_cheaper(mdp: sj.MDP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=mdp.n_pairs)
    x = sj.linear_oracle(mdp, cost)
    assert x.shape == (mdp.n_pairs,)
    for _ in range(20):
        weight = rng.dirichlet(np.full(mdp.n_pairs, 0.3)) + 1e-9
        policy = sj.Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight)))
        assert cost @ x <= cost @ policy.occupancy() + 1e-9


def test_an_infeasible_floor_names_the_largest() -> None:
    mdp = sj.instances.river_swim(6).mdp
    largest = largest_floor(mdp)
    cost = np.arange(6.0)
    with pytest.raises(InfeasibleFloor, match=r"2·floor = 0\.4") as caught:
        sj.linear_oracle(mdp, cost, floor=0.2)
    assert caught.value.largest == pytest.approx(largest, rel=1e-8)
    x = sj.linear_oracle(mdp, cost, floor=caught.value.largest)
    assert mdp.state_sums(x).min() >= 2 * largest * (1 - 1e-8)
    with pytest.raises(InfeasibleFloor):
        sj.linear_oracle(mdp, cost, floor=1.001 * largest)


def test_largest_floor_is_the_linear_programmes() -> None:
    rng = np.random.default_rng(1)
    for kind in [kind for kind in KINDS if kind != "near_reducible"]:
        for _ in range(5):
            mdp = random_mdp(kind, int(rng.integers(1, 8)), 3, rng)
            n, m = mdp.n_states, mdp.n_pairs
            E = np.zeros((n, m))
            E[mdp.pair_state, np.arange(m)] = 1.0
            balance = np.vstack([E - mdp.transitions.toarray().T, np.ones(m)])
            answer = linprog(
                np.r_[np.zeros(m), -1.0],
                A_ub=np.c_[-E, np.ones(n)],
                b_ub=np.zeros(n),
                A_eq=np.c_[balance, np.zeros(n + 1)],
                b_eq=np.r_[np.zeros(n), 1.0],
            )
            assert largest_floor(mdp) == pytest.approx(-answer.fun / 2, rel=1e-6, abs=1e-10)


def test_largest_floor_is_proved_where_states_hardly_communicate() -> None:
    """Some policy reaches it, and prices prove that none exceeds it, to eight digits both."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mdp = random_mdp("near_reducible", int(rng.integers(2, 12)), 4, rng)
        oracle = LinearOracle(mdp, np.full(mdp.n_states, 1.0 / mdp.n_states))
        attained, beyond = oracle.scale
        assert attained * (1 - 1e-12) <= beyond <= attained * (1 + 1e-8), seed
        assert largest_floor(mdp) == 0.5 * attained / mdp.n_states


def test_largest_floor_of_symmetric_worlds() -> None:
    assert largest_floor(sj.instances.complete(4).mdp) == pytest.approx(0.5 / 4)
    assert largest_floor(sj.MDP.from_grid(".")) == pytest.approx(0.5)
    # The middle of a path with moves only: at most half of the time at the two ends together.
    path = sj.MDP.from_transitions(
        [("a", 0, "m", 1.0), ("m", 0, "a", 1.0), ("m", 1, "b", 1.0), ("b", 0, "m", 1.0)]
    )
    assert largest_floor(path) == pytest.approx(0.5 * 0.25)


def test_shrinking_asks_for_half_of_what_the_uniform_policy_reaches() -> None:
    mdp = sj.instances.river_swim(6).mdp
    even = even_distribution(mdp)
    np.testing.assert_allclose(even, sj.Policy.uniform(mdp).chain().stationary())
    result = linear_result(mdp, np.arange(6.0), floor=0.2, infeasible="shrink")
    assert result.shrunk
    np.testing.assert_allclose(result.lower, np.minimum(0.4, even / 2))
    assert (mdp.state_sums(result.occupancy) >= result.lower * (1 - 1e-9)).all()
    # A feasible floor stays what it is, even where the uniform policy misses it.
    floor = 0.9 * largest_floor(mdp)
    assert (even < 2 * floor).any()
    lower, shrunk = lower_bounds(mdp, floor, "shrink")
    assert not shrunk
    np.testing.assert_array_equal(lower, np.full(6, 2 * floor))


def test_a_state_that_can_not_be_kept_is_named() -> None:
    mdp = sj.MDP.from_transitions([("pier", 0, "sea", 1.0), ("sea", 0, "sea", 1.0)])
    np.testing.assert_allclose(sj.linear_oracle(mdp, [-1.0, 1.0]), [0.0, 1.0])
    with pytest.raises(InfeasibleFloor, match="state 'pier' can't be visited") as caught:
        sj.linear_oracle(mdp, [0.0, 1.0], floor=1e-6)
    assert caught.value.largest == 0.0
    assert largest_floor(mdp) == 0.0
    result = linear_result(mdp, [0.0, 1.0], floor=1e-6, infeasible="shrink")
    np.testing.assert_allclose(result.lower, [0.0, 2e-6])


def test_ranges_hold_every_policy_and_are_attained() -> None:
    rng = np.random.default_rng(0)
    mdp = sj.instances.garnet(6, 3, 3, seed=2).mdp
    least, most = distribution_range(mdp)
    for _ in range(200):
        weight = rng.dirichlet(np.full(mdp.n_pairs, 0.2)) + 1e-9
        policy = sj.Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight)))
        eta = policy.chain().stationary()
        assert (eta >= least - 1e-9).all()
        assert (eta <= most + 1e-9).all()
    for s in range(6):
        attained = mdp.state_sums(sj.linear_oracle(mdp, -np.eye(6)[s]))[s]
        assert attained == pytest.approx(most[s])
    one = sj.MDP.from_grid(".")
    np.testing.assert_array_equal(distribution_range(one), [[1.0], [1.0]])


def test_several_classes_are_reported() -> None:
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[0, 1, 1] = P[1, 0, 1] = P[1, 1, 0] = 1.0
    result = linear_result(sj.MDP.from_array(P), [0.0, 1.0, 1e-3, 1.0], floor=0.1)
    assert result.recurrent_classes == 2


def test_wrong_arguments_are_named() -> None:
    mdp = sj.MDP.from_grid("..")
    with pytest.raises(ArgumentError, match=r"shape \(3,\)"):
        sj.linear_oracle(mdp, [1, 2, 3])
    with pytest.raises(ArgumentError, match=r"cost of state .* is nan"):
        sj.linear_oracle(mdp, [np.nan, 1])
    with pytest.raises(ArgumentError, match=r"cost of state .*, action .* is inf"):
        sj.linear_oracle(mdp, [0, 1, np.inf, 1])
    for floor in (-0.1, np.nan, np.inf):
        with pytest.raises(ArgumentError, match="floor is"):
            sj.linear_oracle(mdp, [0, 1], floor=floor)
    with pytest.raises(ArgumentError, match="raise, shrink"):
        sj.linear_oracle(mdp, [0, 1], infeasible="ignore")
