"""The hidden truth: a model of the moves, and what is measured in each state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.model.mdp import MDP, distribution, per_state

NOISES = ("gaussian", "uniform", "beta", "two-point")
"""Laws of the observation, each with the state's mean and variance; all but the first are
bounded: uniform on an interval, a scaled beta(2, 2), and two values of equal chance."""

Sampler = Callable[[np.random.Generator, NDArray, NDArray, NDArray], NDArray]
"""A user's own noise: ``sampler(rng, states, mean, variance)`` returns one value per state."""


class World:
    """An MDP together with the mean and the variance of the observation in each state.

    ``noise`` is one of :data:`NOISES` or a :data:`Sampler`. ``start`` is a state (index), a
    distribution over states, or ``None`` for the uniform one. ``variance_bound`` is what a
    strategy may be told about the variances (σ²_max); by default the largest variance.
    """

    def __init__(
        self,
        mdp: MDP,
        mean: ArrayLike = 0.0,
        variance: ArrayLike = 1.0,
        noise: str | Sampler = "gaussian",
        start: int | ArrayLike | None = None,
        variance_bound: float | None = None,
    ) -> None:
        n = mdp.n_states
        self.mdp = mdp
        self.mean = per_state(mean, n, "mean")
        self.variance = per_state(variance, n, "variance", minimum=0.0)
        if isinstance(noise, str) and noise not in NOISES:
            raise ArgumentError(
                f"there is no noise {noise!r}",
                f"use one of {', '.join(NOISES)}, or a function (rng, states, mean, variance)",
            )
        self.noise = noise
        if start is None:
            self.start = np.full(n, 1.0 / n)
        elif np.ndim(start) == 0:
            index = int(np.asarray(start))
            if not 0 <= index < n:
                raise ArgumentError(f"the start state {index} is not between 0 and {n - 1}")
            self.start = np.eye(1, n, index).ravel()
        else:
            self.start = distribution(start, n, "start")
        largest = float(self.variance.max())
        self.variance_bound = largest if variance_bound is None else float(variance_bound)
        if not self.variance_bound >= largest:
            raise ArgumentError(
                f"variance_bound {self.variance_bound:g} is below the largest variance {largest:g}"
            )
        for array in (self.mean, self.variance, self.start):
            array.flags.writeable = False

    def replace(self, **changes: Any) -> World:
        """The same world with some arguments changed."""
        arguments: dict[str, Any] = {
            "mdp": self.mdp, "mean": self.mean, "variance": self.variance, "noise": self.noise,
            "start": self.start, "variance_bound": self.variance_bound,
        }  # fmt: skip
        return World(**(arguments | changes))

    def __repr__(self) -> str:
        law = self.noise if isinstance(self.noise, str) else "custom"
        return f"World({self.mdp!r}, {law} noise, variance up to {self.variance.max():.3g})"
