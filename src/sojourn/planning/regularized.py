r"""π⋆_reg: the asymptotic loss plus what its own error bound says (Eq. opt.function.regularized).

    min over π of 𝓛(π, η_π) + ℓ_n(π),
    ℓ_n(π) = 1/(S √η_min n γ_π) · Σ_s σ²/η_π² · (1 + 2 ε_π(s,n,δ)/η_π)
    ε_π(s,n,δ) = √(8 η_π(1−η_π) Λ/(γ_π n)) + 20 Λ/(γ_π n),   Λ = ln( (1/δ) √(2/η_π,min) ),

from Lem. asmyptoric.performance, with γ_π the spectral gap of Eq. slem.spectral.gap. The paper
replaces the problem by a convex proxy; here is a local solver of the problem itself, so that
Lem. reg.performance, 𝓛_n(π⋆_reg) − 𝓛_n(π⋆_n) ≤ 2 ℓ_n(π⋆_n), can be looked at in numbers:
``budget_plan`` finds π⋆_n, and both losses are exact.

Two things to know about ℓ_n as it is printed. The lemma says δ = S Aˢ/n²; its proof uses
δ = 1/(n² S Aˢ) (a union bound divides), and so do we. And the proof ends with a term
max{n, 1/η}·δ' = 1/n per state that ℓ_n leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.arguments import start_distribution
from sojourn.errors import ArgumentError
from sojourn.model import MDP, Counting, Policy, per_state
from sojourn.planning.budget import LOCAL, STEPS, BudgetPlan, BudgetStatus
from sojourn.planning.finite import (
    PRIOR_SAMPLE,
    FiniteLoss,
    LossGradient,
    Prices,
    check_dense,
    dense_chain,
    one_budget,
)
from sojourn.planning.finite_bound import best_bound
from sojourn.planning.optimal import optimal_plan
from sojourn.planning.policy_descent import (
    StartRecord,
    blended,
    descend,
    promise,
    rounded,
    standard_starts,
)
from sojourn.solvers.pairs import pair_slopes
from sojourn.solvers.threads import one_thread

Array = NDArray[np.float64]


def log_policies(mdp: MDP) -> float:
    """ln(S Aˢ), the price of a union bound over states and deterministic policies; with
    different numbers of actions Aˢ is their product."""
    return float(np.log(mdp.n_states) + np.log(np.diff(mdp.pair_start)).sum())


def concentration_width(
    eta: ArrayLike, gap: float, budget: float, log_inverse_delta: float
) -> Array:
    """ε_π(s,n,δ) of Prop. prop.concentration.mixing, exact form as in the proof of
    Lem. asmyptoric.performance; ``log_inverse_delta`` is ln(1/δ)."""
    eta = np.asarray(eta, dtype=float)
    scaled = (log_inverse_delta + 0.5 * np.log(2 / eta.min())) / (gap * budget)
    return np.sqrt(8 * eta * (1 - eta) * scaled) + 20 * scaled


def performance_gap(
    eta: ArrayLike,
    gap: float,
    variance: ArrayLike,
    budget: float,
    union: float = 0.0,
    eta_min: float | None = None,
    weight: ArrayLike | None = None,
) -> float:
    """ℓ_n, the bound of Lem. asmyptoric.performance on |𝓛_n(π) − 𝓛(π, η_π)|.

    ``union`` is ln(S Aˢ) (:func:`log_policies`), or 0 for one policy alone; ``eta_min`` is the
    smallest stationary probability over all policies, by default that of this one.
    """
    eta = np.asarray(eta, dtype=float)
    cost = per_state(variance, eta.size, "variance", minimum=0.0)
    if weight is not None:
        cost = cost * per_state(weight, eta.size, "weight", minimum=0.0)
    width = concentration_width(eta, gap, budget, 2 * np.log(budget) + union)
    smallest = eta.min() if eta_min is None else eta_min
    scale = 1 / (eta.size * np.sqrt(smallest) * budget * gap)
    return float(scale * (cost / eta**2 * (1 + 2 * width / eta)).sum())


class RegularizedLoss:
    """𝓛(π, η_π) + ℓ_n(π) and its gradient, with η_min that of the policy itself."""

    def __init__(self, mdp: MDP, cost: Array, budget: int) -> None:
        self.mdp, self.cost, self.budget = mdp, cost, budget
        self.union = log_policies(mdp)

    def value(self, probability: Array) -> float:
        return self(probability).loss

    def __call__(self, probability: Array) -> LossGradient:
        P, n = dense_chain(self.mdp, probability), self.mdp.n_states
        nothing = LossGradient(np.inf, np.zeros(self.mdp.n_pairs))
        values, right = np.linalg.eig(P)
        unit = int(np.argmin(np.abs(values - 1)))
        try:
            left = np.linalg.inv(right)
        except np.linalg.LinAlgError:
            return nothing
        eta = left[unit].real / left[unit].real.sum()
        others = np.delete(np.arange(n), unit)
        if not (eta > 0).all():
            return nothing
        worst = others[np.argmax(np.abs(values[others]))] if n > 1 else unit
        slem = abs(values[worst]) if n > 1 else 0.0
        if slem >= 1:
            return nothing
        value, by_eta, by_gap = self._parts(eta, 1 - slem)
        # dη = η dP Z, and d|ξ| = Re( ξ̄/|ξ| · yᴴ dP x ) with left and right eigenvectors.
        Z = np.linalg.inv(np.eye(n) - P + eta)
        slope = np.outer(eta, Z @ by_eta)
        if slem > 0:
            turn = values[worst].conj() / slem
            slope -= by_gap * (turn * np.outer(left[worst], right[:, worst])).real
        moves, gradient = self.mdp.transitions, np.empty(self.mdp.n_pairs)
        pair_slopes(self.mdp.pair_start, moves.indptr, moves.indices, moves.data, slope, gradient)
        centre = self.mdp.state_sums(probability * gradient)
        return LossGradient(value, gradient - self.mdp.to_pairs(centre))

    def _parts(self, eta: Array, gap: float) -> tuple[float, Array, float]:
        """The objective as a function of η and γ, with its partial derivatives."""
        n, steps, cost = eta.size, self.budget, self.cost
        least = int(np.argmin(eta))
        level = 2 * np.log(steps) + self.union + 0.5 * np.log(2 / eta[least])
        root = np.sqrt(8 * eta * (1 - eta) * level / (gap * steps))
        flat = 20 * level / (gap * steps)
        scale = 1 / (n * np.sqrt(eta[least]) * steps * gap)
        term = cost / eta**2 * (1 + 2 * (root + flat) / eta)
        bound = scale * term.sum()
        value = float((cost / eta).sum() / n + bound)

        lever = 2 * scale * cost / eta**3
        root_by_eta = 0.5 * root * (1 - 2 * eta) / np.maximum(eta * (1 - eta), 1e-300)
        by_eta = -cost / eta**2 / n - 2 * scale * term / eta
        by_eta += lever * (root_by_eta - (root + flat) / eta)
        by_level = (lever * (0.5 * root + flat)).sum() / level
        by_eta[least] -= 0.5 * (bound + by_level) / eta[least]
        by_gap = -bound / gap - (lever * (0.5 * root + flat)).sum() / gap
        return value, by_eta, float(by_gap)


def regularized_plan(
    mdp: MDP,
    variance: ArrayLike,
    budget: Any,
    start: int | ArrayLike | None = None,
    counting: Counting = PRIOR_SAMPLE,
    weight: ArrayLike | None = None,
    starts: int | Sequence[Policy] | None = None,
    seed: int | np.random.Generator = 0,
) -> BudgetPlan:
    """A local optimum π⋆_reg of Eq. opt.function.regularized, from several starts.

    The result reads like ``budget_plan``'s: ``loss`` and ``bound`` are exact and about 𝓛_n;
    ``regularized``, the table of starts and ``promise`` are about 𝓛 + ℓ_n. The spectral gap has
    kinks where two eigenvalues tie, and optima like to sit there, so ``promise`` may stay
    positive at a true local optimum.
    """
    check_dense(mdp)
    budget = one_budget(budget)
    prices = Prices.of(variance, mdp.n_states, budget, counting, weight)
    exact = FiniteLoss(mdp, prices, start_distribution(start, mdp.n_states))
    cost = prices.sampled * mdp.n_states / budget
    if not cost.any():
        raise ArgumentError(
            "no state has a variance (and weight), so 𝓛 + ℓ_n is 0 for every policy",
            "give a positive variance to at least one state, or use budget_plan",
        )
    objective = RegularizedLoss(mdp, cost, budget)
    uniform = Policy.uniform(mdp)
    if not np.isfinite(objective(uniform.probability).loss):
        raise ArgumentError(
            "ℓ_n is infinite in this world: under the uniform policy states are left for good, or "
            "the chain is periodic",
            "the lemma assumes that every policy is ergodic; use budget_plan, which needs nothing",
        )
    with one_thread():
        bound = best_bound(mdp, prices, exact.start)
        found, notes = standard_starts(
            mdp,
            {"asymptotic optimum": lambda: optimal_plan(mdp, variance, weight=weight).policy},
            starts,
            seed,
        )
        ends = []
        for name, policy in found:
            before = objective.value(policy.probability)
            here, count = descend(mdp, blended(mdp, policy.probability), objective, STEPS)
            here, after = rounded(mdp, here, objective.value(here), objective.value)
            if not after <= before:
                here, after = policy.probability, before
            ends.append((StartRecord(name, before, after, count), here))
        record, best = min(ends, key=lambda end: end[0].after)
    left = promise(mdp, objective(best).gradient) / record.after
    loss = exact.value(best)
    return BudgetPlan(
        policy=Policy(mdp, best),
        budget=budget,
        loss=loss,
        bound=min(bound.bound, loss),
        status=BudgetStatus.LOCAL if left <= LOCAL else BudgetStatus.STALLED,
        winner=record.name,
        starts_table=tuple(end[0] for end in ends),
        promise=left,
        notes=tuple(notes),
        regularized=record.after,
    )
