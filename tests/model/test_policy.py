"""Policies: what they refuse, the chain they induce, and completion off the support."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.errors import ArgumentError
from sojourn.instances import three_state
from sojourn.model import MDP, Policy
from sojourn.testing import mdps, policies

MDP3 = three_state().mdp


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (np.ones(5), "expected (6,)"),
        ([0.5, 0.5, 1, 0, 1.5, -0.5], "-0.5 for state 's3', action 'a2'"),
        ([0.5, 0.5, 1, 0, np.nan, 1], "nan for state 's3'"),
        ([0.5, 0.5, 1, 0, 0.5, 0.4], "state 's3' sum to 0.9"),
    ],
)
def test_refused_policies(probability: object, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Policy(MDP3, probability)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("pairs", [[0, 2], [0, 2, 6], [0, 2, -1], [2, 0, 4], [0, 0, 4]])
def test_refused_deterministic_policies(pairs: list[int]) -> None:
    with pytest.raises(ArgumentError) as caught:
        Policy.deterministic(MDP3, pairs)
    assert caught.value.hint


@pytest.mark.parametrize("occupancy", [np.zeros(6), np.ones(5), -np.ones(6), np.full(6, np.nan)])
def test_refused_occupancies(occupancy: np.ndarray) -> None:
    with pytest.raises(ArgumentError) as caught:
        Policy.from_occupancy(MDP3, occupancy)
    assert caught.value.hint


@given(st.data())
def test_the_chain_is_the_mixture_of_the_rows(data: st.DataObject) -> None:
    mdp = data.draw(mdps())
    policy = data.draw(policies(mdp))
    P = np.zeros((mdp.n_states, mdp.n_states))
    for s in range(mdp.n_states):
        for pair in mdp.pairs_of(s):
            P[s] += policy.probability[pair] * mdp.transitions[[pair]].toarray().ravel()
    np.testing.assert_allclose(policy.transition_matrix().toarray(), P, atol=1e-15)
    assert (policy.transition_matrix().data > 0).all()


@given(mdps())
def test_uniform_and_deterministic(mdp: MDP) -> None:
    uniform = Policy.uniform(mdp)
    for s in range(mdp.n_states):
        assert len(set(uniform.probability[list(mdp.pairs_of(s))].tolist())) == 1
    last = mdp.pair_start[1:] - 1
    policy = Policy.deterministic(mdp, last)
    assert np.flatnonzero(policy.probability).tolist() == last.tolist()


@given(st.data())
def test_occupancies_and_policies_give_each_other_back(data: st.DataObject) -> None:
    mdp = data.draw(mdps(communicating=True))
    policy = data.draw(policies(mdp, positive=True))
    occupancy = policy.occupancy()
    assert occupancy.sum() == pytest.approx(1)
    np.testing.assert_allclose(mdp.flow_residual(occupancy), 0, atol=1e-12)
    again = Policy.from_occupancy(mdp, occupancy)
    np.testing.assert_allclose(again.probability, policy.probability, rtol=1e-9)
    scaled = Policy.from_occupancy(mdp, 1e-30 * occupancy)
    np.testing.assert_allclose(scaled.probability, policy.probability, rtol=1e-9)


@given(st.data())
def test_off_its_support_a_policy_leads_to_it(data: st.DataObject) -> None:
    mdp = data.draw(mdps(communicating=True))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    occupancy = rng.random(mdp.n_pairs) * mdp.to_pairs(rng.random(mdp.n_states) < 0.5)
    occupancy[int(rng.integers(mdp.n_pairs))] = 1.0
    policy = Policy.from_occupancy(mdp, occupancy)
    visited = mdp.state_sums(occupancy)
    support = visited > 0
    on = mdp.to_pairs(support)
    np.testing.assert_allclose(
        policy.probability[on], occupancy[on] / mdp.to_pairs(visited)[on], rtol=1e-12
    )
    # Stop at the support: whatever the start, the walk gets there with probability 1.
    P = policy.transition_matrix().toarray()
    P[support] = np.eye(mdp.n_states)[support]
    closer = support.copy()
    for _ in range(mdp.n_states):
        closer |= (P[:, closer] > 0).any(axis=1)
    assert closer.all()


def test_where_no_way_leads_to_the_support_every_action_is_as_good() -> None:
    mdp = MDP.from_transitions([("a", "x", "a", 1.0), ("b", "x", "b", 1.0), ("b", "y", "b", 1.0)])
    assert Policy.from_occupancy(mdp, [1.0, 0.0, 0.0]).probability.tolist() == [1, 0.5, 0.5]


def test_completion_prefers_the_way_that_can_not_fail() -> None:
    mdp = MDP.from_transitions(
        [
            ("goal", "stay", "goal", 1.0),
            ("start", "gamble", "goal", 0.9), ("start", "gamble", "pit", 0.1),
            ("start", "walk", "road", 1.0), ("road", "on", "goal", 1.0),
            ("pit", "stay", "pit", 1.0),
        ]
    )  # fmt: skip
    policy = Policy.from_occupancy(mdp, [1.0, 0, 0, 0, 0])
    assert policy.probability.tolist() == [1, 0, 1, 1, 1]
