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

import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from types import FrameType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import choice, number
from sojourn.arguments import whole as whole_number
from sojourn.errors import ArgumentError, InfiniteLoss, SolverFailure
from sojourn.model import MDP, EndComponent, check_model, maximal_end_components, per_state
from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.plan import Plan, Stats, Status, peak_memory
from sojourn.solvers.frank_wolfe import METHODS as FRANK_WOLFE
from sojourn.solvers.frank_wolfe import Ending, frank_wolfe
from sojourn.solvers.interior_point import balanced, centred, interior_point, own_occupancy
from sojourn.solvers.interior_point_small import LARGEST, REACHED, SmallModel, workspace
from sojourn.solvers.interior_point_small import solve as solve_small
from sojourn.solvers.linear_algebra import Backend, CutFlow, DenseCholesky, Flow, choose_backend
from sojourn.solvers.linear_oracle import LinearOracle
from sojourn.solvers.objectives import Cone, MeanError, Objective, PowerCone

METHODS = ("auto", "interior-point", *FRANK_WOLFE)
"""What ``method=`` accepts: the interior point (which ``"auto"`` is), and the Frank–Wolfe family
for those who want to compare."""

BETWEEN_0_AND_1 = float(np.nextafter(0, 1)), float(np.nextafter(1, 0))

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
    max_iterations: int | None = None,
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
    chain needs to mix. ``progress`` shows a line while a long solve is running. An interrupt
    (Ctrl-C) ends it after the present iteration with the best plan so far, a second one at once.
    ``max_iterations`` is 200 for the interior point and 10 000 for the Frank–Wolfe family unless
    given.
    """
    started = time.perf_counter()
    check_model(mdp)
    n = mdp.n_states
    choice(method, "method", METHODS)
    # A tolerance of 0 would never be met, and a relative one of 1 or more is met by anything.
    fraction = "give a number between 0 and 1, both excluded, such as 1e-9"
    tolerance = number(tolerance, "tolerance", fraction, *BETWEEN_0_AND_1)
    if budget is not None:
        budget = whole_number(budget, "the budget", 1)
    if max_iterations is not None:
        max_iterations = whole_number(max_iterations, "max_iterations", 1)
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

    found = _solve(mdp, region, solved, method, tolerance, max_iterations, progress)

    def whole(values: NDArray, size: int, where: NDArray) -> NDArray:
        if region.whole:
            return values
        out = np.zeros(size)
        out[where] = values
        return out

    prices = whole(found.prices, n, region.states)
    low = None
    if found.low is not None and found.low.any():
        low = whole(found.low, n, region.states)
        low.flags.writeable = False
    allowed = None if region.whole else region.allowed
    best: tuple[NDArray[np.float64], Certificate] | None = None
    for x in _balances(region.flow, found.occupancy):
        candidate = whole(x, mdp.n_pairs, region.pairs)
        proof = certify(mdp, goal, candidate, prices, allowed, low)
        if best is None or _flaws(proof) < _flaws(best[1]):
            best = candidate, proof
        if proof.gap <= tolerance and not any(_flaws(proof)[:2]):
            break
    assert best is not None
    occupancy, proof = best
    status = _status(proof, tolerance, trivial, found)
    if throw and not status.ok and status is not Status.INTERRUPTED:
        hint = "ask for a larger tolerance, or take the plan as it is with throw=False"
        if status is Status.STALLED and _groups(region.flow, found.occupancy):
            hint = (
                "some states are joined with the others by moves of less than a millionth of an "
                f"even share only: plan without those moves for each part, or {hint}"
            )
        raise SolverFailure(f"{status} (gap {proof.gap:.1e}, tolerance {tolerance:g})", hint)
    inside = goal if region.whole else goal.restricted(region.states)
    bandit = inside.lower_bound(np.zeros(region.states.size))
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
        mdp,
        occupancy,
        proof.value,
        proof.bound,
        proof.gap,
        status,
        stats,
        prices,
        goal,
        budget,
        low,
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
        kind = MeanError if objective is None else objective
        goal = kind(sigma2, share) if callable(kind) else kind
    if not isinstance(goal, Objective) or goal.n_states != n:
        raise ArgumentError(
            f"the objective is {goal!r}, not an Objective of {n} states",
            "give a class of sojourn.solvers.objectives: MeanError, PowerMean, WorstState, "
            "LogError or Entropy",
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

    @cached_property
    def small(self) -> SmallModel:
        """The arrays that the compiled kernel for small models reads."""
        return SmallModel.of(self.flow)


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
    chosen = 0
    if components[0].states.size < mdp.n_states:
        # Where nothing matters the largest component serves as well as any.
        wanted = matters if matters.any() else np.ones_like(matters)
        held = np.array([np.count_nonzero(wanted[c.states]) for c in components])
        chosen = int(np.argmax(held))
        if held[chosen] < np.count_nonzero(matters):
            raise _infinite(mdp, matters, components)
    if chosen not in parts.regions:
        parts.regions[chosen] = _restriction(mdp, components[chosen])
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
        rest = "one that remains" if inside[0].size == 1 else f"{inside[0].size} that remain"
        hint = (
            f"give weight 0 to the states that you can do without: with weight 0 for "
            f"{named(np.flatnonzero(drop))} the {rest} can be planned for"
        )
    else:
        hint = "give weight 0 to the states that you can do without"
    return InfiniteLoss(f"the loss is infinite for every plan: {' and '.join(reasons)}", hint)


# -- solving -----------------------------------------------------------------------------------


MOST_CUTS = 1000
"""The largest model for which the equations of nested sets, which are dense, are tried."""

AIM = 0.5
"""The share of the tolerance that the solver aims at: what the certificate subtracts for rounding
must not turn its success into a failure."""

RARE = 1e-6
"""Moves that make up less than this share of an even one are rare."""


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
    low: NDArray[np.float64] | None = None
    """Further digits of the prices."""


Watch = Callable[[int, float], None] | None


def _solve(
    mdp: MDP, region: Region, goal: Objective, method: str, tolerance: float,
    max_iterations: int | None, progress: bool,
) -> _Found:  # fmt: skip
    quick = None
    if method in ("auto", "interior-point"):
        # Within a millisecond there is nothing to show and no need to catch an interrupt.
        quick = _at_once(region, goal.cone(), AIM * tolerance, max_iterations or 200)
        if quick is not None and _stands(region.flow, goal, quick, tolerance):
            return quick
    with _shown(progress, tolerance) as shown, _interruptible(shown) as watch:
        if method not in ("auto", "interior-point"):
            return _frank_wolfe(mdp, region, goal, method, tolerance, max_iterations, watch)
        return _patiently(region.flow, goal, tolerance, max_iterations, watch, quick)


def _at_once(region: Region, cone: Cone, aim: float, max_iterations: int) -> _Found | None:
    """What the compiled kernel finds, where the model is small enough for it."""
    flow = region.flow
    if flow.n_states == 1:
        even = np.full(flow.n_pairs, 1.0 / flow.n_pairs)
        return _Found(even, np.zeros(1), "interior point", "none: there is one state", 0, True)
    if flow.n_states > LARGEST or not isinstance(cone, PowerCone):
        return None
    x, h = np.empty(flow.n_pairs), np.empty(flow.n_states)
    iterations, _, ended = solve_small(
        region.small, cone.weight, cone.power, aim, max_iterations, x, h,
        workspace(flow.n_states, flow.n_pairs),
    )  # fmt: skip
    return _Found(
        x, h, "interior point", "dense Cholesky (compiled)", iterations, ended == REACHED,
        exhausted=ended != REACHED and iterations >= max_iterations,
    )  # fmt: skip


def _patiently(
    flow: Flow, goal: Objective, tolerance: float, max_iterations: int | None, watch: Watch,
    found: _Found | None,
) -> _Found:  # fmt: skip
    """The interior point in NumPy, and with the equations of nested sets where rounding stops
    it (or the compiled kernel, which ``found`` comes from)."""
    aim = AIM * tolerance
    if found is None:
        found = _follow(flow, goal, choose_backend(flow), aim, max_iterations, watch)
    # First the groups of states that the world hardly connects, then those that the plan does.
    for occupancy in (None, found.occupancy):
        if found.interrupted or flow.n_states > MOST_CUTS:
            break
        if _stands(flow, goal, found, tolerance):
            break
        # Whoever limits the iterations wants an answer now.
        if found.exhausted and max_iterations is not None:
            break
        cuts = CutFlow(flow, occupancy)
        again = _follow(cuts, goal, DenseCholesky(cuts), aim, max_iterations, watch, True)
        again.iterations += found.iterations
        again.history = [*found.history, *again.history]
        again.linear_algebra += ", balancing nested sets of states"
        found = again
    return found


def _stands(flow: Flow, goal: Objective, found: _Found, tolerance: float) -> bool:
    """Whether the solver succeeded, and would have even if it were judged by where its policy
    settles."""
    if not found.reached:
        return False
    if flow.n_states > MOST_CUTS or not _groups(flow, found.occupancy):
        return True
    with suppress(SolverFailure):
        eta = flow.sums(own_occupancy(flow, found.occupancy))
        drop = flow.differences(found.prices, found.low)
        margin = np.minimum.reduceat(drop, flow.pair_start[:-1])
        return goal.gap(goal.value(eta), goal.lower_bound(margin)) <= tolerance
    return False


def _frank_wolfe(
    mdp: MDP, region: Region, goal: Objective, method: str, tolerance: float,
    max_iterations: int | None, watch: Watch,
) -> _Found:  # fmt: skip
    flow = region.flow
    part = mdp
    if not region.whole:
        part = MDP(mdp.transitions[region.pairs][:, region.states], flow.pair_start)
    seen = None if watch is None else lambda record: watch(record.iteration, record.gap)
    ended = frank_wolfe(part, goal, method, AIM * tolerance, max_iterations or 10_000, watch=seen)

    def harm(eta: NDArray[np.float64]) -> float:
        """In the unit in which 1e-10 uses up what the tolerance leaves."""
        return 1.2e-10 * goal.gap(goal.value(eta), ended.bound) / tolerance

    x = centred(flow, choose_backend(flow), ended.occupancy, harm)
    # The multipliers of the last linear problem are prices, with the opposite sign.
    last = LinearOracle(part).solve(goal.gradient(flow.sums(ended.occupancy)))
    return _Found(
        x, -last.bias, f"Frank–Wolfe, {ended.method}", "linear oracle", ended.iterations,
        ended.status is Ending.CONVERGED, interrupted=ended.status is Ending.INTERRUPTED,
        exhausted=ended.status is Ending.ITERATIONS,
        history=[(record.iteration, record.gap) for record in ended.history],
    )  # fmt: skip


def _balances(flow: Flow, x: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """x balanced in ways of growing care, for as long as the proof finds fault with it.

    Where moves between groups of states are 1e-9 of all, a rounding error in the balance of a
    state changes the balance of its group by 1e-7, and with it how the *policy* shares its time
    between the groups. So there only what the policy itself settles in is told, which
    elimination finds without loss of digits.
    """
    if _groups(flow, x) or flow.n_pairs == flow.n_states:
        with suppress(SolverFailure):
            yield own_occupancy(flow, x)
            return
    yield x
    if flow.n_states <= MOST_CUTS:
        cuts = CutFlow(flow, x)
        tied = balanced(cuts, DenseCholesky(cuts), x)
        yield tied / tied.sum()


def _groups(flow: Flow, x: NDArray[np.float64]) -> bool:
    """Whether some states are connected with the others by rare moves only."""
    return bool((x > 0).all()) and flow.falls_apart(x, RARE / flow.n_states)


def _flaws(proof: Certificate) -> tuple[bool, bool, float]:
    """What is wrong with an occupancy, worst first: out of balance, or better than can be, which
    rounding alone explains; and its gap."""
    beyond = proof.bound - proof.value > 1e-12 * (1.0 + abs(proof.value))
    return proof.imbalance > 1e-12, beyond, proof.gap


def _follow(
    flow: Flow, goal: Objective, backend: Backend, aim: float, max_iterations: int | None,
    watch: Watch, careful: bool = False,
) -> _Found:  # fmt: skip
    solution = interior_point(
        flow, goal.cone(), backend,
        lambda eta, m: goal.gap(goal.value(eta), goal.lower_bound(m, 1.0)),
        tolerance=aim, max_iterations=max_iterations or 200, watch=watch, feasible_start=careful,
    )  # fmt: skip
    return _Found(
        solution.x, solution.h, "interior point", backend.name, solution.iterations,
        solution.reached, solution.interrupted, solution.exhausted, solution.history,
        solution.h_low,
    )  # fmt: skip


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
def _interruptible(shown: Watch) -> Iterator[Watch]:
    """A watch that ends the solve if Ctrl-C was pressed since the block began.

    The exception itself would come in the middle of compiled code, which turns it into a
    SystemError, or between two arrays that belong together. Handlers of others stay in force.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield shown
        return
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def watch(iteration: int, gap: float) -> None:
        if shown is not None:
            shown(iteration, gap)
        if pressed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)
    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
