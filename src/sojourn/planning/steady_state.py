"""A policy with a wanted distribution, or with the closest one that the moves allow.

Akshay, Bertrand, Haddad & Hélouët (2013) ask for a policy whose stationary distribution is a
given t. The occupancies with this distribution are the solutions of linear equations,

    λ ≥ 0,   Σ_a λ(s,a) = t_s,   Σ_{s',a} p(s|s',a) λ(s',a) = t_s     for every s,

and λ ↦ π_λ turns them into policies. Where there is none we return the Euclidean projection of t
onto the distributions of stationary occupancies, min ½‖η_λ − t‖² over Λ. That distribution is
unique; among the occupancies that have it we return one that uses as many pairs as possible (the
interior point's central one), so that its policy has no more recurrent classes than it must.

*The proof.* With r = η − t and g = ⟨r, η⟩ − min_{λ∈Λ} ⟨r, η_λ⟩, one linear problem,

    ‖η − η*‖² ≤ 2g   and   ‖η* − t‖ ≥ ‖r‖ − g/‖r‖,

by the convexity of the square and by the separating hyperplane ⟨r, ·⟩. The second one proves, where
it is positive, that *no* policy has the distribution t.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog, nnls

from sojourn.errors import ArgumentError, InfeasibleFloor, SolverFailure
from sojourn.model import MDP, Policy, check_model, distribution
from sojourn.solvers.interior_point import uniform_occupancy
from sojourn.solvers.linear_algebra import Flow, choose_backend
from sojourn.solvers.linear_oracle import LinearOracle, Status, count_classes
from sojourn.solvers.linear_oracle_large import interior_quadratic, stationary_again

Floats = NDArray[np.float64]

EXACT = 1e-9
"""An ℓ₂ distance up to which the target counts as met: user's numbers have some ten digits."""

SMALL = 400
"""States up to which dense least squares are used to remove the last rounding."""

TINY = 60
"""States up to which non-negative least squares are tried, the last resort."""


class Match(Enum):
    """Whether a policy has the wanted distribution."""

    EXACT = "exact: the policy has the distribution that was asked for"
    CLOSEST = "no policy has this distribution (proved); this one has the closest that is possible"
    ROUNDING = (
        "the closest that was found; whether the target itself is possible is within rounding"
    )

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class SteadyState:
    """The occupancy whose distribution is closest to ``target``, and the proof."""

    mdp: MDP
    target: Floats
    occupancy: Floats
    distance: float
    """‖distribution − target‖₂."""
    at_least: float
    """A proved lower bound of the distance of *every* stationary distribution from the target."""
    recurrent_classes: int
    """More than one: which of them a walk ends up in depends on its start, and only the mixture
    of their distributions is the one given here."""

    @property
    def exact(self) -> bool:
        """Whether the target is met (up to :data:`EXACT`)."""
        return self.distance <= EXACT

    @property
    def status(self) -> Match:
        if self.exact:
            return Match.EXACT
        return Match.CLOSEST if self.at_least > 0 else Match.ROUNDING

    @cached_property
    def distribution(self) -> Floats:
        return self.mdp.state_sums(self.occupancy)

    @cached_property
    def policy(self) -> Policy:
        """π_λ, completed in unvisited states so that it leads to the visited ones."""
        return Policy.from_occupancy(self.mdp, self.occupancy)

    def __repr__(self) -> str:
        return f"SteadyState({self.status}; distance {self.distance:.3g})"


def steady_state_policy(mdp: MDP, distribution: ArrayLike) -> SteadyState:
    """The policy with the given stationary ``distribution``, or with the closest in ℓ₂.

    ``result.exact`` and ``result.status`` say which of the two it is.
    """
    return project_onto_stationary(mdp, distribution)


