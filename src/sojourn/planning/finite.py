r"""What a policy is really worth after n steps: the exact finite-budget loss.

    𝓛_n(π) = (1/S) Σ_s weight·σ²(s) E_π[n / T_n(s)]                (Eq. opt.function.simplified)

The expectation needs no simulation: the visits of a state form a renewal process, and
:mod:`sojourn.solvers.finite_visits` evaluates E[1/T] exactly, for any stationary policy, periodic,
reducible or hardly mixing, from any start.

What T counts is a matter of ``counting`` (:mod:`sojourn.model.counting`). With ``PriorSample``,
Asm. counter, T = 1 + visits and nothing else is to be said; a state that is never reached
contributes n·weight·σ². With ``VisitsOnly`` T may be zero and the loss is

    (n/S) Σ_s weight·( σ²(s) E[1/T; T > 0] + unvisited·P(T = 0) ),

which is what App. relaxing:asm:counter means: it writes a conditional expectation E[·|T>0],
and that is not what the squared error averages to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import choice, per_state, start_distribution
from sojourn.chains import Chain
from sojourn.errors import ArgumentError
from sojourn.model import (
    MDP,
    Counting,
    Policy,
    PriorSample,
    VisitsOnly,
    World,
    check_model,
)
from sojourn.solvers import finite_contour, finite_second_order, finite_series, finite_visits
from sojourn.solvers.pairs import chain_of_pairs, pair_slopes
from sojourn.solvers.threads import one_thread

Array = NDArray[np.float64]

PRIOR_SAMPLE: Counting = PriorSample()

METHODS = (*finite_visits.METHODS, "second-order")

LARGEST = 1e100
"""Of what is added up; its square and its square's product with a budget are still numbers."""

LONGEST = 10**12
"""Steps. A row of P sums to 1 only up to rounding, and after n moves n times that is missing."""

DENSE_PAIRS = 2000
"""Up to this many pairs the policy's chain is assembled densely: a sparse product would take
longer than the loss itself."""

GRADIENT_STATES = 500
"""The gradient is taken in a dense S × S matrix, at a cost of S³ per node or per step."""


# -- arguments ------------------------------------------------------------------------------


def budgets_of(budget: ArrayLike) -> tuple[list[int], tuple[int, ...]]:
    """The budgets as a flat list of positive integers, and their shape."""
    if type(budget) is int and 1 <= budget <= LONGEST:
        return [budget], ()
    try:
        # NumPy has no number for integers beyond 64 bits.
        limit = 2 * LONGEST
        array = np.asarray(max(-limit, min(budget, limit)) if type(budget) is int else budget)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.size == 0:
        raise ArgumentError("no budget was given", "a budget is a number of steps, at least 1")
    # A bool is an int to Python, and a budget of True would silently be one step.
    if array.dtype.kind not in "iuf" or not (np.isfinite(array) & (array == np.floor(array))).all():
        raise ArgumentError(
            f"the budget {budget!r} is not a whole number",
            "a budget counts steps: 100, or [10, 20]",
        )
    if (array > LONGEST).any():
        raise ArgumentError(
            f"a budget is longer than {LONGEST:.0e} steps, where rounding in the transition "
            "probabilities would leave no three digits of the loss",
            "so many steps are the long run: use the asymptotic loss, the mean of variance/η",
        )
    if (array < 1).any():
        raise ArgumentError(
            f"the budget {int(array.min())} is not positive",
            "give at least one step; without steps there is nothing to measure",
        )
    return [int(n) for n in array.ravel()], array.shape


def one_budget(budget: Any) -> int:
    """A single budget."""
    values, shape = budgets_of(budget)
    if shape != ():
        raise ArgumentError(
            f"one budget is needed here, {len(values)} were given", "call it once per budget"
        )
    return values[0]


def checked_counting(counting: Counting) -> Counting:
    if not isinstance(counting, PriorSample | VisitsOnly):
        raise ArgumentError(
            f"there is no counting {counting!r}", "use PriorSample() or VisitsOnly(unvisited=...)"
        )
    return counting


def _chain_matrix(policy: Policy | Chain | Any) -> Any:
    """The transition matrix, dense while that is cheap."""
    if isinstance(policy, Policy):
        if policy.mdp.n_pairs <= DENSE_PAIRS and policy.mdp.n_states <= DENSE_PAIRS // 4:
            return dense_chain(policy.mdp, policy.probability)
        return policy.transition_matrix()
    if isinstance(policy, MDP | World):
        raise ArgumentError(
            f"a {type(policy).__name__} doesn't say how to walk in it",
            "give a Policy, for example Policy.uniform(mdp), a Chain or a transition matrix",
        )
    matrix = policy.transitions if isinstance(policy, Chain) else Chain(policy).transitions
    return matrix


