"""Faster mixing: objectives against cvxpy, the exact finite loss as the yardstick."""

from __future__ import annotations

import contextlib

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.linalg as sla
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import ArgumentError, InfeasibleTarget, SolverFailure
from sojourn.planning import (
    budget_plan,
    fastest_mixing_chain,
    fmh_sdp,
    mixing_tradeoff,
    project_onto_stationary,
)
from sojourn.planning.mixing_projection import closest_occupancy
from sojourn.planning.occupancy_flows import OccupancyFlows
from sojourn.planning.plan import Status
from sojourn.testing.arbitrary import worlds


def flow_of(mdp, occupancy):
    """X(λ), dense."""
    X = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(X, mdp.pair_state, occupancy[:, None] * mdp.transitions.toarray())
    return X


def grids():
    """Deterministic moves, both ways: symmetric flows exist and their policies too."""
    rng = np.random.default_rng(3)
    for text in ("...\n.#.\n...", "....\n.##.", "..\n.."):
        mdp = sj.MDP.from_grid(text)
        yield mdp, 10.0 ** rng.uniform(-2, 1, mdp.n_states)


def small_worlds():
    yield from grids()
    for seed in range(4):
        world = sj.instances.garnet(5, 3, 2, seed=seed)
        yield world.mdp, world.variance
    for seed in range(3):
        world = sj.instances.garnet(6, 2, 3, reversible=True, seed=seed)
        yield world.mdp, world.variance


# -- the three programs against cvxpy ---------------------------------------------------------


def cvxpy_joint(mdp, cost, eta, penalty, criterion, slack=None, reversible=False):
    """The joint form as :mod:`sojourn.planning.occupancy_flows` defines it."""
    n = mdp.n_states
    collect = np.equal(np.arange(n)[:, None], mdp.pair_state).astype(float)
    P = mdp.transitions.toarray()
    occupancy = cp.Variable(mdp.n_pairs, nonneg=True)
    X = collect @ cp.diag(occupancy) @ P
    r = collect @ occupancy
    d, q = 1.0 / np.sqrt(eta), np.sqrt(eta)
    scaled = cp.multiply(np.outer(d, d), X)
    limits = [cp.sum(occupancy) == 1, r == P.T @ occupancy]
    t = cp.Variable()
    if criterion == "one-sided":
        # 𝓔_λ(g) ≥ γ Var_η(g) for all g, γ = 1 − t
        laplacian = cp.diag(r) - 0.5 * (X + X.T)
        limits.append(laplacian - (1 - t) * (np.diag(eta) - np.outer(eta, eta)) >> 0)
    elif criterion == "additive":
        limits.append(cp.lambda_max(0.5 * (scaled + scaled.T) - np.outer(q, q)) <= t)
    else:
        limits.append(cp.sigma_max(scaled - np.outer(q, q)) <= t)
    if slack is not None:
        limits.append(cp.abs(r - eta) <= slack)
    if reversible:
        limits.append(X == X.T)
    objective = cost @ cp.inv_pos(r) + penalty * cp.inv_pos(1 - t)
    return cp.Problem(cp.Minimize(objective), limits).solve(solver="CLARABEL")


def cvxpy_step_one(mdp, cost, eta, penalty, slack, floor):
    """𝒫₁ where there is a penalty (slack a radius), else Eq. SDP_problem (slack a box)."""
    n = mdp.n_states
    allowed = mdp.adjacency.toarray()
    X, s = cp.Variable((n, n), symmetric=True), cp.Variable()
    d, q = 1.0 / np.sqrt(eta), np.sqrt(eta)
    Y = cp.multiply(np.outer(d, d), X) - np.outer(q, q)
    r = cp.sum(X, axis=1)
    limits = [
        Y << s * np.eye(n), Y >> -s * np.eye(n), X >= 0, cp.multiply(X, 1.0 - allowed) == 0,
        cp.sum(X) == 1, r >= floor,
    ]  # fmt: skip
    if penalty is None:
        limits.append(cp.abs(r - eta) <= slack)
        return cp.Problem(cp.Minimize(s), limits).solve(solver="CLARABEL")
    limits.append(cp.norm(r - eta) <= slack)
    objective = cost @ cp.inv_pos(r) + penalty * cp.inv_pos(1 - s)
    return cp.Problem(cp.Minimize(objective), limits).solve(solver="CLARABEL")


