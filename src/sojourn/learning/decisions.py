"""Decisions, checked and followed.

Whoever walks, the compiled simulation or one live campaign, passes every decision through
:func:`checked` first: a bad one is named here, in one place, and never followed. A live walk
then asks :func:`pair_now` for the pair to take and :func:`is_over` when to ask again; the
simulation's kernel does the same for thousands of walks, with the same meaning.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import StrategyError
from sojourn.learning.strategy import Decision, Observations, Task

SUM_TOLERANCE = 1e-6
"""How far a row of probabilities may be from summing to 1; beyond, it is not a rounding."""


def checked(
    decision: Decision,
    task: Task,
    seen: Observations,
    walks: NDArray[np.int64],
    who: str,
    first: int = 0,
) -> Decision:
    """The decision with exact types and shapes, or a :class:`StrategyError` naming the fault.

    ``until`` is cut to the end of the budget, and of the actions where these are given.
    ``first`` is the number by which messages call walk 0.
    """
    if not isinstance(decision, Decision):
        raise StrategyError(
            f"{who} returned {type(decision).__name__} from plan", "plan returns a Decision"
        )
    _check_info(decision.info, who)
    k = walks.size
    now = seen.time[walks]
    until = _array(decision.until, (k,), np.int64, "until", who)
    # A decision that ends now would be asked for again for ever.
    past = until <= now
    if past.any():
        i = int(np.flatnonzero(past)[0])
        raise StrategyError(
            f"{who} decided at time {now[i]} until time {until[i]} (walk {first + walks[i]})",
            "until is the absolute time of the next question and lies after the present",
        )
    if task.budget is not None:
        until = np.minimum(until, task.budget)
    if (decision.policy is None) == (decision.actions is None):
        raise StrategyError(
            f"{who} returned {'neither' if decision.policy is None else 'both'} "
            "a policy and actions",
            "a decision has exactly one of policy= and actions=",
        )
    policy, actions = None, None
    if decision.policy is not None:
        policy = _array(decision.policy, (k, task.n_pairs), np.float64, "policy", who)
        # A policy that all walks share is checked once.
        rows = policy[:1] if policy.strides[0] == 0 else policy
        i, s = _bad_distribution(rows, task.pair_start, SUM_TOLERANCE)
        if i >= 0:
            raise _not_a_distribution(rows[i], s, first + int(walks[i]), int(now[i]), task, who)
    if decision.actions is not None:
        given = np.asarray(decision.actions)
        if given.ndim != 3 or given.shape[1] == 0:
            raise StrategyError(
                f"{who} returned actions of shape {given.shape}, expected ({k}, L, "
                f"{task.n_states}) with L >= 1",
                "a row per walk asked about, a row per step, and the pair to take in every state",
            )
        actions = _array(given, (k, given.shape[1], task.n_states), np.int64, "actions", who)
        rows3 = actions[:1] if actions.strides[0] == 0 else actions
        i, step, s = _unavailable(rows3, task.pair_start)
        if i >= 0:
            lo, hi = task.pair_start[s : s + 2]
            raise StrategyError(
                f"{who} chose pair {rows3[i, step, s]} in {_state(task, s)} at step {step} of "
                f"its stretch (walk {first + walks[i]}, time {now[i]}); the pairs of this state "
                f"are {lo} to {hi - 1}",
                "actions hold pairs: mdp.pair_start[s] + the action's position",
            )
        until = np.minimum(until, now + actions.shape[1])
    visited = limit = None
    if decision.until_all_visited is not None:
        visited = _array(decision.until_all_visited, (k,), np.bool_, "until_all_visited", who)
    if decision.pair_limit is not None:
        limit = _array(decision.pair_limit, (k, task.n_pairs), np.int64, "pair_limit", who)
    return Decision(until, policy, actions, visited, limit, decision.info)


def pair_now(
    task: Task, decision: Decision, row: int, state: int, step: int, rng: np.random.Generator
) -> int:
    """The pair that a live walk takes in ``state``, ``step`` moves after the decision."""
    if decision.actions is not None:
        return int(decision.actions[row, step, state])
    assert decision.policy is not None
    lo, hi = (int(x) for x in task.pair_start[state : state + 2])
    share = np.asarray(decision.policy[row, lo:hi], dtype=float)
    return lo + int(rng.choice(hi - lo, p=share / share.sum()))


def is_over(decision: Decision, row: int, seen: Observations, walk: int, last_pair: int) -> bool:
    """Whether the strategy is to be asked again, just after ``last_pair`` was taken."""
    if seen.time[walk] >= decision.until[row]:
        return True
    visited = decision.until_all_visited
    if visited is not None and visited[row] and seen.visits[walk].min() > 0:
        return True
    limit = decision.pair_limit
    return limit is not None and bool(seen.pair_visits[walk, last_pair] >= limit[row, last_pair])


def shorten(decision: Decision, rows: NDArray[np.int64]) -> Decision:
    """The decision of some of its walks."""

    def take(array: NDArray | None) -> NDArray | None:
        return None if array is None else array[rows]

    return dataclasses.replace(
        decision,
        until=decision.until[rows],
        policy=take(decision.policy),
        actions=take(decision.actions),
        until_all_visited=take(decision.until_all_visited),
        pair_limit=take(decision.pair_limit),
    )


def _check_info(info: object, who: str) -> None:
    if not isinstance(info, dict):
        raise StrategyError(
            f"{who} returned info of type {type(info).__name__}", "info is a dict, {} by default"
        )
    # A string is a sequence too: of notes of one letter.
    notes = info.get("notes", ())
    if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
        raise StrategyError(
            f"{who} returned the notes {notes!r}", "info['notes'] is a list of sentences"
        )


def _array(values: object, shape: tuple[int, ...], kind: type, name: str, who: str) -> NDArray:
    array = np.asarray(values)
    if array.shape != shape:
        raise StrategyError(
            f"{who} returned {name} of shape {array.shape}, expected {shape}",
            "a decision has one row for each of the walks that asked",
        )
    # A float where an integer is meant would be cut silently; NaN would become anything.
    wanted = {np.int64: "iu", np.bool_: "b", np.float64: "fiu"}[kind]
    if array.dtype.kind not in wanted:
        raise StrategyError(
            f"{who} returned {name} of type {array.dtype}, expected {np.dtype(kind).name}",
            f"convert them: {name}.astype(np.{np.dtype(kind).name})",
        )
    return array.astype(kind, copy=False)


def _state(task: Task, s: int) -> str:
    return f"state {s}" if task.mdp is None else f"state {task.mdp.state_labels[s]!r}"


def _not_a_distribution(
    policy: NDArray, s: int, walk: int, now: int, task: Task, who: str
) -> StrategyError:
    lo, hi = task.pair_start[s : s + 2]
    share = policy[lo:hi]
    where = f"in {_state(task, s)} (walk {walk}, time {now})"
    if np.isnan(share).any():
        return StrategyError(
            f"{who} returned a policy that is not a number {where}",
            "0/0 where no action has any weight? a policy sums to 1 in every state",
        )
    if (share < 0).any():
        return StrategyError(
            f"{who} returned the probability {share.min():.3g} {where}",
            "probabilities are at least 0: clip a solver's rounding and renormalise",
        )
    return StrategyError(
        f"{who} returned probabilities that sum to {share.sum():.9g} {where}",
        "a policy sums to 1 over the actions of every state",
    )


@njit(cache=True, nogil=True)
def _bad_distribution(
    policy: NDArray, pair_start: NDArray[np.int64], tolerance: float
) -> tuple[int, int]:
    """The first (row, state) whose probabilities are negative, NaN or don't sum to 1."""
    for i in range(policy.shape[0]):
        for s in range(pair_start.size - 1):
            total = 0.0
            good = True
            for p in range(pair_start[s], pair_start[s + 1]):
                total += policy[i, p]
                good = good and policy[i, p] >= 0.0
            if not (good and abs(total - 1.0) <= tolerance):
                return i, s
    return -1, -1


@njit(cache=True, nogil=True)
def _unavailable(actions: NDArray[np.int64], pair_start: NDArray[np.int64]) -> tuple[int, int, int]:
    """The first (row, step, state) where the pair is not one of the state's."""
    for i in range(actions.shape[0]):
        for step in range(actions.shape[1]):
            for s in range(actions.shape[2]):
                if not pair_start[s] <= actions[i, step, s] < pair_start[s + 1]:
                    return i, step, s
    return -1, -1, -1
