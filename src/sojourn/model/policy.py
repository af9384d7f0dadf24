"""Stationary policies: a probability for each pair, π(a|s)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.chains import Chain
from sojourn.errors import ArgumentError
from sojourn.model.frozen import Frozen
from sojourn.model.mdp import MDP


class Policy(Frozen):
    """A stationary randomised policy; ``probability`` has one entry per pair."""

    mdp: MDP
    probability: NDArray[np.float64]

    def __init__(self, mdp: MDP, probability: ArrayLike) -> None:
        array = np.array(probability, dtype=float)
        if array.shape != (mdp.n_pairs,):
            raise ArgumentError(
                f"the policy has shape {array.shape}, expected ({mdp.n_pairs},)",
                "give one probability per pair, ordered by state",
            )
        if not (array >= 0).all():
            pair = int(np.flatnonzero(~(array >= 0))[0])
            raise ArgumentError(f"the probability of {mdp.describe_pair(pair)} is {array[pair]}")
        total = mdp.state_sums(array)
        off = np.abs(total - 1.0) > 1e-8
        if off.any():
            s = int(np.flatnonzero(off)[0])
            raise ArgumentError(
                f"the policy's probabilities in state {mdp.state_labels[s]!r} sum to "
                f"{total[s]:.12g}",
                "they must sum to 1 in every state",
            )
        array /= mdp.to_pairs(total)
        self._hold(mdp=mdp, probability=array)

    @classmethod
    def uniform(cls, mdp: MDP) -> Policy:
        """π(a|s) = 1/|A_s|."""
        return cls(mdp, 1.0 / mdp.to_pairs(np.diff(mdp.pair_start)))

    @classmethod
    def deterministic(cls, mdp: MDP, pairs: ArrayLike) -> Policy:
        """The policy that takes ``pairs[s]`` in state s."""
        chosen = np.asarray(pairs, dtype=np.int64)
        probability = np.zeros(mdp.n_pairs)
        if (
            chosen.shape != (mdp.n_states,)
            or (
                mdp.pair_state[np.clip(chosen, 0, mdp.n_pairs - 1)] != np.arange(mdp.n_states)
            ).any()
        ):
            raise ArgumentError("a deterministic policy names one pair of every state, in order")
        probability[chosen] = 1.0
        return cls(mdp, probability)

    @classmethod
    def from_occupancy(cls, mdp: MDP, occupancy: ArrayLike) -> Policy:
        """π(a|s) = λ(s,a)/Σ_b λ(s,b) (Eq. asymptotic.opt.policy), completed off the support.

        The quotient says nothing where the state is never visited. An arbitrary choice there
        can close a second recurrent class from which a walk never returns, so such states
        take an action that leads towards the support, nearest first.
        """
        x = np.array(occupancy, dtype=float)
        if x.shape != (mdp.n_pairs,) or not (x >= 0).all():
            raise ArgumentError(
                f"an occupancy has shape ({mdp.n_pairs},) and entries >= 0, got {x.shape}"
                + (f" with minimum {x.min():.3g}" if x.size else "")
            )
        visited = mdp.state_sums(x)
        if not visited.sum() > 0:
            raise ArgumentError("the occupancy is zero everywhere")
        support = visited > 0
        probability = np.where(
            mdp.to_pairs(support), x / np.where(mdp.to_pairs(support), mdp.to_pairs(visited), 1), 0
        )
        if not support.all():
            towards = _pairs_towards(mdp, support)
            for s in np.flatnonzero(~support):
                if towards[s] >= 0:
                    probability[towards[s]] = 1.0
                else:
                    lo, hi = mdp.pair_start[s : s + 2]
                    probability[lo:hi] = 1.0 / (hi - lo)
        return cls(mdp, probability)

    def chain(self) -> Chain:
        """The Markov chain P_π that the policy induces."""
        return Chain(self.transition_matrix())

    def transition_matrix(self) -> sp.csr_matrix:
        """P_π(s'|s) = Σ_a π(a|s) p(s'|s,a), sparse."""
        n = self.mdp.n_pairs
        weights = sp.csr_matrix(
            (self.probability, np.arange(n), self.mdp.pair_start), shape=(self.mdp.n_states, n)
        )
        matrix = (weights @ self.mdp.transitions).tocsr()
        matrix.eliminate_zeros()
        return matrix

    def occupancy(self, distribution: ArrayLike | None = None) -> NDArray[np.float64]:
        """λ(s,a) = η(s)π(a|s), with the stationary η unless another is given."""
        eta: Any = self.chain().stationary() if distribution is None else np.asarray(distribution)
        return self.mdp.to_pairs(eta) * self.probability

    def __repr__(self) -> str:
        return f"Policy(on {self.mdp!r})"


def _pairs_towards(mdp: MDP, target: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each state outside ``target`` a pair with the largest chance of coming closer.

    Breadth-first from the target against the direction of the moves; -1 where the target
    can't be reached. Every chosen pair has a positive chance of reducing the distance, so the
    walk reaches the target with probability one.
    """
    chosen = np.full(mdp.n_states, -1, dtype=np.int64)
    closer = target.copy()
    while True:
        gain = mdp.transitions @ closer.astype(float)
        gain[mdp.to_pairs(closer)] = 0.0
        if not (gain > 0).any():
            return chosen
        best = np.maximum.reduceat(gain, mdp.pair_start[:-1])
        fresh = best > 0
        is_best = (gain > 0) & (gain == mdp.to_pairs(best))
        pairs = np.flatnonzero(is_best)[::-1]
        chosen[mdp.pair_state[pairs]] = pairs
        closer |= fresh
