"""The linear oracle for small models, compiled: one cost or thousands at once.

The problem, with P the transitions of the pairs and E the map from pairs to their states, is

    minimise ⟨g, λ⟩  over  λ ≥ 0,  Eᵀλ = Pᵀλ,  Σλ = 1,  Eᵀλ ≥ lower,

and its dual, with a gain ρ, a bias h (one number per state) and a multiplier y ≥ 0 per bound,

    maximise ρ + ⟨lower, y⟩  over  g_sa + Σ_s' p(s'|s,a) h_s' − h_s − y_s ≥ ρ  for every pair.

Any (h, y ≥ 0) gives a bound: ρ = min_sa (g + Ph − Eh − Ey). So every answer is checked by weak
duality, whatever path led to it, and ``OPTIMAL`` means that the check passed.

**Without bounds** this is the average-cost problem and policy iteration solves it. A policy is
evaluated by GTH elimination of its chain: states are censored one after the other, only by
additions, multiplications and divisions of numbers ≥ 0, so that the stationary distribution is
accurate to the last digits in every entry even when the chain is nearly reducible. A state whose
probability of leaving to the states that remain is exactly 0 is closed; a second closed state
proves that the policy is multichain. Then (Haviv & Puterman 1991) the cheapest closed class is
kept and the other states are led to it. The cost falls strictly: a class of the new policy in
which nothing was changed would have been closed before, and before there was only one. So a
multichain policy can neither break the method nor make it circle.

**With bounds**, the optimal policy's basis stays dual feasible, and the dual simplex method goes
on from there, on a dictionary with one row for the pair of each state and one for its slack.
The entering ties are broken by the largest pivot, and after a stall by Bland's rule, which can't
circle. A row without a candidate proves that the bounds can't be met.

A vertex without bounds has one recurrent class, and the policy returned leads to it from
everywhere. A vertex with bounds can have *several*: a walk then stays in the one it starts in and
never sees the frequencies that were asked for. The number is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.model import MDP, per_state

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OPTIMAL, INFEASIBLE, UNPROVED, NOT_FINITE = 0, 1, 2, 3
"""What the kernel reports for each cost; :class:`Status` has the sentences."""

PROVED = 1e-9
"""Largest duality gap, relative to the span of the cost, that counts as proved."""

MEETS = 1e-9
"""Largest relative shortfall of a bound that counts as rounding."""


class Status(Enum):
    """What became of one linear problem."""

    OPTIMAL = "optimal, proved by duality"
    INFEASIBLE = "no stationary distribution meets the lower bounds"
    UNPROVED = "the method stopped without a proof of optimality"
    NOT_FINITE = "the cost is not finite"


STATUSES = (Status.OPTIMAL, Status.INFEASIBLE, Status.UNPROVED, Status.NOT_FINITE)


# -- the chain of one policy: elimination, evaluation ---------------------------------------------


@njit(cache=True, nogil=True)
def _eliminate(F: Floats, order: Ints, n: int) -> bool:
    """Censor positions n−1, …, 1 of the chain in F[:n, :n], in place; False if multichain.

    Afterwards F[k, k] is the probability of leaving k to lower positions, F[k, :k] where to, and
    F[:k, k] the expected visits to k between visits to lower positions. A closed state is moved
    to position 0 (``order`` says which state a position holds).
    """
    for k in range(n - 1, 0, -1):
        leave = 0.0
        for j in range(k):
            leave += F[k, j]
        if leave == 0.0:
            for j in range(n):
                F[0, j], F[k, j] = F[k, j], F[0, j]
            for i in range(n):
                F[i, 0], F[i, k] = F[i, k], F[i, 0]
            order[0], order[k] = order[k], order[0]
            for j in range(k):
                leave += F[k, j]
            if leave == 0.0:
                return False
        F[k, k] = leave
        for i in range(k):
            if F[i, k] != 0.0:
                visits = F[i, k] / leave
                F[i, k] = visits
                for j in range(k):
                    F[i, j] += visits * F[k, j]
    return True


@njit(cache=True, nogil=True)
def _evaluate(F: Floats, n: int, c: Floats, t: Floats, h: Floats) -> float:
    """Gain (returned) and bias h of the costs c, all by position; c and t are overwritten.

    Cost and duration between two visits to position 0 give the gain (renewal reward), with no
    subtraction; the bias follows by substitution, with h = 0 at position 0.
    """
    for k in range(n):
        t[k] = 1.0
    for k in range(n - 1, 0, -1):
        for i in range(k):
            c[i] += F[i, k] * c[k]
            t[i] += F[i, k] * t[k]
    gain = c[0] / t[0]
    h[0] = 0.0
    for k in range(1, n):
        total = c[k] - gain * t[k]
        for j in range(k):
            total += F[k, j] * h[j]
        h[k] = total / F[k, k]
    return gain


@njit(cache=True, nogil=True)
def _stationary(F: Floats, n: int, x: Floats) -> None:
    """The stationary distribution by position, with no subtraction."""
    x[0] = 1.0
    total = 1.0
    for k in range(1, n):
        value = 0.0
        for i in range(k):
            value += x[i] * F[i, k]
        x[k] = value
        total += value
    for k in range(n):
        x[k] /= total


@njit(cache=True, nogil=True)
def _bias(
    P: Floats, chosen: Ints, cost: Floats, F: Floats, order: Ints,
    h: Floats, tail: Floats, a: Floats, b: Floats, c: Floats,
) -> float:  # fmt: skip
    """Gain and bias h + tail of the policy eliminated in F with the costs ``cost``, by state.

    Where leaving a class takes 1e10 steps, h is of the order of 1e10 and its last digit far above
    rounding. Its differences are still exact, so its residual is too, and ``tail`` corrects it.
    """
    n = chosen.size
    for k in range(n):
        a[k] = cost[order[k]]
    gain = _evaluate(F, n, a, b, c)
    largest = 0.0
    for k in range(n):
        h[order[k]] = c[k]
        tail[k] = 0.0
        largest = max(largest, abs(c[k]))
    if largest > 1e3:
        for k in range(n):
            s = order[k]
            residual = cost[s] - gain
            for j in range(n):
                residual += P[chosen[s], j] * (h[j] - h[s])
            a[k] = residual
        gain += _evaluate(F, n, a, b, c)
        for k in range(n):
            tail[order[k]] = c[k]
    return gain


@njit(cache=True, nogil=True)
def _reduced_costs(
    P: Floats, start: Ints, g: Floats, y: Floats, h: Floats, tail: Floats, reduced: Floats
) -> None:
    """g + Ph − Eh − Ey for every pair."""
    n = h.size
    refined = False
    for s in range(n):
        refined = refined or tail[s] != 0.0
    for s in range(n):
        hs = h[s]
        for p in range(start[s], start[s + 1]):
            # Σ p(h_s' − h_s), not (Σ p h_s') − h_s: where both are huge, differences are exact.
            value = 0.0
            for j in range(n):
                value += P[p, j] * (h[j] - hs)
            if refined:
                for j in range(n):
                    value += P[p, j] * (tail[j] - tail[s])
            reduced[p] = g[p] - y[s] + value


@njit(cache=True, nogil=True)
def _flow(F: Floats, n: int, r: Floats, x: Floats) -> None:
    """One solution x of x(I − F₀) = r, by position, for Σr = 0; r is overwritten."""
    for k in range(n - 1, 0, -1):
        r[k] /= F[k, k]
        for j in range(k):
            r[j] += r[k] * F[k, j]
    x[0] = 0.0
    for k in range(1, n):
        value = r[k]
        for i in range(k):
            value += x[i] * F[i, k]
        x[k] = value


# -- a multichain policy: keep the cheapest closed class, lead the others to it --------------------


@njit(cache=True, nogil=True)
def _unite(P: Floats, start: Ints, g: Floats, chosen: Ints, F: Floats, order: Ints) -> bool:
    """Change ``chosen`` into a unichain policy of no higher cost; False if none can be reached."""
    n = chosen.size
    reach = np.zeros((n, n), np.bool_)
    stack = np.empty(n, np.int64)
    for s in range(n):
        reach[s, s] = True
        stack[0] = s
        top = 1
        while top > 0:
            top -= 1
            u = stack[top]
            for v in range(n):
                if P[chosen[u], v] > 0.0 and not reach[s, v]:
                    reach[s, v] = True
                    stack[top] = v
                    top += 1
    inside = np.zeros(n, np.bool_)
    members = np.empty(n, np.int64)
    c = np.empty(n)
    t = np.empty(n)
    h = np.empty(n)
    lowest = np.inf
    for s in range(n):
        size = 0
        closed = True
        for v in range(n):
            if reach[s, v]:
                # v < s was looked at before, as the first member of the same class.
                closed = closed and reach[v, s] and v >= s
                members[size] = v
                size += 1
        if not closed:
            continue
        for i in range(size):
            order[i] = i
            for j in range(size):
                F[i, j] = P[chosen[members[i]], members[j]]
        _eliminate(F, order, size)
        for i in range(size):
            c[i] = g[chosen[members[order[i]]]]
        gain = _evaluate(F, size, c, t, h)
        if gain < lowest:
            lowest = gain
            inside[:] = reach[s]
    # Breadth first from the class, each state by the pair most likely to come closer.
    left = n - inside.sum()
    fresh = np.empty(n, np.int64)
    while left > 0:
        found = 0
        for s in range(n):
            if inside[s]:
                continue
            best = 0.0
            for p in range(start[s], start[s + 1]):
                chance = 0.0
                for j in range(n):
                    if inside[j]:
                        chance += P[p, j]
                if chance > best:
                    best = chance
                    chosen[s] = p
            if best > 0.0:
                fresh[found] = s
                found += 1
        if found == 0:
            return False
        for i in range(found):
            inside[fresh[i]] = True
        left -= found
    return True


# -- policy iteration ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _policy_iteration(
    P: Floats, start: Ints, g: Floats, chosen: Ints, F: Floats, order: Ints,
    eta: Floats, h: Floats, tail: Floats, y: Floats, cost: Floats, reduced: Floats,
    a: Floats, b: Floats, c: Floats,
) -> tuple[bool, float]:  # fmt: skip
    """Improve ``chosen`` until it is optimal; leaves its elimination in F, its distribution in
    ``eta``, the reduced costs g + Ph − Eh (y is 0) in ``reduced``; returns (success, gain)."""
    n = chosen.size
    rounds = 0
    lead = 0
    while True:
        for s in range(n):
            order[s] = s
        order[0], order[lead] = lead, 0
        for i in range(n):
            for j in range(n):
                F[i, j] = P[chosen[order[i]], order[j]]
        if not _eliminate(F, order, n):
            if not _unite(P, start, g, chosen, F, order):
                return False, 0.0
            continue
        # Seen from a state that is hardly ever visited, durations are long and the bias is a
        # small difference of large numbers: start again from the most visited one.
        _stationary(F, n, a)
        most = 0
        for k in range(n):
            if a[k] > a[most]:
                most = k
        if a[0] < 0.1 * a[most] and lead != order[most]:
            lead = order[most]
            continue
        for k in range(n):
            eta[order[k]] = a[k]
        for s in range(n):
            cost[s] = g[chosen[s]]
        gain = _bias(P, chosen, cost, F, order, h, tail, a, b, c)
        _reduced_costs(P, start, g, y, h, tail, reduced)
        changed = False
        rounds += 1
        if rounds <= 100 + n:
            for s in range(n):
                best = reduced[chosen[s]] - 1e-14
                for p in range(start[s], start[s + 1]):
                    if reduced[p] < best:
                        best = reduced[p]
                        chosen[s] = p
                        changed = True
        # Where rounding alone keeps policies of equal cost apart, rounds end it and the proof
        # decides.
        if not changed:
            return True, gain


# -- dual simplex on the dictionary of the optimal policy ------------------------------------------


@njit(cache=True, nogil=True)
def _meet_bounds(
    P: Floats, start: Ints, state: Ints, chosen: Ints, lower: Floats, F: Floats, order: Ints,
    reduced: Floats, eta: Floats, gain: float, T: Floats, basic: Ints, free: Ints,
    a: Floats, b: Floats,
) -> int:  # fmt: skip
    """Pivot until every bound is met. Variables: pair p has number p, the slack of state s has
    number n_pairs + s. Row i of T says basic[i] = T[i, -1] + Σ_j T[i, j]·free[j]; the last row
    is the cost. All of it in caller-owned arrays."""
    n = chosen.size
    n_pairs = state.size
    m = n_pairs - n
    rows = 2 * n
    for s in range(n):
        basic[s] = chosen[s]
        basic[n + s] = n_pairs + s
        T[s, m] = eta[s]
        T[n + s, m] = eta[s] - lower[s]
    T[rows, m] = gain
    column = 0
    for p in range(n_pairs):
        s = state[p]
        if p == chosen[s]:
            continue
        # One unit more of pair p: the others carry away −(e_s − p_sa) and give up the mass.
        for k in range(n):
            a[k] = P[p, order[k]]
            if order[k] == s:
                a[k] -= 1.0
        _flow(F, n, a, b)
        total = 1.0
        for k in range(n):
            total += b[k]
        for k in range(n):
            i = order[k]
            T[i, column] = b[k] - total * eta[i]
            T[n + i, column] = T[i, column]
        T[n + s, column] += 1.0
        T[rows, column] = max(reduced[p] - gain, 0.0)
        free[column] = p
        column += 1

    best = T[rows, m]
    stalled = 0
    for _ in range(100 * rows):
        bland = stalled > rows
        r = -1
        worst = 0.0
        for i in range(rows):
            noise = 1e-13
            if basic[i] >= n_pairs:
                noise = 1e-15 + 1e-10 * lower[basic[i] - n_pairs]
            short = -T[i, m]
            if short <= noise:
                continue
            if bland:
                if r < 0 or basic[i] < basic[r]:
                    r = i
            elif short > worst:
                worst = short
                r = i
        if r < 0:
            return OPTIMAL
        largest = 0.0
        for j in range(m):
            largest = max(largest, T[r, j])
        # free[j] ≤ 1, and Σ free ≤ 2 (pairs and slacks each sum to at most 1).
        if T[r, m] + 2.0 * largest < 0.0:
            bound = 1.0 if basic[r] < n_pairs else lower[basic[r] - n_pairs]
            return INFEASIBLE if -T[r, m] > MEETS * bound else UNPROVED
        e = -1
        least = np.inf
        for j in range(m):
            pivot = T[r, j]
            if pivot > 1e-9 * largest:
                ratio = T[rows, j] / pivot
                tie = 1e-12 * (1.0 + abs(least)) if e >= 0 else 0.0
                if e < 0 or ratio < least - tie:
                    least = ratio
                    e = j
                elif ratio <= least + tie and (free[j] < free[e] if bland else pivot > T[r, e]):
                    least = min(least, ratio)
                    e = j
        if e < 0:
            return UNPROVED
        inverse = 1.0 / T[r, e]
        for j in range(m + 1):
            T[r, j] *= -inverse
        T[r, e] = inverse
        for i in range(rows + 1):
            if i == r:
                continue
            f = T[i, e]
            if f != 0.0:
                T[i, e] = 0.0
                for j in range(m + 1):
                    T[i, j] += f * T[r, j]
        for j in range(m):
            # Dual feasibility up to rounding: without this, noise turns into wrong pivots.
            T[rows, j] = max(T[rows, j], 0.0)
        basic[r], free[e] = free[e], basic[r]
        if T[rows, m] > best + 1e-14 * (1.0 + abs(best)):
            best = T[rows, m]
            stalled = 0
        else:
            stalled += 1
    return UNPROVED


@njit(cache=True, nogil=True)
def _classes(P: Floats, state: Ints, x: Floats, label: Ints) -> int:
    """Recurrent classes of the chain that x > 0 induces: all its states are recurrent, so the
    classes are the connected pieces of its support."""
    n = label.size
    for s in range(n):
        label[s] = -1
    for p in range(x.size):
        if x[p] > 0.0:
            label[state[p]] = state[p]
    for p in range(x.size):
        if x[p] <= 0.0:
            continue
        for j in range(n):
            if P[p, j] > 0.0 and label[j] >= 0:
                u = state[p]
                while label[u] != u:
                    u = label[u]
                v = j
                while label[v] != v:
                    v = label[v]
                label[max(u, v)] = min(u, v)
    count = 0
    for s in range(n):
        if label[s] == s:
            count += 1
    return count


# -- many costs ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def solve_kernel(
    P: Floats, start: Ints, state: Ints, cost: Floats, lower: Floats, chosen: Ints,
    occupancy: Floats, bias: Floats, multiplier: Floats, value: Floats, bound: Floats,
    status: Ints, classes: Ints, active: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Solve one problem per row of ``cost`` (k × n_states or k × n_pairs); writes every array
    from ``chosen`` (k × n_states, the starting policies, replaced by the optimal ones without
    bounds) to ``active`` (k: whether a bound was active)."""
    n = chosen.shape[1]
    n_pairs = state.size
    per_pair = cost.shape[1] == n_pairs
    g = np.empty(n_pairs)
    reduced = np.empty(n_pairs)
    F = np.empty((n, n))
    order = np.empty(n, np.int64)
    eta = np.empty(n)
    own = np.empty(n)
    tail = np.empty(n)
    a = np.empty(n)
    b = np.empty(n)
    c = np.empty(n)
    bounded = False
    for s in range(n):
        bounded = bounded or lower[s] > 0.0
    T = np.empty((2 * n + 1, n_pairs - n + 1)) if bounded else np.empty((1, 1))
    basic = np.empty(2 * n, np.int64)
    free = np.empty(max(n_pairs - n, 1), np.int64)
    for w in range(cost.shape[0]):
        x = occupancy[w]
        h = bias[w]
        y = multiplier[w]
        for p in range(n_pairs):
            x[p] = 0.0
        for s in range(n):
            h[s] = 0.0
            y[s] = 0.0
        value[w] = np.nan
        bound[w] = -np.inf
        classes[w] = 0
        active[w] = False
        # Everything below is relative to the span of the cost: 1e±12 is as good as 1.
        low = np.inf
        high = -np.inf
        finite = True
        for p in range(cost.shape[1]):
            v = cost[w, p]
            finite = finite and np.isfinite(v)
            low = min(low, v)
            high = max(high, v)
        if not finite or not np.isfinite(high - low):
            status[w] = NOT_FINITE
            continue
        span = high - low if high > low else 1.0
        for p in range(n_pairs):
            g[p] = ((cost[w, p] if per_pair else cost[w, state[p]]) - low) / span

        solved, gain = _policy_iteration(
            P, start, g, chosen[w], F, order, eta, h, tail, y, own, reduced, a, b, c
        )  # fmt: skip
        if not solved:
            status[w] = UNPROVED
            continue
        met = True
        for s in range(n):
            x[chosen[w, s]] = eta[s]
            met = met and eta[s] >= lower[s] * (1.0 - 1e-12)
        classes[w] = 1
        if not met:
            active[w] = True
            outcome = _meet_bounds(
                P, start, state, chosen[w], lower, F, order, reduced, eta, gain,
                T, basic, free, a, b,
            )  # fmt: skip
            for s in range(n):
                x[chosen[w, s]] = 0.0
            if outcome != OPTIMAL:
                status[w] = outcome
                classes[w] = 0
                continue
            for i in range(2 * n):
                if basic[i] < n_pairs:
                    x[basic[i]] = max(T[i, n_pairs - n], 0.0)
            # The duals: y is the reduced cost of the slacks, and h is the bias of the starting
            # policy once y and the reduced costs of its own pairs are taken off.
            for j in range(n_pairs - n):
                d = T[2 * n, j]
                if free[j] >= n_pairs:
                    y[free[j] - n_pairs] = d
                    own[free[j] - n_pairs] -= d
                elif free[j] == chosen[w, state[free[j]]]:
                    own[state[free[j]]] -= d
            _bias(P, chosen[w], own, F, order, h, tail, a, b, c)
            _reduced_costs(P, start, g, y, h, tail, reduced)
            classes[w] = _classes(P, state, x, order)

        # The proof, from the problem's data alone.
        total = 0.0
        spent = 0.0
        for s in range(n):
            a[s] = 0.0
            b[s] = 0.0
        least = np.inf
        for p in range(n_pairs):
            s = state[p]
            least = min(least, reduced[p])
            if x[p] > 0.0:
                total += x[p]
                spent += g[p] * x[p]
                b[s] += x[p]
                for j in range(n):
                    a[j] += P[p, j] * x[p]
        for s in range(n):
            least += lower[s] * y[s]
        proved = spent - least <= PROVED and abs(total - 1.0) <= 1e-11
        for s in range(n):
            proved = proved and abs(a[s] - b[s]) <= 1e-12
            proved = proved and b[s] >= lower[s] * (1.0 - MEETS)
            h[s] = (h[s] + tail[s]) * span
            y[s] *= span
        value[w] = low + span * spent
        bound[w] = low + span * least
        status[w] = OPTIMAL if proved else UNPROVED


