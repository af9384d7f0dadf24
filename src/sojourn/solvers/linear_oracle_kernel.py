"""The compiled linear oracle: policy iteration and dual simplex on dense arrays.

The problem, its dual and why the method works: :mod:`sojourn.solvers.linear_oracle`. Everything
here writes to caller-owned arrays and holds no lock. P is dense (pairs × states), ``start`` and
``state`` say which pairs belong to which state, ``chosen`` is a policy as one pair per state.
"Position" means place in the order of elimination: ``order[k]`` is the state at position k.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OPTIMAL, INFEASIBLE, UNPROVED, NOT_FINITE = 0, 1, 2, 3
"""What the kernel reports for each cost."""

PROVED = 1e-9
"""Largest duality gap, relative to the span of the cost, that counts as proved."""

MEETS = 1e-9
"""Largest relative shortfall of a bound that counts as rounding."""

GRAIN = 1e-15
"""Largest absolute shortfall that does: what can be told from 0 in numbers that sum to 1."""


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
def _factor(R: Floats, F: Floats, order: Ints, eta: Floats, a: Floats) -> bool:
    """Eliminate the chain R, by state, in F, and give its distribution; False if multichain.

    Seen from a state that is hardly ever visited, durations are long and the bias is a small
    difference of large numbers. So the last state to remain is the most visited one; the first
    guess is the one that ``order`` had there before.
    """
    n = eta.size
    lead = order[0]
    while True:
        for s in range(n):
            order[s] = s
        order[0], order[lead] = lead, 0
        for i in range(n):
            for j in range(n):
                F[i, j] = R[order[i], order[j]]
        if not _eliminate(F, order, n):
            return False
        _stationary(F, n, a)
        most = 0
        for k in range(n):
            if a[k] > a[most]:
                most = k
        if a[0] >= 0.1 * a[most] or lead == order[most]:
            break
        lead = order[most]
    for k in range(n):
        eta[order[k]] = a[k]
    return True


@njit(cache=True, nogil=True)
def _bias(
    R: Floats, cost: Floats, F: Floats, order: Ints,
    h: Floats, tail: Floats, a: Floats, b: Floats, c: Floats,
) -> float:  # fmt: skip
    """Gain and bias h + tail of the chain R, eliminated in F, with the costs ``cost``, by state.

    Where leaving a class takes 1e10 steps, h is of the order of 1e10 and its last digit far above
    rounding. Its differences are still exact, so its residual is too, and ``tail`` corrects it.
    """
    n = cost.size
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
                residual += R[s, j] * (h[j] - h[s])
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
    P: Floats, start: Ints, g: Floats, chosen: Ints, R: Floats, F: Floats, order: Ints,
    eta: Floats, h: Floats, tail: Floats, y: Floats, cost: Floats, reduced: Floats,
    a: Floats, b: Floats, c: Floats,
) -> tuple[bool, float]:  # fmt: skip
    """Improve ``chosen`` until it is optimal; leaves its elimination in F, its distribution in
    ``eta``, the reduced costs g + Ph − Eh (y is 0) in ``reduced``; returns (success, gain)."""
    n = chosen.size
    rounds = 0
    order[0] = 0
    while True:
        for s in range(n):
            for j in range(n):
                R[s, j] = P[chosen[s], j]
        if not _factor(R, F, order, eta, a):
            if not _unite(P, start, g, chosen, F, order):
                return False, 0.0
            continue
        for s in range(n):
            cost[s] = g[chosen[s]]
        gain = _bias(R, cost, F, order, h, tail, a, b, c)
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
    reduced: Floats, eta: Floats, gain: float, T: Floats, basic: Ints, free: Ints, row: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Pivot until every bound is met. Variables: pair p has number p, the slack of state s has
    number n_pairs + s. Row i of T says basic[i] = T[i, -1] + Σ_j T[i, j]·free[j]; the last row
    is the cost. Returns the outcome and the row that ended it."""
    n = chosen.size
    n_pairs = state.size
    m = n_pairs - n
    rows = 2 * n
    # Rows by position: row k is the pair of state order[k], row n + k its slack. The columns are
    # solved together, one unit more of each pair p: the pairs of the policy carry away
    # −(e_s − p_sa), and give up the mass.
    column = 0
    for p in range(n_pairs):
        if p != chosen[state[p]]:
            free[column] = p
            T[rows, column] = max(reduced[p] - gain, 0.0)
            column += 1
    for k in range(n):
        s = order[k]
        basic[k] = chosen[s]
        basic[n + k] = n_pairs + s
        for j in range(m):
            T[k, j] = P[free[j], s]
            if state[free[j]] == s:
                T[k, j] -= 1.0
    for k in range(n - 1, 0, -1):
        for j in range(m):
            T[k, j] /= F[k, k]
        for i in range(k):
            f = F[k, i]
            if f != 0.0:
                for j in range(m):
                    T[i, j] += f * T[k, j]
    for j in range(m):
        T[0, j] = 0.0
        row[j] = 1.0
    for k in range(1, n):
        for i in range(1, k):
            f = F[i, k]
            if f != 0.0:
                for j in range(m):
                    T[k, j] += f * T[i, j]
        for j in range(m):
            row[j] += T[k, j]
    for k in range(n):
        s = order[k]
        for j in range(m):
            T[k, j] -= row[j] * eta[s]
            T[n + k, j] = T[k, j]
            if state[free[j]] == s:
                T[n + k, j] += 1.0
        T[k, m] = eta[s]
        T[n + k, m] = eta[s] - lower[s]
    T[rows, m] = gain

    best = T[rows, m]
    stalled = 0
    for _ in range(100 * rows):
        bland = stalled > rows
        r = -1
        worst = 0.0
        for i in range(rows):
            noise = 1e-13
            if basic[i] >= n_pairs:
                noise = GRAIN + 1e-10 * lower[basic[i] - n_pairs]
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
            return OPTIMAL, r
        largest = 0.0
        for j in range(m):
            largest = max(largest, T[r, j])
        # Pairs and slacks sum to at most 1 each: this row can't become positive any more.
        if T[r, m] + 2.0 * largest < 0.0:
            return INFEASIBLE, r
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
            return UNPROVED, r
        inverse = 1.0 / T[r, e]
        for j in range(m + 1):
            row[j] = -inverse * T[r, j]
        row[e] = inverse
        for i in range(rows + 1):
            f = T[i, e]
            if f != 0.0:
                T[i, e] = 0.0
                for j in range(m + 1):
                    T[i, j] += f * row[j]
        for j in range(m + 1):
            T[r, j] = row[j]
        for j in range(m):
            # Dual feasibility up to rounding: without this, noise turns into wrong pivots.
            T[rows, j] = max(T[rows, j], 0.0)
        basic[r], free[e] = free[e], basic[r]
        if T[rows, m] > best + 1e-14 * (1.0 + abs(best)):
            best = T[rows, m]
            stalled = 0
        else:
            stalled += 1
    return UNPROVED, -1


