"""Plans for a finite horizon: how often to visit each state in the next H steps, from here.

With T(s) samples so far and prices w(s), the *fluid* loss of N(s) expected further visits is

    F(N) = Σ_s w(s)/(T(s) + N(s)),      N = Σ_{h=1..H} P(s_h = ·).

The set of reachable N is convex (mixtures of time-dependent policies), F is convex, and a linear
function of N is maximised exactly by backward induction with the reward w/(T + N)² for arriving
at a state. So Frank–Wolfe with corrective steps converges, and a handful of components suffices.

Both passes stop early where they can. Backwards, the increments V_k − V_{k−1} become equal in
all states once the end is far away; from there on the policy is taken as stationary. Forwards,
the distribution settles, and the rest of a stationary stretch is a multiple of it.

A component is a table ``rows`` of pairs: ``pick[j, k]`` for k + 1 steps to go, k < ``depth[j]``,
and the last of these rows for any time before.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SETTLED = 1e-5
"""Relative change below which a pass counts as settled."""
ALIKE = 1e-3
"""Rolling: how much differences between states may still change, relative to the largest."""


@njit(cache=True, nogil=True)
def backward(pair_start, row_start, successor, chance, reward, allowed, steps, pick, scratch):  # type: ignore[no-untyped-def]
    """The best rows for ``steps`` steps; returns how many differ.

    ``allowed[min(k, K)]`` (K × pairs, bits) restricts the pairs with k + 1 steps to go; an empty
    table allows everything. ``scratch`` is 3 × states.
    """
    n = reward.size
    value, fresh, arrive = scratch[0], scratch[1], scratch[2]
    value[:] = 0.0
    limit = min(steps, pick.shape[0])
    last_restricted = allowed.shape[0]
    for k in range(limit):
        for s in range(n):
            arrive[s] = reward[s] + value[s]
        low, high, top = np.inf, -np.inf, 0.0
        for s in range(n):
            best, chosen = -np.inf, -1
            for p in range(pair_start[s], pair_start[s + 1]):
                if k < last_restricted and not allowed[k, p]:
                    continue
                total = 0.0
                for i in range(row_start[p], row_start[p + 1]):
                    total += chance[i] * arrive[successor[i]]
                if chosen < 0 or total > best + 1e-12 * abs(best):
                    best, chosen = total, p
            pick[k, s] = chosen
            fresh[s] = best
            gain = best - value[s]
            low, high, top = min(low, gain), max(high, gain), max(top, best)
        value[:] = fresh
        if k >= last_restricted and high - low <= SETTLED * high and k > 2:
            return k + 1
    return limit


@njit(cache=True, nogil=True)
def forward(row_start, successor, chance, pick, depth, begin, length, to_go, visits, here):  # type: ignore[no-untyped-def]
    """Add the expected visits of ``length`` steps to ``visits``; ``here`` (2 × states) moves on.

    ``here[0]`` is the distribution at the ``begin``-th of ``to_go`` steps.
    """
    n = visits.size
    now, then = here[0], here[1]
    h = 0
    while h < length:
        k = to_go - begin - h - 1
        row = min(k, depth - 1)
        then[:] = 0.0
        for s in range(n):
            mass = now[s]
            if mass > 0.0:
                p = pick[row, s]
                for i in range(row_start[p], row_start[p + 1]):
                    then[successor[i]] += mass * chance[i]
        change = 0.0
        for s in range(n):
            change += abs(then[s] - now[s])
            now[s] = then[s]
            visits[s] += now[s]
        h += 1
        stationary = min(length - h, k - depth)
        if stationary > 1 and change <= SETTLED:
            for s in range(n):
                visits[s] += stationary * now[s]
            h += stationary


@njit(cache=True, nogil=True)
def line_search(w, T, N, D, high):  # type: ignore[no-untyped-def]
    """The step g in [0, high] that minimises F(N + gD), by Newton's steps kept in a bracket."""
    low = 0.0
    g = high
    for _ in range(40):
        slope, curvature = 0.0, 0.0
        for s in range(w.size):
            x = T[s] + N[s] + g * D[s]
            part = w[s] * D[s] / (x * x)
            slope -= part
            curvature += 2.0 * part * D[s] / x
        if slope <= 0.0:
            if g == high:
                return high
            low = g
        else:
            high = g
        if high - low <= 1e-7:
            break
        step = slope / curvature if curvature > 0.0 else 0.0
        g = g - step if low < g - step < high and step != 0.0 else 0.5 * (low + high)
        if abs(step) <= 1e-7:
            break
    return g


