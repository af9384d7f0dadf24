"""What is known of each site, and how surely.

For a site with T ≥ 2 values x₁..x_T the interval is Student's: mean ± t_{T−1} · sd/√T, with the
unbiased sd. It is exact for Gaussian noise whatever the variances are, and the wider the fewer
the values (t₁ = 12.7 at 95 %). With fewer than two values nothing can be said of the site's own
noise: the standard error then uses a guess, or the variance pooled over all sites, is labelled
so in ``basis``, and the interval is infinite, because the pooled variance of *other* places
proves nothing about this one.

Two values that happen to agree make an own variance near 0. That is what an interval has to
start from, but nothing to decide by: advice, plan and the map of uncertainty use
``expected_variance``, the posterior mean under a prior that the spreads of all sites suggest
(:mod:`sojourn.learning.posterior_variance`), relative to the guesses where there are some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.arguments import number
from sojourn.learning.posterior_variance import posterior_variance

INSIDE = (float(np.finfo(float).tiny), 1.0 - float(np.finfo(float).eps))
"""The smallest and the largest number strictly between 0 and 1 that are worth telling apart."""
SMALLEST = 1e-250
"""Variances below are the zero of values without noise, for all practical purposes."""

OWN, GUESS, POOLED, NONE = "own", "guess", "pooled", "none"


@dataclass(frozen=True)
class Estimates:
    """One entry per state; no entry is ever NaN.

    ``mean`` of a site without values is the guess, or the average over the others.
    ``basis`` says what the standard error rests on: the site's ``own`` values, a ``guess`` of
    the noise from the site file, the ``pooled`` noise of all sites, or ``none``.
    ``expected_variance`` and ``expected_error`` are those to decide by.
    """

    visits: NDArray[np.int64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    basis: tuple[str, ...]
    level: float
    expected_variance: NDArray[np.float64]

    @property
    def expected_error(self) -> NDArray[np.float64]:
        """√(expected variance / T), infinite without a value."""
        known = self.visits > 0
        return np.where(known, np.sqrt(self.expected_variance / np.maximum(self.visits, 1)), np.inf)


def estimate(
    visits: NDArray,
    mean: NDArray,
    spread: NDArray,
    *,
    level: float = 0.95,
    mean_guess: NDArray | None = None,
    variance_guess: NDArray | None = None,
) -> Estimates:
    """Estimates from counts, means and sums of squared deviations; guesses may be NaN."""
    from scipy.special import stdtrit

    level = number(level, "level", "give a probability such as 0.95", *INSIDE)
    count, spread = np.asarray(visits, dtype=np.int64), np.asarray(spread, dtype=float)
    n = count.size
    own = count >= 2
    degrees = int((count[own] - 1).sum())
    pool = float(spread[own].sum()) / degrees if degrees else np.inf
    guess = np.full(n, np.nan) if variance_guess is None else np.asarray(variance_guess)
    guessed = ~own & np.isfinite(guess)
    variance = np.where(own, spread / np.maximum(count - 1, 1), np.where(guessed, guess, pool))
    basis = np.where(own, OWN, np.where(guessed, GUESS, POOLED if degrees else NONE))
    expected = variance
    if degrees and pool > SMALLEST:
        # A guess says how sites differ, the spreads by what factor all guesses are wrong.
        usable = np.isfinite(guess) & (guess > 0)
        typical = float(guess[usable].mean()) if usable.any() else 1.0
        unit = np.where(usable, guess, typical)
        expected = unit * posterior_variance(count[None], (spread / unit)[None])[0]
    known = count > 0
    average = float(mean[known].mean()) if known.any() else 0.0
    fallback = np.full(n, average)
    if mean_guess is not None:
        fallback = np.where(np.isfinite(mean_guess), mean_guess, average)
    centre = np.where(known, mean, fallback)
    error = np.where(known, np.sqrt(variance / np.maximum(count, 1)), np.inf)
    half = np.full(n, np.inf)
    half[own] = stdtrit(count[own] - 1, 0.5 + level / 2) * error[own]
    return Estimates(
        visits=count, mean=centre, variance=variance, standard_error=error,
        low=centre - half, high=centre + half, basis=tuple(basis.tolist()), level=level,
        expected_variance=expected,
    )  # fmt: skip
