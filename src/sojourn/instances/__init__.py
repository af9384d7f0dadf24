"""Worlds to try things on. Each is a function that returns a :class:`World`, seeded.

    garnet         random worlds of the paper's experiments, plain and reversible
    three_state    the paper's example of an optimum that mixes badly
    river_swim     easy downstream, hard upstream
    grid_survey    an area with obstacles, unreliable moves, drift and a field of noise
    rooms          square rooms in a row, joined by doors
    corridor       a long way between the two places where measuring is hard
    path, cycle    sites on a line, on a ring
    complete       every site leads to every other: allocation without travel (the bandit case)
    frozen_lake, cliff_walking, taxi     gymnasium's tables

Same arguments and seed, same bits.
"""

from sojourn.instances.catalogue import build, names
from sojourn.instances.games import cliff_walking, frozen_lake, taxi
from sojourn.instances.garnets import GarnetWorld, garnet
from sojourn.instances.shapes import (
    complete,
    corridor,
    cycle,
    path,
    river_swim,
    rooms,
    three_state,
)
from sojourn.instances.surveys import FIELDS, grid_survey

__all__ = [
    "FIELDS", "GarnetWorld", "build", "cliff_walking", "complete", "corridor", "cycle",
    "frozen_lake", "garnet", "grid_survey", "names", "path", "river_swim", "rooms", "taxi",
    "three_state",
]  # fmt: skip
