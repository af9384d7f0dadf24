"""Where randomness comes from: the caller's seed, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.errors import ArgumentError

Seed = int | np.random.Generator


def generator(seed: Any) -> np.random.Generator:
    """The generator that a seed stands for; a generator is itself, and is drawn from."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"the seed is {seed!r}", "give a whole number >= 0, or a numpy.random.Generator"
        ) from None
