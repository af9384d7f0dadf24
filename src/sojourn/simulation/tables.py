"""Tables from which the next state is drawn in constant time (the alias method).

Walker (1977), Vose (1991). The outcomes of a draw with probabilities p_1..p_m share K = 2^b ≥ m
slots of equal probability; slot j yields its own outcome with probability q_j and its alias
otherwise. One random word serves both choices: its top b bits pick the slot and the remaining
64 − b bits, uniform and independent of them, are compared with q_j·2⁶⁴. Nothing depends on
the outcome before it except two loads, which is what the speed of a walk comes down to.

A slot is three words: the threshold and the two outcomes. An outcome packs the next state (low
half) and the pair that was taken (high half). The slots of row i begin at ``begin[i]`` and
``bits[i]`` is its b, at least 1 so that the shift by 64 − b is defined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.errors import ModelError
from sojourn.model import MDP

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

SLOT = 3
"""Words per slot."""

_U1 = np.uint64(1)
_U32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_FULL = 18446744073709551616.0


class Table(NamedTuple):
    """Slots of many rows, and where each row's slots are."""

    slots: Words
    begin: Ints
    bits: Words


class Moves(NamedTuple):
    """The model as the kernels read it: CSR arrays, and an alias table with a row per pair."""

    pair_start: Ints
    row_start: Ints
    successor: Ints
    probability: Floats
    by_pair: Table
    by_state_begin: Ints
    """Where the slots of each state begin in the table of a policy; the last entry is their
    number."""


def moves_of(mdp: MDP) -> Moves:
    """The kernels' view of a model."""
    matrix = mdp.transitions
    # Half a word holds an outcome's state and half its pair.
    if mdp.n_pairs >= 2**32:
        raise ModelError(
            f"{mdp.n_pairs} pairs are more than the simulation can number (2^32)",
            "simulate a part of the world: mdp.restricted(states)",
        )
    row_start = matrix.indptr.astype(np.int64)
    successor = matrix.indices.astype(np.int64)
    table = empty_table(np.diff(row_start))
    _fill_by_pair(row_start, successor, matrix.data, *table)
    outcomes = row_start[mdp.pair_start[1:]] - row_start[mdp.pair_start[:-1]]
    begin = np.concatenate(([0], np.cumsum(np.int64(1) << _bits_for(outcomes))))
    return Moves(np.array(mdp.pair_start), row_start, successor, matrix.data.copy(), table, begin)


def _bits_for(sizes: Ints) -> Ints:
    """The smallest b ≥ 1 with 2^b ≥ size."""
    return np.ceil(np.log2(np.maximum(sizes, 2))).astype(np.int64)


def empty_table(sizes: Ints) -> Table:
    """Room for rows with ``sizes`` outcomes."""
    bits = _bits_for(sizes)
    begin = np.concatenate(([0], np.cumsum(np.int64(1) << bits)))
    slots = np.zeros(SLOT * int(begin[-1]), dtype=np.uint64)
    return Table(slots, begin[:-1].copy(), bits.astype(np.uint64))


@njit(cache=True, nogil=True)
def pack(state: int, pair: int) -> np.uint64:
    """An outcome."""
    return np.uint64(state) | (np.uint64(pair) << _U32)


@njit(cache=True, nogil=True)
def build_row(
    weight: Floats, outcome: Words, n: int, slots: Words, begin: int, bits: np.uint64,
    mass: Floats, small: Ints, large: Ints,
) -> None:  # fmt: skip
    """Fill the slots of one row from ``n`` outcomes with ``weight`` > 0 (any positive sum).

    Rounding can leave a slot without a partner. It then keeps its own q, and its alias is the
    likeliest outcome: an empty slot (weight 0) that yielded itself would make a move that is
    impossible.
    """
    room = 1 << np.int64(bits)
    total = 0.0
    likeliest = 0
    for j in range(n):
        total += weight[j]
        if weight[j] > weight[likeliest]:
            likeliest = j
    n_small = 0
    n_large = 0
    for j in range(room):
        mass[j] = weight[j] / total * room if j < n else 0.0
        o = SLOT * (begin + j)
        slots[o + 1] = outcome[j if j < n else likeliest]
        slots[o + 2] = outcome[likeliest]
        if mass[j] < 1.0:
            small[n_small] = j
            n_small += 1
        else:
            large[n_large] = j
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        j = small[n_small]
        k = large[n_large - 1]
        slots[SLOT * (begin + j) + 2] = slots[SLOT * (begin + k) + 1]
        mass[k] -= 1.0 - mass[j]
        if mass[k] < 1.0:
            n_large -= 1
            small[n_small] = k
            n_small += 1
    for j in range(room):
        o = SLOT * (begin + j)
        if mass[j] >= 1.0:
            slots[o] = np.uint64(0xFFFFFFFFFFFFFFFF)
            slots[o + 2] = slots[o + 1]
        else:
            slots[o] = np.uint64(mass[j] * _FULL)


@njit(cache=True, nogil=True)
def _fill_by_pair(
    row_start: Ints, successor: Ints, probability: Floats, slots: Words, begin: Ints, bits: Words
) -> None:
    widest = 1 << np.int64(np.max(bits))
    mass = np.empty(widest)
    outcome = np.empty(widest, np.uint64)
    small = np.empty(widest, np.int64)
    large = np.empty(widest, np.int64)
    for p in range(bits.size):
        lo = row_start[p]
        n = row_start[p + 1] - lo
        for j in range(n):
            outcome[j] = pack(successor[lo + j], p)
        build_row(probability[lo:], outcome, n, slots, begin[p], bits[p], mass, small, large)


@njit(cache=True, nogil=True)
def fill_by_state(
    pair_start: Ints, row_start: Ints, successor: Ints, probability: Floats, policy: Floats,
    slots: Words, begin: Ints, bits: Words,
) -> None:  # fmt: skip
    """The table of a policy: a row per state, outcomes are (pair, next state).

    Each row takes the fewest bits that hold the outcomes the policy leaves possible.
    """
    widest = np.max(begin[1:] - begin[:-1])
    weight = np.empty(widest)
    outcome = np.empty(widest, np.uint64)
    mass = np.empty(widest)
    small = np.empty(widest, np.int64)
    large = np.empty(widest, np.int64)
    for s in range(bits.size):
        n = 0
        for p in range(pair_start[s], pair_start[s + 1]):
            if policy[p] > 0.0:
                for k in range(row_start[p], row_start[p + 1]):
                    weight[n] = policy[p] * probability[k]
                    outcome[n] = pack(successor[k], p)
                    n += 1
        bits[s] = _U1
        while (1 << np.int64(bits[s])) < n:
            bits[s] += _U1
        build_row(weight, outcome, n, slots, begin[s], bits[s], mass, small, large)
