"""Allocation rules for worlds where every state can be sampled at will.

Without travel the problem is the active bandit of Antos et al. (2010): at every step pick the
state to sample next. With T(s) samples, empirical variance σ̂² and a width α or β, the rules
take the state with the largest index,

    "ch-as"    (σ̂² + α)/T²      Carpentier, Lazaric, Ghavamzadeh, Munos & Auer (2011), with the
                               Chernoff–Hoeffding width α = width·σ²_max·√(log(4St²)/T)
    "b-as"     (σ̂² + β)/T²      the same with the Bernstein width, smaller where σ̂ is,
                               β = width·(2σ̂σ_max·√(log(4St²)/T) + σ²_max·log(4St²)/T)
    "gafs"     σ̂²/T²            Antos, Grover & Szepesvári (2010), greedy but with forced choice
                               of the least sampled state while its T < √t + 1
    "fw-ucb"   the vertex       Berthet & Perchet (2017): argmin over the simplex of the
                               optimistic gradient ⟨−(σ̂² + α)/λ̃², ·⟩ at λ̃ = T/t

The published indices of the first three are σ̂²/T-like: they serve the *worst* state's error,
whose optimum is T ∝ σ². Ours are for the *mean* error of the states, the loss of the paper,
whose marginal gain is σ²/T² and whose optimum is T ∝ σ; ``loss="max"`` gives the published ones.
On the mean error fw-ucb and ch-as are the same rule, as the paper says.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError, StrategyError
from sojourn.learning.strategy import Decision, Observations, State, Task
from sojourn.learning.variance_rules import variance_bound
from sojourn.model import MDP

RULES = ("ch-as", "b-as", "gafs", "fw-ucb")
LOSSES = ("mean", "max")
SAMPLES_FIRST = 2
"""Every state is sampled this often before a rule speaks: one sample has no variance."""


class Bandit:
    """A bandit rule; refuses worlds where some state can't be reached at will in one step."""

    needs: frozenset[str] = frozenset()

    def __init__(
        self,
        rule: str = "ch-as",
        width: float = 0.2,
        variance_bound: float | None = None,
        loss: str = "mean",
    ) -> None:
        if rule not in RULES:
            raise ArgumentError(f"there is no bandit rule {rule!r}", f"use {', '.join(RULES)}")
        if loss not in LOSSES:
            raise ArgumentError(f"there is no loss {loss!r}", f"use {', '.join(LOSSES)}")
        if rule == "fw-ucb" and loss == "max":
            raise ArgumentError(
                "Frank-Wolfe needs a smooth loss, and the worst state's error is not",
                "use loss='mean', or another rule",
            )
        if not 0 <= width < np.inf:
            raise ArgumentError(f"width is {width}", "give a number >= 0")
        self.rule, self.width, self.bound, self.loss = rule, width, variance_bound, loss

    @property
    def name(self) -> str:
        """A short name for tables and plots."""
        return self.rule.upper() + (" (worst state)" if self.loss == "max" else "")

    def start(self, task: Task) -> State:
        """Nothing to remember, but a look at whether this is a bandit at all."""
        _leading(task.known_moves())
        return {}

    def plan(
        self, task: Task, state: State, seen: Observations, walks: NDArray[np.int64]
    ) -> Decision:
        """One step: to the state with the largest index."""
        assert task.mdp is not None
        target = self.target(task, seen, walks)
        actions = _leading(task.mdp)[:, target].T[:, None, :]
        return Decision(seen.time[walks] + 1, actions=np.ascontiguousarray(actions))

    def target(self, task: Task, seen: Observations, walks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The state that each walk samples next."""
        visits = seen.visits[walks]
        index = self._index(task, seen, walks)
        # The least sampled states first, where a rule has nothing to go by yet.
        unsure = visits < SAMPLES_FIRST
        if self.rule == "gafs":
            t = np.maximum(seen.time[walks], 1)[:, None]
            unsure |= visits < np.sqrt(t) + 1.0
        forced = unsure & (task.weights > 0)
        first = np.where(forced, visits, np.iinfo(np.int64).max).argmin(axis=1)
        return np.where(forced.any(axis=1), first, index.argmax(axis=1))

    def _index(
        self, task: Task, seen: Observations, walks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        visits = np.maximum(seen.visits[walks], 1).astype(float)
        variance = seen.spread[walks] / visits
        t = np.maximum(seen.time[walks], 1)[:, None]
        rate = (np.log(4.0 * task.n_states) + 2.0 * np.log(t)) / visits
        if self.rule == "gafs":
            optimistic = variance
        else:
            bound = variance_bound(self.bound, task)
            if self.rule == "b-as":
                width = 2.0 * np.sqrt(variance * bound * rate) + bound * rate
            else:
                width = bound * np.sqrt(rate)
            optimistic = variance + self.width * width
        optimistic = task.weights * optimistic
        if self.rule == "fw-ucb":
            frequency = visits / t
            gradient = -optimistic / frequency**2
            # The linear problem over the simplex is solved by a vertex: the smallest entry.
            return -gradient
        return optimistic / (visits**2 if self.loss == "mean" else visits)


@lru_cache(maxsize=16)
def _leading(mdp: MDP) -> NDArray[np.int64]:
    """The pair that leads from s to s' for certain, at [s, s'], or a sentence."""
    P = mdp.transitions
    n = mdp.n_states
    if n > 4096:
        raise StrategyError(
            f"bandit rules are for worlds of up to 4096 states, this one has {n}",
            "take Lookahead",
        )
    rows = np.repeat(np.arange(mdp.n_pairs), np.diff(P.indptr))
    sure = P.data >= 1.0 - 1e-12
    pair = np.full((n, n), -1, dtype=np.int64)
    pair[mdp.pair_state[rows[sure]], P.indices[sure]] = rows[sure]
    if (pair < 0).any():
        s, y = (int(x) for x in np.argwhere(pair < 0)[0])
        raise StrategyError(
            "bandit rules sample any state at will, but here no action leads from state "
            f"{mdp.state_labels[s]!r} to state {mdp.state_labels[y]!r} for certain",
            "use Lookahead or FrankWolfe where a sample costs travel",
        )
    return pair
