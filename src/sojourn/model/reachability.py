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
    label, _ = component_labels(mdp)
    return groups(label, int(label.max()) + 1)


def component_labels(mdp: MDP) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each state's strong component, and the period of each component."""
    return strong_labels(_first_transition(mdp), mdp.transitions.indices)


def maximal_end_components(mdp: MDP) -> list[EndComponent]:
    """The maximal end components, ordered by their first state.

    Take away pairs that may leave their strong component, and states that have no pair left;
    look again at the components that lost something, until none did.
    """
    P = mdp.transitions
    alive = np.ones(mdp.n_pairs, dtype=bool)
    label = np.full(mdp.n_states, -1)
    back = P.tocsc()
    _end_components(
        mdp.pair_start, mdp.pair_state, P.indptr, P.indices, back.indptr, back.indices,
        alive, label,
    )  # fmt: skip
    roots, first = np.unique(label, return_index=True)
    kept = roots >= 0
    number = np.full(mdp.n_states + 1, -1)
    number[roots[kept][np.argsort(first[kept])]] = np.arange(int(kept.sum()))
    label = number[label]
    pair_label = np.where(alive, mdp.to_pairs(label), -1)
    count = int(kept.sum())
    return [EndComponent(s, p) for s, p in zip(groups(label, count), groups(pair_label, count))]


def _first_transition(mdp: MDP) -> NDArray[Any]:
    """The transitions of state s are first[s] : first[s + 1], whatever the action."""
    return mdp.transitions.indptr[mdp.pair_start]


@njit(cache=True, nogil=True)
def _end_components(  # type: ignore[no-untyped-def]
    pair_start, pair_state, indptr, target, back_start, back_pair, alive, label
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
