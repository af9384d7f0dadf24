"""FW-AME: Frank–Wolfe for active exploration (Alg. FW-AME), and its variant with FMH-SDP.

Episode 1 follows an initial policy until every state has a sample (that matters and can still be
reached, where not all do or can); its length is τ₁. Episode k + 1 follows the stationary policy of

    ψ̂⁺ = argmin over λ ∈ Λ_floor of ⟨∇𝓛̂⁺(λ̃), λ⟩,   ∇𝓛̂⁺(λ̃)(s,a) = − (σ̂²(s) + α(t,s)) / λ̃(s)²,

with λ̃ the frequency of visits so far, for as long as the schedule says. With equal variances
and λ̃₁ = 1/SA every λ is optimal, so the initial policy is a free choice: the uniform one.

Λ_floor (occupancies with η ≥ 2·floor everywhere) may be empty. Then each state's bound is
lowered to half of what the uniform policy reaches there, and a note says so.

With ``mixing="sdp"`` (Alg. FW-AME-FMH-SDP) the policy of an episode of τ steps is replaced by a
faster mixing one near it, FMH-SDP with the slack of Eq. delta_tau_k:

    δ(s) = (Σ̂ − σ̂²(s)) / ((S − 1) Σ̂ √τ),   Σ̂ = Σ_s σ̂²(s).

Where no symmetric flow on the possible moves comes that near, the policy stays, and a note says
so.

With ``dynamics="learned"`` (App. app:relaxing:asm:known.mdp) where moves lead is not known either.
The policy of an episode is optimal for the most favourable of all plausible models
(:mod:`sojourn.learning.optimism`), the floor included, and what is plausible follows from the
counts of moves (:mod:`sojourn.learning.confidence_sets`). Then an episode is planned again, on what
has been learned, when the count of some pair has doubled; its end stays. The first episode is not
a random walk, which may need exponentially long to see every state: it follows optimistic policies
as well, for a state that was never seen counts as seen half a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import (
    ArgumentError,
    InfeasibleFloor,
    InfeasibleTarget,
    SolverFailure,
    StrategyError,
)  # fmt: skip
from sojourn.learning.confidence_sets import ConfidenceSet, known_support, widening_sets
from sojourn.learning.ground import Ground, ground
from sojourn.learning.learned_moves import check
from sojourn.learning.optimism import APART, LOWERED, optimistic_choice
from sojourn.learning.reachable import all_can_be_visited, missing
from sojourn.learning.schedules import Schedule, as_schedule
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Task
from sojourn.learning.variance_rules import Width, width_rule
from sojourn.model import Policy
from sojourn.planning.faster_mixing import fmh_sdp

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIXING = (None, "sdp")
HALF_A_SAMPLE = 0.5

SEVERAL_CLASSES = (
    "the policy of some episode has several recurrent classes (a vertex of Λ_floor may): a walk "
    "stays in the one that it enters until the episode ends"
)
NO_FASTER = (
    "FMH-SDP has no answer for some episode's target (no symmetric flow on the possible moves "
    "carries it): the target's own policy was played"
)


class FrankWolfe:
    """Alg. FW-AME as in the experiments, by default.

    ``floor``: η̲, occupancies are kept at η ≥ 2·floor. ``width``: the factor of the confidence
    width, or a rule (``TheoryWidth(range=R)``). ``variance_bound``: σ²_max, where it isn't
    declared with the world. ``schedule``: "cubic", "theorem", a constant length or ``Power(m)``.
    ``mixing="sdp"``: with FMH-SDP. ``known_variance``: the same algorithm with the true
    variances and no confidence width, a yardstick. ``initial``: the policy of the first episode.

    ``dynamics="learned"``: where moves lead is learned too. ``plausible`` is the rule of the
    confidence sets (``BernsteinSet()`` or ``L1Set()``; by default the former, at
    first much narrower than proved), ``support`` says which states can follow each pair
    (n_pairs × n_states flags), where that is known.
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
        dynamics: str = "known",
        plausible: ConfidenceSet | None = None,
        support: ArrayLike | None = None,
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
        check(dynamics, support, plausible)
        if dynamics == "learned" and (mixing is not None or initial is not None):
            raise ArgumentError(
                f"{'mixing' if mixing is not None else 'initial'} was given, but the dynamics are "
                "learned",
                "FMH-SDP and an initial policy belong to a model that is known",
            )
        self.dynamics = dynamics
        self.plausible = plausible
        self.support = support
        self.floor = floor
        self.width = width_rule(width, variance_bound)
        self.schedule = as_schedule(schedule)
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
        if self.dynamics == "learned":
            known += " (learned dynamics)"
        return ("FW-AME" if self.mixing is None else "FW-AME w/ FMH-SDP") + known

    @property
    def needs(self) -> frozenset[str]:
        """Counts of moves where the dynamics are learned; the true variances for the yardstick."""
        wanted = {"variance": self.known_variance, "transitions": self.dynamics == "learned"}
        return frozenset(name for name, needed in wanted.items() if needed)

    def start(self, task: Task) -> State:
        """The episode's number and its end, τ₁, and where the solver starts from."""
        if self.dynamics == "learned":
            known_support(self.support, task.n_pairs, task.n_states)
            return {
                "episode": np.zeros(task.walks, dtype=np.int64),
                "first": np.zeros(task.walks, dtype=np.int64),
                "end": np.zeros(task.walks, dtype=np.int64),
                "bias": np.zeros((task.walks, task.n_states)),
            }
        ground(task.known_moves(), self.floor)
        first = np.broadcast_to(task.pair_start[:-1], (task.walks, task.n_states))
        return {
            "episode": np.zeros(task.walks, dtype=np.int64),
            "first": np.zeros(task.walks, dtype=np.int64),
            "chosen": np.array(first),
        }

    def plan(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """The next episode of each walk, or the rest of one that is planned again."""
        if self.dynamics == "learned":
            return self._plan_learned(task, state, seen, walks)
        now = seen.time[walks]
        episode, first = state["episode"], state["first"]
        was = episode[walks]
        fresh = (was == 0) | ((was == 1) & missing(task, seen, walks))
        ended = (was == 1) & ~fresh
        first[walks[ended]] = now[ended]
        episode[walks] = np.where(fresh, 1, was + 1)
        # What can't be visited any more is not waited for; whether it can is asked at each step.
        until = np.where(all_can_be_visited(task), FOREVER, now + 1)
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
        value = task.weights * self._variance(task, seen, walks)
        if self.dynamics == "learned":
            visits = np.maximum(seen.visits[walks], HALF_A_SAMPLE)
            return np.asarray(-value / visits**2)
        visits = seen.visits[walks]
        # After the first episode, a state without a sample doesn't matter or can't be reached.
        return -np.where(visits > 0, value / np.maximum(visits, 1.0) ** 2, 0.0)

    # -- inside -------------------------------------------------------------------------

    def _plan_learned(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        assert seen.transitions is not None
        now = seen.time[walks]
        episode, first, end = state["episode"], state["first"], state["end"]
        fresh = (episode[walks] <= 1) & missing(task, seen, walks)
        seen_all = walks[~fresh & (episode[walks] <= 1)]
        first[seen_all] = seen.time[seen_all]
        over = ~fresh & ((episode[walks] <= 1) | (now >= end[walks]))
        episode[walks] = np.where(fresh, 1, np.maximum(episode[walks], 1) + over)
        w = walks[over]
        end[w] = np.maximum(self.schedule.moves_before(episode[w] + 1, first[w]), seen.time[w] + 1)
        support = known_support(self.support, task.n_pairs, task.n_states)
        g = _scaled(self.gradient(task, seen, walks))
        length = end[walks] - now
        policy = np.empty((walks.size, task.n_pairs))
        notes: dict[str, None] = {}
        for i, walk in enumerate(walks):
            rule = self.plausible or widening_sets(int(now[i]), task.n_pairs)
            model = rule(seen.transitions[walk], task.pair_start, support)
            # The first episode, as ever, doesn't mind the floor: it looks for what is missing.
            floor = 0.0 if fresh[i] else self.floor
            choice = optimistic_choice(
                model, g[i], floor, state["bias"][walk], int(seen.state[walk]), int(length[i])
            )
            policy[i], state["bias"][walk] = choice.policy, choice.bias
            notes |= {LOWERED: None} if choice.lowered else {}
            notes |= {APART: None} if choice.apart else {}
        counts = seen.pair_visits[walks]
        return Decision(
            np.where(fresh, FOREVER, end[walks]), policy, until_all_visited=fresh,
            pair_limit=counts + np.maximum(counts, 1), info={"notes": list(notes)},
        )  # fmt: skip

    def _variance(self, task: Task, seen: Observations, walks: Ints) -> Floats:
        """The optimistic variances, or the true ones."""
        if self.known_variance:
            return np.broadcast_to(task.known_variances(), (walks.size, task.n_states))
        estimate = seen.spread[walks] / np.maximum(seen.visits[walks], 1)
        return estimate + self.width(task, seen, walks)

    def _episode(
        self, task: Task, state: State, seen: Observations, walks: Ints, length: Ints
    ) -> tuple[Floats, list[str]]:
        mdp = task.known_moves()
        here = ground(mdp, self.floor)
        g = _scaled(self.gradient(task, seen, walks))
        policy, occupancy, trapping = here.solve(g, state["chosen"], walks)
        notes = list(here.notes)
        if self.mixing is not None:
            for i, w in enumerate(walks):
                slack = self._slack(task, seen, int(w), int(length[i]))
                faster = _faster(here, occupancy[i], slack, self.floor)
                if faster is None:
                    notes.append(NO_FASTER)
                else:
                    policy[i], trapping[i] = faster, False
        if trapping.any():
            notes.append(SEVERAL_CLASSES)
        return policy, notes

    def _slack(self, task: Task, seen: Observations, walk: int, length: int) -> Floats:
        """Eq. delta_tau_k."""
        if self.known_variance and task.variance is not None:
            variance = np.asarray(task.variance)
        else:
            variance = seen.spread[walk] / np.maximum(seen.visits[walk], 1)
        total, n = float(variance.sum()), task.n_states
        # Before any spread was seen all states are alike: 1/S each.
        share = variance / total if total > 0 else np.full(n, 1.0 / n)
        return (1.0 - share) / (max(n - 1, 1) * np.sqrt(length))

    def _initial(self, task: Task) -> Floats:
        if self.initial is None:
            counts = np.diff(task.pair_start)
            return np.repeat(1.0 / counts, counts)
        if self.initial.probability.size != task.n_pairs:
            raise StrategyError(
                "the initial policy belongs to another model", "build it on the world's mdp"
            )
        return self.initial.probability


def _scaled(g: Floats) -> Floats:
    """Every row in units of its largest entry."""
    scale = np.abs(g).max(axis=1, keepdims=True)
    return np.asarray(g / np.where(scale > 0, scale, 1.0))


def _faster(here: Ground, occupancy: Floats, slack: Floats, floor: float) -> Floats | None:
    """FMH-SDP's policy for that target, or None where it has none."""
    try:
        least = min(floor, 0.5 * float(here.lower.min()))
        return fmh_sdp(here.mdp, occupancy, slack, least).probability
    except (InfeasibleTarget, InfeasibleFloor, SolverFailure):
        return None
