"""Where randomness comes from: the caller's seed, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.arguments import whole

Seed = int | np.random.Generator


def generator(seed: Any) -> np.random.Generator:
    """The generator that a seed stands for; a generator is itself, and is drawn from."""
    if isinstance(seed, np.random.Generator):
        return seed
    # None would draw a seed from the machine, and no second run would be the same.
    return np.random.default_rng(whole(seed, "the seed", most=1 << 128))
