"""A finite Markov chain."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from sojourn.chains.elimination import stationary_dense
from sojourn.errors import ArgumentError, ModelError, SojournError

ROW_SUM_TOLERANCE = 1e-8
DENSE_STATES = 1500


class Chain:
    """A Markov chain given by its transition matrix, dense or sparse."""

    def __init__(self, P: Any) -> None:
        matrix: Any
        if sp.issparse(P):
            given: Any = P
            matrix = sp.csr_matrix(given, dtype=np.float64, copy=True)
            matrix.sum_duplicates()
            data = matrix.data
        else:
            matrix = data = np.array(P, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
            raise ModelError(
                f"a transition matrix is square and not empty, this one has shape {matrix.shape}",
                "P[s, s'] is the probability of moving from state s to state s'",
            )
        wrong = ~(data >= 0) | ~np.isfinite(data)
        if wrong.any():
            k = np.flatnonzero(wrong.ravel())[0]
            raise ModelError(
                f"the transition matrix has the entry {data.ravel()[k]}",
                "probabilities are numbers between 0 and 1",
            )
        total = np.asarray(matrix.sum(axis=1)).ravel()
        off = np.abs(total - 1.0) > ROW_SUM_TOLERANCE
        if off.any():
            s = int(np.flatnonzero(off)[0])
            raise ModelError(
                f"the probabilities of leaving state {s} sum to {total[s]:.12g}",
                "every row of a transition matrix sums to 1",
            )
        if not isinstance(matrix, np.ndarray):
            matrix.data /= np.repeat(total, np.diff(matrix.indptr))
            matrix.eliminate_zeros()
        else:
            matrix /= total[:, None]
        self._transitions = matrix

    @property
    def transitions(self) -> Any:
        """The transition matrix, a dense array or a CSR matrix as it was given."""
        return self._transitions

    @property
    def n_states(self) -> int:
        return int(self._transitions.shape[0])

    @cached_property
    def _classes(self) -> list[NDArray[np.int64]]:
        matrix = sp.csr_matrix(self._transitions)
        count, label = connected_components(matrix, connection="strong")
        rows = np.repeat(np.arange(self.n_states), np.diff(matrix.indptr))
        leaves = label[rows] != label[matrix.indices]
        closed = np.ones(count, dtype=bool)
        closed[label[rows[leaves]]] = False
        order = np.argsort(label, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
        return sorted((groups[c] for c in np.flatnonzero(closed)), key=lambda g: int(g[0]))

    def recurrent_classes(self) -> list[NDArray[np.int64]]:
        """The closed communicating classes, ordered by their first state."""
        return [group.copy() for group in self._classes]

    def stationary(self, recurrent_class: int | None = None) -> NDArray[np.float64]:
        """η with η P = η, Σ η = 1; zero in transient states."""
        classes = self._classes
        if recurrent_class is None:
            if len(classes) > 1:
                raise SojournError(
                    f"the chain has {len(classes)} recurrent classes, so it has no single "
                    "stationary distribution",
                    "ask for one class with stationary(recurrent_class=k)",
                )
            recurrent_class = 0
        if not 0 <= recurrent_class < len(classes):
            raise ArgumentError(
                f"there is no recurrent class {recurrent_class}, the chain has {len(classes)}"
            )
        states = classes[recurrent_class]
        P = self._transitions[states][:, states]
        eta = np.zeros(self.n_states)
        if states.size <= DENSE_STATES:
            eta[states] = stationary_dense(
                np.array(P) if isinstance(P, np.ndarray) else P.toarray()
            )
        else:
            eta[states] = _stationary_sparse(sp.csr_matrix(P))
        return eta


def _stationary_sparse(P: sp.csr_matrix) -> NDArray[np.float64]:
    n = P.shape[0]
    system = (sp.identity(n, format="csr") - P).T.tocsc()
    lu = splu(
        system[:-1, :-1].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    b = -np.asarray(system[:-1, -1].todense()).ravel()
    y = lu.solve(b)
    y += lu.solve(b - system[:-1, :-1] @ y)
    eta = np.append(np.maximum(y, 0.0), 1.0)
    return eta / eta.sum()
