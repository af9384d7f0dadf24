"""Gymnasium's tabular games as worlds: their moves, with noise of our own.

An episode that ends starts anew (``on_terminal="restart"``), and states that are never entered
are left out, so that every state can be measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sojourn.errors import ArgumentError, need
from sojourn.instances.drawing import variance_or_uniform
from sojourn.model import MDP, World
from sojourn.model.seeds import Seed, generator

_LAKES = (4, 8)


def frozen_lake(
    size: int = 4, slippery: bool = True, variance: ArrayLike | None = None, seed: Seed = 0
) -> World:
    """FrozenLake: holes and the goal lead back to the start."""
    if size not in _LAKES:
        raise ArgumentError(f"there is no lake of size {size!r}", "use 4 or 8")
    return _world(
        "FrozenLake", size, variance, seed, map_name=f"{size}x{size}", is_slippery=bool(slippery)
    )


def cliff_walking(
    slippery: bool = False, variance: ArrayLike | None = None, seed: Seed = 0
) -> World:
    """CliffWalking: the cliff and the goal lead back to the start."""
    return _world("CliffWalking", 12, variance, seed, is_slippery=bool(slippery))


def taxi(variance: ArrayLike | None = None, seed: Seed = 0) -> World:
    """Taxi: a state is a place of the taxi, of the passenger and a destination."""
    return _world("Taxi", None, variance, seed)


def _world(
    game: str, width: int | None, variance: ArrayLike | None, seed: Seed, **options: object
) -> World:
    try:
        import gymnasium
    except ImportError:
        raise need("gymnasium", "gym", f"the world {game}") from None
    # Old versions of a game are refused by gymnasium, so take the newest that it knows.
    newest = max(
        (spec for spec in gymnasium.registry.values() if spec.name == game),
        key=lambda spec: spec.version or 0,
    )
    mdp = MDP.from_gymnasium(gymnasium.make(newest.id, **options))
    if width is not None:
        s = np.arange(mdp.n_states)
        mdp = mdp.with_coordinates(np.column_stack((s % width, s // width)))
    mdp = mdp.restricted_to_reachable()
    rng = generator(seed)
    return World(mdp, variance=variance_or_uniform(variance, mdp.n_states, rng), start=mdp.initial)