def certified(plan):
    assert plan.status is Status.OPTIMAL
    assert plan.objective >= plan.bound
    assert plan.gap <= 1e-6


@pytest.mark.parametrize("criterion", ["one-sided", "additive", "slem"])
def test_joint_agrees_with_cvxpy(criterion):
    compared = 0
    for mdp, variance in small_worlds():
        for slack in (None, 0.02):
            try:
                plan = sj.faster_mixing_plan(mdp, variance, 200, slack=slack, criterion=criterion)
            except InfeasibleTarget:
                assert criterion == "slem"
                continue
            certified(plan)
            value = cvxpy_joint(mdp, variance, plan.target, plan.penalty, criterion, slack)
            assert plan.objective == pytest.approx(value, rel=1e-6)
            compared += 1
    assert compared > 10


def test_reversible_joint_agrees_with_cvxpy():
    for mdp, variance in grids():
        plan = sj.faster_mixing_plan(mdp, variance, 200, reversible=True)
        certified(plan)
        value = cvxpy_joint(mdp, variance, plan.target, plan.penalty, "one-sided", reversible=True)
        assert plan.objective == pytest.approx(value, rel=1e-6)
        X = flow_of(mdp, plan.occupancy)
        np.testing.assert_allclose(X, X.T, atol=1e-9)
        assert plan.policy.chain().is_reversible()
        assert plan.objective >= sj.faster_mixing_plan(mdp, variance, 200).objective * (1 - 1e-6)


@pytest.mark.parametrize(("method", "slack"), [("sdp", 0.01), ("convex", 0.02)])
def test_step_one_agrees_with_cvxpy(method, slack):
    compared = 0
    for mdp, variance in small_worlds():
        try:
            plan = sj.faster_mixing_plan(mdp, variance, 200, method=method, slack=slack)
        except InfeasibleTarget:
            continue
        certified(plan)
        floor = 0.5 * plan.target.min()
        assert plan.penalty == (None if method == "sdp" else mdp.n_states / 200)
        value = cvxpy_step_one(mdp, variance, plan.target, plan.penalty, slack, floor)
        assert plan.objective == pytest.approx(value, rel=1e-6, abs=1e-6)
        X = plan.flow
        np.testing.assert_allclose(X, X.T, atol=1e-12)
        assert not X[~mdp.adjacency.toarray()].any()
        away = X.sum(axis=1) - plan.target
        assert X.sum(axis=1).min() >= floor - 1e-6
        reach = np.abs(away).max() if method == "sdp" else np.linalg.norm(away)
        assert reach <= slack + 1e-6
        compared += 1
    assert compared >= 5


def test_box_per_state_and_weights():
    mdp, variance = next(grids())
    slack = np.linspace(0.0, 0.02, mdp.n_states)
    weight = np.linspace(1.0, 3.0, mdp.n_states)
    plan = sj.faster_mixing_plan(mdp, variance, 200, method="sdp", slack=slack, weight=weight)
    np.testing.assert_allclose(
        plan.target, sj.optimal_plan(mdp, variance, weight=weight).distribution, rtol=1e-6
    )
    assert (np.abs(plan.flow.sum(axis=1) - plan.target) <= slack + 1e-6).all()
    certified(plan)


# -- what it is for ---------------------------------------------------------------------------


def dynamic_programming_loss(policy, variance, budget):
    """𝓛_n by the joint law of state and visits, independent of ``finite_loss``."""
    P = policy.transition_matrix().toarray()
    n = P.shape[0]
    total = 0.0
    for s in range(n):
        law = np.zeros((n, budget))  # [where the walk is, visits of s so far]
        law[:, 0] = 1.0 / n
        for _ in range(budget - 1):
            law = P.T @ law
            law[s, 1:] = law[s, :-1]
            law[s, 0] = 0.0
        total += variance[s] * budget * float((law.sum(axis=0) / (1.0 + np.arange(budget))).sum())
    return total / n


