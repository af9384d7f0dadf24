"""Elimination without subtraction for sparse chains, front by front.

The same arithmetic as in :mod:`sojourn.chains.elimination`, in an order that keeps the chain
sparse. Eliminating a state joins its neighbours; a minimum-degree order keeps them few (a map of
10⁶ sites needs about 40 numbers per site). The *elimination tree* says which eliminations
depend on each other: the parent of a state is the first of its later neighbours to go. States
that follow each other up the tree with the same later neighbours form a *front*: one small
dense matrix in which they are eliminated together, and whose remainder (the chain watched
outside them, seen from their later neighbours) is added to the parent's front. This is the
multifrontal method (Duff and Reid 1983), which spends its time in dense matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, identity
from scipy.sparse.linalg import spilu

from sojourn.chains.elimination import check_escape, eliminate

MOST_FILL = 250_000_000
"""Numbers in the factors beyond which elimination is refused (2 GB for η, 4 GB to solve)."""

MUCH_WORK = 1e11
"""Multiplications beyond which elimination takes more than about half a minute."""


class TooMuchFill(Exception):
    """The chain's graph has no small separators: elimination would need too much memory."""


class SparseShape:
    """The order of elimination of a graph, its fronts, and where their numbers go.

    It depends on which entries there are, not on their values: factors of several matrices of
    one graph can share it. Raises :class:`TooMuchFill` before any large allocation when the
    factors would be too large or take more than ``most_work`` multiplications.
    """

    def __init__(self, P: Any, most_work: float = np.inf) -> None:
        rows, columns = csr_matrix(P, copy=True), csr_matrix(P.T, copy=True)
        graph = (rows.indptr, rows.indices, columns.indptr, columns.indices)
        n = rows.shape[0]
        node = _minimum_degree(rows)
        parent = _tree(*graph, node)
        order = _postorder(parent)
        node = node[order]
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        self.parent = np.where(parent[order] >= 0, rank[parent[order]], -1)
        later = _later_neighbours(*graph, node, self.parent, MOST_FILL)
        self.work = np.inf if later[0] < 0 else float(later @ later.astype(float))
        if self.work > most_work or later[0] < 0:
            raise TooMuchFill
        start = _fronts(self.parent, later)
        border_start, border = _borders(*graph, node, self.parent, start, later)
        self.fronts = node, start, border_start, border
        width, size = np.diff(start), np.diff(border_start)
        left_start = np.concatenate(([0], np.cumsum(width * (width + size))))
        right_start = np.concatenate(([0], np.cumsum(width * size)))
        self.offsets = left_start, right_start


