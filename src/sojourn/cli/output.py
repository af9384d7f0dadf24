"""How answers are printed: JSON for programs, text and small maps for people."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from sojourn.model import MDP

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)

SHADES = ("··", "░░", "▒▒", "▓▓", "██")
COLOURS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")


def console() -> Console:
    """Where text goes; colours only where a terminal shows them."""
    return Console(highlight=False)


def print_json(record: dict[str, Any]) -> None:
    """One JSON object; what JSON has no word for (NaN, infinity) becomes null."""
    click.echo(json.dumps(_plain(record), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float() if not math.isfinite(value):
            return None
        case bool() | int() | float() | str() | None:
            return value
        case _:
            return str(value)


def cells_of(mdp: MDP, columns: int) -> NDArray[np.int64] | None:
    """The cells (x, y) of a model of a map, if it is one and fits into ``columns`` characters.

    Taken from the labels, where y counts lines downwards; coordinates may have the north up.
    """
    first = mdp.state_labels[0]
    if not (isinstance(first, tuple) and len(first) == 2):
        return None
    try:
        cells = np.array(list(mdp.state_labels))
    except ValueError:
        return None
    if cells.shape != (mdp.n_states, 2) or cells.dtype.kind != "i":
        return None
    cells = cells - cells.min(axis=0)
    width, height = cells.max(axis=0) + 1
    return cells if 2 * width <= columns and height <= 60 else None


def draw_map(cells: NDArray[np.int64], values: NDArray[np.float64], title: str) -> Text:
    """Cells shaded by ``values`` on a logarithmic scale; what is no site stays empty."""
    positive = values > 0
    low, high = (
        (float(f(values[positive])) for f in (np.min, np.max)) if positive.any() else (1.0, 1.0)
    )
    span = math.log(high / low) or 1.0
    level = np.zeros(values.size, dtype=int)
    level[positive] = np.minimum(
        np.log(values[positive] / low) / span * len(SHADES), len(SHADES) - 1
    ).astype(int)
    width, height = (int(k) + 1 for k in cells.max(axis=0))
    grid = np.full((height, width), -1)
    grid[cells[:, 1], cells[:, 0]] = level
    text = Text(f"{title}\n")
    for row in grid.tolist():
        for k in row:
            text.append(SHADES[k] if k >= 0 else "  ", style=COLOURS[k] if k >= 0 else "")
        text.append("\n")
    edges = [low * (high / low) ** (k / len(SHADES)) for k in range(len(SHADES))]
    for k, edge in enumerate(edges if high > low else edges[:1]):
        text.append(SHADES[k], style=COLOURS[k])
        text.append(f" from {edge:.2g}  " if high > low else f" {edge:.2g}")
    return text
