"""Instances: the laws that their docstrings state, seeds, refusals."""

from __future__ import annotations

import inspect
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from scipy.sparse.csgraph import connected_components

from sojourn import instances
from sojourn.errors import ArgumentError, MissingExtra, ModelError, SojournError
from sojourn.instances import (
    FIELDS,
    complete,
    corridor,
    cycle,
    frozen_lake,
    garnet,
    grid_survey,
    path,
    river_swim,
    rooms,
    taxi,
    three_state,
)
from sojourn.instances.garnets import SELF_LOOP, _distinct
from sojourn.model import MDP, World

EXAMPLES = [
    "garnet:6,3,2", "garnet:6,3,3,reversible=True", "three_state", "river_swim:5",
    "grid_survey:width=9,height=7", "rooms:3,3", "corridor:7", "path:5", "path:5,stay=True",
    "cycle:4", "cycle:4,stay=True,both_ways=True", "complete:4", "frozen_lake",
    "frozen_lake:8,slippery=False", "cliff_walking", "taxi",
]  # fmt: skip


def strong_parts(mdp: MDP) -> int:
    return int(connected_components(mdp.adjacency, connection="strong")[0])


def test_the_examples_cover_the_catalogue() -> None:
    assert {request.partition(":")[0] for request in EXAMPLES} == set(instances.names())
    for name in instances.names():
        assert inspect.getdoc(getattr(instances, name))


@pytest.mark.parametrize("request_", EXAMPLES)
def test_every_instance_can_be_measured_everywhere_and_is_stable(request_: str) -> None:
    world = instances.build(request_)
    assert isinstance(world, World)
    assert strong_parts(world.mdp) == 1
    assert world == instances.build(request_)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_same_seed_same_bits_other_seed_other_world(seed: int) -> None:
    for build in (
        lambda seed: garnet(6, 3, 2, seed=seed),
        lambda seed: garnet(6, 3, 2, reversible=True, seed=seed),
        lambda seed: grid_survey(8, 6, seed=seed),
        lambda seed: rooms(3, 4, seed=seed),
        lambda seed: path(5, seed=seed),
    ):
        assert build(seed) == build(seed) == build(np.random.default_rng(seed))
        assert build(seed) != build(seed + 1)


# -- Garnets --------------------------------------------------------------------------------

sizes = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32))


@given(sizes)
def test_garnet_law(size: tuple[int, int, int, int]) -> None:
    n, actions, branching, seed = size
    branching = min(branching, n)
    if actions * branching == 1 and n > 4:
        actions = 2  # A random map is hardly ever one cycle.
    world = garnet(n, actions, branching, variance=(0.5, 2.0), seed=seed)
    mdp = world.mdp
    assert mdp.n_pairs == n * actions
    assert np.diff(mdp.pair_start).tolist() == [actions] * n
    for pair in range(mdp.n_pairs):
        s = int(mdp.pair_state[pair])
        row = mdp.transitions[[pair]]
        own = float(mdp.transitions[pair, s])
        # A next state that is not s itself has weight below 0.999; s has at least the loop.
        chosen = branching if own > SELF_LOOP * (1 + 1e-9) else branching + 1
        assert row.nnz == chosen
        assert own >= SELF_LOOP * (1 - 1e-12)
        assert abs(row.sum() - 1) < 1e-14
    assert strong_parts(mdp) == 1
    assert world.variance.max() == 2.0
    if n > 1:
        assert world.variance.min() == 0.5
    assert ((world.variance >= 0.5) & (world.variance <= 2.0)).all()
    assert not world.mean.any()
    assert world.redraws >= 0


