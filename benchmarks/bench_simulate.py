"""Walks per second: a fixed policy, the paper's table, and what Lookahead takes per step.

The rivals do the same work: move, sample, keep count, mean and spread per state.

    gymnasium loop     one ``env.step`` per step in Python, the way an agent is usually run
    QuantEcon + NumPy  ``MarkovChain.simulate`` (compiled) for the path, NumPy for the rest
    scipy.linprog      FW-AME with one linear programme per episode and NumPy steps in Python

Python loops take minutes for what is to be done; they are timed on a part of it, given in the
note, and the time is scaled up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Row, median_seconds
from numpy.typing import NDArray
from scipy.optimize import linprog

from sojourn import Policy, World, instances, simulate
from sojourn.learning import Fixed, FrankWolfe, Lookahead, Uniform


def rows(quick: bool) -> Iterator[Row]:
    """One row per piece of work."""
    for n_states in (10,) if quick else (10, 1000):
        yield from fixed_policy(n_states, quick)
    yield from paper_table(quick)
    yield decisions("garnet:10,3,2,seed=1", 1000, 20, "≤ 50 µs asked for", quick)
    yield decisions("grid_survey:100,100,field=hard,seed=1", 40, 1, "≤ 50 ms asked for", quick)


def decisions(request: str, budget: int, runs: int, asked: str, quick: bool) -> Row:
    """What Lookahead takes per step, plans and walk together, on one core."""
    world = instances.build("grid_survey:20,20,seed=1" if quick and budget < 100 else request)
    simulate(world, Lookahead(), 2, runs=1)
    runs = 2 if quick else runs
    seconds = median_seconds(
        lambda: simulate(world, Lookahead(), budget, runs=runs, threads=1), repeat=1 if quick else 3
    )
    work = f"Lookahead, one step of {budget}, S={world.mdp.n_states}"
    return Row(work, seconds / (runs * budget), note=f"{asked}, amortised; one thread")


# -- a fixed policy -------------------------------------------------------------------------


def fixed_policy(n_states: int, quick: bool) -> Iterator[Row]:
    world = instances.garnet(n_states, 3, 2, seed=1)
    policy = Policy.uniform(world.mdp)
    steps, runs = (100_000, 2) if quick else (1_000_000, 4)
    total = steps * runs
    simulate(world, Fixed(policy), steps, runs=1)

    def ours() -> None:
        simulate(world, Fixed(policy), steps, runs=runs, threads=1)

    seconds = median_seconds(ours, repeat=3)
    part = 2000 if quick else 20_000
    loop = median_seconds(lambda: gymnasium_loop(world, part), repeat=3) * total / part
    one = f"{seconds / total * 1e9:.1f} ns per step, one thread"
    work = f"fixed policy, S={n_states}, {total} steps"
    yield Row(work, seconds, "gymnasium loop", loop, 400.0, f"{one}; rival on {part} steps")

    many = 100_000
    chain = quantecon_chain(policy)
    compiled = median_seconds(lambda: quantecon_numpy(world, chain, many), repeat=3) * total / many
    yield Row(work, seconds, "QuantEcon + NumPy", compiled, 5.0, f"{one}; rival on {many} steps")


def gymnasium_loop(world: World, steps: int) -> NDArray[np.float64]:
    """A policy in a gymnasium environment, with running means and spreads."""
    import gymnasium

    mdp, deviation = world.mdp, np.sqrt(world.variance)
    indptr, indices, data = mdp.transitions.indptr, mdp.transitions.indices, mdp.transitions.data

    class Environment(gymnasium.Env):  # type: ignore[type-arg]
        observation_space = gymnasium.spaces.Discrete(mdp.n_states)
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.state = 0
            return 0, {}

        def step(self, action: int) -> Any:
            pair = mdp.pair_start[self.state] + action
            lo, hi = indptr[pair], indptr[pair + 1]
            k = np.searchsorted(np.cumsum(data[lo:hi]), self.np_random.random())
            self.state = int(indices[min(lo + k, hi - 1)])
            value = (
                world.mean[self.state] + deviation[self.state] * self.np_random.standard_normal()
            )
            return self.state, value, False, False, {}

    env = Environment()
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    count, mean, spread = (np.zeros(mdp.n_states) for _ in range(3))
    for _ in range(steps):
        s, x, *_ = env.step(int(rng.integers(3)))
        count[s] += 1
        delta = float(x) - mean[s]
        mean[s] += delta / count[s]
        spread[s] += delta * (float(x) - mean[s])
    return spread


def quantecon_chain(policy: Policy) -> Any:
    """The policy's chain; dense where that is small, which is the rival's faster case."""
    import quantecon

    P = policy.transition_matrix()
    return quantecon.MarkovChain(P.toarray() if P.shape[0] <= 100 else P)


def quantecon_numpy(world: World, chain: Any, steps: int) -> tuple[NDArray, NDArray, NDArray]:
    rng = np.random.default_rng(0)
    path = chain.simulate(steps, random_state=1)
    x = world.mean[path] + np.sqrt(world.variance)[path] * rng.standard_normal(steps)
    n = world.mdp.n_states
    count = np.bincount(path, minlength=n)
    mean = np.bincount(path, x, n) / np.maximum(count, 1)
    spread = np.bincount(path, (x - mean[path]) ** 2, n)
    return count, mean, spread


# -- the paper's table ----------------------------------------------------------------------


def paper_table(quick: bool) -> Iterator[Row]:
    """Sec. sec:experiments: Garnets A=3, b=2, S=5 and 10, 100 runs, FW-AME and uniform, n=1000."""
    garnets, runs = (1, 20) if quick else (100, 100)
    worlds = [instances.garnet(s, 3, 2, seed=i) for s in (5, 10) for i in range(garnets)]
    simulate(worlds[0], FrankWolfe(), 100)
    started = time.perf_counter()
    for world in worlds:
        for strategy in (FrankWolfe(), Uniform()):
            simulate(world, strategy, 1000, runs=runs, checkpoints=[500, 1000])
    seconds = time.perf_counter() - started

    part = worlds[::garnets] if quick else worlds[:: garnets // 2]
    sampled = 1 if quick else 3
    started = time.perf_counter()
    for world in part:
        for run in range(sampled):
            plain_frank_wolfe(world, 1000, run)
            plain_uniform(world, 1000, run)
    rival = (time.perf_counter() - started) * len(worlds) * runs / (len(part) * sampled)
    yield Row(
        f"the paper's table, {len(worlds)} Garnets × {runs} runs × 2 strategies",
        seconds,
        "scipy.linprog per episode",
        rival,
        60.0,
        f"all cores; rival on {len(part)} Garnets × {sampled} runs, one core",
    )


def plain_frank_wolfe(world: World, budget: int, seed: int) -> NDArray[np.float64]:
    """FW-AME in plain NumPy, as one writes it for a paper."""
    rng = np.random.default_rng(seed)
    mdp, n = world.mdp, world.mdp.n_states
    P = mdp.transitions.toarray()
    E = np.eye(n)[mdp.pair_state]
    balance = np.vstack([(E - P).T, np.ones(mdp.n_pairs)])
    right = np.r_[np.zeros(n), 1.0]
    moves, deviation = P.cumsum(axis=1), np.sqrt(world.variance)
    visits, total, square = (np.zeros(n) for _ in range(3))
    state, policy = int(rng.integers(n)), Policy.uniform(mdp).probability
    first, episode, following = 0, 1, budget + 1
    uniform, normal = rng.random((budget, 2)), rng.standard_normal(budget)
    actions = policy.reshape(n, -1).cumsum(axis=1)
    for t in range(1, budget + 1):
        action = min(int(np.searchsorted(actions[state], uniform[t - 1, 0])), 2)
        row = moves[state * 3 + action]
        state = min(int(np.searchsorted(row, uniform[t - 1, 1])), n - 1)
        x = world.mean[state] + deviation[state] * normal[t - 1]
        visits[state] += 1
        total[state] += x
        square[state] += x * x
        if not first and visits.min() > 0:
            first, following = t, t
        if t == following:
            episode += 1
            following = first + episode**3 - 1
            variance = square / visits - (total / visits) ** 2
            width = 0.2 * world.variance_bound * np.sqrt(np.log(4 * n * t * t) / visits)
            gradient = -(variance + width) / (visits / t) ** 2
            answer = linprog(
                E @ (gradient / np.abs(gradient).max()),
                A_eq=balance, b_eq=right, A_ub=-E.T, b_ub=np.full(n, -2e-3), method="highs",
            )  # fmt: skip
            if answer.x is not None:
                share = np.maximum(answer.x, 0.0).reshape(n, -1)
                reached = share.sum(axis=1, keepdims=True)
                actions = np.where(reached > 1e-12, share / np.maximum(reached, 1e-300), 1 / 3)
                actions = actions.cumsum(axis=1)
    return total / np.maximum(visits, 1)


def plain_uniform(world: World, budget: int, seed: int) -> NDArray[np.float64]:
    """The uniform policy in plain NumPy."""
    rng = np.random.default_rng(seed)
    n, deviation = world.mdp.n_states, np.sqrt(world.variance)
    moves = Policy.uniform(world.mdp).transition_matrix().toarray().cumsum(axis=1)
    visits, total = np.zeros(n), np.zeros(n)
    state = int(rng.integers(n))
    uniform, normal = rng.random(budget), rng.standard_normal(budget)
    for t in range(budget):
        state = min(int(np.searchsorted(moves[state], uniform[t])), n - 1)
        visits[state] += 1
        total[state] += world.mean[state] + deviation[state] * normal[t]
    return total / np.maximum(visits, 1)
