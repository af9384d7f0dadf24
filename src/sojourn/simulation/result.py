"""What a simulation found.

With R walks, checkpoints n and T(s) samples of state s (Sec. sec:experiments):

    error            (1/S) Σ_s weight (μ̂(s) − μ(s))²   of each walk, at each checkpoint
    allocation_loss  (n/S) Σ_s weight σ²(s)/T(s)        its expectation given the visits, times n:
                                                        the same loss with the noise averaged out
    loss             LOSS(π,n,R) = the mean of error over the walks
    normalized_loss  n·LOSS
    ratio            RATIO(π,n,R) = n·LOSS / 𝓛(λ*) − 1   (Eq. rnl_formula)

A state without a sample costs ``counting.unvisited_cost`` in both losses. Checkpoints are
moments of *one* walk planned for the whole budget; to compare budgets, simulate each. Ratios are
NaN where 𝓛(λ*) = 0, in a world without noise.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError, need
from sojourn.model import Counting, World
from sojourn.simulation.played import Played


class Status(enum.Enum):
    """How a simulation ended; the value is the sentence to show."""

    FINISHED = "every walk spent its budget"
    INTERRUPTED = "interrupted: these are the walks, or checkpoints, that were done by then"


@dataclass(frozen=True)
class Simulation:
    """The record of many independent walks; arrays are (runs, checkpoints) or (runs, states)."""

    world: World
    strategy: str
    budget: int
    counting: Counting
    weight: NDArray[np.float64] | None
    checkpoints: NDArray[np.int64]
    error: NDArray[np.float64]
    allocation_loss: NDArray[np.float64]
    visits: NDArray[np.int64]
    """T(s) when the walk ended, (runs, states)."""
    mean: NDArray[np.float64]
    """The estimate of every state's mean when the walk ended, (runs, states)."""
    empirical_variance: NDArray[np.float64]
    """The biased 1/T variance of every state when the walk ended, (runs, states)."""
    final_state: NDArray[np.int64]
    """Where the devices were when the walk ended, (runs, walkers)."""
    home: int | None
    status: Status
    seconds: float
    notes: tuple[str, ...] = ()
    """What the strategy wanted to say, each sentence once."""
    played: Played | None = field(default=None, repr=False)
    """Every policy played, where ``record_policies=True`` asked for it."""

    # -- losses -------------------------------------------------------------------------

    @property
    def runs(self) -> int:
        """The number of walks."""
        return len(self.error)

    @property
    def loss(self) -> NDArray[np.float64]:
        """LOSS(π,n,R), the mean squared error over states and walks; per checkpoint."""
        return self.error.mean(axis=0)

    @property
    def normalized_loss(self) -> NDArray[np.float64]:
        """n·LOSS(π,n,R); per checkpoint."""
        return self.checkpoints * self.loss

    @property
    def ratio(self) -> NDArray[np.float64]:
        """n·LOSS/𝓛(λ*) − 1 (Eq. rnl_formula); per checkpoint."""
        return self.normalized_loss / self._yardstick - 1.0

    @property
    def allocation_ratio(self) -> NDArray[np.float64]:
        """The ratio of the mean allocation loss: the same quantity with the noise averaged out."""
        return self.allocation_loss.mean(axis=0) / self._yardstick - 1.0

    @cached_property
    def optimal_loss(self) -> float:
        """𝓛(λ*), the loss of the best occupancy when time is long."""
        from sojourn.planning import optimal_plan

        return optimal_plan(self.world.mdp, self.world.variance, weight=self.weight).loss

    @property
    def _yardstick(self) -> float:
        return self.optimal_loss or float("nan")

    # -- spread over the walks ----------------------------------------------------------

    def normalized(self, what: str = "error") -> NDArray[np.float64]:
        """Per walk and checkpoint: n·error, or the allocation loss; (runs, checkpoints)."""
        if what == "error":
            return self.checkpoints * self.error
        if what == "allocation":
            return self.allocation_loss
        raise ArgumentError(f"there is no {what!r} to summarise", "use 'error' or 'allocation'")

    def quantile(self, q: ArrayLike, what: str = "error") -> NDArray[np.float64]:
        """Quantiles over the walks of the normalised loss; shape of ``q`` + (checkpoints,)."""
        levels = np.asarray(q, dtype=float)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise ArgumentError(
                f"the quantile {q!r} is not between 0 and 1", "the median is quantile(0.5)"
            )
        return np.quantile(self.normalized(what), levels, axis=0)

    @property
    def median(self) -> NDArray[np.float64]:
        """The median walk's normalised loss; per checkpoint."""
        return self.quantile(0.5)

    @property
    def max(self) -> NDArray[np.float64]:
        """The worst walk's normalised loss; per checkpoint."""
        return self.normalized().max(axis=0)

    def standard_error(self, what: str = "error") -> NDArray[np.float64]:
        """The standard error of the mean normalised loss; NaN with a single walk."""
        values = self.normalized(what)
        if self.runs < 2:
            return np.full(values.shape[1], np.nan)
        return values.std(axis=0, ddof=1) / np.sqrt(self.runs)

    @property
    def ratio_standard_error(self) -> NDArray[np.float64]:
        """The standard error of :attr:`ratio`; per checkpoint."""
        return self.standard_error() / self._yardstick

    @property
    def at_home(self) -> NDArray[np.bool_]:
        """Whether every device ended at ``home``; per walk."""
        if self.home is None:
            raise ArgumentError("this simulation has no home", "give one: simulate(..., home=s)")
        return (self.final_state == self.home).all(axis=1)

    # -- export -------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Per checkpoint: mean, standard error, median, 95 % quantile and maximum."""
        return {
            "checkpoint": self.checkpoints,
            "normalized_loss": self.normalized_loss,
            "standard_error": self.standard_error(),
            "median": self.median,
            "q95": self.quantile(0.95),
            "max": self.max,
            "allocation_loss": self.allocation_loss.mean(axis=0),
            "allocation_standard_error": self.standard_error("allocation"),
        }

    def _columns(self) -> dict[str, Any]:
        runs, points = self.error.shape
        return {
            "strategy": [self.strategy] * (runs * points),
            "budget": np.full(runs * points, self.budget),
            "run": np.repeat(np.arange(runs), points),
            "checkpoint": np.tile(self.checkpoints, runs),
            "error": self.error.ravel(),
            "normalized_error": (self.checkpoints * self.error).ravel(),
            "allocation_loss": self.allocation_loss.ravel(),
        }

    def to_pandas(self) -> Any:
        """A tidy table, one row per walk and checkpoint."""
        try:
            import pandas
        except ImportError:
            raise need("pandas", "data", "Simulation.to_pandas") from None
        return pandas.DataFrame(self._columns())

    def save(self, path: str | Path) -> Path:
        """Write the tidy table as parquet."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise need("pyarrow", "data", "Simulation.save") from None
        target = Path(path)
        pyarrow.parquet.write_table(pyarrow.table(self._columns()), target)
        return target

    def __repr__(self) -> str:
        loss, error = self.normalized_loss[-1], self.standard_error()[-1]
        return (
            f"Simulation({self.strategy}, {self.runs} runs, normalised loss {loss:.4g} ± "
            f"{error:.2g} at n = {self.checkpoints[-1]}; {self.status.value})"
        )
