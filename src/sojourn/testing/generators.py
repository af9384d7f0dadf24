"""Random models, policies, variances and chains, for tests that should meet the hard cases.

Every function takes a ``numpy.random.Generator`` and nothing else that is random. The models
come in *kinds*, each the home of a different mistake:

    ragged          numbers of actions and of successors differ from state to state
    deterministic   every action leads to one state
    periodic        every walk returns only after multiples of some d >= 2 steps
    near_reducible  blocks that are left with a probability between 1e-10 and 1e-3
    one_action      no choice anywhere: a plain Markov chain
    one_state       everything stays
    components      several closed classes, and states that lead to them: not communicating

All kinds but the last are communicating (some policy leads from every state to every other).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.errors import ArgumentError
from sojourn.model import MDP, Policy

COMMUNICATING = ("ragged", "deterministic", "periodic", "near_reducible", "one_action", "one_state")
KINDS = (*COMMUNICATING, "components")

Rng = np.random.Generator
_Draft = list[list[dict[int, float]]]  # [state][action] -> {successor: weight}


def random_mdp(kind: str, n_states: int, max_actions: int, rng: Rng) -> MDP:
    """A random MDP of one of :data:`KINDS`; ``max_actions`` per state (a deterministic or
    bridging move that the kind needs may add to it)."""
    if kind not in KINDS:
        raise ArgumentError(f"there is no kind {kind!r}", f"use one of {', '.join(KINDS)}")
    if kind == "one_state":
        n_states = 1
    if kind == "one_action":
        max_actions = 1
    everywhere = np.arange(n_states)
    if kind == "periodic" and n_states > 1:
        draft = _periodic(n_states, max_actions, rng)
    elif kind in ("near_reducible", "components") and n_states > 1:
        n_blocks = int(rng.integers(2, min(n_states, 3) + 1))
        blocks = _split(n_states, n_blocks, rng)
        draft = [[] for _ in everywhere]
        for block in blocks:
            _fill(draft, block, max_actions, rng)
            _connect(draft, _closed_walk(block, rng), rng)
        if kind == "near_reducible":
            for k, block in enumerate(blocks):
                s, t = rng.choice(block), rng.choice(blocks[(k + 1) % n_blocks])
                _any_action(draft[s], rng)[int(t)] = 10.0 ** rng.uniform(-10, -3)
        elif rng.random() < 0.5:
            # The first block becomes transient: it leaks into another one.
            _any_action(draft[rng.choice(blocks[0])], rng)[int(blocks[1][0])] = rng.random()
    else:
        draft = [[] for _ in everywhere]
        _fill(draft, everywhere, max_actions, rng, branching=1 if kind == "deterministic" else None)
        _connect(draft, _closed_walk(everywhere, rng), rng, add_action=kind == "deterministic")
    return _build(draft)


def random_policy(mdp: MDP, rng: Rng, *, positive: bool = False) -> Policy:
    """A random policy; unless ``positive``, about a third of the pairs are never taken."""
    weight = rng.exponential(size=mdp.n_pairs) + 1e-3
    if not positive:
        weight[rng.random(mdp.n_pairs) < 1 / 3] = 0.0
        lost = mdp.state_sums(weight) == 0
        weight[mdp.pair_start[:-1][lost]] = 1.0
    return Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight)))


def random_variance(n_states: int, rng: Rng, *, ratio: float = 1e12) -> NDArray[np.float64]:
    """Positive variances whose largest is up to ``ratio`` times the smallest.

    Equal, uniform, log-uniform over the whole ratio, or one state alone above all others;
    always with a random unit, since nothing may depend on the unit.
    """
    shape = rng.integers(4)
    span = np.log10(ratio)
    if shape == 0:
        values = np.ones(n_states)
    elif shape == 1:
        values = rng.uniform(max(1e-3, 1 / ratio), 1.0, n_states)
    elif shape == 2:
        values = 10.0 ** rng.uniform(-span, 0.0, n_states)
        values[rng.integers(n_states)] = 10.0**-span
        values[rng.integers(n_states)] = 1.0
    else:
        values = np.full(n_states, 1 / ratio)
        values[rng.integers(n_states)] = 1.0
    return values * 10.0 ** rng.uniform(-3, 3)


def random_stochastic(n_states: int, rng: Rng, *, kind: str = "ragged") -> NDArray[np.float64]:
    """A random stochastic matrix (dense), with the structure of a kind of model."""
    mdp = random_mdp(kind, n_states, 1, rng)
    return random_policy(mdp, rng, positive=True).transition_matrix().toarray()


def random_reversible(
    n_states: int, rng: Rng, *, ratio: float = 1e6
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A random irreducible reversible chain: its matrix and its stationary distribution.

    A walk on a connected graph with symmetric weights w, which go over up to ``ratio``:
    P(s, s') = w(s, s')/w(s) and η(s) = w(s)/Σw in closed form. Some have no way to stay
    (a tree without loops is periodic), some are dense.
    """
    weight = np.zeros((n_states, n_states))
    for s in range(1, n_states):
        weight[s, rng.integers(s)] = 1.0
    weight[rng.random((n_states, n_states)) < rng.choice([0.0, 0.3, 1.0])] = 1.0
    weight[np.diag_indices(n_states)] = rng.random(n_states) < rng.choice([0.0, 0.5, 1.0])
    weight *= 10.0 ** rng.uniform(-np.log10(ratio), 0.0, weight.shape)
    weight += weight.T
    if n_states == 1:
        weight[:] = 1.0
    total = weight.sum(axis=1)
    return weight / total[:, None], total / total.sum()


