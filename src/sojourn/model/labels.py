"""Names of states and actions that are computed instead of stored.

A million cells have a million names that follow from their positions, and their actions share
five names. Stored as Python objects they would take more memory than the model.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 16


class Computed(Sequence[Any]):
    """A sequence whose items follow from arrays; equal to any sequence of the same items."""

    @abstractmethod
    def _item(self, k: int) -> Any: ...

    @abstractmethod
    def _items(self, where: slice) -> list[Any]: ...

    @overload
    def __getitem__(self, k: int) -> Any: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, k: int | slice) -> Any:
        return tuple(self._items(k)) if isinstance(k, slice) else self._item(int(k))

    def __iter__(self) -> Iterator[Any]:
        for begin in range(0, len(self), CHUNK):
            yield from self._items(slice(begin, begin + CHUNK))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(item) for item in self[:5])
        return f"[{shown}{', ...' if len(self) > 5 else ''}]"


class CellLabels(Computed):
    """The cells (x, y) of a grid, row by row: ``number[y, x]`` is the cell's index, or -1."""

    def __init__(self, number: NDArray[np.integer]) -> None:
        self._number = number
        self._y, self._x = (k.astype(np.int32) for k in np.nonzero(number >= 0))

    def __len__(self) -> int:
        return int(self._x.size)

    def _item(self, k: int) -> tuple[int, int]:
        return int(self._x[k]), int(self._y[k])

    def _items(self, where: slice) -> list[tuple[int, int]]:
        return list(zip(self._x[where].tolist(), self._y[where].tolist()))

    def index(self, label: Any, start: int = 0, stop: int | None = None) -> int:
        """The index of a cell, without searching."""
        height, width = self._number.shape
        match label:
            case (int() | np.integer() as x, int() | np.integer() as y) if (
                0 <= x < width and 0 <= y < height and self._number[y, x] >= 0
            ):
                return int(self._number[y, x])
        raise ValueError(f"{label!r} is not a cell of the grid")


class CodedLabels(Computed):
    """Items of a short list of names, as small integers: item k is ``names[code[k]]``."""

    def __init__(self, names: Sequence[str], code: NDArray[np.uint8]) -> None:
        self._names = tuple(names)
        self._code = code

    def __len__(self) -> int:
        return int(self._code.size)

    def _item(self, k: int) -> str:
        return self._names[self._code[k]]

    def _items(self, where: slice) -> list[str]:
        return [self._names[c] for c in self._code[where].tolist()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array(self._names, dtype=dtype)[self._code]
