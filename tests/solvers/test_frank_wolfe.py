"""The Frank–Wolfe family: proofs that hold, rates in the right order, agreement with cvxpy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import ArgumentError, InfeasibleFloor, InfiniteLoss
from sojourn.planning.linear import largest_floor
from sojourn.solvers.frank_wolfe import (
    METHODS,
    AwayStep,
    Ending,
    Look,
    Method,
    OpenLoop,
    Point,
    Problem,
    Record,
    best_step,
    frank_wolfe,
)
from sojourn.solvers.linear_oracle import LinearOracle
from sojourn.solvers.objectives import (
    Entropy,
    LogError,
    MeanError,
    Objective,
    PowerMean,
    WorstState,
)
from sojourn.testing.arbitrary import mdps
from sojourn.testing.generators import random_mdp

SANE = ("ragged", "deterministic", "periodic", "one_action", "one_state")


def by_cvxpy(mdp: sj.MDP, variance: np.ndarray, floor: float = 0.0) -> float:
    E = np.zeros((mdp.n_states, mdp.n_pairs))
    E[mdp.pair_state, np.arange(mdp.n_pairs)] = 1.0
    x = cp.Variable(mdp.n_pairs, nonneg=True)
    eta = E @ x
    problem = cp.Problem(
        cp.Minimize(variance @ cp.inv_pos(eta) / mdp.n_states),
        [cp.sum(x) == 1, (E - mdp.transitions.toarray().T) @ x == 0, eta >= 2 * floor],
    )
    return float(problem.solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("variant", METHODS)
@pytest.mark.parametrize("floored", [False, True])
def test_every_variant_brackets_the_optimum(variant: str, floored: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(6):
        mdp = random_mdp("ragged", int(rng.integers(2, 7)), 3, rng)
        variance = rng.uniform(0.1, 1.0, mdp.n_states)
        floor = 0.8 * largest_floor(mdp) if floored else 0.0
        optimum = by_cvxpy(mdp, variance, floor)
        result = frank_wolfe(
            mdp, MeanError(variance), variant, tolerance=1e-3, max_iterations=2000, floor=floor
        )
        assert result.status is Ending.CONVERGED
        assert result.method == variant
        assert result.bound <= optimum * (1 + 1e-6)
        assert result.value >= optimum * (1 - 1e-6)
        assert result.gap <= 1e-3
        x = result.occupancy
        assert (x >= 0).all()
        assert np.abs(mdp.flow_residual(x)).max() < 1e-12
        assert (mdp.state_sums(x) >= 2 * floor * (1 - 1e-8)).all()
        # Every gap of the history was true, and its bounds too.
        for record in result.history:
            assert record.value - record.fw_gap <= optimum * (1 + 1e-6)
            assert record.value >= optimum * (1 - 1e-6)


@settings(max_examples=25, deadline=None)
@given(
    mdp=mdps(kinds=SANE, max_states=6),
    seed=st.integers(0, 2**32 - 1),
    which=st.sampled_from([MeanError, LogError, Entropy, PowerMean]),
)
def test_full_correction_needs_few_steps(mdp: sj.MDP, seed: int, which: type[Objective]) -> None:
    variance = 10.0 ** np.random.default_rng(seed).uniform(-3, 0, mdp.n_states)
    objective = which(variance)
    best = frank_wolfe(mdp, objective, "fully-corrective", 1e-7, 100)
    assert best.status is Ending.CONVERGED
    assert best.iterations <= 60
    for variant in ("frank-wolfe", "away-step", "pairwise"):
        other = frank_wolfe(mdp, objective, variant, 1e-7, 40)
        slack = 1e-9 * max(1.0, abs(best.value))
        assert other.bound <= best.value + slack
        assert best.bound <= other.value + slack


def test_full_correction_goes_to_the_last_digits() -> None:
    """The value is flat at the optimum and the gap is not: weights that are off by 1e-9 change
    the one by 1e-18 and the other by 1e-9."""
    for seed in range(20, 40):
        rng = np.random.default_rng(seed)
        mdp = random_mdp(("ragged", "deterministic", "periodic")[seed % 3], 6, 3, rng)
        found = frank_wolfe(mdp, LogError(rng.uniform(0.1, 2.0, 6)), "fully-corrective", 1e-11, 40)
        assert found.gap < 1e-10, seed
        assert found.status in (Ending.CONVERGED, Ending.STALLED)


def test_variances_of_zero_and_of_every_size() -> None:
    rng = np.random.default_rng(2)
    for variance in (
        np.array([1.0, 0.0, 1e-12, 1.0, 0.0, 1e-6]),
        10.0 ** rng.uniform(-12, 0, 6),
        np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
    ):
        mdp = random_mdp("ragged", 6, 3, rng)
        result = frank_wolfe(mdp, MeanError(variance), "fully-corrective", 1e-8, 200)
        assert result.gap <= 1e-8
        plan = sj.optimal_plan(mdp, variance, tolerance=1e-9)
        assert result.value == pytest.approx(plan.loss, rel=1e-7)


def test_descent_and_the_order_of_the_rates() -> None:
    world = sj.instances.garnet(8, 3, 3, seed=1)
    objective = MeanError(world.variance)
    needed = {}
    for variant in METHODS:
        result = frank_wolfe(world.mdp, objective, variant, 1e-4, 3000)
        assert result.status is Ending.CONVERGED
        needed[variant] = result.iterations
        values = np.array([record.value for record in result.history])
        gaps = np.array([record.gap for record in result.history])
        if variant != "frank-wolfe":
            assert (np.diff(values) <= 1e-12 * values[:-1]).all()
        assert gaps[-1] <= 1e-4 < gaps[:-1].min()
        assert [record.iteration for record in result.history] == list(range(len(values)))
        # f* ≤ f and the best bound so far: no gap can undercut the true one.
        true = values - values.min()
        assert (gaps * values >= true - 1e-4 * values.min()).all()
    assert needed["fully-corrective"] <= 20
    assert needed["fully-corrective"] < min(needed["pairwise"], needed["away-step"])
    assert max(needed["pairwise"], needed["away-step"]) < needed["frank-wolfe"]


def test_the_open_loop_is_the_textbook_recursion() -> None:
    world = sj.instances.garnet(5, 3, 2, seed=3)
    mdp, objective = world.mdp, MeanError(world.variance)
    result = frank_wolfe(mdp, objective, "frank-wolfe", 0.0, 25)
    oracle = LinearOracle(mdp)
    x = sj.Policy.uniform(mdp).occupancy()
    for k in range(1, 26):
        vertex = oracle.solve(objective.gradient(mdp.state_sums(x))).occupancy
        x = x + 2.0 / (k + 2.0) * (vertex - x)
    np.testing.assert_allclose(result.occupancy, x, atol=1e-14)
    assert result.status is Ending.ITERATIONS
    assert result.iterations == 25
    constant = frank_wolfe(mdp, objective, OpenLoop(lambda k: 0.01), 0.0, 5)
    assert all(record.step == 0.01 for record in constant.history[1:])


def test_the_line_search_is_exact() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        objective = MeanError(rng.uniform(0.1, 1, 4))
        eta, other = rng.dirichlet(np.ones(4), size=2)
        if rng.random() < 0.5:
            other = np.eye(4)[rng.integers(4)]  # the loss is infinite at the far end
        gamma = best_step(objective, eta, other - eta, 1.0)
        grid = np.linspace(0, 1, 2001)
        with np.errstate(all="ignore"):
            values = [objective.value(eta + g * (other - eta)) for g in grid]
        assert 0 <= gamma <= 1
        assert objective.value(eta + gamma * (other - eta)) <= min(values) * (1 + 1e-12)


def test_mixtures_drop_the_start_and_stay_small() -> None:
    world = sj.instances.garnet(10, 3, 2, seed=5)
    result = frank_wolfe(world.mdp, MeanError(world.variance), "fully-corrective", 1e-9, 100)
    assert result.history[-1].atoms <= 11
    drops = frank_wolfe(world.mdp, MeanError(world.variance), AwayStep(), 1e-4, 2000)
    assert {"away", "towards"} <= {record.move for record in drops.history}


def test_a_method_of_ones_own_and_a_watcher() -> None:
    class Timid(Method):
        name = "timid"

        def step(self, problem: Problem, point: Point, seen: Look, k: int) -> Point:
            gamma = 0.1 * best_step(problem.objective, point.eta, seen.eta - point.eta, 1.0)
            x = point.occupancy + gamma * (seen.vertex - point.occupancy)
            return Point(x, problem.mdp.state_sums(x), step=gamma, move="timid")

    world = sj.instances.garnet(5, 3, 2, seed=6)
    seen: list[Record] = []
    result = frank_wolfe(
        world.mdp, MeanError(world.variance), Timid(), 1e-2, 500, watch=seen.append
    )
    assert result.method == "timid"
    assert seen == result.history
    assert result.gap < seen[0].gap


def test_a_start_of_ones_own() -> None:
    world = sj.instances.garnet(5, 3, 2, seed=7)
    mdp, objective = world.mdp, MeanError(world.variance)
    best = frank_wolfe(mdp, objective, "fully-corrective", 1e-10)
    again = frank_wolfe(mdp, objective, "away-step", 1e-8, start=best.occupancy)
    assert again.iterations == 0
    corner = LinearOracle(mdp).solve(np.arange(5.0)).occupancy
    with pytest.raises(InfiniteLoss, match="not visited"):
        frank_wolfe(mdp, objective, start=corner)
    with pytest.raises(ArgumentError, match="not a stationary occupancy"):
        frank_wolfe(mdp, objective, start=np.full(mdp.n_pairs, 1.0 / mdp.n_pairs))
    with pytest.raises(ArgumentError, match="not a stationary occupancy"):
        frank_wolfe(mdp, objective, start=np.ones(3))


def test_wrong_arguments_are_named() -> None:
    mdp = sj.instances.river_swim(4).mdp
    objective = MeanError(np.ones(4))
    with pytest.raises(ArgumentError, match="use one of frank-wolfe, line-search"):
        frank_wolfe(mdp, objective, "newton")
    with pytest.raises(ArgumentError, match="not smooth"):
        frank_wolfe(mdp, WorstState(np.ones(4)))
    with pytest.raises(ArgumentError, match="3 states, the model 4"):
        frank_wolfe(mdp, MeanError(np.ones(3)))
    with pytest.raises(ArgumentError, match="floor is"):
        frank_wolfe(mdp, objective, floor=-1.0)
    with pytest.raises(InfeasibleFloor, match="2·floor") as caught:
        frank_wolfe(mdp, objective, floor=0.2)
    assert caught.value.largest == pytest.approx(largest_floor(mdp), rel=1e-7)