class SparseElimination:
    """I − P of a sparse P with the given exits, factored. Without exits it is singular.

    P ≥ 0, or P = wQ with a complex w and Q ≥ 0 stochastic, whose exits are 1 − w. Raises
    :class:`TooMuchFill` as :class:`SparseShape` does, unless a shape is given. Without
    ``solvable`` only :meth:`stationary` can be asked for, in half the memory.
    """

    def __init__(
        self,
        P: Any,
        exits: NDArray | None = None,
        *,
        solvable: bool = True,
        most_work: float = np.inf,
        shape: SparseShape | None = None,
    ) -> None:
        shape = SparseShape(P, most_work) if shape is None else shape
        # Copies: kernels are compiled once more for read-only arrays.
        rows, columns = csr_matrix(P, copy=True), csr_matrix(P.T, copy=True)
        n, kind = rows.shape[0], rows.dtype
        self._shape, self._offsets = shape.fronts, shape.offsets
        left_start, right_start = shape.offsets
        self._left = np.empty(left_start[-1], kind)
        self._right = np.empty(right_start[-1] if solvable else 0, kind)
        self._out = np.ones(n, kind)
        leaving = np.zeros(n, kind) if exits is None else np.asarray(exits, kind)
        _factor(
            rows.indptr, rows.indices, rows.data, columns.indptr, columns.indices, columns.data,
            leaving, exits is None, shape.parent, *self._shape, *self._offsets,
            self._left, self._right, self._out,
        )  # fmt: skip
        check_escape(np.abs(self._out))

    def stationary(self) -> NDArray[np.float64]:
        """η P = η, Σ η = 1 of an irreducible chain (factored without exits)."""
        eta = np.empty(self._out.size)
        _substitute(*self._shape, self._offsets[0], self._left, eta)
        return eta / eta.sum()

    def solve(self, b: NDArray) -> NDArray:
        """x = (I − P)⁻¹ b."""
        x = np.array(b, dtype=self._out.dtype)
        _solve(*self._shape, *self._offsets, self._left, self._right, self._out, x)
        return x

    def solve_left(self, b: NDArray) -> NDArray:
        """x = b (I − P)⁻¹."""
        x = np.array(b, dtype=self._out.dtype)
        _solve_left(*self._shape, *self._offsets, self._left, self._right, self._out, x)
        return x

    def inverse_diagonal(self) -> NDArray:
        """The diagonal of (I − P)⁻¹: the expected visits to each state from itself."""
        diagonal = np.empty_like(self._out)
        _inverse_diagonal(
            *self._shape, *self._offsets, self._left, self._right, self._out, diagonal
        )
        return diagonal


def _minimum_degree(P: Any) -> NDArray[np.int64]:
    """The states in an order of elimination that keeps fill low.

    SciPy offers SuperLU's minimum-degree ordering only together with a factorisation; an
    incomplete one that drops everything costs next to nothing.
    """
    n = P.shape[0]
    pattern = csr_matrix((np.ones(P.nnz), P.indices, P.indptr), shape=P.shape)
    dominant = (pattern + (n + 1.0) * identity(n, format="csr")).tocsc()
    incomplete = spilu(
        dominant, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0, options={"SymmetricMode": True},
    )  # fmt: skip
    return np.argsort(incomplete.perm_c)


@njit(cache=True, nogil=True)
def _tree(indptr, indices, t_indptr, t_indices, node):  # type: ignore[no-untyped-def]
    """The elimination tree of the graph with edges in both directions (Liu 1990)."""
    n = node.size
    position = np.empty(n, np.int64)
    position[node] = np.arange(n)
    parent = np.full(n, -1)
    ancestor = np.full(n, -1)
    for i in range(n):
        s = node[i]
        for side in range(2):
            ptr, idx = (indptr, indices) if side == 0 else (t_indptr, t_indices)
            for k in range(ptr[s], ptr[s + 1]):
                j = position[idx[k]]
                while j != -1 and j < i:
                    up = ancestor[j]
                    ancestor[j] = i
                    if up == -1:
                        parent[j] = i
                    j = up
    return parent


@njit(cache=True, nogil=True)
def _postorder(parent):  # type: ignore[no-untyped-def]
    """Children before parents, subtrees contiguous."""
    n = parent.size
    child = np.full(n, -1)
    sibling = np.full(n, -1)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            sibling[j] = child[parent[j]]
            child[parent[j]] = j
    order = np.empty(n, np.int64)
    done = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        j = root
        while True:
            while child[j] >= 0:
                j = child[j]
            order[done] = j
            done += 1
            while j != root and sibling[j] < 0:
                j = parent[j]
                order[done] = j
                done += 1
            if j == root:
                break
            j = sibling[j]
    return order


@njit(cache=True, nogil=True)
def _later_neighbours(  # type: ignore[no-untyped-def]
    indptr, indices, t_indptr, t_indices, node, parent, most
):
    """How many later neighbours each state has when it goes; −1 first if ``most`` in all."""
    n = node.size
    position = np.empty(n, np.int64)
    position[node] = np.arange(n)
    later = np.zeros(n, np.int64)
    seen = np.full(n, -1)
    total = 0
    for i in range(n):
        s = node[i]
        seen[i] = i
        for side in range(2):
            ptr, idx = (indptr, indices) if side == 0 else (t_indptr, t_indices)
            for k in range(ptr[s], ptr[s + 1]):
                j = position[idx[k]]
                while j < i and seen[j] != i:
                    seen[j] = i
                    later[j] += 1
                    total += 1
                    j = parent[j]
        if total > most:
            later[0] = -1
            return later
    return later


