"""Converters: their exact words against brute force, and what they refuse."""

from __future__ import annotations

import sys
from collections import defaultdict

import gymnasium
import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from sojourn.errors import ArgumentError, MissingExtra, ModelError, SojournError
from sojourn.model import MDP
from sojourn.model.converters import grid_mdp
from sojourn.testing import mdps

STEP = {"stay": (0, 0), "N": (0, -1), "E": (1, 0), "S": (0, 1), "W": (-1, 0)}


def refusal(build: object) -> SojournError:
    with pytest.raises(SojournError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.hint, f"no hint: {caught.value.message}"
    return caught.value


def rows_of(mdp: MDP) -> dict[tuple[object, object], dict[object, float]]:
    """{(state, action): {successor: probability}}, by labels."""
    rows: dict[tuple[object, object], dict[object, float]] = {}
    for pair in range(mdp.n_pairs):
        row = mdp.transitions[[pair]]
        rows[mdp.state_labels[int(mdp.pair_state[pair])], mdp.action_label(pair)] = {
            mdp.state_labels[int(t)]: p for t, p in zip(row.indices, row.data)
        }
    return rows


# -- records --------------------------------------------------------------------------------


@given(mdps(), st.randoms(use_true_random=False))
def test_records_give_the_model_back_in_any_order(mdp: MDP, shuffle: object) -> None:
    records = [
        (f"s{state}", f"a{action}", f"s{target}", p)
        for (state, action), row in rows_of(mdp).items()
        for target, p in row.items()
    ]
    again = MDP.from_transitions(records)
    assert again.pair_start.tolist() == mdp.pair_start.tolist()
    assert abs(again.transitions - mdp.transitions).max() < 1e-15
    shuffle.shuffle(records)  # type: ignore[attr-defined]
    mixed = rows_of(MDP.from_transitions(iter(records)))
    for key, row in rows_of(again).items():
        assert mixed[key] == pytest.approx(row, abs=1e-14)


def test_record_order_is_the_order_of_first_action() -> None:
    mdp = MDP.from_transitions(
        [("b", 1, "a", 1.0), ("a", "x", "a", 1.0), ("b", 0, "b", 1.0)],
        coordinates=[[0, 0], [1, 1]],
        initial=[1, 0],
    )
    assert list(mdp.state_labels) == ["b", "a"]
    assert list(mdp.action_labels) == [1, 0, "x"]
    assert mdp.initial is not None
    assert mdp.initial.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "no transitions"),
        ([("a", "go", "b", 1.0)], "record 1 leads from state 'a', action 'go', to 'b'"),
        (
            [("a", "go", "a", 0.5), ("a", "go", "a", 0.5)],
            "records 1 and 2 both say how probable it is that state 'a', action 'go' leads to 'a'",
        ),
        ([("a", "go", "a", 0.9)], "state 'a', action 'go' sum to 0.9"),
        ([("a", "go", "a", 1.0), ("a", "go", "a")], "record 2 is ('a', 'go', 'a')"),
        ([("a", "go", "a", 1.0), ("b", "go", "a", "often")], "record 2 is"),
        ([("a", "go", "a", "1")], "record 1 is"),
        ([("a", "go", "a", [1.0])], "record 1 is"),
        ([("a", ["go"], "a", 1.0)], "record 1 is"),
        ([("a", "go", "a", float("nan"))], "not a number"),
        ([("a", "go", "a", 1.5), ("a", "go", "b", -0.5), ("b", "go", "a", 1)], "negative"),
    ],
)
def test_refused_records(records: list, words: str) -> None:
    assert words in refusal(lambda: MDP.from_transitions(records)).message


# -- grids ----------------------------------------------------------------------------------


def brute_force_grid(
    site: np.ndarray, slip: float, drift: tuple[int, int, float] | None, stay: bool
) -> dict[tuple[object, object], dict[object, float]]:
    """The words of the module's docstring, one cell at a time."""
    height, width = site.shape

    def free(x: int, y: int) -> bool:
        return 0 <= x < width and 0 <= y < height and bool(site[y, x])

    def carried(x: int, y: int) -> tuple[int, int]:
        assert drift is not None
        dx, dy, _ = drift
        steps = max(abs(dx), abs(dy))
        at = (x, y)
        for k in range(1, steps + 1):
            # Exact rounding of k·d/steps, halves away from zero.
            ahead = tuple(
                int(np.sign(d)) * int(np.floor(k * abs(d) / steps + 0.5)) for d in (dx, dy)
            )
            if not free(x + ahead[0], y + ahead[1]):
                break
            at = (x + ahead[0], y + ahead[1])
        return at

    rows = {}
    for y in range(height):
        for x in range(width):
            if not site[y, x]:
                continue
            lands = {
                name: (x + dx, y + dy)
                for name, (dx, dy) in STEP.items()
                if free(x + dx, y + dy) and (stay or name != "stay")
            }
            for name in lands:
                row: dict[object, float] = defaultdict(float)
                for other, cell in lands.items():
                    p = 1 - slip if other == name else slip / max(len(lands) - 1, 1)
                    if len(lands) == 1:
                        p = 1.0
                    if drift is None:
                        row[cell] += p
                    else:
                        row[cell] += p * (1 - drift[2])
                        row[carried(*cell)] += p * drift[2]
                rows[(x, y), name] = {cell: p for cell, p in row.items() if p > 0}
    return rows


