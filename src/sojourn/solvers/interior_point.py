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

What is particular to this problem:

*One step length.* With a nonlinear φ the two sides are coupled, and separate steps destroy what
the Newton step has achieved for the stationarity equation. η may shrink at most tenfold in one
iteration, because φ′ is meaningless further away.

*Scale.* The best multiple of a direction x is known in closed form. Newton's method would find it
slowly (φ′ is far from linear), so x is multiplied by it whenever it is off by more than 2.

*The end.* μ is never taken below what the tolerance asks for: further down the system only gets
worse conditioned. The last point is then moved to the central path itself, so that the answer
is the analytic centre and does not depend on how it was approached, and balanced to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from sojourn.chains.linear import stationary
from sojourn.solvers.linear_algebra import Backend, CutFlow, Flow, choose_backend, solve_blocks
from sojourn.solvers.objectives import BoundCone, Cone, HeldCone

Array = NDArray[np.float64]
Measure = Callable[[Array, Array], float]
"""(η with Σ η = 1, margins m) -> proved gap"""

SHORT = 1e-12
"""The share of the way to the boundary that a step leaves at least: with μ below the rounding
error of 1, a share of 1 − μ would end *on* it."""


CENTRING = 8
"""Steps at most from where the path was left to the path itself."""

ARRIVED = 1e-3
"""A share of the visits; a step that moves fewer is the last one."""

INSIDE = 0.999
"""The share of the way to the boundary that such a step goes at most."""

UNUSED = 1e-5
"""The share of a state's visits below which a pair is taken for one that is never used."""

SETTLED = 1e-14
"""A balance this good that no longer gets better is as good as rounding lets it be."""


@dataclass
class Solution:
    """Where the interior point ended."""

    x: Array
    """The occupancy, balanced, with Σ x = 1."""
    h: Array
    """Multipliers of the flow balance, in the unit in which one step costs 1."""
    h_low: Array
    """Their further digits: the multipliers are h + h_low."""
    iterations: int
    reached: bool
    """Whether the gap was within the tolerance."""
    interrupted: bool = False
    exhausted: bool = False
    """Whether it ended because of the iteration limit."""
    history: list[tuple[int, float]] = field(default_factory=list)
    """(iteration, gap)"""


