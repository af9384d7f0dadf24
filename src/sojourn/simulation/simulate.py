"""Many independent walks of one strategy in one world.

Walks are made in *blocks*: a block asks the strategy for the decisions of all its walks at
once, walks each until it needs the next one, and asks again. Blocks are what threads work on
and what bounds the memory; which walks share a block follows from the number of runs alone.
Random numbers belong to walks (:mod:`sojourn.simulation.streams`). So the result is the same,
bit for bit, on any number of threads.
"""

from __future__ import annotations

import os
import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError, InfiniteLoss, ModelError, StrategyError
from sojourn.learning.decisions import checked
from sojourn.learning.strategy import Decision, Observations, Strategy, Task, check_strategy
from sojourn.model import MDP, Counting, VisitsOnly, World, maximal_end_components, per_state
from sojourn.model.reachability import component_labels
from sojourn.model.seeds import generator
from sojourn.simulation import kernel
from sojourn.simulation.generators import Generators
from sojourn.simulation.played import Recorder
from sojourn.simulation.result import Simulation, Status
from sojourn.simulation.streams import WORDS, seeded
from sojourn.simulation.tables import Moves, moves_of

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 256
BLOCK_BYTES = 1 << 26
"""Walks per block, and the memory that their arrays may take."""

PATH = 1 << 10
"""Samples that a user's own sampler is asked for at once."""

HOME = "home is a state's index: mdp.state_index(label)"

LONGEST = 1 << 62
"""The largest budget: times are 64-bit integers, and one past the end has to be one too."""


def simulate(
    world: World,
    strategy: Strategy,
    budget: int,
    runs: int = 100,
    seed: int | np.random.Generator = 0,
    checkpoints: ArrayLike | None = None,
    walkers: int = 1,
    home: int | None = None,
    counting: Counting | None = None,
    progress: bool = False,
    threads: int | None = None,
    weight: ArrayLike | None = None,
    record_policies: bool = False,
    allow_infinite: bool = False,
) -> Simulation:
    """Let ``strategy`` spend ``budget`` in ``world``, ``runs`` times independently.

    ``checkpoints`` are the budgets n, up to ``budget``, at which the losses are recorded (by
    default the budget itself). ``walkers`` devices share one budget and one table of counts and
    move in turn. ``home`` is told to the strategy, and the result says who was there in the end.
    ``weight`` weighs the states in every loss. ``record_policies`` keeps every policy played
    (``.played``). A world where no walk can estimate every state that matters is refused unless
    ``allow_infinite``: its loss grows for ever with n, whatever the strategy. ``threads`` (by
    default one per core) change nothing but the time it takes.

    Ctrl-C returns what is done (``.status`` says so).
    """
    began = clock.perf_counter()
    if not isinstance(world, World):
        raise ArgumentError(
            f"{type(world).__name__} is not a world", "World(mdp, mean, variance) makes one"
        )
    count = VisitsOnly() if counting is None else counting
    if not isinstance(count, Counting):
        raise ArgumentError(
            f"counting is {counting!r}", "use PriorSample() or VisitsOnly(unvisited=...)"
        )
    mdp = world.mdp
    budget = _whole(budget, "budget", 1, "steps to spend: give at least 1")
    if budget > LONGEST:
        raise ArgumentError(f"budget is {budget}", "no walk is longer than 2^62 steps")
    runs = _whole(runs, "runs", 1, "independent walks: give at least 1")
    walkers = _whole(walkers, "walkers", 1, "devices that share the budget: give at least 1")
    if home is not None and not 0 <= _whole(home, "home", 0, HOME) < mdp.n_states:
        raise ArgumentError(f"home is {home}, not a state between 0 and {mdp.n_states - 1}", HOME)
    if threads is not None:
        _whole(threads, "threads", 1, "give at least 1, or None for all cores")
    points = _checkpoints(checkpoints, budget)
    weights = None if weight is None else per_state(weight, mdp.n_states, "weight", minimum=0.0)
    if weights is not None and not weights.any():
        raise ArgumentError(
            "every weight is 0: there is nothing to estimate", "give some state a weight above 0"
        )
    check_strategy(strategy)
    if not allow_infinite:
        refuse_infinite(world, weights)
    notes = [] if allow_infinite else _left_behind(world, weights, count)

    job = _Job(world, strategy, count, count.moves(budget), points, weights, walkers, home, seed,
               runs, record_policies)  # fmt: skip
    blocks = [_Block(job, lo, hi) for lo, hi in _bounds(runs, job.walk_bytes)]
    with _bar(progress, runs * job.moves_total, strategy.name) as advanced:
        job.advanced = advanced
        interrupted = _work(blocks, job, threads)
    return _result(job, blocks, interrupted, budget, clock.perf_counter() - began, notes)


