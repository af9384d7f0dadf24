"""What a cell does, by name. Each function takes parameters and a seed and returns rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn import instances, learning
from sojourn.errors import ArgumentError
from sojourn.experiments.definition import Row
from sojourn.importing import load_site
from sojourn.learning.strategy import Strategy
from sojourn.model import Policy, VisitsOnly, World
from sojourn.planning import faster_mixing_plan, finite_loss, optimal_plan
from sojourn.simulation import Simulation, simulate

STRATEGIES = {
    "uniform": "Uniform", "oracle": "Oracle", "fw-ame": "FrankWolfe",
    "fw-ame-fmh-sdp": "FrankWolfe", "lookahead": "Lookahead", "max-entropy": "MaxEntropy",
    "weighted-max-entropy": "WeightedMaxEntropy", "average-reward": "AverageReward",
    "lawnmower": "Lawnmower", "bandit": "Bandit",
}  # fmt: skip

PLANS_FOR_BUDGET = frozenset({"lookahead"})
"""Strategies that use the whole budget: each budget is then a simulation of its own."""


def strategy(name: str, options: dict[str, Any] | None = None) -> Strategy:
    """A strategy by its name in definitions."""
    if name not in STRATEGIES:
        raise ArgumentError(f"there is no strategy {name!r}", f"use one of {', '.join(STRATEGIES)}")
    chosen = dict(options or {})
    if name == "fw-ame-fmh-sdp":
        chosen.setdefault("mixing", "sdp")
    try:
        made: Strategy = getattr(learning, STRATEGIES[name])(**chosen)
    except TypeError as error:
        raise ArgumentError(f"the strategy {name!r} can't be made: {error}") from error
    return made


def simulated(
    world: World,
    name: str,
    budgets: list[int],
    runs: int,
    seed: int,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> list[tuple[int, Simulation, int]]:
    """(n, simulation, column) for every budget, with one simulation where one is enough."""
    made = strategy(name, options)
    if name in PLANS_FOR_BUDGET:
        return [(n, simulate(world, made, n, runs, seed, **more), 0) for n in budgets]
    whole = simulate(world, made, max(budgets), runs, seed, checkpoints=sorted(budgets), **more)
    return [(n, whole, k) for k, n in enumerate(sorted(budgets))]


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
        "allocation_ratio": float(clean.mean() / best - 1.0),
        "allocation_ratio_se": float(np.sqrt(((clean - clean.mean()) ** 2).sum() / spread) / best),
    }  # fmt: skip


def garnet_ratios(p: dict[str, Any], seed: int) -> list[Row]:
    """The competitive ratios of several strategies on one Garnet."""
    world = instances.garnet(
        p["n_states"], p["n_actions"], p["branching"], reversible=p.get("reversible", False),
        seed=seed,
    )  # fmt: skip
    rows = []
    for name in p["strategies"]:
        runs = p.get("fewer_runs", {}).get(name, p["runs"])
        for n, simulation, k in simulated(world, name, p["budgets"], runs, seed, threads=1):
            rows.append(
                {"strategy": name, "n": n, "redraws": world.redraws} | summary(simulation, k)
            )
    return rows


def three_state_losses(p: dict[str, Any], seed: int) -> list[Row]:
    """Exact and simulated losses of planned policies on the three-state world at one budget."""
    world = instances.three_state()
    mdp, variance, n = world.mdp, world.variance, p["budget"]
    counting = VisitsOnly()
    best = optimal_plan(mdp, variance)
    policies: dict[str, Policy] = {
        "lambda-star": best.policy,
        "fmh-sdp": faster_mixing_plan(mdp, variance, n, method="sdp").policy,
        "fmh": faster_mixing_plan(mdp, variance, n, method="convex").policy,
        "joint": faster_mixing_plan(mdp, variance, n).policy,
    }
    rows: list[Row] = []
    for name, policy in policies.items():
        exact = float(finite_loss(policy, variance, n, counting=counting))
        played = simulate(world, learning.Fixed(policy), n, p["runs"], seed)
        rows.append({"policy": name, "n": n, "exact": exact} | summary(played, 0))
    learned = simulate(world, strategy("lookahead"), n, p["runs"], seed)
    rows.append({"policy": "lookahead", "n": n, "exact": None} | summary(learned, 0))
    return rows


def learning_curve(p: dict[str, Any], seed: int) -> list[Row]:
    """Some walks of one strategy on one reversible Garnet: every walk, for quantiles later.

    ``seed`` draws the walks; the world has a seed of its own in the definition.
    """
    world = instances.garnet(
        p["n_states"], p["n_actions"], p["branching"], reversible=True, seed=p["world"]
    )
    rows: list[Row] = []
    name = p["strategy"]
    record = name.startswith("fw-ame")
    for n, simulation, k in simulated(
        world, name, p["budgets"], p["runs"], seed, threads=1, record_policies=record
    ):
        common: Row = {"strategy": name, "n": n, "optimal_loss": simulation.optimal_loss}
        if record and simulation.played is not None:
            common["mean_slem"] = simulation.played.average_slem()
        losses: NDArray = simulation.normalized()[:, k]
        clean: NDArray = simulation.normalized("allocation")[:, k]
        for run, (loss, allocation) in enumerate(zip(losses, clean)):
            rows.append(common | {"run": run, "loss": float(loss), "allocation": float(allocation)})
    return rows


def exponents(p: dict[str, Any], seed: int) -> list[Row]:
    """θ(m) of Fig. fig:theta_m, in closed form and as measured on the Euler equation."""
    from sojourn.theory import theta, theta_euler

    return [
        {"m": m, "theta": float(theta(m)), "theta_euler": theta_euler(m)} for m in p["exponents"]
    ]


def study_cell(p: dict[str, Any], seed: int) -> list[Row]:
    """One world, one strategy, several budgets of a user's study."""
    if "site" in p:
        site = load_site(p["site"])
        world = World(
            site.mdp, np.where(np.isfinite(site.mean), site.mean, 0.0), site.guessed_variance(),
            start=site.start,
        )  # fmt: skip
        weight: Any = site.weight
    else:
        world, weight = instances.build(p["instance"]), None
    rows = []
    for n, simulation, k in simulated(
        world, p["strategy"], p["budgets"], p["runs"], seed, p.get("options"), threads=1,
        weight=weight,
    ):  # fmt: skip
        rows.append({"world": p["world"], "strategy": p["label"], "n": n} | summary(simulation, k))
    return rows
