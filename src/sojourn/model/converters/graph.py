"""Models from networkx graphs.

Nodes are states, out-edges are actions; an undirected edge can be taken both ways. The model
has the moves that the graph draws and no others: a node in which the device can wait has an
edge to itself.

An action is labelled by the node to which its edge leads, in a multigraph by (node, key). Two
edge attributes are read:

    probability   with which the move succeeds; otherwise the device stays where it is
    action        edges of a node that share this label are *one* action with several outcomes:
                  their probabilities are the outcomes' and must sum to 1
    slip          with this probability another action of the node happens instead, uniformly
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sojourn.errors import ModelError
from sojourn.model.converters.slip import checked_slip, with_slip
from sojourn.model.mdp import MDP


def from_networkx(graph: Any, slip: float = 0.0) -> MDP:
    """An :class:`MDP` from a Graph, DiGraph, MultiGraph or MultiDiGraph."""
    if not (hasattr(graph, "adjacency") and hasattr(graph, "is_multigraph")):
        raise ModelError(
            f"{type(graph).__name__} is not a networkx graph", "give a Graph or a DiGraph"
        )
    multi = graph.is_multigraph()
    number = {node: s for s, node in enumerate(graph.nodes)}
    if not number:
        raise ModelError("the graph has no nodes", "give at least one node with one out-edge")
    rows: list[int] = []
    columns: list[int] = []
    chances: list[float] = []
    labels: list[Hashable] = []
    start = [0]
    for node, successors in graph.adjacency():
        pair_of: dict[Hashable, int] = {}
        for target, edge in successors.items():
            for key, attributes in edge.items() if multi else ((None, edge),):
                chance = _probability(node, target, attributes)
                outcome = attributes.get("action")
                label = outcome if outcome is not None else (target, key) if multi else target
                pair = pair_of.setdefault(label, len(labels))
                if pair == len(labels):
                    labels.append(label)
                rows.append(pair)
                columns.append(number[target])
                chances.append(chance)
                if outcome is None and chance < 1:
                    rows.append(pair)
                    columns.append(number[node])
                    chances.append(1 - chance)
        if not pair_of:
            raise ModelError(
                f"node {node!r} has no out-edge, so a device there could do nothing",
                f"add an edge that leads away, or graph.add_edge({node!r}, {node!r}) to stay",
            )
        start.append(len(labels))
    moves: sp.csr_matrix = sp.csr_matrix(
        (np.array(chances), (np.array(rows), np.array(columns))), shape=(len(labels), len(number))
    )
    pair_start = np.array(start)
    return MDP(
        with_slip(moves, pair_start, checked_slip(slip, len(number))),
        pair_start,
        state_labels=list(number),
        action_labels=labels,
    )


def _probability(node: Any, target: Any, attributes: Any) -> float:
    given = attributes.get("probability", 1.0)
    try:
        chance = float(given)
    except (TypeError, ValueError):
        chance = np.nan
    if not 0 <= chance <= 1:
        raise ModelError(
            f"the probability of the edge from {node!r} to {target!r} is {given!r}",
            "probabilities are numbers between 0 and 1",
        )
    return chance
