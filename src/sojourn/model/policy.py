"""Stationary policies: a probability for each pair, π(a|s)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import indices, numbers, per_state
from sojourn.chains import Chain
from sojourn.errors import ArgumentError
from sojourn.model.frozen import Frozen
from sojourn.model.mdp import MDP, check_model
from sojourn.model.reachability import pairs_towards

ROUNDING = 1e-9


class Policy(Frozen):
    """A stationary randomised policy; ``probability`` has one entry per pair."""

    mdp: MDP
    probability: NDArray[np.float64]

    def __init__(self, mdp: MDP, probability: ArrayLike) -> None:
        array = _per_pair(mdp, probability, "the policy")
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
        check_model(mdp)
        return cls(mdp, 1.0 / mdp.to_pairs(np.diff(mdp.pair_start)))

    @classmethod
    def deterministic(cls, mdp: MDP, pairs: ArrayLike) -> Policy:
        """The policy that takes ``pairs[s]`` in state s."""
        check_model(mdp)
        chosen = indices(pairs)
        if chosen is None or chosen.shape != (mdp.n_states,):
            raise ArgumentError(
                f"a deterministic policy names one pair for each of {mdp.n_states} states",
                "give an array of pair indices, ordered by state",
            )
        wrong = (chosen < mdp.pair_start[:-1]) | (chosen >= mdp.pair_start[1:])
        if wrong.any():
            s = int(np.flatnonzero(wrong)[0])
            own = mdp.pairs_of(s)
            raise ArgumentError(
                f"{chosen[s]} is not a pair of state {mdp.state_labels[s]!r}",
                f"its pairs are {own.start} to {own.stop - 1}",
            )
        probability = np.zeros(mdp.n_pairs)
        probability[chosen] = 1.0
        return cls(mdp, probability)

    @classmethod
    def from_occupancy(cls, mdp: MDP, occupancy: ArrayLike) -> Policy:
        """π(a|s) = λ(s,a)/Σ_b λ(s,b) (Eq. asymptotic.opt.policy), completed off the support.

        The quotient says nothing where the state is never visited. An arbitrary choice there
        can close a second recurrent class from which a walk never returns, so such states
        take an action that leads to the support: with probability 1 where that is possible.
        The occupancy need not sum to 1, and a solver's rounding below zero counts as zero.
        """
        x = _per_pair(mdp, occupancy, "the occupancy", rounding=ROUNDING)
        visited = mdp.state_sums(x)
        if not visited.sum() > 0:
            raise ArgumentError("the occupancy is zero everywhere", "give some pair a share")
        support = visited > 0
        probability = np.where(
            mdp.to_pairs(support), x / np.where(mdp.to_pairs(support), mdp.to_pairs(visited), 1), 0
        )
        if not support.all():
            towards = pairs_towards(mdp, support)
            led = towards >= 0
            probability[towards[led]] = 1.0
            # From here no policy leads to the support, so none is better than another.
            stranded = mdp.to_pairs(~(support | led))
            probability[stranded] = 1.0 / mdp.to_pairs(np.diff(mdp.pair_start))[stranded]
        return cls(mdp, probability)

    def chain(self) -> Chain:
        """The Markov chain P_π that the policy induces; what it computes is kept with it."""
        return self._chain

    @cached_property
    def _chain(self) -> Chain:
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
        if distribution is None:
            eta = self.chain().stationary()
        else:
            eta = per_state(distribution, self.mdp.n_states, "the distribution", minimum=0.0)
        return self.mdp.to_pairs(eta) * self.probability

    def __repr__(self) -> str:
        return f"Policy(on {self.mdp!r})"


def _per_pair(mdp: MDP, values: ArrayLike, name: str, rounding: float = 0.0) -> NDArray[np.float64]:
    """``values`` as one finite number >= 0 per pair, or a named error. What is below zero by
    less than ``rounding`` times the largest entry is taken for zero."""
    check_model(mdp)
    array = numbers(values, name)
    if array.shape != (mdp.n_pairs,):
        raise ArgumentError(
            f"{name} has shape {array.shape}, expected ({mdp.n_pairs},)",
            "give one number per pair, ordered by state",
        )
    # A NaN compares false with everything: test for what is wanted, not for what is wrong.
    with np.errstate(invalid="ignore"):
        array[(array < 0) & (array > -rounding * array.max())] = 0.0
    wrong = ~((array >= 0) & (array < np.inf))
    if wrong.any():
        pair = int(np.flatnonzero(wrong)[0])
        raise ArgumentError(
            f"{name} has the value {array[pair]} for {mdp.describe_pair(pair)}",
            "every entry must be a finite number >= 0",
        )
    return array
