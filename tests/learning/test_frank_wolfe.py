"""FW-AME is Alg. FW-AME: its decisions against an independent computation, its episodes against
the schedules, and what it reaches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sojourn import MDP, Policy, PriorSample, VisitsOnly, World, instances, simulate
from sojourn.errors import ArgumentError, StrategyError
from sojourn.learning import (
    Constant,
    Cubic,
    FrankWolfe,
    Power,
    Theorem,
    TheoryWidth,
    Uniform,
)  # fmt: skip
from sojourn.learning.schedules import as_schedule
from sojourn.planning.linear import largest_floor
from sojourn.testing import SlowWalks

WORLD = instances.garnet(5, 3, 2, seed=1)


def episode_starts(strategy: FrankWolfe, budget: int = 400, **options: Any) -> list[NDArray]:
    sim = simulate(WORLD, strategy, budget, runs=5, record_policies=True, **options)
    assert sim.played is not None
    return [sim.played.time[sim.played.run == run] for run in range(5)]


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        ("cubic", lambda k, tau: tau + (k - 1) ** 3 - 1),
        ("theorem", lambda k, tau: tau * (k - 1) ** 3),
        (25, lambda k, tau: tau + 25 * (k - 2)),
        (Power(2), lambda k, tau: tau + (k - 1) ** 2 - 1),
    ],
)
def test_episodes_begin_when_the_schedule_says(schedule: Any, formula: Any) -> None:
    """In moves made: the paper's t_k − 1."""
    different = set()
    for starts in episode_starts(FrankWolfe(schedule=schedule)):
        first = starts[1]
        different.add(int(first))
        assert starts[0] == 0
        k = np.arange(2, len(starts) + 1)
        np.testing.assert_array_equal(starts[1:], formula(k, first))
        assert formula(len(starts) + 1, first) >= 400
    # τ₁ is adaptive.
    assert len(different) > 1


def test_the_first_episode_ends_when_every_state_has_a_sample() -> None:
    walks = SlowWalks(WORLD, FrankWolfe(), 300, walks=5)
    walks.follow(walks.decide(walks.asking), walks.asking)
    newest = np.take_along_axis(walks.seen.visits, walks.seen.state[:, None], axis=1)[:, 0]
    assert (walks.seen.visits.min(axis=1) == 1).all()
    assert (newest == 1).all()


def records_with_a_porch() -> list[tuple[Any, ...]]:
    """Two steps that are made once, in front of three places that are walked for ever."""
    return [
        ("gate", "go", "porch", 1.0), ("porch", "go", 0, 0.5), ("porch", "go", 1, 0.5),
        (0, "on", 1, 0.8), (0, "on", 0, 0.2), (1, "on", 2, 1.0), (2, "on", 0, 1.0),
        (0, "stay", 0, 1.0), (2, "stay", 2, 1.0),
    ]  # fmt: skip


def test_what_can_not_be_visited_is_not_waited_for() -> None:
    """Nor does it spoil the gradient of what can."""
    mdp = MDP.from_transitions(records_with_a_porch())
    world = World(mdp, variance=[0.0, 0.0, 4.0, 1.0, 9.0], start=0)
    sim = simulate(world, FrankWolfe(), 20_000, runs=8, weight=[0, 1, 1, 1, 1])
    assert (sim.visits[:, 0] == 0).all()
    assert (sim.visits[:, 1] == 1).all()
    assert sim.allocation_ratio[0] < 0.05
    # From the inside neither is ever seen.
    inner = simulate(world.replace(start=3), FrankWolfe(), 20_000, runs=8, weight=[0, 0, 1, 1, 1])
    assert (inner.visits[:, :2] == 0).all()
    assert inner.allocation_ratio[0] < 0.05


def test_a_state_without_weight_is_not_waited_for() -> None:
    """The end of a long corridor, which the uniform policy hardly ever reaches."""
    mdp = MDP.from_grid("." * 30)
    weight = np.zeros(30)
    weight[:3] = 1.0
    sim = simulate(World(mdp, start=1), FrankWolfe(), 400, runs=5, weight=weight,
                   record_policies=True)  # fmt: skip
    assert sim.played is not None
    assert sim.played.time.max() > 300
    assert (sim.visits[:, 20:] == 0).all()


def test_with_prior_samples_the_first_episode_is_one_step() -> None:
    for starts in episode_starts(FrankWolfe(), counting=PriorSample()):
        assert starts[1] == 1


def test_a_budget_that_ends_early() -> None:
    """Not every state is seen in 3 steps: the uniform policy to the end, and the default cost."""
    for strategy in (FrankWolfe(), Uniform()):
        sim = simulate(WORLD, strategy, 3, runs=40, counting=VisitsOnly(unvisited=7.0))
        missing = (sim.visits == 0).sum(axis=1)
        assert (missing >= 2).all()
        assert (sim.allocation_loss[:, 0] >= 3 * 7.0 * missing / 5).all()


def test_the_initial_policy_is_free() -> None:
    mdp = WORLD.mdp
    first = Policy(mdp, np.tile([0.2, 0.3, 0.5], 5))
    sim = simulate(WORLD, FrankWolfe(initial=first), 50, runs=2, record_policies=True)
    assert sim.played is not None
    np.testing.assert_allclose(sim.played.probability[sim.played.policy[0]], first.probability)
    with pytest.raises(StrategyError, match="another model"):
        simulate(instances.garnet(4, 2, 2), FrankWolfe(initial=first), 50)


