"""What a learner believes of the dynamics: a set of distributions per pair, from counts.

With N(p) moves from pair p = (s, a) and N(p, s') of them to s', p̂ = N(p, ·)/N(p) is the
*estimate* and 𝒞(p) a set of plausible distributions around it (App. app:relaxing:asm:known.mdp;
:mod:`sojourn.solvers.plausible`). Both rules below hold for all pairs and all counts at once
with probability 1 − δ: a pair gets the share 1/n_pairs of δ and its N-th count the share
1/(N(N + 1)) of that, and these shares sum to 1. No clock is needed, so a set changes only when
its pair is taken.

*L1* (as in UCRL2, Jaksch, Ortner & Auer 2010, with the constant of Weissman et al. 2003):

    ‖q − p̂‖₁ ≤ √( (2/N) log( (2^k − 2) N(N + 1) n_pairs / δ ) ),    k states can follow.

*Bernstein*, entry by entry (Maurer & Pontil 2009, Thm. 4, on both sides of k entries):

    |q(s') − p̂(s')| ≤ √( 2 V L/N ) + 7L/(3(N − 1)),    V = p̂(1 − p̂) N/(N − 1),
    L = log( 4 k N(N + 1) n_pairs / δ ).

It knows that a move which always ended at the same place hardly ever ends elsewhere, and doesn't
grow with the number of states; the ball does, as √S.

Where the *support* is known, the states that can follow a pair, nothing else is plausible. A pair
that was never taken may lead anywhere on its support, and its estimate is even there.

``scale`` multiplies the widths. 1 is what is proved, for whatever happens; the confidence widths
of variances in the experiments of the paper are far below its theorem's for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError
from sojourn.solvers.plausible import EVERYTHING, Plausible

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class ConfidenceSet(Protocol):
    """Anything that says which dynamics are plausible after these counts."""

    def __call__(self, counts: Ints, pair_start: Ints, support: Flags | None) -> Plausible:
        """The set of each pair; ``counts`` and ``support`` are n_pairs × n_states."""


@dataclass(frozen=True)
class _Rule:
    confidence: float = 0.05
    """δ, the probability that some set misses the truth at some time."""
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ArgumentError(f"δ is {self.confidence}", "give a number between 0 and 1")
        if not 0 <= self.scale < np.inf:
            raise ArgumentError(f"the scale is {self.scale}", "give a number >= 0")


@dataclass(frozen=True)
class L1Set(_Rule):
    """A ball in L1."""

    def __call__(self, counts: Ints, pair_start: Ints, support: Flags | None = None) -> Plausible:
        """The ball of each pair."""
        open_, estimate, times = _estimate(counts, support)
        k, N = open_.sum(axis=1), np.maximum(times, 1)
        # log(2^k − 2); with one state that can follow there is nothing to be unsure of.
        ways = k * np.log(2.0) + np.log1p(-(2.0 ** (1.0 - np.maximum(k, 2))))
        log = ways + np.log(N * (N + 1.0)) + np.log(k.size / self.confidence)
        radius = np.minimum(self.scale * np.sqrt(2.0 * log / N), EVERYTHING)
        radius = np.where(times == 0, EVERYTHING, np.where(k == 1, 0.0, radius))
        return Plausible(pair_start, estimate, np.zeros_like(estimate), open_.astype(float), radius)


@dataclass(frozen=True)
class BernsteinSet(_Rule):
    """An interval per entry."""

    def __call__(self, counts: Ints, pair_start: Ints, support: Flags | None = None) -> Plausible:
        """The box of each pair."""
        open_, estimate, times = _estimate(counts, support)
        k, N = open_.sum(axis=1), np.maximum(times, 2)
        log = np.log(4.0 * k * N * (N + 1.0)) + np.log(k.size / self.confidence)
        variance = estimate * (1.0 - estimate) * (N / (N - 1.0))[:, None]
        width = np.sqrt(2.0 * variance * (log / N)[:, None])
        width = self.scale * (width + (7.0 * log / (3.0 * (N - 1)))[:, None])
        width = np.where((times < 2)[:, None], 1.0, width)
        width = np.where((k == 1)[:, None], 0.0, width)
        low = np.maximum(estimate - width, 0.0)
        high = np.where(open_, np.minimum(estimate + width, 1.0), 0.0)
        return Plausible(pair_start, estimate, low, high, np.full(k.size, EVERYTHING))


def widening_sets(time: int, n_pairs: int) -> BernsteinSet:
    """Boxes of a hundredth of the proved width at first, wider with the third root of the tries
    per pair, as much as proved in the end.

    While states are missing every pair may lead to them until it was tried about 1/width times:
    narrow sets find them soon. But a pair that hardly anybody tries keeps its set for ever, and a
    narrow one, wrong by chance, would never be tried again.
    """
    return BernsteinSet(scale=min(1.0, 0.01 * ((time + 1.0) / n_pairs) ** (1.0 / 3.0)))


def known_support(given: object, n_pairs: int, n_states: int) -> Flags | None:
    """``given`` as n_pairs × n_states flags, checked; None stays None."""
    if given is None:
        return None
    flags = np.asarray(given)
    fits = flags.shape == (n_pairs, n_states) and flags.dtype.kind in "bui"
    # Probabilities would be read as flags, and weights too.
    if not fits or not np.isin(flags, (0, 1)).all():
        raise ArgumentError(
            f"the support has shape {flags.shape} and type {flags.dtype}",
            f"give one flag for each of {n_pairs} pairs and {n_states} states: where it may lead",
        )
    nowhere = ~flags.any(axis=1)
    if nowhere.any():
        raise ArgumentError(
            f"pair {int(np.flatnonzero(nowhere)[0])} may lead nowhere",
            "every pair leads somewhere: give at least one state",
        )
    return flags.astype(np.bool_)


def refuse_surprises(counts: Ints, support: Flags) -> None:
    """Refuse a support that some move has left."""
    beyond = (counts > 0) & ~support
    if beyond.any():
        p, s = np.argwhere(beyond)[0]
        raise ArgumentError(
            f"pair {p} led to state {s}, which is not on its support",
            "name every state that can follow, or leave the support out",
        )


def _estimate(counts: Ints, support: Flags | None) -> tuple[Flags, Floats, Ints]:
    """What can follow, the estimate, and how often each pair was taken."""
    open_ = np.ones(counts.shape, dtype=np.bool_) if support is None else support
    refuse_surprises(counts, open_)
    times = counts.sum(axis=1)
    even = open_ / open_.sum(axis=1, keepdims=True)
    estimate = np.where((times > 0)[:, None], counts / np.maximum(times, 1)[:, None], even)
    return open_, estimate, times
