"""What can be reached, and where a walk can be kept: strong components, end components.

Only the *support* of the transitions matters here: which successors are possible, not how
probable they are.

    strong component   a maximal set of states each of which can be reached from each other
    end component      states with a non-empty choice of pairs that never leads out of them,
                       and with which each of them can be reached from each other: where a walk
                       can stay for ever, and still visit everything
    maximal            not contained in a larger one; maximal end components are disjoint
    closable           a set of states that some policy never leaves: each has a pair whose
                       successors all lie in the set

With probability 1 a walk ends up in one end component, whatever decides its actions. Hence the
states that one walk can visit again and again without end are those of one maximal end
component, no more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.chains.graph import groups, search, strong_labels
from sojourn.model.mdp import MDP


class EndComponent(NamedTuple):
    """A maximal end component: its states, and the pairs that never lead out of them."""

    states: NDArray[np.int64]
    pairs: NDArray[np.int64]


def strong_components(mdp: MDP) -> list[NDArray[np.int64]]:
    """The strong components; a state of one leads only to states of the same or earlier ones."""
    label, period = component_labels(mdp)
    return groups(label, period.size)


def component_labels(
    mdp: MDP, pairs: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each state's strong component, and the period of each component, when only
    the given ``pairs`` (a mask) are used."""
    P = mdp.transitions
    usable = None if pairs is None else np.repeat(pairs, np.diff(P.indptr))
    return strong_labels(P.indptr[mdp.pair_start], P.indices, usable)


