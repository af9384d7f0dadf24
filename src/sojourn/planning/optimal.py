"""The plan that is optimal when the variances are known and the time is long.

Prop. asymptotic.relaxation: minimise 𝓛(λ) = (1/S) Σ weight·σ²/η over all stationary occupancies
(Eq. opt.function.asymptotic.lambda), or another objective of :mod:`sojourn.solvers.objectives`.

*When the loss is finite.* A stationary occupancy spends all its time in end components: sets of
states, with some of their actions, that can be kept for ever and whose states can all reach each
other. A walk ends up in one of them. So a finite loss needs one *maximal* end component that holds
every state that matters (weight·σ² > 0). That every state be reachable from everywhere is
neither needed nor enough. We restrict the problem to that component.

*Which optimum.* The optimal η is unique on the states that matter, the optimal occupancy often
isn't. All methods return the analytic centre of the optimal ones, the one that spreads most evenly
over the actions that some optimal plan uses.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError, InfiniteLoss, SolverFailure
from sojourn.model import MDP, per_state
from sojourn.planning.certificate import certify
from sojourn.planning.plan import Plan, Stats, Status
from sojourn.solvers.interior_point import interior_point
from sojourn.solvers.linear_algebra import DenseCholesky, Flow, SparseCholesky
from sojourn.solvers.objectives import MeanError, Objective

METHODS = (
    "auto", "interior-point", "frank-wolfe", "line-search", "away-step", "pairwise",
    "fully-corrective",
)  # fmt: skip


def optimal_plan(
    mdp: MDP,
    variance: ArrayLike,
    weight: ArrayLike | None = None,
    tolerance: float = 1e-9,
    method: str = "auto",
    throw: bool = True,
    progress: bool = False,
    budget: int | None = None,
    objective: Any = MeanError,
) -> Plan:
    """The occupancy with the smallest loss, with a proof of how close to the smallest it is."""
    started = time.perf_counter()
    n = mdp.n_states
    goal: Objective = objective(
        per_state(variance, n, "variance", minimum=0.0),
        None if weight is None else per_state(weight, n, "weight", minimum=0.0),
    )
    flow = Flow(mdp.transitions, mdp.pair_start)
    backend = DenseCholesky(flow) if n <= 1500 else SparseCholesky(flow)
    solution = interior_point(
        flow,
        goal.cone(),
        backend,
        lambda eta, m: goal.gap(goal.value(eta), goal.lower_bound(m)),
        tolerance=tolerance,
    )
    occupancy = solution.x / solution.x.sum()
    proof = certify(mdp, goal, occupancy, solution.h)
    status = Status.OPTIMAL if proof.gap <= tolerance else Status.STALLED
    if throw and not status.ok:
        raise SolverFailure(f"{status} (gap {proof.gap:.1e})")
    bandit = goal.lower_bound(np.zeros(n))
    return Plan(
        mdp, occupancy, proof.value, proof.bound, proof.gap, status,
        Stats("interior point", backend.name, solution.iterations,
              time.perf_counter() - started, None, bandit,
              proof.value / bandit - 1 if bandit > 0 else 0.0),
        prices=solution.h,
    )  # fmt: skip
