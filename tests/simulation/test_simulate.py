"""The surface of simulate: reproducible, interruptible, and frank about bad input."""

from __future__ import annotations

import _thread
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sojourn import (
    MDP,
    Policy,
    PriorSample,
    VisitsOnly,
    World,
    instances,
    optimal_plan,
    simulate,
)  # fmt: skip
from sojourn.errors import ArgumentError, InfiniteLoss, ModelError, StrategyError
from sojourn.learning import (
    AverageReward,
    Decision,
    Fixed,
    FrankWolfe,
    Lawnmower,
    Lookahead,
    Oracle,
    Uniform,
)  # fmt: skip
from sojourn.simulation import Simulation, Status

WORLD = instances.garnet(5, 3, 2, seed=1)


def same(a: Simulation, b: Simulation) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("error", "allocation_loss", "visits", "mean", "final_state")
    )


# -- reproducible -----------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["gaussian", "sampler"])
def test_the_same_bits_on_any_number_of_threads(noise: str) -> None:
    def sampler(rng: Any, states: Any, mean: NDArray, variance: NDArray) -> NDArray:
        return mean + np.sqrt(variance) * rng.standard_normal(states.size)

    law: Any = noise if noise == "gaussian" else sampler
    world = WORLD.replace(noise=law)
    one = simulate(world, FrankWolfe(), 400, runs=150, seed=3, threads=1)
    for threads in (2, 5):
        assert same(one, simulate(world, FrankWolfe(), 400, runs=150, seed=3, threads=threads))
    assert not same(one, simulate(world, FrankWolfe(), 400, runs=150, seed=4))


