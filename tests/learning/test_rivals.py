"""The rivals do what their papers say."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray

from sojourn import MDP, World, instances, optimal_plan, simulate
from sojourn.errors import ArgumentError, StrategyError
from sojourn.learning import (
    AverageReward,
    Bandit,
    Fixed,
    Lawnmower,
    MaxEntropy,
    Oracle,
    Uniform,
    WeightedMaxEntropy,
)  # fmt: skip
from sojourn.testing import SlowWalks

WORLD = instances.garnet(5, 3, 2, seed=1)
COMPLETE = instances.complete(6).replace(variance=[0.01, 0.1, 0.5, 1.0, 4.0, 9.0])


def best_entropy(mdp: MDP, weight: NDArray) -> tuple[float, NDArray]:
    """max −Σ w η log η over stationary occupancies, and its η, by cvxpy."""
    x = cp.Variable(mdp.n_pairs, nonneg=True)
    E = np.eye(mdp.n_states)[mdp.pair_state]
    eta = E.T @ x
    balance = [eta == mdp.transitions.toarray().T @ x, cp.sum(x) == 1]
    problem = cp.Problem(cp.Maximize(weight @ cp.entr(eta)), balance)
    return float(problem.solve()), np.asarray(eta.value)


# -- yardsticks -----------------------------------------------------------------------------


def test_the_oracle_plays_the_optimal_plan() -> None:
    plan = optimal_plan(WORLD.mdp, WORLD.variance)
    a = simulate(WORLD, Oracle(), 200, runs=10)
    b = simulate(WORLD, Fixed(plan.policy), 200, runs=10)
    np.testing.assert_array_equal(a.mean, b.mean)
    weight = np.array([1.0, 2, 3, 4, 5])
    plan = optimal_plan(WORLD.mdp, WORLD.variance, weight=weight)
    a = simulate(WORLD, Oracle(), 200, runs=10, weight=weight)
    b = simulate(WORLD, Fixed(plan.policy), 200, runs=10, weight=weight)
    np.testing.assert_array_equal(a.mean, b.mean)


def test_fixed_takes_a_policy() -> None:
    with pytest.raises(ArgumentError, match="takes a Policy"):
        Fixed(np.ones(3))  # type: ignore[arg-type]


# -- entropies ------------------------------------------------------------------------------


def test_max_entropy_spreads_the_visits_as_evenly_as_the_world_allows() -> None:
    sim = simulate(WORLD, MaxEntropy(), 50_000, runs=8)
    share = sim.visits / sim.visits.sum(axis=1, keepdims=True)
    reached = -(share * np.log(share)).sum(axis=1)
    best, _ = best_entropy(WORLD.mdp, np.ones(5))
    assert (reached <= best + 1e-3).all()
    assert (reached > best - 0.01).all()
    uniform = simulate(WORLD, Uniform(), 50_000, runs=8).visits / 50_000
    assert (-(uniform * np.log(uniform)).sum(axis=1) < best - 0.02).all()
    with pytest.raises(ArgumentError):
        MaxEntropy(smoothing=0.0)


def test_weighted_max_entropy() -> None:
    sim = simulate(WORLD, WeightedMaxEntropy(known_variance=True), 50_000, runs=8)
    share = sim.visits / sim.visits.sum(axis=1, keepdims=True)
    reached = -(share * np.log(share)) @ WORLD.variance
    best, _ = best_entropy(WORLD.mdp, WORLD.variance)
    assert (reached <= best * (1 + 1e-3)).all()
    assert (reached > best * (1 - 0.01)).all()


def test_an_entropy_is_not_the_error() -> None:
    """Even with the variances known, its allocation is that of another objective."""
    world = COMPLETE.replace(variance=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
    _, eta = best_entropy(world.mdp, world.variance)
    strategy = WeightedMaxEntropy(known_variance=True, schedule=10)
    sim = simulate(world, strategy, 20_000, runs=4)
    price = (world.variance / eta).mean() / sim.optimal_loss - 1
    assert price > 0.05
    assert sim.allocation_ratio[0] == pytest.approx(price, rel=0.15)


# -- average reward -------------------------------------------------------------------------


def test_average_reward_is_close_on_garnets() -> None:
    ratios = [
        simulate(instances.garnet(5, 3, 2, seed=s), AverageReward(), 500, runs=30).allocation_ratio
        for s in range(8)
    ]
    assert np.mean(ratios) < 0.1


def test_average_reward_chatters_where_switching_costs() -> None:
    sim = simulate(instances.three_state(), AverageReward(known_variance=True), 500, runs=100)
    assert 0.3 < sim.allocation_ratio[0] < 0.7


def test_average_reward_in_large_worlds_decides_nearly_as_policy_iteration_would() -> None:
    world = instances.garnet(60, 3, 3, seed=2)
    strategy = AverageReward(known_variance=True)
    exact = simulate(world, strategy, 2000, runs=4).allocation_ratio[0]

    class Iterating(AverageReward):
        def start(self, task: Any) -> Any:
            super().start(task)
            return {"value": np.zeros((task.walks, task.n_states))}

    iterated = simulate(world, Iterating(known_variance=True), 2000, runs=4).allocation_ratio[0]
    assert abs(iterated - exact) < 0.01 + 0.2 * exact
    with pytest.raises(ArgumentError):
        AverageReward(every=0)


# -- lawnmower ------------------------------------------------------------------------------


def test_the_sweep_goes_round() -> None:
    """A ring with both directions: every site once per lap."""
    world = instances.cycle(7)
    sim = simulate(world, Lawnmower(), 7 * 20, runs=20)
    assert (np.abs(sim.visits - 20) <= 1).all()


def test_only_sites_that_matter_are_visited_on_purpose() -> None:
    world = World(MDP.from_grid("......"), start=2)
    weight = np.array([0.0, 0, 1, 0, 1, 0])
    sim = simulate(world, Lawnmower(), 200, runs=3, weight=weight)
    assert (sim.visits[:, [0, 1, 5]] == 0).all()
    assert (sim.visits[:, 2:5].min(axis=1) >= 49).all()


def test_one_site() -> None:
    world = World(MDP.from_array(np.ones((1, 1, 1))))
    assert (simulate(world, Lawnmower(), 9, runs=2).visits == 9).all()


def test_the_sweep_gets_through_a_world_that_slips() -> None:
    world = instances.grid_survey(8, 8, seed=3)
    sim = simulate(world, Lawnmower(), 4000, runs=5)
    assert (sim.visits > 0).all()


def test_no_round_trip() -> None:
    mdp = MDP.from_transitions([("a", "go", "b", 1.0), ("b", "stay", "b", 1.0)])
    with pytest.raises(StrategyError, match="state 'a' can't be reached from state 'b'"):
        simulate(World(mdp), Lawnmower(), 10, allow_infinite=True)


# -- bandits --------------------------------------------------------------------------------


def test_fw_ucb_on_this_loss_is_ch_as() -> None:
    """As the paper says: the vertex that Frank-Wolfe picks is the state with CH-AS's index."""
    walks = SlowWalks(COMPLETE, Bandit("ch-as"), 400, walks=5)
    frank_wolfe = Bandit("fw-ucb")
    while walks.asking.size:
        asking = walks.asking
        decision = walks.decide(asking)
        other = frank_wolfe.plan(walks.task, {}, walks.seen, asking)
        np.testing.assert_array_equal(decision.actions, other.actions)
        walks.follow(decision, asking)
    a, b = (simulate(COMPLETE, Bandit(rule), 1000, runs=20) for rule in ("ch-as", "fw-ucb"))
    np.testing.assert_array_equal(a.visits, b.visits)


