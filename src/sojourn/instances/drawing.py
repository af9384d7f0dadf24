"""What the instances share: sizes, and noise where none was given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.model import per_state

VARIANCE_RANGE = (0.01, 10.0)
"""Smallest and largest variance in the paper's experiments (Sec. sec:experiments)."""


def whole(value: Any, name: str, minimum: int) -> int:
    """``value`` as a whole number of at least ``minimum``, or a named error."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < minimum:
        raise ArgumentError(f"{name} is {value!r}", f"give a whole number of at least {minimum}")
    return int(value)


def variance_or_uniform(
    variance: ArrayLike | None, n_states: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The given variances, or uniform ones in :data:`VARIANCE_RANGE`."""
    if variance is None:
        return rng.uniform(*VARIANCE_RANGE, n_states)
    return per_state(variance, n_states, "variance", minimum=0.0)
