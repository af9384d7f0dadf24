"""A finite Markov chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class Chain:
    """A Markov chain given by its transition matrix, dense or sparse."""

    def __init__(self, P: Any) -> None:
        self.transitions = P if sp.issparse(P) else np.array(P, dtype=float)

    def stationary(self) -> NDArray[np.float64]:
        """η with η P = η, Σ η = 1."""
        P = self.transitions.toarray() if sp.issparse(self.transitions) else self.transitions
        n = P.shape[0]
        system = np.vstack([P.T - np.eye(n), np.ones(n)])
        return np.linalg.lstsq(system, np.r_[np.zeros(n), 1.0], rcond=None)[0]
