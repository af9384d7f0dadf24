"""The extended-occupancy programme by column generation against the whole programme in S²A
unknowns, written out for a general solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from sojourn import instances
from sojourn.errors import ArgumentError, InfeasibleFloor, SolverFailure
from sojourn.solvers.extended_occupancy import COMPILED, extended_occupancy
from sojourn.solvers.extended_value_iteration import extended_value_iteration
from sojourn.solvers.plausible import EVERYTHING, Plausible

Array = NDArray[np.float64]


def sets_around(rng: np.random.Generator, n: int, actions: int, box: bool) -> Plausible:
    """Boxes or balls, around rows that lead to few states."""
    pairs = n * actions
    estimate = rng.dirichlet(np.full(n, 0.4), size=pairs)
    if not box:
        full = np.ones_like(estimate)
        return Plausible(
            np.arange(n + 1) * actions, estimate, 0.0 * full, full,
            rng.choice([0.1, 0.5, EVERYTHING], size=pairs),
        )  # fmt: skip
    width = rng.choice([0.05, 0.3], size=(pairs, 1)) * rng.random((pairs, n))
    return Plausible(
        np.arange(n + 1) * actions, estimate, np.maximum(estimate - width, 0.0),
        np.minimum(estimate + width, 1.0), np.full(pairs, EVERYTHING),
    )  # fmt: skip


def whole_programme(model: Plausible, g: Array, lower: float) -> Any:
    """Unknowns q(p, s') = λ(p)p̂ + u − v, so that |q − λp̂| ≤ u + v: all of λ, u, v at once."""
    n, m = model.n_states, model.n_pairs
    eye, lam = np.eye(m * n), np.repeat(np.eye(m), n, axis=0)
    flat = lam * model.estimate.ravel()[:, None]
    q = np.hstack([flat, eye, -eye])
    mass = np.repeat(np.eye(m), n, axis=1)
    out = (model.pair_state == np.arange(n)[:, None]).astype(float)
    into = np.tile(np.eye(n), (1, m))
    zero = np.zeros((m, 2 * m * n))
    balance = np.hstack([out, np.zeros((n, 2 * m * n))]) - into @ q
    return linprog(
        np.concatenate([g, np.zeros(2 * m * n)]),
        A_ub=np.vstack([
            q - np.hstack([lam * model.high.ravel()[:, None], np.zeros((m * n, 2 * m * n))]),
            np.hstack([lam * model.low.ravel()[:, None], np.zeros((m * n, 2 * m * n))]) - q,
            np.hstack([-np.diag(model.radius), mass, mass]),
            np.hstack([-out, np.zeros((n, 2 * m * n))]),
        ]),
        b_ub=np.concatenate([np.zeros(2 * m * n + m), np.full(n, -lower)]),
        A_eq=np.vstack([
            balance, np.hstack([np.zeros((m, m)), mass, -mass]),
            np.concatenate([np.ones(m), zero[0]])[None],
        ]),
        b_eq=np.concatenate([np.zeros(n + m), [1.0]]),
    )  # fmt: skip


def check(model: Plausible, g: Array, lower: float, answer: Any) -> None:
    """Feasible for the whole programme, and proved against all of it."""
    occupancy, rows = answer.occupancy, answer.transitions
    assert occupancy.min() >= 0.0
    assert occupancy.sum() == pytest.approx(1.0, abs=1e-9)
    used = occupancy > 1e-9
    assert model.contains(rows)[used].all()
    eta = np.bincount(model.pair_state, occupancy, model.n_states)
    np.testing.assert_allclose(occupancy @ rows, eta, atol=1e-8)
    assert eta.min() >= lower - 1e-9
    assert occupancy @ g == pytest.approx(answer.value, abs=1e-8)
    assert -1e-9 <= answer.gap <= 1e-8 * np.ptp(g)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_it_agrees_with_the_whole_programme(seed: int, box: bool) -> None:
    rng = np.random.default_rng(seed)
    n, actions = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    model = sets_around(rng, n, actions, box)
    g = rng.normal(size=model.n_pairs)
    lower = float(rng.choice([0.0, 0.3, 0.8])) / n
    whole = whole_programme(model, g, lower)
    if not whole.success:
        with pytest.raises(InfeasibleFloor):
            extended_occupancy(model, g, lower)
        return
    answer = extended_occupancy(model, g, lower)
    assert answer.value == pytest.approx(whole.fun, abs=1e-8)
    check(model, g, lower, answer)


def test_larger_models_grow_by_columns_in_highs() -> None:
    rng = np.random.default_rng(3)
    world = instances.garnet(COMPILED + 10, 3, 3, seed=2)
    truth = world.mdp.transitions.toarray()
    estimate = np.array([rng.multinomial(500, row / row.sum()) for row in truth]) / 500.0
    width = np.sqrt(10.0 * estimate * (1.0 - estimate) / 500.0) + 0.02
    model = Plausible(
        world.mdp.pair_start, estimate, np.maximum(estimate - width, 0.0),
        np.minimum(estimate + width, 1.0), np.full(len(truth), EVERYTHING),
    )  # fmt: skip
    g = -world.variance / (rng.dirichlet(np.full(world.mdp.n_states, 3.0)) + 0.01)
    cost = g[model.pair_state]
    free = extended_value_iteration(model, -g, 1e-10)
    assert extended_occupancy(model, g).value == pytest.approx(-free.gain, abs=1e-7 * np.ptp(g))
    lower = 0.3 / world.mdp.n_states
    answer = extended_occupancy(model, g, lower, model.best(free.bias))
    check(model, cost, lower, answer)
    assert answer.value >= -free.bound - 1e-9

    early = extended_occupancy(model, g, lower, model.best(free.bias), rounds=1, throw=False)
    assert early.rounds <= 1
    assert early.bound <= answer.value <= early.value
    with pytest.raises(SolverFailure, match="throw=False"):
        extended_occupancy(model, g, lower, rounds=0)


def test_several_classes_are_counted() -> None:
    """Two states that can only stay: with a floor the mass lies in two classes."""
    eye = np.eye(2)
    model = Plausible(np.arange(3), eye, eye, eye, np.zeros(2))
    answer = extended_occupancy(model, np.array([0.0, 1.0]), 0.25)
    assert answer.recurrent_classes == 2
    assert answer.value == pytest.approx(0.25)


def test_impossible_floors_and_nonsense() -> None:
    model = sets_around(np.random.default_rng(0), 3, 2, True)
    with pytest.raises(InfeasibleFloor):
        extended_occupancy(model, np.zeros(3), 0.5)
    with pytest.raises(ArgumentError, match="cost has shape"):
        extended_occupancy(model, np.zeros(5))
