"""Diagnosis against brute force over all deterministic policies of small worlds."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

import sojourn as sj
from sojourn.model import maximal_end_components, strong_components
from sojourn.model.diagnosis import Diagnosis
from sojourn.model.reachability import largest_closable, pairs_towards
from sojourn.testing import mdps, random_mdp


def support(mdp: sj.MDP) -> list[set[int]]:
    return [set(mdp.transitions[p].indices.tolist()) for p in range(mdp.n_pairs)]


def steps(mdp: sj.MDP, pairs) -> np.ndarray:
    """Which state leads to which when only these pairs are used."""
    lead = np.zeros((mdp.n_states, mdp.n_states), dtype=bool)
    dense = mdp.transitions.toarray() > 0
    for p in pairs:
        lead[mdp.pair_state[p]] |= dense[p]
    return lead


def closure(lead: np.ndarray) -> np.ndarray:
    """Which state can reach which, itself included; for one graph or a stack of them."""
    n = lead.shape[-1]
    reached = lead | np.eye(n, dtype=bool)
    for _ in range(n.bit_length()):
        reached = (reached.astype(int) @ reached.astype(int)) > 0
    return reached


def periods(lead: np.ndarray) -> np.ndarray:
    """The greatest common divisor of the return times of each state, from powers."""
    n = lead.shape[-1]
    power = np.broadcast_to(np.eye(n, dtype=int), lead.shape)
    found = np.zeros(lead.shape[:-1], dtype=int)
    for k in range(1, 2 * n * n + 2):
        power = (power @ lead > 0).astype(int)
        found = np.gcd(found, k * np.diagonal(power, axis1=-2, axis2=-1))
    return found


def every_deterministic_policy(mdp: sj.MDP) -> np.ndarray:
    dense = mdp.transitions.toarray() > 0
    choices = np.array(list(product(*(mdp.pairs_of(s) for s in range(mdp.n_states)))))
    return dense[choices]


def end_components_by_definition(mdp: sj.MDP) -> list[tuple[list[int], list[int]]]:
    """The maximal sets of states that are strongly connected by pairs that stay inside."""
    follow = support(mdp)
    found: list[tuple[set[int], set[int]]] = []
    for bits in range(1, 2**mdp.n_states):
        states = {s for s in range(mdp.n_states) if bits >> s & 1}
        pairs = {
            p
            for p in range(mdp.n_pairs)
            if int(mdp.pair_state[p]) in states and follow[p] <= states
        }
        members = sorted(states)
        if {int(mdp.pair_state[p]) for p in pairs} == states and closure(steps(mdp, pairs))[
            np.ix_(members, members)
        ].all():
            found.append((states, pairs))
    maximal = [f for f in found if not any(f[0] < g[0] for g in found)]
    return sorted((sorted(s), sorted(p)) for s, p in maximal)


@settings(max_examples=200)
@given(mdps(max_states=5, max_actions=3))
def test_diagnosis_agrees_with_brute_force(mdp):
    d = mdp.diagnose()
    n = mdp.n_states
    reached = closure(steps(mdp, range(mdp.n_pairs)))

    assert d.communicating == reached.all()
    together = {frozenset(np.flatnonzero(row).tolist()) for row in reached & reached.T}
    assert {frozenset(c.tolist()) for c in d.strong_components} == together
    for s in range(n):
        assert d.unreachable_from(s).tolist() == np.flatnonzero(~reached[s]).tolist()
    traps = [c for c in together if all(set(np.flatnonzero(reached[s])) <= c for s in c)]
    traps = [] if d.communicating else traps
    assert sorted(t.tolist() for t in d.traps) == sorted(sorted(t) for t in traps)
    assert d.n_traps == len(traps)

    components = end_components_by_definition(mdp)
    assert [(c.states.tolist(), c.pairs.tolist()) for c in d.end_components] == components
    assert d.n_end_components == len(components)
    assert d.n_fleeting == n - sum(len(states) for states, _ in components)

    leads = every_deterministic_policy(mdp)
    reach = closure(leads)
    both = reach & reach.swapaxes(1, 2)
    recurrent = ~(reach & ~both).any(axis=2)
    first_of_class = ~(both & np.tri(n, k=-1, dtype=bool)).any(axis=2)
    n_classes = (recurrent & first_of_class).sum(axis=1)
    assert d.every_policy_irreducible == reach.all()
    # Unavoidable: the only class of every policy holds the state.
    unavoidable = reach.all(axis=1).all(axis=0)
    for s in range(n):
        assert (d.closable_without(s).size == 0) == unavoidable[s]
    assert (d.avoidable_state is None) == unavoidable.all()
    assert d.avoidable_state is None or not unavoidable[d.avoidable_state]
    assert (d.unavoidable_state is None) == (not unavoidable.any())
    assert d.unavoidable_state is None or unavoidable[d.unavoidable_state]

    assert d.unichain == (n_classes == 1).all()
    assert (d.multichain_policy is not None) == (not d.unichain)
    if d.multichain_policy is not None:
        assert len(d.multichain_policy.chain().recurrent_classes()) >= 2

    aperiodic = bool((periods(leads)[recurrent] == 1).all())
    assert d.every_policy_aperiodic == aperiodic
    assert (d.periodic_policy is not None) == (not aperiodic)
    if d.periodic_policy is not None:
        chain = d.periodic_policy.chain()
        assert any(chain.period(k) > 1 for k in range(len(chain.recurrent_classes())))
    everything = steps(mdp, range(mdp.n_pairs))
    assert d.period == (periods(everything)[0] if d.communicating else None)

    assert json.loads(json.dumps(d.to_dict()))["sentences"] == str(d).split("\n")


@settings(max_examples=100)
@given(mdps(max_states=6))
def test_largest_closable_set_is_the_union_of_all(mdp):
    follow = support(mdp)
    rng = np.random.default_rng(mdp.n_pairs)
    within = rng.random(mdp.n_states) < 0.7
    union: set[int] = set()
    for bits in range(1, 2**mdp.n_states):
        states = {s for s in range(mdp.n_states) if bits >> s & 1}
        if states <= set(np.flatnonzero(within).tolist()) and all(
            any(follow[p] <= states for p in mdp.pairs_of(s)) for s in states
        ):
            union |= states
    assert set(np.flatnonzero(largest_closable(mdp, within)).tolist()) == union


@settings(max_examples=100)
@given(mdps(max_states=5))
def test_pairs_towards_reach_the_target_surely_where_any_policy_does(mdp):
    rng = np.random.default_rng(mdp.n_pairs)
    target = rng.random(mdp.n_states) < 0.4
    target[rng.integers(mdp.n_states)] = True

    def arrives(leads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From where a walk that stops in the target may arrive, and does so surely."""
        reach = closure(leads & ~target[:, None])
        may = (reach & target).any(axis=-1)
        return may, ~(reach & ~may[..., None, :]).any(axis=-1)

    chosen = pairs_towards(mdp, target)
    possible = arrives(steps(mdp, range(mdp.n_pairs)))[0]
    assert ((chosen >= 0) == (possible & ~target)).all()
    led = np.flatnonzero(chosen >= 0)
    assert (mdp.pair_state[chosen[led]] == led).all()
    may, surely = arrives(steps(mdp, np.where(chosen >= 0, chosen, mdp.pair_start[:-1])))
    assert (may == possible).all()
    assert (surely == arrives(every_deterministic_policy(mdp))[1].any(axis=0)).all()


