"""What the instances share: sizes, and noise where none was given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import per_state, whole

VARIANCE_RANGE = (0.01, 10.0)
"""Smallest and largest variance in the paper's experiments (Sec. sec:experiments)."""


LARGEST = 10**9
"""States or actions that an instance may have: beyond, NumPy's message would be the answer."""


def how_many(value: Any, name: str, minimum: int) -> int:
    """``value`` as the size of something."""
    return whole(value, name, minimum, LARGEST)


def variance_or_uniform(
    variance: ArrayLike | None, n_states: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The given variances, or uniform ones in :data:`VARIANCE_RANGE`."""
    if variance is None:
        return rng.uniform(*VARIANCE_RANGE, n_states)
    return per_state(variance, n_states, "variance", minimum=0.0)