def test_joint_halves_the_loss_within_a_budget():
    three = sj.instances.three_state()
    path = sj.instances.path(6, stay=False, variance=np.ones(6))
    for world in (three, path):
        plan = sj.faster_mixing_plan(world.mdp, world.variance, 100)
        before, after = (
            dynamic_programming_loss(policy, world.variance, 100)
            for policy in (sj.optimal_plan(world.mdp, world.variance).policy, plan.policy)
        )
        assert after <= 0.5 * before
        assert plan.before.finite_loss == pytest.approx(before, rel=1e-8)
        assert plan.after.finite_loss == pytest.approx(after, rel=1e-8)
        assert plan.finite_loss == plan.after.finite_loss


def test_three_states_to_four_digits():
    """The figures of design 4.4 and 4.5, and those of the Dirichlet form."""
    world = sj.instances.three_state()
    mdp, variance = world.mdp, world.variance
    sdp = sj.faster_mixing_plan(mdp, variance, 100, method="sdp")
    assert sdp.before.finite_loss == pytest.approx(17.206, abs=5e-4)
    assert sdp.after.finite_loss == pytest.approx(11.478, abs=5e-4)
    thousand = sj.faster_mixing_plan(mdp, variance, 1000, method="sdp")
    assert thousand.after.finite_loss == pytest.approx(1.720, abs=5e-4)
    additive = sj.faster_mixing_plan(mdp, variance, 100, criterion="additive")
    cross = mdp.pairs_of(0)[1]  # from an end towards the middle
    assert additive.policy.probability[cross] == pytest.approx(0.14, abs=5e-3)
    joint = sj.faster_mixing_plan(mdp, variance, 100)
    assert joint.policy.probability[cross] == pytest.approx(0.21, abs=1e-2)


def test_joint_is_close_to_the_best_stationary_policy():
    worlds = [
        (sj.instances.three_state((1.0, 1e-5, 0.3)), 100),
        (sj.instances.path(6, stay=False, variance=np.ones(6)), 100),
        (sj.instances.river_swim(6, seed=0), 300),
    ]
    for world, budget in worlds:
        plan = sj.faster_mixing_plan(world.mdp, world.variance, budget)
        best = budget_plan(world.mdp, world.variance, budget)
        assert plan.after.finite_loss <= 1.03 * best.loss


def test_objective_is_loss_plus_penalty_over_the_dirichlet_gap():
    """γ by a generalised eigenproblem that shares nothing with the kernel."""
    for mdp, variance in small_worlds():
        plan = sj.faster_mixing_plan(mdp, variance, 300)
        eta, X = plan.target, flow_of(mdp, plan.occupancy)
        laplacian = np.diag(plan.distribution) - 0.5 * (X + X.T)
        constant = np.outer(eta, eta)
        # Var_η on functions of mean 0; the constant direction is moved out of the way.
        values = sla.eigh(laplacian + 10.0 * constant, np.diag(eta), eigvals_only=True)
        gap = values[values < 10.0 - 1e-6].min()
        loss = float((variance / plan.distribution).sum())
        assert loss + plan.penalty / gap == pytest.approx(plan.objective, rel=1e-5)
        assert plan.loss == pytest.approx(loss / mdp.n_states, rel=1e-10)


def test_slack_zero_keeps_the_optimum_and_mixes_best():
    for mdp, variance in small_worlds():
        best = sj.optimal_plan(mdp, variance)
        plan = sj.faster_mixing_plan(mdp, variance, 100, slack=0)
        assert plan.penalty is None
        assert plan.loss == pytest.approx(best.loss, rel=1e-5)
        np.testing.assert_allclose(plan.distribution, best.distribution, rtol=1e-4)
        # Of all optimal plans the one with the largest gap, the returned centre included.
        assert plan.after.one_sided_gap >= plan.before.one_sided_gap - 1e-5


def test_slack_auto_is_no_worse_than_any_slack_tried():
    world = sj.instances.three_state((1.0, 1e-3, 0.1))
    for method in ("joint", "sdp"):
        auto = sj.faster_mixing_plan(world.mdp, world.variance, 100, method=method, slack="auto")
        for slack in (None, 0.0, 0.003, 0.03, 0.3):
            plan = sj.faster_mixing_plan(world.mdp, world.variance, 100, method=method, slack=slack)
            assert auto.after.finite_loss <= plan.after.finite_loss * (1 + 1e-3)


