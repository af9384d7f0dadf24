"""The protocol between a strategy and whatever walks for it.

A strategy says *what to do until when*; it never moves the device. Whoever walks (the compiled
simulation, or one live campaign) asks ``plan`` for a :class:`Decision`, follows it until its
first stop condition fires, and asks again. Many independent walks are asked together: every
array has a leading *walk* axis, and a live campaign is simply one walk.

    state = strategy.start(task)                          once
    decision = strategy.plan(task, state, seen, walks)    at time 0, then at every stop

``walks`` are the indices of the walks that need a decision now; the decision's arrays have one
row for each of them, in that order, while ``seen`` and ``state`` hold all walks.

What a strategy needs for its next decision lives in ``state``, a plain ``dict`` of arrays with
a leading walk axis, and nowhere else: a campaign stores it and resumes from it, and threads ask
one strategy object about different walks at the same time. So the object itself stays as it was
built, and a decision about a walk depends on that walk alone. A strategy sees only what was
observed; ``needs`` names the exceptions, and whoever walks hands over nothing more.

The smallest example, complete: walk at random, but prefer what was seen less.

    class Curious:
        name = "curious"
        needs = frozenset()

        def start(self, task):
            return {}                                            # nothing to remember

        def plan(self, task, state, seen, walks):
            rarity = 1.0 / (1.0 + seen.visits[walks])            # walks × states
            value = (task.mdp.transitions @ rarity.T).T          # walks × pairs
            policy = value / task.mdp.to_pairs(task.mdp.state_sums(value))
            return Decision(until=seen.time[walks] + 10, policy=policy)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError, StrategyError
from sojourn.model import MDP, Counting, VisitsOnly

State = dict[str, NDArray]
"""A strategy's memory: arrays with a leading walk axis (numbers only, so it can be stored)."""

FOREVER = np.iinfo(np.int64).max
"""``until`` this time: to the end of the budget."""

NEEDS = frozenset({"variance", "transitions"})
"""What a strategy may ask for beyond the observations: ``variance``, the true variances (only
an oracle, as a yardstick); ``transitions``, counts of every observed transition (only a learner
of the dynamics, which in turn is not given the transition probabilities)."""


@dataclass(frozen=True)
class Task:
    """What is known before the first step.

    ``mdp`` is ``None`` for a strategy that ``needs`` transitions: it knows the states and the
    actions (``pair_start``) and has to learn where they lead. ``budget`` is the number of moves
    to make, ``None`` where nobody said. ``variance`` is given only to a strategy that needs it.
    """

    n_states: int
    pair_start: NDArray[np.int64]
    mdp: MDP | None
    walks: int = 1
    budget: int | None = None
    weight: NDArray | None = None
    counting: Counting = field(default_factory=VisitsOnly)
    variance_bound: float | None = None
    home: int | None = None
    walkers: int = 1
    variance: NDArray | None = None

    @property
    def n_pairs(self) -> int:
        return int(self.pair_start[-1])

    @property
    def weights(self) -> NDArray:
        """The weight of each state (1 where none was given)."""
        return np.ones(self.n_states) if self.weight is None else self.weight

    def known_moves(self) -> MDP:
        """The model, for a strategy that can't do without it."""
        if self.mdp is None:
            raise StrategyError(
                "this strategy needs to know where actions lead, and is not told",
                'take Lookahead(dynamics="learned") or FrankWolfe(dynamics="learned")',
            )
        return self.mdp

    def known_variances(self) -> NDArray:
        """The true variances, for a yardstick that can't do without them."""
        if self.variance is None:
            raise StrategyError(
                "this strategy needs to know the variances, and is not told",
                'name "variance" in its needs; in a live campaign nobody knows them',
            )
        return self.variance


@dataclass
class Observations:
    """What every walk has seen so far; row w belongs to walk w.

    ``time`` counts moves; ``state`` is where the device is now (the device that moves next,
    when several share the walk). ``mean`` and ``spread`` are the running mean and the sum of
    squared deviations from it (Welford's form, which stays accurate when mean ≫ deviation).
    ``positions`` are the states of all devices of the walk (walks × walkers).
    """

    time: NDArray[np.int64]
    state: NDArray[np.int64]
    visits: NDArray[np.int64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    pair_visits: NDArray[np.int64]
    positions: NDArray[np.int64]
    generators: Sequence[np.random.Generator] = ()
    """One generator per walk, for strategies that draw; reproducible whatever the order."""
    transitions: NDArray[np.int64] | None = None
    """Counts (walks × n_pairs × n_states), for a strategy that needs them."""

    def empirical_variance(self) -> NDArray[np.float64]:
        """The biased 1/T variance of Eq. eq:emp.variables; 0 where nothing was seen."""
        return self.spread / np.maximum(self.visits, 1)


@dataclass
class Decision:
    """What to do until when, for each walk that asked (leading axis: position in ``walks``).

    Exactly one of
      ``policy``   (k × n_pairs) a stationary policy, probabilities that sum to 1 per state
      ``actions``  (k × L × n_states) the *pair* to take in each state at the 1st .. L-th step
                   from now; after the L-th the strategy is asked again.
    ``until`` (k) is the absolute time of the next question, at the latest. The walk stops
    earlier when ``until_all_visited[i]`` and every state has a sample, or when the count of a
    pair reaches ``pair_limit[i, pair]``.
    """

    until: NDArray[np.int64]
    policy: NDArray[np.float64] | None = None
    actions: NDArray[np.integer] | None = None
    until_all_visited: NDArray[np.bool_] | None = None
    pair_limit: NDArray[np.int64] | None = None
    info: dict[str, Any] = field(default_factory=dict)
    """What the strategy wants to report of this decision (never read back by it)."""


@runtime_checkable
class Strategy(Protocol):
    """Anything with these four members is a strategy; see ``sojourn.testing`` for a contract
    suite that checks one, and the docs for one in 30 lines."""

    @property
    def name(self) -> str:
        """A short name for tables and plots."""

    @property
    def needs(self) -> frozenset[str]:
        """A subset of :data:`NEEDS`; usually empty."""

    def start(self, task: Task) -> State:
        """The memory before the first step."""

    def plan(
        self, task: Task, state: State, seen: Observations, walks: NDArray[np.int64]
    ) -> Decision:
        """What these walks do next, and until when. May write to the rows ``walks`` of
        ``state``."""


def check_strategy(strategy: Any) -> None:
    """Refuse what is no strategy by name."""
    if isinstance(strategy, type) or not isinstance(strategy, Strategy):
        raise ArgumentError(
            f"{strategy!r} is not a strategy",
            "a strategy has .name, .needs, .start(task) and .plan(task, state, seen, walks); "
            "a policy becomes one with Fixed(policy), a class by calling it",
        )
    if isinstance(strategy.needs, str):
        raise ArgumentError(
            f"the needs of the strategy {strategy.name!r} are the string {strategy.needs!r}",
            "needs is a set of names: frozenset() for none",
        )
    unknown = set(strategy.needs) - NEEDS
    if unknown:
        raise ArgumentError(
            f"the strategy {strategy.name!r} needs {', '.join(sorted(unknown))}",
            f"a strategy may need: {', '.join(sorted(NEEDS))}",
        )