@njit(cache=True, nogil=True)
def _impossible(
    P: Floats, start: Ints, state: Ints, chosen: Ints, lower: Floats, R: Floats, F: Floats,
    order: Ints, T: Floats, basic: Ints, free: Ints, r: int, y: Floats, own: Floats, h: Floats,
    tail: Floats, reduced: Floats, a: Floats, b: Floats, c: Floats,
) -> bool:  # fmt: skip
    """Whether row r of the dictionary proves that the bounds can't be met.

    It says Σ y_s (η_s − lower_s) + (pairs ≥ 0) < 0 with y ≥ 0. The proof is that Σ y η, the
    gain of the rewards y, is smaller than Σ y lower for every occupancy: a bias shows it.
    """
    n = chosen.size
    n_pairs = state.size
    for s in range(n):
        y[s] = 0.0
    for j in range(-1, free.size):
        variable = basic[r] if j < 0 else free[j]
        if variable >= n_pairs:
            y[variable - n_pairs] = 1.0 if j < 0 else max(-T[r, j], 0.0)
    for s in range(n):
        own[s] = -y[s]
    for j in range(-1, free.size):
        variable = basic[r] if j < 0 else free[j]
        if variable < n_pairs and chosen[state[variable]] == variable:
            own[state[variable]] -= 1.0 if j < 0 else max(-T[r, j], 0.0)
    _bias(R, own, F, order, h, tail, a, b, c)
    for p in range(n_pairs):
        reduced[p] = 0.0
    _reduced_costs(P, start, reduced, y, h, tail, reduced)
    asked = 0.0
    noise = 0.0
    for s in range(n):
        asked += y[s] * lower[s]
        noise = max(noise, 1e-15 * abs(h[s]))
    return asked + reduced.min() > MEETS * asked + noise


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


@njit(cache=True, nogil=True)
def _resolve(
    P: Floats, start: Ints, g: Floats, lower: Floats, y: Floats, chosen: Ints, x: Floats,
    R: Floats, F: Floats, order: Ints, eta: Floats, own: Floats, a: Floats,
) -> bool:  # fmt: skip
    """Compute the occupancy of a unichain vertex afresh from its policy, without the rounding of
    the pivots; leaves the policy's chain in R and F and its costs g − y in ``own``. False where
    the policy, with the ``chosen`` pairs in unvisited states, is multichain, or where its rare
    moves are too rare to be known from the pivots, so that bounds would be missed."""
    n = eta.size
    for s in range(n):
        total = 0.0
        for p in range(start[s], start[s + 1]):
            total += x[p]
        if total <= 0.0:
            own[s] = g[chosen[s]] - y[s]
            for j in range(n):
                R[s, j] = P[chosen[s], j]
            continue
        own[s] = -y[s]
        for j in range(n):
            R[s, j] = 0.0
        for p in range(start[s], start[s + 1]):
            if x[p] > 0.0:
                share = x[p] / total
                own[s] += share * g[p]
                for j in range(n):
                    R[s, j] += share * P[p, j]
    order[0] = 0
    if not _factor(R, F, order, eta, a):
        return False
    for s in range(n):
        if eta[s] < lower[s] * (1.0 - MEETS) - GRAIN:
            return False
    for s in range(n):
        total = 0.0
        for p in range(start[s], start[s + 1]):
            total += x[p]
        if total > 0.0:
            for p in range(start[s], start[s + 1]):
                x[p] *= eta[s] / total
    return True


