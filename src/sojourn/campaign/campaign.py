"""One live walk: ask where to go, tell what was measured.

A campaign is a list of events in one file. The object in memory is a fold over that list; it
can be thrown away at any moment (a power cut does) and opened again to the same bits. Randomness
is no exception: the draw of the k-th advice comes from a generator seeded by (seed, k), so there
is no generator state to lose.
"""

from __future__ import annotations

import json
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sojourn._version import __version__
from sojourn.arguments import real
from sojourn.campaign import codec
from sojourn.campaign.estimates import Estimates, estimate
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
from sojourn.campaign.homeward import WayHome
from sojourn.campaign.ledger import Ledger, Sample
from sojourn.campaign.memory import Memory
from sojourn.campaign.stopping import checked_goal, mean_error, why_stop
from sojourn.campaign.store import Store
from sojourn.campaign.words import explain
from sojourn.errors import ArgumentError, CampaignError, RequestError, SojournError, StoreError
from sojourn.importing import Site, load_site
from sojourn.learning.strategy import Strategy, check_strategy
from sojourn.model import MDP

LARGEST = 1e100
"""The largest value that can be told."""
CERTAIN = 0.995
"""Such a probability of being home in time needs no words."""


@dataclass(frozen=True)
class Advice:
    """What to do next.

    ``action`` is the action's label and ``state`` the index of the state where it leads most
    likely (``site`` its name, with ``probability``). When ``stop`` is true there is nothing
    more to do, ``action`` and ``state`` are None and ``reason`` says why. ``gain`` is the
    expected fall of the weighted mean squared error by one value measured there, infinite for a
    site's first one. ``homeward``: the strategy was overruled by the way home.
    """

    event: int | None
    step: int
    action: Any
    state: int | None
    site: str | None
    probability: float
    reason: str
    gain: float = 0.0
    stop: bool = False
    homeward: bool = False


