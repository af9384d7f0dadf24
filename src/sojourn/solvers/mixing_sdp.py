"""Spectral programs over flows: a primal-dual interior point in the space of the flows.

The unknowns x ≥ 0 are *flows*. Flow e leaves the node i_e = ``heads[e]`` and arrives with the
profile v_e (a sparse column of ``tails``), so that together they form the symmetric matrix

    M(x) = Σ_e x_e ½(e_{i_e} v_eᵀ + v_e e_{i_e}ᵀ) − C,          r = R x  (row sums, > 0)

of which the largest eigenvalue t (or the largest modulus of one, ``two_sided``) is kept small:

    minimise    Σ_s w_s/r_s + ρ/(1 − t)              (``penalty`` ρ;  t alone if it is None)
    subject to  tI − M(x) ⪰ 0,   [tI + M(x) ⪰ 0],   x ≥ 0,   aᵀx = 1  (``mass``),
                A x = b,   low ≤ r ≤ high,   Σ_s d_s²(r_s − 1)² ≤ 1  (``ball``).

General SDP solvers see the S²/2 entries of a matrix variable; here a problem has as many
unknowns as there are flows, and what the semidefinite cone contributes to Newton's matrix,

    H_ef = tr(M_e Ω M_f Ω) = ½(v_eᵀΩ e_{i_f} · v_fᵀΩ e_{i_e} + Ω_{i_e i_f} · v_eᵀΩ v_f),

is gathered entry by entry, because every M_e has rank two. Ω is the Nesterov–Todd scaling,
which maps the slack T = tI − M(x) and its multiplier Z onto each other (ΩTΩ = Z); steps are
Mehrotra's predictor and corrector, from an infeasible start, with one length for all.

:func:`lower_bound` is independent of all that: it turns *any* multipliers into a number below
the optimum by Lagrangian duality, so that a wrong solver could only make it worse, not false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from sojourn.solvers.threads import one_thread

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MixingProblem:
    """The program of this module's docstring; S rows, m flows, matrices of order N."""

    heads: NDArray[np.int64]
    tails: sp.csc_matrix
    shift: Array
    rows: sp.csr_matrix
    mass: Array
    weight: Array
    penalty: float | None = None
    two_sided: bool = False
    low: Array | None = None
    high: Array | None = None
    ball: Array | None = None
    equalities: Array | None = None
    right: Array | None = None

    def matrix(self, x: Array) -> Array:
        """M(x)."""
        out = -self.shift
        _assemble(self.heads, self.tails.indptr, self.tails.indices, self.tails.data, x, out)
        return out

    def prices(self, Z: Array) -> Array:
        """⟨Z, M_e⟩ for each flow e, Z symmetric."""
        out = np.empty(self.heads.size)
        _adjoint(self.heads, self.tails.indptr, self.tails.indices, self.tails.data, Z, out)
        return out

    def level(self, x: Array) -> float:
        """The smallest t that x allows."""
        eigenvalues = np.linalg.eigvalsh(self.matrix(x))
        return float(max(eigenvalues[-1], -eigenvalues[0] if self.two_sided else -np.inf))

    def value(self, x: Array) -> float:
        """The objective at x, with the smallest t that x allows."""
        t = self.level(x)
        if self.penalty is None:
            return t
        if t >= 1.0:
            return np.inf
        return float((self.weight / (self.rows @ x)).sum() + self.penalty / (1.0 - t))


@dataclass(frozen=True)
class Multipliers:
    """What proves a bound, in the notation of :func:`lower_bound`."""

    blocks: Array
    """Z, one for each of the one or two matrix inequalities."""
    equalities: Array
    """y"""
    low: Array
    """α"""
    high: Array
    """β"""
    ball: Array
    """u"""
    prices: Array
    """ν, of the row sums"""


@dataclass(frozen=True)
class MixingSolution:
    """``x`` is optimal up to ``value − bound`` if ``converged``; ``residual`` says how far
    ``x`` is from fulfilling the linear constraints (relative)."""

    x: Array
    value: float
    bound: float
    multipliers: Multipliers
    residual: float
    iterations: int
    converged: bool

    @property
    def gap(self) -> float:
        return max(0.0, self.value - self.bound) / max(abs(self.value), 1e-300)


