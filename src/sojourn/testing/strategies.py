"""The contract of a strategy, as a suite that its author can run.

    from sojourn.testing import STRATEGY_CHECKS

    @pytest.mark.parametrize("check", STRATEGY_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check):
        check(MyStrategy)                    # a class, or any function that makes one

or all at once: ``check_strategy(MyStrategy)``. A check that fails raises :class:`BrokenContract`
with a sentence. Checks take a ``world`` for strategies that are meant for special ones.

:class:`SlowWalks` walks in plain NumPy, one step at a time, with the very functions that a live
campaign uses; it is the reference that the compiled simulation is compared with.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import StrategyError
from sojourn.instances import garnet
from sojourn.learning.decisions import checked, is_over, pair_now
from sojourn.learning.strategy import NEEDS, Decision, Observations, State, Strategy, Task
from sojourn.model import Counting, PriorSample, VisitsOnly, World
from sojourn.simulation import Simulation, simulate

Factory = Callable[[], Strategy]
Ints = NDArray[np.int64]


class BrokenContract(StrategyError, AssertionError):
    """A strategy doesn't keep a promise of the protocol."""


class SlowWalks:
    """Walks made step by step in NumPy; slow, plain, and one decision at a time."""

    def __init__(
        self,
        world: World,
        strategy: Strategy,
        budget: int,
        walks: int = 1,
        seed: int = 0,
        walkers: int = 1,
        counting: Counting | None = None,
        weight: NDArray | None = None,
    ) -> None:
        count = VisitsOnly() if counting is None else counting
        mdp, n = world.mdp, world.mdp.n_states
        self.world, self.strategy, self.walkers = world, strategy, walkers
        self.moves = count.moves(budget)
        learns = "transitions" in strategy.needs
        self.task = Task(
            n_states=n,
            pair_start=mdp.pair_start,
            mdp=None if learns else mdp,
            walks=walks,
            budget=self.moves,
            weight=weight,
            counting=count,
            variance_bound=world.variance_bound,
            walkers=walkers,
            variance=world.variance if "variance" in strategy.needs else None,
        )
        self.rng = np.random.default_rng(seed)
        positions = self.rng.choice(n, size=(walks, walkers), p=world.start)
        self.seen = Observations(
            time=np.zeros(walks, dtype=np.int64),
            state=positions[:, 0].copy(),
            visits=np.zeros((walks, n), dtype=np.int64),
            mean=np.zeros((walks, n)),
            spread=np.zeros((walks, n)),
            pair_visits=np.zeros((walks, mdp.n_pairs), dtype=np.int64),
            positions=positions,
            generators=[np.random.default_rng([seed, w]) for w in range(walks)],
            transitions=np.zeros((walks, mdp.n_pairs, n), dtype=np.int64) if learns else None,
        )
        if count.prior:
            for w in range(walks):
                for s in range(n):
                    self._observe(w, s)
        self.memory = strategy.start(self.task)

    @property
    def asking(self) -> Ints:
        """The walks that have moves left."""
        return np.flatnonzero(self.seen.time < self.moves)

    def decide(self, walks: Ints) -> Decision:
        """Ask the strategy, as the simulation does."""
        decision = self.strategy.plan(self.task, self.memory, self.seen, walks)
        return checked(decision, self.task, self.seen, walks, self.strategy.name)

    def follow(self, decision: Decision, walks: Ints) -> None:
        """Walk each to the end of its stretch."""
        for row, w in enumerate(walks):
            step = 0
            while True:
                pair = self._move(int(w), decision, row, step)
                step += 1
                if is_over(decision, row, self.seen, int(w), pair):
                    break

    def run(self) -> SlowWalks:
        """To the end of the budget."""
        while self.asking.size:
            walks = self.asking
            self.follow(self.decide(walks), walks)
        return self

    def _move(self, w: int, decision: Decision, row: int, step: int) -> int:
        seen, mdp = self.seen, self.world.mdp
        turn = int(seen.time[w]) % self.walkers
        state = int(seen.positions[w, turn])
        pair = pair_now(self.task, decision, row, state, step, self.rng)
        lo, hi = mdp.transitions.indptr[pair : pair + 2]
        goal = int(self.rng.choice(mdp.transitions.indices[lo:hi], p=mdp.transitions.data[lo:hi]))
        seen.positions[w, turn] = goal
        seen.time[w] += 1
        seen.pair_visits[w, pair] += 1
        if seen.transitions is not None:
            seen.transitions[w, pair, goal] += 1
        self._observe(w, goal)
        seen.state[w] = seen.positions[w, int(seen.time[w]) % self.walkers]
        return pair

    def _observe(self, w: int, s: int) -> None:
        seen = self.seen
        x = self.rng.normal(self.world.mean[s], np.sqrt(self.world.variance[s]))
        seen.visits[w, s] += 1
        delta = x - seen.mean[w, s]
        seen.mean[w, s] += delta / seen.visits[w, s]
        seen.spread[w, s] += delta * (x - seen.mean[w, s])


