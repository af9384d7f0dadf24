"""The programme over counts against plain recursion, the paper's example and its own policy."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn as sj
from sojourn import MDP, ArgumentError, Policy, PriorSample, VisitsOnly
from sojourn.planning import exact_optimum, finite_bound, finite_loss
from sojourn.planning.finite import Prices
from sojourn.solvers.count_programme import rank_of
from sojourn.testing import mdps, policies, variances

COUNTINGS = (PriorSample(), VisitsOnly(), VisitsOnly(unvisited=0.3))


def final_cost(prices: Prices, counts: tuple[int, ...]) -> float:
    cost = 0.0
    for s, count in enumerate(counts):
        total = count + prices.prior
        cost += prices.sampled[s] / total if total else prices.unvisited[s]
    return cost


def by_recursion(mdp: MDP, prices: Prices, state: int, counts: tuple[int, ...]) -> float:
    """Every history, with no table at all."""
    if sum(counts) == prices.moves:
        return final_cost(prices, counts)
    values = []
    for pair in mdp.pairs_of(state):
        row = mdp.transitions[[pair]]
        value = 0.0
        for reached, probability in zip(row.indices, row.data):
            more = tuple(c + (s == reached) for s, c in enumerate(counts))
            value += probability * by_recursion(mdp, prices, int(reached), more)
        values.append(value)
    return min(values)


@given(st.data())
def test_it_is_the_minimum_over_all_histories(data: st.DataObject) -> None:
    mdp = data.draw(mdps(max_states=4, max_actions=2))
    n = mdp.n_states
    counting = data.draw(st.sampled_from(COUNTINGS))
    variance = data.draw(variances(n, ratio=1e3))
    weight = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=n, max_size=n)))
    budget = data.draw(st.integers(1, 4))
    best = exact_optimum(mdp, variance, budget, counting=counting, weight=weight)
    prices = Prices.of(variance, n, budget, counting, weight)
    for s in range(n):
        truth = by_recursion(mdp, prices, s, (0,) * n)
        assert best.loss_from[s] == pytest.approx(truth, rel=1e-12, abs=1e-300)
        pair = int(best.first_pairs[s])
        assert pair in mdp.pairs_of(s)
    assert best.loss == pytest.approx(best.loss_from.mean(), rel=1e-12)


@given(st.data())
def test_bound_below_optimum_below_any_policy(data: st.DataObject) -> None:
    mdp = data.draw(mdps(max_states=3))
    variance = data.draw(variances(mdp.n_states, ratio=1e6))
    counting = data.draw(st.sampled_from(COUNTINGS))
    budget, start = data.draw(st.integers(1, 12)), data.draw(st.integers(0, mdp.n_states - 1))
    best = exact_optimum(mdp, variance, budget, start, counting).loss
    policy = data.draw(policies(mdp))
    assert best <= finite_loss(policy, variance, budget, start, counting) * (1 + 1e-9)
    assert finite_bound(mdp, variance, budget, start, counting).bound <= best * (1 + 1e-12)


def test_three_states_of_the_paper() -> None:
    world = sj.instances.three_state()
    for budget, loss in ((20, 1.4141), (100, 1.3772), (500, 1.3758)):
        best = exact_optimum(
            world.mdp, world.variance, budget, counting=VisitsOnly(), keep_decisions=False
        )
        assert best.loss == pytest.approx(loss, abs=5e-5)
        # The Lagrangian bound knows nothing of counts and still comes within 1e-5 here.
        bound = finite_bound(world.mdp, world.variance, budget, counting=VisitsOnly()).bound
        assert bound == pytest.approx(best.loss, rel=1e-4)
    # Both ends are as good to start from as the middle, nearly.
    assert np.ptp(best.loss_from) < 1e-3


@pytest.mark.parametrize("counting", COUNTINGS, ids=str)
def test_its_decisions_achieve_its_loss(counting: PriorSample | VisitsOnly) -> None:
    world = sj.instances.garnet(4, 2, 2, seed=3)
    mdp, budget, start = world.mdp, 9, 2
    weight = np.array([1.0, 0.0, 2.0, 0.0])  # two states share a count
    best = exact_optimum(mdp, world.variance, budget, start, counting, weight)
    prices = Prices.of(world.variance, 4, budget, counting, weight)
    mass = {(start, (0, 0, 0, 0)): 1.0}
    for _ in range(best.moves):
        after: dict[tuple[int, tuple[int, ...]], float] = defaultdict(float)
        for (state, counts), p in mass.items():
            row = mdp.transitions[[best.decide(state, counts)]]
            for reached, q in zip(row.indices, row.data):
                more = tuple(c + (s == reached) for s, c in enumerate(counts))
                after[int(reached), more] += p * q
        mass = after
    achieved = sum(p * final_cost(prices, counts) for (_, counts), p in mass.items())
    assert achieved == pytest.approx(best.loss, rel=1e-12)
    assert best.decide(start, (0, 0, 0, 0)) == best.first_pairs[start]


def test_counts_are_numbered_without_gaps() -> None:
    for slots, total in product((1, 2, 3, 4), (0, 1, 5)):
        counts = [c for c in product(range(total + 1), repeat=slots) if sum(c) == total]
        ranks = sorted(rank_of(np.array(c)) for c in counts)
        assert ranks == list(range(len(counts)))


def test_what_is_too_large_is_refused_with_its_size() -> None:
    world = sj.instances.garnet(10, 3, 2, seed=1)
    with pytest.raises(ArgumentError, match=r"10 counts has 4.26e\+14 entries") as caught:
        exact_optimum(world.mdp, world.variance, 100)
    assert "finite_bound" in caught.value.hint
    # Only states that matter are counted, so ten states may be few.
    few = exact_optimum(world.mdp, world.variance, 60, weight=np.eye(1, 10).ravel())
    assert few.entries < 30_000
    with pytest.raises(ArgumentError, match="GiB at a time"):
        exact_optimum(sj.instances.three_state().mdp, 1.0, 400, memory=1000)


def test_wrong_questions_to_the_decisions() -> None:
    world = sj.instances.three_state()
    best = exact_optimum(world.mdp, world.variance, 10)
    with pytest.raises(ArgumentError, match="nothing is left to decide"):
        best.decide(0, [9, 0, 0])
    with pytest.raises(ArgumentError, match="expected 3 whole numbers"):
        best.decide(0, [1, 0])
    lean = exact_optimum(world.mdp, world.variance, 10, keep_decisions=False)
    with pytest.raises(ArgumentError, match="were not kept"):
        lean.decide(0, [1, 0, 0])
    with pytest.raises(ArgumentError, match="the budget 0 is not positive"):
        exact_optimum(world.mdp, world.variance, 0)
    assert Policy.deterministic(world.mdp, lean.first_pairs).mdp is world.mdp
