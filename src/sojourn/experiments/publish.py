"""A report as files: what was said, the table, the figures, and the definitions behind them.

    name.txt, .md        the report as it was printed, and for a page
    name.csv, .parquet   its table
    name.json            table, remarks and the definitions that produced them
    <figure>.png, .svg   its figures

Each says when, with which version and on what machine it was made.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sojourn._version import __version__
from sojourn.experiments.analysis import Report, markdown, text
from sojourn.experiments.definition import Experiment, plain
from sojourn.experiments.sweep import save_table, write_text
from sojourn.plots import curves, spread


@dataclass(frozen=True)
class Made:
    """When, with what, and how long."""

    date: str
    sojourn: str
    python: str
    numpy: str
    machine: str
    cores: int
    computed: int
    """Cells computed in this run; the others were on disk."""
    cells: int
    seconds: float
    by: str

    def __str__(self) -> str:
        work = (
            f"{self.computed} of {self.cells} cells computed in {self.seconds:.1f} s by {self.by}"
            if self.computed
            else f"all {self.cells} cells read from disk"
        )
        return (
            f"{self.date}, sojourn {self.sojourn}, Python {self.python}, numpy {self.numpy}; "
            f"{self.machine}, {self.cores} cores; {work}"
        )


def made(computed: int, cells: int, seconds: float, by: str) -> Made:
    """Here and now."""
    return Made(
        f"{datetime.now(UTC):%Y-%m-%d}", __version__, platform.python_version(), np.__version__,
        processor(), cores(), computed, cells, seconds, by,
    )  # fmt: skip


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def publish(
    report: Report, experiments: Sequence[Experiment], how: Made, folder: Path, name: str
) -> list[Path]:
    """Write all files of a report; those that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    said, page, data = (folder / f"{name}.{kind}" for kind in ("txt", "md", "json"))
    write_text(said, f"{text(report)}\n\n{how}\n")
    write_text(page, f"{markdown(report)}\n\nMade on {how}.\n")
    record = {
        "title": report.title, "made": asdict(how), "remarks": report.remarks,
        "definitions": [e.as_dict() | {"digest": e.digest()} for e in experiments],
        "table": report.table,
    }  # fmt: skip
    write_text(data, json.dumps(plain(record), indent=1, ensure_ascii=False) + "\n")
    written = [said, page, *save_table(list(report.table), folder / name), data]
    for figure, numbers in report.figures.items():
        paths = folder / f"{figure}.png", folder / f"{figure}.svg"
        draw = curves.draw if isinstance(numbers, curves.CurvesRecord) else spread.draw
        written += draw(numbers, *paths)  # type: ignore[arg-type]
    return written
