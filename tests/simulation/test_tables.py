"""The alias tables hold exactly the model's probabilities."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from numpy.typing import NDArray

from sojourn import MDP, Policy, testing
from sojourn.simulation.tables import SLOT, Table, fill_by_state, moves_of


def implied(slots: NDArray[np.uint64], begin: int, bits: int) -> dict[tuple[int, int], float]:
    """The probability of each (pair, state) that a row yields, and what it can yield at all."""
    found: dict[tuple[int, int], float] = {}
    room = 1 << int(bits)
    for j in range(room):
        threshold, own, other = (int(x) for x in slots[SLOT * (begin + j) :][:SLOT])
        q = threshold / 2.0**64
        for outcome, share in ((own, q), (other, 1 - q)):
            if share > 0:
                key = (outcome >> 32, outcome & 0xFFFFFFFF)
                found[key] = found.get(key, 0.0) + share / room
    return found


def close(found: dict[tuple[int, int], float], wanted: dict[tuple[int, int], float]) -> None:
    # An outcome of probability 0 is never yielded, however the rounding falls.
    assert found.keys() <= wanted.keys()
    for key, probability in wanted.items():
        assert abs(found.get(key, 0.0) - probability) < 1e-14


def check_pairs(mdp: MDP, table: Table) -> None:
    P = mdp.transitions
    for p in range(mdp.n_pairs):
        lo, hi = P.indptr[p : p + 2]
        wanted = {(p, int(s)): float(q) for s, q in zip(P.indices[lo:hi], P.data[lo:hi])}
        close(implied(table.slots, int(table.begin[p]), int(table.bits[p])), wanted)


@given(testing.mdps())
def test_tables_of_pairs(mdp: MDP) -> None:
    check_pairs(mdp, moves_of(mdp).by_pair)


@given(testing.mdps().flatmap(testing.policies))
def test_tables_of_policies(policy: Policy) -> None:
    mdp = policy.mdp
    moves = moves_of(mdp)
    slots = np.zeros(SLOT * int(moves.by_state_begin[-1]), dtype=np.uint64)
    bits = np.zeros(mdp.n_states, dtype=np.uint64)
    fill_by_state(
        moves.pair_start, moves.row_start, moves.successor, moves.probability,
        policy.probability, slots, moves.by_state_begin, bits,
    )  # fmt: skip
    P = mdp.transitions
    for s in range(mdp.n_states):
        wanted = {}
        for p in mdp.pairs_of(s):
            for k in range(P.indptr[p], P.indptr[p + 1]):
                if policy.probability[p] > 0:
                    wanted[p, int(P.indices[k])] = float(policy.probability[p] * P.data[k])
        close(implied(slots, int(moves.by_state_begin[s]), int(bits[s])), wanted)


def test_extreme_rows() -> None:
    """Probabilities of very different size, many equal ones, and a single one."""
    rng = np.random.default_rng(0)
    n = 300
    P = np.zeros((n, 3, n))
    P[:, 0] = 10.0 ** rng.uniform(-300, 0, size=(n, n))
    P[:, 1] = 1.0
    P[:, 2] = np.eye(n)
    P /= P.sum(axis=2, keepdims=True)
    mdp = MDP.from_array(P)
    check_pairs(mdp, moves_of(mdp).by_pair)
