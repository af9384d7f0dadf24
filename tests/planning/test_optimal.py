"""Optimal plans: closed forms, other solvers, certificates in exact arithmetic, hard worlds."""

from __future__ import annotations

import pickle
import signal
import warnings
from contextlib import contextmanager
from decimal import Decimal, localcontext
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import ArgumentError, InfiniteLoss, SolverFailure
from sojourn.planning import Status, certify, optimal
from sojourn.planning.certificate import margins
from sojourn.planning.notes import relaxation_time
from sojourn.planning.optimal import METHODS
from sojourn.solvers.objectives import Entropy, LogError, MeanError, PowerMean, WorstState
from sojourn.testing import mdps, random_mdp, random_variance

seeds = st.integers(0, 2**32 - 1)
OBJECTIVES = {
    "mean": MeanError,
    "power 3": lambda variance, weight: PowerMean(variance, weight, power=3.0),
    "log": LogError,
    "entropy": Entropy,
    "worst": WorstState,
}


def hard_grid(side, slip, seed=0):
    world = sj.instances.grid_survey(side, side, obstacles=0.0, slip=slip, field="hard", seed=seed)
    return world.mdp, world.variance


def imbalance(plan):
    """The largest residual of the flow balance beside the visits of its state."""
    eta = plan.distribution
    visited = eta > 0
    residual = np.abs(plan.mdp.flow_residual(plan.occupancy))
    assert (residual[~visited] == 0).all()
    return (residual[visited] / eta[visited]).max()


def is_sound(plan, tolerance=1e-9):
    """What every plan promises."""
    assert plan.status.ok
    assert plan.gap <= max(tolerance, 1e-6 if plan.status is Status.ROUNDING else 0.0)
    assert plan.occupancy.min() >= 0
    assert plan.occupancy.sum() == pytest.approx(1.0, abs=1e-12)
    assert imbalance(plan) < 1e-12
    assert plan.bound <= plan.loss + 1e-12 * (1 + abs(plan.loss))
    again = plan.objective.value(plan.distribution)
    assert plan.loss == pytest.approx(again, rel=1e-14, abs=1e-14)
    return True


# -- known answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_three_states(method):
    """𝓛 = 1.37583 and, of all splits of the middle state's outflow, the even one."""
    world = sj.instances.three_state()
    tolerance = 1e-5 if method in ("frank-wolfe", "line-search") else 1e-9
    plan = sj.optimal_plan(world.mdp, world.variance, method=method, tolerance=tolerance)
    assert plan.status is Status.OPTIMAL
    assert plan.loss == pytest.approx(1.37583, rel=tolerance + 1e-5)
    stay, leave = plan.distribution[0], plan.distribution[1]
    middle = plan.occupancy[list(world.mdp.pairs_of(1))]
    np.testing.assert_allclose(middle, leave / 2, rtol=1e-5 if tolerance < 1e-6 else 1e-2)
    assert stay == pytest.approx(plan.distribution[2], rel=1e-2)


def test_bandit_closed_form(rng):
    """Where every state can be reached from every other in one step: η ∝ σ, loss (Σσ)²/S."""
    variance = 10.0 ** rng.uniform(-2, 2, 8)
    world = sj.instances.complete(8, variance=variance)
    plan = sj.optimal_plan(world.mdp, variance)
    sigma = np.sqrt(variance)
    np.testing.assert_allclose(plan.distribution, sigma / sigma.sum(), rtol=1e-4)
    assert plan.loss == pytest.approx(sigma.sum() ** 2 / 8, rel=1e-9)
    assert plan.stats.distance_from_bandit == pytest.approx(0.0, abs=1e-9)


def test_no_choice_is_the_chains_own_distribution(rng):
    """One action everywhere: the loss is that of the only stationary distribution, gap 0."""
    for kind_seed in range(5):
        mdp = random_mdp("one_action", 9, 1, np.random.default_rng(kind_seed))
        plan = sj.optimal_plan(mdp, rng.uniform(0.1, 1.0, 9))
        eta = sj.Policy.uniform(mdp).chain().stationary()
        np.testing.assert_allclose(plan.distribution, eta, rtol=1e-9)
        assert plan.gap == 0.0


