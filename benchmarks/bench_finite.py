"""The exact finite loss against Monte Carlo, and what large worlds, gradients and plans cost.

The rival estimates E[1/T] by walking: compiled, on one thread, alias tables (one random number
and two loads per move), counts in registers' reach, no Python in the loop. It runs as many walks
as a relative standard error of 1e-3 takes (found by a pilot), which is six digits short of the
exact value: each further digit would take it a hundred times longer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Row, in_fresh_process, median_seconds
from numba import njit
from numpy.typing import NDArray

import sojourn as sj
from sojourn.planning import budget_plan, exact_optimum, finite_loss, finite_loss_gradient
from sojourn.solvers.finite_visits import visit_law


@njit(cache=True)
def monte_carlo(
    threshold: NDArray,
    own: NDArray,
    other: NDArray,
    price: NDArray,
    moves: int,
    runs: int,
    seed: int,
) -> tuple[float, float]:
    """Mean and variance over ``runs`` walks of Σ price/(1 + visits), from a uniform start."""
    n, width = threshold.shape
    visits = np.empty(n, dtype=np.int64)
    total, squares = 0.0, 0.0
    word = np.uint64(seed) * np.uint64(2685821657736338717) + np.uint64(1)
    scale = 1.0 / 9007199254740992.0
    for _ in range(runs):
        visits[:] = 1
        here = -1
        for _ in range(moves + 1):
            # xorshift64*: a handful of cycles, good enough to be beaten fairly.
            word ^= word >> np.uint64(12)
            word ^= word << np.uint64(25)
            word ^= word >> np.uint64(27)
            u = ((word * np.uint64(2685821657736338717)) >> np.uint64(11)) * scale
            if here < 0:
                here = int(u * n)
                continue
            u *= width
            slot = int(u)
            here = own[here, slot] if u - slot < threshold[here, slot] else other[here, slot]
            visits[here] += 1
        loss = 0.0
        for s in range(n):
            loss += price[s] / visits[s]
        total += loss
        squares += loss * loss
    mean = total / runs
    return mean, squares / runs - mean * mean


def alias_tables(P: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Walker's tables per row, over the row's successors only."""
    width = int((P > 0).sum(axis=1).max())
    threshold, own, other = np.zeros((3, P.shape[0], width))
    for s, row in enumerate(P):
        states = np.flatnonzero(row)
        share = np.zeros(width)
        share[: states.size] = row[states] * width
        names = np.zeros(width)
        names[: states.size] = states
        alias = names.copy()
        small = [k for k in range(width) if share[k] < 1]
        large = [k for k in range(width) if share[k] >= 1]
        while small and large:
            k, rich = small.pop(), large[-1]
            alias[k] = names[rich]
            share[rich] -= 1 - share[k]
            if share[rich] < 1:
                small.append(large.pop())
        threshold[s], own[s], other[s] = share, names, alias
    return threshold, own.astype(np.int64), other.astype(np.int64)


def against_monte_carlo(
    name: str, world: sj.World, budget: int, precision: float, target: float | None
) -> Row:
    n_states = world.mdp.n_states
    policy = sj.Policy.uniform(world.mdp)
    tables = alias_tables(policy.transition_matrix().toarray())
    price = world.variance * budget / n_states
    _, spread = monte_carlo(*tables, price, budget - 1, 2000, 7)
    exact = finite_loss(policy, world.variance, budget)
    runs = int(np.ceil(spread / (precision * exact) ** 2))
    started = time.perf_counter()
    mean, _ = monte_carlo(*tables, price, budget - 1, runs, 1)
    walking = time.perf_counter() - started
    ours = median_seconds(lambda: finite_loss(policy, world.variance, budget))
    other = finite_loss(policy, world.variance, budget, method="quadrature")
    return Row(
        f"finite_loss {name} S={n_states} n={budget}",
        ours,
        f"compiled Monte Carlo to {precision:g}",
        walking,
        target,
        f"{runs} walks, {walking / runs / budget * 1e9:.1f} ns per move; it is off by "
        f"{abs(mean / exact - 1):.0e}, we by {abs(exact / other - 1):.0e}",
    )


def large(kind: str, side: int, budget: int, method: str) -> float:
    """One evaluation on a large sparse chain."""
    if kind == "grid":
        world = sj.instances.grid_survey(side, side, seed=0)
    else:
        world = sj.instances.garnet(side * side, 5, 4, seed=0)
    policy = sj.Policy.uniform(world.mdp)
    started = time.perf_counter()
    finite_loss(policy, world.variance, budget, method=method)
    return time.perf_counter() - started


def rows(quick: bool) -> Iterator[Row]:
    # How many walks a standard error takes is a matter of the world: many where walks differ,
    # few where every walk of this length sees the same. Both are shown.
    budget, precision = (100, 1e-2) if quick else (1000, 1e-3)
    corridor = sj.instances.corridor(10)
    yield against_monte_carlo("corridor", corridor, budget, precision, None if quick else 1e4)
    world = sj.instances.garnet(10, 3, 2, seed=1)
    yield against_monte_carlo("garnet", world, budget, precision, None)

    policy = sj.Policy.uniform(world.mdp)
    P = policy.transition_matrix().toarray()
    start = np.full(10, 0.1)
    alone = median_seconds(lambda: finite_loss(policy, world.variance, budget))

    def law(method: str) -> Any:
        return visit_law(P, start, [budget - 1], 1, method)

    for method, what in (("series", "any chain, all n"), ("quadrature", "any chain, one n")):
        yield Row(
            f"finite_loss S=10 n={budget}, auto",
            alone,
            f"our {method} method ({what})",
            median_seconds(lambda method=method: law(method)),
        )
    yield Row(
        f"gradient S=10 n={budget}",
        median_seconds(lambda: finite_loss_gradient(policy, world.variance, budget)),
        "central differences of finite_loss",
        2 * world.mdp.n_pairs * alone,
    )
    yield Row(
        f"budget_plan S=10 n={budget}",
        median_seconds(lambda: budget_plan(world.mdp, world.variance, budget), repeat=1),
        note="all starts, with the bound",
    )
    three = sj.instances.three_state()
    steps = 60 if quick else 500
    yield Row(
        f"exact_optimum S=3 n={steps}",
        median_seconds(
            lambda: exact_optimum(
                three.mdp, three.variance, steps, counting=sj.VisitsOnly(), keep_decisions=False
            ),
            repeat=1,
        ),
        note="dynamic programming on counts",
    )
    side = 20 if quick else 100
    for kind in ("grid", "garnet"):
        for method in ("auto", "second-order"):
            seen = in_fresh_process(large, kind, side, budget, method)
            yield Row(
                f"finite_loss {kind} S≈{side * side} n={budget}, {method}",
                seen.value,
                note="sparse, all cores",
                peak_mib=seen.peak_mib,
            )
