"""The strategy's side of a campaign: its memory and the decision that is being followed.

All of it is a function of the events, and a snapshot of it is only a cache of that function.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sojourn.learning as learning
from sojourn.campaign.events import Created
from sojourn.campaign.ledger import Ledger
from sojourn.errors import CampaignError
from sojourn.importing import Site
from sojourn.learning.decisions import checked, is_over, pair_now
from sojourn.learning.strategy import Decision, State, Strategy, Task
from sojourn.model import VisitsOnly

_ONE_WALK = np.zeros(1, dtype=np.int64)
_FOREIGN = "custom:"
_DECISION = ("until", "policy", "actions", "until_all_visited", "pair_limit")


class Memory:
    """A strategy at work in one campaign."""

    def __init__(self, site: Site, created: Created, given: Strategy | None) -> None:
        self.strategy = _rebuild(created, given)
        if "variance" in self.strategy.needs:
            raise CampaignError(
                f"the strategy {self.strategy.name!r} needs to know the true variances",
                "in the field nobody does: use Lookahead, the default",
            )
        mdp = site.mdp
        learns = "transitions" in self.strategy.needs
        self.task = Task(
            n_states=mdp.n_states, pair_start=mdp.pair_start, mdp=None if learns else mdp,
            walks=1, budget=created.budget, weight=site.weight, counting=VisitsOnly(),
            home=created.home,
        )  # fmt: skip
        self._site = site
        self._seed = created.seed
        self._state: State = self.strategy.start(self.task)
        self._decision: Decision | None = None
        self._decided_at = 0

    @staticmethod
    def describe(strategy: Strategy | None) -> tuple[str, dict[str, Any]]:
        """A strategy as a name and options that a file can hold."""
        if strategy is None:
            strategy = learning.Lookahead()
        kind = type(strategy)
        if getattr(learning, kind.__name__, None) is kind:
            options = {
                name: getattr(strategy, name, strategy) for name in signature(kind).parameters
            }
            if all(isinstance(v, int | float | str | bool | None) for v in options.values()):
                return kind.__name__, options
        return f"{_FOREIGN}{strategy.name}", {}

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
        if ledger.budget != self.task.budget:
            self.task = replace(self.task, budget=ledger.budget)
        seen = ledger.observations(
            self._generator(ledger, 0), transitions="transitions" in self.strategy.needs
        )
        decision = self.strategy.plan(self.task, self._state, seen, _ONE_WALK)
        self._decision = checked(decision, self.task, seen, _ONE_WALK, self.strategy.name)
        self._decided_at = ledger.steps

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
        arrays = {f"state.{name}": value for name, value in self._state.items()}
        assert self._decision is not None
        for name in _DECISION:
            value = getattr(self._decision, name)
            if value is not None:
                arrays[f"decision.{name}"] = value
        arrays["decided_at"] = np.array(self._decided_at)
        return arrays

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """The inverse of :meth:`snapshot`."""
        self._state = {
            name.removeprefix("state."): value
            for name, value in arrays.items()
            if name.startswith("state.")
        }
        known: dict[str, Any] = {name: arrays.get(f"decision.{name}") for name in _DECISION}
        until = known.pop("until")
        assert until is not None
        self._decision = Decision(until=until, **known)
        self._decided_at = int(arrays["decided_at"])


def _rebuild(created: Created, given: Strategy | None) -> Strategy:
    name = created.strategy
    if name.startswith(_FOREIGN):
        wanted = name.removeprefix(_FOREIGN)
        if given is None:
            raise CampaignError(
                f"the campaign uses the strategy {wanted!r}, which is not one of sojourn's",
                "hand it in: Campaign.open(path, strategy=…)",
            )
        if given.name != wanted:
            raise CampaignError(
                f"the campaign uses the strategy {wanted!r}, not {given.name!r}",
                "hand in the strategy that it was created with",
            )
        return given
    kind = getattr(learning, name, None)
    if kind is None:
        raise CampaignError(f"there is no strategy {name!r}", "update sojourn")
    strategy: Strategy = kind(**created.options)
    return strategy
