r"""The best stationary policy for a budget, by exact gradients of the finite loss.

    min over π of 𝓛_n(π)                                        (Eq. opt.function.simplified)

over stationary policies. The asymptotic optimum π_λ* may be useless for n steps (Sec. 4, The
Mixing Issue); here nothing is asymptotic and nothing is a proxy. The problem is not convex, so
the plan comes from several starts and says which one won, how nearly it is a local optimum, and
how far it can at most be from the best policy whatever: ``bound`` is proved for history-dependent
policies too (:mod:`sojourn.planning.finite_bound`), so its gap also contains what being
stationary costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import start_distribution
from sojourn.model import MDP, Counting, Policy
from sojourn.planning.faster_mixing import faster_mixing_plan
from sojourn.planning.finite import (
    PRIOR_SAMPLE,
    FiniteLoss,
    Prices,
    check_dense,
    one_budget,
    reach_notes,
)
from sojourn.planning.finite_bound import FiniteBound, best_bound
from sojourn.planning.optimal import optimal_plan
from sojourn.planning.policy_descent import (
    StartRecord,
    blended,
    descend,
    promise,
    rounded,
    standard_starts,
    table_of,
    to_8_digits,
)
from sojourn.solvers.finite_visits import CONTOUR_MOVES
from sojourn.solvers.threads import one_thread

Array = NDArray[np.float64]

STEPS = 300
"""Iterations of one descent."""

MIXING_STATES = 150
"""Up to this many states the faster-mixing plan takes about as long as a descent."""

FINISHERS = 3
"""Descents that are finished with exact gradients where the fast ones can't be trusted."""

LOCAL = 1e-6
"""Relative first-order gain below which a policy is called locally optimal."""


