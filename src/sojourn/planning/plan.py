"""What a planner returns: the occupancy, what it costs, and how close to the best that is."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sojourn.model import MDP, Policy
from sojourn.planning.notes import mixing_notes
from sojourn.solvers.objectives import Objective


class Status(Enum):
    """How a planner ended, in the words that users read."""

    OPTIMAL = "optimal: the proved gap is within the tolerance"
    TRIVIAL = "optimal: nothing is uncertain, so every plan is as good as any other"
    ROUNDING = "nearly optimal: the gap is proved, and rounding errors allow no smaller one"
    STALLED = "stopped short of the tolerance: rounding errors allow no further progress"
    ITERATIONS = "stopped short of the tolerance: the iteration limit was reached"
    INTERRUPTED = "interrupted: this is the best plan so far, and its gap is proved"

    @property
    def ok(self) -> bool:
        """Whether the answer is what was asked for."""
        return self in (Status.OPTIMAL, Status.TRIVIAL, Status.ROUNDING)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Stats:
    """How the answer was found."""

    method: str
    linear_algebra: str
    """How the linear systems were solved, and why so."""
    iterations: int
    seconds: float
    peak_mib: float | None
    """Peak memory of the whole process in MiB, where the system tells."""
    bandit_bound: float
    """The loss if every distribution over the states were possible."""
    distance_from_bandit: float
    """loss/bandit_bound − 1: what the moves cost (0: they are no obstacle at all). The plain
    difference for an objective with logarithms."""
    history: tuple[tuple[int, float], ...] = ()
    """(iteration, proved gap) along the way; nothing from the compiled kernel of small models."""


@dataclass(frozen=True, eq=False)
class Plan:
    """An occupancy, and the proof of how good it is.

    ``loss`` is what the occupancy achieves, ``bound`` what no occupancy can beat, and ``gap``
    their relative distance, (loss − bound)/loss; it is computed from the returned occupancy
    and holds whatever the solver did (:mod:`sojourn.planning.certificate`).
    """

    mdp: MDP
    occupancy: NDArray[np.float64]
    loss: float
    bound: float
    gap: float
    status: Status
    stats: Stats
    prices: NDArray[np.float64]
    """The multipliers h that prove the bound, one per state (0 outside the component used)."""
    objective: Objective
    budget: int | None = None
    prices_low: NDArray[np.float64] | None = None
    """Further digits of the prices, where one float each doesn't hold what the proof needs: it
    holds for the sum of both."""

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What to know before trusting the plan with a budget, in sentences.

        Looked into when first asked for: it takes the spectrum of the plan's chain.
        """
        return mixing_notes(self.policy, self.occupancy, self.budget)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The same as ``notes``."""
        return self.notes

    @cached_property
    def distribution(self) -> NDArray[np.float64]:
        """η, the share of time spent in each state."""
        eta = self.mdp.state_sums(self.occupancy)
        eta.flags.writeable = False
        return eta

    @cached_property
    def policy(self) -> Policy:
        """π(a|s), completed on states that are never visited so that it leads to the others."""
        return Policy.from_occupancy(self.mdp, self.occupancy)

    def __str__(self) -> str:
        lines = [
            f"Plan for {self.mdp.n_states} states and {self.mdp.n_pairs} pairs",
            f"  loss    {self.loss:.10g}",
            f"  bound   {self.bound:.10g}   (gap {self.gap:.1e}, proved)",
            f"  status  {self.status}",
            f"  found   by {self.stats.method}, {self.stats.linear_algebra}: "
            f"{self.stats.iterations} iterations in {self.stats.seconds:.3g} s",
        ]
        if self.objective.relative and self.stats.bandit_bound > 0:
            lines.append(
                f"  moving  costs {100 * self.stats.distance_from_bandit:.3g} % beyond the "
                f"loss {self.stats.bandit_bound:.6g} without obstacles"
            )
        lines += [f"  note    {note}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Plan(loss={self.loss:.6g}, gap={self.gap:.1e}, {self.status.name})"


def peak_memory() -> float | None:
    """Peak memory of this process in MiB, where the system tells."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (2**20 if sys.platform == "darwin" else 2**10)
