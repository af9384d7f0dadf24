"""Plans for a finite horizon against programmes that are written out in full."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from sojourn import MDP, instances
from sojourn.solvers import horizon
from sojourn.testing.generators import random_mdp


def arrays(mdp: MDP) -> tuple[Any, ...]:
    P = mdp.transitions
    return mdp.pair_start, P.indptr, P.indices, P.data


def fluid(mdp: MDP, w: Any, T: Any, state: int, steps: int, components: int, gap: float) -> Any:
    """Planned visits of every state."""
    n = mdp.n_states
    pick = np.empty((components, steps, n), dtype=np.int64)
    depth = np.empty(components, dtype=np.int64)
    M, share, N = np.empty((components, n)), np.empty(components), np.empty(n)
    count = horizon.plan(
        *arrays(mdp), np.empty((0, mdp.n_pairs), dtype=np.bool_), w, T, state, steps, gap,
        pick, depth, M, share, N, np.empty((3, n)), np.empty((2, n)),
    )  # fmt: skip
    assert share[:count].sum() == pytest.approx(1.0)
    assert share[:count] @ M[:count] == pytest.approx(N)
    return N


def written_out(mdp: MDP, w: Any, T: Any, state: int, steps: int) -> float:
    """min Σ w/(T + N) over the occupancies of every step."""
    P = mdp.transitions.toarray()
    E = np.eye(mdp.n_states)[mdp.pair_state]
    flow = [cp.Variable(mdp.n_pairs, nonneg=True) for _ in range(steps)]
    here, constraints, N = np.eye(1, mdp.n_states, state).ravel(), [], 0
    for x in flow:
        constraints.append(E.T @ x == here)
        here = P.T @ x
        N = N + here
    problem = cp.Problem(cp.Minimize(w @ cp.inv_pos(T + N)), constraints)
    return float(problem.solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("seed", range(8))
def test_fluid_plans_meet_the_whole_programme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    mdp = random_mdp("ragged", n, 3, rng) if seed % 2 else instances.path(n, stay=True).mdp
    w, T = rng.lognormal(0.0, 2.0, n), rng.integers(1, 20, n).astype(float)
    state, steps = int(rng.integers(n)), int(rng.integers(1, 25))
    N = fluid(mdp, w, T, state, steps, 64, 1e-6)
    assert N.sum() == pytest.approx(steps)
    best = written_out(mdp, w, T, state, steps)
    found = float((w / (T + N)).sum())
    assert best * (1 - 1e-6) <= found <= best * (1 + 1e-5)


def test_the_line_search_finds_the_minimum() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 8))
        w, T = rng.lognormal(0, 3, n), rng.integers(1, 9, n) * 1.0
        N, goal = rng.random((2, n)) * 50
        high = rng.random()
        D = goal - N
        g = horizon.line_search(w, T, N, D, high)
        assert 0.0 <= g <= high
        loss = (w / (T + N + g * D)).sum()
        others = w[:, None] / (T[:, None] + N[:, None] + np.linspace(0, high, 999) * D[:, None])
        assert loss <= others.sum(axis=0).min() * (1 + 1e-7)


def rolled(mdp: MDP, gains: Any, discount: float, left: int, sight: int, value: Any) -> Any:
    """The pairs of a rolling plan whose marginal gains are ``gains``."""
    pick = np.empty((1, mdp.n_states), dtype=np.int64)
    horizon.rolling(
        *arrays(mdp), np.empty((0, mdp.n_pairs), dtype=np.bool_), 2.0 * gains[None],
        np.ones((1, mdp.n_states)), np.zeros((1, mdp.n_states)), np.array([discount]),
        np.array([left]), np.array([sight]), value, pick,
    )  # fmt: skip
    return pick[0]


def values(mdp: MDP, gains: Any, discount: float, steps: int) -> Any:
    value = np.zeros(mdp.n_states)
    for _ in range(steps):
        worth = mdp.transitions @ (gains + discount * value)
        value = np.maximum.reduceat(worth, mdp.pair_start[:-1])
    return value


@pytest.mark.parametrize("seed", range(6))
def test_rolling_plans_are_those_of_value_iteration(seed: int) -> None:
    """Near the end for the steps that are left, elsewhere going on from the values of before."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp("ragged", 8, 3, rng)
    discount, sight = 0.8, 62
    gains = rng.lognormal(0, 2, 8)

    def worth(pairs: Any, value: Any) -> Any:
        return (mdp.transitions @ (gains + discount * value))[pairs]

    for left in (1, 3, 20):
        before = values(mdp, gains, discount, left - 1)
        best = values(mdp, gains, discount, left)
        pairs = rolled(mdp, gains, discount, left, sight, rng.random((1, 8)))
        assert worth(pairs, before) == pytest.approx(best)

    value = rng.random((1, 8))
    whole = values(mdp, gains, discount, 400)
    for _ in range(10):
        pairs = rolled(mdp, gains, discount, 10**6, sight, value)
    assert worth(pairs, whole) == pytest.approx(whole, rel=1e-2)
