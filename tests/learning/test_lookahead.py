"""What Lookahead promises: near the optimum, never trapped, home in time."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from sojourn import MDP, VisitsOnly, World, instances, optimal_plan, simulate
from sojourn.learning import (
    AverageReward,
    Decision,
    FrankWolfe,
    Lawnmower,
    Lookahead,
    Uniform,
    WeightedMaxEntropy,
)  # fmt: skip
from sojourn.planning import ExactOptimum, exact_optimum
from sojourn.testing.strategies import SlowWalks


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


# -- near the optimum -------------------------------------------------------------------


@pytest.mark.parametrize("budget", [10, 20, 100])
def test_known_variances_come_close_to_the_exact_optimum_of_three_states(budget: int) -> None:
    world = instances.three_state()
    best = exact_optimum(world.mdp, world.variance, budget, counting=VisitsOnly()).loss
    sim = simulate(world, Lookahead(known_variance=True), budget, runs=300)
    mean, error = mean_and_error(sim.allocation_loss[:, 0])
    assert best - 3 * error - 1e-12 <= mean <= 1.05 * best


class Programme:
    """Plays the optimal history-dependent policy."""

    name, needs = "exact", frozenset({"variance"})

    def __init__(self, optimum: ExactOptimum) -> None:
        self.optimum = optimum

    def start(self, task: Any) -> Any:
        return {}

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        pairs = np.tile(task.pair_start[:-1], (walks.size, 1, 1))
        for i, w in enumerate(walks):
            here = int(seen.state[w])
            pairs[i, 0, here] = self.optimum.decide(here, seen.visits[w])
        return Decision(seen.time[walks] + 1, actions=pairs)


@pytest.mark.parametrize("seed", range(10))
def test_known_variances_come_close_to_the_exact_optimum_of_small_garnets(seed: int) -> None:
    """Paired: now and then a state is not reached at all, and costs more than all the rest."""
    world = instances.garnet(3 + seed % 2, 2, 2, seed=seed)
    budget = 30 if world.mdp.n_states == 4 else 40
    optimum = exact_optimum(
        world.mdp, world.variance, budget, counting=VisitsOnly(), keep_decisions=True
    )
    best = simulate(world, Programme(optimum), budget, runs=200).allocation_loss[:, 0]
    ours = simulate(world, Lookahead(known_variance=True), budget, runs=200).allocation_loss[:, 0]
    mean, error = mean_and_error(ours - best)
    assert mean <= 0.05 * optimum.loss + 2 * error


@pytest.mark.parametrize(("budget", "reach"), [(100, 1.60), (500, 1.48)])
def test_three_states_with_unknown_variances(budget: int, reach: float) -> None:
    """Where the optimal stationary policy mixes so badly that it takes 17 at n = 100."""
    sim = simulate(instances.three_state(), Lookahead(), budget, runs=200)
    mean, error = mean_and_error(sim.allocation_loss[:, 0])
    assert mean - 2 * error <= reach


@pytest.mark.parametrize(
    ("request_", "budget"),
    [
        ("garnet:5,3,2,seed=3", 200), ("garnet:20,3,2,seed=4", 400), ("three_state", 200),
        ("corridor:20", 1000), ("river_swim:6", 1000), ("river_swim:20", 1000),
        ("rooms:2,4", 300), ("frozen_lake", 1000),
    ],
)  # fmt: skip
def test_no_rival_is_better(request_: str, budget: int) -> None:
    """Paired: the same seeds, so the same starts."""
    world = instances.build(request_)
    ours = simulate(world, Lookahead(), budget, runs=12, seed=5).allocation_loss[:, 0]
    for rival in (Uniform(), Lawnmower(), FrankWolfe(), AverageReward(), WeightedMaxEntropy()):
        theirs = simulate(world, rival, budget, runs=12, seed=5).allocation_loss[:, 0]
        mean, error = mean_and_error(ours - theirs)
        assert mean <= 2 * error, rival.name


def test_the_loss_approaches_the_optimum() -> None:
    """On small worlds, with fluid plans, and on larger ones, with rolling plans."""
    for request in ("river_swim:6", "garnet:15,3,2,seed=1"):
        world = instances.build(request)
        ratios = [
            simulate(world, Lookahead(), n, runs=8).allocation_ratio[0] for n in (200, 1000, 10000)
        ]
        assert ratios[1] < 0.6 * ratios[0]
        assert ratios[2] < 0.02


# -- never trapped ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    ["garnet:10,3,2,seed=6", "river_swim:10", "rooms:3,3", "frozen_lake", "cycle:15",
     "grid_survey:width=6,height=6,slip=0.4,seed=1", "corridor:30"],
)  # fmt: skip
def test_no_state_ends_without_a_sample(request_: str) -> None:
    world = instances.build(request_)
    sim = simulate(world, Lookahead(), 150 * world.mdp.n_states, runs=10, seed=2)
    assert (sim.visits > 0).all()


def test_the_end_can_be_anywhere() -> None:
    """States that can't be left: the walk sees what can be seen before it goes there."""
    cycle = [(s, "on", (s + 1) % 4, 1.0) for s in range(4)]
    mdp = MDP.from_transitions([*cycle, (0, "leave", 4, 1.0), (4, "stay", 4, 1.0)])
    world = World(mdp, 0.0, np.ones(5), start=0)
    sim = simulate(world, Lookahead(), 20, runs=5, allow_infinite=True)
    assert (sim.visits[:, :4] > 0).all()


