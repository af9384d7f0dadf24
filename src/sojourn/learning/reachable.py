"""Which states still lack a sample and can still get one.

In a world that communicates every state can always be visited. Elsewhere a walk leaves states
behind for good, and whoever waits for a sample of each of them waits for ever.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sojourn.learning.strategy import Observations, Task
from sojourn.model import MDP
from sojourn.model.reachability import component_labels

Flags = NDArray[np.bool_]


def missing(task: Task, seen: Observations, walks: NDArray[np.int64]) -> Flags:
    """For each walk: whether a state that matters has no sample, and can be reached from here."""
    lacking = (seen.visits[walks] == 0) & (task.weights > 0)
    if task.mdp is not None:
        ahead = _ahead(task.mdp)
        if ahead is not None:
            label, reached = ahead
            lacking &= reached[label[seen.positions[walks]]].any(axis=1)
    found: Flags = lacking.any(axis=1)
    return found


def all_can_be_visited(task: Task) -> bool:
    """Whether every state matters, and can always be reached."""
    open_ended = task.mdp is None or _ahead(task.mdp) is None
    return open_ended and bool((task.weights > 0).all())


@lru_cache(maxsize=16)
def _ahead(mdp: MDP) -> tuple[NDArray[np.int64], Flags] | None:
    """The strong component of each state, and what each component leads to (components ×
    states); None where everything leads everywhere."""
    label, period = component_labels(mdp)
    if period.size == 1 and period[0] > 0:
        return None
    P = mdp.transitions
    source = label[np.repeat(mdp.pair_state, np.diff(P.indptr))]
    goal = label[P.indices]
    edges = np.unique(np.column_stack([source, goal])[source != goal], axis=0)
    reached = np.zeros((period.size, mdp.n_states), dtype=np.bool_)
    # A component without a cycle is passed once: its state can't be reached from itself.
    inside = period[label] > 0
    reached[label[inside], np.flatnonzero(inside)] = True
    # Edges lead to lower numbers, which are complete by then.
    for c, d in edges:
        reached[c] |= reached[d]
        reached[c, label == d] = True
    return label, reached