@st.composite
def maps(draw: st.DrawFn) -> np.ndarray:
    width, height = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    cells = st.lists(st.booleans(), min_size=width * height, max_size=width * height)
    site = np.array(draw(cells)).reshape(height, width)
    site[draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))] = True
    return site


probability = st.sampled_from([0.0, 0.1, 0.5, 1.0])
drifts = st.none() | st.tuples(st.integers(-3, 3), st.integers(-3, 3), probability)


@given(maps(), probability, drifts)
def test_grid_semantics_against_brute_force(
    site: np.ndarray, slip: float, drift: tuple[int, int, float] | None
) -> None:
    text = "\n".join("".join("#."[int(cell)] for cell in row) for row in site)
    mdp = MDP.from_grid(text, slip=slip, drift=drift)
    ours, plain = rows_of(mdp), brute_force_grid(site, slip, drift, stay=True)
    assert ours.keys() == plain.keys()
    for key in plain:
        assert ours[key] == pytest.approx(plain[key], abs=1e-12), key
    assert mdp.coordinates is not None
    assert [tuple(c) for c in mdp.coordinates] == list(mdp.state_labels)


@given(maps(), probability)
def test_grid_without_staying(site: np.ndarray, slip: float) -> None:
    plain = brute_force_grid(site, slip, None, stay=False)
    if len({cell for cell, _ in plain}) < site.sum():
        assert "no neighbour" in refusal(lambda: grid_mdp(site, slip=slip, stay=False)).message
        return
    ours = rows_of(grid_mdp(site, slip=slip, stay=False))
    assert ours.keys() == plain.keys()
    assert all(ours[key] == pytest.approx(plain[key], abs=1e-12) for key in plain)


def test_a_map_reads_as_drawn() -> None:
    mdp = MDP.from_grid("""
        ..#
        #..
    """)
    assert list(mdp.state_labels) == [(0, 0), (1, 0), (1, 1), (2, 1)]
    rows = rows_of(mdp)
    assert {a for s, a in rows if s == (1, 0)} == {"stay", "S", "W"}
    assert rows[(1, 0), "S"] == {(1, 1): 1.0}
    assert mdp.state_index((2, 1)) == 3
    for nowhere in ((2, 0), (3, 0), (0, -1), "0,0", (0.0, 0.0)):
        with pytest.raises(ArgumentError):
            mdp.state_index(nowhere)


def test_drift_stops_where_the_wall_stops_it() -> None:
    rows = rows_of(MDP.from_grid("....#.", drift=(3, 0, 1.0)))
    assert rows[(0, 0), "stay"] == {(3, 0): 1.0}
    assert rows[(2, 0), "stay"] == {(3, 0): 1.0}
    assert rows[(5, 0), "stay"] == {(5, 0): 1.0}


def test_computed_labels_behave_like_lists() -> None:
    mdp = MDP.from_grid("..\n.#")
    actions, states = list(mdp.action_labels), list(mdp.state_labels)
    assert mdp.action_labels == actions
    assert mdp.state_labels == tuple(states)
    assert list(mdp.action_labels[2:5]) == actions[2:5]
    assert mdp.action_labels[-1] == actions[-1]
    assert np.asarray(mdp.action_labels).tolist() == actions
    assert states.index((0, 1)) == mdp.state_labels.index((0, 1))
    assert (1, 1) not in mdp.state_labels
    assert "stay" in repr(mdp.action_labels)
    assert mdp.action_labels != actions[:-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("",), "the map is empty"),
        (("\n \n",), "the map is empty"),
        (("##",), "no cell of the map is a site"),
        ((".x",), "line 1 of the map has 'x' in column 2"),
        ((". .",), "line 1 of the map has ' ' in column 2"),
        (("..\n.",), "line 2 of the map has 1 cells, line 1 has 2"),
        ((5,), "a map is text"),
        (("..", -0.1), "slip is -0.1"),
        (("..", 1.1), "slip is 1.1"),
        (("..", float("nan")), "slip is nan"),
        (("..", "much"), "slip is 'much'"),
        (("..", 0.0, (1, 0)), "drift is (1, 0)"),
        (("..", 0.0, (0.5, 0, 0.1)), "drift is (0.5, 0, 0.1)"),
        (("..", 0.0, (1, 0, 1.1)), "drift is (1, 0, 1.1)"),
        (("..", 0.0, (1, 0, float("nan"))), "drift is"),
        (("..", 0.0, "east"), "drift is 'east'"),
    ],
)
def test_refused_maps(arguments: tuple, words: str) -> None:
    assert words in refusal(lambda: MDP.from_grid(*arguments)).message