def lower_bound(problem: MixingProblem, dual: Multipliers) -> float:
    """A number that no feasible x can go below, from any multipliers (Lagrangian duality).

    With Z ⪰ 0 of trace τ, α, β, ν ≥ 0 and any y, u, every feasible x has

        Σw/r + ρ/(1−t) ≥ Σ2√(wν) + (2√(ρτ) − τ) + αᵀlow − βᵀhigh + Σu − ‖u/d‖ + bᵀy − ⟨Z, C⟩
                         + min_e k_e/a_e,   k = Rᵀ(β − α − ν − u) + ⟨Z, M_e⟩ − Aᵀy,

    since w/r ≥ 2√(wν) − νr, ρ/(1−t) ≥ 2√(ρτ) − τ + τt, ⟨Z, tI − M(x)⟩ ≥ 0, |uᵀ(r−1)| ≤ ‖u/d‖
    on the ball, and x is a distribution up to the positive factors a. (For t alone Z is scaled
    to trace 1, and w = ν = 0.) Nothing is assumed about where the multipliers come from.
    """
    blocks = 0.5 * (dual.blocks + dual.blocks.transpose(0, 2, 1))
    # Rounding can leave a slightly indefinite Z, whose "bound" would be none.
    least = np.linalg.eigvalsh(blocks)[:, 0]
    blocks = blocks + np.maximum(0.0, -least)[:, None, None] * np.eye(blocks.shape[1])
    trace = float(np.trace(blocks, axis1=1, axis2=2).sum())
    row_price = np.zeros(problem.rows.shape[0])
    bound = 0.0
    if problem.penalty is None:
        blocks = blocks / trace
    else:
        prices = np.maximum(dual.prices, 0.0)
        bound += 2.0 * float(np.sqrt(problem.penalty * trace)) - trace
        bound += 2.0 * float(np.sqrt(problem.weight * prices).sum())
        row_price -= prices
    for limit, multiplier, sign in ((problem.low, dual.low, 1.0), (problem.high, dual.high, -1.0)):
        if limit is not None:
            active = np.where(np.isfinite(limit), np.maximum(multiplier, 0.0), 0.0)
            bound += sign * float(active @ np.where(np.isfinite(limit), limit, 0.0))
            row_price -= sign * active
    if problem.ball is not None:
        bound += float(dual.ball.sum() - np.linalg.norm(dual.ball / problem.ball))
        row_price -= dual.ball
    signed = blocks[0] - blocks[1] if problem.two_sided else blocks[0]
    bound -= float((signed * problem.shift).sum())
    price = problem.rows.T @ row_price + problem.prices(signed)
    if problem.equalities is not None and problem.right is not None:
        bound += float(problem.right @ dual.equalities)
        price -= problem.equalities.T @ dual.equalities
    return bound + float((price / problem.mass).min())


def solve_mixing(
    problem: MixingProblem, start: Array, tolerance: float = 1e-7, limit: int = 100
) -> MixingSolution:
    """Solve from ``start`` > 0, which need not fulfil any constraint.

    Stops when ``x`` fulfils the constraints and the certified gap is closed to ``tolerance``,
    relative to the objective (to 1 for t alone), or when it can't come closer; ``converged``
    grants it a factor of 10.
    """
    with one_thread():
        return _InteriorPoint(problem, start).run(tolerance, limit)


# The fraction of the way to the nearest boundary that a step goes, where t starts between the level
# of x and 1, the step below which there is no hope, and how many iterations without gain are
# granted before rounding has the last word.
_FRACTION = 0.99
_INSIDE = 0.3
_SMALLEST_STEP = 1e-8
_PATIENCE = 2


