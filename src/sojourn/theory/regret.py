"""The regret of FW-AME (Thm. thm:regret_FWAME), piece by piece as in App. app:proof_regret.

Episodes t_k = τ₁(k−1)³ + 1 of length τ_k = τ₁(3k²−3k+1), step sizes β_k = τ_k/(t_{k+1}−1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.theory import checks


def episode_end(k: ArrayLike, tau1: int = 1) -> NDArray[np.float64]:
    """t_k = τ₁(k−1)³ + 1, the time at which episode k begins."""
    return tau1 * (np.asarray(k, dtype=float) - 1.0) ** 3 + 1.0


def episode_length(k: ArrayLike, tau1: int = 1) -> NDArray[np.float64]:
    """τ_k = t_{k+1} − t_k = τ₁(3k² − 3k + 1).

    The proof states τ_k ≥ 3τ₁k², which is false for every k ≥ 1 (it is 3k² − 3k + 1 < 3k² for
    k > 1/3); τ_k ≥ τ₁k² holds, and the constants below use that.
    """
    k = np.asarray(k, dtype=float)
    return tau1 * (3.0 * k**2 - 3.0 * k + 1.0)


def beta(k: ArrayLike) -> NDArray[np.float64]:
    """β_k = (3k² − 3k + 1)/k³, between 1/k and 3/k."""
    k = np.asarray(k, dtype=float)
    return (3.0 * k**2 - 3.0 * k + 1.0) / k**3


def width(time: float, visits: ArrayLike, n_states: int, delta: float, bound: float) -> NDArray:
    """α(t, s, δ) = 5R²√(log(4St/δ)/T(s)), the width on a variance in the theory."""
    checks.positive(time=time, bound=bound, n_states=n_states)
    checks.probability(delta=delta)
    T = np.asarray(visits, dtype=float)
    return 5.0 * bound**2 * np.sqrt(math.log(4.0 * n_states * time / delta) / T)


def log_cover(n_states: int, n_actions: int, floor: float, delta: float) -> float:
    """B = log(S·A^S·√(1/η̲)/δ) of Lem. technical_lemma_1."""
    checks.positive(n_states=n_states, n_actions=n_actions, floor=floor)
    checks.probability(delta=delta)
    return (
        math.log(n_states)
        + n_states * math.log(n_actions)
        - 0.5 * math.log(floor)
        - math.log(delta)
    )


def uniform_deviation(tau: float, gamma_min: float, cover: float) -> float:
    """M(τ, δ) = √(2B/(γ_min τ)) + 20B/(γ_min τ) (Lem. technical_lemma_1)."""
    checks.positive(tau=tau, gamma_min=gamma_min, cover=cover)
    share = cover / (gamma_min * tau)
    return math.sqrt(2.0 * share) + 20.0 * share


def burn_in(floor: float, gamma_min: float, cover: float) -> int:
    """τ_δ, the first length with M(τ, δ) ≤ η̲ (Lem. technical_lemma_2), in closed form.

    With y = √(B/(γτ)): 20y² + √2·y = η̲.
    """
    checks.positive(floor=floor, gamma_min=gamma_min, cover=cover)
    # The rationalised root: the difference of near-equal numbers would lose small floors.
    y = 2.0 * floor / (math.sqrt(2.0) + math.sqrt(2.0 + 80.0 * floor))
    tau = max(1, math.ceil(cover / (gamma_min * y * y) * (1.0 - 1e-12)))
    while uniform_deviation(tau, gamma_min, cover) > floor:
        tau += 1
    return tau


def first_good_episode(floor: float, gamma_min: float, cover: float, tau1: int = 1) -> int:
    """k_δ, the first episode whose length is at least τ_δ (Eq. k_delta)."""
    need = burn_in(floor, gamma_min, cover) / tau1
    k = max(1, math.floor((3.0 + math.sqrt(max(0.0, 12.0 * need - 3.0))) / 6.0))
    while episode_length(k, tau1) < need * tau1:
        k += 1
    return k


def recurrence(
    first: float,
    start: int,
    stop: int,
    *,
    b: float,
    c0: float = 0.0,
    v: ArrayLike = 0.0,
) -> NDArray[np.float64]:
    """u_start..u_stop of u_{k+1} = (1 − 1/k) u_k + b/k² + β_k c₀ v_k (Eq. new_new_recurrence)."""
    if not 1 <= start < stop:
        raise ArgumentError(f"episodes run from {start} to {stop}", "give 1 <= start < stop")
    extra = np.broadcast_to(np.asarray(v, dtype=float), (stop - start,))
    u = np.empty(stop - start + 1)
    u[0] = first
    for i, k in enumerate(range(start, stop)):
        u[i + 1] = (1.0 - 1.0 / k) * u[i] + b / k**2 + float(beta(k)) * c0 * extra[i]
    return u


def visit_ratio_maximum(ratio: float, episodes: int, n_states: int) -> float:
    """What Σ₂ = Σ_k Σ_s (T_{k+1}(s)/T_k(s) − 1) can reach when Σ_s Π_k h ≤ S·ratio.

    The proof of Lem. lem:seq_v maximises Σ(h − 1) by setting all h equal "since they play
    interchangeable roles". By the inequality of the means that is the *minimum*: with one state,
    two episodes and a product of 100, equal growth gives 2·(10 − 1) = 18 and growth in a
    single episode gives 99. The maximum, at an extreme point, is what is returned here:
    S·(ratio − 1), linear in t and useless; :func:`visit_ratio_bound` mends the lemma.
    """
    checks.positive(ratio=ratio, episodes=episodes, n_states=n_states)
    return n_states * (ratio - 1.0)


def visit_ratio_bound(start: int, stop: int, floor: float) -> float:
    """A sound bound of Σ₂ where T_k(s) ≥ η̲(t_k − 1), which Eq. high_proba_lambda_tilde gives.

    Σ_s ν_{k+1}(s)/T_k(s) ≤ τ_k/(η̲(t_k − 1)) = (3k²−3k+1)/(η̲(k−1)³): logarithmic in the number
    of episodes, so Lem. lem:seq_v and the rate of the theorem stand, with an additional 1/η̲.
    """
    checks.positive(floor=floor)
    if not 2 <= start <= stop:
        raise ArgumentError(f"episodes run from {start} to {stop}", "give 2 <= start <= stop")
    k = np.arange(start, stop, dtype=float)
    return float(((3.0 * k**2 - 3.0 * k + 1.0) / (k - 1.0) ** 3).sum() / floor)


def regret_bound(
    episode: int,
    *,
    start: int,
    regret_at_start: float,
    tau1: int,
    n_states: int,
    n_actions: int,
    variance_bound: float,
    value_bound: float,
    floor: float,
    gamma_min: float,
    delta: float,
) -> float:
    """The high-probability bound of 𝓛(λ̃_K) − 𝓛(λ*) at the start of episode K (Eq. final_bound).

    With Lem. lem:seq_v mended (:func:`visit_ratio_bound`), τ_k ≥ τ₁k² instead of 3τ₁k², and
    the smoothness constant as printed, evaluated at the floor that is guaranteed (η̲). It is a
    bound: vacuous (above any loss seen) for all but astronomical budgets.
    """
    checks.positive(tau1=tau1, variance_bound=variance_bound, value_bound=value_bound, floor=floor)
    if not 2 <= start < episode:
        raise ArgumentError(f"episodes run from {start} to {episode}", "give 2 <= start < episode")
    end = float(episode_end(episode, tau1))
    cover = log_cover(n_states, n_actions, floor, delta)
    c0 = 10.0 * value_bound**2 / floor**2 * math.sqrt(math.log(4.0 * n_states * end / delta))
    scale = c0 + n_states * variance_bound / floor**2
    c1 = scale * math.sqrt(2.0 * cover / gamma_min)
    c2 = scale * 20.0 * cover / gamma_min
    smooth = n_actions * n_states * variance_bound / floor**3
    b = 3.0 * c1 / math.sqrt(tau1) + 3.0 * c2 / (tau1 * start) + 9.0 * smooth
    sum_v = math.sqrt(visit_ratio_bound(start, episode, floor)) * math.sqrt(
        float((1.0 / episode_length(np.arange(start, episode), tau1)).sum())
    )
    return (
        start * regret_at_start + 2.0 * b * math.log((episode - 1) / (start - 1)) + 6.0 * c0 * sum_v
    ) / episode


def theta(m: ArrayLike) -> NDArray[np.float64]:
    """The exponent θ(m) of Fig. fig:theta_m: regret Õ(t^{−θ}) with episodes t ~ k^m.

    The Euler equation y' = −y/x + 1/x² + x^{−(m+1)/2} (App. ssec_bound_optimality) is
    (xy)' = 1/x + x^{(1−m)/2}, so y ~ log(x)/x + x^{(1−m)/2} and, with t = x^m,

        θ(m) = min(1/m, (m − 1)/(2m)),

    largest at m = 3, where it is 1/3. (The paper's Õ(1/k^{θ/m}) should read Õ(1/k^{mθ}).)
    """
    m = np.asarray(m, dtype=float)
    if (m <= 0).any():
        raise ArgumentError("m must be positive", "episodes end at times k^m")
    return np.minimum(1.0 / m, np.maximum(0.0, (m - 1.0) / (2.0 * m)))


def theta_euler(m: float, stop: float = 1e12) -> float:
    """θ(m) measured: the equation solved exactly and its local exponent taken at x = ``stop``.

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
