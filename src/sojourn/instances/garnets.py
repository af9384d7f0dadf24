"""Garnet worlds 𝒢(S, A, b, σ²_min, σ²_max) and reversible ones 𝒢_R (App. app:experiments).

Each of the S·A pairs gets b distinct next states, uniformly among all, whose probabilities are
the spacings that b − 1 uniform cuts leave in [0, 1]. Then p ← 0.999 p + 0.001·[s' = s], so a
pair has b or b + 1 successors and no chain is periodic. Variances are uniform in
[σ²_min, σ²_max]; two random states are set to the extremes. Means are 0.

The reversible Garnet starts with b − 1 next states. Then for every s' that leads to s without
a way back, a random action of s gets the weight q ~ U(0, 1) towards s', and rows are
normalised (before the 0.001, which the paper leaves open, so that it is exact here). This
makes the *support* symmetric: where s' can follow s, s can follow s'. It does not make the
chain of every policy reversible, despite the name.

Not every draw is communicating, and where it is not, the loss is infinite for every policy.
With A = 3, b = 2 that is about 1 % of the draws at S = 5 and 2 % at S = 10, a case on which
the paper is silent. Such draws are thrown away and counted in ``redraws``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sojourn.errors import ArgumentError, ModelError
from sojourn.instances.drawing import VARIANCE_RANGE, how_many
from sojourn.model import MDP, World
from sojourn.model.seeds import Seed, generator

SELF_LOOP = 0.001
MAX_REDRAWS = 10_000


class GarnetWorld(World):
    """A Garnet; ``redraws`` counts the draws that were not communicating before this one."""

    redraws: int

    def __init__(self, mdp: MDP, *, redraws: int, **world: Any) -> None:
        super().__init__(mdp, **world)
        self._hold(redraws=redraws)


def garnet(
    n_states: int,
    n_actions: int,
    branching: int,
    variance: tuple[float, float] = VARIANCE_RANGE,
    reversible: bool = False,
    seed: Seed = 0,
) -> GarnetWorld:
    """A random Garnet world, communicating; ``variance`` is (σ²_min, σ²_max)."""
    n_states = how_many(n_states, "n_states", 1)
    n_actions = how_many(n_actions, "n_actions", 1)
    branching = how_many(branching, "branching", 2 if reversible else 1)
    targets = branching - 1 if reversible else branching
    if targets > n_states:
        raise ArgumentError(
            f"{targets} distinct next states were asked for in a world of {n_states} states",
            "lower branching, or raise n_states",
        )
    lowest, highest = _variance_range(variance)
    rng = generator(seed)
    redraws = 0
    drawn = _distinct(n_states, n_states * n_actions, targets, rng)
    while not _communicating(drawn, n_states, reversible) and redraws < MAX_REDRAWS:
        redraws += 1
        drawn = _distinct(n_states, n_states * n_actions, targets, rng)
    if redraws == MAX_REDRAWS:
        raise ModelError(
            f"none of {MAX_REDRAWS} draws of garnet({n_states}, {n_actions}, {branching}) was "
            f"communicating: in a draw about {n_states * np.exp(-n_actions * targets):.1g} states "
            "have nothing that leads to them",
            f"n_actions·branching should exceed {np.log(n_states) + 1:.0f} by far",
        )
    # Only the supports decide on a redraw, so the weights may be drawn after it.
    cuts = np.sort(rng.random((drawn.shape[0], targets - 1)), axis=1)
    weight = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    pair = np.repeat(np.arange(drawn.shape[0]), targets)
    matrix: Any = sp.csr_matrix(
        (weight.ravel(), (pair, drawn.ravel())), shape=(drawn.shape[0], n_states)
    )
    if reversible:
        matrix = _with_ways_back(matrix, n_states, n_actions, rng)
    state = np.repeat(np.arange(n_states), n_actions)
    own = sp.csr_matrix((np.ones(state.size), (np.arange(state.size), state)), shape=matrix.shape)
    values = rng.uniform(lowest, highest, n_states)
    # One state alone can't have both extremes: it gets the largest.
    extremes = rng.choice(n_states, min(n_states, 2), replace=False)
    values[extremes] = (highest, lowest)[: extremes.size]
    return GarnetWorld(
        MDP((1 - SELF_LOOP) * matrix + SELF_LOOP * own, np.arange(n_states + 1) * n_actions),
        variance=values,
        redraws=redraws,
    )


def _variance_range(variance: Any) -> tuple[float, float]:
    try:
        lowest, highest = (float(v) for v in variance)
        if 0 <= lowest <= highest < np.inf:
            return lowest, highest
    except (TypeError, ValueError):
        pass
    raise ArgumentError(
        f"variance is {variance!r}", "give (smallest, largest) with 0 <= smallest <= largest"
    )


def _distinct(n: int, rows: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """In each row, ``size`` distinct numbers below n, every such set equally likely.

    R. W. Floyd's scheme, all rows at once: the k-th number is drawn below j + 1, where j grows
    from n − size, and replaced by j if the row has it already. Memory is that of the result.
    """
    chosen = np.empty((rows, size), dtype=np.int64)
    for k, j in enumerate(range(n - size, n)):
        number = rng.integers(j + 1, size=rows)
        taken = (chosen[:, :k] == number[:, None]).any(axis=1)
        chosen[:, k] = np.where(taken, j, number)
    return chosen


def _communicating(drawn: NDArray[np.int64], n_states: int, reversible: bool) -> bool:
    rows, size = drawn.shape
    state = np.repeat(np.arange(n_states), rows // n_states * size)
    graph: sp.csr_matrix = sp.csr_matrix(
        (np.ones(drawn.size), (state, drawn.ravel())), shape=(n_states, n_states)
    )
    # With ways back, each edge counts in both directions.
    count, _ = connected_components(graph, connection="weak" if reversible else "strong")
    return count == 1


def _with_ways_back(matrix: Any, n_states: int, n_actions: int, rng: np.random.Generator) -> Any:
    state = np.arange(matrix.shape[0]) // n_actions
    entries = matrix.tocoo()
    forward = np.unique(state[entries.row] * n_states + entries.col)
    source, target = forward // n_states, forward % n_states
    back = target * n_states + source
    lacking = ~np.isin(back, forward)
    pair = target[lacking] * n_actions + rng.integers(n_actions, size=int(lacking.sum()))
    # A zero would be no way back.
    chance = 1.0 - rng.random(pair.size)
    added = matrix + sp.csr_matrix((chance, (pair, source[lacking])), shape=matrix.shape)
    total = np.asarray(added.sum(axis=1)).ravel()
    return sp.diags(1.0 / total) @ added
