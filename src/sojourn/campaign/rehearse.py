"""A rehearsal: the whole campaign played on an invented truth.

A team can practise, and see what a budget buys, before the boat is in the water. What the site
file guesses is respected; the rest is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.arguments import whole
from sojourn.campaign.campaign import Campaign
from sojourn.campaign.summary import layout
from sojourn.importing import Site
from sojourn.learning.strategy import Strategy
from sojourn.model import World
from sojourn.model.seeds import generator


def imagine(site: Site, seed: int | np.random.Generator = 0) -> World:
    """A truth that a site might have: guesses where there are some, smooth fields elsewhere.

    The variance of each site is the guess times a factor with a standard deviation of half a
    decade, because a guess of the noise is rarely better than that.
    """
    rng = generator(seed)
    n = site.mdp.n_states
    xy = layout(site)
    if xy is None:
        xy = rng.standard_normal((n, 2))
    span = np.ptp(xy, axis=0).max() or 1.0
    scaled = (xy - xy.mean(axis=0)) / span

    def field(waves: int) -> np.ndarray:
        k = rng.standard_normal((waves, 2)) * 4.0
        phase = rng.uniform(0, 2 * np.pi, waves)
        return np.sqrt(2 / waves) * np.cos(scaled @ k.T + phase).sum(axis=1)

    spread = np.sqrt(site.guessed_variance())
    guess = site.mean[np.isfinite(site.mean)]
    level = float(guess.mean()) if guess.size else 10.0 * float(np.median(spread))
    mean = np.where(np.isfinite(site.mean), site.mean, level + 2.0 * np.median(spread) * field(24))
    variance = spread**2 * 10.0 ** (0.5 * rng.standard_normal(n))
    start: Any = site.start if site.start is not None else site.home
    return World(site.mdp, mean, variance, start=0 if start is None else start)


def rehearse(
    path: str | PathLike[str],
    site: Site,
    budget: int,
    strategy: Strategy | None = None,
    seed: int = 0,
    world: World | None = None,
    on_step: Callable[[Campaign], None] | None = None,
    **goal: Any,
) -> tuple[Campaign, World]:
    """Play a campaign until it stops; the open campaign and the truth it was played on."""
    seed = whole(seed, "seed")
    truth = imagine(site, np.random.default_rng([seed, 1])) if world is None else world
    rng = np.random.default_rng([seed, 2])
    campaign = Campaign.create(Path(path), site, strategy, budget, seed, **goal)
    P = site.mdp.transitions
    deviation = np.sqrt(truth.variance)
    while True:
        advice = campaign.ask()
        if advice.stop:
            return campaign, truth
        asked = campaign.ledger.outstanding
        assert asked is not None
        row = slice(P.indptr[asked[1].pair], P.indptr[asked[1].pair + 1])
        state = int(rng.choice(P.indices[row], p=P.data[row] / P.data[row].sum()))
        campaign.tell(truth.mean[state] + deviation[state] * rng.standard_normal(), state=state)
        if on_step is not None:
            on_step(campaign)


def verdict(campaign: Campaign, truth: World) -> dict[str, Any]:
    """How near the estimates came to the truth, and how many intervals hold it.

    The error is the root of the weighted mean squared error over all sites that matter; where
    nothing was measured, the map shows the guess or the average of the rest. ``at_home`` says
    whether the device ended where it had to.
    """
    e, weight = campaign.estimates(), campaign.site.weight
    squared = (e.mean - truth.mean) ** 2
    bounded = np.isfinite(e.low) & np.isfinite(e.high)
    inside = (e.low <= truth.mean) & (truth.mean <= e.high)
    return {
        "true_error": float(np.sqrt(np.average(squared, weights=weight))),
        "intervals": int(bounded.sum()),
        "covered": float(inside[bounded].mean()) if bounded.any() else 1.0,
        "at_home": None if campaign.home is None else campaign.location == campaign.home,
    }
