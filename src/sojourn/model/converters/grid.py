"""Models from text maps.

Each line is a row of cells, the first line the northernmost: ``.`` is a site, ``#`` is blocked.
States are the sites, row by row, labelled by their position (x, y): x counts columns to the
east, y counts lines to the *south*, both from 0, so the label finds the character in the text.

    actions   stay, N, E, S, W, those that lead to a site
    slip      with this probability one of the *other* available actions (staying included)
              happens instead, each as likely as the other
    drift     (dx, dy, p): after any action, staying included, the device is carried on by
              (dx, dy) with probability p. It goes cell by cell along the straight line and
              stays before the first blocked cell or the edge of the map.
"""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError, ModelError
from sojourn.model.converters.slip import checked_slip, with_slip
from sojourn.model.labels import CellLabels, CodedLabels
from sojourn.model.mdp import MDP

Drift = tuple[int, int, float]

ACTIONS = ("stay", "N", "E", "S", "W")
_DX = (0, 0, 1, 0, -1)
_DY = (0, -1, 0, 1, 0)


def from_grid(text: str, slip: float = 0.0, drift: Drift | None = None) -> MDP:
    """An :class:`MDP` from a text map; common indentation and empty lines around are ignored."""
    return grid_mdp(parse_map(text), slip=slip, drift=drift)


def parse_map(text: str) -> NDArray[np.bool_]:
    """The map as an array: ``site[y, x]`` is true where the text has a ``.``."""
    if not isinstance(text, str):
        raise ModelError(f"a map is text, not {type(text).__name__}", "one line for each row")
    lines = [line.rstrip() for line in dedent(text).splitlines()]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise ModelError("the map is empty", "draw sites as '.' and blocked cells as '#'")
    for y, line in enumerate(lines):
        for x, character in enumerate(line):
            if character not in ".#":
                raise ModelError(
                    f"line {y + 1} of the map has {character!r} in column {x + 1}",
                    "draw sites as '.' and blocked cells as '#'",
                )
        # A short line would silently become blocked cells, or shift what lies below it.
        if len(line) != len(lines[0]):
            raise ModelError(
                f"line {y + 1} of the map has {len(line)} cells, line 1 has {len(lines[0])}",
                "fill the map up to a rectangle with '#'",
            )
    return np.array([[character == "." for character in line] for line in lines])


def grid_mdp(
    site: NDArray[np.bool_],
    *,
    slip: ArrayLike = 0.0,
    drift: Drift | tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    stay: bool = True,
) -> MDP:
    """The model of a map given as an array; ``stay=False`` leaves out that action.

    ``slip``, and each part of ``drift``, is one number or one for each site in row order: the
    slip of the site where the move begins, the drift of the site that it leads to.
    """
    n_states = int(site.sum())
    if n_states == 0:
        raise ModelError("no cell of the map is a site", "draw at least one '.'")
    number = np.full(site.shape, -1, dtype=np.int32)
    number[site] = np.arange(n_states)
    y, x = np.nonzero(site)
    kept = range(len(ACTIONS)) if stay else range(1, len(ACTIONS))
    lands = np.stack([_number_at(number, x + _DX[a], y + _DY[a]) for a in kept], axis=1)
    available = lands >= 0
    count = available.sum(axis=1)
    # MDP would say the same, but without knowing that it is a cell with nowhere to go.
    if not count.all():
        s = int(np.flatnonzero(count == 0)[0])
        raise ModelError(
            f"the site ({x[s]}, {y[s]}) has no neighbour to move to",
            "block it, open a cell beside it, or allow staying",
        )
    start = np.concatenate(([0], np.cumsum(count)))
    moves = _moves_to(lands[available], n_states)
    transitions = with_slip(moves, start, checked_slip(slip, n_states))
    if drift is not None:
        dx, dy, chance = _checked_drift(drift, n_states)
        carried = _moves_to(_carried(number, x, y, dx, dy), n_states)
        transitions = transitions @ (sp.diags(1.0 - chance) + sp.diags(chance) @ carried)
    code = np.broadcast_to(np.array(kept, dtype=np.uint8), available.shape)[available]
    return MDP(
        transitions,
        start,
        state_labels=CellLabels(number),
        action_labels=CodedLabels(ACTIONS, code),
        coordinates=np.column_stack((x, y)),
    )


def _checked_drift(
    drift: tuple[ArrayLike, ArrayLike, ArrayLike], n_states: int
) -> tuple[NDArray, NDArray, NDArray]:
    try:
        dx, dy, chance = (np.broadcast_to(np.asarray(part, float), (n_states,)) for part in drift)
        whole = (dx == np.round(dx)).all() and (dy == np.round(dy)).all()
        if whole and ((chance >= 0) & (chance <= 1)).all():
            return dx.astype(np.int64), dy.astype(np.int64), chance
    except (TypeError, ValueError):
        pass
    raise ArgumentError(
        f"drift is {drift!r}",
        "give (dx, dy, p): whole numbers of cells to the east and to the south, and a probability",
    )


def _number_at(number: NDArray[np.int32], x: NDArray, y: NDArray) -> NDArray[np.int32]:
    """The state of each cell (x, y): -1 where blocked or off the map."""
    height, width = number.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    at = np.full(x.shape, -1, dtype=np.int32)
    at[inside] = number[y[inside], x[inside]]
    return at


def _carried(
    number: NDArray[np.int32], x: NDArray, y: NDArray, dx: NDArray, dy: NDArray
) -> NDArray[np.int32]:
    """Where the drift leaves each state: the last free cell on its way."""
    at = np.arange(x.size, dtype=np.int32)
    for ex, ey in np.unique(np.column_stack((dx, dy)), axis=0).tolist():
        steps = max(abs(ex), abs(ey))
        moving = (dx == ex) & (dy == ey)
        for k in range(1, steps + 1):
            # Halves round away from the start, so the way east mirrors the way west.
            ahead = [int(np.sign(d)) * ((2 * k * abs(d) + steps) // (2 * steps)) for d in (ex, ey)]
            reached = _number_at(number, x + ahead[0], y + ahead[1])
            moving &= reached >= 0
            at[moving] = reached[moving]
    return at


def _moves_to(states: NDArray[np.int32], n_states: int) -> sp.csr_matrix:
    """One sure move per row."""
    n = states.size
    return sp.csr_matrix((np.ones(n), states, np.arange(n + 1)), shape=(n, n_states))
