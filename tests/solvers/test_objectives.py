"""Objectives: calculus against differences, bounds against sampling and other solvers."""

from __future__ import annotations

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sojourn.errors import ArgumentError
from sojourn.solvers.objectives import (
    Entropy,
    HeldCone,
    LogError,
    MeanError,
    PowerMean,
    WorstState,
    best_multiplier,
)


def power(p):
    return lambda variance, weight=None: PowerMean(variance, weight, power=p)


SMOOTH = {
    "mean": MeanError,
    "power 0.5": power(0.5),
    "power 3": power(3.0),
    "log": LogError,
    "entropy": Entropy,
}
ALL = {**SMOOTH, "worst": WorstState}
seeds = st.integers(0, 2**32 - 1)


def as_cvxpy(kind, objective, eta):
    w, v = objective.weight, objective.variance
    return {
        "mean": lambda: cp.sum(cp.multiply(w * v, cp.inv_pos(eta))) / v.size,
        "log": lambda: w @ (np.log(v) - cp.log(eta)) / w.sum(),
        "entropy": lambda: -cp.sum(cp.entr(eta)),
        # In cone form: the fewest visits that keep every error below 1.
        "worst": lambda: cp.sum(eta),
    }[kind]()


def draw(rng, n, kind):
    variance = 10.0 ** rng.uniform(-3, 2, n)
    weight = None if kind == "entropy" else rng.uniform(0.1, 3.0, n)
    return ALL[kind](variance, weight)


@pytest.mark.parametrize("kind", SMOOTH)
def test_gradient_is_the_derivative(kind, rng):
    objective = draw(rng, 6, kind)
    eta = rng.dirichlet(np.full(6, 3.0)) + 0.02
    step = 1e-6 * eta
    numeric = [
        (objective.value(eta + step * e) - objective.value(eta - step * e)) / (2 * step[i])
        for i, e in enumerate(np.eye(6))
    ]
    tiny = 1e-8 * np.abs(numeric).max()
    np.testing.assert_allclose(objective.gradient(eta), numeric, rtol=1e-6, atol=tiny)


@pytest.mark.parametrize("kind", SMOOTH)
def test_cone_curvature_is_the_derivative_of_its_slope(kind, rng):
    cone = draw(rng, 5, kind).cone()
    eta = rng.uniform(0.3, 3.0, 5)
    step = 1e-6
    numeric = (cone.slope(eta * (1 + step)) - cone.slope(eta * (1 - step))) / (2 * step * eta)
    np.testing.assert_allclose(cone.curvature(eta), numeric, rtol=1e-6)
    held = HeldCone(eta)
    assert held.scale(2 * eta) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ALL)
def test_best_multiple_of_a_direction(kind, rng):
    """``scale`` minimises Σ φ(cη) + Σ cη, so φ′ + 1 is orthogonal to η there."""
    objective = draw(rng, 5, kind)
    cone = objective.cone()
    eta = rng.uniform(0.3, 3.0, 5)
    eta = eta * cone.scale(eta)
    if kind == "worst":
        assert (eta / cone.lower).min() == pytest.approx(1.0)
    else:
        assert abs((cone.slope(eta) + 1.0) @ eta) < 1e-9 * eta.sum()


def test_the_family_joins_mean_worst_and_log(rng):
    variance, eta = 10.0 ** rng.uniform(-3, 2, 8), rng.dirichlet(np.ones(8))
    assert power(1.0)(variance).value(eta) == MeanError(variance).value(eta)
    assert MeanError(variance).value(eta) == pytest.approx(np.mean(variance / eta))
    worst = WorstState(variance).value(eta)
    assert worst == pytest.approx((variance / eta).max())
    p = 16.0
    assert worst * 8 ** (-1 / p) <= power(p)(variance).value(eta) <= worst
    small = power(1e-4)(variance).value(eta)
    assert np.log(small) == pytest.approx(LogError(variance).value(eta), abs=1e-2)


