"""The theory, held against exact values: every inequality, every constant, every slip."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn import learning, theory
from sojourn.errors import ArgumentError, NotReversible
from sojourn.planning import visit_facts
from sojourn.planning.regularized import regularized_plan
from sojourn.testing import mdps, random_policy, random_reversible

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


def test_the_geometric_rate_starts_at_no_move():
    """The proof bounds |P(s_t = s | s_1 = s') − η(s)| by ½√((1−η)/η) (1−γ)^t; after t − 1 moves
    it is (1−γ)^(t−1), and at t = 1, where nothing has moved, the printed one is false."""
    forgetful = sj.Chain(np.full((2, 2), 0.5))
    assert abs(1.0 - 0.5) > 0.5 * (1 - forgetful.spectral_gap)
    for seed in range(5):
        chain = reversible(np.random.default_rng(seed), 4)
        P, eta = np.asarray(chain.transitions), chain.stationary()
        here = np.eye(4)
        for moves in range(30):
            rate = 0.5 * np.sqrt((1 - eta) / eta) * (1 - chain.spectral_gap) ** moves
            assert (np.abs(here - eta) <= rate[:, None] + 1e-12).all()
            here = here @ P


def test_reversible_bounds_refuse_other_chains_by_name():
    for call in (
        lambda: theory.frequency_bias(rotation(4), 10),
        lambda: theory.frequency_deviation(rotation(4), 10, 0.1),
        lambda: theory.loss_deviation(rotation(4), 1.0, 10**6),
    ):
        with pytest.raises(NotReversible, match=r"use (frequency|loss)_\w+"):
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


def test_the_deviation_is_where_the_tail_is_delta():
    for chain in (rotation(4), reversible(np.random.default_rng(5), 4)):
        for budget, delta in ((300, 0.1), (10**5, 1e-6)):
            epsilon = theory.frequency_deviation_nonreversible(chain, budget, delta)
            tail = theory.frequency_tail_nonreversible(chain, budget, epsilon)
            assert tail == pytest.approx(delta, rel=1e-9)


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


def first_budget(bound):
    """The first power of two at which a bound is claimed."""
    budget = 1024
    while True:
        try:
            bound(budget)
            return budget
        except ArgumentError:
            budget *= 2


@pytest.mark.parametrize("seed", range(6))
def test_loss_deviation_holds_where_it_is_claimed(seed):
    """|𝓛_n − 𝓛| ≤ the mended bound, with the exact 𝓛_n on the left, from every start."""
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(2, 5))
    chain = reversible(rng, n_states)
    policy = as_policy(chain)
    variance = 10 ** rng.uniform(-2, 1, n_states)
    asymptotic = float(np.mean(variance / chain.stationary()))
    for bound in (theory.loss_deviation, theory.loss_deviation_nonreversible):
        n = first_budget(lambda n, bound=bound: bound(chain, variance, n))
        for start in range(n_states):
            exact = sj.finite_loss(policy, variance, n, start=start, counting=sj.PriorSample())
            assert abs(exact - asymptotic) <= bound(chain, variance, n)


@given(
    share=st.floats(0.02, 0.98), speed=st.floats(1e-3, 1.0), exponent=st.integers(1, 24),
    target=st.integers(0, 1),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_loss_deviation_bounds_two_states_at_any_budget(share, speed, exponent, target):
    """Two states, the worst case of the paper's ℓ_n: the parts of the mended bound hold also
    below the budget where it begins, and the whole from there on."""
    up, down = speed * share, speed * (1 - share)
    chain = sj.Chain([[1 - up, up], [down, 1 - down]])
    variance = np.eye(2)[target]
    budget = 2**exponent
    try:
        bound = theory.loss_deviation(chain, variance, budget)
    except ArgumentError:
        return
    policy = as_policy(chain)
    for start in (0, 1):
        exact = float(sj.finite_loss(policy, variance, budget, start=start))
        asymptotic = float(np.mean(variance / chain.stationary()))
        # The exact loss itself is right to about 1e-16·budget.
        assert abs(exact - asymptotic) <= bound + 1e-15 * budget


def test_loss_deviation_as_printed_is_false():
    """Two states that are seldom changed: ℓ_n is exceeded by 2 %, in 40 digits.

    𝓛_n by the closed form of E[z^V] for two states; every assumption of the lemma holds, also
    with its own δ = S·A^S/n².
    """
    stay, n, variance = 2.0**-7, 2 * 10**8, np.array([0.0, 1.0])
    chain = sj.Chain([[1 - stay, stay], [stay, 1 - stay]])
    assert chain.is_reversible()
    assert (theory.frequency_deviation(chain, n, 2 / n**2) < 0.05 * chain.stationary()).all()
    printed = theory.loss_deviation(chain, variance, n, as_printed=True)
    with mpmath.workdps(40):
        p, N = mpmath.mpf(stay), n - 1

        def generating(z):
            """E[z^V] for N moves from the first state, V visits to the second."""
            trace, det = (1 - p) * (1 + z), (1 - 2 * p) * z
            root = mpmath.sqrt(trace**2 - 4 * det)
            one, two = (trace + root) / 2, (trace - root) / 2
            first, second = 1 - p - two + p * z, 1 - p - one + p * z
            return (first * one**N - second * two**N) / root

        c = mpmath.log(n) + 1
        scale = mpmath.expm1(c)
        integral = mpmath.quad(
            lambda x: generating(1 - mpmath.expm1(c * x) / scale) * c * mpmath.exp(c * x) / scale,
            [0, 0.25, 0.5, 0.75, 1],
        )
        excess = float(n * integral / 2 - 1)
    assert 1.02 * printed < excess < theory.loss_deviation(chain, variance, n)


def test_the_mended_bound_is_smaller_where_a_state_is_rare():
    weight = np.array([1.0, 1e4, 1.0])
    P = np.diag([0.5, 0.0, 0.5]) + 0.0
    P[0, 1] = P[2, 1] = 0.5
    P[1] = [0.5 * weight[0] / weight[1], 1 - weight[0] / weight[1], 0.5 * weight[2] / weight[1]]
    chain = sj.Chain(P)
    n = first_budget(lambda n: theory.loss_deviation(chain, 1.0, n))
    mended = theory.loss_deviation(chain, 1.0, 4 * n)
    assert mended < 0.7 * theory.loss_deviation(chain, 1.0, 4 * n, as_printed=True)


def test_the_step_through_the_ratio_is_not_valid():
    """X = ±1 of equal chance, Y = 1 or 3 along with it: |E[X/Y]| = 1/3, |E X|/min Y = 0."""
    X, Y = np.array([1.0, -1.0]), np.array([1.0, 3.0])
    assert abs(np.mean(X / Y)) == pytest.approx(1 / 3)
    assert abs(np.mean(X)) / Y.min() == 0


def test_loss_deviation_says_where_it_begins():
    chain = reversible(np.random.default_rng(0), 3)
    for bound in (theory.loss_deviation, theory.loss_deviation_nonreversible):
        with pytest.raises(ArgumentError, match="larger budget"):
            bound(chain, 1.0, 100)
        assert bound(chain, 1.0, 100, require=False) > 0


def river(rng, n_states=3):
    """A path whose moves may fail: every policy is ergodic and, on a tree, reversible."""
    records = []
    for s in range(n_states):
        near = [t for t in (s - 1, s, s + 1) if 0 <= t < n_states]
        for a in range(2):
            chances = 0.7 * rng.dirichlet(np.full(len(near), 2.0)) + 0.3 / len(near)
            records += [(s, a, t, p) for t, p in zip(near, chances)]
    return sj.MDP.from_transitions(records)


@pytest.mark.parametrize("seed", range(3))
def test_performance_losses_against_the_best_policy(seed):
    """Eq. eq:performance.loss and Lem. lem:reg.performance, all three losses exact."""
    rng = np.random.default_rng(seed)
    mdp, variance = river(rng), 10 ** rng.uniform(-1, 1, 3)
    assert theory.every_policy_reversible(mdp)
    plan = sj.optimal_plan(mdp, variance)
    deviation = theory.loss_deviation
    n = first_budget(lambda n: deviation(plan.policy.chain(), variance, n))
    best = sj.budget_plan(mdp, variance, n)
    least = best.loss
    of_best = deviation(best.policy.chain(), variance, n)
    of_plan = deviation(plan.policy.chain(), variance, n)
    excess = sj.finite_loss(plan.policy, variance, n) - least
    assert excess <= theory.asymptotic_bound(of_plan, of_best)
    regularized = regularized_plan(mdp, variance, n)
    printed = deviation(best.policy.chain(), variance, n, as_printed=True, n_actions=2)
    assert regularized.loss - least <= theory.regularized_bound(printed)
    assert regularized.regularized <= plan.loss + deviation(
        plan.policy.chain(), variance, n, as_printed=True, n_actions=2
    ) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_fmh_bound_against_exact_losses(seed):
    """Lem. lem:performance_loss_fmh with ρ_n in the unit of the variances, losses exact."""
    rng = np.random.default_rng(10 + seed)
    mdp, variance = river(rng), 10 ** rng.uniform(-1, 1, 3)
    asymptotic = sj.optimal_plan(mdp, variance)
    n = first_budget(lambda n: theory.loss_deviation(asymptotic.policy.chain(), variance, n))
    best = sj.budget_plan(mdp, variance, n)
    smallest = theory.eta_min(mdp).value
    gamma = theory.gamma_min_upper(mdp, tries=20).value
    rho = float(variance.sum() / smallest**2.5 / (3 * n))
    for slack in (1 / n, 0.01):
        fmh = sj.faster_mixing_plan(mdp, variance, n, method="convex", slack=slack)
        bound = theory.fmh_bound(
            theory.loss_deviation(best.policy.chain(), variance, n), variance,
            float(asymptotic.distribution.min()) / 2, slack, rho, gamma,
        )  # fmt: skip
        assert sj.finite_loss(fmh.policy, variance, n) - best.loss <= bound


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


def test_rounding_may_be_farther_than_the_proof_says():
    """Five small shares are just above a whole number and rounded up, the large one pays for
    all: ‖η̃ − η*‖² is 4 S/n². The rate that the proof takes from S/n² holds all the same."""
    n = 6000
    share = np.full(6, 100.1 / n)
    share[0] = 1.0 - share[1:].sum()
    rounded = sj.apportion(share, n) / n
    assert ((rounded - share) ** 2).sum() > 4 * 6 / n**2
    variance = share**2
    lost = np.mean(variance / rounded) - np.mean(variance / share)
    assert 0 < lost <= theory.bandit_fast_bound(variance, n)


# -- regret -------------------------------------------------------------------------------


def test_episodes_add_up():
    k = np.arange(1, 60)
    for tau1 in (1, 7):
        lengths = theory.episode_length(k, tau1)
        assert np.array_equal(np.diff(theory.episode_start(np.arange(1, 61), tau1)), lengths)
        assert np.allclose(theory.beta(k), lengths / (theory.episode_start(k + 1, tau1) - 1))
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


def test_the_recurrence_is_what_it_says():
    rng = np.random.default_rng(0)
    v = rng.random(30)
    u = theory.recurrence(2.0, 4, 34, b=3.0, c0=0.7, v=v)
    by_hand = [2.0]
    for i, k in enumerate(range(4, 34)):
        by_hand.append((1 - 1 / k) * by_hand[-1] + 3.0 / k**2 + float(theory.beta(k)) * 0.7 * v[i])
    np.testing.assert_allclose(u, by_hand, rtol=1e-13)


def test_the_recurrence_decays_like_log_k_over_k():
    b, start, stop = 3.0, 5, 20_000
    u = theory.recurrence(10.0, start, stop, b=b)
    k = np.arange(start, stop + 1)
    assert (k * u <= start * 10.0 + 2 * b * np.log((k - 1) / (start - 1)) + 1e-9).all()


def test_equal_growth_is_not_the_maximum():
    """The slip in Lem. seq_v: 2·(10 − 1) = 18 by equal growth, 99 at the extreme point."""
    equal = theory.visit_ratio_maximum(100.0, 2, 1, as_printed=True)
    assert equal == pytest.approx(18.0)
    assert theory.visit_ratio_maximum(100.0, 2, 1) == 99.0
    rng = np.random.default_rng(0)
    for _ in range(500):
        growth = rng.dirichlet(np.ones(4)) * math.log(100.0)
        total = (np.exp(growth) - 1).sum()
        assert 4 * (100 ** (1 / 4) - 1) - 1e-9 <= total <= 99.0 + 1e-9


def test_the_mended_lemma_holds_on_walks():
    """Σv and Σ₂ of real FW-AME walks below their bounds, at the floor that the walk kept."""
    world = sj.instances.garnet(4, 2, 2, seed=1)
    first, last, tau1 = 3, 11, 8
    starts = theory.episode_start(np.arange(first, last + 1), tau1).astype(int)
    # FW-AME does not plan for a budget: with one seed, a longer walk continues a shorter one.
    table = [
        sj.simulate(world, sj.FrankWolfe(schedule="theorem"), int(t - 1), runs=3, seed=0).visits
        for t in starts
    ]
    for walk in range(3):
        visits = np.array([at[walk] for at in table])
        floor = float((visits / (starts - 1)[:, None]).min())
        total = sum((b / a - 1).sum() for a, b in itertools.pairwise(visits))
        assert total <= theory.visit_ratio_bound(first, last, floor)
        v = theory.visit_weights(visits)
        assert v.sum() <= theory.visit_weights_bound(first, last, tau1, floor)


def test_long_series_have_closed_forms(monkeypatch):
    from sojourn.theory import regret

    direct = [
        (theory.visit_ratio_bound(a, b, 0.1), theory.visit_weights_bound(a, b, 3, 0.1))
        for a, b in ((2, 9000), (50, 60), (3000, 9999))
    ]
    monkeypatch.setattr(regret, "SUMMED", 0)
    closed = [
        (theory.visit_ratio_bound(a, b, 0.1), theory.visit_weights_bound(a, b, 3, 0.1))
        for a, b in ((2, 9000), (50, 60), (3000, 9999))
    ]
    np.testing.assert_allclose(closed, direct, rtol=1e-10)


COMMON = {
    "tau1": 10, "n_states": 5, "n_actions": 3, "variance_bound": 1.0, "value_bound": 1.0,
    "floor": 0.05, "gamma_min": 0.2, "delta": 0.05,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_uniform_deviation_covers_every_policy_of_the_floor(seed):
    """Lem. technical_lemma_1 without its cover: M(τ, δ) is above ε_π(s, τ, δ/S) of every chain
    with η ≥ 2η̲ and a gap of at least γ_min."""
    rng = np.random.default_rng(seed)
    chain = reversible(rng, int(rng.integers(2, 6)))
    floor = chain.stationary().min() / 2 * rng.uniform(0.1, 1.0)
    gamma = chain.spectral_gap * rng.uniform(0.1, 1.0)
    for tau, delta in ((10, 0.5), (1000, 0.05), (10**6, 1e-9)):
        cover = theory.log_cover(chain.n_states, 1, floor, delta)
        allowed = theory.uniform_deviation(tau, gamma, cover)
        assert (theory.frequency_deviation(chain, tau, delta / chain.n_states) <= allowed).all()


def test_the_regret_of_walks_is_below_its_bound():
    """Thm. thm:regret_FWAME on FW-AME as its proof has it: the theorem's episodes and widths, a
    prior sample (so τ₁ = 1), bounded noise, two states (every chain reversible)."""
    P = np.array([[[0.4, 0.6], [0.7, 0.3]], [[0.5, 0.5], [0.2, 0.8]]])
    value_bound, delta = 2.0, 0.1
    world = sj.World(sj.MDP.from_array(P), 1.0, [0.9, 0.1], noise="two-point")
    best = sj.optimal_plan(world.mdp, world.variance)
    floor = 0.5 * float(best.distribution.min())
    # 1 − |1 − p − q| is smallest at a corner: a deterministic policy.
    gamma = min(
        sj.Chain(P[np.arange(2), list(choice)]).spectral_gap
        for choice in itertools.product(range(2), repeat=2)
    )
    cover = theory.log_cover(2, 1, floor, delta / 200)
    K = theory.first_floored_episode(floor, gamma, cover) + 20
    strategy = sj.FrankWolfe(
        floor=floor, width=learning.TheoryWidth(value_bound, delta), schedule="theorem"
    )
    moves = int(theory.episode_start(K)) - 1
    walked = sj.simulate(world, strategy, moves, runs=5, seed=0, counting=sj.PriorSample())
    share = walked.visits / walked.visits.sum(axis=1, keepdims=True)
    assert (share >= floor).all()
    regret = (world.variance / share).mean(axis=1) - best.loss
    bound = theory.regret_bound(
        K, tau1=1, n_states=2, n_actions=2, variance_bound=0.9, value_bound=value_bound,
        floor=floor, gamma_min=gamma, delta=delta,
    )  # fmt: skip
    assert (np.abs(regret) < 0.02 * best.loss).all()
    assert (regret <= bound).all()


@pytest.mark.parametrize("as_printed", [False, True])
def test_regret_bound_shrinks_like_a_cube_root(as_printed):
    k = np.array([10**8, 10**12])
    bounds = [theory.regret_bound(int(x), as_printed=as_printed, **COMMON) for x in k]
    slope = np.diff(np.log(bounds)) / np.diff(np.log(theory.episode_start(k, 10)))
    assert -1 / 3 - 0.01 < slope[0] < -1 / 3 + 0.03


@pytest.mark.parametrize("as_printed", [False, True])
def test_regret_bound_has_the_unit_of_a_variance(as_printed):
    scaled = COMMON | {"variance_bound": 9.0, "value_bound": 3.0}
    one, nine = (theory.regret_bound(10**6, as_printed=as_printed, **c) for c in (COMMON, scaled))
    assert nine == pytest.approx(9 * one, rel=1e-12)


def test_regret_bound_speaks_only_where_the_proof_does():
    for as_printed in (False, True):
        with pytest.raises(ArgumentError, match="the proof speaks of episodes from"):
            theory.regret_bound(100, start=2, as_printed=as_printed, **COMMON)


def test_losses_scale_with_the_variance():
    chain = reversible(np.random.default_rng(1), 3)
    variance = np.array([0.1, 1.0, 3.0])
    for bound in (
        lambda v: theory.loss_deviation(chain, v, 10**7, require=False),
        lambda v: theory.loss_deviation(chain, v, 10**7, as_printed=True, require=False),
        lambda v: theory.loss_deviation_nonreversible(chain, v, 10**7, require=False),
        lambda v: theory.smoothness(v, 0.1, 2),
        lambda v: theory.smoothness(v, 0.1, 2, as_printed=True),
        lambda v: theory.bandit_slow_bound(v, 100),
        lambda v: theory.bandit_fast_bound(v, 1000),
    ):
        assert bound(100 * variance) == pytest.approx(100 * bound(variance), rel=1e-12)


def test_the_floor_is_not_kept_from_k_delta_on():
    """Eq. high_proba_lambda_tilde: when episodes before k_δ visit a state not at all, and later
    ones as little as the lemma allows, its frequency is far below η̲ at k_δ, and above it from
    first_floored_episode on."""
    floor, gamma = 0.05, 0.3
    cover = theory.log_cover(4, 1, floor, 0.05)
    for tau1 in (1, 10, 1000):
        printed = theory.first_good_episode(floor, gamma, cover, tau1)
        mended = theory.first_floored_episode(floor, gamma, cover, tau1)
        k = np.arange(1, mended + 50)
        lengths = theory.episode_length(k, tau1)
        least = np.array([2 * floor - theory.uniform_deviation(t, gamma, cover) for t in lengths])
        visits = np.cumsum(np.where(k >= printed, np.maximum(least, 0.0), 0.0) * lengths)
        frequency = np.concatenate(([0.0], visits)) / np.concatenate(([1.0], np.cumsum(lengths)))
        # frequency[k] is λ̃ at the start of episode k + 1.
        assert frequency[printed] < floor
        assert (frequency[mended - 1 :] >= floor).all()


def test_a_floor_that_is_too_high_moves_the_optimum():
    """λ* outside Λ_η̲ (η* below 2η̲): the iterates converge, but not to λ*."""
    world = sj.instances.complete(2, variance=[1.0, 1e-4])
    plan = sj.optimal_plan(world.mdp, world.variance)
    floor = 0.1
    assert plan.distribution.min() < 2 * floor
    x = sj.linear_oracle(world.mdp, [0.0, 1.0], floor=floor)
    best_above = np.mean(world.variance / world.mdp.state_sums(x))
    assert world.mdp.state_sums(x)[1] == pytest.approx(2 * floor)
    assert best_above > 1.2 * plan.loss


def test_theta():
    m = np.linspace(1, 10, 181)
    values = theory.theta(m)
    assert m[np.argmax(values)] == 3.0
    assert values.max() == pytest.approx(1 / 3)
    for x in (1.5, 2.0, 5.0, 8.0):
        assert theory.theta_euler(x, 1e30) == pytest.approx(float(theory.theta(x)), abs=0.01)
    with pytest.raises(ArgumentError, match="positive"):
        theory.theta(0.0)


@pytest.mark.parametrize("m", [1.5, 2.0, 4.0, 6.0])
def test_theta_on_the_recurrence_of_the_proof(m):
    """Eq. new_recurrence itself, with τ_k = k^m − (k−1)^m and β_k = τ_k/t_k, walked to k = 10⁶:
    its local exponent in t (the recurrence has no logarithm, the Euler equation has)."""
    k = np.arange(1.0, 1e6)
    t = k**m
    tau = np.diff(t, prepend=0.0)
    step = tau / t
    rho, kept = 1.0, []
    for b, added in zip(step.tolist(), (step / np.sqrt(tau) + step**2).tolist()):
        rho = (1 - b) * rho + added
        kept.append(rho)
    slope = math.log(kept[-1] / kept[len(kept) // 10]) / math.log(t[-1] / t[len(kept) // 10])
    assert -slope == pytest.approx(float(theory.theta(m)), abs=0.01)


def test_widths_hold_for_bounded_observations():
    """Prop. lem:bound_variance_estimates on two values at the ends of [0, R], the widest law."""
    rng = np.random.default_rng(0)
    bound, delta = 2.0, 0.05
    for samples in (1, 5, 50):
        x = bound * rng.integers(0, 2, size=(4000, samples))
        off = np.abs(x.var(axis=1) - bound**2 / 4)
        allowed = theory.width(samples, samples, 1, delta, bound)
        assert (off > allowed).mean() <= delta


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


def test_every_policy_reversible_against_policies():
    rng = np.random.default_rng(0)
    seen = set()
    cases = [river(rng, 4), sj.instances.three_state().mdp, sj.instances.cycle(4).mdp]
    cases += [sj.instances.cycle(3, stay=True, both_ways=True).mdp, sj.MDP.from_grid("..\n..")]
    # Lazy copies of one reversible chain: proportional everywhere.
    P, _ = random_reversible(4, rng, ratio=4.0)
    cases.append(sj.MDP.from_array(np.stack([P, 0.5 * P + 0.5 * np.eye(4)], axis=1)))
    # Two triangles that share a state; at that state each action goes round one of them.
    triangles = np.zeros((5, 5))
    for a, b in ((0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0)):
        triangles[a, b] = triangles[b, a] = 1.0
    left, right = triangles.copy(), triangles.copy()
    left[0, 3:] = right[0, 1:3] = 0.0
    both = np.stack([left, right], axis=1)
    cases.append(sj.MDP.from_array(both / both.sum(axis=2, keepdims=True)))
    skewed = both.copy()
    skewed[0, 0, 1] = 2.0
    cases.append(sj.MDP.from_array(skewed / skewed.sum(axis=2, keepdims=True)))
    for mdp in cases:
        policies = [random_policy(mdp, rng, positive=bool(k % 2)) for k in range(60)]
        brute = all(policy.chain().is_reversible() for policy in policies)
        assert theory.every_policy_reversible(mdp) == brute
        seen.add(brute)
    assert seen == {True, False}


@given(mdp=mdps(max_states=5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_every_policy_reversible_on_arbitrary_models(mdp, seed):
    rng = np.random.default_rng(seed)
    claimed = theory.every_policy_reversible(mdp)
    found = [random_policy(mdp, rng, positive=True).chain().is_reversible() for _ in range(4)]
    found.append(sj.Policy.uniform(mdp).chain().is_reversible())
    # A random policy is reversible by chance with probability 0 where not all are.
    assert claimed <= all(found)
    if mdp.diagnose().communicating and not claimed:
        assert not all(found)


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
        lambda: theory.regret_bound(3, start=5, **COMMON),
        lambda: theory.regret_bound(10**9, **COMMON | {"delta": 2.0}),
        lambda: theory.visit_weights([[1.0, 2.0]]),
        lambda: theory.visit_weights([[1.0, 0.0], [1.0, 2.0]]),
        lambda: theory.episode_length(0),
        lambda: theory.width(10, 0, 2, 0.1, 1.0),
        lambda: theory.loss_deviation(sj.Chain([[0.5, 0.5]] * 2), -1.0, 10**6),
        lambda: theory.bandit_slow_bound([1.0, -1.0], 100),
        lambda: theory.gamma_min_upper(sj.instances.three_state().mdp, tries=0),
        lambda: theory.fmh_bound(1.0, 1.0, 0.0, 0.1, 0.1, 0.1),
        lambda: theory.recurrence(1.0, 5, 5, b=1.0),
        lambda: theory.bandit_fast_bound([0.0, 1.0], 100),
        lambda: theory.log_cover(5, 3, 0.11, 0.1),
        lambda: theory.smoothness([1.0, 1.0], 0.3, 2),
        lambda: theory.regret_bound(10**9, **COMMON | {"floor": 0.2}),
        lambda: theory.regret_bound(10**9, **COMMON | {"gamma_min": 1.1}),
        lambda: theory.uniform_deviation(10, 2.0, 1.0),
        lambda: theory.burn_in(0.1, 0.0, 1.0),
        lambda: theory.frequency_tail_nonreversible(rotation(3), 10, 0.1, gap=1.5),
        lambda: theory.loss_deviation(sj.Chain([[0.5, 0.5]] * 2), 1.0, 10**6, eta_min=0.6),
        lambda: theory.asymptotic_bound(-1.0, 1.0),
        lambda: theory.regularized_bound(float("nan")),
        lambda: theory.fmh_bound(1.0, 1.0, 0.1, -0.1, 0.1, 0.1),
        lambda: theory.fmh_bound(1.0, [1.0, -1.0], 0.1, 0.1, 0.1, 0.1),
        lambda: theory.smoothness([1.0, float("nan")], 0.1, 2),
        lambda: theory.smoothness("one", 0.1, 2),
        lambda: theory.smoothness([1.0, 1.0], 0.1, 1.5),
        lambda: theory.frequency_bias(sj.instances.three_state().mdp, 100),
        lambda: theory.frequency_bias(sj.Chain([[0.5, 0.5]] * 2), "100"),
        lambda: theory.frequency_deviation(sj.Chain([[0.5, 0.5]] * 2), 100, None),
        lambda: theory.unvisited_bound(rotation(3), 10.5),
        lambda: theory.eta_min(sj.instances.three_state()),
        lambda: theory.gamma_min_upper(sj.instances.three_state()),
        lambda: theory.gamma_min_upper(sj.instances.three_state().mdp, seed=-1),
        lambda: theory.asymptotic_bound(None, 1.0),
        lambda: theory.bandit_fast_bound([0.0, 0.0], 100),
        lambda: theory.bandit_slow_bound([1.0, 1.0], "many"),
        lambda: theory.visit_weights([[1.0, 2.0], [1.0, 2.0]]),
        lambda: theory.visit_ratio_maximum(0.5, 2, 1),
        lambda: theory.recurrence(1.0, 1, 5, b=1.0, c0=1.0, v=[1.0, 2.0]),
        lambda: theory.recurrence(1.0, 1.5, 5, b=1.0),
        lambda: theory.episode_start(2, tau1=0),
        lambda: theory.beta([1.0, float("inf")]),
        lambda: theory.theta("three"),
        lambda: theory.regret_bound(10**9, **COMMON, regret_at_start=-1.0),
    ],
)  # fmt: skip
def test_meaningless_arguments(call):
    with pytest.raises(ArgumentError):
        call()


def test_a_policy_or_a_matrix_stands_for_its_chain():
    chain = reversible(np.random.default_rng(1), 4)
    for same in (as_policy(chain), np.asarray(chain.transitions)):
        assert theory.frequency_bias(same, 50) == pytest.approx(theory.frequency_bias(chain, 50))
        assert theory.unvisited_cost_bound(same, 50, 1.0) == pytest.approx(
            theory.unvisited_cost_bound(chain, 50, 1.0)
        )
    with pytest.raises(NotReversible, match="loss_deviation_nonreversible"):
        theory.loss_deviation(as_policy(rotation(3)), 1.0, 10**6)


@pytest.mark.parametrize("floor", [1e-9, 1e-12])
def test_lengths_beyond_the_integers_of_floats(floor):
    tau = theory.burn_in(floor, 1e-9, 100.0)
    assert theory.uniform_deviation(tau, 1e-9, 100.0) <= floor
    assert theory.uniform_deviation(tau * (1 - 1e-9), 1e-9, 100.0) > floor
    k = theory.first_good_episode(floor, 1e-9, 100.0)
    assert theory.episode_length(k) >= tau * (1 - 1e-15)
