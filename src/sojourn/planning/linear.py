"""The cheapest stationary occupancy for a linear cost: min ⟨cost, λ⟩ over Λ_floor.

Λ is the set of stationary occupancies (Eq. eq:state.action.stationary), and (Prop.
prop:asymptotic.relaxation)

    Λ_floor = { λ ∈ Λ : Σ_a λ(s,a) ≥ 2·floor for every state s }.

**Mind the 2**: as in the paper, ``floor`` is *half* of what every state gets at least. Every
Frank–Wolfe method, and FW-AME (Alg. FW-AME), solves one such problem per step.

A floor can ask for too much. Then there is either an :class:`InfeasibleFloor` that says which
floor is the largest, or the bounds shrink to what can be had: with η_u the distribution of the
uniform policy, every state is asked for min(2·floor, η_u(s)/2), which the uniform policy itself
over-fulfils.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import number, numbers
from sojourn.errors import ArgumentError, InfeasibleFloor, SolverFailure
from sojourn.model import MDP, Policy, check_model
from sojourn.solvers.linear_oracle import Answer, DenseOracle, LinearOracle, Status

ON_INFEASIBLE = ("raise", "shrink")

CLOSE = 1e-5
"""An error up to which an answer is still given without a proof of optimality. It takes moves
with probabilities of the order of 1e-10 to get none."""


@dataclass(frozen=True, eq=False)
class LinearResult:
    """The answer of :func:`linear_result`, with its proof and what became of the floor."""

    answer: Answer
    lower: NDArray[np.float64]
    """The bound on each state's distribution that was used in the end."""
    shrunk: bool
    """Whether the floor could not be met and was shrunk."""

    @property
    def occupancy(self) -> NDArray[np.float64]:
        return self.answer.occupancy

    @property
    def recurrent_classes(self) -> int:
        """More than one: a walk with this policy stays in the class where it starts, and never
        sees the occupancy. It can happen only where a floor is active."""
        return self.answer.recurrent_classes


def linear_oracle(
    mdp: MDP, cost: ArrayLike, floor: float = 0.0, infeasible: str = "raise"
) -> NDArray[np.float64]:
    """The occupancy (one number per pair) that minimises ⟨cost, λ⟩ over Λ_floor.

    ``cost`` has one number per state or one per pair. ``floor`` asks for a distribution of at
    least **2·floor** in every state. ``infeasible`` says what happens when that is impossible:
    ``"raise"`` an :class:`InfeasibleFloor` (its ``largest`` is the largest feasible floor), or
    ``"shrink"`` the bounds (see :mod:`sojourn.planning.linear`; :func:`linear_result` tells
    whether that happened). Optimality is proved by duality before the answer is given.
    """
    return linear_result(mdp, cost, floor, infeasible).occupancy


def linear_result(
    mdp: MDP, cost: ArrayLike, floor: float = 0.0, infeasible: str = "raise"
) -> LinearResult:
    """:func:`linear_oracle` with everything it knows: duals, proof, recurrent classes."""
    g = _checked_cost(mdp, cost)
    lower, shrunk = lower_bounds(mdp, floor, infeasible)
    oracle = LinearOracle(mdp, lower)
    answer = oracle.solve(g)
    if answer.status is not Status.OPTIMAL and not oracle.error(g, answer) <= CLOSE:
        raise SolverFailure(
            f"the linear oracle found no proved answer ({answer.status.value}; relative error "
            f"up to {oracle.error(g, answer):.1g})",
            "are there moves with probabilities far below 1e-10?",
        )
    return LinearResult(answer, lower, shrunk)


