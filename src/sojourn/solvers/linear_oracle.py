"""The linear oracle: the cheapest stationary occupancy, for one cost or thousands at once.

The problem, with P the transitions of the pairs and E the map from pairs to their states, is

    minimise ⟨g, λ⟩  over  λ ≥ 0,  Eᵀλ = Pᵀλ,  Σλ = 1,  Eᵀλ ≥ lower,

and its dual, with a gain ρ, a bias h (one number per state) and a multiplier y ≥ 0 per bound,

    maximise ρ + ⟨lower, y⟩  over  g_sa + Σ_s' p(s'|s,a) h_s' − h_s − y_s ≥ ρ  for every pair.

Any (h, y ≥ 0) gives a bound: ρ = min_sa (g + Ph − Eh − Ey). So every answer is checked by weak
duality, whatever path led to it, and ``OPTIMAL`` means that the check passed.

**Without bounds** this is the average-cost problem and policy iteration solves it. A policy is
evaluated by GTH elimination of its chain: states are censored one after the other, only by
additions, multiplications and divisions of numbers ≥ 0, so that the stationary distribution is
accurate to the last digits in every entry even when the chain is nearly reducible. A state whose
probability of leaving to the states that remain is exactly 0 is closed; a second closed state
proves that the policy is multichain. Then (Haviv & Puterman 1991) the cheapest closed class is
kept and the other states are led to it. The cost falls strictly: a class of the new policy in
which nothing was changed would have been closed before, and before there was only one. So a
multichain policy can neither break the method nor make it circle.

**With bounds**, the optimal policy's basis stays dual feasible, and the dual simplex method goes
on from there, on a dictionary with one row for the pair of each state and one for its slack.
The entering ties are broken by the largest pivot, and after a stall by Bland's rule, which can't
circle. A row without a candidate proves that the bounds can't be met.

A vertex without bounds has one recurrent class, and the policy returned leads to it from
everywhere. A vertex with bounds can have *several*: a walk then stays in the one it starts in and
never sees the frequencies that were asked for. The number is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from sojourn.errors import ArgumentError
from sojourn.model import MDP, Policy, per_state
from sojourn.model.reachability import maximal_end_components
from sojourn.model.restriction import restricted
from sojourn.solvers.linear_oracle_kernel import (
    GRAIN,
    INFEASIBLE,
    MEETS,
    NOT_FINITE,
    OPTIMAL,
    PROVED,
    UNPROVED,
    solve_kernel,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Status(Enum):
    """What became of one linear problem."""

    OPTIMAL = "optimal, proved by duality"
    INFEASIBLE = "no stationary distribution meets the lower bounds"
    UNPROVED = "the method stopped without a proof of optimality"
    NOT_FINITE = "the cost is not finite"


STATUSES = {
    OPTIMAL: Status.OPTIMAL,
    INFEASIBLE: Status.INFEASIBLE,
    UNPROVED: Status.UNPROVED,
    NOT_FINITE: Status.NOT_FINITE,
}
"""The sentences for the numbers in the status of a :class:`Batch`."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Answers to k costs; row w belongs to cost w.

    ``lower`` is common to all of them. The proof of row w is ``value[w] − bound[w]``: the bound
    follows from ``bias`` and ``multiplier`` (h and y of the module's notation) alone.
    """

    occupancy: Floats
    """k × n_pairs."""
    chosen: Ints
    """k × n_states: the pair of each state in the optimal policy *without* bounds. Handing it to
    the next call saves most of the work. It leads to the support from every state."""
    bias: Floats
    multiplier: Floats
    value: Floats
    bound: Floats
    status: Ints
    """k: OPTIMAL, INFEASIBLE, UNPROVED or NOT_FINITE; only the rows that are OPTIMAL mean
    anything."""
    recurrent_classes: Ints
    """k: of the policy that the occupancy defines; a walk stays in one of them for ever."""
    bounded: NDArray[np.bool_]
    """k: whether a lower bound was active."""

    def policy(self, oracle: DenseOracle) -> Floats:
        """π(a|s) for each cost (k × n_pairs); unvisited states take their ``chosen`` pair."""
        visited = np.add.reduceat(self.occupancy, oracle.pair_start[:-1], axis=1)
        some = visited > 0
        policy = self.occupancy / np.where(some, visited, 1.0)[:, oracle.pair_state]
        walk, state = np.nonzero(~some)
        policy[walk, self.chosen[walk, state]] = 1.0
        return policy


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one linear problem, and its proof."""

    occupancy: Floats
    bias: Floats
    """h: one per state (0 where no stationary occupancy can be)."""
    multiplier: Floats
    """y ≥ 0: what one more unit of each lower bound would cost."""
    value: float
    """⟨cost, occupancy⟩."""
    bound: float
    """What no occupancy can beat."""
    status: Status
    recurrent_classes: int
    """Of the policy that the occupancy defines: more than one, and a walk sees only its own."""
    method: str
    iterations: int = 0

    @property
    def gap(self) -> float:
        """value − bound, in the unit of the cost."""
        return self.value - self.bound


class DenseOracle:
    """The oracle of one small model, ready for any number of costs.

    It keeps no state between calls, so threads may share it; the compiled part releases the
    interpreter's lock.
    """

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.transitions: Floats = np.ascontiguousarray(mdp.transitions.toarray())
        self.pair_start: Ints = mdp.pair_start
        self.pair_state: Ints = mdp.pair_state

    def solve_batch(
        self,
        cost: ArrayLike,
        lower: ArrayLike = 0.0,
        chosen: Ints | None = None,
        rescue: bool = True,
    ) -> Batch:
        """One problem per row of ``cost`` (k × n_states or k × n_pairs).

        ``lower`` is a bound on the distribution, one number or one per state. ``chosen``
        (k × n_states) are the policies to start from, best the ``chosen`` of the last call; it
        is not changed. Where several occupancies are optimal, which one is returned can depend
        on it. Rows that the compiled method leaves without a proof go to the general solver,
        unless ``rescue`` is false.
        """
        n, n_pairs = self.mdp.n_states, self.mdp.n_pairs
        costs = np.ascontiguousarray(cost, dtype=float)
        if costs.ndim != 2 or costs.shape[1] not in (n, n_pairs):
            raise ArgumentError(
                f"the costs have shape {costs.shape}, expected (k, {n}) or (k, {n_pairs})",
                "give one row per problem with one cost per state or one per pair",
            )
        bounds = _bounds(lower, n)
        k = costs.shape[0]
        if chosen is None:
            chosen = np.broadcast_to(self.pair_start[:-1], (k, n))
        start = np.array(chosen, dtype=np.int64, order="C")
        # An index that belongs to another state would be read as that state's move, silently.
        if (
            start.shape != (k, n)
            or ((start < self.pair_start[:-1]) | (start >= self.pair_start[1:])).any()
        ):
            raise ArgumentError(
                f"chosen must be ({k}, {n}) and name one pair of every state, in order",
                "give the chosen of an earlier batch of as many costs, or None",
            )
        batch = Batch(
            np.empty((k, n_pairs)), start, np.empty((k, n)), np.empty((k, n)), np.empty(k),
            np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k, np.bool_),
        )  # fmt: skip
        solve_kernel(
            self.transitions, self.pair_start, self.pair_state, costs, bounds, batch.chosen,
            batch.occupancy, batch.bias, batch.multiplier, batch.value, batch.bound,
            batch.status, batch.recurrent_classes, batch.bounded,
        )  # fmt: skip
        if rescue and (batch.status == UNPROVED).any():
            self._rescue(costs, bounds, batch)
        return batch

    def _rescue(self, costs: Floats, lower: Floats, batch: Batch) -> None:
        general = LinearOracle(self.mdp, lower)
        codes = {status: code for code, status in STATUSES.items()}
        for w in np.flatnonzero(batch.status == UNPROVED):
            answer = general.solve(costs[w])
            if answer.status is Status.UNPROVED and np.isfinite(batch.value[w]):
                continue  # no better than what is there
            batch.occupancy[w] = answer.occupancy
            batch.bias[w] = answer.bias
            batch.multiplier[w] = answer.multiplier
            batch.value[w], batch.bound[w] = answer.value, answer.bound
            batch.status[w] = codes[answer.status]
            batch.recurrent_classes[w] = answer.recurrent_classes
            batch.bounded[w] = bool((answer.multiplier > 0).any())
            if answer.occupancy.any():
                policy = Policy.from_occupancy(self.mdp, answer.occupancy).probability
                for s in range(self.mdp.n_states):
                    pairs = self.mdp.pairs_of(s)
                    batch.chosen[w, s] = pairs.start + int(np.argmax(policy[pairs]))

    def solve(self, cost: ArrayLike, lower: ArrayLike = 0.0) -> Answer:
        """One problem; ``cost`` per state or per pair."""
        batch = self.solve_batch(np.asarray(cost, dtype=float)[None], lower, rescue=False)
        return Answer(
            batch.occupancy[0], batch.bias[0], batch.multiplier[0], float(batch.value[0]),
            float(batch.bound[0]), STATUSES[int(batch.status[0])], int(batch.recurrent_classes[0]),
            "compiled policy iteration and dual simplex",
        )  # fmt: skip


