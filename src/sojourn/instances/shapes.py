"""Small worlds with a shape that makes something hard, each for its own reason."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sojourn.arguments import numbers
from sojourn.errors import ArgumentError
from sojourn.instances.drawing import how_many, variance_or_uniform
from sojourn.model import MDP, World, per_state
from sojourn.model.converters import from_grid
from sojourn.model.seeds import Seed, generator


def three_state(variance: ArrayLike = (1.0, 1e-3, 1.0)) -> World:
    """Fig. fig:toy_MDP: two sites worth measuring, and one between them that is not.

    a₁ goes left, a₂ right; at the ends they stay. The asymptotic optimum stays at an end
    almost for ever and crosses almost never, so within a finite budget it sees one end only.
    """
    mdp = MDP.from_transitions(
        [
            ("s1", "a1", "s1", 1.0), ("s1", "a2", "s2", 1.0),
            ("s2", "a1", "s1", 1.0), ("s2", "a2", "s3", 1.0),
            ("s3", "a1", "s2", 1.0), ("s3", "a2", "s3", 1.0),
        ]
    )  # fmt: skip
    return World(mdp, variance=per_state(variance, 3, "variance", minimum=0.0))


def river_swim(n_states: int = 6, variance: ArrayLike | None = None, seed: Seed = 0) -> World:
    """RiverSwim (Strehl & Littman 2008), with the numbers of Osband, Russo & Van Roy (2013).

    Going left, with the current, always succeeds. Going right succeeds with 0.35, fails with
    0.6 and is swept back with 0.05; at the left bank it succeeds with 0.6, and at the right
    one it holds with 0.6. Reaching the right end takes a number of steps exponential in n.
    """
    n = how_many(n_states, "n_states", 2)

    def moves() -> Iterator[tuple[int, str, int, float]]:
        for s in range(n):
            yield s, "left", max(s - 1, 0), 1.0
            if s == 0:
                yield from ((s, "right", 0, 0.4), (s, "right", 1, 0.6))
            elif s == n - 1:
                yield from ((s, "right", s - 1, 0.4), (s, "right", s, 0.6))
            else:
                yield s, "right", s - 1, 0.05
                yield s, "right", s, 0.6
                yield s, "right", s + 1, 0.35

    mdp = MDP.from_transitions(moves())
    rng = generator(seed)
    return World(mdp, variance=variance_or_uniform(variance, n, rng), start=0)


def path(
    n_states: int, stay: bool = False, variance: ArrayLike | None = None, seed: Seed = 0
) -> World:
    """Sites on a line, one step left or right. Without ``stay`` every chain is periodic: a
    walk is on an even site at every other step, whatever it does."""
    n = how_many(n_states, "n_states", 1 if stay else 2)
    mdp = MDP.from_transitions(
        (s, action, s + step, 1.0)
        for s in range(n)
        for action, step in (("left", -1), ("stay", 0), ("right", 1))
        if 0 <= s + step < n and (step or stay)
    )
    rng = generator(seed)
    return World(mdp, variance=variance_or_uniform(variance, n, rng))


def corridor(n_states: int, variance: tuple[float, float] = (1.0, 1e-3)) -> World:
    """A path with staying, where only the two ends are hard to measure.

    ``variance`` is (at the ends, between them). Crossing costs n − 1 steps that teach little,
    so the fewer crossings a budget needs, the better: :func:`three_state` drawn out.
    """
    n = how_many(n_states, "n_states", 2)
    given = numbers(variance, "variance")
    if given.shape != (2,):
        raise ArgumentError(f"variance is {variance!r}", "give (at the ends, between them)")
    values = np.full(n, given[1])
    values[[0, -1]] = given[0]
    return path(n, stay=True, variance=values)


def cycle(
    n_states: int,
    stay: bool = False,
    both_ways: bool = False,
    variance: ArrayLike | None = None,
    seed: Seed = 0,
) -> World:
    """Sites on a ring. With neither ``stay`` nor ``both_ways`` there is one action only, and
    the one chain has period n."""
    n = how_many(n_states, "n_states", 3 if both_ways else 1)
    steps = [("on", 1)] + [("stay", 0)] * stay + [("back", -1)] * both_ways
    mdp = MDP.from_transitions(
        (s, action, (s + step) % n, 1.0) for s in range(n) for action, step in steps
    )
    rng = generator(seed)
    return World(mdp, variance=variance_or_uniform(variance, n, rng))


def complete(n_states: int, variance: ArrayLike | None = None, seed: Seed = 0) -> World:
    """Every site can be reached from every site in one step: the bandit case."""
    n = how_many(n_states, "n_states", 1)
    mdp = MDP(sp.csr_matrix(np.tile(np.eye(n), (n, 1))), np.arange(n + 1) * n)
    rng = generator(seed)
    return World(mdp, variance=variance_or_uniform(variance, n, rng))


def rooms(n_rooms: int = 4, size: int = 5, slip: float = 0.0, seed: Seed = 0) -> World:
    """Square rooms of size × size sites in a row, joined by doors one site wide.

    Each room has a variance of its own, 10^U(−3, 1): a good walk stays in a noisy room, and
    passes the doors seldom. Where the doors are is random.
    """
    n_rooms, size = how_many(n_rooms, "n_rooms", 1), how_many(size, "size", 1)
    rng = generator(seed)
    room = ["." * size] * size
    columns = []
    for k in range(n_rooms):
        if k > 0:
            door = int(rng.integers(size))
            columns.append(["." if y == door else "#" for y in range(size)])
        columns.append(room)
    mdp = from_grid("\n".join("".join(parts) for parts in zip(*columns)), slip=slip)
    levels = 10.0 ** rng.uniform(-3, 1, n_rooms)
    assert mdp.coordinates is not None
    # A door belongs to the room on its left.
    room_of = mdp.coordinates[:, 0].astype(int) // (size + 1)
    return World(mdp, variance=levels[room_of])
