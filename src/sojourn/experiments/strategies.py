"""Strategies and worlds as definitions name them, and simulations of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn import learning
from sojourn.errors import ArgumentError, SojournError
from sojourn.experiments.definition import Row
from sojourn.importing import Site
from sojourn.learning.strategy import Strategy
from sojourn.model import MDP, World
from sojourn.planning import optimal_plan
from sojourn.simulation import Simulation, simulate
from sojourn.simulation.result import Status

STRATEGIES = {
    "uniform": "Uniform", "oracle": "Oracle", "fw-ame": "FrankWolfe",
    "fw-ame-even": "FrankWolfe", "fw-ame-fmh-sdp": "FrankWolfe", "lookahead": "Lookahead",
    "max-entropy": "MaxEntropy",
    "weighted-max-entropy": "WeightedMaxEntropy", "average-reward": "AverageReward",
    "lawnmower": "Lawnmower", "bandit": "Bandit",
}  # fmt: skip

PLANS_FOR_BUDGET = frozenset({"lookahead"})
"""Strategies that use the whole budget: each budget is then a simulation of its own."""


def strategy(name: str, options: dict[str, Any] | None = None, mdp: MDP | None = None) -> Strategy:
    """A strategy by its name in definitions.

    ``fw-ame-even`` is FW-AME whose first episode is the optimal plan for equal variances instead
    of a uniform walk; it needs the ``mdp``.
    """
    if name not in STRATEGIES:
        raise ArgumentError(f"there is no strategy {name!r}", f"use one of {', '.join(STRATEGIES)}")
    chosen = dict(options or {})
    if name == "fw-ame-fmh-sdp":
        chosen.setdefault("mixing", "sdp")
    if name == "fw-ame-even" and mdp is not None:
        chosen.setdefault("initial", optimal_plan(mdp, np.ones(mdp.n_states)).policy)
    try:
        made: Strategy = getattr(learning, STRATEGIES[name])(**chosen)
    except SojournError as error:
        raise ArgumentError(f"the strategy {name!r}: {error.message}", error.hint) from error
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"the strategy {name!r} can't be made: {error}") from error
    return made


def simulated(
    world: World,
    name: str,
    budgets: list[int],
    runs: int,
    seed: int,
    options: dict[str, Any] | None = None,
    *,
    separately: bool = False,
    **more: Any,
) -> list[tuple[int, Simulation, int]]:
    """(n, simulation, column) for every budget, with one simulation where one is enough.

    ``separately`` simulates each budget, for the sake of what is known of final moments only.
    """
    made = strategy(name, options, world.mdp)
    points = sorted(set(budgets))
    if separately or name in PLANS_FOR_BUDGET:
        return [(n, _finished(simulate(world, made, n, runs, seed, **more)), 0) for n in points]
    whole = _finished(simulate(world, made, points[-1], runs, seed, checkpoints=points, **more))
    return [(n, whole, k) for k, n in enumerate(points)]


def _finished(simulation: Simulation) -> Simulation:
    """An interrupted simulation returns what it has; half a cell must never be kept as a whole."""
    if simulation.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return simulation


def summary(simulation: Simulation, column: int) -> Row:
    """Mean, standard error, median, 95 % quantile and maximum, always together."""
    best = simulation.optimal_loss
    noisy = simulation.normalized()[:, column]
    clean = simulation.normalized("allocation")[:, column]
    runs = noisy.size
    spread = max(runs - 1, 1) * runs
    return {
        "runs": runs, "optimal_loss": best,
        "loss": float(noisy.mean()),
        "loss_se": float(np.sqrt(((noisy - noisy.mean()) ** 2).sum() / spread)),
        "loss_q05": float(np.quantile(noisy, 0.05)), "loss_median": float(np.median(noisy)),
        "loss_q95": float(np.quantile(noisy, 0.95)), "loss_max": float(noisy.max()),
        "ratio": float(noisy.mean() / best - 1.0),
        "ratio_se": float(np.sqrt(((noisy - noisy.mean()) ** 2).sum() / spread) / best),
        "allocation_ratio": float(clean.mean() / best - 1.0),
        "allocation_ratio_se": float(np.sqrt(((clean - clean.mean()) ** 2).sum() / spread) / best),
    }  # fmt: skip


def unvisited_ratio(simulation: Simulation) -> float:
    """What states without a sample add to the ratio at the end, by their default cost alone."""
    world = simulation.world
    cost = simulation.counting.unvisited_cost(world.variance)
    weight = np.ones(world.mdp.n_states) if simulation.weight is None else simulation.weight
    missing = (simulation.visits == 0) @ weight / world.mdp.n_states
    return float(simulation.budget * cost * missing.mean() / simulation.optimal_loss)


def generated_slem(simulation: Simulation) -> float | None:
    """The average SLEM of the policies that a strategy generated: all but each walk's first,
    which is the uniform one until every state was seen. None where no walk came further.
    Needs ``record_policies=True``."""
    played = simulation.played
    assert played is not None
    slem = played.slem[played.time > 0]
    return float(slem.mean()) if slem.size else None


def world_data(site: Site, variance: float | None = None) -> dict[str, Any]:
    """The world that a site's guesses describe, as plain data.

    Part of a definition, so that its digest notices a changed site, and workers on machines
    that don't have the site's files can build it.
    """
    moves = site.mdp.transitions
    start = site.home if site.start is None else site.start
    return {
        "pair_start": site.mdp.pair_start, "next_state": moves.indices, "row_start": moves.indptr,
        "probability": moves.data, "start": start, "weight": site.weight,
        "mean": np.where(np.isfinite(site.mean), site.mean, 0.0),
        "variance": site.guessed_variance(variance),
    }  # fmt: skip


def world_from(data: dict[str, Any]) -> World:
    """The world that :func:`world_data` described."""
    import scipy.sparse as sp

    n_states = len(data["pair_start"]) - 1
    moves: Any = sp.csr_matrix(
        (data["probability"], data["next_state"], data["row_start"]),
        shape=(len(data["row_start"]) - 1, n_states),
    )
    return World(
        MDP(moves, np.array(data["pair_start"])), np.array(data["mean"]),
        np.array(data["variance"]), start=data["start"],
    )  # fmt: skip
