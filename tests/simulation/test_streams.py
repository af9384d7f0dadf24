"""The streams of random numbers: the recurrence is NumPy's, the variates have their laws."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from scipy import stats

from sojourn.simulation.streams import (
    chi_square,
    load,
    next_word,
    normal,
    seeded,
    store,
    uniform,
)  # fmt: skip

SAMPLES = 200_000


def state(seed: int = 1) -> NDArray[np.uint64]:
    words = np.random.default_rng(seed).integers(0, 2**64, size=(2, 3), dtype=np.uint64)
    return seeded(words)


@njit
def draw_words(state, n):  # type: ignore[no-untyped-def]
    out = np.empty(n, np.uint64)
    stream = load(state, 0)
    for i in range(n):
        out[i], stream = next_word(stream)
    store(state, 0, stream)
    return out


@njit
def draw_uniform(state, n):  # type: ignore[no-untyped-def]
    out = np.empty(n)
    stream = load(state, 0)
    for i in range(n):
        out[i], stream = uniform(stream)
    return out


@njit
def draw_normal(state, n):  # type: ignore[no-untyped-def]
    out = np.empty(n)
    stream = load(state, 0)
    for i in range(n):
        out[i], stream = normal(stream)
    return out


@njit
def draw_chi_square(state, degrees, n):  # type: ignore[no-untyped-def]
    out = np.empty(n)
    stream = load(state, 0)
    for i in range(n):
        out[i], stream = chi_square(degrees, stream)
    return out


def test_words_are_those_of_numpy() -> None:
    ours = state()
    theirs = np.random.SFC64(0)
    inner = theirs.state
    inner["state"]["state"] = ours[0].copy()
    theirs.state = inner
    np.testing.assert_array_equal(draw_words(ours, 1000), theirs.random_raw(1000))
    # The state that is put back goes on where the stream stopped.
    np.testing.assert_array_equal(draw_words(ours, 10), theirs.random_raw(10))


def test_seeding_stirs_like_numpy() -> None:
    words = np.array([[1, 2, 3]], dtype=np.uint64)
    theirs = np.random.SFC64(0)
    inner = theirs.state
    inner["state"]["state"] = np.array([1, 2, 3, 1], dtype=np.uint64)
    theirs.state = inner
    theirs.random_raw(12)
    np.testing.assert_array_equal(seeded(words)[0], theirs.state["state"]["state"])


def test_uniform() -> None:
    x = draw_uniform(state(2), SAMPLES)
    assert x.min() >= 0
    assert x.max() < 1
    assert stats.kstest(x, "uniform").pvalue > 1e-3


def test_normal_has_its_law_and_its_tails() -> None:
    x = draw_normal(state(3), 10 * SAMPLES)
    assert stats.kstest(x, "norm").pvalue > 1e-3
    # Moments, each within 4 standard errors (Var x² = 2, Var x⁴ = 96).
    n = x.size
    assert abs(x.mean()) < 4 / np.sqrt(n)
    assert abs((x**2).mean() - 1) < 4 * np.sqrt(2 / n)
    assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / n)
    # Beyond the ziggurat's last layer other code draws: its share, both sides, and its law.
    edge = 3.6541528853610088
    for tail in (x[x > edge], -x[x < -edge]):
        expected = n * stats.norm.sf(edge)
        assert abs(tail.size - expected) < 4 * np.sqrt(expected)
        law = stats.truncnorm(edge, np.inf)
        assert stats.kstest(tail, law.cdf).pvalue > 1e-3
    # Consecutive variates are uncorrelated.
    assert abs((x[1:] * x[:-1]).mean()) < 4 / np.sqrt(n)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 100, 100_000])
def test_chi_square(degrees: int) -> None:
    x = draw_chi_square(state(4), degrees, SAMPLES)
    assert stats.kstest(x, stats.chi2(degrees).cdf).pvalue > 1e-3
    assert abs(x.mean() - degrees) < 4 * np.sqrt(2 * degrees / SAMPLES)
