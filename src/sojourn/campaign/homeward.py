"""The way home, whatever the strategy: when to turn, and how.

With k moves left, c_k(s) is the largest probability of being at home after exactly k moves:

    c_0 = 1{home},    c_{k+1}(s) = max_a Σ p(s'|s,a) c_k(s')

A move is *free* while it costs none of that probability. Where c_k is the same from everywhere
(min c_k ≥ (1 − ε) max c_k) every move is free for ever more, because the minimum of c never
falls and its maximum never rises with k.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order

from sojourn.model import MDP

SLACK = 1e-6
NUMBERS = 20_000_000
"""How many chances are kept: 2000 moves on a map of 10⁴ sites. Further from the end than that,
no move matters."""
PATIENCE = 20_000


class WayHome:
    """The best way to ``home`` in a model of the moves."""

    def __init__(self, mdp: MDP, home: int) -> None:
        self.mdp, self.home = mdp, home
        first = np.zeros(mdp.n_states)
        first[home] = 1.0
        self._chances = [first]
        self._limit = max(200, NUMBERS // mdp.n_states)
        self._settled = False

    def chance(self, left: int) -> NDArray[np.float64] | None:
        """c_left, or None where so many moves are left that every move is free."""
        while len(self._chances) <= left and not self._settled:
            if len(self._chances) > self._limit:
                return None
            last = self._chances[-1]
            self._settled = bool(last.min() >= (1.0 - SLACK) * last.max())
            if not self._settled:
                self._chances.append(self._best(self.mdp.transitions @ last, np.maximum))
        return self._chances[left] if left < len(self._chances) else None

    def _best(self, per_pair: NDArray, choice: np.ufunc) -> NDArray[np.float64]:
        best: NDArray[np.float64] = choice.reduceat(per_pair, self.mdp.pair_start[:-1])
        return best

    def _of_pairs(self, state: int, value: NDArray) -> tuple[int, NDArray[np.float64]]:
        """The first pair of a state, and the expected ``value`` after each of its pairs."""
        begin, end = (int(p) for p in self.mdp.pair_start[state : state + 2])
        return begin, np.asarray(self.mdp.transitions[begin:end] @ value)

    def instead_of(self, state: int, pair: int, left: int) -> int | None:
        """The pair to take with ``left`` moves to go, where ``pair`` would cost the way home.

        Where no way is short enough any more the device still goes home, as far as it gets.
        """
        ahead = self.chance(left - 1)
        if ahead is None:
            return None
        begin, reached = self._of_pairs(state, ahead)
        if reached.max() == 0.0 and left <= self._moves[state] < np.inf:
            return self.quickest(state)
        if reached[pair - begin] >= reached.max() * (1.0 - SLACK):
            return None
        return begin + int(np.argmax(reached))

    @cached_property
    def _moves(self) -> NDArray[np.float64]:
        """The fewest expected moves to home from everywhere: T = 1 + min_a P T, T(home) = 0.

        Value iteration from below; infinite where home can't be reached.
        """
        times = np.where(self._reachable, 0.0, np.inf)
        inside = self._reachable
        for _ in range(PATIENCE):
            later = 1.0 + self._best(self.mdp.transitions @ times, np.minimum)
            later[self.home] = 0.0
            change = np.abs(later[inside] - times[inside]).max()
            times = later
            if not change > 1e-9 * max(1.0, times[inside].max()):
                break
        return times

    def quickest(self, state: int) -> int:
        """The first move of the way home that takes the fewest moves on average."""
        begin, moves = self._of_pairs(state, self._moves)
        return begin + int(np.argmin(moves))

    @cached_property
    def _reachable(self) -> NDArray[np.bool_]:
        backward = self.mdp.adjacency.T.tocsr().astype(float)
        found = np.zeros(self.mdp.n_states, dtype=bool)
        found[breadth_first_order(backward, self.home, return_predecessors=False)] = True
        return found

    def possible(self, state: int) -> bool:
        """Whether home can be reached from here at all."""
        return bool(self._reachable[state])
