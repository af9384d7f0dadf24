"""The strategy's side of a campaign: its memory and the decision that is being followed.

All of it is a function of the events, and a snapshot of it is only a cache of that function.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sojourn.learning as learning
from sojourn._version import __version__
from sojourn.campaign.events import Created
from sojourn.campaign.ledger import Ledger
from sojourn.errors import CampaignError, StrategyError
from sojourn.importing import Site
from sojourn.learning.decisions import checked, is_over, pair_now
from sojourn.learning.strategy import Decision, State, Strategy, Task
from sojourn.model import VisitsOnly

_VERSION = np.frombuffer(__version__.encode(), dtype=np.uint8)
_ONE_WALK = np.zeros(1, dtype=np.int64)
_FOREIGN = "custom:"
_RULE = "rule"
_DECISION = ("until", "policy", "actions", "until_all_visited", "pair_limit")


class Memory:
    """A strategy at work in one campaign; without the strategy, only what it last decided."""

    def __init__(self, site: Site, created: Created, given: Strategy | None) -> None:
        self._site = site
        self._seed = created.seed
        self._state: State = {}
        self._decision: Decision | None = None
        self._decided_at = 0
        self._wanted = created.strategy.removeprefix(_FOREIGN)
        self._strategy = _rebuild(created, given)
        if self._strategy is None:
            return
        if "variance" in self._strategy.needs:
            raise CampaignError(
                f"the strategy {self._strategy.name!r} needs to know the true variances",
                "in the field nobody does: use Lookahead, the default",
            )
        mdp = site.mdp
        self.task = Task(
            n_states=mdp.n_states, pair_start=mdp.pair_start, mdp=None if self.learns else mdp,
            walks=1, budget=created.budget, weight=site.weight, counting=VisitsOnly(),
            home=created.home,
        )  # fmt: skip
        self._state = self._strategy.start(self.task)

    @property
    def strategy(self) -> Strategy:
        """The strategy, or an error that says to hand it in."""
        if self._strategy is None:
            raise CampaignError(
                f"the campaign uses the strategy {self._wanted!r}, which is not one of sojourn's",
                "hand it in: Campaign.open(path, strategy=…)",
            )
        return self._strategy

    @property
    def name(self) -> str:
        """The strategy's name, also where the strategy is not at hand."""
        return self._wanted if self._strategy is None else self._strategy.name

    @property
    def learns(self) -> bool:
        """Whether the strategy has to be told every transition."""
        return self._strategy is not None and "transitions" in self._strategy.needs

    @staticmethod
    def describe(strategy: Strategy | None) -> tuple[str, dict[str, Any]]:
        """A strategy as a name and options that a file can hold."""
        if strategy is None:
            strategy = learning.Lookahead()
        kind = type(strategy)
        foreign: tuple[str, dict[str, Any]] = f"{_FOREIGN}{strategy.name}", {}
        if getattr(learning, kind.__name__, None) is not kind:
            return foreign
        kept = vars(strategy)
        try:
            options = {
                name: _written(kept[key])
                for name in signature(kind).parameters
                for key in (name, f"_{name}") if key in kept
            }  # fmt: skip
            # An object that remembers more than its options can't be made again from them.
            return foreign if vars(kind(**_read(options))) != kept else (kind.__name__, options)
        except (TypeError, ValueError):
            return foreign

    def due(self, ledger: Ledger) -> bool:
        """Whether the decision being followed has come to its end."""
        if self._decision is None or ledger.disturbed:
            return True
        if ledger.last_pair is None:
            return ledger.steps >= int(self._decision.until[0])
        seen = ledger.observations(self._generator(ledger, 0), transitions=False)
        return is_over(self._decision, 0, seen, 0, ledger.last_pair)

    def _generator(self, ledger: Ledger, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, ledger.asks + 1, purpose])

    def plan(self, ledger: Ledger) -> None:
        """Ask the strategy for a decision."""
        strategy = self.strategy
        self.task = replace(self.task, budget=ledger.budget, variance_bound=self._bound(ledger))
        seen = ledger.observations(self._generator(ledger, 0), transitions=self.learns)
        decision = strategy.plan(self.task, self._state, seen, _ONE_WALK)
        self._decision = checked(decision, self.task, seen, _ONE_WALK, strategy.name)
        self._decided_at = ledger.steps

    def _bound(self, ledger: Ledger) -> float:
        """σ²_max for rules that ask for one. In the field nobody declares it: the largest guess
        of the site file or empirical variance so far, whichever is larger."""
        often = ledger.visits > 1
        empirical = ledger.spread[often] / (ledger.visits[often] - 1)
        guesses = self._site.variance[np.isfinite(self._site.variance)]
        return float(np.concatenate((empirical, guesses)).max(initial=0.0)) or 1.0

    def choose(self, ledger: Ledger) -> int:
        """The pair to take now under the current decision."""
        assert self._decision is not None
        assert ledger.location is not None
        return pair_now(
            self.task,
            self._decision,
            0,
            ledger.location,
            ledger.steps - self._decided_at,
            self._generator(ledger, 1),
        )

    def heading(self, ledger: Ledger, state: int, reach: int = 200) -> NDArray[np.int64]:
        """The states that most likely follow ``state`` under the current decision."""
        decision = self._decision
        mdp = self._site.mdp
        P = mdp.transitions
        route: list[int] = []
        if decision is None:
            return np.array(route, dtype=np.int64)
        offset = ledger.steps - self._decided_at + 1
        for k in range(reach):
            if decision.actions is not None:
                if offset + k >= decision.actions.shape[1]:
                    break
                pair = int(decision.actions[0, offset + k, state])
            else:
                assert decision.policy is not None
                pairs = slice(int(mdp.pair_start[state]), int(mdp.pair_start[state + 1]))
                pair = pairs.start + int(np.argmax(decision.policy[0, pairs]))
            row = slice(P.indptr[pair], P.indptr[pair + 1])
            state = int(P.indices[row][np.argmax(P.data[row])])
            route.append(state)
        return np.array(route, dtype=np.int64)

    def snapshot(self) -> dict[str, NDArray]:
        """Everything that the next step needs, as arrays of numbers."""
        arrays = {f"state.{name}": np.asarray(value) for name, value in self._state.items()}
        for name, value in arrays.items():
            if value.dtype.hasobject:
                # Such a thing could only be pickled, and nothing is ever unpickled.
                raise StrategyError(
                    f"{self.name} remembers {name.removeprefix('state.')!r}, which is no array of "
                    "numbers",
                    "a strategy's state is a dict of arrays of numbers: a campaign stores it",
                )
        assert self._decision is not None
        for name in _DECISION:
            value = getattr(self._decision, name)
            if value is not None:
                arrays[f"decision.{name}"] = value
        arrays["decided_at"] = np.array(self._decided_at)
        arrays["version"] = _VERSION
        return arrays

    def restore(self, arrays: dict[str, NDArray]) -> bool:
        """The inverse of :meth:`snapshot`; False if it can't be used.

        Another version of sojourn, or of a strategy, may remember other things: its memory is
        then made anew by planning again what was planned.
        """
        ours = type(self._strategy).__module__.partition(".")[0] == __package__.partition(".")[0]
        if ours and not np.array_equal(arrays.get("version", ()), _VERSION):
            return False
        state = {
            name.removeprefix("state."): value
            for name, value in arrays.items()
            if name.startswith("state.")
        }
        if not self._state.keys() <= state.keys():
            return False
        self._state = state
        known: dict[str, Any] = {name: arrays.get(f"decision.{name}") for name in _DECISION[1:]}
        self._decision = Decision(until=arrays["decision.until"], **known)
        self._decided_at = int(arrays["decided_at"])
        return True


