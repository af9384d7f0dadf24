r"""The true optimum: the best history-dependent policy, by dynamic programming on counts.

    min over π ∈ Π^HR of 𝓛_n(π) = E_π[ Σ_s φ_s(V_s) ]              (Sec. sec:preliminaries)

The loss depends on a walk only through its visit counts, so what a policy needs to know of its
history is (state, counts), and backward induction over these is exact. The table has
C(t+k−1, k−1)·S entries after t moves, with k the number of states whose visits matter: three
states and n = 500 take seconds, ten states and n = 100 are out of the question. It is the
yardstick for everything that scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import indices, start_distribution, whole
from sojourn.errors import ArgumentError
from sojourn.model import MDP, Counting, check_model
from sojourn.planning.finite import (
    PRIOR_SAMPLE,
    Array,
    Prices,
    one_budget,
)
from sojourn.solvers.count_programme import binomials, final_costs, rank_of, step_back

MEMORY = 2 << 30
"""Bytes that the two levels of the programme may take."""

DECISIONS = 1 << 28
"""Bytes that the table of decisions may take, where it isn't asked for."""

WORK = 4e11
"""Transitions evaluated; at a few per nanosecond that is minutes."""


@dataclass(frozen=True, eq=False)
class ExactOptimum:
    """What the best history-dependent policy achieves, and what it does."""

    loss: float
    loss_from: Array
    """The optimal loss from each state."""
    first_pairs: NDArray[np.int64]
    """The optimal first pair in each state."""
    budget: int
    moves: int
    entries: int
    """(state, counts) that were looked at."""
    mdp: MDP
    slot: NDArray[np.int64]
    """Which count a state's visits go to; states whose visits cost nothing share one."""
    decisions: tuple[NDArray, ...] = ()
    """Per time, the best action's number [rank of the counts, state]; empty if not kept."""

    def decide(self, state: int, visits: ArrayLike) -> int:
        """The best pair in ``state`` when ``visits`` (one count per state) were made so far."""
        counts, n = indices(visits), self.mdp.n_states
        if counts is None or counts.shape != (n,) or not (counts >= 0).all():
            raise ArgumentError(
                f"visits is {visits!r}, expected {n} whole numbers >= 0",
                "give the number of arrivals in each state since the start",
            )
        state = whole(state, "the state", most=n - 1)
        time = int(counts.sum())
        if time >= self.moves:
            raise ArgumentError(
                f"{time} moves were made and the budget allows {self.moves}: nothing is left to "
                "decide",
                "ask before the last move, or plan for a larger budget",
            )
        if not self.decisions:
            raise ArgumentError(
                "the decisions of this programme were not kept",
                "ask for them with exact_optimum(..., keep_decisions=True)",
            )
        slots = np.bincount(self.slot, weights=counts, minlength=int(self.slot.max()) + 1)
        action = self.decisions[time][rank_of(slots.astype(np.int64)), state]
        return int(self.mdp.pair_start[state] + action)

    def __repr__(self) -> str:
        return f"ExactOptimum(budget={self.budget}, loss={self.loss:.6g}, {self.entries} entries)"


def exact_optimum(
    mdp: MDP,
    variance: ArrayLike,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    weight: ArrayLike | None = None,
    keep_decisions: bool | None = None,
    memory: int = MEMORY,
) -> ExactOptimum:
    """The smallest finite-budget loss of all policies, for a tiny world.

    ``keep_decisions`` keeps the optimal policy for :meth:`ExactOptimum.decide` (by default where
    that takes no more than 256 MiB). ``memory`` limits the bytes of the programme; what would
    need more is refused with the size of its table.
    """
    check_model(mdp)
    n = mdp.n_states
    budget = one_budget(budget)
    memory = whole(memory, "memory", 1)
    prices = Prices.of(variance, n, budget, counting, weight)
    start = start_distribution(start, n)
    slot, slots = _slots(prices)
    moves, prior = prices.moves, prices.prior
    entries = comb(moves + slots, slots) * n
    _refuse_if_large(mdp, budget, moves, slots, entries, memory)
    if keep_decisions is None:
        keep_decisions = entries <= DECISIONS

    cost = np.zeros((slots, moves + 1))
    total = prior + np.arange(moves + 1)
    for s in np.flatnonzero((prices.sampled > 0) | (prices.unvisited > 0)):
        seen = prices.sampled[s] / np.maximum(total, 1)
        cost[slot[s]] = np.where(total > 0, seen, prices.unvisited[s])

    P, table = mdp.transitions, binomials(moves, slots)
    kind = np.uint8 if int(np.diff(mdp.pair_start).max()) < 256 else np.int32
    after = np.empty((comb(moves + slots - 1, slots - 1), n))
    now = np.empty_like(after)
    final_costs(cost, moves, table, after)
    kept: list[NDArray] = []
    choice = np.zeros((1, n), dtype=kind)
    for time in range(moves - 1, -1, -1):
        # The decisions at the start are always wanted.
        size = comb(time + slots - 1, slots - 1) if keep_decisions or time == 0 else 0
        choice = np.empty((size, n), dtype=kind)
        step_back(
            mdp.pair_start,
            P.indptr,
            P.indices,
            P.data,
            slot,
            slots,
            time,
            table,
            after,
            now,
            choice,
        )
        if keep_decisions:
            kept.append(choice)
        after, now = now, after
    loss_from = after[0].copy()
    return ExactOptimum(
        loss=float(start @ loss_from),
        loss_from=loss_from,
        first_pairs=mdp.pair_start[:-1] + choice[0],
        budget=budget,
        moves=moves,
        entries=entries,
        mdp=mdp,
        slot=slot,
        decisions=tuple(reversed(kept)),
    )


def _slots(prices: Prices) -> tuple[NDArray[np.int64], int]:
    """A count for each state whose visits matter, and one for all the others together."""
    matters = (prices.sampled > 0) | (prices.unvisited > 0)
    slot = np.where(matters, np.cumsum(matters) - 1, int(matters.sum()))
    return slot.astype(np.int64), int(slot.max()) + 1


def _refuse_if_large(
    mdp: MDP, budget: int, moves: int, slots: int, entries: int, memory: int
) -> None:
    level = comb(moves + slots - 1, slots - 1) * mdp.n_states
    work = comb(moves + slots - 1, slots) * mdp.transitions.nnz
    if 16 * level > memory or work > WORK:
        raise ArgumentError(
            f"the exact programme for {budget} steps and {slots} counts has {entries:.3g} entries "
            f"({16 * level / 2**30:.3g} GiB at a time, {work:.2g} transitions to evaluate)",
            "it is for tiny worlds: shorten the budget, or use finite_bound for a proved lower "
            "bound and budget_plan for a policy",
        )
