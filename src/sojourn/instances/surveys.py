"""Areas to survey: a map with obstacles, unreliable moves, drift, and a field of noise.

Everything is drawn on the whole rectangle before obstacles are cut out, in a fixed order
(variance, mean, obstacles), so with one seed the field is the same whatever the moves are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from sojourn.arguments import choice, number
from sojourn.errors import ArgumentError
from sojourn.instances.drawing import VARIANCE_RANGE, how_many
from sojourn.model import World
from sojourn.model.converters import grid_mdp
from sojourn.model.converters.grid import Drift
from sojourn.model.seeds import Seed, generator

Field = Callable[[tuple[int, int], np.random.Generator], NDArray[np.float64]]


def smooth_noise(
    shape: tuple[int, int], rng: np.random.Generator, scale: float
) -> NDArray[np.float64]:
    """White noise seen through a Gaussian of width ``scale`` cells, scaled to go from −1 to 1."""
    values = ndimage.gaussian_filter(rng.standard_normal(shape), scale, mode="reflect")
    lowest, range_ = values.min(), np.ptp(values)
    return 2.0 * (values - lowest) / range_ - 1.0 if range_ > 0 else np.zeros(shape)


def _smooth(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    return 10.0 ** smooth_noise(shape, rng, max(shape) / 8)


def _patchy(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    height = (1.0 + smooth_noise(shape, rng, max(shape) / 10)) / 2
    return 10.0 ** (4.0 * height**2 - 3.0)


def _rough(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.uniform(*VARIANCE_RANGE, shape)


def _hard(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    return 10.0 ** rng.uniform(-4, 1, shape)


def _equal(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    return np.ones(shape)


FIELDS: dict[str, Field] = {
    "smooth": _smooth,
    "patchy": _patchy,
    "rough": _rough,
    "hard": _hard,
    "equal": _equal,
}
"""Variances by name: ``smooth`` goes gently from 0.1 to 10; ``patchy`` is quiet almost everywhere
and noisy in a few places, from 0.001 to 10; ``rough`` is independent from cell to cell, uniform in
[0.01, 10] as in Garnets; ``hard`` is independent, 10^U(−4, 1); ``equal`` is 1 everywhere. On
smooth and rough fields travel hardly costs anything (the optimum nearly meets the bandit bound),
so a fair test of a planner is ``hard``."""


def grid_survey(
    width: int = 24,
    height: int = 12,
    obstacles: float = 0.15,
    slip: float = 0.05,
    drift: Drift | None = None,
    field: str = "smooth",
    stay: bool = True,
    seed: Seed = 0,
) -> World:
    """A survey of width × height cells; states are labelled (x, y), moves as in ``from_grid``.

    ``obstacles`` is the part of the cells covered by islands; pockets that they cut off are
    blocked as well, so what remains hangs together. Without ``stay`` the device has to move
    at every step.
    """
    shape = (how_many(height, "height", 1), how_many(width, "width", 1))
    choice(field, "field", FIELDS)
    fraction = "give a fraction of the cells, below 1"
    if number(obstacles, "obstacles", fraction, 0.0) >= 1.0:
        raise ArgumentError(f"obstacles is {obstacles!r}", fraction)
    rng = generator(seed)
    variance = FIELDS[field](shape, rng)
    mean = 5.0 * smooth_noise(shape, rng, max(shape) / 5)
    site = _largest_part(_open_water(shape, obstacles, rng))
    mdp = grid_mdp(site, slip=slip, drift=drift, stay=stay)
    return World(mdp, mean=mean[site], variance=variance[site])


def _open_water(
    shape: tuple[int, int], obstacles: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    relief = smooth_noise(shape, rng, 1.2).ravel()
    site = np.ones(relief.size, dtype=bool)
    blocked = min(round(obstacles * relief.size), relief.size - 1)
    if blocked:
        site[np.argsort(relief, kind="stable")[-blocked:]] = False
    return site.reshape(shape)


def _largest_part(site: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The largest set of sites joined by N, E, S, W moves."""
    label, _ = ndimage.label(site)
    sizes = np.bincount(label[site])
    return label == int(sizes.argmax())