def test_end_components_of_a_start_with_two_absorbing_ends():
    mdp = sj.MDP.from_transitions(
        [("start", "left", "A", 1.0), ("start", "right", "B", 1.0), ("A", "stay", "A", 1.0),
         ("B", "stay", "B", 1.0)]
    )  # fmt: skip
    found = maximal_end_components(mdp)
    assert [[mdp.state_labels[s] for s in c.states] for c in found] == [["A"], ["B"]]
    d = mdp.diagnose()
    assert not d.communicating
    assert d.unichain is False
    assert d.n_fleeting == 1
    said = str(d)
    for part in ("'A'", "'B'", "'start'", "can't leave"):
        assert part in said


def test_a_pair_that_may_leave_is_no_part_of_an_end_component():
    # "jump" may go out of {0, 1} for good; "walk" keeps inside.
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[1, 0, 0] = P[2, 0, 2] = 1.0
    P[0, 1] = [0.0, 0.5, 0.5]
    found = maximal_end_components(sj.MDP.from_array(P))
    assert [(c.states.tolist(), c.pairs.tolist()) for c in found] == [([0, 1], [0, 2]), ([2], [3])]


def test_pieces_that_fall_apart_one_after_the_other():
    """Each round of the search finds that one more link may lead out: n rounds, no shortcut."""
    n = 60
    P = np.zeros((n + 1, 2, n + 1))
    P[n, 0, n] = 1.0
    for s in range(n):
        P[s, 0, min(s + 1, n - 1)] = 1.0  # forward within the line
        P[s, 1, max(s - 1, 0)] = 0.5  # back, but with a risk of the next one's fate
        P[s, 1, n] += 0.5
    found = maximal_end_components(sj.MDP.from_array(P))
    assert [c.states.tolist() for c in found] == [[n - 1], [n]]


