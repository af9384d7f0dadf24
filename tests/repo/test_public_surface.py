"""The names that others rely on: each exists, takes these arguments and means this.

Written from the description of the public surface, not from the code: a name that moves, an
argument that changes its name, place or default, an attribute that goes missing fails here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sojourn as sj

GRID = """
...
.#.
"""


def worlds() -> Iterator[Any]:
    yield sj.instances.three_state()
    yield sj.instances.garnet(5, 3, 2, seed=1)


@pytest.fixture(params=worlds(), ids=["three_state", "garnet"])
def world(request: pytest.FixtureRequest) -> Any:
    return request.param


# -- arguments: names, order, defaults ------------------------------------------------------

WANTED = inspect.Parameter.empty

SIGNATURES: list[tuple[str, dict[str, Any]]] = [
    ("MDP.from_array", {"P": WANTED}),
    ("MDP.from_transitions", {"records": WANTED}),
    ("MDP.from_grid", {"text": WANTED, "slip": 0.0, "drift": None}),
    ("MDP.from_networkx", {"graph": WANTED, "slip": 0.0}),
    ("MDP.from_gymnasium", {"env": WANTED, "on_terminal": "restart"}),
    ("Policy", {"mdp": WANTED, "probability": WANTED}),
    ("Policy.uniform", {"mdp": WANTED}),
    ("Policy.from_occupancy", {"mdp": WANTED, "occupancy": WANTED}),
    ("Chain", {"P": WANTED}),
    (
        "World",
        {"mdp": WANTED, "mean": ..., "variance": ..., "noise": "gaussian", "start": None},
    ),
    (
        "instances.garnet",
        {
            "n_states": WANTED, "n_actions": WANTED, "branching": WANTED,
            "variance": (0.01, 10.0), "reversible": False, "seed": 0,
        },
    ),
    ("instances.three_state", {"variance": (1.0, 1e-3, 1.0)}),
    (
        "optimal_plan",
        {"mdp": WANTED, "variance": WANTED, "weight": None, "tolerance": 1e-9, "throw": True},
    ),
    ("linear_oracle", {"mdp": WANTED, "cost": WANTED, "floor": 0.0, "infeasible": "raise"}),
    (
        "faster_mixing_plan",
        {"mdp": WANTED, "variance": WANTED, "budget": WANTED, "method": "joint", "slack": None},
    ),
    ("PriorSample", {}),
    ("VisitsOnly", {"unvisited": None}),
    (
        "finite_loss",
        {
            "policy": WANTED, "variance": WANTED, "budget": WANTED, "start": None,
            "counting": sj.PriorSample(),
        },
    ),
    ("budget_plan", {"mdp": WANTED, "variance": WANTED, "budget": WANTED, "start": None}),
    ("steady_state_policy", {"mdp": WANTED, "distribution": WANTED}),
    ("apportion", {"allocation": WANTED, "n": WANTED}),
    (
        "simulate",
        {
            "world": WANTED, "strategy": WANTED, "budget": WANTED, "runs": 100, "seed": 0,
            "checkpoints": None, "walkers": 1, "home": None, "counting": ..., "progress": False,
        },
    ),
    ("Uniform", {}),
    ("Fixed", {"policy": WANTED}),
    ("Oracle", {}),
    (
        "FrankWolfe",
        {
            "floor": 1e-3, "width": 0.2, "variance_bound": None, "schedule": "cubic",
            "mixing": None,
        },
    ),
    ("Lookahead", {}),
    ("Bandit", {"rule": "ch-as"}),
    (
        "Campaign.create",
        {"path": WANTED, "site": WANTED, "strategy": None, "budget": None, "seed": 0},
    ),
    ("Campaign.open", {"path": WANTED}),
]  # fmt: skip

KEYWORDS = [
    # weight= and counting= are accepted wherever they make sense
    ("faster_mixing_plan", "weight"), ("finite_loss", "weight"), ("budget_plan", "weight"),
    ("faster_mixing_plan", "counting"), ("budget_plan", "counting"), ("simulate", "weight"),
    # the remedies of the mixing issue
    ("faster_mixing_plan", "criterion"), ("faster_mixing_plan", "reversible"),
    ("faster_mixing_plan", "projection"), ("faster_mixing_plan", "floor"),
]  # fmt: skip


def named(path: str) -> Any:
    found: Any = sj
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("path", "wanted"), SIGNATURES, ids=[path for path, _ in SIGNATURES])
def test_arguments(path: str, wanted: dict[str, Any]) -> None:
    parameters = inspect.signature(named(path)).parameters
    order = [name for name in parameters if name in wanted]
    assert order == list(wanted)
    for name, default in wanted.items():
        assert parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if default is ...:
            continue
        assert parameters[name].default == default, name
    # What was added beyond these can be left out, and doesn't come before them by position.
    added = [p for name, p in parameters.items() if name not in wanted and name != "self"]
    assert all(p.default is not WANTED or p.kind is p.VAR_KEYWORD for p in added)
    by_place = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    needed = [name for name, default in wanted.items() if default is WANTED]
    assert by_place[: len(needed)] == needed


@pytest.mark.parametrize(("path", "keyword"), KEYWORDS)
def test_keywords(path: str, keyword: str) -> None:
    assert keyword in inspect.signature(named(path)).parameters


def test_every_name_is_announced() -> None:
    first = {path.split(".")[0] for path, _ in SIGNATURES} | {"theory", "instances", "__version__"}
    assert first <= set(sj.__all__)
    assert first <= set(dir(sj))
    with pytest.raises(AttributeError, match="no attribute 'optimum'"):
        sj.optimum  # noqa: B018


# -- model ----------------------------------------------------------------------------------


def test_model(world: Any) -> None:
    mdp = world.mdp
    n, pairs = mdp.n_states, mdp.n_pairs
    assert mdp.transitions.shape == (pairs, n)
    assert mdp.transitions.format == "csr"
    np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1.0)
    assert mdp.pair_start.shape == (n + 1,)
    assert mdp.pair_start[0] == 0
    assert mdp.pair_start[-1] == pairs
    assert (np.diff(mdp.pair_state) >= 0).all()
    np.testing.assert_array_equal(np.bincount(mdp.pair_state), np.diff(mdp.pair_start))
    assert len(mdp.state_labels) == n
    assert len(mdp.action_labels) == pairs
    assert str(mdp.diagnose())
    assert mdp.diagnose().communicating
    np.testing.assert_array_equal(world.start, np.full(n, 1 / n))
    assert world.mean.shape == world.variance.shape == (n,)
    assert world.noise == "gaussian"


def test_constructors() -> None:
    P = np.zeros((2, 2, 2))
    P[0, 0, 1] = P[1, 0, 0] = P[1, 1, 1] = 1.0  # the second action isn't available in state 0
    assert sj.MDP.from_array(P).n_pairs == 3
    labelled = sj.MDP.from_transitions([("a", 0, "b", 1.0), ("b", "go", "a", 1.0)])
    assert list(labelled.state_labels) == ["a", "b"]
    grid = sj.MDP.from_grid(GRID, slip=0.1, drift=(1, 0, 0.2))
    assert grid.n_states == 5
    assert set(grid.action_labels) <= {"stay", "N", "E", "S", "W"}
    networkx = pytest.importorskip("networkx")
    assert sj.MDP.from_networkx(networkx.DiGraph([(0, 1), (1, 0)]), slip=0.1).n_pairs == 2
    pytest.importorskip("gymnasium")
    for on_terminal in ("restart", "absorb"):
        assert sj.MDP.from_gymnasium("FrozenLake-v1", on_terminal=on_terminal).n_states >= 16
    with pytest.raises(sj.SojournError):
        sj.MDP.from_gymnasium("FrozenLake-v1", on_terminal="error")


def test_policy_and_chain(world: Any) -> None:
    mdp = world.mdp
    uniform = sj.Policy.uniform(mdp)
    np.testing.assert_allclose(
        uniform.probability, 1 / np.diff(mdp.pair_start)[mdp.pair_state], rtol=1e-15
    )
    chain = uniform.chain()
    assert isinstance(chain, sj.Chain)
    eta = chain.stationary()
    np.testing.assert_allclose(eta @ chain.transitions, eta, atol=1e-14)
    again = sj.Policy.from_occupancy(mdp, eta[mdp.pair_state] * uniform.probability)
    np.testing.assert_allclose(again.probability, uniform.probability, atol=1e-14)
    (only,) = chain.recurrent_classes()
    np.testing.assert_array_equal(only, np.arange(mdp.n_states))
    assert chain.period() == 1
    assert chain.spectral_gap == pytest.approx(1 - chain.slem)
    assert 0 <= chain.pseudo_spectral_gap() <= 1
    assert chain.is_reversible() in (True, False)
    times = chain.hitting_times(0)
    assert times[0] == 0
    np.testing.assert_allclose(times[1:], 1 + (chain.transitions @ times)[1:], rtol=1e-9)


def test_instances() -> None:
    world = sj.instances.garnet(6, 2, 3, variance=(0.5, 2.0), seed=np.random.default_rng(3))
    assert isinstance(world, sj.World)
    assert (world.variance.min(), world.variance.max()) == (0.5, 2.0)
    again = sj.instances.garnet(6, 2, 3, variance=(0.5, 2.0), seed=np.random.default_rng(3))
    assert again == world
    adjacent = sj.instances.garnet(6, 2, 3, reversible=True).mdp.adjacency
    assert (adjacent != adjacent.T).nnz == 0


# -- planning -------------------------------------------------------------------------------


def test_plans(world: Any) -> None:
    mdp, variance = world.mdp, world.variance
    plan = sj.optimal_plan(mdp, variance)
    assert isinstance(plan, sj.Plan)
    assert plan.occupancy.sum() == pytest.approx(1)
    np.testing.assert_allclose(plan.distribution, mdp.state_sums(plan.occupancy))
    np.testing.assert_allclose(plan.policy.chain().stationary(), plan.distribution, atol=1e-9)
    assert plan.loss == pytest.approx(np.mean(variance / plan.distribution))
    assert plan.bound <= plan.loss
    assert 0 <= plan.gap <= 1e-9
    assert str(plan.status)
    assert plan.stats.iterations > 0
    weighted = sj.optimal_plan(mdp, variance, weight=2.0, tolerance=1e-8, throw=False)
    assert weighted.loss == pytest.approx(2 * plan.loss, rel=1e-7)

    occupancy = sj.linear_oracle(mdp, np.arange(float(mdp.n_states)), floor=1e-3)
    assert (mdp.state_sums(occupancy) >= 2e-3 - 1e-12).all()
    assert sj.linear_oracle(mdp, np.zeros(mdp.n_pairs)).shape == (mdp.n_pairs,)
    with pytest.raises(sj.InfeasibleFloor) as caught:
        sj.linear_oracle(mdp, variance, floor=0.4)
    assert 0 < caught.value.largest < 0.4
    assert sj.linear_oracle(mdp, variance, floor=0.4, infeasible="shrink").min() >= -1e-12

    eta = sj.steady_state_policy(mdp, plan.distribution)
    policy = getattr(eta, "policy", eta)
    np.testing.assert_allclose(policy.chain().stationary(), plan.distribution, atol=1e-6)
    np.testing.assert_array_equal(sj.apportion([0.5, 0.25, 0.25], 8), [4, 2, 2])


def test_budgets(world: Any) -> None:
    mdp, variance = world.mdp, world.variance
    policy = sj.Policy.uniform(mdp)
    one = sj.finite_loss(policy, variance, 20)
    assert isinstance(one, float)
    several = sj.finite_loss(policy, variance, [5, 20], start=0, counting=sj.VisitsOnly(3.0))
    assert several.shape == (2,)
    weighted = sj.finite_loss(policy, variance, 20, weight=np.full(mdp.n_states, 3.0))
    assert weighted == pytest.approx(3 * one)
    best = sj.budget_plan(mdp, variance, 20, start=0)
    assert best.loss == pytest.approx(sj.finite_loss(best.policy, variance, 20, start=0))
    assert best.loss <= sj.finite_loss(policy, variance, 20, start=0)
    plan = sj.faster_mixing_plan(mdp, variance, 20)
    assert plan.finite_loss == pytest.approx(sj.finite_loss(plan.policy, variance, 20))
    assert sj.faster_mixing_plan(mdp, variance, 20, slack=0.0).loss == pytest.approx(
        sj.optimal_plan(mdp, variance).loss, rel=1e-4
    )


@pytest.mark.parametrize("method", ["joint", "sdp", "convex"])
def test_faster_mixing_methods(method: str) -> None:
    world = sj.instances.three_state()
    plan = sj.faster_mixing_plan(world.mdp, world.variance, 100, method=method)
    assert plan.method == method
    assert plan.after.finite_loss < plan.before.finite_loss


# -- learning and live ----------------------------------------------------------------------

STRATEGIES = [
    sj.Uniform(), sj.Oracle(), sj.Lookahead(), sj.FrankWolfe(), sj.FrankWolfe(mixing="sdp"),
    sj.FrankWolfe(schedule="theorem", width=0.1, floor=1e-2, variance_bound=10.0),
]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_simulate(strategy: Any) -> None:
    world = sj.instances.garnet(5, 3, 2, seed=1, reversible=True)
    sim = sj.simulate(world, strategy, 60, runs=3, seed=2, checkpoints=[20, 60])
    assert isinstance(sim, sj.Simulation)
    assert sim.error.shape == sim.allocation_loss.shape == (3, 2)
    np.testing.assert_array_equal(sim.checkpoints, [20, 60])
    np.testing.assert_array_equal(sim.visits.sum(axis=-1), np.full(3, 60))
    for per_checkpoint in (sim.loss, sim.normalized_loss, sim.ratio, sim.quantile(0.5)):
        assert np.shape(per_checkpoint) == (2,)
    np.testing.assert_allclose(sim.loss, sim.error.mean(axis=0))
    same = sj.simulate(world, strategy, 60, 3, 2, [20, 60], counting=sj.VisitsOnly())
    np.testing.assert_array_equal(same.error, sim.error)
    best = sj.optimal_plan(world.mdp, world.variance).loss
    np.testing.assert_allclose(sim.ratio, sim.checkpoints * sim.loss / best - 1, rtol=1e-7)
    by_hand = (world.variance / sim.visits[0]).mean() * 60
    if (sim.visits[0] > 0).all():
        assert sim.allocation_loss[0, -1] == pytest.approx(by_hand)
    pytest.importorskip("pandas")
    assert len(sim.to_pandas()) == 6


@pytest.mark.parametrize("rule", ["ch-as", "b-as", "gafs", "fw-ucb"])
def test_bandits(rule: str) -> None:
    world = sj.instances.complete(4)
    assert sj.simulate(world, sj.Bandit(rule=rule), 40, runs=2).error.shape[0] == 2


def test_fixed_and_walkers() -> None:
    world = sj.instances.three_state()
    fixed = sj.Fixed(sj.Policy.uniform(world.mdp))
    options: dict[str, Any] = {"counting": sj.PriorSample(), "progress": False}
    assert sj.simulate(world, fixed, 30, runs=2, home=0, **options).runs == 2
    assert sj.simulate(world, fixed, 30, runs=2, walkers=2).runs == 2


def test_campaign(tmp_path: Path) -> None:
    mdp = sj.MDP.from_grid(GRID)
    path = tmp_path / "walk.campaign"
    with sj.Campaign.create(path, mdp, budget=30, seed=1) as c:
        for value in (1.0, 3.0, 2.0):
            advice = c.ask()
            assert advice.reason
            assert advice.action in mdp.action_labels
            assert 0 <= advice.state < mdp.n_states
            event = c.tell(value, state=advice.state)
        c.correct(event, 2.5)
        c.void(event, "the sensor was wet")
    with sj.Campaign.open(path) as c:
        estimates = c.estimates()
        for name in ("visits", "mean", "variance", "standard_error", "low", "high"):
            values = getattr(estimates, name)
            assert np.shape(values) == (mdp.n_states,)
            assert not np.isnan(values).any()
        assert estimates.visits.sum() == 2
        report = c.report(tmp_path / "report.html")
        assert Path(report).exists()


def test_errors_have_hints() -> None:
    with pytest.raises(sj.SojournError) as caught:
        sj.MDP.from_array(np.full((2, 1, 2), 0.4))
    assert caught.value.hint
    assert caught.value.message
