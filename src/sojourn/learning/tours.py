"""Short ways through many sites.

The way from site to site is the shortest path when one move from s to s' costs 1/max_a p(s'|s,a),
the expected number of tries if failing leaves the device in place. A *round trip* visits all
sites and comes back; a *path* starts where the device is and ends anywhere. Both begin as
nearest-neighbour tours and are shortened until nothing helps any more: by moving single sites
and short runs of sites to better places (or-opt), and by walking a part of the tour the other
way round (2-opt, with the distances of the other direction).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from sojourn.model import MDP

LONGEST_RUN = 3
"""The longest run of sites that is moved at once."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ways(NamedTuple):
    """How to get from state to state."""

    distance: Floats
    """From state to state; infinite where there is no way."""
    towards: Ints
    """The pair to take, at [target, state]; the first one where there is no way to go."""


@lru_cache(maxsize=4)
def ways(mdp: MDP) -> Ways:
    """Shortest paths between all states (memory: states²)."""
    n = mdp.n_states
    P = mdp.transitions
    rows = np.repeat(np.arange(mdp.n_pairs), np.diff(P.indptr))
    source, goal = mdp.pair_state[rows], P.indices.astype(np.int64)
    # The likeliest action of every move comes last, and stays.
    order = np.argsort(P.data, kind="stable")
    best = np.full((n, n), -1)
    chance = np.zeros((n, n))
    best[source[order], goal[order]] = rows[order]
    chance[source[order], goal[order]] = P.data[order]
    moves = np.flatnonzero(chance.ravel() > 0)
    graph = sp.csr_matrix((1.0 / chance.ravel()[moves], (moves // n, moves % n)), shape=(n, n))
    # From every state to a target: shortest paths from the target along reversed moves; the
    # predecessor on the reversed path is the next state on the way.
    back, following = dijkstra(graph.T.tocsr(), return_predecessors=True)
    on_the_way = best[np.arange(n)[None, :], np.maximum(following, 0)]
    towards = np.where(following >= 0, on_the_way, mdp.pair_start[None, :-1])
    return Ways(np.ascontiguousarray(back.T), towards)


def round_trip(distance: Floats) -> Ints:
    """A short round trip through all places of an asymmetric distance matrix."""
    return _shortened(distance)


def path_through(distance: Floats, first: Floats) -> tuple[Ints, float]:
    """A short path through all places, and its length; ``first`` is how far each is from here."""
    n = len(distance)
    apart = np.zeros((n + 1, n + 1))
    apart[0, 1:] = first
    apart[1:, 1:] = distance
    tour = _shortened(apart)
    return tour[1:] - 1, float(apart[tour[:-1], tour[1:]].sum())


def _shortened(distance: Floats) -> Ints:
    """A round trip that begins at place 0."""
    n = len(distance)
    tour = np.zeros(n, dtype=np.int64)
    left = np.ones(n, dtype=bool)
    left[0] = False
    for i in range(1, n):
        tour[i] = np.where(left, distance[tour[i - 1]], np.inf).argmin()
        left[tour[i]] = False
    if n > LONGEST_RUN:
        _shorten(distance, tour)
    return tour


@njit(cache=True, nogil=True)
def _shorten(distance: Floats, tour: Ints) -> None:
    """Improve the tour as long as anything helps; its first place stays the first."""
    # Moves that gain nothing but rounding would be undone, and made again, for ever.
    least = 1e-9 * np.max(distance)
    while True:
        better = _move_runs(distance, tour, least)
        better |= _turn_parts(distance, tour, least)
        if not better:
            return


@njit(cache=True, nogil=True)
def _move_runs(distance: Floats, tour: Ints, least: float) -> bool:
    """Or-opt: every run of up to three places goes where it lengthens the tour least."""
    n = tour.size
    better = False
    run = np.empty(LONGEST_RUN, np.int64)
    for i in range(1, n):
        for length in range(1, min(LONGEST_RUN, n - i) + 1):
            before, after = tour[i - 1], tour[(i + length) % n]
            a, z = tour[i], tour[i + length - 1]
            saved = distance[before, a] + distance[z, after] - distance[before, after]
            best, to = -least, -1
            for j in range(n):
                if i - 1 <= j < i + length:
                    continue
                u, v = tour[j], tour[(j + 1) % n]
                change = distance[u, a] + distance[z, v] - distance[u, v] - saved
                if change < best:
                    best, to = change, j
            if to < 0:
                continue
            run[:length] = tour[i : i + length]
            if to < i:
                for k in range(i - 1, to, -1):
                    tour[k + length] = tour[k]
                tour[to + 1 : to + 1 + length] = run[:length]
            else:
                for k in range(i + length, to + 1):
                    tour[k - length] = tour[k]
                tour[to + 1 - length : to + 1] = run[:length]
            better = True
    return better


@njit(cache=True, nogil=True)
def _turn_parts(distance: Floats, tour: Ints, least: float) -> bool:
    """2-opt: walk tour[i..j] the other way round where that is shorter."""
    n = tour.size
    better = False
    for i in range(1, n - 1):
        before = tour[i - 1]
        there, back = 0.0, 0.0
        best, to = -least, -1
        for j in range(i + 1, n):
            there += distance[tour[j - 1], tour[j]]
            back += distance[tour[j], tour[j - 1]]
            after = tour[(j + 1) % n]
            change = distance[before, tour[j]] + back + distance[tour[i], after]
            change -= distance[before, tour[i]] + there + distance[tour[j], after]
            if change < best:
                best, to = change, j
        if to >= 0:
            tour[i : to + 1] = tour[i : to + 1][::-1].copy()
            better = True
    return better
