"""The theory, held against exact values: every inequality, every constant, every slip."""

import itertools
import math

import numpy as np
import pytest

import sojourn as sj
from sojourn import theory
from sojourn.errors import ArgumentError, NotReversible
from sojourn.planning import visit_facts
from sojourn.testing import random_reversible

LAZY = 0.5


def reversible(rng, n):
    """A random reversible chain, half lazy so that it mixes visibly and is aperiodic."""
    return sj.Chain(
        LAZY * np.eye(n) + (1 - LAZY) * np.asarray(random_reversible(n, rng, ratio=4.0)[0])
    )


def as_policy(chain):
    """A chain as the only policy of a one-action model."""
    P = np.asarray(chain.transitions)
    return sj.Policy.uniform(sj.MDP.from_array(P[:, None, :]))


def rotation(n, stay=0.3):
    """A cycle walked one way: ergodic, not reversible."""
    return sj.Chain(stay * np.eye(n) + (1 - stay) * np.roll(np.eye(n), 1, axis=1))


# -- mixing -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_frequency_bias_holds_exactly(seed):
    rng = np.random.default_rng(seed)
    chain = reversible(rng, int(rng.integers(2, 7)))
    P, eta = np.asarray(chain.transitions), chain.stationary()
    for budget in (2, 10, 100):
        bound = theory.frequency_bias(chain, budget)
        for start in range(chain.n_states):
            expected, here = np.zeros(chain.n_states), np.eye(chain.n_states)[start]
            for _ in range(budget - 1):
                here = here @ P
                expected += here
            assert np.abs(expected / budget - eta).max() <= bound


def test_frequency_bias_as_printed_fails_for_one_state():
    """n − 1 of n visits: off by 1/n, where the printed bound says 1/(2n)."""
    chain = sj.Chain([[1.0]])
    off = 1.0 - 9 / 10
    assert (
        theory.frequency_bias(chain, 10, as_printed=True) < off <= theory.frequency_bias(chain, 10)
    )


def test_reversible_bounds_refuse_other_chains_by_name():
    for call in (
        lambda: theory.frequency_bias(rotation(4), 10),
        lambda: theory.frequency_deviation(rotation(4), 10, 0.1),
        lambda: theory.loss_deviation(rotation(4), 1.0, 10**6, 1),
    ):
        with pytest.raises(NotReversible, match="use "):
            call()
    with pytest.raises(ArgumentError, match="period"):
        theory.frequency_tail_nonreversible(rotation(4, stay=0.0), 10, 0.1)
    with pytest.raises(ArgumentError, match="irreducible"):
        theory.frequency_bias(sj.Chain(np.eye(2)), 10)


@pytest.mark.parametrize("chain", [rotation(4), reversible(np.random.default_rng(3), 4)])
def test_tails_hold_on_simulated_walks(chain):
    world = sj.World(as_policy(chain).mdp, 0.0, 1.0)
    eta = chain.stationary()
    budget, runs = 2000, 400
    simulation = sj.simulate(world, sj.Fixed(as_policy(chain)), budget, runs=runs, seed=1)
    off = np.abs(simulation.visits / budget - eta)
    for epsilon in (0.05, 0.1, 0.2):
        bound = theory.frequency_tail_nonreversible(chain, budget, epsilon)
        seen = (off > epsilon).mean(axis=0)
        assert (seen <= bound + 3 * np.sqrt(bound * (1 - bound) / runs) + 1e-12).all()
    if chain.is_reversible():
        allowed = theory.frequency_deviation(chain, budget, 0.1)
        assert ((off > allowed).mean(axis=0) <= 0.1 + 3 * math.sqrt(0.09 / runs)).all()


@pytest.mark.parametrize("seed", range(4))
def test_unvisited_bound_against_exact_probabilities(seed):
    chain = reversible(np.random.default_rng(seed), 3)
    eta = chain.stationary()
    for budget in (math.ceil(1 / eta.min()) + 2, 200, 3000):
        facts = visit_facts(as_policy(chain), budget, counting=sj.VisitsOnly())
        assert (np.asarray(facts.unvisited) <= theory.unvisited_bound(chain, budget) + 1e-15).all()
    assert (
        theory.unvisited_cost_bound(chain, 10**6, 9.0)
        < theory.unvisited_cost_bound(chain, 10**5, 9.0) + 1e-300
    )
    with pytest.raises(ArgumentError, match="1/η_min"):
        theory.unvisited_bound(chain, 2)