def _written(value: Any) -> Any:
    """An option as JSON can hold it: a rule object by its name and fields."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value)
    if is_dataclass(kind) and getattr(learning, kind.__name__, None) is kind:
        return {_RULE: kind.__name__} | {
            field.name: _written(getattr(value, field.name)) for field in fields(kind)
        }
    raise TypeError(f"{value!r} can't be written down")


def _read(options: dict[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`_written`, for all options."""
    return {
        name: getattr(learning, value[_RULE])(
            **_read({key: item for key, item in value.items() if key != _RULE})
        ) if isinstance(value, dict) else value
        for name, value in options.items()
    }  # fmt: skip


def _rebuild(created: Created, given: Strategy | None) -> Strategy | None:
    name = created.strategy
    if name.startswith(_FOREIGN):
        wanted = name.removeprefix(_FOREIGN)
        if given is not None and given.name != wanted:
            raise CampaignError(
                f"the campaign uses the strategy {wanted!r}, not {given.name!r}",
                "hand in the strategy that it was created with",
            )
        return given
    kind = getattr(learning, name, None)
    if kind is None:
        raise CampaignError(f"there is no strategy {name!r}", "update sojourn")
    try:
        strategy: Strategy = kind(**_read(created.options))
    except (TypeError, AttributeError) as error:
        raise CampaignError(
            f"the strategy {name} has no such options: {error}", "update sojourn"
        ) from error
    if given is not None and given.name != strategy.name:
        raise CampaignError(
            f"the campaign uses the strategy {strategy.name!r}, not {given.name!r}",
            "open it without a strategy: it remembers its own",
        )
    return strategy
