"""MDP: what it refuses and how it says so, that it stays as it was built, its linear algebra."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sojourn.errors import ArgumentError, FrozenError, ModelError, SojournError
from sojourn.model import MDP, Policy, World
from sojourn.testing import mdps, policies, worlds

IDENTITY = sp.identity(2, format="csr")


def array(*rows: object) -> np.ndarray:
    return np.array(rows, dtype=float)


# -- validation: every message names the place, and every error has a hint ----------------


def refusal(build: object) -> str:
    with pytest.raises(SojournError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.hint, f"no hint: {caught.value.message}"
    return caught.value.message


def test_probabilities_that_do_not_sum_to_one() -> None:
    P = array([[0.5, 0.4], [0, 1]], [[1, 0], [0, 1]])
    message = refusal(lambda: MDP.from_array(P, state_labels=["pond", "mill"]))
    assert "state 'pond', action 0" in message
    assert "0.9" in message


def test_all_bad_rows_are_counted() -> None:
    P = array([[0.5, 0.4], [0.1, 0]], [[1, 0], [0, 3]])
    assert "2 more pairs" in refusal(lambda: MDP.from_array(P))


@pytest.mark.parametrize(
    ("value", "word"), [(-0.5, "negative"), (np.nan, "not a number"), (np.inf, "not a number")]
)
def test_entries_that_are_no_probability(value: float, word: str) -> None:
    P = array([[value, 1 - value], [0, 1]], [[1, 0], [0, 1]])
    message = refusal(lambda: MDP.from_array(P, action_labels=["row", "drift"]))
    assert word in message
    assert "state 0, action 'row'" in message


def test_a_row_of_nan_is_not_taken_for_an_unavailable_action() -> None:
    P = array([[np.nan, np.nan], [0, 1]], [[1, 0], [0, 1]])
    assert "not a number" in refusal(lambda: MDP.from_array(P))


def test_a_state_without_actions() -> None:
    P = array([[0, 1]], [[0, 0]])
    message = refusal(lambda: MDP.from_array(P, state_labels=["a", "b"]))
    assert message == "state 'b' has no action"
    assert "no action" in refusal(lambda: MDP(IDENTITY, [0, 2, 2]))


def test_labels_used_twice() -> None:
    message = refusal(lambda: MDP(IDENTITY, [0, 1, 2], state_labels=["a", "a"]))
    assert "'a' is used twice" in message
    both = sp.csr_matrix(np.ones((2, 1)))
    message = refusal(
        lambda: MDP(both, [0, 2], state_labels=["dock"], action_labels=["wait", "wait"])
    )
    assert "'wait' is used twice in state 'dock'" in message
    # The same action in different states is the usual case.
    MDP(IDENTITY, [0, 1, 2], action_labels=["wait", "wait"])


def test_empty_models() -> None:
    assert "no states" in refusal(lambda: MDP.from_array(np.zeros((0, 1, 0))))
    assert "state 0 has no action" in refusal(lambda: MDP(sp.csr_matrix((0, 3)), [0, 0, 0, 0]))
    assert "state 0 has no action" in refusal(lambda: MDP.from_array(np.zeros((2, 3, 2))))


@pytest.mark.parametrize(
    "build",
    [
        lambda: MDP.from_array(np.zeros((2, 2))),
        lambda: MDP.from_array(np.zeros((2, 1, 3))),
        lambda: MDP.from_array([["a"]]),
        lambda: MDP.from_array(np.array([[[1.0 + 0.5j]]])),
        lambda: MDP.from_array(None),
        lambda: MDP("nothing", [0, 1]),
        lambda: MDP(IDENTITY * 1j, [0, 1, 2]),
        lambda: MDP(IDENTITY, [0, 1, 2], state_labels=[["a"], ["b"]]),
        lambda: MDP(IDENTITY, [0, 1, 2], action_labels=[{}, {}]),
        lambda: MDP(IDENTITY, [0, 1, 2], initial="here"),
        lambda: MDP.from_transitions(None),
        lambda: MDP.from_transitions(7),
        lambda: MDP.from_array([[[1.0]], [[1.0, 0.0]]]),
        lambda: MDP(IDENTITY, [0, 1]),
        lambda: MDP(IDENTITY, [0, 2, 1]),
        lambda: MDP(IDENTITY, [1, 1, 2]),
        lambda: MDP(IDENTITY, [0, 1, 2], state_labels=["a"]),
        lambda: MDP(IDENTITY, [0, 1, 2], action_labels=["a"]),
        lambda: MDP(IDENTITY, [0, 1, 2], coordinates=[[0.0], [1.0]]),
        lambda: MDP(IDENTITY, [0, 1, 2], initial=[0.5, 0.6]),
        lambda: MDP(IDENTITY, [0, 1, 2], initial=[np.nan, 1.0]),
        lambda: MDP(IDENTITY, [0, 1, 2], initial=[1.0]),
    ],
)
def test_wrong_arguments_get_a_sentence(build: object) -> None:
    assert len(refusal(build)) > 15


def test_numpy_labels_become_plain_ones() -> None:
    rows = np.array([[3, 0, 4, 1.0], [4, 0, 3, 1.0]])
    labels = MDP.from_transitions(rows).state_labels
    assert repr(tuple(labels)) == "(3.0, 4.0)"


def test_one_state_one_action() -> None:
    mdp = MDP.from_array([[[1.0]]])
    assert (mdp.n_states, mdp.n_pairs) == (1, 1)
    assert mdp.adjacency.toarray().tolist() == [[True]]
    assert mdp.flow_residual([1.0]).tolist() == [0.0]


def test_rounding_of_the_input_is_healed() -> None:
    third = round(1 / 3, 10)
    mdp = MDP.from_array(np.full((3, 1, 3), third))
    assert np.abs(mdp.transitions.sum(axis=1) - 1).max() < 1e-15


def test_zero_rows_are_unavailable_actions() -> None:
    P = np.zeros((2, 3, 2))
    P[0, [0, 2], 1] = 1.0
    P[1, 1, 0] = 1.0
    mdp = MDP.from_array(P, action_labels=["w", "x", "y"])
    assert mdp.pair_start.tolist() == [0, 2, 3]
    assert list(mdp.action_labels) == ["w", "y", "x"]
    assert MDP.from_array(P).action_label(1) == 2


# -- frozen, equal, picklable ---------------------------------------------------------------


@given(worlds())
def test_models_never_change(world: World) -> None:
    policy = Policy.uniform(world.mdp)
    for thing, name in (
        (world.mdp, "pair_start"), (world.mdp, "new"), (policy, "probability"), (world, "variance"),
    ):  # fmt: skip
        with pytest.raises(FrozenError):
            setattr(thing, name, None)
    with pytest.raises(FrozenError):
        del world.mdp.transitions
    for values in (
        world.mdp.transitions.data, world.mdp.transitions.indices, world.mdp.pair_start,
        world.mdp.pair_state, policy.probability, world.mean, world.variance, world.start,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0


def test_the_callers_arrays_stay_his(rng: np.random.Generator) -> None:
    matrix = sp.csr_matrix(rng.dirichlet(np.ones(3), 3))
    coordinates = np.zeros((3, 2))
    mdp = MDP(matrix, np.arange(4), coordinates=coordinates)
    matrix.data[:] = 7.0
    coordinates[:] = 7.0
    assert mdp.transitions.data.max() <= 1
    assert mdp.coordinates is not None
    assert not mdp.coordinates.any()
    variance = np.ones(3)
    world = World(mdp, variance=variance)
    variance[:] = 7.0
    assert world.variance.tolist() == [1, 1, 1]


@given(st.data())
def test_equality_is_by_content_and_survives_a_pickle(data: st.DataObject) -> None:
    world = data.draw(worlds())
    policy = data.draw(policies(world.mdp))
    _ = world.mdp.adjacency
    for thing in (world.mdp, policy, world):
        clone = pickle.loads(pickle.dumps(thing))
        assert clone is not thing
        assert clone == thing
        assert hash(clone) == hash(thing)
        assert copy.deepcopy(thing) is thing
        assert copy.copy(thing) is thing
    clone = pickle.loads(pickle.dumps(world.mdp))
    assert "adjacency" not in vars(clone)
    with pytest.raises(ValueError, match="read-only"):
        clone.transitions.data[0] = 0.0
    assert world != world.replace(mean=world.mean + 1)
    assert world.mdp != policy


def test_models_that_differ_are_not_equal() -> None:
    mdp = MDP(IDENTITY, [0, 1, 2])
    swapped = MDP(IDENTITY[::-1], [0, 1, 2])
    named = MDP(IDENTITY, [0, 1, 2], state_labels=["a", "b"])
    assert len({mdp, swapped, named, MDP(IDENTITY, [0, 1, 2])}) == 3
    assert mdp.with_coordinates(np.zeros((2, 2))) != mdp
    assert mdp.with_coordinates(None) == mdp


# -- linear algebra and lookups -------------------------------------------------------------


@given(mdps(), st.integers(0, 2**32 - 1))
def test_pair_algebra_against_dense_matrices(mdp: MDP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    E = np.zeros((mdp.n_pairs, mdp.n_states))
    for s in range(mdp.n_states):
        for pair in mdp.pairs_of(s):
            E[pair, s] = 1.0
    P = mdp.transitions.toarray()
    x, v = rng.random(mdp.n_pairs), rng.random(mdp.n_states)
    np.testing.assert_allclose(mdp.state_sums(x), E.T @ x, rtol=1e-12)
    np.testing.assert_array_equal(mdp.to_pairs(v), E @ v)
    np.testing.assert_allclose(mdp.flow_residual(x), E.T @ x - P.T @ x, atol=1e-12)
    np.testing.assert_array_equal(mdp.adjacency.toarray(), E.T @ P > 0)
    two = rng.random((2, mdp.n_pairs))
    np.testing.assert_allclose(mdp.state_sums(two), two @ E, rtol=1e-12)


@given(mdps())
def test_from_array_gives_the_same_model_back(mdp: MDP) -> None:
    most = int(np.diff(mdp.pair_start).max())
    dense = np.zeros((mdp.n_states, most, mdp.n_states))
    action = np.arange(mdp.n_pairs) - mdp.pair_start[mdp.pair_state]
    dense[mdp.pair_state, action] = mdp.transitions.toarray()
    again = MDP.from_array(dense)
    assert again.pair_start.tolist() == mdp.pair_start.tolist()
    assert abs(again.transitions - mdp.transitions).max() < 1e-15


def test_labels_are_looked_up() -> None:
    mdp = MDP(IDENTITY, [0, 1, 2], state_labels=["a", ("b", 1)])
    assert mdp.state_index(("b", 1)) == 1
    with pytest.raises(ArgumentError, match="no state 'c'"):
        mdp.state_index("c")
    with pytest.raises(ArgumentError):
        mdp.state_index(["unhashable"])  # type: ignore[arg-type]
    plain = MDP(IDENTITY, [0, 1, 2])
    assert plain.state_index(np.int64(1)) == 1
    for wrong in (2, -1, "0", None):
        with pytest.raises(ArgumentError):
            plain.state_index(wrong)


# -- restriction ----------------------------------------------------------------------------


@given(mdps(), st.integers(0, 5))
def test_restricted_to_what_can_be_reached(mdp: MDP, start: int) -> None:
    start = start % mdp.n_states
    reached = {start}
    while True:
        more = {t for s in reached for t in mdp.adjacency[s].indices.tolist()} - reached
        if not more:
            break
        reached |= more
    part = mdp.restricted_to_reachable(start)
    assert list(part.state_labels) == sorted(reached)
    for s, label in enumerate(part.state_labels):
        theirs = mdp.transitions[list(mdp.pairs_of(int(label)))][:, sorted(reached)]  # type: ignore[call-overload]
        np.testing.assert_array_equal(
            part.transitions[list(part.pairs_of(s))].toarray(), theirs.toarray()
        )


def test_reachable_from_a_distribution() -> None:
    mdp = MDP(sp.identity(4, format="csr"), np.arange(5), initial=[0, 0.5, 0, 0.5])
    assert list(mdp.restricted_to_reachable().state_labels) == [1, 3]
    assert list(mdp.restricted_to_reachable([0.5, 0, 0.5, 0]).state_labels) == [0, 2]
    with pytest.raises(ArgumentError, match="no initial distribution"):
        MDP(IDENTITY, [0, 1, 2]).restricted_to_reachable()
    for wrong in (7, -1, [0.5, 0.6, 0, 0]):
        with pytest.raises(ArgumentError):
            mdp.restricted_to_reachable(wrong)


def test_restricted_drops_pairs_that_lead_out() -> None:
    mdp = MDP.from_transitions(
        [("a", "stay", "a", 1.0), ("a", "leap", "a", 0.5), ("a", "leap", "b", 0.5),
         ("b", "stay", "b", 1.0)],
        initial=[1.0, 0.0],
    )  # fmt: skip
    part = mdp.restricted([True, False])
    assert list(part.action_labels) == ["stay"]
    assert part.initial is not None
    assert mdp.restricted([1]).initial is None
    forced = MDP.from_transitions([("a", "go", "b", 1.0), ("b", "go", "a", 1.0)])
    with pytest.raises(ModelError, match="every action of state 'a'"):
        forced.restricted([0])
    for wrong in ([], [2], [0.5], [True]):
        with pytest.raises(ArgumentError):
            mdp.restricted(wrong)
