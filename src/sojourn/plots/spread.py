"""How numbers scatter: one dot each, with median, mean and a published value.

What a mean hides (a tail that decides it) is what this figure is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.plots.style import COLOURS, GREY, new_figure, plain_numbers, written


@dataclass(frozen=True, eq=False)
class Scatter:
    """One row of dots; ``published`` is somebody else's mean of the same quantity."""

    label: str
    values: NDArray[np.float64]
    published: float | None = None
    colour: int = 0


@dataclass(frozen=True, eq=False)
class SpreadRecord:
    """A figure of rows over one axis; a title above the first row of each group."""

    title: str
    x_label: str
    groups: tuple[tuple[str, tuple[Scatter, ...]], ...]
    log_x: bool = False
    rule: tuple[float, str] | None = None
    """A vertical line and its label."""
    means: bool = True
    """Whether means are drawn; of ratios that go both ways they say little."""


def draw(record: SpreadRecord, *paths: Path) -> list[Path]:
    """Write the figure to each path, in the format of its ending (.png, .svg, .pdf)."""
    return written(lambda: paint(record), paths)


def paint(record: SpreadRecord) -> Any:
    """The figure."""
    rows = sum(len(group) + 1 for _, group in record.groups)
    figure = new_figure(7.6, 1.3 + 0.36 * rows)
    axes = figure.subplots()
    axes.set(xlabel=record.x_label)
    figure.suptitle(record.title, x=0.01, ha="left", fontsize=11)
    axes.set_xscale("log" if record.log_x else "linear")
    ticks: list[float] = []
    names: list[str] = []
    y = 0.0
    for title, group in record.groups:
        axes.text(0.0, y, title, transform=axes.get_yaxis_transform(), weight="bold",
                  va="center", ha="left", fontsize=9.5,
                  bbox={"fc": "white", "ec": "none", "pad": 1.0})  # fmt: skip
        for row in group:
            y -= 1.0
            _row(axes, y, row, record.means)
            ticks.append(y)
            names.append(row.label)
        y -= 1.0
    if record.rule is not None:
        axes.axvline(record.rule[0], color=GREY, lw=1, ls=(0, (1, 2)), zorder=0)
        axes.text(record.rule[0], 1.0, record.rule[1], transform=axes.get_xaxis_transform(),
                  ha="center", va="bottom", fontsize=9, color=GREY)  # fmt: skip
    axes.set_yticks(ticks, names)
    axes.set_ylim(y + 0.4, 0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(alpha=0.25, lw=0.6, axis="x")
    if record.log_x:
        plain_numbers(axes.xaxis)
    published = any(row.published is not None for _, group in record.groups for row in group)
    figure.legend(handles=_key(record.means, published), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=9)  # fmt: skip
    return figure


def _row(axes: Any, y: float, row: Scatter, means: bool) -> None:
    colour = COLOURS[row.colour % len(COLOURS)]
    # Low-discrepancy heights instead of random ones: the same picture every time.
    jitter = 0.5 * ((np.arange(row.values.size) * 0.6180339887498949) % 1.0 - 0.5)
    axes.plot(row.values, y + jitter, "o", ms=3, mew=0, color=colour, alpha=0.45, clip_on=False)
    # A light rim keeps the mark apart from the dots around it.
    for length, thick, ink in ((17, 5.0, "white"), (15, 2.2, colour)):
        axes.plot([np.median(row.values)], [y], "|", ms=length, mew=thick, color=ink)
    if means:
        axes.plot([row.values.mean()], [y], "D", ms=6, color=colour, mec="white", mew=0.8)
    if row.published is not None:
        axes.plot([row.published], [y], "s", ms=7, mfc="none", mec="black", mew=1.4)


def _key(means: bool, published: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    def sign(label: str, marker: str, **style: Any) -> Any:
        return Line2D([], [], ls="", marker=marker, label=label, color=GREY, **style)

    theirs = Line2D([], [], ls="", marker="s", ms=7, mfc="none", mec="black",
                    label="the paper's mean")  # fmt: skip
    return [
        sign("one world", "o", ms=4), sign("median", "|", ms=12, mew=2.2),
        *([sign("our mean" if published else "mean", "D", ms=6)] if means else []),
        *([theirs] if published else []),
    ]  # fmt: skip