@njit(cache=True, nogil=True)
def _fronts(parent, later):  # type: ignore[no-untyped-def]
    """Where each front starts. A state joins its child's front if that costs few zeros, and
    the last states form one front from where they are nearly all neighbours of each other."""
    n = parent.size
    tail = n
    work = 0.0
    for j in range(n - 1, -1, -1):
        work += float(later[j]) ** 2
        if float(n - j) ** 3 / 3 <= 1.2 * work:
            tail = j
    start = np.empty(n + 1, np.int64)
    count = 1
    start[0] = 0
    width, zeros = 1, 0
    for j in range(1, n):
        extra = width * (later[j] + 1 - later[j - 1])
        full = (width + 1) * (width + 1 + later[j])
        cheap = parent[j - 1] == j and (zeros + extra) * 10 <= full * (5 if width < 16 else 1)
        if j > tail or (j < tail and cheap):
            width += 1
            zeros += extra
        else:
            start[count] = j
            count += 1
            width, zeros = 1, 0
    start[count] = n
    return start[: count + 1].copy()


@njit(cache=True, nogil=True)
def _borders(  # type: ignore[no-untyped-def]
    indptr, indices, t_indptr, t_indices, node, parent, start, later
):
    """The later neighbours of each front (positions, increasing)."""
    n = node.size
    count = start.size - 1
    position = np.empty(n, np.int64)
    position[node] = np.arange(n)
    front_of = np.empty(n, np.int64)
    border_start = np.empty(count + 1, np.int64)
    border_start[0] = 0
    for f in range(count):
        front_of[start[f] : start[f + 1]] = f
        border_start[f + 1] = border_start[f] + later[start[f + 1] - 1]
    border = np.empty(border_start[count], np.int64)
    seen = np.full(n, -1)
    child = np.full(count, -1)
    sibling = np.full(count, -1)
    for f in range(count):
        last = start[f + 1] - 1
        end = border_start[f]
        for i in range(start[f], start[f + 1]):
            s = node[i]
            for side in range(2):
                ptr, idx = (indptr, indices) if side == 0 else (t_indptr, t_indices)
                for k in range(ptr[s], ptr[s + 1]):
                    j = position[idx[k]]
                    if j > last and seen[j] != f:
                        seen[j] = f
                        border[end] = j
                        end += 1
        c = child[f]
        while c >= 0:
            for k in range(border_start[c], border_start[c + 1]):
                j = border[k]
                if j > last and seen[j] != f:
                    seen[j] = f
                    border[end] = j
                    end += 1
            c = sibling[c]
        border[border_start[f] : end].sort()
        if parent[last] >= 0:
            up = front_of[parent[last]]
            sibling[f] = child[up]
            child[up] = f
    return border_start, border


