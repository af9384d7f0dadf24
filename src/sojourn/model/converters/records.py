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
from numpy.typing import ArrayLike

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
    rows = list(records)
    if not rows:
        raise ModelError("there are no transitions", "give at least one state with one action")
    try:
        state, action, successor, chance = zip(*rows, strict=True)
        states = dict.fromkeys(state)
        pairs = dict.fromkeys(zip(state, action))
        targets = dict.fromkeys(successor)
        probability = np.array(chance, dtype=float)
    except (TypeError, ValueError):
        raise _first_bad_record(rows) from None
    if unknown := targets.keys() - states.keys():
        k = next(k for k, label in enumerate(successor) if label in unknown)
        raise ModelError(
            f"record {k + 1} leads from state {state[k]!r}, action {action[k]!r}, to "
            f"{successor[k]!r}, a state without actions"
            + (f" (and so do {len(unknown) - 1} more)" if len(unknown) > 1 else ""),
            f"is {successor[k]!r} spelled as elsewhere? If the walk ends there, give it an action "
            "that stays",
        )
    number = {label: s for s, label in enumerate(states)}
    # Python's sort is stable, so the actions of a state keep the order of their first record.
    ordered = sorted(pairs, key=lambda pair: number[pair[0]])
    pair_number = {pair: p for p, pair in enumerate(ordered)}
    row = np.fromiter((pair_number[pair] for pair in zip(state, action)), np.int64, len(rows))
    column = np.fromiter((number[label] for label in successor), np.int64, len(rows))
    _refuse_repeats(rows, row, column, len(number))
    counts = np.bincount([number[label] for label, _ in ordered], minlength=len(number))
    return MDP(
        sp.coo_matrix((probability, (row, column)), shape=(len(ordered), len(number))),
        np.concatenate(([0], np.cumsum(counts))),
        state_labels=list(number),
        action_labels=[label for _, label in ordered],
        coordinates=coordinates,
        initial=initial,
    )


def _refuse_repeats(rows: list[Any], row: Any, column: Any, n_states: int) -> None:
    key = row * n_states + column
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
            float(p)
        except (TypeError, ValueError):
            return ModelError(f"record {k + 1} is {record!r}", hint)
    return ModelError("the records are not readable", hint)