def dense_chain(mdp: MDP, probability: Array) -> Array:
    """P_π as a dense array."""
    P = np.empty((mdp.n_states, mdp.n_states))
    moves = mdp.transitions
    chain_of_pairs(mdp.pair_start, probability, moves.indptr, moves.indices, moves.data, P)
    return P


class Prices(NamedTuple):
    """What a state costs: ``sampled``·E[1/T; T>0] + ``unvisited``·P(T=0), summed over states."""

    sampled: Array
    unvisited: Array
    prior: int
    moves: int

    @classmethod
    def of(
        cls,
        variance: ArrayLike,
        n_states: int,
        budget: int,
        counting: Counting,
        weight: ArrayLike | None,
    ) -> Prices:
        variance = per_state(variance, n_states, "variance", minimum=0.0)
        checked_counting(counting)
        scale: Any = budget / n_states
        unvisited = np.zeros(n_states)
        with np.errstate(over="ignore", invalid="ignore"):
            if weight is not None:
                scale = scale * per_state(weight, n_states, "weight", minimum=0.0)
            sampled = scale * variance
            unvisited += scale * counting.unvisited_cost(variance)
            check_range(sampled + unvisited)
        return cls(sampled, unvisited, counting.prior, counting.moves(budget))


def check_range(products: Array) -> None:
    """Refuse what leaves the range in which products of numbers are numbers."""
    if products.max() <= LARGEST:
        return
    raise ArgumentError(
        f"variance times weight times budget exceeds {LARGEST:.0e}, and what is computed from it "
        "would leave the range of floating-point numbers",
        "choose a larger unit: a common factor of all variances or weights changes no plan",
    )


# -- values ---------------------------------------------------------------------------------


def finite_loss(
    policy: Policy | Chain | Any,
    variance: ArrayLike,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    weight: ArrayLike | None = None,
    method: str = "auto",
) -> Any:
    """𝓛_n(π) exactly, for one budget (a float) or an array of them (an array).

    ``policy`` is a :class:`Policy`; a :class:`Chain` or a transition matrix will do. ``start`` is
    a state (index), a distribution or ``None`` for the uniform one.

    ``method``: ``"auto"`` chooses among ``"contour"``, ``"series"`` and ``"quadrature"``, which
    are all exact to 1e-9 relative (up to 10⁵ steps; beyond, rounding grows with n, to 2e-9 at
    10⁶) and differ in what they cost. ``"contour"`` alone can refuse a chain, one that is nearly
    periodic over the budget. ``"second-order"`` is an approximation for large worlds: in seconds
    at 10⁴ states, with an error of the order 1/(visits per state)²; it takes every state for
    visited, so ``unvisited`` doesn't enter.

    With ``VisitsOnly`` the accuracy is relative to a loss in which a state without a visit costs
    at least its variance: where ``unvisited`` is next to nothing and hardly anything is visited,
    fewer digits are left.
    """
    choice(method, "method", METHODS)
    budgets, shape = budgets_of(budget)
    checked_counting(counting)
    P = _chain_matrix(policy)
    n = P.shape[0]
    start = start_distribution(start, n)
    moves = [counting.moves(k) for k in budgets]
    prices = Prices.of(variance, n, 1, counting, weight)
    if method == "second-order":
        loss = _second_order(P, start, moves, prices) @ prices.sampled
    else:
        law = finite_visits.visit_law(P, start, moves, counting.prior, method)
        if law is None:
            raise ArgumentError(
                f"the contour method is not exact here: within {max(moves)} moves the chain keeps "
                "oscillating, so its singularities lie too close to the unit circle",
                'use method="series", or "auto", which notices by itself',
            )
        loss = law.mean_inverse @ prices.sampled
        if not counting.prior:
            loss = loss + law.unvisited @ prices.unvisited
    if shape == ():
        return float(loss[0]) * budgets[0]
    return loss.reshape(shape) * np.array(budgets, dtype=float).reshape(shape)


