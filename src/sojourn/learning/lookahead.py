"""Lookahead: plan for the counts so far and the steps left, and plan again.

At every question the walk's expected remaining visits are optimised by :mod:`solvers.horizon`:
not a stationary policy, but time-dependent ones from *here*, over the steps that are left. So
nothing has to mix, nothing traps the walk, and near the end nothing is planned that can't be
reached any more.

*Variances.* v(s) = (Σ(x − x̄)² + 2·pool)/(T − 1 + 2), with pool the variance within states pooled
over all of them, and v(s) = pool where T ≤ 1. Before there is a pool all states are alike. There
is no optimism: a state that looks quiet by chance is visited again soon enough.

*When it asks again.* When the time, or the time left, has changed by 5 %; so at the beginning and
near the end at every step.

*What to do.* The plan is a mixture of a few time-dependent policies. Drawing one at random would
chatter at bottlenecks; it takes the one that collects most in the next steps at the plan's prices.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import StrategyError
from sojourn.learning.strategy import Decision, Observations, State, Task
from sojourn.model import MDP
from sojourn.solvers import horizon

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARE = 0.05
"""Ask again when the time, or the time left, has changed by this share."""
COMPONENTS = 8
GAP = 1e-3
"""Frank–Wolfe gap (relative) at which a plan is good enough: far below the noise of estimates."""
FIRST = 0.3
"""What an unvisited state counts as: a fraction of a sample, which makes a first one precious."""
EFFORT = 3e7
"""Transitions that one pass may touch; a longer horizon is cut."""
HOME_SLACK = 1e-9


class Lookahead:
    """The default strategy; nothing to tune. ``known_variance``: the same with the true variances,
    a yardstick."""

    def __init__(self, known_variance: bool = False) -> None:
        self.known_variance = known_variance

    @property
    def name(self) -> str:
        """A short name for tables and plots."""
        return "Lookahead" + (" (known variances)" if self.known_variance else "")

    @property
    def needs(self) -> frozenset[str]:
        """The true variances, for the yardstick only."""
        return frozenset({"variance"}) if self.known_variance else frozenset()

    def start(self, task: Task) -> State:
        """Nothing to remember: every plan starts from the counts."""
        if task.mdp is None:
            raise StrategyError("Lookahead needs to know where actions lead")
        return {}

    def plan(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """The next stretch of each walk."""
        mdp = task.mdp
        assert mdp is not None
        variance = self._variances(task, seen, walks)
        now = seen.time[walks]
        left = (
            np.maximum(now, 4 * task.n_states) if task.budget is None else task.budget - now
        ) // max(task.walkers, 1)
        left = np.maximum(left, 1)
        stretch = np.maximum(1, (SHARE * np.minimum(now, left)).astype(np.int64))
        actions = np.empty((walks.size, int(stretch.max()), task.n_states), dtype=np.int64)
        counts = np.maximum(seen.visits[walks], FIRST)
        allowed = _homeward(mdp, task.home, task.budget)
        moves = mdp.transitions
        for i, w in enumerate(walks):
            _one(
                mdp.pair_start, moves.indptr, moves.indices, moves.data, allowed,
                task.weights * variance[i], counts[i], int(seen.state[w]),
                int(min(left[i], _longest(mdp))), int(left[i]), int(stretch[i]), actions[i],
            )  # fmt: skip
        return Decision(now + stretch, actions=actions)

    def _variances(self, task: Task, seen: Observations, walks: Ints) -> Floats:
        if self.known_variance:
            if task.variance is None:
                raise StrategyError("Lookahead with known variances was not given the variances")
            return np.broadcast_to(task.variance, (walks.size, task.n_states))
        return shrunk_variance(seen.visits[walks], seen.spread[walks])


def shrunk_variance(visits: Ints, spread: Floats) -> Floats:
    """v = (Σ(x − x̄)² + 2·pool)/(T − 1 + 2), rows are walks."""
    free = np.maximum(visits - 1, 0)
    total = free.sum(axis=1, keepdims=True)
    pool = np.where(total > 0, spread.sum(axis=1, keepdims=True) / np.maximum(total, 1), 1.0)
    pool = np.where(pool > 0, pool, 1.0)
    return (spread + 2.0 * pool) / (free + 2.0)


def _one(
    pair_start: Ints, row_start: NDArray, successor: NDArray, chance: Floats, allowed: NDArray,
    w: Floats, counts: Floats, state: int, steps: int, left: int, stretch: int, out: Ints,
) -> None:  # fmt: skip
    """The pairs of one walk's next stretch, one row per step."""
    n = w.size
    pick = np.empty((COMPONENTS, min(steps, _ROWS), n), dtype=np.int64)
    depth = np.empty(COMPONENTS, dtype=np.int64)
    M, share, N = np.empty((COMPONENTS, n)), np.empty(COMPONENTS), np.empty(n)
    scratch, here = np.empty((3, n)), np.empty((2, n))
    # Home restricts the last steps only; a plan that ends before them is free.
    bounds = allowed if steps == left else allowed[:0]
    count = horizon.plan(
        pair_start, row_start, successor, chance, bounds, w, counts, state, steps, GAP,
        pick, depth, M, share, N, scratch, here,
    )  # fmt: skip
    j = horizon.choose(
        row_start, successor, chance, w, counts, state, steps, max(stretch, 4), pick, depth, count,
        share, N, here,
    )  # fmt: skip
    rows = np.minimum(steps - 1 - np.arange(out.shape[0]), depth[j] - 1)
    out[:] = pick[j, np.maximum(rows, 0)]


_ROWS = 4000


def _longest(mdp: MDP) -> int:
    return max(64, int(EFFORT / mdp.transitions.nnz))


@lru_cache(maxsize=8)
def _homeward(mdp: MDP, home: int | None, budget: int | None) -> NDArray[np.bool_]:
    """Which pairs keep the way home open, by steps to go (rows from the end)."""
    if home is None or budget is None:
        return np.empty((0, mdp.n_pairs), dtype=np.bool_)
    rows = min(budget, max(64, int(2e8 / mdp.n_pairs)))
    chances = np.empty((rows + 1, mdp.n_states))
    allowed = np.empty((rows, mdp.n_pairs), dtype=np.bool_)
    moves = mdp.transitions
    depth = horizon.return_chances(
        mdp.pair_start, moves.indptr, moves.indices, moves.data, home, chances, allowed, HOME_SLACK
    )
    return allowed[:depth]