def test_tradeoff_is_what_the_plans_say():
    world = sj.instances.three_state()
    record = mixing_tradeoff(world.mdp, world.variance, 100, slacks=[0.0, 0.01, 0.1])
    assert (np.diff(record.loss) >= -1e-9).all()
    assert (np.diff(record.one_sided_gap) >= -1e-9).all()
    plan = sj.faster_mixing_plan(world.mdp, world.variance, 100, slack=0.01)
    assert record.finite_loss[1] == plan.after.finite_loss
    assert record.before == plan.before


def test_floor_is_kept():
    world = sj.instances.garnet(6, 3, 2, seed=2)
    floor = 0.05
    plan = sj.faster_mixing_plan(world.mdp, world.variance, 100, floor=floor)
    assert plan.distribution.min() >= floor - 1e-6
    assert sj.faster_mixing_plan(world.mdp, world.variance, 100).distribution.min() < floor


# -- the paper's slips ------------------------------------------------------------------------


def test_around_a_fixed_target_a_walk_that_never_crosses_seems_to_mix():
    """𝒫₁ and Eq. SDP_problem measure X around η*. Time moved into the larger of two halves
    lowers ‖Y‖₂ below 1 although nothing flows between them; the Dirichlet form stays 0."""
    eta, moved = np.array([0.7, 0.3]), np.array([0.8, 0.2])
    q = np.sqrt(eta)
    Y = np.diag(moved / eta) - np.outer(q, q)
    assert np.linalg.norm(Y, 2) < 0.9


def test_the_residual_projection_can_land_far_away():
    """𝒫₂ minimises what one step changes. On some world its stationary distribution is farther
    from η₁ than the closest possible one, and farther than η* itself, which the proof of
    Lem. performance_loss_fmh excludes."""
    farther = 0
    for seed in (0, 5, 10, 15):
        world = sj.instances.garnet(5, 2, 2, reversible=True, seed=seed)
        plans = [
            sj.faster_mixing_plan(
                world.mdp, world.variance, 100, method="sdp", slack=0.1, projection=projection
            )
            for projection in ("occupancy", "residual")
        ]
        first = plans[0].flow.sum(axis=1)
        closest = project_onto_stationary(world.mdp, first, 0.5 * plans[0].target.min())
        assert plans[0].projection_distance <= closest.distance + 1e-6
        assert plans[1].projection_distance >= closest.distance - 1e-6
        farther += plans[1].projection_distance > 2.0 * np.linalg.norm(first - plans[0].target)
    assert farther >= 1


def test_ties_of_the_projection_are_broken_towards_the_chain():
    """Two actions with the same distribution: go round, or back and forth. X₁ decides."""
    mdp = sj.MDP.from_networkx(nx.cycle_graph(4).to_directed())
    forth = np.roll(np.eye(4), 1, axis=1) / 4.0
    for flow in (forth, forth.T, 0.5 * (forth + forth.T)):
        occupancy = closest_occupancy(mdp, flow, np.zeros(4))
        np.testing.assert_allclose(flow_of(mdp, occupancy), flow, atol=1e-5)


