"""By how much prices drop at least in one move: what every bound by duality starts from."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.model import MDP

EPS = float(np.finfo(float).eps)


def margins(
    mdp: MDP,
    prices: ArrayLike,
    pairs: NDArray[np.bool_] | None = None,
    low: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """A proved lower bound of m_s = h_s − max_a (Ph)_sa, over the allowed ``pairs`` only.

    ``low`` are further digits of the prices (h is their sum). States without an allowed pair get
    +∞: no allowed occupancy visits them.
    """
    h = np.asarray(prices, dtype=float)
    rest = np.zeros_like(h) if low is None else np.asarray(low, dtype=float)
    allowed = np.ones(mdp.n_pairs, dtype=bool) if pairs is None else pairs
    out = np.empty(mdp.n_states)
    P = mdp.transitions
    _margins(mdp.pair_start, P.indptr, P.indices, P.data, allowed, h, rest, out)
    return out


@njit(cache=True, nogil=True)
def _margins(pair_start, indptr, indices, data, allowed, h, low, out):  # type: ignore[no-untyped-def]
    for s in range(out.size):
        least = np.inf
        for p in range(pair_start[s], pair_start[s + 1]):
            if not allowed[p]:
                continue
            total = 0.0
            size = 0.0
            for k in range(indptr[p], indptr[p + 1]):
                j = indices[k]
                t = data[k] * ((h[s] - h[j]) + (low[s] - low[j]))
                total += t
                size += abs(t)
            sure = total - (indptr[p + 1] - indptr[p] + 4) * EPS * size
            # A NaN would be lost in a minimum, and the state taken for one that no pair is of.
            least = min(least, sure) if sure == sure else -np.inf
        out[s] = least
