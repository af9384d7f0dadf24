"""What a finite budget adds to the asymptotic loss, and the constants of its smoothness."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sojourn.chains import Chain
from sojourn.errors import ArgumentError
from sojourn.model import per_state
from sojourn.theory import checks
from sojourn.theory.mixing import frequency_deviation


def loss_deviation(
    chain: Chain,
    variance: ArrayLike,
    budget: int,
    n_actions: int,
    *,
    eta_min: float | None = None,
    require: bool = True,
) -> float:
    """ℓ_n(π) ≥ |𝓛_n(π) − 𝓛(π, η_π)| (Lem. lem:asmyptoric.performance).

    ``eta_min`` is the smallest stationary probability over all policies, by default this
    chain's, which makes the bound smaller. It is claimed for n so large that ε(s, n, δ) ≤
    η(s)/2 with δ = S·A^S/n²; ``require=False`` evaluates the formula below that, where it
    proves nothing. The proof moves an expectation through a ratio (E|X/Y| is not |E X|/min Y):
    what it shows is weaker, see the page on the paper.
    """
    checks.reversible(chain, "the exact value, planning.finite_loss")
    checks.positive(budget=budget, n_actions=n_actions)
    n_states = chain.n_states
    sigma2 = per_state(variance, n_states, "variance", minimum=0.0)
    # A^S overflows long before its logarithm means anything.
    log_delta = math.log(n_states) + n_states * math.log(n_actions) - 2 * math.log(budget)
    if log_delta >= 0:
        if require:
            raise ArgumentError(
                f"δ = S·A^S/n² is not below 1 for n = {budget}",
                f"the lemma begins above n = {budget * math.exp(log_delta / 2):.4g}",
            )
        log_delta = math.log(0.5)
    eta = chain.stationary()
    epsilon = frequency_deviation(chain, budget, max(math.exp(log_delta), 1e-300))
    if require and (epsilon > eta / 2).any():
        s = int(np.argmax(epsilon / eta))
        raise ArgumentError(
            f"ε = {epsilon[s]:.3g} is above η/2 = {eta[s] / 2:.3g} in state {s}",
            "the lemma needs a larger budget",
        )
    smallest = float(eta.min()) if eta_min is None else eta_min
    factor = 1.0 / (n_states * math.sqrt(smallest) * budget * chain.spectral_gap)
    return float(factor * (sigma2 / eta**2 * (1.0 + 2.0 * epsilon / eta)).sum())


def regularised_bound(deviation_of_best: float) -> float:
    """𝓛_n(π*_reg) − 𝓛_n(π*_n) ≤ 2 ℓ_n(π*_n) (Lem. lem:reg.performance)."""
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
    does not: it holds for ``projection="occupancy"`` and can fail for ``"residual"``.
    """
    checks.positive(floor=floor, gamma_min=gamma_min)
    sigma2 = np.atleast_1d(np.asarray(variance, dtype=float))
    return float(
        2.0 * deviation_of_best
        + 2.0 * sigma2.max() * math.sqrt(sigma2.size) * slack / floor**2
        + 2.0 * rho / gamma_min
    )


def smoothness(
    variance: ArrayLike, floor: float, n_actions: int, *, as_printed: bool = False
) -> float:
    """C_η̲: the gradient of 𝓛 is C-Lipschitz where η ≥ 2·floor (Prop. asymptotic.relaxation).

    The Hessian has one block per state, 2σ²/(S η³) times a matrix of ones of size A, so its
    largest eigenvalue is at most (2A/S) max σ²/(2η̲)³. The paper prints the larger
    A Σ σ²/(2η̲)³ (larger for S ≥ 2; for S = 1 the factor 2 is missing), and uses it at η̲
    instead of 2η̲ in the proof of the theorem; ``as_printed`` returns it.
    """
    checks.positive(floor=floor, n_actions=n_actions)
    sigma2 = np.atleast_1d(np.asarray(variance, dtype=float))
    if as_printed:
        return float(n_actions * sigma2.sum() / (2.0 * floor) ** 3)
    return float(2.0 * n_actions * sigma2.max() / (sigma2.size * (2.0 * floor) ** 3))


def bandit_slow_bound(variance: ArrayLike, budget: int) -> float:
    """(2S/n) 𝓛(η*) ≥ 𝓛(η̃_n) − 𝓛(η*_n) for n > 2S (Prop. prop:bandit.perf.loss)."""
    sigma = np.sqrt(np.atleast_1d(np.asarray(variance, dtype=float)))
    if budget <= 2 * sigma.size:
        raise ArgumentError(
            f"the budget {budget} is not above 2S = {2 * sigma.size}", "the bound begins there"
        )
    # 𝓛(η*) = (Σσ)²/S at η* ∝ σ.
    return float(2.0 * sigma.size / budget * sigma.sum() ** 2 / sigma.size)


def bandit_fast_bound(variance: ArrayLike, budget: int) -> float:
    """8 σ²_max/(η³_min n²) for n ≥ 4/(S η²_min) (Prop. prop:bandit.perf.loss)."""
    sigma = np.sqrt(np.atleast_1d(np.asarray(variance, dtype=float)))
    smallest = float((sigma / sigma.sum()).min())
    if not smallest > 0:
        raise ArgumentError("a state has variance 0, so η_min is 0", "the slow bound still holds")
    if budget < 4.0 / (sigma.size * smallest**2):
        raise ArgumentError(
            f"the budget {budget} is below 4/(S η²_min) = {4.0 / (sigma.size * smallest**2):.4g}",
            "the fast rate begins there; use bandit_slow_bound",
        )
    return float(8.0 * sigma.max() ** 2 / (smallest**3 * budget**2))
