"""One live walk: ask where to go, tell what was measured.

A campaign is a list of events in one file. The object in memory is a fold over that list; it
can be thrown away at any moment (a power cut does) and opened again to the same bits. Randomness
is no exception: the draw of the k-th advice comes from a generator seeded by (seed, k), so there
is no generator state to lose.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sojourn._version import __version__
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
from sojourn.campaign.ledger import Ledger, Sample
from sojourn.campaign.memory import Memory
from sojourn.campaign.stopping import checked_goal, mean_error, why_stop
from sojourn.campaign.store import Store
from sojourn.campaign.words import explain
from sojourn.errors import ArgumentError, CampaignError
from sojourn.importing import Site, load_site
from sojourn.learning.strategy import Strategy
from sojourn.model import MDP


@dataclass(frozen=True)
class Advice:
    """What to do next.

    ``action`` is the action's label and ``state`` the index of the state where it leads most
    likely (``site`` its name, with ``probability``). When ``stop`` is true there is nothing
    more to do, ``action`` and ``state`` are None and ``reason`` says why. ``gain`` is the
    expected fall of the mean squared error by the measurement made there.
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


class Campaign:
    """A live walk in one file. See :meth:`create` and :meth:`open`."""

    def __init__(self, store: Store, strategy: Strategy | None) -> None:
        self._store = store
        self.site = codec.unpack_site(store.blob("site"))
        self._ledger = Ledger(self.site)
        self._memory: Memory | None = None
        self._given = strategy
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
        seed: int = 0,
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
        ``start`` (else the site's start, else its home, else its first state).
        """
        place = site if isinstance(site, Site) else (
            Site.from_mdp(site) if isinstance(site, MDP) else load_site(Path(site))
        )  # fmt: skip
        if budget is not None and (isinstance(budget, bool) or int(budget) != budget or budget < 1):
            raise ArgumentError(f"budget is {budget!r}", "give a number of steps >= 1, or None")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ArgumentError(f"seed is {seed!r}", "give an integer >= 0: it is stored")
        home_index = place.home if home is None else place.index(home)
        begin = place.index(start) if start is not None else place.start
        if begin is None:
            begin = home_index
        if begin is None:
            begin = 0 if place.mdp.initial is None else int(np.argmax(place.mdp.initial))
        chosen, options = Memory.describe(strategy)
        created = Created(
            version=__version__, seed=int(seed), strategy=chosen, options=options,
            budget=None if budget is None else int(budget),
            goal=checked_goal(precision, of, worth), start=begin, home=home_index, note=note,
        )  # fmt: skip
        packed = codec.pack_site(place)
        # Refuse an impossible campaign before a file exists.
        Memory(codec.unpack_site(packed), created, strategy)
        store = Store(Path(path), create=True)
        try:
            with store.writing():
                store.put_blob("site", packed)
                store.append(created)
                for state, values in sorted(place.data.items()):
                    store.append(
                        Told(state=state, values=_values(values), moved=False, note="earlier data")
                    )
            return cls(store, strategy)
        except BaseException:
            store.close()
            raise

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        strategy: Strategy | None = None,
        *,
        readonly: bool = False,
    ) -> Campaign:
        """Open a campaign. A strategy of your own must be handed in again; ours are rebuilt."""
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
        events = self._store.events()
        number, at, first = next(events, (0, "", None))
        if not isinstance(first, Created):
            raise CampaignError(f"{self._store.path} has no beginning", "restore it from a copy")
        self._ledger.apply(number, at, first)
        self._memory = Memory(self.site, first, self._given)
        kept = self._store.snapshot()
        if kept is not None:
            self._memory.restore(codec.unpack(kept[1]))
        for number, at, event in events:
            self._fold(number, at, event, replay=kept is None or number > kept[0])

    def _fold(self, number: int, at: str, event: AnyEvent, *, replay: bool = True) -> None:
        if isinstance(event, Asked) and event.planned and replay:
            # The plan changes the strategy's memory; the advice itself is what was recorded.
            assert self._memory is not None
            self._memory.plan(self._ledger)
        self._ledger.apply(number, at, event)

    def _catch_up(self) -> None:
        """See what another program has written since."""
        for number, at, event in self._store.events(self._ledger.last):
            self._fold(number, at, event)

    def _record(self, event: AnyEvent) -> int:
        number = self._store.append(event)
        return number

    # -- ask ----------------------------------------------------------------------------

    def ask(self) -> Advice:
        """What to do next. Asking again before telling returns the same advice."""
        with self._store.writing():
            self._catch_up()
            ledger = self._ledger
            assert self._memory is not None
            if ledger.outstanding is None:
                reason = self.why_stop()
                if reason is not None:
                    return Advice(None, ledger.steps, None, None, None, 0.0, reason, stop=True)
                planned = self._memory.due(ledger)
                if planned:
                    self._memory.plan(ledger)
                assert ledger.location is not None
                asked = Asked(
                    number=ledger.asks + 1, state=ledger.location,
                    pair=self._memory.choose(ledger), planned=planned,
                )  # fmt: skip
                number = self._record(asked)
                if planned:
                    self._store.put_snapshot(number, codec.pack(self._memory.snapshot()))
            else:
                number, asked = ledger.outstanding
        if ledger.outstanding is None:
            for event, at, body in self._store.events(ledger.last):
                self._fold(event, at, body, replay=False)
        return self._advice(number, asked)

    def _advice(self, number: int, asked: Asked) -> Advice:
        mdp, ledger = self.site.mdp, self._ledger
        assert self._memory is not None
        P = mdp.transitions
        span = slice(P.indptr[asked.pair], P.indptr[asked.pair + 1])
        best = int(np.argmax(P.data[span]))
        state, probability = int(P.indices[span][best]), float(P.data[span][best])
        estimates = self.estimates()
        reason, gain = explain(
            self.site, estimates, state, probability, self._memory.heading(ledger, state),
            budget=ledger.budget, steps=ledger.steps,
        )  # fmt: skip
        return Advice(
            event=number, step=ledger.steps + 1, action=mdp.action_label(asked.pair), state=state,
            site=self.site.names[state], probability=probability, reason=reason, gain=gain,
        )  # fmt: skip

    def pending(self) -> Advice | None:
        """The advice that was given and not yet answered, without asking for a new one."""
        if self._ledger.outstanding is None:
            return None
        return self._advice(*self._ledger.outstanding)

    def why_stop(self) -> str | None:
        """The sentence that ends the campaign, or None while it goes on."""
        ledger = self._ledger
        return why_stop(
            ledger.goal, ledger.steps, ledger.budget, self.estimates(), self.site.weight,
            self.site.unit,
        )  # fmt: skip

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
        with self._store.writing():
            self._catch_up()
            ledger = self._ledger
            if extra:
                if state is None:
                    raise CampaignError("extra data without a site", "say where: state=…")
                if not values:
                    raise CampaignError("extra data without a value")
                event = Told(state=self.site.index(state), values=values, moved=False, note=note)
            else:
                event = Told(
                    state=self._arrival(state), values=values, note=note,
                    ask=None if ledger.outstanding is None else ledger.outstanding[0],
                )  # fmt: skip
            number = self._record(event)
        self._catch_up()
        return number

    def _arrival(self, state: Any) -> int:
        ledger = self._ledger
        if ledger.outstanding is None and state is None:
            raise CampaignError(
                "nothing was asked, so it is not known where this was measured",
                "ask first, or say where: state=… (or --at SITE)",
            )
        if ledger.outstanding is None:
            return self.site.index(state)
        outcomes = ledger.outcomes(ledger.outstanding[1].pair)
        if state is None:
            if outcomes.size > 1:
                names = ", ".join(repr(self.site.names[s]) for s in outcomes[:8])
                raise CampaignError(
                    "the move could end in more than one place: where is the device now?",
                    f"say state=… (or --at SITE), one of {names}"
                    + (", …" if outcomes.size > 8 else ""),
                )
            return int(outcomes[0])
        return self.site.index(state)

    def place(self, state: Any, note: str = "") -> int:
        """The device was put at ``state``, without a measurement; costs no step."""
        index = self.site.index(state)
        with self._store.writing():
            self._catch_up()
            number = self._record(Placed(state=index, note=note))
        self._catch_up()
        return number

    def correct(self, event: int, value: float | Sequence[float], note: str = "") -> int:
        """The values of an earlier event were in truth these. History keeps both."""
        values = _values(value)
        if not values:
            raise CampaignError("a correction without a value", "use void to remove the value")
        with self._store.writing():
            self._catch_up()
            self._sample(event)
            number = self._record(Corrected(event=int(event), values=values, note=note))
        self._catch_up()
        return number

    def void(self, event: int, reason: str) -> int:
        """The values of an earlier event do not count. The move was made all the same."""
        if not str(reason).strip():
            raise CampaignError("a value is voided without a reason", "say why it does not count")
        with self._store.writing():
            self._catch_up()
            if self._sample(event).voided:
                raise CampaignError(f"event {event} is void already")
            number = self._record(Voided(event=int(event), reason=str(reason)))
        self._catch_up()
        return number

    def _sample(self, event: int) -> Sample:
        sample = self._ledger.samples.get(int(event))
        if sample is None or not sample.values:
            recent = [str(k) for k, s in self._ledger.samples.items() if s.values][-5:]
            raise CampaignError(
                f"event {event} is no measurement",
                f"the last measurements are events {', '.join(recent)}" if recent
                else "nothing was measured yet",
            )  # fmt: skip
        return sample

    def extend(
        self,
        budget: int | None = None,
        *,
        precision: float | None = None,
        of: str = "every",
        worth: float | None = None,
        note: str = "",
    ) -> int:
        """Change the budget (the total number of steps) or the goal."""
        if budget is not None and budget < self._ledger.steps:
            raise CampaignError(
                f"{self._ledger.steps} steps are made already, more than {budget}",
                "the budget is the total number of steps",
            )
        goal = checked_goal(precision, of, worth)
        with self._store.writing():
            self._catch_up()
            number = self._record(Extended(budget=budget, goal=goal or None, note=note))
        self._catch_up()
        return number

    # -- reading ------------------------------------------------------------------------

    def estimates(self, level: float = 0.95) -> Estimates:
        """What is known of each site: arrays per state, never NaN."""
        ledger = self._ledger
        return estimate(
            ledger.visits, ledger.mean, ledger.spread, level=level,
            mean_guess=self.site.mean, variance_guess=self.site.variance,
        )  # fmt: skip

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
        assert self._memory is not None
        return self._memory.strategy

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
        worst = int(np.argmax(np.where(self.site.weight > 0, estimates.standard_error, -1.0)))
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
                float(estimates.standard_error[worst])
                if math.isfinite(estimates.standard_error[worst]) else None
            ),
            "strategy": self.strategy.name,
            "goal": dict(ledger.goal),
            "stop": self.why_stop(),
        }  # fmt: skip

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


def _values(value: Any) -> tuple[float, ...]:
    """A number, several or none as finite floats, or a named error."""
    if value is None:
        return ()
    try:
        array = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError) as error:
        raise CampaignError(
            f"{value!r} is not a number", "tell a number, several, or None"
        ) from error
    if array.ndim != 1:
        raise CampaignError("the values form a table", "tell a number or a list of numbers")
    # One NaN would silently poison the site's mean for ever.
    if not np.isfinite(array).all():
        raise CampaignError(
            f"a value is {array[~np.isfinite(array)][0]}",
            "a lost sample is told as None",
        )
    return tuple(float(x) for x in array)


def as_json(advice: Advice) -> str:
    """An advice as one JSON object."""
    return json.dumps(asdict(advice), default=str)
