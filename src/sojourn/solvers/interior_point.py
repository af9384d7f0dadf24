"""The interior point for convex functions of the state distribution over stationary occupancies.

In the cone form of :mod:`sojourn.solvers.objectives` the problem is

    minimise  Σ_s φ_s(η_s) + Σ x   over  x ≥ 0,  Bᵀx = 0,   η = Eᵀx,   B = E − P,

with a multiplier h per state for the flow and z ≥ 0 per pair. The *central path* is the curve

    φ′(η_s) + 1 + (Bh)_sa = z_sa,    Bᵀx = 0,    x_sa z_sa = μ,

one point for each μ > 0; for μ → 0 it ends in the analytic centre of the set of optimal
occupancies. Mehrotra's predictor–corrector follows it: each iteration solves the linearised
equations twice, first for μ = 0 (how far could one get?), then for the μ that this suggests,
with the second-order error of the first solution put right. Eliminating x and z leaves one
S × S system with the matrix M of :mod:`sojourn.solvers.linear_algebra`.

x and z move by one common step length: with a nonlinear φ the two sides are coupled, and
separate steps destroy what the Newton step has achieved for the stationarity equation. η may
shrink at most tenfold in one iteration, because φ′ is meaningless further away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sojourn.solvers.linear_algebra import Backend, Flow, solve_blocks
from sojourn.solvers.objectives import BoundCone, Cone

Array = NDArray[np.float64]


@dataclass
class Iterate:
    """A point of the interior point, and how good it is."""

    x: Array
    """Unnormalised occupancy, > 0, flow-balanced up to ``imbalance``."""
    h: Array
    """Multipliers of the flow balance, in the unit in which one step costs 1."""
    gap: float
    imbalance: float
    mu: float


@dataclass
class Solution:
    x: Array
    h: Array
    iterations: int
    converged: bool
    reason: str
    history: list[tuple[int, float, float]] = field(default_factory=list)


def margins(flow: Flow, h: Array) -> Array:
    """m_s = h_s − max_a (Ph)_sa."""
    return np.minimum.reduceat(flow.differences(h), flow.pair_start[:-1])


def interior_point(
    flow: Flow,
    cone: Cone,
    backend: Backend,
    measure: Callable[[Array, Array], float],
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 100,
    watch: Callable[[int, float], None] | None = None,
) -> Solution:
    """Follow the central path until ``measure(η/Ση, margins)``, a proved gap, is small."""
    start = flow.pair_start
    n = flow.n_pairs
    x = flow.spread(1.0 / np.diff(start))
    z = np.ones(n)
    h = np.zeros(flow.n_states)
    bounded = isinstance(cone, BoundCone)
    if isinstance(cone, BoundCone):
        u = np.maximum(flow.sums(x) - cone.lower, 0.1)
        y = np.ones(flow.n_states)
    history: list[tuple[int, float, float]] = []
    best = np.inf
    stalled = 0
    converged, reason = False, "the iteration limit was reached"
    scratch = np.empty(n)

    for iteration in range(max_iterations + 1):
        eta = flow.sums(x)
        total = eta.sum()
        Bh = flow.differences(h)
        imbalance = float(np.abs(flow.residual(x)).sum() / total)
        gap = measure(eta / total, np.minimum.reduceat(Bh, start[:-1]))
        mu = float(x @ z) / n
        if bounded:
            mu = (mu * n + float(u @ y)) / (n + u.size)
        history.append((iteration, gap, mu))
        if watch is not None:
            watch(iteration, gap)
        if gap <= tolerance and imbalance <= max(0.1 * tolerance, 1e-10):
            converged, reason = True, "the gap is within the tolerance"
            break
        if iteration == max_iterations:
            break
        stalled = 0 if gap < 0.9 * best else stalled + 1
        best = min(best, gap)
        if stalled > 15:
            reason = "no further progress"
            break

        # -- the linear system of this iteration
        d = x / z
        if bounded:
            slope, q = -y, y / u
            ru = eta - cone.lower - u  # type: ignore[attr-defined]
        else:
            slope, q = cone.slope(eta), cone.curvature(eta)
        rd = z - 1.0 - flow.spread(slope) - Bh
        rp = -flow.residual(x)
        backend.factor(d, q)

        def newton(
            rc: Array, rcu: Array | None, rd: Array = rd, rp: Array = rp, d: Array = d, q: Array = q
        ) -> tuple[Array, Array, Array]:
            r = rd + rc / x
            if rcu is not None:
                r = r + flow.spread(rcu / u - q * ru)
            dh = np.zeros(flow.n_states)
            for _ in range(2):  # the second pass is one step of iterative refinement
                solve_blocks(start, d, q, r - flow.differences(dh), scratch)
                dh = dh + backend.solve(flow.residual(scratch) - rp)
            dx = np.empty(n)
            solve_blocks(start, d, q, r - flow.differences(dh), dx)
            return dx, dh, (rc - z * dx) / x

        def slack_step(dx: Array, rcu: Array) -> tuple[Array, Array]:
            du = flow.sums(dx) + ru
            return du, (rcu - y * du) / u

        # -- predictor
        rcu = -u * y if bounded else None
        dx, dh, dz = newton(-x * z, rcu)
        reach = min(_reach(x, dx), _reach(z, dz))
        after = float((x + reach * dx) @ (z + reach * dz))
        if rcu is not None:
            du, dy = slack_step(dx, rcu)
            shorter = min(reach, _reach(u, du), _reach(y, dy))
            after = float((x + shorter * dx) @ (z + shorter * dz))
            after += float((u + shorter * du) @ (y + shorter * dy))
            after *= n / (n + u.size)
        sigma = max((after / n / mu) ** 3, 1e-4)
        # -- corrector
        if rcu is not None:
            rcu = sigma * mu - u * y - du * dy
        dx, dh, dz = newton(sigma * mu - x * z - dx * dz, rcu)
        step = min(_reach(x, dx), _reach(z, dz))
        if rcu is not None:
            du, dy = slack_step(dx, rcu)
            step = min(step, _reach(u, du), _reach(y, dy))
        step *= max(0.99, 1.0 - mu)
        shrink = -flow.sums(dx) / eta
        worst = float(shrink.max())
        if worst * step > 0.9:
            step = 0.9 / worst
        x = x + step * dx
        z = z + step * dz
        h = h + step * dh
        h -= h.mean()
        if bounded:
            u = u + step * du
            y = y + step * dy

    return Solution(balanced(flow, backend, x), h, iteration, converged, reason, history)


def balanced(flow: Flow, backend: Backend, x: Array) -> Array:
    """The flow-balanced occupancy nearest to ``x`` in relative terms, by iterative refinement.

    The projection in the metric Σ (Δx/x)² changes every entry in proportion to its size, so
    that nothing turns negative, and leaves a residual of a few roundings of η_s at each state.
    """
    d, q = x * x, np.zeros(flow.n_states)
    change = np.empty(flow.n_pairs)
    factored = False
    before = np.inf
    for _ in range(6):
        r = flow.residual(x)
        imbalance = float(np.max(np.abs(r) / flow.sums(x)))
        if imbalance < 1e-15 or imbalance > 0.5 * before:
            break
        before = imbalance
        if not factored:
            backend.factor(d, q)
            factored = True
        solve_blocks(flow.pair_start, d, q, flow.differences(backend.solve(r)), change)
        if not (change < 0.5 * x).all():
            break
        x = x - change
    return x


def _reach(v: Array, dv: Array) -> float:
    """The longest step ≤ 1 that keeps v + step·dv ≥ 0."""
    worst = float(np.max(-dv / v))
    return 1.0 if worst <= 1.0 else 1.0 / worst
