"""Sites from an occupancy grid: a text map or a CSV, one character or word a cell.

What a cell's mark means is looked up in the ``legend``; without one, ``.`` is a site, ``H`` is
home, ``#`` is blocked, and in a CSV ``0`` is a site and ``1`` is blocked. A legend entry may
change slip, drift, weight and noise of its cells, which is how currents and tide-races are
drawn into a map. Sites are called ``x,y``: x counts columns from 0, y counts lines from 0.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import numpy as np

from sojourn.importing.defects import Defects
from sojourn.importing.schema import Cell, Grid, SiteEntry
from sojourn.importing.site import site_name
from sojourn.importing.tables import delimiter_of, read_text
from sojourn.model import MDP
from sojourn.model.converters import grid_mdp

_TEXT = {".": Cell(), "H": Cell(home=True), "#": Cell(blocked=True)}
_CSV = _TEXT | {"0": Cell(), "1": Cell(blocked=True), "": Cell(blocked=True)}


@dataclass
class GridSites:
    """A grid that was read."""

    mdp: MDP
    entries: dict[str, SiteEntry] = field(default_factory=dict)
    home: str | None = None
    outline: tuple[str, ...] = ()


def read_grid(
    form: Grid,
    where: Path,
    first_line: int,
    source: tuple[Path, int],
    no_go: tuple[list[str], int],
    defects: Defects,
) -> GridSites | None:
    """The model of a grid, or None with the defects noted.

    The map's text is in the file ``where`` from ``first_line`` on; ``source`` is where the site
    file describes it, and ``no_go`` comes with the line that names it.
    """
    file = source[0]
    read = _cells(form, where, first_line, source, defects)
    if read is None:
        return None
    marks, first_line, legend = read
    legend |= form.legend
    for mark in form.legend if where.suffix.lower() != ".csv" else ():
        if len(mark) != 1:
            defects.add(
                *source, f"the legend explains {mark!r}, but a cell of a text map is one character",
                "use one character, or a CSV grid",
            )  # fmt: skip
    for y, row in enumerate(marks):
        for x, mark in enumerate(row):
            if mark not in legend:
                defects.add(
                    where, first_line + y, f"cell {x},{y} is {mark!r}, which means nothing",
                    f"known are {' '.join(repr(m) for m in legend)}; add it to [source.legend]",
                )  # fmt: skip
        if len(row) != len(marks[0]):
            defects.add(
                where, first_line + y, f"the row has {len(row)} cells, not {len(marks[0])}",
                "make all rows as long as the first",
            )  # fmt: skip
        if len(defects.found) > 20:
            break
    if defects.found:
        return None
    cells = [[legend[mark] for mark in row] for row in marks]
    site = np.array([[not cell.blocked for cell in row] for row in cells])
    for name in no_go[0]:
        x, y = _position(name)
        if not (0 <= y < site.shape[0] and 0 <= x < site.shape[1]) or not site[y, x]:
            defects.add(file, no_go[1], f"no_go names {name!r}, which is no site", "write x,y")
        else:
            site[y, x] = False
    if defects.found:
        return None
    if not site.any():
        defects.add(where, first_line, "no cell of the map is a site", "draw at least one '.'")
        return None
    open_cells = [cells[y][x] for y, x in zip(*np.nonzero(site))]
    drifts = [cell.drift or form.drift or (0, 0, 0.0) for cell in open_cells]
    mdp = grid_mdp(
        site,
        slip=np.array([form.slip if c.slip is None else c.slip for c in open_cells]),
        drift=(
            np.array([d[0] for d in drifts]),
            np.array([d[1] for d in drifts]),
            np.array([d[2] for d in drifts]),
        ),
    )
    labels = [site_name(label) for label in mdp.state_labels]
    homes = [label for label, cell in zip(labels, open_cells) if cell.home]
    if len(homes) > 1:
        defects.add(where, first_line, f"the map has {len(homes)} homes: {' '.join(homes[:4])}",
                    "mark one cell as home")  # fmt: skip
    entries = {
        label: SiteEntry(weight=cell.weight, mean=cell.mean, variance=cell.variance)
        for label, cell in zip(labels, open_cells)
        if (cell.weight, cell.mean, cell.variance) != (None, None, None)
    }
    assert mdp.coordinates is not None
    # Maps are drawn with the north up, so a unit north of the origin is a line less.
    height = site.shape[0]
    xy = np.column_stack((mdp.coordinates[:, 0], height - 1 - mdp.coordinates[:, 1]))
    mdp = mdp.with_coordinates(np.array(form.origin) + form.cell * xy)
    outline = tuple("".join("." if open_ else "#" for open_ in row) for row in site)
    return GridSites(mdp, entries, homes[0] if homes else None, outline)


def _cells(
    form: Grid, where: Path, first: int, source: tuple[Path, int], defects: Defects
) -> tuple[list[list[str]], int, dict[str, Cell]] | None:
    """The marks, the line where they begin, and the default legend."""
    if (form.file is None) == (form.text is None):
        defects.add(
            *source, "a grid needs exactly one of file and text",
            'file = "map.txt", or text = """..."""',
        )  # fmt: skip
        return None
    text = form.text if form.file is None else read_text(where, defects)
    if text is None:
        return None
    is_csv = where.suffix.lower() == ".csv"
    # In a map where a blank means something, nothing may be cut off on the left or the right.
    blanks = is_csv or " " in form.legend
    rows = (text if blanks else dedent(text)).splitlines()
    while rows and not rows[0].strip():
        rows.pop(0)
        first += 1
    while rows and not rows[-1].strip():
        rows.pop()
    if not rows:
        defects.add(where, first, "the map is empty", "draw sites as '.' and land as '#'")
        return None
    if is_csv:
        try:
            table = csv.reader(rows, delimiter=delimiter_of(rows))
            marks = [[word.strip() for word in row] for row in table]
        except csv.Error as error:
            defects.add(where, first, f"not a table: {error}", "save it as CSV")
            return None
        return marks, first, dict(_CSV)
    widest = max(len(row.rstrip()) for row in rows)
    return (
        [list(row.rstrip().ljust(widest) if blanks else row.rstrip()) for row in rows],
        first,
        dict(_TEXT),
    )


def _position(name: str) -> tuple[int, int]:
    x, _, y = name.partition(",")
    try:
        return int(x), int(y)
    except ValueError:
        return -1, -1
