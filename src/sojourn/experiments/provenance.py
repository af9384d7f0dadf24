"""When, with which version and on what machine results were made.

Kept beside the results themselves: who reads them from disk later is told what made them, and not
what reads them.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

import sojourn
from sojourn._version import __version__


@dataclass(frozen=True)
class Made:
    """One run: where it was, how many cells it computed, and how long that took."""

    date: str
    sojourn: str
    python: str
    numpy: str
    machine: str
    cores: int
    computed: int
    seconds: float
    by: str

    @property
    def place(self) -> str:
        """Date, versions and machine."""
        return (
            f"{self.date}, sojourn {self.sojourn}, Python {self.python}, numpy {self.numpy}; "
            f"{self.machine}, {self.cores} cores"
        )


def made(computed: int, seconds: float, by: str) -> Made:
    """A run that ends here and now."""
    return Made(
        f"{datetime.now(UTC):%Y-%m-%d}", build(), platform.python_version(), np.__version__,
        processor(), cores(), computed, seconds, by,
    )  # fmt: skip


def in_words(runs: Sequence[Made], now: Made, cells: int) -> str:
    """What made a table of ``cells`` cells: this run, or earlier ones whose results it read."""
    if now.computed == cells:
        work = f"{cells} of {cells} cells computed in {now.seconds:.1f} s by {now.by}"
        return f"{now.place}; {work}"
    if sum(run.computed for run in runs) < cells:
        # A folder of results that were moved or made without a record.
        return f"{now.place}; {now.computed} of {cells} cells computed, the others read from disk"
    said = f"{runs[0].place}; {cells} cells computed in {_total(runs):.1f} s by {_by(runs)}"
    if len({run.place for run in runs}) > 1:
        last = runs[-1]
        said += f", the last ones {last.place}"
    if now.computed:
        return f"{said}; {now.computed} of {cells} in this run"
    return f"{said}; all read from disk"


def _total(runs: Sequence[Made]) -> float:
    return sum(run.seconds for run in runs)


def _by(runs: Sequence[Made]) -> str:
    return " and ".join(dict.fromkeys(run.by for run in runs))


@cache
def build() -> str:
    """The version and a fingerprint of the source: rows of different code must not be mixed, and
    while somebody works on the code its version stays."""
    package = Path(sojourn.__file__).parent
    found = hashlib.sha256()
    for file in sorted(package.rglob("*.py"), key=lambda file: file.as_posix()):
        found.update(file.relative_to(package).as_posix().encode())
        found.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return f"{__version__}+{found.hexdigest()[:8]}"


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