class BudgetStatus(Enum):
    """How a descent ended, in the words that users read."""

    LOCAL = "locally optimal: to first order no change of the policy gains anything"
    STALLED = "stopped before a local optimum: what a change still promises is in promise"
    TRIVIAL = "optimal: nothing is uncertain, so every policy is as good as any other"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class BudgetPlan:
    """A stationary policy for a budget, what it is worth, and how much better one could be."""

    policy: Policy
    budget: int
    loss: float
    """𝓛_n of the policy, exact."""
    bound: float
    """No policy has a smaller loss, history-dependent ones included (proved)."""
    status: BudgetStatus
    winner: str
    """The start that led to the policy."""
    starts_table: tuple[StartRecord, ...]
    promise: float
    """What the best first-order change of the policy promises, relative to the loss."""
    notes: tuple[str, ...]
    regularized: float | None = None
    """𝓛 + ℓ_n of the policy, where that was minimised (``regularized_plan``)."""

    @property
    def gap(self) -> float:
        """(loss − bound)/loss; it contains what stationary policies can't do."""
        return (self.loss - self.bound) / self.loss if self.loss > 0 else 0.0

    def __str__(self) -> str:
        lowest = min(record.after for record in self.starts_table)
        agree = sum(record.after <= lowest * (1 + 1e-6) for record in self.starts_table)
        lines = [
            f"BudgetPlan for {self.budget} steps",
            f"  loss    {self.loss:.8g}",
            f"  bound   {self.bound:.8g}   (proved for every policy; gap {100 * self.gap:.3g} %)",
            f"  status  {self.status}",
            f"  start   {self.winner} won; {agree} of {len(self.starts_table)} starts end as low",
            *(f"          {line}" for line in table_of(self.starts_table).splitlines()),
            *(f"  note    {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"BudgetPlan(budget={self.budget}, loss={self.loss:.6g}, {self.status.name})"


def budget_plan(
    mdp: MDP,
    variance: ArrayLike,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    weight: ArrayLike | None = None,
    starts: int | Sequence[Policy] | None = None,
    seed: int | np.random.Generator = 0,
) -> BudgetPlan:
    """The best stationary policy that descents from several starts find.

    The starts are π_λ*, the faster-mixing plan for this budget, the shares of the fluid
    relaxation, the uniform policy and 4 to 16 random ones (fewer in larger worlds); ``starts``
    is another number of random ones, or policies to start from as well. With ``VisitsOnly`` and
    a short budget local optima differ much, and more starts are worth their time.

    Cost grows with S³: a second at S = 10, a minute or so at S = 100; beyond 500 states it
    refuses.
    """
    check_dense(mdp)
    budget = one_budget(budget)
    prices = Prices.of(variance, mdp.n_states, budget, counting, weight)
    objective = FiniteLoss(mdp, prices, start_distribution(start, mdp.n_states))
    if not (prices.sampled.any() or prices.unvisited.any()):
        uniform = Policy.uniform(mdp)
        record = (StartRecord("uniform", 0.0, 0.0, 0),)
        trivial = BudgetStatus.TRIVIAL
        return BudgetPlan(uniform, budget, 0.0, 0.0, trivial, "uniform", record, 0.0, ())
    with one_thread():
        bound = best_bound(mdp, prices, objective.start)
        found, notes = standard_starts(
            mdp, _planners(mdp, variance, budget, weight, bound), starts, seed
        )
        best, winner, records, left = _best_descent(objective, found)
    matters = prices.sampled > 0
    notes += reach_notes(mdp, mdp.adjacency, objective.start, prices.moves, matters, "no policy")
    loss = objective.value(best)
    return BudgetPlan(
        policy=Policy(mdp, best),
        budget=budget,
        loss=loss,
        bound=min(bound.bound, loss),
        status=BudgetStatus.LOCAL if left <= LOCAL else BudgetStatus.STALLED,
        winner=winner,
        starts_table=tuple(records),
        promise=left,
        notes=tuple(notes),
    )


def _planners(
    mdp: MDP,
    variance: ArrayLike,
    budget: int,
    weight: ArrayLike | None,
    bound: FiniteBound,
) -> dict[str, Callable[[], Policy]]:
    planners = {
        "asymptotic optimum": lambda: optimal_plan(mdp, variance, weight=weight).policy,
        "faster mixing": lambda: faster_mixing_plan(mdp, variance, budget, weight=weight).policy,
        "fluid relaxation": lambda: bound.policy,
    }
    if mdp.n_states > MIXING_STATES:
        del planners["faster mixing"]
    # Without moves there are no shares to take over.
    if not bound.pair_counts.any():
        del planners["fluid relaxation"]
    return planners


def _best_descent(
    objective: FiniteLoss, starts: list[tuple[str, Policy]]
) -> tuple[Array, str, list[StartRecord], float]:
    """All starts by the fast gradient where it is safe; the leaders are finished exactly."""
    mdp = objective.mdp
    # Without moves every policy is the same, and there is nothing to descend on.
    fast = objective.prices.moves >= CONTOUR_MOVES
    ends: list[tuple[float, Array, str, float, int]] = []
    records: dict[str, StartRecord] = {}
    for name, policy in starts:
        before = objective.value(policy.probability)
        here = blended(mdp, policy.probability)
        method = "contour" if fast and _close(objective, here) else "series"
        here, count = descend(mdp, here, objective.slope(method), STEPS)
        after = objective.value(here)
        # The fast gradient is that of a nearby function where the chain oscillates; a descent
        # that was led astray by it starts again, slowly.
        if method == "contour" and not after <= before:
            here = blended(mdp, policy.probability)
            here, more = descend(mdp, here, objective.slope("series"), STEPS)
            after, count = objective.value(here), count + more
        if not after <= before:
            here, after = policy.probability, before
        ends.append((after, here, name, before, count))
        records[name] = StartRecord(name, before, after, count)
    # Many starts end in the same policy up to rounding: the first of them in order counts.
    ends.sort(key=lambda end: to_8_digits(end[0]))
    finished = []
    for after, here, name, before, count in ends[:FINISHERS]:
        after, here, more, left = _finish(objective, after, here)
        finished.append((after, here, name, left))
        records[name] = StartRecord(name, before, after, count + more)
    after, here, name, left = min(finished, key=lambda end: to_8_digits(end[0]))
    return here, name, list(records.values()), left / after


def _close(objective: FiniteLoss, probability: Array) -> bool:
    """Whether the fast value is at least near the exact one at a start."""
    exact = objective.value(probability)
    return abs(objective.with_gradient(probability, "contour").loss - exact) <= 1e-2 * exact


def _finish(
    objective: FiniteLoss, value: float, probability: Array
) -> tuple[float, Array, int, float]:
    """Round, and descend with gradients that are exact here until nothing is left to gain."""
    mdp, count = objective.mdp, 0
    for attempt in range(5):
        probability, value = rounded(mdp, probability, value, objective.value)
        method = "contour" if objective.contour_is_safe(probability) else "series"
        left = promise(mdp, objective.with_gradient(probability, method).gradient)
        count += 1
        if left <= 0.1 * LOCAL * value or attempt == 4:
            break
        # A promise on the boundary needs the way back inside.
        inside = (1 - 1e-3) * probability + 1e-3 * Policy.uniform(mdp).probability
        further, more = descend(mdp, inside, objective.slope(method), 4 * STEPS)
        count += more
        reached = objective.value(further)
        if not reached < value:
            break
        probability, value = further, reached
    return value, probability, count, left