def test_one_state():
    mdp = sj.MDP.from_array(np.ones((1, 3, 1)))
    plan = sj.optimal_plan(mdp, 2.5)
    assert is_sound(plan)
    assert plan.loss == 2.5
    np.testing.assert_allclose(plan.occupancy, 1 / 3)


def test_a_cycle_must_visit_all_alike():
    world = sj.instances.cycle(7, stay=False)
    variance = 10.0 ** np.linspace(-3, 2, 7)
    plan = sj.optimal_plan(world.mdp, variance)
    np.testing.assert_allclose(plan.distribution, 1 / 7, rtol=1e-9)
    assert plan.loss == pytest.approx(variance.sum())


def test_scale_of_the_variances_changes_nothing():
    mdp, variance = hard_grid(6, 0.1)
    plans = [sj.optimal_plan(mdp, c * variance) for c in (1.0, 1e-200, 1e200)]
    for plan, c in zip(plans, (1.0, 1e-200, 1e200)):
        assert plan.loss == pytest.approx(c * plans[0].loss, rel=1e-9)
        np.testing.assert_allclose(plan.distribution, plans[0].distribution, rtol=1e-3)


# -- against cvxpy ----------------------------------------------------------------------------


def cvxpy_optimum(mdp, variance, weight, name):
    """The optimum by cvxpy's own formulation; None where it says that it didn't get there."""
    x = cp.Variable(mdp.n_pairs, nonneg=True)
    collect = np.equal(np.arange(mdp.n_states)[:, None], mdp.pair_state).astype(float)
    eta = collect @ x
    n = mdp.n_states
    value = {
        "mean": lambda: cp.sum(cp.multiply(weight * variance / n, cp.inv_pos(eta))),
        "power 3": lambda: cp.pnorm(
            cp.multiply((weight / n) ** (1 / 3) * variance, cp.inv_pos(eta)), 3
        ),
        "log": lambda: weight @ (np.log(variance) - cp.log(eta)) / weight.sum(),
        "entropy": lambda: -cp.sum(cp.entr(eta)),
        "worst": lambda: -cp.min(cp.multiply(1 / (weight * variance), eta)),
    }[name]()
    flow = (collect - mdp.transitions.T.toarray())[1:]
    limits = [flow @ x == 0, cp.sum(x) == 1]
    if name == "mean":
        # Without Σx = 1, which asks for more digits than it has where the loss is large: at
        # the best multiple of x both terms are equal, and their sum is 2√(loss·Σx).
        value, limits = value + cp.sum(x), limits[:1]
    problem = cp.Problem(cp.Minimize(value), limits)
    goal = 1e-12 if name == "worst" else 3e-10
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, tol_gap_rel=goal, tol_gap_abs=goal, tol_feas=goal)
    if problem.status != cp.OPTIMAL:
        return None
    best = float(problem.value)
    return {"mean": (best / 2) ** 2, "worst": -1 / best}.get(name, best)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_agreement_with_cvxpy(name):
    """Five times eighty worlds, to 1e-7."""
    rng = np.random.default_rng(11)
    compared = 0
    for k in range(80):
        n = int(rng.integers(2, 11))
        kind = ("ragged", "deterministic", "periodic", "garnet")[k % 4]
        if kind == "garnet":
            mdp = sj.instances.garnet(n, 3, min(n, 2), seed=k).mdp
        else:
            mdp = random_mdp(kind, n, 3, rng)
        variance = 10.0 ** rng.uniform(-0.5, 0.5, n)
        weight = np.ones(n) if name == "entropy" else rng.uniform(0.5, 2.0, n)
        plan = sj.optimal_plan(
            mdp, variance, None if name == "entropy" else weight, objective=OBJECTIVES[name]
        )
        assert is_sound(plan)
        theirs = cvxpy_optimum(mdp, variance, weight, name)
        if theirs is not None:
            compared += 1
            assert plan.loss == pytest.approx(theirs, rel=1e-7, abs=1e-7)
    assert compared >= 60


# -- certificates -----------------------------------------------------------------------------