def test_weights_multiply_and_zero_means_does_not_matter():
    eta = np.array([0.5, 0.5, 0.0])
    variance, weight = np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 0.0])
    assert MeanError(variance, weight).value(eta) == pytest.approx((2 * 2 + 4) / 3)
    assert MeanError(variance).value(eta) == np.inf
    assert WorstState(variance, weight).value(eta) == pytest.approx(4.0)
    assert LogError(variance, weight).value(eta) == pytest.approx((2 * np.log(2) + np.log(4)) / 3)
    assert list(MeanError(variance, weight).matters) == [True, True, False]
    assert MeanError(variance, weight).gradient(eta)[2] == 0.0


def test_restriction_keeps_values():
    variance, weight = np.array([1.0, 3.0, 5.0]), np.array([1.0, 1.0, 0.0])
    eta = np.array([0.3, 0.7, 0.0])
    for kind in (MeanError, power(2.0), LogError, WorstState):
        whole = kind(variance, weight)
        part = whole.restricted(np.array([0, 1]))
        assert part.value(eta[:2]) == pytest.approx(whole.value(eta), rel=1e-14)


@given(seed=seeds, kind=st.sampled_from(sorted(ALL)))
def test_bound_holds_for_any_margins(seed, kind):
    """No distribution with Σ m η ≤ 0 has a smaller value than ``lower_bound(m)``."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    objective = draw(rng, n, kind)
    margin = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6, n)
    if margin.min() > 0:
        margin[int(rng.integers(n))] *= -1.0
    bound = objective.lower_bound(margin)
    assert bound == objective.lower_bound(margin)
    assert objective.lower_bound(margin, 1.0) <= bound + 1e-10 * (1 + abs(bound))
    cheap = int(np.argmin(margin))
    for _ in range(30):
        eta = rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-1, 1)))
        eta = np.maximum(eta, 1e-12)
        # Move mass to the state of the smallest margin until the constraint holds.
        excess = margin @ eta
        if excess > 0:
            theta = excess / (excess - margin[cheap] * eta.sum())
            eta = (1 - theta) * eta + theta * eta.sum() * np.eye(n)[cheap]
            # A little further: the value may be steep, and rounding must not matter.
            eta[cheap] *= 1 + 1e-5
        eta /= eta.sum()
        value = objective.value(eta)
        assert bound <= value + 1e-9 * (1.0 + abs(value))


@pytest.mark.parametrize("p", [0.5, 3.0])
def test_bound_of_power_means_is_tight(p, rng):
    """The same for powers, where cvxpy loses accuracy: descent from several starts instead."""
    for _ in range(3):
        objective, margin = power(p)(10.0 ** rng.uniform(-3, 2, 5)), rng.normal(size=5)

        def eta(u):
            return np.exp(u) / np.exp(u).sum()

        found = [
            minimize(
                lambda u, f=objective: f.value(eta(u)),
                rng.normal(size=5),
                constraints=[{"type": "ineq", "fun": lambda u, m=margin: -m @ eta(u)}],
                method="SLSQP",
                options={"ftol": 1e-15, "maxiter": 1000},
            ).fun
            for _ in range(5)
        ]
        assert objective.lower_bound(margin) == pytest.approx(min(found), rel=1e-7)


@pytest.mark.parametrize("kind", ["mean", "log", "entropy", "worst"])
def test_bound_is_tight(kind, rng):
    """It is the optimum of the relaxation, which cvxpy solves too."""
    for _ in range(3):
        n = 5
        objective = draw(rng, n, kind)
        margin = rng.normal(size=n)
        eta = cp.Variable(n)
        value = as_cvxpy(kind, objective, eta)
        constraints = [margin @ eta <= 0]
        least = objective.weight * objective.variance
        constraints.append(eta >= least if kind == "worst" else cp.sum(eta) == 1)
        problem = cp.Problem(cp.Minimize(value), constraints)
        best = problem.solve(solver=cp.CLARABEL)
        bound = objective.lower_bound(margin)
        if kind == "entropy":
            # Its multiplier is not looked for: any scale of the prices is a bound.
            scales = [objective.lower_bound(t * margin) for t in np.geomspace(1e-3, 1e3, 4000)]
            bound = max(*scales, objective.lower_bound(0 * margin))
        assert bound == pytest.approx(best, rel=1e-5, abs=1e-6)


def test_bound_of_the_mean_error_in_many_digits(rng):
    """Cauchy–Schwarz with 50 digits: floating point stays below it up to a few roundings."""
    mp.mp.dps = 50
    variance, margin = 10.0 ** rng.uniform(-6, 6, 9), rng.normal(size=9)
    objective = MeanError(variance)
    for rho in (1.1 * -margin.min(), 3.0, 1e6):
        total = mp.fsum(
            mp.sqrt(mp.mpf(v) * (mp.mpf(rho) + mp.mpf(m))) for v, m in zip(variance, margin)
        )
        exact = total**2 / mp.mpf(rho) / 9
        assert abs(objective.lower_bound(margin, rho) / exact - 1) < 1e-14


def test_bandit_bound_is_that_of_prices_zero(rng):
    variance = rng.uniform(0.1, 2.0, 7)
    zero = np.zeros(7)
    assert MeanError(variance).lower_bound(zero) == pytest.approx(np.sqrt(variance).sum() ** 2 / 7)
    assert WorstState(variance).lower_bound(zero) == pytest.approx(variance.sum())
    assert Entropy(variance).lower_bound(zero) == pytest.approx(-np.log(7))
    assert LogError(variance).lower_bound(zero) == pytest.approx(np.log(variance * 7).mean())


def test_conjugate_is_the_largest_gain(rng):
    objective = draw(rng, 4, "power 3")
    weight = objective.weight * (objective.variance / objective.variance.max()) ** 3
    slope = -rng.uniform(0.1, 2.0, 4)
    eta = np.geomspace(1e-4, 1e4, 400_001)[:, None]
    gain = slope * eta - weight * eta**-3.0 / 3
    np.testing.assert_allclose(objective.conjugate(slope), gain.max(axis=0), rtol=1e-7)
    assert (objective.conjugate(np.ones(4)) == np.inf).all()


def test_gaps():
    mean, log = MeanError([1.0]), LogError([1.0])
    assert mean.gap(2.0, 1.0) == 0.5
    assert mean.gap(1.0, 2.0) == 0.0
    assert log.gap(-2.0, -3.0) == 1.0
    assert mean.gap(np.inf, 1.0) == np.inf
    assert mean.gap(0.0, 0.0) == 0.0


def test_best_multiplier_is_where_the_slope_changes_sign():
    one = np.ones(2)
    # −1/(ρ−1) + 2/(ρ+2) = 0 at ρ = 4.
    margin = np.array([-1.0, 2.0])
    assert best_multiplier(one, margin, 1.0) == pytest.approx(4.0)
    # −1/√(ρ−1) + 2/√(ρ+2) = 0 at ρ = 2.
    assert best_multiplier(one, margin, 0.5) == pytest.approx(2.0)
    assert best_multiplier(one, np.zeros(2), 1.0) == 1.0
    # As little as is allowed, which a state that doesn't matter may decide; as much as there is.
    assert best_multiplier(np.array([0.0, 1.0]), margin, 0.5) == pytest.approx(1.0)
    assert best_multiplier(one, -one, 1.0) > 1e11


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: MeanError([1.0, -1.0]), "variance of state 1 is -1"),
        (lambda: MeanError([1.0, np.nan]), "variance of state 1 is nan"),
        (lambda: MeanError([1.0, 1.0], [1.0, np.inf]), "weight of state 1 is inf"),
        (lambda: MeanError([1.0, 1.0], [1.0]), "shape"),
        (lambda: PowerMean([1.0], power=0.0), "power 0"),
        (lambda: PowerMean([1.0], power=17.0), "power 17"),
        (lambda: PowerMean([1.0, 1e-30], power=16.0), "too small beside"),
        (lambda: Entropy([1.0, 1.0], [1.0, 2.0]), "no weights"),
    ],
)
def test_bad_input_is_named(build, says):
    with pytest.raises(ArgumentError, match=says):
        build()
