"""Extended value iteration: the best gain of any policy in any plausible model.

With rewards r(s, a) and a set 𝒞(p) of distributions per pair (:mod:`sojourn.solvers.plausible`)
the *extended* MDP chooses in each state a pair and a member of its set (Jaksch, Ortner & Auer
2010). Its Bellman operator, with the chance τ of staying (the aperiodicity transform, Puterman
1994, Sec. 8.5.4: same policies, same gains, and no chain is periodic), is

    (Th)(s) = max_a { r(s, a) + (1 − τ) max_{q ∈ 𝒞(s,a)} ⟨q, h⟩ } + τ h(s).

For *any* h, the best gain ρ⁺ lies in between

    min_s (Th − h)(s)  ≤  ρ⁺  ≤  max_s (Th − h)(s)

where ρ⁺ doesn't depend on the state, and the greedy pairs and members attain at least the lower
end. So the answer carries its own proof, and h may come from anywhere: mostly from h ← Th, and
now and then (every :data:`PERIOD` sweeps) from the exact bias of the greedy policy in its greedy
model, a step of policy iteration, which doesn't mind how slowly that chain mixes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.solvers.linear_oracle_kernel import _bias, _factor
from sojourn.solvers.plausible import Plausible, lift, member

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STAYING = 0.1
PERIOD = 8
SWEEPS = 4000


@dataclass(frozen=True, eq=False)
class Optimistic:
    """The best plausible policy, its model, and the proof."""

    gain: float
    """What the policy attains in its model, at least."""
    bound: float
    """What no policy exceeds in any plausible model."""
    chosen: Ints
    """The pair of each state."""
    transitions: Floats
    """n_states × n_states: where the chosen pairs lead in the optimistic model."""
    distribution: Floats
    """How often the policy is in each state, in that model; NaN where it has several classes."""
    bias: Floats
    sweeps: int

    @property
    def gap(self) -> float:
        """bound − gain, in the unit of the rewards."""
        return self.bound - self.gain


def extended_value_iteration(
    model: Plausible, reward: ArrayLike, tolerance: float = 1e-6, bias: Floats | None = None
) -> Optimistic:
    """The largest average reward; ``reward`` per state or per pair, maximised.

    Stops when the gap is at most ``tolerance`` times the span of the rewards, or after
    :data:`SWEEPS` sweeps (the gap says so). ``bias``: where to start from.
    """
    r = np.asarray(reward, dtype=float)
    if r.shape == (model.n_states,):
        r = r[model.pair_state]
    if r.shape != (model.n_pairs,) or not np.isfinite(r).all():
        raise ArgumentError(
            f"the reward has shape {r.shape} or is not finite",
            f"one finite number for each of {model.n_states} states or {model.n_pairs} pairs",
        )
    n = model.n_states
    low = float(r.min())
    span = float(np.ptp(r)) or 1.0
    h = np.zeros(n) if bias is None else np.asarray(bias, dtype=float) / span
    chosen, chain, best = np.zeros(n, np.int64), np.empty((n, n)), np.empty(n)
    gain, bound, sweeps = iterate(
        model.pair_start, model.estimate, model.low, model.high, model.radius, (r - low) / span,
        h - h[0], tolerance, SWEEPS, chosen, chain, best,
    )  # fmt: skip
    eta = np.empty(n)
    if not _factor(chain, np.empty((n, n)), np.zeros(n, np.int64), eta, np.empty(n)):
        eta[:] = np.nan
    return Optimistic(
        low + span * gain, low + span * bound, chosen, chain, eta, span * best, int(sweeps)
    )


@njit(cache=True, nogil=True)
def iterate(
    start: Ints, estimate: Floats, low: Floats, high: Floats, radius: Floats, reward: Floats,
    first: Floats, tolerance: float, limit: int, chosen: Ints, chain: Floats, best: Floats,
) -> tuple[float, float, int]:  # fmt: skip
    """Writes ``chosen``, ``chain`` and the h that they are greedy for, ``best``; returns the
    bounds on the gain and the number of sweeps."""
    n = start.size - 1
    h = first.copy()
    new = np.empty(n)
    pick = np.empty(n, np.int64)
    R = np.empty((n, n))
    F = np.empty((n, n))
    place = np.zeros(n, np.int64)
    own = np.empty(n)
    exact = np.empty(n)
    tail = np.empty(n)
    a = np.empty(n)
    b = np.empty(n)
    c = np.empty(n)
    gain, bound = -np.inf, np.inf
    sweeps = 0
    while sweeps < limit:
        sweeps += 1
        order = np.argsort(-h)
        least, most = np.inf, -np.inf
        for s in range(n):
            top = -np.inf
            for p in range(start[s], start[s + 1]):
                value = reward[p] + (1.0 - STAYING) * lift(
                    estimate[p], low[p], high[p], radius[p], h, order
                )
                if value > top:
                    top = value
                    pick[s] = p
            new[s] = top + STAYING * h[s]
            least = min(least, new[s] - h[s])
            most = max(most, new[s] - h[s])
        bound = min(bound, most)
        if least > gain:
            gain = least
            chosen[:] = pick
            best[:] = h
        if bound - gain <= tolerance:
            break
        if sweeps % PERIOD == 0:
            for s in range(n):
                p = pick[s]
                own[s] = reward[p]
                member(estimate[p], low[p], high[p], radius[p], order, R[s])
            if _factor(R, F, place, b, a):
                _bias(R, own, F, place, exact, tail, a, b, c)
                for s in range(n):
                    # The transform stretches the bias.
                    new[s] = (exact[s] + tail[s]) / (1.0 - STAYING)
        for s in range(n):
            h[s] = new[s] - new[0]
    order = np.argsort(-best)
    for s in range(n):
        p = chosen[s]
        member(estimate[p], low[p], high[p], radius[p], order, chain[s])
    return gain, bound, sweeps
