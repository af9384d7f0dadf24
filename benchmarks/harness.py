"""What every benchmark script is written with.

A script ``bench_<topic>.py`` defines ``rows(quick)``, which yields one :class:`Row` per piece
of work: our time and a rival's, measured side by side in this process, because a ratio taken
in one run survives a change of machine and a time does not. ``quick=True`` is a smoke run of a
few seconds with the same code on smaller sizes; a test runs it, so no script rots.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "sojourn",
    "numpy",
    "scipy",
    "numba",
    "clarabel",
    "highspy",
    "cvxopt",
    "cvxpy",
    "quantecon",
)


@dataclass(frozen=True)
class Row:
    """One piece of work, ours against a rival's (``rival=""`` where there is none)."""

    work: str
    ours_seconds: float
    rival: str = ""
    rival_seconds: float = float("nan")
    target_ratio: float | None = None
    note: str = ""
    peak_mib: float | None = None

    @property
    def ratio(self) -> float:
        """How many times faster than the rival; NaN without one."""
        return self.rival_seconds / self.ours_seconds


@dataclass(frozen=True)
class Measured:
    """What :func:`in_fresh_process` saw."""

    value: Any
    seconds: float
    peak_mib: float


def machine() -> str:
    """When, on what and with what a benchmark was run, in one line."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    threads = os.environ.get("OMP_NUM_THREADS")
    return (
        f"{datetime.date.today()}, {_processor()}, {os.cpu_count()} cores, BLAS threads: "
        f"{threads or 'not limited'}; Python {platform.python_version()}, {', '.join(found)}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def median_seconds(f: Callable[[], Any], repeat: int = 5) -> float:
    """The median time of ``repeat`` calls, after one that is not counted.

    The first call compiles, fills caches and imports; calls too short for the clock are
    repeated within one measurement.
    """
    started = time.perf_counter()
    f()
    once = time.perf_counter() - started
    started = time.perf_counter()
    f()
    once = min(once, time.perf_counter() - started)
    inner = max(1, int(1e-3 / max(once, 1e-7)))
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        for _ in range(inner):
            f()
        times.append((time.perf_counter() - started) / inner)
    return statistics.median(times)


def in_fresh_process(f: Callable[..., Any], *args: Any) -> Measured:
    """Call ``f(*args)`` once in a new process: its value, time and peak resident memory.

    Peak memory belongs to a process, so only a fresh one tells what the work itself needs.
    ``f`` must be a module-level function with a small, picklable value. What its module
    imports is not timed; what ``f`` imports or compiles itself is.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (f, args))


def _measured(f: Callable[..., Any], args: tuple[Any, ...]) -> Measured:
    started = time.perf_counter()
    value = f(*args)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Measured(value, seconds, peak / (2**20 if sys.platform == "darwin" else 2**10))
