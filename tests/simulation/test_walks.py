"""The compiled walk has the law that it should: against exact values and a plain walk."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sojourn import MDP, Policy, PriorSample, VisitsOnly, World, finite_loss, instances
from sojourn.learning import (
    AverageReward,
    Decision,
    Fixed,
    FrankWolfe,
    Lawnmower,
    Task,
    Uniform,
)  # fmt: skip
from sojourn.model.counting import Counting
from sojourn.simulation import simulate
from sojourn.testing import SlowWalks, random_mdp

COUNTINGS = (PriorSample(), VisitsOnly(), VisitsOnly(unvisited=0.3))


def z_score(values: NDArray, expected: float) -> float:
    """The distance of a mean from what it should be, in standard errors."""
    distance = abs(values.mean() - expected)
    # Where nothing varies the standard error is rounding, and so is the distance.
    if distance <= 1e-9 * abs(expected):
        return 0.0
    return float(distance / (values.std(ddof=1) / np.sqrt(values.size)))


def some_world(seed: int, kind: str = "ragged", n_states: int = 4) -> World:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(kind, n_states, 3, rng)
    n = mdp.n_states
    return World(
        mdp, rng.normal(size=n), 10.0 ** rng.uniform(-2, 1, n), start=rng.dirichlet(np.ones(n))
    )


def some_policy(mdp: MDP, seed: int) -> Policy:
    rng = np.random.default_rng(seed)
    share = rng.random(mdp.n_pairs) * (rng.random(mdp.n_pairs) < 0.7) + 1e-3
    return Policy(mdp, share / mdp.to_pairs(mdp.state_sums(share)))


@pytest.mark.parametrize("counting", COUNTINGS, ids=repr)
@pytest.mark.parametrize("budget", [1, 2, 5])
def test_short_walks_meet_the_exact_loss(counting: Counting, budget: int) -> None:
    world = some_world(1)
    policy = some_policy(world.mdp, 2)
    exact = float(finite_loss(policy, world.variance, budget, start=world.start, counting=counting))
    sim = simulate(world, Fixed(policy), budget, runs=100_000, counting=counting)
    assert z_score(sim.allocation_loss[:, -1], exact) < 3
    assert z_score(sim.normalized()[:, -1], exact) < 3


@pytest.mark.parametrize("kind", ["ragged", "periodic", "near_reducible", "deterministic"])
@pytest.mark.parametrize("counting", COUNTINGS[:2], ids=repr)
def test_long_walks_meet_the_exact_loss(kind: str, counting: Counting) -> None:
    """Long enough for the policy's own table and for lumped noise; at three budgets at once."""
    world = some_world(3, kind, n_states=3)
    policy = some_policy(world.mdp, 4)
    points = [20, 100, 300]
    exact = finite_loss(policy, world.variance, points, start=world.start, counting=counting)
    sim = simulate(world, Fixed(policy), 300, runs=20_000, checkpoints=points, counting=counting)
    for c in range(3):
        assert z_score(sim.allocation_loss[:, c], exact[c]) < 4
        assert z_score(sim.normalized()[:, c], exact[c]) < 4


def test_weights_enter_every_loss() -> None:
    world = some_world(5)
    policy, weight = some_policy(world.mdp, 6), np.array([0.0, 1.0, 2.0, 5.0])
    exact = float(finite_loss(policy, world.variance, 40, start=world.start, weight=weight,
                              counting=VisitsOnly()))  # fmt: skip
    sim = simulate(world, Fixed(policy), 40, runs=20_000, weight=weight)
    assert z_score(sim.allocation_loss[:, -1], exact) < 4
    assert z_score(sim.normalized()[:, -1], exact) < 4


class InStretches:
    """A policy in stretches of random length, as a policy or as actions drawn beforehand."""

    needs: frozenset[str] = frozenset()

    def __init__(self, policy: Policy, drawn: bool) -> None:
        self.policy, self.drawn, self.name = policy, drawn, "in stretches"

    def start(self, task: Task) -> dict[str, NDArray]:
        return {}

    def plan(self, task: Any, state: Any, seen: Any, walks: NDArray[np.int64]) -> Decision:
        length = np.array([seen.generators[w].integers(1, 9) for w in walks])
        until = seen.time[walks] + length
        share = self.policy.probability
        if not self.drawn:
            return Decision(until, np.broadcast_to(share, (walks.size, share.size)))
        actions = np.empty((walks.size, 8, task.n_states), dtype=np.int64)
        for i, w in enumerate(walks):
            for s in range(task.n_states):
                lo, hi = task.pair_start[s : s + 2]
                p = share[lo:hi] / share[lo:hi].sum()
                actions[i, :, s] = seen.generators[w].choice(np.arange(lo, hi), size=8, p=p)
        return Decision(until, actions=actions)


