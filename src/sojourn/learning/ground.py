"""The linear problem that many strategies solve at every decision, for many walks at once.

minimise ⟨cost, λ⟩ over Λ_floor, the stationary occupancies with η ≥ 2·floor everywhere. Λ_floor
may be empty. Then each state's bound is lowered to half of what the uniform policy reaches
there, and a note says so (see :mod:`sojourn.planning.linear`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SolverFailure
from sojourn.model import MDP, Policy
from sojourn.planning.linear import CLOSE, lower_bounds
from sojourn.solvers import linear_oracle as lo
from sojourn.solvers.linear_oracle_kernel import OPTIMAL

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

SHRUNK = (
    "no stationary distribution stays above the floor everywhere: the bound of each state was "
    "lowered to at most half of what the uniform policy reaches there"
)


@dataclass(frozen=True)
class Ground:
    """What the episodes of all walks share: the linear oracle over Λ_floor."""

    mdp: MDP
    lower: Floats
    dense: lo.DenseOracle | None
    notes: tuple[str, ...]

    def solve(self, cost: Floats, chosen: Ints, walks: Ints) -> tuple[Floats, Floats, Flags]:
        """Policies and occupancies for one cost per walk, and which have several classes.

        ``chosen`` (all walks) says where the oracle starts, and is brought up to date.
        """
        if self.dense is not None:
            batch = self.dense.solve_batch(cost, self.lower, chosen[walks])
            _require_proof(batch.status == OPTIMAL, batch.value - batch.bound, cost)
            chosen[walks] = batch.chosen
            return batch.policy(self.dense), batch.occupancy, batch.recurrent_classes > 1
        policy = np.empty((walks.size, self.mdp.n_pairs))
        occupancy = np.empty_like(policy)
        trapping = np.zeros(walks.size, dtype=np.bool_)
        for i in range(walks.size):
            # A fresh oracle each time: one that remembers would make a walk depend on others.
            answer = lo.solve(self.mdp, cost[i], self.lower)
            _require_proof(
                np.array([answer.status is lo.Status.OPTIMAL]), np.array([answer.gap]), cost[i]
            )
            occupancy[i] = answer.occupancy
            policy[i] = Policy.from_occupancy(self.mdp, answer.occupancy).probability
            trapping[i] = answer.recurrent_classes > 1
        return policy, occupancy, trapping


def _require_proof(proved: Flags, gap: Floats, cost: Floats) -> None:
    close = proved | (np.abs(gap) <= CLOSE * np.ptp(cost, axis=-1))
    if not close.all():
        raise SolverFailure(
            f"the linear problem of a decision was left with a gap of {gap[~close][0]:.3g}",
            "are there moves with probabilities far below 1e-10?",
        )


@lru_cache(maxsize=16)
def ground(mdp: MDP, floor: float) -> Ground:
    """Prepared once for the many blocks of walks that ask for it."""
    lower, shrunk = lower_bounds(mdp, floor, infeasible="shrink")
    small = mdp.n_states <= lo.SMALL and lo.LinearOracle(mdp).whole
    dense = lo.DenseOracle(mdp) if small else None
    return Ground(mdp, lower, dense, (SHRUNK,) if shrunk else ())