def project_onto_stationary(
    mdp: MDP, target: ArrayLike, floor: float | ArrayLike = 0.0
) -> SteadyState:
    """The stationary occupancy with η_λ ≥ floor whose distribution is closest to ``target``.

    Here ``floor`` bounds the distribution itself, as in 𝒫₁ of FMH: there is *no* factor 2. It
    may be one number or one per state.
    """
    check_model(mdp)
    n = mdp.n_states
    t = distribution(target, n, "the target distribution")
    lower = _lower(floor, n)
    oracle = LinearOracle(mdp, lower)
    if lower.any() and oracle.solve(np.zeros(n)).status is Status.INFEASIBLE:
        largest = oracle.scale[0] * float(lower.max())
        raise InfeasibleFloor(
            f"no stationary occupancy gives every state at least its floor (up to "
            f"{lower.max():.6g})",
            f"the largest feasible multiple of it goes up to {largest:.6g}",
            largest=largest,
        )
    best: SteadyState | None = None
    # One after the other, until one is proved: the interior point finds the central occupancy,
    # the others have fewer requirements.
    for method in (_without_choice, _by_interior_point, _by_general_solver, _on_target):
        candidate = method(oracle, t)
        found = None if candidate is None else _judge(oracle, t, candidate)
        if found is not None and (best is None or found.distance < best.distance):
            best = found
        if best is not None and best.distance - best.at_least <= max(1e-13, 1e-6 * best.distance):
            break
    if best is None:
        raise SolverFailure(
            "the closest stationary distribution was not found",
            "are there moves with probabilities far below 1e-10?",
        )
    return best


def _judge(oracle: LinearOracle, t: Floats, x: Floats) -> SteadyState | None:
    """A candidate, polished, with its proof; None if it misses the bounds."""
    mdp = oracle.mdp
    x = _polished(mdp, x, t, oracle.lower)
    # An imbalance would make any target look possible.
    if np.abs(mdp.flow_residual(x)).max() > 1e-14:
        x = stationary_again(mdp, x)
    eta = mdp.state_sums(x)
    if (eta < oracle.lower - 1e-8).any():
        return None
    r = eta - t
    distance = float(np.linalg.norm(r))
    at_least = 0.0
    if distance > EXACT:
        gap = max(float(r @ eta) - oracle.solve(r).bound, 0.0)
        at_least = max(distance - gap / distance, 0.0)
    return SteadyState(mdp, t, x, distance, at_least, count_classes(mdp, x))


def _without_choice(oracle: LinearOracle, t: Floats) -> Floats | None:
    """With one action per state there is one occupancy, and elimination loses no digits of it."""
    mdp = oracle.mdp
    if not oracle.whole or mdp.n_pairs != mdp.n_states or mdp.n_states > SMALL:
        return None
    return uniform_occupancy(Flow(mdp.transitions, mdp.pair_start))


def _by_interior_point(oracle: LinearOracle, t: Floats) -> Floats | None:
    mdp, n = oracle.mdp, oracle.mdp.n_states
    if not oracle.whole or n == 1:
        return None
    flow = Flow(mdp.transitions, mdp.pair_start)
    found = interior_quadratic(
        flow, choose_backend(flow), np.zeros(mdp.n_pairs), oracle.lower, np.full(n, float(n)), t,
        tolerance=1e-18,
    )  # fmt: skip
    return found.occupancy if np.isfinite(found.occupancy).all() else None


def _on_target(oracle: LinearOracle, t: Floats) -> Floats | None:
    """An occupancy exactly on the target, if there is one, on as many pairs as possible.

    Occupancies with a distribution in proportion to t can be added up, so one of them is positive
    wherever any is: maximise Σ u over 0 ≤ u ≤ 1, u ≤ y, where y is such an occupancy.
    """
    mdp, n = oracle.mdp, oracle.mdp.n_states
    if n > SMALL or (t < oracle.lower).any():
        return None
    # Where nothing may be, nothing may come from or go to: left to tolerances, it would.
    used = np.flatnonzero((t > 0)[mdp.pair_state] & (mdp.transitions @ (t == 0) == 0))
    if used.size == 0:
        return None
    m = used.size
    collect = sp.csr_matrix((np.ones(m), (mdp.pair_state[used], np.arange(m))), shape=(n, m))
    cone: Any = sp.bmat(
        [
            [collect - mdp.transitions[used].T, None],
            [collect, -sp.csr_matrix(t[:, None])],
        ],
        format="csr",
    )
    # SciPy's stubs don't know that the constraints may be sparse.
    solve: Any = linprog
    answer = solve(
        np.r_[-np.ones(m), np.zeros(m + 1)],
        A_eq=sp.hstack([cone[:, :m], cone], format="csr"),
        b_eq=np.zeros(2 * n),
        bounds=[(0, 1)] * m + [(0, None)] * (m + 1),
        method="highs",
    )
    A, b = _equations(mdp, t)
    if answer.status == 0:
        both: Floats = np.asarray(answer.x)
        x = np.zeros(mdp.n_pairs)
        x[used] = both[:m] + both[m : 2 * m]
        x[x < 0.5] = 0.0
        fitted = _fit(A, b, x / x.sum()) if x.any() else None
        if fitted is not None:
            return fitted
    if n > TINY:
        return None
    # The tolerances of a linear programme hide probabilities below 1e-9; this has none.
    x, residual = nnls(A, b)
    return x / x.sum() if residual < 1e-13 else None


