"""Rates as they are: the excess loss of learners against time, its exponent and the error of it.

Thm. thm:regret_FWAME promises an exponent of −1/3 at most. Measured on fast Garnets, where
nothing but learning is slow; ``sojourn reproduce rates`` is the same at full size.
"""

import numpy as np
import pytest

from sojourn.experiments.analysis.rates import PROMISED, exponent
from sojourn.experiments.runners import excess


def curves(strategy, budgets, worlds, runs, **options):
    """The mean excess at each budget, a row per world."""
    shared = {
        "n_states": 5, "n_actions": 3, "branching": 4, "budgets": budgets, "runs": runs,
        "strategy": strategy, "label": strategy, "options": options,
    }  # fmt: skip
    rows = [excess(shared | {"world": k}, seed=k) for k in range(worlds)]
    return np.array([[row["excess"] for row in sorted(r, key=lambda row: row["n"])] for r in rows])


def test_fw_ame_is_faster_than_its_theorem():
    budgets = [1000, 3000, 10_000, 30_000]
    value, error = exponent(budgets, curves("fw-ame", budgets, worlds=8, runs=20))
    assert error < 0.12
    assert value + 2 * error < PROMISED


@pytest.mark.parametrize("length", [20, 100])
def test_constant_episodes_do_not_suffer_a_constant_regret(length):
    """Remark (rate) expects an error of order 1/√τ that stays. Errors of tracking have no
    preferred direction, and each episode starts from what the earlier ones left: they average
    out, and the excess goes on falling, faster than t^(−1/3) as well."""
    budgets = [300, 1000, 3000, 10_000]
    found = curves("fw-ame", budgets, worlds=8, runs=40, schedule=length)
    value, error = exponent(budgets, found)
    assert value + 2 * error < PROMISED
    assert found[:, -1].mean() < 0.25 * found[:, 0].mean()


def test_lookahead_is_ahead_and_steeper():
    budgets = [100, 300, 1000]
    ours = curves("lookahead", budgets, worlds=6, runs=20)
    value, error = exponent(budgets, ours)
    assert value + 3 * error < -0.5
    theirs = curves("fw-ame", budgets, worlds=6, runs=40)
    assert (ours.mean(axis=0) < 0.7 * theirs.mean(axis=0)).all()


def test_a_policy_that_does_not_learn_has_a_constant_regret():
    """The control: the measured exponent of the uniform policy is almost 0."""
    budgets = [300, 1000, 3000, 10_000]
    value, error = exponent(budgets, curves("uniform", budgets, worlds=6, runs=200))
    assert -0.1 < value < 2 * error