@dataclass(frozen=True)
class Batch:
    """Answers to k costs; row w belongs to cost w.

    ``lower`` is common to all of them. The proof of row w is ``value[w] − bound[w]``: the bound
    follows from ``bias`` and ``multiplier`` (h and y of the module's notation) alone.
    """

    occupancy: Floats
    """k × n_pairs."""
    chosen: Ints
    """k × n_states: the pair of each state in the optimal policy *without* bounds. Handing it to
    the next call saves most of the work. It leads to the support from every state."""
    bias: Floats
    multiplier: Floats
    value: Floats
    bound: Floats
    status: Ints
    """k: OPTIMAL, INFEASIBLE, UNPROVED or NOT_FINITE; only the rows that are OPTIMAL mean
    anything."""
    recurrent_classes: Ints
    """k: of the policy that the occupancy defines; a walk stays in one of them for ever."""
    bounded: NDArray[np.bool_]
    """k: whether a lower bound was active."""

    def policy(self, oracle: DenseOracle) -> Floats:
        """π(a|s) for each cost (k × n_pairs); unvisited states take their ``chosen`` pair."""
        visited = np.add.reduceat(self.occupancy, oracle.pair_start[:-1], axis=1)
        some = visited > 0
        policy = self.occupancy / np.where(some, visited, 1.0)[:, oracle.pair_state]
        walk, state = np.nonzero(~some)
        policy[walk, self.chosen[walk, state]] = 1.0
        return policy


