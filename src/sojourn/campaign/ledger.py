"""The state of a campaign: a fold over its events.

Nothing here decides anything and nothing here touches the disk; applying the same events gives
the same ledger, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sojourn.campaign.events import (
    AnyEvent,
    Asked,
    Corrected,
    Created,
    Extended,
    Placed,
    Told,
    Voided,
)
from sojourn.errors import StoreError
from sojourn.importing import Site
from sojourn.learning.strategy import Observations


@dataclass
class Sample:
    """The values of one event, as they count now."""

    state: int
    values: tuple[float, ...]
    voided: bool = False
    corrected: bool = False


@dataclass(frozen=True)
class Visit:
    """The device came to ``state`` at step ``step``."""

    event: int
    at: str
    step: int
    state: int


@dataclass
class Ledger:
    """Where the device is, what it measured, what it was last told to do."""

    site: Site
    created: Created | None = None
    last: int = 0
    steps: int = 0
    asks: int = 0
    location: int | None = None
    outstanding: tuple[int, Asked] | None = None
    budget: int | None = None
    goal: dict[str, float | str] = field(default_factory=dict)
    learns: bool = False
    """The strategy learns where moves lead: then a place that the map does not foresee is an
    outcome of the move, and not a detour of the crew."""
    disturbed: bool = False
    """Something outside the plan happened since the last decision."""
    last_pair: int | None = None
    """The pair of the last move, None if it was not an advised one."""
    path: list[Visit] = field(default_factory=list)
    samples: dict[int, Sample] = field(default_factory=dict)
    stamps: dict[int, str] = field(default_factory=dict)
    transitions: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, pairs = self.site.mdp.n_states, self.site.mdp.n_pairs
        self.visits: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self.mean: NDArray[np.float64] = np.zeros(n)
        self.spread: NDArray[np.float64] = np.zeros(n)
        self.pair_visits: NDArray[np.int64] = np.zeros(pairs, dtype=np.int64)
        self._events_of: dict[int, list[int]] = {}

    def apply(self, number: int, at: str, event: AnyEvent) -> None:
        """Fold one event in."""
        if number <= self.last:
            raise StoreError(
                f"event {number} comes after event {self.last}",
                "the order of events was changed from outside: go back to a copy of the file",
            )
        self.last = number
        self.stamps[number] = at
        if isinstance(event, Told):
            self._told(number, at, event)
        elif isinstance(event, Asked):
            self.outstanding = (number, event)
            self.asks += 1
            if event.planned:
                self.disturbed = False
        elif isinstance(event, Corrected):
            sample = self.samples[event.event]
            sample.values, sample.corrected, sample.voided = event.values, True, False
            self._recount(sample.state)
        elif isinstance(event, Voided):
            sample = self.samples[event.event]
            sample.voided = True
            self._recount(sample.state)
        elif isinstance(event, Placed):
            self.location = event.state
            self.outstanding = None
            self.disturbed = True
            self.path.append(Visit(number, at, self.steps, event.state))
        elif isinstance(event, Created):
            self.created = event
            self.budget, self.goal = event.budget, dict(event.goal)
            self.location = event.start
            if event.start is not None:
                self.path.append(Visit(number, at, 0, event.start))
        elif isinstance(event, Extended):
            if event.budget is not None:
                self.budget = event.budget
            if event.goal is not None:
                self.goal = dict(event.goal)
            self.disturbed = True

    def _told(self, number: int, at: str, event: Told) -> None:
        self.samples[number] = Sample(event.state, event.values)
        self._events_of.setdefault(event.state, []).append(number)
        for value in event.values:
            self._count(event.state, value)
        if not event.moved:
            self.disturbed = True
            return
        pair = self.last_pair = self._followed(event)
        if pair is None:
            self.disturbed = True
        else:
            self.pair_visits[pair] += 1
            key = (pair, event.state)
            self.transitions[key] = self.transitions.get(key, 0) + 1
        self.steps += 1
        self.location = event.state
        self.outstanding = None
        self.path.append(Visit(number, at, self.steps, event.state))

    def _followed(self, event: Told) -> int | None:
        """The pair that was taken, if the move is one that the advice could have caused."""
        if self.outstanding is None or event.ask != self.outstanding[0]:
            return None
        pair = self.outstanding[1].pair
        return pair if self.learns or event.state in self.outcomes(pair) else None

    def outcomes(self, pair: int) -> NDArray[np.int64]:
        """Where a pair may lead."""
        P = self.site.mdp.transitions
        return P.indices[P.indptr[pair] : P.indptr[pair + 1]].astype(np.int64)

    def _count(self, state: int, value: float) -> None:
        self.visits[state] += 1
        step = value - self.mean[state]
        self.mean[state] += step / self.visits[state]
        self.spread[state] += step * (value - self.mean[state])

    def _recount(self, state: int) -> None:
        """Welford's recursion can't forget: count the state's values anew."""
        self.visits[state], self.mean[state], self.spread[state] = 0, 0.0, 0.0
        for number in self._events_of[state]:
            sample = self.samples[number]
            if not sample.voided:
                for value in sample.values:
                    self._count(state, value)
        self.disturbed = True

    def observations(self, generator: np.random.Generator, *, transitions: bool) -> Observations:
        """What a strategy may see, as a walk of its own."""
        mdp = self.site.mdp
        assert self.location is not None
        counts = None
        if transitions:
            counts = np.zeros((1, mdp.n_pairs, mdp.n_states), dtype=np.int64)
            for (pair, state), times in self.transitions.items():
                counts[0, pair, state] = times
        here = np.array([self.location], dtype=np.int64)
        return Observations(
            time=np.array([self.steps], dtype=np.int64),
            state=here,
            visits=self.visits[None].copy(),
            mean=self.mean[None].copy(),
            spread=self.spread[None].copy(),
            pair_visits=self.pair_visits[None].copy(),
            positions=here[:, None].copy(),
            generators=[generator],
            transitions=counts,
        )