@njit(cache=True, nogil=True)
def rebalance(w, T, M, count, share, N, rounds, D):  # type: ignore[no-untyped-def]
    """Pairwise corrective steps over the components found so far."""
    for _ in range(rounds):
        good, bad = -1, -1
        most, least = -np.inf, np.inf
        for j in range(count):
            total = 0.0
            for s in range(w.size):
                x = T[s] + N[s]
                total += w[s] * M[j, s] / (x * x)
            if total > most:
                most, good = total, j
            if share[j] > 0.0 and total < least:
                least, bad = total, j
        if good == bad or most - least <= 1e-6 * abs(most):
            return
        D[:] = M[good] - M[bad]
        step = line_search(w, T, N, D, share[bad])
        share[good] += step
        share[bad] -= step
        N += step * D


@njit(cache=True, nogil=True)
def plan(  # type: ignore[no-untyped-def]
    pair_start, row_start, successor, chance, allowed, w, T, state, steps, tolerance,
    pick, depth, M, share, N, scratch, here,
):  # fmt: skip
    """Components, shares and planned visits N for ``steps`` steps from ``state``.

    Fills ``pick`` (J × rows × states), ``depth``, ``M`` (visits of each component), ``share`` and
    ``N``; returns the number of components. Stops when the Frank–Wolfe gap, which bounds F(N) −
    min F, is below ``tolerance`` of F.
    """
    n = w.size
    most = pick.shape[0]
    reward, D = np.empty(n), np.empty(n)
    share[:] = 0.0
    # The first oracle call prices an even spread of the steps that are left.
    N[:] = steps / n
    count = 0
    for j in range(most):
        loss = 0.0
        for s in range(n):
            x = T[s] + N[s]
            reward[s] = w[s] / (x * x)
            loss += w[s] / x
        depth[j] = backward(
            pair_start, row_start, successor, chance, reward, allowed, steps, pick[j], scratch
        )
        M[j] = 0.0
        here[0] = 0.0
        here[0, state] = 1.0
        forward(row_start, successor, chance, pick[j], depth[j], 0, steps, steps, M[j], here)
        if j == 0:
            share[0] = 1.0
            N[:] = M[0]
            count = 1
            continue
        gap = 0.0
        for s in range(n):
            gap += reward[s] * (M[j, s] - N[s])
        if gap <= tolerance * loss:
            break
        count = j + 1
        D[:] = M[j] - N
        step = line_search(w, T, N, D, 1.0)
        share[: j + 1] *= 1.0 - step
        share[j] = step
        N += step * D
        rebalance(w, T, M, count, share, N, 2 * count, D)
    return count


@njit(cache=True, nogil=True)
def choose(  # type: ignore[no-untyped-def]
    row_start, successor, chance, w, T, state, steps, ahead, pick, depth, count, share, N, here,
):  # fmt: skip
    """The component that collects most in the next ``ahead`` steps at the plan's prices.

    Visits beyond the planned N count nothing, so a place is left when its quota is used up and
    a bottleneck is crossed as seldom as possible. What the plan wants for less than half of these
    steps is not begun: it would be done for all of them, and after the next plan again. Where
    that leaves nothing, in the last steps, it is the largest.
    """
    n = w.size
    soon = np.empty(n)
    best, chosen = -1.0, int(np.argmax(share[:count]))
    for j in range(count):
        if share[j] * steps < 0.5 * min(ahead, steps):
            continue
        soon[:] = 0.0
        here[0] = 0.0
        here[0, state] = 1.0
        forward(
            row_start, successor, chance, pick[j], depth[j], 0, min(ahead, steps), steps, soon, here
        )
        total = 0.0
        for s in range(n):
            x = T[s] + N[s]
            total += min(soon[s], 1.05 * N[s]) * w[s] / (x * x)
        if total > best:
            best, chosen = total, j
    return chosen