def test_symmetry_that_cannot_carry_the_target_is_refused():
    ring = sj.MDP.from_networkx(nx.cycle_graph(5, create_using=nx.DiGraph))
    with pytest.raises(InfeasibleTarget, match="both ways") as caught:
        sj.faster_mixing_plan(ring, 1.0, 100, method="sdp")
    assert "joint" in caught.value.hint
    star = nx.star_graph(3).to_directed()
    with pytest.raises(InfeasibleTarget, match="alternates"):
        sj.faster_mixing_plan(sj.MDP.from_networkx(star), 1.0, 100, method="sdp")
    # Going round the leaves needs no visit of the centre, but only one way; both ways every
    # move of leaves 2 and 3 has the centre at its other end.
    star.add_edges_from([(1, 2), (2, 3), (3, 1), (1, 1)])
    mdp, variance = sj.MDP.from_networkx(star), [1.0, 1.0, 1.0, 1.0]
    for method in ("sdp", "convex"):
        with pytest.raises(InfeasibleTarget, match=r"the states \{.*\} need") as caught:
            sj.faster_mixing_plan(mdp, variance, 100, method=method)
        assert "slack of at least" in caught.value.hint
        least = float(caught.value.hint.split("at least ")[1].split(",")[0])
        sj.faster_mixing_plan(mdp, variance, 100, method=method, slack=2.0 * least)
        with pytest.raises(InfeasibleTarget):
            sj.faster_mixing_plan(mdp, variance, 100, method=method, slack=0.99 * least)
    certified(sj.faster_mixing_plan(mdp, variance, 100))  # the joint form needs no symmetry


def test_slem_is_refused_where_it_is_one():
    path = sj.instances.path(4, stay=False, variance=np.ones(4))
    ring = sj.MDP.from_networkx(nx.cycle_graph(5, create_using=nx.DiGraph))
    for mdp in (path.mdp, ring):
        with pytest.raises(InfeasibleTarget, match="goes round in step") as caught:
            sj.faster_mixing_plan(mdp, 1.0, 100, criterion="slem")
        assert "one-sided" in caught.value.hint
        plan = sj.faster_mixing_plan(mdp, 1.0, 100)
        assert plan.after.one_sided_gap > 0.1


def test_a_world_that_hardly_mixes():
    records = [
        ("a", "stay", "a", 1.0), ("a", "go", "b", 1e-9), ("a", "go", "a", 1 - 1e-9),
        ("b", "stay", "b", 1.0), ("b", "go", "a", 1e-9), ("b", "go", "b", 1 - 1e-9),
    ]  # fmt: skip
    mdp = sj.MDP.from_transitions(records)
    # The best that can be done is to try to go all the time: γ = 2·10⁻⁹, and ρ = 8/100.
    plan = sj.faster_mixing_plan(mdp, 1.0, 100)
    assert plan.objective == pytest.approx(0.08 / 2e-9 + 4, rel=1e-5)
    assert plan.policy.probability[[1, 3]] == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(InfeasibleTarget, match=r"\{'a'\}, \{'b'\}"):
        sj.faster_mixing_plan(mdp, 1.0, 100, criterion="additive")


# -- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "slow"}, "joint, sdp, convex"),
        ({"slack": "none"}, "auto"),
        ({"slack": -0.1}, "slack"),
        ({"slack": [0.1, 0.1]}, "slack"),
        ({"method": "convex", "slack": [0.1, 0.1, 0.1]}, "radius"),
        ({"projection": "x"}, "occupancy, residual"),
        ({"criterion": "x"}, "one-sided, additive, slem"),
        ({"method": "sdp", "criterion": "additive"}, "one-sided, slem"),
        ({"method": "sdp", "reversible": True}, "joint"),
        ({"budget": 0}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"penalty": -1.0}, "penalty"),
        ({"floor": np.nan}, "floor"),
        ({"variance": 0.0}, "variance"),
        ({"variance": [1.0, -1.0, 1.0]}, "variance"),
        ({"counting": "all"}, "counting"),
        ({"start": 7}, "start"),
    ],
)
def test_wrong_arguments_get_a_sentence(change, words):
    world = sj.instances.three_state()
    arguments = {"variance": world.variance, "budget": 100} | change
    with pytest.raises(ArgumentError) as caught:
        sj.faster_mixing_plan(world.mdp, **arguments)
    assert words in f"{caught.value}"


def test_a_floor_that_no_distribution_has_is_named():
    world = sj.instances.three_state()
    for method in ("joint", "sdp", "convex"):
        with pytest.raises(InfeasibleTarget, match="floor"):
            sj.faster_mixing_plan(world.mdp, world.variance, 100, method=method, floor=0.4)


def test_str_tells_the_story():
    world = sj.instances.three_state()
    text = str(sj.faster_mixing_plan(world.mdp, world.variance, 100, method="sdp"))
    for word in ("FMH-SDP", "proved", "SLEM", "one-sided gap", "loss after 100 steps", "step 2"):
        assert word in text


