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


def drawn(mdp: MDP, columns: int, values: NDArray[np.float64], title: str) -> Text | None:
    """A map shaded by ``values``, two characters a cell or, where that is too wide, one."""
    cells = cells_of(mdp, columns)
    if cells is not None:
        return draw_map(cells, values, title)
    cells = cells_of(mdp, 2 * columns)
    return None if cells is None else draw_map(cells, values, title, wide=False)


def draw_map(
    cells: NDArray[np.int64], values: NDArray[np.float64], title: str, *, wide: bool = True
) -> Text:
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
            mark = SHADES[k] if k >= 0 else "  "
            text.append(mark if wide else mark[0], style=COLOURS[k] if k >= 0 else "")
        text.append("\n")
    edges = [low * (high / low) ** (k / len(SHADES)) for k in range(len(SHADES))]
    for k, edge in enumerate(edges if high > low else edges[:1]):
        text.append(SHADES[k], style=COLOURS[k])
        text.append(f" from {edge:.2g}  " if high > low else f" {edge:.2g}")
    return text


def counted(number: int, noun: str) -> str:
    """``1 site``, ``2 sites``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def draw_graph(
    xy: NDArray[np.float64], edges: list[tuple[int, int]], marks: dict[int, str], columns: int
) -> Text:
    """Sites as dots where they lie, and dotted lines where a move joins two."""
    low, extent = xy.min(axis=0), np.maximum(np.ptp(xy, axis=0), 1e-12)
    width = columns - 4
    # A character is twice as high as it is wide.
    rows = int(np.clip(round(0.5 * width * extent[1] / extent[0]), 1, 24))
    scaled = (xy - low) / extent * [width - 1, max(rows - 1, 0)]
    canvas = [[" "] * width for _ in range(rows)]
    for a, b in edges:
        steps = int(np.abs(scaled[a] - scaled[b]).max()) + 1
        for share in np.linspace(0.0, 1.0, steps + 1):
            x, y = (round(float(k)) for k in scaled[a] + share * (scaled[b] - scaled[a]))
            canvas[rows - 1 - y][x] = "·"
    for s in [*range(len(xy)), *marks]:
        x, y = (round(float(k)) for k in scaled[s])
        canvas[rows - 1 - y][x] = marks.get(s, "●")
    named = {"H": "home", "S": "start"}
    legend = ", ".join(f"{letter} {named.get(letter, '')}" for letter in sorted({*marks.values()}))
    lines = ["sites and the moves between them" + (f" ({legend})" if legend else "")]
    return Text("\n".join([*lines, *("  " + "".join(row).rstrip() for row in canvas)]))
