"""Every strategy keeps the contract, and the contract notices those that don't."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from sojourn import instances
from sojourn.learning import (
    AverageReward,
    Bandit,
    Decision,
    Fixed,
    FrankWolfe,
    Lawnmower,
    Lookahead,
    MaxEntropy,
    Oracle,
    Power,
    TheoryWidth,
    Uniform,
    WeightedMaxEntropy,
)  # fmt: skip
from sojourn.model import Policy, World
from sojourn.testing import STRATEGY_CHECKS, BrokenContract, check_strategy
from sojourn.testing import strategies as contract

COMPLETE = instances.complete(4)
WORLD = instances.garnet(4, 2, 2, seed=7)

STRATEGIES: dict[str, tuple[Callable[[], Any], World | None]] = {
    "uniform": (Uniform, None),
    "fixed": (lambda: Fixed(Policy.uniform(WORLD.mdp)), WORLD),
    "oracle": (Oracle, None),
    "FW-AME": (FrankWolfe, None),
    "FW-AME theorem": (partial(FrankWolfe, schedule="theorem", width=TheoryWidth(20.0)), None),
    "FW-AME constant": (partial(FrankWolfe, schedule=5, width=0.0), None),
    "FW-AME square": (partial(FrankWolfe, schedule=Power(2)), None),
    "FW-AME known": (partial(FrankWolfe, known_variance=True), None),
    "FW-AME shrunk floor": (partial(FrankWolfe, floor=0.4), None),
    "lookahead": (Lookahead, None),
    "lookahead, larger world": (Lookahead, instances.garnet(14, 2, 2, seed=3)),
    "lookahead, tour": (Lookahead, instances.path(14, stay=True)),
    "lookahead, known": (partial(Lookahead, known_variance=True), None),
    "max entropy": (MaxEntropy, None),
    "weighted max entropy": (WeightedMaxEntropy, None),
    "average reward": (AverageReward, None),
    "average reward, rarely": (partial(AverageReward, every=4, known_variance=True), None),
    "lawnmower": (Lawnmower, None),
    "ch-as": (Bandit, COMPLETE),
    "b-as": (partial(Bandit, "b-as"), COMPLETE),
    "gafs": (partial(Bandit, "gafs", loss="max"), COMPLETE),
    "fw-ucb": (partial(Bandit, "fw-ucb"), COMPLETE),
}


@pytest.mark.parametrize("check", STRATEGY_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", STRATEGIES)
def test_contract(name: str, check: Callable[..., None]) -> None:
    factory, world = STRATEGIES[name]
    check(factory, world)


def test_large_worlds_too() -> None:
    """Above the size of the compiled oracle other code decides."""
    world = instances.grid_survey(12, 12, seed=1)
    contract.decides_from_what_it_is_given(partial(AverageReward, every=5), world)
    contract.decides_from_what_it_is_given(partial(MaxEntropy, initial=None), world)


# -- strategies that break a promise, each caught by the check that names it ----------------


class RemembersInItself(Uniform):
    """Changes its object."""

    def __init__(self) -> None:
        self.asked = 0

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        self.asked += 1
        return super().plan(task, state, seen, walks)


class LooksAtItself(RemembersInItself):
    """Decides by what is remembered in the object."""

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        decision = super().plan(task, state, seen, walks)
        decision.until = seen.time[walks] + 1 + self.asked % 3
        return decision


class WritesToWhatItSees(Uniform):
    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        seen.visits[walks] += 1
        return super().plan(task, state, seen, walks)


class WritesToOthers(Uniform):
    def start(self, task: Any) -> Any:
        return {"x": np.zeros(task.walks)}

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        state["x"] += 1
        return super().plan(task, state, seen, walks)


class KeepsObjects(Uniform):
    def start(self, task: Any) -> Any:
        return {"x": np.array([object()] * task.walks)}


class ForgetsTheWalks(Uniform):
    def start(self, task: Any) -> Any:
        return {"x": np.zeros(7)}


class LooksAtTheOthers(Uniform):
    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        decision = super().plan(task, state, seen, walks)
        assert decision.policy is not None
        if seen.visits.sum() % 2 or len(seen.time) > 3:
            tilted = np.zeros(task.n_pairs)
            tilted[task.pair_start[:-1]] = 1.0
            decision.policy = np.broadcast_to(tilted, decision.policy.shape)
        decision.until = seen.time[walks] + 1
        return decision


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (RemembersInItself, contract.stays_as_it_was_built),
        (LooksAtItself, contract.decides_from_what_it_is_given),
        (WritesToWhatItSees, contract.only_reads_what_it_is_shown),
        (WritesToOthers, contract.only_reads_what_it_is_shown),
        (KeepsObjects, contract.keeps_its_memory_in_arrays),
        (ForgetsTheWalks, contract.keeps_its_memory_in_arrays),
        (LooksAtTheOthers, contract.treats_walks_apart),
    ],
)
def test_broken_promises_are_noticed(broken: Callable[[], Any], check: Callable[..., None]) -> None:
    with pytest.raises(BrokenContract, match="broken promise"):
        check(broken)
    with pytest.raises(BrokenContract):
        check_strategy(broken)
