"""What a world allows, whatever the policy: the questions to ask before planning.

    communicating   every state can be reached from every other (under some policy)
    trap            a strong component that can't be left; in a communicating world there is
                    none but the whole
    end component   where a walk can stay for ever and go on visiting everything
                    (:mod:`sojourn.model.reachability`); the asymptotic loss is finite exactly
                    when all states that matter lie in one
    irreducible     every policy visits every state for ever. A state is *avoidable* if some
                    non-empty set without it is closable; every policy is irreducible if none is
    unichain        no policy has two recurrent classes, one of which then holds a walk for
                    ever. If some state is unavoidable there is always one class, the one with
                    that state. In general the question is NP-hard (Tsitsiklis 2007); small
                    worlds are searched completely, large ones for a counterexample
    aperiodic       no policy has a class that is visited in a fixed rhythm. Certain where no
                    closable set avoids the states in which every action may stay

All is combinatorial and exact: only which moves are possible matters. Deterministic policies
decide every "every policy": whatever a randomised policy closes or cycles through, some of its
choices do.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.chains.graph import groups, reach
from sojourn.errors import ArgumentError
from sojourn.model.frozen import Frozen
from sojourn.model.mdp import MDP
from sojourn.model.policy import Policy
from sojourn.model.reachability import (
    EndComponent,
    closed_components,
    component_labels,
    end_component_labels,
    first_avoidable,
    largest_closable,
    maximal_end_components,
)

FEW_STATES = 20
"""Worlds whose sets of states are all looked at (2^20 of them) to decide unichain."""

FEW_POLICIES = 20_000
"""Deterministic policies that are all looked at to decide periodicity."""

LISTED = 1000
"""Traps and sizes listed at most."""

States = NDArray[np.int64]


def diagnose(mdp: MDP) -> Diagnosis:
    """The diagnosis of a world; each answer is computed when it is first asked for."""
    return Diagnosis(mdp)


class Diagnosis(Frozen):
    """What a world allows. ``str()`` says it in sentences, ``to_dict()`` in numbers.

    Answers that may be unknown are ``None`` when undecided. Policies are shown as examples:
    ``multichain_policy`` has at least two recurrent classes, ``periodic_policy`` a class with a
    period above 1.
    """

    mdp: MDP

    def __init__(self, mdp: MDP) -> None:
        self._hold(mdp=mdp)

    def __repr__(self) -> str:
        return f"Diagnosis(of {self.mdp!r})"

    # -- reachability -------------------------------------------------------------------

    @cached_property
    def _components(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return component_labels(self.mdp)

    @property
    def n_components(self) -> int:
        """How many strong components there are."""
        return int(self._components[1].size)

    @property
    def communicating(self) -> bool:
        """Every state can be reached from every other."""
        return self.n_components == 1

    @property
    def strong_components(self) -> list[States]:
        """The strong components; a state leads only to its own and to earlier ones."""
        return groups(self._components[0], self.n_components)

    @cached_property
    def traps(self) -> list[States]:
        """The strong components that can't be left, ordered by their first state; none if the
        world is communicating."""
        if self.communicating:
            return []
        label = self._components[0]
        closed = closed_components(self.mdp, label)
        first = np.empty(self.n_components, dtype=np.int64)
        first[label[::-1]] = np.arange(label.size)[::-1]
        closed = closed[np.argsort(first[closed])][:LISTED]
        number = np.full(self.n_components, -1)
        number[closed] = np.arange(closed.size)
        return groups(number[label], closed.size)

    @cached_property
    def n_traps(self) -> int:
        """How many traps there are (``traps`` lists the first :data:`LISTED`)."""
        if self.communicating:
            return 0
        return int(closed_components(self.mdp, self._components[0]).size)

    def unreachable_from(self, state: int) -> States:
        """The states that no walk from ``state`` (an index) ever reaches."""
        n = self.mdp.n_states
        if not 0 <= state < n:
            raise ArgumentError(f"there is no state {state}", f"states run from 0 to {n - 1}")
        P = self.mdp.transitions
        first = P.indptr[self.mdp.pair_start]
        return np.flatnonzero(~reach(first, P.indices, np.array([state]), np.zeros(n, dtype=bool)))

    # -- end components -----------------------------------------------------------------

    @cached_property
    def end_components(self) -> list[EndComponent]:
        """The maximal end components, ordered by their first state."""
        return maximal_end_components(self.mdp)

    @cached_property
    def _end_component_sizes(self) -> tuple[NDArray[np.int64], int]:
        """The size of each maximal end component, and how many states are in none."""
        label, _ = end_component_labels(self.mdp)
        count = np.bincount(label + 1, minlength=1)
        return count[1:], int(count[0])

    @property
    def n_end_components(self) -> int:
        """How many maximal end components there are."""
        return int(self._end_component_sizes[0].size)

    @property
    def n_fleeting(self) -> int:
        """How many states lie in no end component: no walk visits them for ever."""
        return self._end_component_sizes[1]

    # -- every policy -------------------------------------------------------------------

    @cached_property
    def _avoidable(self) -> tuple[int, NDArray[np.bool_]] | None:
        return first_avoidable(self.mdp)

    @property
    def every_policy_irreducible(self) -> bool:
        """Every policy goes on visiting every state, wherever it starts."""
        return self._avoidable is None

    @property
    def avoidable_state(self) -> int | None:
        """A state that some policy never visits, if there is one."""
        return None if self._avoidable is None else self._avoidable[0]

    def closable_without(self, state: int) -> States:
        """The largest set of states without ``state`` that some policy never leaves: empty
        exactly if the state is unavoidable."""
        if not 0 <= state < self.mdp.n_states:
            raise ArgumentError(
                f"there is no state {state}", f"states run from 0 to {self.mdp.n_states - 1}"
            )
        within = np.arange(self.mdp.n_states) != state
        return np.flatnonzero(largest_closable(self.mdp, within))

    @property
    def unichain(self) -> bool | None:
        """Every policy has one recurrent class only; None if that could not be decided."""
        return self._unichain[0]

    @property
    def multichain_policy(self) -> Policy | None:
        """A policy with two or more recurrent classes, if one was found."""
        return self._unichain[1]

    @cached_property
    def unavoidable_state(self) -> int | None:
        """A state that every policy visits for ever, from everywhere, if one was found.

        Every closable set holds all of them, so each one that is seen narrows the search. It
        is complete up to some thousand states; in a large world a few candidates are tried.
        """
        if self.every_policy_irreducible:
            return 0
        candidates = np.ones(self.mdp.n_states, dtype=bool)
        for _, label, closed, _ in self._sampled:
            for c in closed[:2]:
                candidates &= label == c
        for _ in range(_affordable(self.mdp, 100_000_000, least=8)):
            left = np.flatnonzero(candidates)
            if left.size == 0:
                return None
            closable = self.closable_without(int(left[0]))
            if closable.size == 0:
                return int(left[0])
            narrowed = np.zeros_like(candidates)
            narrowed[closable] = True
            candidates &= narrowed
        return None

    @cached_property
    def _unichain(self) -> tuple[bool | None, Policy | None]:
        if self.n_end_components > 1:
            label, _ = end_component_labels(self.mdp)
            return False, _keeping(self.mdp, label == 0, label == 1)
        if self.unavoidable_state is not None:
            return True, None
        if self.mdp.n_states <= FEW_STATES:
            found = _disjoint_closable(self.mdp)
            return (True, None) if found is None else (False, _keeping(self.mdp, *found))
        for chosen, label, closed, _ in self._sampled:
            if closed.size > 1:
                return False, Policy.deterministic(self.mdp, chosen)
            core = label == closed[0]
            other = largest_closable(self.mdp, ~core)
            if other.any():
                return False, _keeping(self.mdp, core, other)
        return None, None

    @property
    def period(self) -> int | None:
        """The greatest common divisor of all cycles of a communicating world: with 2 or more,
        every policy is periodic. None where the world is not communicating."""
        return int(self._components[1][0]) if self.communicating else None

    @property
    def every_policy_aperiodic(self) -> bool | None:
        """No policy has a recurrent class with a period above 1; None if undecided."""
        return self._aperiodic[0]

    @property
    def periodic_policy(self) -> Policy | None:
        """A policy with a recurrent class whose period is above 1, if one was found."""
        return self._aperiodic[1]

    @cached_property
    def _aperiodic(self) -> tuple[bool | None, Policy | None]:
        mdp = self.mdp
        label, period = self._components
        if (period[closed_components(mdp, label)] > 1).any():
            return False, Policy.uniform(mdp)
        if not largest_closable(mdp, ~_always_may_stay(mdp)).any():
            return True, None
        complete = float(np.log(np.diff(mdp.pair_start)).sum()) <= np.log(FEW_POLICIES)
        all_of_them = (
            _classes_of(mdp, np.array(choice))
            for choice in product(*(mdp.pairs_of(s) for s in range(mdp.n_states)))
        )
        for chosen, _, closed, rhythm in all_of_them if complete else self._sampled:
            if (rhythm[closed] > 1).any():
                return False, Policy.deterministic(mdp, chosen)
        return (True if complete else None), None

    @cached_property
    def _sampled(self) -> list[tuple[States, States, States, States]]:
        """Some deterministic policies, with what :func:`_classes_of` says of them.

        Choices with few successors close small sets, so half of the policies prefer them.
        """
        rng = np.random.default_rng(0)
        successors = np.diff(self.mdp.transitions.indptr)
        found = []
        for k in range(min(64, _affordable(self.mdp, 5_000_000, least=4))):
            key = rng.random(self.mdp.n_pairs) + (successors if k % 2 == 0 else 0)
            least = np.minimum.reduceat(key, self.mdp.pair_start[:-1])
            found.append(
                _classes_of(self.mdp, _first_pair(self.mdp, key == self.mdp.to_pairs(least)))
            )
        return found

    # -- in words and numbers -------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """The diagnosis in plain words."""
        said = self._say_reachable()
        if self.every_policy_irreducible:
            said.append("Whatever the policy, every state is visited again and again.")
        else:
            said += [self._say_avoidable(), self._say_unichain()]
        return [*said, self._say_periodic()]

    def _say_reachable(self) -> list[str]:
        n = self.mdp.n_states
        if n == 1:
            return ["There is only one state."]
        if self.communicating:
            return [
                "Every state can be reached from every other, so one walk can go on measuring "
                "all of them."
            ]
        said = [
            f"Not every state can be reached from every other: the {n} states fall into "
            f"{self.n_components} groups, and between two groups there is a way in one direction "
            "at most."
        ]
        for trap in self.traps[:3]:
            rest = np.ones(n, dtype=bool)
            rest[trap] = False
            said.append(
                f"A walk can't leave {self._name(trap)}; from there it never reaches "
                f"{self._name(np.flatnonzero(rest))}."
            )
        if self.n_traps > 3:
            said.append(f"There are {self.n_traps - 3} more places that can't be left.")
        sizes = self._end_component_sizes[0]
        if sizes.size > 1:
            said.append(
                f"The states that can be visited again and again form {sizes.size} parts (the "
                f"largest has {int(sizes.max())} of the {n} states), and a walk ends up in one of "
                "them: if states of two parts matter, no walk measures both ever more precisely."
            )
        if self.n_fleeting:
            label, _ = end_component_labels(self.mdp)
            said.append(
                f"No walk goes on visiting {self._name(np.flatnonzero(label < 0))}: the precision "
                "there is limited whatever is done."
            )
        return said

    def _say_avoidable(self) -> str:
        state = self.avoidable_state
        assert state is not None
        return (
            f"Some policies never visit {self._name(np.array([state]))}: they can keep a walk "
            f"within {self._name(self.closable_without(state))}."
        )

    def _say_unichain(self) -> str:
        if self.unichain is None:
            return (
                "Whether some policy splits the world into regions that are never left is "
                "undecided: no example was found."
            )
        if self.multichain_policy is None:
            state = self.unavoidable_state
            why = "" if state is None else f": all come back to {self._name(np.array([state]))}"
            return f"No policy splits the world into regions that are never left{why}."
        count = len(self.multichain_policy.chain().recurrent_classes())
        return (
            f"Some policies split the world into regions that are never left (one has {count}): "
            "what such a policy measures depends on where it starts."
        )

    def _say_periodic(self) -> str:
        if self.period is not None and self.period > 1:
            return (
                f"Every walk returns to a state only after a multiple of {self.period} moves, "
                "so its whereabouts never settle (averages over time still do)."
            )
        if self.every_policy_aperiodic:
            return "No policy moves in a fixed rhythm."
        if self.every_policy_aperiodic is None:
            return "Whether some policy moves in a fixed rhythm is undecided: none was found."
        return (
            "Some policies move in a fixed rhythm (to and fro, or round and round), so their "
            "whereabouts never settle (averages over time still do)."
        )

    def to_dict(self) -> dict[str, Any]:
        """All answers as numbers, strings and lists; states by index, sizes largest first."""
        sizes = np.sort(self._end_component_sizes[0])[::-1]
        return {
            "n_states": self.mdp.n_states,
            "communicating": self.communicating,
            "n_components": self.n_components,
            "n_traps": self.n_traps,
            "trap_examples": [int(trap[0]) for trap in self.traps[:LISTED]],
            "n_end_components": self.n_end_components,
            "end_component_sizes": sizes[:LISTED].tolist(),
            "n_fleeting": self.n_fleeting,
            "every_policy_irreducible": self.every_policy_irreducible,
            "avoidable_state": self.avoidable_state,
            "unichain": self.unichain,
            "unavoidable_state": self.unavoidable_state,
            "period": self.period,
            "every_policy_aperiodic": self.every_policy_aperiodic,
            "sentences": self.sentences(),
        }

    def _name(self, states: States) -> str:
        labels = [repr(self.mdp.state_labels[int(s)]) for s in states[:3]]
        if states.size == 1:
            return f"state {labels[0]}"
        if states.size <= 3:
            return f"states {', '.join(labels[:-1])} and {labels[-1]}"
        return f"{states.size} states ({', '.join(labels)}, …)"


def _affordable(mdp: MDP, work: int, *, least: int) -> int:
    """How many passes over all transitions a search may take: no more than ``work`` steps."""
    return max(least, work // (mdp.transitions.nnz + 100))


def _classes_of(mdp: MDP, chosen: States) -> tuple[States, States, States, States]:
    """A deterministic policy: its pairs, component labels, closed components, periods."""
    mask = np.zeros(mdp.n_pairs, dtype=bool)
    mask[chosen] = True
    label, period = component_labels(mdp, mask)
    return chosen, label, closed_components(mdp, label, mask), period


def _first_pair(mdp: MDP, allowed: NDArray[np.bool_]) -> States:
    """The first allowed pair of each state."""
    candidates = np.where(allowed, np.arange(mdp.n_pairs), mdp.n_pairs)
    return np.minimum.reduceat(candidates, mdp.pair_start[:-1])


def _keeping(mdp: MDP, one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Policy:
    """A policy that never leaves either of two disjoint closable sets."""
    allowed = mdp.to_pairs(~(one | other))
    for inside in (one, other):
        never_out = mdp.transitions @ (~inside).astype(float) == 0
        allowed |= mdp.to_pairs(inside) & never_out
    return Policy.deterministic(mdp, _first_pair(mdp, allowed))


def _always_may_stay(mdp: MDP) -> NDArray[np.bool_]:
    """The states in which every action may lead back to the state itself at once."""
    P = mdp.transitions
    source = np.repeat(mdp.pair_state, np.diff(P.indptr))
    stays = np.logical_or.reduceat(P.indices == source, P.indptr[:-1])
    return np.logical_and.reduceat(stays, mdp.pair_start[:-1])


def _disjoint_closable(mdp: MDP) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Two disjoint closable sets, from a search of all sets of (few) states."""
    P = mdp.transitions
    successors = np.bitwise_or.reduceat(np.int64(1) << P.indices.astype(np.int64), P.indptr[:-1])
    found = int(_search_sets(successors, mdp.pair_start))
    if found == 0:
        return None
    one = (found >> np.arange(mdp.n_states)) & 1 == 1
    return one, largest_closable(mdp, ~one)


@njit(cache=True, nogil=True)
def _search_sets(successors, pair_start):  # type: ignore[no-untyped-def]
    """A closable set whose complement holds another one, as bits; 0 if there is none."""
    n = pair_start.size - 1
    everything = (1 << n) - 1
    closable = np.zeros(everything + 1, np.bool_)
    holds = np.zeros(everything + 1, np.bool_)
    for states in range(1, everything + 1):
        kept = True
        for s in range(n):
            if states >> s & 1:
                stays = False
                for pair in range(pair_start[s], pair_start[s + 1]):
                    stays |= successors[pair] & ~states == 0
                kept &= stays
                holds[states] |= holds[states ^ (1 << s)]
        closable[states] = kept
        holds[states] |= kept
    for states in range(1, everything):
        if closable[states] and holds[everything ^ states]:
            return states
    return 0