def test_memory_is_proportional_to_the_transitions() -> None:
    mdp = grid_mdp(np.ones((400, 400), dtype=bool))
    assert mdp.n_states == 160_000
    assert mdp.transitions.nnz == mdp.n_pairs == 5 * 160_000 - 4 * 400
    # A label per pair as Python objects would be more than the model.
    assert mdp.action_label(mdp.n_pairs - 1) == "W"
    assert mdp.state_labels[-1] == (399, 399)


# -- networkx -------------------------------------------------------------------------------


def test_a_graph_as_drawn() -> None:
    graph = nx.DiGraph([("dock", "reef"), ("reef", "dock"), ("reef", "reef"), ("reef", "bay")])
    graph.add_edge("bay", "dock", probability=0.75)
    rows = rows_of(MDP.from_networkx(graph))
    assert rows == {
        ("dock", "reef"): {"reef": 1.0},
        ("reef", "dock"): {"dock": 1.0},
        ("reef", "reef"): {"reef": 1.0},
        ("reef", "bay"): {"bay": 1.0},
        ("bay", "dock"): {"dock": 0.75, "bay": 0.25},
    }


def test_an_undirected_edge_goes_both_ways() -> None:
    mdp = MDP.from_networkx(nx.path_graph(4))
    assert (mdp.adjacency != mdp.adjacency.T).nnz == 0
    assert np.diff(mdp.pair_start).tolist() == [1, 2, 2, 1]
    multi = nx.MultiGraph([(0, 1), (0, 1)])
    assert list(MDP.from_networkx(multi).action_labels) == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_edges_of_one_action_are_its_outcomes() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "a", action="wait")
    graph.add_edge("a", "b", action="row", probability=0.7)
    graph.add_edge("a", "a", action="row", probability=0.3)
    graph.add_edge("b", "a")
    rows = rows_of(MDP.from_networkx(graph))
    assert rows["a", "row"] == pytest.approx({"a": 0.3, "b": 0.7})
    assert rows["a", "wait"] == {"a": 1.0}
    assert rows["b", ("a", 0)] == {"a": 1.0}
    graph.edges["a", "b", 0]["probability"] = 0.6
    assert "state 'a', action 'row' sum to 0.9" in refusal(lambda: MDP.from_networkx(graph)).message


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2, 1.0]))
def test_slip_on_graphs_mixes_the_actions(seed: int, slip: float) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(5, 0.4, seed=int(rng.integers(2**31)), directed=True)
    for node in graph:
        graph.add_edge(node, (node + 1) % 5)
    for edge in graph.edges:
        graph.edges[edge]["probability"] = rng.choice([1.0, 0.5])
    sure, slipping = MDP.from_networkx(graph), MDP.from_networkx(graph, slip=slip)
    P, Q = sure.transitions.toarray(), slipping.transitions.toarray()
    for s in range(5):
        block = P[list(sure.pairs_of(s))]
        k = len(block)
        for i, pair in enumerate(sure.pairs_of(s)):
            others = np.delete(block, i, axis=0)
            expected = (1 - slip) * block[i] + slip * others.mean(axis=0) if k > 1 else block[i]
            np.testing.assert_allclose(Q[pair], expected, atol=1e-14)


def test_refused_graphs() -> None:
    lonely = nx.DiGraph([("a", "b")])
    error = refusal(lambda: MDP.from_networkx(lonely))
    assert "node 'b' has no out-edge" in error.message
    assert "graph.add_edge('b', 'b')" in error.hint
    assert "no nodes" in refusal(lambda: MDP.from_networkx(nx.DiGraph())).message
    assert "not a networkx graph" in refusal(lambda: MDP.from_networkx({"a": ["b"]})).message
    assert "slip is 2" in refusal(lambda: MDP.from_networkx(nx.path_graph(2), slip=2)).message
    for wrong in (1.5, -0.1, float("nan"), "often"):
        graph = nx.DiGraph([("a", "a", {"probability": wrong})])
        message = refusal(lambda graph=graph: MDP.from_networkx(graph)).message
        assert "the probability of the edge from 'a' to 'a'" in message


