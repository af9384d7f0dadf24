"""What a finite budget adds to the asymptotic loss, and the constants of its smoothness."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.model import per_state
from sojourn.planning.regularized import performance_gap
from sojourn.theory import checks
from sojourn.theory.mixing import frequency_deviation, frequency_deviation_nonreversible

Array = NDArray[np.float64]


def loss_deviation(
    chain: checks.AnyChain,
    variance: ArrayLike,
    budget: int,
    *,
    as_printed: bool = False,
    n_actions: int = 1,
    eta_min: float | None = None,
    require: bool = True,
) -> float:
    r"""Bound on |𝓛_n(π) − 𝓛(π, η_π)| for a reversible chain (Lem. lem:asmyptoric.performance).

    The bound ℓ_n of the paper is false for a chain of two states, by 2 % (docs/paper.md): its
    proof moves an expectation through a ratio, |E[X/Y]| ≤ |E X|/min Y. Without that step, from
    1/X − 1/η = (η − X)/η² + (X − η)²/(η² X) with X = T/n,

        |E[n/T(s)] − 1/η| ≤ B/(nη²) + (1 + 2ε/η) V/(n²η³) + 1/n,
        B = 1 − η + r(g − 1),      V = nη(1 − η)(2g − 1) + r(g − 1)(2g + 1 − 2η) + (1 − η)²,

    where g = 1/γ, r = 1/(2√η_min), ε = ε_π(s, n, 1/n²); B and V bound |E[T − nη]| and
    E[(T − nη)²] from any start. Like ℓ_n it is of order 1/(nγη²), and where η_min is small it
    is smaller. It begins where ε ≤ η/2 in every state; ``require=False`` evaluates the formula
    below that, where it proves nothing.

    ``as_printed`` returns ℓ_n, with ``eta_min`` the smallest stationary probability over all
    policies (by default this chain's, which makes it smaller) and δ = 1/(n² S·A^S), the value
    in the proof (the lemma says S·A^S/n², which is no union bound).
    """
    chain = checks.reversible(chain, "loss_deviation_nonreversible")
    checks.whole(1, budget=budget, n_actions=n_actions)
    n, n_states, eta = budget, chain.n_states, chain.stationary()
    if eta_min is not None:
        checks.positive(eta_min=eta_min)
        if eta_min > eta.min() * (1 + 1e-9):
            raise ArgumentError(
                f"eta_min is {eta_min}, this chain's smallest probability {eta.min():.4g}",
                "the smallest over all policies is no larger; leave it out to use this chain's",
            )
    cost = per_state(variance, n_states, "variance", minimum=0.0)
    union = math.log(n_states) + n_states * math.log(n_actions) if as_printed else 0.0
    # S·A^S overflows long before its logarithm means anything.
    share = max(math.exp(-2.0 * math.log(n) - union), 1e-300)
    epsilon = frequency_deviation(chain, n, min(share, 0.5))
    if require:
        _large_enough(epsilon, eta, n)
    if as_printed:
        return performance_gap(eta, chain.spectral_gap, cost, n, union, eta_min)
    g, r = 1.0 / chain.spectral_gap, 0.5 / math.sqrt(eta.min())
    first = 1.0 - eta + r * (g - 1.0)
    second = (
        n * eta * (1.0 - eta) * (2.0 * g - 1.0)
        + r * (g - 1.0) * (2.0 * g + 1.0 - 2.0 * eta)
        + (1.0 - eta) ** 2
    )
    off = first / (n * eta**2) + (1.0 + 2.0 * epsilon / eta) * second / (n**2 * eta**3) + 1.0 / n
    return float(np.mean(cost * off))


def loss_deviation_nonreversible(
    chain: checks.AnyChain,
    variance: ArrayLike,
    budget: int,
    *,
    gap: float | None = None,
    require: bool = True,
) -> float:
    """Bound on |𝓛_n(π) − 𝓛(π, η_π)| for any ergodic chain (App. app:relaxing:asm:reversible).

    The paper says that Lem. lem:asmyptoric.performance can be adjusted, and leaves it there.
    With ε per state at tail probability 1/n² (:func:`frequency_deviation_nonreversible`), and
    1/n for the prior sample,

        |E[n/T(s)] − 1/η| ≤ 2(ε + 1/n + 1/n²)/η² + 1/n      where ε + 1/n ≤ η/2,

    which falls like √(log n/n) only: expectations of single steps have no bound by γ_ps alone.
    """
    chain = checks.ergodic(chain)
    checks.whole(2, budget=budget)
    eta = chain.stationary()
    cost = per_state(variance, chain.n_states, "variance", minimum=0.0)
    epsilon = frequency_deviation_nonreversible(chain, budget, 1.0 / budget**2, gap) + 1.0 / budget
    if require:
        _large_enough(epsilon, eta, budget)
    off = 2.0 * (epsilon + 1.0 / budget**2) / eta**2 + 1.0 / budget
    return float(np.mean(cost * off))


def _large_enough(epsilon: Array, eta: Array, budget: int) -> None:
    if (epsilon > eta / 2.0).any():
        s = int(np.argmax(epsilon / eta))
        raise ArgumentError(
            f"with n = {budget}, ε = {epsilon[s]:.3g} is above η/2 = {eta[s] / 2:.3g} in state {s}",
            "the lemma needs a larger budget; planning.finite_loss is exact for every one",
        )


def asymptotic_bound(deviation_of_asymptotic: float, deviation_of_best: float) -> float:
    """𝓛_n(π_λ*) − 𝓛_n(π*_n) ≤ ℓ_n(π_λ*) + ℓ_n(π*_n) (Eq. eq:performance.loss)."""
    checks.at_least_zero(
        deviation_of_asymptotic=deviation_of_asymptotic, deviation_of_best=deviation_of_best
    )
    return deviation_of_asymptotic + deviation_of_best


def regularized_bound(deviation_of_best: float) -> float:
    """𝓛_n(π*_reg) − 𝓛_n(π*_n) ≤ 2 ℓ_n(π*_n) (Lem. lem:reg.performance).

    π*_reg minimises 𝓛 + ℓ_n with the same ℓ_n, any function that bounds |𝓛_n − 𝓛|.
    """
    checks.at_least_zero(deviation_of_best=deviation_of_best)
    return 2.0 * deviation_of_best


def fmh_bound(
    deviation_of_best: float,
    variance: ArrayLike,
    floor: float,
    slack: float,
    rho: float,
    gamma_min: float,
) -> float:
    """Bound on 𝓛_n(π*_FMH) − 𝓛_n(π*_n), without its O(n^{−3/2}) (Lem. lem:performance_loss_fmh).

    2 ℓ_n(π*_n) + 2 σ²_max √S δ_n/η̲² + 2 ρ_n/γ_min, as printed. Its proof uses that FMH's
    second step finds the *nearest* stationary distribution, which the paper's second problem
    does not (it holds for ``projection="occupancy"`` and can fail for ``"residual"``), and
    that ℓ_n = ρ_n/γ + O(n^{−3/2}), which drops the factor Σσ²/η²/(S²√η_min) and with it the
    unit: ``rho`` has to be given in the unit of the variances, and with that factor.
    """
    checks.positive(floor=floor)
    checks.gap(gamma_min=gamma_min)
    checks.at_least_zero(deviation_of_best=deviation_of_best, slack=slack, rho=rho)
    sigma2 = checks.variances(variance)
    return float(
        2.0 * deviation_of_best
        + 2.0 * sigma2.max() * math.sqrt(sigma2.size) * slack / floor**2
        + 2.0 * rho / gamma_min
    )


def smoothness(
    variance: ArrayLike, floor: float, n_actions: int, *, as_printed: bool = False
) -> float:
    """C_η̲: the gradient of 𝓛 is C-Lipschitz where η ≥ 2·floor (Prop. prop:asymptotic.relaxation).

    The Hessian has one block per state, 2σ²/(S η³) times a matrix of ones of size A, so its
    largest eigenvalue is at most (2A/S) max σ²/(2η̲)³. The paper prints the larger
    A Σ σ²/(2η̲)³ (larger for S ≥ 2; for S = 1 the factor 2 is missing), and uses it at η̲
    instead of 2η̲ in the proof of the theorem; ``as_printed`` returns it.
    """
    checks.whole(1, n_actions=n_actions)
    sigma2 = checks.variances(variance)
    checks.floor(floor, sigma2.size)
    if as_printed:
        return float(n_actions * sigma2.sum() / (2.0 * floor) ** 3)
    return float(2.0 * n_actions * sigma2.max() / (sigma2.size * (2.0 * floor) ** 3))


def bandit_slow_bound(variance: ArrayLike, budget: int) -> float:
    """(2S/n) 𝓛(η*) ≥ 𝓛(η̃_n) − 𝓛(η*_n) for n > 2S (Prop. prop:bandit.perf.loss)."""
    sigma = np.sqrt(checks.variances(variance))
    checks.whole(1, budget=budget)
    if not budget > 2 * sigma.size:
        raise ArgumentError(
            f"the budget {budget} is not above 2S = {2 * sigma.size}", "the bound begins there"
        )
    # 𝓛(η*) = (Σσ)²/S at η* ∝ σ.
    return float(2.0 * sigma.size / budget * sigma.sum() ** 2 / sigma.size)


def bandit_fast_bound(variance: ArrayLike, budget: int) -> float:
    """8 σ²_max/(η³_min n²) for n ≥ 4/(S η²_min) (Prop. prop:bandit.perf.loss).

    The proof takes ‖η̃ − η*‖² ≤ S/n², which can fail (one arm gives up what rounding adds to all
    others); the bound holds all the same, since 𝓛(η̃) − 𝓛(η*) = (Σσ)²/S · Σ (η̃ − η*)²/η̃.
    """
    sigma = np.sqrt(checks.variances(variance))
    checks.whole(1, budget=budget)
    if not sigma.all():
        raise ArgumentError(
            "a state has variance 0, so η_min is 0", "use bandit_slow_bound, which still holds"
        )
    smallest = float((sigma / sigma.sum()).min())
    if not budget >= 4.0 / (sigma.size * smallest**2):
        raise ArgumentError(
            f"the budget {budget} is below 4/(S η²_min) = {4.0 / (sigma.size * smallest**2):.4g}",
            "the fast rate begins there; use bandit_slow_bound",
        )
    return float(8.0 * sigma.max() ** 2 / (smallest**3 * budget**2))