def interior_point(
    flow: Flow,
    cone: Cone,
    backend: Backend,
    measure: Measure,
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    feasible_start: bool = False,
    watch: Callable[[int, float], None] | None = None,
) -> Solution:
    """Follow the central path until the proved gap is within the tolerance.

    It starts from equal visits everywhere, which is usually no stationary occupancy; with
    ``feasible_start`` from that of the uniform policy.
    """
    path = _Path(flow, cone, backend, feasible_start)
    iteration, best, since_best, refused = 0, np.inf, 0, 0
    reached = interrupted = False
    history: list[tuple[int, float]] = []
    kept = path.x, path.h, path.h_low
    try:
        while True:
            gap = measure(path.eta / path.total, path.margins())
            history.append((iteration, gap))
            sound = path.imbalance() <= 1e-3 and np.isfinite(gap)
            left = distance(gap)
            if sound and left < best:
                kept = path.x, path.h, path.h_low
                since_best = 0 if left < 0.9 * best else since_best + 1
                best = left
            elif sound:
                since_best += 1
            if path.nearer():
                # No bound yet that the gap would show, but on the way to one.
                since_best = 0
            if watch is not None:
                watch(iteration, gap)
            if sound and gap <= tolerance:
                while path.centre():
                    iteration += 1
                path.balance()
                gap = measure(path.eta / path.total, path.margins())
                if gap <= tolerance and path.imbalance() <= 1e-12:
                    reached, kept = True, (path.x, path.h, path.h_low)
                    history.append((iteration, gap))
                    break
                # The balance has moved η: go on from here, further down the path.
                refused += 1
                if refused == 3:
                    break
            if iteration >= max_iterations or since_best > 12:
                break
            depth = 0.1 ** (1 + since_best // 3 + refused)
            if not path.advance(depth * tolerance * path.total / flow.n_pairs):
                break
            iteration += 1
    except KeyboardInterrupt:
        interrupted = True
    x, h, low = kept
    if not reached:
        x = balanced(flow, backend, x)
    if isinstance(flow, CutFlow):
        h, low = flow.prices(h + low)
    exhausted = not reached and iteration >= max_iterations
    return Solution(x / x.sum(), h, low, iteration, reached, interrupted, exhausted, history)


@njit(cache=True, nogil=True)
def distance(gap):  # type: ignore[no-untyped-def]
    """(value − bound)/bound for a relative gap (value − bound)/value: progress shows in it also
    where the value is still many times the bound, and the gap all but 1."""
    return gap / (1.0 - gap) if gap < 1.0 else 1e16 * gap


class _Path:
    """The current point and the moves along the central path."""

    def __init__(self, flow: Flow, cone: Cone, backend: Backend, feasible: bool) -> None:
        self.flow, self.cone, self.backend = flow, cone, backend
        # The share of its visits that a state may lose in one step. Nine tenths is quick; where
        # states differ by orders of magnitude it can lead round in circles.
        self.boldest = 0.7 if feasible else 0.9
        start = 1.0 / flow.spread(np.diff(flow.pair_start).astype(float))
        if feasible:
            start = uniform_occupancy(flow)
        self.x = start * cone.scale(flow.sums(start))
        # All products x z alike: where a world hardly communicates visits differ by 1e9 and more,
        # and started that far from the path no step could be longer than nothing.
        self.z = self.x.mean() / self.x
        self.h = np.zeros_like(flow.residual(self.x))
        self.h_low = np.zeros_like(self.h)
        self.term: _Term = _Bounds(cone, flow) if isinstance(cone, BoundCone) else _Smooth(cone)
        self.centred = 0
        self.stationarity, self.residual = np.full(flow.n_pairs, np.inf), np.inf
        self._refresh()
        self.term.begin(self.eta)

    def _refresh(self) -> None:
        self.eta = self.flow.sums(self.x)
        self.total = float(self.eta.sum())
        self.outflow = self.flow.residual(self.x)
        self.Bh = self.flow.differences(self.h, self.h_low)

    @property
    def mu(self) -> float:
        products, count = self.term.products(0.0, None)
        return (float(self.x @ self.z) + products) / (self.x.size + count)

    def margins(self) -> Array:
        return np.minimum.reduceat(self.Bh, self.flow.pair_start[:-1])

    def imbalance(self) -> float:
        """The largest share of a state's visits that the flow does not account for."""
        return self.flow.imbalance(self.outflow, self.x, self.eta)

    def nearer(self) -> bool:
        """Whether the last step came a tenth nearer to stationarity, where that is far away."""
        before, self.residual = self.residual, float(np.abs(self.stationarity).max())
        return 1e-3 < self.residual < 0.9 * before

    def advance(self, floor: float) -> bool:
        """One predictor–corrector iteration with μ no lower than ``floor``; False if stuck."""
        x, z, mu = self.x, self.z, self.mu
        self.centred = 0
        if not self._prepare():
            return False
        # -- predictor: the step to μ = 0
        dx, dh, dz = self._newton(-x * z, self.term.shift(0.0, None), rough=True)
        d_eta = self.flow.sums(dx)
        reach = min(_reach(x, dx), _reach(z, dz), self.term.reach(d_eta, 0.0, None))
        products, count = self.term.products(reach, d_eta)
        after = (float((x + reach * dx) @ (z + reach * dz)) + products) / (x.size + count)
        target = max(max((after / mu) ** 3, 1e-4) * mu, min(floor, mu))
        # -- corrector: to the centre that the predictor suggests, with its second-order error
        dx, dh, dz = self._newton(target - x * z - dx * dz, self.term.shift(target, d_eta))
        return self._move(dx, dh, dz, target, d_eta, max(0.99, 1.0 - max(mu, SHORT)))

    def centre(self) -> bool:
        """One Newton step towards the point of the central path with the present μ, as long as
        the bounds allow; False when there was nothing left to do."""
        most = CENTRING if self.backend.exact else 1
        if self.centred >= most or not self._prepare():
            return False
        x, z, mu = self.x, self.z, self.mu
        dx, dh, dz = self._newton(mu - x * z, self.term.shift(mu, None))
        # What a whole step leaves is of the order of its square.
        whole = min(_reach(x, dx), _reach(z, dz)) == 1.0
        arrives = whole and np.abs(dx).sum() < ARRIVED * self.total
        self.centred = most if arrives else self.centred + 1
        return self._move(dx, dh, dz, mu, None, INSIDE)

    def balance(self) -> None:
        """Make the flow balance exact up to rounding."""
        self.x = balanced(self.flow, self.backend, self.x, (self.d, self.q))
        self._refresh()

    def _prepare(self) -> bool:
        self.d = self.x / self.z
        slope, self.q = self.term.linearise(self.eta)
        self.stationarity = self.z - self.cone.cost - self.flow.spread(slope) - self.Bh
        try:
            self.backend.factor(self.d, self.q)
        except np.linalg.LinAlgError:
            return False
        return True

    def _newton(
        self, complementarity: Array, shift: Array | None, rough: bool = False
    ) -> tuple[Array, Array, Array]:
        """Solve the linearised equations; returns Δx, Δh, Δz. A ``rough`` solution is one
        that x does not move along."""
        flow, d, q = self.flow, self.d, self.q
        r = self.stationarity + complementarity / self.x
        if shift is not None:
            r -= flow.spread(shift)
        dh = np.zeros_like(self.h)
        dx = np.empty(flow.n_pairs)
        # What is left out here the next iteration makes good, as long as it is little beside μ.
        share = 1e-6 if self.backend.exact and not rough else 1e-3
        target = max(share * min(self.mu, 1.0), 1e-13)
        before = np.inf
        for _ in range(6 if self.backend.exact else 2):
            solve_blocks(flow.pair_start, d, q, r - flow.differences(dh), dx)
            # Iterative refinement of the flow balance: what is missing here is a loss of
            # visits that the objective would not see.
            missing = flow.residual(dx) + self.outflow
            size = flow.imbalance(missing, self.x, self.eta)
            if size < target or not size < 0.5 * before:
                break
            before = size
            dh = dh + self.backend.solve(missing, self.eta, 0.5 * target)
        return dx, dh, (complementarity - self.z * dx) / self.x

    def _move(
        self, dx: Array, dh: Array, dz: Array, target: float, before: Array | None, share: float
    ) -> bool:
        d_eta = self.flow.sums(dx)
        step = min(_reach(self.x, dx), _reach(self.z, dz), self.term.reach(d_eta, target, before))
        step *= share
        shrink = float(np.max(-d_eta / self.eta))
        if shrink * step > self.boldest:
            step = self.boldest / shrink
        if not step > 1e-10:
            return False
        self.term.move(step, d_eta)
        self.x = self.x + step * dx
        self.z = self.z + step * dz
        # Prices are differences: zero where most visits are keeps them small where it counts.
        h, low = _sum(self.h, step * dh)
        low += self.h_low
        if self.flow.singular:
            top = np.argmax(self.eta)
            h, lost = _sum(h, -h[top])
            low += lost
            low -= low[top]
        self.h, self.h_low = h, low
        self._refresh()
        if isinstance(self.term, _Smooth) and self.imbalance() < 0.5:
            scale = self.cone.scale(self.eta)
            if not 0.5 < scale < 2.0:
                self.x = self.x * scale
                self._refresh()
        return True


# -- what φ contributes to the linear system ----------------------------------------------------


class _Term(ABC):
    """φ at the current point. With Δη given, the change of its slope is q Δη + shift."""

    @abstractmethod
    def begin(self, eta: Array) -> None: ...

    @abstractmethod
    def linearise(self, eta: Array) -> tuple[Array, Array]:
        """slope and q at η."""

    def shift(self, target: float, before: Array | None) -> Array | None:
        """``before`` is the Δη of the predictor."""
        return None

    def reach(self, d_eta: Array, target: float, before: Array | None) -> float:
        return 1.0

    def products(self, step: float, d_eta: Array | None) -> tuple[float, int]:
        """Sum and number of the complementarity products of the term's own variables."""
        return 0.0, 0

    def move(self, step: float, d_eta: Array) -> None:  # noqa: B027 (nothing to do by default)
        ...


class _Smooth(_Term):
    def __init__(self, cone: Cone) -> None:
        self.cone = cone

    def begin(self, eta: Array) -> None: ...

    def linearise(self, eta: Array) -> tuple[Array, Array]:
        return self.cone.slope(eta), self.cone.curvature(eta)


class _Bounds(_Term):
    """η − u = lower with a slack u > 0 and its multiplier y > 0: slope −y, u y = μ, q = y/u."""

    def __init__(self, cone: BoundCone, flow: Flow) -> None:
        self.lower = cone.lower

    def begin(self, eta: Array) -> None:
        self.u = np.maximum(eta - self.lower, 0.1 * (1.0 + self.lower))
        self.y = np.ones_like(eta)

    def linearise(self, eta: Array) -> tuple[Array, Array]:
        self.residual = eta - self.lower - self.u
        self.q = self.y / self.u
        return -self.y, self.q

    def shift(self, target: float, before: Array | None) -> Array:
        rc = target - self.u * self.y
        if before is not None:
            du, dy = self._change(before, -self.u * self.y)
            rc = rc - du * dy
        self.rc = rc
        return self.q * self.residual - rc / self.u

    def _change(self, d_eta: Array, rc: Array) -> tuple[Array, Array]:
        du = d_eta + self.residual
        return du, (rc - self.y * du) / self.u

    def reach(self, d_eta: Array, target: float, before: Array | None) -> float:
        du, dy = self._change(d_eta, self.rc)
        return min(_reach(self.u, du), _reach(self.y, dy))

    def products(self, step: float, d_eta: Array | None) -> tuple[float, int]:
        if d_eta is None:
            return float(self.u @ self.y), self.u.size
        du, dy = self._change(d_eta, self.rc)
        return float((self.u + step * du) @ (self.y + step * dy)), self.u.size

    def move(self, step: float, d_eta: Array) -> None:
        du, dy = self._change(d_eta, self.rc)
        self.u = self.u + step * du
        self.y = self.y + step * dy


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def centred(
    flow: Flow, backend: Backend, x: Array, harm: Callable[[Array], float] | None = None
) -> Array:
    """The analytic centre of the occupancies with the distribution of ``x``: of all of them the
    one with the largest Σ log x over the pairs that any of them uses.

    A method that walks from vertex to vertex ends in one of many optima, and which one depends
    on how it walked; this does not. The distribution may move by 1e-10, or as long as its
    ``harm`` is below that.
    """
    held = np.maximum(flow.sums(x), 1e-300)
    held = held / held.sum() * flow.n_states

    def drift(eta: Array, margin: Array) -> float:
        moved = float(np.max(np.abs(eta * flow.n_states / held - 1.0)))
        return moved if harm is None else min(moved, harm(eta))

    found = interior_point(flow, HeldCone(held), backend, drift, tolerance=1e-10)
    # A pair that none of them uses follows the path like √μ only, which rounding ends too soon;
    # by then it is small beside the others.
    used = found.x > UNUSED * flow.spread(flow.sums(found.x))
    if not (found.reached or used.all()):
        count = np.add.reduceat(used.astype(np.int64), flow.pair_start[:-1])
        # Flow asks for the chances to move and reads no diagonal: −B will do.
        part = Flow(-flow.B[used], np.concatenate(([0], np.cumsum(count))))
        found = interior_point(part, HeldCone(held), choose_backend(part), drift, tolerance=1e-10)
        whole = np.zeros(flow.n_pairs)
        whole[used] = found.x
        return whole if found.reached else x
    return found.x if found.reached else x


def uniform_occupancy(flow: Flow) -> Array:
    """That of the uniform policy."""
    return own_occupancy(flow, np.ones(flow.n_pairs))


def own_occupancy(flow: Flow, x: Array) -> Array:
    """The stationary occupancy of the policy that ``x`` stands for, x/η, right to nearly every
    digit however near to reducible its chain is."""
    if isinstance(flow, CutFlow):
        flow = flow.states
    share = x / flow.spread(flow.sums(x))
    weights = sp.csr_matrix(
        (share, np.arange(flow.n_pairs), flow.pair_start), shape=(flow.n_states, flow.n_pairs)
    )
    # Elimination never reads the diagonal, but iteration, on large random graphs, does.
    leaving = weights @ flow.B
    return flow.spread(stationary(sp.identity(flow.n_states, format="csr") - leaving)) * share


def balanced(
    flow: Flow, backend: Backend, x: Array, factored: tuple[Array, Array] | None = None
) -> Array:
    """The flow-balanced occupancy nearest to ``x`` in relative terms.

    Near the central path, and if ``factored`` is the (d, q) that the backend was given last, one
    or two steps of iterative refinement do. Otherwise x becomes x·exp(−By), with Newton's method
    for y: the nearest in the sense of Kullback and Leibler. Both change every entry in
    proportion to its size, and leave a residual of a few roundings of η_s at each state.
    """
    before = np.inf
    if factored is not None:
        d, q = factored
        change = np.empty(flow.n_pairs)
        for _ in range(4):
            r = flow.residual(x)
            imbalance = flow.imbalance(r, x, flow.sums(x))
            if imbalance < 4e-16 or (imbalance < SETTLED and not imbalance <= 0.5 * before):
                return x
            if imbalance > 1e-6 or not imbalance <= 0.5 * before:
                break
            before = imbalance
            y = backend.solve(r, flow.sums(x), 0.05 * imbalance)
            solve_blocks(flow.pair_start, d, q, flow.differences(y), change)
            if not (change < 0.5 * x).all():
                break
            x = x - change
    best, kept, idle = np.inf, x, 0
    for _ in range(40):
        r = flow.residual(x)
        imbalance = flow.imbalance(r, x, flow.sums(x))
        if imbalance < best:
            idle = 0 if imbalance < 0.9 * best else idle + 1
            best, kept = imbalance, x
        else:
            idle += 1
        # Far from balance the measure saturates; it says nothing there about progress.
        if imbalance < 4e-16 or (idle >= 3 and imbalance < 0.5) or not np.isfinite(imbalance):
            break
        if idle >= 1 and imbalance < SETTLED:
            break
        try:
            backend.factor(x, np.zeros(flow.n_states))
        except np.linalg.LinAlgError:
            break
        y = backend.solve(r, flow.sums(x), 0.05 * imbalance)
        x = x * np.exp(-np.clip(flow.differences(y), -2.0, 2.0))
    return kept


def _reach(v: Array, dv: Array) -> float:
    """The longest step ≤ 1 that keeps v + step·dv ≥ 0."""
    worst = float(np.max(-dv / v))
    return 1.0 if worst <= 1.0 else 1.0 / worst
