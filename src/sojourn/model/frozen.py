"""Objects that never change once built.

A model is shared: by policies, worlds, plans, worker processes. If one of them could change
it, every other would silently compute on a world that was never described. So attributes can't
be assigned, and the arrays behind them can't be written to. What follows from that:

    equality   by content: a model read back from a file or a pickle equals the original
    copies     are the object itself
    pickles    leave out what can be computed again (cached properties)
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sojourn.errors import FrozenError


class Frozen:
    """Base of the frozen objects: ``__init__`` ends by handing its attributes to ``_hold``."""

    def _hold(self, **attributes: Any) -> None:
        for value in attributes.values():
            for array in _arrays_of(value):
                array.flags.writeable = False
        vars(self).update(attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenError(
            f"{name} of this {type(self).__name__} can't be changed",
            "models are shared and stay as they were built; build another one",
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(type(self), name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # An array that comes out of a pickle is writeable again.
        self._hold(**state)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or not isinstance(other, Frozen):
            return NotImplemented
        mine, theirs = self.__getstate__(), other.__getstate__()
        return mine.keys() == theirs.keys() and all(_same(mine[k], theirs[k]) for k in mine)

    def __hash__(self) -> int:
        # Enough to tell apart what is not deliberately alike; equality decides the rest.
        arrays = [array for value in self.__getstate__().values() for array in _arrays_of(value)]
        return hash(tuple((array.shape, array[:16].tobytes()) for array in arrays))


def _arrays_of(value: Any) -> tuple[np.ndarray, ...]:
    if isinstance(value, np.ndarray):
        return (value,)
    if isinstance(value, sp.csr_matrix):
        return value.data, value.indices, value.indptr
    return ()


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | sp.csr_matrix):
        return a.shape == b.shape and all(
            np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
            for x, y in zip(_arrays_of(a), _arrays_of(b))
        )
    return bool(a is b or a == b)