# -- gymnasium ------------------------------------------------------------------------------

GAMES = [
    ("FrozenLake-v1", {}),
    ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
    ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True}),
]


@pytest.mark.parametrize("on_terminal", ["restart", "absorb"])
@pytest.mark.parametrize(("name", "options"), GAMES)
def test_games_against_their_own_tables(name: str, options: dict, on_terminal: str) -> None:
    env = gymnasium.make(name, **options)
    table, initial = env.unwrapped.P, env.unwrapped.initial_state_distrib
    mdp = MDP.from_gymnasium(env, on_terminal=on_terminal)
    n_states, n_actions = len(table), len(table[0])
    assert (mdp.n_states, mdp.n_pairs) == (n_states, n_states * n_actions)
    assert mdp.initial is not None
    np.testing.assert_allclose(mdp.initial, initial, atol=1e-15)
    final = {
        int(t) for s in table for a in table[s] for p, t, _, end in table[s][a] if end and p > 0
    }
    for s in table:
        for a in table[s]:
            expected = np.zeros(n_states)
            if on_terminal == "absorb" and s in final:
                expected[s] = 1.0
            else:
                for p, t, _, end in table[s][a]:
                    if end and on_terminal == "restart":
                        expected += p * np.asarray(initial)
                    else:
                        expected[t] += p
            found = mdp.transitions[[s * n_actions + a]].toarray().ravel()
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), GAMES)
def test_restarted_games_are_communicating_where_they_can_be_played(
    name: str, options: dict
) -> None:
    mdp = MDP.from_gymnasium(gymnasium.make(name, **options)).restricted_to_reachable()
    assert connected_components(mdp.adjacency, connection="strong")[0] == 1


def test_an_id_is_enough() -> None:
    assert MDP.from_gymnasium("FrozenLake-v1") == MDP.from_gymnasium(
        gymnasium.make("FrozenLake-v1")
    )


class Table:
    """The least that an environment needs to be read."""

    def __init__(self, P: object, initial: object = None) -> None:
        self.P = P
        if initial is not None:
            self.initial_state_distrib = initial


def test_duplicate_successors_add_up_and_action_sets_may_differ() -> None:
    mdp = MDP.from_gymnasium(
        Table({0: {0: [(0.25, 1, 0.0, False), (0.75, 1, 1.0, False)]},
               1: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 1, 0.0, False)]}})
    )  # fmt: skip
    assert mdp.pair_start.tolist() == [0, 1, 3]
    assert rows_of(mdp)[0, 0] == {1: 1.0}
    assert mdp.initial is None


ENDS = {0: {0: [(1.0, 1, 0.0, True)]}, 1: {0: [(1.0, 1, 0.0, False)]}}


@pytest.mark.parametrize(
    ("env", "on_terminal", "words"),
    [
        (Table(ENDS), "error", "state 0, action 0 ends the episode in state 1"),
        (Table(ENDS), "restart", "does not say where they start"),
        (Table(ENDS), "stop", "on_terminal is 'stop'"),
        (Table(ENDS, [0.5, 0.6]), "restart", "initial_state_distrib is not"),
        (Table({0: {0: [(1.0, 2, 0.0, False)]}}), "error", "state 0, action 0 leads to 2"),
        (Table({0: {0: [(1.0, 0)]}}), "error", "can't be read at state 0, action 0"),
        (Table({1: {0: [(1.0, 1, 0.0, False)]}}), "error", "can't be read at state 0"),
        (Table({}), "error", "is empty"),
        (Table({0: {0: [(0.5, 0, 0.0, False)]}}), "error", "sum to 0.5"),
        ("Nowhere-v0", "restart", "can't make 'Nowhere-v0'"),
    ],
)
def test_refused_environments(env: object, on_terminal: str, words: str) -> None:
    assert words in refusal(lambda: MDP.from_gymnasium(env, on_terminal)).message


def test_an_environment_without_a_table_is_refused() -> None:
    error = refusal(lambda: MDP.from_gymnasium(gymnasium.make("CartPole-v1")))
    assert isinstance(error, ModelError)
    assert "does not publish its transitions" in error.message
    assert "from_transitions" in error.hint


def test_without_gymnasium_an_id_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    error = refusal(lambda: MDP.from_gymnasium("FrozenLake-v1"))
    assert isinstance(error, MissingExtra)
    assert "sojourn[gym]" in error.hint
