"""The linear oracle against scipy's linear programming, and against duality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from sojourn.model import MDP
from sojourn.solvers.linear_oracle import INFEASIBLE, OPTIMAL, DenseOracle
from sojourn.testing.generators import COMMUNICATING, random_mdp


def by_linprog(mdp: MDP, cost: np.ndarray, lower: np.ndarray) -> float | None:
    """The optimal value, or None where the bounds can't be met."""
    n, m = mdp.n_states, mdp.n_pairs
    E = np.zeros((n, m))
    E[mdp.pair_state, np.arange(m)] = 1.0
    flow = np.vstack([E - mdp.transitions.toarray().T, np.ones(m)])
    span = np.ptp(cost) or 1.0
    g = (cost - cost.min()) / span
    answer = linprog(
        g, A_ub=-E, b_ub=-lower, A_eq=flow, b_eq=np.r_[np.zeros(n), 1.0], method="highs"
    )
    if answer.status == 2:
        return None
    assert answer.status == 0
    return float(cost.min() + span * answer.fun)


@pytest.mark.parametrize("kind", [k for k in COMMUNICATING if k != "near_reducible"])
def test_batch_agrees_with_linprog(kind: str) -> None:
    rng = np.random.default_rng(COMMUNICATING.index(kind))
    for _ in range(25):
        mdp = random_mdp(kind, int(rng.integers(1, 8)), 3, rng)
        cost = rng.normal(size=(3, mdp.n_pairs)) * 10.0 ** rng.uniform(-6, 6)
        for lower in (np.zeros(mdp.n_states), rng.uniform(0, 0.7 / mdp.n_states, mdp.n_states)):
            batch = DenseOracle(mdp).solve_batch(cost, lower)
            for w in range(3):
                truth = by_linprog(mdp, cost[w], lower)
                if truth is None:
                    assert batch.status[w] == INFEASIBLE
                    continue
                assert batch.status[w] == OPTIMAL
                span = np.ptp(cost[w]) or 1.0
                assert batch.value[w] == pytest.approx(truth, abs=1e-7 * span)
