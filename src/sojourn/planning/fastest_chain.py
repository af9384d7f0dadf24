"""The fastest-mixing reversible chain on a graph with a given distribution.

Boyd, Diaconis & Xiao (SIAM Review 46, 2004). A chain P that is reversible with respect to η is
described by its symmetric flow X = D_η P. With q = √η, the matrix

    Y = D^{-1/2} X D^{-1/2} − q qᵀ

has the eigenvalues of P, with the eigenvalue 1 of the stationary state replaced by 0. So the
largest modulus of an eigenvalue of Y is the SLEM (Eq. SLEM_as_norm; it needs reversibility: for
other chains the norm of Y is only an upper bound), and to make it small is convex in X.

:class:`TwoWayFlows` is the same problem as the kernel wants it; FMH and FMH-SDP use it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from sojourn.arguments import choice, number
from sojourn.errors import ArgumentError, InfeasibleTarget, SolverFailure
from sojourn.model import distribution as as_distribution
from sojourn.solvers.feasibility import largest_support
from sojourn.solvers.mixing_sdp import MixingProblem, MixingSolution, solve_mixing

Array = NDArray[np.float64]

CRITERIA = ("one-sided", "slem")

NO_SYMMETRY = "use method='joint' of faster_mixing_plan, which needs no symmetry"


def check_criterion(criterion: str, among: Sequence[str] = CRITERIA) -> None:
    choice(criterion, "criterion", among)


@dataclass(frozen=True)
class TwoWayFlows:
    """Symmetric flows X on the two-way moves of a graph, one unknown per move.

    Relative to the target η > 0: the unknown of the move between i and j is
    x = X_ij / min(η_i, η_j), and a row sum is r_i = Σ_j X_ij / η_i, so that everything the
    kernel sees is of order 1 however small some η_i are.
    """

    target: Array
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    labels: Sequence[Any]

    @classmethod
    def on(cls, adjacency: Any, target: Array, labels: Sequence[Any] | None = None) -> TwoWayFlows:
        """On the moves that ``adjacency`` allows both ways."""
        allowed = dense_boolean(adjacency)
        first, second = np.nonzero(np.triu(allowed & allowed.T))
        return cls(target, first, second, range(target.size) if labels is None else labels)

    @property
    def n_states(self) -> int:
        return self.target.size

    @property
    def loops(self) -> NDArray[np.bool_]:
        """Which moves stay."""
        return self.first == self.second

    def flow(self, x: Array) -> Array:
        """The matrix X."""
        X = np.zeros((self.n_states, self.n_states))
        value = x * np.minimum(self.target[self.first], self.target[self.second])
        X[self.first, self.second] = value
        X[self.second, self.first] = value
        return X

    def start(self) -> Array:
        """Somewhere inside: a walk that chooses evenly among the moves, slowed down to η."""
        degree = np.bincount(self.first, minlength=self.n_states)
        degree = degree + np.bincount(self.second[~self.loops], minlength=self.n_states)
        return 1.0 / np.maximum(degree[self.first], degree[self.second])

    def problem(
        self, *, two_sided: bool, weight: Array | None = None, **terms: Any
    ) -> MixingProblem:
        """The kernel's problem; ``weight`` as in the loss, ``terms`` in relative units."""
        eta, i, j = self.target, self.first, self.second
        move, count = np.arange(i.size), i.size
        across = ~self.loops
        scale = np.minimum(eta[i], eta[j])
        often = np.where(across, 2.0, 1.0)  # off the diagonal an unknown stands for two entries
        profile = often * scale / np.sqrt(eta[i] * eta[j])
        share = np.concatenate([scale / eta[i], (scale / eta[j])[across]])
        place = (np.concatenate([i, j[across]]), np.concatenate([move, move[across]]))
        q = np.sqrt(eta)
        return MixingProblem(
            heads=i.astype(np.int64),
            tails=sp.csc_matrix((profile, j, np.arange(count + 1)), shape=(eta.size, count)),
            shift=np.outer(q, q),
            rows=sp.csr_matrix((share, place), shape=(eta.size, count)),
            mass=often * scale,
            weight=np.zeros(eta.size) if weight is None else weight / eta,
            two_sided=two_sided,
            **terms,
        )

    def require_mixing(self, two_sided: bool) -> None:
        """Raise where no symmetric flow can mix, whatever its values."""
        n = self.n_states
        graph = sp.csr_matrix((np.ones(self.first.size), (self.first, self.second)), shape=(n, n))
        pieces, piece = connected_components(graph, directed=False)

        def named(states: NDArray[np.bool_]) -> str:
            return name_states([self.labels[int(s)] for s in np.flatnonzero(states)])

        if pieces > 1:
            raise InfeasibleTarget(
                f"the moves that can be made both ways leave the states in {pieces} pieces, "
                f"{named(piece == piece[0])} and {named(piece != piece[0])}: "
                "a reversible chain never crosses between them",
                NO_SYMMETRY,
            )
        if two_sided and n > 1 and not self.loops.any() and _bipartite(graph):
            raise InfeasibleTarget(
                "every reversible chain on these moves alternates between two halves of the "
                "states (nothing stays where it is), so its SLEM is 1",
                "use criterion='one-sided' (alternating does not harm averages)",
            )


def name_states(labels: Sequence[Any]) -> str:
    """A set of states in a message, cut short where it is long."""
    shown = ", ".join(repr(label) for label in labels[:6])
    return "{" + shown + (f", … ({len(labels)} states)" if len(labels) > 6 else "") + "}"