# -- loss ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_loss_deviation_holds_where_it_is_claimed(seed):
    """|𝓛_n − 𝓛| ≤ ℓ_n with the exact 𝓛_n on the left."""
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(2, 5))
    chain = reversible(rng, n_states)
    policy = as_policy(chain)
    variance = 10 ** rng.uniform(-2, 1, n_states)
    asymptotic = float(np.mean(variance / chain.stationary()))
    budget = 1000
    while True:
        try:
            bound = theory.loss_deviation(chain, variance, budget, 1)
            break
        except ArgumentError:
            budget *= 2
    for n in (budget, 4 * budget):
        exact = sj.finite_loss(policy, variance, n, counting=sj.PriorSample())
        assert abs(exact - asymptotic) <= theory.loss_deviation(chain, variance, n, 1)
    assert bound > 0


def test_loss_deviation_says_where_it_begins():
    chain = reversible(np.random.default_rng(0), 3)
    with pytest.raises(ArgumentError, match="larger budget"):
        theory.loss_deviation(chain, 1.0, 100, 1)
    with pytest.raises(ArgumentError, match="below 1"):
        theory.loss_deviation(chain, 1.0, 3, 4)
    assert theory.loss_deviation(chain, 1.0, 3, 4, require=False) > 0


@pytest.mark.parametrize("seed", range(5))
def test_smoothness_bounds_the_hessian(seed):
    rng = np.random.default_rng(seed)
    n_states, n_actions, floor = 4, 3, 0.02
    variance = 10 ** rng.uniform(-3, 1, n_states)
    eta = 2 * floor + rng.dirichlet(np.ones(n_states)) * (1 - 2 * floor * n_states)
    largest = (2 * variance / (n_states * eta**3) * n_actions).max()
    assert largest <= theory.smoothness(variance, floor, n_actions)
    assert theory.smoothness(variance, floor, n_actions) <= theory.smoothness(
        variance, floor, n_actions, as_printed=True
    )


def test_smoothness_as_printed_misses_a_factor_for_one_state():
    assert theory.smoothness(1.0, 0.5, 1) == 2 * theory.smoothness(1.0, 0.5, 1, as_printed=True)


@pytest.mark.parametrize("seed", range(6))
def test_bandit_bounds_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    variance = rng.uniform(0.3, 3.0, 3)
    share = np.sqrt(variance) / np.sqrt(variance).sum()
    for n in (7, 12, 30):
        best = min(
            sum(v * n / t for v, t in zip(variance, (a, b, n - a - b))) / 3
            for a, b in itertools.product(range(1, n - 1), repeat=2)
            if n - a - b >= 1
        )
        rounded = np.mean(variance * n / sj.apportion(share, n))
        assert -1e-9 <= rounded - best <= theory.bandit_slow_bound(variance, n)
        if n >= 4 / (3 * share.min() ** 2):
            assert rounded - best <= theory.bandit_fast_bound(variance, n)
    with pytest.raises(ArgumentError, match="2S"):
        theory.bandit_slow_bound(variance, 6)


# -- regret -------------------------------------------------------------------------------


def test_episodes_add_up():
    k = np.arange(1, 60)
    for tau1 in (1, 7):
        lengths = theory.episode_length(k, tau1)
        assert np.array_equal(np.diff(theory.episode_end(np.arange(1, 61), tau1)), lengths)
        assert np.allclose(theory.beta(k), lengths / (theory.episode_end(k + 1, tau1) - 1))
        assert (lengths >= tau1 * k**2).all()
        # The proof's 3τ₁k² is above the true length for every k.
        assert (lengths < 3 * tau1 * k**2).all()
    assert ((theory.beta(k) >= 1 / k) & (theory.beta(k) <= 3 / k)).all()


@pytest.mark.parametrize(("floor", "gamma"), [(0.1, 0.5), (1e-3, 0.1), (1e-6, 1e-3)])
def test_burn_in_is_the_first_length(floor, gamma):
    cover = theory.log_cover(5, 3, floor, 0.05)
    tau = theory.burn_in(floor, gamma, cover)
    assert theory.uniform_deviation(tau, gamma, cover) <= floor
    assert theory.uniform_deviation(tau * (1 - 1e-9) - 1, gamma, cover) > floor
    k = theory.first_good_episode(floor, gamma, cover)
    assert theory.episode_length(k) >= tau * (1 - 1e-12)
    assert k == 1 or theory.episode_length(k - 1) < tau


def test_the_recurrence_decays_like_log_k_over_k():
    b, start, stop = 3.0, 5, 20_000
    u = theory.recurrence(10.0, start, stop, b=b)
    k = np.arange(start, stop + 1)
    assert (k * u <= start * 10.0 + 2 * b * np.log((k - 1) / (start - 1)) + 1e-9).all()


