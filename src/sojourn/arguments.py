"""What an argument may be.

Everything public asks here, so that what means nothing is refused in the same words everywhere:
what it is called, what was given, what to give instead. Three things look like numbers to
Python or NumPy and are none where one is wanted: a bool (``True`` is 1), a date, and a text
that could be read as a number.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError


def choice(value: Any, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not one of ``known``, and list those that are."""
    known = tuple(known)
    if not (isinstance(value, str) and value in known):
        raise ArgumentError(f"there is no {name} {value!r}", f"use one of {', '.join(known)}")


def whole(value: Any, name: str, minimum: int = 0, most: int = 2**62) -> int:
    """``value`` as a whole number from ``minimum`` to ``most``."""
    number = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < minimum:
        raise ArgumentError(f"{name} is {value!r}", f"give a whole number of at least {minimum}")
    if number > most:
        raise ArgumentError(f"{name} is {value!r}", f"give a whole number of at most {most:.3g}")
    return int(number)


def number(
    value: Any, name: str, hint: str, minimum: float = -np.inf, maximum: float = np.inf
) -> float:
    """``value`` as a finite number between ``minimum`` and ``maximum``; ``hint`` says what."""
    if type(value) is float and minimum <= value <= maximum and math.isfinite(value):
        return value
    single = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    try:
        if isinstance(single, bool | np.bool_ | str | bytes) or np.ndim(single):
            raise TypeError
        result = float(real(single))
    except (TypeError, ValueError, OverflowError):
        result = np.nan
    if not (np.isfinite(result) and minimum <= result <= maximum):
        raise ArgumentError(f"{name} is {value!r}", hint)
    return result


def real(values: Any) -> NDArray[np.float64]:
    """``values`` as an array of floats; a TypeError or ValueError where they are none."""
    array = np.asarray(values)
    # NumPy would count a date's days, read a text, and drop an imaginary part with a warning.
    if array.dtype.kind not in "biufO":
        raise TypeError(f"{array.dtype} is no type of numbers")
    try:
        return np.asarray(array, dtype=np.float64)
    except OverflowError:
        raise ValueError("a number beyond the range of floats") from None


def numbers(values: Any, name: str) -> NDArray[np.float64]:
    """``values`` as a new array of floats."""
    try:
        return real(values).copy()
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name} holds something that is not a real number, or rows of different lengths",
            "give numbers",
        ) from None


def indices(values: Any) -> NDArray[np.int64] | None:
    """``values`` as an array of whole numbers, of any shape; ``None`` where they are none."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(np.int64) if array.dtype.kind in "iu" else None


def per_state(
    values: ArrayLike,
    n_states: int,
    name: str,
    *,
    minimum: float = -np.inf,
    labels: Sequence[Hashable] | None = None,
) -> NDArray[np.float64]:
    """``values`` broadcast to one finite number per state; messages call the state by its label
    where labels are given."""
    array = numbers(values, name)
    if array.ndim == 0:
        array = np.full(n_states, float(array))
    if array.shape != (n_states,):
        raise ArgumentError(
            f"{name} has shape {array.shape}, expected ({n_states},)", "give one number per state"
        )
    bad = ~(np.isfinite(array) & (array >= minimum))
    if bad.any():
        s = int(np.flatnonzero(bad)[0])
        raise ArgumentError(
            f"{name} of state {s if labels is None else repr(labels[s])} is {array[s]}",
            "every entry must be a finite number"
            + (f" of at least {minimum:g}" if minimum > -np.inf else ""),
        )
    return array


def distribution(values: ArrayLike, n_states: int, name: str) -> NDArray[np.float64]:
    """``values`` as a probability distribution over states."""
    array = numbers(values, name)
    if array.shape != (n_states,):
        raise ArgumentError(
            f"{name} has shape {array.shape}, expected ({n_states},)",
            "give one probability per state",
        )
    with np.errstate(over="ignore"):
        total = float(array.sum())
    # A NaN compares false with everything: test for what is wanted, not for what is wrong.
    if not ((array >= 0).all() and abs(total - 1.0) <= 1e-8):
        raise ArgumentError(
            f"{name} is not a probability distribution (sum {total:.12g}, "
            f"minimum {array.min():.3g})",
            "entries must be >= 0 and sum to 1",
        )
    return array / total


def start_distribution(start: int | ArrayLike | None, n_states: int) -> NDArray[np.float64]:
    """Where a walk starts: a state (index), a distribution, or None for the uniform one."""
    if start is None:
        return np.full(n_states, 1.0 / n_states)
    try:
        single = np.ndim(start) == 0
    except ValueError:  # rows of different lengths
        single = False
    if not single:
        return distribution(start, n_states, "start")
    # A negative index would count from the end, and True is an int.
    state = start.item() if isinstance(start, np.ndarray) else start
    if not isinstance(state, int | np.integer) or isinstance(state, bool):
        raise ArgumentError(
            f"the start state {start!r} is neither a state's index nor a distribution",
            "mdp.state_index(label) gives the index of a label",
        )
    if not 0 <= state < n_states:
        raise ArgumentError(
            f"the start state {state} is outside the world of {n_states} states",
            f"give an index between 0 and {n_states - 1}",
        )
    return np.eye(1, n_states, int(state)).ravel()