# -- the checks -------------------------------------------------------------------------


def check_strategy(factory: Factory, world: World | None = None) -> None:
    """Run every check of :data:`STRATEGY_CHECKS`."""
    for check in STRATEGY_CHECKS:
        check(factory, world)


def has_the_members(factory: Factory, world: World | None = None) -> None:
    """``name``, ``needs``, ``start`` and ``plan``."""
    strategy = factory()
    _promise(isinstance(strategy, Strategy), "has name, needs, start and plan")
    _promise(isinstance(strategy.name, str) and strategy.name != "", "has a name")
    _promise(set(strategy.needs) <= NEEDS, f"needs nothing but {', '.join(sorted(NEEDS))}")


def keeps_its_memory_in_arrays(factory: Factory, world: World | None = None) -> None:
    """The state is a dict of numeric arrays with one row per walk, so that it can be stored."""
    for walks in (1, 3):
        _check_state(SlowWalks(_world(world), factory(), 10, walks).memory, walks)


def decides_well(factory: Factory, world: World | None = None) -> None:
    """Decisions are distributions over available actions with an end after now; at any budget,
    with either way of counting."""
    for budget in (1, 2, 60):
        for counting in (VisitsOnly(), PriorSample()):
            walks = SlowWalks(_world(world), factory(), budget, 2, counting=counting).run()
            _check_state(walks.memory, 2)


def decides_from_what_it_is_given(factory: Factory, world: World | None = None) -> None:
    """A decision is a function of task, state and observations: a strategy that was built anew
    and handed a stored state decides the same, bit for bit. So a campaign can resume."""
    walks = SlowWalks(_world(world), factory(), 60, 3)
    while walks.asking.size:
        asking = walks.asking
        stored, seen = _stored(walks.memory), copy.deepcopy(walks.seen)
        decision = walks.decide(asking)
        again = factory().plan(walks.task, stored, seen, asking)
        again = checked(again, walks.task, seen, asking, walks.strategy.name)
        _promise(_same(decision, again), "decides the same after a restart from its stored state")
        _promise(_same_arrays(walks.memory, stored), "keeps the same memory after a restart")
        walks.follow(decision, asking)


def only_reads_what_it_is_shown(factory: Factory, world: World | None = None) -> None:
    """``plan`` changes no observation, and of its state only the rows of the walks that ask."""
    walks = SlowWalks(_world(world), factory(), 60, 3)
    while walks.asking.size:
        asking = walks.asking[:1]
        others = np.setdiff1d(np.arange(3), asking)
        seen, memory = copy.deepcopy(walks.seen), copy.deepcopy(walks.memory)
        decision = walks.decide(asking)
        for name in ("time", "state", "visits", "mean", "spread", "pair_visits", "positions"):
            same = np.array_equal(getattr(seen, name), getattr(walks.seen, name))
            _promise(same, f"leaves the observations alone (it wrote to {name})")
        for name, before in memory.items():
            same = np.array_equal(before[others], walks.memory[name][others], equal_nan=True)
            _promise(same, f"leaves the memory of other walks alone (it wrote to {name!r})")
        walks.follow(decision, asking)


