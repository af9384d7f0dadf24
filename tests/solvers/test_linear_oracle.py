"""The linear oracle against scipy's linear programming, brute force, and duality."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sojourn.errors import ArgumentError
from sojourn.instances import garnet, grid_survey
from sojourn.model import MDP, Policy
from sojourn.planning.linear import even_distribution
from sojourn.solvers.linear_oracle import (
    INFEASIBLE,
    METHODS,
    NOT_FINITE,
    OPTIMAL,
    Answer,
    DenseOracle,
    LinearOracle,
    Status,
    count_classes,
    solve,
)
from sojourn.solvers.linear_oracle_large import InteriorOracle
from sojourn.testing.arbitrary import mdps
from sojourn.testing.generators import COMMUNICATING, KINDS, random_mdp

# scipy's solver drops probabilities below 1e-9, which are what this kind is about.
SANE = [kind for kind in KINDS if kind != "near_reducible"]


def by_linprog(mdp: MDP, cost: np.ndarray, lower: np.ndarray) -> float | None:
    """The optimal value, or None where the bounds can't be met."""
    n, m = mdp.n_states, mdp.n_pairs
    E = np.zeros((n, m))
    E[mdp.pair_state, np.arange(m)] = 1.0
    flow = np.vstack([E - mdp.transitions.toarray().T, np.ones(m)])
    span = np.ptp(cost) or 1.0
    g = (cost - cost.min()) / span
    answer = linprog(
        g, A_ub=-E, b_ub=-lower, A_eq=flow, b_eq=np.r_[np.zeros(n), 1.0], method="highs"
    )
    if answer.status == 2:
        return None
    assert answer.status == 0
    return float(cost.min() + span * answer.fun)


def by_enumeration(mdp: MDP, cost: np.ndarray) -> float:
    """The cheapest recurrent class of any deterministic policy."""
    best = np.inf
    for pairs in product(*(mdp.pairs_of(s) for s in range(mdp.n_states))):
        policy = Policy.deterministic(mdp, pairs)
        chain = policy.chain()
        for k in range(len(chain.recurrent_classes())):
            best = min(best, float(cost @ (mdp.to_pairs(chain.stationary(k)) * policy.probability)))
    return best


def check_occupancy(mdp: MDP, occupancy: np.ndarray, lower: np.ndarray | float = 0.0) -> None:
    assert (occupancy >= 0).all()
    assert occupancy.sum() == pytest.approx(1.0, abs=1e-11)
    assert np.abs(mdp.flow_residual(occupancy)).max() < 1e-12
    assert (mdp.state_sums(occupancy) >= lower * (1 - 1e-8) - 1e-15).all()


def check_duality(mdp: MDP, cost: np.ndarray, lower: np.ndarray, answer: Answer) -> None:
    """Dual feasibility and complementary slackness, from the returned numbers alone."""
    span = np.ptp(cost) or 1.0
    h, y = answer.bias, answer.multiplier
    assert (y >= 0).all()
    price = cost + mdp.transitions @ h - mdp.to_pairs(h + y)
    gain = answer.bound - lower @ y
    rounding = 1e-8 * span + 1e-12 * np.abs(h).max()
    assert price.min() >= gain - rounding
    x, eta = answer.occupancy, mdp.state_sums(answer.occupancy)
    assert (x * (price - gain)).sum() <= rounding
    assert (y * (eta - lower)).sum() <= rounding
    assert answer.value == pytest.approx(cost @ x, abs=1e-9 * span)
    assert abs(answer.gap) <= 1e-9 * span * 1.01


