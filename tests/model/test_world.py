"""World: what it refuses, and what it fills in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sojourn.errors import ArgumentError
from sojourn.model import MDP, World
from sojourn.model.world import NOISES

MDP3 = MDP(sp.csr_matrix(np.full((3, 3), 1 / 3)), [0, 1, 2, 3])


def test_defaults() -> None:
    world = World(MDP3)
    assert world.mean.tolist() == [0, 0, 0]
    assert world.variance.tolist() == [1, 1, 1]
    assert world.start.tolist() == [1 / 3] * 3
    assert world.noise == "gaussian"
    assert World(MDP3, variance=[1, 5, 2]).variance_bound == 5
    assert World(MDP3, variance_bound=9).variance_bound == 9


def test_start() -> None:
    assert World(MDP3, start=1).start.tolist() == [0, 1, 0]
    assert World(MDP3, start=np.int64(2)).start.tolist() == [0, 0, 1]
    assert World(MDP3, start=[0.5, 0.5, 0]).start.tolist() == [0.5, 0.5, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"variance": [1, -1, 1]}, "variance of state 1 is -1"),
        ({"variance": [1, np.nan, 1]}, "variance of state 1 is nan"),
        ({"variance": [1, 2]}, "expected (3,)"),
        ({"mean": [0, 0, np.inf]}, "mean of state 2 is inf"),
        ({"noise": "cauchy"}, "no noise 'cauchy'"),
        ({"noise": 3}, "noise is 3"),
        ({"start": 3}, "start state 3"),
        ({"start": -1}, "start state -1"),
        ({"start": 0.5}, "start state 0.5"),
        ({"start": "dock"}, "start state 'dock'"),
        ({"start": True}, "start state True"),
        ({"variance": "wide"}, "variance holds something"),
        ({"mean": [1, 2j, 3]}, "mean holds something"),
        ({"variance_bound": "wide"}, "variance_bound is 'wide'"),
        ({"start": [0.5, 0.5, 0.5]}, "start is not a probability distribution"),
        ({"variance_bound": 0.5}, "variance_bound is 0.5"),
        ({"variance_bound": np.nan}, "variance_bound is nan"),
    ],
)
def test_refusals(arguments: dict, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        World(MDP3, **arguments)
    assert words in caught.value.message
    assert caught.value.hint


def test_a_state_is_called_by_its_label() -> None:
    pair = MDP.from_transitions([("dock", 0, "reef", 1.0), ("reef", 0, "dock", 1.0)])
    with pytest.raises(ArgumentError, match="variance of state 'reef' is -1"):
        World(pair, variance=[1, -1])
    with pytest.raises(ArgumentError, match="list is not a model"):
        World([[1.0]])  # type: ignore[arg-type]


def test_a_wrong_noise_lists_the_right_ones() -> None:
    with pytest.raises(ArgumentError) as caught:
        World(MDP3, noise="cauchy")
    assert all(name in caught.value.hint for name in NOISES)


def test_replace() -> None:
    world = World(MDP3, mean=1.0, variance=2.0, start=1, variance_bound=4.0)
    other = world.replace(variance=3.0)
    assert other.variance.tolist() == [3, 3, 3]
    assert other.start.tolist() == [0, 1, 0]
    assert other.mean.tolist() == [1, 1, 1]
    assert other.variance_bound == 4
    assert world.replace() == world
