"""The interior point of :mod:`sojourn.solvers.interior_point`, compiled, for small models.

Same steps, same numbers up to rounding (a test compares them), without the cost of
calling NumPy on arrays of ten entries: some ten microseconds for ten states. It can be called
from other kernels. Only the objectives of the power family (p ≥ 0) are built in.

    §1 scale   §2 certificate   §3 normal equations   §4 Newton step   §5 move   §6 the end
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sojourn.solvers.interior_point import ARRIVED, CENTRING, INSIDE, SHORT, distance
from sojourn.solvers.linear_algebra import (
    Flow,
    U,
    assemble_dense,
    differences,
    scratch_shape,
    solve_blocks,
)

Array = NDArray[np.float64]

LARGEST = 150
"""Up to here the compiled kernel is faster than NumPy with LAPACK (measured)."""

REACHED, LIMIT, STUCK = 0, 1, 2


class SmallModel(NamedTuple):
    """The arrays of a :class:`Flow` that the kernel reads."""

    pair_start: NDArray[np.int64]
    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: Array
    clique_start: NDArray[np.int64]
    clique: NDArray[np.int32]
    offset: NDArray[np.int64]
    blocks: Array

    @classmethod
    def of(cls, flow: Flow) -> SmallModel:
        ptr, columns, offset = flow.cliques
        B = flow.B
        return cls(flow.pair_start, B.indptr, B.indices, B.data, ptr, columns, offset, flow.blocks)


def workspace(n_states: int, n_pairs: int) -> Array:
    """What :func:`solve` wants as ``work``."""
    return np.empty(7 * n_pairs + 12 * n_states + n_states * n_states)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _factor(M, inverse):  # type: ignore[no-untyped-def]
    """M = L Lᵀ in the lower triangle; ``inverse`` gets 1/L_jj. False where M isn't positive."""
    n = U(inverse.size)
    for i in range(n):
        for j in range(i):
            t = M[i, j]
            for k in range(j):
                t -= M[i, k] * M[j, k]
            M[i, j] = t * inverse[j]
        t = M[i, i]
        for k in range(i):
            t -= M[i, k] * M[i, k]
        if not t > 0.0:
            return False
        inverse[i] = 1.0 / math.sqrt(t)
    return True


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _solve(M, inverse, pin, b):  # type: ignore[no-untyped-def]
    """b ← y with M y = b, y = 0 at the pinned state, which takes up what Σ b is short of 0."""
    n = U(inverse.size)
    total = 0.0
    for i in range(n):
        total += b[i]
    b[pin] -= total
    for i in range(n):
        t = b[i]
        for k in range(i):
            t -= M[i, k] * b[k]
        b[i] = t * inverse[i]
    for j in range(n):
        i = n - U(1) - j
        t = b[i] * inverse[i]
        b[i] = t
        for k in range(i):
            b[k] -= M[i, k] * t
    base = b[pin]
    for i in range(n):
        b[i] -= base


@njit(cache=True, nogil=True, error_model="numpy")
def _normal_equations(model, d, q, deviation, local, M, inverse):  # type: ignore[no-untyped-def]
    """§3 Assemble and factorise; returns the pinned state, or -1."""
    shift = 1e-14
    for _ in range(3):
        assemble_dense(
            model.pair_start, model.clique_start, model.clique, model.offset, model.blocks,
            d, q, deviation, local, M,
        )  # fmt: skip
        pin = 0
        for s in range(inverse.size):
            M[s, s] *= 1.0 + shift
            if M[s, s] > M[pin, pin]:
                pin = s
        M[pin, pin] *= 2.0
        if _factor(M, inverse):
            return pin
        shift *= 1e3
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _outflow(model, x, out):  # type: ignore[no-untyped-def]
    """Bᵀx."""
    for s in range(U(out.size)):
        out[s] = 0.0
    for p in range(U(x.size)):
        t = x[p]
        for k in range(U(model.indptr[p]), U(model.indptr[p + U(1)])):
            out[U(model.indices[k])] += model.data[k] * t


@njit(cache=True, nogil=True, error_model="numpy")
def _sums(model, x, out):  # type: ignore[no-untyped-def]
    for s in range(U(out.size)):
        t = 0.0
        for p in range(U(model.pair_start[s]), U(model.pair_start[s + U(1)])):
            t += x[p]
        out[s] = t