class Campaign:
    """A live walk in one file. See :meth:`create` and :meth:`open`."""

    def __init__(self, store: Store, strategy: Strategy | None) -> None:
        self._store = store
        self.site = codec.unpack_site(store.blob("site"))
        self._given = strategy
        self._known: tuple[tuple[int, float], Estimates] | None = None
        self._fold_all()
        self.notes: tuple[str, ...] = tuple(store.notes)
        for note in self.notes:
            warnings.warn(note, UserWarning, stacklevel=3)

    # -- opening ------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        site: MDP | Site | str | PathLike[str],
        strategy: Strategy | None = None,
        budget: int | None = None,
        seed: int | np.random.Generator = 0,
        *,
        precision: float | None = None,
        of: str = "every",
        worth: float | None = None,
        start: Any = None,
        home: Any = None,
        note: str = "",
    ) -> Campaign:
        """Begin a campaign in a new file.

        ``site`` is a model, a loaded site, or the path of a site file. The device starts at
        ``start`` (else the site's start, else its home, else its first state) and is led back
        to ``home`` (else the site's) in time. It ends at the ``budget``, or when the standard
        error ``of`` "every" site or their "average" is at most ``precision``, or when further
        steps are not ``worth`` it (:mod:`sojourn.campaign.stopping`), whatever comes first.
        """
        place = _site(site)
        steps = _budget(budget)
        if isinstance(seed, np.random.Generator):
            seed = int(seed.integers(2**63))
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ArgumentError(f"seed is {seed!r}", "give an integer >= 0 or a Generator")
        home_index = place.home if home is None else place.index(home)
        begin = place.index(start) if start is not None else place.start
        if begin is None:
            begin = home_index
        if begin is None:
            begin = 0 if place.mdp.initial is None else int(np.argmax(place.mdp.initial))
        if strategy is not None:
            check_strategy(strategy)
        chosen, options = Memory.describe(strategy)
        created = Created(
            version=__version__, seed=int(seed), strategy=chosen, options=options,
            budget=steps, goal=checked_goal(precision, of, worth), start=begin, home=home_index,
            note=_text(note),
        )  # fmt: skip
        packed = codec.pack_site(place)
        # Refuse an impossible campaign before a file exists.
        Memory(codec.unpack_site(packed), created, strategy)
        earlier = [
            Told(state=state, values=_values(values), moved=False, note="earlier data")
            for state, values in sorted(place.data.items())
        ]
        Store.create(Path(path), packed, [created, *earlier])
        return cls.open(path, strategy)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        strategy: Strategy | None = None,
        *,
        readonly: bool = False,
    ) -> Campaign:
        """Open a campaign.

        A strategy of your own must be handed in again before it can be asked; ours are rebuilt.
        With ``readonly`` nothing is written, not even to bring an old file to the newest format.
        """
        store = Store(Path(path), readonly=readonly)
        try:
            return cls(store, strategy)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Close the file. Nothing needs saving: every event is on the disk already."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- folding ------------------------------------------------------------------------

    def _fold_all(self) -> None:
        with self._store.reading():
            events = list(self._store.events())
            kept = self._store.snapshot()
        number, at, first = events[0] if events else (0, "", None)
        if not isinstance(first, Created):
            raise StoreError(f"{self._store.path} has no beginning", "restore it from a copy")
        self._dirty = False
        self._ledger = Ledger(self.site)
        self._memory = Memory(self.site, first, self._given)
        self._ledger.learns = self._memory.learns
        try:
            self._way = None if first.home is None else WayHome(self.site.mdp, first.home)
            self._ledger.apply(number, at, first)
            remembered = kept is not None and self._memory.restore(codec.unpack(kept[1]))
            since = kept[0] if kept is not None and remembered else 0
            for number, at, event in events[1:]:
                self._fold(number, at, event, replay=number > since)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, SojournError):
                raise
            raise StoreError(
                f"event {number} of {self._store.path} makes no sense ({error})",
                "restore the file from a copy",
            ) from error

    def _fold(self, number: int, at: str, event: AnyEvent, *, replay: bool = True) -> None:
        if isinstance(event, Asked) and event.planned and replay:
            # The plan changes the strategy's memory; the advice itself is what was recorded.
            self._memory.plan(self._ledger)
        self._ledger.apply(number, at, event)

    def _catch_up(self, own: int = 0) -> None:
        """See what was written since, here (the event ``own``) or by another program."""
        if self._dirty:
            # A plan was made and could not be written: forget what the strategy remembers of it.
            self._fold_all()
        for number, at, event in self._store.events(self._ledger.last):
            self._fold(number, at, event, replay=number != own)

    def _record(self, event: Callable[[], AnyEvent]) -> int:
        """Store the event that is right for what is known once nobody else can write."""
        with self._store.writing():
            self._catch_up()
            number = self._store.append(event())
        self._catch_up()
        return number

    # -- ask ----------------------------------------------------------------------------

    def ask(self) -> Advice:
        """What to do next. Asking again before telling returns the same advice."""
        _ = self._memory.strategy
        number = 0
        with self._store.writing():
            self._catch_up()
            ledger = self._ledger
            if ledger.outstanding is None:
                reason = self.why_stop()
                if reason is not None:
                    return Advice(None, ledger.steps, None, None, None, 0.0, reason, stop=True)
                asked = self._decide()
                number = self._store.append(asked)
                if asked.planned:
                    self._store.put_snapshot(number, codec.pack(self._memory.snapshot()))
        self._dirty = False
        self._catch_up(own=number)
        advice = self.pending()
        # Another program can have answered it in between: then there is something new to ask.
        return self.ask() if advice is None else advice

    def _decide(self) -> Asked:
        """The next advice: the strategy's, unless the way home overrules it."""
        ledger, memory, way = self._ledger, self._memory, self._way
        assert ledger.location is not None
        here, planned, homeward = ledger.location, False, False
        if way is not None and self._goal() is not None:
            pair, homeward = way.quickest(here), True
        else:
            planned = memory.due(ledger)
            if planned:
                self._dirty = True
                memory.plan(ledger)
            pair = memory.choose(ledger)
        if way is not None and ledger.budget is not None:
            safer = way.instead_of(here, pair, ledger.budget - ledger.steps)
            if safer is not None:
                pair, homeward = safer, True
        return Asked(
            number=ledger.asks + 1, state=here, pair=pair, planned=planned, homeward=homeward
        )

    def _advice(self, number: int | None, asked: Asked) -> Advice:
        mdp, ledger = self.site.mdp, self._ledger
        P = mdp.transitions
        span = slice(P.indptr[asked.pair], P.indptr[asked.pair + 1])
        best = int(np.argmax(P.data[span]))
        state, probability = int(P.indices[span][best]), float(P.data[span][best])
        reason, gain = explain(
            self.site, self.estimates(), state, probability,
            self._memory.heading(ledger, state), budget=ledger.budget, steps=ledger.steps,
        )  # fmt: skip
        if asked.homeward:
            goal = self._goal()
            reason = f"on the way home{self._chance_of_home(asked.state)}" + (
                f": {goal}" if goal else ""
            ) + f"; {reason}"  # fmt: skip
        return Advice(
            event=number, step=ledger.steps + 1, action=mdp.action_label(asked.pair), state=state,
            site=self.site.names[state], probability=probability, reason=reason, gain=gain,
            homeward=asked.homeward,
        )  # fmt: skip

    def _chance_of_home(self, state: int) -> str:
        """How many steps are left to be home, and how surely they are enough."""
        ledger = self._ledger
        if self._way is None or ledger.budget is None:
            return ""
        left = ledger.budget - ledger.steps
        said = f", {left} step{'s' * (left != 1)} left"
        chances = self._way.chance(left)
        if chances is None or chances[state] >= CERTAIN:
            return said
        if chances[state] == 0.0:
            return f"{said}, which can't be enough"
        return f"{said}, enough with probability {chances[state]:.2g}"

    def pending(self) -> Advice | None:
        """The advice that was given and not yet answered, without asking for a new one."""
        if self._ledger.outstanding is None:
            return None
        return self._advice(*self._ledger.outstanding)

    def preview(self) -> Advice | None:
        """What :meth:`ask` would say now. Nothing is written, and the next ask says the same.

        None where the strategy is one's own and not at hand.
        """
        try:
            _ = self._memory.strategy
        except CampaignError:
            return None
        ledger = self._ledger
        if ledger.outstanding is not None:
            return self.pending()
        reason = self.why_stop()
        if reason is not None:
            return Advice(None, ledger.steps, None, None, None, 0.0, reason, stop=True)
        try:
            return self._advice(None, self._decide())
        finally:
            # What the strategy remembers of a plan that was not written has to go again.
            self._catch_up()

    def why_stop(self) -> str | None:
        """The sentence that ends the campaign, or None while it goes on.

        With a goal reached and steps left the device is first led home.
        """
        ledger = self._ledger
        away = self._way is not None and ledger.location != self._way.home
        if ledger.budget is not None and ledger.steps >= ledger.budget:
            return f"the budget of {ledger.budget} steps is spent" + (
                "; the device is not at home" if away else ""
            )
        goal = self._goal()
        if goal is None or self._way is None or not away:
            return goal
        assert ledger.location is not None
        return None if self._way.possible(ledger.location) else goal

    def _goal(self) -> str | None:
        """The sentence of a goal that is reached, wherever the device is."""
        return why_stop(self._ledger.goal, self._ledger.steps, self.estimates(), self.site.weight,
                        self.site.unit)  # fmt: skip

    # -- tell ---------------------------------------------------------------------------

    def tell(
        self,
        value: float | Sequence[float] | NDArray | None = None,
        state: Any = None,
        *,
        extra: bool = False,
        note: str = "",
    ) -> int:
        """What was measured, and where; returns the event's id.

        ``value`` is a number, several, or None (the sample was lost). ``state`` (an index or a
        site's name) is where the device really ended up; it may be left out only where the
        outcome of the advised move is certain. ``extra=True`` records data taken out of plan
        or before the campaign: it needs a ``state``, moves nothing and costs no step.
        """
        values = _values(value)
        if extra and state is None:
            raise RequestError("extra data without a site", "say where: state=… (or --at SITE)")
        if extra and not values:
            raise RequestError("extra data without a value", "give the value that was measured")

        def told() -> Told:
            if extra:
                return Told(
                    state=self.site.index(state), values=values, moved=False, note=_text(note)
                )
            asked = self._ledger.outstanding
            return Told(
                state=self._arrival(state), values=values, note=_text(note),
                ask=None if asked is None else asked[0],
            )  # fmt: skip

        return self._record(told)

    def _arrival(self, state: Any) -> int:
        ledger = self._ledger
        if ledger.outstanding is None and state is None:
            raise RequestError(
                "nothing was asked, so it is not known where this was measured",
                "ask first, or say where: state=… (or --at SITE)",
            )
        if ledger.outstanding is None:
            return self.site.index(state)
        outcomes = ledger.outcomes(ledger.outstanding[1].pair)
        if state is None:
            if outcomes.size > 1:
                names = ", ".join(repr(self.site.names[s]) for s in outcomes[:8])
                raise RequestError(
                    "the move could end in more than one place: where is the device now?",
                    f"say state=… (or --at SITE), one of {names}"
                    + (", …" if outcomes.size > 8 else ""),
                )
            return int(outcomes[0])
        return self.site.index(state)

    def place(self, state: Any, note: str = "") -> int:
        """The device was put at ``state``, without a measurement; costs no step."""
        placed = Placed(state=self.site.index(state), note=_text(note))
        return self._record(lambda: placed)

    def correct(self, event: int, value: float | Sequence[float], note: str = "") -> int:
        """The values of an earlier event were in truth these. History keeps both.

        A void event gets values again by this, and a sample that was told lost has them at last.
        """
        values = _values(value)
        if not values:
            raise RequestError("a correction without a value", "use void to remove the value")

        def corrected() -> Corrected:
            number, _ = self._sample(event, lost=True)
            return Corrected(event=number, values=values, note=_text(note))

        return self._record(corrected)

    def void(self, event: int, reason: str) -> int:
        """The values of an earlier event do not count. The move was made all the same."""
        if not str(reason).strip():
            raise RequestError("a value is voided without a reason", "say why it does not count")

        def voided() -> Voided:
            number, sample = self._sample(event)
            if sample.voided:
                raise RequestError(
                    f"event {number} is void already", "correct gives it a value again"
                )
            return Voided(event=number, reason=_text(reason))

        return self._record(voided)

    def _sample(self, event: int, *, lost: bool = False) -> tuple[int, Sample]:
        samples = self._ledger.samples
        try:
            number = operator.index(event)
        except TypeError:
            number = -1
        sample = samples.get(number)
        if sample is None or not (sample.values or lost):
            recent = [str(k) for k, s in samples.items() if s.values][-5:]
            raise RequestError(
                f"event {event} is no measurement",
                f"the last measurements are events {', '.join(recent)}" if recent
                else "nothing was measured yet",
            )  # fmt: skip
        return number, sample

    def extend(
        self,
        budget: int | None = None,
        *,
        precision: float | None = None,
        of: str = "every",
        worth: float | None = None,
        note: str = "",
    ) -> int:
        """Change the budget (the total number of steps) or the goals; what is not named stays."""
        total, goal = _budget(budget), checked_goal(precision, of, worth)
        if total is None and not goal:
            raise RequestError("nothing to change", "give a budget, a precision or a worth")

        def extended() -> Extended:
            if total is not None and total < self._ledger.steps:
                raise RequestError(
                    f"{self._ledger.steps} steps are made already, more than {total}",
                    "the budget is the total number of steps",
                )
            merged = (self._ledger.goal | goal) if goal else None
            return Extended(budget=total, goal=merged, note=_text(note))

        return self._record(extended)

    # -- reading ------------------------------------------------------------------------

    def estimates(self, level: float = 0.95) -> Estimates:
        """What is known of each site: arrays per state, never NaN."""
        ledger = self._ledger
        if self._known is None or self._known[0] != (ledger.last, level):
            self._known = ((ledger.last, level), estimate(
                ledger.visits, ledger.mean, ledger.spread, level=level,
                mean_guess=self.site.mean, variance_guess=self.site.variance,
            ))  # fmt: skip
        return self._known[1]

    def refresh(self) -> None:
        """See what another program has written since."""
        self._catch_up()

    @property
    def steps(self) -> int:
        """Moves made so far."""
        return self._ledger.steps

    @property
    def budget(self) -> int | None:
        return self._ledger.budget

    @property
    def location(self) -> int | None:
        """The state where the device is."""
        return self._ledger.location

    @property
    def strategy(self) -> Strategy:
        return self._memory.strategy

    @property
    def strategy_name(self) -> str:
        """The strategy's name, also where a strategy of your own is not at hand."""
        return self._memory.name

    @property
    def ledger(self) -> Ledger:
        """The folded state, for reports; do not write to it."""
        return self._ledger

    def events(self) -> list[tuple[int, str, AnyEvent]]:
        """The whole history: (id, time, event)."""
        return list(self._store.events())

    def status(self) -> dict[str, Any]:
        """Where the campaign stands, as plain numbers and text."""
        ledger, estimates = self._ledger, self.estimates()
        error = mean_error(estimates, self.site.weight)
        measured = estimates.visits > 0
        expected = estimates.expected_error
        worst = int(np.argmax(np.where(self.site.weight > 0, expected, -1.0)))
        return {
            "title": self.site.title,
            "steps": ledger.steps,
            "budget": ledger.budget,
            "location": None if ledger.location is None else self.site.names[ledger.location],
            "home": None if self.home is None else self.site.names[self.home],
            "outstanding": None if ledger.outstanding is None else ledger.outstanding[0],
            "samples": int(estimates.visits.sum()),
            "sites": int(measured.size),
            "sites_measured": int(measured.sum()),
            "mean_error": error if math.isfinite(error) else None,
            "least_certain": self.site.names[worst],
            "least_certain_error": (
                float(expected[worst]) if math.isfinite(expected[worst]) else None
            ),
            "time": self._time(),
            "strategy": self.strategy_name,
            "goal": dict(ledger.goal),
            "goal_reached": self._goal(),
            "stop": self.why_stop(),
        }  # fmt: skip

    def _time(self) -> float | None:
        """What the advised moves took, where the site says so of all that were made."""
        made = self._ledger.pair_visits
        if self.site.time is None:
            return None
        total = float((made * np.where(made > 0, self.site.time, 0.0)).sum())
        return total if math.isfinite(total) else None

    @property
    def home(self) -> int | None:
        assert self._ledger.created is not None
        return self._ledger.created.home

    def report(self, path: str | PathLike[str]) -> Path:
        """Write one self-contained HTML file; returns its path."""
        from sojourn.campaign.report import write_report

        return write_report(self, Path(path))

    def export(self, path: str | PathLike[str]) -> Path:
        """Write the estimates as .csv, .parquet or .geojson, by the file's ending."""
        from sojourn.campaign.export import write_export

        return write_export(self, Path(path))

    def __repr__(self) -> str:
        of = "" if self.budget is None else f" of {self.budget}"
        return f"Campaign({self.site.title!r}, step {self.steps}{of})"


