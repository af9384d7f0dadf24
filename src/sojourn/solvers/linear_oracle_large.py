"""The linear oracle for large or awkward models: interior point, value iteration, HiGHS.

Same problem, same dual and same proof as in :mod:`sojourn.solvers.linear_oracle`.

*The interior point* also takes a separable quadratic term, so that it projects as well:

    minimise  ⟨g, x⟩ + ½ Σ_s c_s (η_s − t_s)²   over   x ≥ 0,  Bᵀx = 0,  Σx = 1,  η ≥ lower

with η = Eᵀx, B = E − P. With multipliers h (flow), ρ (mass), z ≥ 0 (pairs), y ≥ 0 (bounds) and
slacks u of the bounds, the equations of the central path are

    g + E[c(η − t) − y] + Bh − ρ = z,   Bᵀx = 0,   Σx = 1,   η − u = lower,   xz = uy = μ.

Eliminating x, z, u, y leaves the matrix of :mod:`sojourn.solvers.linear_algebra` with d = x/z
and q = c + y/u, bordered by the one row of the mass. On grids this is an order of magnitude
faster than a simplex method or a general interior point, which can't know the block structure.

*Value iteration* settles models without bounds on which walks mix fast.

*HiGHS* takes whatever the others leave: several end components that share the mass, and numbers
that defeat the interior point. It is warm-started from the last cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from sojourn.model import MDP, Policy
from sojourn.solvers.interior_point import balanced, interior_point
from sojourn.solvers.linear_algebra import (
    Backend,
    CutFlow,
    DenseCholesky,
    Flow,
    choose_backend,
    solve_blocks,
)
from sojourn.solvers.linear_oracle import (
    AGREE,
    SMALL,
    Answer,
    Status,
    count_classes,
    prove,
    without_answer,
)
from sojourn.solvers.linear_oracle_kernel import PROVED
from sojourn.solvers.margins import margins
from sojourn.solvers.objectives import WorstState

Floats = NDArray[np.float64]


# -- interior point --------------------------------------------------------------------------------


@dataclass
class Interior:
    """Where the interior point ended."""

    occupancy: Floats
    bias: Floats
    multiplier: Floats
    iterations: int
    converged: bool


def interior_quadratic(
    flow: Flow,
    backend: Backend,
    g: Floats,
    lower: Floats,
    curvature: Floats | None = None,
    target: Floats | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 100,
) -> Interior:
    """Follow the central path until the duality gap is at most ``tolerance``.

    The gap is in the unit of the objective; g should be of the order of 1, and so should
    c(η − t). ``curvature`` and ``target`` are c and t, both 0 by default.
    """
    none = np.zeros(flow.n_states)
    path = _Path(
        flow, backend, g, lower, none if curvature is None else curvature,
        none if target is None else target, tolerance,
    )  # fmt: skip
    best, stalled = np.inf, 0
    kept, kept_error, inside = path.point(), np.inf, path.x
    converged = False
    iteration = 0
    for iteration in range(max_iterations + 1):
        with np.errstate(all="ignore"):
            path.look()
        # A negative gap is no better than a positive one: it shows an imbalance.
        error = abs(path.gap) + path.imbalance
        if not np.isfinite(error):
            break
        if error < kept_error:
            kept, kept_error = path.point(), error
        converged = path.gap <= tolerance and path.imbalance <= max(0.1 * tolerance, 1e-13)
        if path.gap > 1e-3:
            inside = path.x
        stalled = 0 if error < 0.9 * best else stalled + 1
        best = min(best, error)
        if converged or stalled > 15 or iteration == max_iterations:
            break
        try:
            # An infeasible problem drives the path to infinity, which the look above notices.
            with np.errstate(all="ignore"):
                path.step()
        except np.linalg.LinAlgError:
            break
    x, h, y = kept
    x = balanced(flow, backend, x)
    x = _lifted(flow, backend, x / x.sum(), inside, lower)
    # The flow's multiplier is the price of leaving a state; the bias of the dual is its negative.
    return Interior(x, -h, y, iteration, converged)


def _lifted(flow: Flow, backend: Backend, x: Floats, inside: Floats, lower: Floats) -> Floats:
    """``x`` moved towards an inner point of the path by as little as the bounds ask for.

    On the bounds u = μ/y is smaller than what balancing changes, and a bound of 1e-6 that is
    missed by 1e-11 is not met.
    """
    missing = lower - flow.sums(x)
    short = missing > 0
    if not short.any():
        return x
    inside = balanced(flow, backend, inside)
    gain = flow.sums(inside / inside.sum()) - flow.sums(x)
    if not (gain[short] > missing[short]).all():
        return x
    share = float(np.max(missing[short] / gain[short]))
    x = (1.0 - share) * x + share * (inside / inside.sum())
    return x / x.sum()


class _Path:
    """A point near the central path, and the predictor–corrector step from it to the next.

    Inside, x sums to S, so that its entries are of the order of 1.
    """

    def __init__(
        self,
        flow: Flow,
        backend: Backend,
        g: Floats,
        lower: Floats,
        c: Floats,
        t: Floats,
        tolerance: float = 0.0,
    ) -> None:
        S = flow.n_states
        self.flow, self.backend = flow, backend
        self.g, self.c, self.t = g, c / S, t * S
        self.coupled = bool(c.any())
        self.bounded = np.flatnonzero(lower > 0)
        self.least = lower[self.bounded] * S
        self.x = flow.spread(1.0 / np.diff(flow.pair_start))
        self.u = np.maximum(1.0 - self.least, 0.1)
        self.h, self.rho = np.zeros(S), 0.0
        self.z, self.y = np.ones(flow.n_pairs), np.ones(self.bounded.size)
        self.gap = self.imbalance = np.inf
        # Beyond what was asked for, the equations only get worse conditioned.
        self.least_mu = 0.2 * tolerance * S / (self.x.size + self.u.size)

    def point(self) -> tuple[Floats, Floats, Floats]:
        return self.x, self.h, self._on_states(self.y)

    def look(self) -> None:
        """The residuals of the equations here, and how good the point is."""
        flow, S = self.flow, self.flow.n_states
        eta = flow.sums(self.x)
        price = self.g + flow.spread(self.c * (eta - self.t))
        reduced = price + flow.differences(self.h) - flow.spread(self._on_states(self.y))
        self.r_dual = self.rho + self.z - reduced
        self.r_flow = -flow.residual(self.x)
        self.r_mass = S - float(self.x.sum())
        self.r_bound = eta[self.bounded] - self.least - self.u
        self.mu = float(self.x @ self.z + self.u @ self.y) / (self.x.size + self.u.size)
        self.gap = float(price @ self.x - S * reduced.min() - self.least @ self.y) / S
        wrong = np.abs(self.r_flow).sum() + abs(self.r_mass) + np.abs(self.r_bound).sum()
        self.imbalance = float(wrong) / S

    def step(self) -> None:
        """Aim at μ = 0 to see how far that goes, then at the μ that this suggests."""
        x, z, u, y = self.x, self.z, self.u, self.y
        self._factor()
        dx, du, _, _, dz, dy = self._newton(-x * z, -u * y, passes=1)
        primal, dual = self._lengths(dx, du, dz, dy)
        after = (x + primal * dx) @ (z + dual * dz) + (u + primal * du) @ (y + dual * dy)
        sigma = min(float(after / (x.size + u.size) / self.mu), 1.0) ** 3
        aim = max(sigma * self.mu, self.least_mu)
        dx, du, dh, drho, dz, dy = self._newton(
            aim - x * z - dx * dz, aim - u * y - du * dy, passes=4
        )
        primal, dual = self._lengths(dx, du, dz, dy)
        primal, dual = 0.995 * primal, 0.995 * dual
        self.x, self.u = x + primal * dx, u + primal * du
        self.z, self.y = z + dual * dz, y + dual * dy
        self.h, self.rho = self.h + dual * dh, self.rho + dual * drho
        self.h -= self.h.mean()

    def _factor(self) -> None:
        flow = self.flow
        self.d, self.w = self.x / self.z, self.y / self.u
        self.q = self.c + self._on_states(self.w)
        self.backend.factor(self.d, self.q)
        # The border: how B dh − dρ = 0 is answered per unit of ρ (refined once).
        v = self.backend.solve(flow.residual(self._blocks(np.ones(flow.n_pairs))))
        rest = 1.0 - flow.differences(v)
        more = self.backend.solve(flow.residual(self._blocks(rest)))
        self.border = v + more
        rest = rest - flow.differences(more)
        self.pull = float(rest @ self._blocks(rest))
        if not self.pull > 0:
            raise np.linalg.LinAlgError("the mass can't be moved any more")

    def _newton(
        self, rx: Floats, ry: Floats, passes: int
    ) -> tuple[Floats, Floats, Floats, float, Floats, Floats]:
        """The linear equations of one step; all ``passes`` but the first refine the solution."""
        flow, x, u = self.flow, self.x, self.u
        r = self.r_dual + rx / x
        r += flow.spread(self._on_states(ry / u - self.w * self.r_bound))
        dh, drho = np.zeros(flow.n_states), 0.0
        dx = self._blocks(r)
        for _ in range(passes):
            excess, missing = flow.residual(dx) - self.r_flow, self.r_mass - float(dx.sum())
            if drho and np.abs(excess).sum() + abs(missing) < 1e-13 * flow.n_states:
                break
            v = self.backend.solve(excess)
            move = (missing + float(self._blocks(flow.differences(v)).sum())) / self.pull
            dh = dh + v + move * self.border
            drho += move
            dx = self._blocks(r - flow.differences(dh) + drho)
        du = flow.sums(dx)[self.bounded] + self.r_bound
        return dx, du, dh, drho, (rx - self.z * dx) / x, (ry - self.y * du) / u

    def _lengths(self, dx: Floats, du: Floats, dz: Floats, dy: Floats) -> tuple[float, float]:
        primal = min(_reach(self.x, dx), _reach(self.u, du))
        dual = min(_reach(self.z, dz), _reach(self.y, dy))
        # With a quadratic term both sides share an equation, and must move together.
        return (min(primal, dual),) * 2 if self.coupled else (primal, dual)

    def _blocks(self, r: Floats) -> Floats:
        out = np.empty_like(r)
        solve_blocks(self.flow.pair_start, self.d, self.q, r, out)
        return out

    def _on_states(self, v: Floats) -> Floats:
        out = np.zeros(self.flow.n_states)
        out[self.bounded] = v
        return out


def _reach(v: Floats, dv: Floats) -> float:
    """The longest step ≤ 1 that keeps v + step·dv ≥ 0."""
    worst = float(np.max(-dv / v)) if v.size else 0.0
    return 1.0 if worst <= 1.0 else 1.0 / worst


class InteriorOracle:
    """The interior point on one communicating model; patterns are analysed once."""

    def __init__(self, mdp: MDP, lower: Floats) -> None:
        self.mdp, self.lower = mdp, lower
        self.flow = Flow(mdp.transitions, mdp.pair_start)
        self.backend = choose_backend(self.flow)

    def solve(self, cost: Floats) -> Answer:
        low, span = float(cost.min()), float(np.ptp(cost)) or 1.0
        g = (cost - low) / span
        found = interior_quadratic(self.flow, self.backend, g, self.lower, tolerance=0.5 * PROVED)
        # Where the bounds can't be met, the duals run off to infinity.
        largest = max(float(np.abs(v).max()) for v in (found.bias, found.multiplier))
        if not (np.isfinite(found.occupancy).all() and largest < 1e100):
            return without_answer(self.mdp, Status.UNPROVED, "interior point")
        value, bound, feasible = prove(
            self.mdp, g, self.lower, found.occupancy, found.bias, found.multiplier
        )
        good = feasible and value - bound <= PROVED
        return Answer(
            found.occupancy, span * found.bias, span * found.multiplier, low + span * value,
            low + span * bound, Status.OPTIMAL if good else Status.UNPROVED,
            count_classes(self.mdp, found.occupancy), "interior point", found.iterations,
        )  # fmt: skip

    def scale(self) -> tuple[float, float]:
        """A θ that is attained by θ·lower, and a proved bound of all such θ.

        1/θ is the smallest possible max lower/η, the worst-state error with lower for σ².
        """
        attained, beyond = self._scale(self.flow, self.backend)
        if not beyond <= attained * (1.0 + AGREE) and self.mdp.n_states <= SMALL:
            # A world that hardly communicates: rounding hides how the groups share the time.
            cuts = CutFlow(self.flow)
            other, ceiling = self._scale(cuts, DenseCholesky(cuts))
            attained, beyond = max(attained, other), min(beyond, ceiling)
        return attained, beyond

    def _scale(self, flow: Flow, backend: Backend) -> tuple[float, float]:
        worst = WorstState(self.lower)
        # Bounds of 0 (or a start far from the path) make it divide by 0 before it gives up.
        with np.errstate(all="ignore"):
            found = interior_point(
                flow,
                worst.cone(),
                backend,
                lambda eta, margin: worst.gap(worst.value(eta), worst.lower_bound(margin)),
                tolerance=1e-11,
                feasible_start=isinstance(flow, CutFlow),
            )
        if not (np.isfinite(found.x).all() and (found.x > 0).all()):
            return 0.0, np.inf
        x = stationary_again(self.mdp, found.x) if self.mdp.n_states <= SMALL else found.x
        bound = worst.lower_bound(margins(self.mdp, found.h, low=found.h_low))
        return 1.0 / worst.value(self.mdp.state_sums(x)), 1.0 / bound


# -- value iteration -------------------------------------------------------------------------------

SWEEPS = 3000
"""Sweeps of value iteration after which another method takes over."""


class ValueOracle:
    """Relative value iteration on one communicating model without bounds.

    Where walks mix fast (random graphs) some hundred sweeps settle what an elimination, which
    fills up there, takes minutes for. Half of every move is replaced by staying, which changes no
    occupancy and makes every model aperiodic. For any h, min(Th − h) ≤ ρ* ≤ max(Th − h) with
    T the optimal backup: the sweeps stop when the two are close, or when that is too far away.
    """

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp

    def solve(self, cost: Floats) -> Answer:
        mdp, P = self.mdp, self.mdp.transitions
        low, span = float(cost.min()), float(np.ptp(cost)) or 1.0
        g = (cost - low) / span
        h, backup = np.zeros(mdp.n_states), np.empty(mdp.n_states)
        chosen = np.empty(mdp.n_states, dtype=np.int64)
        width, sweeps = np.inf, 0
        while sweeps < SWEEPS:
            before = width
            for _ in range(50):
                _backup(P.indptr, P.indices, P.data, mdp.pair_start, g, h, backup, chosen)
                width = float(np.ptp(backup - h))
                h = 0.5 * (h + backup)
                h -= h[0]
            sweeps += 50
            if width <= 0.1 * PROVED:
                break
            # At the rate of the last 50 sweeps, how many more would it take?
            rate = np.log(before / width) if 0 < width < before else 0.0
            if not rate * (SWEEPS - sweeps) > 50.0 * np.log(width / (0.1 * PROVED)):
                return without_answer(mdp, Status.UNPROVED, "value iteration")
        x = self._occupancy(chosen, g)
        value, bound, feasible = prove(mdp, g, np.zeros(mdp.n_states), x, h, np.zeros(h.size))
        good = feasible and value - bound <= PROVED
        return Answer(
            x, span * h, np.zeros(h.size), low + span * value, low + span * bound,
            Status.OPTIMAL if good else Status.UNPROVED, count_classes(mdp, x),
            "value iteration", sweeps,
        )  # fmt: skip

    def _occupancy(self, chosen: NDArray[np.int64], g: Floats) -> Floats:
        """The stationary occupancy of the policy's cheapest recurrent class."""
        policy = Policy.deterministic(self.mdp, chosen)
        chain = policy.chain()
        best, lowest = np.empty(0), np.inf
        for k in range(len(chain.recurrent_classes())):
            x = self.mdp.to_pairs(chain.stationary(k)) * policy.probability
            if g @ x < lowest:
                best, lowest = x, float(g @ x)
        return best