def exact_margin(mdp, prices, low, allowed):
    """m_s in rational arithmetic, with the diagonal as what is left of the row."""
    h = [Fraction(a) + Fraction(b) for a, b in zip(prices, low)]
    P = mdp.transitions
    best: list[Fraction | None] = [None] * mdp.n_states
    for p in np.flatnonzero(allowed):
        s = int(mdp.pair_state[p])
        row = slice(P.indptr[p], P.indptr[p + 1])
        drop = sum(
            (Fraction(w) * (h[s] - h[int(j)]) for w, j in zip(P.data[row], P.indices[row])),
            Fraction(0),
        )
        best[s] = drop if best[s] is None else min(best[s], drop)
    return best


@given(mdp=mdps(max_states=6), seed=seeds)
def test_margins_are_proved_in_floating_point(mdp, seed):
    """Below the exact ones whatever the prices, and closely so."""
    rng = np.random.default_rng(seed)
    prices = rng.normal(size=mdp.n_states) * 10.0 ** rng.uniform(-3, 12)
    low = prices * rng.uniform(-1e-17, 1e-17, mdp.n_states)
    allowed = rng.random(mdp.n_pairs) < 0.8
    ours = margins(mdp, prices, allowed, low)
    size = np.abs(prices).max()
    for mine, exact in zip(ours, exact_margin(mdp, prices, low, allowed)):
        if exact is None:
            assert mine == np.inf
        else:
            assert Fraction(mine) <= exact
            assert float(exact - Fraction(mine)) <= 1e-14 * size


@given(
    mdp=mdps(communicating=True, max_states=6), seed=seeds, name=st.sampled_from(["mean", "worst"])
)
def test_any_prices_bound_every_policy(mdp, seed, name):
    """The bound from arbitrary prices never exceeds what a random policy achieves."""
    rng = np.random.default_rng(seed)
    goal = OBJECTIVES[name](random_variance(mdp.n_states, rng, ratio=1e3), None)
    prices = rng.normal(size=mdp.n_states) * 10.0 ** rng.uniform(-3, 3)
    for _ in range(5):
        share = rng.exponential(size=mdp.n_pairs) ** 3 + 1e-6
        policy = sj.Policy(mdp, share / mdp.to_pairs(mdp.state_sums(share)))
        proof = certify(mdp, goal, policy.occupancy(), prices)
        assert proof.bound <= proof.value * (1 + 1e-9)


def in_many_digits(name, variance, weight, eta, margin, multiplier):
    """(value, bound) of an objective with fifty digits, each from its own formula."""
    n = len(variance)
    v, w = ([Decimal(float(x)) for x in numbers] for numbers in (variance, weight))
    eta, m = ([Decimal(x.numerator) / Decimal(x.denominator) for x in xs] for xs in (eta, margin))
    if name == "worst":
        value = max(v[s] * w[s] / eta[s] for s in range(n))
        rho = max(Decimal(0), -min(m))
        total = sum(v[s] * w[s] for s in range(n))
        gain = sum(m[s] * v[s] * w[s] for s in range(n))
        return value, total + (gain / rho if gain > 0 and rho > 0 else 0)
    if name == "entropy":
        return sum(e * e.ln() for e in eta), -sum((-a).exp() for a in m).ln()
    rho = max(Decimal(multiplier), -min(m))
    c = [rho + a for a in m]
    if name == "log":
        share = [a / sum(w) for a in w]
        value = sum(share[s] * (v[s] / eta[s]).ln() for s in range(n))
        return value, sum(share[s] * (v[s] * c[s] / (rho * share[s])).ln() for s in range(n))
    p = Decimal({"mean": 1, "power 3": 3}[name])
    power = [w[s] * v[s] ** p for s in range(n)]
    value = (sum(power[s] / eta[s] ** p for s in range(n)) / n) ** (1 / p)
    holder = sum(power[s] ** (1 / (p + 1)) * c[s] ** (p / (p + 1)) for s in range(n))
    return value, (holder ** (p + 1) / n) ** (1 / p) / rho


