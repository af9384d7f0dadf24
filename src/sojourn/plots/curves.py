"""Curves with bands: a record of numbers, and its picture by matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import need


@dataclass(frozen=True)
class Line:
    """One curve; ``low`` and ``high`` bound a shaded band."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    points: bool = False


@dataclass(frozen=True)
class CurvesRecord:
    """A figure of curves over one axis."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False
    rule: tuple[float, str] | None = None
    """A horizontal line and its label."""


def draw(record: CurvesRecord, *paths: Path) -> list[Path]:
    """Write the figure to each path, in the format of its ending (.png, .svg, .pdf)."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise need("matplotlib", "plot", "drawing figures") from error
    # The same bits for the same numbers: no date, no random ids in the SVG.
    with mpl.rc_context({"svg.hashsalt": "sojourn", "font.size": 10}):
        # A Figure of its own never touches pyplot's global state, nor needs a display.
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.subplots()
        for k, line in enumerate(record.lines):
            _line(axes, line, f"C{k}")
        if record.rule is not None:
            axes.axhline(record.rule[0], color="0.4", lw=1, ls=":", label=record.rule[1])
        axes.set(title=record.title, xlabel=record.x_label, ylabel=record.y_label)
        axes.set_xscale("log" if record.log_x else "linear")
        axes.set_yscale("log" if record.log_y else "linear")
        axes.grid(alpha=0.25, which="both" if record.log_y else "major")
        axes.legend(fontsize=8, framealpha=0.9)
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=140, metadata=metadata)
    return list(paths)


def _line(axes: Any, line: Line, colour: str) -> None:
    if line.points:
        axes.plot(line.x, line.y, "o", ms=3.5, color=colour, alpha=0.8, label=line.label)
        return
    axes.plot(line.x, line.y, color=colour, lw=1.8, label=line.label)
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.12, lw=0)