class _Blocks:
    """Slack matrices T_k ≻ 0 and their multipliers Z_k ≻ 0 (arrays K × order × order), in
    the Nesterov–Todd scaling G_k, where both are the same diagonal: G T Gᵀ = G⁻ᵀ Z G⁻¹ = λ."""

    def __init__(self, T: Array, mu: float) -> None:
        self.T = T
        self.Z = mu * _symmetric(np.linalg.inv(T))

    @property
    def complementarity(self) -> float:
        return float((self.T * self.Z).sum())

    def scale(self) -> None:
        """The scaling at the present point; raises LinAlgError outside the cone."""
        L: Any = np.linalg.cholesky(self.T)
        F: Any = np.linalg.cholesky(self.Z)
        U, self.lam, _ = np.linalg.svd(_transposed(F) @ L)
        self.root = np.sqrt(self.lam)
        self.G = _transposed(U / self.root[:, None, :]) @ _transposed(F)
        self.GT = _transposed(self.G)
        self.Omega = self.GT @ self.G

    def predict(self) -> None:
        """Aim all products at 0."""
        self.D = np.zeros_like(self.T)
        np.einsum("kii->ki", self.D)[:] = -self.lam

    def correct(self, mu: float, part: float) -> None:
        """Aim at μ, less ``part`` of what the predictor missed to second order."""
        lam = self.lam
        product = _symmetric(self.dT_scaled @ self.dZ_scaled)
        self.D = -2.0 * part * product / (lam[:, :, None] + lam[:, None, :])
        np.einsum("kii->ki", self.D)[:] += mu / lam - lam

    def wanted(self, residual: Array) -> Array:
        """The change of Z at an unchanged right-hand side of T, whose residual is removed."""
        return self.GT @ (self.D + self.G @ residual @ self.GT) @ self.G

    def complete(self, dT: Array) -> None:
        self.dT = dT
        self.dT_scaled = self.G @ dT @ self.GT
        self.dZ_scaled = self.D - self.dT_scaled

    def fall(self) -> float:
        """The reciprocal of the step that makes T or Z singular."""
        scaled = np.concatenate([self.dT_scaled, self.dZ_scaled])
        root = np.concatenate([self.root, self.root])
        scaled = _symmetric(scaled / (root[:, :, None] * root[:, None, :]))
        return -float(np.linalg.eigvalsh(scaled)[:, 0].min())

    def move(self, length: float) -> None:
        self.T = _symmetric(self.T + length * self.dT)
        self.Z = _symmetric(self.Z + length * (self.GT @ self.dZ_scaled @ self.G))


class _Wanted(NamedTuple):
    """What the scalar multipliers should change by if the slacks stayed as they are."""

    z: Array
    alpha: Array
    price: Array


