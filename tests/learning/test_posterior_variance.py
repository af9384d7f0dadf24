"""The posterior mean of variances: against quadrature, its limits, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.learning import posterior_variance as rule
from sojourn.learning.posterior_variance import posterior_variance


def by_quadrature(d: float, q: float, m: float, tau2: float) -> float:
    """The posterior mean of e^g: a coarse grid finds the mass, a fine one measures it."""

    def log(g: np.ndarray) -> np.ndarray:
        return -d * g / 2 - q / 2 * np.exp(np.minimum(-g, 600)) - (g - m) ** 2 / (2 * tau2)

    g = np.linspace(m - d * tau2 / 2 - 20, m + 40, 100_001)
    held = g[log(g) > log(g).max() - 60]
    step = g[1] - g[0]
    g = np.linspace(held[0] - step, held[-1] + step, 200_001)
    density = np.exp(log(g) - log(g).max())
    return float(density @ np.exp(g) / density.sum())


@given(
    d=st.sampled_from([1, 2, 3, 7, 40, 3000]),
    per=st.floats(0.0, 8.0),
    m=st.floats(-6.0, 2.0),
    tau2=st.floats(0.1, 6.0),
)
def test_laplace_ratio_is_the_posterior_mean(d: int, per: float, m: float, tau2: float) -> None:
    # Equal samples by the dozen would put the mean below the smallest number there is.
    q, precision = d * (per if d < 10 else max(per, 0.01)), 1 / tau2
    here = rule._mode(d, q, m, precision, np.log((q + 2) / (d + 2)))
    there = rule._mode(d - 2.0, q, m, precision, here)
    height = rule._height
    log = height(d - 2.0, q, m, precision, there) - height(d, q, m, precision, here)
    assert np.exp(log) == pytest.approx(by_quadrature(d, q, m, tau2), rel=0.09)


def test_without_information_all_are_alike() -> None:
    for visits, spread in (([[0, 0, 0]], [[0.0, 0, 0]]), ([[1, 1, 0]], [[0.0, 0, 0]]),
                           ([[9, 9, 9]], [[0.0, 0, 0]])):  # fmt: skip
        assert (posterior_variance(np.array(visits), np.array(spread)) == 1.0).all()


def test_many_samples_speak_for_themselves() -> None:
    rng = np.random.default_rng(0)
    truth = 10.0 ** rng.uniform(-6, 6, 20)
    visits = np.full((1, 20), 100_001)
    spread = truth * rng.chisquare(100_000, (1, 20))
    np.testing.assert_allclose(posterior_variance(visits, spread)[0], truth, rtol=0.03)


@given(scale=st.floats(1e-12, 1e12), seed=st.integers(0, 2**32 - 1))
def test_units_do_not_matter_and_rows_are_alone(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, 6, (3, 7))
    spread = np.where(visits > 1, rng.exponential(1.0, (3, 7)), 0.0)
    found = posterior_variance(visits, spread)
    assert (found > 0).all()
    alone = posterior_variance(visits[1:2], spread[1:2])[0]
    np.testing.assert_array_equal(found[1], alone)
    known = spread.sum(axis=1) > 0
    scaled = posterior_variance(visits, spread * scale)
    np.testing.assert_allclose(scaled[known], found[known] * scale, rtol=1e-6)


@pytest.mark.parametrize("low", [1e-4, 1.0])
@pytest.mark.parametrize("samples", [3, 10])
def test_allocation_by_it_beats_a_fixed_shrinkage(low: float, samples: int) -> None:
    """Spending ∝ √v: the excess loss (Σ√v)(Σσ²/√v)/(Σσ)² − 1, where variances spread over four
    orders of magnitude; and it is no worse where they are all equal."""
    rng = np.random.default_rng(1)
    truth = np.geomspace(low, 1.0, 30)
    visits = np.full((300, 30), samples)
    spread = truth * rng.chisquare(samples - 1, visits.shape)
    pool = spread.sum(axis=1, keepdims=True) / (30 * (samples - 1))

    def excess(v: np.ndarray) -> np.ndarray:
        root = np.sqrt(v)
        return root.sum(axis=1) * (truth / root).sum(axis=1) / np.sqrt(truth).sum() ** 2 - 1

    ours = excess(posterior_variance(visits, spread))
    fixed = excess((spread + 2 * pool) / (samples + 1))
    if low == 1.0:
        assert ours.mean() < fixed.mean()
    else:
        assert ours.mean() < 0.6 * fixed.mean()