METHODS = ("auto", "compiled", "interior-point", "value-iteration", "highs")
"""``compiled`` is this module's (small models), the others are in ``linear_oracle_large``."""

AGREE = 1e-8
"""A relative distance up to which what is attained and what can't be exceeded are the same."""

SMALL = 100
"""States up to which the compiled method is tried first."""


class LinearOracle:
    """The oracle of one model and one set of lower bounds, of any size and structure.

    A stationary occupancy lives in end components: sets of states that some policy keeps for
    ever and within which everything can be reached. In a model that is one such component the
    methods apply directly. Otherwise each maximal end component is a model of its own, and
    without bounds the cheapest one wins; with bounds, which share the mass among components, a
    general solver takes the pairs that stay inside them.
    """

    def __init__(self, mdp: MDP, lower: ArrayLike = 0.0, method: str = "auto") -> None:
        if method not in METHODS:
            raise ArgumentError(
                f"there is no method {method!r} for the linear oracle",
                f"use one of {', '.join(METHODS)}",
            )
        self.mdp = mdp
        self.lower = _bounds(lower, mdp.n_states)
        self.method = method
        self.components = maximal_end_components(mdp)
        self.whole = self.components[0].states.size == mdp.n_states
        self.pairs = np.zeros(mdp.n_pairs, dtype=bool)
        """The pairs that a stationary occupancy can use at all."""
        for component in self.components:
            self.pairs[component.pairs] = True
        self.small = mdp.n_states <= SMALL and self.whole

    @cached_property
    def parts(self) -> list[MDP]:
        """The model on each of its components."""
        if self.whole:
            return [self.mdp]
        return [restricted(self.mdp, component.states) for component in self.components]

    @cached_property
    def _part_oracles(self) -> list[LinearOracle]:
        return [LinearOracle(part, method=self.method) for part in self.parts]

    @cached_property
    def _dense(self) -> DenseOracle:
        return DenseOracle(self.mdp)

    @cached_property
    def _interior(self) -> Any:
        from sojourn.solvers.linear_oracle_large import InteriorOracle

        return InteriorOracle(self.mdp, self.lower)

    @cached_property
    def _values(self) -> Any:
        from sojourn.solvers.linear_oracle_large import ValueOracle

        return ValueOracle(self.mdp)

    @cached_property
    def _highs(self) -> Any:
        from sojourn.solvers.linear_oracle_large import HighsOracle

        return HighsOracle(self.mdp, self.lower, np.flatnonzero(self.pairs))

    def solve(self, cost: ArrayLike) -> Answer:
        """``cost`` per state or per pair; the first method that proves its answer wins."""
        g = self._per_pair(cost)
        if not np.isfinite(np.ptp(g)):
            return without_answer(self.mdp, Status.NOT_FINITE, "")
        outside = np.ones(self.mdp.n_states, dtype=bool)
        outside[self.mdp.pair_state[self.pairs]] = False
        if (self.lower[outside] > 0).any() or self.lower.sum() > 1.0 + MEETS:
            return without_answer(self.mdp, Status.INFEASIBLE, "counting")
        if not self.whole and not self.lower.any():
            return self._cheapest(g)
        answers = []
        for solve in self._methods():
            answer = solve(g)
            if answer.status is not Status.UNPROVED:
                return answer
            if self.scale[1] < 1.0 - MEETS:
                return without_answer(self.mdp, Status.INFEASIBLE, answer.method)
            answers.append(answer)
        return min(answers, key=lambda a: self.error(g, a))

    def error(self, cost: ArrayLike, answer: Answer) -> float:
        """How far an answer may be from the optimum, relative to the span of the cost: its gap,
        and what it lacks in balance, in mass and to the bounds. Rounding where OPTIMAL."""
        g = self._per_pair(cost)
        x = answer.occupancy
        lack = np.abs(self.mdp.flow_residual(x)).sum() + abs(x.sum() - 1.0)
        lack += np.maximum(self.lower - self.mdp.state_sums(x), 0.0).sum()
        # A negative gap is no better than a positive one: it shows an imbalance.
        error = float(lack + abs(answer.gap) / (np.ptp(g) or 1.0))
        return error if np.isfinite(error) else np.inf

    @cached_property
    def scale(self) -> tuple[float, float]:
        """A θ for which θ·lower is met by some occupancy, and one that is proved too large.

        In between there is rounding only: they agree to eight digits or so, unless the model is
        nearly reducible. Both are ∞ without bounds.
        """
        outside = np.ones(self.mdp.n_states, dtype=bool)
        outside[self.mdp.pair_state[self.pairs]] = False
        if not self.lower.any():
            return np.inf, np.inf
        if (self.lower[outside] > 0).any():
            return 0.0, 0.0
        attained, beyond = 0.0, np.inf
        if self.whole and self.mdp.n_states > 1 and self.method != "highs":
            attained, beyond = self._interior.scale()
        if not beyond <= attained * (1.0 + AGREE):
            other, ceiling = self._highs.scale()
            attained, beyond = max(attained, other), min(beyond, ceiling)
        return attained, beyond

    def _methods(self) -> list[Callable[[Floats], Answer]]:
        def compiled(g: Floats) -> Answer:
            return self._dense.solve(g, self.lower)

        def interior(g: Floats) -> Answer:
            return self._interior.solve(g)

        def values(g: Floats) -> Answer:
            return self._values.solve(g)

        def highs(g: Floats) -> Answer:
            return self._highs.solve(g)

        if self.method == "highs" or not self.whole:
            return [highs]
        if self.method == "compiled":
            return [compiled]
        if self.method == "interior-point" and self.mdp.n_states > 1:
            return [interior]
        if self.method == "value-iteration" and not self.lower.any():
            return [values]
        if self.small:
            return [compiled, highs, interior]
        return [interior, highs] if self.lower.any() else [values, interior, highs]

    def _cheapest(self, g: Floats) -> Answer:
        answers = [part.solve(g[c.pairs]) for part, c in zip(self._part_oracles, self.components)]
        least = int(np.argmin([a.value for a in answers]))
        best = answers[least]
        # NaN compares false with everything: a component without an answer must not be passed
        # over as if it were the most expensive one.
        proved = all(a.status is Status.OPTIMAL for a in answers)
        occupancy = np.zeros(self.mdp.n_pairs)
        bias = np.zeros(self.mdp.n_states)
        occupancy[self.components[least].pairs] = best.occupancy
        for component, answer in zip(self.components, answers):
            bias[component.states] = answer.bias
        return replace(
            best,
            occupancy=occupancy,
            bias=bias,
            multiplier=np.zeros(self.mdp.n_states),
            bound=min(a.bound for a in answers),
            status=Status.OPTIMAL if proved else Status.UNPROVED,
        )

    def _per_pair(self, cost: ArrayLike) -> Floats:
        g = np.asarray(cost, dtype=float)
        if g.shape == (self.mdp.n_states,):
            return self.mdp.to_pairs(g)
        if g.shape == (self.mdp.n_pairs,):
            return g
        raise ArgumentError(
            f"the cost has shape {g.shape}, expected ({self.mdp.n_states},) or "
            f"({self.mdp.n_pairs},)",
            "give one cost per state or one per pair",
        )


