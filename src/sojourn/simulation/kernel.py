"""The compiled walk: follow a decision until its first stop condition fires.

One call advances many walks, each by its own decision, and touches nothing but the rows of
these walks. Where a walk stops depends on the walk alone, and so do the random numbers that it
uses, so the result is the same however walks are grouped.

A *stretch* is what one decision asks for. It is walked in *segments*, cut at checkpoints and
after :data:`SEGMENT` steps at the latest (so that an interrupt is noticed). Within a segment

    the next state  comes from an alias table of the policy (built first) when the stretch is long
                    enough to repay building it, else from the policy's row and the alias table
                    of the pair;
    the noise       is drawn sample by sample, except that Gaussian noise in a segment of at
                    least ``LUMP``·S steps is drawn as its sufficient statistics: m samples with
                    variance σ² have a mean ~ N(μ, σ²/m) and, independently, squared deviations
                    from it that sum to σ²·χ²_{m−1}. That is the exact law of what is kept, and
                    nothing sees single samples before the segment ends.

Means and squared deviations are updated in Welford's form and merged in Chan's (Chan, Golub &
LeVeque 1983), which stay accurate when the mean is large compared with the deviation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.simulation.streams import (
    Stream,
    chi_square,
    load,
    next_word,
    normal,
    store,
    uniform,
)  # fmt: skip
from sojourn.simulation.tables import SLOT, Moves, fill_by_state

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

GAUSSIAN, UNIFORM, BETA, TWO_POINT, CUSTOM = range(5)
LAWS = {"gaussian": GAUSSIAN, "uniform": UNIFORM, "beta": BETA, "two-point": TWO_POINT}

SEGMENT = 1 << 18
"""The longest segment."""
LUMP = 16
"""Visits per state from which two draws of sufficient statistics beat single samples."""

TOGETHER = 8
"""Walks that are advanced in turn, step by step, where they are alike."""

_LOW = np.uint64(0xFFFFFFFF)
_U1 = np.uint64(1)
_U2 = np.uint64(2)
_U3 = np.uint64(SLOT)
_U32 = np.uint64(32)
_U64 = np.uint64(64)
_BY_TABLE, _BY_POLICY, _BY_ACTIONS = range(3)


class Truth(NamedTuple):
    """What is hidden from the strategy."""

    law: int
    mean: Floats
    deviation: Floats
    variance: Floats
    weight: Floats
    unvisited: float


class Block(NamedTuple):
    """The state of a block of walks: row w belongs to walk w of the block."""

    time: Ints
    positions: Ints
    missing: Ints
    """Number of states without a sample."""
    visits: Ints
    mean: Floats
    spread: Floats
    pair_visits: Ints
    transitions: Ints
    """Counts (walks × n_pairs × n_states), or empty where nobody asked for them."""
    moving: NDArray[np.uint64]
    sensing: NDArray[np.uint64]
    checkpoints: Ints
    """Numbers of moves at which the results are recorded."""
    passed: Ints
    """Checkpoints that each walk has passed."""
    error: Floats
    allocation: Floats
    path: Ints
    """States reached in the present segment, for a user's own sampler (else empty)."""


class Stretch(NamedTuple):
    """A decision as the kernel reads it; row i of ``until`` … belongs to ``walks[i]``."""

    walks: Ints
    begun: Ints
    until: Ints
    row: Ints
    """The row of ``policy`` that each walk follows (walks may share one)."""
    policy: Floats
    actions: Ints
    stop_when_visited: Flags
    pair_limit: Ints


@njit(cache=True, nogil=True)
def _sample(law: int, stream: Stream) -> tuple[float, Stream]:
    """One observation with mean 0 and variance 1."""
    if law == GAUSSIAN:
        x, stream = normal(stream)
    elif law == UNIFORM:
        x, stream = uniform(stream)
        x = (x - 0.5) * math.sqrt(12.0)
    elif law == BETA:
        # The median of three uniform variates is beta(2, 2), whose variance is 1/20.
        a, stream = uniform(stream)
        b, stream = uniform(stream)
        c, stream = uniform(stream)
        x = (max(min(a, b), min(max(a, b), c)) - 0.5) * math.sqrt(20.0)
    else:
        word, stream = next_word(stream)
        x = 1.0 if word >> np.uint64(63) else -1.0
    return x, stream