def test_large_unichain_world_is_proved_so_and_said_so():
    # A ring without a choice, and a shortcut back to 0 from everywhere: 0 is unavoidable.
    n = 3000
    mdp = sj.MDP(
        sp.csr_matrix(
            (np.ones(2 * n), np.stack([(np.arange(n) + 1) % n, np.zeros(n, int)], 1).ravel(),
             np.arange(2 * n + 1)), shape=(2 * n, n),
        ),
        np.arange(0, 2 * n + 1, 2),
    )  # fmt: skip
    d = mdp.diagnose()
    assert d.unichain is True
    assert d.unavoidable_state == 0
    assert not d.every_policy_irreducible
    assert d.every_policy_aperiodic is False  # 0 → 1 → 0 → …


def test_every_policy_of_a_slippery_map_without_staying_is_irreducible():
    world = np.arange(30 * 40).reshape(30, 40)
    P = sp.lil_matrix((1200 * 4, 1200))
    for y in range(30):
        for x in range(40):
            around = [
                world[(y + dy) % 30, (x + dx) % 40] for dx, dy in ((0, -1), (1, 0), (0, 1), (-1, 0))
            ]
            for a, ahead in enumerate(around):
                for t in around:
                    P[world[y, x] * 4 + a, t] = 0.7 if t == ahead else 0.1
    mdp = sj.MDP(P.tocsr(), np.arange(0, 4801, 4))
    d = mdp.diagnose()
    assert d.every_policy_irreducible
    assert d.unichain is True
    assert d.period == 2
    assert d.every_policy_aperiodic is False
    assert "multiple of 2 moves" in str(d)


def test_undecided_is_said_and_not_guessed(monkeypatch):
    """With every search for an example or a proof switched off, nothing may be claimed."""
    monkeypatch.setattr(Diagnosis, "_sampled", [])
    monkeypatch.setattr(Diagnosis, "unavoidable_state", None)
    d = random_mdp("ragged", 60, 3, np.random.default_rng(5)).diagnose()
    assert d.unichain is None
    assert d.multichain_policy is None
    assert "undecided" in str(d)


@pytest.mark.parametrize("state", [-1, 3, 99])
def test_a_state_that_does_not_exist(state):
    d = sj.MDP.from_array(np.full((3, 1, 3), 1 / 3)).diagnose()
    with pytest.raises(sj.ArgumentError, match="no state"):
        d.unreachable_from(state)
    with pytest.raises(sj.ArgumentError, match="no state"):
        d.closable_without(state)


def test_one_state():
    d = sj.MDP.from_array(np.ones((1, 2, 1))).diagnose()
    assert (d.communicating, d.every_policy_irreducible, d.unichain) == (True, True, True)
    assert (d.period, d.every_policy_aperiodic) == (1, True)
    assert strong_components(d.mdp)[0].tolist() == [0]
    assert "only one state" in str(d)


def test_traps_come_in_the_order_of_their_states():
    records = [(0, f"to {t}", t, 1.0) for t in (3, 1, 2)]
    mdp = sj.MDP.from_transitions(records + [(t, "stay", t, 1.0) for t in (1, 2, 3)])
    assert [trap.tolist() for trap in mdp.diagnose().traps] == [[1], [2], [3]]
