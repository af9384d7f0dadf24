"""The flows of a stationary occupancy, for programs that trade loss against mixing.

X(λ)_{ss'} = Σ_a λ(s,a) p(s'|s,a), the share of all moves that go from s to s', is linear in
the occupancy λ ∈ Λ. How well it mixes is measured against a fixed target η > 0, with D = diag η
and q = √η, in one of three ways, all convex in λ:

    "one-sided"  the largest γ with 𝓔_λ(g) ≥ γ Var_η(g) for all g: the share of the variance
                 that one step removes, where 𝓔_λ(g) = ½ Σ X(λ)_{ss'} (g_s − g_s')² is the
                 Dirichlet form. As a matrix inequality, with M = D^{-1/2}(½(X + Xᵀ) + D −
                 diag η_λ)D^{-1/2}, it is M − qqᵀ ⪯ (1 − γ)I off q, which M keeps.
    "additive"   1 − λ_max(½(Y + Yᵀ)) with Y = D^{-1/2} X(λ) D^{-1/2} − qqᵀ.
    "slem"       1 − ‖Y‖₂ (Eq. SLEM_as_norm with the target in the place of η_λ).

Where η_λ is the target the first two are the spectral gap of the additive reversibilisation
½(P + P̂) of the chain (P̂ its time reversal), and the third bounds 1 − SLEM from below. Away from
it only the first is honest: moving time into the larger half of a world lowers both λ_max and
‖Y‖₂ without a single crossing more, because Y then confuses "more time here" with "more mixing".
𝓔_λ is 0 on halves between which nothing flows, whatever the distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.chains import Chain
from sojourn.errors import InfeasibleTarget
from sojourn.model import MDP, maximal_end_components
from sojourn.planning.fastest_chain import name_states
from sojourn.solvers.feasibility import largest_support
from sojourn.solvers.mixing_sdp import MixingProblem

Array = NDArray[np.float64]

# A state without variance counts as unused below this share of an even one; then as much of
# the uniform policy is mixed into the target.
_UNUSED = 1e-6
_EXPLORED = 1e-3


@dataclass(frozen=True)
class OccupancyFlows:
    """One unknown per pair, relative to the target: x = λ(s,a)/η_s, so that x ≈ π(a|s).

    ``pairs`` are the pairs of ``mdp`` that the program may use, ``states`` those it is about
    (η > 0 there); states outside are never visited.
    """

    mdp: MDP
    target: Array
    """η on ``states``, summing to 1."""
    states: NDArray[np.int64]
    pairs: NDArray[np.int64]

    @classmethod
    def around(cls, mdp: MDP, eta: Array, matters: NDArray[np.bool_]) -> OccupancyFlows:
        """On the end component that η lives in, with η as the target.

        States that don't matter (no variance) may have η = 0, although the way between two
        halves of the world leads through them. The target needs every state, so a thousandth
        of the uniform policy's distribution is mixed in where that is so.
        """
        parts = maximal_end_components(mdp)
        states, pairs = max(parts, key=lambda part: eta[part.states].sum())
        target = eta[states] / eta[states].sum()
        if (target[~matters[states]] < _UNUSED / states.size).any():
            count = np.bincount(mdp.pair_state[pairs], minlength=mdp.n_states)
            probability = np.zeros(mdp.n_pairs)
            probability[pairs] = 1.0 / count[mdp.pair_state[pairs]]
            moves = sp.diags(probability[pairs]) @ mdp.transitions[pairs][:, states]
            heads = np.searchsorted(states, mdp.pair_state[pairs])
            collect = sp.csr_matrix((np.ones(pairs.size), (heads, np.arange(pairs.size))))
            target = (1.0 - _EXPLORED) * target + _EXPLORED * Chain(collect @ moves).stationary()
        return cls(mdp, target, states, pairs)

    @property
    def n_states(self) -> int:
        return self.states.size

    @cached_property
    def heads(self) -> NDArray[np.int64]:
        """The position among ``states`` of each pair's state."""
        return np.searchsorted(self.states, self.mdp.pair_state[self.pairs]).astype(np.int64)

    @cached_property
    def moves(self) -> sp.csr_matrix:
        """p(s'|s,a), pairs × states."""
        return sp.csr_matrix(self.mdp.transitions[self.pairs][:, self.states])

    def occupancy(self, x: Array) -> Array:
        """λ over all pairs of the model."""
        occupancy = np.zeros(self.mdp.n_pairs)
        occupancy[self.pairs] = np.maximum(x, 0.0) * self.target[self.heads]
        return occupancy / occupancy.sum()

    def start(self, criterion: str) -> Array:
        """Somewhere inside: all actions evenly.

        The "one-sided" gap of the uniform policy's own occupancy is positive. The others may be
        negative there, where states have other shares of the time than the target, and the
        target's are kept.
        """
        even = 1.0 / np.bincount(self.heads)[self.heads]
        chain = Chain(sp.csr_matrix((even, (self.heads, np.arange(even.size)))) @ self.moves)
        if criterion != "one-sided" or len(chain.recurrent_classes()) > 1:
            return even
        return even * (chain.stationary() / self.target)[self.heads]

    def unknowns(self, occupancy: Array) -> Array:
        """x of an occupancy of the model."""
        return occupancy[self.pairs] / self.target[self.heads]

    def problem(
        self,
        *,
        criterion: str,
        reversible: bool,
        weight: Array,
        penalty: float | None,
        **terms: Any,
    ) -> MixingProblem:
        """The kernel's problem; ``weight`` as in the loss, ``terms`` in relative units."""
        eta, heads, n = self.target, self.heads, self.n_states
        q = np.sqrt(eta)
        # Column a of the tails is √η_s D^{-1/2} p_a, so that ½(e_s vᵀ + v e_sᵀ) is its part of
        # the symmetric part of Y.
        tails = sp.csc_matrix(sp.diags(1.0 / q) @ self.moves.T @ sp.diags(q[heads]))
        shift = np.outer(q, q)
        wide = criterion == "slem" and not reversible
        if criterion == "one-sided":
            # + D − diag η_λ, relative to D; and −1 rather than 0 along q, whose eigenvalue would
            # hide second eigenvalues below 0.
            count = np.arange(heads.size)
            tails = tails - sp.csc_matrix(
                (np.ones(heads.size), (heads, count)), shape=(n, count.size)
            )
            tails = sp.csc_matrix(tails)
            shift = 2.0 * shift - np.eye(n)
        elif wide:
            # ‖Y‖₂ is the largest eigenvalue of [[0, Y], [Yᵀ, 0]].
            empty = sp.csc_matrix((n, heads.size))
            tails = sp.csc_matrix(sp.vstack([empty, 2.0 * tails]))
            zero = np.zeros((n, n))
            shift = np.block([[zero, shift], [shift, zero]])
        tails.sort_indices()
        equalities, right = self.equalities(reversible)
        return MixingProblem(
            heads=heads,
            tails=tails,
            shift=shift,
            rows=sp.csr_matrix((np.ones(heads.size), (heads, np.arange(heads.size)))),
            mass=eta[heads],
            weight=weight[self.states] / eta,
            penalty=penalty,
            two_sided=criterion == "slem" and reversible,
            equalities=equalities,
            right=right,
            **terms,
        )

    def equalities(self, reversible: bool) -> tuple[Array, Array]:
        """Stationarity (Eq. eq:state.action.stationary), and X = Xᵀ where asked for; only as
        many rows as are independent."""
        eta, n = self.target, self.n_states
        # Row s' is divided by η_s'; the row of the largest η follows from the others with the
        # smallest error.
        inflow = sp.diags(1.0 / eta) @ self.moves.T @ sp.diags(eta[self.heads])
        outflow = sp.csr_matrix(
            (np.ones(self.pairs.size), (self.heads, np.arange(self.pairs.size))),
            shape=(n, self.pairs.size),
        )
        rows = np.asarray((outflow - inflow).todense())[np.arange(n) != int(eta.argmax())]
        if reversible:
            # X = Xᵀ implies stationarity.
            rows = _independent(self._asymmetry())
        return rows, np.zeros(rows.shape[0])

    def _asymmetry(self) -> Array:
        """Y_{ss'} − Y_{s's} as a linear function of x, one row per pair of states in question."""
        n, q = self.n_states, np.sqrt(self.target)
        moves = self.moves.tocoo()
        head = self.heads[moves.row]
        low, high = np.minimum(head, moves.col), np.maximum(head, moves.col)
        across = low != high
        key, row = np.unique(low[across] * n + high[across], return_inverse=True)
        value = np.where(head < moves.col, 1.0, -1.0) * moves.data * q[head] / q[moves.col]
        matrix = sp.csr_matrix(
            (value[across], (row, moves.row[across])), shape=(key.size, self.pairs.size)
        )
        return np.asarray(matrix.todense())

    def usable(self, reversible: bool) -> OccupancyFlows:
        """Without the pairs that X = Xᵀ keeps at zero, which would leave the interior point no
        interior."""
        if not reversible:
            return self
        support = largest_support(self._asymmetry())
        kept = replace(self, pairs=self.pairs[support])
        missing = np.setdiff1d(np.arange(self.n_states), self.heads[support])
        if missing.size:
            labels = [self.mdp.state_labels[int(s)] for s in self.states[missing]]
            raise InfeasibleTarget(
                "no stationary occupancy with X = Xᵀ visits "
                f"{name_states(labels)}: what enters can't "
                "return by the same move",
                "drop reversible=True",
            )
        return kept

    def polished(self, x: Array, reversible: bool) -> Array:
        """x moved, by the smallest relative changes, to fulfil the equalities to rounding.

        Where two halves of the world are joined by a flow of 1e-6, a flow that is stationary to
        1e-9 of its largest part only says little about how the halves share the time.
        """
        rows, right = self.equalities(reversible)
        rows = np.vstack([rows, self.target[self.heads]])
        right = np.append(right, 1.0)
        x = np.maximum(x, 0.0)
        for _ in range(2):
            scaled = rows * x
            norm = np.linalg.norm(scaled, axis=1)
            norm[norm == 0] = 1.0
            change = np.linalg.lstsq(scaled / norm[:, None], (right - rows @ x) / norm, rcond=None)[
                0
            ]
            x = x * np.maximum(1.0 + change, 0.0)
        return x


def _independent(rows: Array) -> Array:
    """A largest independent subset of the rows."""
    if not rows.size:
        return rows
    norm = np.linalg.norm(rows, axis=1)
    rows = rows[norm > 0] / norm[norm > 0, None]
    _, R, pivot = sla.qr(rows.T, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    return rows[np.sort(pivot[: int((size > 1e-10).sum())])]
