"""Nonsense in the place of every argument: an answer or a sentence with a hint, never a traceback.

One argument at a time is replaced by things that users do pass by mistake. What means something
there may be accepted; what is refused must be refused in our words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sojourn as sj
from sojourn import instances, planning

WORLD = instances.garnet(4, 2, 2, reversible=True, seed=1)
MDP, VARIANCE = WORLD.mdp, WORLD.variance
POLICY = sj.Policy.uniform(MDP)
CHAIN = POLICY.chain()

NONSENSE: dict[str, Any] = {
    "nothing": None, "a bool": True, "a negative": -1, "a huge int": 10**30, "NaN": float("nan"),
    "infinity": float("inf"), "a fraction": 1.5, "a huge float": 1e200, "a word": "dock",
    "an empty word": "", "an empty list": [], "too short": [0.5, 0.5], "ragged": [[1, 2], [3]],
    "NaNs": [float("nan")] * 4, "negatives": [-1.0] * 4, "words": ["a"] * 4, "complex": 1j,
    "a dict": {"a": 1}, "a set": {1, 2}, "a function": abs, "a matrix": np.zeros((4, 4)),
    "a sparse matrix": sp.eye(4, format="csr"), "a date": np.datetime64("2020-01-01"),
    "a world": WORLD, "a model": MDP, "a policy": POLICY, "a chain": CHAIN, "an object": object(),
}  # fmt: skip

PLANNED = {"mdp": MDP, "variance": VARIANCE}
LOSS = {"budget": 10, "start": None, "counting": sj.PriorSample(), "weight": None}
MIX = PLANNED | LOSS | {"slack": None, "floor": None, "penalty": None, "tolerance": 1e-7}

CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (
        sj.MDP,
        {
            "transitions": np.eye(4), "pair_start": np.arange(5), "state_labels": None,
            "action_labels": None, "coordinates": None, "initial": None,
        },
    ),
    (sj.MDP.from_array, {"P": np.ones((1, 1, 1)), "state_labels": None, "action_labels": None}),
    (sj.MDP.from_transitions, {"records": [("a", "x", "a", 1.0)], "initial": None}),
    (sj.MDP.from_grid, {"text": "..", "slip": 0.1, "drift": (1, 0, 0.1)}),
    (sj.MDP.from_networkx, {"graph": None}),
    (sj.MDP.from_gymnasium, {"env": None}),
    (MDP.state_index, {"label": 0}),
    (MDP.pairs_of, {"state": 0}),
    (MDP.restricted, {"states": [0, 1, 2, 3]}),
    (MDP.restricted_to_reachable, {"start": 0}),
    (MDP.with_coordinates, {"coordinates": None}),
    (MDP.state_sums, {"pair_values": np.ones(8)}),
    (MDP.to_pairs, {"state_values": np.ones(4)}),
    (MDP.flow_residual, {"occupancy": np.ones(8)}),
    (sj.Policy, {"mdp": MDP, "probability": POLICY.probability}),
    (sj.Policy.uniform, {"mdp": MDP}),
    (sj.Policy.deterministic, {"mdp": MDP, "pairs": MDP.pair_start[:-1]}),
    (sj.Policy.from_occupancy, {"mdp": MDP, "occupancy": np.ones(8)}),
    (POLICY.occupancy, {"distribution": None}),
    (sj.Chain, {"P": np.eye(2)}),
    (CHAIN.stationary, {"recurrent_class": None}),
    (CHAIN.period, {"recurrent_class": None}),
    (CHAIN.pseudo_spectral_gap, {"max_power": 3}),
    (CHAIN.is_reversible, {"tolerance": 1e-9}),
    (CHAIN.hitting_times, {"target": 0}),
    (
        sj.World,
        {
            "mdp": MDP, "mean": 0.0, "variance": 1.0, "noise": "gaussian", "start": None,
            "variance_bound": None,
        },
    ),
    (sj.VisitsOnly, {"unvisited": None}),
    (
        instances.garnet,
        {"n_states": 4, "n_actions": 2, "branching": 2, "variance": (0.01, 10.0), "seed": 0},
    ),
    (instances.three_state, {"variance": 1.0}),
    (instances.river_swim, {"n_states": 4, "variance": None, "seed": 0}),
    (instances.corridor, {"n_states": 4, "variance": (1.0, 0.1)}),
    (instances.rooms, {"n_rooms": 2, "size": 2, "slip": 0.0, "seed": 0}),
    (
        instances.grid_survey,
        {
            "width": 4, "height": 3, "obstacles": 0.1, "slip": 0.1, "drift": None,
            "field": "smooth", "seed": 0,
        },
    ),
    (instances.build, {"request": "path:4"}),
    (sj.optimal_plan, PLANNED | {"weight": None, "tolerance": 1e-9, "budget": None}),
    (sj.linear_oracle, {"mdp": MDP, "cost": VARIANCE, "floor": 0.0, "infeasible": "raise"}),
    (sj.steady_state_policy, {"mdp": MDP, "distribution": np.full(4, 0.25)}),
    (sj.apportion, {"allocation": [0.5, 0.5], "n": 10}),
    (
        sj.faster_mixing_plan,
        MIX | {"method": "joint", "criterion": None, "projection": "occupancy"},
    ),
    (lambda **rest: sj.faster_mixing_plan(method="sdp", **rest), MIX),
    (lambda **rest: sj.faster_mixing_plan(method="convex", **rest), MIX),
    (planning.mixing_tradeoff, PLANNED | {"budget": 10, "slacks": [0.1]}),
    (planning.fmh_sdp, {"mdp": MDP, "target": np.full(4, 0.25), "slack": 0.1, "floor": 0.0}),
    (
        planning.fastest_mixing_chain,
        {"graph": np.ones((4, 4)), "distribution": None, "criterion": "slem", "tolerance": 1e-8},
    ),
    (sj.finite_loss, {"policy": POLICY, "variance": VARIANCE, **LOSS, "method": "auto"}),
    (
        planning.finite_loss_gradient,
        {"policy": POLICY, "variance": VARIANCE, **LOSS, "method": "auto"},
    ),
    (planning.visit_facts, {"policy": POLICY, "budget": 10, "start": None}),
    (sj.budget_plan, PLANNED | LOSS | {"starts": 0, "seed": 0}),
    (planning.regularized_plan, PLANNED | LOSS | {"starts": 0, "seed": 0}),
    (planning.exact_optimum, PLANNED | LOSS | {"budget": 5, "memory": 1 << 28}),
    (planning.finite_bound, PLANNED | LOSS | {"budget": 5, "tolerance": 1e-2}),
]  # fmt: skip


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", "").replace("<lambda>", "faster_mixing_plan")


@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=[name_of(f) for f, _ in CALLS])
def test_nonsense_gets_a_sentence(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    for name in arguments:
        for what, nonsense in NONSENSE.items():
            refusal = refused(function, arguments | {name: nonsense})
            if refusal is None:
                continue
            assert isinstance(refusal, sj.SojournError), f"{name} = {what}: {refusal!r}"
            assert refusal.hint, f"{name} = {what}: {refusal.message}"


def refused(function: Callable[..., Any], arguments: dict[str, Any]) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(**arguments)
    except Exception as error:
        return error
    return None