def solve(mdp: MDP, cost: ArrayLike, lower: ArrayLike = 0.0, method: str = "auto") -> Answer:
    """One problem on one model; for many costs keep a :class:`LinearOracle`."""
    return LinearOracle(mdp, lower, method).solve(cost)


def prove(
    mdp: MDP,
    cost: Floats,
    lower: Floats,
    occupancy: Floats,
    bias: Floats,
    multiplier: Floats,
    pairs: NDArray[np.bool_] | None = None,
) -> tuple[float, float, bool]:
    """Value, bound by weak duality, and whether the occupancy is feasible up to rounding.

    The cost should have span 1, for the meaning of "rounding".
    ``pairs`` are those that a stationary occupancy can use. Multipliers below 0 count as 0.
    """
    y = np.maximum(multiplier, 0.0)
    P = mdp.transitions
    # Σ p (h_s' − h_s), row by row: exact differences where h is large (see the kernel).
    row = np.repeat(np.arange(mdp.n_pairs), np.diff(P.indptr))
    ahead = np.bincount(
        row, P.data * (bias[P.indices] - bias[mdp.pair_state[row]]), minlength=mdp.n_pairs
    )
    price = cost - y[mdp.pair_state] + ahead
    gain = float(np.min(price if pairs is None else price[pairs]))
    eta = mdp.state_sums(occupancy)
    imbalance = np.abs(mdp.flow_residual(occupancy))
    feasible = (
        bool((occupancy >= 0).all())
        and abs(float(occupancy.sum()) - 1.0) <= 1e-11
        and float(imbalance.max()) <= 1e-12
        # The value is wrong by ⟨bias, imbalance⟩ (see the kernel's proof).
        and float(np.abs(bias) @ imbalance) <= PROVED
        and bool((eta >= lower * (1.0 - MEETS) - GRAIN).all())
    )
    return float(cost @ occupancy), gain + float(lower @ y), feasible


def count_classes(mdp: MDP, occupancy: Floats) -> int:
    """Recurrent classes of the policy that a stationary occupancy defines on its support."""
    used = occupancy > 0
    n = mdp.n_states
    collect = sp.csr_matrix((used.astype(float), np.arange(used.size), mdp.pair_start))
    support = mdp.state_sums(used) > 0
    graph = (collect @ mdp.transitions)[support][:, support]
    return int(connected_components(graph, directed=False)[0]) if n else 0


def _bounds(lower: ArrayLike, n_states: int) -> Floats:
    bounds = per_state(lower, n_states, "lower", minimum=0.0)
    bounds[bounds < GRAIN] = 0.0
    return bounds


def without_answer(mdp: MDP, status: Status, method: str) -> Answer:
    """An answer that says only why there is none."""
    return Answer(
        np.zeros(mdp.n_pairs), np.zeros(mdp.n_states), np.zeros(mdp.n_states), np.nan, -np.inf,
        status, 0, method,
    )  # fmt: skip