@njit(cache=True, nogil=True)
def _backup(  # type: ignore[no-untyped-def]
    indptr, indices, data, pair_start, g, h, backup, chosen
):
    """min_a g + Ph for every state, and the pair that attains it."""
    for s in range(h.size):
        best = np.inf
        for p in range(pair_start[s], pair_start[s + 1]):
            value = g[p]
            for k in range(indptr[p], indptr[p + 1]):
                value += data[k] * h[indices[k]]
            if value < best:
                best = value
                chosen[s] = p
        backup[s] = best


# -- HiGHS -----------------------------------------------------------------------------------------


class HighsOracle:
    """The dual simplex of HiGHS on the pairs that stationary occupancies can use."""

    def __init__(self, mdp: MDP, lower: Floats, columns: NDArray[np.int64]) -> None:
        import highspy

        self.mdp, self.lower, self.columns = mdp, lower, columns
        n, m = mdp.n_states, self.columns.size
        select = sp.csr_matrix(
            (np.ones(m), (mdp.pair_state[self.columns], np.arange(m))), shape=(n, m)
        )
        self._bounded = np.flatnonzero(lower > 0)
        rows = sp.vstack(
            [
                select - mdp.transitions[self.columns].T,
                sp.csr_matrix(np.ones((1, m))),
                select[self._bounded],
            ]
        ).tocsc()
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = m, rows.shape[0]
        lp.col_cost_ = np.zeros(m)
        lp.col_lower_, lp.col_upper_ = np.zeros(m), np.full(m, highspy.kHighsInf)
        lp.row_lower_ = np.r_[np.zeros(n), 1.0, lower[self._bounded]]
        lp.row_upper_ = np.r_[np.zeros(n), 1.0, np.full(self._bounded.size, highspy.kHighsInf)]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = rows.indptr, rows.indices
        lp.a_matrix_.value_ = rows.data
        self._highs = highspy.Highs()
        for option, value in (
            ("output_flag", False), ("threads", 1), ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
            # By default entries below 1e-9 are dropped: a rare passage would become a wall.
            ("small_matrix_value", 1e-12),
        ):  # fmt: skip
            self._highs.setOptionValue(option, value)
        self._highs.passModel(lp)

    def solve(self, cost: Floats) -> Answer:
        n, m = self.mdp.n_states, self.columns.size
        part = cost[self.columns]
        low, span = float(part.min()), float(np.ptp(part)) or 1.0
        g = (part - low) / span
        self._highs.changeColsCost(m, np.arange(m, dtype=np.int32), g)
        self._highs.run()
        solution = self._highs.getSolution()
        if not (solution.value_valid and solution.dual_valid):
            # Its "infeasible" is a matter of tolerances; ``largest_scale`` decides.
            return without_answer(self.mdp, Status.UNPROVED, "HiGHS")
        x = np.zeros(self.mdp.n_pairs)
        x[self.columns] = np.maximum(solution.col_value, 0.0)
        x = stationary_again(self.mdp, x)
        dual = np.asarray(solution.row_dual)
        y = np.zeros(n)
        y[self._bounded] = np.maximum(dual[n + 1 :], 0.0)
        full = np.zeros(self.mdp.n_pairs)
        full[self.columns] = g
        pairs = np.zeros(self.mdp.n_pairs, dtype=bool)
        pairs[self.columns] = True
        value, bound, feasible = prove(self.mdp, full, self.lower, x, dual[:n], y, pairs)
        good = feasible and value - bound <= PROVED
        return Answer(
            x, span * dual[:n], span * y, low + span * value, low + span * bound,
            Status.OPTIMAL if good else Status.UNPROVED, count_classes(self.mdp, x), "HiGHS",
            int(self._highs.getInfo().simplex_iteration_count),
        )  # fmt: skip

    def scale(self) -> tuple[float, float]:
        """A θ that is attained by θ·lower, and a proved bound of all such θ."""
        n, m = self.mdp.n_states, self.columns.size
        highs = HighsOracle(self.mdp, self.lower, self.columns)._highs
        # One more column, θ, and lower moves to its side: η − θ·lower ≥ 0.
        rows = n + 1 + np.arange(self._bounded.size, dtype=np.int32)
        highs.addCol(-1.0, 0.0, 1e30, rows.size, rows, -self.lower[self._bounded])
        for row in rows:
            highs.changeRowBounds(int(row), 0.0, 1e30)
        highs.run()
        solution = highs.getSolution()
        if not (solution.value_valid and solution.dual_valid):
            return 0.0, np.inf
        x = np.zeros(self.mdp.n_pairs)
        x[self.columns] = np.maximum(solution.col_value[:m], 0.0)
        worst = WorstState(self.lower)
        value = worst.value(self.mdp.state_sums(stationary_again(self.mdp, x)))
        allowed = np.zeros(self.mdp.n_pairs, dtype=bool)
        allowed[self.columns] = True
        margin = margins(self.mdp, -np.asarray(solution.row_dual[:n]), allowed)
        # A state without an allowed pair has no mass, whatever its price.
        margin[np.isinf(margin)] = 0.0
        return 1.0 / value, 1.0 / worst.lower_bound(margin)


def stationary_again(mdp: MDP, occupancy: Floats) -> Floats:
    """The stationary occupancy of the policy that a nearly stationary one defines.

    Each recurrent class keeps its share of the mass.
    """
    policy = Policy.from_occupancy(mdp, occupancy)
    chain = policy.chain()
    mass = mdp.state_sums(occupancy)
    classes = chain.recurrent_classes()
    shares = np.array([mass[states].sum() for states in classes])
    if not shares.sum() > 0:
        return occupancy
    shares /= shares.sum()
    eta = sum(share * chain.stationary(k) for k, share in enumerate(shares) if share > 0)
    x: Floats = mdp.to_pairs(eta) * policy.probability
    return x / x.sum()