def _split(n_states: int, n_blocks: int, rng: Rng) -> list[NDArray[np.int64]]:
    """The states, shuffled, in non-empty blocks of random sizes."""
    cuts = np.sort(rng.choice(np.arange(1, n_states), n_blocks - 1, replace=False))
    return np.split(rng.permutation(n_states), cuts)


def _fill(
    draft: _Draft,
    states: NDArray[np.int64],
    max_actions: int,
    rng: Rng,
    *,
    branching: int | None = None,
    successors: NDArray[np.int64] | None = None,
) -> None:
    """Random actions for ``states`` that lead to random members of ``successors``."""
    targets = states if successors is None else successors
    for s in states:
        for _ in range(int(rng.integers(1, max_actions + 1))):
            b = int(rng.integers(1, min(3, targets.size) + 1)) if branching is None else branching
            chosen = rng.choice(targets, b, replace=False)
            draft[s].append({int(t): _weight(rng) for t in chosen})


def _closed_walk(states: NDArray[np.int64], rng: Rng) -> Iterator[tuple[int, int]]:
    """The edges of a random closed walk through all ``states``: a cycle, or a tree taken in
    both directions (so that narrow passages occur, which no cycle has)."""
    order = rng.permutation(states)
    if order.size < 2:
        return
    if rng.random() < 0.5:
        yield from zip(order.tolist(), np.roll(order, -1).tolist())
        return
    for k in range(1, order.size):
        s, t = int(order[k]), int(order[rng.integers(k)])
        yield s, t
        yield t, s


def _connect(
    draft: _Draft, edges: Iterator[tuple[int, int]], rng: Rng, *, add_action: bool = False
) -> None:
    """Make every edge possible, by an action of its own or within one that exists."""
    for s, t in edges:
        if any(t in action for action in draft[s]):
            continue
        if add_action:
            draft[s].append({t: 1.0})
        else:
            _any_action(draft[s], rng)[t] = _weight(rng)


def _periodic(n_states: int, max_actions: int, rng: Rng) -> _Draft:
    """States in d cyclic classes, each of which leads only to the next one."""
    period = int(rng.integers(2, min(n_states, 4) + 1))
    classes = _split(n_states, period, rng)
    draft: _Draft = [[] for _ in range(n_states)]
    for k, members in enumerate(classes):
        _fill(draft, members, max_actions, rng, successors=classes[(k + 1) % period])
    # As many rounds as the largest class has members: a closed walk through every state.
    walk = [
        int(members[r % members.size])
        for r in range(max(members.size for members in classes))
        for members in classes
    ]
    _connect(draft, zip(walk, walk[1:] + walk[:1]), rng)
    return draft


def _any_action(actions: list[dict[int, float]], rng: Rng) -> dict[int, float]:
    return actions[int(rng.integers(len(actions)))]


def _weight(rng: Rng) -> float:
    """An unnormalised probability, seldom small."""
    return float(rng.exponential() * 10.0 ** (rng.choice([0, -3], p=[0.9, 0.1])) + 1e-4)


def _build(draft: _Draft) -> MDP:
    rows = [action for actions in draft for action in actions]
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    data = np.concatenate([np.array(list(row.values())) / sum(row.values()) for row in rows])
    indices = np.concatenate([list(row) for row in rows])
    start = np.concatenate(([0], np.cumsum([len(actions) for actions in draft])))
    return MDP(sp.csr_matrix((data, indices, indptr), shape=(len(rows), len(draft))), start)