def lower_bounds(
    mdp: MDP, floor: float, infeasible: str = "raise"
) -> tuple[NDArray[np.float64], bool]:
    """What ``floor`` asks of the distribution (2·floor per state), made feasible where asked.

    Returns the bounds, one per state, and whether they had to shrink. They depend on the model
    alone, so a method that solves many problems computes them once.
    """
    check_model(mdp)
    if not (isinstance(infeasible, str) and infeasible in ON_INFEASIBLE):
        raise ArgumentError(
            f"infeasible={infeasible!r} is not known", f"use one of {', '.join(ON_INFEASIBLE)}"
        )
    floor = number(floor, "floor", "give one finite number >= 0", 0.0)
    lower = np.full(mdp.n_states, 2.0 * float(floor))
    if not floor > 0:
        return lower, False
    even = even_distribution(mdp)
    if (even >= lower).all():
        return lower, False
    oracle = LinearOracle(mdp, lower)
    if oracle.solve(np.zeros(mdp.n_states)).status is not Status.INFEASIBLE:
        return lower, False
    if infeasible == "shrink":
        return np.minimum(lower, 0.5 * even), True
    largest = oracle.scale[0] * float(floor)
    never = np.flatnonzero(even == 0.0)
    why = (
        f"; state {mdp.state_labels[int(never[0])]!r} can't be visited again and again"
        if never.size
        else ""
    )
    raise InfeasibleFloor(
        f"no stationary occupancy gives every state at least 2·floor = {2 * floor:.6g}{why}",
        f"the largest feasible floor is {largest:.6g}; or let it shrink with infeasible='shrink'",
        largest=largest,
    )


def largest_floor(mdp: MDP) -> float:
    """The largest floor for which Λ_floor is not empty: ½ max_λ min_s η_λ(s)."""
    oracle = LinearOracle(mdp, np.full(mdp.n_states, 1.0 / mdp.n_states))
    return 0.5 * oracle.scale[0] / mdp.n_states


def distribution_range(mdp: MDP) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the largest η(s) over all stationary occupancies, for each state.

    One linear problem each. The smallest entry of the first is the η_min of the paper's bounds
    (the infimum over all stationary policies), exactly; it is 0 as soon as some policy can
    avoid a state.
    """
    costs = np.vstack([np.eye(mdp.n_states), -np.eye(mdp.n_states)])
    oracle = LinearOracle(mdp)
    if oracle.small:
        batch = DenseOracle(mdp).solve_batch(costs)
        values = batch.value
        proved = bool((batch.status == 0).all())
    else:
        answers = [oracle.solve(c) for c in costs]
        values = np.array([a.value for a in answers])
        proved = all(a.status is Status.OPTIMAL for a in answers)
    if not proved:
        raise SolverFailure(
            "the range of a state's distribution could not be proved",
            "are there moves with probabilities far below 1e-10?",
        )
    least, most = values[: mdp.n_states], -values[mdp.n_states :]
    return np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)


def even_distribution(mdp: MDP) -> NDArray[np.float64]:
    """The distribution of the uniform policy; within each maximal end component where there
    are several, with a mass proportional to its size (0 outside all of them)."""
    oracle = LinearOracle(mdp)
    eta = np.zeros(mdp.n_states)
    inside = sum(component.states.size for component in oracle.components)
    for part, component in zip(oracle.parts, oracle.components):
        share = component.states.size / inside
        eta[component.states] = share * Policy.uniform(part).chain().stationary()
    return eta


def _checked_cost(mdp: MDP, cost: ArrayLike) -> NDArray[np.float64]:
    check_model(mdp)
    g = numbers(cost, "the cost")
    if g.shape not in ((mdp.n_states,), (mdp.n_pairs,)):
        raise ArgumentError(
            f"the cost has shape {g.shape}, expected ({mdp.n_states},) or ({mdp.n_pairs},)",
            "give one cost per state or one per pair",
        )
    if not np.isfinite(g).all():
        k = int(np.flatnonzero(~np.isfinite(g))[0])
        where = f"state {mdp.state_labels[k]!r}" if g.size == mdp.n_states else mdp.describe_pair(k)
        raise ArgumentError(f"the cost of {where} is {g[k]}", "costs are finite numbers")
    return g