def test_equal_growth_is_not_the_maximum():
    """The slip in Lem. seq_v: 2·(10 − 1) = 18 by equal growth, 99 at the extreme point."""
    equal = 2 * (math.sqrt(100.0) - 1)
    assert equal == 18.0
    assert theory.visit_ratio_maximum(100.0, 2, 1) == 99.0
    rng = np.random.default_rng(0)
    for _ in range(500):
        growth = rng.dirichlet(np.ones(4)) * math.log(100.0)
        total = (np.exp(growth) - 1).sum()
        assert 4 * (100 ** (1 / 4) - 1) - 1e-9 <= total <= 99.0 + 1e-9


def test_the_mended_lemma_holds_on_walks():
    world = sj.instances.garnet(4, 2, 2, seed=1)
    strategy = sj.FrankWolfe(schedule="theorem")
    ends = theory.episode_end(np.arange(3, 12), 8).astype(int)
    floor = 0.02
    for seed in range(3):
        visits = [sj.simulate(world, strategy, int(t), runs=1, seed=seed).visits[0] for t in ends]
        if min((v / t).min() for v, t in zip(visits, ends)) < floor:
            continue
        total = sum((b / a - 1).sum() for a, b in itertools.pairwise(visits))
        assert total <= theory.visit_ratio_bound(3, 11, floor)


def test_regret_bound_shrinks_like_a_cube_root():
    common = {
        "start": 10, "regret_at_start": 5.0, "tau1": 10, "n_states": 5, "n_actions": 3,
        "variance_bound": 1.0, "value_bound": 1.0, "floor": 0.05, "gamma_min": 0.2, "delta": 0.05,
    }  # fmt: skip
    k = np.array([10**4, 10**8])
    bounds = np.array([theory.regret_bound(int(x), **common) for x in k])
    t = theory.episode_end(k, 10)
    slope = np.diff(np.log(bounds)) / np.diff(np.log(t))
    assert -1 / 3 - 0.01 < slope[0] < -1 / 3 + 0.06


def test_theta():
    m = np.linspace(1, 10, 181)
    values = theory.theta(m)
    assert m[np.argmax(values)] == 3.0
    assert values.max() == pytest.approx(1 / 3)
    for x in (1.5, 2.0, 5.0, 8.0):
        assert theory.theta_euler(x, 1e30) == pytest.approx(float(theory.theta(x)), abs=0.01)
    with pytest.raises(ArgumentError, match="positive"):
        theory.theta(0.0)


def test_widths():
    w = theory.width(100, np.array([1, 4]), 5, 0.1, 2.0)
    assert w[0] == 2 * w[1] == pytest.approx(20 * math.sqrt(math.log(20000.0)))


# -- over policies ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_eta_min_is_the_minimum_over_deterministic_policies(seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    mdp = sj.MDP.from_array(P)
    found = theory.eta_min(mdp)
    brute = min(
        sj.Chain(P[np.arange(3), list(choice)]).stationary().min()
        for choice in itertools.product(range(2), repeat=3)
    )
    assert found.value == pytest.approx(brute, rel=1e-9)
    assert theory.eta_min(sj.instances.three_state().mdp).value == 0


def test_gamma_min_is_bounded_from_above():
    rng = np.random.default_rng(0)
    mdp = sj.MDP.from_array(rng.dirichlet(np.ones(3), size=(3, 2)))
    found = theory.gamma_min_upper(mdp, tries=20)
    assert found.value == pytest.approx(found.policy.chain().spectral_gap)
    assert found.value <= sj.Policy.uniform(mdp).chain().spectral_gap + 1e-12
    again = theory.gamma_min_upper(mdp, tries=20)
    assert again.value == found.value


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.uniform_deviation(0, 0.1, 1.0),
        lambda: theory.log_cover(5, 3, 0.1, 1.5),
        lambda: theory.regret_bound(
            3, start=5, regret_at_start=1.0, tau1=1, n_states=2, n_actions=2, variance_bound=1.0,
            value_bound=1.0, floor=0.1, gamma_min=0.1, delta=0.1,
        ),
        lambda: theory.fmh_bound(1.0, 1.0, 0.0, 0.1, 0.1, 0.1),
        lambda: theory.recurrence(1.0, 5, 5, b=1.0),
        lambda: theory.bandit_fast_bound([0.0, 1.0], 100),
    ],
)  # fmt: skip
def test_meaningless_arguments(call):
    with pytest.raises(ArgumentError):
        call()
