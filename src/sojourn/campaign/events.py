"""What can happen in a campaign. The list of events *is* the campaign.

History is never rewritten: a correction and a voiding are events too. Everything else (where
the device is, what is known, what comes next) is a fold over this list.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Something that happened."""


class Created(Event, tag="created", frozen=True):
    """The campaign began. ``strategy`` is a name and its options; ``goal`` says when to stop."""

    version: str
    seed: int
    strategy: str
    options: dict[str, Any] = {}
    budget: int | None = None
    goal: dict[str, Any] = {}
    start: int | None = None
    home: int | None = None
    note: str = ""


class Asked(Event, tag="asked", frozen=True):
    """An advice was given: take ``pair`` in ``state``.

    ``planned``: a new decision was made. ``homeward``: not the strategy's choice but the way home.
    """

    number: int
    state: int
    pair: int
    planned: bool
    homeward: bool = False


class Told(Event, tag="told", frozen=True):
    """A measurement came back: the values taken at ``state`` (none: the sample was lost).

    ``ask`` is the event of the advice that was followed (or abandoned) by this move;
    ``moved`` is false for data taken out of plan or before the campaign, which costs no step.
    """

    state: int
    values: tuple[float, ...] = ()
    ask: int | None = None
    moved: bool = True
    note: str = ""


class Placed(Event, tag="placed", frozen=True):
    """The device is at ``state`` now, without a measurement and without spending a step."""

    state: int
    note: str = ""


class Corrected(Event, tag="corrected", frozen=True):
    """The values of the earlier event ``event`` were in truth these."""

    event: int
    values: tuple[float, ...]
    note: str = ""


class Voided(Event, tag="voided", frozen=True):
    """The values of the earlier event ``event`` do not count."""

    event: int
    reason: str


class Extended(Event, tag="extended", frozen=True):
    """The budget or the goal changed."""

    budget: int | None = None
    goal: dict[str, Any] | None = None
    note: str = ""


AnyEvent = Created | Asked | Told | Placed | Corrected | Voided | Extended
