"""What an analysis returns, and how it is printed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sojourn.experiments.definition import Row
from sojourn.plots.curves import CurvesRecord
from sojourn.plots.spread import SpreadRecord

Figure = CurvesRecord | SpreadRecord

LABELS = {
    "fw-ame": "FW-AME", "fw-ame-even": "FW-AME, even start",
    "fw-ame-fmh-sdp": "FW-AME w/ FMH-SDP", "uniform": "uniform", "lookahead": "Lookahead",
}  # fmt: skip

COLOUR = {"uniform": 4, "fw-ame": 1, "fw-ame-even": 2, "fw-ame-fmh-sdp": 3, "lookahead": 0}
"""A strategy has the same colour in every figure."""

BEST = r"$\mathcal{L}(\lambda^\star)$"

WIDTH = 100


@dataclass(frozen=True)
class Lines:
    """Columns of text under a header."""

    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Report:
    """Lines to print, sentences about them, a table to keep, and figures to draw."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)
    table: tuple[Row, ...] = ()
    further: tuple[Lines, ...] = ()
    """More lines below the first ones."""

    @property
    def blocks(self) -> tuple[Lines, ...]:
        """All that is shown in columns."""
        return (Lines(self.header, self.lines, self.title), *self.further)


def number(value: float | None, digits: int = 2) -> str:
    """A number as a table shows it; a dash where there is none."""
    return "–" if value is None else f"{value:z.{digits}f}"


def with_error(mean: float, error: float | None, digits: int = 2) -> str:
    """mean ± standard error."""
    return number(mean, digits) + ("" if error is None else f" ± {error:.{digits}f}")


def one_of(rows: Sequence[Row], key: str) -> list:
    """The values of a column, each once, in the order in which they come."""
    return list(dict.fromkeys(row[key] for row in rows))


def columns(rows: Sequence[Row], *keys: str) -> list[NDArray[np.float64]]:
    """Columns of a table as arrays."""
    return [np.array([row[key] for row in rows], dtype=float) for key in keys]


def text(report: Report) -> str:
    """A report as lines of text, columns aligned, remarks wrapped."""
    remarks = [
        textwrap.fill(
            remark, WIDTH, initial_indent="· ", subsequent_indent="  ", break_on_hyphens=False
        )
        for remark in report.remarks
    ]
    parts = [_aligned(block) for block in report.blocks]
    return "\n\n".join([*parts, "\n".join(remarks)] if remarks else parts)


def _aligned(block: Lines) -> str:
    rows = (block.header, *block.lines)
    widths = [max(len(row[k]) for row in rows) for k in range(len(block.header))]
    shown = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]
    rule = "  ".join("─" * w for w in widths)
    return "\n".join([block.title, "", shown[0], rule, *shown[1:]])


def markdown(report: Report) -> str:
    """The same as a piece of a Markdown page, with the figures first."""
    parts = [f"![{_escaped(report.title)}]({name}.png)" for name in report.figures]
    for block in report.blocks:
        rows = [block.header, ("---",) * len(block.header), *block.lines]
        cells = [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
        parts += [f"**{_escaped(block.title)}**", "\n".join(cells)]
    if report.remarks:
        parts.append("\n".join(f"- {_escaped(remark)}" for remark in report.remarks))
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """Signs of mathematics (λ*, x_s) are no markup; what is quoted stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_|<>\\])", r"\\\1", p) for p in parts)