@njit(cache=True, nogil=True, error_model="numpy")
def _step_length(v, dv, reach):  # type: ignore[no-untyped-def]
    """The longest step ≤ ``reach`` that keeps v + step·dv ≥ 0."""
    for p in range(U(v.size)):
        if -dv[p] * reach > v[p]:
            reach = -v[p] / dv[p]
    return reach


@njit(cache=True, nogil=True, error_model="numpy")
def _imbalance(out, eta):  # type: ignore[no-untyped-def]
    worst = 0.0
    for s in range(U(eta.size)):
        # Not only max: a NaN must not pass for balance.
        if not abs(out[s]) <= worst * eta[s]:
            worst = abs(out[s]) / eta[s]
    return worst


@njit(cache=True, nogil=True, error_model="numpy")
def _newton(model, M, inverse, pin, d, q, eta, out, target, r, rr, dx, dh, miss):  # type: ignore[no-untyped-def]
    """§4 Δx and Δh for the right-hand side r, with iterative refinement of the flow balance."""
    n = U(eta.size)
    solve_blocks(model.pair_start, d, q, r, dx)
    for s in range(n):
        dh[s] = 0.0
    before = np.inf
    for _ in range(6):
        _outflow(model, dx, miss)
        for s in range(n):
            miss[s] += out[s]
        size = _imbalance(miss, eta)
        if size < target or not size < 0.5 * before:
            break
        before = size
        _solve(M, inverse, pin, miss)
        for s in range(n):
            dh[s] += miss[s]
        differences(model.pair_start, model.indptr, model.indices, model.data, dh, rr)
        for p in range(U(r.size)):
            rr[p] = r[p] - rr[p]
        solve_blocks(model.pair_start, d, q, rr, dx)


