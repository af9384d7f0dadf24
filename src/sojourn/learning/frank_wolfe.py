"""FW-AME: Frank–Wolfe for active exploration (Alg. FW-AME), and its variant with FMH-SDP.

Episode 1 follows an initial policy until every state has a sample; its length is τ₁. Episode
k + 1 follows the stationary policy of

    ψ̂⁺ = argmin over λ ∈ Λ_floor of ⟨∇𝓛̂⁺(λ̃), λ⟩,   ∇𝓛̂⁺(λ̃)(s,a) = − (σ̂²(s) + α(t,s)) / λ̃(s)²,

with λ̃ the frequency of visits so far, for as long as the schedule says. With equal variances
and λ̃₁ = 1/SA every λ is optimal, so the initial policy is a free choice: the uniform one.

Λ_floor (occupancies with η ≥ 2·floor everywhere) may be empty. Then each state's bound is
lowered to half of what the uniform policy reaches there, and a note says so.

With ``mixing="sdp"`` (Alg. FW-AME-FMH-SDP) the policy of an episode of τ steps is replaced by a
faster mixing one near it, FMH-SDP with the slack of Eq. delta_tau_k:

    δ(s) = (Σ̂ − σ̂²(s)) / ((S − 1) Σ̂ √τ),   Σ̂ = Σ_s σ̂²(s).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError, SolverFailure, StrategyError
from sojourn.learning.schedules import Schedule, schedule
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Task
from sojourn.learning.variance_rules import Width, width_rule
from sojourn.model import MDP, Policy
from sojourn.solvers import linear_oracle as lo

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIXING = (None, "sdp")

SEVERAL_CLASSES = (
    "the policy of some episode has several recurrent classes (a vertex of Λ_floor may): a walk "
    "stays in the one that it enters until the episode ends"
)
SHRUNK = (
    "no stationary distribution stays above the floor everywhere: the bound of each state was "
    "lowered to at most half of what the uniform policy reaches there"
)


class FrankWolfe:
    """Alg. FW-AME as in the experiments, by default.

    ``floor``: η̲, occupancies are kept at η ≥ 2·floor. ``width``: the factor of the confidence
    width, or a rule (``TheoryWidth(range=R)``). ``variance_bound``: σ²_max, where it isn't
    declared with the world. ``schedule``: "cubic", "theorem", a constant length or ``Power(m)``.
    ``mixing="sdp"``: with FMH-SDP. ``known_variance``: the same algorithm with the true
    variances and no confidence width, a yardstick. ``initial``: the policy of the first episode.
    """

    def __init__(
        self,
        floor: float = 1e-3,
        width: float | Width = 0.2,
        variance_bound: float | None = None,
        schedule: str | int | Schedule = "cubic",
        mixing: str | None = None,
        known_variance: bool = False,
        initial: Policy | None = None,
        name: str | None = None,
    ) -> None:
        if not 0 <= floor < 0.5:
            raise ArgumentError(
                f"floor is {floor}", "a number from 0 to below 1/2: η >= 2·floor is asked for"
            )
        if variance_bound is not None and not 0 < variance_bound < np.inf:
            raise ArgumentError(
                f"variance_bound is {variance_bound}", "give a positive number, or None"
            )
        if mixing not in MIXING:
            raise ArgumentError(
                f"there is no mixing {mixing!r}", f"use one of {', '.join(map(repr, MIXING))}"
            )
        self.floor = floor
        self.width = width_rule(width, variance_bound)
        self.schedule = _schedule(schedule)
        self.mixing = mixing
        self.known_variance = known_variance
        self.initial = initial
        self._name = name

    @property
    def name(self) -> str:
        """A short name for tables and plots."""
        if self._name is not None:
            return self._name
        known = " (known variances)" if self.known_variance else ""
        return ("FW-AME" if self.mixing is None else "FW-AME w/ FMH-SDP") + known

    @property
    def needs(self) -> frozenset[str]:
        """The true variances, for the yardstick only."""
        return frozenset({"variance"}) if self.known_variance else frozenset()

    def start(self, task: Task) -> State:
        """The episode's number, τ₁, and where the linear oracle starts from."""
        ground(self._mdp(task), self.floor)
        first = np.broadcast_to(task.pair_start[:-1], (task.walks, task.n_states))
        return {
            "episode": np.zeros(task.walks, dtype=np.int64),
            "first": np.zeros(task.walks, dtype=np.int64),
            "chosen": np.array(first),
        }

    def plan(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """The next episode of each walk."""
        now = seen.time[walks]
        episode, first = state["episode"], state["first"]
        fresh = episode[walks] == 0
        first[walks[episode[walks] == 1]] = now[episode[walks] == 1]
        episode[walks] += 1
        until = np.full(walks.size, FOREVER)
        policy = np.empty((walks.size, task.n_pairs))
        notes: list[str] = []
        if fresh.any():
            policy[fresh] = self._initial(task)
        going = np.flatnonzero(~fresh)
        if going.size:
            w = walks[going]
            ends = self.schedule.moves_before(episode[w] + 1, first[w])
            until[going] = np.maximum(ends, now[going] + 1)
            policy[going], notes = self._episode(task, state, seen, w, until[going] - now[going])
        return Decision(until, policy, until_all_visited=fresh, info={"notes": notes})

    def gradient(self, task: Task, seen: Observations, walks: Ints) -> Floats:
        """−weight·(σ̂² + α)/T², which is ∇𝓛̂⁺(λ̃) up to the factor t²/S (normalised anyway)."""
        visits = np.maximum(seen.visits[walks], 1).astype(float)
        return -task.weights * self._variance(task, seen, walks) / visits**2

    # -- inside -------------------------------------------------------------------------

    def _variance(self, task: Task, seen: Observations, walks: Ints) -> Floats:
        """The optimistic variances, or the true ones."""
        if self.known_variance:
            if task.variance is None:
                raise StrategyError("FW-AME with known variances was not given the variances")
            return np.broadcast_to(task.variance, (walks.size, task.n_states))
        estimate = seen.spread[walks] / np.maximum(seen.visits[walks], 1)
        return estimate + self.width(task, seen, walks)

    def _episode(
        self, task: Task, state: State, seen: Observations, walks: Ints, length: Ints
    ) -> tuple[Floats, list[str]]:
        mdp = self._mdp(task)
        here = ground(mdp, self.floor)
        g = self.gradient(task, seen, walks)
        scale = np.abs(g).max(axis=1, keepdims=True)
        g /= np.where(scale > 0, scale, 1.0)
        policy, occupancy, several = here.solve(g, state["chosen"], walks)
        notes = list(here.notes) + ([SEVERAL_CLASSES] if several else [])
        if self.mixing is not None:
            for i, w in enumerate(walks):
                policy[i] = self._faster(task, seen, int(w), occupancy[i], int(length[i]))
        return policy, notes

    def _faster(
        self, task: Task, seen: Observations, walk: int, occupancy: Floats, length: int
    ) -> Floats:
        from sojourn.planning.faster_mixing import fmh_sdp

        if self.known_variance and task.variance is not None:
            variance = np.asarray(task.variance)
        else:
            variance = seen.spread[walk] / np.maximum(seen.visits[walk], 1)
        total, n = float(variance.sum()), task.n_states
        # Before any spread was seen all states are alike: 1/S each.
        share = variance / total if total > 0 else np.full(n, 1.0 / n)
        slack = (1.0 - share) / (max(n - 1, 1) * np.sqrt(length))
        return fmh_sdp(self._mdp(task), occupancy, slack, self.floor)

    def _initial(self, task: Task) -> Floats:
        if self.initial is None:
            counts = np.diff(task.pair_start)
            return np.repeat(1.0 / counts, counts)
        if self.initial.probability.size != task.n_pairs:
            raise StrategyError("the initial policy belongs to another model")
        return self.initial.probability

    @staticmethod
    def _mdp(task: Task) -> MDP:
        if task.mdp is None:
            raise StrategyError("FW-AME needs the transition probabilities (Asm. asm:known.mdp)")
        return task.mdp


_schedule = schedule


@dataclass(frozen=True)
class Ground:
    """What the episodes of all walks share: the linear oracle over Λ_floor."""

    mdp: MDP
    lower: Floats
    dense: lo.DenseOracle | None
    notes: tuple[str, ...]

    def solve(self, cost: Floats, chosen: Ints, walks: Ints) -> tuple[Floats, Floats, bool]:
        """Policies and occupancies for one cost per walk, and whether one is multichain.

        ``chosen`` (all walks) says where the oracle starts, and is brought up to date.
        """
        if self.dense is not None:
            batch = self.dense.solve_batch(cost, self.lower, chosen[walks])
            if (batch.status != lo.OPTIMAL).any():
                raise SolverFailure("the linear problem of an episode was left without a proof")
            chosen[walks] = batch.chosen
            return (
                batch.policy(self.dense),
                batch.occupancy,
                bool(batch.recurrent_classes.max() > 1),
            )
        policy = np.empty((walks.size, self.mdp.n_pairs))
        occupancy = np.empty_like(policy)
        several = False
        for i in range(walks.size):
            # A fresh oracle each time: one that remembers would make a walk depend on others.
            answer = lo.solve(self.mdp, cost[i], self.lower)
            if answer.status is not lo.Status.OPTIMAL:
                raise SolverFailure(
                    f"the linear problem of an episode was not solved ({answer.status.value})"
                )
            occupancy[i] = answer.occupancy
            policy[i] = Policy.from_occupancy(self.mdp, answer.occupancy).probability
            several = several or answer.recurrent_classes > 1
        return policy, occupancy, several


@lru_cache(maxsize=16)
def ground(mdp: MDP, floor: float) -> Ground:
    """Prepared once for the many blocks of walks that ask for it."""
    lower = np.full(mdp.n_states, 2.0 * floor)
    notes: tuple[str, ...] = ()
    if floor > 0 and _infeasible(mdp, lower):
        chain = Policy.uniform(mdp).chain()
        classes = len(chain.recurrent_classes())
        reached = np.mean([chain.stationary(c) for c in range(classes)], axis=0)
        lower, notes = np.minimum(lower, reached / 2.0), (SHRUNK,)
    small = mdp.n_states <= lo.SMALL and lo.LinearOracle(mdp).whole
    return Ground(mdp, lower, lo.DenseOracle(mdp) if small else None, notes)


def _infeasible(mdp: MDP, lower: Floats) -> bool:
    answer = lo.solve(mdp, np.zeros(mdp.n_states), lower)
    return answer.status is lo.Status.INFEASIBLE