class _InteriorPoint:
    """One solve.

    ``spectral`` holds T_k = tI − s_k M(x), s = (1, −1), and ``arrow`` the ball as the matrix
    [[1, vᵀ], [v, I]] ⪰ 0, v = d·(r − 1). The bounds on row sums are sign·r[row] ≥ off, with
    slack p. The objective is Σ c²/g over copies g > 0 of the row sums
    and of 1 − t (so that t may be 1 or more on the way), each with the price c²/g². That
    relation is kept as price·g² = c² + μg and linearised in logarithms: 1/g itself is too
    curved for Newton's method from afar.
    """

    def __init__(self, problem: MixingProblem, start: Array) -> None:
        self.problem = problem
        self.n_flows = start.size
        self.order = problem.shift.shape[0]
        self.signs = np.array([1.0, -1.0] if problem.two_sided else [1.0])[:, None, None]
        self.eye = np.eye(self.order)
        self.R = problem.rows
        self.RT = sp.csr_matrix(problem.rows.T)
        self.scale = 1.0
        self.priced = np.zeros(0, dtype=np.int64)
        self.c = np.zeros(0)
        if problem.penalty is not None:
            self.scale = float(problem.weight.sum()) + problem.penalty
            self.priced = np.flatnonzero(problem.weight > 0)
            terms = np.append(problem.weight[self.priced], problem.penalty)
            self.c = np.sqrt(terms / self.scale)

        # Equalities with rows of norm 1, the mass first.
        A, b = problem.mass[None, :], np.ones(1)
        if problem.equalities is not None and problem.right is not None:
            A, b = np.vstack([A, problem.equalities]), np.append(b, problem.right)
        self.row_norm = np.linalg.norm(A, axis=1)
        self.row_norm[self.row_norm == 0] = 1.0
        self.A, self.b = A / self.row_norm[:, None], b / self.row_norm

        limits = [(problem.low, 1.0), (problem.high, -1.0)]
        none = np.zeros(0, dtype=np.int64)
        finite = [none if v is None else np.flatnonzero(np.isfinite(v)) for v, _ in limits]
        self.bound_row = np.concatenate(finite).astype(np.int64)
        self.bound_sign = np.repeat([1.0, -1.0], [len(rows) for rows in finite])
        off = [v[rows] for (v, _), rows in zip(limits, finite) if v is not None]
        self.bound_off = self.bound_sign * np.concatenate([np.zeros(0), *off])
        self._begin(start)

    def _begin(self, start: Array) -> None:
        """On the central path but for the residuals: every product of slack and multiplier is μ."""
        self.degree = start.size + self.signs.size * self.order + self.bound_row.size
        d = self.problem.ball
        self.degree += 0 if d is None else d.size + 1
        self.x = np.array(start, dtype=float)
        self.r = self.R @ self.x
        M = self.problem.matrix(self.x)
        spectrum = np.linalg.eigvalsh(M)
        top = float(max(spectrum[-1], -spectrum[0] if self.problem.two_sided else -np.inf))
        inside = self.c.size > 0 and top < 1.0
        self.t = top + (_INSIDE * (1.0 - top) if inside else 0.5)
        T = self.t * self.eye - self.signs * M
        mu = 1.0 / self.degree
        if inside:
            # Where 1 − t is small its price is large, and the multipliers of T have to add up to
            # it: with small ones the first steps would be many and short.
            inverses = float(np.trace(np.linalg.inv(T), axis1=1, axis2=2).sum())
            mu = max(mu, (self.c[-1] / (1.0 - self.t)) ** 2 / inverses)
        self.spectral = _Blocks(T, mu)
        self.z = mu / self.x
        self.p = np.maximum(self.bound_sign * self.r[self.bound_row] - self.bound_off, 0.05)
        self.alpha = mu / self.p
        if d is not None:
            v = d * (self.r - 1.0)
            outside = max(0.0, float(np.linalg.norm(v)) - 0.5)
            self.arrow = _Blocks(_arrow(1.0 + outside, v), mu)
        self.y = np.zeros(self.b.size)
        self.g = np.zeros(0)
        if self.c.size:
            self.g = np.append(self.r[self.priced], 1.0 - self.t if inside else 0.5)
        self.price = (self.c**2 + mu * self.g) / self.g**2
        self.dg = self.dprice = np.zeros(0)

    # -- one iteration ------------------------------------------------------------------

    def _residuals(self) -> None:
        problem = self.problem
        Z = self.spectral.Z
        self.res_T = self.spectral.T - (self.t * self.eye - self.signs * problem.matrix(self.x))
        self.res_A = self.A @ self.x - self.b
        self.res_p = self.p - (self.bound_sign * self.r[self.bound_row] - self.bound_off)
        row_price = np.zeros(self.r.size)
        np.subtract.at(row_price, self.bound_row, self.bound_sign * self.alpha)
        self.res_t = 1.0 - float(np.trace(Z, axis1=1, axis2=2).sum())
        complementarity = float(self.x @ self.z + self.p @ self.alpha)
        complementarity += self.spectral.complementarity
        if self.c.size:
            self.res_g = self.g - np.append(self.r[self.priced], 1.0 - self.t)
            row_price[self.priced] -= self.price[:-1]
            self.res_t += self.price[-1] - 1.0
        d = problem.ball
        if d is not None:
            self.res_arrow = self.arrow.T - _arrow(1.0, d * (self.r - 1.0))
            row_price -= 2.0 * d * self.arrow.Z[0, 0, 1:]
            complementarity += self.arrow.complementarity
        self.res_x = self.RT @ row_price - self.A.T @ self.y - self.z
        self.res_x += problem.prices((self.signs * Z).sum(axis=0))
        self.mu = complementarity / self.degree

    def _infeasibility(self) -> float:
        """How far x is from fulfilling its constraints, in the scale where r ≈ 1."""
        parts = [self.res_A, self.res_T, self.res_p]
        if self.c.size:
            parts.append(self.res_g)
        if self.problem.ball is not None:
            parts.append(self.res_arrow)
        return max(float(np.abs(part).max(initial=0.0)) for part in parts)

    def _factor(self) -> bool:
        """The scalings, and the Cholesky factor of Newton's matrix over (x, t)."""
        problem, n = self.problem, self.n_flows
        row_weight = np.zeros(self.r.size)
        np.add.at(row_weight, self.bound_row, self.alpha / self.p)
        t_weight = 0.0
        if self.c.size:
            self.curvature = 2.0 * self.price / self.g
            row_weight[self.priced] += self.curvature[:-1]
            t_weight = float(self.curvature[-1])
        try:
            self.spectral.scale()
            if problem.ball is not None:
                self.arrow.scale()
        except np.linalg.LinAlgError:
            return False
        H = np.zeros((n + 1, n + 1))
        ptr, index, data = problem.tails.indptr, problem.tails.indices, problem.tails.data
        for Omega in self.spectral.Omega:
            _gram(problem.heads, ptr, index, data, Omega, H)
        d = problem.ball
        if d is not None:
            Omega = self.arrow.Omega[0]
            cross = d * Omega[0, 1:]
            curved = Omega[0, 0] * (d[:, None] * Omega[1:, 1:] * d) + np.outer(cross, cross)
            H[:n, :n] += 2.0 * (self.RT @ (self.RT @ curved).T)
        _add_rows(self.R.indptr, self.R.indices, self.R.data, row_weight, H)
        square = self.spectral.Omega @ self.spectral.Omega
        H[n, :n] = -problem.prices((self.signs * square).sum(axis=0))
        diagonal = np.einsum("ii->i", H)
        diagonal[:n] += self.z / self.x
        diagonal[n] = float(np.trace(square, axis1=1, axis2=2).sum()) + t_weight
        diagonal *= 1.0 + 1e-14
        # The lower triangle of a row-major matrix is the upper one of LAPACK's.
        self.factor, failed = dpotrf(H.T, lower=0, clean=0, overwrite_a=1)
        if failed:
            return False
        wide = np.zeros((n + 1, self.b.size), order="F")
        wide[:n] = self.A.T
        self.HA, _ = dpotrs(self.factor, wide, lower=0)
        schur = self.A @ self.HA[:n]
        # A nudge far below the accuracy asked for, where equalities are nearly dependent: it
        # changes only multipliers that nobody can tell apart.
        np.einsum("ii->i", schur)[:] *= 1.0 + 1e-13
        self.schur, failed = dpotrf(schur, lower=1, clean=0)
        if failed:
            np.einsum("ii->i", schur)[:] += 1e-12 * np.abs(np.diag(schur)).max()
            self.schur, failed = dpotrf(schur, lower=1, clean=0)
        return not failed

    def _direction(self, hat: _Wanted) -> tuple[Array, float, Array]:
        """Δx, Δt, Δy that bring the multipliers to what is wanted and the residuals to 0."""
        problem, n = self.problem, self.n_flows
        Z_hat = self.spectral.wanted(self.res_T)
        row = np.zeros(self.r.size)
        wanted = hat.alpha + self.alpha / self.p * self.res_p
        np.add.at(row, self.bound_row, self.bound_sign * wanted)
        right = np.empty(n + 1)
        right[n] = float(np.trace(Z_hat, axis1=1, axis2=2).sum()) - self.res_t
        if self.c.size:
            price = hat.price + self.curvature * self.res_g
            row[self.priced] += price[:-1]
            right[n] -= price[-1]
        if problem.ball is not None:
            row += 2.0 * problem.ball * self.arrow.wanted(self.res_arrow)[0, 0, 1:]
        right[:n] = hat.z - self.res_x + self.RT @ row
        right[:n] -= problem.prices((self.signs * Z_hat).sum(axis=0))
        free, _ = dpotrs(self.factor, right, lower=0)
        dy, _ = dpotrs(self.schur, -self.res_A - self.A @ free[:n], lower=1)
        step = free + self.HA @ dy
        return step[:n], float(step[n]), dy

    def _complete(self, dx: Array, dt: float, hat: _Wanted) -> None:
        """The changes of slacks and multipliers that follow from Δx and Δt."""
        problem = self.problem
        self.dx, self.dt, self.dr = dx, dt, self.R @ dx
        self.dz = hat.z - self.z / self.x * dx
        self.dp = self.bound_sign * self.dr[self.bound_row] - self.res_p
        self.dalpha = hat.alpha - self.alpha / self.p * self.dp
        if problem.ball is not None:
            self.arrow.complete(_arrow(0.0, problem.ball * self.dr) - self.res_arrow)
        dM = problem.matrix(dx) + problem.shift
        self.spectral.complete(dt * self.eye - self.signs * dM - self.res_T)
        if self.c.size:
            self.dg = np.append(self.dr[self.priced], -dt) - self.res_g
            self.dprice = hat.price - self.curvature * self.dg

    def _longest(self) -> float:
        """How far the step can go before it leaves a cone (may exceed 1)."""
        falls = [
            _fall(self.x, self.dx), _fall(self.z, self.dz),
            _fall(self.p, self.dp), _fall(self.alpha, self.dalpha), self.spectral.fall(),
        ]  # fmt: skip
        if self.problem.ball is not None:
            falls.append(self.arrow.fall())
        if self.c.size:
            falls += [_fall(self.g, self.dg), _fall(self.price, self.dprice)]
        return 1.0 / max(*falls, 1e-300)

    def _step(self) -> float:
        """One predictor and corrector; the length of the step that was made."""
        cones = [self.spectral] if self.problem.ball is None else [self.spectral, self.arrow]
        for cone in cones:
            cone.predict()
        ratio = self.c**2 / (self.price * self.g**2)
        hat = _Wanted(-self.z, -self.alpha, self.price * _relative(ratio))
        dx, dt, _ = self._direction(hat)
        self._complete(dx, dt, hat)
        affine = min(1.0, self._longest())
        mu = (1.0 - affine) ** 3 * self.mu
        # A short predictor says little about what a full step would miss.
        for cone in cones:
            cone.correct(mu, affine)
        ratio = (self.c**2 + mu * self.g) / (self.price * self.g**2)
        a, b = self.dprice / self.price, self.dg / self.g
        missed = np.where(ratio < 1.0, -2.0 * a * b - b**2, 0.5 * a**2 + b**2)
        hat = _Wanted(
            (mu - affine * self.dx * self.dz) / self.x - self.z,
            (mu - affine * self.dp * self.dalpha) / self.p - self.alpha,
            self.price * (_relative(ratio) + affine * missed),
        )
        dx, dt, dy = self._direction(hat)
        self._complete(dx, dt, hat)
        length = min(1.0, _FRACTION * self._longest())

        for cone in cones:
            cone.move(length)
        self.x = self.x + length * dx
        self.r = self.R @ self.x
        self.t += length * dt
        self.y = self.y + length * dy
        self.z = self.z + length * self.dz
        self.p = self.p + length * self.dp
        self.alpha = self.alpha + length * self.dalpha
        if self.c.size:
            self.g = self.g + length * self.dg
            self.price = self.price + length * self.dprice
        return length

    # -- the whole ----------------------------------------------------------------------

    def run(self, tolerance: float, limit: int) -> MixingSolution:
        """Iterate until the certificate is good enough, or no longer improves.

        The best point and the best bound are kept apart: below about 1e-9 rounding in Newton's
        matrix, whose condition grows as 1/μ², spoils the multipliers while x still gains.
        """
        problem = self.problem
        kept_x, kept_dual = self.x, self._multipliers()
        value, bound, residual = np.inf, -np.inf, np.inf
        iteration = stalled = 0
        while True:
            self._residuals()
            # An optimum of t = 0 is common (perfect mixing); its scale is that of 1 − t.
            magnitude = float((self.c**2 / self.g).sum()) if self.c.size else 1.0
            improved = self.mu * self.degree > 1e-3 * magnitude
            if not improved:
                missed, here = max(self._infeasibility(), tolerance), problem.value(self.x)
                if missed < residual or (missed == residual and here < value):
                    improved = missed < 0.5 * residual or value - here > 0.1 * tolerance * abs(here)
                    kept_x, value, residual = self.x, here, missed
                dual = self._multipliers()
                below = lower_bound(problem, dual)
                if below > bound:
                    improved |= below - bound > 0.1 * tolerance * abs(below)
                    kept_dual, bound = dual, below
            allowed = tolerance * magnitude * self.scale
            stalled = 0 if improved else stalled + 1
            finished = residual <= tolerance and value - bound <= allowed
            if finished or iteration == limit or stalled > _PATIENCE:
                break
            if not self._factor() or self._step() < _SMALLEST_STEP:
                break
            iteration += 1
        good = residual <= 10.0 * tolerance and value - bound <= 10.0 * allowed
        return MixingSolution(kept_x, value, bound, kept_dual, residual, iteration, good)

    def _multipliers(self) -> Multipliers:
        """The multipliers in the units of the problem (the solver's objective is scaled)."""
        problem, scale = self.problem, self.scale
        both = np.zeros((2, self.r.size))
        both[(self.bound_sign < 0).astype(np.int64), self.bound_row] = scale * self.alpha
        prices = np.zeros(self.r.size)
        if self.c.size:
            prices[self.priced] = scale * self.price[:-1]
        ball = np.zeros(0)
        if problem.ball is not None:
            ball = 2.0 * scale * problem.ball * self.arrow.Z[0, 0, 1:]
        y = scale * self.y / self.row_norm
        return Multipliers(scale * self.spectral.Z, y[1:], both[0], both[1], ball, prices)


