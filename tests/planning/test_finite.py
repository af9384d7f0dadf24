"""The exact finite loss against counting by dynamic programming, closed forms and simulation."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

import sojourn as sj
from sojourn import MDP, ArgumentError, Chain, Policy, PriorSample, VisitsOnly
from sojourn.planning import finite_loss, finite_loss_gradient, visit_facts
from sojourn.planning.finite import METHODS
from sojourn.solvers import finite_contour, finite_quadrature, finite_second_order, finite_series
from sojourn.solvers.finite_visits import visit_law
from sojourn.testing import distributions, mdps, policies, variances

EXACT = ("series", "quadrature")
COUNTINGS = (PriorSample(), VisitsOnly(), VisitsOnly(unvisited=2.5))
Array = NDArray[np.float64]


def visit_distribution(P: Array, start: Array, moves: int, state: int) -> Array:
    """P(V = 0), P(V = 1), … by carrying (state, count) along: the definition."""
    mass = np.zeros((P.shape[0], moves + 1))
    mass[:, 0] = start
    for _ in range(moves):
        mass = P.T @ mass
        mass[state, 1:] = mass[state, :-1].copy()
        mass[state, 0] = 0.0
    return mass.sum(axis=0)


def loss_by_counting(
    P: Array, variance: Array, budget: int, start: Array, counting: sj.PriorSample | VisitsOnly
) -> float:
    moves, total = counting.moves(budget), 0.0
    k = np.arange(moves + 1) + counting.prior
    for s in range(P.shape[0]):
        cost = np.where(k > 0, variance[s] / np.maximum(k, 1), counting.unvisited_cost(variance))
        total += visit_distribution(P, start, moves, s) @ cost
    return budget * total / P.shape[0]


def slow(p: float = 0.0158) -> Array:
    return np.array([[1 - p, p, 0], [0.5, 0, 0.5], [0, p, 1 - p]])


def nearly_reducible() -> Array:
    P = np.full((6, 6), 1e-9)
    P[:2, 0] = 1
    P[2:, 2:] += np.random.default_rng(1).random((4, 4))
    return P / P.sum(axis=1, keepdims=True)


CHAINS = {
    "random": np.random.default_rng(0).dirichlet(np.full(5, 0.3), 5),
    "one state": np.ones((1, 1)),
    "cycle": np.roll(np.eye(4), 1, axis=1),
    "nearly periodic": 0.999 * np.roll(np.eye(6), 1, axis=1) + 0.001 / 6,
    "path without staying": np.array([[0, 2, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 2, 0]]) / 2,
    "slow": slow(),
    "very slow": slow(1e-9),
    "defective": np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.1, 0, 0, 0.9]]),
    "absorbing": np.array([[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1]]),
    "nearly reducible": nearly_reducible(),
    "frozen": np.eye(3),
}  # fmt: skip


# -- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("counting", COUNTINGS, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_every_method_is_the_definition(name: str, counting: sj.PriorSample | VisitsOnly) -> None:
    P = CHAINS[name]
    n_states = len(P)
    variance = np.geomspace(1e-3, 10, n_states)
    rng = np.random.default_rng(3)
    for start in (np.full(n_states, 1 / n_states), rng.dirichlet(np.ones(n_states))):
        for budget in (1, 2, 5, 40, 150):
            truth = loss_by_counting(P, variance, budget, start, counting)
            for method in ("auto", *EXACT):
                loss = finite_loss(
                    P, variance, budget, start=start, counting=counting, method=method
                )
                assert loss == pytest.approx(truth, rel=1e-9, abs=0), (budget, method)


@pytest.mark.parametrize("share", [0.5, 1e-3, 1 - 1e-6])
def test_independent_draws_have_a_closed_form(share: float) -> None:
    # Every row the same: V is binomial, and E[1/(1+V)] = (1 − (1−p)^{N+1})/((N+1) p).
    P = np.array([[share, 1 - share], [share, 1 - share]])
    only_first = np.array([1.0, 0.0])
    for budget in (10, 1000, 100_000):
        mean = -np.expm1(budget * np.log1p(-share)) / (budget * share)
        loss = finite_loss(P, only_first, budget)
        assert loss == pytest.approx(budget * mean / 2, rel=1e-9)
    for budget in (10, 1000):
        law = binom(budget, share).pmf(np.arange(budget + 1))
        mean = law[1:] @ (1 / np.arange(1, budget + 1))
        loss = finite_loss(P, only_first, budget, weight=only_first, counting=VisitsOnly())
        assert loss == pytest.approx(budget * (mean + 9 * law[0]) / 2, rel=1e-9)


def test_millions_of_steps() -> None:
    # From its start a cycle of four returns at every fourth move.
    P, n = np.roll(np.eye(4), 1, axis=1), 2_000_001
    loss = finite_loss(P, [1.0, 0, 0, 0], n, start=0)
    assert loss == pytest.approx(n / 4 / (1 + (n - 1) // 4), rel=1e-8)
    assert finite_loss(slow(0.3), 1.0, n) == pytest.approx(
        (1 / Chain(slow(0.3)).stationary()).mean(), rel=1e-5
    )


@given(st.data())
def test_methods_agree_on_arbitrary_models(data: st.DataObject) -> None:
    mdp = data.draw(mdps())
    policy = data.draw(policies(mdp))
    variance = data.draw(variances(mdp.n_states))
    start = data.draw(distributions(mdp.n_states))
    counting = data.draw(st.sampled_from(COUNTINGS))
    budget = data.draw(st.integers(1, 60))
    truth = loss_by_counting(
        policy.transition_matrix().toarray(), variance, budget, start, counting
    )
    for method in ("auto", *EXACT):
        loss = finite_loss(policy, variance, budget, start, counting, method=method)
        assert loss == pytest.approx(truth, rel=1e-9)


@given(st.data())
def test_contour_is_exact_where_it_is_trusted(data: st.DataObject) -> None:
    mdp = data.draw(mdps())
    P = data.draw(policies(mdp)).transition_matrix().toarray()
    start = data.draw(distributions(mdp.n_states))
    moves, prior = data.draw(st.integers(32, 400)), data.draw(st.sampled_from([0, 1]))
    found = finite_contour.mean_inverse(P, start, moves, prior)
    if found is not None:
        law = visit_law(P, start, [moves], prior, "series")
        assert law is not None
        scale = law.mean_inverse[0] + (0 if prior else law.unvisited[0])
        np.testing.assert_allclose((found[0] - law.mean_inverse[0]) / scale, 0, atol=1e-9)
        np.testing.assert_allclose(found[1], law.unvisited[0], rtol=1e-9, atol=1e-15)


def test_contour_is_exact_up_to_where_it_is_refused() -> None:
    # Oscillations that die out just within the budget: some are trusted, some are not.
    rng = np.random.default_rng(3)
    trusted = 0
    for _ in range(300):
        n, moves = int(rng.integers(2, 8)), int(rng.choice([32, 64, 200]))
        left = 10.0 ** (-rng.uniform(8, 13) / moves)
        P = left * np.roll(np.eye(n), 1, axis=1) + (1 - left) * rng.dirichlet(np.full(n, 0.5), n)
        start, prior = rng.dirichlet(np.full(n, 0.3)), int(rng.integers(2))
        found = finite_contour.mean_inverse(P, start, moves, prior)
        if found is not None:
            trusted += 1
            mean, unvisited = finite_quadrature.mean_inverse(P, start, moves, prior)
            off = np.abs(found[0] - mean) / (mean + (0 if prior else unvisited))
            assert off.max() <= 1e-9
    assert 30 < trusted < 270


def test_contour_refuses_what_oscillates() -> None:
    for name in ("cycle", "nearly periodic", "path without staying"):
        with pytest.raises(ArgumentError, match="oscillating"):
            finite_loss(CHAINS[name], 1.0, 100, method="contour")
    assert visit_law(CHAINS["cycle"], np.ones(4) / 4, [100], 1).method == "series"  # type: ignore[union-attr]
    assert visit_law(slow(), np.ones(3) / 3, [100], 1).method == "contour"  # type: ignore[union-attr]


def test_three_states_of_the_paper() -> None:
    # Design 4.5: the asymptotic optimum, split evenly in the middle, from a uniform start.
    world = sj.instances.three_state()
    share = 0.015564  # η of the middle state in the optimum
    p = share / (1 - share)
    policy = Policy(world.mdp, [1 - p, p, 0.5, 0.5, p, 1 - p])
    plan = sj.optimal_plan(world.mdp, world.variance)
    for chosen in (policy, plan.policy):
        assert finite_loss(chosen, world.variance, 100) == pytest.approx(17.206, rel=1e-3)
        assert finite_loss(chosen, world.variance, 1000) == pytest.approx(1.805, rel=1e-3)
    assert finite_loss(plan.policy, world.variance, 100) == pytest.approx(17.2062, abs=5e-4)
    assert finite_loss(plan.policy, world.variance, 1000) == pytest.approx(1.80539, abs=5e-5)


def test_many_budgets_at_once() -> None:
    world = sj.instances.garnet(6, 3, 2, seed=4)
    policy = Policy.uniform(world.mdp)
    budgets = np.array([[7, 300], [1, 45]])
    for counting in COUNTINGS:
        losses = finite_loss(policy, world.variance, budgets, counting=counting)
        assert losses.shape == (2, 2)
        for index, n in np.ndenumerate(budgets):
            one = finite_loss(policy, world.variance, int(n), counting=counting)
            assert isinstance(one, float)
            assert losses[index] == pytest.approx(one, rel=1e-10)
    many = np.arange(1, 200)
    long = finite_loss(policy, world.variance, many)
    np.testing.assert_allclose(
        long, [finite_loss(policy, world.variance, int(n), method="quadrature") for n in many],
        rtol=1e-10,
    )  # fmt: skip


def test_starts_and_weights() -> None:
    P = CHAINS["random"]
    variance, weight = np.arange(1.0, 6), np.array([0, 1, 2, 0, 3.0])
    one = [finite_loss(P, variance, 20, start=s) for s in range(5)]
    assert finite_loss(P, variance, 20) == pytest.approx(np.mean(one), rel=1e-12)
    mixed = np.array([0.1, 0.2, 0.3, 0.4, 0])
    assert finite_loss(P, variance, 20, start=mixed) == pytest.approx(mixed @ one, rel=1e-12)
    assert finite_loss(P, variance, 20, weight=weight) == pytest.approx(
        finite_loss(P, variance * weight, 20), rel=1e-12
    )
    # An unvisited state is weighted too.
    cost = VisitsOnly(unvisited=1.0)
    heavy = finite_loss(P, 0.0, 3, counting=cost, weight=weight)
    lost = visit_facts(P, 3, counting=cost).unvisited
    assert heavy == pytest.approx(3 * (weight @ lost) / 5, rel=1e-12)


@pytest.mark.parametrize("counting", COUNTINGS, ids=str)
@pytest.mark.parametrize("budget", [1, 2, 5, 60])
def test_simulated_walks_agree(budget: int, counting: sj.PriorSample | VisitsOnly) -> None:
    rng = np.random.default_rng(20240613)
    P, variance, runs = CHAINS["random"], np.array([1, 0.1, 3, 0.5, 2]), 20_000
    ladder = P.cumsum(axis=1)
    ladder[:, -1] = 1.0
    here = rng.integers(5, size=runs)
    visits = np.full((runs, 5), counting.prior)
    for _ in range(counting.moves(budget)):
        here = (rng.random(runs)[:, None] > ladder[here]).sum(axis=1)
        visits[np.arange(runs), here] += 1
    cost = np.where(visits > 0, variance / np.maximum(visits, 1), counting.unvisited_cost(variance))
    sample = budget * cost.mean(axis=1)
    error = sample.std() / np.sqrt(runs)
    loss = finite_loss(P, variance, budget, counting=counting)
    assert abs(sample.mean() - loss) <= 3 * error + 1e-12


def test_states_that_are_never_reached() -> None:
    mdp = MDP.from_transitions(
        [("a", "stay", "a", 1.0), ("a", "go", "b", 1.0), ("b", "back", "a", 1.0)]
    )
    stay = Policy.deterministic(mdp, [0, 2])
    n, variance = 10, np.array([2.0, 5.0])
    # a is visited at every move: T = n with a prior sample, and n without.
    assert finite_loss(stay, variance, n, start=0) == pytest.approx((2 + n * 5) / 2, rel=1e-12)
    loss = finite_loss(stay, variance, n, start=0, counting=VisitsOnly(unvisited=7.0))
    assert loss == pytest.approx((2 + n * 7) / 2, rel=1e-12)
    facts = visit_facts(stay, n, start=0)
    assert list(facts.never) == [1]
    assert facts.unvisited[1] == 1.0
    assert "never reached from this start: 'b'" in str(facts)
    assert "can't visit" in str(visit_facts(stay, 1, start=0))


def test_sparse_and_dense_chains_agree() -> None:
    rng = np.random.default_rng(8)
    world = sj.instances.grid_survey(9, 8, seed=2)
    policy = Policy.uniform(world.mdp)
    P = policy.transition_matrix()
    start = rng.dirichlet(np.ones(world.mdp.n_states))
    for prior in (0, 1):
        sparse = visit_law(P, start, [5, 200], prior, "series")
        dense = visit_law(P.toarray(), start, [5, 200], prior, "series")
        assert sparse is not None
        assert dense is not None
        np.testing.assert_allclose(sparse.mean_inverse, dense.mean_inverse, rtol=1e-11)
        np.testing.assert_allclose(sparse.unvisited, dense.unvisited, rtol=1e-11)


@pytest.mark.parametrize("counting", [sj.PriorSample(), sj.VisitsOnly(2.0)])
def test_large_maps_by_the_contour(counting: sj.PriorSample | VisitsOnly) -> None:
    world = sj.instances.grid_survey(28, 28, drift=(1, 0, 0.2), field="hard", seed=2)
    rng = np.random.default_rng(0)
    draw = rng.exponential(size=world.mdp.n_pairs)
    policy = Policy(world.mdp, draw / world.mdp.to_pairs(world.mdp.state_sums(draw)))
    P, budgets = policy.transition_matrix(), [300, 60]
    start = np.full(world.mdp.n_states, 1 / world.mdp.n_states)
    moves = [counting.moves(n) for n in budgets]
    law = visit_law(P, start, moves, counting.prior)
    assert law is not None
    assert law.method == "contour"
    exact = visit_law(P, start, moves, counting.prior, "series")
    assert exact is not None
    np.testing.assert_allclose(law.mean_inverse, exact.mean_inverse, rtol=1e-9)
    np.testing.assert_allclose(law.unvisited, exact.unvisited, atol=1e-12)


def test_large_maps_that_oscillate_are_left_to_the_series() -> None:
    world = sj.instances.path(600, seed=0)
    policy = Policy.uniform(world.mdp)
    with pytest.raises(ArgumentError, match="keeps oscillating"):
        finite_loss(policy, world.variance, 300, method="contour")
    for counting in (sj.PriorSample(), sj.VisitsOnly()):
        auto = finite_loss(policy, world.variance, 300, start=0, counting=counting)
        series = finite_loss(
            policy, world.variance, 300, start=0, counting=counting, method="series"
        )
        assert auto == pytest.approx(series, rel=1e-12)


def test_large_rings_have_a_closed_form() -> None:
    # Where nothing spreads the factors' pivots vanish or overflow at some points of the contour.
    for n, budget in ((997, 200), (600, 40), (600, 1500)):
        ring = sp.csr_matrix((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)))
        for counting in (sj.PriorSample(), sj.VisitsOnly(unvisited=5.0)):
            rounds, rest = divmod(counting.moves(budget), n)
            few, more = rounds + counting.prior, rounds + 1 + counting.prior
            mean = (n - rest) * (1 / few if few else 5.0) + rest / more
            loss = finite_loss(ring, 1.0, budget, counting=counting)
            assert loss == pytest.approx(budget * mean / n, rel=1e-9)


def test_geometric_tails_are_those_of_the_recursion() -> None:
    for name in ("random", "slow", "defective", "absorbing", "nearly periodic"):
        P = CHAINS[name]
        n = len(P)
        pairs = []
        for tolerance in (finite_series.GEOMETRIC, -1.0):
            x, y = np.empty((2, n, 3001))
            steps = finite_series.survival_dense(
                P, np.full(n, 1 / n), np.arange(n), x, y, tolerance
            )
            pairs.append((x, y, steps))
        assert pairs[0][2] < 3000
        assert pairs[0][2] <= pairs[1][2]
        np.testing.assert_allclose(pairs[0][0], pairs[1][0], rtol=3e-11, atol=1e-250)
        np.testing.assert_allclose(pairs[0][1], pairs[1][1], rtol=3e-11, atol=1e-250)


def test_quadrature_nodes_integrate_every_power() -> None:
    for moves in (1, 10, 1000, 10**6):
        z, weight = finite_quadrature.nodes(moves)
        for visits in {0, 1, 7, moves // 2, moves}:
            assert weight @ z**visits == pytest.approx(1 / (1 + visits), rel=1e-10)


# -- second order ---------------------------------------------------------------------------


def test_second_order_error_falls_with_the_square_of_the_budget() -> None:
    world = sj.instances.garnet(8, 3, 2, seed=5)
    policy = Policy.uniform(world.mdp)
    budgets = np.array([500, 1000, 2000, 4000])
    exact = finite_loss(policy, world.variance, budgets)
    second = finite_loss(policy, world.variance, budgets, method="second-order")
    error = np.abs(second / exact - 1)
    assert error[1] < 1e-2
    assert (error[:-1] / error[1:] > 3).all()
    first = (world.variance / policy.chain().stationary()).mean()
    assert (error < 0.5 * np.abs(first / exact - 1)).all()
    assert error[-1] < 0.1 * abs(first / exact[-1] - 1)


def test_visit_variance_of_large_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite_second_order, "DENSE", 1)
    rows = np.repeat(np.arange(300), 6)
    columns = np.random.default_rng(5).integers(300, size=1800)
    columns[::6] = (rows[::6] + 1) % 300
    mixing = Chain(sp.csr_matrix((np.full(1800, 1 / 6), (rows, columns))))
    wide = Policy.uniform(sj.instances.garnet(1100, 6, 9, seed=0).mdp).chain()
    slow_map = Policy.uniform(sj.instances.grid_survey(7, 7, seed=3).mdp).chain()
    leaving = Chain(sp.csr_matrix([[0.5, 0.5, 0], [0, 0.3, 0.7], [0, 0.6, 0.4]]))
    called = []
    inner = finite_second_order._first_arrivals
    monkeypatch.setattr(
        finite_second_order, "_first_arrivals",
        lambda P, eta, states: called.append(states.size) or inner(P, eta, states),
    )  # fmt: skip
    # Four returns are enough where walks mix at once; then only a probe is made; then all states.
    for chain, states in ((wide, 32), (mixing, 332), (slow_map, None), (leaving, None)):
        called.clear()
        eta = chain.stationary()
        Z = np.linalg.inv(np.eye(eta.size) - chain.transitions.toarray() + eta)
        truth = eta * (2 * np.diag(Z) - 1 - eta)
        found = finite_second_order.visit_variance(chain, eta)
        np.testing.assert_allclose(found, truth, rtol=2e-4, atol=1e-12)
        assert states is None or sum(called) == states


def test_second_order_needs_one_class_that_holds_what_matters() -> None:
    with pytest.raises(ArgumentError, match="3 closed classes"):
        finite_loss(np.eye(3), 1.0, 50, method="second-order")
    leaving = np.array([[0.5, 0.5], [0, 1.0]])
    with pytest.raises(ArgumentError, match="leaves state 0 for good"):
        finite_loss(leaving, 1.0, 50, method="second-order")
    value = finite_loss(leaving, 1.0, 50, weight=[0, 1], method="second-order")
    assert value == pytest.approx(finite_loss(leaving, 1.0, 50, weight=[0, 1]), rel=1e-2)
    with pytest.raises(ArgumentError, match="at least one move"):
        finite_loss(CHAINS["random"], 1.0, 1, method="second-order")


# -- facts ----------------------------------------------------------------------------------


@given(st.data())
def test_facts_are_those_of_the_visit_distribution(data: st.DataObject) -> None:
    mdp = data.draw(mdps())
    policy = data.draw(policies(mdp))
    start = data.draw(distributions(mdp.n_states))
    budgets = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
    counting = data.draw(st.sampled_from(COUNTINGS))
    facts = visit_facts(policy, budgets, start, counting)
    P = policy.transition_matrix().toarray()
    for row, n in enumerate(budgets):
        moves = counting.moves(n)
        assert facts.expected_visits[row].sum() == pytest.approx(moves)
        for s in range(mdp.n_states):
            law = visit_distribution(P, start, moves, s)
            k = np.arange(moves + 1)
            assert facts.unvisited[row, s] == pytest.approx(law[0], rel=1e-9, abs=1e-300)
            assert facts.expected_visits[row, s] == pytest.approx(law @ k, rel=1e-9, abs=1e-14)


def test_expected_visits_of_long_walks_are_the_sum_of_the_powers() -> None:
    for name in ("random", "nearly periodic", "very slow", "absorbing", "nearly reducible"):
        P = CHAINS[name]
        n = len(P)
        row, total = np.full(n, 1 / n), np.zeros(n)
        for _ in range(30_000):
            row = row @ P
            total += row
        facts = visit_facts(P, 30_001)
        np.testing.assert_allclose(facts.expected_visits, total, rtol=1e-10)
        assert visit_facts(P, 10**8).expected_visits.sum() == pytest.approx(10**8, rel=1e-7)


def test_rare_events_keep_their_relative_accuracy() -> None:
    # P(no visit) is a product of survival steps, never 1 minus something.
    P = CHAINS["random"]
    for n in (50, 400):
        exact = [visit_distribution(P, np.full(5, 0.2), n - 1, s)[0] for s in range(5)]
        facts = visit_facts(P, n)
        np.testing.assert_allclose(facts.unvisited, exact, rtol=1e-9)
        assert isinstance(facts.budget, int)
    assert facts.unvisited.min() < 1e-50


# -- gradient -------------------------------------------------------------------------------


def directional(policy: Policy, direction: Array, step: float, **question: object) -> float:
    up = Policy(policy.mdp, policy.probability + step * direction)
    down = Policy(policy.mdp, policy.probability - step * direction)
    return (finite_loss(up, **question) - finite_loss(down, **question)) / (2 * step)  # type: ignore[arg-type]


@given(st.data())
def test_gradient_is_the_central_difference(data: st.DataObject) -> None:
    mdp = data.draw(mdps())
    policy = data.draw(policies(mdp, positive=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    variance = rng.uniform(0.1, 10, mdp.n_states)
    question = {
        "variance": variance,
        "budget": data.draw(st.sampled_from([1, 2, 5, 60])),
        "start": data.draw(distributions(mdp.n_states)),
        "counting": data.draw(st.sampled_from(COUNTINGS)),
    }
    loss, gradient = finite_loss_gradient(policy, **question)  # type: ignore[arg-type]
    assert loss == pytest.approx(finite_loss(policy, **question), rel=1e-9)  # type: ignore[arg-type]
    p = policy.probability
    np.testing.assert_allclose(mdp.state_sums(p * gradient), 0, atol=1e-9 * loss)
    noise = rng.standard_normal(mdp.n_pairs)
    direction = p * (noise - mdp.to_pairs(mdp.state_sums(p * noise)))
    expected = directional(policy, direction, 1e-4, **question)
    assert gradient @ direction == pytest.approx(expected, rel=1e-5, abs=1e-6 * loss)


@pytest.mark.parametrize("counting", COUNTINGS, ids=str)
def test_both_gradients_agree(counting: sj.PriorSample | VisitsOnly) -> None:
    for n_states in (5, 40):
        world = sj.instances.garnet(n_states, 3, 4, seed=2)
        policy = Policy.uniform(world.mdp)
        fast = finite_loss_gradient(
            policy, world.variance, 300, counting=counting, method="contour"
        )
        safe = finite_loss_gradient(policy, world.variance, 300, counting=counting, method="series")
        assert fast.loss == pytest.approx(safe.loss, rel=1e-9)
        np.testing.assert_allclose(
            fast.gradient, safe.gradient, atol=1e-7 * np.abs(safe.gradient).max()
        )


def test_gradient_where_the_contour_fails() -> None:
    world = sj.instances.path(6)
    policy = Policy.uniform(world.mdp)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(world.mdp.n_pairs) * policy.probability
    direction = noise - policy.probability * world.mdp.to_pairs(world.mdp.state_sums(noise))
    question = {"variance": world.variance, "budget": 150}
    _, gradient = finite_loss_gradient(policy, **question)  # type: ignore[arg-type]
    assert gradient @ direction == pytest.approx(
        directional(policy, direction, 1e-4, **question), rel=1e-6
    )
    with pytest.raises(ArgumentError, match="not exact"):
        finite_loss_gradient(policy, world.variance, 150, method="contour")


# -- Lem. asmyptoric.performance ------------------------------------------------------------


def test_the_lemma_holds_on_random_reversible_worlds() -> None:
    from sojourn.planning.regularized import concentration_width, performance_gap
    from sojourn.testing import random_reversible

    rng = np.random.default_rng(11)
    largest, checked = 0.0, 0
    for _ in range(40):
        P, eta = random_reversible(int(rng.integers(2, 6)), rng, ratio=10)
        slem = np.sort(np.abs(np.linalg.eigvals(P)))[-2]
        gap = 1 - slem
        if gap < 0.05:
            continue
        variance = rng.exponential(size=eta.size)
        start = int(rng.integers(eta.size))
        asymptotic = (variance / eta).mean()
        # "n is big enough": ε ≤ η/2 in every state, with δ = 1/n² for a single chain.
        n = 1000
        while (concentration_width(eta, gap, n, 2 * np.log(n)) > eta / 2).any():
            n *= 2
        if n > 2_000_000:
            continue
        left = abs(finite_loss(P, variance, n, start=start) - asymptotic)
        right = performance_gap(eta, gap, variance, n)
        assert left <= right
        largest, checked = max(largest, left / right), checked + 1
    assert checked >= 20
    # The bound is of the right order, so the comparison isn't empty.
    assert largest > 0.05


# -- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"budget": 0}, "the budget 0 is not positive"),
        ({"budget": [5, -3]}, "the budget -3 is not positive"),
        ({"budget": 2.5}, "not a whole number"),
        ({"budget": float("nan")}, "not a whole number"),
        ({"budget": True}, "not a whole number"),
        ({"budget": []}, "no budget"),
        ({"budget": 10**30}, "longer than 1e+12 steps"),
        ({"budget": [10, 1e300]}, "longer than 1e+12 steps"),
        ({"budget": np.inf}, "not a whole number"),
        ({"budget": None}, "not a whole number"),
        ({"start": 5}, "start state 5 is outside the world of 5 states"),
        ({"start": -1}, "start state -1 is outside"),
        ({"start": 1.5}, "neither a state's index nor a distribution"),
        ({"start": [0.5, 0.5]}, "shape"),
        ({"start": [1, 0, 0, 0, 0.5]}, "not a probability distribution"),
        ({"variance": -1.0}, "variance of state 0 is -1"),
        ({"variance": [1.0, 2.0]}, "variance has shape"),
        ({"weight": np.nan}, "weight of state 0 is nan"),
        ({"counting": "prior"}, "there is no counting 'prior'"),
        ({"method": "exact"}, "use one of " + ", ".join(METHODS)),
    ],
)
def test_wrong_arguments_get_a_sentence(change: dict[str, object], sentence: str) -> None:
    question: dict[str, object] = {"variance": 1.0, "budget": 10}
    with pytest.raises(ArgumentError, match=re.escape(sentence)) as caught:
        finite_loss(CHAINS["random"], **(question | change))  # type: ignore[arg-type]
    assert caught.value.hint or "shape" in caught.value.message


def test_wrong_policies_get_a_sentence() -> None:
    with pytest.raises(sj.ModelError, match="sum to"):
        finite_loss(np.full((2, 2), 0.4), 1.0, 10)
    world = sj.instances.three_state()
    for thing in (world, world.mdp):
        with pytest.raises(ArgumentError, match="doesn't say how to walk"):
            finite_loss(thing, 1.0, 10)
    for unvisited in (-1.0, float("nan"), float("inf"), "much", True):
        with pytest.raises(ArgumentError, match="unvisited is"):
            VisitsOnly(unvisited=unvisited)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="give a Policy"):
        finite_loss_gradient(CHAINS["random"], 1.0, 10)  # type: ignore[arg-type]
    world = sj.instances.garnet(5, 2, 3, seed=0)
    with pytest.raises(ArgumentError, match="one budget is needed"):
        finite_loss_gradient(Policy.uniform(world.mdp), 1.0, [10, 20])
    big = MDP(sp.identity(600, format="csr"), np.arange(601))
    with pytest.raises(ArgumentError, match="600 states are more than the 500"):
        finite_loss_gradient(Policy.uniform(big), 1.0, 10)
