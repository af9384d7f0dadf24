"""The linear systems of the interior point: M y = r with one row per state.

An interior point on the flow polytope {x ≥ 0, Bᵀx = 0} meets, at every iteration, the matrix

    M = Bᵀ H⁻¹ B,   H = diag(1/d) + E diag(q) Eᵀ,

with B = E − P (a row e_s − p_sa per pair), d > 0 one number per pair (x over its multiplier)
and q ≥ 0 one per state (the curvature of the objective). H is one block per state, a diagonal
plus a rank-one matrix. The textbook inverse of such a block (Sherman–Morrison) subtracts nearly
equal matrices as soon as one d dominates, which near the optimum it always does, and the
iteration then diverges. We never subtract: with the weighted mean and the deviations

    D = Σ_a d_a,   ū = Σ_a (d_a/D) u_a,   ũ_a = u_a − ū,   u_a = e_s − p_sa,

    M = Σ_s [ Σ_a d_a ũ_a ũ_aᵀ + (D/(1 + qD)) ū ūᵀ ],        (H⁻¹r)_a = d_a ( r̃_a + r̄/(1 + qD) ),

a sum of positive terms. Deviations are formed against the dominating action, so that they are
small where they should be small. q = 0 (a state that doesn't matter) needs no special case.

M·1 = 0, so y is determined up to a constant. The state with the largest diagonal entry is pinned
(y = 0 there) and takes up what Σ r is short of 0. Any other normalisation, such as Σ y = 0, would
subtract the huge entries of hardly visited states from those that matter.

:class:`Flow` holds B and what follows from its pattern; the three :class:`Backend`\\ s factorise:
dense (LAPACK), sparse Cholesky (QDLDL, or CHOLMOD where cvxopt is installed), and none at all
(preconditioned conjugate gradients).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Flow:
    """The flow balance Bᵀx = 0 of a model, prepared for repeated use."""

    def __init__(self, transitions: Any, pair_start: Index) -> None:
        self.n_pairs, self.n_states = transitions.shape
        self.pair_start = np.asarray(pair_start, dtype=np.int64)
        self.pair_state = np.repeat(
            np.arange(self.n_states, dtype=np.int64), np.diff(self.pair_start)
        )
        self.B: sp.csr_matrix = _balance_matrix(transitions, self.pair_state)
        self.BT: sp.csr_matrix = self.B.T.tocsr()

    def residual(self, x: Array) -> Array:
        """Bᵀx, outflow minus inflow of each state."""
        return self.BT @ x

    def differences(self, h: Array) -> Array:
        """B h, by how much the value drops in one move of each pair."""
        return self.B @ h

    def sums(self, x: Array) -> Array:
        """Eᵀx."""
        return np.add.reduceat(x, self.pair_start[:-1])

    def spread(self, v: Array) -> Array:
        """E v."""
        return v[self.pair_state]

    @cached_property
    def cliques(self) -> tuple[Index, NDArray[np.int32], Index]:
        """For each state the columns that its rows of B touch (pointer, sorted columns), and
        where its dense local block of rows begins."""
        ptr, columns = _cliques(self.n_states, self.pair_start, self.B.indptr, self.B.indices)
        return (
            ptr,
            columns,
            np.concatenate(([0], np.cumsum(np.diff(ptr) * np.diff(self.pair_start)))),
        )

    @cached_property
    def blocks(self) -> Array:
        """The rows u_a of each state as a dense block over its clique, one after the other."""
        ptr, columns, offset = self.cliques
        out = np.zeros(int(offset[-1]))
        _fill_blocks(
            self.pair_start, self.B.indptr, self.B.indices, self.B.data, ptr, columns, offset, out
        )
        return out

    @cached_property
    def pattern(self) -> tuple[Index, NDArray[np.int32]]:
        """The pattern of M, upper triangle by rows (= lower triangle by columns)."""
        ptr, columns, _ = self.cliques
        return _pattern(self.n_states, ptr, columns)

    @property
    def dense(self) -> Array:
        return self.B.toarray()


def _balance_matrix(transitions: Any, pair_state: Index) -> sp.csr_matrix:
    """B = E − P with its diagonal entry as the *sum* of the chances to leave: 1 − p(s|s,a) loses
    all digits where a state is nearly absorbing."""
    P = transitions.tocsr()
    n_pairs, n_states = P.shape
    row = np.repeat(np.arange(n_pairs), np.diff(P.indptr))
    stays = P.indices == pair_state[row]
    moves = np.where(stays, 0.0, P.data)
    leaving = np.bincount(row, moves, minlength=n_pairs)
    off = sp.csr_matrix((-moves, P.indices, P.indptr), shape=P.shape, copy=True)
    diagonal = sp.csr_matrix(
        (leaving, pair_state, np.arange(n_pairs + 1)), shape=P.shape, copy=True
    )
    B = (off + diagonal).tocsr()
    B.eliminate_zeros()
    B.sort_indices()
    return B


# -- kernels ----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _cliques(n_states, pair_start, indptr, indices):
    mark = np.full(n_states, -1, np.int64)
    ptr = np.zeros(n_states + 1, np.int64)
    for s in range(n_states):
        mark[s] = s
        count = 1
        for k in range(indptr[pair_start[s]], indptr[pair_start[s + 1]]):
            j = indices[k]
            if mark[j] != s:
                mark[j] = s
                count += 1
        ptr[s + 1] = ptr[s] + count
    columns = np.empty(ptr[n_states], np.int32)
    mark[:] = -1
    for s in range(n_states):
        mark[s] = s
        t = ptr[s]
        columns[t] = s
        t += 1
        for k in range(indptr[pair_start[s]], indptr[pair_start[s + 1]]):
            j = indices[k]
            if mark[j] != s:
                mark[j] = s
                columns[t] = j
                t += 1
        columns[ptr[s] : t].sort()
    return ptr, columns


@njit(cache=True, nogil=True)
def _fill_blocks(pair_start, indptr, indices, data, ptr, columns, offset, out):
    n_states = pair_start.size - 1
    place = np.zeros(n_states, np.int64)
    for s in range(n_states):
        m = ptr[s + 1] - ptr[s]
        for k in range(m):
            place[columns[ptr[s] + k]] = k
        for p in range(pair_start[s], pair_start[s + 1]):
            base = offset[s] + (p - pair_start[s]) * m
            for k in range(indptr[p], indptr[p + 1]):
                out[base + place[indices[k]]] = data[k]


@njit(cache=True, nogil=True)
def _pattern(n_states, ptr, columns):
    """Union over the states of their cliques squared, upper triangle, rows sorted."""
    count = np.zeros(n_states + 1, np.int64)
    for t in range(columns.size):
        count[columns[t] + 1] += 1
    back = np.cumsum(count)
    fill = back[:-1].copy()
    owner = np.empty(columns.size, np.int32)
    for s in range(n_states):
        for t in range(ptr[s], ptr[s + 1]):
            owner[fill[columns[t]]] = s
            fill[columns[t]] += 1
    mark = np.full(n_states, -1, np.int64)
    start = np.zeros(n_states + 1, np.int64)
    for i in range(n_states):
        c = 0
        for u in range(back[i], back[i + 1]):
            s = owner[u]
            for t in range(ptr[s], ptr[s + 1]):
                j = columns[t]
                if j >= i and mark[j] != i:
                    mark[j] = i
                    c += 1
        start[i + 1] = start[i] + c
    index = np.empty(start[n_states], np.int32)
    mark[:] = -1
    for i in range(n_states):
        p = start[i]
        for u in range(back[i], back[i + 1]):
            s = owner[u]
            for t in range(ptr[s], ptr[s + 1]):
                j = columns[t]
                if j >= i and mark[j] != i:
                    mark[j] = i
                    index[p] = j
                    p += 1
        index[start[i] : p].sort()
    return start, index


@njit(cache=True, nogil=True)
def _mean_and_deviations(d, lo, hi, base, m, blocks, mean, deviation):
    """ū and ũ_a of one state (see the module's docstring); returns D."""
    total = 0.0
    top = lo
    for p in range(lo, hi):
        total += d[p]
        if d[p] > d[top]:
            top = p
    ref = base + (top - lo) * m
    for k in range(m):
        shift = 0.0
        for p in range(lo, hi):
            if p != top:
                shift += d[p] / total * (blocks[base + (p - lo) * m + k] - blocks[ref + k])
        mean[k] = blocks[ref + k] + shift
        for p in range(lo, hi):
            deviation[p - lo, k] = (
                -shift if p == top else blocks[base + (p - lo) * m + k] - blocks[ref + k] - shift
            )
    return total


@njit(cache=True, nogil=True)
def assemble(pair_start, ptr, columns, offset, blocks, start, index, d, q, values):
    """The upper triangle of M into ``values`` (pattern ``start``, ``index``)."""
    values[:] = 0.0
    n_states = pair_start.size - 1
    widest = 0
    most = 0
    for s in range(n_states):
        widest = max(widest, ptr[s + 1] - ptr[s])
        most = max(most, pair_start[s + 1] - pair_start[s])
    mean = np.empty(widest)
    deviation = np.empty((most, widest))
    local = np.empty((widest, widest))
    for s in range(n_states):
        lo = pair_start[s]
        hi = pair_start[s + 1]
        m = ptr[s + 1] - ptr[s]
        total = _mean_and_deviations(d, lo, hi, offset[s], m, blocks, mean, deviation)
        c = total / (1.0 + q[s] * total)
        for i in range(m):
            f = c * mean[i]
            for k in range(i, m):
                local[i, k] = f * mean[k]
        for p in range(lo, hi):
            for i in range(m):
                f = d[p] * deviation[p - lo, i]
                if f != 0.0:
                    for k in range(i, m):
                        local[i, k] += f * deviation[p - lo, k]
        for i in range(m):
            row = columns[ptr[s] + i]
            at = start[row]
            end = start[row + 1]
            for k in range(i, m):
                j = columns[ptr[s] + k]
                if m > 12:
                    at += np.searchsorted(index[at:end], j)
                else:
                    while index[at] != j:
                        at += 1
                values[at] += local[i, k]


@njit(cache=True, nogil=True)
def solve_blocks(pair_start, d, q, r, out):
    """H⁻¹ r."""
    for s in range(pair_start.size - 1):
        lo = pair_start[s]
        hi = pair_start[s + 1]
        total = 0.0
        top = lo
        for p in range(lo, hi):
            total += d[p]
            if d[p] > d[top]:
                top = p
        shift = 0.0
        for p in range(lo, hi):
            if p != top:
                shift += d[p] / total * (r[p] - r[top])
        mean = (r[top] + shift) / (1.0 + q[s] * total)
        for p in range(lo, hi):
            out[p] = d[p] * ((r[p] - r[top] - shift if p != top else -shift) + mean)


# -- backends ---------------------------------------------------------------------------------


class Backend(Protocol):
    """Solves M y = r for changing d and q."""

    name: str

    def factor(self, d: Array, q: Array) -> None:
        """Take new d and q; LinAlgError where rounding has made M indefinite."""

    def solve(self, r: Array) -> Array:
        """y with M y = r and y = 0 at the pinned state."""


class _Direct:
    """What direct methods share: the assembled upper triangle, the pinned state, a retry."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.start, self.index = flow.pattern
        self.values = np.empty(self.index.size)
        self.pin = 0

    def factor(self, d: Array, q: Array) -> None:
        flow = self.flow
        ptr, columns, offset = flow.cliques
        assemble(flow.pair_start, ptr, columns, offset, flow.blocks, self.start, self.index,
                 d, q, self.values)  # fmt: skip
        diagonal = self.start[:-1]  # the first entry of every row
        self.pin = int(np.argmax(self.values[diagonal]))
        self.values[diagonal[self.pin]] *= 2.0
        for shift in (1e-14, 1e-14, 1e-11):
            self.values[diagonal] *= 1.0 + shift
            if self._factor():
                return
        raise np.linalg.LinAlgError("the normal equations are not positive definite")

    def solve(self, r: Array) -> Array:
        right = r.copy()
        right[self.pin] -= right.sum()
        y = self._solve(right)
        return y - y[self.pin]

    def _factor(self) -> bool:
        raise NotImplementedError

    def _solve(self, r: Array) -> Array:
        raise NotImplementedError


class DenseCholesky(_Direct):
    """LAPACK on the S × S matrix."""

    name = "dense Cholesky (LAPACK)"

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._row = np.repeat(np.arange(flow.n_states), np.diff(self.start))

    def _factor(self) -> bool:
        M = np.zeros((self.flow.n_states, self.flow.n_states))
        M[self._row, self.index] = self.values
        # The upper triangle by rows is the lower one by columns, which is what LAPACK wants.
        self._triangle, info = sla.lapack.dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        return bool(info == 0)

    def _solve(self, r: Array) -> Array:
        return sla.lapack.dpotrs(self._triangle, r, lower=1)[0]


class SparseCholesky(_Direct):
    """QDLDL: sparse LDLᵀ with one symbolic analysis for all iterations."""

    name = "sparse Cholesky (QDLDL)"

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._solver: Any = None
        # QDLDL wants the upper triangle by columns: the transposed order of our entries.
        n = flow.n_states
        order = sp.csr_matrix(
            (np.arange(self.index.size, dtype=np.int64), self.index, self.start), shape=(n, n)
        ).tocsc()
        self._order = order.data
        self._matrix = sp.csc_matrix(
            (np.empty(self.index.size), order.indices, order.indptr), shape=(n, n)
        )

    def _factor(self) -> bool:
        import qdldl

        self._matrix.data[:] = self.values[self._order]
        try:
            if self._solver is None:
                self._solver = qdldl.Solver(self._matrix, upper=True)
            else:
                self._solver.update(self._matrix, upper=True)
        except RuntimeError:
            return False
        return True

    def _solve(self, r: Array) -> Array:
        return np.asarray(self._solver.solve(r))


def choose_backend(flow: Flow) -> Backend:
    """The backend that is fastest for this model."""
    return DenseCholesky(flow) if flow.n_states <= 1500 else SparseCholesky(flow)
