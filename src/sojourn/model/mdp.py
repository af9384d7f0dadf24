"""The Markov decision process, stored by *pairs*.

A *pair* (s, a) is one available action in one state. States may have different numbers of
actions, so everything over state-actions is a flat array of length ``n_pairs``, ordered by
state: the pairs of state s are ``pair_start[s] : pair_start[s + 1]``.

    transitions   CSR matrix P, n_pairs × n_states; row (s, a) is p(·|s, a)
    pair_state    the state of each pair (the matrix E of the mathematics, as an index)

Memory is proportional to the number of possible transitions, never to S².
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import distribution, numbers, real, whole
from sojourn.errors import ArgumentError, ModelError
from sojourn.model.frozen import Frozen
from sojourn.model.labels import CellLabels, Computed

if TYPE_CHECKING:
    from sojourn.model.diagnosis import Diagnosis

# A row whose sum is off by less than this is rounding, and is renormalised; beyond it the
# user's numbers are wrong and guessing would hide it.
ROW_SUM_TOLERANCE = 1e-8


class MDP(Frozen):
    """A frozen Markov decision process over pairs. Build one with a ``from_*`` constructor.

    ``state_labels`` has one label per state, ``action_labels`` one per *pair*.
    ``coordinates`` (S × 2) and ``initial`` (a distribution) are kept when the source of the
    model knows them, else ``None``.
    """

    transitions: sp.csr_matrix
    pair_start: NDArray[np.int64]
    pair_state: NDArray[np.int64]
    coordinates: NDArray[np.float64] | None
    initial: NDArray[np.float64] | None
    _state_labels: Sequence[Hashable]
    _action_labels: Sequence[Hashable] | NDArray | None

    def __init__(
        self,
        transitions: Any,
        pair_start: ArrayLike,
        *,
        state_labels: Sequence[Hashable] | None = None,
        action_labels: Sequence[Hashable] | NDArray | None = None,
        coordinates: ArrayLike | None = None,
        initial: ArrayLike | None = None,
    ) -> None:
        matrix = _sparse_rows(transitions)
        start = _checked_offsets(pair_start)
        n_pairs, n_states = matrix.shape
        if n_states == 0:
            raise ModelError("the model has no states", "give at least one state with one action")
        if start.ndim != 1 or start.size != n_states + 1:
            raise ModelError(
                f"pair_start has shape {start.shape}, expected ({n_states + 1},)",
                "pair_start[s] : pair_start[s+1] are the rows of state s",
            )
        if start[0] != 0 or start[-1] != n_pairs:
            raise ModelError(
                f"pair_start runs from {start[0]} to {start[-1]}, expected 0 to {n_pairs}",
                "every row of the transition matrix must belong to exactly one state",
            )
        labels = _checked_state_labels(state_labels, n_states)
        counts = np.diff(start)
        # reduceat over an empty group silently returns the next group's first entry, so a
        # state without actions would steal its neighbour's probability.
        if (counts <= 0).any():
            s = int(np.flatnonzero(counts <= 0)[0])
            raise ModelError(
                f"state {labels[s]!r} has no action",
                "give it an action that stays, or remove the state",
            )
        pair_state = np.repeat(np.arange(n_states), counts)
        self._hold(
            pair_start=start,
            pair_state=pair_state,
            _state_labels=labels,
            _action_labels=_checked_action_labels(action_labels, pair_state, labels),
        )
        self._hold(
            transitions=self._checked(matrix),
            coordinates=_checked_coordinates(coordinates, n_states),
            initial=None if initial is None else distribution(initial, n_states, "initial"),
        )

    def _checked(self, matrix: sp.csr_matrix) -> sp.csr_matrix:
        data = matrix.data
        for wrong, what in ((~np.isfinite(data), "not a number"), (data < 0, "negative")):
            if wrong.any():
                k = int(np.flatnonzero(wrong)[0])
                pair = int(np.searchsorted(matrix.indptr, k, side="right") - 1)
                raise ModelError(
                    f"the probability of moving from {self.describe_pair(pair)} to state "
                    f"{self._state_labels[int(matrix.indices[k])]!r} is {what} ({data[k]})",
                    "probabilities are numbers between 0 and 1",
                )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        total = np.asarray(matrix.sum(axis=1)).ravel()
        off = np.abs(total - 1.0) > ROW_SUM_TOLERANCE
        if off.any():
            pair = int(np.flatnonzero(off)[0])
            raise ModelError(
                f"the probabilities of {self.describe_pair(pair)} sum to {total[pair]:.12g}"
                + (f" (and those of {int(off.sum()) - 1} more pairs)" if off.sum() > 1 else ""),
                "they must sum to 1: is a successor missing, or listed twice?",
            )
        # Without this the rounding of the input, not ours, limits stationarity to 1e-8. What
        # rounding makes of a sum of 1 is left alone, or a part of a model would have other bits.
        count = np.diff(matrix.indptr)
        total[np.abs(total - 1.0) <= np.finfo(np.float64).eps * count] = 1.0
        matrix.data /= np.repeat(total, count)
        return matrix

    # -- constructors -------------------------------------------------------------------

    @classmethod
    def from_array(
        cls,
        P: ArrayLike,
        *,
        state_labels: Sequence[Hashable] | None = None,
        action_labels: Sequence[Hashable] | None = None,
    ) -> MDP:
        """From a dense array (S, A, S). A row of zeros means "action not available here"."""
        try:
            array = real(P)
        except (TypeError, ValueError):
            raise ModelError(
                "the transition array holds something that is not a real number, or is ragged",
                "P[s, a, s'] is the probability of moving from s to s' with action a",
            ) from None
        if array.ndim != 3 or array.shape[0] != array.shape[2]:
            raise ModelError(
                f"the transition array has shape {array.shape}, expected (S, A, S)",
                "P[s, a, s'] is the probability of moving from s to s' with action a",
            )
        n_states, n_actions, _ = array.shape
        if action_labels is not None:
            action_labels = _sequence(action_labels, "action labels")
            if len(action_labels) != n_actions:
                raise ModelError(
                    f"{len(action_labels)} action labels were given for {n_actions} actions",
                    "give one label for each index of the second axis",
                )
        # NaN != 0 is true: a row holding a NaN is kept, and refused by the validation.
        available = (array != 0).any(axis=2)
        flat = array.reshape(-1, max(n_states, 1))[available.ravel()]
        actions = np.nonzero(available)[1]
        names = actions if action_labels is None else [action_labels[int(a)] for a in actions]
        start = np.concatenate(([0], np.cumsum(available.sum(axis=1))))
        return cls(
            sp.csr_matrix(flat.reshape(actions.size, n_states)),
            start,
            state_labels=state_labels,
            action_labels=names,
        )

    @classmethod
    def from_transitions(
        cls, records: Iterable[tuple[Hashable, Hashable, Hashable, float]], **metadata: Any
    ) -> MDP:
        """From records (state, action, next_state, probability) with any hashable labels.

        States and actions are numbered in the order in which they first act. A move listed
        twice is refused, and so is a successor without actions of its own. ``coordinates`` and
        ``initial`` may be given by state index.
        """
        from sojourn.model.converters import from_transitions

        return from_transitions(records, **metadata)

    @classmethod
    def from_grid(
        cls, text: str, slip: float = 0.0, drift: tuple[int, int, float] | None = None
    ) -> MDP:
        """From a text map: ``.`` is a site, ``#`` is blocked.

        States are labelled (x, y): x grows to the east, y, by lines, to the south. Actions are
        stay, N, E, S, W where possible; with probability ``slip`` another available action
        (staying included) happens instead, each as likely as the other; ``drift=(dx, dy, p)``:
        after any action the device is carried on by (dx, dy) with probability p, until a
        blocked cell or the edge stops it.
        """
        from sojourn.model.converters import from_grid

        return from_grid(text, slip=slip, drift=drift)

    @classmethod
    def from_networkx(cls, graph: Any, slip: float = 0.0) -> MDP:
        """From a networkx graph: nodes are states, out-edges are actions.

        An edge's ``probability`` says how often the move succeeds (otherwise the device stays);
        edges that share an ``action`` are the outcomes of one action. With probability ``slip``
        another action of the node happens instead.
        """
        from sojourn.model.converters import from_networkx

        return from_networkx(graph, slip=slip)

    @classmethod
    def from_gymnasium(cls, env: Any, on_terminal: str = "restart") -> MDP:
        """From a tabular gymnasium environment (or its id) that publishes its model ``P``.

        ``on_terminal`` says what a terminating move means: ``"restart"`` lands in the initial
        distribution instead, ``"absorb"`` stays where episodes end for ever, ``"error"``
        refuses.
        """
        from sojourn.model.converters import from_gymnasium

        return from_gymnasium(env, on_terminal=on_terminal)

    # -- size and names -----------------------------------------------------------------

    @property
    def n_states(self) -> int:
        return int(self.transitions.shape[1])

    @property
    def n_pairs(self) -> int:
        return int(self.transitions.shape[0])

    @property
    def state_labels(self) -> Sequence[Hashable]:
        return self._state_labels

    @property
    def action_labels(self) -> Sequence[Hashable] | NDArray:
        """One label per pair; the action's index within its state where none was given."""
        if self._action_labels is None:
            return np.arange(self.n_pairs) - self.pair_start[self.pair_state]
        return self._action_labels

    def action_label(self, pair: int) -> Hashable:
        if self._action_labels is None:
            return int(pair - self.pair_start[self.pair_state[pair]])
        label: Any = self._action_labels[pair]
        return label.item() if isinstance(label, np.generic) else label

    def describe_pair(self, pair: int) -> str:
        """How messages name a pair."""
        label = self._state_labels[int(self.pair_state[pair])]
        return f"state {label!r}, action {self.action_label(pair)!r}"

    @cached_property
    def _state_index(self) -> dict[Hashable, int]:
        return {label: s for s, label in enumerate(self._state_labels)}

    def state_index(self, label: Hashable) -> int:
        """The index of a state given by its label."""
        try:
            hash(label)
            if isinstance(self._state_labels, range | CellLabels):
                known: Any = self._state_labels
                return int(known.index(label))
            return self._state_index[label]
        except (KeyError, ValueError, TypeError):
            raise ArgumentError(
                f"there is no state {label!r}",
                f"the first states are {', '.join(repr(x) for x in self._state_labels[:5])}",
            ) from None

    def pairs_of(self, state: int) -> range:
        """The pairs of a state (by index)."""
        if not 0 <= whole(state, "the state") < self.n_states:
            raise ArgumentError(
                f"there is no state {state}", f"states run from 0 to {self.n_states - 1}"
            )
        return range(int(self.pair_start[state]), int(self.pair_start[state + 1]))

    def __repr__(self) -> str:
        return (
            f"MDP({self.n_states} states, {self.n_pairs} pairs, {self.transitions.nnz} transitions)"
        )

    # -- linear algebra over pairs ------------------------------------------------------

    def state_sums(self, pair_values: ArrayLike) -> NDArray:
        """Eᵀx: sum over the actions of each state."""
        values = _ending_in(pair_values, self.n_pairs, "pair")
        return np.add.reduceat(values, self.pair_start[:-1], axis=-1)

    def to_pairs(self, state_values: ArrayLike) -> NDArray:
        """E v: repeat a value per state for each of its pairs."""
        return _ending_in(state_values, self.n_states, "state")[..., self.pair_state]

    def flow_residual(self, occupancy: ArrayLike) -> NDArray:
        """Eᵀx − Pᵀx, zero when x is stationary (Eq. eq:state.action.stationary)."""
        x = numbers(occupancy, "the occupancy")
        return self.state_sums(x) - self.transitions.T @ x

    @cached_property
    def adjacency(self) -> sp.csr_matrix:
        """The matrix Q (S × S, boolean CSR): Q(s, s') where some action can move s to s'."""
        n = self.n_pairs
        collect = sp.csr_matrix(
            (np.ones(n, dtype=bool), np.arange(n), self.pair_start), shape=(self.n_states, n)
        )
        support = self.transitions.astype(bool)
        return (collect @ support).astype(bool).tocsr()

    # -- the same model, seen differently -----------------------------------------------

    def with_coordinates(self, coordinates: ArrayLike | None) -> MDP:
        """The same model with other coordinates (S × 2)."""
        other = object.__new__(MDP)
        other._hold(
            **self.__getstate__()
            | {"coordinates": _checked_coordinates(coordinates, self.n_states)}
        )
        return other

    def restricted(self, states: ArrayLike) -> MDP:
        """The model on some of its states (indices, or a mask), which keep their labels.

        Only pairs that never lead out of ``states`` remain.
        """
        from sojourn.model.restriction import restricted

        return restricted(self, states)

    def restricted_to_reachable(self, start: int | ArrayLike | None = None) -> MDP:
        """The model on the states that can be reached from ``start``.

        ``start`` is a state, a distribution, or ``None`` for ``initial``. States that can
        never be reached make every loss infinite; the models of games often have some.
        """
        from sojourn.model.restriction import reachable_from

        return self.restricted(reachable_from(self, start))

    # -- questions ----------------------------------------------------------------------

    def diagnose(self) -> Diagnosis:
        """What this world allows: reachability, end components, periodicity, in sentences."""
        from sojourn.model.diagnosis import diagnose

        return diagnose(self)


