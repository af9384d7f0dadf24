"""Rivals that maximise an entropy instead of minimising the estimation error.

Both run the loop of :class:`FrankWolfe` on another objective of the frequencies λ̃ = T/t, and
have no floor: the gradient of an entropy grows without bound only where λ̃ → 0.

Hazan, Kakade, Singh & Van Soest (2019) explore by maximising the entropy of the visits. Their
smoothed objective is H(η) = −Σ η log(η + ε), with reward −log(η + ε) − η/(η + ε).

Tarbouriech, Shekhar, Pirotta, Ghavamzadeh & Lazaric (2020) weigh the entropy by how noisy each
place is, H_v(η) = −Σ v η log η with gradient −v (1 + log η); here v is the optimistic variance.
Its maximiser visits noisy places more, but not in the proportion that minimises the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError
from sojourn.learning.frank_wolfe import FrankWolfe
from sojourn.learning.strategy import Observations, Task


class MaxEntropy(FrankWolfe):
    """Hazan et al. (2019): spread the visits evenly; variances play no part."""

    def __init__(self, smoothing: float = 1e-3, floor: float = 0.0, **options: Any) -> None:
        if not 0 < smoothing < 1:
            raise ArgumentError(f"smoothing is {smoothing}", "give a number between 0 and 1")
        super().__init__(floor=floor, **({"name": "max entropy"} | options))
        self.smoothing = smoothing

    def gradient(
        self, task: Task, seen: Observations, walks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """log(λ̃ + ε) + λ̃/(λ̃ + ε): the negative of the reward."""
        share = _frequency(seen, walks)
        return np.log(share + self.smoothing) + share / (share + self.smoothing)


class WeightedMaxEntropy(FrankWolfe):
    """Tarbouriech et al. (2020): the entropy weighted by the optimistic variances."""

    def __init__(self, floor: float = 0.0, **options: Any) -> None:
        super().__init__(floor=floor, **({"name": "weighted max entropy"} | options))

    def gradient(
        self, task: Task, seen: Observations, walks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """weight·(σ̂² + α)·(1 + log λ̃)."""
        value = task.weights * self._variance(task, seen, walks)
        return value * (1.0 + np.log(_frequency(seen, walks)))


def _frequency(seen: Observations, walks: NDArray[np.int64]) -> NDArray[np.float64]:
    visits = np.maximum(seen.visits[walks], 1).astype(float)
    return visits / visits.sum(axis=1, keepdims=True)