@njit(cache=True, nogil=True)
def _factor(  # type: ignore[no-untyped-def]
    indptr, indices, data, t_indptr, t_indices, t_data, exits, closed,
    parent, node, start, border_start, border, left_start, right_start, left, right, out,
):  # fmt: skip
    n = node.size
    count = start.size - 1
    position = np.empty(n, np.int64)
    position[node] = np.arange(n)
    place = np.empty(n, np.int64)
    # Remainders wait on a stack: in postorder a front's children are the last ones on it.
    waiting = [np.empty((0, 0), left.dtype)]
    waiting_exits = [np.empty(0, left.dtype)]
    waiting_front = [-1]
    for f in range(count):
        first, last = start[f], start[f + 1] - 1
        width = last + 1 - first
        edge = border[border_start[f] : border_start[f + 1]]
        size = width + edge.size
        place[first : last + 1] = np.arange(width)
        for k in range(edge.size):
            place[edge[k]] = width + k
        matrix = np.zeros((size, size), left.dtype)
        leaving = np.zeros(size, left.dtype)
        for i in range(first, last + 1):
            s = node[i]
            leaving[i - first] = exits[s]
            for k in range(indptr[s], indptr[s + 1]):
                j = position[indices[k]]
                if j >= first:
                    matrix[i - first, place[j]] = data[k]
            for k in range(t_indptr[s], t_indptr[s + 1]):
                j = position[t_indices[k]]
                if j > last:
                    matrix[place[j], i - first] = t_data[k]
        while True:
            c = waiting_front[-1]
            if c < 0 or not first <= parent[start[c + 1] - 1] <= last:
                break
            waiting_front.pop()
            remainder = waiting.pop()
            remainder_exits = waiting_exits.pop()
            shared = place[border[border_start[c] : border_start[c + 1]]]
            for a in range(shared.size):
                leaving[shared[a]] += remainder_exits[a]
                for b in range(shared.size):
                    matrix[shared[a], shared[b]] += remainder[a, b]
        here = out[first : last + 1]
        eliminate(matrix, leaving, here, width - 1 if closed and last == n - 1 else width)
        left[left_start[f] : left_start[f + 1]] = matrix[:, :width].copy().ravel()
        if right.size:
            right[right_start[f] : right_start[f + 1]] = matrix[:width, width:].copy().ravel()
        if edge.size:
            waiting.append(matrix[width:, width:].copy())
            waiting_exits.append(leaving[width:].copy())
            waiting_front.append(f)


@njit(cache=True, nogil=True)
def _substitute(node, start, border_start, border, left_start, left, eta):  # type: ignore[no-untyped-def]
    n = node.size
    values = np.zeros(n)
    values[n - 1] = 1.0
    for f in range(start.size - 2, -1, -1):
        first, last = start[f], start[f + 1] - 1
        width = last + 1 - first
        edge = border[border_start[f] : border_start[f + 1]]
        block = left[left_start[f] : left_start[f + 1]].reshape(width + edge.size, width)
        for a in range(width - 1 if last < n - 1 else width - 2, -1, -1):
            total = 0.0
            for b in range(a + 1, width):
                total += values[first + b] * block[b, a]
            for b in range(edge.size):
                total += values[edge[b]] * block[width + b, a]
            values[first + a] = total
            # With a steady drift the distribution spans more than the range of a double.
            if total > 1e100:
                values /= total
    eta[node] = values


@njit(cache=True, nogil=True)
def _solve(  # type: ignore[no-untyped-def]
    node, start, border_start, border, left_start, right_start, left, right, out, x
):
    y = x[node]
    for f in range(start.size - 1):
        first = start[f]
        width = start[f + 1] - first
        edge = border[border_start[f] : border_start[f + 1]]
        block = left[left_start[f] : left_start[f + 1]].reshape(width + edge.size, width)
        for a in range(1, width):
            for b in range(a):
                y[first + a] += block[a, b] * y[first + b]
        for a in range(edge.size):
            for b in range(width):
                y[edge[a]] += block[width + a, b] * y[first + b]
    for f in range(start.size - 2, -1, -1):
        first = start[f]
        width = start[f + 1] - first
        edge = border[border_start[f] : border_start[f + 1]]
        block = left[left_start[f] : left_start[f + 1]].reshape(width + edge.size, width)
        row = right[right_start[f] : right_start[f + 1]].reshape(width, edge.size)
        for a in range(width - 1, -1, -1):
            for b in range(edge.size):
                y[first + a] += row[a, b] * y[edge[b]]
            for b in range(a + 1, width):
                y[first + a] += block[a, b] * y[first + b]
            y[first + a] /= out[first + a]
    x[node] = y


