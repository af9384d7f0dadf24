"""Directed graphs in compressed rows: strong components and periods, in linear time.

A graph is ``first`` (n + 1 entries) and ``target``: the edges of node s lead to
``target[first[s] : first[s + 1]]``. ``usable``, one flag per edge, takes edges away without
rebuilding anything.

The *period* of a strong component is the greatest common divisor of the lengths of its cycles.
Give each node its depth in any tree that spans the component from one root: every edge s → t
closes cycles whose lengths differ by depth(s) + 1 − depth(t), and these differences generate
the period. A depth-first search finds components and depths at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def strong_labels(
    first: NDArray[Any], target: NDArray[Any], usable: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each node's strong component, and the period of each component.

    Edges between components lead from a higher number to a lower one, so number 0 is closed.
    A component without a cycle (one node, no loop) has period 0.
    """
    n = first.size - 1
    if usable is None:
        usable = np.ones(target.size, dtype=bool)
    label, depth = np.full(n, -1), np.empty(n, dtype=np.int64)
    roots = search(first, target, usable, np.arange(n), label, depth)
    number = np.empty(n, dtype=np.int64)
    number[roots] = np.arange(roots.size)
    label = number[label]
    return label, _periods(first, target, usable, label, depth, roots.size)


def groups(label: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """The members of labels 0 … count − 1, each in increasing order; label −1 is left out."""
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label + 1, minlength=count + 1))
    return np.split(order, ends[:-1])[1:]


@njit(cache=True, nogil=True)
def reach(first, target, seeds, blocked):  # type: ignore[no-untyped-def]
    """The nodes that can be reached from ``seeds`` without entering a ``blocked`` one."""
    n = first.size - 1
    reached = np.zeros(n, np.bool_)
    queue = np.empty(n, np.int64)
    end = 0
    for s in seeds:
        if not reached[s]:
            reached[s] = True
            queue[end] = s
            end += 1
    begin = 0
    while begin < end:
        s = queue[begin]
        begin += 1
        for k in range(first[s], first[s + 1]):
            t = target[k]
            if not (reached[t] or blocked[t]):
                reached[t] = True
                queue[end] = t
                end += 1
    return reached


@njit(cache=True, nogil=True)
def search(first, target, usable, nodes, label, depth):  # type: ignore[no-untyped-def]
    """Tarjan's search over ``nodes``, which no usable edge may leave.

    ``label`` (−1 for all ``nodes`` on entry) becomes the component's root; the roots are
    returned in the order in which components close, successors first.
    """
    on_stack = -2
    n = first.size - 1
    order = np.empty(n, np.int64)
    low = np.empty(n, np.int64)
    cursor = np.empty(n, np.int64)
    path = np.empty(nodes.size, np.int64)
    stack = np.empty(nodes.size, np.int64)
    roots = np.empty(nodes.size, np.int64)
    seen = n_roots = n_stack = 0
    for start in nodes:
        if label[start] != -1:
            continue
        n_path = 0
        fresh = start
        while True:
            if fresh >= 0:
                depth[fresh] = n_path
                label[fresh] = on_stack
                order[fresh] = low[fresh] = seen
                cursor[fresh] = first[fresh]
                path[n_path] = stack[n_stack] = fresh
                seen += 1
                n_path += 1
                n_stack += 1
                fresh = -1
            s = path[n_path - 1]
            k = cursor[s]
            if k < first[s + 1]:
                cursor[s] = k + 1
                if usable[k]:
                    t = target[k]
                    if label[t] == -1:
                        fresh = t
                    elif label[t] == on_stack:
                        low[s] = min(low[s], order[t])
                continue
            n_path -= 1
            if low[s] == order[s]:
                while label[s] == on_stack:
                    n_stack -= 1
                    label[stack[n_stack]] = s
                roots[n_roots] = s
                n_roots += 1
            if n_path == 0:
                break
            parent = path[n_path - 1]
            low[parent] = min(low[parent], low[s])
    return roots[:n_roots].copy()


@njit(cache=True, nogil=True)
def _periods(first, target, usable, label, depth, count):  # type: ignore[no-untyped-def]
    period = np.zeros(count, np.int64)
    for s in range(first.size - 1):
        for k in range(first[s], first[s + 1]):
            t = target[k]
            if usable[k] and label[t] == label[s]:
                a, b = period[label[s]], abs(depth[s] + 1 - depth[t])
                while b:
                    a, b = b, a % b
                period[label[s]] = a
    return period
