"""Optimal plans with a proved gap, against Clarabel called directly.

The rival gets the same problem in the same homogeneous form, Σ w/η + Σx with one rotated
second-order cone per state, as sparse matrices through its own interface, set up once; its time is
``solve`` alone, which starts anew each time. Of its two factorisations the faster one counts
(QDLDL for ten states and for maps, faer for the rest: measured). Ours is the whole call of
``optimal_plan``: region, solve, centring, balance and the proof in floating point. Gap 1e-9 on
both sides, one thread each. Small plans are also timed as other kernels call them, without the
layers of Python around the compiled loop.

Garnets are the paper's (three actions, two branches). The maps are hard ones: variances over five
decades, cell by cell, and unreliable moves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import fmean
from typing import Any

# Before BLAS and Rayon start: the rival on one thread, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

import clarabel
import numpy as np
import scipy.sparse as sp
from harness import Measured, Row, in_fresh_process, median_seconds

from sojourn.instances import garnet, grid_survey
from sojourn.model import MDP
from sojourn.planning import Plan, optimal_plan
from sojourn.solvers.interior_point_small import REACHED, SmallModel, workspace
from sojourn.solvers.interior_point_small import solve as solve_small
from sojourn.solvers.linear_algebra import Flow
from sojourn.solvers.objectives import MeanError

GAP = 1e-9
PATIENCE = 120.0
"""Seconds that the rival gets for the largest map."""

Problem = tuple[Any, ...]


def rival_problem(mdp: MDP, variance: np.ndarray) -> Problem:
    """min Σt + Σx with x ≥ 0, Bᵀx = 0 and t_s η_s ≥ w_s, that is (t+η, 2√w, t−η) in the cone."""
    pairs, states = mdp.n_pairs, mdp.n_states
    w = variance / variance.mean()
    collect = sp.csr_matrix(
        (np.ones(pairs), (mdp.pair_state, np.arange(pairs))), shape=(states, pairs)
    )
    one = sp.identity(states, format="csr")
    nothing = sp.csr_matrix((states, pairs + states))
    cones = sp.vstack([sp.hstack([-collect, -one]), nothing, sp.hstack([collect, -one])]).tocsr()
    cones = cones[np.arange(3 * states).reshape(3, states).T.ravel()]
    balance = (collect - mdp.transitions.T)[1:]
    A = sp.vstack([
        sp.hstack([balance, sp.csr_matrix((states - 1, states))]),
        sp.hstack([-sp.identity(pairs), sp.csr_matrix((pairs, states))]),
        cones,
    ]).tocsc()  # fmt: skip
    zero = np.zeros(states)
    b = np.concatenate(
        [np.zeros(states - 1 + pairs), np.column_stack([zero, 2 * np.sqrt(w), zero]).ravel()]
    )
    shape = [clarabel.ZeroConeT(states - 1), clarabel.NonnegativeConeT(pairs)]
    shape += [clarabel.SecondOrderConeT(3)] * states
    size = pairs + states
    return sp.csc_matrix((size, size)), np.ones(size), A, b, shape


def rival_solver(problem: Problem, factorisation: str, limit: float | None = None) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.direct_solve_method = factorisation
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = GAP
    if limit is not None:
        settings.time_limit = limit
    return clarabel.DefaultSolver(*problem, settings)


def rival_loss(answer: Any, variance: np.ndarray) -> float:
    # At the optimum Σ w/η = Σ x, so the value is 2 √(Σ w/η · Σ x).
    return (answer.obj_val / 2.0) ** 2 * float(variance.mean()) / variance.size


def garnets(n_states: int, seeds: int, target: float | None, factorisation: str) -> Iterator[Row]:
    """The whole call; below 150 states also the compiled loop alone."""
    ours, theirs, inside, off, iterations = [], [], [], [], []
    how = ""
    repeat = 3 if n_states >= 1000 else 7
    for seed in range(seeds):
        world = garnet(n_states, 3, 2, seed=seed)
        mdp, variance = world.mdp, world.variance
        plan = optimal_plan(mdp, variance, tolerance=GAP)
        assert plan.gap <= GAP
        how = plan.stats.linear_algebra
        iterations.append(plan.stats.iterations)
        ours.append(median_seconds(partial(optimal_plan, mdp, variance, tolerance=GAP), repeat))
        solver = rival_solver(rival_problem(mdp, variance), factorisation)
        off.append(abs(rival_loss(solver.solve(), variance) / plan.loss - 1.0))
        theirs.append(median_seconds(solver.solve, repeat))
        if n_states <= 150:
            inside.append(median_seconds(compiled(mdp, variance), repeat))
    assert max(off) < 1e-7, "the two solvers disagree"
    rival = f"Clarabel, direct ({factorisation})"
    note = f"{seeds} worlds; {how}, {fmean(iterations):.0f} iterations; "
    note += f"losses differ by {max(off):.0e}"
    yield Row(f"optimal_plan, Garnet S={n_states}", fmean(ours), rival, fmean(theirs), target, note)
    if inside:
        yield Row(
            f"the same within a kernel, S={n_states}", fmean(inside), rival, fmean(theirs),
            target, "compiled loop with centring and balance, gap from its own certificate",
        )  # fmt: skip


def compiled(mdp: MDP, variance: np.ndarray) -> Callable[[], None]:
    """One solve as other compiled kernels call it: arrays prepared, nothing but the loop."""
    model = SmallModel.of(Flow(mdp.transitions, mdp.pair_start))
    weight = MeanError(variance).cone().weight  # type: ignore[attr-defined]
    x, h = np.empty(mdp.n_pairs), np.empty(mdp.n_states)
    work = workspace(mdp.n_states, mdp.n_pairs)

    def once() -> None:
        ended = solve_small(model, weight, 1.0, GAP, 200, x, h, work)
        assert ended[2] == REACHED

    return once


def hard_map(side: int, slip: float) -> tuple[MDP, np.ndarray]:
    world = grid_survey(side, side, obstacles=0.0, slip=slip, field="hard", seed=1)
    return world.mdp, world.variance


def compile_first() -> None:
    """The first plan of each kind compiles, imports and reads caches."""
    optimal_plan(*hard_map(15, 0.1))


@contextmanager
def counted_cholmod() -> Iterator[list[float]]:
    """Seconds within CHOLMOD, where it is installed: the part that is not ours to make faster."""
    spent = [0.0]
    try:
        from cvxopt import cholmod
    except ImportError:
        yield spent
        return

    def timed(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = time.perf_counter()
            try:
                return f(*args)
            finally:
                spent[0] += time.perf_counter() - began

        return call

    before = {name: getattr(cholmod, name) for name in ("symbolic", "numeric", "solve")}
    for name, f in before.items():
        setattr(cholmod, name, timed(f))
    try:
        yield spent
    finally:
        for name, f in before.items():
            setattr(cholmod, name, f)


def hard_grid(side: int, slip: float, target: float | None) -> Row:
    """One solve each: they take long enough for the clock."""
    mdp, variance = hard_map(side, slip)
    compile_first()
    with counted_cholmod() as within:
        started = time.perf_counter()
        plan = optimal_plan(mdp, variance, tolerance=GAP)
        ours = time.perf_counter() - started
    assert plan.gap <= GAP
    solver = rival_solver(rival_problem(mdp, variance), "qdldl", PATIENCE)
    started = time.perf_counter()
    answer = solver.solve()
    theirs = time.perf_counter() - started
    off = abs(rival_loss(answer, variance) / plan.loss - 1.0)
    status = str(answer.status)
    ended = f"losses differ by {off:.0e}" if status == "Solved" else f"it ended with {status!r}"
    if status == "MaxTime":
        ended = f"it was stopped after {PATIENCE:.0f} s: the ratio is a lower bound"
    return Row(
        f"optimal_plan, hard grid {side}×{side}, slip {slip:g}", ours,
        "Clarabel, direct (qdldl)", theirs, target,
        f"{plan.stats.linear_algebra}, {plan.stats.iterations} iterations, "
        f"{within[0] / ours:.0%} of the time within CHOLMOD; {ended}",
    )  # fmt: skip


def plan_of_a_large_map(side: int, slip: float, tolerance: float) -> tuple[float, float, str]:
    """Seconds of the plan (not of building the map), proved gap, how it was done."""
    compile_first()
    mdp, variance = hard_map(side, slip)
    started = time.perf_counter()
    plan: Plan = optimal_plan(mdp, variance, tolerance=tolerance)
    seconds = time.perf_counter() - started
    assert plan.status.ok
    how = f"{plan.stats.linear_algebra}, {plan.stats.iterations} iterations"
    return seconds, plan.gap, how


def fresh(side: int, slip: float, tolerance: float = 1e-6) -> Row:
    """In a process of its own, since a peak of memory belongs to a process."""
    measured: Measured = in_fresh_process(plan_of_a_large_map, side, slip, tolerance)
    seconds, gap, how = measured.value
    return Row(
        f"optimal_plan, hard grid {side}×{side}, slip {slip:g}, gap 1e-6",
        seconds,
        note=f"{how}, gap {gap:.0e}; the peak includes the map and its making",
        peak_mib=measured.peak_mib,
    )


def rows(quick: bool) -> Iterator[Row]:
    yield from garnets(10, 2 if quick else 20, 40.0, "qdldl")
    yield from garnets(100, 1 if quick else 10, 6.0, "qdldl")
    if quick:
        yield hard_grid(20, 0.1, None)
        yield fresh(30, 0.1)
        return
    yield from garnets(1000, 3, 4.5, "faer")
    for slip in (0.02, 0.5):
        yield hard_grid(100, slip, None)
    for slip in (0.02, 0.5):
        yield hard_grid(316, slip, 10.0)
    yield fresh(1000, 0.1)
