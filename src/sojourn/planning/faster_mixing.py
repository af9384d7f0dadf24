r"""Plans that mix faster than the asymptotic optimum, at a small asymptotic price.

The optimal occupancy λ* says where to be in the long run, not how soon a walk gets there: on
the three-state world of Fig. toy_MDP it crosses the middle ever more rarely as the middle's
variance falls, so that any given budget is spent on one side. Sec. 4 of the paper adds the
price of slow mixing to the objective and makes the sum convex by measuring mixing around the
fixed distribution η* of λ*, with D = diag η* and q = √η*:

    "convex"   FMH, Alg. FMH: minimise Σσ²/η_X + ρ/(1 − ‖D^{-1/2}XD^{-1/2} − qqᵀ‖₂) over symmetric
               flows X on the possible moves, ‖η_X − η*‖₂ ≤ slack, η_X ≥ floor (𝒫₁), then find a
               policy for X (𝒫₂, :mod:`sojourn.planning.mixing_projection`).
    "sdp"      FMH-SDP, Eq. SDP_problem: minimise the norm alone, |η_X − η*| ≤ slack per state.
    "joint"    ours: minimise Σσ²/η_λ + ρ/γ(λ) over the occupancies λ ∈ Λ themselves, where γ
               is the share of the variance under η* that one step of λ removes
               (:mod:`sojourn.planning.occupancy_flows`).

The joint form needs no second step, because λ is a policy, and no symmetric moves. Its γ is a
one-sided gap: an eigenvalue near −1 makes the visits of a state *more* regular, so it should not
be paid for. Its ρ = (2/n) Σ weight·σ²(1 − η*)/η*² has the unit of a loss, which S/n has not: to
second order S·𝓛_n exceeds S·𝓛 by (1/n)Σ σ²τ²/η³ with τ² ≤ 2η(1 − η)/γ.

Everything is solved by :mod:`sojourn.solvers.mixing_sdp` with a bound proved by duality.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from sojourn.arguments import choice, number, numbers, start_distribution
from sojourn.errors import ArgumentError, InfeasibleFloor, InfeasibleTarget, SolverFailure
from sojourn.model import MDP, Counting, Policy, check_model, distribution, per_state
from sojourn.planning.fastest_chain import (
    CRITERIA,
    NO_SYMMETRY,
    TwoWayFlows,
    check_criterion,
    name_states,
    require_converged,
)
from sojourn.planning.finite import (
    LARGEST,
    PRIOR_SAMPLE,
    check_range,
    checked_counting,
    finite_loss,
    one_budget,
    reach_notes,
)
from sojourn.planning.mixing_projection import (
    check_projection,
    closest_occupancy,
    least_residual,
    quick_closest_occupancy,
)
from sojourn.planning.occupancy_flows import OccupancyFlows
from sojourn.planning.optimal import optimal_plan
from sojourn.planning.plan import Plan, Status
from sojourn.solvers.feasibility import nearest_in_norm, nearest_rows
from sojourn.solvers.mixing_sdp import MixingProblem, MixingSolution, solve_mixing

Array = NDArray[np.float64]

METHODS = ("joint", "sdp", "convex")
JOINT_CRITERIA = ("one-sided", "additive", "slem")

# A slack of 0 means: within the accuracy to which η* itself is known, relative to it.
_EXACT = 1e-6

# No two distributions are farther from each other, in ℓ₂ or in one state.
_ANYWHERE = 2.0

# Within this share of it a loss is the same loss.
_WORSE = 1e-6

# A world whose best gap is smaller than this mixes in no budget, and beyond a kernel's accuracy.
_HOPELESS = 1e-5


@dataclass(frozen=True)
class Mixing:
    """How a policy mixes, and what it is worth."""

    slem: float
    one_sided_gap: float
    loss: float
    """𝓛, asymptotic."""
    finite_loss: float
    """𝓛_n, exact, for the budget of the plan."""


@dataclass(frozen=True, eq=False)
class MixingPlan:
    """A policy that mixes faster, how much that costs and gains, and the proof.

    ``objective`` is the optimum of the convex problem of ``method`` (of step 1, where there are
    two), ``bound`` what no feasible point of it can go below, and ``gap`` their distance relative
    to the objective (to 1 where the objective is an eigenvalue). ``before`` is the asymptotic
    optimum, ``after`` this plan.
    """

    mdp: MDP
    occupancy: Array
    method: str
    budget: int
    slack: Any
    """As it was used: ``None`` for none, a number, one per state."""
    penalty: float | None
    """ρ; ``None`` where the objective is an eigenvalue alone."""
    criterion: str
    objective: float
    bound: float
    gap: float
    status: Status
    before: Mixing
    after: Mixing
    target: Array
    """η*"""
    flow: Array | None
    """X₁ of step 1 (``None`` for the joint form, which has one step)."""
    projection_distance: float
    """‖η − η₁‖₂ between the policy's distribution and that of step 1."""
    iterations: int
    seconds: float
    notes: tuple[str, ...] = ()
    """What the start and the budget leave without a visit, and whether mixing faster paid."""

    @cached_property
    def policy(self) -> Policy:
        """π(a|s), completed where the plan never goes so that it leads to where it does."""
        return Policy.from_occupancy(self.mdp, self.occupancy)

    @cached_property
    def distribution(self) -> Array:
        """η, the share of time spent in each state."""
        eta = self.mdp.state_sums(self.occupancy)
        eta.flags.writeable = False
        return eta

    @property
    def loss(self) -> float:
        """The asymptotic loss of the returned policy."""
        return self.after.loss

    @property
    def finite_loss(self) -> float:
        """Its exact loss at the budget."""
        return self.after.finite_loss

    def __str__(self) -> str:
        kind = {"joint": "joint form", "sdp": "FMH-SDP", "convex": "FMH"}[self.method]
        if self.slack is None:
            slack = "no limit"
        elif np.ndim(self.slack) == 0:
            slack = f"{float(self.slack):.4g}"
        else:
            slack = f"{np.min(self.slack):.4g} to {np.max(self.slack):.4g}"
        lines = [
            f"Faster-mixing plan by the {kind} for {self.budget} steps, {self.criterion}",
            f"  objective  {self.objective:.10g}",
            f"  bound      {self.bound:.10g}   (gap {self.gap:.1e}, proved)",
            f"  status     {self.status}",
            f"  slack      {slack}",
            f"  {'':24}{'optimal plan':>16}{'this plan':>16}",
        ]
        rows = (
            ("SLEM", self.before.slem, self.after.slem),
            ("one-sided gap", self.before.one_sided_gap, self.after.one_sided_gap),
            ("asymptotic loss", self.before.loss, self.after.loss),
            (f"loss after {self.budget} steps", self.before.finite_loss, self.after.finite_loss),
        )
        lines += [f"  {name:24}{old:>16.6g}{new:>16.6g}" for name, old, new in rows]
        if self.flow is not None:
            lines.append(f"  step 2 moved the distribution by {self.projection_distance:.3g}")
        lines += [f"  note  {note}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"MixingPlan(method={self.method!r}, finite_loss={self.finite_loss:.6g}, "
            f"before={self.before.finite_loss:.6g}, gap={self.gap:.1e})"
        )


def faster_mixing_plan(
    mdp: MDP,
    variance: ArrayLike,
    budget: int,
    method: str = "joint",
    slack: float | ArrayLike | str | None = None,
    floor: float | None = None,
    projection: str = "occupancy",
    criterion: str | None = None,
    reversible: bool = False,
    weight: ArrayLike | None = None,
    penalty: float | None = None,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    tolerance: float = 1e-7,
    throw: bool = True,
) -> MixingPlan:
    """A plan that trades asymptotic loss for mixing, for a budget of n steps.

    ``method``      "joint" (ours), "sdp" (FMH-SDP), "convex" (FMH).
    ``slack``       how far η may be from η*: a number or one per state (for "convex" a radius).
                    ``None``: no limit for "joint", 1/n for the others. 0: η stays η*, so that
                    of all optimal plans the best-mixing one is found. "auto": the slack with
                    the smallest exact finite loss (about 20 solutions).
    ``floor``       η ≥ floor; ``None``: none for "joint", min η*/2 for the others (η̲).
    ``projection``  step 2 of "sdp" and "convex": "occupancy" or "residual" (𝒫₂ as written).
    ``criterion``   "one-sided", "additive" (joint only) or "slem"; ``None``: "one-sided" for
                    "joint", "slem" for the others, of which "one-sided" keeps the upper half
                    of ‖·‖₂ ≤ s.
    ``reversible``  "joint" only: X(λ) = X(λ)ᵀ, a reversible chain (App. relaxing:asm:reversible).
    ``penalty``     ρ; ``None``: (2/n)Σ weight·σ²(1−η*)/η*² for "joint", S/n for "convex".
    ``start``, ``counting``  of the exact finite loss, as in :func:`finite_loss`.

    ``tolerance`` is for the proved gap; a plan that misses it by more than a factor of 10 is an
    error unless ``throw=False``. Dense algebra on matrices of order S and a Cholesky factor of
    the order of the number of pairs or moves: meant for S up to several hundred.
    """
    if isinstance(slack, str) and slack != "auto":
        raise ArgumentError(
            f"there is no slack {slack!r}", 'give a number, one per state, or "auto"'
        )
    question = _Question(
        mdp, variance, budget, method, floor, projection, criterion, reversible, weight, penalty,
        start, counting, tolerance, throw,
    )  # fmt: skip
    if isinstance(slack, str):
        return _best_slack(question)
    return question.answer(slack)


class _Question:
    """The arguments, checked, and what all slacks have in common."""

    def __init__(
        self,
        mdp: MDP,
        variance: ArrayLike,
        budget: int,
        method: str = "joint",
        floor: float | None = None,
        projection: str = "occupancy",
        criterion: str | None = None,
        reversible: bool = False,
        weight: ArrayLike | None = None,
        penalty: float | None = None,
        start: int | ArrayLike | None = None,
        counting: Counting = PRIOR_SAMPLE,
        tolerance: float = 1e-7,
        throw: bool = True,
    ) -> None:
        check_model(mdp)
        choice(method, "method", METHODS)
        check_projection(projection)
        joint = method == "joint"
        self.criterion = ("one-sided" if joint else "slem") if criterion is None else criterion
        check_criterion(self.criterion, JOINT_CRITERIA if joint else CRITERIA)
        if reversible and not joint:
            raise ArgumentError(
                f"reversible=True belongs to method='joint', not {method!r}",
                "step 1 of FMH is reversible anyway, and its step 2 can't be",
            )
        n = mdp.n_states
        self.mdp, self.method, self.reversible = mdp, method, reversible
        self.projection, self.throw = projection, throw
        self.tolerance = number(tolerance, "tolerance", "give a number between 0 and 1", 1e-15, 1.0)
        self.budget = one_budget(budget)
        self.counting = checked_counting(counting)
        self.start = start_distribution(start, n)
        self.variance = per_state(variance, n, "variance", minimum=0.0)
        self.weight = None if weight is None else per_state(weight, n, "weight", minimum=0.0)
        with np.errstate(over="ignore"):
            self.cost = self.variance * (1.0 if self.weight is None else self.weight)
        check_range(self.cost)
        if not self.cost.any():
            raise ArgumentError(
                "no state has a variance, so there is no loss to trade against mixing",
                "give a positive variance (and weight) to at least one state",
            )
        if floor is not None:
            floor = number(floor, "floor", "give a number between 0 and 1, or None", 0.0, 1.0)
        if penalty is not None:
            penalty = number(penalty, "penalty", "give a number >= 0, or None", 0.0, LARGEST)

        self.plan: Plan = optimal_plan(mdp, self.variance, weight=self.weight)
        self.flows = OccupancyFlows.around(mdp, self.plan.distribution, self.cost > 0)
        if reversible:
            self.flows = self.flows.usable(reversible)
        self.target = self.flows.target
        inside = self.cost[self.flows.states]
        if penalty is None:
            penalty = n / self.budget
            if joint:
                # Where the variance is 0 the state may have η = 0: it costs nothing.
                terms = inside * (1.0 - self.target) / self.target**2
                penalty = 2.0 / self.budget * float(terms[inside > 0].sum())
        self.penalty: float | None = None if method == "sdp" else penalty
        self.floor = floor
        if floor is None and not joint:
            self.floor = 0.5 * float(self.target.min())
        self.before = self.measures(self.plan.policy, self.plan.occupancy)

    def measures(self, policy: Policy, occupancy: Array) -> Mixing:
        chain = policy.chain()
        eta = self.mdp.state_sums(occupancy)
        matters = self.cost > 0
        loss = np.inf
        if (eta[matters] > 0).all():
            loss = float((self.cost[matters] / eta[matters]).sum()) / eta.size
        finite = finite_loss(
            policy, self.variance, self.budget, self.start, self.counting, self.weight
        )
        return Mixing(chain.slem, chain.one_sided_gap, loss, float(finite))

    # -- solving --------------------------------------------------------------------------

    def answer(self, slack: float | ArrayLike | None) -> MixingPlan:
        """The plan with that slack."""
        started = time.perf_counter()
        reach = self._reach(slack)
        step = self._joint if self.method == "joint" else self._two_steps
        occupancy, solution, problem, flow, moved = step(reach)
        status = self._status(solution, problem, reach)
        occupancy = _settled(self.mdp, occupancy)
        occupancy.flags.writeable = False
        policy = Policy.from_occupancy(self.mdp, occupancy)
        eta = np.zeros(self.mdp.n_states)
        eta[self.flows.states] = self.target
        scale = 1.0 if problem.penalty is None else abs(solution.value)
        after = self.measures(policy, occupancy)
        return MixingPlan(
            mdp=self.mdp,
            occupancy=occupancy,
            method=self.method,
            budget=self.budget,
            slack=self.slack_used(slack),
            penalty=problem.penalty,
            criterion=self.criterion,
            # x fulfils its constraints to the tolerance, which may put it below the bound.
            objective=max(solution.value, solution.bound),
            bound=solution.bound,
            gap=max(0.0, solution.value - solution.bound) / scale,
            status=status,
            before=self.before,
            after=after,
            target=eta,
            flow=flow,
            projection_distance=moved,
            iterations=solution.iterations,
            seconds=time.perf_counter() - started,
            notes=tuple(self._notes(policy, after.finite_loss)),
        )

    def _notes(self, policy: Policy, loss: float) -> list[str]:
        chain, moves = policy.transition_matrix(), self.counting.moves(self.budget)
        matters = self.cost > 0
        notes = reach_notes(self.mdp, chain, self.start, moves, matters, "this plan never")
        if loss > self.before.finite_loss * (1.0 + _WORSE):
            notes.append(
                f"after {self.budget} steps the optimal plan is the better one: it mixes fast "
                "enough, and this one pays for more. Use that, or slack='auto'"
            )
        return notes

    def slack_used(self, slack: float | ArrayLike | None) -> Any:
        if slack is None:
            return None if self.method == "joint" else 1.0 / self.budget
        array = numbers(slack, "slack")
        return array if array.ndim else float(array)

    def _reach(self, slack: float | ArrayLike | None) -> Array | None:
        """The slack per state of the flows (all equal for a radius)."""
        used = self.slack_used(slack)
        if used is None:
            return None
        if self.method == "convex" and np.ndim(used):
            raise ArgumentError(
                "method='convex' takes its slack as one radius, not one per state",
                "give a number, or use method='sdp', whose slack is a box",
            )
        reach = per_state(used, self.mdp.n_states, "slack", minimum=0.0)[self.flows.states]
        return np.minimum(reach, _ANYWHERE)

    def _limits(self, reach: Array | None) -> dict[str, Any]:
        """low, high and ball of the kernel's problem, relative to the target."""
        eta = self.target
        low = np.full(eta.size, 0.0 if self.floor is None else self.floor) / eta
        if self.method == "convex":
            assert reach is not None
            radius = max(float(reach[0]), _EXACT * float(np.linalg.norm(eta)))
            return {"low": low, "ball": eta / radius}
        if reach is None:
            return {"low": low if self.floor else None}
        relative = np.maximum(reach / eta, _EXACT)
        return {"low": np.maximum(low, 1.0 - relative), "high": 1.0 + relative}

    def _joint(
        self, reach: Array | None
    ) -> tuple[Array, MixingSolution, MixingProblem, Array | None, float]:
        # With η fixed the loss is too, and what is left to minimise is the eigenvalue.
        fixed = reach is not None and not reach.any()
        flows = self.flows
        problem = flows.problem(
            criterion=self.criterion,
            reversible=self.reversible,
            weight=self.cost,
            penalty=None if fixed else self.penalty,
            **self._limits(reach),
        )
        solution = solve_mixing(problem, flows.start(self.criterion), self.tolerance)
        if not np.isfinite(solution.value):
            self._explain(problem, reach)
        x = flows.polished(solution.x, self.reversible)
        return flows.occupancy(x), solution, problem, None, 0.0

    def _two_steps(
        self, reach: Array | None
    ) -> tuple[Array, MixingSolution, MixingProblem, Array | None, float]:
        flows, mdp = self._two_way, self.mdp
        problem = flows.problem(
            two_sided=self.criterion == "slem",
            weight=self.cost[self.flows.states],
            penalty=self.penalty,
            **self._limits(reach),
        )
        solution = solve_mixing(problem, flows.start(), self.tolerance)
        alone = problem.penalty is None and solution.value >= 1.0 - _HOPELESS
        if alone or not np.isfinite(solution.value):
            self._explain(problem, reach)
        flow = flows.flow(solution.x)
        flow /= flow.sum()
        states = self.flows.states
        wide = np.zeros((mdp.n_states, mdp.n_states))
        wide[np.ix_(states, states)] = flow
        first = wide.sum(axis=1)
        if self.projection == "residual":
            policy = least_residual(mdp, first)
            eta = policy.chain().stationary()
            occupancy = policy.occupancy(eta)
        else:
            occupancy = closest_occupancy(mdp, wide, np.where(first > 0, self.floor or 0.0, 0.0))
            occupancy = self._polished(occupancy)
        moved = float(np.linalg.norm(mdp.state_sums(occupancy) - first))
        return occupancy, solution, problem, wide, moved

    @cached_property
    def _two_way(self) -> TwoWayFlows:
        states, mdp = self.flows.states, self.mdp
        adjacency = mdp.adjacency[states][:, states]
        labels = [mdp.state_labels[int(s)] for s in states]
        flows = TwoWayFlows.on(adjacency, self.target, labels)
        flows.require_mixing(self.criterion == "slem")
        return flows

    def _polished(self, occupancy: Array) -> Array:
        flows = self.flows
        x = flows.polished(flows.unknowns(occupancy), reversible=False)
        return flows.occupancy(x)

    # -- what went wrong ------------------------------------------------------------------

    def _status(
        self, solution: MixingSolution, problem: MixingProblem, reach: Array | None
    ) -> Status:
        if solution.converged:
            return Status.OPTIMAL
        if solution.residual <= 1e-5 and solution.gap <= 1e-4:
            return Status.ROUNDING
        self._explain(problem, reach)
        if self.throw:
            require_converged(solution, self.tolerance)
        return Status.STALLED

    def _explain(self, problem: MixingProblem, reach: Array | None) -> None:
        """Raise with the reason why the problem has no (finite) solution, if there is one."""
        eta = self.target
        symmetric = self.method != "joint" or self.reversible
        kind = "symmetric flow" if symmetric else "stationary distribution"
        remedy = NO_SYMMETRY if self.method != "joint" else ""
        if self.reversible:
            remedy = "drop reversible=True"
        equal, right = problem.mass[None, :], np.ones(1)
        if problem.equalities is not None and problem.right is not None:
            equal = np.vstack([equal, problem.equalities])
            right = np.append(right, problem.right)
        low = np.full(eta.size, self.floor or 0.0) / eta
        wide = np.ones(eta.size) if reach is None else np.maximum(reach / eta, _EXACT)
        sums = problem.rows.toarray()
        times, rows = nearest_rows(sums, equal, right, wide, low)
        if not np.isfinite(times) and self.floor:
            raise InfeasibleTarget(
                f"no {kind} on the possible moves stays above the floor {self.floor:g} in every "
                "state",
                "choose a smaller floor" + (f", or {remedy}" if remedy else ""),
            )
        if reach is not None:
            furthest = np.abs(rows - 1.0) >= (times - 1e-6) * wide
            needed = times * float((wide * eta).max())
            if problem.ball is not None:
                rows = nearest_in_norm(sums, equal, right, problem.ball, low)
                distance = np.abs(problem.ball * (rows - 1.0))
                furthest = distance >= 0.5 * distance.max()
                times = float(np.linalg.norm(distance))
                needed = times * float((eta / problem.ball).max())
            if times > 1.0 + 1e-6:
                labels = [self.mdp.state_labels[int(s)] for s in self.flows.states[furthest]]
                raise InfeasibleTarget(
                    f"no {kind} on the possible moves comes within the slack of the target η*: "
                    f"the states {name_states(labels)} need {times:.4g} times as much",
                    f"give a slack of at least {needed:.4g}" + (f", or {remedy}" if remedy else ""),
                )
        joint = self.method == "joint"
        start = self.flows.start(self.criterion) if joint else self._two_way.start()
        alone = replace(problem, penalty=None, weight=np.zeros_like(problem.weight))
        solution = solve_mixing(alone, start, self.tolerance)
        if solution.bound >= 1.0 - _HOPELESS:
            better = "allow more slack"
            if self.criterion == "slem":
                better = "use criterion='one-sided' (going round in step harms no average)"
            elif reach is None:
                better = "plan for one part at a time, with weight 0 for the states of the others"
            short = max(0.0, 1.0 - solution.bound)
            raise InfeasibleTarget(
                f"for every {kind} within reach the eigenvalue that should be small is 1 "
                f"{f'(less {short:.0e}) ' if short else 'or more '}besides that of the stationary "
                f"state: the walk stays in {self._pieces(problem, solution)}, goes round in step, "
                "or is far from the target η*",
                better + (f", or {remedy}" if remedy else ""),
            )

    def _pieces(self, problem: MixingProblem, solution: MixingSolution) -> str:
        """The parts of the world between which next to nothing flows."""
        n = self.target.size
        M = (problem.matrix(solution.x) + problem.shift)[:n, -n:]
        count, piece = connected_components(np.where(np.abs(M) > 1e-4, 1.0, 0.0), directed=False)
        if count == 1:
            return "a part of the world"
        labels = [self.mdp.state_labels[int(s)] for s in self.flows.states]
        parts = ([labels[s] for s in np.flatnonzero(piece == k)] for k in range(min(count, 3)))
        return "one of " + ", ".join(name_states(part) for part in parts)


def _settled(mdp: MDP, occupancy: Array) -> Array:
    """The occupancy of its own policy, exactly stationary, if that policy has only one."""
    policy = Policy.from_occupancy(mdp, occupancy)
    chain = policy.chain()
    if len(chain.recurrent_classes()) > 1:
        return occupancy
    return policy.occupancy(chain.stationary())


# -- how much slack ---------------------------------------------------------------------------


def _slacks(question: _Question, count: int) -> Array:
    """Slacks of interest, evenly spaced in logarithms, up to where they bind nothing."""
    largest = float(question.target.max())
    return np.geomspace(1e-4 * largest, largest, count)


def _best_slack(question: _Question) -> MixingPlan:
    """The slack with the smallest exact finite loss: a coarse search, then golden sections."""
    known: dict[float, MixingPlan | None] = {}

    def loss(log_slack: float) -> float:
        if log_slack not in known:
            known[log_slack] = _attempt(question, float(np.exp(log_slack)))
        plan = known[log_slack]
        return np.inf if plan is None else plan.after.finite_loss

    grid = np.log(_slacks(question, 9)).tolist()
    losses = [loss(point) for point in grid]
    if not np.isfinite(losses).any():
        return question.answer(float(np.exp(grid[-1])))  # raises, and says why
    best = int(np.argmin(losses))
    a, b = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(5):
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        a, b = (a, d) if loss(c) <= loss(d) else (c, b)
    plans = [plan for plan in known.values() if plan is not None]
    for ends in (0.0, None) if question.method == "joint" else (0.0,):
        plan = _attempt(question, ends)
        if plan is not None:
            plans.append(plan)
    return min(plans, key=lambda plan: plan.after.finite_loss)


def _attempt(question: _Question, slack: float | None) -> MixingPlan | None:
    try:
        return question.answer(slack)
    except (InfeasibleTarget, InfeasibleFloor, SolverFailure):
        return None


@dataclass(frozen=True, eq=False)
class MixingTradeoff:
    """What each slack buys: numbers for a table or :func:`sojourn.plots.mixing.draw`.

    NaN where a slack has no solution. ``before`` is the optimal plan.
    """

    method: str
    budget: int
    slack: Array
    slem: Array
    one_sided_gap: Array
    loss: Array
    finite_loss: Array
    before: Mixing


def mixing_tradeoff(
    mdp: MDP,
    variance: ArrayLike,
    budget: int,
    method: str = "joint",
    slacks: ArrayLike | None = None,
    **options: Any,
) -> MixingTradeoff:
    """Mixing and loss as the slack varies; ``options`` are those of :func:`faster_mixing_plan`."""
    question = _Question(mdp, variance, budget, method, **options)
    if slacks is None:
        slacks = np.append(0.0, _slacks(question, 17))
    values = numbers(slacks, "slacks")
    if values.ndim != 1 or values.size == 0 or not (values >= 0).all():
        raise ArgumentError("slacks is not a list of numbers >= 0", "leave it out for a default")
    table = np.full((4, values.size), np.nan)
    for k, value in enumerate(values):
        plan = _attempt(question, float(value))
        if plan is not None:
            after = plan.after
            table[:, k] = after.slem, after.one_sided_gap, after.loss, after.finite_loss
    slem, gap, loss, finite = table
    return MixingTradeoff(method, question.budget, values, slem, gap, loss, finite, question.before)


# -- for learners -----------------------------------------------------------------------------


def fmh_sdp(mdp: MDP, target: ArrayLike, slack: float | ArrayLike, floor: float = 0.0) -> Policy:
    """FMH-SDP for any target, without a report: what Alg. FW-AME-FMH-SDP asks for per episode.

    ``target`` is a distribution over states or an occupancy over pairs (ψ̂⁺). ``slack`` is δ_τ of
    Eq. delta_tau_k, a number or one per state. The policy's distribution is the one in Λ, with
    at least ``floor`` on the target's support, that is closest to that of step 1, and among
    those its flow is the closest. Raises :class:`InfeasibleTarget` where symmetric moves can't
    carry the target, so that the caller can play the target itself. About 5 ms at S = 5 and
    8 ms at S = 10, half of it step 2.
    """
    check_model(mdp)
    floor = number(floor, "floor", "give a number between 0 and 1", 0.0, 1.0)
    eta = numbers(target, "target")
    if eta.shape == (mdp.n_pairs,):
        eta = mdp.state_sums(eta)
    eta = distribution(eta, mdp.n_states, "target")
    reach = np.minimum(per_state(slack, mdp.n_states, "slack", minimum=0.0), _ANYWHERE)
    states = np.flatnonzero(eta > 1e-9)
    inside = eta[states] / eta[states].sum()
    labels = [mdp.state_labels[int(s)] for s in states]
    flows = TwoWayFlows.on(mdp.adjacency[states][:, states], inside, labels)
    flows.require_mixing(two_sided=True)
    relative = np.maximum(reach[states] / inside, _EXACT)
    problem = flows.problem(
        two_sided=True, low=np.maximum(1.0 - relative, floor / inside), high=1.0 + relative
    )
    solution = solve_mixing(problem, flows.start(), tolerance=1e-6)
    if solution.residual > 1e-4:
        raise InfeasibleTarget(
            "no symmetric flow on the possible moves comes within the slack of the target",
            "allow more slack, or play the target itself",
        )
    flow = flows.flow(solution.x)
    wide = np.zeros((mdp.n_states, mdp.n_states))
    wide[np.ix_(states, states)] = flow / flow.sum()
    least = np.zeros(mdp.n_states)
    least[states] = floor
    occupancy = quick_closest_occupancy(mdp, wide, least)
    return Policy.from_occupancy(mdp, np.maximum(occupancy, 0.0))