@pytest.mark.parametrize("drawn", [False, True])
def test_stretches_make_the_same_walk(drawn: bool) -> None:
    """Cutting a policy into stretches, or drawing its actions beforehand, changes no law."""
    world = some_world(7)
    policy = some_policy(world.mdp, 8)
    exact = float(finite_loss(policy, world.variance, 50, start=world.start))
    sim = simulate(world, InStretches(policy, drawn), 50, runs=1500, counting=PriorSample())
    assert z_score(sim.allocation_loss[:, -1], exact) < 4
    assert z_score(sim.normalized()[:, -1], exact) < 4


@pytest.mark.parametrize("budget", [7, 5000])
def test_pairs_and_transitions_have_their_frequencies(budget: int) -> None:
    """Both ways of drawing a move: from the policy's row, and from the policy's own table."""
    world = some_world(9)
    mdp, policy = world.mdp, some_policy(world.mdp, 10)

    class Counting(Fixed):
        needs = frozenset({"transitions"})
        seen: Any = None

        def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
            type(self).seen = seen
            return super().plan(task, state, seen, walks)

    walks = 32
    sim = simulate(world, Counting(policy), budget, runs=walks, threads=1)
    counts = Counting.seen.transitions
    assert (counts.sum(axis=(1, 2)) == budget).all()
    np.testing.assert_array_equal(counts.sum(axis=2), Counting.seen.pair_visits)
    np.testing.assert_array_equal(counts.sum(axis=1), sim.visits)
    # Given how often a pair was taken, where it led is multinomial; and so are the actions.
    taken, led = counts.sum(axis=(0, 2)), counts.sum(axis=0)
    P = mdp.transitions.toarray()
    assert (led[P == 0] == 0).all()
    spread = np.sqrt(np.maximum(taken[:, None] * P * (1 - P), 1e-30))
    assert (np.abs(led - taken[:, None] * P) < 4.5 * spread + 1e-9).all()
    left = mdp.to_pairs(mdp.state_sums(taken))
    share = policy.probability
    spread = np.sqrt(np.maximum(left * share * (1 - share), 1e-30))
    assert (np.abs(taken - left * share) < 4.5 * spread + 1e-9).all()


@pytest.mark.parametrize("noise", ["gaussian", "uniform", "beta", "two-point", "sampler"])
@pytest.mark.parametrize("budget", [20, 400])
def test_noise_has_the_mean_and_the_variance_of_its_state(noise: str, budget: int) -> None:
    """At 400 steps Gaussian noise is drawn as sufficient statistics, at 20 one by one."""
    mean, variance = np.array([1.0, -2.0, 5.0]), np.array([0.01, 1.0, 4.0])
    mdp = instances.cycle(3).mdp
    law: Any = noise if noise != "sampler" else exponential
    world = World(mdp, mean, variance, noise=law)
    sim = simulate(world, Uniform(), budget, runs=20_000)
    fourth = {"gaussian": 3.0, "uniform": 1.8, "beta": 15 / 7, "two-point": 1.0, "sampler": 9.0}
    for s in range(3):
        t = sim.visits[:, s]
        some = t > 1
        t = t[some]
        deviation = (sim.mean[some, s] - mean[s]) / np.sqrt(variance[s] / t)
        assert z_score(deviation, 0.0) < 4
        assert z_score(deviation**2, 1.0) < 4
        # The unbiased variance, with its known second moment: Var = (κ − (T−3)/(T−1))/T·σ⁴.
        unbiased = sim.empirical_variance[some, s] * t / (t - 1) / variance[s]
        assert z_score(unbiased, 1.0) < 4
        expected = (fourth[noise] - (t - 3) / (t - 1)) / t
        assert z_score((unbiased - 1) ** 2 / expected, 1.0) < 4


def exponential(rng: Any, states: Any, mean: NDArray, variance: NDArray) -> NDArray:
    return mean + np.sqrt(variance) * (rng.exponential(size=states.size) - 1.0)


