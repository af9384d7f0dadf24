r"""The mean inverse number of visits as an integral, by repeated squaring.

    E[1/(1+V_N)]        = ∫₀¹ E[z^V] dz
    E[1/V_N ; V_N > 0]  = ∫₀¹ (E[z^V] − P(V=0)) / z dz,        E[z^V] = μ₀ᵀ (P D_z)ᴺ 1,

with D_z the identity but for z at the state. All the mass sits within 1/N of z = 1, so
z = 1 − (e^{cx} − 1)/(e^c − 1) with c = log N + 2, and Gauss–Legendre in x. Positive terms only
and log N products of matrices: right for any chain and the choice for millions of moves, where
sequences would be long. It shares nothing with the other two ways but the definition, so it is
what they are tested against.
"""

from __future__ import annotations

import numpy as np

from sojourn.solvers.finite_series import Array


def nodes(moves: int) -> tuple[Array, Array]:
    """z and weights: 1/(1+V) to 1e-12 for every V ≤ moves."""
    c = np.log(max(moves, 1)) + 2.0
    points = int(np.ceil(24 + 4 * c))
    x, weight = np.polynomial.legendre.leggauss(points)
    x = (x + 1) / 2
    scale = -np.expm1(-c)
    return -np.expm1(c * (x - 1)) / scale, weight / 2 * c * np.exp(c * (x - 1)) / scale


def mean_inverse(P: Array, start: Array, moves: int, prior: int) -> tuple[Array, Array]:
    """E[1/T; T>0] and P(no visit) for every state."""
    n = P.shape[0]
    z, weight = nodes(moves)
    z, weight = np.append(z, 0.0), np.append(weight, 0.0)
    mean, unvisited = np.empty(n), np.empty(n)
    for s in range(n):
        power = np.repeat(P[None], z.size, axis=0)
        power[:, :, s] *= z[:, None]
        row = np.repeat(start[None, None], z.size, axis=0)
        left = moves
        while left:
            if left & 1:
                row = row @ power
            left >>= 1
            if left:
                power = power @ power
        moment = row.sum(axis=(1, 2))
        unvisited[s] = moment[-1]
        if prior:
            mean[s] = weight @ moment
        else:
            mean[s] = weight[:-1] @ ((moment[:-1] - moment[-1]) / z[:-1])
    return mean, unvisited