@njit(cache=True, nogil=True)
def _imbalance(
    P: Floats, state: Ints, lower: Floats, x: Floats, h: Floats, flow: Floats, eta: Floats
) -> float:
    """Σ |h · (outflow − inflow)|; infinite where x is no occupancy that meets the bounds."""
    n = eta.size
    flow[:] = 0.0
    eta[:] = 0.0
    for p in range(x.size):
        if x[p] > 0.0:
            eta[state[p]] += x[p]
            for j in range(n):
                flow[j] += P[p, j] * x[p]
    wrong = 0.0
    for s in range(n):
        missing = abs(flow[s] - eta[s])
        if missing > 1e-12 or eta[s] < lower[s] * (1.0 - MEETS) - GRAIN:
            return np.inf
        wrong += missing * abs(h[s])
    return wrong if abs(eta.sum() - 1.0) <= 1e-11 else np.inf


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
    R = np.empty((n, n))
    F = np.empty((n, n))
    order = np.empty(n, np.int64)
    eta = np.empty(n)
    own = np.empty(n)
    tail = np.empty(n)
    other = np.empty(n)
    rest = np.empty(n)
    a = np.empty(n)
    b = np.empty(n)
    c = np.empty(n)
    bounded = False
    for s in range(n):
        bounded = bounded or lower[s] > 0.0
    T = np.empty((2 * n + 1, n_pairs - n + 1)) if bounded else np.empty((1, 1))
    row = np.empty(n_pairs - n + 1)
    label = np.empty(n, np.int64)
    basic = np.empty(2 * n, np.int64)
    free = np.empty(n_pairs - n, np.int64)
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
            P, start, g, chosen[w], R, F, order, eta, h, tail, y, own, reduced, a, b, c
        )  # fmt: skip
        if not solved:
            status[w] = UNPROVED
            continue
        met = True
        for s in range(n):
            x[chosen[w, s]] = eta[s]
            met = met and eta[s] >= lower[s] * (1.0 - 1e-12) - GRAIN
        classes[w] = 1
        exact = True
        if not met:
            active[w] = True
            outcome, r = _meet_bounds(
                P, start, state, chosen[w], lower, F, order, reduced, eta, gain,
                T, basic, free, row,
            )  # fmt: skip
            for s in range(n):
                x[chosen[w, s]] = 0.0
            if outcome != OPTIMAL:
                proof = outcome == INFEASIBLE and _impossible(
                    P, start, state, chosen[w], lower, R, F, order, T, basic, free, r, y, own, h,
                    tail, reduced, a, b, c,
                )  # fmt: skip
                status[w] = INFEASIBLE if proof else UNPROVED
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
            _bias(R, own, F, order, h, tail, a, b, c)
            _reduced_costs(P, start, g, y, h, tail, reduced)
            # An elimination that goes through proves that there is one class.
            exact = _resolve(P, start, g, lower, y, chosen[w], x, R, F, order, eta, own, a)
            if not exact:
                classes[w] = _classes(P, state, x, label)
        least = reduced.min()
        spent = 0.0
        for p in range(n_pairs):
            spent += g[p] * x[p]
        for s in range(n):
            least += lower[s] * y[s]
        if spent - least > PROVED and exact and not met:
            # Where rounding spoils one policy's bias it may spare the other's.
            _bias(R, own, F, order, other, rest, a, b, c)
            _reduced_costs(P, start, g, y, other, rest, reduced)
            second = reduced.min()
            for s in range(n):
                second += lower[s] * y[s]
            if second > least:
                least = second
                h[:] = other
                tail[:] = rest
        # ⟨g, λ⟩ misses the value of a truly stationary occupancy by ⟨h, imbalance⟩: where
        # classes are nearly closed, an imbalance of rounding size can hide a wrong share of mass.
        # An occupancy from the elimination is accurate entry by entry.
        proved = spent - least <= PROVED and (
            exact or _imbalance(P, state, lower, x, h, a, b) <= PROVED
        )
        for s in range(n):
            h[s] = (h[s] + tail[s]) * span
            y[s] *= span
        value[w] = low + span * spent
        bound[w] = low + span * least
        status[w] = OPTIMAL if proved else UNPROVED