def test_bounded_noise_stays_in_its_bounds() -> None:
    mdp = instances.cycle(3).mdp
    for noise, half in (("uniform", np.sqrt(3)), ("beta", np.sqrt(5)), ("two-point", 1.0)):
        # One sample per walk and state shows each value.
        world = World(mdp, 10.0, 4.0, noise=noise)
        sim = simulate(world, Uniform(), 1, runs=20_000)
        x = (sim.mean[sim.visits == 1] - 10.0) / 2.0
        assert np.abs(x).max() <= half * (1 + 1e-12)
        assert np.abs(x).max() > 0.97 * half


@pytest.mark.parametrize("noise", ["gaussian", "uniform", "sampler"])
@pytest.mark.parametrize("budget", [40, 4000])
def test_large_means_cost_no_accuracy(noise: str, budget: int) -> None:
    """Mean 1e8, deviation 1: a sum of squares would have lost everything."""
    mdp = instances.cycle(3).mdp
    law: Any = noise if noise != "sampler" else exponential
    near = simulate(World(mdp, 0.0, 1.0, noise=law), Uniform(), budget, runs=500)
    far = simulate(World(mdp, 1e8, 1.0, noise=law), Uniform(), budget, runs=500)
    np.testing.assert_array_equal(near.visits, far.visits)
    np.testing.assert_allclose(far.mean - 1e8, near.mean, atol=1e-6)
    np.testing.assert_allclose(far.empirical_variance, near.empirical_variance, atol=1e-6)
    np.testing.assert_allclose(far.error, near.error, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("strategy", [Lawnmower(), AverageReward(known_variance=True)])
@pytest.mark.parametrize("walkers", [1, 2])
def test_certain_walks_equal_the_plain_walk(strategy: Any, walkers: int) -> None:
    """Where neither moves nor decisions are random, step for step."""
    mdp = MDP.from_grid("....\n.##.\n....")
    variance = np.linspace(1, 3, mdp.n_states)
    world = World(mdp, variance=variance, start=2)
    sim = simulate(world, strategy, 77, runs=2, walkers=walkers)
    slow = SlowWalks(world, strategy, 77, walkers=walkers).run()
    np.testing.assert_array_equal(sim.visits, np.repeat(slow.seen.visits, 2, axis=0))
    np.testing.assert_array_equal(sim.final_state, np.repeat(slow.seen.positions, 2, axis=0))


@pytest.mark.parametrize("counting", COUNTINGS[:2], ids=repr)
def test_learning_walks_have_the_law_of_the_plain_walk(counting: Counting) -> None:
    world = instances.garnet(4, 2, 2, seed=3)
    slow = SlowWalks(world, FrankWolfe(), 60, walks=400, counting=counting).run()
    fast = simulate(world, FrankWolfe(), 60, runs=4000, counting=counting)
    a, b = slow.seen.visits, fast.visits
    spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * spread).all()
    a2, b2 = slow.seen.empirical_variance(), fast.empirical_variance
    spread = np.sqrt(a2.var(axis=0) / len(a2) + b2.var(axis=0) / len(b2))
    assert (np.abs(a2.mean(axis=0) - b2.mean(axis=0)) < 4 * spread).all()


class StopsAt(Uniform):
    """Uniform until the first stop condition; then it notes when it was asked."""

    def __init__(self, **condition: Any) -> None:
        self.condition = condition
        self.asked: list[NDArray] = []

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        decision = super().plan(task, state, seen, walks)
        if not len(self.asked):
            for name, value in self.condition.items():
                setattr(
                    decision, name, np.broadcast_to(value, (walks.size, *np.shape(value))).copy()
                )
        self.asked.append(np.column_stack([seen.time[walks], seen.visits[walks].min(axis=1)]))
        self.pairs = seen.pair_visits[walks].copy() if len(self.asked) == 2 else None
        return decision


@pytest.mark.parametrize("budget", [300, 10_000])
def test_the_first_condition_stops_the_walk(budget: int) -> None:
    world = instances.garnet(4, 2, 2, seed=3)
    by_time = StopsAt(until=np.int64(17))
    simulate(world, by_time, budget, runs=8, threads=1)
    assert (by_time.asked[1][:, 0] == 17).all()

    by_visits = StopsAt(until_all_visited=np.bool_(True))
    simulate(world, by_visits, budget, runs=8, threads=1)
    assert (by_visits.asked[1][:, 1] == 1).all()
    assert np.unique(by_visits.asked[1][:, 0]).size > 1

    limit = np.full(world.mdp.n_pairs, 10**9)
    limit[3] = 5
    by_pair = StopsAt(pair_limit=limit)
    first = simulate(world, by_pair, budget, runs=8, threads=1)
    assert first.runs == 8
    assert (by_pair.asked[1][:, 0] >= 5).all()
    assert np.unique(by_pair.asked[1][:, 0]).size > 1