def test_the_joint_form_starts_inside():
    for mdp, variance in small_worlds():
        target = sj.optimal_plan(mdp, variance).distribution
        flows = OccupancyFlows.around(mdp, target, variance > 0)
        problem = flows.problem(
            criterion="one-sided", reversible=False, weight=variance, penalty=1.0
        )
        x = flows.start("one-sided")
        assert (x > 0).all()
        assert problem.level(x) < 1.0
        np.testing.assert_allclose(problem.equalities @ x, problem.right, atol=1e-12)
        assert problem.mass @ x == pytest.approx(1.0)


def test_maps_whose_gaps_are_small_are_solved():
    # 1 − t is some thousandths there, and from small multipliers it took every iteration allowed.
    survey = sj.instances.grid_survey(5, 16, seed=1)
    plan = sj.faster_mixing_plan(survey.mdp, survey.variance, 1000)
    assert plan.iterations < 60
    assert plan.gap < 1e-4
    assert plan.finite_loss < plan.before.finite_loss


def test_it_is_said_where_faster_mixing_does_not_pay():
    quick = sj.instances.garnet(5, 3, 2, seed=1)
    plan = sj.faster_mixing_plan(quick.mdp, quick.variance, 100)
    assert plan.after.finite_loss > plan.before.finite_loss
    assert any("the optimal plan is the better one" in note for note in plan.notes)
    best = sj.faster_mixing_plan(quick.mdp, quick.variance, 100, slack="auto")
    assert best.after.finite_loss <= best.before.finite_loss * (1 + 1e-6)
    assert best.notes == ()


def test_a_start_that_leads_nowhere_is_said():
    fork = sj.MDP.from_transitions(
        [("a", "x", "b", 1.0), ("a", "y", "c", 1.0), ("b", "s", "b", 1.0), ("c", "s", "c", 1.0)]
    )
    fine = sj.faster_mixing_plan(fork, [0, 1, 0], 50, start=0)
    assert fine.notes == ()
    lost = sj.faster_mixing_plan(fork, [0, 1, 0], 50, start=2)
    assert any("this plan never visits 'b'" in note for note in lost.notes)
    assert lost.notes[0] in str(lost)
    short = sj.faster_mixing_plan(fork, [0, 1, 0], 2, start=0)
    assert any("visit all 3 states" in note for note in short.notes)


# -- everything that takes a model ------------------------------------------------------------


@settings(max_examples=60)
@given(worlds(max_states=6), st.integers(5, 3000), st.sampled_from(["joint", "sdp", "convex"]))
def test_any_world_is_planned_or_refused_with_a_reason(world, budget, method):
    refusals = (InfeasibleTarget, sj.InfiniteLoss, SolverFailure)
    with contextlib.suppress(*refusals):
        plan = sj.faster_mixing_plan(world.mdp, world.variance, budget, method=method, throw=False)
        _check_any_plan(world, plan, method)


def _check_any_plan(world, plan, method):
    assert abs(plan.occupancy.sum() - 1.0) <= 1e-9
    assert (plan.occupancy >= 0).all()
    assert np.abs(world.mdp.flow_residual(plan.occupancy)).max() <= 1e-9
    if plan.status.ok:
        assert plan.bound <= plan.objective
        assert plan.gap <= 1e-4
    if method == "joint" and plan.status is Status.OPTIMAL and plan.target.min() > 0:
        # No occupancy beats the bound: not that of the uniform policy, nor that of the optimum.
        for policy in (sj.Policy.uniform(world.mdp), plan.policy):
            classes = policy.chain().recurrent_classes()
            if len(classes) > 1 or classes[0].size < world.mdp.n_states:
                continue
            occupancy = policy.occupancy()
            eta = world.mdp.state_sums(occupancy)
            X = flow_of(world.mdp, occupancy)
            root = np.sqrt(plan.target)
            laplacian = (np.diag(eta) - 0.5 * (X + X.T)) / np.outer(root, root)
            values = np.linalg.eigvalsh(laplacian + 2.0 * np.outer(root, root))
            gap = max(float(values[0]), 1e-300)
            value = float((world.variance / eta).sum()) + plan.penalty / min(gap, 2.0)
            assert value >= plan.bound * (1 - 1e-6)


