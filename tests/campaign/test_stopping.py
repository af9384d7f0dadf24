"""Goals: the ideal error is the optimum of a convex programme, and sentences fire in time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sojourn.campaign.estimates import estimate
from sojourn.campaign.stopping import checked_goal, ideal_error, mean_error, why_stop
from sojourn.errors import ArgumentError


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 10_000))
def test_ideal_error_is_optimal(n, steps, seed):
    rng = np.random.default_rng(seed)
    v, T, w = rng.uniform(0.1, 10, n), rng.integers(1, 20, n), rng.uniform(0.1, 3, n)
    found = ideal_error(v, T, w, steps)

    def loss(x):
        return float((w * v / (T + x)).sum() / w.sum())

    # Any split of the steps is no better; the best one of a solver is as good.
    for share in rng.dirichlet(np.ones(n), 50):
        assert found**2 <= loss(steps * share) * (1 + 1e-9)
    best = minimize(
        loss, np.full(n, steps / n), bounds=[(0, None)] * n, method="SLSQP",
        constraints={"type": "eq", "fun": lambda x: x.sum() - steps}, options={"ftol": 1e-14},
    )  # fmt: skip
    assert found**2 == pytest.approx(best.fun, rel=1e-4)


def test_ideal_error_ignores_what_has_no_noise():
    assert ideal_error(np.array([0.0, 4.0]), np.array([1, 1]), np.ones(2), 3) == pytest.approx(
        np.sqrt(0.5)
    )
    assert ideal_error(np.zeros(2), np.array([1, 1]), np.ones(2), 3) == 0.0


def known(error, count=4):
    """Estimates with this standard error at three sites."""
    variance = count * error**2
    return estimate(np.full(3, count), np.zeros(3), np.full(3, variance * (count - 1)))


def test_sentences():
    weight = np.ones(3)
    assert why_stop({}, 5, known(1.0), weight) is None
    for of in ("every", "average"):
        goal = checked_goal(0.5, of, None)
        assert why_stop(goal, 1, known(0.6, 400), weight) is None
        assert "0.49" in str(why_stop(goal, 1, known(0.489, 400), weight))
    goal = checked_goal(None, "every", 0.01)
    assert why_stop(goal, 12, known(1.0), weight) is None
    assert "worth the fuel" in str(why_stop(goal, 12, known(1.0, 1000), weight))


def test_precision_needs_two_values_everywhere_that_matters():
    e = estimate(np.array([5, 1, 0]), np.zeros(3), np.array([0.0, 0.0, 0.0]))
    goal = checked_goal(100.0, "every", None)
    assert why_stop(goal, 6, e, np.array([1.0, 1.0, 0.0])) is None
    assert why_stop(goal, 6, e, np.array([1.0, 0.0, 0.0])) is not None


def test_mean_error_is_weighted():
    e = estimate(np.array([900, 900]), np.zeros(2), np.array([2.0, 8.0]) * 899 * 450)
    assert mean_error(e, np.array([1.0, 0.0])) == pytest.approx(1.0, rel=1e-2)
    assert mean_error(e, np.array([1.0, 1.0])) == pytest.approx(np.sqrt(2.5), rel=1e-2)


@pytest.mark.parametrize("of", ["every", "average"])
def test_values_that_happen_to_agree_end_nothing(of):
    """Sites of two values each, of noise 1: some agree, and prove nothing by that."""
    spread = np.array([0.001, 0.002, 1.9, 0.4, 0.01, 0.03])
    e = estimate(np.full(6, 2), np.zeros(6), spread)
    lucky = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    own = e.standard_error[lucky > 0].max()
    assert why_stop(checked_goal(1.01 * own, of, None), 12, e, lucky) is None
    sure = e.expected_error[lucky > 0].max()
    assert why_stop(checked_goal(1.01 * sure, of, None), 12, e, lucky) is not None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [((0.0, "every", None), "precision"), ((1.0, "each", None), "every, average"),
     ((None, "every", 1.5), "worth"), ((float("nan"), "every", None), "precision")],
)  # fmt: skip
def test_bad_goals(arguments, word):
    with pytest.raises(ArgumentError, match=word):
        checked_goal(*arguments)
