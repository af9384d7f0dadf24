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
(y = 0 there). Any other normalisation, such as Σ y = 0, would subtract the huge entries of hardly
visited states from those that matter.

:class:`Flow` holds B and what follows from its pattern; the three :class:`Backend`\\ s factorise:
dense (LAPACK), sparse Cholesky (QDLDL, or CHOLMOD where cvxopt is installed), and none at all
(preconditioned conjugate gradients).
"""

from __future__ import annotations

import math
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from sojourn.chains.graph import search
from sojourn.solvers.threads import one_thread

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Flow:
    """The flow balance Bᵀx = 0 of a model, prepared for repeated use."""

    singular = True
    """Whether the equations are dependent (Bᵀx sums to 0, B 1 = 0)."""

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
        out = np.empty(self.n_states)
        # SciPy's own product takes longer to be found than to be done, for a thousand states.
        _product(self.BT.indptr, self.BT.indices, self.BT.data, x, out)
        return out

    def differences(self, h: Array, low: Array | None = None) -> Array:
        """B h, by how much h drops in one move of each pair; ``low`` are further digits of h."""
        out = np.empty(self.n_pairs)
        B = self.B
        if low is None:
            differences(self.pair_start, B.indptr, B.indices, B.data, h, out)
        else:
            differences_low(self.pair_start, B.indptr, B.indices, B.data, h, low, out)
        return out

    def imbalance(self, residual: Array, x: Array, eta: Array) -> float:
        """The largest residual of Bᵀx = 0 beside the flow it is left over from."""
        return float(np.max(np.abs(residual) / eta))

    def sums(self, x: Array) -> Array:
        """Eᵀx."""
        return np.add.reduceat(x, self.pair_start[:-1])

    def spread(self, v: Array) -> Array:
        """E v."""
        return v[self.pair_state]

    def falls_apart(self, x: Array, least: float) -> bool:
        """Whether moves that carry more than ``least`` leave several strong components."""
        B = self.B
        return bool(_falls_apart(self.pair_start, B.indptr, B.indices, B.data, x, least))

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

    @cached_property
    def places(self) -> NDArray[np.int32]:
        """Where in the pattern of M the entries of each state's own block belong, state by state,
        upper triangle by rows."""
        ptr, columns, _ = self.cliques
        width = np.diff(ptr)
        out = np.empty(int((width * (width + 1) // 2).sum()), dtype=np.int32)
        _places(ptr, columns, *self.pattern, out)
        return out

    @property
    def dense(self) -> Array:
        return self.B.toarray()


class CutFlow(Flow):
    """The same balance, written for a family of nested sets of states instead of single states.

    Where a set C of states is left with a chance of 1e-10, its balance is what is left of sums of
    numbers around 1 when it is put together from the balances of its states: no digits. Written
    as *flow out of C = flow into C* it is a sum of the small numbers themselves. So the states
    are merged along ever weaker links (Kruskal), and each merger gives one equation, for the
    smaller of the two sets merged: S − 1 independent ones, none of which subtracts. In

        h = Σ_C y_C 1_C,   (B 1_C)_sa = p(out of C | s, a) for s in C, −p(into C | s, a) else,

    y takes the place of h. Dense, n_pairs × (S − 1): for small models that defeat :class:`Flow`.

    A link is as strong as the probability of moving along it, or, given an occupancy, as
    the flow along it.
    """

    singular = False

    def __init__(self, flow: Flow, occupancy: Array | None = None) -> None:
        self.states = flow
        self.n_pairs, self.n_states = flow.n_pairs, flow.n_states
        self.pair_start, self.pair_state = flow.pair_start, flow.pair_state
        B = flow.B.tocoo()
        link = flow.pair_state[B.row] != B.col
        strength = -B.data[link]
        if occupancy is not None:
            strength *= occupancy[B.row[link]]
        order = np.argsort(-strength, kind="stable")
        tail, head = flow.pair_state[B.row[link]][order], B.col[link][order].astype(np.int64)
        self.member = np.zeros((self.n_states - 1, self.n_states), dtype=bool)
        _merge(tail, head, self.member)
        self.G = np.zeros((self.n_pairs, self.n_states - 1))
        csr = flow.B
        _cut_rows(flow.pair_start, csr.indptr, csr.indices, csr.data, self.member, self.G)

    def residual(self, x: Array) -> Array:
        return x @ self.G

    def imbalance(self, residual: Array, x: Array, eta: Array) -> float:
        gross = 0.5 * (x @ np.abs(self.G))
        return float(np.max(np.abs(residual) / gross, initial=0.0))

    def differences(self, h: Array, low: Array | None = None) -> Array:
        return self.G @ h if low is None else self.G @ h + self.G @ low

    def prices(self, y: Array) -> tuple[Array, Array]:
        """h in two parts, leading and further digits."""
        terms = np.where(self.member, y[:, None], 0.0)
        high = terms.sum(axis=0)
        low = np.array([math.fsum([*column, -top]) for column, top in zip(terms.T, high)])
        return high, low


def _balance_matrix(transitions: Any, pair_state: Index) -> sp.csr_matrix:
    """B = E − P with its diagonal entry as the *sum* of the chances to leave: 1 − p(s|s,a) loses
    all digits where a state is nearly absorbing."""
    P = transitions.tocsr()
    n_pairs = P.shape[0]
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
def _falls_apart(pair_start, indptr, indices, data, x, least):  # type: ignore[no-untyped-def]
    n = pair_start.size - 1
    usable = np.empty(indices.size, np.bool_)
    for p in range(x.size):
        for k in range(indptr[p], indptr[p + 1]):
            usable[k] = -data[k] * x[p] > least
    label, depth = np.full(n, -1), np.empty(n, np.int64)
    return search(indptr[pair_start], indices, usable, np.arange(n), label, depth).size > 1


@njit(cache=True, nogil=True)
def _cliques(n_states, pair_start, indptr, indices):  # type: ignore[no-untyped-def]
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
def _fill_blocks(pair_start, indptr, indices, data, ptr, columns, offset, out):  # type: ignore[no-untyped-def]
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
def _pattern(n_states, ptr, columns):  # type: ignore[no-untyped-def]
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
def _places(ptr, columns, start, index, out):  # type: ignore[no-untyped-def]
    t = 0
    for s in range(ptr.size - 1):
        for i in range(ptr[s], ptr[s + 1]):
            row = columns[i]
            at = start[row]
            for k in range(i, ptr[s + 1]):
                at += np.searchsorted(index[at : start[row + 1]], columns[k])
                out[t] = at
                t += 1


@njit(cache=True, nogil=True)
def _merge(tail, head, member):  # type: ignore[no-untyped-def]
    """Merge sets along the links given, in order; each merger records the smaller set."""
    n = member.shape[1]
    group = np.arange(n)
    size = np.ones(n, np.int64)
    count = 0
    for k in range(tail.size):
        a = group[tail[k]]
        b = group[head[k]]
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        for s in range(n):
            if group[s] == b:
                member[count, s] = True
                group[s] = a
        size[a] += size[b]
        count += 1
        if count == n - 1:
            return


@njit(cache=True, nogil=True)
def _cut_rows(pair_start, indptr, indices, data, member, G):  # type: ignore[no-untyped-def]
    """B 1_C for every set C, without subtraction."""
    for s in range(pair_start.size - 1):
        for c in range(member.shape[0]):
            inside = member[c, s]
            for p in range(pair_start[s], pair_start[s + 1]):
                t = 0.0
                for k in range(indptr[p], indptr[p + 1]):
                    j = indices[k]
                    if j != s and member[c, j] != inside:
                        t -= data[k]
                G[p, c] = t if inside else -t


# Indices are turned into unsigned ones: numba tests signed ones for negative values, and the
# test keeps short loops from being vectorised. (Two- to threefold here.)
U: Any = np.uintp


@njit(cache=True, nogil=True, error_model="numpy")
def _product(indptr, indices, data, x, out):  # type: ignore[no-untyped-def]
    for s in range(U(out.size)):
        t = 0.0
        for k in range(U(indptr[s]), U(indptr[s + U(1)])):
            t += data[k] * x[U(indices[k])]
        out[s] = t


@njit(cache=True, nogil=True, error_model="numpy")
def differences(pair_start, indptr, indices, data, h, out):  # type: ignore[no-untyped-def]
    """B h as Σ p (h_s − h_s'): where h is huge and nearly constant, as between two parts of the
    world that hardly communicate, h_s − Σ p h_s' would lose what matters."""
    for s in range(U(h.size)):
        own = h[s]
        for p in range(U(pair_start[s]), U(pair_start[s + U(1)])):
            t = 0.0
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                t -= data[k] * (own - h[U(indices[k])])
            out[p] = t


@njit(cache=True, nogil=True, error_model="numpy")
def differences_low(pair_start, indptr, indices, data, h, low, out):  # type: ignore[no-untyped-def]
    """The same for h + low."""
    for s in range(U(h.size)):
        for p in range(U(pair_start[s]), U(pair_start[s + U(1)])):
            t = 0.0
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                j = U(indices[k])
                t -= data[k] * ((h[s] - h[j]) + (low[s] - low[j]))
            out[p] = t


@njit(cache=True, nogil=True, error_model="numpy")
def deviations(d, lo, hi, m, blocks, base, out):  # type: ignore[no-untyped-def]
    """The ũ_a of one state into the first rows of ``out`` and ū into the one after; returns D.

    All integers are unsigned. The rows u_a lie one after the other in ``blocks`` from ``base``
    on.
    """
    total = 0.0
    top = lo
    for p in range(lo, hi):
        total += d[p]
        if d[p] > d[top]:
            top = p
    ref = base + (top - lo) * m
    mean = hi - lo
    for k in range(m):
        out[mean, k] = 0.0
    inverse = 1.0 / total
    for p in range(lo, hi):
        if p != top:
            share = d[p] * inverse
            row = base + (p - lo) * m
            for k in range(m):
                t = blocks[row + k] - blocks[ref + k]
                out[p - lo, k] = t
                out[mean, k] += share * t
    for p in range(lo, hi):
        if p == top:
            for k in range(m):
                out[p - lo, k] = -out[mean, k]
        else:
            for k in range(m):
                out[p - lo, k] -= out[mean, k]
    for k in range(m):
        out[mean, k] += blocks[ref + k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_rows(pair_start, blocks, d, q, out):  # type: ignore[no-untyped-def]
    """Rows R with M = RᵀR, for states whose blocks are all as wide as ``out``: those of the
    deviations, then the mean's, state by state."""
    m = U(out.shape[1])
    for s in range(U(q.size)):
        lo, hi = U(pair_start[s]), U(pair_start[s + U(1)])
        rows = out[lo + s : hi + s + U(1)]
        total = deviations(d, lo, hi, m, blocks, lo * m, rows)
        for p in range(lo, hi):
            root = math.sqrt(d[p])
            for k in range(m):
                rows[p - lo, k] *= root
        root = math.sqrt(total / (1.0 + q[s] * total))
        for k in range(m):
            rows[hi - lo, k] *= root


@njit(cache=True, nogil=True, error_model="numpy")
def local_matrix(d, q, lo, hi, m, blocks, base, deviation, out):  # type: ignore[no-untyped-def]
    """The share of one state in M, upper triangle over its clique, into ``out``."""
    total = deviations(d, lo, hi, m, blocks, base, deviation)
    mean = hi - lo
    c = total / (1.0 + q * total)
    for i in range(m):
        f = c * deviation[mean, i]
        for k in range(i, m):
            out[i, k] = f * deviation[mean, k]
    if hi - lo == 1:
        return
    for p in range(lo, hi):
        for i in range(m):
            f = d[p] * deviation[p - lo, i]
            for k in range(i, m):
                out[i, k] += f * deviation[p - lo, k]


@njit(cache=True, nogil=True)
def scratch_shape(pair_start, ptr):  # type: ignore[no-untyped-def]
    """The largest numbers of actions and of clique columns of any state."""
    actions = 0
    columns = 0
    for s in range(pair_start.size - 1):
        actions = max(actions, pair_start[s + 1] - pair_start[s])
        columns = max(columns, ptr[s + 1] - ptr[s])
    return actions, columns


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(pair_start, ptr, offset, blocks, places, d, q, values):  # type: ignore[no-untyped-def]
    """The upper triangle of M by rows into ``values``, each entry at its place in the pattern."""
    values[:] = 0.0
    actions, width = scratch_shape(pair_start, ptr)
    deviation = np.empty((actions + 1, width))
    local = np.empty((width, width))
    t = U(0)
    for s in range(U(q.size)):
        lo, hi = U(pair_start[s]), U(pair_start[s + U(1)])
        m = U(ptr[s + U(1)]) - U(ptr[s])
        local_matrix(d, q[s], lo, hi, m, blocks, U(offset[s]), deviation, local)
        for i in range(m):
            for k in range(i, m):
                values[U(places[t])] += local[i, k]
                t += U(1)


@njit(cache=True, nogil=True, error_model="numpy")
def assemble_dense(pair_start, ptr, columns, offset, blocks, d, q, deviation, local, M):  # type: ignore[no-untyped-def]
    """The lower triangle of M (by rows) into a dense array."""
    for i in range(U(M.shape[0])):
        for j in range(i + U(1)):
            M[i, j] = 0.0
    for s in range(U(q.size)):
        lo, hi, first = U(pair_start[s]), U(pair_start[s + U(1)]), U(ptr[s])
        m = U(ptr[s + U(1)]) - first
        local_matrix(d, q[s], lo, hi, m, blocks, U(offset[s]), deviation, local)
        for i in range(m):
            column = U(columns[first + i])
            for k in range(i, m):
                M[U(columns[first + k]), column] += local[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def solve_blocks(pair_start, d, q, r, out):  # type: ignore[no-untyped-def]
    """H⁻¹ r."""
    for s in range(U(q.size)):
        lo = U(pair_start[s])
        hi = U(pair_start[s + U(1)])
        total = 0.0
        top = lo
        for p in range(lo, hi):
            total += d[p]
            if d[p] > d[top]:
                top = p
        shift = 0.0
        for p in range(lo, hi):
            shift += d[p] * (r[p] - r[top])
        shift /= total
        mean = (r[top] + shift) / (1.0 + q[s] * total)
        for p in range(lo, hi):
            out[p] = d[p] * ((r[p] - r[top]) - shift + mean)


# -- backends ---------------------------------------------------------------------------------


class Backend(Protocol):
    """Solves M y = r for changing d and q."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool:
        """Whether a solve is right to rounding; an iterative one costs the more the more it
        is asked for."""

    def factor(self, d: Array, q: Array) -> None:
        """Take new d and q; LinAlgError where rounding has made M indefinite."""

    def solve(self, r: Array, scale: Array | None = None, target: float = 0.0) -> Array:
        """y with M y = r and y = 0 at the pinned state. An iterative method may stop as soon as
        no entry of r − M y exceeds ``target`` times that of ``scale``."""


def _solvable(r: Array, pin: int, scale: Array | None) -> Array:
    """r with Σ r = 0, as M y = r needs.

    Rows of P sum to 1 up to rounding only, often with the same error in a million rows. Whatever
    Σ r is therefore short of 0 goes to all states in proportion to ``scale``; the pinned state
    alone, if it gets a millionth of the visits, would be out of balance by a million times
    that.
    """
    short = r.sum()
    if scale is None:
        right = r.copy()
        right[pin] -= short
        return right
    return r - scale * (short / scale.sum())


class _Direct:
    """What direct methods share: assembling, the pinned state, and a retry."""

    name = ""
    exact = True

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.pin = 0

    def factor(self, d: Array, q: Array) -> None:
        diagonal = self._assemble(d, q)
        if self.flow.singular:
            self.pin = int(np.argmax(diagonal))
            diagonal[self.pin] *= 2.0
        # A pivot of a hardly visited state may round to 0 or below; raising all of them by
        # some units of roundoff costs less accuracy than that, and refinement restores it.
        for shift in (1e-14, 1e-11, 1e-8):
            if shift > 1e-14:
                self._assemble(d, q)
            if self._factor(diagonal * (1.0 + shift)):
                return
        raise np.linalg.LinAlgError("the normal equations are not positive definite")

    def solve(self, r: Array, scale: Array | None = None, target: float = 0.0) -> Array:
        if not self.flow.singular:
            return self._solve(r)
        y = self._solve(_solvable(r, self.pin, scale))
        return y - y[self.pin]

    def _assemble(self, d: Array, q: Array) -> Array:
        """Assemble M; returns a copy of its diagonal."""
        raise NotImplementedError

    def _factor(self, diagonal: Array) -> bool:
        """Factorise, with this diagonal instead of the assembled one."""
        raise NotImplementedError

    def _solve(self, r: Array) -> Array:
        raise NotImplementedError


class DenseCholesky(_Direct):
    """LAPACK on the S × S matrix, on one thread: a few factorisations of order 1000 are too
    short to be shared, and waiting threads would hold up whoever else computes."""

    name = "dense Cholesky (LAPACK)"

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        if isinstance(flow, CutFlow):
            self._rows = np.empty((flow.n_pairs + flow.n_states, flow.n_states - 1))
            return
        actions, width = scratch_shape(flow.pair_start, flow.cliques[0])
        self._scratch = np.empty((actions + 1, width)), np.empty((width, width))
        self._matrix = np.zeros((flow.n_states, flow.n_states))

    def _assemble(self, d: Array, q: Array) -> Array:
        flow = self.flow
        if isinstance(flow, CutFlow):
            # Every row has an entry in every column: a product for BLAS.
            weighted_rows(flow.pair_start, flow.G.ravel(), d, q, self._rows)
            with one_thread():
                self._matrix = sla.blas.dsyrk(1.0, self._rows.T, lower=0).T
            return np.diagonal(self._matrix).copy()
        ptr, columns, offset = flow.cliques
        assemble_dense(
            flow.pair_start, ptr, columns, offset, flow.blocks, d, q, *self._scratch, self._matrix
        )
        return np.diagonal(self._matrix).copy()

    def _factor(self, diagonal: Array) -> bool:
        np.fill_diagonal(self._matrix, diagonal)
        # The lower triangle by rows is the upper one by columns, which is what LAPACK wants.
        with one_thread():
            self._triangle, info = sla.lapack.dpotrf(
                self._matrix.T, lower=0, clean=0, overwrite_a=1
            )
        return bool(info == 0)

    def _solve(self, r: Array) -> Array:
        with one_thread():
            return np.asarray(sla.lapack.dpotrs(self._triangle, r, lower=0)[0])


class SparseCholesky(_Direct):
    """QDLDL: sparse LDLᵀ with one symbolic analysis for all iterations."""

    name = "sparse Cholesky (QDLDL)"

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        n = flow.n_states
        self._start, self._index = start, index = flow.pattern
        self._values = np.empty(index.size)
        # QDLDL wants the upper triangle by columns, we assemble it by rows.
        moved = sp.csr_matrix(
            (np.arange(index.size, dtype=np.int64), index, start), shape=(n, n)
        ).tocsc()
        self._order = moved.data
        self._matrix = sp.csc_matrix(
            (np.empty(index.size), moved.indices, moved.indptr), shape=(n, n)
        )
        self._diagonal = moved.indptr[1:] - 1  # the last entry of each column
        self._solver: Any = None

    def _assemble(self, d: Array, q: Array) -> Array:
        flow = self.flow
        ptr, _, offset = flow.cliques
        assemble(flow.pair_start, ptr, offset, flow.blocks, flow.places, d, q, self._values)
        return self._values[self._start[:-1]]

    def _factor(self, diagonal: Array) -> bool:
        import qdldl

        np.take(self._values, self._order, out=self._matrix.data)
        self._matrix.data[self._diagonal] = diagonal
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


class Cholmod(_Direct):
    """CHOLMOD's supernodal LLᵀ through cvxopt: dense blocks, several times faster than QDLDL on
    large maps. Optional, because its licence is not ours."""

    name = "sparse Cholesky (CHOLMOD)"

    def __init__(self, flow: Flow) -> None:
        from cvxopt import cholmod, matrix, spmatrix

        super().__init__(flow)
        self._cholmod, self._new_matrix = cholmod, matrix
        n = flow.n_states
        self._start, self._index = start, index = flow.pattern
        self._values = np.ones(index.size)
        # Upper triangle by rows = lower triangle by columns, which is what cvxopt stores; it
        # takes indices as C longs only, and nothing but Python's int as a size.
        column = np.repeat(np.arange(n, dtype=np.int64), np.diff(start))
        self._matrix = spmatrix(self._values, index.astype(np.int64), column, (int(n), int(n)))
        del column
        self._factorised = cholmod.symbolic(self._matrix)

    _assemble = SparseCholesky._assemble

    def _factor(self, diagonal: Array) -> bool:
        self._values[self._start[:-1]] = diagonal
        self._matrix.V = self._new_matrix(self._values)
        try:
            self._cholmod.numeric(self._matrix, self._factorised)
        except ArithmeticError:
            return False
        return True

    def _solve(self, r: Array) -> Array:
        right = self._new_matrix(r)
        self._cholmod.solve(self._factorised, right)
        return np.asarray(right).ravel()


class ConjugateGradients:
    """No factorisation at all: conjugate gradients with the diagonal of M as preconditioner.

    For large models without small separators, such as random graphs, where the factor of any
    sparse method is all but dense.
    """

    name = "conjugate gradients (matrix-free)"
    exact = False

    def __init__(self, flow: Flow, limit: int = 3000) -> None:
        self.limit = limit
        self.flow = flow
        self.diagonal = np.empty(flow.n_states)
        self.multiplications = 0
        """Products with M so far: what the work is made of."""

    def factor(self, d: Array, q: Array) -> None:
        flow, B = self.flow, self.flow.B
        self.d, self.q = d, q
        diagonal_of_normal(flow.pair_start, B.indptr, B.indices, B.data, d, q, self.diagonal)
        self.pin = int(np.argmax(self.diagonal))

    def solve(self, r: Array, scale: Array | None = None, target: float = 0.0) -> Array:
        flow, B = self.flow, self.flow.B
        right = _solvable(r, self.pin, scale)
        if scale is None:
            scale, target = np.ones_like(r), 1e-8 * float(np.abs(r).max())
        y = np.zeros_like(r)
        self.multiplications += conjugate_gradients(
            flow.pair_start, B.indptr, B.indices, B.data, self.d, self.q, self.diagonal,
            right, scale, target, self.limit, y,
        )  # fmt: skip
        return y - y[self.pin]


@njit(cache=True, nogil=True, error_model="numpy")
def diagonal_of_normal(pair_start, indptr, indices, data, d, q, out):  # type: ignore[no-untyped-def]
    """diag M, from the same sum of squares as :func:`local_matrix`."""
    n = U(out.size)
    mean = np.zeros(n)
    for s in range(n):
        out[s] = 0.0
    for s in range(n):
        lo = U(pair_start[s])
        hi = U(pair_start[s + U(1)])
        total = 0.0
        for p in range(lo, hi):
            total += d[p]
        for p in range(lo, hi):
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                mean[U(indices[k])] += d[p] / total * data[k]
        # Σ_a d_a (u_a − ū)² entry by entry: entries that u_a lacks count with ū².
        for p in range(lo, hi):
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                j = U(indices[k])
                out[j] += d[p] * ((data[k] - mean[j]) ** 2 - mean[j] ** 2)
        c = total / (1.0 + q[s] * total)
        for p in range(lo, hi):
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                j = U(indices[k])
                if mean[j] != 0.0:
                    out[j] += (total + c) * mean[j] ** 2
                    mean[j] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def apply_normal(pair_start, indptr, indices, data, d, q, v, u, out):  # type: ignore[no-untyped-def]
    """out = M v, in one pass over B; ``u`` is scratch with one entry per action of a state."""
    n = U(out.size)
    for s in range(n):
        out[s] = 0.0
    for s in range(n):
        lo = U(pair_start[s])
        hi = U(pair_start[s + U(1)])
        total = 0.0
        top = lo
        for p in range(lo, hi):
            t = 0.0
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                t -= data[k] * (v[s] - v[U(indices[k])])
            u[p - lo] = t
            total += d[p]
            if d[p] > d[top]:
                top = p
        ref = u[top - lo]
        shift = 0.0
        for p in range(lo, hi):
            shift += d[p] * (u[p - lo] - ref)
        shift /= total
        mean = (ref + shift) / (1.0 + q[s] * total)
        for p in range(lo, hi):
            t = d[p] * ((u[p - lo] - ref) - shift + mean)
            for k in range(U(indptr[p]), U(indptr[p + U(1)])):
                out[U(indices[k])] += data[k] * t


@njit(cache=True, nogil=True, error_model="numpy")
def conjugate_gradients(  # type: ignore[no-untyped-def]
    pair_start, indptr, indices, data, d, q, diagonal, r, scale, target, limit, y
):
    """M y = r to |r − M y| ≤ target·scale entrywise; r is overwritten. Returns the iterations."""
    n = r.size
    most = 0
    for s in range(pair_start.size - 1):
        most = max(most, pair_start[s + 1] - pair_start[s])
    u = np.empty(most)
    direction = np.empty(n)
    product = np.empty(n)
    old = 0.0
    for s in range(n):
        y[s] = 0.0
        direction[s] = r[s] / diagonal[s]
        old += r[s] * direction[s]
    for iteration in range(limit):
        done = True
        for s in range(n):
            if not abs(r[s]) <= target * scale[s]:
                done = False
                break
        if done or not old > 0.0:
            return iteration
        apply_normal(pair_start, indptr, indices, data, d, q, direction, u, product)
        curvature = 0.0
        for s in range(n):
            curvature += direction[s] * product[s]
        if not curvature > 0.0:
            return iteration
        step = old / curvature
        new = 0.0
        for s in range(n):
            y[s] += step * direction[s]
            r[s] -= step * product[s]
            new += r[s] * r[s] / diagonal[s]
        grow = new / old
        for s in range(n):
            direction[s] = r[s] / diagonal[s] + grow * direction[s]
        old = new
    return limit


class Switching:
    """Conjugate gradients while they are cheap, a factorisation from then on.

    The systems of the first iterations are well conditioned and the last ones are not; where a
    factorisation is dear, most iterations can do without.
    """

    def __init__(self, flow: Flow, direct: type[_Direct], seconds: float) -> None:
        self._flow, self._direct, self._seconds = flow, direct, seconds
        per_product = SECONDS_PER_PRODUCT * flow.B.nnz
        self._patience = max(int(seconds / per_product), 50)
        self._gradients = ConjugateGradients(flow, limit=self._patience)
        self._factors: _Direct | None = None
        self._before = 0

    @property
    def name(self) -> str:
        if self._factors is None:
            return self._gradients.name
        return f"conjugate gradients, then {self._factors.name}"

    @property
    def exact(self) -> bool:
        return self._factors is not None

    def factor(self, d: Array, q: Array) -> None:
        used = self._gradients.multiplications - self._before
        self._before = self._gradients.multiplications
        if self._factors is None and used > self._patience:
            self._factors = self._direct(self._flow)
        (self._factors or self._gradients).factor(d, q)

    def solve(self, r: Array, scale: Array | None = None, target: float = 0.0) -> Array:
        return (self._factors or self._gradients).solve(r, scale, target)


# -- which one --------------------------------------------------------------------------------

# Seconds per unit of work on one core of a machine of 2024; only their ratios matter. A sparse
# factorisation works on fronts about as wide as the widest separator w, so it costs S·w², and
# a dense one is the case w = S. On a random graph CHOLMOD ends in one dense front, w³. Fitted to
# grids of 225 to 10⁵ states, corridors, and random graphs of 200 to 3000; right to a factor
# of two on all of them.
SECONDS_DENSE = 1e-11
SECONDS_CHOLMOD = 4e-12
SECONDS_CHOLMOD_FRONT = 1.5e-11
SECONDS_QDLDL = 5e-11
SECONDS_PER_STATE = 2.5e-7
SECONDS_PER_PRODUCT = 5e-9
MOST_DENSE = 14_000
"""Beyond this the dense matrix alone takes 1.5 GB."""
MOST_FACTOR = 1.5e9
"""Beyond this many entries (12 GB) a sparse factor is not tried."""


def choose_backend(flow: Flow) -> Backend:
    """The backend with the smallest expected time for this model (see the constants above)."""
    n = flow.n_states
    if n <= 200:
        return DenseCholesky(flow)
    width, depth = level_widths(flow)
    front = float(min(2 * width, n))
    sparse: type[_Direct] = Cholmod if has_cholmod() else SparseCholesky
    rate = SECONDS_CHOLMOD if sparse is Cholmod else SECONDS_QDLDL
    times: dict[type[_Direct], float] = {}
    if n <= MOST_DENSE:
        times[DenseCholesky] = SECONDS_DENSE * float(n) ** 3
    # Shallow means that everything is a few steps from everything: no small separators, but
    # also fast mixing, which is what makes conjugate gradients converge.
    shallow = depth <= 3.0 * np.log2(n)
    if 0.3 * n * front <= MOST_FACTOR:
        times[sparse] = rate * n * front**2 + SECONDS_PER_STATE * n
        if shallow and sparse is Cholmod:
            times[sparse] = SECONDS_CHOLMOD_FRONT * min(1.2 * width, n) ** 3
    if not times:
        return ConjugateGradients(flow)
    best = min(times, key=lambda kind: times[kind])
    if shallow and n > 2000:
        if times[best] > 20.0:
            return ConjugateGradients(flow)
        return Switching(flow, best, times[best])
    return best(flow)


@cache
def has_cholmod() -> bool:
    """Whether cvxopt, the optional extra [large], is installed."""
    return find_spec("cvxopt") is not None


def level_widths(flow: Flow) -> tuple[int, int]:
    """The width of the widest level and the number of levels of a breadth-first search from a
    state that is far from the others. A level separates what lies before from what lies behind,
    so a width says how small separators are."""
    ptr, columns, _ = flow.cliques
    n = flow.n_states
    there = sp.csr_matrix((np.ones(columns.size, dtype=np.int8), columns, ptr), shape=(n, n))
    back = there.T.tocsr()
    root, best, depth = 0, n, 0
    for _ in range(3):
        width, depth, root = _levels(
            ptr, columns, back.indptr.astype(np.int64), back.indices.astype(np.int32), root
        )
        best = min(best, width)
    return best, depth


@njit(cache=True, nogil=True)
def _levels(ptr, columns, back_ptr, back_columns, root):  # type: ignore[no-untyped-def]
    n = ptr.size - 1
    seen = np.zeros(n, np.bool_)
    queue = np.empty(n, np.int64)
    queue[0] = root
    seen[root] = True
    begin = 0
    end = 1
    widest = 0
    depth = 0
    while begin < end:
        widest = max(widest, end - begin)
        depth += 1
        fill = end
        for t in range(begin, end):
            s = queue[t]
            for k in range(ptr[s], ptr[s + 1]):
                j = columns[k]
                if not seen[j]:
                    seen[j] = True
                    queue[fill] = j
                    fill += 1
            for k in range(back_ptr[s], back_ptr[s + 1]):
                j = back_columns[k]
                if not seen[j]:
                    seen[j] = True
                    queue[fill] = j
                    fill += 1
        begin = end
        end = fill
    return widest, depth, queue[end - 1]