@njit(cache=True, nogil=True)
def prior_samples(truth: Truth, block: Block) -> None:
    """Give every state of every walk its free first sample (Asm. asm:counter)."""
    for w in range(block.time.size):
        sensing = load(block.sensing, w)
        for s in range(truth.mean.size):
            z, sensing = _sample(truth.law, sensing)
            block.visits[w, s] = 1
            block.mean[w, s] = truth.mean[s] + truth.deviation[s] * z
        store(block.sensing, w, sensing)
        block.missing[w] = 0


@njit(cache=True, nogil=True)
def _merge_lumps(
    truth: Truth, visits: Ints, mean: Floats, spread: Floats, before: Ints, sensing: Stream
) -> Stream:
    """Draw the sufficient statistics of what a segment added, and merge them in."""
    for s in range(before.size):
        m = visits[s] - before[s]
        if m == 0:
            continue
        z, sensing = normal(sensing)
        delta = truth.mean[s] + truth.deviation[s] / math.sqrt(m) * z - mean[s]
        mean[s] += delta * (m / visits[s])
        spread[s] += delta * delta * (m * (before[s] / visits[s]))
        if m > 1:
            chi, sensing = chi_square(m - 1, sensing)
            spread[s] += truth.variance[s] * chi
    return sensing


@njit(cache=True, nogil=True)
def observe(block: Block, walks: Ints, length: Ints, values: Floats) -> None:
    """Take in a user's own samples: row i of ``values`` belongs to the path of ``walks[i]``."""
    counted = np.zeros(block.visits.shape[1], np.int64)
    for i in range(walks.size):
        w = walks[i]
        for k in range(length[i]):
            counted[block.path[w, k]] += 1
        for k in range(length[i]):
            s = block.path[w, k]
            counted[s] -= 1
            delta = values[i, k] - block.mean[w, s]
            block.mean[w, s] += delta / (block.visits[w, s] - counted[s])
            block.spread[w, s] += delta * (values[i, k] - block.mean[w, s])


@njit(cache=True, nogil=True)
def record(truth: Truth, block: Block, w: int) -> None:
    """At a checkpoint: the squared error, and the loss of the allocation, of one walk.

    (1/S) Σ weight (μ̂ − μ)² and (1/S) Σ weight σ²/T, where a state without a sample costs
    ``unvisited`` in both.
    """
    c = block.passed[w]
    if c == block.checkpoints.size or block.time[w] != block.checkpoints[c]:
        return
    error = 0.0
    allocation = 0.0
    n_states = truth.mean.size
    for s in range(n_states):
        if block.visits[w, s] == 0:
            error += truth.weight[s] * truth.unvisited
            allocation += truth.weight[s] * truth.unvisited
        else:
            error += truth.weight[s] * (block.mean[w, s] - truth.mean[s]) ** 2
            allocation += truth.weight[s] * truth.variance[s] / block.visits[w, s]
    block.error[w, c] = error / n_states
    block.allocation[w, c] = allocation / n_states
    block.passed[w] = c + 1


@njit(cache=True, nogil=True)
def record_all(truth: Truth, block: Block, walks: Ints) -> None:
    """:func:`record` for several walks."""
    for w in walks:
        record(truth, block, w)


@njit(cache=True, nogil=True)
def _alike(stretch: Stretch, block: Block, i: int) -> int:
    """The number of walks from ``walks[i]`` on, at most :data:`TOGETHER`, that are at the same
    point of the same stretch."""
    w = stretch.walks[i]
    j = i
    while j < min(i + TOGETHER, stretch.walks.size):
        v = stretch.walks[j]
        if (
            stretch.row[j] != stretch.row[i]
            or stretch.begun[j] != stretch.begun[i]
            or stretch.until[j] != stretch.until[i]
            or block.time[v] != block.time[w]
            or block.passed[v] != block.passed[w]
            or stretch.stop_when_visited[j]
        ):
            break
        j += 1
    return j - i