def _second_order(P: Any, start: Array, moves: list[int], prices: Prices) -> Array:
    chain = Chain(P)
    classes = chain.recurrent_classes()
    if len(classes) > 1:
        raise ArgumentError(
            f"the policy has {len(classes)} closed classes, and the second-order expansion needs "
            "one long-run frequency per state",
            'use method="series", which needs nothing',
        )
    lost = np.setdiff1d(np.flatnonzero(prices.sampled > 0), classes[0])
    if lost.size:
        raise ArgumentError(
            f"the policy leaves state {int(lost[0])} for good (and {lost.size - 1} more), so its "
            "long-run frequency is 0 and the second-order expansion says nothing",
            'use method="series", or give such states weight 0',
        )
    if min(moves) == 0:
        raise ArgumentError(
            "the second-order expansion needs at least one move", 'use method="auto"'
        )
    return finite_second_order.mean_inverse(chain, start, moves, prices.prior)


# -- facts ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class VisitFacts:
    """What a policy does to each state within a budget, exactly.

    The arrays have one entry per state, with a leading axis of budgets where several were
    given.
    """

    budget: int | NDArray[np.int64]
    unvisited: Array
    """P(no visit) within the budget."""
    expected_visits: Array
    """E[number of visits]; a prior sample isn't a visit."""
    mean_inverse: Array
    """E[1/T; T > 0], with T as the counting has it."""
    labels: Sequence[Any]

    @property
    def never(self) -> NDArray[np.int64]:
        """The states that no walk of the (longest) budget can reach."""
        visits = self.expected_visits.reshape(-1, len(self.labels))
        return np.flatnonzero(visits.max(axis=0) == 0)

    def __str__(self) -> str:
        last = self.unvisited.reshape(-1, len(self.labels))[-1]
        visits = self.expected_visits.reshape(-1, len(self.labels))[-1]
        n = int(np.ravel(self.budget)[-1])
        rarest = int(np.argmin(visits))
        lines = [
            f"after {n} steps {last.sum():.3g} of {last.size} states are unvisited on average",
            f"the rarest is {self.labels[rarest]!r}: {visits[rarest]:.4g} visits expected, none "
            f"with probability {last[rarest]:.3g}",
        ]
        if n < last.size:
            lines.append(f"{n} steps can't visit all {last.size} states, whatever the policy")
        if self.never.size:
            lines.append(f"never reached from this start: {_named(self.labels, self.never)}")
        return "\n".join(lines)


def visit_facts(
    policy: Policy | Chain | Any,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
) -> VisitFacts:
    """P(unvisited), expected visits and E[1/T] of every state within a budget, exactly."""
    budgets, shape = budgets_of(budget)
    counting = checked_counting(counting)
    P = _chain_matrix(policy)
    n = P.shape[0]
    start = start_distribution(start, n)
    moves = [counting.moves(k) for k in budgets]
    law = finite_visits.visit_law(P, start, moves, counting.prior)
    assert law is not None
    visits = finite_second_order.expected_visits(P, start, moves)
    form = (*shape, n)
    return VisitFacts(
        budget=budgets[0] if shape == () else np.array(budgets).reshape(shape),
        unvisited=law.unvisited.reshape(form),
        expected_visits=visits.reshape(form),
        mean_inverse=law.mean_inverse.reshape(form),
        labels=policy.mdp.state_labels if isinstance(policy, Policy) else range(n),
    )


def reach_notes(
    mdp: MDP, possible: Any, start: Array, moves: int, matters: NDArray[np.bool_], who: str
) -> list[str]:
    """Sentences about the states that matter and that ``who`` leaves without a visit for certain.

    ``possible`` has an entry for each move that can happen.
    """
    notes, n = [], mdp.n_states
    if moves < n:
        notes.append(
            f"{moves} moves can't visit all {n} states; what is left out is part of the loss. "
            "Give a larger budget, or weight 0 to the states that you can do without"
        )
    here, visited = start > 0, np.zeros(n, dtype=bool)
    for _ in range(min(n, moves)):
        here = possible.T @ here > 0
        visited |= here
    never = np.flatnonzero(matters & ~visited)
    if never.size:
        notes.append(
            f"{who} visits {_named(mdp.state_labels, never)} from this start within the budget, "
            "so nothing is measured there. Start elsewhere, or give weight 0 to what can't be had"
        )
    return notes


def _named(labels: Sequence[Any], states: NDArray[np.int64]) -> str:
    names = ", ".join(repr(labels[int(s)]) for s in states[:5])
    return names + (f" and {states.size - 5} more" if states.size > 5 else "")


# -- gradient -------------------------------------------------------------------------------


