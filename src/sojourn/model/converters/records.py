"""Models from records (state, action, next_state, probability).

States and actions get their indices in the order in which they first act: the states in the
order of the first column, the actions of each state in the order of the second. Records may
come in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import real
from sojourn.errors import ModelError
from sojourn.model.mdp import MDP

Record = tuple[Hashable, Hashable, Hashable, float]


def from_transitions(
    records: Iterable[Record],
    *,
    coordinates: ArrayLike | None = None,
    initial: ArrayLike | None = None,
) -> MDP:
    """An :class:`MDP` from records; ``coordinates`` and ``initial`` by state index.

    A (state, action, next_state) that is listed twice is refused: added up, a mistyped line
    would go unnoticed wherever the sum still is a probability.
    """
    try:
        rows: list[Any] = list(records)
    except TypeError:
        raise ModelError(
            f"{type(records).__name__} is not a list of records",
            "a record is (state, action, next_state, probability)",
        ) from None
    if not rows:
        raise ModelError("there are no transitions", "give at least one state with one action")
    try:
        states, actions, successors, chances = zip(*rows, strict=True)
        state_number = {label: s for s, label in enumerate(dict.fromkeys(states))}
        action_number = {label: a for a, label in enumerate(dict.fromkeys(actions))}
        state = _numbers(states, state_number)
        action = _numbers(actions, action_number)
        successor = _numbers(successors, state_number)
        probability = real(chances)
        if probability.ndim != 1:
            raise TypeError
    except (TypeError, ValueError):
        raise _first_bad_record(rows) from None
    if (successor < 0).any():
        k = int(np.flatnonzero(successor < 0)[0])
        others = len({successors[j] for j in np.flatnonzero(successor < 0).tolist()}) - 1
        raise ModelError(
            f"record {k + 1} leads from state {states[k]!r}, action {actions[k]!r}, to "
            f"{successors[k]!r}, a state without actions"
            + (f" (and others lead to {others} more)" if others else ""),
            f"is {successors[k]!r} spelled as elsewhere? If the walk ends there, give it an "
            "action that stays",
        )
    # Pairs are ordered by state, and within a state by their first record.
    key, first, found = np.unique(
        state * len(action_number) + action, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, state[first]))
    pair = np.empty(key.size, dtype=np.int64)
    pair[order] = np.arange(key.size)
    row = pair[found]
    _refuse_repeats(rows, row * len(state_number) + successor)
    counts = np.bincount(state[first], minlength=len(state_number))
    return MDP(
        sp.coo_matrix((probability, (row, successor)), shape=(key.size, len(state_number))),
        np.concatenate(([0], np.cumsum(counts))),
        state_labels=list(state_number),
        action_labels=[actions[k] for k in first[order].tolist()],
        coordinates=coordinates,
        initial=initial,
    )


def _numbers(labels: tuple[Hashable, ...], number: dict[Hashable, int]) -> NDArray[np.int64]:
    """The number of each label, -1 for an unknown one."""
    return np.fromiter((number.get(label, -1) for label in labels), np.int64, len(labels))


def _refuse_repeats(rows: list[Any], key: NDArray[np.int64]) -> None:
    order = np.argsort(key, kind="stable")
    same = np.flatnonzero(key[order][1:] == key[order][:-1])
    if same.size:
        first, second = (int(order[same[0] + k]) for k in (0, 1))
        s, a, t, _ = rows[first]
        raise ModelError(
            f"records {first + 1} and {second + 1} both say how probable it is that state {s!r}, "
            f"action {a!r} leads to {t!r}",
            "keep one of them, or add their probabilities up if both are meant",
        )


def _first_bad_record(rows: list[Any]) -> ModelError:
    hint = "a record is (state, action, next_state, probability)"
    for k, record in enumerate(rows):
        try:
            s, a, t, p = record
            hash((s, a, t))
            if real(p).ndim:
                raise TypeError
        except (TypeError, ValueError):
            return ModelError(f"record {k + 1} is {record!r}", hint)
    return ModelError("the records are not readable", hint)
