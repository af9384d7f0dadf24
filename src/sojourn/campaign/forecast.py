"""Before the first step: what a budget buys, and what a precision costs.

With the noise known and n steps the best plan leaves a mean squared error of 𝓛·S/(n·Σ weight),
whatever the true means are. This is the limit for long campaigns: with few steps, getting to
every site once and not knowing the noise cost extra, which :func:`rehearsed` measures. What it
measures is the same quantity: T values of a site with variance σ² leave σ²/T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import whole
from sojourn.campaign.rehearse import imagine
from sojourn.campaign.stopping import checked_goal
from sojourn.errors import ArgumentError
from sojourn.importing import Site
from sojourn.learning import Lookahead
from sojourn.learning.strategy import Strategy
from sojourn.model import World
from sojourn.planning import Plan, optimal_plan
from sojourn.simulation import simulate
from sojourn.solvers.objectives import WorstState

MOST = 2.0**62
"""No budget is larger."""


@dataclass(frozen=True)
class Forecast:
    """What ``budget`` steps reach with the best plan for a known noise.

    ``mean_error`` is the root of the weighted mean squared standard error, ``worst_error`` the
    largest standard error of a site that matters, ``visits`` the expected visits per state.
    """

    plan: Plan
    budget: int
    mean_error: float
    worst_error: float
    visits: NDArray[np.float64]
    variance: NDArray[np.float64]
    time: float | None = None
    """What the steps take, where the site says so of every move that the plan makes, and where
    the budget is long enough for the plan's moves to be the walk's (the plan has no ``notes``)."""


def forecast(site: Site, budget: int, variance: ArrayLike | None = None) -> Forecast:
    """What a budget buys."""
    budget = whole(budget, "budget", 1)
    noise = site.guessed_variance(variance)
    plan = optimal_plan(site.named, noise, weight=site.weight, tolerance=1e-6)
    return _forecast(site, plan, noise, budget)


def steps_for(
    site: Site, precision: float, of: str = "average", variance: ArrayLike | None = None
) -> Forecast:
    """What a precision costs: the fewest steps of a plan for which the error is small enough.

    ``of="average"`` plans for the mean error, ``of="every"`` for the worst site.
    """
    checked_goal(precision, of, None)
    noise = site.guessed_variance(variance)
    mattering = noise * (site.weight > 0)
    if of == "average":
        plan = optimal_plan(site.named, noise, weight=site.weight, tolerance=1e-6)
    else:
        plan = optimal_plan(site.named, mattering, tolerance=1e-6, objective=WorstState)
    one = _forecast(site, plan, noise, 1)
    error = one.mean_error if of == "average" else one.worst_error
    with np.errstate(over="ignore"):
        steps = float(np.square(error / precision))
    if not steps < MOST:
        raise ArgumentError(
            f"±{precision:g} takes more steps than can be counted",
            f"give a standard error nearer to what one step leaves, {error:.3g}",
        )
    return _forecast(site, plan, noise, max(1, math.ceil(steps)))


def _forecast(site: Site, plan: Plan, noise: NDArray, budget: int) -> Forecast:
    plan = replace(plan, budget=budget)
    matters = (site.weight > 0) & (noise > 0)
    visits = plan.distribution * budget
    with np.errstate(divide="ignore"):
        squared = np.where(matters, noise / visits, 0.0)
    mean = math.sqrt(float((site.weight * squared).sum() / site.weight.sum()))
    time = None
    if site.time is not None and not plan.notes:
        used = plan.occupancy > 1e-12
        total = float(plan.occupancy[used] @ site.time[used]) * budget
        time = total if math.isfinite(total) else None
    return Forecast(plan, budget, mean, math.sqrt(float(squared.max())), visits, noise, time)


@dataclass(frozen=True)
class Rehearsed:
    """What simulated campaigns of ``budget`` steps reached.

    ``mean_error`` is how far the finished map is from the truth: the root of the weighted mean
    squared error over *all* sites that matter, expected for the visits that were made. Where
    nothing was measured the map shows the average of the rest, so a walk can't look better by
    staying away.
    """

    strategy: str
    runs: int
    mean_error: float
    standard_error: float
    unvisited: float
    """Expected number of sites that matter without a value at the end."""
    at_home: float | None
    """The share of walks that ended at home, where the site has one."""


def rehearsed(
    site: Site,
    budget: int,
    variance: ArrayLike | None = None,
    runs: int = 10,
    strategy: Strategy | None = None,
    seed: int = 0,
    progress: bool = False,
    truth: World | None = None,
) -> Rehearsed:
    """Simulate a few campaigns on a truth unknown to the strategy.

    Unless one is given, it has the guessed noise and invented means.
    """
    if truth is None:
        invented = imagine(site, seed)
        truth = World(
            site.mdp, invented.mean, site.guessed_variance(variance), start=invented.start
        )
    chosen = Lookahead() if strategy is None else strategy
    result = simulate(
        truth, chosen, budget, runs=runs, seed=seed, home=site.home, weight=site.weight,
        progress=progress,
    )  # fmt: skip
    matters, seen = site.weight > 0, result.visits > 0
    average = np.where(seen, result.mean, 0.0).sum(axis=1) / seen.sum(axis=1)
    squared = np.where(
        seen, truth.variance / np.maximum(result.visits, 1), (average[:, None] - truth.mean) ** 2
    )
    per_run = (squared @ site.weight) / site.weight.sum()
    spread = per_run.std(ddof=1) / math.sqrt(runs) if runs > 1 else 0.0
    mean = math.sqrt(float(per_run.mean()))
    return Rehearsed(
        chosen.name, runs, mean, float(spread / (2 * mean)) if mean > 0 else 0.0,
        float((~seen & matters).sum(axis=1).mean()),
        None if site.home is None else float(result.at_home.mean()),
    )  # fmt: skip