def _fall(value: Array, change: Array) -> float:
    """The reciprocal of the step that brings an entry of ``value`` > 0 to zero."""
    return float((-change / value).max(initial=0.0))


def _relative(ratio: Array) -> Array:
    """By how much to multiply, minus 1: cautious, that is logarithmic, upwards."""
    return np.where(ratio < 1.0, ratio - 1.0, np.log(np.maximum(ratio, 1.0)))


def _transposed(A: Any) -> Any:
    return A.transpose(0, 2, 1)


def _symmetric(A: Any) -> Any:
    return 0.5 * (A + A.transpose(0, 2, 1))


def _arrow(corner: float, v: Array) -> Array:
    """[[corner, vᵀ], [v, corner·I]], positive definite where ‖v‖ < corner."""
    out = corner * np.eye(v.size + 1)[None]
    out[0, 0, 1:] = out[0, 1:, 0] = v
    return out


# -- kernels over flows; ``ptr, index, data`` are the columns of ``tails`` --------------------


@njit(cache=True, nogil=True)
def _assemble(heads, ptr, index, data, x, out):  # type: ignore[no-untyped-def]
    """out += Σ_e x_e ½(e_{i_e} v_eᵀ + v_e e_{i_e}ᵀ)"""
    for e in range(heads.size):
        i = heads[e]
        for q in range(ptr[e], ptr[e + 1]):
            half = 0.5 * x[e] * data[q]
            out[i, index[q]] += half
            out[index[q], i] += half


