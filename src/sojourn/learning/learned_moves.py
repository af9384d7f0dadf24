"""Where moves seem to lead: the model that Lookahead plans on while it learns the dynamics.

Of pair p, taken N(p) times, N(p, s') moves led to s'. Each of Lookahead's two kinds of plan is
optimistic in its own way.

*The estimate with a bonus*, for rolling plans (while a state was never visited, and on larger
worlds always):

    p̃(s') = ( N(p, s') + b·[s' = s⁺] ) / ( N(p) + b ),      b = 0.2·( t / n_pairs )^{1/3},

as if b more moves had led to s⁺, the state where the next sample is worth most: one that was
never visited while there is one, then the one with the largest v/(T(T + 1)). A pair that was never
taken leads there for certain. So a plan tries out what is unknown where that may pay, on its way
and for a reason, and states that nobody has seen are looked for. After t moves a pair was tried
t/n_pairs times on average; with b of that order exploring would never end, with a constant b a
first trial that went badly by chance is believed for ever. The third root lies in between, and
what it costs vanishes as t^{−2/3}.

*A draw from the posterior*, for fluid plans:

    p̃(s') ∝ Γ( N(p, s') ) + Γ( 1 )·[s' = s°],      s° one of all states, at random,

which is the Dirichlet posterior of a prior that weighs as much as one move, and a new one whenever
something was learned. A fluid plan shares the steps that are left among the states, and a bonus
makes it complacent: every pair seems to lead to s⁺ now and then, over thousands of steps that is
visits enough, so it doesn't go there on purpose. While states are missing it is the other way
round: the one passage that leads there would be drawn rarely.

Where the *support* is known, s⁺ is the best and s° any of the states that can follow.

A model is kept per walk and made anew when the count of some pair has grown by a tenth, or a
state was found; the rows of a walk lie in its memory one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import ArgumentError
from sojourn.learning.confidence_sets import known_support, refuse_surprises
from sojourn.learning.strategy import Decision, Observations, State, Task

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

DYNAMICS = ("known", "learned")
BONUS = 0.2
ROOT = 1.0 / 3.0
SEARCHING = 0.95
"""The discount of rolling plans while states are missing. Where these are is not known, and the
pairs that were tried least may lie far away, as upstream in RiverSwim: a walk that doesn't see so
far tries what is near again and again."""
SHARE = 0.1
"""A model is made anew when the count of some pair has grown by more than this share."""
NO_WAY_HOME = (
    "where moves lead is being learned: the way home is not kept open, a walk may end anywhere"
)
ROOM = 8
"""Successors per pair, on average, for which there is room in the memory of a walk; a model that
needs more is made at every decision."""


def check(dynamics: str, support: object, plausible: object = None) -> None:
    """Refuse dynamics that there are not, confidence sets that are none, and beliefs that nobody
    would look at."""
    if dynamics not in DYNAMICS:
        raise ArgumentError(
            f"there are no dynamics {dynamics!r}", f"use one of {', '.join(map(repr, DYNAMICS))}"
        )
    if plausible is not None and (isinstance(plausible, type) or not callable(plausible)):
        raise ArgumentError(
            f"{plausible!r} is no confidence set", "give BernsteinSet() or L1Set(), or leave it out"
        )
    if dynamics == "known" and (support is not None or plausible is not None):
        raise ArgumentError(
            "the dynamics are known, but a support or confidence sets were given",
            'learn them with dynamics="learned", or leave these out',
        )


def memory(task: Task, support: object) -> State:
    """What is kept of each walk's model; also refuses a support that doesn't fit."""
    known_support(support, task.n_pairs, task.n_states)
    room = task.n_pairs * (min(task.n_states, ROOM) + 1)
    return {
        "taken": np.full((task.walks, task.n_pairs), -1, dtype=np.int64),
        "found": np.full(task.walks, -1, dtype=np.int64),
        "row_start": np.zeros((task.walks, task.n_pairs + 1), dtype=np.int32),
        "successor": np.zeros((task.walks, room), dtype=np.int32),
        "chance": np.zeros((task.walks, room)),
    }


Rows = tuple[NDArray, NDArray, Floats]
"""Where each row begins, successors, chances."""

Decide = Callable[[Rows, Ints, Floats, Floats], tuple[Ints, Ints]]
"""From the rows of a model, one walk, its variances and its values to the length of its stretch
and the pairs of its steps."""


def decided(
    task: Task, state: State, seen: Observations, walks: Ints, variances: Floats,
    support: object, fluid: Flags, decide: Decide,
) -> Decision:  # fmt: skip
    """The next stretch of each walk, each on the model that it has learned itself; ``fluid`` says
    for which of them that plan will be a fluid one.

    A stretch also ends when a pair's count doubles: what it was planned on is not known any more.
    """
    flags = known_support(support, task.n_pairs, task.n_states)
    stretch = np.empty(walks.size, dtype=np.int64)
    steps = []
    for i, w in enumerate(walks):
        worth = _worth(task, seen, int(w), variances[i])
        rows = believed(task, state, seen, int(w), worth, flags, bool(fluid[i]))
        # Fancy indexing copies, a slice doesn't: what ``decide`` writes belongs to the walk.
        value = state["value"][w : w + 1]
        length, actions = decide(rows, walks[i : i + 1], variances[i : i + 1], value)
        stretch[i] = length[0]
        steps.append(actions[0])
    longest = max(len(rows) for rows in steps)
    table = np.stack([
        np.concatenate((rows, np.broadcast_to(rows[-1], (longest - len(rows), task.n_states))))
        for rows in steps
    ])  # fmt: skip
    counts = seen.pair_visits[walks]
    notes = [] if task.home is None else [NO_WAY_HOME]
    return Decision(
        seen.time[walks] + stretch, actions=table, pair_limit=counts + np.maximum(counts, 1),
        info={"notes": notes},
    )  # fmt: skip


def _worth(task: Task, seen: Observations, walk: int, variance: Floats) -> Floats:
    """What the next sample of each state is worth; a first one more than any other."""
    visits = seen.visits[walk]
    worth = task.weights * variance / np.maximum(visits * (visits + 1.0), 0.5)
    missing = (visits == 0) & (task.weights > 0)
    worth[missing] += 2.0 * worth.max() + 1.0
    return worth


def believed(
    task: Task, state: State, seen: Observations, walk: int, worth: Floats, support: Flags | None,
    draw: bool,
) -> Rows:  # fmt: skip
    """The rows of the model of one walk: with a bonus for where ``worth`` is largest, or drawn."""
    assert seen.transitions is not None
    taken, found = state["taken"][walk], state["found"]
    counts = seen.pair_visits[walk]
    known = int((seen.visits[walk] > 0).sum())
    start = state["row_start"][walk]
    if found[walk] != known or _grown(counts, taken, SHARE):
        weight: NDArray = seen.transitions[walk]
        if support is not None:
            refuse_surprises(weight, support)
        if draw:
            rng = seen.generators[walk]
            weight = rng.standard_gamma(weight)
            extra = rng.standard_exponential(task.n_pairs)
            target = _anywhere(rng, task, support)
        else:
            bonus = BONUS * ((seen.time[walk] + 1.0) / task.n_pairs) ** ROOT
            extra = np.full(task.n_pairs, bonus)
            target = _targets(worth, task.n_pairs, support)
        size = _row_starts(weight, target, start)
        fits = size <= state["chance"].shape[1]
        successor = state["successor"][walk] if fits else np.empty(size, dtype=np.int32)
        chance = state["chance"][walk] if fits else np.empty(size)
        _fill(weight, target, extra, start, successor, chance)
        taken[:] = counts
        found[walk] = known if fits else -1
        return start, successor, chance
    return start, state["successor"][walk], state["chance"][walk]


def _anywhere(rng: np.random.Generator, task: Task, support: Flags | None) -> Ints:
    """s° of each pair."""
    if support is None:
        return rng.integers(task.n_states, size=task.n_pairs)
    order = rng.random(support.shape)
    return np.asarray(np.argmax(np.where(support, order, -1.0), axis=1))


def _targets(worth: Floats, n_pairs: int, support: Flags | None) -> Ints:
    """s⁺ of each pair."""
    if support is None:
        return np.full(n_pairs, np.argmax(worth))
    return np.asarray(np.argmax(np.where(support, worth, -1.0), axis=1))


@njit(cache=True, nogil=True)
def _grown(counts: Ints, taken: Ints, share: float) -> bool:
    grown = False
    for p in range(counts.size):
        grown = grown or taken[p] < 0 or counts[p] > taken[p] * (1.0 + share)
    return grown


@njit(cache=True, nogil=True)
def _row_starts(weight: NDArray, target: Ints, start: NDArray) -> int:
    """Where rows begin, with room for the target; returns the size of all."""
    size = 0
    for p in range(weight.shape[0]):
        start[p] = size
        for s in range(weight.shape[1]):
            if weight[p, s] > 0 or s == target[p]:
                size += 1
    start[weight.shape[0]] = size
    return size


@njit(cache=True, nogil=True)
def _fill(
    weight: NDArray, target: Ints, extra: Floats, start: NDArray, successor: NDArray,
    chance: Floats,
) -> None:  # fmt: skip
    for p in range(weight.shape[0]):
        total = extra[p]
        for s in range(weight.shape[1]):
            total += weight[p, s]
        i = start[p]
        for s in range(weight.shape[1]):
            if weight[p, s] > 0 or s == target[p]:
                successor[i] = s
                chance[i] = (weight[p, s] + (extra[p] if s == target[p] else 0.0)) / total
                i += 1
