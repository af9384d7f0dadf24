"""Short ways through many sites, and the walk along one while sites have no sample."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from sojourn import World, instances, simulate
from sojourn.learning import Lookahead, touring
from sojourn.learning.tours import path_through, round_trip, ways


def towns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Distances that differ by direction."""
    where = rng.random((n, 2))
    straight = np.linalg.norm(where[:, None] - where[None], axis=2)
    return straight * rng.uniform(1, 1.5, straight.shape)


def test_round_trips_are_short() -> None:
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(30):
        distance = towns(rng, 7)
        tour = round_trip(distance)
        assert sorted(tour) == list(range(7))
        length = distance[tour, np.roll(tour, -1)].sum()
        best = min(
            distance[list(p), np.roll(p, -1)].sum()
            for p in ((0, *q) for q in permutations(range(1, 7)))
        )
        assert length >= best * (1 - 1e-12)
        excess.append(length / best - 1)
    assert np.mean(excess) < 0.05


def test_paths_are_short_and_end_anywhere() -> None:
    rng = np.random.default_rng(1)
    excess = []
    for _ in range(30):
        apart = towns(rng, 7)
        order, length = path_through(apart[1:, 1:], apart[0, 1:])
        assert sorted(order) == list(range(6))
        whole = [0, *(order + 1)]
        assert length == pytest.approx(apart[whole[:-1], whole[1:]].sum())
        best = min(apart[[0, *p[:-1]], list(p)].sum() for p in permutations(range(1, 7)))
        assert length >= best * (1 - 1e-12)
        excess.append(length / best - 1)
    assert np.mean(excess) < 0.05


def test_ways_are_shortest_and_lead_there() -> None:
    world = instances.grid_survey(6, 5, slip=0.0, seed=2)
    found = ways(world.mdp)
    for target in range(world.mdp.n_states):
        for start in range(world.mdp.n_states):
            here, steps = start, 0
            while here != target:
                here = int(world.mdp.transitions[int(found.towards[target, here])].indices[0])
                steps += 1
            assert steps == found.distance[start, target]


def test_one_path_through_a_map_where_moves_are_certain() -> None:
    """Every site is seen in hardly more steps than there are sites."""
    world = instances.grid_survey(12, 12, slip=0.0, obstacles=0.15, seed=1)
    n = world.mdp.n_states
    budget = int(1.35 * n)
    sim = simulate(world, Lookahead(), budget, runs=10, seed=3)
    assert (sim.visits > 0).all()


def test_no_path_is_kept_to_where_moves_are_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    world = instances.grid_survey(8, 8, slip=0.5, seed=1)
    followed = []
    original = touring.next_pairs

    def watched(*arguments):  # type: ignore[no-untyped-def]
        pairs = original(*arguments)
        followed.extend(pairs)
        return pairs

    monkeypatch.setattr(touring, "next_pairs", watched)
    simulate(world, Lookahead(), 200, runs=3)
    assert set(followed) == {touring.DONE}


def test_the_way_home_stays_open_on_tour() -> None:
    world = instances.grid_survey(8, 8, slip=0.0, seed=4)
    start = World(world.mdp, world.mean, world.variance, start=5)
    for budget in (10, 40, 63, 64, 65, 80, 120):
        sim = simulate(start, Lookahead(), budget, runs=3, home=5)
        assert (sim.final_state == 5).all()
