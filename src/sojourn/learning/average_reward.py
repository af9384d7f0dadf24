"""Replanning at every step for the average reward (a rival, and a cheap relative of Lookahead).

At every decision the variances are re-estimated and the device follows the policy with the
largest average of r(s) = v(s)/T(s)², the marginal value of one more sample, as if r stayed what
it is. There is no episode to be trapped in and no confidence width to tune. It ignores that r
falls while it is collected, and what changing one's mind costs: where places are far apart it
chatters between them.

Small worlds are solved exactly, by policy iteration from the last policy. In large ones one step
changes the rewards little, so relative value iteration, from the last values, goes on until the
gain is known to :data:`PRECISION` or for :data:`SWEEPS` sweeps, and resumes at the next step.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import ArgumentError
from sojourn.learning.ground import ground
from sojourn.learning.strategy import Decision, Observations, State, Task
from sojourn.learning.variance_rules import pooled_variance

UNSEEN = 0.5
"""A state without a sample counts as having half a one."""

PRECISION = 0.01
SWEEPS = 50
STAYING = 0.1
"""Value iteration circles where the chain is periodic; staying with this chance prevents it."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class AverageReward:
    """Average-reward policy iteration on v/T², every ``every`` steps."""

    def __init__(self, every: int = 1, known_variance: bool = False) -> None:
        if every < 1:
            raise ArgumentError(f"replanning every {every} steps", "give at least 1")
        self.every = every
        self.known_variance = known_variance

    @property
    def name(self) -> str:
        """A short name for tables and plots."""
        return "average reward" + (" (known variances)" if self.known_variance else "")

    @property
    def needs(self) -> frozenset[str]:
        """The true variances, for the yardstick only."""
        return frozenset({"variance"}) if self.known_variance else frozenset()

    def start(self, task: Task) -> State:
        """The last policy of each walk: the next one differs little."""
        if ground(task.known_moves(), 0.0).dense is not None:
            first = np.broadcast_to(task.pair_start[:-1], (task.walks, task.n_states))
            return {"chosen": np.array(first)}
        return {"value": np.zeros((task.walks, task.n_states))}

    def plan(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """The best policy for the rewards of this moment."""
        assert task.mdp is not None
        if self.known_variance:
            variance = np.broadcast_to(task.known_variances(), (walks.size, task.n_states))
        else:
            variance = pooled_variance(seen, walks)
        reward = task.weights * variance / np.maximum(seen.visits[walks], UNSEEN) ** 2
        scale = reward.max(axis=1, keepdims=True)
        reward /= np.where(scale > 0, scale, 1.0)
        if "chosen" in state:
            ground(task.mdp, 0.0).solve(-reward, state["chosen"], walks)
            actions = state["chosen"][walks]
        else:
            P = task.mdp.transitions
            actions = np.empty((walks.size, task.n_states), dtype=np.int64)
            _iterate(
                task.mdp.pair_start, P.indptr, P.indices, P.data, reward, state["value"], walks,
                actions,
            )  # fmt: skip
        same = np.broadcast_to(actions[:, None], (walks.size, self.every, task.n_states))
        return Decision(seen.time[walks] + self.every, actions=same)


@njit(cache=True, nogil=True)
def _iterate(
    pair_start: Ints, indptr: Ints, indices: Ints, data: Floats, reward: Floats, value: Floats,
    walks: Ints, actions: Ints,
) -> None:  # fmt: skip
    """Relative value iteration from ``value`` (brought up to date), and the greedy actions."""
    n = pair_start.size - 1
    new = np.empty(n)
    for i in range(walks.size):
        h = value[walks[i]]
        for _ in range(SWEEPS):
            least, most = np.inf, -np.inf
            for s in range(n):
                best = -np.inf
                for p in range(pair_start[s], pair_start[s + 1]):
                    q = 0.0
                    for k in range(indptr[p], indptr[p + 1]):
                        q += data[k] * (reward[i, indices[k]] + h[indices[k]])
                    if q > best:
                        best = q
                        actions[i, s] = p
                new[s] = STAYING * h[s] + (1.0 - STAYING) * best
                least = min(least, new[s] - h[s])
                most = max(most, new[s] - h[s])
            for s in range(n):
                h[s] = new[s] - new[0]
            if most - least <= PRECISION * most:
                break