@njit(cache=True, nogil=True)
def _advance_together(
    truth: Truth, block: Block, walks: Ints, last: int,
    slots: NDArray[np.uint64], begin: Ints, bits: NDArray[np.uint64],
) -> None:  # fmt: skip
    """The segments of the general loop whose noise is lumped and in which nothing but counts is
    asked for, of walks at the same point of the same stretch: what a fixed policy spends its
    time in. A step is a chain of loads from state to state that leaves the processor waiting;
    walks in turn hide each other's."""
    n_states = truth.mean.size
    before = np.empty((walks.size, n_states), np.int64)
    visits = block.visits
    pair_visits = block.pair_visits
    positions = block.positions
    moving = block.moving
    t = block.time[walks[0]]
    while t < last:
        end = last
        passed = block.passed[walks[0]]
        if passed < block.checkpoints.size:
            end = min(end, block.checkpoints[passed])
        if end - t < LUMP * n_states:
            break
        for j in range(walks.size):
            before[j] = visits[walks[j]]
        for _ in range(end - t):
            for w in walks:
                word, stream = next_word(load(moving, w))
                store(moving, w, stream)
                s = np.uint64(positions[w, 0])
                b = bits[s]
                o = _U3 * (np.uint64(begin[s]) + (word >> (_U64 - b)))
                # Computed, not branched on: half of such branches would be mispredicted.
                outcome = slots[o + _U2 - np.uint64((word << b) < slots[o])]
                s = outcome & _LOW
                positions[w, 0] = s
                visits[w, s] += 1
                pair_visits[w, outcome >> _U32] += 1
        t = end
        for j in range(walks.size):
            w = walks[j]
            sensing = load(block.sensing, w)
            sensing = _merge_lumps(
                truth, visits[w], block.mean[w], block.spread[w], before[j], sensing
            )
            store(block.sensing, w, sensing)
            block.missing[w] = 0
            for x in range(n_states):
                if visits[w, x] == 0:
                    block.missing[w] += 1
            block.time[w] = t
            record(truth, block, w)