def stays_as_it_was_built(factory: Factory, world: World | None = None) -> None:
    """Nothing is remembered in the strategy object: threads share it, campaigns rebuild it."""
    strategy = factory()
    before = _fingerprint(strategy)
    SlowWalks(_world(world), strategy, 30, 2).run()
    simulate(_world(world), strategy, 30, runs=3)
    _promise(_fingerprint(strategy) == before, "leaves the strategy object as it was built")


def repeats_itself(factory: Factory, world: World | None = None) -> None:
    """The same seed gives the same bits, from another object and on any number of threads."""
    one = simulate(_world(world), factory(), 60, runs=70, seed=3, threads=1)
    _promise(
        _equal(one, simulate(_world(world), factory(), 60, runs=70, seed=3, threads=3)),
        "gives the same result on several threads",
    )


def treats_walks_apart(factory: Factory, world: World | None = None) -> None:
    """What happens in a walk doesn't depend on the walks that are simulated beside it."""
    few = simulate(_world(world), factory(), 60, runs=3, seed=5)
    many = simulate(_world(world), factory(), 60, runs=9, seed=5)
    _promise(
        np.array_equal(few.visits, many.visits[:3]) and np.array_equal(few.mean, many.mean[:3]),
        "decides for each walk by itself",
    )


def shares_a_budget_or_says_no(factory: Factory, world: World | None = None) -> None:
    """With several devices it walks, or refuses with a sentence."""
    try:
        result = simulate(_world(world), factory(), 30, runs=3, walkers=2)
    except StrategyError as refusal:
        _promise(refusal.message != "", "says why it refuses several devices")
        return
    _promise((result.visits.sum(axis=1) == 30).all(), "spends the shared budget")


Check = Callable[..., None]

STRATEGY_CHECKS: tuple[Check, ...] = (
    has_the_members, keeps_its_memory_in_arrays, decides_well, decides_from_what_it_is_given,
    only_reads_what_it_is_shown, stays_as_it_was_built, repeats_itself, treats_walks_apart,
    shares_a_budget_or_says_no,
)  # fmt: skip


# -- inside -----------------------------------------------------------------------------


def _world(world: World | None) -> World:
    return garnet(4, 2, 2, seed=7) if world is None else world


def _promise(kept: bool, what: str) -> None:
    if not kept:
        raise BrokenContract(f"broken promise: a strategy {what}")


def _check_state(memory: State, walks: int) -> None:
    _promise(isinstance(memory, dict), "returns a dict from start")
    for name, array in memory.items():
        good = isinstance(array, np.ndarray) and array.dtype.kind in "biufc"
        _promise(isinstance(name, str) and good, f"keeps numeric arrays ({name!r} is not one)")
        _promise(
            array.shape[:1] == (walks,),
            f"keeps one row per walk ({name!r} has shape {array.shape} for {walks} walks)",
        )


def _stored(memory: State) -> State:
    """The state after a trip to a file and back."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **memory)
    file.seek(0)
    with np.load(file, allow_pickle=False) as read:
        return {name: read[name] for name in read.files}


def _same(a: Decision, b: Decision) -> bool:
    names = ("until", "policy", "actions", "until_all_visited", "pair_limit")
    pairs = [(getattr(a, name), getattr(b, name)) for name in names]
    return all((x is None) == (y is None) and (x is None or np.array_equal(x, y)) for x, y in pairs)


def _same_arrays(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(
        np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind in "fc") for k in a
    )


def _equal(a: Simulation, b: Simulation) -> bool:
    return (
        np.array_equal(a.error, b.error)
        and np.array_equal(a.visits, b.visits)
        and np.array_equal(a.mean, b.mean)
    )


def _fingerprint(strategy: Any) -> Any:
    try:
        return pickle.dumps(vars(strategy))
    except (TypeError, AttributeError, pickle.PicklingError):
        return repr(getattr(strategy, "__dict__", strategy))
