"""The spectral programs behind faster mixing, against Clarabel called through cvxpy.

FMH-SDP (Eq. SDP_problem) on random maps: a ring with three two-way shortcuts per site, staying
allowed, uneven target distribution, slack of a tenth of it. Both sides reach a relative gap of
about 1e-7, ours proved. The rival's time is one ``solve`` of the ready model, cvxpy's own
compilation included, on one thread like ours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

# Before BLAS and Rayon start: the rival on one thread, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

import cvxpy as cp
import numpy as np
from harness import Row, median_seconds

from sojourn import World
from sojourn.instances import garnet, grid_survey
from sojourn.planning import faster_mixing_plan, fastest_mixing_chain, fmh_sdp, linear_oracle
from sojourn.planning.fastest_chain import TwoWayFlows
from sojourn.solvers.mixing_sdp import MixingProblem, solve_mixing


def random_map(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Which moves are possible, and a target distribution."""
    rng = np.random.default_rng(seed)
    allowed = np.eye(n, dtype=bool)
    for s in range(n):
        allowed[s, (s + 1) % n] = True
        allowed[s, rng.choice(n, 3, replace=False)] = True
    eta = rng.uniform(0.2, 1.0, n)
    return allowed | allowed.T, eta / eta.sum()


def our_problem(allowed: np.ndarray, eta: np.ndarray) -> tuple[MixingProblem, np.ndarray]:
    flows = TwoWayFlows.on(allowed, eta)
    rows = np.ones(eta.size)
    return flows.problem(two_sided=True, low=0.9 * rows, high=1.1 * rows), flows.start()


def rival_problem(allowed: np.ndarray, eta: np.ndarray) -> Any:
    n = eta.size
    d, q = 1.0 / np.sqrt(eta), np.sqrt(eta)
    X, s = cp.Variable((n, n), symmetric=True), cp.Variable()
    Y = cp.multiply(np.outer(d, d), X) - np.outer(q, q)
    r = cp.sum(X, axis=1)
    limits = [
        Y << s * np.eye(n), Y >> -s * np.eye(n), X >= 0, cp.multiply(X, 1.0 - allowed) == 0,
        cp.sum(X) == 1, cp.abs(r - eta) <= 0.1 * eta,
    ]  # fmt: skip
    return cp.Problem(cp.Minimize(s), limits)


def sdp_row(n: int, target: float | None) -> Row:
    allowed, eta = random_map(n)
    problem, start = our_problem(allowed, eta)
    solution = solve_mixing(problem, start)
    ours = median_seconds(lambda: solve_mixing(problem, start))
    model = rival_problem(allowed, eta)
    started = time.perf_counter()
    value = model.solve(solver="CLARABEL")
    theirs = time.perf_counter() - started
    note = (
        f"{problem.heads.size} moves, {solution.iterations} iterations, proved gap "
        f"{solution.value - solution.bound:.0e}, values differ by {abs(solution.value - value):.0e}"
    )
    return Row(f"FMH-SDP, S = {n}", ours, "Clarabel via cvxpy", theirs, target, note)


def alone_row(n: int) -> Row:
    problem, start = our_problem(*random_map(n))
    started = time.perf_counter()
    solution = solve_mixing(problem, start)
    seconds = time.perf_counter() - started
    note = (
        f"{problem.heads.size} moves, {solution.iterations} iterations, proved gap "
        f"{solution.value - solution.bound:.0e}; target < 10 s"
    )
    return Row(f"FMH-SDP, S = {n}", seconds, note=note)


def episode_row(n: int) -> Row:
    """FMH-SDP as FW-AME calls it, step 2 included."""
    world = garnet(n, 3, 3, reversible=True, seed=1)
    target = linear_oracle(world.mdp, np.linspace(0.0, 1.0, n), floor=1e-3)
    slack = np.full(n, 0.02)
    seconds = median_seconds(lambda: fmh_sdp(world.mdp, target, slack, 1e-3))
    return Row(f"fmh_sdp for an episode, S = {n}", seconds, note="both steps; wanted < 20 ms")


def joint_row(what: str, world: World) -> Row:
    plan = faster_mixing_plan(world.mdp, world.variance, 1000)
    seconds = median_seconds(lambda: faster_mixing_plan(world.mdp, world.variance, 1000), repeat=3)
    note = f"whole plan and report; {plan.iterations} iterations, proved gap {plan.gap:.0e}"
    return Row(f"joint form, {what} S = {world.mdp.n_states}", seconds, note=note)


def rows(quick: bool) -> Iterator[Row]:
    if quick:
        yield sdp_row(8, None)
        yield alone_row(20)
        yield episode_row(5)
        yield joint_row("Garnet", garnet(8, 3, 3, seed=1))
        return
    for n, target in ((30, 15.0), (60, 80.0), (100, 150.0)):
        yield sdp_row(n, target)
    yield alone_row(300)
    for n in (5, 10):
        yield episode_row(n)
    for n in (30, 100, 300):
        yield joint_row("Garnet", garnet(n, 3, 3, seed=1))
    # Maps mix slowly, which makes them the harder ones.
    yield joint_row("map", grid_survey(10, 20, seed=1))
    chain = np.ones((40, 40)) - np.tri(40, 40, -2) - np.tri(40, 40, -2).T
    seconds = median_seconds(lambda: fastest_mixing_chain(chain))
    yield Row("fastest chain on a path of 40", seconds, note="SLEM cos(π/40) to 1e-7")
