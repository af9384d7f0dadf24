"""Descent over the stationary policies of a world, from several starts.

The policies are a product of simplices, one per state. With π(a|s) = u(s,a)²/Σ_b u(s,b)² the
descent is unconstrained (L-BFGS), and a probability can become exactly 0: near a face u goes to 0
like the root of the probability, with a curvature of its own, where a softmax would need its
parameter to run to −∞. A coordinate that *starts* at 0 would stay there, so starts are mixed
with a little of the uniform policy.

What the objectives of this room have in common is that they are not convex: a descent ends in a
local optimum, and :func:`promise` says how far it is from being one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sojourn.arguments import whole
from sojourn.errors import ArgumentError, SojournError
from sojourn.model import MDP, Policy
from sojourn.model.seeds import generator

Array = NDArray[np.float64]
Slope = Callable[[Array], tuple[float, Array]]
"""probability per pair → value and centred gradient (Σ_a π·gradient = 0 in each state)."""

BLEND = 0.02
"""Share of the uniform policy in a start."""

MOST_STARTS = 10_000

NEGLIGIBLE = 1e-5
"""Probabilities that a finished descent tries to round to 0."""


@dataclass(frozen=True)
class StartRecord:
    """What became of one start."""

    name: str
    before: float
    """Objective of the policy that was given."""
    after: float
    """Objective where the descent ended (never above ``before``)."""
    evaluations: int


def to_8_digits(value: float) -> float:
    """Rounded, so that descents into the same policy tie and keep their order."""
    return float(f"{value:.8g}")


def table_of(records: Sequence[StartRecord]) -> str:
    """The records as text, best first."""
    width = max(len(r.name) for r in records)
    lines = [f"{'start':<{width}}  {'before':>12}  {'after':>12}  evaluations"]
    for r in sorted(records, key=lambda r: to_8_digits(r.after)):
        lines.append(f"{r.name:<{width}}  {r.before:>12.6g}  {r.after:>12.6g}  {r.evaluations:>11}")
    return "\n".join(lines)


def promise(mdp: MDP, gradient: Array) -> float:
    """How much a first-order model gains by the best change of the policy: max over policies π'
    of ⟨−∇, π' − π⟩ = −Σ_s min_a ∇(s,a) for a centred gradient. 0 exactly at a stationary point."""
    return max(0.0, float(-np.minimum.reduceat(gradient, mdp.pair_start[:-1]).sum()))


def descend(mdp: MDP, probability: Array, slope: Slope, steps: int) -> tuple[Array, int]:
    """A local optimum near ``probability``, and the number of evaluations it took.

    The best policy that was met is returned: where the objective has kinks a line search may
    end on a worse one.
    """
    scale = abs(slope(probability)[0]) or 1.0
    best: dict[str, Any] = {"value": np.inf, "probability": probability}

    def objective(u: Array) -> tuple[float, Array]:
        squares = mdp.to_pairs(mdp.state_sums(u * u))
        here = u * u / squares
        value, gradient = slope(here)
        # Far outside, a value may be no number; L-BFGS only needs to be told that it is bad.
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e10, np.zeros_like(u)
        if value < best["value"]:
            best.update(value=value, probability=here)
        return value / scale, 2 * u * gradient / squares / scale

    found = minimize(
        objective,
        np.sqrt(probability),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20},
    )
    return best["probability"], int(found.nfev)


def rounded(
    mdp: MDP, probability: Array, value: float, objective: Callable[[Array], float]
) -> tuple[Array, float]:
    """Without the probabilities that are next to nothing, where that costs nothing."""
    kept = np.where(probability < NEGLIGIBLE, 0.0, probability)
    if not (kept != probability).any():
        return probability, value
    kept /= mdp.to_pairs(mdp.state_sums(kept))
    cost = objective(kept)
    return (kept, cost) if cost <= value * (1 + 1e-12) else (probability, value)


def blended(mdp: MDP, probability: Array) -> Array:
    """With a little of the uniform policy, so that no action is out of reach."""
    return (1 - BLEND) * probability + BLEND * Policy.uniform(mdp).probability


def standard_starts(
    mdp: MDP,
    planners: dict[str, Callable[[], Policy]],
    starts: int | Sequence[Policy] | None,
    seed: int | np.random.Generator,
) -> tuple[list[tuple[str, Policy]], list[str]]:
    """Named start policies, and a note for each planner that had no answer.

    ``starts`` adds policies of the user's, or says how many random ones there are (16 for a
    small world, 4 for a large one).
    """
    rng = generator(seed)
    found: list[tuple[str, Policy]] = []
    notes = []
    for name, planner in planners.items():
        try:
            found.append((name, planner()))
        except SojournError as error:
            notes.append(f"no start from {name}: {error.message}")
    found.append(("uniform", Policy.uniform(mdp)))
    count = max(4, min(16, 320 // mdp.n_states))
    if isinstance(starts, Sequence):
        for k, policy in enumerate(starts):
            if not isinstance(policy, Policy) or policy.mdp is not mdp:
                raise ArgumentError(
                    f"start {k} is not a policy of this world",
                    "give policies built on the same MDP, or a number of random starts",
                )
            found.append((f"yours {k + 1}", policy))
    elif starts is not None:
        count = whole(starts, "the number of random starts", most=MOST_STARTS)
    for k in range(count):
        draw = rng.exponential(size=mdp.n_pairs)
        found.append((f"random {k + 1}", Policy(mdp, draw / mdp.to_pairs(mdp.state_sums(draw)))))
    return found, notes