@njit(cache=True, nogil=True)
def _solve_left(  # type: ignore[no-untyped-def]
    node, start, border_start, border, left_start, right_start, left, right, out, x
):
    y = x[node]
    for f in range(start.size - 1):
        first = start[f]
        width = start[f + 1] - first
        edge = border[border_start[f] : border_start[f + 1]]
        block = left[left_start[f] : left_start[f + 1]].reshape(width + edge.size, width)
        row = right[right_start[f] : right_start[f + 1]].reshape(width, edge.size)
        for a in range(width):
            y[first + a] /= out[first + a]
            for b in range(a + 1, width):
                y[first + b] += block[a, b] * y[first + a]
            for b in range(edge.size):
                y[edge[b]] += row[a, b] * y[first + a]
    for f in range(start.size - 2, -1, -1):
        first = start[f]
        width = start[f + 1] - first
        edge = border[border_start[f] : border_start[f + 1]]
        block = left[left_start[f] : left_start[f + 1]].reshape(width + edge.size, width)
        for a in range(width - 1, -1, -1):
            for b in range(a + 1, width):
                y[first + a] += y[first + b] * block[b, a]
            for b in range(edge.size):
                y[first + a] += y[edge[b]] * block[width + b, a]
    x[node] = y


@njit(cache=True, nogil=True)
def _inverse_diagonal(  # type: ignore[no-untyped-def]
    node, start, border_start, border, left_start, right_start, left, right, out, diagonal
):
    """Takahashi's recursion for Z = (I − P)⁻¹ on the entries of the factors, from the root down:

    Z(j, i) = Σ_{k > i} Z(j, k) left(k, i)                 j > i
    Z(i, j) = Σ_{k > i} right(i, k) Z(k, j)/out(i)         j > i, and + 1/out(i) for j = i
    """
    n = node.size
    place = np.empty(n, np.int64)
    above = [np.empty((0, 0), left.dtype)]  # the inverse within each front on the way to the root
    above_front = [-1]
    for f in range(start.size - 2, -1, -1):
        first = start[f]
        width = start[f + 1] - first
        edge = border[border_start[f] : border_start[f + 1]]
        size = width + edge.size
        block = left[left_start[f] : left_start[f + 1]].reshape(size, width)
        row = right[right_start[f] : right_start[f + 1]].reshape(width, edge.size)
        inverse = np.zeros((size, size), left.dtype)
        if edge.size:
            # The parent holds the first border state.
            while not start[above_front[-1]] <= edge[0] < start[above_front[-1] + 1]:
                above.pop()
                above_front.pop()
            up = above_front[-1]
            parents = above[-1]
            up_width = start[up + 1] - start[up]
            place[start[up] : start[up + 1]] = np.arange(up_width)
            for k in range(border_start[up], border_start[up + 1]):
                place[border[k]] = up_width + k - border_start[up]
            for a in range(edge.size):
                for b in range(edge.size):
                    inverse[width + a, width + b] = parents[place[edge[a]], place[edge[b]]]
        for i in range(width - 1, -1, -1):
            scale = 1.0 / out[first + i]
            # Row i first holds the sums over k, in the order in which memory lies.
            for k in range(i + 1, size):
                weight = scale * (block[i, k] if k < width else row[i, k - width])
                if weight != 0.0:
                    for j in range(i + 1, size):
                        inverse[i, j] += weight * inverse[k, j]
            for j in range(i + 1, size):
                total = inverse[j, i]
                for k in range(i + 1, size):
                    total += inverse[j, k] * block[k, i]
                inverse[j, i] = total
            total = scale
            for k in range(i + 1, size):
                weight = scale * (block[i, k] if k < width else row[i, k - width])
                total += weight * inverse[k, i]
            inverse[i, i] = total
            diagonal[node[first + i]] = total
        above.append(inverse)
        above_front.append(f)
