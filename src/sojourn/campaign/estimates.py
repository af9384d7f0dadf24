"""What is known of each site, and how surely.

For a site with T ≥ 2 values x₁..x_T the interval is Student's: mean ± t_{T−1} · sd/√T, with the
unbiased sd. It is exact for Gaussian noise whatever the variances are, and the wider the fewer
the values (t₁ = 12.7 at 95 %). With fewer than two values nothing can be said of the site's own
noise: the standard error then uses a guess, or the variance pooled over all sites, is labelled
so in ``basis``, and the interval is infinite, because the pooled variance of *other* places
proves nothing about this one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError

OWN, GUESS, POOLED, NONE = "own", "guess", "pooled", "none"


@dataclass(frozen=True)
class Estimates:
    """One entry per state; no entry is ever NaN.

    ``mean`` of a site without values is the guess, or the average over the others.
    ``basis`` says what the standard error rests on: the site's ``own`` values, a ``guess`` of
    the noise from the site file, the ``pooled`` noise of all sites, or ``none``.
    """

    visits: NDArray[np.int64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    basis: tuple[str, ...]
    level: float


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

    if not 0 < level < 1:
        raise ArgumentError(f"level is {level}", "give a probability such as 0.95")
    count = np.asarray(visits, dtype=np.int64)
    n = count.size
    own = count >= 2
    degrees = int((count[own] - 1).sum())
    pool = float(spread[own].sum()) / degrees if degrees else np.inf
    guess = np.full(n, np.nan) if variance_guess is None else variance_guess
    guessed = ~own & np.isfinite(guess)
    variance = np.where(own, spread / np.maximum(count - 1, 1), np.where(guessed, guess, pool))
    basis = np.where(own, OWN, np.where(guessed, GUESS, POOLED if degrees else NONE))
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
    )  # fmt: skip