def _by_general_solver(oracle: LinearOracle, t: Floats) -> Floats | None:
    """The same quadratic programme by Clarabel, with r = η − t as variables of its own."""
    mdp, lower = oracle.mdp, oracle.lower
    n, columns = mdp.n_states, np.flatnonzero(oracle.pairs)
    m = columns.size
    collect = sp.csr_matrix((np.ones(m), (mdp.pair_state[columns], np.arange(m))), shape=(n, m))
    balance = collect - mdp.transitions[columns].T
    A = sp.bmat(
        [
            [balance, None],
            [sp.csr_matrix(np.ones((1, m))), None],
            [collect, -sp.identity(n)],
            [-sp.identity(m), None],
            [-collect, None],
        ],
        format="csc",
    )
    b = np.concatenate([np.zeros(n), [1.0], t, np.zeros(m), -lower])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    solver = clarabel.DefaultSolver(
        sp.block_diag([sp.csc_matrix((m, m)), sp.identity(n)], format="csc"),
        np.zeros(m + n), A, b,
        [clarabel.ZeroConeT(2 * n + 1), clarabel.NonnegativeConeT(m + n)], settings,
    )  # fmt: skip
    x = np.zeros(mdp.n_pairs)
    x[columns] = np.maximum(np.asarray(solver.solve().x)[:m], 0.0)
    x[x < 1e-9 * mdp.to_pairs(mdp.state_sums(x))] = 0.0
    return stationary_again(mdp, x) if x.sum() > 0 else None


def _polished(mdp: MDP, x: Floats, t: Floats, lower: Floats) -> Floats:
    """Without the traces that an interior point leaves on pairs that should not be used, and
    exactly on the target where that is possible."""
    if mdp.n_states > SMALL:
        return x
    eta = mdp.state_sums(x)
    share = x / np.where(eta > 0, eta, 1.0)[mdp.pair_state]
    distance = float(np.linalg.norm(eta - t))
    A, b = _equations(mdp, t)
    if distance < 1e-4 and (t >= lower).all():
        stays = (t > 0)[mdp.pair_state] & (mdp.transitions @ (t == 0) == 0)
        for trace in (1e-9, 1e-7, 1e-5, 1e-3):
            fitted = _fit(A, b, np.where(stays & (share > trace), x, 0.0))
            if fitted is not None:
                return fitted
    n = mdp.n_states
    A, b = np.vstack([A[:n], np.ones(mdp.n_pairs)]), np.append(b[:n], 1.0)
    clean = _fit(A, b, np.where(share > 1e-9, x, 0.0))
    if clean is not None and np.linalg.norm(mdp.state_sums(clean) - t) <= distance + 1e-12:
        return clean
    return x


def _equations(mdp: MDP, t: Floats) -> tuple[Floats, Floats]:
    """A and b of Ax = b: x is balanced, and its distribution is t."""
    E = np.zeros((mdp.n_states, mdp.n_pairs))
    E[mdp.pair_state, np.arange(mdp.n_pairs)] = 1.0
    balance = E - mdp.transitions.toarray().T
    return np.vstack([balance, E]), np.concatenate([np.zeros(mdp.n_states), t])


def _fit(A: Floats, b: Floats, x: Floats) -> Floats | None:
    """Solve Ax = b near x with the smallest relative changes, or None."""
    for _ in range(4):
        missing = b - A @ x
        if np.abs(missing).max() < 1e-15:
            break
        change = np.linalg.lstsq(A * x, missing, rcond=1e-13)[0]
        if not (np.abs(change) < 0.5).all():
            return None
        x = x * (1.0 + change)
    return x if np.abs(b - A @ x).max() < 1e-14 else None


def _lower(floor: float | ArrayLike, n: int) -> Floats:
    lower = np.array(floor, dtype=float)
    if lower.ndim == 0:
        lower = np.full(n, float(lower))
    if lower.shape != (n,) or not (np.isfinite(lower) & (lower >= 0)).all():
        raise ArgumentError(
            f"the floor {floor!r} is not a number >= 0, nor one per state",
            "it bounds the distribution of every state from below",
        )
    return lower
