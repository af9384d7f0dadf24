"""Learning where moves lead: what it costs to plan again.

Worlds of a hundred states and four actions, counts as after 5 000 and after 100 000 moves of the
uniform policy, costs as FW-AME meets them. Extended value iteration stops with a proved gap of
1e-6 of the span of the rewards; its rival is plain value iteration on the extended model in NumPy
(all inner maxima of a sweep at once), which starts from the same place and stops at the same gap.
The replan is the whole of what FW-AME does when a count has doubled: sets from counts, extended
value iteration, and, where its policy falls below the floor, the linear programme.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from harness import Row, median_seconds
from numpy.typing import NDArray

from sojourn import World, instances, simulate
from sojourn.learning import Lookahead, Uniform
from sojourn.learning.confidence_sets import widening_sets
from sojourn.learning.optimism import EXACT, optimistic_choice
from sojourn.solvers.extended_value_iteration import STAYING, extended_value_iteration
from sojourn.solvers.plausible import Plausible

Array = NDArray[np.float64]


def counted(world: World, moves: int) -> NDArray[np.int64]:
    """Counts of moves when the uniform policy has made so many."""
    mdp = world.mdp
    rng = np.random.default_rng(0)
    visits = simulate(world, Uniform(), moves, runs=1, seed=0).visits[0]
    times = np.repeat(visits // np.diff(mdp.pair_start), np.diff(mdp.pair_start))
    rows = mdp.transitions.toarray()
    return np.array([rng.multinomial(n, p / p.sum()) for n, p in zip(times, rows)])


def gradient(world: World) -> Array:
    """−σ²/η² in units of the largest, at frequencies near even ones."""
    rng = np.random.default_rng(1)
    share = rng.uniform(0.5, 1.5, world.mdp.n_states)
    g = -world.variance / share**2
    return np.asarray(g / np.abs(g).max())


def plain(model: Plausible, reward: Array) -> int:
    """Value iteration, sweep after sweep; its number of sweeps."""
    h = np.zeros(model.n_states)
    r = reward[model.pair_state]
    first, span = model.pair_start[:-1], float(np.ptp(reward))
    for sweep in range(1, 100_001):
        order = np.argsort(-h)
        # What is best is to fill the states from the top, as far as sets and mass allow.
        low, high = model.low[:, order], model.high[:, order]
        room = np.cumsum(high - low, axis=1)
        spare = 1.0 - model.low.sum(axis=1, keepdims=True)
        filled = np.minimum(room, spare)
        q = low + np.diff(filled, axis=1, prepend=0.0)
        new = np.maximum.reduceat(r + (1.0 - STAYING) * (q @ h[order]), first) + STAYING * h
        gain = new - h
        if np.ptp(gain) <= EXACT * span:
            return sweep
        h = new - new[0]
    return sweep


def replan(world: World, counts: NDArray[np.int64], cost: Array, floor: float) -> None:
    mdp = world.mdp
    model = widening_sets(int(counts.sum()), mdp.n_pairs)(counts, mdp.pair_start, None)
    optimistic_choice(model, cost, floor, np.zeros(mdp.n_states), 0, 1000)


def walk(world: World, budget: int) -> None:
    simulate(world, Lookahead(dynamics="learned"), budget, runs=1, seed=0, threads=1)


def rows(quick: bool) -> Iterator[Row]:
    n = 20 if quick else 100
    world = instances.garnet(n, 4, 5, seed=0)
    cost = gradient(world)
    for moves in (5_000,) if quick else (5_000, 100_000):
        counts = counted(world, moves)
        model = widening_sets(moves, world.mdp.n_pairs)(counts, world.mdp.pair_start, None)
        found = extended_value_iteration(model, -cost, EXACT)
        sweeps = plain(model, -cost)
        yield Row(
            f"extended value iteration, Garnet S={n}, A=4, after {moves} moves",
            median_seconds(partial(extended_value_iteration, model, -cost, EXACT)),
            "value iteration in NumPy",
            median_seconds(partial(plain, model, -cost), repeat=3),
            note=f"gap {found.gap / np.ptp(cost):.0e} in {found.sweeps} sweeps; rival {sweeps}",
        )
        moved = cost * np.random.default_rng(2).uniform(0.95, 1.05, n)
        warm = partial(extended_value_iteration, model, -moved, EXACT, found.bias)
        yield Row("the same, from the answer for costs that were up to 5 % off",
                  median_seconds(warm))  # fmt: skip
        for floor in (0.0, 1e-3):
            yield Row(
                f"replan of FW-AME, floor {floor:g}, Garnet S={n}, A=4, after {moves} moves",
                median_seconds(partial(replan, world, counts, cost, floor)),
            )
    for states in (10,) if quick else (10, 100):
        budget = 300 if quick else 3000
        small = instances.garnet(states, 4 if states == 100 else 3, 2, seed=0)
        yield Row(
            f"Lookahead, learned dynamics, Garnet S={states}, per step",
            median_seconds(partial(walk, small, budget), repeat=3) / budget,
            note=f"one walk of {budget} steps, early search included",
        )
