"""A finite Markov chain: where it settles, how fast, and how long it takes to get somewhere.

recurrent class   a set of states that is never left and in which each leads to each other
transient state   a state outside all recurrent classes: visited finitely often
irreducible       all states form one recurrent class
period            the greatest common divisor of the lengths of the cycles of a class
η                 stationary distribution, η P = η; one for each recurrent class
P̂                 time reversal, P̂(s, s') = η(s') P(s', s)/η(s); reversible: P̂ = P
ξ                 eigenvalues of P
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import indices, number, whole
from sojourn.chains import linear, spectrum
from sojourn.chains.graph import groups, reach, strong_labels
from sojourn.errors import ArgumentError, ModelError, NotReversible, SeveralClasses

# A row whose sum is off by less than this is rounding, and is renormalised; beyond it the
# user's numbers are wrong and guessing would hide it.
ROW_SUM_TOLERANCE = 1e-8

Vector = NDArray[np.float64]


class PseudoSpectralGap(float):
    """A number that says how it was found: the best ``power`` k, and ``upper_bound``, which
    the maximum over *all* k does not exceed. It is exact when both agree."""

    power: int
    upper_bound: float

    def __new__(cls, value: float, power: int, upper_bound: float) -> PseudoSpectralGap:
        number = super().__new__(cls, value)
        number.power = power
        number.upper_bound = upper_bound
        return number


class Chain:
    """A frozen Markov chain given by its transition matrix, dense or SciPy sparse.

    A dense array stays dense, which is right up to a few thousand states; a sparse matrix
    becomes CSR, and 10⁶ states of a map are no difficulty.
    """

    def __init__(self, P: Any) -> None:
        sparse = sp.issparse(P)
        given: Any = P
        try:
            if np.iscomplexobj(given):
                raise TypeError  # NumPy would drop the imaginary part
            matrix: Any = (
                sp.csr_matrix(given, dtype=np.float64, copy=True)
                if sparse
                else np.array(given, dtype=np.float64)
            )
        except (TypeError, ValueError):
            raise ModelError(
                "the transition matrix is not an array of real numbers",
                "give rows of equal length, or a SciPy sparse matrix",
            ) from None
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
            raise ModelError(
                f"a transition matrix is square and not empty, this one has shape {matrix.shape}",
                "P[s, s'] is the probability of moving from state s to state s'",
            )
        self._transitions = _checked(matrix)

    @property
    def transitions(self) -> Any:
        """The transition matrix, read-only: a dense array or a CSR matrix, as it was given."""
        return self._transitions

    @property
    def n_states(self) -> int:
        return int(self._transitions.shape[0])

    def __repr__(self) -> str:
        kind = "sparse" if sp.issparse(self._transitions) else "dense"
        return f"Chain({self.n_states} states, {kind})"

    # -- structure ----------------------------------------------------------------------

    def recurrent_classes(self) -> list[NDArray[np.int64]]:
        """The states of each recurrent class, ordered by their first state."""
        return [states.copy() for states, _ in self._classes]

    def period(self, recurrent_class: int | None = None) -> int:
        """The period of a recurrent class, which need not be named where there is only one."""
        return self._class(recurrent_class)[1]

    @cached_property
    def _graph(self) -> sp.csr_matrix:
        return sp.csr_matrix(self._transitions)

    @cached_property
    def _classes(self) -> list[tuple[NDArray[np.int64], int]]:
        """States and period of each recurrent class."""
        graph = self._graph
        label, period = strong_labels(graph.indptr, graph.indices)
        source = np.repeat(np.arange(self.n_states), np.diff(graph.indptr))
        closed = np.ones(period.size, dtype=bool)
        closed[label[source[label[source] != label[graph.indices]]]] = False
        members = groups(np.where(closed[label], label, -1), period.size)
        found = [(members[c], int(period[c])) for c in np.flatnonzero(closed)]
        return sorted(found, key=lambda entry: int(entry[0][0]))

    def _class(self, index: int | None) -> tuple[NDArray[np.int64], int]:
        classes = self._classes
        if index is None:
            if len(classes) > 1:
                shown = "; ".join(_some(states) for states, _ in classes[:3])
                raise SeveralClasses(
                    f"the chain has {len(classes)} recurrent classes (states {shown}"
                    + ("; …)" if len(classes) > 3 else ")")
                    + ", and the answer depends on the one in which a walk ends up",
                    "ask for one of them with recurrent_class=0, 1, …",
                )
            index = 0
        is_number = isinstance(index, int | np.integer) and not isinstance(index, bool)
        if not (is_number and 0 <= index < len(classes)):
            raise ArgumentError(
                f"there is no recurrent class {index!r}",
                f"the chain has {len(classes)}, numbered from 0",
            )
        return classes[index]

    def _part(self, states: NDArray[np.int64]) -> Any:
        if states.size == self.n_states:
            return self._transitions
        return self._transitions[states][:, states]

    # -- long run -----------------------------------------------------------------------

    def stationary(self, recurrent_class: int | None = None) -> Vector:
        """The stationary distribution η = ηP, zero outside the recurrent class.

        A chain with several recurrent classes has one for each of them: name the class, as
        numbered by :meth:`recurrent_classes`. Right to nearly every digit of every entry,
        however slowly the chain mixes (:mod:`sojourn.chains.elimination`).
        """
        states, _ = self._class(recurrent_class)
        eta = np.zeros(self.n_states)
        if states.size == self.n_states and recurrent_class in (None, 0):
            eta[:] = self._eta
        else:
            eta[states] = linear.stationary(self._part(states))
        return eta

    @cached_property
    def _eta(self) -> Vector:
        """η on the one recurrent class."""
        return linear.stationary(self._part(self._class(None)[0]))

    def fundamental_matrix(self) -> Vector:
        """Z = (I − P + 1η)⁻¹ of a chain with one recurrent class, dense.

        Z − 1η is the deviation matrix: Σ_t (P^t − 1η)(s, s'), the visits to s' that a start in
        s yields beyond those of a stationary walk.
        """
        eta = self.stationary()
        return spectrum.deviation_matrix(self._transitions, eta) + eta

    def visit_variance(self) -> Vector:
        """τ²(s) = lim Var(visits to s in n steps)/n = η(2 Z(s, s) − 1 − η), per state.

        Large maps are no difficulty: of Z only the diagonal is computed.
        """
        eta = self.stationary()
        deviation = spectrum.deviation_diagonal(self._transitions, eta)
        return np.maximum(eta * (2.0 * deviation - 1.0 + eta), 0.0)

    # -- spectrum -----------------------------------------------------------------------

    @property
    def slem(self) -> float:
        """ξ_max = max |ξ| over all eigenvalues but one that is 1 (Eq. slem.spectral.gap).

        The formula skips *every* eigenvalue that equals 1, and a chain with several recurrent
        classes has one for each; read literally it would call such a chain fast. Here only one
        is skipped: with several recurrent classes, or a periodic one, ``slem`` is exactly 1. A
        chain of one state has no other eigenvalue: 0.
        """
        return 1.0 - self.spectral_gap

    @cached_property
    def spectral_gap(self) -> float:
        """γ = 1 − ``slem``, right to nearly every digit also where it is tiny."""
        if self._never_settles:
            return 0.0
        states, _ = self._class(None)
        if states.size == self.n_states:
            return _in_unit(spectrum.spectral_gap(self._transitions, self._eta, self._reversible))
        return _in_unit(spectrum.spectral_gap(self._transitions, self.stationary(), False))

    @cached_property
    def one_sided_gap(self) -> float:
        """1 − the second-*largest* eigenvalue of (P + P̂)/2, on the recurrent class.

        The yardstick for averages over time. An eigenvalue near −1 enlarges ``slem`` but makes
        visits more regular, not less, and so it does not count here: in an irreducible chain
        this gap is positive even if it is periodic, and a state's ``visit_variance`` is at
        most 2η(1 − η)/gap. With several recurrent classes it is 0.
        """
        if len(self._classes) > 1:
            return 0.0
        return spectrum.one_sided_gap(self._part(self._class(None)[0]), self._eta)

    def slem_as_norm(self) -> float:
        """‖D_η^{1/2} P D_η^{-1/2} − √η√ηᵀ‖₂ (Eq. SLEM_as_norm).

        Equal to ``slem`` when the chain is reversible. The paper states it for any chain, but
        otherwise the norm is only an upper bound: a state that only one state leads to, which
        leads nowhere else, makes it 1 however fast the chain mixes. So it is refused there.
        """
        states, _ = self._class(None)
        if states.size < self.n_states or not self._reversible:
            raise NotReversible(
                "the norm formula for the slem needs a reversible chain, and this one is not",
                "use .slem, which holds for every chain",
            )
        return spectrum.norm_of_rest(self._transitions, self._eta)

    def pseudo_spectral_gap(self, max_power: int = 100) -> PseudoSpectralGap:
        """γ_ps = max_k γ(P̂ᵏPᵏ)/k on the recurrent class (Paulin; Prop.
        p:non.reversible.convergence).

        Powers are tried until no later one can be better, or up to ``max_power``; the result's
        ``upper_bound`` says what stopping there may have left. Periodic: 0.
        """
        max_power = whole(max_power, "max_power", 1)
        if self._never_settles:
            return PseudoSpectralGap(0.0, 1, 0.0)
        states, _ = self._class(None)
        if states.size < self.n_states:
            return Chain(self._part(states)).pseudo_spectral_gap(max_power)
        gap = self.spectral_gap
        if self._reversible:
            # P̂P = P², and no other power does better.
            exact = gap * (2.0 - gap)
            return PseudoSpectralGap(exact, 1, exact)
        return PseudoSpectralGap(
            *spectrum.pseudo_spectral_gap(self._transitions, self._eta, self.slem, max_power)
        )

    @property
    def _never_settles(self) -> bool:
        return len(self._classes) > 1 or self._classes[0][1] > 1

    # -- direction of time ----------------------------------------------------------------

    def is_reversible(self, tolerance: float = 1e-9) -> bool:
        """Detailed balance, η(s)P(s, s') = η(s')P(s', s), on every edge of the recurrent class
        to a relative ``tolerance``; with several classes, within each of them."""
        tolerance = number(tolerance, "tolerance", "give a number >= 0", 0.0)
        return all(
            _balanced(self._part(states), self.stationary(k)[states], tolerance)
            for k, (states, _) in enumerate(self._classes)
        )

    @cached_property
    def _reversible(self) -> bool:
        return self.is_reversible()

    def time_reversal(self) -> Chain:
        """P̂(s, s') = η(s')P(s', s)/η(s): the chain seen in a film that runs backwards."""
        states, _ = self._class(None)
        if states.size < self.n_states:
            outside = np.delete(np.arange(self.n_states), states)
            raise ModelError(
                f"{outside.size} states are transient (states {_some(outside)}): looking back "
                "from the long run they were never visited",
                "reverse the chain restricted to its recurrent class",
            )
        eta = self._eta
        if not (eta > 0).all():
            raise ModelError(
                "some stationary probabilities are below 1e-308, so no probability of a step back "
                "from there can be told",
                "leave out the states that are that hard to reach",
            )
        if isinstance(self._transitions, np.ndarray):
            return Chain((self._transitions * eta[:, None]).T / eta[:, None])
        return Chain(sp.diags(1.0 / eta) @ self._transitions.T @ sp.diags(eta))

    # -- getting somewhere ----------------------------------------------------------------

    def hitting_times(self, target: int | ArrayLike) -> Vector:
        """Expected number of steps from each state to the first visit of ``target``, a state or
        several (whichever comes first).

        0 in the target; infinite where the walk may end up in a place from which the target
        can't be reached.
        """
        n = self.n_states
        given = indices(target)
        if given is None or given.size == 0:
            raise ArgumentError(
                "the target is not a state or a list of states", "give indices of states"
            )
        targets = np.unique(given)
        if targets[0] < 0 or targets[-1] >= n:
            wrong = targets[0] if targets[0] < 0 else targets[-1]
            raise ArgumentError(f"there is no state {wrong}", f"states run from 0 to {n - 1}")
        back = self._graph.T.tocsr()
        inside = np.zeros(n, dtype=bool)
        inside[targets] = True
        arrives = reach(back.indptr, back.indices, targets, np.zeros(n, dtype=bool))
        may_miss = reach(back.indptr, back.indices, np.flatnonzero(~arrives), inside)
        times = np.where(inside, 0.0, np.inf)
        rest = np.flatnonzero(~(may_miss | inside))
        if rest.size:
            exits = np.asarray(self._transitions[rest][:, targets].sum(axis=1)).ravel()
            times[rest] = linear.absorb(self._part(rest), exits, np.ones(rest.size))
        return times


def _checked(matrix: Any) -> Any:
    """Validated, with rows that sum to 1 exactly, and read-only."""
    sparse = not isinstance(matrix, np.ndarray)
    data = matrix.data if sparse else matrix
    # A NaN compares false with everything: test for what is wanted, not for what is wrong.
    wrong = ~((data >= 0) & (data < np.inf))
    if wrong.any():
        if sparse:
            k = int(np.flatnonzero(wrong)[0])
            s = int(np.searchsorted(matrix.indptr, k, side="right") - 1)
            t, value = int(matrix.indices[k]), data[k]
        else:
            s, t = (int(index) for index in np.argwhere(wrong)[0])
            value = data[s, t]
        raise ModelError(
            f"the probability of moving from state {s} to state {t} is {value}",
            "probabilities are numbers between 0 and 1",
        )
    total = np.asarray(matrix.sum(axis=1)).ravel()
    off = np.abs(total - 1.0) > ROW_SUM_TOLERANCE
    if off.any():
        s = int(np.flatnonzero(off)[0])
        raise ModelError(
            f"the probabilities of leaving state {s} sum to {total[s]:.12g}"
            + (f" (and so do {int(off.sum()) - 1} more rows)" if off.sum() > 1 else ""),
            "every row of a transition matrix must sum to 1",
        )
    if not sparse:
        matrix /= total[:, None]
        matrix.flags.writeable = False
        return matrix
    matrix.sum_duplicates()
    matrix.data /= np.repeat(total, np.diff(matrix.indptr))
    matrix.eliminate_zeros()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _balanced(P: Any, eta: Vector, tolerance: float) -> bool:
    """Detailed balance, edge by edge."""
    if isinstance(P, np.ndarray) or eta.size <= linear.FEW_STATES:
        flow = eta[:, None] * linear.dense(P)
        return bool((np.abs(flow - flow.T) <= tolerance * np.maximum(flow, flow.T)).all())
    sparse_flow = sp.csr_matrix(sp.diags(eta) @ P)
    back = sparse_flow.T.tocsr()
    return bool((abs(sparse_flow - back) - tolerance * sparse_flow.maximum(back)).max() <= 0)


def _in_unit(gap: float) -> float:
    """Rounding must not make an ergodic chain's gap negative, nor a bandit's exceed 1."""
    return min(max(gap, 0.0), 1.0)


def _some(states: NDArray[np.int64]) -> str:
    shown = ", ".join(str(s) for s in states[:4])
    return shown + ", …" if states.size > 4 else shown
