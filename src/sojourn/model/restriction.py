"""A model on a part of its states."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import start_distribution
from sojourn.chains.graph import reach
from sojourn.errors import ArgumentError, ModelError
from sojourn.model.mdp import MDP


def restricted(mdp: MDP, states: ArrayLike) -> MDP:
    """The model on ``states``, with the pairs whose successors all lie among them.

    A pair that may lead out can't be kept: its row would not sum to 1, and renormalising it
    would describe another world.
    """
    kept = _mask(mdp, states)
    if kept.all():
        return mdp
    stays = np.asarray(mdp.transitions @ (~kept).astype(float)).ravel() == 0
    alive = stays & mdp.to_pairs(kept)
    count = mdp.state_sums(alive.astype(np.int64))
    stuck = kept & (count == 0)
    if stuck.any():
        s = int(np.flatnonzero(stuck)[0])
        raise ModelError(
            f"every action of state {mdp.state_labels[s]!r} may lead out of the states to keep",
            "keep a set of states in which a walk can stay, such as an end component",
        )
    pairs, where = np.flatnonzero(alive), np.flatnonzero(kept)
    initial = None if mdp.initial is None else mdp.initial[kept]
    # Part of a distribution is none: an initial state that is left out can't be started in.
    if initial is not None and not np.isclose(initial.sum(), 1.0):
        initial = None
    return MDP(
        mdp.transitions[pairs][:, where],
        np.concatenate(([0], np.cumsum(count[kept]))),
        state_labels=[mdp.state_labels[s] for s in where.tolist()],
        action_labels=[mdp.action_label(p) for p in pairs.tolist()],
        coordinates=None if mdp.coordinates is None else mdp.coordinates[kept],
        initial=initial,
    )


def reachable_from(mdp: MDP, start: int | ArrayLike | None = None) -> NDArray[np.int64]:
    """The states (in order) that some walk from ``start`` reaches, ``start`` included."""
    if start is None:
        if mdp.initial is None:
            raise ArgumentError(
                "the model knows no initial distribution", "say where the walk starts"
            )
        roots = np.flatnonzero(mdp.initial)
    else:
        roots = np.flatnonzero(start_distribution(start, mdp.n_states))
    first = mdp.transitions.indptr[mdp.pair_start]
    nowhere = np.zeros(mdp.n_states, dtype=bool)
    return np.flatnonzero(reach(first, mdp.transitions.indices, roots, nowhere))


def _mask(mdp: MDP, states: ArrayLike) -> NDArray[np.bool_]:
    hint = f"give indices between 0 and {mdp.n_states - 1}, or {mdp.n_states} booleans"
    try:
        given = np.asarray(states)
    except ValueError:  # rows of different lengths
        given = np.empty(0)
    if given.dtype == bool and given.shape == (mdp.n_states,):
        return given
    if given.ndim != 1 or given.dtype.kind not in "iu" or given.size == 0:
        raise ArgumentError("the states to keep are neither indices nor a mask", hint)
    if given.min() < 0 or given.max() >= mdp.n_states:
        wrong = given.min() if given.min() < 0 else given.max()
        raise ArgumentError(f"there is no state {wrong}", hint)
    mask = np.zeros(mdp.n_states, dtype=bool)
    mask[given] = True
    return mask
