"""Strategies that don't learn: the uniform policy, a fixed policy, and the oracle's.

The simplest examples of the protocol, and the yardsticks of every comparison.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError, StrategyError
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Task
from sojourn.model import MDP, Policy

if TYPE_CHECKING:
    from sojourn.planning import Plan


def stationary(policy: NDArray, walks: NDArray[np.int64]) -> Decision:
    """One stationary policy for all these walks, for ever."""
    return Decision(
        until=np.full(walks.size, FOREVER),
        policy=np.broadcast_to(policy, (walks.size, policy.size)),
    )


class Uniform:
    """π(a|s) = 1/|A_s|: every available action with equal probability."""

    name = "uniform"
    needs: frozenset[str] = frozenset()

    def start(self, task: Task) -> State:
        """Nothing to remember."""
        return {}

    def plan(
        self, task: Task, state: State, seen: Observations, walks: NDArray[np.int64]
    ) -> Decision:
        """The uniform policy, to the end."""
        counts = np.diff(task.pair_start)
        return stationary(np.repeat(1.0 / counts, counts), walks)


class Fixed:
    """A stationary policy that is played to the end, whatever is observed."""

    needs: frozenset[str] = frozenset()

    def __init__(self, policy: Policy, name: str = "fixed") -> None:
        if not isinstance(policy, Policy):
            raise ArgumentError(
                f"Fixed takes a Policy, not {type(policy).__name__}",
                "a plan's policy is plan.policy; from numbers: Policy(mdp, probability)",
            )
        self.policy = policy
        self.name = name

    def start(self, task: Task) -> State:
        """Nothing to remember."""
        if not np.array_equal(self.policy.mdp.pair_start, task.pair_start):
            raise StrategyError(
                f"the fixed policy belongs to another model ({self.policy.mdp!r})",
                "build it on the MDP of the world that is simulated",
            )
        return {}

    def plan(
        self, task: Task, state: State, seen: Observations, walks: NDArray[np.int64]
    ) -> Decision:
        """The policy, to the end."""
        return stationary(self.policy.probability, walks)


class Oracle:
    """π_λ* of Eq. asymptotic.opt.policy, computed from the true variances."""

    name = "oracle"
    needs = frozenset({"variance"})

    def start(self, task: Task) -> State:
        """Nothing to remember: the plan is a function of the task."""
        return {}

    def plan(
        self, task: Task, state: State, seen: Observations, walks: NDArray[np.int64]
    ) -> Decision:
        """The asymptotically optimal policy, to the end."""
        plan = _optimal(
            task.known_moves(), task.known_variances().tobytes(), task.weights.tobytes()
        )
        return stationary(plan.policy.probability, walks)


@lru_cache(maxsize=16)
def _optimal(mdp: MDP, variance: bytes, weight: bytes) -> Plan:
    """The optimal plan, computed once for the many blocks of walks that ask for it."""
    from sojourn.planning import optimal_plan

    return optimal_plan(mdp, np.frombuffer(variance), weight=np.frombuffer(weight))
