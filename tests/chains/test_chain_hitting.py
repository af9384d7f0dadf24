"""Classes, periods and hitting times."""

from __future__ import annotations

import mpmath
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sojourn import Chain
from sojourn.chains import linear
from sojourn.chains.graph import strong_labels
from sojourn.errors import ArgumentError
from sojourn.testing import random_stochastic, stochastic_matrices


def hits(P: np.ndarray, targets: list[int]) -> np.ndarray:
    """By definition: infinite unless the target is hit for sure, else a linear system."""
    n = len(P)
    walk = nx.DiGraph()
    walk.add_nodes_from(range(n))
    walk.add_edges_from((s, t) for s in range(n) if s not in targets for t in np.flatnonzero(P[s]))
    arrives = {s for s in range(n) if set(targets) & (nx.descendants(walk, s) | {s})}
    lost = set(range(n)) - arrives
    sure = [s for s in range(n) if s not in targets and s in arrives
            and not lost & nx.descendants(walk, s)]  # fmt: skip
    times = np.full(n, np.inf)
    times[targets] = 0.0
    if sure:
        # Near-reducible draws are left after 1e14 steps; doubles would keep two digits of that.
        with mpmath.workdps(60):
            flow = mpmath.matrix(P.tolist())
            left = mpmath.matrix(len(sure), len(sure))
            for i, s in enumerate(sure):
                for j, t in enumerate(sure):
                    if s == t:
                        left[i, i] = mpmath.fsum(flow[s, k] for k in range(n) if k != s)
                    else:
                        left[i, j] = -flow[s, t]
            solved = mpmath.lu_solve(left, mpmath.ones(len(sure), 1))
            times[sure] = [float(x) for x in solved]
    return times


@given(stochastic_matrices(max_states=7), st.integers(0, 2**32 - 1))
def test_hitting_times_against_a_direct_solve(P, seed):
    rng = np.random.default_rng(seed)
    targets = np.unique(rng.integers(len(P), size=rng.integers(1, 3))).tolist()
    expected = hits(P, targets)
    for chain in (Chain(P), Chain(sp.csr_matrix(P))):
        np.testing.assert_allclose(chain.hitting_times(targets), expected, rtol=1e-9)
    np.testing.assert_array_equal(
        Chain(P).hitting_times(targets[0]), Chain(P).hitting_times([targets[0]])
    )


def test_hitting_times_by_walking(rng):
    P = random_stochastic(5, rng)
    chain = Chain(P)
    cumulative = np.cumsum(P, axis=1)
    walks = 20_000
    for target in (0, [1, 3]):
        where = np.full(walks, 2)
        arrived = np.isin(where, target)
        steps = np.zeros(walks)
        while not arrived.all():
            drawn = (rng.random((walks, 1)) > cumulative[where]).sum(axis=1)
            where = np.where(arrived, where, np.minimum(drawn, 4))
            steps += ~arrived
            arrived |= np.isin(where, target)
        error = steps.std() / np.sqrt(walks)
        assert abs(steps.mean() - chain.hitting_times(target)[2]) < 5 * error + 1e-12


def test_hitting_times_in_closed_form():
    """The end of a line of n sites, half a chance each way: n² − s² from site s."""
    n = 600
    P = sp.diags([np.full(n - 1, 0.5), np.full(n - 1, 0.5)], [-1, 1]).tolil()
    P[0, 1] = 1.0
    P[n - 1, n - 2] = 1.0
    expected = (n - 1.0) ** 2 - np.arange(n) ** 2
    for as_given in (P.tocsr(), P.toarray()):
        np.testing.assert_allclose(Chain(as_given).hitting_times(n - 1), expected, rtol=1e-11)


def test_hitting_times_keep_their_digits_in_a_nearly_closed_set():
    leak = 1e-14
    P = [[1 - leak, leak, 0.0], [0.0, 0.5, 0.5], [0.3, 0.0, 0.7]]
    times = Chain(P).hitting_times(1)
    assert times[0] == pytest.approx(1 / leak, rel=1e-13)
    assert times[2] == pytest.approx(1 / 0.3 + 1 / leak, rel=1e-13)


def test_where_the_target_may_be_missed():
    P = [[0.0, 0.5, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    chain = Chain(P)
    np.testing.assert_array_equal(chain.hitting_times(2), [np.inf, np.inf, 0.0, 1.0])
    np.testing.assert_array_equal(chain.hitting_times([1, 2]), [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(chain.hitting_times(0), [0.0, np.inf, np.inf, np.inf])


def test_iteration_takes_over_for_wide_graphs(rng, monkeypatch):
    P = sp.csr_matrix(random_stochastic(60, rng))
    expected = Chain(P).hitting_times(7)
    monkeypatch.setattr(linear, "FEW_STATES", 10)
    monkeypatch.setattr(linear, "is_wide", lambda P: True)
    np.testing.assert_allclose(Chain(P).hitting_times(7), expected, rtol=1e-8)


@pytest.mark.parametrize("target", [-1, 5, [], [0, 9], "a", 1.5, [[0, 7]]])
def test_targets_that_are_none(target):
    with pytest.raises(ArgumentError) as caught:
        Chain(np.full((5, 5), 0.2)).hitting_times(target)
    assert caught.value.hint


@given(stochastic_matrices(max_states=8))
def test_classes_and_periods(P):
    walk = nx.from_numpy_array(P > 0, create_using=nx.DiGraph)
    classes = sorted(sorted(c) for c in nx.attracting_components(walk))
    chain = Chain(P)
    assert [c.tolist() for c in chain.recurrent_classes()] == classes
    for k, states in enumerate(classes):
        lengths = [len(cycle) for cycle in nx.simple_cycles(walk.subgraph(states))]
        assert chain.period(k) == np.gcd.reduce(lengths)
    label, period = strong_labels(*(lambda g: (g.indptr, g.indices))(sp.csr_matrix(P)))
    for s, t in walk.edges:
        assert label[s] >= label[t]
    for c, d in enumerate(period):
        members = np.flatnonzero(label == c)
        lengths = [len(cycle) for cycle in nx.simple_cycles(walk.subgraph(members.tolist()))]
        assert d == np.gcd.reduce(lengths or [0])


def test_a_long_line_does_not_exhaust_any_stack():
    n = 300_000
    P = sp.csr_matrix((np.ones(n), (np.arange(n), np.minimum(np.arange(n) + 1, n - 1))))
    chain = Chain(P)
    assert [c.tolist() for c in chain.recurrent_classes()] == [[n - 1]]
    assert chain.stationary()[-1] == 1.0
