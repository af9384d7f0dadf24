"""The Frank–Wolfe family: convex functions of the distribution, one linear problem at a time.

Minimise f(η_λ) over Λ_floor. At λ_k one linear problem gives a vertex and a proof,

    ψ_k = argmin_{λ ∈ Λ_floor} ⟨∇f(η_k), η_λ⟩,     f(η_k) − f* ≤ g_k = ⟨∇f(η_k), η_k − η_{ψ_k}⟩

(g_k is the *Frank–Wolfe gap*; we take the oracle's proved bound for its second term). The members
differ in how they move:

    open loop          λ ← (1−γ)λ + γψ, γ = 2/(k+2): needs f only through ∇f. O(1/k).
    line search        the same direction, the best γ ∈ [0, 1]. Still O(1/k): when the optimum
                       lies on a face, the iterates zigzag between its vertices.
    away step          keeps λ as a mixture Σ α_i v_i; may also move *away* from the worst atom
                       of the mixture, which can drop it. Linear convergence (Guélat & Marcotte
                       1986; Lacoste-Julien & Jaggi 2015).
    pairwise           moves mass from the worst atom to ψ at once.
    fully corrective   adds ψ to the atoms and re-optimises all their weights.

Where f is infinite outside the interior (σ²/η) and without a floor, smoothness constants are
infinite too and the rates are not promised; the gaps hold whatever happens.

For the optimum itself use the interior point (``optimal_plan``): these are for research, and what
FW-AME does with one step per episode.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, nnls

from sojourn.errors import ArgumentError, InfeasibleFloor, InfiniteLoss, SolverFailure
from sojourn.model import MDP, Policy
from sojourn.solvers.linear_oracle import LinearOracle, Status, count_classes
from sojourn.solvers.objectives import Objective, WorstState

Floats = NDArray[np.float64]


class Ending(Enum):
    """How a Frank–Wolfe method ended."""

    CONVERGED = "the proved gap is within the tolerance"
    ITERATIONS = "the iteration limit was reached"
    STALLED = "rounding allows no further descent"
    INTERRUPTED = "interrupted: the last point, and its gap is proved"

    def __str__(self) -> str:
        return str(self.value)


class Record(NamedTuple):
    """One iteration, as it began."""

    iteration: int
    value: float
    gap: float
    """Proved: relative or absolute, as the objective measures gaps; of the best bound so far."""
    fw_gap: float
    """g_k, in the unit of the objective."""
    step: float
    """γ of the move that led here."""
    move: str
    """What kind of move that was."""
    atoms: int
    """Atoms in the mixture (0 where a method keeps none)."""


@dataclass(frozen=True, eq=False)
class FrankWolfeResult:
    """Where a Frank–Wolfe method ended; ``value`` − ``bound`` is proved."""

    occupancy: Floats
    value: float
    bound: float
    gap: float
    iterations: int
    status: Ending
    history: list[Record]
    method: str
    recurrent_classes: int


# -- what all methods share ------------------------------------------------------------------------


@dataclass
class Problem:
    """A function, the set it is minimised over, and where to start."""

    mdp: MDP
    objective: Objective
    oracle: LinearOracle
    start: Floats


@dataclass
class Point:
    """Where a method is: all that its next step needs."""

    occupancy: Floats
    eta: Floats
    atoms: list[Floats] = field(default_factory=list)
    etas: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """The distributions of the atoms, one row each."""
    weight: Floats = field(default_factory=lambda: np.empty(0))
    step: float = 0.0
    move: str = "start"


@dataclass
class Look:
    """What can be seen from a point: value, gradient, the vertex that it points to, the gap."""

    value: float
    gradient: Floats
    vertex: Floats
    eta: Floats
    gap: float


def look(problem: Problem, point: Point) -> Look:
    """One gradient and one linear problem."""
    gradient = problem.objective.gradient(point.eta)
    answer = problem.oracle.solve(gradient)
    # A tiny error in the vertex only makes the step a little worse; the gap uses the bound.
    if answer.status is not Status.OPTIMAL and not np.isfinite(answer.gap):
        raise SolverFailure(
            f"the linear oracle failed: {answer.status.value}",
            "the interior point (optimal_plan) gets by without it",
        )
    return Look(
        problem.objective.value(point.eta), gradient, answer.occupancy,
        problem.mdp.state_sums(answer.occupancy),
        max(float(gradient @ point.eta) - answer.bound, 0.0),
    )  # fmt: skip


def best_step(objective: Objective, eta: Floats, direction: Floats, longest: float) -> float:
    """argmin_γ f(η + γ·direction) over [0, longest]: the root of the slope, which increases."""

    def slope(gamma: float) -> float:
        at = np.maximum(eta + gamma * direction, 0.0)
        with np.errstate(all="ignore"):
            value = float(objective.gradient(at) @ direction)
        # Where a state loses all its mass the slope is +∞ (or ∞ − ∞).
        return value if math.isfinite(value) else 1e300

    if not slope(0.0) < 0.0:
        return 0.0
    if slope(longest) <= 0.0:
        return longest
    return float(brentq(slope, 0.0, longest, xtol=1e-16 * longest, rtol=1e-12, maxiter=200))


class Method(ABC):
    """How to move: ``init`` makes the first point, ``step`` the next one."""

    name: str

    def init(self, problem: Problem) -> Point:
        """The starting point."""
        return Point(problem.start, problem.mdp.state_sums(problem.start))

    @abstractmethod
    def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
        """The next point; k = 1, 2, … counts the steps."""


# -- the members -----------------------------------------------------------------------------------


class OpenLoop(Method):
    """γ_k given in advance, 2/(k+2) by default (Frank & Wolfe 1956; Jaggi 2013).

    Counting starts at k = 1: γ_0 = 1 would land on a vertex, where most states are not visited
    at all and the loss is infinite.
    """

    name = "frank-wolfe"

    def __init__(self, schedule: Callable[[int], float] = lambda k: 2.0 / (k + 2.0)) -> None:
        self.schedule = schedule

    def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
        gamma = self.schedule(k)
        return _towards(point, seen, gamma)


class LineSearch(Method):
    """The best γ on the segment from λ to the vertex."""

    name = "line-search"

    def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
        gamma = best_step(problem.objective, point.eta, seen.eta - point.eta, 1.0)
        return _towards(point, seen, gamma)


class _Mixture(Method):
    """Methods that keep λ = Σ α_i v_i. The start is an atom like any other, and is dropped in
    time; it need not be a vertex."""

    def init(self, problem: Problem) -> Point:
        eta = problem.mdp.state_sums(problem.start)
        return Point(problem.start, eta, [problem.start], eta[None].copy(), np.ones(1))


class AwayStep(_Mixture):
    """Towards ψ, or away from the worst atom, whichever direction is steeper."""

    name = "away-step"

    def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
        worst = int(np.argmax(point.etas @ seen.gradient))
        share = float(point.weight[worst])
        towards = seen.eta - point.eta
        away = point.eta - point.etas[worst]
        if share < 1.0 and seen.gradient @ away < seen.gradient @ towards:
            longest = share / (1.0 - share)
            gamma = best_step(problem.objective, point.eta, away, longest)
            weight = (1.0 + gamma) * point.weight
            weight[worst] = 0.0 if gamma == longest else weight[worst] - gamma
            return _mixture(point.atoms, point.etas, weight, gamma, "away")
        gamma = best_step(problem.objective, point.eta, towards, 1.0)
        atoms, etas, weight, at = _with_atom(point, seen)
        weight = (1.0 - gamma) * weight
        weight[at] += gamma
        return _mixture(atoms, etas, weight, gamma, "towards")


class Pairwise(_Mixture):
    """From the worst atom to ψ, leaving all other weights alone."""

    name = "pairwise"

    def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
        worst = int(np.argmax(point.etas @ seen.gradient))
        longest = float(point.weight[worst])
        direction = seen.eta - point.etas[worst]
        gamma = best_step(problem.objective, point.eta, direction, longest)
        atoms, etas, weight, at = _with_atom(point, seen)
        weight[at] += gamma
        weight[worst] = 0.0 if gamma == longest else weight[worst] - gamma
        return _mixture(atoms, etas, weight, gamma, "pairwise")


class FullyCorrective(_Mixture):
    """Re-optimise all weights after every new atom (simplicial decomposition).

    In the cone form of the objective (see :mod:`sojourn.solvers.objectives`) the weights need
    not sum to 1: minimise Σ_s φ_s(η_s) + η_s over η = Σ α_i η_i, α ≥ 0. Newton's method on it:
    each quadratic model is a non-negative least-squares problem, whose solution also says which
    atoms to drop, followed by a line search.
    """

    name = "fully-corrective"

    def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
        atoms, etas, weight, _ = _with_atom(point, seen)
        cone = problem.objective.cone()
        alpha = weight + 1e-3 * (weight == 0)
        alpha *= cone.typical.sum() / alpha.sum()
        for _ in range(50):
            eta = alpha @ etas
            slope, root = cone.slope(eta) + 1.0, np.sqrt(cone.curvature(eta))
            used = root > 0
            target = root[used] * eta[used] - slope[used] / root[used]
            # A state that doesn't matter still costs the steps spent there.
            extra = etas[:, ~used].sum(axis=1)
            system, right = (root[used] * etas[:, used]).T, target
            if extra.any():
                # min ½‖Aα − b‖² + ⟨extra, α⟩ as least squares: complete b by one row.
                system, right = _with_linear_term(system, right, extra)
            goal = nnls(system, right, maxiter=50 * alpha.size)[0]
            change = goal - alpha
            # The drop is of second order: an error of 1e-9 in the weights, which the gap shows,
            # is 1e-18 in it.
            drop = float(slope @ (change @ etas))
            if not drop < 0.0 or np.abs(change).max() <= 1e-14 * alpha.sum():
                break
            gamma = _cone_step(cone.slope, eta, change @ etas)
            if gamma == 0.0:
                break
            alpha = np.maximum(alpha + gamma * change, 0.0)
            if gamma == 1.0:
                alpha[goal == 0] = 0.0
        there = _mixture(atoms, etas, alpha / alpha.sum(), 1.0, "corrective")
        if np.array_equal(there.eta, point.eta):
            there.step = 0.0
        return there


def _with_linear_term(system: Floats, right: Floats, extra: Floats) -> tuple[Floats, Floats]:
    """Rows appended so that ½‖Aα − b‖² gains ⟨extra, α⟩, up to a constant and a tiny square."""
    small = 1e-6 * (np.abs(system).max() or 1.0) / extra.max()
    return np.vstack([system, small * extra]), np.append(right, -1.0 / small)


def _cone_step(slope_of: Callable[[Floats], Floats], eta: Floats, direction: Floats) -> float:
    def slope(gamma: float) -> float:
        with np.errstate(all="ignore"):
            value = float((slope_of(eta + gamma * direction) + 1.0) @ direction)
        return value if math.isfinite(value) else 1e300

    if slope(1.0) <= 0.0:
        return 1.0
    if not slope(0.0) < 0.0:
        return 0.0
    return float(brentq(slope, 0.0, 1.0, xtol=1e-16, rtol=1e-10, maxiter=200))


def _towards(point: Point, seen: Look, gamma: float) -> Point:
    return Point(
        (1.0 - gamma) * point.occupancy + gamma * seen.vertex,
        (1.0 - gamma) * point.eta + gamma * seen.eta,
        step=gamma,
        move="towards",
    )


def _with_atom(point: Point, seen: Look) -> tuple[list[Floats], Floats, Floats, int]:
    """The mixture with ψ as an atom (weight 0 if it is new), and where ψ is in it."""
    near = np.flatnonzero(np.abs(point.etas - seen.eta).max(axis=1) < 1e-12)
    for i in near:
        if np.abs(point.atoms[i] - seen.vertex).max() < 1e-12:
            return point.atoms, point.etas, point.weight.copy(), int(i)
    return (
        [*point.atoms, seen.vertex],
        np.vstack([point.etas, seen.eta]),
        np.append(point.weight, 0.0),
        len(point.atoms),
    )


def _mixture(atoms: list[Floats], etas: Floats, weight: Floats, step: float, move: str) -> Point:
    """The point Σ α_i v_i, without the atoms that have no weight left, summed afresh."""
    kept = np.flatnonzero(weight > 0)
    weight = weight[kept] / weight[kept].sum()
    atoms, etas = [atoms[i] for i in kept], etas[kept]
    occupancy = np.zeros_like(atoms[0])
    for share, atom in zip(weight, atoms):
        occupancy += share * atom
    return Point(occupancy, weight @ etas, atoms, etas, weight, step, move)


METHODS: dict[str, Callable[[], Method]] = {
    method.name: method for method in (OpenLoop, LineSearch, AwayStep, Pairwise, FullyCorrective)
}


# -- the loop --------------------------------------------------------------------------------------


def frank_wolfe(
    mdp: MDP,
    objective: Objective,
    variant: str | Method = "away-step",
    tolerance: float = 1e-6,
    max_iterations: int = 10_000,
    floor: float = 0.0,
    start: Floats | None = None,
    watch: Callable[[Record], None] | None = None,
) -> FrankWolfeResult:
    """Minimise ``objective`` over Λ_floor (distribution ≥ **2·floor**, as in the paper).

    ``variant`` is one of the names in :data:`METHODS` or a :class:`Method` of your own. The
    default start is the uniform policy's occupancy. ``tolerance`` is on the proved gap, as the
    objective measures gaps (relative for errors). ``watch`` is called with every record; if it
    raises KeyboardInterrupt, the result is the point that the record is about.
    """
    if isinstance(variant, str):
        if variant not in METHODS:
            raise ArgumentError(
                f"there is no Frank–Wolfe variant {variant!r}",
                f"use one of {', '.join(METHODS)}, or an object of your own",
            )
        method = METHODS[variant]()
    else:
        method = variant
    if isinstance(objective, WorstState):
        raise ArgumentError(
            "the largest error is not smooth, and Frank–Wolfe methods don't converge on it",
            "use the interior point, or a power mean with a large power",
        )
    if objective.n_states != mdp.n_states:
        raise ArgumentError(
            f"the objective has {objective.n_states} states, the model {mdp.n_states}",
            "make it from the variances of this model",
        )
    if not 0.0 <= floor < np.inf:
        raise ArgumentError(f"floor is {floor}", "give one finite number >= 0")
    oracle = LinearOracle(mdp, 2.0 * floor)
    problem = Problem(mdp, objective, oracle, _start(oracle, objective, start))
    return iterate(method, problem, tolerance, max_iterations, watch)


def iterate(
    method: Method,
    problem: Problem,
    tolerance: float,
    max_iterations: int,
    watch: Callable[[Record], None] | None = None,
) -> FrankWolfeResult:
    """Steps of any method until the gap is small, with the best bound seen on the way."""
    objective = problem.objective
    point = method.init(problem)
    history: list[Record] = []
    bound, best, idle = -math.inf, math.inf, 0
    k = 0
    while True:
        seen = look(problem, point)
        bound = max(bound, seen.value - seen.gap)
        gap = objective.gap(seen.value, bound)
        history.append(
            Record(k, seen.value, gap, seen.gap, point.step, point.move, len(point.atoms))
        )
        interrupted = False
        if watch is not None:
            try:
                watch(history[-1])
            except KeyboardInterrupt:
                interrupted = True
        idle = 0 if gap < best else idle + 1
        best = min(best, gap)
        if gap <= tolerance:
            ending = Ending.CONVERGED
        elif interrupted:
            ending = Ending.INTERRUPTED
        elif (point.step == 0.0 and k > 0) or idle > 1000:
            ending = Ending.STALLED
        elif k >= max_iterations:
            ending = Ending.ITERATIONS
        else:
            k += 1
            point = method.step(problem, point, seen, k)
            continue
        return FrankWolfeResult(
            point.occupancy, seen.value, bound, gap, k, ending, history, method.name,
            count_classes(problem.mdp, point.occupancy),
        )  # fmt: skip


def _start(oracle: LinearOracle, objective: Objective, start: Floats | None) -> Floats:
    mdp = oracle.mdp
    if start is None:
        x = np.zeros(mdp.n_pairs)
        inside = sum(component.states.size for component in oracle.components)
        for part, component in zip(oracle.parts, oracle.components):
            share = component.states.size / inside
            x[component.pairs] = share * Policy.uniform(part).occupancy()
        if (mdp.state_sums(x) < oracle.lower).any():
            answer = oracle.solve(objective.gradient(np.maximum(mdp.state_sums(x), 1e-12)))
            if answer.status is Status.INFEASIBLE:
                largest = 0.5 * oracle.scale[0] * float(oracle.lower.max())
                raise InfeasibleFloor(
                    f"no stationary occupancy gives every state at least 2·floor = "
                    f"{oracle.lower.max():.6g}",
                    f"the largest feasible floor is {largest:.6g}",
                    largest=largest,
                )
            x = answer.occupancy
    else:
        x = np.asarray(start, dtype=float)
        eta = mdp.state_sums(x) if x.shape == (mdp.n_pairs,) else np.full(mdp.n_states, np.nan)
        if not (
            (x >= 0).all()
            and abs(float(x.sum()) - 1.0) < 1e-9
            and np.abs(mdp.flow_residual(x)).max() < 1e-9
            and (eta >= oracle.lower * (1.0 - 1e-9)).all()
        ):
            raise ArgumentError(
                "the start is not a stationary occupancy that keeps to the floor",
                "Policy(...).occupancy() makes one",
            )
    if not math.isfinite(objective.value(mdp.state_sums(x))):
        raise InfiniteLoss(
            "the objective is infinite at the start: a state that matters is not visited",
            "start from an occupancy that visits all of them",
        )
    return x