def test_an_infeasible_floor_shrinks_and_says_so() -> None:
    high = 1.01 * largest_floor(WORLD.mdp)
    sim = simulate(WORLD, FrankWolfe(floor=high), 200, runs=5)
    assert any("lowered" in note for note in sim.notes)
    assert not simulate(WORLD, FrankWolfe(), 200, runs=5).notes


def test_theory_width() -> None:
    walks = SlowWalks(WORLD, FrankWolfe(), 100, walks=2)
    walks.follow(walks.decide(walks.asking), walks.asking)
    seen, everyone = walks.seen, np.arange(2)
    rule = TheoryWidth(range=3.0, confidence=0.1)
    t = seen.time[:, None]
    expected = 5 * 9.0 * np.sqrt(np.log(4 * 5 * t / 0.1) / seen.visits)
    np.testing.assert_allclose(rule(walks.task, seen, everyone), expected)


def test_the_variance_bound_comes_from_the_argument_or_the_world() -> None:
    """Never from the variances: a looser bound of the world makes a wider width."""
    loose = WORLD.replace(variance_bound=1000.0)
    a = simulate(loose, FrankWolfe(), 500, runs=10)
    b = simulate(WORLD, FrankWolfe(variance_bound=1000.0), 500, runs=10)
    c = simulate(WORLD, FrankWolfe(), 500, runs=10)
    np.testing.assert_array_equal(a.visits, b.visits)
    assert (a.visits != c.visits).any()
    assert FrankWolfe().needs == frozenset()
    assert FrankWolfe(known_variance=True).needs == {"variance"}


# -- what it reaches ----------------------------------------------------------------------


def test_it_learns() -> None:
    """Thm. regret_FWAME: the loss of the frequencies falls towards the optimum; uniform's not."""
    sim = simulate(WORLD, FrankWolfe(), 10**5, runs=20, checkpoints=[10**3, 10**4, 10**5])
    ratio = sim.allocation_ratio
    assert ratio[0] > ratio[1] > ratio[2]
    assert ratio[2] < 0.03
    known = simulate(WORLD, FrankWolfe(known_variance=True), 10**5, runs=20)
    assert known.allocation_ratio[0] < 0.02
    assert simulate(WORLD, Uniform(), 10**5, runs=20).allocation_ratio[0] > 0.3


def test_it_lands_near_the_figures_of_the_paper_s_setting() -> None:
    """Medians over Garnets A=3, b=2 that a plain implementation with scipy's linprog found:
    0.16 at n=500 and 0.14 at n=1000 (S=5); a wide interval, for 30 instances."""
    ratios = []
    for seed in range(30):
        world = instances.garnet(5, 3, 2, seed=seed)
        sim = simulate(world, FrankWolfe(), 1000, runs=100, checkpoints=[500, 1000], seed=seed)
        ratios.append(sim.allocation_ratio)
    median = np.median(ratios, axis=0)
    assert 0.10 < median[0] < 0.25
    assert 0.08 < median[1] < 0.20


# -- with FMH-SDP -------------------------------------------------------------------------


def test_fmh_sdp_plays_policies_that_mix_faster() -> None:
    """On a reversible Garnet where FW-AME's own policies mix badly (Fig. plot_learning_mixing)."""
    world = instances.garnet(10, 2, 2, reversible=True, seed=2)
    plain = simulate(world, FrankWolfe(), 300, runs=4, record_policies=True)
    faster = simulate(world, FrankWolfe(mixing="sdp"), 300, runs=4, record_policies=True)
    assert plain.played is not None
    assert faster.played is not None
    assert faster.played.average_slem() < plain.played.average_slem()
    assert faster.strategy == "FW-AME w/ FMH-SDP"


def test_fmh_sdp_where_nothing_symmetric_carries_the_target() -> None:
    """A one-way ring with staying: the target is played, and a note says why."""
    records = [(s, "stay", s, 1.0) for s in range(3)]
    records += [(s, "go", (s + 1) % 3, 1.0) for s in range(3)]
    world = World(MDP.from_transitions(records), variance=[1.0, 2.0, 3.0])
    sim = simulate(world, FrankWolfe(mixing="sdp"), 60, runs=2)
    assert any("symmetric" in note for note in sim.notes)


# -- arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floor": -0.1}, "floor is -0.1"),
        ({"floor": 0.5}, "floor is 0.5"),
        ({"floor": np.nan}, "floor is nan"),
        ({"width": -1.0}, "width is -1"),
        ({"width": "wide"}, "not a confidence width"),
        ({"variance_bound": 0.0}, "variance_bound is 0"),
        ({"schedule": "quadratic"}, "'cubic', 'theorem'"),
        ({"schedule": 0}, "0 steps"),
        ({"schedule": 2.5}, "not a schedule"),
        ({"mixing": "fmh"}, "'sdp'"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        FrankWolfe(**options)
    assert message in str(caught.value)


def test_schedules_by_name() -> None:
    assert as_schedule("cubic") == Cubic()
    assert as_schedule("theorem") == Theorem()
    assert as_schedule(7) == Constant(7)
    assert as_schedule(Power(2)) == Power(2)
    with pytest.raises(ArgumentError):
        Power(0.5)
    with pytest.raises(ArgumentError):
        TheoryWidth(range=0.0)
    with pytest.raises(ArgumentError):
        TheoryWidth(range=1.0, confidence=1.0)
