"""The regret of FW-AME (Thm. thm:regret_FWAME), piece by piece as in App. app:proof_regret.

Episodes begin at t_k = τ₁(k−1)³ + 1, take τ_k = τ₁(3k²−3k+1) steps, and weigh
β_k = τ_k/(t_{k+1}−1) in the frequencies. B is ``cover``, M ``uniform_deviation``, τ_δ
``burn_in``, k_δ ``first_good_episode``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, zeta

from sojourn.arguments import number, numbers, whole
from sojourn.errors import ArgumentError
from sojourn.theory import checks
from sojourn.theory.loss import smoothness

Array = NDArray[np.float64]

SUMMED = 10_000
"""Terms up to which series are added one by one; beyond, they have a closed form."""


def episode_start(k: ArrayLike, tau1: int = 1) -> Array:
    """t_k = τ₁(k−1)³ + 1, the time at which episode k begins (Thm. thm:regret_FWAME)."""
    checks.whole(1, tau1=tau1)
    return tau1 * (_episodes(k) - 1.0) ** 3 + 1.0


def episode_length(k: ArrayLike, tau1: int = 1) -> Array:
    """τ_k = t_{k+1} − t_k = τ₁(3k² − 3k + 1) (Thm. thm:regret_FWAME).

    The proof states τ_k ≥ 3τ₁k², which is false for every k ≥ 1 (it is 3k² − 3k + 1 < 3k² for
    k > 1/3); τ_k ≥ τ₁k² holds, and the constants below use that.
    """
    checks.whole(1, tau1=tau1)
    k = _episodes(k)
    return tau1 * (3.0 * k**2 - 3.0 * k + 1.0)


def beta(k: ArrayLike) -> Array:
    """β_k = (3k² − 3k + 1)/k³, between 1/k and 3/k (Thm. thm:regret_FWAME)."""
    k = _episodes(k)
    return (3.0 * k**2 - 3.0 * k + 1.0) / k**3


def width(time: float, visits: ArrayLike, n_states: int, delta: float, bound: float) -> Array:
    """α(t, s, δ) = 5R²√(log(4St/δ)/T(s)) (Prop. lem:bound_variance_estimates): how far an
    empirical variance may be from the true one, with observations in [0, R]."""
    checks.positive(time=time, bound=bound)
    checks.whole(1, n_states=n_states)
    checks.probability(delta=delta)
    T = numbers(visits, "visits")
    if not (T > 0).all():
        raise ArgumentError(
            "a state has no visits, and no empirical variance", "leave such states out"
        )
    return 5.0 * bound**2 * np.sqrt(math.log(4.0 * n_states * time / delta) / T)


def log_cover(n_states: int, n_actions: int, floor: float, delta: float) -> float:
    """B = log(S·A^S·√(1/η̲)/δ) of Lem. technical_lemma_1.

    A^S counts deterministic policies, and those of FW-AME are not: a union over them covers
    nothing. None is needed, since the policy of an episode is fixed before the episode begins:
    given the past, the bound for one policy applies, with ``n_actions=1``.
    """
    checks.whole(1, n_actions=n_actions)
    checks.floor(floor, n_states)
    checks.probability(delta=delta)
    return (
        math.log(n_states)
        + n_states * math.log(n_actions)
        - 0.5 * math.log(floor)
        - math.log(delta)
    )


def uniform_deviation(tau: float, gamma_min: float, cover: float) -> float:
    """M(τ, δ) = √(2B/(γ_min τ)) + 20B/(γ_min τ) (Lem. technical_lemma_1)."""
    checks.positive(tau=tau, cover=cover)
    checks.gap(gamma_min=gamma_min)
    share = cover / (gamma_min * tau)
    return math.sqrt(2.0 * share) + 20.0 * share


def burn_in(floor: float, gamma_min: float, cover: float) -> int:
    """τ_δ, the first length with M(τ, δ) ≤ η̲ (Lem. technical_lemma_2), in closed form.

    With y = √(B/(γτ)): 20y² + √2·y = η̲.
    """
    checks.positive(floor=floor, cover=cover)
    checks.gap(gamma_min=gamma_min)
    # The rationalised root: the difference of near-equal numbers would lose small floors.
    y = 2.0 * floor / (math.sqrt(2.0) + math.sqrt(2.0 + 80.0 * floor))
    tau = max(1, math.ceil(cover / (gamma_min * y * y) * (1.0 - 1e-12)))
    # One step is none among 10¹⁶.
    while uniform_deviation(tau, gamma_min, cover) > floor:
        tau += max(1, tau >> 50)
    return tau


def first_good_episode(floor: float, gamma_min: float, cover: float, tau1: int = 1) -> int:
    """k_δ, the first episode whose length is at least τ_δ (Eq. k_delta)."""
    checks.whole(1, tau1=tau1)
    need = burn_in(floor, gamma_min, cover) / tau1
    k = max(1, math.floor((3.0 + math.sqrt(max(0.0, 12.0 * need - 3.0))) / 6.0))
    while episode_length(k, tau1) < need * tau1:
        k += max(1, k >> 50)
    return k


def first_floored_episode(floor: float, gamma_min: float, cover: float, tau1: int = 1) -> int:
    """An episode from which on λ̃_k(s) ≥ η̲ in every state (Eq. high_proba_lambda_tilde).

    The paper says k_δ, but λ̃ averages over all episodes, and of those before k_δ nothing is
    known. From the first k' with M(τ_k', δ) ≤ η̲/2 on, an episode visits every state in at least
    3η̲/2 of its steps, so λ̃_k ≥ (3η̲/2)(1 − (t_k' − 1)/(t_k − 1)) ≥ η̲ once t_k − 1 ≥ 3(t_k' − 1).
    """
    good = first_good_episode(floor / 2.0, gamma_min, cover, tau1)
    return 1 + math.ceil(3.0 ** (1.0 / 3.0) * (good - 1))


def recurrence(
    first: float,
    start: int,
    stop: int,
    *,
    b: float,
    c0: float = 0.0,
    v: ArrayLike = 0.0,
) -> Array:
    """u_start..u_stop of u_{k+1} = (1 − 1/k) u_k + b/k² + β_k c₀ v_k (Eq. new_new_recurrence)."""
    start, stop = whole(start, "start", 1), whole(stop, "stop", 1)
    if not start < stop:
        raise ArgumentError(f"episodes run from {start} to {stop}", "give 1 <= start < stop")
    checks.at_least_zero(b=b, c0=c0)
    first = number(first, "first", "give a finite number")
    extra = numbers(v, "v")
    if extra.ndim and extra.shape != (stop - start,):
        raise ArgumentError(
            f"v has shape {extra.shape} for {stop - start} episodes",
            "give one number, or one per episode from start to stop - 1",
        )
    k = np.arange(start, stop, dtype=float)
    added = b / k**2 + beta(k) * c0 * extra
    # (k) u_{k+1} = (k − 1) u_k + k·added: the recurrence is a sum.
    total = np.concatenate(([0.0], np.cumsum(k * added))) + (start - 1) * first
    return np.concatenate(([first], total[1:] / k))


def visit_weights(visits: ArrayLike) -> Array:
    """v_k = Σ_s ψ̃_{k+1}(s)/√T_k(s) of Lem. lem:seq_v, from the visits T_k (a row per episode's
    start, a column per state): how wide confidence is, on average, where episode k goes."""
    T = numbers(visits, "visits")
    new = np.diff(T, axis=0) if T.ndim == 2 else np.zeros((1, 1))
    grows = (new >= 0).all() and (new.sum(axis=1) > 0).all()
    if not (T.ndim == 2 and T.shape[0] > 1 and (T > 0).all() and grows):
        raise ArgumentError(
            "the visits are not positive counts that grow from row to row",
            "give the visits to each state at the starts of successive episodes",
        )
    return (new / np.sqrt(T[:-1])).sum(axis=1) / new.sum(axis=1)


def visit_weights_bound(start: int, stop: int, tau1: int, floor: float) -> float:
    """A bound of Σ v_k over the episodes start..stop − 1: √Σ₁·√Σ₂ (Lem. lem:seq_v, mended).

    Σ₁ = Σ 1/τ_k; Σ₂ is bounded by :func:`visit_ratio_bound`.
    """
    checks.whole(1, tau1=tau1)
    return math.sqrt(_inverse_lengths(start, stop) / tau1 * visit_ratio_bound(start, stop, floor))


def visit_ratio_maximum(
    ratio: float, episodes: int, n_states: int, *, as_printed: bool = False
) -> float:
    """max Σ(h − 1) under Σ_s Π_k h ≤ S·ratio, h ≥ 1 (Eq. related_objective): S(ratio − 1).

    The proof of Lem. lem:seq_v sets all h equal "since they play interchangeable roles"
    (``as_printed``). By the inequality of the means that is where the sum is *smallest*: with
    one state, two episodes and a product of 100, equal growth gives 2·(10 − 1) = 18 and growth
    in a single episode gives 99. The true maximum is linear in t and proves nothing;
    :func:`visit_ratio_bound` mends the lemma.
    """
    checks.whole(1, episodes=episodes, n_states=n_states)
    number(ratio, "ratio", "a product of factors of at least 1 is at least 1", 1.0)
    if as_printed:
        return n_states * episodes * math.expm1(math.log(ratio) / episodes)
    return n_states * (ratio - 1.0)


def visit_ratio_bound(start: int, stop: int, floor: float) -> float:
    """A bound of Σ₂ = Σ_k Σ_s (T_{k+1}(s)/T_k(s) − 1) over the episodes start..stop − 1, where
    T_k(s) ≥ η̲(t_k − 1) (Eq. high_proba_lambda_tilde).

    Σ_s ν_{k+1}(s)/T_k(s) ≤ τ_k/(η̲(t_k − 1)) = (3k²−3k+1)/(η̲(k−1)³): logarithmic in the number
    of episodes, so Lem. lem:seq_v and the rate of the theorem stand, with an additional 1/η̲.
    """
    checks.positive(floor=floor)
    checks.whole(2, start=start)
    checks.whole(start, stop=stop)
    if stop - start <= SUMMED:
        j = np.arange(start - 1, stop - 1, dtype=float)
        return float((3.0 / j + 3.0 / j**2 + 1.0 / j**3).sum() / floor)
    first, last = float(start - 1), float(stop - 1)
    harmonic = float(digamma(last) - digamma(first))
    squares, cubes = (float(zeta(p, first) - zeta(p, last)) for p in (2, 3))
    return (3.0 * harmonic + 3.0 * squares + cubes) / floor


def _inverse_lengths(start: int, stop: int) -> float:
    """Σ 1/(3k² − 3k + 1) over start..stop − 1."""
    if stop - start <= SUMMED:
        return float((1.0 / episode_length(np.arange(start, stop))).sum())
    # 3k² − 3k + 1 = 3(k − ρ)(k − ρ̄) with ρ = 1/2 + i/√12, in partial fractions.
    root = complex(0.5, 1.0 / math.sqrt(12.0))
    return 2.0 / math.sqrt(3.0) * float((digamma(stop - root) - digamma(start - root)).imag)


def regret_bound(
    episode: int,
    *,
    tau1: int,
    n_states: int,
    n_actions: int,
    variance_bound: float,
    value_bound: float,
    floor: float,
    gamma_min: float,
    delta: float,
    start: int | None = None,
    regret_at_start: float | None = None,
    as_printed: bool = False,
) -> float:
    """𝓛(λ̃_K) − 𝓛(λ*) at the start of episode K, bounded with high probability (Eq. final_bound).

    (q ρ_q + 2b log((K−1)/(q−1)) + 6 c₀ Σv_k)/K, from the episode q = ``start`` on, whose regret
    is at most ``regret_at_start`` (by default σ²_max/η̲, the largest loss above the floor).

    With probability 1 − 3δ, if η* ≥ 2η̲ (the paper's Remark says so, its theorem does not). The
    proof is mended where docs/paper.md says it has to be: it begins at
    :func:`first_floored_episode`, where also η̲(t_q − 1) ≥ S² (the bound on ξ needs that); each
    of K episodes has its share of δ, instead of the cover A^S; τ_k ≥ τ₁k²; smoothness is that at
    η̲; Lem. lem:seq_v is :func:`visit_weights_bound`; and 𝓛 keeps its 1/S.

    ``as_printed`` evaluates the paper's constants instead (b_δ of Eq. ineq_b_delta), from k_δ
    on. Either is vacuous, above any loss seen, for all but astronomical budgets.
    """
    checks.positive(variance_bound=variance_bound, value_bound=value_bound)
    checks.gap(gamma_min=gamma_min)
    checks.whole(1, tau1=tau1, n_states=n_states, n_actions=n_actions)
    checks.floor(floor, n_states)
    checks.whole(2, episode=episode)
    checks.probability(delta=delta)
    end = float(episode_start(episode, tau1)) - 1.0
    if as_printed:
        cover = log_cover(n_states, n_actions, floor, delta)
        good = first_good_episode(floor, gamma_min, cover, tau1)
        least = max(good, math.ceil((n_states / tau1) ** (1.0 / 3.0) + 1.0))
        per_state, log_width = 1.0, math.log(4.0 * n_states * end / delta)
    else:
        cover = log_cover(n_states, 1, floor, delta / episode)
        good = first_floored_episode(floor, gamma_min, cover, tau1)
        least = max(good, math.ceil(1.0 + (n_states**2 / (floor * tau1)) ** (1.0 / 3.0)), 2)
        per_state, log_width = 1.0 / n_states, math.log(4.0 * n_states * end * episode / delta)
    first = least if start is None else whole(start, "start", 1)
    if not least <= first < episode:
        raise ArgumentError(
            f"the bound is asked for from episode {first} to {episode}",
            f"the proof speaks of episodes from {least} on: give {least} <= start < episode",
        )
    if regret_at_start is not None:
        checks.at_least_zero(regret_at_start=regret_at_start)
    regret = variance_bound / floor if regret_at_start is None else regret_at_start
    c0 = per_state * 10.0 * value_bound**2 / floor**2 * math.sqrt(log_width)
    scale = c0 + per_state * n_states * variance_bound / floor**2
    c1 = scale * math.sqrt(2.0 * cover / gamma_min)
    c2 = scale * 20.0 * cover / gamma_min
    if as_printed:
        smooth = smoothness(np.full(n_states, variance_bound), floor, n_actions, as_printed=True)
        b = math.sqrt(3.0) * c1 / math.sqrt(tau1) + c2 / (tau1 * good) + 9.0 * smooth
        ratio = end / n_states
        growth = visit_ratio_maximum(ratio, episode - first, n_states, as_printed=True)
        sum_v = math.sqrt(growth / tau1)
    else:
        smooth = smoothness(np.full(n_states, variance_bound), floor / 2.0, n_actions)
        b = 3.0 * c1 / math.sqrt(tau1) + 3.0 * c2 / (tau1 * first) + 9.0 * smooth
        sum_v = visit_weights_bound(first, episode, tau1, floor)
    since = math.log(episode) if as_printed else math.log((episode - 1) / (first - 1))
    return (first * regret + 2.0 * b * since + 6.0 * c0 * sum_v) / episode


def theta(m: ArrayLike) -> Array:
    """The exponent θ(m) of Fig. fig:theta_m: regret Õ(t^{−θ}) with episodes t ~ k^m.

    The Euler equation y' = −y/x + 1/x² + x^{−(m+1)/2} (App. ssec_bound_optimality) is
    (xy)' = 1/x + x^{(1−m)/2}, so y ~ log(x)/x + x^{(1−m)/2} and, with t = x^m,

        θ(m) = min(1/m, (m − 1)/(2m)),

    largest at m = 3, where it is 1/3. (The paper's Õ(1/k^{θ/m}) should read Õ(1/k^{mθ}).)
    """
    m = numbers(m, "m")
    if not ((m > 0) & np.isfinite(m)).all():
        raise ArgumentError("an m is not positive and finite", "episodes end at times k^m")
    return np.minimum(1.0 / m, np.maximum(0.0, (m - 1.0) / (2.0 * m)))


def theta_euler(m: float, stop: float = 1e12) -> float:
    """θ(m) measured (App. ssec_bound_optimality): the equation solved exactly, and its local
    exponent taken at x = ``stop``.

    Logarithms make the approach slow (an exponent 1/m − 1/(m log x) at m > 3); this is the
    evidence behind :func:`theta`, not a replacement.
    """
    checks.positive(m=m, stop=stop)
    a = (3.0 - m) / 2.0

    def y(x: float) -> float:
        power = math.log(x) if a == 0 else (x**a - 1.0) / a
        return (1.0 + math.log(x) + power) / x

    slope = math.log(y(stop * math.e) / y(stop))
    return -slope / m


def _episodes(k: ArrayLike) -> Array:
    episodes = numbers(k, "k")
    if not ((episodes >= 1) & np.isfinite(episodes)).all():
        raise ArgumentError("an episode has a number below 1", "episodes are numbered from 1")
    return episodes
