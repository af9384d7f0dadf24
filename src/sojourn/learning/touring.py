"""The first samples on a map: a short path through every site that has none.

Going to the nearest site without a sample, again and again, leaves single sites behind; on maps a
path that is planned as a whole (:mod:`sojourn.learning.tours`) takes up to a quarter fewer steps.
It is drawn once, at the first question, and followed with what happened on the way left out. It
serves where it can be kept to: where moves that fail lead so far off that it would take
:data:`WINDING` times as many steps as there are sites, other sites are seen on the way often
enough to do better without, and where the budget doesn't suffice for it and sites differ in
weight, it would treat them alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.learning.reachable import all_can_be_visited
from sojourn.learning.strategy import Observations, State, Task
from sojourn.learning.tours import Ways, path_through, ways
from sojourn.model import MDP

LARGEST = 1500
"""States; distances between all pairs of states are kept."""
WINDING = 1.6

DONE = -1
"""In the place of a walk's next site: it keeps, or kept, to no path."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def memory(task: Task) -> State:
    """The path of every walk, and its place on it; nothing where no path is ever drawn."""
    if task.mdp is None or task.n_states > LARGEST or task.walkers > 1:
        return {}
    if not all_can_be_visited(task):
        return {}
    return {
        "path": np.tile(np.arange(task.n_states), (task.walks, 1)),
        "on_path": np.zeros(task.walks, dtype=np.int64),
    }


def next_pairs(task: Task, state: State, seen: Observations, walks: Ints) -> Ints:
    """For each walk the pair to take from where it is; −1 where it keeps to no path."""
    pairs = np.full(walks.size, DONE)
    if "path" not in state:
        return pairs
    assert task.mdp is not None
    known: Ways | None = None
    for i in np.flatnonzero(state["on_path"][walks] != DONE):
        w = int(walks[i])
        visits, here = seen.visits[w], int(seen.state[w])
        if known is None:
            known = ways(task.mdp)
        if seen.time[w] == 0:
            _draw(task, state, known, visits, here, w)
        path, k = state["path"][w], int(state["on_path"][w])
        while 0 <= k < path.size and visits[path[k]] > 0:
            k += 1
        state["on_path"][w] = k if k < path.size else DONE
        if 0 <= k < path.size:
            pairs[i] = _towards(task.mdp, known, int(path[k]), here)
    return pairs


def _draw(task: Task, state: State, known: Ways, visits: Ints, here: int, walk: int) -> None:
    """Lay the path of one walk, or decide that it keeps to none."""
    assert task.mdp is not None
    sites = np.flatnonzero(visits == 0)
    if not sites.size:
        state["on_path"][walk] = DONE
        return
    first = known.distance[here, sites].copy()
    first[sites == here] = 1.0 + _away_and_back(task.mdp, known, here).min()
    order, length = path_through(known.distance[np.ix_(sites, sites)], first)
    alike = np.ptp(task.weights) <= 0.5 * task.weights.max()
    enough = task.budget is None or length <= task.budget
    path = sites[order]
    winding = first[order[0]] + _after_a_move(task.mdp, known, path[:-1], path[1:]).sum()
    keep = winding <= WINDING * sites.size and (alike or enough)
    state["path"][walk, : sites.size] = path
    state["on_path"][walk] = 0 if keep else DONE


def _after_a_move(mdp: MDP, known: Ways, here: Ints, there: Ints) -> Floats:
    """How far it is, looking one move ahead: where a move that fails may lead to counts."""
    moves = mdp.transitions[known.towards[there, here]]
    row = np.repeat(np.arange(here.size), np.diff(moves.indptr))
    apart = np.where(moves.indices == there[row], 0.0, known.distance[moves.indices, there[row]])
    return np.asarray(1.0 + np.bincount(row, moves.data * apart, here.size), dtype=np.float64)


def _towards(mdp: MDP, known: Ways, target: int, here: int) -> int:
    """The pair to take in order to get to ``target``."""
    if target != here:
        return int(known.towards[target, here])
    return int(mdp.pair_start[here] + _away_and_back(mdp, known, here).argmin())


def _away_and_back(mdp: MDP, known: Ways, here: int) -> Floats:
    """For each pair of a state, how far one is from it after one move; 0 for staying."""
    back = np.where(np.arange(mdp.n_states) == here, 0.0, known.distance[:, here])
    after: Floats = mdp.transitions[list(mdp.pairs_of(here))] @ back
    return after
