"""Optimism over sets of models: greedy members against linear programmes, extended value iteration
against the extended linear programme, and the promise that optimism makes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from sojourn import MDP, Policy, instances
from sojourn.errors import ArgumentError
from sojourn.solvers.extended_occupancy import extended_occupancy
from sojourn.solvers.extended_value_iteration import extended_value_iteration
from sojourn.solvers.linear_oracle import LinearOracle
from sojourn.solvers.plausible import EVERYTHING, Plausible, lift

Array = NDArray[np.float64]


def random_sets(rng: np.random.Generator, n_states: int, n_actions: int) -> Plausible:
    """Boxes cut with balls, some of them points, some everything; all can lead everywhere."""
    pairs = n_states * n_actions
    estimate = rng.dirichlet(np.full(n_states, 0.5), size=pairs)
    width = rng.choice([0.02, 0.1, 0.5, 1.0], size=(pairs, 1)) * rng.random((pairs, n_states))
    low = np.maximum(estimate - width, 0.0)
    high = np.minimum(estimate + width + 1e-3, 1.0)
    radius = rng.choice([0.05, 0.3, 1.0, EVERYTHING], size=pairs)
    return Plausible(np.arange(n_states + 1) * n_actions, estimate, low, high, radius)


def best_by_programme(model: Plausible, p: int, h: Array) -> float:
    """max ⟨q, h⟩ over 𝒞(p) with q = p̂ + u − v, by a general solver."""
    n = model.n_states
    eye = np.eye(n)
    answer = linprog(
        np.concatenate([-h, h]),
        A_ub=np.vstack([
            np.hstack([eye, -eye]), np.hstack([-eye, eye]), np.ones((1, 2 * n)),
        ]),
        b_ub=np.concatenate([
            model.high[p] - model.estimate[p], model.estimate[p] - model.low[p], [model.radius[p]],
        ]),
        A_eq=np.concatenate([np.ones(n), -np.ones(n)])[None],
        b_eq=[0.0],
        # By default constraints may be broken by 1e-7, and so the optimum be beaten by as much.
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return float(model.estimate[p] @ h - answer.fun)


@given(st.integers(0, 2**32 - 1))
def test_the_greedy_member_is_the_best_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_sets(rng, int(rng.integers(2, 7)), 2)
    h = rng.normal(size=model.n_states)
    members = model.best(h)
    assert model.contains(members).all()
    order = np.argsort(-h)
    for p in range(model.n_pairs):
        best = best_by_programme(model, p, h)
        assert members[p] @ h == pytest.approx(best, abs=1e-9)
        value = lift(
            model.estimate[p], model.low[p], model.high[p], float(model.radius[p]), h, order
        )
        assert value == pytest.approx(best, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_the_even_member_is_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_sets(rng, int(rng.integers(1, 7)), 2)
    assert model.contains(model.even()).all()


@given(st.integers(0, 2**32 - 1))
def test_it_agrees_with_the_programme_over_extended_occupancies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_sets(rng, int(rng.integers(2, 8)), int(rng.integers(1, 4)))
    reward = rng.normal(size=model.n_pairs)
    found = extended_value_iteration(model, reward, tolerance=1e-10)
    assert found.gap <= 1e-10 * np.ptp(reward) + 1e-14
    programme = extended_occupancy(model, -reward)
    assert found.gain == pytest.approx(-programme.value, abs=1e-8 * np.ptp(reward))


@given(st.integers(0, 2**32 - 1))
def test_its_policy_attains_the_gain_in_its_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_sets(rng, int(rng.integers(2, 8)), 2)
    reward = rng.normal(size=model.n_states)
    found = extended_value_iteration(model, reward, tolerance=1e-10)
    rows = model.estimate.copy()
    rows[found.chosen] = found.transitions
    assert model.contains(rows).all()
    if np.isfinite(found.distribution).all():
        eta = found.distribution
        np.testing.assert_allclose(eta @ found.transitions, eta, atol=1e-12)
        assert eta @ reward == pytest.approx(found.gain, abs=1e-8)


@given(st.integers(0, 2**32 - 1))
def test_optimism(seed: int) -> None:
    """With the truth in the set, the optimistic gain is not below the best true one, nor below
    that of any policy."""
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    pairs = n_states * n_actions
    truth = 0.98 * rng.dirichlet(np.full(n_states, 0.4), size=pairs) + 0.02 / n_states
    estimate = rng.dirichlet(np.full(n_states, 0.4), size=pairs)
    distance = np.abs(truth - estimate)
    slack = rng.choice([1.0, 1.2], size=(pairs, 1))
    model = Plausible(
        np.arange(n_states + 1) * n_actions,
        estimate,
        np.maximum(estimate - slack * distance, 0.0),
        np.minimum(estimate + slack * distance, 1.0),
        np.minimum(distance.sum(axis=1) * slack[:, 0], EVERYTHING),
    )
    assert model.contains(truth).all()
    reward = rng.normal(size=n_states)
    found = extended_value_iteration(model, reward, tolerance=1e-10)
    mdp = MDP.from_array(truth.reshape(n_states, n_actions, n_states))
    best = -LinearOracle(mdp).solve(-reward).value
    assert found.gain >= best - 1e-9
    some = Policy(mdp, rng.dirichlet(np.ones(n_actions), size=n_states).ravel())
    assert found.gain >= some.chain().stationary() @ reward - 1e-9


def test_a_point_is_the_model_itself() -> None:
    """Sets without width: the ordinary average reward, periodic models included."""
    cycle = instances.cycle(6).mdp
    P = cycle.transitions.toarray()
    model = Plausible(cycle.pair_start, P, P, P, np.zeros(len(P)))
    reward = np.arange(6.0)
    found = extended_value_iteration(model, reward)
    assert found.gain == pytest.approx(-LinearOracle(cycle).solve(-reward).value, abs=1e-6)


@pytest.mark.parametrize("count", [5, 20, 2000])
def test_a_hundred_states_are_proved(count: int) -> None:
    """Nearly absorbing optimistic models, where leaving takes 1e17 steps by rounding alone."""
    rng = np.random.default_rng(count)
    world = instances.grid_survey(10, 10, obstacles=0.0, slip=0.1, drift=(1, 0, 0.1), field="hard")
    truth = world.mdp.transitions.toarray()
    estimate = np.array([rng.multinomial(count, row / row.sum()) for row in truth]) / count
    width = np.sqrt(10.0 * estimate * (1.0 - estimate) / count) + 12.0 / count
    model = Plausible(
        world.mdp.pair_start, estimate, np.maximum(estimate - width, 0.0),
        np.minimum(estimate + width, 1.0), np.full(len(truth), EVERYTHING),
    )  # fmt: skip
    reward = world.variance / (rng.dirichlet(np.full(100, 3.0)) + 1e-3) ** 2
    found = extended_value_iteration(model, reward, tolerance=1e-9)
    assert found.gap <= 1e-9 * np.ptp(reward)


def test_a_good_start_changes_nothing_but_the_work() -> None:
    rng = np.random.default_rng(0)
    model = random_sets(rng, 7, 3)
    reward = rng.normal(size=7)
    cold = extended_value_iteration(model, reward)
    warm = extended_value_iteration(model, reward, bias=cold.bias)
    assert warm.gain == pytest.approx(cold.gain, abs=1e-6)
    assert warm.sweeps <= cold.sweeps


def test_nonsense_is_refused() -> None:
    model = random_sets(np.random.default_rng(0), 3, 2)
    with pytest.raises(ArgumentError, match="reward has shape"):
        extended_value_iteration(model, np.zeros(4))
    with pytest.raises(ArgumentError, match="not finite"):
        extended_value_iteration(model, np.array([0.0, np.nan, 1.0]))
    with pytest.raises(ArgumentError, match="expected"):
        Plausible(model.pair_start, model.estimate[:2], model.low, model.high, model.radius)
    with pytest.raises(ArgumentError, match="outside of its own set"):
        Plausible(model.pair_start, model.estimate, model.high, model.high, model.radius)
