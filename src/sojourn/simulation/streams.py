"""Streams of random numbers for the compiled walks.

Every walk owns two streams, one for its moves and one for its noise, so that a walk is the
same whoever walks beside it and on however many threads, and so that changing the law of the
noise leaves the moves of a fixed policy as they were.

A stream is four words of the generator SFC64 (Doty-Humphrey), the same recurrence as
``numpy.random.SFC64``, whose stream ours equals word by word; it lives in a row of an array so
that compiled code can draw from thousands of them without holding Python objects.

The normal variate is the ziggurat of Marsaglia & Tsang (2000) with 256 layers: edges
x_0 > x_1 = r > … > x_256 = 0 of equal area v under f(x) = exp(−x²/2), x_0 = v/f(r) standing for
the layer that holds the tail. The gamma variate is Marsaglia & Tsang's squeeze (2000).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Stream = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

WORDS = 4
"""Words of state per stream: a, b, c and the counter."""

_WARM_UP = 12
_TAIL = 3.6541528853610088
_AREA = 0.00492867323399
_TO_UNIT = 1.0 / 9007199254740992.0
_TO_SIGNED_UNIT = 1.0 / 4503599627370496.0

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U3 = np.uint64(3)
_U11 = np.uint64(11)
_U24 = np.uint64(24)
_U40 = np.uint64(40)
_U255 = np.uint64(255)


def _ziggurat() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The edges x_i and the heights f(x_i)."""
    edges = np.zeros(257)
    edges[0], edges[1] = _AREA / math.exp(-0.5 * _TAIL**2), _TAIL
    for i in range(2, 256):
        height = _AREA / edges[i - 1] + math.exp(-0.5 * edges[i - 1] ** 2)
        edges[i] = math.sqrt(-2.0 * math.log(height))
    return edges, np.exp(-0.5 * edges**2)


_EDGE, _HEIGHT = _ziggurat()


def seeded(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Streams from rows of three random words, stirred as ``numpy.random.SFC64`` does."""
    counter = np.ones((len(words), 1), dtype=np.uint64)
    state = np.concatenate((words, counter), axis=1)
    _stir(state)
    return state


# Compiled functions pass a stream by value, as a tuple of its four words, and return it with the
# variate: handing an array row through a function with branches costs two atomic reference
# counts per call, more than the variate itself.


@njit(cache=True, nogil=True)
def load(state: NDArray[np.uint64], row: int) -> Stream:
    """The stream in a row of ``state``."""
    return state[row, 0], state[row, 1], state[row, 2], state[row, 3]


@njit(cache=True, nogil=True)
def store(state: NDArray[np.uint64], row: int, stream: Stream) -> None:
    """Put a stream back."""
    for i in range(WORDS):
        state[row, i] = stream[i]


@njit(cache=True, nogil=True)
def next_word(stream: Stream) -> tuple[np.uint64, Stream]:
    """64 random bits."""
    a, b, c, count = stream
    out = a + b + count
    rotated = (c << _U24) | (c >> _U40)
    return out, (b ^ (b >> _U11), c + (c << _U3), rotated + out, count + _U1)


@njit(cache=True, nogil=True)
def _stir(state: NDArray[np.uint64]) -> None:
    for row in range(state.shape[0]):
        stream = load(state, row)
        for _ in range(_WARM_UP):
            _, stream = next_word(stream)
        store(state, row, stream)


@njit(cache=True, nogil=True)
def uniform(stream: Stream) -> tuple[float, Stream]:
    """Uniform on [0, 1), 53 bits."""
    word, stream = next_word(stream)
    return (word >> _U11) * _TO_UNIT, stream


@njit(cache=True, nogil=True)
def _log_uniform(stream: Stream) -> tuple[float, Stream]:
    """Logarithm of a uniform variate on (0, 1], always finite."""
    word, stream = next_word(stream)
    return math.log(((word >> _U11) + _U1) * _TO_UNIT), stream


@njit(cache=True, nogil=True)
def _layer(stream: Stream) -> tuple[np.uint64, float, Stream]:
    """A layer of the ziggurat and a point in it."""
    word, stream = next_word(stream)
    layer = word & _U255
    return layer, (np.int64(word) >> 11) * _TO_SIGNED_UNIT * _EDGE[layer], stream


@njit(cache=True, nogil=True)
def _normal_beyond(layer: np.uint64, x: float, stream: Stream) -> tuple[float, Stream]:
    """The rare cases of the ziggurat (1.2 %): the edge of a layer, and the tail."""
    while True:
        if layer == _U0:
            while True:
                a, stream = _log_uniform(stream)
                b, stream = _log_uniform(stream)
                a /= -_TAIL
                if -2.0 * b > a * a:
                    return (_TAIL + a if x > 0 else -(_TAIL + a)), stream
        u, stream = uniform(stream)
        low = _HEIGHT[layer]
        if low + u * (_HEIGHT[layer + _U1] - low) < math.exp(-0.5 * x * x):
            return x, stream
        layer, x, stream = _layer(stream)
        if abs(x) < _EDGE[layer + _U1]:
            return x, stream


@njit(cache=True, nogil=True)
def normal(stream: Stream) -> tuple[float, Stream]:
    """A standard normal variate."""
    layer, x, stream = _layer(stream)
    if not abs(x) < _EDGE[layer + _U1]:
        x, stream = _normal_beyond(layer, x, stream)
    return x, stream


@njit(cache=True, nogil=True)
def chi_square(degrees: int, stream: Stream) -> tuple[float, Stream]:
    """A χ² variate with ``degrees`` ≥ 1 degrees of freedom: twice a gamma of shape half that."""
    if degrees == 1:
        z, stream = normal(stream)
        return z * z, stream
    d = 0.5 * degrees - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        z, stream = normal(stream)
        v = 1.0 + c * z
        if v <= 0.0:
            continue
        v = v * v * v
        u, stream = _log_uniform(stream)
        if u < 0.5 * z * z + d * (1.0 - v + math.log(v)):
            return 2.0 * d * v, stream