# -- home, weights, budgets, walkers ----------------------------------------------------


def chance_of_return(mdp: MDP, home: int, steps: int) -> np.ndarray:
    """The largest probability of being at home after so many steps, from each state."""
    chance = np.eye(1, mdp.n_states, home).ravel()
    for _ in range(steps):
        chance = np.array(
            [(mdp.transitions[list(mdp.pairs_of(s))] @ chance).max() for s in range(mdp.n_states)]
        )
    return chance


@pytest.mark.parametrize("request_", ["corridor:9", "corridor:25", "rooms:2,4", "path:6"])
@pytest.mark.parametrize("budget", [1, 2, 9, 60, 301])
def test_home_in_time_wherever_that_is_certain(request_: str, budget: int) -> None:
    world = instances.build(request_)
    home = 1
    world = world.replace(start=home)
    sim = simulate(world, Lookahead(), budget, runs=6, home=home)
    if chance_of_return(world.mdp, home, budget)[home] == 1.0:
        assert sim.at_home.all()


@pytest.mark.parametrize("request_", ["river_swim:6", "grid_survey:width=5,height=5,slip=0.3"])
def test_home_with_the_largest_probability_elsewhere(request_: str) -> None:
    world = instances.build(request_)
    home, budget, runs = world.mdp.n_states - 1, 60, 400
    world = world.replace(start=home)
    best = chance_of_return(world.mdp, home, budget)[home]
    found = simulate(world, Lookahead(), budget, runs=runs, home=home).at_home.mean()
    assert abs(found - best) <= 3 * np.sqrt(best * (1 - best) / runs) + 1e-12


@pytest.mark.parametrize("request_", ["corridor:8", "corridor:21"])
def test_states_without_weight_are_only_passed(request_: str) -> None:
    world = instances.build(request_)
    weight = np.zeros(world.mdp.n_states)
    weight[[0, 3]] = 1.0, 4.0
    sim = simulate(world, Lookahead(), 200, runs=10, weight=weight)
    # To state 3 and to state 0 from anywhere, three steps apart, a few times.
    assert (sim.visits[:, weight > 0].sum(axis=1) > 120).all()
    assert sim.allocation_ratio[0] < 1.0
    assert not sim.visits[:, 4:][:, -1].all()


@pytest.mark.parametrize("request_", ["corridor:9", "garnet:20,3,2,seed=1"])
def test_several_walkers_share_one_budget(request_: str) -> None:
    world = instances.build(request_)
    sim = simulate(world, Lookahead(), 401, runs=10, walkers=3)
    assert (sim.visits.sum(axis=1) == 401).all()
    even = simulate(world, Uniform(), 401, runs=10, walkers=3)
    assert sim.allocation_loss.mean() < 0.8 * even.allocation_loss.mean()


@pytest.mark.parametrize("request_", ["garnet:5,3,2,seed=1", "garnet:15,3,2,seed=1"])
def test_without_a_budget_it_plans_on(request_: str) -> None:
    """A live campaign may have none: the horizon doubles with the time."""
    world = instances.build(request_)
    walks = SlowWalks(world, Lookahead(), 400, 1)
    walks.task = dataclasses.replace(walks.task, budget=None)
    walks.run()
    share = walks.seen.visits[0] / 400
    plan = optimal_plan(world.mdp, world.variance)
    loss = (world.variance / share).mean()
    assert loss < 1.5 * plan.loss


def test_a_world_without_noise_is_walked() -> None:
    for request in ("garnet:5,3,2,seed=1", "garnet:15,3,2,seed=1"):
        world = instances.build(request)
        quiet = World(world.mdp, 3.0, np.zeros(world.mdp.n_states))
        sim = simulate(quiet, Lookahead(), 100, runs=3)
        assert (sim.visits.sum(axis=1) == 100).all()
        assert (sim.error == 0).all() or (sim.visits == 0).any()


def test_it_sees_the_variances_only_where_it_says_so() -> None:
    told: list[Any] = []

    class Watched(Lookahead):
        def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Any:
            told.append(task.variance)
            return super().plan(task, state, seen, walks)

    simulate(instances.three_state(), Watched(), 20, runs=2)
    assert all(variance is None for variance in told)
    assert Lookahead(known_variance=True).needs == {"variance"}
