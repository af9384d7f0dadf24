"""The interior point and its linear algebra: against definitions, against each other, by KKT."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import clarabel
import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sojourn as sj
from sojourn.chains import Chain
from sojourn.solvers.interior_point import balanced, centred, interior_point, uniform_occupancy
from sojourn.solvers.interior_point_small import REACHED, SmallModel, workspace
from sojourn.solvers.interior_point_small import solve as solve_small
from sojourn.solvers.linear_algebra import (
    Cholmod,
    ConjugateGradients,
    CutFlow,
    DenseCholesky,
    Flow,
    SparseCholesky,
    Switching,
    choose_backend,
    diagonal_of_normal,
    has_cholmod,
    level_widths,
    solve_blocks,
)
from sojourn.solvers.objectives import Entropy, LogError, MeanError, PowerMean, WorstState
from sojourn.testing import mdps, random_mdp, random_variance

needs_cholmod = pytest.mark.skipif(not has_cholmod(), reason="cvxopt is not installed")
BACKENDS = [
    DenseCholesky,
    SparseCholesky,
    pytest.param(Cholmod, marks=needs_cholmod),
    ConjugateGradients,
]
OBJECTIVES = {
    "mean": MeanError,
    "power 3": lambda variance: PowerMean(variance, power=3.0),
    "log": LogError,
    "entropy": Entropy,
    "worst": WorstState,
}


def flow_of(mdp):
    return Flow(mdp.transitions, mdp.pair_start)


def follow(flow, objective, backend=None, **arguments):
    return interior_point(
        flow,
        objective.cone(),
        DenseCholesky(flow) if backend is None else backend,
        lambda eta, m: objective.gap(objective.value(eta), objective.lower_bound(m, 1.0)),
        **arguments,
    )


def hard_grid(side, slip, seed=0):
    world = sj.instances.grid_survey(side, side, obstacles=0.0, slip=slip, field="hard", seed=seed)
    return world.mdp, world.variance


# -- the linear system ------------------------------------------------------------------------


def exact_matrix(flow, d, q):
    """M = Bᵀ (diag(1/d) + E diag(q) Eᵀ)⁻¹ B by its definition, in rational numbers."""
    B = [[Fraction(x) for x in row] for row in flow.B.toarray()]
    n = flow.n_states
    M = [[Fraction(0)] * n for _ in range(n)]
    for s in range(n):
        pairs = range(flow.pair_start[s], flow.pair_start[s + 1])
        weight = {p: Fraction(d[p]) for p in pairs}
        shared = Fraction(q[s]) / (1 + Fraction(q[s]) * sum(weight.values()))
        for i in range(n):
            for j in range(n):
                single = sum(weight[p] * B[p][i] * B[p][j] for p in pairs)
                left = sum(weight[p] * B[p][i] for p in pairs)
                right = sum(weight[p] * B[p][j] for p in pairs)
                M[i][j] += single - shared * left * right
    return M


@pytest.mark.parametrize("spread", [1, 8])
def test_assembly_loses_no_digits(spread, rng):
    """Entry by entry against rational arithmetic, with d over 16 orders of magnitude; the
    textbook form (Sherman–Morrison) has no digit left there."""
    mdp = random_mdp("ragged", 5, 3, rng)
    flow = flow_of(mdp)
    d = 10.0 ** rng.uniform(-spread, spread, flow.n_pairs)
    q = 10.0 ** rng.uniform(-spread, spread, flow.n_states)
    q[0] = 0.0
    exact = np.array([[float(x) for x in row] for row in exact_matrix(flow, d, q)])
    dense = DenseCholesky(flow)
    diagonal = dense._assemble(d, q)
    ours = np.tril(dense._matrix)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.max(np.abs(ours - np.tril(exact)) / scale) < 1e-13
    np.testing.assert_allclose(diagonal, np.diag(exact), rtol=1e-13)
    # The other ways to the same matrix.
    sparse = SparseCholesky(flow)
    sparse._assemble(d, q)
    upper = sp.csr_matrix((sparse._values, sparse._index, sparse._start)).toarray()
    np.testing.assert_array_equal(upper, ours.T)
    free = np.empty(flow.n_states)
    B = flow.B
    diagonal_of_normal(flow.pair_start, B.indptr, B.indices, B.data, d, q, free)
    np.testing.assert_allclose(free, np.diag(exact), rtol=1e-6)


def test_block_solves(rng):
    flow = flow_of(random_mdp("ragged", 6, 4, rng))
    d, q = 10.0 ** rng.uniform(-3, 3, flow.n_pairs), 10.0 ** rng.uniform(-3, 3, flow.n_states)
    collect = np.equal(np.arange(flow.n_states)[:, None], flow.pair_state).astype(float)
    H = np.diag(1 / d) + collect.T @ np.diag(q) @ collect
    r, out = rng.normal(size=flow.n_pairs), np.empty(flow.n_pairs)
    solve_blocks(flow.pair_start, d, q, r, out)
    np.testing.assert_allclose(out, np.linalg.solve(H, r), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", BACKENDS)
def test_backends_solve(kind, rng):
    mdp, _ = hard_grid(7, 0.2)
    flow = flow_of(mdp)
    backend = kind(flow)
    for spread in (0.5, 2.0):
        d = 10.0 ** rng.uniform(-spread, spread, flow.n_pairs)
        q = 10.0 ** rng.uniform(-spread, spread, flow.n_states)
        backend.factor(d, q)
        r = rng.normal(size=flow.n_states)
        r -= r.mean()
        y = backend.solve(r)
        inner = np.empty(flow.n_pairs)
        solve_blocks(flow.pair_start, d, q, flow.differences(y), inner)
        np.testing.assert_allclose(flow.residual(inner), r, atol=1e-6)
        assert y[backend.pin] == 0.0


def test_differences_keep_small_chances_beside_large_prices():
    """Two halves joined with chance 1e-10, prices 1e10 apart: B h is of order 1."""
    leak = 1e-10
    P = np.array([[[1 - leak, leak]], [[leak, 1 - leak]]])
    flow = flow_of(sj.MDP.from_array(P))
    high, low = np.array([1e10, 0.0]), np.array([1e-7, 0.0])
    np.testing.assert_allclose(flow.differences(high), [1.0, -1.0], rtol=1e-15)
    step = flow.differences(high, low) - flow.differences(high)
    np.testing.assert_allclose(step, 0.0, atol=1e-15)


@given(mdp=mdps(communicating=True, min_states=2, max_states=7))
def test_cuts_span_the_balance_without_subtracting(mdp):
    flow = flow_of(mdp)
    cuts = CutFlow(flow)
    n = flow.n_states
    assert cuts.member.shape == (n - 1, n)
    assert np.linalg.matrix_rank(np.vstack([cuts.member.astype(float), np.ones(n)])) == n
    np.testing.assert_allclose(
        cuts.G, flow.B.toarray() @ cuts.member.T.astype(float), atol=1e-14, rtol=0
    )
    # Nested or disjoint.
    for a in cuts.member:
        for b in cuts.member:
            assert not (a & b).any() or (a <= b).all() or (b <= a).all()
    y = np.linspace(-1.0, 1.0, n - 1)
    high, low = cuts.prices(y)
    np.testing.assert_allclose(flow.differences(high, low), cuts.differences(y), atol=1e-13)


def test_choice_of_linear_algebra():
    """Small: dense. A map: sparse. A random graph, where every factor fills up: gradients."""
    small, _ = hard_grid(10, 0.1)
    grid, _ = hard_grid(50, 0.1)
    random = sj.instances.garnet(3000, 3, 3, seed=0).mdp
    sparse = Cholmod if has_cholmod() else SparseCholesky
    assert isinstance(choose_backend(flow_of(small)), DenseCholesky)
    assert isinstance(choose_backend(flow_of(grid)), sparse)
    assert isinstance(choose_backend(flow_of(random)), Switching)
    width, depth = level_widths(flow_of(grid))
    assert width <= 60
    assert depth >= 90
    width, depth = level_widths(flow_of(random))
    assert width > 500
    assert depth < 20


# -- the path ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("slip", [0.02, 0.5])
def test_all_backends_agree(name, slip):
    mdp, variance = hard_grid(8, slip)
    flow, objective = flow_of(mdp), OBJECTIVES[name](variance)
    reference = follow(flow, objective, DenseCholesky(flow), tolerance=1e-10)
    assert reference.reached
    kinds = [SparseCholesky, ConjugateGradients, *([Cholmod] if has_cholmod() else [])]
    for kind in kinds:
        if kind is ConjugateGradients and name == "worst":
            continue  # the last systems of a linear programme are beyond it
        loose = 1e-6 if kind is ConjugateGradients else 1e-10
        found = follow(flow, objective, kind(flow), tolerance=loose)
        assert found.reached
        value = objective.value(flow.sums(found.x))
        assert objective.gap(value, objective.value(flow.sums(reference.x))) <= loose
    cuts = CutFlow(flow)
    found = follow(cuts, objective, DenseCholesky(cuts), tolerance=1e-10, feasible_start=True)
    assert found.reached
    np.testing.assert_allclose(flow.sums(found.x), flow.sums(reference.x), rtol=1e-4)


@pytest.mark.parametrize("name", ["mean", "power 3", "log"])
def test_compiled_kernel_equals_the_reference(name, rng):
    for kind in ("ragged", "deterministic", "periodic", "one_action"):
        for n in (2, 5, 20):
            mdp = random_mdp(kind, n, 3, rng)
            flow = flow_of(mdp)
            objective = OBJECTIVES[name](random_variance(n, rng, ratio=1e4))
            cone = objective.cone()
            x, h = np.empty(flow.n_pairs), np.empty(n)
            work = workspace(n, flow.n_pairs)
            _, gap, ended = solve_small(
                SmallModel.of(flow), cone.weight, cone.power, 1e-9, 200, x, h, work
            )
            reference = follow(flow, objective, tolerance=1e-9)
            assert ended == REACHED
            assert gap <= 1e-9
            assert reference.reached
            # Not only the optimum: the same point of the same path.
            np.testing.assert_allclose(x, reference.x, atol=2e-5, rtol=1e-2)
            value = objective.value(flow.sums(x))
            assert abs(value - objective.value(flow.sums(reference.x))) <= 1e-8 * abs(value)


@given(
    mdp=mdps(kinds=("ragged", "deterministic", "periodic"), min_states=2, max_states=8),
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(["mean", "power 3", "log"]),
)
def test_karush_kuhn_tucker(mdp, seed, name):
    """Balanced, x > 0, reduced costs ≥ 0, and zero where x is not."""
    rng = np.random.default_rng(seed)
    flow = flow_of(mdp)
    objective = OBJECTIVES[name](random_variance(mdp.n_states, rng, ratio=1e6))
    found = follow(flow, objective, tolerance=1e-10)
    assert found.reached
    eta = flow.sums(found.x)
    assert np.max(np.abs(flow.residual(found.x)) / eta) < 1e-13
    assert (found.x > 0).all()
    cone = objective.cone()
    slope = flow.spread(cone.slope(cone.scale(eta) * eta))
    reduced = 1.0 + slope + flow.differences(found.h, found.h_low)
    # The gap (1e-10) is second-order in these, and a state counts as much as it is visited.
    assert (flow.spread(eta) * np.maximum(-reduced, 0.0)).max() < 1e-4
    assert found.x @ np.abs(reduced) < 1e-4


def test_history_decreases_and_interrupts_keep_the_best():
    mdp, variance = hard_grid(12, 0.1)
    flow, objective = flow_of(mdp), MeanError(variance)
    whole = follow(flow, objective)
    gaps = [gap for _, gap in whole.history]
    assert gaps[-1] <= 1e-9
    assert all(later < earlier for earlier, later in pairwise(gaps[:-1]))

    def stop(iteration, gap):
        if iteration == 6:
            raise KeyboardInterrupt

    part = follow(flow, objective, watch=stop)
    assert part.interrupted
    assert not part.reached
    eta = flow.sums(part.x)
    assert np.max(np.abs(flow.residual(part.x)) / eta) < 1e-12
    assert objective.value(eta) < 1.1 * objective.value(flow.sums(whole.x))


def test_limits_of_iterations():
    mdp, variance = hard_grid(12, 0.1)
    found = follow(flow_of(mdp), MeanError(variance), max_iterations=3)
    assert not found.reached
    assert found.iterations == 3


# -- centring and balancing -----------------------------------------------------------------------


def test_centre_is_the_largest_sum_of_logarithms(rng):
    """Many actions lead to the same optimum; cvxpy maximises Σ log x over all of them."""
    mdp = sj.MDP.from_grid("...\n...", slip=0.3)
    flow, variance = flow_of(mdp), rng.uniform(0.5, 1.5, 6)
    objective = MeanError(variance)
    found = follow(flow, objective, tolerance=1e-10)
    eta = flow.sums(found.x)
    used = found.x > 1e-6
    x = cp.Variable(flow.n_pairs, nonneg=True)
    collect = np.equal(np.arange(6)[:, None], flow.pair_state).astype(float)
    problem = cp.Problem(
        cp.Maximize(cp.sum(cp.log(x[used]))),
        [
            flow.BT.toarray()[1:] @ x == 0,
            collect @ x == eta,
            x[np.flatnonzero(~used)] == 0 if (~used).any() else x >= 0,
        ],
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_feas=1e-10)
    np.testing.assert_allclose(found.x, x.value, atol=1e-4)
    # A vertex of the same face, moved to its centre.
    corner = cp.Problem(
        cp.Minimize(rng.normal(size=flow.n_pairs) @ x),
        [flow.BT.toarray()[1:] @ x == 0, collect @ x == eta],
    )
    corner.solve(solver=cp.CLARABEL)
    assert np.abs(x.value - found.x).max() > 1e-2
    vertex = balanced(flow, DenseCholesky(flow), np.maximum(x.value, 1e-9))
    vertex /= vertex.sum()
    again = centred(flow, DenseCholesky(flow), vertex)
    np.testing.assert_allclose(again, found.x, atol=1e-4)
    np.testing.assert_allclose(flow.sums(again), flow.sums(vertex), rtol=1e-8)


@given(mdp=mdps(communicating=True, min_states=2, max_states=8), seed=st.integers(0, 2**32 - 1))
def test_balancing(mdp, seed):
    rng = np.random.default_rng(seed)
    flow = flow_of(mdp)
    x = rng.exponential(size=mdp.n_pairs) + 1e-2
    cuts = CutFlow(flow)
    x = balanced(cuts, DenseCholesky(cuts), x)
    cuts = CutFlow(flow, x)  # now the groups that this occupancy hardly connects
    x = balanced(cuts, DenseCholesky(cuts), x)
    eta = mdp.state_sums(x)
    assert (x > 0).all()
    assert np.max(np.abs(mdp.flow_residual(x)) / eta) < 1e-13
    # Balanced at every level: the policy's own stationary distribution is the same.
    moves = sp.csr_matrix((x / mdp.to_pairs(eta), np.arange(mdp.n_pairs), mdp.pair_start))
    stationary = Chain((moves @ mdp.transitions).toarray()).stationary()
    np.testing.assert_allclose(stationary, eta / eta.sum(), rtol=1e-9)


@given(mdp=mdps(communicating=True, max_states=8))
def test_uniform_occupancy(mdp):
    x = uniform_occupancy(flow_of(mdp))
    np.testing.assert_allclose(x, sj.Policy.uniform(mdp).occupancy(), rtol=1e-11)


# -- against Clarabel -----------------------------------------------------------------------------


def clarabel_optimum(flow, variance, tolerance=1e-11):
    """min Σ w/η over Λ as a second-order cone programme, in cone form."""
    n, states = flow.n_pairs, flow.n_states
    i = np.arange(states)
    unit = float(variance.mean())
    root = np.sqrt(variance / unit)
    rows = np.concatenate([3 * flow.pair_state, 3 * flow.pair_state + 1, 3 * i, 3 * i + 1])
    columns = np.concatenate([np.arange(n), np.arange(n), n + i, n + i])
    values = np.concatenate([-np.ones(n), np.ones(n), -np.ones(2 * states)])
    cone = sp.csr_matrix((values, (rows, columns)), shape=(3 * states, n + states))
    A = sp.vstack([
        sp.hstack([flow.BT[1:], sp.csr_matrix((states - 1, states))]),
        sp.hstack([-sp.identity(n), sp.csr_matrix((n, states))]),
        cone,
    ]).tocsc()  # fmt: skip
    b = np.zeros(A.shape[0])
    b[states - 1 + n + 2 :: 3] = 2 * root
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = tolerance
    cones = [clarabel.ZeroConeT(states - 1), clarabel.NonnegativeConeT(n)]
    cones += [clarabel.SecondOrderConeT(3)] * states
    cost = np.ones(n + states)
    solver = clarabel.DefaultSolver(
        sp.csc_matrix((n + states, n + states)), cost, A, b, cones, settings
    )
    # In cone form Σ w/η = Σ x at the optimum, so the objective is 2 √(Σ w/η · Σ x).
    return (solver.solve().obj_val / 2) ** 2 * unit / states


def test_agreement_with_clarabel_on_hundreds_of_worlds():
    rng = np.random.default_rng(7)
    worst = 0.0
    for seed in range(300):
        n = int(rng.integers(2, 13))
        kind = ("ragged", "deterministic", "periodic", "garnet")[seed % 4]
        if kind == "garnet":
            world = sj.instances.garnet(n, 3, min(n, 2), seed=seed)
            mdp, variance = world.mdp, world.variance
        else:
            mdp = random_mdp(kind, n, 3, rng)
            variance = 10.0 ** rng.uniform(-1, 1, n)
        plan = sj.optimal_plan(mdp, variance)
        theirs = clarabel_optimum(flow_of(mdp), variance)
        worst = max(worst, abs(plan.loss / theirs - 1))
    assert worst < 1e-7