@njit(cache=True, nogil=True)
def advance(
    moves: Moves, truth: Truth, block: Block, stretch: Stretch, length: Ints, paused: Flags
) -> None:
    """Walk every stretch to its end, or for :data:`SEGMENT` steps, whichever comes first (with a
    user's own sampler: to the end of its segment).

    ``length[i]`` is the number of steps made, ``paused[i]`` whether the stretch goes on.
    """
    n_states = truth.mean.size
    n_walkers = block.positions.shape[1]
    by_actions = stretch.actions.shape[0] > 0
    limited = stretch.pair_limit.shape[0] > 0
    counting_transitions = block.transitions.shape[0] > 0
    custom = truth.law == CUSTOM
    law = truth.law
    visits = block.visits
    mean = block.mean
    spread = block.spread
    pair_visits = block.pair_visits
    by_pair = moves.by_pair
    before = np.empty(n_states, np.int64)
    plain = law == GAUSSIAN and n_walkers == 1 and not (limited or counting_transitions)
    together = 0
    length[:] = 0

    slots = np.empty(0, np.uint64)
    begin = moves.by_state_begin
    bits = np.empty(0, np.uint64)
    tabled = -1

    for i in range(stretch.walks.size):
        w = stretch.walks[i]
        until = stretch.until[i]
        row = stretch.row[i]
        if by_actions:
            mode = _BY_ACTIONS
        elif until - stretch.begun[i] < moves.successor.size:
            mode = _BY_POLICY
        else:
            mode = _BY_TABLE
            if slots.size == 0:
                slots = np.empty(SLOT * (begin[-1]), np.uint64)
                bits = np.empty(n_states, np.uint64)
            if tabled != row:
                fill_by_state(
                    moves.pair_start, moves.row_start, moves.successor, moves.probability,
                    stretch.policy[row], slots, begin, bits,
                )  # fmt: skip
                tabled = row
        if plain and mode == _BY_TABLE and i >= together:
            alike = _alike(stretch, block, i)
            if alike > 0:
                begun = block.time[w]
                last = min(until, begun + SEGMENT)
                group = stretch.walks[i : i + alike]
                _advance_together(truth, block, group, last, slots, begin, bits)
                for j in range(alike):
                    length[i + j] = block.time[w] - begun
                together = i + alike
        t = block.time[w]
        started = t - length[i]
        moving = load(block.moving, w)
        sensing = load(block.sensing, w)
        missing = block.missing[w]
        watching = stretch.stop_when_visited[i]
        stop = False
        turn = t % n_walkers
        s = np.uint64(block.positions[w, turn])
        last = min(until, started + SEGMENT)
        while t < last and not stop:
            end = last
            if block.passed[w] < block.checkpoints.size:
                end = min(end, block.checkpoints[block.passed[w]])
            if custom:
                end = min(end, t + block.path.shape[1])
            lumped = law == GAUSSIAN and end - t >= LUMP * n_states
            if lumped:
                for x in range(n_states):
                    before[x] = visits[w, x]
            while t < end:
                if mode == _BY_TABLE:
                    word, moving = next_word(moving)
                    b = bits[s]
                    o = _U3 * (np.uint64(begin[s]) + (word >> (_U64 - b)))
                    outcome = slots[o + _U1] if (word << b) < slots[o] else slots[o + _U2]
                else:
                    if mode == _BY_ACTIONS:
                        p = stretch.actions[row, t - stretch.begun[i], s]
                    else:
                        u, moving = uniform(moving)
                        p = np.int64(-1)
                        for q in range(moves.pair_start[s], moves.pair_start[s + _U1]):
                            share = stretch.policy[row, q]
                            if share > 0.0:
                                p = q
                                u -= share
                                if u < 0.0:
                                    break
                    word, moving = next_word(moving)
                    b = by_pair.bits[p]
                    o = _U3 * (np.uint64(by_pair.begin[p]) + (word >> (_U64 - b)))
                    if (word << b) < by_pair.slots[o]:
                        outcome = by_pair.slots[o + _U1]
                    else:
                        outcome = by_pair.slots[o + _U2]
                s = outcome & _LOW
                pair = outcome >> _U32
                t += 1
                seen = visits[w, s] + 1
                visits[w, s] = seen
                pair_visits[w, pair] += 1
                if seen == 1:
                    missing -= 1
                if missing == 0 and watching:
                    stop = True
                if custom:
                    block.path[w, t - 1 - started] = s
                elif not lumped:
                    z, sensing = _sample(law, sensing)
                    z *= truth.deviation[s]
                    z += truth.mean[s]
                    delta = z - mean[w, s]
                    mean[w, s] += delta / seen
                    spread[w, s] += delta * (z - mean[w, s])
                if counting_transitions:
                    block.transitions[w, pair, s] += 1
                if limited and pair_visits[w, pair] >= stretch.pair_limit[i, pair]:
                    stop = True
                if n_walkers > 1:
                    block.positions[w, turn] = s
                    turn = turn + 1 if turn + 1 < n_walkers else 0
                    s = np.uint64(block.positions[w, turn])
                if stop:
                    break
            if lumped:
                sensing = _merge_lumps(truth, visits[w], mean[w], spread[w], before, sensing)
            block.time[w] = t
            if custom:
                break
            record(truth, block, w)
        block.positions[w, turn] = s
        block.missing[w] = missing
        store(block.moving, w, moving)
        store(block.sensing, w, sensing)
        length[i] = t - started
        paused[i] = t < until and not stop
