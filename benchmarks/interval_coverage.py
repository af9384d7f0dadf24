"""How often do 95 % intervals hold the truth? The table of docs/field_survey.md.

    python benchmarks/interval_coverage.py [--quick]

    fixed       2, 3, 5, 10 or 20 values, whatever they are: the lowest and the highest share
    Lookahead   the strategy decides how many, by what it measures: ten sites whose variances
                differ by a factor of 100, budgets of 40, 100 and 200 steps
    few, many   the same, with variances that are all equal: sites left with fewer values than
                the others of their walk had on average, and with more
    precision   campaigns on the same ten sites that end when the average error is small enough

"rounded" is Gaussian noise read from a display whose last digit is one standard deviation.
Only intervals of sites with two values or more are counted; with fewer they are infinite.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sojourn as sj
from sojourn.campaign import store
from sojourn.campaign.estimates import estimate
from sojourn.campaign.rehearse import rehearse
from sojourn.importing import Site

Draw = Callable[..., np.ndarray]
ROUNDED = math.sqrt(13.0 / 12.0)
LOGNORMAL = math.sqrt((math.e - 1.0) * math.e)
NOISE: dict[str, Draw] = {
    "gaussian": lambda rng, size: rng.standard_normal(size),
    "Laplace": lambda rng, size: rng.laplace(0.0, math.sqrt(0.5), size),
    "t, 3 degrees": lambda rng, size: rng.standard_t(3, size) / math.sqrt(3.0),
    "uniform": lambda rng, size: math.sqrt(12.0) * (rng.random(size) - 0.5),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1.0,
    "rounded": lambda rng, size: (np.round(rng.normal(0.3, 1.0, size)) - 0.3) / ROUNDED,
    "lognormal": lambda rng, size: (rng.lognormal(size=size) - math.sqrt(math.e)) / LOGNORMAL,
}
"""Standardised: mean 0, variance 1."""
SITES = 10
MAP = sj.MDP.from_grid("....\n.##.\n....", slip=0.05)


def held(visits: np.ndarray, mean: np.ndarray, spread: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether each interval holds the truth; NaN where there is none."""
    e = estimate(visits.ravel(), mean.ravel(), spread.ravel())
    inside = (e.low <= truth.ravel()) & (truth.ravel() <= e.high)
    return np.where(visits.ravel() >= 2, inside, np.nan).reshape(visits.shape)


def fixed(draw: Draw, T: int, repeats: int) -> float:
    """The share for ``T`` values."""
    x = draw(np.random.default_rng(T), (repeats, T))
    mean = x.mean(axis=1)
    spread = ((x - mean[:, None]) ** 2).sum(axis=1)
    return float(held(np.full(repeats, T), mean, spread, np.zeros(repeats)).mean())


def world(draw: Draw, *, equal: bool) -> sj.World:
    """Ten sites with this noise."""
    rng = np.random.default_rng(0)
    variance = np.ones(SITES) if equal else 10 ** rng.uniform(-1, 1, SITES)

    def noise(rng: np.random.Generator, states: np.ndarray, mean, variance) -> np.ndarray:
        return mean + np.sqrt(variance) * draw(rng, np.shape(states))

    return sj.World(MAP, rng.normal(0, 5, SITES), variance, noise=noise, start=0)


def decided(draw: Draw, budget: int, runs: int, *, equal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the strategy decides: whether each interval holds, and the visits (runs × sites)."""
    truth = world(draw, equal=equal)
    result = sj.simulate(truth, sj.Lookahead(), budget, runs=runs, seed=1)
    spread = result.visits * result.empirical_variance
    wanted = np.broadcast_to(truth.mean, result.visits.shape)
    return held(result.visits, result.mean, spread, wanted), result.visits


def ended(runs: int) -> float:
    """Gaussian campaigns that end at a precision."""
    store.SYNCHRONOUS = "OFF"  # nothing here has to survive a power cut
    truth = world(NOISE["gaussian"], equal=False)
    site = Site.from_mdp(MAP)
    shares = []
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            campaign, _ = rehearse(
                Path(folder) / "c", site, 400, seed=seed, world=truth, precision=0.8, of="average"
            )
            with campaign:
                e = campaign.estimates()
                inside = (e.low <= truth.mean) & (truth.mean <= e.high)
                shares.append(inside[e.visits >= 2].mean())
    return float(np.mean(shares))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a third of the walks")
    share = 1 / 3 if parser.parse_args().quick else 1.0
    repeats, runs = int(200_000 * share), int(600 * share)
    print(f"{'noise':<14}{'fixed':>14}{'Lookahead':>14}{'few':>8}{'many':>8}   [%]")
    for name, draw in NOISE.items():
        known = [100 * fixed(draw, T, repeats) for T in (2, 3, 5, 10, 20)]
        found = [100 * np.nanmean(decided(draw, n, runs, equal=False)[0]) for n in (40, 100, 200)]
        inside, visits = decided(draw, 100, runs, equal=True)
        fewer = visits < visits.mean(axis=1, keepdims=True)
        few, many = 100 * np.nanmean(inside[fewer]), 100 * np.nanmean(inside[~fewer])
        print(f"{name:<14}{min(known):>7.1f} –{max(known):>5.1f}{min(found):>7.1f} –"
              f"{max(found):>5.1f}{few:>8.1f}{many:>8.1f}")  # fmt: skip
    print(f"campaigns that end at a precision (gaussian): {100 * ended(int(200 * share)):.1f} %")


if __name__ == "__main__":
    main()
