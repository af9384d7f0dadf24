"""Lookahead: plan for the counts so far and the steps left, and plan again.

Nothing here is stationary, so nothing has to mix and nothing traps the walk; near the end nothing
is planned that can't be reached any more. Two kinds of plan (:mod:`sojourn.solvers.horizon`)
share the work:

*Touring.* On maps whose moves are nearly certain, and as long as sites have no sample, it walks a
short path through those (:mod:`sojourn.learning.tours`): going to the nearest one each time takes
up to a third more steps, because it leaves single sites behind. Where moves are so uncertain that
the path is far longer than there are sites, it doesn't keep to one.

*Rolling.* While a site that matters has no sample yet, and on larger worlds always: at every step
a discounted plan of marginal gains, of which only the first move is made. One more sample at s
lowers the loss by v/(T(T + 1)); a first one by what a state without one costs. The discount γ
stands for what a linear plan can't say, that the second visit gains less than the first. To stay is
preferred to a way of d steps until gains differ by γ^{−d}, after a share of about (γ^{−d} − 1)/2
more visits here: a small γ leaves places far apart out of balance, a large one crosses between
them for little. With t visits a share ε of them costs ε² in balance and d/(εt) in crossings,
least at ε ~ (d/t)^{1/3}. So 1 − γ falls with the third root of time.

*Fluid.* On small worlds, once every site has a sample: the expected visits of the steps to come
are optimised jointly, as a mixture of a few time-dependent policies. Drawing one at random
would chatter at bottlenecks, so it follows the one that collects most in the next steps at the
plan's prices, and asks again when the time, or the time left, has changed by 5 %. The steps to come
are those that are left, but no more than were made already: a plan to the end of a long budget
would cross every bottleneck once, on a few samples' word, and come back too late. Known variances
can't disappoint, and are planned for to the end; where moves are certain as well, from the first
step on.

*Variances.* Their posterior means (:mod:`sojourn.learning.posterior_variance`). There is no
optimism: a state that looks quiet by chance is visited again soon enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.learning import learned_moves, touring
from sojourn.learning.posterior_variance import posterior_variance
from sojourn.learning.strategy import Decision, Observations, State, Task
from sojourn.model import MDP
from sojourn.solvers import horizon

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Stretch = tuple[Ints, Ints]

SHARE = 0.05
"""Fluid: ask again when the time, or the time left, has changed by this share."""
COMPONENTS = 16
GAP = 1e-4
"""Frank–Wolfe gap (relative) at which a plan is good enough; a walk loses what its plan does."""
SMALL = 12
"""Up to so many states the fluid plan's few components are enough to mix."""
NEAR, SEARCHING = 0.7, 0.8
EARLY = 30
"""Rolling: discounts, and the steps per state up to which NEAR holds."""
UNSEEN = 1e-6
"""A rolling plan looks ahead until steps are discounted to this."""
HOME_SLACK = 1e-9
SOON = 2
"""Fluid: the next steps over which components are compared, at least."""
ROWS = 4000
"""Fluid: rows of a time-dependent policy; before them the last row stands."""