def _bipartite(graph: Any) -> bool:
    """Whether a connected graph without loops has two sides."""
    undirected = graph + graph.T
    order, before = breadth_first_order(undirected, 0, directed=False)
    side = np.zeros(order.size, dtype=bool)
    for s in order[1:]:
        side[s] = not side[before[s]]
    coo = undirected.tocoo()
    return bool((side[coo.row] != side[coo.col]).all())


@dataclass(frozen=True)
class FastestChain:
    """``transitions`` P is reversible with respect to ``distribution``; no other such chain on
    the graph has a smaller ``value`` than ``bound``."""

    transitions: Array
    distribution: Array
    criterion: str
    value: float
    """The SLEM, or the largest eigenvalue besides that of the stationary state."""
    bound: float
    iterations: int

    @property
    def gap(self) -> float:
        """How much smaller ``value`` could be, at most."""
        return max(0.0, self.value - self.bound)

    @property
    def slem(self) -> float:
        """The second largest eigenvalue modulus of P."""
        q = np.sqrt(self.distribution)
        Y = q[:, None] * self.transitions / q - np.outer(q, q)
        return float(np.abs(np.linalg.eigvalsh(0.5 * (Y + Y.T))).max())


def fastest_mixing_chain(
    graph: Any,
    distribution: ArrayLike | None = None,
    criterion: str = "slem",
    loops: bool = True,
    tolerance: float = 1e-8,
) -> FastestChain:
    """The reversible chain on the edges of ``graph`` with that distribution that mixes fastest.

    ``graph`` is an adjacency matrix (dense or sparse; only moves allowed both ways are used) or
    a networkx graph. ``distribution`` is uniform unless given; every entry must be positive.
    ``loops`` allows staying at every vertex, as in Boyd et al.; without it only where ``graph``
    has a loop. ``criterion="one-sided"`` minimises the second largest eigenvalue instead of the
    second largest modulus.
    """
    check_criterion(criterion)
    tolerance = number(tolerance, "tolerance", "give a number between 0 and 1", 1e-15, 1.0)
    adjacency, labels = _adjacency(graph)
    n = adjacency.shape[0]
    eta = np.full(n, 1.0 / n) if distribution is None else as_distribution(
        distribution, n, "distribution"
    )  # fmt: skip
    if not (eta > 0).all():
        s = int(np.flatnonzero(eta <= 0)[0])
        raise ArgumentError(
            f"the distribution gives vertex {labels[s]!r} no weight",
            "leave such vertices out of the graph",
        )
    two_sided = criterion == "slem"
    flows = TwoWayFlows.on(adjacency | np.eye(n, dtype=bool) if loops else adjacency, eta, labels)
    flows.require_mixing(two_sided)
    if not np.isin(np.arange(n), flows.first[flows.loops]).all():
        flows = _that_can_be_used(flows)
        flows.require_mixing(two_sided)
    problem = flows.problem(two_sided=two_sided)
    # One row sum follows from the others and the total.
    keep = np.arange(n) != int(eta.argmax())
    problem = flows.problem(
        two_sided=two_sided, equalities=problem.rows.toarray()[keep], right=np.ones(n - 1)
    )
    if not two_sided:
        # q is an eigenvector for certain here. At 0 it would hide second eigenvalues below 0.
        problem = replace(problem, shift=2.0 * problem.shift)
    solution = solve_mixing(problem, flows.start(), tolerance)
    require_converged(solution, tolerance)
    X = flows.flow(solution.x)
    P = X / X.sum(axis=1, keepdims=True)
    return FastestChain(P, eta, criterion, solution.value, solution.bound, solution.iterations)


def require_converged(solution: MixingSolution, tolerance: float) -> None:
    if not solution.converged:
        raise SolverFailure(
            f"the interior point stopped after {solution.iterations} iterations with a proved "
            f"gap of {solution.value - solution.bound:.1e} and constraints fulfilled to "
            f"{solution.residual:.1e}, short of the tolerance {tolerance:.1e}",
            "ask for a looser tolerance",
        )


def _that_can_be_used(flows: TwoWayFlows) -> TwoWayFlows:
    """Only the moves that some symmetric flow with row sums η uses.

    Where staying isn't possible η may force moves to be unused (on a path with equal shares,
    every second one), and there would be no interior for an interior point to follow.
    """
    rows = flows.problem(two_sided=False).rows
    usable = largest_support(np.hstack([rows.toarray(), -np.ones((flows.n_states, 1))]))
    if not usable[-1]:
        raise InfeasibleTarget(
            "no symmetric flow on these moves has the given distribution as its row sums",
            "allow staying (loops=True), or change the distribution",
        )
    kept = usable[:-1]
    return TwoWayFlows(flows.target, flows.first[kept], flows.second[kept], flows.labels)


def dense_boolean(matrix: Any) -> NDArray[np.bool_]:
    """An adjacency matrix, dense or sparse, as a dense array of booleans."""
    try:
        dense: Any = matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
    except ValueError:
        raise ArgumentError(
            "the graph's rows have different lengths", "give a square matrix, not empty"
        ) from None
    return np.asarray(dense, dtype=bool)


def _adjacency(graph: Any) -> tuple[NDArray[np.bool_], Sequence[Any]]:
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        labels = list(graph.nodes)
        index = {label: k for k, label in enumerate(labels)}
        matrix = np.zeros((len(labels), len(labels)), dtype=bool)
        directed = graph.is_directed()
        for edge in graph.edges:
            i, j = index[edge[0]], index[edge[1]]
            matrix[i, j] = True
            matrix[j, i] |= not directed
    else:
        matrix = dense_boolean(graph)
        labels = list(range(matrix.shape[0] if matrix.ndim else 0))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ArgumentError(
            f"the graph's adjacency has shape {matrix.shape}", "give a square matrix, not empty"
        )
    return matrix, labels