class _Job:
    """What all blocks share."""

    def __init__(
        self,
        world: World,
        strategy: Strategy,
        counting: Counting,
        moves_total: int,
        checkpoints: NDArray[np.int64],
        weight: NDArray[np.float64] | None,
        walkers: int,
        home: int | None,
        seed: int | np.random.Generator,
        runs: int,
        record: bool,
    ) -> None:
        mdp = world.mdp
        self.world, self.strategy, self.counting = world, strategy, counting
        self.moves_total, self.weight, self.walkers, self.home = moves_total, weight, walkers, home
        self.checkpoints, self.runs, self.record = checkpoints, runs, record
        self.moves: Moves = moves_of(mdp)
        self.custom = not isinstance(world.noise, str)
        self.truth = kernel.Truth(
            kernel.CUSTOM if callable(world.noise) else kernel.LAWS[world.noise],
            np.array(world.mean),
            np.sqrt(world.variance),
            np.array(world.variance),
            np.ones(mdp.n_states) if weight is None else weight,
            counting.unvisited_cost(world.variance),
        )
        # One row of words per walk, drawn in order: walk w is the same however many follow it.
        words = generator(seed).integers(
            0, 2**64, size=(runs, 2 * (WORDS - 1) + 3 + walkers), dtype=np.uint64
        )
        self.moving = seeded(words[:, :3])
        self.sensing = seeded(words[:, 3:6])
        self.seeds = words[:, 6:8]
        self.noise_seeds = words[:, 8:9]
        # A cumulative sum that ends below 1 by rounding would send a walk beyond the last state,
        # and one that passes a state of probability 0 would start there.
        inside = np.flatnonzero(world.start)
        edges = np.cumsum(world.start[inside])[:-1]
        draws = (words[:, 9:] >> np.uint64(11)) * 2.0**-53
        self.start = inside[np.searchsorted(edges, draws, side="right")]
        self.task_mdp = None if "transitions" in strategy.needs else mdp
        self.counts_transitions = "transitions" in strategy.needs
        per_transition = mdp.n_pairs * mdp.n_states if self.counts_transitions else 0
        self.walk_bytes = 8 * (3 * mdp.n_states + mdp.n_pairs + per_transition)
        self.stopping = threading.Event()
        self.advanced: Callable[[int], None] = lambda steps: None

    def task(self, walks: int) -> Task:
        """What the strategy is told."""
        mdp = self.world.mdp
        return Task(
            n_states=mdp.n_states,
            pair_start=mdp.pair_start,
            mdp=self.task_mdp,
            walks=walks,
            budget=self.moves_total,
            weight=self.weight,
            counting=self.counting,
            variance_bound=self.world.variance_bound,
            home=self.home,
            walkers=self.walkers,
            variance=self.world.variance if "variance" in self.strategy.needs else None,
        )


