"""Estimates: Student's interval, what it covers, and that nothing is ever NaN."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sojourn as sj
from sojourn.campaign.estimates import estimate
from sojourn.errors import ArgumentError


def sums(values):
    """Counts, means and sums of squared deviations of an (S, T) array."""
    count = np.full(len(values), values.shape[1])
    return count, values.mean(1), ((values - values.mean(1, keepdims=True)) ** 2).sum(1)


def test_interval_is_students():
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 2.0, (5, 7))
    e = estimate(*sums(values))
    for s, x in enumerate(values):
        low, high = stats.t.interval(0.95, 6, x.mean(), stats.sem(x))
        assert e.low[s] == pytest.approx(low, rel=1e-12)
        assert e.high[s] == pytest.approx(high, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.floats(-1e12, 1e12), st.floats(0, 1e12)),
        min_size=1, max_size=6,
    ),
    st.floats(0.01, 0.99),
)  # fmt: skip
def test_nothing_is_ever_nan(sites, level):
    count = np.array([c for c, _, _ in sites])
    mean = np.array([m if c else 0.0 for c, m, _ in sites])
    spread = np.array([q if c > 1 else 0.0 for c, _, q in sites])
    e = estimate(count, mean, spread, level=level)
    decisive = (e.expected_variance, e.expected_error)
    for array in (e.mean, e.variance, e.standard_error, e.low, e.high, *decisive):
        assert not np.isnan(array).any()
    few = count < 2
    assert np.isinf(e.low[few]).all()
    assert np.isinf(e.high[few]).all()
    assert all(b in ("pooled", "none") for b, f in zip(e.basis, few) if f)
    assert all(b == "own" for b, f in zip(e.basis, few) if not f)


def test_guesses_are_used_only_without_own_values():
    e = estimate(
        np.array([0, 1, 3]), np.array([0.0, 5.0, 7.0]), np.array([0.0, 0.0, 8.0]),
        mean_guess=np.array([2.0, np.nan, np.nan]), variance_guess=np.array([4.0, 9.0, 1.0]),
    )  # fmt: skip
    assert e.mean.tolist() == [2.0, 5.0, 7.0]
    assert e.basis == ("guess", "guess", "own")
    assert e.variance.tolist() == [4.0, 9.0, 4.0]
    assert e.standard_error[1] == 3.0


def test_decisions_do_not_believe_two_values_that_agree():
    """Among sites of variance 4, two values 0.001 apart prove little."""
    rng = np.random.default_rng(3)
    count, mean, spread = sums(rng.normal(0.0, 2.0, (60, 5)))
    count[0], spread[0] = 2, 0.5e-6
    e = estimate(count, mean, spread)
    assert e.standard_error[0] < 0.001
    assert e.expected_error[0] > 0.5
    # Of sites of one noise, the expected variances lie nearer to it than the own ones.
    assert np.abs(e.expected_variance[1:] - 4).mean() < 0.5 * np.abs(e.variance[1:] - 4).mean()


def test_guesses_say_how_sites_differ():
    """All guesses are a factor 9 too small: a site with one value is expected to be so too."""
    rng = np.random.default_rng(4)
    guess = np.where(np.arange(80) % 2, 1.0, 16.0)
    count, mean, spread = sums(rng.normal(0.0, 3.0 * np.sqrt(guess)[:, None], (80, 8)))
    count[:2], spread[:2] = 1, 0.0
    e = estimate(count, mean, spread, variance_guess=guess)
    assert e.expected_variance[:2] == pytest.approx([144.0, 9.0], rel=0.2)
    assert e.variance[:2].tolist() == [16.0, 1.0]
    assert np.isinf(estimate([0], [0.0], [0.0]).expected_error).all()


def coverage(draw, mean, T, repeats=20_000):
    rng = np.random.default_rng(1)
    e = estimate(*sums(draw(rng, (repeats, T))))
    hit = (e.low <= mean) & (mean <= e.high)
    return hit.mean(), np.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize("T", [2, 3, 5, 20])
def test_coverage_is_exact_for_gaussian_noise(T):
    share, se = coverage(lambda rng, shape: rng.normal(10, 3, shape), 10, T)
    assert abs(share - 0.95) < 4 * se


@pytest.mark.parametrize("T", [2, 3, 5, 20])
def test_symmetric_heavy_tails_are_covered_at_least_so_often(T):
    """Student's t is conservative for symmetric heavy tails (t with 3 degrees, Laplace)."""
    for draw in (lambda rng, k: rng.standard_t(3, k), lambda rng, k: rng.laplace(0, 1, k)):
        share, se = coverage(draw, 0.0, T)
        assert share > 0.95 - 4 * se


@pytest.mark.parametrize(
    ("noise", "least"),
    [("gaussian", 0.92),
     (lambda rng, states, mean, v: mean + np.sqrt(v / 3) * rng.standard_t(3, np.shape(states)),
      0.93)],
    ids=["gaussian", "heavy tails"],
)  # fmt: skip
def test_coverage_where_the_strategy_decides_how_often_to_measure(noise, least):
    """Who goes on where values scatter leaves sites whose values agree by chance: 94 %, not 95."""
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(0, 5, 10), 10 ** rng.uniform(-1, 1, 10)
    mdp = sj.MDP.from_grid("....\n.##.\n....", slip=0.05)
    world = sj.World(mdp, mean, variance, noise=noise, start=0)
    runs = sj.simulate(world, sj.Lookahead(), 40, runs=150, seed=1)
    T = runs.visits.ravel()
    e = estimate(T, runs.mean.ravel(), (runs.visits * runs.empirical_variance).ravel())
    truth, own = np.tile(mean, 150), T >= 2
    assert least < ((e.low <= truth) & (truth <= e.high))[own].mean() < 0.98


def test_where_it_fails():
    """Skewed noise with few values: the interval misses more often than it says.

    Documented, not hidden: lognormal noise, 5 values, 95 % intervals that cover about 82 %.
    """
    share, _ = coverage(lambda rng, k: rng.lognormal(0, 1, k), np.exp(0.5), 5)
    assert share < 0.90


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_a_level_that_is_no_probability(level):
    with pytest.raises(ArgumentError, match="level"):
        estimate(np.array([1]), np.array([0.0]), np.array([0.0]), level=level)


def test_the_table_of_the_docs_can_still_be_printed(monkeypatch):
    """A small one: what is fixed, what the strategy decides, and what a precision ends."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setattr("sojourn.campaign.store.SYNCHRONOUS", "OFF")
    table = importlib.import_module("interval_coverage")
    rng = np.random.default_rng(0)
    for name, draw in table.NOISE.items():
        x = draw(rng, 200_000)
        assert x.mean() == pytest.approx(0.0, abs=0.02), name
        assert np.median((x - x.mean()) ** 2) < 1.0 < np.square(x).max(), name
    gaussian = table.NOISE["gaussian"]
    assert table.fixed(gaussian, 4, 4000) == pytest.approx(0.95, abs=0.015)
    inside, visits = table.decided(gaussian, 40, 20, equal=True)
    assert (np.isnan(inside) == (visits < 2)).all()
    assert np.nanmean(inside) > 0.85
    assert table.ended(2) > 0.6
