"""Strategies and worlds as definitions name them, and simulations of them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from sojourn import learning
from sojourn.errors import ArgumentError, SojournError
from sojourn.experiments.definition import Row
from sojourn.experiments.statistics import spread, standard_error
from sojourn.importing import Site
from sojourn.importing.site import nearest_names
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


_PLAIN: dict[str, tuple[type, str]] = {
    "bool": (bool, "true or false"), "int": (int, "a whole number"), "float": (float, "a number"),
    "str": (str, "text"), "ArrayLike": (list, "a list"),
}  # fmt: skip
"""What a definition can say of an argument of each type, and how a sentence calls it."""


def strategy(name: str, options: dict[str, Any] | None = None, mdp: MDP | None = None) -> Strategy:
    """A strategy by its name in definitions.

    ``fw-ame-even`` is FW-AME whose first episode is the optimal plan for equal variances instead
    of a uniform walk; it needs the ``mdp``.
    """
    if name not in STRATEGIES:
        meant = "".join(f"did you mean {n}? " for n in nearest_names(name, [*STRATEGIES])[:1])
        raise ArgumentError(
            f"there is no strategy {name!r}", f"{meant}use one of {', '.join(STRATEGIES)}"
        )
    made_from: type = getattr(learning, STRATEGIES[name])
    chosen = dict(options or {})
    _check_options(name, made_from, chosen)
    if name == "fw-ame-fmh-sdp":
        chosen.setdefault("mixing", "sdp")
    if name == "fw-ame-even" and mdp is not None:
        chosen.setdefault("initial", optimal_plan(mdp, np.ones(mdp.n_states)).policy)
    try:
        made: Strategy = made_from(**chosen)
    except SojournError as error:
        raise ArgumentError(f"the strategy {name!r}: {error.message}", error.hint) from error
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"the strategy {name!r} can't be made: {error}", "look at its options"
        ) from error
    return made


def _check_options(name: str, made_from: type, options: dict[str, Any]) -> None:
    """Refuse options that the class has not, or whose values can't be right: a class that is
    called from Python trusts its types, and would fail in the middle of a walk."""
    types: dict[str, str] = {}
    for owner in reversed(made_from.__mro__[:-1]):
        if "__init__" in vars(owner):
            arguments = list(inspect.signature(vars(owner)["__init__"]).parameters.values())[1:]
            types |= {a.name: str(a.annotation) for a in arguments if a.kind is not a.VAR_KEYWORD}
    said = {k: [_PLAIN[t] for t in kind.split(" | ") if t in _PLAIN] for k, kind in types.items()}
    known = [key for key, kinds in said.items() if kinds]
    for key, value in options.items():
        if key not in known:
            meant = "".join(f"did you mean {n}? " for n in nearest_names(key, known)[:1])
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise ArgumentError(
                f"the strategy {name!r} has no option {key!r} that a definition can set",
                meant + has,
            )
        kinds = [kind for kind, _ in said[key]]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (type(value) in kinds or (whole and float in kinds)):
            raise ArgumentError(
                f"the strategy {name!r}: {key} is {value!r}",
                f"write {' or '.join(words for _, words in said[key])}",
            )


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
    """How the losses of the walks scatter, and how they compare with the best in the long run.

    None stands for what there is not: the error of a single walk, a ratio to a loss of zero.
    """
    best = simulation.optimal_loss
    noisy = simulation.normalized()[:, column]
    clean = simulation.normalized("allocation")[:, column]

    def relative(value: float | None, less: float = 0.0) -> float | None:
        return None if value is None or best == 0.0 else value / best - less

    return {
        "runs": noisy.size, "optimal_loss": best, **spread("loss", noisy),
        "loss_q05": float(np.quantile(noisy, 0.05)),
        "ratio": relative(float(noisy.mean()), 1.0), "ratio_se": relative(standard_error(noisy)),
        "allocation_ratio": relative(float(clean.mean()), 1.0),
        "allocation_ratio_se": relative(standard_error(clean)),
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