class _Block:
    """The walks ``lo`` to ``hi`` − 1, from their first step to their last."""

    def __init__(self, job: _Job, lo: int, hi: int) -> None:
        self.job, self.lo, self.hi = job, lo, hi
        self.begun = self.done = False
        self.notes: dict[str, None] = {}
        self.recorder = Recorder()

    def _set_up(self) -> None:
        job, walks = self.job, self.hi - self.lo
        mdp = job.world.mdp
        n, points = mdp.n_states, job.checkpoints.size
        part = slice(self.lo, self.hi)
        self.arrays = kernel.Block(
            time=np.zeros(walks, dtype=np.int64),
            positions=job.start[part].astype(np.int64).reshape(walks, job.walkers),
            missing=np.full(walks, n, dtype=np.int64),
            visits=np.zeros((walks, n), dtype=np.int64),
            mean=np.zeros((walks, n)),
            spread=np.zeros((walks, n)),
            pair_visits=np.zeros((walks, mdp.n_pairs), dtype=np.int64),
            transitions=np.zeros(
                (walks if job.counts_transitions else 0, mdp.n_pairs, n), dtype=np.int64
            ),
            moving=job.moving[part].copy(),
            sensing=job.sensing[part].copy(),
            checkpoints=np.array([job.counting.moves(int(c)) for c in job.checkpoints]),
            passed=np.zeros(walks, dtype=np.int64),
            error=np.full((walks, points), np.nan),
            allocation=np.full((walks, points), np.nan),
            path=np.zeros((walks, PATH if job.custom else 0), dtype=np.int64),
        )
        self.noise = Generators(job.noise_seeds[part])
        self.seen = Observations(
            time=self.arrays.time,
            state=self.arrays.positions[:, 0].copy(),
            visits=self.arrays.visits,
            mean=self.arrays.mean,
            spread=self.arrays.spread,
            pair_visits=self.arrays.pair_visits,
            positions=self.arrays.positions,
            generators=Generators(job.seeds[part]),
            transitions=self.arrays.transitions if job.counts_transitions else None,
        )
        self.begun = True

    def run(self) -> None:
        """Make all walks, or stop between two calls of the kernel when told to."""
        job = self.job
        self._set_up()
        everyone = np.arange(self.hi - self.lo)
        if job.counting.prior:
            self._prior_samples(everyone)
        self._record(everyone)
        task = job.task(everyone.size)
        memory = job.strategy.start(task) if job.moves_total else {}
        if not isinstance(memory, dict):
            raise StrategyError(
                f"{job.strategy.name} returned {type(memory).__name__} from start",
                "start returns the strategy's memory, a dict of arrays; {} for none",
            )
        walks = everyone[self.arrays.time < job.moves_total]
        while walks.size and not job.stopping.is_set():
            turn = self.arrays.time[walks] % job.walkers
            self.seen.state[walks] = self.arrays.positions[walks, turn]
            decision = job.strategy.plan(task, memory, self.seen, walks)
            decision = checked(decision, task, self.seen, walks, job.strategy.name, self.lo)
            self._note(decision)
            self._follow(decision, walks)
            walks = everyone[self.arrays.time < job.moves_total]
        self.done = not walks.size

    def _follow(self, decision: Decision, walks: NDArray[np.int64]) -> None:
        """Advance every walk to the end of its stretch."""
        job, k = self.job, walks.size
        begun = self.arrays.time[walks].copy()
        stretch = _stretch(decision, walks, begun, job.world.mdp.n_pairs, job.world.mdp.n_states)
        paused = np.zeros(k, dtype=np.bool_)
        length = np.zeros(k, dtype=np.int64)
        going = np.arange(k)
        while going.size and not job.stopping.is_set():
            kernel.advance(job.moves, job.truth, self.arrays, stretch, length, paused)
            if job.custom:
                self._sense(stretch.walks, length)
            job.advanced(int(length[: going.size].sum()))
            keep = np.flatnonzero(paused[: going.size])
            going = going[keep]
            stretch = _part(stretch, keep)
        if job.record:
            for i, w in enumerate(walks):
                steps = int(self.arrays.time[w] - begun[i])
                policy = None if decision.policy is None else decision.policy[i]
                self.recorder.add(self.lo + int(w), int(begun[i]), steps, policy, decision.info)

    def _prior_samples(self, everyone: NDArray[np.int64]) -> None:
        if not self.job.custom:
            kernel.prior_samples(self.job.truth, self.arrays)
            return
        world = self.job.world
        states = np.arange(world.mdp.n_states)
        for w in everyone:
            self.arrays.mean[w] = self._ask_sampler(int(w), states)
        self.arrays.visits[:] = 1
        self.arrays.missing[:] = 0

    def _sense(self, walks: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        """Take a user's own samples along the paths that were just walked."""
        values = np.zeros((walks.size, PATH))
        for i, w in enumerate(walks):
            n = int(length[i])
            values[i, :n] = self._ask_sampler(int(w), self.arrays.path[w, :n])
        kernel.observe(self.arrays, walks, length, values)
        self._record(walks)

    def _ask_sampler(self, walk: int, states: NDArray[np.int64]) -> NDArray[np.float64]:
        world = self.job.world
        assert callable(world.noise)
        drawn = world.noise(
            self.noise[walk], states.copy(), world.mean[states], world.variance[states]
        )
        values = np.asarray(drawn)
        if values.dtype.kind not in "fiu":
            raise ModelError(
                f"the world's noise returned {type(drawn).__name__} of type {values.dtype}",
                "noise(rng, states, mean, variance) returns an array of real numbers",
            )
        values = values.astype(float)
        if values.shape != states.shape:
            raise ModelError(
                f"the world's noise returned an array of shape {values.shape} for "
                f"{states.size} samples",
                "noise(rng, states, mean, variance) returns one value per entry of states",
            )
        # A NaN would spread to the mean of its state, the loss of its walk and every average.
        wrong = ~np.isfinite(values)
        if wrong.any():
            s = int(states[np.flatnonzero(wrong)[0]])
            raise ModelError(
                f"the world's noise returned {values[wrong][0]} in state "
                f"{world.mdp.state_labels[s]!r} (walk {self.lo + walk})",
                "every sample is a finite number",
            )
        return values

    def _record(self, walks: NDArray[np.int64]) -> None:
        kernel.record_all(self.job.truth, self.arrays, walks)

    def _note(self, decision: Decision) -> None:
        for note in decision.info.get("notes", ()):
            self.notes[note] = None


def _stretch(
    decision: Decision,
    walks: NDArray[np.int64],
    begun: NDArray[np.int64],
    n_pairs: int,
    n_states: int,
) -> kernel.Stretch:
    """A checked decision as the kernel reads it; a shared policy is handed over once."""
    k = walks.size
    row = np.arange(k)
    policy, actions = np.empty((0, n_pairs)), np.empty((0, 0, n_states), dtype=np.int64)
    if decision.policy is not None:
        policy, row = _shared(decision.policy, row)
    if decision.actions is not None:
        actions, row = _shared(decision.actions, row)
    visited, limit = decision.until_all_visited, decision.pair_limit
    return kernel.Stretch(
        walks=walks,
        begun=begun,
        until=decision.until,
        row=row,
        policy=policy,
        actions=actions,
        stop_when_visited=np.zeros(k, dtype=np.bool_) if visited is None else visited,
        pair_limit=np.empty((0, n_pairs), dtype=np.int64) if limit is None else limit,
    )


def _shared(array: NDArray, row: NDArray[np.int64]) -> tuple[NDArray, NDArray[np.int64]]:
    if array.strides[0] == 0:
        return np.ascontiguousarray(array[:1]), np.zeros_like(row)
    return np.ascontiguousarray(array), row


def _part(stretch: kernel.Stretch, keep: NDArray[np.int64]) -> kernel.Stretch:
    limit = stretch.pair_limit
    return stretch._replace(
        walks=stretch.walks[keep],
        begun=stretch.begun[keep],
        until=stretch.until[keep],
        row=stretch.row[keep],
        stop_when_visited=stretch.stop_when_visited[keep],
        pair_limit=limit[keep] if limit.shape[0] else limit,
    )


def _bounds(runs: int, walk_bytes: int) -> list[tuple[int, int]]:
    """First and last walk of every block: a function of the task, never of the machine."""
    size = min(max(-(-runs // 16), SMALLEST_BLOCK), LARGEST_BLOCK)
    size = max(1, min(size, BLOCK_BYTES // max(walk_bytes, 1)))
    return [(lo, min(lo + size, runs)) for lo in range(0, runs, size)]


def _work(blocks: Sequence[_Block], job: _Job, threads: int | None) -> bool:
    """Run all blocks; whether Ctrl-C came first."""
    workers = min(_cores() if threads is None else threads, len(blocks))
    if workers == 1:
        try:
            for block in blocks:
                block.run()
        except KeyboardInterrupt:
            return True
        return False
    with ThreadPoolExecutor(workers, thread_name_prefix="sojourn") as pool:
        futures = [pool.submit(block.run) for block in blocks]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            _stop(job, futures)
            return True
        if any(f.done() and f.exception() for f in futures):
            _stop(job, futures)
    # Of several errors the first walk's, so that the message doesn't depend on the threads.
    for future in futures:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, KeyboardInterrupt):
            return True
        if error is not None:
            raise error
    return False


def _stop(job: _Job, futures: list[Future[None]]) -> None:
    job.stopping.set()
    for future in futures:
        future.cancel()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _result(
    job: _Job, blocks: Sequence[_Block], interrupted: bool, budget: int, seconds: float,
    notes: list[str],
) -> Simulation:  # fmt: skip
    status, points = Status.FINISHED, job.checkpoints
    kept = [b for b in blocks if b.done]
    if interrupted and len(kept) < len(blocks):
        status = Status.INTERRUPTED
        if not kept:
            # No block is done: the checkpoints that all walks of some blocks have passed.
            passed = {b: int(b.arrays.passed.min()) for b in blocks if b.begun}
            kept = [b for b, count in passed.items() if count]
            if not kept:
                raise KeyboardInterrupt
            points = points[: min(passed[b] for b in kept)]
    c = points.size

    for b in kept:
        _require_finite(job, b, c)

    def together(pick: Callable[[_Block], NDArray]) -> NDArray:
        return np.concatenate([pick(b) for b in kept])

    return Simulation(
        world=job.world,
        strategy=job.strategy.name,
        budget=budget,
        counting=job.counting,
        weight=job.weight,
        checkpoints=points,
        error=together(lambda b: b.arrays.error[:, :c]),
        allocation_loss=points * together(lambda b: b.arrays.allocation[:, :c]),
        visits=together(lambda b: b.arrays.visits),
        mean=together(lambda b: b.arrays.mean),
        empirical_variance=together(lambda b: b.seen.empirical_variance()),
        final_state=together(lambda b: b.arrays.positions),
        home=job.home,
        status=status,
        seconds=seconds,
        notes=tuple(dict.fromkeys([*notes, *(note for b in kept for note in b.notes)])),
        played=Recorder.joined(job.world.mdp, [b.recorder for b in kept]) if job.record else None,
    )


def _require_finite(job: _Job, block: _Block, points: int) -> None:
    """Squares that overflow would make every mean over the walks infinite, or no number."""
    wrong = ~np.isfinite(block.arrays.error[:, :points]).all(axis=1)
    wrong |= ~np.isfinite(block.arrays.spread).all(axis=1)
    if wrong.any():
        walk = int(np.flatnonzero(wrong)[0])
        raise ModelError(
            f"the squares of the samples of walk {block.lo + walk} are too large for a number",
            "measure in larger units: samples stay below 1e150",
        )


# -- arguments --------------------------------------------------------------------------


def _whole(value: Any, name: str, least: int, hint: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentError(f"{name} is {value!r}, expected a whole number", hint)
    if value < least:
        raise ArgumentError(f"{name} is {value}", hint)
    return int(value)


def _checkpoints(values: ArrayLike | None, budget: int) -> NDArray[np.int64]:
    if values is None:
        return np.array([budget])
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ArgumentError(
            f"checkpoints are {values!r}", "give a list of whole numbers between 1 and the budget"
        )
    points = np.unique(array.astype(np.int64))
    if points[0] < 1 or points[-1] > budget:
        raise ArgumentError(
            f"the checkpoints run from {points[0]} to {points[-1]}",
            f"they lie between 1 and the budget, {budget}",
        )
    return points


def refuse_infinite(world: World, weight: NDArray | None) -> None:
    """Raise where no walk can estimate every state that matters.

    The states with weight·σ² > 0 must lie in one end component, and that component must be
    reachable from wherever a walk may start. Otherwise some of them stay unvisited in every walk,
    and what is compared is ``unvisited``, a convention, not the strategies.
    """
    mdp = world.mdp
    matters = world.variance > 0 if weight is None else world.variance * weight > 0
    important = np.flatnonzero(matters)
    if not important.size:
        return
    hint = (
        "give weight 0 to the states that don't matter, restrict the model, or pass "
        "allow_infinite=True to simulate it as it is"
    )
    component = np.full(mdp.n_states, -1)
    for number, part in enumerate(maximal_end_components(mdp)):
        component[part.states] = number

    def label(s: int) -> str:
        return repr(mdp.state_labels[int(s)])

    lost = important[component[important] < 0]
    if lost.size:
        raise InfiniteLoss(
            f"this world does not communicate: no walk can visit state {label(lost[0])} again "
            "and again",
            hint,
        )
    apart = important[component[important] != component[important[0]]]
    if apart.size:
        raise InfiniteLoss(
            f"this world does not communicate: no walk can visit both state "
            f"{label(important[0])} and state {label(apart[0])} again and again",
            hint,
        )
    inside = component == component[important[0]]
    if inside.all():
        return
    starts = np.flatnonzero(world.start > 0)
    stranded = starts[~_surely_reaching(mdp, inside)[starts]]
    if stranded.size:
        raise InfiniteLoss(
            f"from state {label(stranded[0])}, where a walk may start, no walk is certain to reach "
            f"state {label(important[0])}",
            "start elsewhere, " + hint,
        )


def _left_behind(world: World, weight: NDArray | None, counting: Counting) -> list[str]:
    """Of a world that isn't refused: states without variance that cost something nevertheless."""
    cost = counting.unvisited_cost(world.variance)
    label, _ = component_labels(world.mdp)
    if not cost or not label.any():
        return []
    quiet = world.variance == 0 if weight is None else (world.variance == 0) & (weight > 0)
    staying = np.zeros(world.mdp.n_states, dtype=np.bool_)
    for part in maximal_end_components(world.mdp):
        if (world.variance[part.states] > 0).any():
            staying[part.states] = True
    passing = np.flatnonzero(quiet & ~staying)
    if not passing.size:
        return []
    return [
        f"state {world.mdp.state_labels[int(passing[0])]!r} has no variance and can't be visited "
        f"again and again; where a walk never does, it costs {cost:g}: give it weight 0 if it "
        "doesn't matter"
    ]


def _surely_reaching(mdp: MDP, target: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The states from which some policy reaches ``target`` with probability 1.

    Those from which it can be reached at all by pairs that never leave these states: take away
    the others, and look again.
    """
    alive = np.ones(mdp.n_states, dtype=np.bool_)
    while True:
        usable = mdp.transitions @ (~alive).astype(float) == 0
        reached, grown = target & alive, 0
        while grown < reached.sum():
            grown = int(reached.sum())
            closer = usable & (mdp.transitions @ reached.astype(float) > 0)
            reached = reached | (mdp.state_sums(closer.astype(float)) > 0)
        if (reached == alive).all():
            return alive
        alive = reached


# -- progress ---------------------------------------------------------------------------


@contextmanager
def _bar(wanted: bool, total: int, name: str) -> Iterator[Callable[[int], None]]:
    """A progress bar with the time left; yields what to call with a number of steps."""
    if not wanted:
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(f"simulating {name}", total=total)
        yield lambda steps: bar.advance(task, steps)