class LossGradient(NamedTuple):
    """A finite loss and its slope in the policy's probabilities."""

    loss: float
    gradient: Array
    """∂𝓛_n/∂π(a|s), one entry per pair."""


def finite_loss_gradient(
    policy: Policy,
    variance: ArrayLike,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    weight: ArrayLike | None = None,
    method: str = "auto",
) -> LossGradient:
    """𝓛_n(π) and its gradient in π(a|s), by the adjoint.

    Only changes that keep Σ_a π(a|s) = 1 mean something, so the gradient is determined up to a
    constant per state; the one returned has Σ_a π(a|s)·gradient(s,a) = 0: an entry says how the
    loss changes as probability moves to that action from all of them in proportion.
    ``method`` is ``"auto"``, ``"contour"`` or ``"series"``.
    """
    choice(method, "method", ("auto", "contour", "series"))
    if not isinstance(policy, Policy):
        raise ArgumentError(
            f"a {type(policy).__name__} has no probabilities of actions to change",
            "the gradient is one in the policy's probabilities: give a Policy",
        )
    mdp = policy.mdp
    check_dense(mdp)
    budget = one_budget(budget)
    prices = Prices.of(variance, mdp.n_states, budget, counting, weight)
    objective = FiniteLoss(mdp, prices, start_distribution(start, mdp.n_states))
    with one_thread():
        safe = method != "series" and objective.contour_is_safe(policy.probability)
        if method == "contour" and not safe:
            raise ArgumentError(
                "the contour method is not exact for this policy and budget",
                'use method="series", or "auto", which notices by itself',
            )
        return objective.with_gradient(policy.probability, "contour" if safe else "series")


def check_dense(mdp: MDP) -> None:
    check_model(mdp)
    if mdp.n_states > GRADIENT_STATES:
        raise ArgumentError(
            f"gradients of the finite loss are dense, and {mdp.n_states} states are more than the "
            f"{GRADIENT_STATES} they are made for",
            "for large worlds compare policies by finite_loss, or use faster_mixing_plan",
        )


class FiniteLoss:
    """The finite loss as a function of the policies of one world, for descents."""

    def __init__(self, mdp: MDP, prices: Prices, start: Array) -> None:
        self.mdp = mdp
        self.prices = prices
        self.start = start

    def value(self, probability: Array) -> float:
        """Exact, by whichever method."""
        P, prices = dense_chain(self.mdp, probability), self.prices
        law = finite_visits.visit_law(P, self.start, [prices.moves], prices.prior)
        assert law is not None
        loss = law.mean_inverse[0] @ prices.sampled
        return float(loss if prices.prior else loss + law.unvisited[0] @ prices.unvisited)

    def contour_is_safe(self, probability: Array) -> bool:
        """Whether the fast way to the gradient is exact at this policy."""
        moves, P = self.prices.moves, dense_chain(self.mdp, probability)
        if moves < finite_visits.CONTOUR_MOVES:
            return False
        return finite_contour.mean_inverse(P, self.start, moves, self.prices.prior) is not None

    def with_gradient(self, probability: Array, method: str) -> LossGradient:
        """By ``"contour"`` (unchecked) or ``"series"``."""
        P, prices = dense_chain(self.mdp, probability), self.prices
        if method == "contour":
            slope = np.empty_like(P)
            gaps, weights = finite_contour.parabola(prices.moves)
            loss = finite_contour.price_gradient(
                P, self.start, gaps, weights, prices.prior, prices.sampled, prices.unvisited, slope
            )
        else:
            loss, slope = finite_series.price_gradient(
                P, self.start, prices.moves, prices.prior, prices.sampled, prices.unvisited
            )
        return LossGradient(loss, self.centred(self.to_pairs(slope), probability))

    def slope(self, method: str) -> Callable[[Array], LossGradient]:
        """:meth:`with_gradient` by one method, for a descent."""
        return partial(self.with_gradient, method=method)

    def to_pairs(self, slope: Array) -> Array:
        """From a slope in the chain's entries to one in the policy's."""
        moves, result = self.mdp.transitions, np.empty(self.mdp.n_pairs)
        pair_slopes(self.mdp.pair_start, moves.indptr, moves.indices, moves.data, slope, result)
        return result

    def centred(self, gradient: Array, probability: Array) -> Array:
        """Without what only changes Σ_a π(a|s)."""
        return gradient - self.mdp.to_pairs(self.mdp.state_sums(probability * gradient))
