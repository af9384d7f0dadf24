"""The generators keep the promises that other tests rely on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from sojourn.errors import ArgumentError
from sojourn.model import MDP, World
from sojourn.testing import (
    COMMUNICATING,
    KINDS,
    distributions,
    mdps,
    policies,
    random_mdp,
    random_policy,
    random_reversible,
    random_stochastic,
    random_variance,
    reversible_chains,
    stochastic_matrices,
    variances,
    worlds,
)

SEEDS = range(60)


def strong_parts(mdp: MDP) -> int:
    return int(connected_components(mdp.adjacency, connection="strong")[0])


def period(Q: np.ndarray) -> int:
    """Greatest common divisor of the lengths of closed walks through state 0."""
    power, lengths = np.eye(len(Q)), []
    for length in range(1, 3 * len(Q) + 1):
        power = (power @ Q > 0).astype(float)
        if power[0, 0]:
            lengths.append(length)
    return int(np.gcd.reduce(lengths))


def drawn(kind: str, n_states: int = 6) -> list[MDP]:
    return [random_mdp(kind, n_states, 3, np.random.default_rng(seed)) for seed in SEEDS]


@pytest.mark.parametrize("kind", COMMUNICATING)
def test_communicating_kinds_are(kind: str) -> None:
    assert all(strong_parts(mdp) == 1 for mdp in drawn(kind))


def test_components_are_not_communicating() -> None:
    assert all(strong_parts(mdp) > 1 for mdp in drawn("components"))


def test_each_kind_is_what_its_name_says() -> None:
    assert any(len(set(np.diff(mdp.pair_start).tolist())) > 1 for mdp in drawn("ragged"))
    assert all((mdp.transitions.data == 1).all() for mdp in drawn("deterministic"))
    assert all(period(mdp.adjacency.toarray().astype(float)) >= 2 for mdp in drawn("periodic"))
    assert all(mdp.n_pairs == mdp.n_states for mdp in drawn("one_action"))
    assert all(mdp.n_states == 1 for mdp in drawn("one_state"))
    smallest = [mdp.transitions.data.min() for mdp in drawn("near_reducible")]
    assert max(smallest) < 2e-3
    assert min(smallest) < 1e-8


def test_an_unknown_kind_lists_the_known_ones(rng: np.random.Generator) -> None:
    with pytest.raises(ArgumentError) as caught:
        random_mdp("odd", 3, 2, rng)
    assert all(kind in caught.value.hint for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits(kind: str) -> None:
    first, second = (random_mdp(kind, 5, 3, np.random.default_rng(7)) for _ in range(2))
    assert first == second


@given(st.data())
def test_policies_and_distributions(data: st.DataObject) -> None:
    mdp = data.draw(mdps())
    assert data.draw(policies(mdp, positive=True)).probability.min() > 0
    assert data.draw(policies(mdp)).probability.min() >= 0
    eta = data.draw(distributions(mdp.n_states))
    assert eta.shape == (mdp.n_states,)
    assert eta.sum() == pytest.approx(1)
    assert data.draw(distributions(mdp.n_states, positive=True)).min() > 0
    P = data.draw(stochastic_matrices())
    assert P.sum(axis=1) == pytest.approx(np.ones(len(P)))


def test_some_policies_have_zeros() -> None:
    mdp = random_mdp("ragged", 6, 3, np.random.default_rng(0))
    assert any(
        random_policy(mdp, np.random.default_rng(seed)).probability.min() == 0 for seed in SEEDS
    )


@given(st.data())
def test_variances_stay_within_the_ratio(data: st.DataObject) -> None:
    ratio = data.draw(st.sampled_from([1.0, 10.0, 1e12]))
    values = data.draw(variances(data.draw(st.integers(1, 8)), ratio=ratio))
    assert (values > 0).all()
    assert values.max() / values.min() <= ratio * (1 + 1e-9)


def test_the_largest_ratio_occurs() -> None:
    ratios = [np.ptp(np.log10(random_variance(6, np.random.default_rng(seed)))) for seed in SEEDS]
    assert max(ratios) == pytest.approx(12)
    assert min(ratios) == 0


@given(reversible_chains())
def test_reversible_chains_balance(chain: tuple[np.ndarray, np.ndarray]) -> None:
    P, eta = chain
    flow = eta[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=1e-12, atol=0)
    assert P.sum(axis=1) == pytest.approx(np.ones(len(P)))
    assert connected_components(P, connection="strong")[0] == 1


def test_reversible_chains_come_in_all_forms() -> None:
    forms = [random_reversible(5, np.random.default_rng(seed))[0] for seed in SEEDS]
    assert any((np.diag(P) == 0).all() and (P == 0).sum() > 5 for P in forms)
    assert any((P > 0).all() for P in forms)


def test_worlds_and_filters() -> None:
    world = find(worlds(kinds=("periodic",), min_states=3), lambda w: True)
    assert isinstance(world, World)
    assert world.mdp.n_states >= 3
    assert strong_parts(find(mdps(communicating=True), lambda m: m.n_states > 2)) == 1
    P = random_stochastic(6, np.random.default_rng(0), kind="components")
    assert connected_components(P, connection="strong")[0] > 1