def test_one_state_one_action_and_unused_states():
    alone = sj.MDP.from_transitions([("here", "stay", "here", 1.0)])
    plan = sj.faster_mixing_plan(alone, 1.0, 10)
    assert plan.after.finite_loss == pytest.approx(1.0)
    # A corridor without variance between two rooms: the optimum hardly needs it, mixing does.
    corridor = sj.instances.path(5, stay=True, variance=np.array([1.0, 0.0, 0.0, 0.0, 1.0]))
    plan = sj.faster_mixing_plan(corridor.mdp, corridor.variance, 200)
    assert plan.after.finite_loss < 0.1 * plan.before.finite_loss


# -- for learners -----------------------------------------------------------------------------


def test_fmh_sdp_for_a_target_is_the_plan_for_that_target():
    """Vector slack, an occupancy or its distribution as the target, a floor: as in FW-AME."""
    for seed in range(4):
        world = sj.instances.garnet(6, 3, 3, reversible=True, seed=seed)
        mdp = world.mdp
        target = sj.linear_oracle(mdp, np.arange(6.0), floor=1e-3)
        eta = mdp.state_sums(target)
        share = world.variance / world.variance.sum()
        slack = (1.0 - share) / (5 * np.sqrt(50.0))
        policy = fmh_sdp(mdp, target, slack, 1e-3)
        again = fmh_sdp(mdp, eta, slack, 1e-3)
        np.testing.assert_array_equal(policy.probability, again.probability)
        stationary = policy.chain().stationary()
        assert stationary.min() >= 1e-3 - 1e-5
        before = sj.Policy.from_occupancy(mdp, target).chain().slem
        assert policy.chain().slem <= before + 0.05


def test_fmh_sdp_refuses_what_symmetry_cannot_carry():
    ring = sj.MDP.from_networkx(nx.cycle_graph(5, create_using=nx.DiGraph))
    with pytest.raises(InfeasibleTarget):
        fmh_sdp(ring, np.full(5, 0.2), 0.01)
    star = nx.star_graph(3).to_directed()
    star.add_edge(1, 1)
    mdp = sj.MDP.from_networkx(star)
    with pytest.raises(InfeasibleTarget, match="slack"):
        fmh_sdp(mdp, np.array([0.1, 0.3, 0.3, 0.3]), 1e-3)


# -- fastest-mixing chains --------------------------------------------------------------------