@pytest.mark.parametrize("name", OBJECTIVES)
def test_certificates_in_many_digits(name, rng):
    """Margins in rational numbers, the rest with fifty digits: what is returned is a proof."""
    for seed in range(12):
        kind = ("ragged", "deterministic", "periodic", "garnet")[seed % 4]
        n = int(rng.integers(2, 7))
        mdp = (
            sj.instances.garnet(n, 3, min(n, 2), seed=seed).mdp
            if kind == "garnet"
            else random_mdp(kind, n, 3, rng)
        )
        variance = rng.uniform(0.1, 2.0, n)
        weight = np.ones(n) if name == "entropy" else rng.uniform(0.5, 2.0, n)
        plan = sj.optimal_plan(
            mdp, variance, None if name == "entropy" else weight, objective=OBJECTIVES[name]
        )
        m = exact_margin(mdp, plan.prices, np.zeros(n), np.ones(mdp.n_pairs, dtype=bool))
        eta = [sum(Fraction(plan.occupancy[p]) for p in mdp.pairs_of(s)) for s in range(n)]
        with localcontext(prec=50):
            # The prices are in the unit in which ρ = 1 is all but the best.
            value, bound = in_many_digits(name, variance, weight, eta, m, 1)
            gap = float((value - bound) / value if plan.objective.relative else value - bound)
        # The occupancy is balanced to rounding, and so much better than the optimum it may be.
        assert -1e-13 < gap < 2e-9
        assert plan.gap >= gap - 1e-9  # its own ρ may be a better one
        assert plan.loss == pytest.approx(float(value), rel=1e-14, abs=1e-14)
        assert plan.bound == pytest.approx(float(bound), rel=2e-9, abs=2e-9)


@given(mdp=mdps(communicating=True, min_states=2, max_states=8), seed=seeds)
def test_gap_is_at_least_the_true_distance(mdp, seed):
    rng = np.random.default_rng(seed)
    variance = random_variance(mdp.n_states, rng, ratio=1e6)
    rough = sj.optimal_plan(mdp, variance, tolerance=0.05)
    fine = sj.optimal_plan(mdp, variance, tolerance=1e-8)
    assert rough.gap <= 0.05
    assert rough.gap >= (rough.loss - fine.loss) / rough.loss - 1e-12
    assert rough.bound <= fine.loss * (1 + 1e-12)


# -- all worlds, all objectives -----------------------------------------------------------------


@given(
    mdp=mdps(communicating=True, max_states=9), seed=seeds, name=st.sampled_from(sorted(OBJECTIVES))
)
def test_every_world_and_objective(mdp, seed, name):
    """Near-reducible, periodic, deterministic, one state, one action; ratios up to 1e12; zeros."""
    rng = np.random.default_rng(seed)
    n = mdp.n_states
    variance = random_variance(n, rng, ratio=10.0 ** rng.uniform(0, 12))
    if name == "power 3":
        variance = random_variance(n, rng, ratio=1e6)
    weight = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.1, 2.0, n))
    weight[int(rng.integers(n))] = 1.0
    plan = sj.optimal_plan(
        mdp, variance, None if name == "entropy" else weight, objective=OBJECTIVES[name]
    )
    assert is_sound(plan)
    # The policy is that of the occupancy, also where it hardly ever moves.
    eta = plan.policy.chain().stationary()
    np.testing.assert_allclose(eta, plan.distribution, rtol=1e-7, atol=1e-300)


def test_rooms_that_hardly_communicate():
    """Chances of 1e-10 between groups of states: the way starts a million times the optimum."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        mdp = random_mdp("near_reducible", int(rng.integers(10, 30)), 3, rng)
        n = mdp.n_states
        variance = random_variance(n, rng, ratio=1e6)
        weight = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.1, 2.0, n))
        plan = sj.optimal_plan(mdp, variance, weight)
        assert plan.status is Status.OPTIMAL, seed
        assert is_sound(plan)


def rare_everywhere(rng, rare=1e-9):
    """A third of all moves, anywhere, with a chance of ``rare`` of what it would be."""
    n = int(rng.integers(3, 14))
    P = np.zeros((n, 3, n))
    for s in range(n):
        for a in range(int(rng.integers(1, 4))):
            P[s, a, rng.choice(n, 2, replace=False)] = rng.dirichlet([1.0, 1.0])
            P[s, a, (s + 1) % n] += 0.3 * (a == 0)
            P[s, a] *= np.where(rng.random(n) < 0.3, rare, 1.0)
            P[s, a, s] += rare
            P[s, a] /= P[s, a].sum()
    return sj.MDP.from_array(P)


@pytest.mark.parametrize("name", ["mean", "power 3", "log", "entropy"])
def test_rare_moves_everywhere(name):
    """Visits differ by 1e9 already where the path starts."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        mdp = rare_everywhere(rng)
        variance = 10.0 ** rng.uniform(-rng.choice([0, 1, 5]), 0, mdp.n_states)
        plan = sj.optimal_plan(mdp, variance, objective=OBJECTIVES[name], throw=False)
        assert plan.status is Status.OPTIMAL, seed
        assert is_sound(plan)


