"""The linear oracle against HiGHS: thousands of small problems, and one large one.

Small: what FW-AME asks on Garnets, the gradients −σ²/η² along the path of a learner, with the
floor of the paper's experiments and with half of what the uniform policy reaches. HiGHS is called
directly, keeps its model and its last basis, and only gets new costs; ours gets the policies of
the last call. Both on one thread.

Large: a grid with log-uniform variances, where the simplex method is slow, against the interior
point of HiGHS without its crossover, which is the fastest that it offers there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import Row, median_seconds

from sojourn.instances import garnet, grid_survey
from sojourn.model import MDP
from sojourn.planning.linear import even_distribution
from sojourn.solvers.linear_oracle import OPTIMAL, DenseOracle, LinearOracle, Status
from sojourn.solvers.linear_oracle_large import HighsOracle


def gradients(mdp: MDP, variance: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Costs that a learner meets: its frequencies wander around the uniform policy's."""
    eta = even_distribution(mdp)
    share = eta.copy()
    costs = []
    for _ in range(count):
        share = 0.8 * share + 0.2 * (0.5 * eta + 0.5 * rng.dirichlet(np.full(eta.size, 3.0)))
        costs.append(-variance * rng.uniform(0.8, 1.2, eta.size) / share**2)
    return np.array(costs)


def solve_all(
    rival: Any, columns: np.ndarray, costs: list[np.ndarray], values: list[float]
) -> None:
    values.clear()
    for g in costs:
        rival.changeColsCost(columns.size, columns, g)
        rival.run()
        values.append(float(np.asarray(rival.getSolution().col_value) @ g))


def small(n_states: int, half: bool, target: float, quick: bool) -> Row:
    rng = np.random.default_rng(0)
    models, count = (2, 10) if quick else (12, 40)
    ours = theirs = active = 0.0
    for seed in range(models):
        world = garnet(n_states, 3, 2, seed=seed)
        mdp = world.mdp
        lower = 0.5 * even_distribution(mdp) if half else np.full(n_states, 2e-3)
        costs = gradients(mdp, world.variance, count, rng)
        lower = np.minimum(lower, 0.9 * even_distribution(mdp))
        # Many walks at once, each continuing with a cost that has moved on.
        walks = 100
        before = np.repeat(costs[:-1], walks, axis=0)
        after = np.repeat(costs[1:], walks, axis=0)
        oracle = DenseOracle(mdp)
        chosen = oracle.solve_batch(before, lower).chosen
        batch = oracle.solve_batch(after, lower, chosen)
        assert (batch.status == OPTIMAL).all()
        active += float(batch.bounded.mean()) / models
        ours += median_seconds(partial(oracle.solve_batch, after, lower, chosen)) / len(after)

        rival = HighsOracle(mdp, lower, np.arange(mdp.n_pairs))._highs
        columns = np.arange(mdp.n_pairs, dtype=np.int32)
        scaled = [mdp.to_pairs(c / np.abs(c).max()) for c in costs]
        values: list[float] = []
        theirs += median_seconds(partial(solve_all, rival, columns, scaled, values)) / count
        mine = batch.value.reshape(-1, walks)[:, 0] / np.abs(costs[1:]).max(axis=1)
        assert np.allclose(values[1:], mine, rtol=1e-6), "the two solvers disagree"
    return Row(
        f"linear oracle, Garnet S={n_states}, "
        + ("half of uniform" if half else "floor of the paper"),
        ours / models,
        "highspy, warm-started",
        theirs / models,
        target,
        f"a bound is active in {100 * active:.0f} % of the problems",
    )


def large(side: int, bounded: bool) -> Row:
    world = grid_survey(side, side, obstacles=0.0, slip=0.1, field="hard", seed=1)
    mdp = world.mdp
    rng = np.random.default_rng(0)
    eta = even_distribution(mdp)
    cost = -world.variance / (eta * rng.uniform(0.5, 1.5, eta.size)) ** 2
    lower = 0.5 * eta if bounded else np.zeros(eta.size)
    oracle = LinearOracle(mdp, lower)
    LinearOracle(grid_survey(20, 20, obstacles=0.0).mdp).solve(np.arange(400.0))  # compile
    started = time.perf_counter()
    answer = oracle.solve(cost)
    ours = time.perf_counter() - started
    assert answer.status is Status.OPTIMAL
    rival = HighsOracle(mdp, lower, np.arange(mdp.n_pairs))._highs
    for option, value in (
        ("solver", "ipm"), ("run_crossover", "off"), ("time_limit", 300.0),
        ("primal_feasibility_tolerance", 1e-7), ("dual_feasibility_tolerance", 1e-7),
    ):  # fmt: skip
        rival.setOptionValue(option, value)
    scaled = mdp.to_pairs(cost / np.abs(cost).max())
    started = time.perf_counter()
    rival.changeColsCost(mdp.n_pairs, np.arange(mdp.n_pairs, dtype=np.int32), scaled)
    rival.run()
    theirs = time.perf_counter() - started
    value = np.asarray(rival.getSolution().col_value) @ scaled * np.abs(cost).max()
    off = abs(value - answer.value) / abs(answer.value)
    return Row(
        f"linear oracle, hard grid {side}×{side}, " + ("with bounds" if bounded else "no bounds"),
        ours,
        "HiGHS interior point",
        theirs,
        18.0 if bounded and side >= 100 else None,
        f"{answer.method}; gap {answer.gap / abs(answer.value):.0e}, values differ by {off:.0e}",
    )


def rows(quick: bool) -> Iterator[Row]:
    for half in (False, True):
        yield small(5, half, 150.0, quick)
        yield small(10, half, 70.0, quick)
    for bounded in (True, False):
        yield large(20 if quick else 100, bounded)
