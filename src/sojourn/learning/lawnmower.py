"""The sweep: visit every site in a short round trip, and again (a rival).

What a survey does that knows nothing about noise, like mowing a lawn. The way from site to site
is the shortest path when one move from s to s' costs 1/max_a p(s'|s,a), the expected number of
tries if failing leaves the device in place. The round trip starts as the nearest-neighbour tour
and is improved by moving single sites and short runs of sites to better places (or-opt), which,
unlike reversing parts of a tour, needs no symmetry.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from sojourn.errors import StrategyError
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Task
from sojourn.model import MDP

LARGEST = 3000
LONGEST_RUN = 3
"""The longest run of sites that is moved at once."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Lawnmower:
    """Repeat a short tour over the sites (states with weight > 0)."""

    name = "lawnmower"
    needs: frozenset[str] = frozenset()

    def start(self, task: Task) -> State:
        """The position in the tour that each walk is heading for; −1 before it joined."""
        if task.mdp is None:
            raise StrategyError("the lawnmower needs to know the map")
        _route(task.mdp, (task.weights > 0).tobytes())
        return {"heading": np.full(task.walks, -1)}

    def plan(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """Head for the next site, until the action that leaves it has been taken."""
        assert task.mdp is not None
        route = _route(task.mdp, (task.weights > 0).tobytes())
        n = route.tour.size
        heading = state["heading"]
        here = seen.state[walks]
        # A walk joins the tour at the site that is nearest.
        joining = heading[walks] < 0
        nearest = route.distance[here[:, None], route.tour[None, :]].argmin(axis=1)
        heading[walks] = np.where(joining, nearest, (heading[walks] + 1) % n)
        target = route.tour[heading[walks]]
        after = route.tour[(heading[walks] + 1) % n]
        k = np.arange(walks.size)
        pairs = route.towards[target]
        pairs[k, target] = route.towards[after, target]
        policy = np.zeros((walks.size, task.n_pairs))
        policy[k[:, None], pairs] = 1.0
        # Leaving the target is the sign that it was reached; any of its pairs will do.
        limit = np.full((walks.size, task.n_pairs), FOREVER)
        leaving = pairs[k, target]
        limit[k, leaving] = seen.pair_visits[walks, leaving] + 1
        return Decision(np.full(walks.size, FOREVER), policy, pair_limit=limit)


class _Route(NamedTuple):
    tour: Ints
    distance: Floats
    """From state to state."""
    towards: Ints
    """The pair to take, at [target, state]; the first one where there is no way to go."""


@lru_cache(maxsize=4)
def _route(mdp: MDP, visit: bytes) -> _Route:
    n = mdp.n_states
    if n > LARGEST:
        raise StrategyError(
            f"the lawnmower plans tours over up to {LARGEST} states, this world has {n}"
        )
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
    distance = back.T
    sites = np.flatnonzero(np.frombuffer(visit, dtype=bool))
    apart = distance[np.ix_(sites, sites)]
    if not np.isfinite(apart).all():
        i, j = np.argwhere(~np.isfinite(apart))[0]
        raise StrategyError(
            f"no tour: state {mdp.state_labels[int(sites[j])]!r} can't be reached from state "
            f"{mdp.state_labels[int(sites[i])]!r}"
        )
    on_the_way = best[np.arange(n)[None, :], np.maximum(following, 0)]
    towards = np.where(following >= 0, on_the_way, mdp.pair_start[None, :-1])
    return _Route(sites[_tour(apart)], distance, towards)


def _tour(distance: Floats) -> Ints:
    """A short round trip through all places of an asymmetric distance matrix."""
    n = len(distance)
    tour = np.zeros(n, dtype=np.int64)
    left = np.ones(n, dtype=bool)
    left[0] = False
    for i in range(1, n):
        tour[i] = np.where(left, distance[tour[i - 1]], np.inf).argmin()
        left[tour[i]] = False
    while n > LONGEST_RUN and _improve(distance, tour):
        pass
    return tour


@njit(cache=True, nogil=True)
def _improve(distance: Floats, tour: Ints) -> bool:
    """Move the run of sites that shortens the tour most, if one does."""
    n = tour.size
    # Moves that gain nothing but rounding would be undone, and made again, for ever.
    best = -1e-9 * np.max(distance)
    from_, size, to = -1, 0, -1
    for i in range(n):
        for length in range(1, min(LONGEST_RUN, n - 2) + 1):
            before, a = tour[i - 1], tour[i]
            z, after = tour[(i + length - 1) % n], tour[(i + length) % n]
            saved = distance[before, a] + distance[z, after] - distance[before, after]
            if saved <= -best:
                continue
            for step in range(n - length - 1):
                j = (i + length + step) % n
                u, v = tour[j], tour[(j + 1) % n]
                change = distance[u, a] + distance[z, v] - distance[u, v] - saved
                if change < best:
                    best, from_, size, to = change, i, length, j
    if from_ < 0:
        return False
    rest = np.empty(n, np.int64)
    k = 0
    for step in range(n - size):
        j = (from_ + size + step) % n
        rest[k] = tour[j]
        k += 1
        if j == to:
            for i in range(size):
                rest[k] = tour[(from_ + i) % n]
                k += 1
    tour[:] = rest
    return True