@pytest.mark.parametrize("rare", [1e-6, 1e-9, 1e-12])
def test_the_gap_is_that_of_the_policy(rare):
    """Two rooms with a door that opens with a chance of 1e-12: an occupancy balanced to 1e-12
    says nothing yet about how its policy shares the time between the rooms."""
    mdp = sj.MDP.from_grid("\n".join(["........"] * 6), slip=0.2)
    west = np.array([x < 4 for x, _ in mdp.state_labels])
    through = mdp.transitions.tocoo()
    head = mdp.pair_state[through.row]
    chance = np.where(west[head] != west[through.col], rare, 1.0) * through.data
    lost = np.bincount(through.row, through.data - chance)
    moves = sp.coo_matrix((chance, (through.row, through.col)), shape=through.shape)
    stay = sp.coo_matrix((lost, (np.arange(mdp.n_pairs), mdp.pair_state)), shape=through.shape)
    rooms = sj.MDP(moves + stay, mdp.pair_start)
    variance = 10.0 ** np.random.default_rng(0).uniform(-4, 1, rooms.n_states)
    plan = sj.optimal_plan(rooms, variance)
    assert plan.status is Status.OPTIMAL
    assert is_sound(plan)
    settled = plan.policy.chain().stationary()
    np.testing.assert_allclose(settled, plan.distribution, rtol=1e-12)
    # The proof can be repeated with what the plan tells.
    again = certify(rooms, plan.objective, plan.occupancy, plan.prices, low=plan.prices_low)
    assert again.bound == plan.bound


@given(mdp=mdps(kinds=("components",), min_states=2, max_states=9), seed=seeds)
def test_several_components(mdp, seed):
    """Finite exactly if one end component holds all that matters, and then it stays inside."""
    from sojourn.model import maximal_end_components

    rng = np.random.default_rng(seed)
    n = mdp.n_states
    weight = (rng.random(n) < 0.4).astype(float)
    weight[int(rng.integers(n))] = 1.0
    components = maximal_end_components(mdp)
    holders = [c for c in components if np.isin(np.flatnonzero(weight), c.states).all()]
    if not holders:
        with pytest.raises(InfiniteLoss, match="infinite for every plan"):
            sj.optimal_plan(mdp, 1.0, weight)
        return
    plan = sj.optimal_plan(mdp, 1.0, weight)
    assert is_sound(plan)
    inside = np.zeros(mdp.n_pairs, dtype=bool)
    inside[holders[0].pairs] = True
    assert (plan.occupancy[~inside] == 0).all()
    # From outside, the policy leads to the component wherever there is a way.
    reached = plan.policy.chain().recurrent_classes()
    assert any(np.isin(c, holders[0].states).all() for c in reached)


def test_infinite_loss_names_states_and_components():
    """Start → absorbing A or absorbing B: a mixture is stationary, no walk attains it."""
    mdp = sj.MDP.from_transitions([
        ("start", "left", "A", 1.0), ("start", "right", "B", 1.0),
        ("A", "stay", "A", 1.0), ("B", "stay", "B", 1.0),
    ])  # fmt: skip
    with pytest.raises(InfiniteLoss) as caught:
        sj.optimal_plan(mdp, 1.0, weight=[0.0, 1.0, 1.0])
    assert "{'A'}; {'B'}" in caught.value.message
    assert "weight 0 for 'B'" in caught.value.hint
    with pytest.raises(InfiniteLoss, match="come back to 'start'"):
        sj.optimal_plan(mdp, 1.0)
    plan = sj.optimal_plan(mdp, 1.0, weight=[0.0, 1.0, 0.0])
    assert plan.loss == pytest.approx(1 / 3)
    assert plan.distribution[1] == 1.0
    # 'start' is never visited by the plan; its policy leads to A.
    assert plan.policy.probability[0] == 1.0


