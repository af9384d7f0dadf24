"""What counts as a sample.

The paper counts in two ways, and a loss means nothing without saying which. One object is
shared by the exact finite loss, the budget plan, the simulation and the ratio.

With a budget n and a start state s₁:

    PriorSample   Asm. asm:counter: one free sample in every state, then the visits at times
                  2..n, so n − 1 moves and T(s) = 1 + V(s).
    VisitsOnly    as in Sec. sec:experiments: n moves, each with one sample at the state it
                  reaches, T(s) = V(s); a state never visited costs ``unvisited``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError


@dataclass(frozen=True)
class PriorSample:
    """Asm. asm:counter: T(s) = 1 + visits at times 2..n."""

    @property
    def prior(self) -> int:
        """Samples that every state has before the first move."""
        return 1

    def moves(self, budget: int) -> int:
        """Moves made with a budget of n."""
        return budget - 1

    def unvisited_cost(self, variance: NDArray) -> float:
        """What a state without a sample costs: none is ever without one."""
        return 0.0


@dataclass(frozen=True)
class VisitsOnly:
    """The experiments' counting: T(s) = visits, an unvisited state costs ``unvisited``.

    The default is 9 σ²_max: Sec. sec:experiments predicts 3 σ_max where nothing was measured,
    while the true means are 0.
    """

    unvisited: float | None = None

    def __post_init__(self) -> None:
        known = self.unvisited is None or (
            isinstance(self.unvisited, int | float | np.number)
            and not isinstance(self.unvisited, bool)
            and 0 <= self.unvisited < np.inf
        )
        if not known:
            raise ArgumentError(
                f"unvisited is {self.unvisited!r}", "give a finite squared error >= 0, or None"
            )

    @property
    def prior(self) -> int:
        """Samples that every state has before the first move."""
        return 0

    def moves(self, budget: int) -> int:
        """Moves made with a budget of n."""
        return budget

    def unvisited_cost(self, variance: NDArray) -> float:
        """What a state without a sample costs."""
        return 9.0 * float(np.max(variance)) if self.unvisited is None else self.unvisited


Counting = PriorSample | VisitsOnly