@given(sizes)
def test_reversible_garnet_has_symmetric_support(size: tuple[int, int, int, int]) -> None:
    n, actions, branching, seed = size
    world = garnet(n, actions, min(branching, n) + 1, reversible=True, seed=seed)
    mdp = world.mdp
    assert (mdp.adjacency != mdp.adjacency.T).nnz == 0
    assert strong_parts(mdp) == 1
    np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1, atol=1e-14)
    loops = mdp.transitions[np.arange(mdp.n_pairs), mdp.pair_state]
    assert np.min(loops) >= SELF_LOOP * (1 - 1e-12)


def test_next_states_are_uniform_subsets() -> None:
    n, size, rows = 6, 3, 40_000
    drawn = np.sort(_distinct(n, rows, size, np.random.default_rng(1)), axis=1)
    subsets, counts = np.unique(drawn, axis=0, return_counts=True)
    assert [tuple(row) for row in subsets.tolist()] == list(combinations(range(n), size))
    expected = rows / len(subsets)
    # χ² with 19 degrees of freedom exceeds 50 with probability 1e-4; the seed is fixed.
    assert ((counts - expected) ** 2 / expected).sum() < 50


def test_garnet_weights_are_spacings() -> None:
    # Of b uniform spacings each has mean 1/b and variance (b−1)/(b²(b+1)).
    b = 4
    weights = []
    for seed in range(40):
        mdp = garnet(40, 2, b, seed=seed).mdp
        own = np.asarray(mdp.transitions[np.arange(mdp.n_pairs), mdp.pair_state]).ravel()
        away = mdp.transitions.toarray()
        away[np.arange(mdp.n_pairs), mdp.pair_state] -= SELF_LOOP
        sure = np.abs(own - SELF_LOOP) < 1e-9
        weights.append(away[sure][away[sure] > 1e-9] / (1 - SELF_LOOP))
    values = np.concatenate(weights)
    error = np.sqrt((b - 1) / (b**2 * (b + 1)) / values.size)
    assert abs(values.mean() - 1 / b) < 5 * error
    assert values.var() == pytest.approx((b - 1) / (b**2 * (b + 1)), rel=0.05)