def test_nothing_to_measure():
    mdp, _ = hard_grid(5, 0.1)
    for plan in (
        sj.optimal_plan(mdp, 0.0),
        sj.optimal_plan(mdp, 1.0, weight=0.0),
        sj.optimal_plan(mdp, 0.0, objective=WorstState),
    ):
        assert plan.status is Status.TRIVIAL
        assert plan.loss == plan.bound == plan.gap == 0.0
        np.testing.assert_allclose(plan.distribution, 1 / 25, rtol=1e-3)
    # Two rooms without a way between them: no error either, there is nothing to miss.
    rooms = sj.MDP.from_transitions([(0, "stay", 0, 1.0), (1, "stay", 1, 1.0)])
    assert sj.optimal_plan(rooms, 0.0).loss == 0.0


@pytest.mark.parametrize("name", ["mean", "worst", "log"])
@pytest.mark.parametrize(("side", "slip"), [(32, 0.02), (32, 0.5), (100, 0.1)])
def test_hard_grids(side, slip, name):
    mdp, variance = hard_grid(side, slip)
    plan = sj.optimal_plan(mdp, variance, tolerance=1e-8, objective=OBJECTIVES[name])
    assert is_sound(plan, 1e-8)
    assert plan.stats.iterations < 60


def test_large_random_graph_without_factorisation():
    world = sj.instances.garnet(2500, 4, 3, seed=1)
    plan = sj.optimal_plan(world.mdp, world.variance, tolerance=1e-5)
    assert is_sound(plan, 1e-5)
    assert "conjugate gradients" in plan.stats.linear_algebra


def test_many_different_numbers_of_actions(rng):
    """pair_start at its most uneven: one action here, forty there."""
    start = np.array([0, 1, 41, 43, 44])
    P = rng.dirichlet(np.full(4, 0.2), size=44)
    P[0] = [0.0, 1.0, 0.0, 0.0]
    mdp = sj.MDP(P, start)
    plan = sj.optimal_plan(mdp, [1.0, 0.1, 2.0, 0.5])
    assert is_sound(plan)
    assert plan.loss == pytest.approx(
        cvxpy_optimum(mdp, np.array([1.0, 0.1, 2.0, 0.5]), np.ones(4), "mean"), rel=1e-6
    )


# -- methods, statuses, reports -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["away-step", "pairwise", "fully-corrective"])
def test_frank_wolfe_methods_end_in_the_same_centre(method):
    world = sj.instances.garnet(6, 3, 2, seed=4)
    best = sj.optimal_plan(world.mdp, world.variance)
    plan = sj.optimal_plan(world.mdp, world.variance, method=method, tolerance=1e-6)
    assert is_sound(plan, 1e-6)
    assert plan.loss == pytest.approx(best.loss, rel=1e-6)
    np.testing.assert_allclose(plan.occupancy, best.occupancy, atol=2e-3)
    assert "Frank–Wolfe" in plan.stats.method
    assert plan.stats.history[-1][1] <= 1e-6


@pytest.mark.parametrize("kind", ["deterministic", "periodic", "ragged"])
def test_the_centre_of_a_face_that_leaves_pairs_out(kind):
    """Many optima, and pairs that none of them uses: those hide the centre from a method that
    only knows the distribution."""
    several = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mdp = random_mdp(kind, 6, 3, rng)
        variance = rng.uniform(0.1, 2.0, 6)
        best = sj.optimal_plan(mdp, variance)
        plan = sj.optimal_plan(mdp, variance, method="fully-corrective")
        assert is_sound(plan)
        np.testing.assert_allclose(plan.occupancy, best.occupancy, atol=1e-4)
        several += plan.occupancy.min() < 1e-6
    assert several > 0