@njit(cache=True, nogil=True)
def _adjoint(heads, ptr, index, data, Z, out):  # type: ignore[no-untyped-def]
    """out_e = v_eᵀ Z e_{i_e}"""
    for e in range(heads.size):
        total = 0.0
        for q in range(ptr[e], ptr[e + 1]):
            total += data[q] * Z[heads[e], index[q]]
        out[e] = total


@njit(cache=True, nogil=True)
def _gram(heads, ptr, index, data, Omega, H):  # type: ignore[no-untyped-def]
    """Lower triangle of H += tr(M_e Ω M_f Ω)."""
    m, order = heads.size, Omega.shape[0]
    U = np.zeros((m, order))
    for e in range(m):
        for q in range(ptr[e], ptr[e + 1]):
            k, v = index[q], data[q]
            for j in range(order):
                U[e, j] += v * Omega[k, j]
    for e in range(m):
        i = heads[e]
        for f in range(e + 1):
            across = 0.0
            for q in range(ptr[f], ptr[f + 1]):
                across += data[q] * U[e, index[q]]
            H[e, f] += 0.5 * (U[e, heads[f]] * U[f, i] + Omega[i, heads[f]] * across)


@njit(cache=True, nogil=True)
def _add_rows(ptr, index, data, weight, H):  # type: ignore[no-untyped-def]
    """Lower triangle of H += Rᵀ diag(weight) R, R by rows."""
    for s in range(weight.size):
        for a in range(ptr[s], ptr[s + 1]):
            scaled = weight[s] * data[a]
            for b in range(ptr[s], ptr[s + 1]):
                if index[b] <= index[a]:
                    H[index[a], index[b]] += scaled * data[b]
