"""Why an advice is given, in a sentence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.campaign.estimates import Estimates
from sojourn.importing import Site

DOUBTFUL = 0.95
"""Moves that go where they should at least so often need no warning."""


def gain_of_one_more(site: Site, estimates: Estimates) -> NDArray[np.float64]:
    """For each state, the expected fall of the weighted mean squared error by one more value.

    v/T − v/(T + 1) with the expected variance v; infinite where nothing was measured yet and the
    site matters, and where nobody knows any noise.
    """
    T, matters, v = estimates.visits, site.weight > 0, estimates.expected_variance
    known = (T > 0) & np.isfinite(v)
    fall = site.weight * np.where(known, v, 0.0) / np.maximum(T * (T + 1.0), 1.0)
    gain: NDArray[np.float64] = np.where(known, fall, np.where(matters, np.inf, 0.0))
    return gain / float(site.weight.sum())


def explain(
    site: Site,
    estimates: Estimates,
    state: int,
    probability: float,
    route: NDArray[np.int64],
    *,
    budget: int | None,
    steps: int,
) -> tuple[str, float]:
    """The reason for going to ``state`` (then along ``route``), and the gain of measuring it."""
    gains = gain_of_one_more(site, estimates)
    here = float(gains[state])
    name = site.names[state]
    ahead = route[:50]
    target = state
    if ahead.size:
        best = int(ahead[np.argmax(gains[ahead])])
        # Something far better on the way makes this step a passage, not a goal.
        if gains[best] > 2.0 * here:
            target = best
    if target != state:
        distance = int(np.flatnonzero(ahead == target)[0]) + 1
        reason = (
            f"on the way to {site.names[target]}, {distance} step{'s' * (distance > 1)} further: "
            + _what_is_known(estimates, site, target)
        )
    else:
        reason = f"{name}: {_what_is_known(estimates, site, state)}"
    if probability < DOUBTFUL:
        reason += f" (the move ends at {name} with probability {probability:.2g})"
    if budget is not None and budget - steps <= 1:
        reason += "; this is the last step"
    return reason, here


def _what_is_known(estimates: Estimates, site: Site, state: int) -> str:
    visits = int(estimates.visits[state])
    if visits == 0:
        return "it was never measured" if site.weight[state] > 0 else "a passage"
    error = estimates.expected_error
    unit = f" {site.unit}" if site.unit else ""
    matters = np.flatnonzero((site.weight > 0) & (estimates.visits > 0))
    rank = int((error[matters] > error[state]).sum()) + 1
    ordinal = {1: "", 2: "second ", 3: "third "}.get(rank, f"{rank}th ")
    place = (
        f"the {ordinal}least certain of {matters.size} site{'s' * (matters.size != 1)} with a value"
    )
    if not np.isfinite(error[state]):
        return "it was measured once, so its noise is not known yet"
    then = error[state] * np.sqrt(visits / (visits + 1))
    shown = (
        f"±{error[state]:.3g}{unit} after {visits} value{'s' * (visits > 1)}, one more makes that "
        f"±{then:.3g}"
    )
    return f"{place}, {shown}" if rank <= 10 else shown
