"""Models from tabular gymnasium environments.

Such an environment publishes its dynamics: ``P[s][a]`` lists (probability, next state, reward,
terminated), where one successor may occur several times. Episodes end, a walk does not, so a
transition that terminates needs a meaning:

    restart   it lands in the initial distribution instead (``initial_state_distrib``)
    absorb    a state in which some episode ends is never left again, however it is entered
    error     there must be none

States and actions keep the environment's numbers, so states that are never entered remain (with
``restart`` the terminal ones are among them): see :meth:`MDP.restricted_to_reachable`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.arguments import distribution
from sojourn.errors import ArgumentError, ModelError, need
from sojourn.model.mdp import MDP

ON_TERMINAL = ("restart", "absorb", "error")


def from_gymnasium(env: Any, on_terminal: str = "restart") -> MDP:
    """An :class:`MDP` from an environment, or from the id of one (``"FrozenLake-v1"``)."""
    if not (isinstance(on_terminal, str) and on_terminal in ON_TERMINAL):
        raise ArgumentError(
            f"on_terminal is {on_terminal!r}", f"use one of {', '.join(map(repr, ON_TERMINAL))}"
        )
    if isinstance(env, str):
        env = _made(env)
    unwrapped = getattr(env, "unwrapped", env)
    start, moves = _read(unwrapped)
    n_states = start.size - 1
    initial = getattr(unwrapped, "initial_state_distrib", None)
    if initial is not None:
        initial = distribution(initial, n_states, "initial_state_distrib")

    pair, target, chance, terminates = moves
    ends = terminates & (chance > 0)
    if ends.any() and on_terminal == "error":
        k = int(np.flatnonzero(ends)[0])
        s = int(np.searchsorted(start, pair[k], side="right") - 1)
        raise ModelError(
            f"state {s}, action {int(pair[k] - start[s])} ends the episode in state {target[k]}",
            "say what that means with on_terminal='restart' or 'absorb'",
        )
    if ends.any() and on_terminal == "restart" and initial is None:
        raise ModelError(
            "episodes end, and the environment does not say where they start "
            "(initial_state_distrib)",
            "use on_terminal='absorb', or give it an initial distribution",
        )
    final = np.zeros(n_states, dtype=bool)
    if on_terminal == "absorb":
        final[target[ends]] = True
        ordinary = ~np.repeat(final, np.diff(start))[pair]
    else:
        ordinary = ~ends
    shape = (int(start[-1]), n_states)
    # The same successor several times adds up, as the environment means it.
    transitions: Any = sp.csr_matrix(
        (chance[ordinary], (pair[ordinary], target[ordinary])), shape=shape
    )
    if final.any():
        staying = np.flatnonzero(np.repeat(final, np.diff(start)))
        state = np.repeat(np.arange(n_states), np.diff(start))[staying]
        transitions = transitions + sp.csr_matrix(
            (np.ones(staying.size), (staying, state)), shape=shape
        )
    elif on_terminal == "restart" and initial is not None:
        total = np.bincount(pair[ends], weights=chance[ends], minlength=shape[0])
        transitions = transitions + sp.csr_matrix(total[:, None]) @ sp.csr_matrix(initial[None, :])
    return MDP(transitions, start, initial=initial)


def _made(name: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise need("gymnasium", "gym", f"building the environment {name!r}") from None
    try:
        return gymnasium.make(name)
    except gymnasium.error.Error as error:
        raise ModelError(f"gymnasium can't make {name!r}: {error}", "check the id") from None


def _read(env: Any) -> tuple[NDArray[np.int64], tuple[NDArray, NDArray, NDArray, NDArray]]:
    """pair_start, and of every listed outcome its pair, target, probability and end flag."""
    table = getattr(env, "P", None)
    if table is None:
        raise ModelError(
            f"{type(env).__name__} does not publish its transitions (an attribute P)",
            "only tabular environments do, such as FrozenLake, CliffWalking and Taxi; for others "
            "write down the model with MDP.from_transitions",
        )
    n_states = len(table)
    start = [0]
    outcomes: list[tuple[int, float, int, bool]] = []
    s = a = -1
    try:
        for s in range(n_states):
            actions = table[s]
            for a in range(len(actions)):
                for chance, target, _, terminated in actions[a]:
                    outcomes.append((start[-1] + a, float(chance), int(target), bool(terminated)))
            start.append(start[-1] + len(actions))
    except (KeyError, IndexError, TypeError, ValueError):
        raise ModelError(
            f"P of {type(env).__name__} can't be read at state {s}, action {a}",
            "P[s][a] is a list of (probability, next state, reward, terminated)",
        ) from None
    if not outcomes:
        raise ModelError(f"P of {type(env).__name__} is empty", "it has no transitions at all")
    pair, chance, target, terminated = (np.array(column) for column in zip(*outcomes))
    if target.min() < 0 or target.max() >= n_states:
        k = int(np.flatnonzero((target < 0) | (target >= n_states))[0])
        s = int(np.searchsorted(start, pair[k], side="right") - 1)
        raise ModelError(
            f"state {s}, action {pair[k] - start[s]} leads to {target[k]}, which doesn't exist",
            f"states are numbered from 0 to {n_states - 1}",
        )
    return np.array(start), (pair, target, chance, terminated)