def test_a_pair_stops_the_walk_when_its_count_is_reached() -> None:
    world = instances.garnet(4, 2, 2, seed=3)
    counts: list[NDArray] = []

    class Watching(Uniform):
        def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
            counts.append(seen.pair_visits[walks].copy())
            decision = super().plan(task, state, seen, walks)
            decision.pair_limit = seen.pair_visits[walks] + 3
            return decision

    simulate(world, Watching(), 100, runs=5, threads=1)
    for before, after in itertools.pairwise(counts):
        if len(before) == len(after):
            assert ((after - before).max(axis=1) == 3).all()
            assert ((after - before == 3).sum(axis=1) == 1).all()


class Watched(Fixed):
    """Follows its policy, watched by a limit that is never reached, in stretches if asked."""

    def __init__(self, policy: Policy, stretch: int | None = None) -> None:
        super().__init__(policy)
        self.stretch = stretch

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        self.seen = seen
        decision = super().plan(task, state, seen, walks)
        if self.stretch is not None:
            decision.until = seen.time[walks] + self.stretch + walks % 3
        else:
            decision.pair_limit = np.full((walks.size, task.n_pairs), 10**9)
        return decision


class Seeing(Fixed):
    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        self.seen = seen
        return super().plan(task, state, seen, walks)


@pytest.mark.parametrize("points", [[3000], [1000, 1001, 1010, 2000, 3000]])
@pytest.mark.parametrize("stretch", [None, 700])
def test_walks_advanced_together_are_those_advanced_alone(
    points: list[int], stretch: int | None
) -> None:
    """The plain loop for what a fixed policy does, and the general one for all else: same bits
    of the walk, and where stretches cut the noise alike, the same noise."""
    world = some_world(11)
    policy = some_policy(world.mdp, 12)
    together, alone = Seeing(policy), Watched(policy, stretch)
    a = simulate(world, together, 3000, runs=21, checkpoints=points, threads=1)
    b = simulate(world, alone, 3000, runs=21, checkpoints=points, threads=1)
    np.testing.assert_array_equal(a.visits, b.visits)
    np.testing.assert_array_equal(a.final_state, b.final_state)
    np.testing.assert_array_equal(together.seen.pair_visits, alone.seen.pair_visits)
    np.testing.assert_allclose(a.allocation_loss, b.allocation_loss, rtol=1e-13)
    if stretch is None:
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.error, b.error)


def test_walkers_move_in_turn_and_share_one_table() -> None:
    world = World(MDP.from_grid("........"), start=3)
    sim = simulate(world, Uniform(), 1001, runs=50, walkers=3)
    assert sim.final_state.shape == (50, 3)
    assert (sim.visits.sum(axis=1) == 1001).all()
    # Of 2 moves by 3 devices, the third has not moved.
    short = simulate(world, Uniform(), 2, runs=50, walkers=3)
    assert (short.final_state[:, 2] == 3).all()
    assert (np.abs(short.final_state[:, :2] - 3) <= 1).all()
    # Devices start independently of each other.
    spread = simulate(world.replace(start=None), Uniform(), 1, runs=200, walkers=2)
    assert abs(np.corrcoef(spread.final_state.T)[0, 1]) < 4 / np.sqrt(200)


def test_one_state_and_one_action() -> None:
    world = World(MDP.from_array(np.ones((1, 1, 1))), 2.0, 3.0)
    sim = simulate(world, Uniform(), 50, runs=4000)
    assert (sim.allocation_loss == 3.0).all()
    assert z_score(sim.normalized()[:, 0], 3.0) < 4


def test_variances_of_very_different_size() -> None:
    mdp = instances.cycle(3).mdp
    variance = np.array([1e-12, 1.0, 0.0])
    sim = simulate(World(mdp, 0.0, variance), Uniform(), 500, runs=4000)
    assert (sim.empirical_variance[:, 2] == 0).all()
    assert (
        z_score(sim.empirical_variance[:, 0] * sim.visits[:, 0] / (sim.visits[:, 0] - 1), 1e-12) < 4
    )