@njit(cache=True, nogil=True, error_model="numpy")
def _gap(model, weight, root, power, eta, total, Bh, cost):  # type: ignore[no-untyped-def]
    """§2 The proved gap of η/total, with the multiplier ρ = 1 (or the least that is allowed)."""
    n = eta.size
    rho = 1.0
    for p in range(Bh.size):
        if -Bh[p] > rho:
            rho = -Bh[p]
    bound = 0.0
    everything = 0.0
    for s in range(n):
        if weight[s] == 0.0:
            continue
        m = Bh[model.pair_start[s]]
        for p in range(model.pair_start[s] + 1, model.pair_start[s + 1]):
            if Bh[p] < m:
                m = Bh[p]
        c = max(rho + m, 0.0)
        if power == 1.0:
            bound += root[s] * math.sqrt(c)
        elif power > 0.0:
            bound += root[s] * c ** (power / (power + 1.0))
        else:
            bound += weight[s] * math.log(max(rho * weight[s] * total, 1e-300) / (c * eta[s]))
            everything += weight[s]
    if power == 0.0:
        return max(bound / everything - math.log(everything), 0.0)
    if power == 1.0:
        value = cost * total
        bound = bound * bound / rho
    else:
        value = cost ** (1.0 / power) * total
        bound = bound ** ((power + 1.0) / power) / rho
    return max(1.0 - bound / value, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _balance(model, M, inverse, pin, d, q, eta, out, x, dx, rr, miss, deviation, local):  # type: ignore[no-untyped-def]
    """§6 Flow balance to rounding, with the last system at hand or else in the metric of x.

    ``eta`` and ``out`` belong to x on return.
    """
    n = U(eta.size)
    before = np.inf
    usable = pin >= 0
    own = False
    for _ in range(12):
        _sums(model, x, eta)
        _outflow(model, x, out)
        imbalance = _imbalance(out, eta)
        if imbalance < 4e-16:
            return
        slow = not imbalance <= 0.5 * before
        if slow or not usable or imbalance > 1e-6:
            if own:
                if slow:
                    return
            else:
                for p in range(U(x.size)):
                    d[p] = x[p]
                for s in range(n):
                    q[s] = 0.0
                pin = _normal_equations(model, d, q, deviation, local, M, inverse)
                if pin < 0:
                    return
                own = True
        before = imbalance
        usable = True
        for s in range(n):
            miss[s] = out[s]
        _solve(M, inverse, pin, miss)
        differences(model.pair_start, model.indptr, model.indices, model.data, miss, rr)
        solve_blocks(model.pair_start, d, q, rr, dx)
        for p in range(U(x.size)):
            if not dx[p] < 0.5 * x[p]:
                usable = False
        if usable:
            for p in range(U(x.size)):
                x[p] -= dx[p]
        elif own:
            return


@njit(cache=True, nogil=True, error_model="numpy")
def solve(model, weight, power, tolerance, max_iterations, x, h, work):  # type: ignore[no-untyped-def]
    """Minimise Σ w η^{−p}/p (−Σ w log η for p = 0); x (Σ x = 1) and h are written.

    ``weight`` is in the scale of :class:`PowerCone`. Returns (iterations, gap, how it ended).
    """
    n = h.size
    n_pairs = x.size
    at = 0
    z = work[at : at + n_pairs]
    at += n_pairs
    dx = work[at : at + n_pairs]
    at += n_pairs
    dz = work[at : at + n_pairs]
    at += n_pairs
    d = work[at : at + n_pairs]
    at += n_pairs
    r = work[at : at + n_pairs]
    at += n_pairs
    rr = work[at : at + n_pairs]
    at += n_pairs
    Bh = work[at : at + n_pairs]
    at += n_pairs
    eta = work[at : at + n]
    at += n
    q = work[at : at + n]
    at += n
    slope = work[at : at + n]
    at += n
    out = work[at : at + n]
    at += n
    miss = work[at : at + n]
    at += n
    dh = work[at : at + n]
    at += n
    inverse = work[at : at + n]
    at += n
    root = work[at : at + n]
    at += n
    M = work[at : at + n * n].reshape((n, n))
    actions, width = scratch_shape(model.pair_start, model.clique_start)
    deviation = np.empty((actions + 1, width))
    local = np.empty((width, width))

    for s in range(n):
        h[s] = 0.0
        lo = model.pair_start[s]
        hi = model.pair_start[s + 1]
        for p in range(lo, hi):
            x[p] = 1.0 / (hi - lo)
        root[s] = math.sqrt(weight[s]) if power == 1.0 else weight[s] ** (1.0 / (power + 1.0))
    for p in range(n_pairs):
        z[p] = 1.0
        Bh[p] = 0.0

    iteration = 0
    since_best = 0
    best = np.inf
    gap = np.inf
    ended = LIMIT
    centring = 0
    refused = 0
    pin = -1
    while True:
        # -- §1 where we are, and the best multiple of it
        _sums(model, x, eta)
        _outflow(model, x, out)
        total = 0.0
        cost = 0.0
        for s in range(n):
            total += eta[s]
            if power == 1.0:
                cost += weight[s] / eta[s]
            else:
                cost += weight[s] * eta[s] ** -power
        imbalance = _imbalance(out, eta)
        scale = math.sqrt(cost / total) if power == 1.0 else (cost / total) ** (1 / (power + 1))
        if (iteration == 0 or imbalance < 0.5) and centring == 0 and not 0.5 < scale < 2.0:
            for p in range(n_pairs):
                x[p] *= scale
            for s in range(n):
                eta[s] *= scale
                out[s] *= scale
            total *= scale
            cost *= scale**-power
        mu = 0.0
        for p in range(n_pairs):
            mu += x[p] * z[p]
        mu /= n_pairs
        # -- §2
        if centring == 0:
            gap = _gap(model, weight, root, power, eta, total, Bh, cost)
            if not gap >= 0.0:
                ended = STUCK
                break
            if imbalance <= 1e-3 and gap < np.inf:
                left = distance(gap)
                if left < best:
                    since_best = 0 if left < 0.9 * best else since_best + 1
                    best = left
                else:
                    since_best += 1
                if gap <= tolerance:
                    centring = 1
            if centring == 0 and (iteration >= max_iterations or since_best > 12):
                break
        if centring > CENTRING:
            # -- §6 on the central path: balance
            _balance(model, M, inverse, pin, d, q, eta, out, x, dx, rr, miss, deviation, local)
            total = 0.0
            cost = 0.0
            for s in range(n):
                total += eta[s]
                cost += weight[s] * eta[s] ** -power
            gap = _gap(model, weight, root, power, eta, total, Bh, cost)
            if gap <= tolerance and _imbalance(out, eta) < 1e-12:
                ended = REACHED
                break
            # The balance has moved η: go on from here, further down the path.
            refused += 1
            centring = 0
            iteration += 1
            if refused == 3:
                break
            continue
        # What a solution leaves out the next iteration makes good, as long as it is little beside
        # μ; and x never moves along the predictor's.
        fine = max(1e-6 * min(mu, 1.0), 1e-13)
        rough = max(1e-3 * min(mu, 1.0), 1e-13)
        # -- §3
        for s in range(n):
            if power == 1.0:
                t = weight[s] / (eta[s] * eta[s])
            else:
                t = weight[s] * eta[s] ** -(power + 1.0)
            slope[s] = -t
            q[s] = (power + 1.0) * t / eta[s]
        for p in range(n_pairs):
            d[p] = x[p] / z[p]
        pin = _normal_equations(model, d, q, deviation, local, M, inverse)
        if pin < 0:
            ended = STUCK
            break
        if centring > 0:
            # -- §6 to the central path at this μ
            for s in range(n):
                for p in range(model.pair_start[s], model.pair_start[s + 1]):
                    r[p] = mu / x[p] - 1.0 - slope[s] - Bh[p]
            _newton(model, M, inverse, pin, d, q, eta, out, fine, r, rr, dx, dh, miss)
            moved = 0.0
            for p in range(n_pairs):
                dz[p] = mu / x[p] - z[p] - z[p] * dx[p] / x[p]
                moved += abs(dx[p])
            reach = _step_length(z, dz, _step_length(x, dx, 1.0))
            arrives = reach == 1.0 and moved < ARRIVED * total
            centring = CENTRING + 1 if arrives else centring + 1
            step = INSIDE * reach
        else:
            # -- §4 predictor
            for s in range(n):
                for p in range(model.pair_start[s], model.pair_start[s + 1]):
                    # stationarity z − 1 − φ′ − Bh, plus complementarity −xz over x
                    r[p] = -1.0 - slope[s] - Bh[p]
            _newton(model, M, inverse, pin, d, q, eta, out, rough, r, rr, dx, dh, miss)
            for p in range(n_pairs):
                dz[p] = -z[p] - z[p] * dx[p] / x[p]
            reach = _step_length(z, dz, _step_length(x, dx, 1.0))
            after = 0.0
            for p in range(n_pairs):
                after += (x[p] + reach * dx[p]) * (z[p] + reach * dz[p])
            after /= n_pairs
            depth = 0.1 ** (1 + since_best // 3 + refused)
            floor = depth * tolerance * total / n_pairs
            target = max(max((after / mu) ** 3, 1e-4) * mu, min(floor, mu))
            # -- §4 corrector
            for p in range(n_pairs):
                d_ = (target - dx[p] * dz[p]) / x[p]
                r[p] += d_
                dz[p] = d_ - z[p]
            _newton(model, M, inverse, pin, d, q, eta, out, fine, r, rr, dx, dh, miss)
            for p in range(n_pairs):
                dz[p] -= z[p] * dx[p] / x[p]
            reach = _step_length(z, dz, _step_length(x, dx, 1.0))
            step = reach * max(0.99, 1.0 - max(mu, SHORT))
        # -- §5
        _sums(model, dx, miss)
        shrink = 0.0
        for s in range(n):
            if -miss[s] > shrink * eta[s]:
                shrink = -miss[s] / eta[s]
        if shrink * step > 0.9:
            step = 0.9 / shrink
        if not step > 1e-10:
            if centring > 0:
                centring = CENTRING + 1
                continue
            ended = STUCK
            break
        top = 0
        for s in range(n):
            h[s] += step * dh[s]
            if eta[s] > eta[top]:
                top = s
        for p in range(n_pairs):
            x[p] += step * dx[p]
            z[p] += step * dz[p]
        base = h[top]
        for s in range(n):
            h[s] -= base
        differences(model.pair_start, model.indptr, model.indices, model.data, h, Bh)
        iteration += 1

    if ended != REACHED:
        _balance(model, M, inverse, pin, d, q, eta, out, x, dx, rr, miss, deviation, local)
    total = 0.0
    for p in range(n_pairs):
        total += x[p]
    for p in range(n_pairs):
        x[p] /= total
    return iteration, gap, ended
