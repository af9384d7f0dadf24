"""The hidden truth: a model of the moves, and what is measured in each state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import number, per_state, start_distribution
from sojourn.errors import ArgumentError
from sojourn.model.frozen import Frozen
from sojourn.model.mdp import MDP, check_model

NOISES = ("gaussian", "uniform", "beta", "two-point")
"""Laws of the observation, each with the state's mean and variance; all but the first are
bounded: uniform on an interval, a scaled beta(2, 2), and two values of equal chance."""

Sampler = Callable[[np.random.Generator, NDArray, NDArray, NDArray], NDArray]
"""A user's own noise: ``sampler(rng, states, mean, variance)`` returns one value per state."""


class World(Frozen):
    """An MDP together with the mean and the variance of the observation in each state.

    ``noise`` is one of :data:`NOISES` or a :data:`Sampler`. ``start`` is a state (index), a
    distribution over states, or ``None`` for the uniform one. ``variance_bound`` is what a
    strategy may be told about the variances (σ²_max); by default the largest variance.
    """

    mdp: MDP
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    noise: str | Sampler
    start: NDArray[np.float64]
    variance_bound: float

    def __init__(
        self,
        mdp: MDP,
        mean: ArrayLike = 0.0,
        variance: ArrayLike = 1.0,
        noise: str | Sampler = "gaussian",
        start: int | ArrayLike | None = None,
        variance_bound: float | None = None,
    ) -> None:
        check_model(mdp)
        n, labels = mdp.n_states, mdp.state_labels
        if isinstance(noise, str) and noise not in NOISES:
            raise ArgumentError(
                f"there is no noise {noise!r}",
                f"use one of {', '.join(NOISES)}, or a function (rng, states, mean, variance)",
            )
        if not (isinstance(noise, str) or callable(noise)):
            raise ArgumentError(
                f"noise is {noise!r}, neither a name nor a function",
                f"use one of {', '.join(NOISES)}, or a function (rng, states, mean, variance)",
            )
        spread = per_state(variance, n, "variance", minimum=0.0, labels=labels)
        largest = float(spread.max())
        finite = "give a finite number that no variance exceeds, or None"
        bound = (
            largest if variance_bound is None else number(variance_bound, "variance_bound", finite)
        )
        if bound < largest:
            raise ArgumentError(
                f"variance_bound is {bound:g}, the largest variance {largest:g}", finite
            )
        self._hold(
            mdp=mdp,
            mean=per_state(mean, n, "mean", labels=labels),
            variance=spread,
            noise=noise,
            start=start_distribution(start, n),
            variance_bound=bound,
        )

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