def check_model(mdp: Any) -> None:
    """Refuse what is not a model: an array or a world in its place fails obscurely later."""
    if not isinstance(mdp, MDP):
        raise ArgumentError(
            f"{type(mdp).__name__} is not a model (MDP)",
            "build one with a constructor such as MDP.from_grid; a world has its model in .mdp",
        )


def _ending_in(values: ArrayLike, size: int, what: str) -> NDArray:
    """``values`` as an array whose last axis has one entry per state, or per pair."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    # NumPy would take the first entries of a longer array without a word.
    if array.shape[-1:] != (size,) or array.dtype.kind not in "biufc":
        raise ArgumentError(
            f"an array of shape {array.shape} and type {array.dtype} doesn't hold one number for "
            f"each {what}",
            f"its last axis must have {size} entries",
        )
    return array


def _sparse_rows(transitions: Any) -> sp.csr_matrix:
    """A copy as CSR, which a caller's later changes can't reach."""
    try:
        given: Any = transitions if sp.issparse(transitions) else real(transitions)
        if np.iscomplexobj(given) or given.ndim != 2:
            raise TypeError
        return sp.csr_matrix(given, dtype=np.float64, copy=True)
    except (TypeError, ValueError):
        raise ModelError(
            "the transitions are not a matrix of real numbers",
            "give a row for each pair (state, action) and a column for each state, or use one of "
            "the MDP.from_... constructors",
        ) from None


def _checked_offsets(pair_start: Any) -> NDArray[np.int64]:
    try:
        array = real(pair_start)
        if (array == np.floor(array)).all() and (np.abs(array) < 2**53).all():
            return array.astype(np.int64)
    except (TypeError, ValueError):
        pass
    raise ModelError(
        "pair_start holds something that is not a whole number",
        "pair_start[s] : pair_start[s+1] are the rows of state s",
    )


def _sequence(labels: Any, name: str) -> Any:
    """``labels`` where they stand one after the other; a set has no order."""
    array = hasattr(labels, "__array__") and np.ndim(labels) == 1
    if array or (isinstance(labels, Sequence) and not isinstance(labels, bytes)):
        return labels
    raise ModelError(
        f"the {name} are of type {type(labels).__name__}, which is no list of names",
        "give a list with one label after the other",
    )


def _checked_state_labels(labels: Sequence[Hashable] | None, n_states: int) -> Sequence[Hashable]:
    if labels is None:
        return range(n_states)
    labels = _sequence(labels, "state labels")
    kept = labels if isinstance(labels, Computed) else _plain(labels)
    if len(kept) != n_states:
        raise ModelError(
            f"{len(kept)} state labels were given for {n_states} states", "give one per state"
        )
    if not isinstance(kept, Computed) and (repeat := _first_repeat(kept)) is not None:
        raise ModelError(
            f"the state label {kept[repeat]!r} is used twice", "give every state a label of its own"
        )
    return kept


def _checked_action_labels(
    labels: Sequence[Hashable] | NDArray | None,
    pair_state: NDArray[np.int64],
    state_labels: Sequence[Hashable],
) -> Sequence[Hashable] | NDArray | None:
    if labels is None:
        return None
    labels = _sequence(labels, "action labels")
    if len(labels) != pair_state.size:
        raise ModelError(
            f"{len(labels)} action labels were given for {pair_state.size} pairs",
            "give one per pair, ordered by state",
        )
    if isinstance(labels, Computed):
        return labels
    kept: Sequence[Hashable] | NDArray = (
        labels.copy() if isinstance(labels, np.ndarray) else _plain(labels)
    )
    names = kept.tolist() if isinstance(kept, np.ndarray) else kept
    number: dict[Hashable, int] = {}
    code = np.fromiter(
        (number.setdefault(label, len(number)) for label in names), np.int64, len(names)
    )
    # Two actions of one name: whoever follows the advice "action x" may do the other one.
    key = pair_state * len(number) + code
    _, first, found = np.unique(key, return_index=True, return_inverse=True)
    if first.size < key.size:
        pair = int(np.flatnonzero(first[found] != np.arange(key.size))[0])
        raise ModelError(
            f"the action label {names[pair]!r} is used twice in state "
            f"{state_labels[int(pair_state[pair])]!r}",
            "give every action of a state a label of its own",
        )
    return kept


def _checked_coordinates(values: ArrayLike | None, n_states: int) -> NDArray[np.float64] | None:
    if values is None:
        return None
    array = numbers(values, "coordinates")
    if array.shape != (n_states, 2):
        raise ModelError(
            f"coordinates have shape {array.shape}, expected ({n_states}, 2)",
            "give x and y for every state",
        )
    return array


def _plain(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """The labels, NumPy's scalars as Python's: those read and print like what was meant."""
    kept = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    for label in kept:
        try:
            hash(label)
        except TypeError:
            raise ModelError(
                f"{label!r} can't be a label: a {type(label).__name__} may change",
                "a label can be anything that can be a dictionary key, such as a word, a number "
                "or a tuple",
            ) from None
    return kept


def _first_repeat(labels: Sequence[Hashable]) -> int | None:
    """The position of the first label that occurred before, if any."""
    if len(set(labels)) == len(labels):
        return None
    seen: set[Hashable] = set()
    for k, label in enumerate(labels):
        if label in seen:
            return k
        seen.add(label)
    return None