class DenseOracle:
    """The oracle of one small model, ready for any number of costs.

    It keeps no state between calls, so threads may share it; the compiled part releases the
    interpreter's lock.
    """

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.transitions: Floats = np.ascontiguousarray(mdp.transitions.toarray())
        self.pair_start: Ints = mdp.pair_start
        self.pair_state: Ints = mdp.pair_state.astype(np.int64)

    def solve_batch(
        self, cost: ArrayLike, lower: ArrayLike = 0.0, chosen: Ints | None = None
    ) -> Batch:
        """One problem per row of ``cost`` (k × n_states or k × n_pairs).

        ``lower`` is a bound on the distribution, one number or one per state. ``chosen``
        (k × n_states) are the policies to start from, best the ``chosen`` of the last call; it
        is not changed. Where several occupancies are optimal, which one is returned can depend
        on it.
        """
        n, n_pairs = self.mdp.n_states, self.mdp.n_pairs
        costs = np.ascontiguousarray(cost, dtype=float)
        if costs.ndim != 2 or costs.shape[1] not in (n, n_pairs):
            raise ArgumentError(
                f"the costs have shape {costs.shape}, expected (k, {n}) or (k, {n_pairs})",
                "give one row per problem with one cost per state or one per pair",
            )
        bounds = lower_bounds(lower, n)
        k = costs.shape[0]
        if chosen is None:
            chosen = np.broadcast_to(self.pair_start[:-1], (k, n))
        start = np.array(chosen, dtype=np.int64, order="C")
        # An index that belongs to another state would be read as that state's move, silently.
        if (
            start.shape != (k, n)
            or ((start < self.pair_start[:-1]) | (start >= self.pair_start[1:])).any()
        ):
            raise ArgumentError(
                f"chosen must be ({k}, {n}) and name one pair of every state, in order"
            )
        batch = Batch(
            np.empty((k, n_pairs)), start, np.empty((k, n)), np.empty((k, n)), np.empty(k),
            np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k, np.bool_),
        )  # fmt: skip
        solve_kernel(
            self.transitions, self.pair_start, self.pair_state, costs, bounds, batch.chosen,
            batch.occupancy, batch.bias, batch.multiplier, batch.value, batch.bound,
            batch.status, batch.recurrent_classes, batch.bounded,
        )  # fmt: skip
        return batch


def lower_bounds(lower: ArrayLike, n_states: int) -> Floats:
    """``lower`` as one finite bound ≥ 0 per state, or a named error."""
    return per_state(lower, n_states, "lower", minimum=0.0)