def test_frank_wolfe_inside_a_component():
    mdp = sj.MDP.from_transitions([
        ("out", "in", "a", 1.0), ("a", "stay", "a", 1.0), ("a", "go", "b", 1.0),
        ("b", "go", "a", 1.0), ("b", "leave", "lost", 1.0), ("lost", "stay", "lost", 1.0),
    ])  # fmt: skip
    for method in ("auto", "away-step"):
        plan = sj.optimal_plan(mdp, [1.0, 1.0, 1.0, 1.0], [0, 1, 1, 0], method=method)
        assert is_sound(plan)
        np.testing.assert_allclose(plan.distribution, [0.0, 0.5, 0.5, 0.0], atol=1e-4)


def test_tolerances_beyond_rounding_are_reported_not_refused():
    mdp, variance = hard_grid(8, 0.1)
    plan = sj.optimal_plan(mdp, variance, tolerance=1e-17)
    assert plan.status is (Status.ROUNDING if plan.gap > 1e-17 else Status.OPTIMAL)
    assert plan.gap < 1e-10
    assert is_sound(plan, 1e-17)


def test_too_few_iterations_raise_unless_told_not_to():
    mdp, variance = hard_grid(20, 0.1)
    with pytest.raises(SolverFailure, match="iteration limit"):
        sj.optimal_plan(mdp, variance, max_iterations=3)
    plan = sj.optimal_plan(mdp, variance, max_iterations=3, throw=False)
    assert plan.status is Status.ITERATIONS
    assert not plan.status.ok
    assert imbalance(plan) < 1e-12
    best = sj.optimal_plan(mdp, variance)
    assert plan.gap >= (plan.loss - best.loss) / plan.loss
    assert plan.gap > 1e-3


@pytest.mark.parametrize("method", ["interior-point", "away-step"])
def test_interrupt_returns_the_best_plan_so_far(monkeypatch, method):
    """A real signal, in the middle; the handler is the usual one again afterwards."""

    @contextmanager
    def impatient(progress, tolerance):
        def watch(iteration, gap):
            if iteration == 7:
                signal.raise_signal(signal.SIGINT)

        yield watch

    monkeypatch.setattr(optimal, "_shown", impatient)
    mdp, variance = hard_grid(20, 0.1)
    plan = sj.optimal_plan(mdp, variance, method=method)
    assert plan.status is Status.INTERRUPTED
    assert plan.stats.iterations == 7
    assert imbalance(plan) < 1e-12
    assert 1e-9 < plan.gap < 1.0
    assert "interrupted" in str(plan)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_is_not_held_back(monkeypatch):
    @contextmanager
    def impatient(progress, tolerance):
        def watch(iteration, gap):
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            raise AssertionError("the second one came to nothing")

        yield watch

    monkeypatch.setattr(optimal, "_shown", impatient)
    mdp, variance = hard_grid(20, 0.1)
    plan = sj.optimal_plan(mdp, variance)
    assert plan.status is Status.INTERRUPTED


