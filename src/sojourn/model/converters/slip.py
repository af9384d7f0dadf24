"""Moves that fail: with probability ``slip`` another action of the state happens instead."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import real
from sojourn.errors import ArgumentError


def checked_slip(slip: ArrayLike, n_states: int) -> NDArray[np.float64]:
    """``slip``, one for all or one per state, as probabilities, or a named error."""
    try:
        # True would be a certain slip.
        if np.asarray(slip).dtype.kind == "b":
            raise TypeError
        value = np.broadcast_to(real(slip), (n_states,))
    except (TypeError, ValueError):
        value = np.full(n_states, np.nan)
    if not ((value >= 0) & (value <= 1)).all():
        raise ArgumentError(
            f"slip is {slip!r}",
            "slip is a probability, between 0 and 1: one for all, or one for each state",
        )
    return value


def with_slip(moves: sp.csr_matrix, pair_start: NDArray, slip: NDArray) -> sp.csr_matrix:
    """Mix the rows of each state: 1 − slip of its own, slip/(k − 1) of each of the others.

    k is the state's number of actions; a single action has nothing to slip to and stays sure.
    """
    if not slip.any():
        return moves
    count = np.diff(pair_start)
    siblings = np.repeat(count, count)
    pairs = siblings.size
    # Row p of the mixing matrix lists all pairs of p's state, the first of them is first[p].
    indptr = np.concatenate(([0], np.cumsum(siblings)))
    first = np.repeat(pair_start[:-1], count)
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - first, siblings)
    here = np.repeat(slip, count)
    data = np.repeat(here / np.maximum(siblings - 1, 1), siblings)
    data[indptr[:-1] + np.arange(pairs) - first] = np.where(siblings == 1, 1.0, 1.0 - here)
    mixing = sp.csr_matrix((data, indices, indptr), shape=(pairs, pairs))
    return mixing @ moves