@pytest.mark.parametrize(
    "strategy",
    [Fixed(Policy.uniform(WORLD.mdp)), FrankWolfe(), AverageReward(), Lawnmower(), Lookahead()],
    ids=lambda s: s.name,
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_same_bits_however_walks_are_grouped(
    strategy: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = simulate(WORLD, strategy, 200, runs=40)
    module = import_module("sojourn.simulation.simulate")
    monkeypatch.setattr(module, "SMALLEST_BLOCK", size)
    monkeypatch.setattr(module, "LARGEST_BLOCK", size)
    assert same(one, simulate(WORLD, strategy, 200, runs=40))


def test_more_walks_leave_the_first_as_they_were() -> None:
    few = simulate(WORLD, FrankWolfe(), 300, runs=10)
    many = simulate(WORLD, FrankWolfe(), 300, runs=200)
    assert np.array_equal(few.mean, many.mean[:10])


def test_checkpoints_change_nothing_but_what_is_recorded() -> None:
    """Also where noise is lumped, whose lumps the checkpoints cut, the moves stay."""
    plain = simulate(WORLD, Uniform(), 5000, runs=20)
    cut = simulate(WORLD, Uniform(), 5000, runs=20, checkpoints=[10, 999, 5000])
    assert np.array_equal(plain.visits, cut.visits)
    np.testing.assert_allclose(plain.allocation_loss[:, -1], cut.allocation_loss[:, -1])


def test_noise_does_not_move_the_device() -> None:
    calm, wild = (
        simulate(WORLD.replace(noise=n), Uniform(), 500, runs=20) for n in ("two-point", "beta")
    )
    assert np.array_equal(calm.visits, wild.visits)


def test_a_generator_as_seed_goes_on() -> None:
    rng = np.random.default_rng(7)
    first, second = (simulate(WORLD, Uniform(), 50, runs=5, seed=rng) for _ in range(2))
    assert not same(first, second)
    assert same(first, simulate(WORLD, Uniform(), 50, runs=5, seed=np.random.default_rng(7)))


def test_walks_are_independent() -> None:
    sim = simulate(WORLD, Uniform(), 200, runs=400)
    correlation = np.corrcoef(sim.error[:-1, 0], sim.error[1:, 0])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(400)


# -- what is reported -------------------------------------------------------------------


@pytest.mark.parametrize("counting", [PriorSample(), VisitsOnly(), VisitsOnly(unvisited=2.0)])
def test_losses_follow_their_formulas(counting: Any) -> None:
    points = [1, 4, 60, 300]
    sim = simulate(WORLD, Uniform(), 300, runs=50, checkpoints=points, counting=counting)
    n = np.array(points)
    assert sim.error.shape == sim.allocation_loss.shape == (50, 4)
    np.testing.assert_array_equal(sim.checkpoints, n)
    np.testing.assert_allclose(sim.loss, sim.error.mean(axis=0))
    np.testing.assert_allclose(sim.normalized_loss, n * sim.loss)
    best = optimal_plan(WORLD.mdp, WORLD.variance).loss
    np.testing.assert_allclose(sim.ratio, n * sim.loss / best - 1)
    np.testing.assert_allclose(sim.allocation_ratio, sim.allocation_loss.mean(axis=0) / best - 1)
    # The last checkpoint is the end of the walk, of which everything is known.
    t, v = sim.visits, WORLD.variance
    cost = counting.unvisited_cost(v)
    square = np.where(t > 0, (sim.mean - WORLD.mean) ** 2, cost)
    share = np.where(t > 0, v / np.maximum(t, 1), cost)
    np.testing.assert_allclose(sim.error[:, -1], square.mean(axis=1))
    np.testing.assert_allclose(sim.allocation_loss[:, -1], 300 * share.mean(axis=1))
    assert (t.sum(axis=1) == counting.moves(300) + counting.prior * 5).all()


def test_spread_over_the_walks() -> None:
    sim = simulate(WORLD, Uniform(), 100, runs=60, checkpoints=[50, 100])
    normalized = sim.checkpoints * sim.error
    np.testing.assert_allclose(sim.median, np.median(normalized, axis=0))
    np.testing.assert_allclose(sim.max, normalized.max(axis=0))
    np.testing.assert_allclose(sim.quantile(0.9), np.quantile(normalized, 0.9, axis=0))
    assert sim.quantile([0.05, 0.95]).shape == (2, 2)
    error = normalized.std(axis=0, ddof=1) / np.sqrt(60)
    np.testing.assert_allclose(sim.standard_error(), error)
    np.testing.assert_allclose(sim.ratio_standard_error, error / sim.optimal_loss)
    np.testing.assert_allclose(
        sim.standard_error("allocation"), sim.allocation_loss.std(axis=0, ddof=1) / np.sqrt(60)
    )
    assert np.isnan(simulate(WORLD, Uniform(), 10, runs=1).standard_error()).all()
    assert set(sim.summary()) >= {"normalized_loss", "standard_error", "median", "q95", "max"}
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        sim.quantile(95)
    with pytest.raises(ArgumentError, match="'allocation'"):
        sim.standard_error("variance")


def test_the_standard_error_is_that_of_the_mean() -> None:
    means = [simulate(WORLD, Uniform(), 30, runs=50, seed=s).normalized_loss[0] for s in range(300)]
    claimed = simulate(WORLD, Uniform(), 30, runs=15_000).standard_error()[0] * np.sqrt(300)
    assert abs(np.std(means) / claimed - 1) < 4 / np.sqrt(2 * 300)


def test_home() -> None:
    world = World(MDP.from_grid("..."), start=0)
    sim = simulate(world, Uniform(), 20, runs=300, home=1)
    assert sim.at_home.shape == (300,)
    assert 0 < sim.at_home.mean() < 1
    np.testing.assert_array_equal(sim.at_home, sim.final_state[:, 0] == 1)
    with pytest.raises(ArgumentError, match="no home"):
        _ = simulate(world, Uniform(), 20).at_home


def test_export(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    sim = simulate(WORLD, Uniform(), 60, runs=7, checkpoints=[30, 60])
    table = sim.to_pandas()
    assert len(table) == 14
    last = table[table["checkpoint"] == 60]
    np.testing.assert_array_equal(last["error"], sim.error[:, 1])
    np.testing.assert_array_equal(last["allocation_loss"], sim.allocation_loss[:, 1])
    path = sim.save(tmp_path / "walks.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(path), table)


def test_policies_played() -> None:
    sim = simulate(WORLD, FrankWolfe(), 300, runs=6, record_policies=True)
    played = sim.played
    assert played is not None
    assert simulate(WORLD, FrankWolfe(), 300, runs=6).played is None
    assert same(sim, simulate(WORLD, FrankWolfe(), 300, runs=6))
    for run in range(6):
        mine = played.run == run
        assert played.steps[mine].sum() == 300
        assert (np.diff(played.time[mine]) == played.steps[mine][:-1]).all()
    # Distinct policies are kept once, and analysed as chains.
    assert len(np.unique(played.probability, axis=0)) == len(played.probability)
    first = played.policies[int(played.policy[0])]
    np.testing.assert_allclose(first.probability, Policy.uniform(WORLD.mdp).probability)
    assert played.slem[0] == pytest.approx(first.chain().slem)
    assert played.recurrent_classes[0] == 1
    slem = played.slem
    assert played.average_slem() == pytest.approx(slem.mean())
    assert played.average_slem("step") == pytest.approx(np.average(slem, weights=played.steps))
    assert len(played.to_pandas()) == len(played.run)


def test_a_trap_is_reported() -> None:
    """On the three-state world FW-AME's vertices have two classes (why its tails are heavy)."""
    world = instances.three_state()
    sim = simulate(world, FrankWolfe(), 300, runs=20, record_policies=True)
    assert any("recurrent classes" in note for note in sim.notes)
    assert sim.played is not None
    assert sim.played.recurrent_classes.max() == 2


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = simulate(WORLD, Uniform(), 100, runs=10)
    assert capsys.readouterr() == ("", "")
    loud = simulate(WORLD, Uniform(), 100, runs=10, progress=True)
    assert same(quiet, loud)


def test_what_a_strategy_is_told() -> None:
    """The declared bound, the number of moves, and nothing of the truth."""
    told: list[Any] = []

    class Curious(Uniform):
        def start(self, task: Any) -> Any:
            told.append(task)
            return {}

    world = WORLD.replace(variance_bound=40.0)
    weight = np.arange(5.0)
    simulate(world, Curious(), 30, runs=2, weight=weight, home=1, counting=PriorSample())
    (task,) = told
    assert (task.budget, task.variance_bound, task.home, task.walks) == (29, 40.0, 1, 2)
    assert task.variance is None
    np.testing.assert_array_equal(task.weights, weight)

    class Learner(Curious):
        needs = frozenset({"transitions"})

    simulate(world, Learner(), 30, runs=2)
    assert told[-1].mdp is None
    assert told[-1].n_states == 5


# -- interrupted ------------------------------------------------------------------------


class Slow(Uniform):
    """Asks often, and waits for ``released`` in the walks after the first blocks."""

    def __init__(self, interrupt_at: int) -> None:
        self.calls, self.interrupt_at = 0, interrupt_at

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Decision:
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        decision = super().plan(task, state, seen, walks)
        decision.until = seen.time[walks] + 10
        return decision


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_returns_the_walks_that_are_done(threads: int) -> None:
    """Each block of 32 walks takes 10 decisions; the interrupt comes in a later one."""
    sim = simulate(WORLD, Slow(36), 100, runs=320, threads=threads)
    assert sim.status is Status.INTERRUPTED
    assert 32 <= sim.runs < 320
    assert sim.runs % 32 == 0
    assert (sim.visits.sum(axis=1) == 100).all()
    whole = simulate(WORLD, Uniform(), 100, runs=320)
    assert whole.status is Status.FINISHED
    assert "interrupted" in repr(sim)


def test_an_interrupt_within_the_first_walk_returns_its_checkpoints() -> None:
    sim = simulate(WORLD, Slow(6), 100, runs=3, checkpoints=[20, 40, 90, 100], threads=1)
    assert sim.status is Status.INTERRUPTED
    np.testing.assert_array_equal(sim.checkpoints, [20, 40])
    assert np.isfinite(sim.error).all()
    assert sim.error.shape == (3, 2)


def test_an_interrupt_before_anything_is_done_is_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, Slow(2), 100, runs=3, threads=1)


def test_ctrl_c_stops_a_long_stretch() -> None:
    """A real interrupt, in the middle of what would take minutes."""
    timer = threading.Timer(0.5, _thread.interrupt_main)
    points = [1000, 10**11]
    simulate(WORLD, Uniform(), 10)
    timer.start()
    sim = simulate(WORLD, Uniform(), 10**11, runs=4, checkpoints=points, threads=2)
    assert sim.status is Status.INTERRUPTED
    np.testing.assert_array_equal(sim.checkpoints, [1000])


# -- bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": 0}, "budget is 0"),
        ({"budget": -5}, "budget is -5"),
        ({"budget": 10.5}, "budget is 10.5"),
        ({"budget": True}, "budget is True"),
        ({"runs": 0}, "runs is 0"),
        ({"walkers": 0}, "walkers is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"home": 99}, "home is 99"),
        ({"home": -1}, "home is -1"),
        ({"checkpoints": []}, "checkpoints"),
        ({"checkpoints": [0, 10]}, "from 0 to 10"),
        ({"checkpoints": [10, 101]}, "from 10 to 101"),
        ({"checkpoints": [1.5]}, "checkpoints"),
        ({"weight": [1, 2]}, "weight"),
        ({"weight": -1.0}, "weight"),
        ({"weight": np.nan}, "weight"),
        ({"budget": 10**19}, "budget is 1000"),
        ({"home": "gate"}, "home is 'gate'"),
        ({"weight": np.zeros(5)}, "every weight is 0"),
        ({"seed": "monday"}, "seed is 'monday'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"counting": "visits"}, "counting is 'visits'"),
        ({"counting": VisitsOnly}, "counting is <class"),
        ({"world": WORLD.mdp}, "MDP is not a world"),
        ({"strategy": Uniform}, "not a strategy"),
        ({"strategy": "uniform"}, "not a strategy"),
        ({"strategy": Policy.uniform(WORLD.mdp)}, "not a strategy"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        simulate(**({"world": WORLD, "strategy": Uniform(), "budget": 100} | arguments))
    assert caught.value.hint


def test_a_strategy_can_not_need_just_anything() -> None:
    class Greedy(Uniform):
        needs = frozenset({"mean"})

    with pytest.raises(ArgumentError, match="needs mean"):
        simulate(WORLD, Greedy(), 10)


def test_needs_are_a_set() -> None:
    class Misspelt(Uniform):
        needs: Any = "variance"

    with pytest.raises(ArgumentError, match="the string 'variance'"):
        simulate(WORLD, Misspelt(), 10)


def test_a_memory_is_a_dict() -> None:
    class Forgetful(Uniform):
        def start(self, task: Any) -> Any:
            return None

    with pytest.raises(StrategyError, match="NoneType from start"):
        simulate(WORLD, Forgetful(), 10)


class Bad(Uniform):
    """Uniform decisions with one thing changed."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def plan(self, task: Any, state: Any, seen: Any, walks: Any) -> Any:
        decision = super().plan(task, state, seen, walks)
        for name, change in self.changes.items():
            setattr(decision, name, change(np.array(getattr(decision, name))))
        return decision


def with_entry(index: Any, value: Any) -> Any:
    def change(array: NDArray) -> NDArray:
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": with_entry((3, 4), 0.9)}, r"sum to 1\.5.*state 1 \(walk 3, time 0\)"),
        ({"policy": with_entry((3, 4), np.nan)}, "not a number in state 1"),
        ({"policy": with_entry((2, slice(0, 3)), [-0.1, 0.6, 0.5])}, "probability -0.1 in state 0"),
        ({"policy": lambda a: a[:, :-1]}, "policy of shape"),
        ({"policy": lambda a: None}, "neither a policy and actions"),
        ({"until": lambda a: a * 0}, "at time 0 until time 0"),
        ({"until": lambda a: a * 0.5}, "until of type float64"),
        ({"until": lambda a: a[:-1]}, "until of shape"),
        ({"until_all_visited": lambda a: np.ones(2, bool)}, "until_all_visited of shape"),
        ({"pair_limit": lambda a: np.ones(3, int)}, "pair_limit of shape"),
        ({"actions": lambda a: np.zeros((10, 1, 5), int)}, "both a policy and actions"),
        ({"policy": lambda a: None, "actions": lambda a: np.zeros((10, 2, 5), int)},
         "chose pair 0 in state 1 at step 0"),
        ({"policy": lambda a: None, "actions": lambda a: np.zeros((10, 0, 5), int)}, "L >= 1"),
        ({"policy": lambda a: None, "actions": lambda a: np.zeros((10, 2, 5))}, "type float64"),
        ({"info": lambda a: None}, "info of type NoneType"),
        ({"info": lambda a: {"notes": "one"}}, "the notes 'one'"),
        ({"info": lambda a: {"notes": [1]}}, r"the notes \[1\]"),
    ],
)  # fmt: skip
def test_bad_decisions_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        simulate(WORLD, Bad(**changes), 20, runs=10)


def test_a_strategy_that_returns_no_decision() -> None:
    class Mute(Uniform):
        def plan(self, *arguments: Any) -> Any:
            return None

    with pytest.raises(StrategyError, match="returned NoneType from plan"):
        simulate(WORLD, Mute(), 20)


def test_an_error_in_a_strategy_comes_through() -> None:
    class Failing(Uniform):
        def plan(self, *arguments: Any) -> Any:
            raise ZeroDivisionError("its own mistake")

    for threads in (1, 3):
        with pytest.raises(ZeroDivisionError, match="its own mistake"):
            simulate(WORLD, Failing(), 20, runs=200, threads=threads)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("counting", [PriorSample(), VisitsOnly()])
def test_a_sampler_that_returns_no_number(value: float, counting: Any) -> None:
    def sampler(rng: Any, states: NDArray, mean: NDArray, variance: NDArray) -> NDArray:
        return np.where(states == 3, value, mean)

    with pytest.raises(ModelError, match=f"returned {value} in state 3"):
        simulate(WORLD.replace(noise=sampler), Uniform(), 200, runs=5, counting=counting)


def test_a_sampler_of_the_wrong_shape() -> None:
    def sampler(*arguments: Any) -> NDArray:
        return np.zeros(2)

    with pytest.raises(ModelError, match=r"shape \(2,\) for 20 samples"):
        simulate(WORLD.replace(noise=sampler), Uniform(), 20, runs=5)


@pytest.mark.parametrize(
    ("drawn", "message"),
    [(None, "NoneType of type object"), (["a"], "list of type <U1"), ([1j], "type complex128")],
)
def test_a_sampler_of_the_wrong_kind(drawn: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        simulate(WORLD.replace(noise=lambda *arguments: drawn), Uniform(), 1, runs=1)


def test_a_sampler_whose_squares_overflow() -> None:
    def sampler(rng: Any, states: NDArray, mean: NDArray, variance: NDArray) -> NDArray:
        return 1e200 * rng.standard_normal(states.size)

    with pytest.raises(ModelError, match="walk 0 are too large"):
        simulate(WORLD.replace(noise=sampler), Uniform(), 50, runs=3)


def test_a_policy_of_another_world() -> None:
    other = instances.garnet(4, 2, 2)
    with pytest.raises(StrategyError, match="another model"):
        simulate(WORLD, Fixed(Policy.uniform(other.mdp)), 20)


# -- worlds that do not communicate ------------------------------------------------------


def absorbing() -> World:
    """From the start to A or to B, for ever."""
    return World(
        MDP.from_transitions(
            [("start", "a", "A", 1.0), ("start", "b", "B", 1.0), ("A", "stay", "A", 1.0),
             ("B", "stay", "B", 1.0)]
        ),
        start=0,
    )  # fmt: skip


@pytest.mark.parametrize("strategy", [Uniform(), FrankWolfe(), Oracle()])
def test_a_world_that_does_not_communicate_is_named(strategy: Any) -> None:
    with pytest.raises(InfiniteLoss, match=r"does not communicate.*'start'"):
        simulate(absorbing(), strategy, 20)
    both = absorbing().replace(variance=[0.0, 1.0, 1.0])
    with pytest.raises(InfiniteLoss, match="both state 'A' and state 'B'"):
        simulate(both, strategy, 20)


def test_it_is_simulated_where_asked_for_or_where_it_does_not_matter() -> None:
    sim = simulate(absorbing(), Uniform(), 20, runs=50, allow_infinite=True)
    assert (sim.visits[:, 0] == 0).all()
    assert ((sim.visits[:, 1:] == 20).sum(axis=1) == 1).all()
    one = absorbing().replace(variance=[0.0, 1.0, 0.0])
    assert simulate(one, Uniform(), 20, runs=5).runs == 5
    weighted = simulate(absorbing(), Uniform(), 20, runs=5, weight=[0, 0, 1.0])
    assert weighted.runs == 5
    with pytest.raises(InfiniteLoss, match="from state 'B'"):
        simulate(one.replace(start=2), Uniform(), 20)


def test_a_transient_start_is_fine() -> None:
    """A corridor that is left for good, without variance, in front of a world that communicates."""
    mdp = MDP.from_transitions(
        [("in", "go", 0, 1.0), (0, "go", 1, 1.0), (1, "go", 0, 1.0), (0, "stay", 0, 1.0)]
    )
    world = World(mdp, variance=[0.0, 1.0, 1.0], start=0)
    sim = simulate(world, FrankWolfe(), 50, runs=5)
    assert (sim.visits[:, 0] == 0).all()
    (note,) = simulate(world, Uniform(), 50, runs=5).notes
    assert note.startswith("state 'in' has no variance")
    assert "costs 9" in note
    for quiet in (
        simulate(world, Uniform(), 50, runs=5, weight=[0, 1, 1]),
        simulate(world, Uniform(), 50, runs=5, counting=PriorSample()),
        simulate(WORLD, Uniform(), 50, runs=5),
    ):
        assert quiet.notes == ()


def test_what_matters_has_to_be_certain_to_be_reached() -> None:
    """From the start the move decides: to where the noise is, or where there is none, for ever."""
    records = [("start", "jump", "A", 0.5), ("start", "jump", "B", 0.5), ("A", "stay", "A", 1.0),
               ("B", "stay", "B", 1.0)]  # fmt: skip
    world = World(MDP.from_transitions(records), variance=[0.0, 1.0, 0.0], start=0)
    with pytest.raises(InfiniteLoss, match=r"from state 'start'.*certain to reach state 'A'"):
        simulate(world, Uniform(), 20)
    # One more action, which may fail and be tried again, and all is well.
    records += [("start", "walk", "A", 0.1), ("start", "walk", "start", 0.9)]
    world = World(MDP.from_transitions(records), variance=[0.0, 1.0, 0.0], start=0)
    assert simulate(world, Uniform(), 20, runs=2).runs == 2


def test_a_world_without_noise() -> None:
    sim = simulate(WORLD.replace(variance=0.0), FrankWolfe(), 100, runs=3)
    assert (sim.loss == 0).all()
    assert np.isnan(sim.ratio).all()
    assert np.isnan(sim.allocation_ratio).all()