@pytest.mark.parametrize("kind", SANE)
def test_compiled_agrees_with_linprog(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    seen = set()
    for _ in range(30):
        mdp = random_mdp(kind, int(rng.integers(1, 8)), 3, rng)
        cost = rng.normal(size=(3, mdp.n_pairs)) * 10.0 ** rng.uniform(-6, 6)
        for lower in (np.zeros(mdp.n_states), rng.uniform(0, 0.7 / mdp.n_states, mdp.n_states)):
            batch = DenseOracle(mdp).solve_batch(cost, lower)
            for w in range(3):
                truth = by_linprog(mdp, cost[w], lower)
                seen.add((truth is None, bool(batch.bounded[w])))
                if truth is None:
                    assert batch.status[w] == INFEASIBLE
                    continue
                assert batch.status[w] == OPTIMAL
                span = np.ptp(cost[w]) or 1.0
                assert batch.value[w] == pytest.approx(truth, abs=1e-7 * span)
                check_occupancy(mdp, batch.occupancy[w], lower)
    if kind in ("ragged", "periodic", "components"):
        assert seen >= {(False, False), (False, True), (True, True)} or (True, False) in seen


@settings(max_examples=60, deadline=None)
@given(mdp=mdps(kinds=SANE), seed=st.integers(0, 2**32 - 1), scale=st.floats(0, 1.2))
def test_duality_holds_with_and_without_bounds(mdp: MDP, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=mdp.n_pairs)
    lower = scale / mdp.n_states * rng.random(mdp.n_states)
    oracle = LinearOracle(mdp, lower)
    answer = oracle.solve(cost)
    if answer.status is Status.INFEASIBLE:
        assert oracle.scale[1] < 1.0
        assert by_linprog(mdp, cost, lower) is None
        return
    assert answer.status is Status.OPTIMAL
    check_occupancy(mdp, answer.occupancy, lower)
    check_duality_inside(oracle, cost, lower, answer)


def check_duality_inside(
    oracle: LinearOracle, cost: np.ndarray, lower: np.ndarray, answer: Answer
) -> None:
    """Duality over the pairs that stationary occupancies can use."""
    mdp = oracle.mdp
    if oracle.whole:
        check_duality(mdp, cost, lower, answer)
        return
    # Pairs that leave their end component for ever are priced out.
    outside = np.where(oracle.pairs, cost, 1e6)
    price = outside + mdp.transitions @ answer.bias - mdp.to_pairs(answer.bias + answer.multiplier)
    assert price[oracle.pairs].min() + lower @ answer.multiplier >= answer.bound - 1e-8
    assert answer.value - answer.bound <= 1e-8


@settings(max_examples=60, deadline=None)
@given(
    mdp=mdps(max_states=5, max_actions=3),
    seed=st.integers(0, 2**32 - 1),
    unit=st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_without_bounds_nothing_beats_it(mdp: MDP, seed: int, unit: float) -> None:
    """All kinds, near-reducible ones included: against every deterministic policy."""
    rng = np.random.default_rng(seed)
    cost = unit * np.round(rng.normal(size=mdp.n_pairs), 1)  # rounded: ties must not matter
    answer = solve(mdp, cost)
    assert answer.status is Status.OPTIMAL
    assert answer.recurrent_classes == 1
    check_occupancy(mdp, answer.occupancy)
    assert answer.value == pytest.approx(by_enumeration(mdp, cost), abs=1e-9 * unit)


def test_near_reducible_models_are_solved_without_bounds() -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        mdp = random_mdp("near_reducible", int(rng.integers(2, 9)), 3, rng)
        batch = DenseOracle(mdp).solve_batch(rng.normal(size=(4, mdp.n_pairs)), rescue=False)
        assert (batch.status == OPTIMAL).all()


def test_near_reducible_models_with_bounds_are_proved_or_said_not_to_be() -> None:
    rng = np.random.default_rng(4)
    proved = asked = 0
    for _ in range(60):
        mdp = random_mdp("near_reducible", int(rng.integers(2, 7)), 3, rng)
        lower = rng.uniform(0, 0.4 / mdp.n_states, mdp.n_states)
        cost = rng.normal(size=mdp.n_pairs)
        oracle = LinearOracle(mdp, lower)
        answer = oracle.solve(cost)
        if answer.status is Status.INFEASIBLE:
            assert oracle.scale[1] < 1.0
            continue
        asked += 1
        proved += answer.status is Status.OPTIMAL
        assert oracle.error(cost, answer) < 1e-5
    assert asked >= 20
    assert proved >= 0.9 * asked


# -- many at once ------------------------------------------------------------------------------


def test_batch_equals_single_bit_for_bit() -> None:
    mdp = garnet(6, 3, 2, seed=1).mdp
    oracle = DenseOracle(mdp)
    costs = np.random.default_rng(0).normal(size=(50, 6))
    for lower in (0.0, 0.01):
        batch = oracle.solve_batch(costs, lower)
        for w in range(50):
            one = oracle.solve_batch(costs[w : w + 1], lower)
            assert (one.occupancy[0] == batch.occupancy[w]).all()
            assert (one.bias[0] == batch.bias[w]).all()
            assert one.status[0] == batch.status[w]
        # Costs per state mean the same as costs per pair.
        pairs = oracle.solve_batch(mdp.to_pairs(costs), lower)
        assert (pairs.occupancy == batch.occupancy).all()


def test_a_warm_start_changes_no_value_and_is_not_changed() -> None:
    rng = np.random.default_rng(1)
    mdp = random_mdp("ragged", 7, 4, rng)
    oracle = DenseOracle(mdp)
    costs = rng.normal(size=(200, mdp.n_pairs))
    cold = oracle.solve_batch(costs, 0.02)
    start = np.array(
        [[rng.choice(mdp.pairs_of(s)) for s in range(mdp.n_states)] for _ in range(200)]
    )
    kept = start.copy()
    warm = oracle.solve_batch(costs, 0.02, start)
    assert (start == kept).all()
    np.testing.assert_allclose(warm.value, cold.value, atol=1e-12)
    again = oracle.solve_batch(costs, 0.02, warm.chosen)
    assert (again.chosen == warm.chosen).all()


def test_threads_share_an_oracle() -> None:
    mdp = garnet(10, 3, 2, seed=2).mdp
    oracle = DenseOracle(mdp)
    costs = np.random.default_rng(0).normal(size=(4000, 10))
    whole = oracle.solve_batch(costs, 0.002).occupancy
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda c: oracle.solve_batch(c, 0.002).occupancy, np.split(costs, 8))
    assert (np.vstack(list(parts)) == whole).all()


def test_policies_of_a_batch_lead_to_the_support() -> None:
    rng = np.random.default_rng(5)
    for kind in COMMUNICATING:
        mdp = random_mdp(kind, 6, 3, rng)
        oracle = DenseOracle(mdp)
        batch = oracle.solve_batch(rng.normal(size=(20, mdp.n_pairs)))
        for probability, x in zip(batch.policy(oracle), batch.occupancy):
            policy = Policy(mdp, probability)
            (states,) = policy.chain().recurrent_classes()
            assert set(states) == set(np.flatnonzero(mdp.state_sums(x)))


# -- traps -------------------------------------------------------------------------------------


def stay_or_swap(n: int) -> MDP:
    """A cycle of n states with the actions stay and go on, deterministic."""
    P = np.zeros((n, 2, n))
    for s in range(n):
        P[s, 0, s] = 1.0
        P[s, 1, (s + 1) % n] = 1.0
    return MDP.from_array(P)


def test_policy_iteration_is_not_fooled_by_multichain_policies() -> None:
    # Staying is the better answer in every state at once: n closed classes in one step.
    mdp = stay_or_swap(6)
    cost = np.tile([0.0, 1.0], 6)
    cost[::2] = [5, 4, 3, 1, 2, 6]
    answer = solve(mdp, cost, method="compiled")
    assert answer.status is Status.OPTIMAL
    assert answer.value == 1.0 or answer.value == pytest.approx(by_enumeration(mdp, cost))
    # A start that is multichain already.
    batch = DenseOracle(mdp).solve_batch(cost[None], chosen=np.arange(0, 12, 2)[None])
    assert batch.status[0] == OPTIMAL
    assert batch.value[0] == pytest.approx(by_enumeration(mdp, cost))


def test_a_vertex_with_several_classes_is_reported() -> None:
    # Moving costs, staying doesn't, and both states must be visited: the walk stays for ever
    # where it starts, and a quarter of the walks would have to start in the second state.
    mdp = stay_or_swap(2)
    answer = solve(mdp, np.array([0.0, 1.0, 1e-3, 1.0]), 0.25)
    assert answer.status is Status.OPTIMAL
    np.testing.assert_allclose(answer.occupancy, [0.75, 0.0, 0.25, 0.0], atol=1e-15)
    assert answer.recurrent_classes == 2
    assert count_classes(mdp, np.full(4, 0.25)) == 1


def test_the_cheapest_component_wins() -> None:
    # A start that leads to two islands for ever.
    P = np.zeros((5, 2, 5))
    P[0, 0, 1] = P[0, 1, 3] = 1.0
    P[1, 0, 2] = P[2, 0, 1] = 1.0
    P[3, 0, 4] = P[4, 0, 3] = P[4, 1, 4] = 1.0
    mdp = MDP.from_array(P)
    for method in METHODS:
        answer = solve(mdp, np.array([-100.0, 2.0, 4.0, 5.0, 1.0]), method=method)
        assert answer.value == pytest.approx(1.0)
        np.testing.assert_allclose(mdp.state_sums(answer.occupancy), [0, 0, 0, 0, 1], atol=1e-9)
    # Bounds share the mass among the islands, and forbid the start.
    lower = np.array([0.0, 0.1, 0.1, 0.1, 0.1])
    answer = solve(mdp, np.array([-100.0, 2.0, 4.0, 5.0, 1.0]), lower)
    assert answer.status is Status.OPTIMAL
    assert answer.value == pytest.approx(0.1 * 2 + 0.1 * 4 + 0.1 * 5 + 0.7)
    assert answer.recurrent_classes == 2
    lower[0] = 1e-9
    assert solve(mdp, np.zeros(5), lower).status is Status.INFEASIBLE


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("shift", [0.0, -1.0, 1.0])
def test_units_and_constants_do_not_matter(unit: float, shift: float) -> None:
    mdp = garnet(8, 3, 3, seed=3).mdp
    cost = np.random.default_rng(2).normal(size=8)
    for lower in (0.0, 0.02):
        plain = solve(mdp, cost, lower)
        other = solve(mdp, unit * (cost + shift), lower)
        assert other.status is Status.OPTIMAL
        np.testing.assert_allclose(other.occupancy, plain.occupancy, atol=1e-12)
        np.testing.assert_allclose(other.multiplier, unit * plain.multiplier, atol=1e-9 * unit)
        assert other.value == pytest.approx(unit * (plain.value + shift), rel=1e-9)


def test_equal_costs_and_models_without_a_choice() -> None:
    chain = random_mdp("one_action", 5, 1, np.random.default_rng(0))
    for mdp in (stay_or_swap(1), stay_or_swap(4), chain):
        answer = solve(mdp, np.full(mdp.n_pairs, 7.0))
        assert answer.status is Status.OPTIMAL
        assert answer.value == answer.bound == pytest.approx(7.0)


def test_costs_that_are_no_numbers_are_reported_row_by_row() -> None:
    mdp = stay_or_swap(3)
    costs = np.arange(9.0).reshape(3, 3)
    costs[1, 2] = np.nan
    batch = DenseOracle(mdp).solve_batch(costs)
    assert list(batch.status) == [OPTIMAL, NOT_FINITE, OPTIMAL]
    assert not batch.occupancy[1].any()
    assert solve(mdp, [0.0, 1.0, np.inf]).status is Status.NOT_FINITE


def test_the_largest_scale_of_the_bounds() -> None:
    rng = np.random.default_rng(6)
    for kind in SANE:
        for _ in range(6):
            mdp = random_mdp(kind, int(rng.integers(1, 7)), 3, rng)
            lower = rng.uniform(0.1, 1.0, mdp.n_states)
            attained, beyond = LinearOracle(mdp, lower).scale
            assert attained <= beyond * (1 + 1e-9)
            assert beyond <= attained * (1 + 1e-7)
            if attained == 0.0:
                continue
            cost = rng.normal(size=mdp.n_states)
            assert solve(mdp, cost, lower * attained).status is Status.OPTIMAL
            assert solve(mdp, cost, lower * beyond * 1.001).status is Status.INFEASIBLE


# -- other methods -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["interior-point", "highs", "value-iteration"])
@pytest.mark.parametrize("kind", SANE)
def test_methods_agree(method: str, kind: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(8):
        mdp = random_mdp(kind, int(rng.integers(1, 9)), 3, rng)
        cost = rng.normal(size=mdp.n_pairs)
        for lower in (np.zeros(mdp.n_states), rng.uniform(0, 0.4 / mdp.n_states, mdp.n_states)):
            truth = solve(mdp, cost, lower)
            answer = solve(mdp, cost, lower, method)
            if answer.status is Status.UNPROVED:
                # Value iteration may need too long; the others only fail at the very edge.
                assert method == "value-iteration" or LinearOracle(mdp, lower).scale[0] < 1.01
                continue
            assert answer.status is truth.status
            if answer.status is Status.OPTIMAL:
                assert answer.value == pytest.approx(truth.value, abs=1e-8)
                check_occupancy(mdp, answer.occupancy, lower)


def test_a_large_map_and_a_large_random_graph() -> None:
    survey = grid_survey(25, 25, slip=0.1, field="hard", seed=0)
    mdp = survey.mdp
    even = Policy.uniform(mdp).chain().stationary()
    cost = -survey.variance / even**2
    for lower in (np.zeros(mdp.n_states), 0.5 * even):
        answer = solve(mdp, cost, lower)
        assert answer.status is Status.OPTIMAL
        assert answer.method == "interior point" or not lower.any()
        check_occupancy(mdp, answer.occupancy, lower)
        truth = solve(mdp, cost, lower, "highs")
        assert answer.value == pytest.approx(truth.value, rel=1e-8)
    world = garnet(600, 3, 4, seed=0)
    answer = solve(world.mdp, -world.variance)
    assert answer.status is Status.OPTIMAL
    assert answer.method == "value iteration"
    assert answer.value == pytest.approx(solve(world.mdp, -world.variance, 0.0, "highs").value)


# -- bad input ---------------------------------------------------------------------------------


def test_wrong_arguments_are_named() -> None:
    mdp = stay_or_swap(3)
    oracle = DenseOracle(mdp)
    with pytest.raises(ArgumentError, match=r"\(k, 3\) or \(k, 6\)"):
        oracle.solve_batch(np.zeros((2, 4)))
    with pytest.raises(ArgumentError, match="lower of state 1"):
        oracle.solve_batch(np.zeros((1, 3)), [0.0, -0.1, 0.0])
    with pytest.raises(ArgumentError, match="lower of state 0"):
        oracle.solve_batch(np.zeros((1, 3)), np.nan)
    with pytest.raises(ArgumentError, match="one pair of every state"):
        oracle.solve_batch(np.zeros((1, 3)), chosen=np.array([[0, 1, 2]]))
    with pytest.raises(ArgumentError, match="compiled, interior-point"):
        LinearOracle(mdp, method="simplex")
    with pytest.raises(ArgumentError, match="one cost per state or one per pair"):
        LinearOracle(mdp).solve(np.zeros(4))


@pytest.mark.parametrize("slip", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_interior_point_meets_bounds_on_hard_grids(seed: int, slip: float) -> None:
    """Bounds of all sizes, met in proportion to each, and proved: no other method is needed."""
    world = grid_survey(20, 20, obstacles=0.0, slip=slip, field="hard", seed=seed)
    rng = np.random.default_rng(seed)
    eta = even_distribution(world.mdp)
    lower = 0.5 * eta
    cost = world.mdp.to_pairs(-world.variance / (eta * rng.uniform(0.5, 1.5, eta.size)) ** 2)
    answer = InteriorOracle(world.mdp, lower).solve(cost)
    assert answer.status is Status.OPTIMAL
    assert (world.mdp.state_sums(answer.occupancy) >= lower * (1 - 1e-9)).all()
    assert answer.value - answer.bound <= 1e-9 * np.ptp(cost)
