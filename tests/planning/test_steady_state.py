"""Policies with a wanted distribution, or the closest one, against cvxpy and by their proofs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import ArgumentError, InfeasibleFloor
from sojourn.planning import project_onto_stationary, steady_state_policy
from sojourn.planning.steady_state import EXACT, Match, SteadyState
from sojourn.solvers.linear_oracle import LinearOracle, count_classes
from sojourn.testing.arbitrary import mdps
from sojourn.testing.generators import COMMUNICATING, KINDS, random_mdp, random_policy

SANE = [kind for kind in KINDS if kind != "near_reducible"]


def check(mdp: sj.MDP, result: SteadyState) -> None:
    x = result.occupancy
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.abs(mdp.flow_residual(x)).max() < 1e-12
    np.testing.assert_array_equal(result.distribution, mdp.state_sums(x))
    assert result.distance == pytest.approx(np.linalg.norm(result.distribution - result.target))
    assert result.at_least <= result.distance
    assert result.recurrent_classes == count_classes(mdp, x)
    # The separating hyperplane: no stationary distribution lies beyond it.
    r = result.distribution - result.target
    if result.distance > EXACT:
        answer = LinearOracle(mdp).solve(r)
        gap = r @ result.distribution - answer.bound
        # Where groups of states hardly communicate the balance leaves some rounding in η.
        assert gap > -1e-9
        assert result.distance - max(gap, 0.0) / result.distance <= result.at_least + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_a_policys_distribution_is_met_exactly(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(12):
        mdp = random_mdp(kind, int(rng.integers(1, 8)), 3, rng)
        chain = random_policy(mdp, rng, positive=bool(rng.random() < 0.5)).chain()
        k = int(rng.integers(len(chain.recurrent_classes())))
        target = chain.stationary(k)
        result = steady_state_policy(mdp, target)
        assert result.exact
        assert result.status is Match.EXACT
        check(mdp, result)
        if kind in SANE and kind in COMMUNICATING and result.recurrent_classes == 1:
            # It is the policy that has the distribution, not only the occupancy.
            np.testing.assert_allclose(result.policy.chain().stationary(0), target, atol=1e-7)


@pytest.mark.parametrize("kind", SANE)
def test_a_vertex_is_met_exactly(kind: str) -> None:
    """Targets that allow one occupancy only: no interior for an interior point."""
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(10):
        mdp = random_mdp(kind, int(rng.integers(2, 8)), 3, rng)
        vertex = LinearOracle(mdp).solve(rng.normal(size=mdp.n_pairs)).occupancy
        result = steady_state_policy(mdp, mdp.state_sums(vertex))
        assert result.distance < 1e-12
        check(mdp, result)


@pytest.mark.parametrize("kind", SANE)
def test_the_projection_is_cvxpys(kind: str) -> None:
    rng = np.random.default_rng(10 + KINDS.index(kind))
    closest = 0
    for _ in range(10):
        mdp = random_mdp(kind, int(rng.integers(1, 7)), 3, rng)
        target = rng.dirichlet(np.ones(mdp.n_states))
        result = steady_state_policy(mdp, target)
        check(mdp, result)
        E = np.zeros((mdp.n_states, mdp.n_pairs))
        E[mdp.pair_state, np.arange(mdp.n_pairs)] = 1.0
        x = cp.Variable(mdp.n_pairs, nonneg=True)
        balance = E - mdp.transitions.toarray().T
        problem = cp.Problem(
            cp.Minimize(cp.sum_squares(E @ x - target)), [cp.sum(x) == 1, balance @ x == 0]
        )
        problem.solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(result.distribution, E @ x.value, atol=2e-4)
        assert result.distance <= np.sqrt(max(problem.value, 0)) + 1e-6
        if result.status is Match.CLOSEST:
            closest += 1
            assert result.distance - result.at_least < 1e-6
    assert closest > 0 or kind == "one_state"


@settings(max_examples=25, deadline=None)
@given(mdp=mdps(max_states=6), seed=st.integers(0, 2**32 - 1))
def test_projecting_twice_changes_nothing(mdp: sj.MDP, seed: int) -> None:
    target = np.random.default_rng(seed).dirichlet(np.ones(mdp.n_states))
    once = project_onto_stationary(mdp, target)
    check(mdp, once)
    twice = project_onto_stationary(mdp, once.distribution)
    assert twice.distance < 1e-9


def test_the_policy_has_no_more_classes_than_it_must() -> None:
    # A third of the time in each state of a line with staying: never leaving has it too.
    mdp = sj.MDP.from_grid("...")
    result = steady_state_policy(mdp, np.full(3, 1 / 3))
    assert result.exact
    assert result.recurrent_classes == 1
    # Half of the time at either end and never between: two classes, whatever one does.
    result = steady_state_policy(mdp, [0.5, 0.0, 0.5])
    assert result.exact
    assert result.recurrent_classes == 2


def test_a_floor_is_kept_and_is_not_doubled() -> None:
    world = sj.instances.river_swim(5)
    target = np.array([0.96, 0.01, 0.01, 0.01, 0.01])
    result = project_onto_stationary(world.mdp, target, floor=0.05)
    assert result.distribution.min() == pytest.approx(0.05, abs=1e-8)
    free = project_onto_stationary(world.mdp, target)
    assert free.distance < result.distance
    each = project_onto_stationary(world.mdp, target, floor=[0.0, 0.05, 0.0, 0.0, 0.0])
    assert free.distance <= each.distance <= result.distance
    assert each.distribution[1] >= 0.05 - 1e-8
    with pytest.raises(InfeasibleFloor) as caught:
        project_onto_stationary(world.mdp, target, floor=0.3)
    largest = caught.value.largest
    assert project_onto_stationary(world.mdp, target, floor=0.999 * largest).distance > 0


def test_a_map_of_some_size() -> None:
    world = sj.instances.grid_survey(18, 12, slip=0.1, seed=0)
    mdp, rng = world.mdp, np.random.default_rng(0)
    rough = rng.dirichlet(np.full(mdp.n_states, 0.5))
    result = steady_state_policy(mdp, rough)
    assert result.status is Match.CLOSEST
    assert result.distance - result.at_least < 1e-6 * result.distance
    check(mdp, result)
    even = sj.Policy.uniform(mdp).chain().stationary()
    assert steady_state_policy(mdp, even).distance < 1e-12


def test_communicating_kinds_give_policies_that_lead_to_the_support() -> None:
    rng = np.random.default_rng(3)
    for kind in COMMUNICATING:
        mdp = random_mdp(kind, 6, 3, rng)
        vertex = LinearOracle(mdp).solve(rng.normal(size=mdp.n_pairs)).occupancy
        result = steady_state_policy(mdp, mdp.state_sums(vertex))
        classes = result.policy.chain().recurrent_classes()
        assert len(classes) == result.recurrent_classes


def test_wrong_arguments_are_named() -> None:
    mdp = sj.MDP.from_grid("...")
    with pytest.raises(ArgumentError, match="target distribution has shape"):
        steady_state_policy(mdp, [0.5, 0.5])
    with pytest.raises(ArgumentError, match="not a probability distribution"):
        steady_state_policy(mdp, [0.5, 0.5, 0.5])
    with pytest.raises(ArgumentError, match="not a probability distribution"):
        steady_state_policy(mdp, [0.5, np.nan, 0.5])
    with pytest.raises(ArgumentError, match="the floor"):
        project_onto_stationary(mdp, [0.5, 0.0, 0.5], floor=-1.0)
    assert "asked for" in str(steady_state_policy(mdp, [1.0, 0.0, 0.0]).status)
