"""The stationary policy that would be best in the most favourable plausible model.

With a cost per state and a set 𝒞 of models (:mod:`sojourn.learning.confidence_sets`) an episode
follows Eq. dual_pbm (App. app:relaxing:asm:known.mdp)

    min over p ∈ 𝒞, λ ∈ Λ_floor^(p) of ⟨cost, λ⟩.

Without the floor that is extended value iteration, which takes a moment; where its policy stays
above the floor in its own model it is the answer. Otherwise the linear programme over extended
occupancies decides. It starts from the members of the sets that the first one chose, and Frank
and Wolfe don't mind an answer that is only nearly the best: on larger worlds it is given a few
rounds.

A vertex of Λ_floor may consist of parts that exchange hardly any mass: it is then cheapest to feed
the floor of one part by staying there, and a walk that happens to be there stays as well. Of
optimistic models this is to be expected, for in them rare ways back may not exist. So where the
part that a walk can leave less than once in its episode has less than half of the mass, the walk
follows the answer without the floor, which leads from everywhere to where samples are worth most.

Where no plausible model meets the floor each state's bound is lowered to half of what the uniform
policy reaches in the model that leads wherever it can, and a note says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sojourn.chains import Chain
from sojourn.errors import InfeasibleFloor, SolverFailure
from sojourn.solvers.extended_occupancy import COMPILED, ExtendedOccupancy, extended_occupancy
from sojourn.solvers.extended_value_iteration import Optimistic, extended_value_iteration
from sojourn.solvers.plausible import Plausible

Floats = NDArray[np.float64]

EXACT = 1e-6
"""Relative to the span of the cost."""
ROUNDS = 1
"""Additions of members on worlds above the size of the compiled oracle. Measured on Garnets and
grids of 100 states, the first answer is within a few per cent of the bound."""

APART = (
    "the answer of some episode with the floor would have kept the walk where it was: it followed "
    "the answer without the floor"
)
LOWERED = (
    "in no plausible model does a stationary distribution stay above the floor everywhere: the "
    "bound of each state was lowered to at most half of what the uniform policy reaches"
)


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy (one probability per pair) and what is believed of it."""

    policy: Floats
    bias: Floats
    """Where the next extended value iteration of the same walk starts."""
    lowered: bool
    """Whether the floor could not be met, and was lowered."""
    apart: bool
    """Whether the answer with the floor would have kept the walk where it is."""


def optimistic_choice(
    model: Plausible, cost: Floats, floor: float, bias: Floats, here: int, length: int
) -> Choice:
    """The policy for one cost per state, for ``length`` steps from ``here``; ``bias`` is that of
    an earlier choice, or zeros."""
    free = extended_value_iteration(model, -cost, EXACT, bias)
    lower = np.full(model.n_states, 2.0 * floor)
    # A NaN, several classes, is above nothing.
    unbounded = np.zeros(model.n_pairs)
    unbounded[free.chosen] = 1.0
    if floor == 0.0 or (free.distribution >= lower).all():
        return Choice(unbounded, free.bias, False, False)
    lowered = False
    try:
        answer = _above(model, cost, lower, free)
    except (InfeasibleFloor, SolverFailure):
        lowered = True
        answer = _above(model, cost, np.minimum(lower, 0.5 * _even(model)), free)
    if _kept_apart(model, answer, here, length):
        return Choice(unbounded, free.bias, lowered, True)
    return Choice(_policy(model, answer.occupancy, free), free.bias, lowered, False)


def _above(model: Plausible, cost: Floats, lower: Floats, free: Optimistic) -> ExtendedOccupancy:
    exact = model.n_states <= COMPILED
    more = {} if exact else {"rounds": ROUNDS}
    return extended_occupancy(
        model, cost, lower, model.best(free.bias), tolerance=EXACT, throw=False, **more
    )


def _kept_apart(model: Plausible, answer: ExtendedOccupancy, here: int, length: int) -> bool:
    """Whether a walk of this length stays in a part with less than half of the mass."""
    first = model.pair_start[:-1]
    flow = np.add.reduceat(answer.occupancy[:, None] * answer.transitions, first, axis=0)
    _, part = connected_components(flow * length >= 1.0, connection="weak")
    mass = np.add.reduceat(answer.occupancy, first)
    return bool(mass[part == part[here]].sum() < 0.5 * mass.sum())


def _even(model: Plausible) -> Floats:
    """What the uniform policy reaches in a plausible model that leads wherever it can."""
    share = np.repeat(1.0 / np.diff(model.pair_start), np.diff(model.pair_start))
    chain = np.add.reduceat(share[:, None] * model.even(), model.pair_start[:-1], axis=0)
    chain /= chain.sum(axis=1, keepdims=True)
    walk = Chain(chain)
    if len(walk.recurrent_classes()) > 1:
        return np.zeros(model.n_states)
    return walk.stationary()


def _policy(model: Plausible, occupancy: Floats, free: Optimistic) -> Floats:
    """Shares of the occupancy; in states without any the pair of extended value iteration."""
    start = model.pair_start
    total = np.add.reduceat(occupancy, start[:-1])
    empty = total <= 0
    policy = occupancy / np.where(empty, 1.0, total)[model.pair_state]
    policy[free.chosen[empty]] = 1.0
    return policy
