"""The plan that is optimal when the variances are known and the time is long.

Prop. asymptotic.relaxation: minimise 𝓛(λ) = (1/S) Σ weight·σ²/η over all stationary occupancies
(Eq. opt.function.asymptotic.lambda), or another objective of :mod:`sojourn.solvers.objectives`.

*When the loss is finite.* A walk ends up in an end component: states, with some of their actions,
where it can stay for ever and still reach each state from each. So a finite loss needs one
*maximal* end component that holds every state that matters (weight·σ² > 0). That every such
state be reachable is not enough: of two rooms with no way back a walk can serve only one, though
their mixture is a stationary occupancy. The problem is restricted to that component.

*Which optimum.* The optimal η is unique on the states that matter, the optimal occupancy often
isn't. Every method returns the analytic centre: of all optimal occupancies the one that
spreads most evenly over the pairs that any of them uses (it maximises their Σ log λ).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError, InfiniteLoss, SolverFailure
from sojourn.model import MDP, EndComponent, maximal_end_components, per_state
from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.plan import Plan, Stats, Status, peak_memory
from sojourn.solvers.interior_point import interior_point
from sojourn.solvers.linear_algebra import Flow, choose_backend
from sojourn.solvers.objectives import MeanError, Objective

METHODS = (
    "auto", "interior-point",
    "frank-wolfe", "line-search", "away-step", "pairwise", "fully-corrective",
)  # fmt: skip
"""What ``method=`` accepts: the interior point (``"auto"``), and the Frank–Wolfe family for those
who want to compare (``"frank-wolfe"`` with its 2/(k+2) steps, the others with exact line search).
"""

ObjectiveLike = Objective | Callable[[NDArray, NDArray | None], Objective]


def optimal_plan(
    mdp: MDP,
    variance: ArrayLike,
    weight: ArrayLike | None = None,
    tolerance: float = 1e-9,
    method: str = "auto",
    throw: bool = True,
    progress: bool = False,
    budget: int | None = None,
    objective: ObjectiveLike | None = None,
) -> Plan:
    """The occupancy with the smallest loss, with a proof of how close to the smallest it is.

    ``variance`` and ``weight`` are given per state (or one number for all). ``objective`` is a
    class of :mod:`sojourn.solvers.objectives` (or any function of variance and weight that
    returns an instance), the mean error by default. ``method`` is one of :data:`METHODS`.

    The solver stops when the proved gap is within ``tolerance``. If that can't be reached the
    plan is still returned where its gap is below 1e-6 or ``throw`` is false, and its ``status``
    says so; otherwise :class:`SolverFailure` is raised. :class:`InfiniteLoss` is raised where no
    walk can keep visiting all the states that matter.

    With ``budget`` (steps to spend) the plan's ``notes`` also compare it with the time that the
    chain needs to mix. ``progress`` shows a line while a long solve is running; an interrupt
    (Ctrl-C) ends it with the best plan so far.
    """
    started = time.perf_counter()
    n = mdp.n_states
    if method not in METHODS:
        raise ArgumentError(
            f"there is no method {method!r}", f"use one of {', '.join(map(repr, METHODS))}"
        )
    # A tolerance of 0 or NaN would never be met, and a relative one above 1 is met by anything.
    if not 0.0 < tolerance < 1.0:
        raise ArgumentError(f"the tolerance {tolerance} is not between 0 and 1")
    if budget is not None and not budget >= 1:
        raise ArgumentError(f"the budget {budget} is not a positive number of steps")
    goal = _goal(mdp, variance, weight, objective)

    matters = goal.matters
    region = _region(mdp, matters)
    trivial = not matters.any() and goal.silent
    if trivial:
        # Every plan is perfect, so treat all states alike, as a user without numbers would.
        solved: Objective = MeanError(np.ones(region.flow.n_states))
    elif region.whole:
        solved = goal
    else:
        solved = goal.restricted(region.states)

    with _shown(progress, tolerance) as watch:
        found = _solve(mdp, region, solved, method, tolerance, watch)

    occupancy = found.occupancy
    prices = np.zeros(n)
    if region.whole:
        prices = found.prices
    else:
        occupancy = np.zeros(mdp.n_pairs)
        occupancy[region.pairs] = found.occupancy
        prices[region.states] = found.prices
    proof = certify(mdp, goal, occupancy, prices, None if region.whole else region.allowed)
    status = _status(proof, tolerance, trivial, found)
    if throw and not status.ok and status is not Status.INTERRUPTED:
        raise SolverFailure(
            f"{status} (gap {proof.gap:.1e}, tolerance {tolerance:g})",
            "ask for a larger tolerance, or take the plan as it is with throw=False",
        )
    bandit = goal.restricted(region.states).lower_bound(np.zeros(region.states.size))
    occupancy.flags.writeable = prices.flags.writeable = False
    stats = Stats(
        method=found.method,
        linear_algebra=found.linear_algebra,
        iterations=found.iterations,
        seconds=time.perf_counter() - started,
        peak_mib=peak_memory(),
        bandit_bound=bandit,
        distance_from_bandit=proof.value / bandit - 1.0 if bandit > 0 and goal.relative else
        proof.value - bandit,
        history=tuple(found.history),
    )  # fmt: skip
    return Plan(
        mdp, occupancy, proof.value, proof.bound, proof.gap, status, stats, prices, goal, budget
    )


def _goal(
    mdp: MDP, variance: ArrayLike, weight: ArrayLike | None, objective: ObjectiveLike | None
) -> Objective:
    n = mdp.n_states
    if isinstance(objective, Objective):
        goal: Objective = objective
    else:
        sigma2 = per_state(variance, n, "variance", minimum=0.0)
        share = None if weight is None else per_state(weight, n, "weight", minimum=0.0)
        goal = (MeanError if objective is None else objective)(sigma2, share)
    if not isinstance(goal, Objective) or goal.n_states != n:
        raise ArgumentError(
            f"the objective is {goal!r}, not an Objective of {n} states",
            "give a class such as sojourn.solvers.objectives.WorstState",
        )
    return goal


# -- where the walk can stay ------------------------------------------------------------------


@dataclass(eq=False)
class Region:
    """The maximal end component that a plan uses, as a model of its own."""

    whole: bool
    states: NDArray[np.int64]
    pairs: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    flow: Flow


@dataclass(eq=False)
class _Decomposition:
    """What is worth keeping of a model between two plans for it."""

    components: list[EndComponent]
    regions: dict[int, Region]


_known: dict[int, tuple[weakref.ref[MDP], _Decomposition]] = {}
KEEP_PAIRS = 20_000
"""Larger models are decomposed again for each plan: it is quick beside the solve, and what
would be kept is large."""


def _decomposition(mdp: MDP) -> _Decomposition:
    entry = _known.get(id(mdp))
    if entry is not None and entry[0]() is mdp:
        return entry[1]
    fresh = _Decomposition(maximal_end_components(mdp), {})
    if mdp.n_pairs <= KEEP_PAIRS:
        key = id(mdp)
        _known[key] = (weakref.ref(mdp, lambda _: _known.pop(key, None)), fresh)
    return fresh


def _region(mdp: MDP, matters: NDArray[np.bool_]) -> Region:
    parts = _decomposition(mdp)
    components = parts.components
    if len(components) == 1 or not matters.any():
        chosen = int(np.argmax([c.states.size for c in components]))
    else:
        held = np.array([np.count_nonzero(matters[c.states]) for c in components])
        chosen = int(np.argmax(held))
    component = components[chosen]
    if np.count_nonzero(matters[component.states]) < np.count_nonzero(matters):
        raise _infinite(mdp, matters, components)
    if chosen not in parts.regions:
        parts.regions[chosen] = _restriction(mdp, component)
    return parts.regions[chosen]


def _restriction(mdp: MDP, component: EndComponent) -> Region:
    states, pairs = component
    if states.size == mdp.n_states and pairs.size == mdp.n_pairs:
        everything = np.ones(mdp.n_pairs, dtype=bool)
        return Region(True, states, pairs, everything, Flow(mdp.transitions, mdp.pair_start))
    allowed = np.zeros(mdp.n_pairs, dtype=bool)
    allowed[pairs] = True
    count = mdp.state_sums(allowed.astype(np.int64))[states]
    start = np.concatenate(([0], np.cumsum(count)))
    inside = mdp.transitions[pairs][:, states].tocsr()
    return Region(False, states, pairs, allowed, Flow(inside, start))


def _infinite(mdp: MDP, matters: NDArray[np.bool_], components: list[EndComponent]) -> InfiniteLoss:
    """The error that names the states which no single walk can keep visiting."""

    def named(states: NDArray[np.int64]) -> str:
        shown = ", ".join(repr(mdp.state_labels[int(s)]) for s in states[:4])
        return shown + (f" and {states.size - 4} more" if states.size > 4 else "")

    inside = [c.states[matters[c.states]] for c in components]
    inside = sorted((s for s in inside if s.size), key=lambda s: (-s.size, int(s[0])))
    covered = np.zeros(mdp.n_states, dtype=bool)
    for group in inside:
        covered[group] = True
    lost = np.flatnonzero(matters & ~covered)
    reasons = []
    if lost.size:
        reasons.append(f"no walk can come back to {named(lost)} for ever")
    if len(inside) > 1:
        groups = "; ".join(f"{{{named(s)}}}" for s in inside[:4])
        more = f"; and {len(inside) - 4} more" if len(inside) > 4 else ""
        reasons.append(
            f"a walk stays in one end component, and those that matter are spread over "
            f"{len(inside)} of them: {groups}{more}"
        )
    drop = matters.copy()
    if inside:
        drop[inside[0]] = False
        hint = (
            f"give weight 0 to the states that you can do without: with weight 0 for "
            f"{named(np.flatnonzero(drop))} the other {inside[0].size} can be planned for"
        )
    else:
        hint = "give weight 0 to the states that you can do without"
    return InfiniteLoss(f"the loss is infinite for every plan: {' and '.join(reasons)}", hint)


# -- solving -----------------------------------------------------------------------------------


@dataclass
class _Found:
    occupancy: NDArray[np.float64]
    prices: NDArray[np.float64]
    method: str
    linear_algebra: str
    iterations: int
    reached: bool
    interrupted: bool = False
    exhausted: bool = False
    history: list[tuple[int, float]] | tuple[()] = ()


Watch = Callable[[int, float], None] | None


def _solve(
    mdp: MDP, region: Region, goal: Objective, method: str, tolerance: float, watch: Watch
) -> _Found:
    flow = region.flow
    if method in ("auto", "interior-point"):
        backend = choose_backend(flow)
        solution = interior_point(
            flow, goal.cone(), backend,
            lambda eta, m: goal.gap(goal.value(eta), goal.lower_bound(m, 1.0)),
            tolerance=0.5 * tolerance, watch=watch,
        )  # fmt: skip
        return _Found(
            solution.x, solution.h, "interior point", backend.name, solution.iterations,
            solution.reached, solution.interrupted, history=solution.history,
        )  # fmt: skip
    raise NotImplementedError


def _status(proof: Certificate, tolerance: float, trivial: bool, found: _Found) -> Status:
    if trivial:
        return Status.TRIVIAL
    if proof.gap <= tolerance:
        return Status.OPTIMAL
    if found.interrupted:
        return Status.INTERRUPTED
    if found.exhausted:
        return Status.ITERATIONS
    return Status.ROUNDING if proof.gap <= 1e-6 else Status.STALLED


@contextmanager
def _shown(progress: bool, tolerance: float) -> Iterator[Watch]:
    """A line that tells how far a long solve has come."""
    if not progress:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("optimal plan"), BarColumn(), TextColumn("{task.fields[said]}"),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("optimal plan", total=1.0, said="starting")

        def watch(iteration: int, gap: float) -> None:
            if gap > 0 and np.isfinite(gap):
                done = min(max(np.log(min(gap, 1.0)) / np.log(tolerance), 0.0), 1.0)
                bar.update(task, completed=float(done))
            bar.update(task, said=f"iteration {iteration}, gap {gap:.1e}")

        yield watch
