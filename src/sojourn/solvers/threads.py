"""One thread for the small dense algebra of a kernel.

BLAS splits products and factorisations over its own threads, and these wait for each other by
spinning. That pays for matrices of order 1000; below, and whenever another process (or another
thread of this one: many walks are simulated at once) wants the same core, the waiting costs
many times the work. There is no portable switch, so the copies of OpenBLAS that the wheels of
NumPy and SciPy bring along are asked directly; where there are none, nothing happens.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import scipy

_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this block BLAS works on one thread.

    The setting belongs to the process: it is changed by the first that enters and restored by
    the last that leaves.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = [read() for read, _ in _switches()]
            _write([1] * len(_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _write(_before)


def _write(counts: list[int]) -> None:
    for (read, write), count in zip(_switches(), counts):
        if read() != count:
            write(count)


@cache
def _switches() -> tuple[tuple[Callable[[], int], Callable[[int], None]], ...]:
    """How to read and write the number of threads of each OpenBLAS in use."""
    found = []
    for package in (np, scipy):
        home = Path(str(package.__file__)).parent
        for folder in (home.parent / f"{package.__name__}.libs", home / ".dylibs"):
            for file in sorted(folder.glob("*openblas*")):
                try:
                    library = ctypes.CDLL(str(file))
                except OSError:
                    continue
                for prefix in ("scipy_", ""):
                    for suffix in ("64_", ""):
                        name = f"{prefix}openblas_%s_num_threads{suffix}"
                        if hasattr(library, name % "get"):
                            read = getattr(library, name % "get")
                            write = getattr(library, name % "set")
                            write.restype = None
                            found.append((read, write))
    return tuple(found)
