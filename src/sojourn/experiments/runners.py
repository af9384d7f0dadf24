"""What a cell does, by name. Each function takes parameters and a seed and returns rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn import instances, learning
from sojourn.experiments.definition import Row
from sojourn.experiments.statistics import standard_error
from sojourn.experiments.strategies import (
    generated_slem,
    simulated,
    strategy,
    summary,
    unvisited_ratio,
    world_from,
)
from sojourn.model import Policy, VisitsOnly, World
from sojourn.planning import (
    budget_plan,
    exact_optimum,
    faster_mixing_plan,
    finite_loss,
    optimal_plan,
)
from sojourn.planning.linear import distribution_range
from sojourn.simulation import simulate

EXACT_UP_TO = 400
"""The largest n at which the exact programme over visits is run (its table grows as n³)."""


def garnet_ratios(p: dict[str, Any], seed: int) -> list[Row]:
    """The competitive ratios of several strategies on one Garnet.

    ``reach`` is min_s max_λ η_λ(s): how often the rarest state can be visited at best, and
    ``uniform_reach`` how often a uniform walk visits its rarest; ``ergodic`` whether every policy
    visits every state (Asm. asm:ergodic). What a uniform walk loses is known exactly, at each
    budget and in the long run.
    """
    world = instances.garnet(
        p["n_states"], p["n_actions"], p["branching"], reversible=p.get("reversible", False),
        seed=seed,
    )  # fmt: skip
    diagnosis = world.mdp.diagnose()
    common: Row = {
        "S": p["n_states"], "redraws": world.redraws,
        "reach": float(distribution_range(world.mdp)[1].min()),
        "uniform_reach": float(Policy.uniform(world.mdp).chain().stationary().min()),
        "ergodic": bool(diagnosis.every_policy_irreducible and diagnosis.every_policy_aperiodic),
    }  # fmt: skip
    rows = []
    for name in p["strategies"]:
        runs = p.get("fewer_runs", {}).get(name, p["runs"])
        for n, simulation, k in simulated(
            world, name, p["budgets"], runs, seed, separately=True, threads=1
        ):
            row = common | {"strategy": name, "n": n} | summary(simulation, k)
            row["unvisited_ratio"] = unvisited_ratio(simulation)
            if name == "uniform":
                row |= _uniform_exactly(world, n, simulation.optimal_loss)
            rows.append(row)
    return rows


def _uniform_exactly(world: World, n: int, best: float) -> Row:
    policy = Policy.uniform(world.mdp)
    exact = finite_loss(policy, world.variance, n, start=world.start, counting=VisitsOnly())
    eta = policy.chain().stationary()
    return {
        "exact_ratio": float(exact) / best - 1.0,
        "long_run_ratio": float(np.mean(world.variance / eta)) / best - 1.0,
    }


def three_state_losses(p: dict[str, Any], seed: int) -> list[Row]:
    """Exact and simulated losses of planned policies on the three-state world at one budget.

    ``loss`` and what goes with it are those of the first ``runs`` walks; ``loss_many`` is the
    mean of ``many``, of which the first ones are a part.
    """
    world = instances.three_state()
    mdp, variance, n = world.mdp, world.variance, p["budget"]
    counting = VisitsOnly()
    best = optimal_plan(mdp, variance)
    policies: dict[str, Policy] = {
        "lambda-star": best.policy,
        "fmh-sdp": faster_mixing_plan(mdp, variance, n, method="sdp").policy,
        "fmh": faster_mixing_plan(mdp, variance, n, method="convex").policy,
        "joint": faster_mixing_plan(mdp, variance, n).policy,
        "stationary": budget_plan(mdp, variance, n, counting=counting).policy,
    }
    rows: list[Row] = []
    for name, policy in policies.items():
        exact = float(finite_loss(policy, variance, n, counting=counting))
        fixed = learning.Fixed(policy)
        played = simulate(world, fixed, n, p["runs"], seed, threads=1)
        many = summary(simulate(world, fixed, n, p["many"], seed, threads=1), 0)
        rows.append({
            "policy": name, "n": n, "exact": exact, **summary(played, 0), "many": p["many"],
            "loss_many": many["loss"], "loss_many_se": many["loss_se"],
        })  # fmt: skip
    learned = simulate(world, strategy("lookahead"), n, p["runs"], seed, threads=1)
    rows.append({"policy": "lookahead", "n": n, "exact": None} | summary(learned, 0))
    if n <= EXACT_UP_TO:
        every = exact_optimum(mdp, variance, n, counting=counting, keep_decisions=False)
        rows.append({"policy": "any", "n": n, "exact": float(every.loss),
                     "optimal_loss": best.loss})  # fmt: skip
    return rows


def candidate(p: dict[str, Any], seed: int) -> list[Row]:
    """How FW-AME fares on some reversible Garnets with and without FMH-SDP: SLEM and losses.

    FMH-SDP, which costs a hundred times more, is tried only where the SLEM without it is within
    ``tolerance`` of ``slem``. ``seed`` draws the walks; each world has its own in the definition.
    """
    return [_candidate(p | {"world": number}, seed) for number in p["worlds"]]


def _candidate(p: dict[str, Any], seed: int) -> Row:
    world = _reversible_garnet(p)
    row: Row = {"which": p["which"], "world": p["world"]}
    names = ("uniform", "fw-ame", "fw-ame-fmh-sdp")
    row |= {f"slem_{name}": None for name in names[1:]}
    row |= {f"allocation_{name}": None for name in names}
    for name in names:
        slem = row["slem_fw-ame"]
        if name == "fw-ame-fmh-sdp" and (slem is None or abs(slem - p["slem"]) > p["tolerance"]):
            break
        record = name != "uniform"
        ((_, simulation, k),) = simulated(
            world, name, [p["budget"]], p["runs"], seed, threads=1, record_policies=record
        )
        if record:
            row[f"slem_{name}"] = generated_slem(simulation)
        row[f"allocation_{name}"] = float(simulation.allocation_loss[:, k].mean())
    return row


def learning_curve(p: dict[str, Any], seed: int) -> list[Row]:
    """Some walks of one strategy on one reversible Garnet: every walk, for quantiles later.

    ``seed`` draws the walks; the world has a seed of its own in the definition.
    """
    world = _reversible_garnet(p)
    rows: list[Row] = []
    name = p["strategy"]
    record = name.startswith("fw-ame")
    for n, simulation, k in simulated(
        world, name, p["budgets"], p["runs"], seed, threads=1, record_policies=record
    ):
        common: Row = {
            "which": p["which"], "strategy": name, "n": n, "optimal_loss": simulation.optimal_loss,
            "slem": generated_slem(simulation) if record else None,
        }  # fmt: skip
        losses: NDArray = simulation.normalized()[:, k]
        clean: NDArray = simulation.normalized("allocation")[:, k]
        for run, (loss, allocation) in enumerate(zip(losses, clean)):
            rows.append(common | {"run": run, "loss": float(loss), "allocation": float(allocation)})
    return rows


def _reversible_garnet(p: dict[str, Any]) -> World:
    return instances.garnet(
        p["n_states"], p["n_actions"], p["branching"], reversible=True, seed=p["world"]
    )


def excess(p: dict[str, Any], seed: int) -> list[Row]:
    """The allocation loss of one strategy above the optimum, against n, on one Garnet."""
    world = instances.garnet(p["n_states"], p["n_actions"], p["branching"], seed=p["world"])
    rows: list[Row] = []
    for n, simulation, k in simulated(
        world, p["strategy"], p["budgets"], p["runs"], seed, p.get("options"), threads=1
    ):
        clean = simulation.normalized("allocation")[:, k] / simulation.optimal_loss - 1.0
        rows.append({
            "strategy": p["strategy"], "label": p["label"], "world": p["world"], "n": n,
            "runs": clean.size, "excess": float(clean.mean()), "excess_se": standard_error(clean),
        })  # fmt: skip
    return rows


def exponents(p: dict[str, Any], seed: int) -> list[Row]:
    """θ(m) of Fig. fig:theta_m, in closed form and as measured on the Euler equation."""
    from sojourn.theory import theta, theta_euler

    return [
        {
            "m": m,
            "theta": float(theta(m)),
            "theta_euler": theta_euler(m, p["stop"]),
            "stop": p["stop"],
        }
        for m in p["exponents"]
    ]


def study_cell(p: dict[str, Any], seed: int) -> list[Row]:
    """One world, one strategy, several budgets of a user's study."""
    if "site" in p:
        data = p["sites"][p["site"]]
        world, weight = world_from(data), np.array(data["weight"])
    else:
        world, weight = instances.build(p["instance"]), None
    rows = []
    for n, simulation, k in simulated(
        world, p["strategy"], p["budgets"], p["runs"], seed, p.get("options"), threads=1,
        weight=weight,
    ):  # fmt: skip
        rows.append({"world": p["world"], "strategy": p["label"], "n": n} | summary(simulation, k))
    return rows
