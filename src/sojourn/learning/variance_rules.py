"""What a learner believes of the variances.

With T(s) samples of state s after t moves and the biased empirical variance σ̂² of
Eq. eq:emp.variables, a *width* α(t, s) is added to be optimistic; a *pooled* estimate adds
nothing, and shrinks what was hardly measured towards what the states have in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError, StrategyError
from sojourn.learning.strategy import Observations, Task

Floats = NDArray[np.float64]


class Width(Protocol):
    """Anything that says how far a variance may be above its estimate."""

    def __call__(self, task: Task, seen: Observations, walks: NDArray[np.int64]) -> Floats:
        """α(t, s), one row per walk."""


@dataclass(frozen=True)
class ExperimentWidth:
    """α(t, s, 1/t) = width·σ²_max·√(log(4St²)/T(s)), as in Sec. sec:experiments."""

    width: float = 0.2
    variance_bound: float | None = None

    def __call__(self, task: Task, seen: Observations, walks: NDArray[np.int64]) -> Floats:
        """α(t, s), one row per walk."""
        if self.width == 0.0:
            return np.zeros((walks.size, task.n_states))
        bound = variance_bound(self.variance_bound, task)
        t = np.maximum(seen.time[walks], 1)[:, None]
        log = np.log(4.0 * task.n_states) + 2.0 * np.log(t)
        return self.width * bound * np.sqrt(log / np.maximum(seen.visits[walks], 1))


@dataclass(frozen=True)
class TheoryWidth:
    """α(t, s, δ) = 5R²·√(log(4St/δ)/T(s)), Prop. lem:bound_variance_estimates.

    ``range`` is R: observations lie in an interval of this length. ``confidence`` is δ.
    """

    range: float
    confidence: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.range < np.inf:
            raise ArgumentError(f"the range R is {self.range}", "give a positive number")
        if not 0 < self.confidence < 1:
            raise ArgumentError(f"δ is {self.confidence}", "give a number between 0 and 1")

    def __call__(self, task: Task, seen: Observations, walks: NDArray[np.int64]) -> Floats:
        """α(t, s, δ), one row per walk."""
        t = np.maximum(seen.time[walks], 1)[:, None]
        log = np.log(4.0 * task.n_states * t / self.confidence)
        return 5.0 * self.range**2 * np.sqrt(log / np.maximum(seen.visits[walks], 1))


def width_rule(given: float | Width, bound: float | None) -> Width:
    """A width by its factor (the experiments'), or as it is."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        if not 0 <= given < np.inf:
            raise ArgumentError(f"the confidence width is {given}", "give a number >= 0")
        return ExperimentWidth(float(given), bound)
    if callable(given):
        return given
    raise ArgumentError(
        f"{given!r} is not a confidence width",
        "give the factor of the experiments' width, or TheoryWidth(range=R)",
    )


def variance_bound(given: float | None, task: Task) -> float:
    """σ²_max, from the argument or from the task."""
    bound = task.variance_bound if given is None else given
    if bound is None:
        raise StrategyError(
            "the confidence width needs a bound on the variances, σ²_max",
            "give it: variance_bound=…, or width=0 to go without optimism",
        )
    return bound


def pooled_variance(seen: Observations, walks: NDArray[np.int64]) -> Floats:
    """v = (Σ(x − x̄)² + 2·pool)/(T − 1 + 2), pool the variance within states, all together.

    The posterior mean, roughly, of a variance that is worth two samples of the common one before
    it is measured. v = pool where T = 0; all are 1 until some state has two samples.
    """
    visits, spread = seen.visits[walks], seen.spread[walks]
    freedom = np.maximum(visits - 1, 0)
    total = freedom.sum(axis=1, keepdims=True)
    squares = spread.sum(axis=1, keepdims=True)
    pool = np.where((total > 0) & (squares > 0), squares / np.maximum(total, 1), 1.0)
    return np.where(visits > 0, (spread + 2.0 * pool) / (freedom + 2.0), pool)