def test_an_interrupt_of_a_plan_that_takes_no_time_goes_to_the_caller(monkeypatch):
    """Whoever stops a loop over many small plans wants the loop to stop."""
    solve = optimal.solve_small

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return solve(*arguments)

    monkeypatch.setattr(optimal, "solve_small", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sj.optimal_plan(sj.MDP.from_grid(".."), 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_prices_that_are_no_numbers_prove_nothing(bad):
    world = sj.instances.garnet(5, 2, 2, seed=0)
    plan = sj.optimal_plan(world.mdp, world.variance)
    prices = plan.prices.copy()
    prices[2] = bad
    assert certify(world.mdp, plan.objective, plan.occupancy, prices).gap == np.inf


def test_progress_line_is_shown_and_taken_away(capsys):
    mdp, variance = hard_grid(20, 0.1)
    plan = sj.optimal_plan(mdp, variance, progress=True)
    assert plan.status is Status.OPTIMAL
    capsys.readouterr()


def test_plan_reports():
    world = sj.instances.three_state()
    plan = sj.optimal_plan(world.mdp, world.variance)
    text = str(plan)
    for word in ("loss", "bound", "proved", "interior point", "Cholesky"):
        assert word in text
    stats = plan.stats
    assert stats.iterations > 0
    assert stats.seconds > 0
    assert stats.bandit_bound == pytest.approx(1.37583, rel=1e-5)
    assert plan.warnings == plan.notes
    with pytest.raises(AttributeError):
        plan.loss = 0.0
    with pytest.raises(ValueError, match="read-only"):
        plan.occupancy[0] = 1.0
    again = pickle.loads(pickle.dumps(plan))
    assert again.loss == plan.loss
    np.testing.assert_array_equal(again.occupancy, plan.occupancy)


def test_notes_on_mixing():
    """Asymptotically fine, useless for 100 steps: the note says so and names the remedies."""
    world = sj.instances.three_state()
    slow = sj.optimal_plan(world.mdp, world.variance, budget=100)
    assert any("mixes slowly" in note and "faster_mixing_plan" in note for note in slow.notes)
    assert not sj.optimal_plan(world.mdp, world.variance, budget=10**6).notes
    assert not sj.optimal_plan(world.mdp, world.variance).notes
    # The middle state doesn't matter: the best plan all but never crosses it.
    stuck = sj.optimal_plan(world.mdp, [1.0, 0.0, 1.0])
    assert any("multichain" in note for note in stuck.notes)


@given(mdp=mdps(kinds=("ragged", "periodic", "one_action"), min_states=2, max_states=7))
def test_relaxation_time(mdp):
    P = sj.Policy.uniform(mdp).transition_matrix()
    values = np.linalg.eigvals(P.toarray())
    nearest = np.sort(np.abs(1 - values))[1]
    assert relaxation_time(P) == pytest.approx(1 / nearest, rel=1e-6)


def test_relaxation_time_of_a_large_chain():
    mdp, _ = hard_grid(20, 0.3)
    P = sj.Policy.uniform(mdp).transition_matrix()
    nearest = np.sort(np.abs(1 - np.linalg.eigvals(P.toarray())))[1]
    assert relaxation_time(P) == pytest.approx(1 / nearest, rel=1e-5)
    # A random graph, whose factors would be dense.
    mdp = sj.instances.garnet(400, 4, 4, seed=0).mdp
    P = sj.Policy.uniform(mdp).transition_matrix()
    nearest = np.sort(np.abs(1 - np.linalg.eigvals(P.toarray())))[1]
    assert 1 / nearest <= relaxation_time(P) * 1.001 <= 1.1 / nearest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"variance": [1.0, 2.0]}, "variance has shape"),
        ({"variance": -1.0}, "variance of state 0 is -1"),
        ({"variance": np.nan}, "variance of state 0 is nan"),
        ({"variance": 1.0, "weight": [1.0, -2.0, 1.0]}, "weight of state 1 is -2"),
        ({"variance": 1.0, "tolerance": 0.0}, "tolerance is 0"),
        ({"variance": 1.0, "tolerance": np.nan}, "tolerance is nan"),
        ({"variance": 1.0, "method": "simplex"}, "no method 'simplex'"),
        ({"variance": 1.0, "budget": 0}, "budget is 0"),
        ({"variance": 1.0, "max_iterations": 0}, "max_iterations is 0"),
        ({"variance": 1.0, "objective": lambda v, w: None}, "not an Objective"),
        ({"variance": 1.0, "objective": "worst"}, "'worst', not an Objective"),
        ({"variance": 1.0, "objective": MeanError([1.0])}, "not an Objective of 3 states"),
        ({"variance": 1.0, "weight": [1.0, 2.0, 1.0], "objective": Entropy}, "no weights"),
    ],
)
def test_bad_input_is_named(arguments, says):
    world = sj.instances.three_state()
    with pytest.raises(ArgumentError, match=says):
        sj.optimal_plan(world.mdp, **arguments)


def test_wrong_method_lists_the_right_ones():
    with pytest.raises(ArgumentError) as caught:
        sj.optimal_plan(sj.instances.three_state().mdp, 1.0, method="newton")
    for method in METHODS:
        assert method in caught.value.hint


def test_objective_instance_carries_its_own_numbers():
    world = sj.instances.three_state()
    plan = sj.optimal_plan(world.mdp, 1.0, objective=MeanError(world.variance))
    assert plan.loss == pytest.approx(1.37583, rel=1e-5)
