"""What an asymptotic plan does not say: how long its chain takes to mix.

𝓛 is what is left after infinitely many steps. Before, a walk follows the plan's chain, and where
that crosses from one part of the world to another seldom, the time spent in each part is a matter
of luck for a long while. What rules the accuracy of averages over time is the eigenvalue of the
chain nearest to 1 (other than 1): they settle after about τ = 1/|1 − ξ| steps. An eigenvalue near
−1 makes the slem large but does no harm: it makes visits more regular.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, eigs

from sojourn.chains.linear import is_wide
from sojourn.model import Policy

DENSE = 300
SETTLED = 10.0
"""Averages over fewer than this many relaxation times are mostly luck."""
REMEDY = (
    "faster_mixing_plan trades a little loss for faster mixing, budget_plan finds the best "
    "stationary policy for a budget, and the strategy Lookahead replans as it goes"
)


def mixing_notes(
    policy: Policy, occupancy: NDArray[np.float64], budget: int | None
) -> tuple[str, ...]:
    """Sentences for the reader of a plan; none where there is nothing to say."""
    eta = policy.mdp.state_sums(occupancy)
    visited = np.flatnonzero(eta > 0)
    P = policy.transition_matrix()[visited][:, visited].tocsr()
    # Moves rarer than this are not part of the plan but of how it was computed.
    rare = 1e-9 if budget is None else min(1e-9, 0.01 / budget)
    share = sp.diags(eta[visited]) @ P
    frequent = share.tocsr()
    frequent.data[frequent.data < rare] = 0.0
    frequent.eliminate_zeros()
    count, _ = sp.csgraph.connected_components(frequent, connection="strong")
    notes = []
    if count > 1:
        notes.append(
            f"the policy is all but multichain: {count} groups of states are joined only by moves "
            f"that make up less than {rare:.0e} of all steps, so one walk hardly leaves the "
            f"group where it is; {REMEDY}"
        )
    elif budget is not None:
        # The same eigenvalues, of a matrix that is symmetric if the chain is reversible: with a
        # steady drift those of P itself would be lost in rounding.
        root = np.sqrt(eta[visited])
        tau = relaxation_time(sp.csr_matrix(sp.diags(root) @ P @ sp.diags(1.0 / root)))
        if tau is not None and budget < SETTLED * tau:
            notes.append(
                f"the policy mixes slowly: averages settle after about {tau:.3g} steps, so with a "
                f"budget of {budget} the asymptotic loss says little; {REMEDY}"
            )
    return tuple(notes)


def relaxation_time(P: sp.csr_matrix) -> float | None:
    """1/|1 − ξ| for the eigenvalue ξ ≠ 1 nearest to 1 of an irreducible chain (a little more
    where a large chain mixes within some steps); ``None`` if it can't be computed."""
    n = P.shape[0]
    if n == 1:
        return 0.0
    if n <= DENSE:
        distance = np.abs(1.0 - np.linalg.eigvals(P.toarray()))
        return float(1.0 / max(np.sort(distance)[1], 1e-16))
    nearest = _fast(P)
    # Random graphs are left to products with P: their factors would be all but dense.
    if nearest is None and not is_wide(P):
        nearest = _near(P)
    return None if nearest is None else 1.0 / max(nearest, 1e-16)


def _fast(P: sp.csr_matrix) -> float | None:
    """1 − Re ξ for the eigenvalue furthest to the right, if a walk forgets within some twenty
    steps where it began: |1 − ξ| is not less for any."""
    start = np.random.default_rng(0).random(P.shape[0])
    try:
        found = eigs(
            P, k=2, which="LR", ncv=40, maxiter=50, tol=1e-3, v0=start, return_eigenvectors=False
        )
    except (ArpackError, RuntimeError):
        return None
    gap = 1.0 - float(found.real.min())
    return gap if gap > 0.05 else None


def _near(P: sp.csr_matrix) -> float | None:
    """|1 − ξ| by shift and invert, just beyond 1: the two eigenvalues nearest to it."""
    try:
        found = eigs(P.tocsc(), k=2, sigma=1.0 + 1e-9, return_eigenvectors=False, tol=1e-6)
    except (ArpackError, RuntimeError):
        return None
    return float(np.sort(np.abs(1.0 - found))[1])
