"""Curves with quantiles: a record of numbers, and its picture by matplotlib.

Each curve is named where it ends, so nobody has to match colours with a legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.plots.style import COLOURS, GREY, new_figure, plain_numbers, written

FEW = 7
"""Up to so many places on a logarithmic axis are its ticks."""

LABEL_HEIGHT = 0.052
"""Least distance of two labels, as a share of the axes' height."""


@dataclass(frozen=True, eq=False)
class Line:
    """One curve; ``low`` and ``high`` are thin lines around it. ``points`` draws markers and no
    line."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    points: bool = False
    dashed: bool = False
    colour: int | None = None
    """A place in :data:`sojourn.plots.style.COLOURS`; by default the next one."""


@dataclass(frozen=True, eq=False)
class CurvesRecord:
    """A figure of curves over one axis. A line without a label is not named."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False
    rule: tuple[float, str] | None = None
    """A horizontal line and its label."""
    y_range: tuple[float | None, float | None] = (None, None)
    marks: tuple[tuple[float, float, str], ...] = ()
    """Points (x, y) that a few words point at."""


def draw(record: CurvesRecord, *paths: Path) -> list[Path]:
    """Write the figure to each path, in the format of its ending (.png, .svg, .pdf)."""
    return written(lambda: paint(record), paths)


def paint(record: CurvesRecord) -> Any:
    """The figure."""
    figure = new_figure(7.6, 4.6)
    axes = figure.subplots()
    axes.set(title=record.title, xlabel=record.x_label, ylabel=record.y_label)
    axes.set_xscale("log" if record.log_x else "linear")
    axes.set_yscale("log" if record.log_y else "linear")
    ends: list[tuple[float | None, float, str, str]] = []
    for k, line in enumerate(record.lines):
        colour = COLOURS[(k if line.colour is None else line.colour) % len(COLOURS)]
        _line(axes, line, colour)
        finite = np.flatnonzero(np.isfinite(line.y))
        if line.label and finite.size:
            last = finite[-1]
            ends.append((float(line.x[last]), float(line.y[last]), line.label, colour))
    if record.rule is not None:
        axes.axhline(record.rule[0], color=GREY, lw=1, ls=(0, (1, 2)))
        ends.append((None, *record.rule, GREY))
    axes.set_ylim(*record.y_range)
    axes.margins(x=0.0)
    for log, axis in ((record.log_x, axes.xaxis), (record.log_y, axes.yaxis)):
        if log:
            plain_numbers(axis)
    points = np.unique(np.concatenate([line.x for line in record.lines]))
    if record.log_x and points.size <= FEW:
        axes.set_xticks(points)
        axes.set_xticks([], minor=True)
    axes.grid(alpha=0.25, lw=0.6)
    for x, y, words in record.marks:
        axes.plot([x], [y], "o", ms=6, mfc="none", mec=COLOURS[6])
        axes.annotate(words, (x, y), xytext=(10, 0), textcoords="offset points", fontsize=9)
    _name(axes, ends)
    return figure


def _line(axes: Any, line: Line, colour: str) -> None:
    if line.points:
        axes.plot(line.x, line.y, "o", ms=4, color=colour, mfc="white", mew=1.2, clip_on=False)
        return
    axes.plot(line.x, line.y, color=colour, lw=1.9, ls="--" if line.dashed else "-")
    if line.low is not None and line.high is not None:
        for edge in (line.low, line.high):
            axes.plot(line.x, edge, color=colour, lw=0.8, ls=(0, (4, 2)), alpha=0.7)


def _name(axes: Any, ends: Sequence[tuple[float | None, float, str, str]]) -> None:
    """Labels right of the axes, each as near to its curve's end (x, y) as the others let it.

    Without an x a curve runs through to the edge.
    """
    if not ends:
        return
    to_axes = axes.transData + axes.transAxes.inverted()
    edge = axes.get_xlim()[1]
    at = np.array([to_axes.transform((edge if x is None else x, y)) for x, y, _, _ in ends])
    at = np.clip(at, 0.0, 1.0)
    places = spread_apart(at[:, 1], LABEL_HEIGHT, within=1.0)
    for place, end, (_, _, label, colour) in zip(places, at, ends):
        # One that ends within the picture is led out level with its end, and so lightly that it
        # isn't taken for a part of the curve.
        axes.plot(
            [end[0], 1.0], [end[1], end[1]], transform=axes.transAxes, color=colour, lw=0.7,
            ls=(0, (1, 3)),
        )  # fmt: skip
        axes.annotate(
            label, (1.0, end[1]), xytext=(1.035, place), xycoords="axes fraction",
            textcoords="axes fraction", color=colour, va="center", fontsize=9,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.7, "shrinkA": 1, "shrinkB": 0,
                        "relpos": (0.0, 0.5)},
            annotation_clip=False,
        )  # fmt: skip


def spread_apart(
    height: NDArray[np.float64], least: float, within: float = np.inf
) -> NDArray[np.float64]:
    """The places nearest to ``height`` (least squares) that keep order and a distance.

    With z_k = place_k − k·least the places are the isotonic regression of height_k − k·least,
    found by pooling neighbours that stand in the wrong order. ``within`` keeps all of them
    between 0 and it, as far as there is room: clipping an isotonic regression is optimal too.
    """
    order = np.argsort(height, kind="stable")
    step = least * np.arange(order.size)
    pools: list[tuple[float, int]] = []
    for value in (height[order] - step).tolist():
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            before, size = pools.pop()
            total, count = total + before, count + size
        pools.append((total, count))
    level = np.repeat([t / c for t, c in pools], [c for _, c in pools])
    if np.isfinite(within):
        level = np.clip(level, 0.0, max(0.0, within - step[-1]))
    place = np.empty_like(height)
    place[order] = level + step
    return place