@pytest.mark.parametrize("rule", ["ch-as", "b-as", "gafs", "fw-ucb"])
def test_rules_approach_the_optimal_allocation(rule: str) -> None:
    """T ∝ σ for the mean error, where the optimum is (Σσ)²/S."""
    sim = simulate(COMPLETE, Bandit(rule, width=0.05), 5000, runs=10)
    deviation = np.sqrt(COMPLETE.variance)
    assert sim.optimal_loss == pytest.approx(deviation.sum() ** 2 / 6)
    assert sim.allocation_ratio[0] < 0.05
    short = simulate(COMPLETE, Bandit(rule, width=0.05), 200, runs=50).allocation_ratio[0]
    assert 0 < sim.allocation_ratio[0] < short


@pytest.mark.parametrize("rule", ["ch-as", "b-as", "gafs"])
def test_the_published_rules_serve_the_worst_state(rule: str) -> None:
    """T ∝ σ² in the long run, which makes the largest σ²/T the smallest."""
    sim = simulate(COMPLETE, Bandit(rule, loss="max", width=0.02), 5000, runs=10)
    worst = (COMPLETE.variance / sim.visits).max(axis=1).mean()
    mean_rule = simulate(COMPLETE, Bandit(rule, width=0.02), 5000, runs=10)
    assert worst < (COMPLETE.variance / mean_rule.visits).max(axis=1).mean()
    assert worst < 1.2 * COMPLETE.variance.sum() / 5000
    assert mean_rule.allocation_ratio[0] < sim.allocation_ratio[0]


def test_every_state_is_sampled_twice_first() -> None:
    sim = simulate(COMPLETE, Bandit(), 12, runs=5)
    assert (sim.visits == 2).all()
    weight = np.array([0.0, 1, 1, 1, 1, 1])
    assert (simulate(COMPLETE, Bandit(), 500, runs=5, weight=weight).visits[:, 0] == 0).all()


def test_gafs_never_starves_a_state() -> None:
    sim = simulate(COMPLETE, Bandit("gafs"), 2500, runs=10)
    assert (sim.visits >= 50).all()


def test_worlds_with_travel_are_refused() -> None:
    with pytest.raises(StrategyError, match="no action leads from state 0 to state"):
        simulate(WORLD, Bandit(), 10)
    nearly = MDP.from_transitions(
        [(s, t, u, 0.9 if t == u else 0.1) for s in "ab" for t in "ab" for u in "ab"]
    )
    with pytest.raises(StrategyError, match="for certain"):
        simulate(World(nearly), Bandit(), 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "ucb1"}, "ch-as, b-as, gafs, fw-ucb"),
        ({"loss": "median"}, "mean, max"),
        ({"rule": "fw-ucb", "loss": "max"}, "smooth"),
        ({"width": -1.0}, "width is -1"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Bandit(**options)
    assert message in str(caught.value)