def cycle_slem(n):
    """P = (1 − 2p)I + pA on an edge-transitive graph: p balances the two ends of the spectrum."""
    first, last = np.cos(2 * np.pi / n), np.cos(2 * np.pi * (n // 2) / n)
    p = 1.0 / (2.0 - first - last)
    return 1.0 - 2.0 * p * (1.0 - first)


CLOSED_FORMS = [
    # Boyd, Diaconis, Sun & Xiao (2006): 1/2 to each neighbour, staying at the ends
    *((nx.path_graph(n), np.cos(np.pi / n)) for n in (2, 3, 8, 25)),
    *((nx.cycle_graph(n), cycle_slem(n)) for n in (3, 4, 7, 16)),
    *((nx.complete_graph(n), 0.0) for n in (2, 9)),
    # stay with probability 1/(d + 1)
    *((nx.hypercube_graph(d), (d - 1) / (d + 1)) for d in (2, 3, 4)),
    *((nx.star_graph(m), 1.0 - 1.0 / m) for m in (2, 5)),
    # Laplacian eigenvalues 0, n, m, m + n (m ≥ n): p = min(1/m, 2/(m + 2n)) (Boyd et al. 2009)
    (nx.complete_bipartite_graph(5, 4), 1.0 - 4.0 * 2.0 / 13.0),
    (nx.complete_bipartite_graph(6, 2), 1.0 - 2.0 / 6.0),
    (nx.petersen_graph(), 3.0 / 7.0),  # Laplacian eigenvalues 2 and 5: p = 2/7
]


@pytest.mark.parametrize(("graph", "slem"), CLOSED_FORMS, ids=lambda v: str(v)[:40])
def test_fastest_chain_closed_forms(graph, slem):
    chain = fastest_mixing_chain(graph)
    assert chain.value == pytest.approx(slem, abs=2e-7)
    assert chain.bound <= slem + 1e-9
    assert chain.slem == pytest.approx(chain.value, abs=1e-7)
    assert sj.Chain(chain.transitions).slem == pytest.approx(slem, abs=1e-6)


def test_fastest_chain_on_two_states_and_on_one():
    chain = fastest_mixing_chain(np.ones((2, 2)), [0.9, 0.1])
    np.testing.assert_allclose(chain.transitions, [[0.9, 0.1], [0.9, 0.1]], atol=1e-6)
    assert fastest_mixing_chain(np.ones((1, 1))).transitions == pytest.approx(np.ones((1, 1)))


def test_fastest_chain_is_reversible_with_its_distribution(rng):
    for _ in range(5):
        n = int(rng.integers(4, 9))
        graph = nx.connected_watts_strogatz_graph(n, 3, 0.5, seed=int(rng.integers(1000)))
        eta = rng.dirichlet(np.ones(n))
        chain = fastest_mixing_chain(graph, eta)
        X = eta[:, None] * chain.transitions
        np.testing.assert_allclose(X, X.T, atol=1e-7)
        np.testing.assert_allclose(chain.transitions.sum(axis=1), 1.0, atol=1e-12)
        adjacency = nx.to_numpy_array(graph) + np.eye(n)
        Y, s = cp.Variable((n, n), symmetric=True), cp.Variable()
        q = np.sqrt(eta)
        limits = [
            Y - np.outer(q, q) << s * np.eye(n), Y - np.outer(q, q) >> -s * np.eye(n),
            Y @ q == q, Y >= 0, cp.multiply(Y, 1.0 - (adjacency > 0)) == 0,
        ]  # fmt: skip
        value = cp.Problem(cp.Minimize(s), limits).solve(solver="CLARABEL")
        assert chain.value == pytest.approx(value, abs=1e-6)


def test_fastest_chain_one_sided_may_be_negative():
    n = 6
    chain = fastest_mixing_chain(nx.complete_graph(n), criterion="one-sided")
    assert chain.value == pytest.approx(-1.0 / (n - 1), abs=1e-6)
    path = fastest_mixing_chain(
        nx.path_graph(4), [1 / 6, 1 / 3, 1 / 3, 1 / 6], criterion="one-sided", loops=False
    )
    assert path.value == pytest.approx(0.5, abs=1e-6)  # the simple walk: cos(π/3)


def test_fastest_chain_refuses_with_a_reason():
    with pytest.raises(InfeasibleTarget, match="2 pieces"):
        fastest_mixing_chain(nx.Graph([(0, 1), (2, 3)]))
    with pytest.raises(InfeasibleTarget, match="alternates"):
        fastest_mixing_chain(nx.path_graph(4), loops=False)
    with pytest.raises(InfeasibleTarget, match="row sums"):
        fastest_mixing_chain(nx.cycle_graph(5), [0.6, 0.1, 0.1, 0.1, 0.1], loops=False)
    with pytest.raises(InfeasibleTarget, match="pieces"):
        # Equal shares force every second edge of a path to be unused.
        fastest_mixing_chain(nx.path_graph(4), loops=False, criterion="one-sided")
    with pytest.raises(ArgumentError, match="weight"):
        fastest_mixing_chain(nx.path_graph(2), [1.0, 0.0])
    with pytest.raises(ArgumentError, match="square"):
        fastest_mixing_chain(np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="criterion"):
        fastest_mixing_chain(np.ones((2, 2)), criterion="fast")


def test_near_reducible_and_tiny_shares():
    graph = nx.barbell_graph(4, 0)
    eta = np.full(8, 1.0)
    eta[0] = 1e-7
    chain = fastest_mixing_chain(graph, eta / eta.sum())
    assert chain.gap <= 1e-6
    np.testing.assert_allclose(
        chain.distribution @ chain.transitions, chain.distribution, atol=1e-7
    )