def _site(site: Any) -> Site:
    if isinstance(site, Site):
        return site
    if isinstance(site, MDP):
        return Site.from_mdp(site)
    if isinstance(site, str | PathLike):
        return load_site(Path(site))
    raise ArgumentError(
        f"a {type(site).__name__} is no site",
        "give an MDP (of a world: world.mdp), a site from load_site, or the path of a site file",
    )


def _budget(budget: Any) -> int | None:
    if budget is None:
        return None
    try:
        steps = -1 if isinstance(budget, bool) or int(budget) != budget else int(budget)
    except (TypeError, ValueError, OverflowError):
        steps = -1
    if not 1 <= steps < 2**62:
        raise ArgumentError(f"budget is {budget!r}", "give a number of steps >= 1, or None")
    return steps


def _text(text: Any) -> str:
    """A remark as text that every file can hold."""
    return str(text).encode("utf-8", "replace").decode()


def _values(value: Any) -> tuple[float, ...]:
    """A number, several or none as finite floats, or a named error."""
    if value is None:
        return ()
    # NumPy would drop the mask and take what happens to lie under it.
    if np.ma.is_masked(value):
        raise RequestError("a value is masked", "a lost sample is told as None (or --lost)")
    try:
        array = np.atleast_1d(real(value))
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"{value!r} is not a number", "tell a number, several, or None"
        ) from error
    if array.ndim != 1:
        raise RequestError("the values form a table", "tell a number or a list of numbers")
    # One NaN would silently poison the site's mean for ever.
    if not np.isfinite(array).all():
        raise RequestError(
            f"a value is {array[~np.isfinite(array)][0]}",
            "a lost sample is told as None (or --lost)",
        )
    # Squares of larger ones would leave the range of numbers and make the spread infinite.
    if (np.abs(array) > LARGEST).any():
        raise RequestError(
            f"a value is {array[np.abs(array) > LARGEST][0]:g}",
            f"values are at most {LARGEST:g} in size: use another unit",
        )
    return tuple(float(x) for x in array)


def as_json(advice: Advice) -> str:
    """An advice as one JSON object."""
    return json.dumps(asdict(advice), default=str)
