"""One NumPy generator per walk, made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray


class Generators(Sequence[np.random.Generator]):
    """A sequence of independent generators that are built on first use.

    Building one takes longer than a thousand steps, and most strategies draw nothing.
    """

    def __init__(self, seeds: NDArray[np.uint64]) -> None:
        self._seeds = seeds
        self._made: dict[int, np.random.Generator] = {}

    def __len__(self) -> int:
        return len(self._seeds)

    @overload
    def __getitem__(self, index: int) -> np.random.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.random.Generator]: ...

    def __getitem__(self, index: int | slice) -> np.random.Generator | list[np.random.Generator]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        if i not in self._made:
            self._made[i] = np.random.default_rng(self._seeds[i].tolist())
        return self._made[i]