class Lookahead:
    """The default strategy; nothing to tune. ``known_variance``: the same with the true variances,
    a yardstick. ``dynamics="learned"``: where moves lead is learned too, from what was seen
    (:mod:`sojourn.learning.learned_moves`); ``support`` says which states can follow each pair
    (n_pairs × n_states flags), where that is known."""

    def __init__(
        self,
        known_variance: bool = False,
        dynamics: str = "known",
        support: ArrayLike | None = None,
    ) -> None:
        learned_moves.check(dynamics, support)
        self.known_variance = known_variance
        self.dynamics = dynamics
        self.support = support

    @property
    def name(self) -> str:
        """A short name for tables and plots."""
        known = " (known variances)" if self.known_variance else ""
        return "Lookahead" + known + (" (learned dynamics)" if self.dynamics == "learned" else "")

    @property
    def needs(self) -> frozenset[str]:
        """Counts of moves where the dynamics are learned; the true variances for the yardstick."""
        wanted = {"variance": self.known_variance, "transitions": self.dynamics == "learned"}
        return frozenset(name for name, needed in wanted.items() if needed)

    def start(self, task: Task) -> State:
        """``value``: what each state promised at the last question, from where plans go on."""
        value = {"value": np.zeros((task.walks, task.n_states))}
        if self.dynamics == "learned":
            return value | learned_moves.memory(task, self.support)
        task.known_moves()
        return value | touring.memory(task)

    def plan(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """The next stretch of each walk."""
        if self.dynamics == "learned":
            return self._plan_learned(task, state, seen, walks)
        mdp = task.known_moves()
        home, moves = _homeward(mdp, task.home, task.budget), Moves.of(mdp)
        toured = np.full(walks.size, -1)
        if not self._all_certain(task, moves):
            toured = touring.next_pairs(task, state, seen, walks)
            toured[~_permitted(task, home, seen, walks, toured)] = -1
        stretch = np.ones(walks.size, dtype=np.int64)
        rest = np.flatnonzero(toured < 0)
        if rest.size:
            value = state["value"][walks[rest]]
            stretch[rest], decided = decide(
                task, moves, home, self._variances(task, seen, walks[rest]), seen, walks[rest],
                value, self.known_variance,
            )  # fmt: skip
            state["value"][walks[rest]] = value
            actions = np.empty((walks.size, decided.shape[1], task.n_states), dtype=np.int64)
            actions[rest] = decided
        else:
            actions = np.empty((walks.size, 1, task.n_states), dtype=np.int64)
        on = np.flatnonzero(toured >= 0)
        actions[on] = task.pair_start[:-1]
        actions[on, :, seen.state[walks[on]]] = toured[on, None]
        return Decision(seen.time[walks] + stretch, actions=actions)

    def _plan_learned(self, task: Task, state: State, seen: Observations, walks: Ints) -> Decision:
        """The same, each walk on the model that it has learned itself."""
        anywhere = np.empty((0, task.n_pairs), dtype=np.bool_)

        def stretch(rows: learned_moves.Rows, walk: Ints, v: Floats, value: Floats) -> Stretch:
            moves = Moves(task.pair_start, *rows)
            searching = learned_moves.SEARCHING
            return decide(task, moves, anywhere, v, seen, walk, value, False, searching)

        variances, fluid = self._variances(task, seen, walks), _fluid(task, seen, walks)
        return learned_moves.decided(
            task, state, seen, walks, variances, self.support, fluid, stretch
        )

    def _all_certain(self, task: Task, moves: Moves) -> bool:
        return self.known_variance and task.n_states <= SMALL and moves.certain

    def _variances(self, task: Task, seen: Observations, walks: Ints) -> Floats:
        if self.known_variance:
            return np.broadcast_to(task.known_variances(), (walks.size, task.n_states))
        return posterior_variance(seen.visits[walks], seen.spread[walks])


class Moves(NamedTuple):
    """A model as kernels see it: pairs of states, and the rows of pairs (CSR)."""

    pair_start: Ints
    row_start: NDArray
    successor: NDArray
    chance: Floats

    @property
    def certain(self) -> bool:
        """Whether every move leads to one state only."""
        return bool((np.diff(self.row_start) == 1).all())

    @classmethod
    def of(cls, mdp: MDP) -> Moves:
        """The arrays of a model."""
        P = mdp.transitions
        return cls(mdp.pair_start, P.indptr, P.indices, P.data)


def decide(
    task: Task, moves: Moves, allowed: NDArray[np.bool_], variances: Floats, seen: Observations,
    walks: Ints, value: Floats, certain: bool, searching: float = SEARCHING,
) -> tuple[Ints, Ints]:  # fmt: skip
    """How long the next stretch of each walk is, and the pairs of its steps.

    ``moves`` are believed, ``variances`` too where all is ``certain``; these and ``value``
    (which is brought up to date) have a row for each of ``walks``. ``searching`` is the discount
    while sites are missing.
    """
    prices = task.weights * variances
    first = np.array([task.counting.unvisited_cost(v) for v in variances])
    visits = seen.visits[walks]
    now = seen.time[walks]
    left = (
        np.maximum(now, 4 * task.n_states) if task.budget is None else task.budget - now
    ) // max(task.walkers, 1)
    left = np.maximum(left, 1)
    missing = _missing(task, seen, walks)
    fluid = _fluid(task, seen, walks, certain and moves.certain)
    stretch = np.where(fluid, (SHARE * np.minimum(now, left)).astype(np.int64), 1)
    stretch = np.maximum(1, stretch)
    actions = np.empty((walks.size, int(stretch.max()), task.n_states), dtype=np.int64)
    ahead = left if certain else np.minimum(left, np.maximum(now, 4 * task.n_states))
    for i in np.flatnonzero(fluid):
        # No sample counts as so much of one that w/T is what its absence costs.
        cost = first[i] * task.weights
        none = np.divide(prices[i], cost, out=np.ones(task.n_states), where=cost > prices[i])
        counts = np.where(visits[i] > 0, visits[i], np.maximum(none, 1e-6))
        _one(*moves, allowed[left[i] - ahead[i] :], prices[i], counts,
             int(seen.state[walks[i]]), int(ahead[i]), int(stretch[i]), actions[i])  # fmt: skip
    rest = np.flatnonzero(~fluid)
    if rest.size:
        pick = np.empty((rest.size, task.n_states), dtype=np.int64)
        discount = np.where(missing[rest], searching, _discount(task, now[rest]))
        sight = np.ceil(np.log(UNSEEN) / np.log(discount)).astype(np.int64)
        fresh = value[rest]
        horizon.rolling(*moves, allowed, prices[rest], visits[rest].astype(float),
                        first[rest, None] * task.weights - prices[rest], discount, left[rest],
                        sight, fresh, pick)  # fmt: skip
        value[rest] = fresh
        actions[rest] = pick[:, None, :]
    return stretch, actions


def _discount(task: Task, now: Ints) -> Floats:
    """NEAR until EARLY steps per state were made; from there the third root."""
    per_state = np.maximum(now / (EARLY * task.n_states), 1.0)
    discount: Floats = 1.0 - (1.0 - NEAR) * per_state ** (-1.0 / 3.0)
    return discount


def _missing(task: Task, seen: Observations, walks: Ints) -> NDArray[np.bool_]:
    """Whether a site that matters has no sample yet."""
    return np.asarray(((seen.visits[walks] == 0) & (task.weights > 0)).any(axis=1))


def _fluid(task: Task, seen: Observations, walks: Ints, certain: bool = False) -> NDArray[np.bool_]:
    """Whether the next plan of a walk is a fluid one; where all is ``certain`` the first is."""
    return (~_missing(task, seen, walks) | certain) & (task.n_states <= SMALL)


def _one(
    pair_start: Ints, row_start: NDArray, successor: NDArray, chance: Floats, allowed: NDArray,
    w: Floats, counts: Floats, state: int, steps: int, stretch: int, out: Ints,
) -> None:  # fmt: skip
    """The pairs of one walk's next stretch, one row per step."""
    n = w.size
    pick = np.empty((COMPONENTS, min(steps, ROWS), n), dtype=np.int64)
    depth = np.empty(COMPONENTS, dtype=np.int64)
    M, share, N = np.empty((COMPONENTS, n)), np.empty(COMPONENTS), np.empty(n)
    scratch, here = np.empty((3, n)), np.empty((2, n))
    count = horizon.plan(
        pair_start, row_start, successor, chance, allowed, w, counts, state, steps, GAP,
        pick, depth, M, share, N, scratch, here,
    )  # fmt: skip
    j = horizon.choose(
        row_start, successor, chance, w, counts, state, steps, max(stretch, SOON), pick, depth,
        count, share, N, here,
    )  # fmt: skip
    rows = np.minimum(steps - 1 - np.arange(out.shape[0]), depth[j] - 1)
    out[:] = pick[j, np.maximum(rows, 0)]


def _permitted(
    task: Task, home: NDArray[np.bool_], seen: Observations, walks: Ints, pairs: Ints
) -> NDArray[np.bool_]:
    """Whether each pair keeps the way home open (−1 does)."""
    if task.budget is None or not home.size:
        return np.ones(walks.size, dtype=np.bool_)
    to_go = task.budget - seen.time[walks] - 1
    free = (to_go >= len(home)) | (pairs < 0)
    return free | home[np.minimum(to_go, len(home) - 1), np.maximum(pairs, 0)]


@lru_cache(maxsize=8)
def _homeward(mdp: MDP, home: int | None, budget: int | None) -> NDArray[np.bool_]:
    """Which pairs keep the way home open, by steps to go (rows from the end)."""
    if home is None or budget is None:
        return np.empty((0, mdp.n_pairs), dtype=np.bool_)
    rows = min(budget, max(64, int(2e8 / mdp.n_pairs)))
    chances = np.empty((rows + 1, mdp.n_states))
    allowed = np.empty((rows, mdp.n_pairs), dtype=np.bool_)
    moves = mdp.transitions
    depth = horizon.return_chances(
        mdp.pair_start, moves.indptr, moves.indices, moves.data, home, chances, allowed, HOME_SLACK
    )
    return allowed[:depth]