@njit(cache=True, nogil=True)
def rolling(  # type: ignore[no-untyped-def]
    pair_start, row_start, successor, chance, allowed, w, visits, first, discount, left, sight,
    value, pick,
):  # fmt: skip
    """One row of pairs per walk: the first move of a discounted plan of marginal gains.

    One more sample lowers w/T to w/(T + 1), so arriving at s earns w/(T(T + 1)), and ``first``
    (walks × states) where T = 0. The gains of arriving twice are smaller still, which a plan of
    this form can't express; the discount stands for it, and the next step plans anew.

    ``sight`` is how many steps matter with that discount. Where the end, or the way home, is
    nearer, the plan is made backwards from it. Elsewhere value iteration goes on from ``value``
    (walks × states, brought up to date) until the differences between states settle: after one
    more step little has changed, so a few sweeps do. A sweep costs as much as there are
    transitions.
    """
    walks, n = visits.shape
    gain, arrive = np.empty(n), np.empty(n)
    last_restricted = allowed.shape[0]
    for i in range(walks):
        known = value[i]
        near_end = left[i] <= sight[i] + last_restricted
        if near_end:
            known[:] = 0.0
        for s in range(n):
            T = visits[i, s]
            gain[s] = w[i, s] / (T * (T + 1.0)) if T > 0 else first[i, s]
        sweeps = min(sight[i], left[i])
        for k in range(sweeps):
            # With a horizon cut short of the end, home restricts as many steps as are left.
            to_go = left[i] - sweeps + k
            for s in range(n):
                arrive[s] = gain[s] + discount[i] * known[s]
            low, high, least, most = np.inf, -np.inf, np.inf, -np.inf
            for s in range(n):
                best, chosen = -np.inf, -1
                for p in range(pair_start[s], pair_start[s + 1]):
                    if to_go < last_restricted and not allowed[to_go, p]:
                        continue
                    total = 0.0
                    for j in range(row_start[p], row_start[p + 1]):
                        total += chance[j] * arrive[successor[j]]
                    if chosen < 0 or total > best + 1e-12 * abs(best):
                        best, chosen = total, p
                low, high = min(low, best - known[s]), max(high, best - known[s])
                least, most = min(least, best), max(most, best)
                known[s] = best
                pick[i, s] = chosen
            if not near_end and high - low <= ALIKE * (most - least):
                break


@njit(cache=True, nogil=True)
def return_chances(pair_start, row_start, successor, chance, home, chances, allowed, slack):  # type: ignore[no-untyped-def]
    """Which pairs keep the largest chance of being at ``home`` in the end.

    ``chances[k]`` is that chance with k steps to go, ``allowed[k, p]`` whether pair p keeps it
    (up to ``slack``) with k + 1 steps to go. Returns the number of rows after which, going back
    in time, nothing is restricted any more (or all rows).
    """
    n = pair_start.size - 1
    chances[0] = 0.0
    chances[0, home] = 1.0
    free_since = 0
    for k in range(allowed.shape[0]):
        free = True
        for s in range(n):
            best = 0.0
            for p in range(pair_start[s], pair_start[s + 1]):
                total = 0.0
                for i in range(row_start[p], row_start[p + 1]):
                    total += chance[i] * chances[k, successor[i]]
                best = max(best, total)
            chances[k + 1, s] = best
            for p in range(pair_start[s], pair_start[s + 1]):
                total = 0.0
                for i in range(row_start[p], row_start[p + 1]):
                    total += chance[i] * chances[k, successor[i]]
                allowed[k, p] = total >= best - slack
                free &= total >= best - slack
        if not free:
            free_since = k + 1
        elif k - free_since > n:
            break
    return free_since
