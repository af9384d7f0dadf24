"""Plans for a budget: local optimality, a proved bound, and the paper's example."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import sojourn as sj
from sojourn import MDP, ArgumentError, Policy, PriorSample, VisitsOnly
from sojourn.planning import (
    BudgetStatus,
    budget_plan,
    exact_optimum,
    finite_bound,
    finite_loss,
    finite_loss_gradient,
    regularized_plan,
)
from sojourn.planning.finite import Prices
from sojourn.planning.finite_bound import _Costs
from sojourn.planning.policy_descent import promise
from sojourn.planning.regularized import RegularizedLoss, log_policies, performance_gap
from sojourn.testing import distributions, mdps, policies, variances

COUNTINGS = (PriorSample(), VisitsOnly(), VisitsOnly(unvisited=0.3))


# -- the plan -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "loss", "digits"), [(20, 2.351, 5e-4), (100, 1.812, 5e-4), (1000, 1.469, 5e-4)]
)
def test_three_states_of_the_paper(budget: int, loss: float, digits: float) -> None:
    world = sj.instances.three_state()
    plan = budget_plan(world.mdp, world.variance, budget)
    assert plan.loss == pytest.approx(loss, abs=digits)
    assert plan.status is BudgetStatus.LOCAL
    assert finite_loss(plan.policy, world.variance, budget) == pytest.approx(plan.loss, rel=1e-9)

    # By symmetry one crossing rate describes the optimum: search it by brute force.
    def symmetric(p: float) -> float:
        policy = Policy(world.mdp, [1 - p, p, 0.5, 0.5, p, 1 - p])
        return float(finite_loss(policy, world.variance, budget))

    best = minimize_scalar(symmetric, bounds=(0.01, 0.9), method="bounded", options={"xatol": 1e-9})
    assert plan.loss == pytest.approx(best.fun, rel=1e-7)


@settings(max_examples=15)
@given(st.data())
def test_no_start_and_no_policy_beats_it_and_it_is_above_its_bound(data: st.DataObject) -> None:
    mdp = data.draw(mdps(max_states=4))
    variance = data.draw(variances(mdp.n_states, ratio=1e6))
    start = data.draw(distributions(mdp.n_states))
    counting = data.draw(st.sampled_from(COUNTINGS))
    budget = data.draw(st.sampled_from([1, 3, 12, 80]))
    mine = data.draw(policies(mdp))
    plan = budget_plan(mdp, variance, budget, start, counting, starts=[mine])
    assert plan.bound <= plan.loss
    assert plan.loss == pytest.approx(
        finite_loss(plan.policy, variance, budget, start, counting), rel=1e-9
    )
    for record in plan.starts_table:
        assert record.after <= record.before * (1 + 1e-9)
        assert plan.loss <= record.after * (1 + 1e-7)
    assert plan.loss <= finite_loss(mine, variance, budget, start, counting) * (1 + 1e-9)
    assert 0 <= plan.gap <= 1
    if plan.status is BudgetStatus.LOCAL and plan.loss > 0:
        slope = finite_loss_gradient(plan.policy, variance, budget, start, counting).gradient
        assert promise(mdp, slope) <= 2e-6 * plan.loss


def test_bound_optimum_plan_in_this_order() -> None:
    world = sj.instances.garnet(3, 2, 2, seed=6)
    for counting in COUNTINGS:
        for budget in (2, 10, 60):
            plan = budget_plan(world.mdp, world.variance, budget, counting=counting)
            best = exact_optimum(world.mdp, world.variance, budget, counting=counting)
            assert plan.bound <= best.loss * (1 + 1e-12) <= plan.loss * (1 + 1e-9)


def test_where_the_fast_gradient_is_wrong_the_exact_one_finishes() -> None:
    world = sj.instances.path(6)
    plan = budget_plan(world.mdp, world.variance, 100)
    slope = finite_loss_gradient(plan.policy, world.variance, 100, method="series")
    assert promise(world.mdp, slope.gradient) <= 1e-6 * plan.loss
    optimum = sj.optimal_plan(world.mdp, world.variance).policy
    assert plan.loss < 0.5 * finite_loss(optimum, world.variance, 100)


def test_same_seed_same_bits() -> None:
    world = sj.instances.garnet(5, 3, 2, seed=1)
    first, again = (budget_plan(world.mdp, world.variance, 30, seed=4) for _ in range(2))
    assert (first.policy.probability == again.policy.probability).all()
    assert first.starts_table == again.starts_table
    assert first.winner in str(first)
    assert first.winner in {record.name for record in first.starts_table}


def test_starts() -> None:
    world = sj.instances.garnet(5, 3, 2, seed=1)
    few = budget_plan(world.mdp, world.variance, 30, starts=0)
    assert not any(record.name.startswith("random") for record in few.starts_table)
    good = budget_plan(world.mdp, world.variance, 30).policy
    with_mine = budget_plan(world.mdp, world.variance, 30, starts=[good])
    assert "yours 1" in {record.name for record in with_mine.starts_table}
    foreign = Policy.uniform(sj.instances.garnet(5, 3, 2, seed=2).mdp)
    with pytest.raises(ArgumentError, match="start 0 is not a policy of this world"):
        budget_plan(world.mdp, world.variance, 30, starts=[foreign])
    with pytest.raises(ArgumentError, match="random starts is -1"):
        budget_plan(world.mdp, world.variance, 30, starts=-1)


def test_what_is_worth_knowing_is_said() -> None:
    world = sj.instances.garnet(5, 3, 2, seed=1)
    assert any("2 moves can't visit all 5" in n for n in budget_plan(world.mdp, 1.0, 3).notes)
    mdp = MDP.from_transitions(
        [("a", "x", "b", 1.0), ("b", "x", "b", 1.0), ("c", "x", "b", 1.0), ("b", "y", "a", 1.0)]
    )
    plan = budget_plan(mdp, 1.0, 10, start=mdp.state_index("a"))
    assert any("no policy visits 'c'" in note for note in plan.notes)
    # π_λ* doesn't exist there: the loss would be infinite. That is a note, not the end.
    assert any("no start from asymptotic optimum" in note for note in plan.notes)
    still = budget_plan(world.mdp, 0.0, 10)
    assert still.status is BudgetStatus.TRIVIAL
    assert still.loss == still.gap == 0.0


def test_one_state_and_one_action() -> None:
    lonely = MDP.from_array(np.ones((1, 1, 1)))
    plan = budget_plan(lonely, 2.0, 7)
    assert plan.loss == pytest.approx(2.0)
    assert plan.bound == pytest.approx(2.0)
    ring = sj.instances.cycle(4).mdp
    assert budget_plan(ring, 1.0, 9, start=0).loss == pytest.approx(
        finite_loss(Policy.uniform(ring), 1.0, 9, start=0)
    )


def test_bad_questions() -> None:
    world = sj.instances.three_state()
    with pytest.raises(ArgumentError, match="the budget 0 is not positive"):
        budget_plan(world.mdp, world.variance, 0)
    with pytest.raises(ArgumentError, match="one budget is needed"):
        budget_plan(world.mdp, world.variance, [10, 20])
    with pytest.raises(ArgumentError, match="start state 3 is outside"):
        budget_plan(world.mdp, world.variance, 10, start=3)
    large = sj.instances.path(501).mdp
    with pytest.raises(ArgumentError, match="501 states are more than the 500"):
        budget_plan(large, 1.0, 10)


# -- the bound ------------------------------------------------------------------------------


@given(st.data())
def test_the_conjugate_is_a_minimum_over_integers(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    counting = data.draw(st.sampled_from(COUNTINGS))
    variance = data.draw(variances(n))
    budget = data.draw(st.integers(2, 60))
    costs = _Costs(Prices.of(variance, n, budget, counting, None))
    price = np.array(data.draw(st.lists(st.floats(0, 1e3), min_size=n, max_size=n)))
    k = np.arange(costs.moves + 1.0)[:, None]
    value, argument = costs.conjugate(price)
    np.testing.assert_allclose(value, (costs.cost(k) + price * k).min(axis=0), rtol=1e-12)
    np.testing.assert_allclose(value, costs.cost(argument) + price * argument, rtol=1e-12)


@settings(max_examples=25)
@given(st.data())
def test_the_bound_holds_for_any_prices(data: st.DataObject) -> None:
    mdp = data.draw(mdps(max_states=5))
    variance = data.draw(variances(mdp.n_states, ratio=1e6))
    start = data.draw(distributions(mdp.n_states))
    counting = data.draw(st.sampled_from(COUNTINGS))
    budget = data.draw(st.integers(1, 50))
    found = finite_bound(mdp, variance, budget, start, counting)
    policy = data.draw(policies(mdp))
    assert found.bound <= finite_loss(policy, variance, budget, start, counting) * (1 + 1e-9)
    assert found.pair_counts.sum() == pytest.approx(counting.moves(budget))
    assert (found.prices >= 0).all()


def test_the_bound_is_nearly_attained_where_moves_are_certain() -> None:
    world = sj.instances.three_state()
    for counting in COUNTINGS[:2]:
        found = finite_bound(world.mdp, world.variance, 60, counting=counting)
        best = exact_optimum(world.mdp, world.variance, 60, counting=counting)
        assert best.loss * (1 - 1e-2) <= found.bound <= best.loss * (1 + 1e-12)


def test_the_asymptotic_optimum_bounds_no_short_budget() -> None:
    # Why the plan doesn't use 𝓛(λ*): with a prior sample a real policy is below it.
    world = sj.instances.three_state()
    assert exact_optimum(world.mdp, world.variance, 20).loss < 1.34
    assert sj.optimal_plan(world.mdp, world.variance).loss > 1.37


# -- the regularized problem ----------------------------------------------------------------


@settings(max_examples=25)
@given(st.data())
def test_regularized_value_and_gradient(data: st.DataObject) -> None:
    mdp = data.draw(mdps(communicating=True, kinds=("ragged", "dense", "near-reducible")))
    policy = data.draw(policies(mdp, positive=True))
    variance = data.draw(variances(mdp.n_states, ratio=100))
    objective = RegularizedLoss(mdp, variance, 1000)
    p = policy.probability
    value, gradient = objective(p)
    moduli = np.sort(np.abs(np.linalg.eigvals(policy.transition_matrix().toarray())))
    slem = moduli[-2] if mdp.n_states > 1 else 0.0
    if not np.isfinite(value) or slem > 0.99:
        return
    eta = policy.chain().stationary()
    direct = (variance / eta).mean()
    direct += performance_gap(eta, 1 - slem, variance, 1000, log_policies(mdp))
    assert value == pytest.approx(direct, rel=1e-7)
    third = moduli[-3] if mdp.n_states > 2 else 0.0
    if slem - third < 1e-3 or slem < 1e-2:
        return  # a kink
    noise = np.random.default_rng(0).standard_normal(mdp.n_pairs)
    direction = p * (noise - mdp.to_pairs(mdp.state_sums(p * noise)))
    step = 1e-6
    slope = (objective.value(p + step * direction) - objective.value(p - step * direction)) / (
        2 * step
    )
    assert gradient @ direction == pytest.approx(slope, rel=1e-3, abs=1e-4 * value)


def test_lemma_on_the_regularized_policy() -> None:
    # Lem. reg.performance: 𝓛_n(π_reg) − 𝓛_n(π_n) ≤ 2 ℓ_n(π_n), both losses exact.
    world = sj.instances.three_state()
    for budget in (1000, 20_000):
        regular = regularized_plan(world.mdp, world.variance, budget)
        best = budget_plan(world.mdp, world.variance, budget)
        chain = best.policy.transition_matrix().toarray()
        gap = 1 - np.sort(np.abs(np.linalg.eigvals(chain)))[-2]
        eta = best.policy.chain().stationary()
        allowed = 2 * performance_gap(eta, gap, world.variance, budget, log_policies(world.mdp))
        assert 0 <= regular.loss - best.loss <= allowed
        # It is a compromise between its two terms, so it beats both ends on their sum.
        objective = RegularizedLoss(world.mdp, np.asarray(world.variance), budget)
        assert regular.regularized is not None
        for other in (best.policy, sj.optimal_plan(world.mdp, world.variance).policy):
            assert regular.regularized <= objective.value(other.probability) * (1 + 1e-9)


def test_regularized_refuses_what_the_lemma_excludes() -> None:
    with pytest.raises(ArgumentError, match="ℓ_n is infinite"):
        regularized_plan(sj.instances.cycle(4).mdp, 1.0, 100)
