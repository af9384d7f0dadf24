"""What holds for every world, policy and strategy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import PriorSample, VisitsOnly, World, simulate, testing
from sojourn.errors import InfiniteLoss
from sojourn.learning import (
    AverageReward,
    Fixed,
    FrankWolfe,
    Lawnmower,
    MaxEntropy,
    Uniform,
    WeightedMaxEntropy,
)  # fmt: skip
from sojourn.model import maximal_end_components
from sojourn.simulation import Simulation

COUNTINGS = st.sampled_from([PriorSample(), VisitsOnly(), VisitsOnly(0.5)])


def check(sim: Simulation) -> None:
    """The bookkeeping adds up, and nothing is NaN."""
    world, count = sim.world, sim.counting
    n = world.mdp.n_states
    assert (sim.visits.sum(axis=1) == count.moves(sim.budget) + count.prior * n).all()
    for array in (sim.error, sim.allocation_loss, sim.mean, sim.empirical_variance):
        assert np.isfinite(array).all()
    assert (sim.empirical_variance >= 0).all()
    cost = count.unvisited_cost(world.variance)
    share = np.where(sim.visits > 0, world.variance / np.maximum(sim.visits, 1), cost)
    np.testing.assert_allclose(sim.allocation_loss[:, -1], sim.budget * share.mean(axis=1))
    square = np.where(sim.visits > 0, (sim.mean - world.mean) ** 2, cost)
    np.testing.assert_allclose(sim.error[:, -1], square.mean(axis=1), rtol=1e-12, atol=1e-300)


@given(testing.worlds(), COUNTINGS, st.integers(1, 200), st.integers(1, 3), st.data())
@settings(max_examples=40)
def test_fixed_policies(
    world: World, counting: Any, budget: int, walkers: int, data: st.DataObject
) -> None:
    """Also in worlds that don't communicate, when asked for."""
    policy = data.draw(testing.policies(world.mdp))
    sim = simulate(
        world, Fixed(policy), budget, runs=3, counting=counting, walkers=walkers,
        allow_infinite=True,
    )  # fmt: skip
    check(sim)
    # Only what the policy can reach was visited.
    reachable = world.start > 0
    for _ in range(world.mdp.n_states):
        reachable = reachable | (policy.transition_matrix().T @ reachable.astype(float) > 0)
    assert (sim.visits[:, ~reachable] == counting.prior).all()


@given(testing.worlds(kinds=testing.COMMUNICATING), COUNTINGS, st.integers(1, 150))
@settings(max_examples=25)
def test_learners(world: World, counting: Any, budget: int) -> None:
    for strategy in (
        FrankWolfe(),
        MaxEntropy(),
        WeightedMaxEntropy(),
        AverageReward(),
        Lawnmower(),
    ):
        check(simulate(world, strategy, budget, runs=2, counting=counting))


@given(testing.worlds(), st.integers(0, 63))
@settings(max_examples=40)
def test_refused_worlds_are_those_that_do_not_communicate(world: World, noisy: int) -> None:
    """By the definition: all states of positive variance in one maximal end component."""
    some = (noisy >> np.arange(world.mdp.n_states)) & 1
    world = world.replace(variance=world.variance * some)
    matters = set(np.flatnonzero(world.variance > 0).tolist())
    inside = [set(c.states.tolist()) for c in maximal_end_components(world.mdp)]
    fine = not matters or any(matters <= states for states in inside)
    try:
        simulate(world.replace(start=_in(inside, matters)), Uniform(), 5, runs=1)
    except InfiniteLoss:
        assert not fine
    else:
        assert fine


def _in(components: list[set[int]], matters: set[int]) -> int:
    """A start from which what matters can be reached, if there is one."""
    held = [c for c in components if matters <= c]
    return min(held[0]) if held else 0
