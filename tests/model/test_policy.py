"""Policies: what they refuse, the chain they induce, and their completion off the support."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import ArgumentError, FrozenError
from sojourn.model import MDP, Policy, maximal_end_components
from sojourn.model.reachability import pairs_towards
from sojourn.testing import mdps, random_mdp, random_policy


def dense_chain(policy: Policy) -> np.ndarray:
    """P_π by definition, pair by pair."""
    mdp = policy.mdp
    P = np.zeros((mdp.n_states, mdp.n_states))
    for pair in range(mdp.n_pairs):
        P[mdp.pair_state[pair]] += policy.probability[pair] * mdp.transitions[[pair]].toarray()[0]
    return P


@given(mdps(), st.integers(0, 2**32 - 1))
def test_chain_and_occupancy_by_definition(mdp, seed):
    policy = random_policy(mdp, np.random.default_rng(seed))
    np.testing.assert_allclose(
        policy.transition_matrix().toarray(), dense_chain(policy), rtol=1e-13
    )
    chain = policy.chain()
    np.testing.assert_allclose(chain.transitions.toarray(), dense_chain(policy), rtol=1e-13)
    assert policy.chain() is chain
    if len(chain.recurrent_classes()) == 1:
        occupancy = policy.occupancy()
        assert occupancy.sum() == pytest.approx(1.0)
        assert (occupancy >= 0).all()
        np.testing.assert_allclose(mdp.flow_residual(occupancy), 0.0, atol=1e-14)
        # Nothing is lost on the way to the occupancy and back, where the policy is used.
        visited = mdp.to_pairs(mdp.state_sums(occupancy)) > 0
        back = Policy.from_occupancy(mdp, occupancy)
        np.testing.assert_allclose(
            back.probability[visited], policy.probability[visited], rtol=1e-9, atol=1e-300
        )


@given(mdps(), st.integers(0, 2**32 - 1))
def test_completion_leads_to_the_support(mdp, seed):
    """An occupancy on one end component: whoever can come back for sure does."""
    rng = np.random.default_rng(seed)
    parts = maximal_end_components(mdp)
    part = parts[rng.integers(len(parts))]
    occupancy = np.zeros(mdp.n_pairs)
    occupancy[part.pairs] = rng.exponential(size=part.pairs.size)
    policy = Policy.from_occupancy(mdp, 17.0 * occupancy)
    support = np.zeros(mdp.n_states, dtype=bool)
    support[part.states] = True

    visits = mdp.to_pairs(mdp.state_sums(occupancy))[part.pairs]
    np.testing.assert_allclose(
        policy.probability[part.pairs], occupancy[part.pairs] / visits, rtol=1e-12
    )
    arrives = np.isfinite(policy.chain().hitting_times(part.states))
    assert arrives[support].all()
    # Which other states can be sure to arrive is tested with pairs_towards.
    towards = pairs_towards(mdp, support)
    np.testing.assert_array_equal(policy.probability[towards[towards >= 0]], 1.0)
    if mdp.diagnose().communicating:
        assert arrives.all()
        assert len(policy.chain().recurrent_classes()) == 1


def test_completion_avoids_a_shorter_way_that_may_end_in_a_trap():
    """From the quay the ferry leads to the island at once, or sinks; the road is longer."""
    mdp = MDP.from_transitions(
        [
            ("island", "stay", "island", 1.0),
            ("quay", "ferry", "island", 0.9),
            ("quay", "ferry", "deep", 0.1),
            ("quay", "road", "bridge", 1.0),
            ("bridge", "on", "island", 1.0),
            ("deep", "sink", "deep", 1.0),
        ]
    )
    occupancy = np.zeros(mdp.n_pairs)
    occupancy[mdp.pairs_of(mdp.state_index("island"))[0]] = 1.0
    policy = Policy.from_occupancy(mdp, occupancy)
    times = policy.chain().hitting_times(mdp.state_index("island"))
    assert times[mdp.state_index("quay")] == 2.0
    assert times[mdp.state_index("deep")] == np.inf


def test_completion_takes_the_likelier_of_two_ways_of_the_same_length():
    mdp = MDP.from_transitions(
        [
            ("home", "stay", "home", 1.0),
            ("away", "slow", "home", 0.1),
            ("away", "slow", "away", 0.9),
            ("away", "fast", "home", 0.8),
            ("away", "fast", "away", 0.2),
        ]
    )
    policy = Policy.from_occupancy(mdp, [1.0, 0.0, 0.0])
    assert policy.chain().hitting_times(0)[1] == pytest.approx(1 / 0.8)


def test_completion_of_a_large_map_is_one_search():
    mdp = sj.MDP.from_grid("\n".join(["." * 300] * 300))
    occupancy = np.zeros(mdp.n_pairs)
    occupancy[0] = 1.0  # the device stays in the corner (0, 0)
    policy = Policy.from_occupancy(mdp, occupancy)
    times = policy.chain().hitting_times(0)
    x, y = np.array(mdp.state_labels[:]).T
    np.testing.assert_array_equal(times, x + y)


@given(mdps())
def test_uniform_and_deterministic(mdp):
    uniform = Policy.uniform(mdp)
    np.testing.assert_allclose(mdp.state_sums(uniform.probability), 1.0, rtol=1e-14)
    first = Policy.deterministic(mdp, mdp.pair_start[:-1])
    np.testing.assert_array_equal(first.probability[mdp.pair_start[:-1]], 1.0)
    assert first.probability.sum() == mdp.n_states


def test_occupancy_of_a_given_distribution():
    mdp = random_mdp("ragged", 4, 3, np.random.default_rng(0))
    policy = Policy.uniform(mdp)
    eta = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(mdp.state_sums(policy.occupancy(eta)), eta, rtol=1e-14)


def test_a_solvers_rounding_below_zero_is_zero():
    exact = Policy.from_occupancy(TWO, [2.0, 0.0, 1.0])
    assert Policy.from_occupancy(TWO, [2.0, -1e-12, 1.0]) == exact


def test_frozen_and_picklable():
    policy = Policy.uniform(random_mdp("ragged", 5, 3, np.random.default_rng(1)))
    policy.chain()
    with pytest.raises(FrozenError):
        policy.probability = None
    with pytest.raises(ValueError, match="read-only"):
        policy.probability[0] = 1.0
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    np.testing.assert_array_equal(again.chain().stationary(), policy.chain().stationary())


TWO = MDP.from_transitions(
    [("a", "stay", "a", 1.0), ("a", "go", "b", 1.0), ("b", "go", "a", 1.0)]
)  # fmt: skip


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Policy(TWO, [1.0, 0.0]), r"shape \(2,\)"),
        (lambda: Policy(TWO, [1.5, -0.5, 1.0]), "-0.5 for state 'a', action 'go'"),
        (lambda: Policy(TWO, [0.5, np.nan, 1.0]), "nan for state 'a', action 'go'"),
        (lambda: Policy(TWO, [0.5, 0.4, 1.0]), "state 'a' sum to 0.9"),
        (lambda: Policy(TWO, [0.5, 0.5, np.inf]), "inf for state 'b'"),
        (lambda: Policy.deterministic(TWO, [0]), "one pair for each of 2 states"),
        (lambda: Policy.deterministic(TWO, [0.0, 2.0]), "one pair for each of 2 states"),
        (lambda: Policy.deterministic(TWO, [2, 2]), "2 is not a pair of state 'a'"),
        (lambda: Policy.deterministic(TWO, [-3, 2]), "-3 is not a pair of state 'a'"),
        (lambda: Policy.from_occupancy(TWO, [0.0, 0.0, 0.0]), "zero everywhere"),
        (lambda: Policy.from_occupancy(TWO, [1.0, -1e-6, 0.0]), "-1e-06 for state 'a'"),
        (lambda: Policy.from_occupancy(TWO, [-1.0, -1.0, -1.0]), "-1.0 for state 'a'"),
        (lambda: Policy(TWO, "uniform"), "not a real number"),
        (lambda: Policy(np.eye(2), [1.0, 1.0]), "ndarray is not a model"),
        (lambda: Policy.from_occupancy(TWO, [1.0]), r"shape \(1,\)"),
        (lambda: Policy.uniform(TWO).occupancy([1.0]), r"shape \(1,\)"),
    ],
)
def test_refusals_name_the_place(build, said):
    with pytest.raises(ArgumentError, match=said) as caught:
        build()
    assert caught.value.hint
