"""Constants over all stationary policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from sojourn.arguments import whole
from sojourn.model import MDP, Policy, check_model
from sojourn.model.seeds import generator
from sojourn.planning import linear_oracle


@dataclass(frozen=True)
class SmallestShare:
    """η_min, the state where it is taken and the occupancy that takes it."""

    value: float
    state: int
    occupancy: np.ndarray


def eta_min(mdp: MDP) -> SmallestShare:
    """η_min = inf over policies of min_s η_π(s) (Asm. asm:ergodic), exactly: one LP per state.

    min η(s) over Λ is taken at a vertex, a deterministic policy on one recurrent class; it is 0
    exactly where some policy can avoid a state, and Asm. asm:ergodic then fails.
    """
    check_model(mdp)
    best: SmallestShare | None = None
    for s in range(mdp.n_states):
        cost = np.zeros(mdp.n_states)
        cost[s] = 1.0
        occupancy = linear_oracle(mdp, cost)
        value = max(0.0, float(mdp.state_sums(occupancy)[s]))
        if best is None or value < best.value:
            best = SmallestShare(value, s, occupancy)
    assert best is not None
    return best


@dataclass(frozen=True)
class SmallGap:
    """A policy with a small spectral gap: γ_min is at most ``value``."""

    value: float
    policy: Policy


def gamma_min_upper(
    mdp: MDP, tries: int = 50, seed: int | np.random.Generator = 0, polish: bool = True
) -> SmallGap:
    """An *upper* bound of γ_min = min over policies of γ_π (Asm. asm:reversible), by search:
    nothing more is claimed.

    Random deterministic and random mixed policies, the best then improved by a local search
    without derivatives. Computing γ_min is not convex, and no certificate is known.
    """
    check_model(mdp)
    tries = whole(tries, "tries", 1)
    rng = generator(seed)
    counts = np.diff(mdp.pair_start)
    best: SmallGap | None = None
    for k in range(tries):
        if k % 2:
            drawn = rng.gamma(0.3, size=mdp.n_pairs) + 1e-12
            policy = Policy(mdp, drawn / mdp.to_pairs(mdp.state_sums(drawn)))
        else:
            policy = Policy.deterministic(mdp, mdp.pair_start[:-1] + rng.integers(0, counts))
        gap = float(policy.chain().spectral_gap)
        if best is None or gap < best.value:
            best = SmallGap(gap, policy)
    assert best is not None
    if polish and best.value > 0 and mdp.n_pairs > mdp.n_states:

        def gap_of(x: np.ndarray) -> float:
            weight = np.exp(np.clip(x, -30, 30))
            chain = Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight))).chain()
            return float(chain.spectral_gap)

        found = minimize(
            gap_of, np.log(best.policy.probability + 1e-9), method="Powell",
            options={"maxfev": 40 * mdp.n_pairs},
        )  # fmt: skip
        if found.fun < best.value:
            weight = np.exp(np.clip(found.x, -30, 30))
            policy = Policy(mdp, weight / mdp.to_pairs(mdp.state_sums(weight)))
            best = SmallGap(float(policy.chain().spectral_gap), policy)
    return best


def every_policy_reversible(mdp: MDP) -> bool:
    """Whether every stationary policy's chain is reversible (Asm. asm:reversible), exactly.

    By Kolmogorov's criterion a chain is reversible when each cycle is as probable in one
    direction as in the other. That has to hold for every choice of actions, state by state. So
    on each cycle the ratio of the probabilities of going on and going back must be the same for
    all actions of a state; two edges at a state lie on a common cycle when they belong to the
    same block (two-connected part) of the graph. Hence, exactly if

        the uniform policy is reversible, and
        at every state, the probabilities of leading into a block are proportional to each
        other over the actions, for each block.

    On a tree (a path, say) each edge is a block, and every policy is reversible. Where not every
    state can reach every other the answer is no, since Asm. asm:ergodic fails.
    """
    uniform = Policy.uniform(mdp).chain()
    if not (mdp.diagnose().communicating and uniform.is_reversible()):
        return False
    P = mdp.transitions
    block = _blocks(sp.csr_matrix(uniform.transitions))
    for s in range(mdp.n_states):
        pairs = P[list(mdp.pairs_of(s))]
        touched = np.unique(pairs.indices)
        neighbours = touched[touched != s]
        rows = np.asarray(pairs[:, neighbours].todense())
        number = np.array([block[min(s, t), max(s, t)] for t in neighbours.tolist()], dtype=int)
        for k in np.unique(number):
            part = rows[:, number == k]
            if part.shape[1] > 1 and not _proportional(part):
                return False
    return True


def _proportional(rows: NDArray[np.float64]) -> bool:
    """Whether all rows that are not zero are multiples of each other."""
    total = rows.sum(axis=1)
    shape = rows[total > 0] / total[total > 0, None]
    apart = np.abs(shape - shape[:1])
    return bool((apart <= 1e-9 * np.maximum(shape, shape[:1])).all())


def _blocks(graph: sp.csr_matrix) -> dict[tuple[int, int], int]:
    """The block (two-connected component) of each edge {s, t}, s < t, of a symmetric graph.

    Hopcroft and Tarjan: a depth-first search; an edge s → t of the tree closes a block when
    nothing below t leads back above s.
    """
    n = graph.shape[0]
    depth, low = np.full(n, -1), np.zeros(n, dtype=int)
    block: dict[tuple[int, int], int] = {}
    stack: list[tuple[int, int]] = []
    count = 0
    for root in range(n):
        if depth[root] >= 0:
            continue
        depth[root] = 0
        path = [(root, -1, iter(graph.indices[graph.indptr[root] : graph.indptr[root + 1]]))]
        while path:
            s, parent, rest = path[-1]
            t = next(rest, None)
            if t is None:
                path.pop()
                if parent >= 0:
                    low[parent] = min(low[parent], low[s])
                    if low[s] >= depth[parent]:
                        edge = (-1, -1)
                        while edge != (parent, s):
                            edge = stack.pop()
                            block[min(edge), max(edge)] = count
                        count += 1
            elif depth[t] < 0:
                depth[t] = low[t] = depth[s] + 1
                stack.append((s, int(t)))
                path.append((int(t), s, iter(graph.indices[graph.indptr[t] : graph.indptr[t + 1]])))
            elif t not in (s, parent) and depth[t] < depth[s]:
                stack.append((s, int(t)))
                low[s] = min(low[s], depth[t])
    return block