def test_redraws_are_as_frequent_as_reducible_draws() -> None:
    # Independent count: the share of plain draws (A=3, b=2, S=5) that don't hang together.
    rng = np.random.default_rng(0)
    draws, reducible = 4000, 0
    for _ in range(draws):
        Q = np.zeros((5, 5))
        for s in range(5):
            for _ in range(3):
                Q[s, rng.choice(5, 2, replace=False)] = 1
        reducible += connected_components(Q, connection="strong")[0] > 1
    share = reducible / draws
    built = 3000
    redraws = np.array([garnet(5, 3, 2, seed=seed).redraws for seed in range(built)])
    rate = redraws.sum() / (built + redraws.sum())
    error = np.sqrt(share / draws + share / built)
    assert abs(rate - share) < 5 * error
    assert redraws.max() >= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 3, 2), "n_states is 0"),
        ((5, 0, 2), "n_actions is 0"),
        ((5, 3, 0), "branching is 0"),
        ((5, 3, 1.5), "branching is 1.5"),
        ((5, 3, 6), "6 distinct next states"),
        ((5, 3, 2, (1.0, 0.5)), "variance is (1.0, 0.5)"),
        ((5, 3, 2, (-1.0, 0.5)), "variance is"),
        ((5, 3, 2, 1.0), "variance is 1.0"),
        ((5, 3, 1, (0, 1), True), "branching is 1"),
    ],
)
def test_refused_garnets(arguments: tuple, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        garnet(*arguments)
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("seed", [-1, 1.5, "one", [1.5]])
def test_refused_seeds(seed: object) -> None:
    for build in (lambda: garnet(5, 3, 2, seed=seed), lambda: grid_survey(seed=seed)):
        with pytest.raises(ArgumentError, match="the seed is"):
            build()


def test_a_hopeless_garnet_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.instances.garnets.MAX_REDRAWS", 20)
    with pytest.raises(ModelError, match="none of 20 draws"):
        garnet(500, 1, 1)


# -- shapes ---------------------------------------------------------------------------------


def test_three_state_is_the_figure() -> None:
    world = three_state()
    assert world.variance.tolist() == [1.0, 1e-3, 1.0]
    P = np.zeros((3, 2, 3))
    P[[0, 1, 2], 0, [0, 0, 1]] = 1
    P[[0, 1, 2], 1, [1, 2, 2]] = 1
    plain = MDP.from_array(P)
    assert abs(world.mdp.transitions - plain.transitions).nnz == 0
    assert three_state((2.0, 0.0, 1.0)).variance.tolist() == [2.0, 0.0, 1.0]


def test_corridor_of_three_allows_what_three_state_allows() -> None:
    assert corridor(3).variance.tolist() == three_state().variance.tolist()
    assert corridor(5, variance=(2.0, 0.1)).variance.tolist() == [2, 0.1, 0.1, 0.1, 2]


def test_river_swim_numbers() -> None:
    P = river_swim(4).mdp.transitions.toarray()
    right = P[1::2]
    assert np.diag(P[::2], -1).tolist() == [1, 1, 1]
    np.testing.assert_allclose(np.diag(right), [0.4, 0.6, 0.6, 0.6])
    np.testing.assert_allclose(np.diag(right, 1), [0.6, 0.35, 0.35])
    np.testing.assert_allclose(np.diag(right, -1), [0.05, 0.05, 0.4])


def test_periods_of_the_shapes() -> None:
    # Powers of the adjacency matrix fill up exactly where there is no period.
    def fills_up(mdp: MDP) -> bool:
        Q = mdp.adjacency.toarray().astype(float)
        return bool((np.linalg.matrix_power(Q, 40) > 0).all())

    assert not fills_up(path(5).mdp)
    assert fills_up(path(5, stay=True).mdp)
    assert not fills_up(cycle(5).mdp)
    assert fills_up(cycle(5, stay=True).mdp)
    assert fills_up(cycle(5, both_ways=True).mdp)
    assert not fills_up(cycle(6, both_ways=True).mdp)
    assert cycle(5).mdp.n_pairs == 5


def test_complete_reaches_everything_in_one_step() -> None:
    mdp = complete(4).mdp
    assert mdp.n_pairs == 16
    assert mdp.adjacency.toarray().all()
    assert (mdp.transitions.data == 1).all()
    assert complete(1).mdp.n_pairs == 1


def test_rooms_have_one_door_and_one_variance_each() -> None:
    world = rooms(n_rooms=3, size=4, seed=5)
    assert world.mdp.n_states == 3 * 16 + 2
    assert world.mdp.coordinates is not None
    x = world.mdp.coordinates[:, 0]
    assert [(x == door).sum() for door in (4, 9)] == [1, 1]
    assert len(set(world.variance.tolist())) == 3


@pytest.mark.parametrize(
    "build",
    [
        lambda: path(1),
        lambda: path(2.0),
        lambda: corridor(1),
        lambda: corridor(3, variance=(1.0,)),
        lambda: cycle(2, both_ways=True),
        lambda: complete(0),
        lambda: rooms(0),
        lambda: rooms(2, True),
        lambda: river_swim(1),
        lambda: three_state((1.0, 2.0)),
        lambda: three_state((1.0, -2.0, 1.0)),
        lambda: frozen_lake(5),
    ],
)
def test_refused_shapes(build: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.hint


# -- surveys --------------------------------------------------------------------------------


@given(
    st.integers(1, 12), st.integers(1, 9), st.floats(0, 0.9), st.sampled_from(sorted(FIELDS)),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_surveys_hang_together(
    width: int, height: int, obstacles: float, field: str, seed: int
) -> None:
    world = grid_survey(width, height, obstacles, field=field, seed=seed)
    assert world.mdp.coordinates is not None
    x, y = world.mdp.coordinates.T.astype(int)
    site = np.zeros((height, width), dtype=bool)
    site[y, x] = True
    assert ndimage.label(site)[1] == 1
    assert 1 <= world.mdp.n_states <= max(1, width * height - round(obstacles * width * height))
    assert (world.variance > 0).all()
    assert strong_parts(world.mdp) == 1


def test_fields_keep_their_ranges_and_characters() -> None:
    def field(name: str) -> tuple[World, np.ndarray]:
        world = grid_survey(40, 40, obstacles=0, field=name)
        return world, np.log10(world.variance.reshape(40, 40))

    def neighbours_correlate(values: np.ndarray) -> float:
        return float(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1])

    _, smooth = field("smooth")
    assert (smooth.min(), smooth.max()) == (pytest.approx(-1), pytest.approx(1))
    assert neighbours_correlate(smooth) > 0.9
    _, patchy = field("patchy")
    assert (patchy.min(), patchy.max()) == (pytest.approx(-3), pytest.approx(1))
    assert np.median(patchy) < -1
    assert neighbours_correlate(patchy) > 0.9
    _, rough = field("rough")
    assert rough.min() >= -2
    assert rough.max() <= 1
    assert abs(neighbours_correlate(rough)) < 0.1
    _, hard = field("hard")
    assert hard.min() == pytest.approx(-4, abs=0.1)
    assert hard.max() == pytest.approx(1, abs=0.1)
    assert abs(neighbours_correlate(hard)) < 0.1
    world, _ = field("equal")
    assert set(world.variance.tolist()) == {1.0}


def test_the_field_does_not_depend_on_the_moves() -> None:
    still = grid_survey(10, 8, slip=0.0, seed=3)
    moving = grid_survey(10, 8, slip=0.3, drift=(1, 0, 0.2), stay=False, seed=3)
    assert still.variance.tolist() == moving.variance.tolist()
    assert still.mean.tolist() == moving.mean.tolist()
    assert "stay" not in set(moving.mdp.action_labels)


@pytest.mark.parametrize(
    "arguments",
    [
        {"width": 0}, {"height": 2.5}, {"obstacles": 1.0}, {"obstacles": float("nan")},
        {"slip": 2}, {"drift": (1, 0)}, {"field": "soft"},
    ],
)  # fmt: skip
def test_refused_surveys(arguments: dict) -> None:
    with pytest.raises(ArgumentError) as caught:
        grid_survey(**arguments)
    assert caught.value.hint


# -- catalogue and games --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("garnett:5,3,2", "no instance 'garnett'"),
        ("garnet:5", "missing a required argument: 'n_actions'"),
        ("garnet:5,3,2,colour=red", "unexpected keyword argument 'colour'"),
        ("grid_survey:field=soft", "no field 'soft'"),
        ("garnet:5,many,2", "n_actions is 'many'"),
    ],
)
def test_refused_requests(request_: str, words: str) -> None:
    with pytest.raises(SojournError) as caught:
        instances.build(request_)
    assert words in caught.value.message
    assert caught.value.hint


def test_requests_carry_every_argument() -> None:
    assert instances.build("corridor:4,variance=(2.0, 0.5)") == corridor(4, (2.0, 0.5))
    assert instances.build("grid_survey:8, 6, field=hard, drift=(1,0,0.1), stay=False") == (
        grid_survey(8, 6, field="hard", drift=(1, 0, 0.1), stay=False)
    )


def test_games_start_where_they_start() -> None:
    world = taxi()
    assert world.mdp.n_states == 400
    assert world.mdp.initial is not None
    assert world.start.tolist() == world.mdp.initial.tolist()
    lake = frozen_lake(slippery=False)
    assert lake.start[lake.mdp.state_index(0)] == 1
    assert lake.mdp.coordinates is not None
    assert lake.mdp.coordinates[lake.mdp.state_index(14)].tolist() == [2, 3]


def test_without_gymnasium_games_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match=r"sojourn\[gym\]"):
        taxi()