def closed_components(
    mdp: MDP, label: NDArray[np.int64], pairs: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """The numbers of the components that no usable pair leaves."""
    P = mdp.transitions
    source = label[np.repeat(mdp.pair_state, np.diff(P.indptr))]
    leaves = source != label[P.indices]
    if pairs is not None:
        leaves &= np.repeat(pairs, np.diff(P.indptr))
    closed = np.ones(int(label.max()) + 1, dtype=bool)
    closed[source[leaves]] = False
    return np.flatnonzero(closed)


def maximal_end_components(mdp: MDP) -> list[EndComponent]:
    """The maximal end components, ordered by their first state.

    Take away pairs that may leave their strong component, and states that have no pair left;
    look again at the components that lost something, until none did.
    """
    label, alive = end_component_labels(mdp)
    count = int(label.max()) + 1
    pair_label = np.where(alive, mdp.to_pairs(label), -1)
    return [EndComponent(s, p) for s, p in zip(groups(label, count), groups(pair_label, count))]


def end_component_labels(mdp: MDP) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The number of each state's maximal end component (−1 in none), and the pairs inside."""
    alive = np.ones(mdp.n_pairs, dtype=bool)
    root = np.full(mdp.n_states, -1)
    P = mdp.transitions
    _end_components(P.indptr, P.indices, *_links(mdp), alive, root)
    roots, first = np.unique(root, return_index=True)
    kept = roots >= 0
    number = np.full(mdp.n_states + 1, -1)
    number[roots[kept][np.argsort(first[kept])]] = np.arange(int(kept.sum()))
    return number[root], alive


def largest_closable(mdp: MDP, within: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The largest closable set inside ``within`` (both masks), possibly empty.

    From all other states, *every* policy leads out of ``within`` with a positive chance.
    """
    gone = ~within
    _discard(*_links(mdp), gone, np.ones(mdp.n_pairs, dtype=bool), np.diff(mdp.pair_start))
    return ~gone


def first_avoidable(mdp: MDP) -> tuple[int, NDArray[np.bool_]] | None:
    """A state that some policy never visits, and a closable set without it; None if every
    policy visits every state from everywhere (is irreducible).

    A state is unavoidable when the largest closable set without it is empty. Once some are
    known, the next one is settled as soon as every policy leads from a known one to it, which
    a breadth-first order of the states makes likely after a few steps.
    """
    P = mdp.transitions
    state, closable = _first_avoidable(P.indptr[mdp.pair_start], P.indices, *_links(mdp))
    return None if state < 0 else (int(state), closable)


def pairs_towards(mdp: MDP, target: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each state outside ``target`` (a mask) a pair that leads there; −1 where none does.

    Where some policy reaches the target with probability 1, so does this one: it uses only
    pairs that never lead to a state from which the target might be missed. Elsewhere it keeps a
    positive chance. Among the pairs that may bring the walk closer (in the number of moves) the
    one with the largest chance of doing so is taken.
    """
    P = mdp.transitions
    chosen = np.full(mdp.n_states, -1)
    _towards(P.indptr, P.indices, P.data, *_links(mdp), target, chosen)
    return chosen


def _links(mdp: MDP) -> tuple[NDArray[Any], ...]:
    """Pairs by state, and the pairs that may lead to each state."""
    back = mdp.transitions.tocsc()
    return mdp.pair_start, mdp.pair_state, back.indptr, back.indices


@njit(cache=True, nogil=True)
def _discard(  # type: ignore[no-untyped-def]
    pair_start, pair_state, back_start, back_pair, gone, alive, left
):
    """Take away all pairs that may lead to a state that is ``gone``; a state without a pair
    ``left`` is gone too."""
    stack = np.empty(gone.size, np.int64)
    n_stack = 0
    for s in range(gone.size):
        if gone[s]:
            stack[n_stack] = s
            n_stack += 1
    while n_stack:
        n_stack -= 1
        t = stack[n_stack]
        for k in range(back_start[t], back_start[t + 1]):
            pair = back_pair[k]
            if alive[pair]:
                alive[pair] = False
                s = pair_state[pair]
                left[s] -= 1
                if left[s] == 0 and not gone[s]:
                    gone[s] = True
                    stack[n_stack] = s
                    n_stack += 1


@njit(cache=True, nogil=True)
def _end_components(  # type: ignore[no-untyped-def]
    indptr, target, pair_start, pair_state, back_start, back_pair, alive, label
):
    """``label`` becomes the component's root, −1 outside all; ``alive`` the pairs that stay."""
    n = label.size
    first = indptr[pair_start]
    usable = np.ones(target.size, np.bool_)
    left = pair_start[1:] - pair_start[:-1]
    lost = np.empty(n, np.bool_)
    depth = np.empty(n, np.int64)
    dead = np.empty(n, np.int64)
    nodes = np.arange(n)
    while nodes.size:
        label[nodes] = -1
        lost[nodes] = False
        search(first, target, usable, nodes, label, depth)
        n_dead = 0
        for s in nodes:
            for pair in range(pair_start[s], pair_start[s + 1]):
                if not alive[pair]:
                    continue
                for k in range(indptr[pair], indptr[pair + 1]):
                    if label[target[k]] != label[s]:
                        alive[pair] = False
                        break
                if not alive[pair]:
                    usable[indptr[pair] : indptr[pair + 1]] = False
                    lost[label[s]] = True
                    left[s] -= 1
            if left[s] == 0:
                dead[n_dead] = s
                n_dead += 1
        while n_dead:
            n_dead -= 1
            gone = dead[n_dead]
            for k in range(back_start[gone], back_start[gone + 1]):
                pair = back_pair[k]
                if alive[pair]:
                    s = pair_state[pair]
                    alive[pair] = False
                    usable[indptr[pair] : indptr[pair + 1]] = False
                    lost[label[s]] = True
                    left[s] -= 1
                    if left[s] == 0:
                        dead[n_dead] = s
                        n_dead += 1
        again = 0
        for s in nodes:
            if lost[label[s]] and left[s] > 0:
                nodes[again] = s
                again += 1
        nodes = nodes[:again].copy()
    for s in range(n):
        if left[s] == 0:
            label[s] = -1


@njit(cache=True, nogil=True)
def _first_avoidable(  # type: ignore[no-untyped-def]
    first, target, pair_start, pair_state, back_start, back_pair
):
    n = pair_start.size - 1
    order = np.empty(n, np.int64)
    listed = np.zeros(n, np.bool_)
    end = begin = 0
    for root in range(n):
        if not listed[root]:
            listed[root] = True
            order[end] = root
            end += 1
        while begin < end:
            for k in range(first[order[begin]], first[order[begin] + 1]):
                if not listed[target[k]]:
                    listed[target[k]] = True
                    order[end] = target[k]
                    end += 1
            begin += 1
    # "Marked with s" instead of flags that would have to be cleared for every s.
    drawn = np.full(n, -1)
    counted = np.full(n, -1)
    taken = np.full(pair_state.size, -1)
    left = np.empty(n, np.int64)
    queue = np.empty(n, np.int64)
    unavoidable = np.zeros(n, np.bool_)
    for s in order:
        drawn[s] = s
        queue[0] = s
        begin, end = 0, 1
        while begin < end and not unavoidable[s]:
            t = queue[begin]
            begin += 1
            for k in range(back_start[t], back_start[t + 1]):
                pair = back_pair[k]
                u = pair_state[pair]
                if taken[pair] == s or drawn[u] == s:
                    continue
                taken[pair] = s
                if counted[u] != s:
                    counted[u] = s
                    left[u] = pair_start[u + 1] - pair_start[u]
                left[u] -= 1
                if left[u] == 0:
                    drawn[u] = s
                    queue[end] = u
                    end += 1
                    if unavoidable[u]:
                        unavoidable[s] = True
                        break
        if end == n:
            unavoidable[s] = True
        if not unavoidable[s]:
            return s, drawn != s
    return -1, np.zeros(n, np.bool_)


@njit(cache=True, nogil=True)
def _towards(  # type: ignore[no-untyped-def]
    indptr, target, data, pair_start, pair_state, back_start, back_pair, goal, chosen
):
    n = goal.size
    alive = np.ones(pair_state.size, np.bool_)
    left = pair_start[1:] - pair_start[:-1]
    gone = np.zeros(n, np.bool_)
    for s in range(n):
        if goal[s]:
            # The walk is over there: what it might do next must not count against it.
            left[s] = pair_state.size
    while True:
        distance = _distances(pair_state, back_start, back_pair, alive, goal)
        fresh = False
        for s in range(n):
            if distance[s] < 0 and not gone[s]:
                gone[s] = fresh = True
        if not fresh:
            break
        _discard(pair_start, pair_state, back_start, back_pair, gone, alive, left)
    _choose(indptr, target, data, pair_start, alive, distance, chosen)
    # The rest can't be sure to arrive: any pair that may lead to a better place will do.
    sure = distance >= 0
    alive[:] = True
    distance = _distances(pair_state, back_start, back_pair, alive, sure)
    _choose(indptr, target, data, pair_start, alive, distance, chosen)


@njit(cache=True, nogil=True)
def _distances(pair_state, back_start, back_pair, alive, goal):  # type: ignore[no-untyped-def]
    """The least number of moves to the goal, with luck; −1 where there is no way."""
    n = goal.size
    distance = np.full(n, -1)
    queue = np.empty(n, np.int64)
    end = begin = 0
    for s in range(n):
        if goal[s]:
            distance[s] = 0
            queue[end] = s
            end += 1
    while begin < end:
        t = queue[begin]
        begin += 1
        for k in range(back_start[t], back_start[t + 1]):
            s = pair_state[back_pair[k]]
            if alive[back_pair[k]] and distance[s] < 0:
                distance[s] = distance[t] + 1
                queue[end] = s
                end += 1
    return distance


@njit(cache=True, nogil=True)
def _choose(indptr, target, data, pair_start, alive, distance, chosen):  # type: ignore[no-untyped-def]
    for s in range(distance.size):
        if distance[s] <= 0:
            continue
        best = 0.0
        for pair in range(pair_start[s], pair_start[s + 1]):
            closer = 0.0
            for k in range(indptr[pair], indptr[pair + 1]):
                if 0 <= distance[target[k]] < distance[s]:
                    closer += data[k]
            if alive[pair] and closer > best:
                best = closer
                chosen[s] = pair
