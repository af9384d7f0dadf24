"""The sweep: visit every site in a short round trip, and again (a rival).

What a survey does that knows nothing about noise, like mowing a lawn; the round trip is that of
:mod:`sojourn.learning.tours`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import StrategyError
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Task
from sojourn.learning.tours import Ways, round_trip, ways
from sojourn.model import MDP

LARGEST = 3000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Lawnmower:
    """Repeat a short tour over the sites (states with weight > 0)."""

    name = "lawnmower"
    needs: frozenset[str] = frozenset()

    def start(self, task: Task) -> State:
        """The position in the tour that each walk is heading for; −1 before it joined."""
        _route(task.known_moves(), (task.weights > 0).tobytes())
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
        nearest = route.ways.distance[here[:, None], route.tour[None, :]].argmin(axis=1)
        heading[walks] = np.where(joining, nearest, (heading[walks] + 1) % n)
        target = route.tour[heading[walks]]
        after = route.tour[(heading[walks] + 1) % n]
        k = np.arange(walks.size)
        pairs = route.ways.towards[target]
        pairs[k, target] = route.ways.towards[after, target]
        policy = np.zeros((walks.size, task.n_pairs))
        policy[k[:, None], pairs] = 1.0
        # Leaving the target is the sign that it was reached; any of its pairs will do.
        limit = np.full((walks.size, task.n_pairs), FOREVER)
        leaving = pairs[k, target]
        limit[k, leaving] = seen.pair_visits[walks, leaving] + 1
        return Decision(np.full(walks.size, FOREVER), policy, pair_limit=limit)


class _Route(NamedTuple):
    tour: Ints
    ways: Ways


@lru_cache(maxsize=4)
def _route(mdp: MDP, visit: bytes) -> _Route:
    if mdp.n_states > LARGEST:
        raise StrategyError(
            f"the lawnmower plans tours over up to {LARGEST} states, this world has {mdp.n_states}",
            "take Lookahead",
        )
    found = ways(mdp)
    sites = np.flatnonzero(np.frombuffer(visit, dtype=bool))
    apart = found.distance[np.ix_(sites, sites)]
    if not np.isfinite(apart).all():
        i, j = np.argwhere(~np.isfinite(apart))[0]
        raise StrategyError(
            f"no tour: state {mdp.state_labels[int(sites[j])]!r} can't be reached from state "
            f"{mdp.state_labels[int(sites[i])]!r}",
            "give weight 0 to what can't be reached, or take Lookahead",
        )
    return _Route(sites[round_trip(apart)], found)
