"""When episodes begin.

A schedule says how many moves have been made when episode k = 2, 3, … begins, given τ₁, the
length of the first one (which ends when every state has a sample). The paper numbers times from
1, so an episode that starts at time t_k starts after t_k − 1 moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError

Ints = NDArray[np.int64]


class Schedule(Protocol):
    """Anything that says when episodes begin."""

    def moves_before(self, episode: Ints, first: Ints) -> Ints:
        """Moves made before ``episode`` ≥ 2, when the first one took ``first``."""


@dataclass(frozen=True)
class Cubic:
    """t_k = τ₁ + (k−1)³, as in Sec. sec:experiments."""

    def moves_before(self, episode: Ints, first: Ints) -> Ints:
        """τ₁ + (k−1)³ − 1."""
        return first + (episode - 1) ** 3 - 1


@dataclass(frozen=True)
class Theorem:
    """t_k = τ₁ (k−1)³ + 1, as in Thm. regret_FWAME."""

    def moves_before(self, episode: Ints, first: Ints) -> Ints:
        """τ₁ (k−1)³."""
        return first * (episode - 1) ** 3


@dataclass(frozen=True)
class Constant:
    """Episodes of equal length: the rate of Frank–Wolfe, but a tracking error that stays
    (Remark rate)."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ArgumentError(f"an episode of {self.length} steps", "give a length of at least 1")

    def moves_before(self, episode: Ints, first: Ints) -> Ints:
        """τ₁ + (k−2)·length."""
        return first + (episode - 2) * self.length


@dataclass(frozen=True)
class Power:
    """t_k = τ₁ + (k−1)^m, to see that m = 3 is best (App. ssec_bound_optimality)."""

    exponent: float

    def __post_init__(self) -> None:
        if not 1 <= self.exponent <= 10:
            raise ArgumentError(
                f"episodes that begin at k^{self.exponent}", "give an exponent between 1 and 10"
            )

    def moves_before(self, episode: Ints, first: Ints) -> Ints:
        """τ₁ + (k−1)^m − 1, rounded down."""
        return first + np.floor((episode - 1.0) ** self.exponent).astype(np.int64) - 1


NAMED: dict[str, Schedule] = {"cubic": Cubic(), "theorem": Theorem()}


def as_schedule(given: str | int | Schedule) -> Schedule:
    """A schedule by name, by constant length, or as it is."""
    if isinstance(given, str):
        if given in NAMED:
            return NAMED[given]
        raise ArgumentError(
            f"there is no schedule {given!r}",
            f"use {', '.join(map(repr, NAMED))}, a constant length, or Power(m)",
        )
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return Constant(int(given))
    if hasattr(given, "moves_before"):
        return given
    raise ArgumentError(
        f"{given!r} is not a schedule", "use 'cubic', 'theorem', a constant length, or Power(m)"
    )
