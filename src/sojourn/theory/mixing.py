"""How far the frequencies of visits are from the stationary distribution.

With γ the spectral gap of an ergodic chain, η its stationary distribution and T(s) the visits
at times 2..n (s₁ anywhere).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.chains import Chain
from sojourn.errors import ArgumentError
from sojourn.theory import checks


def frequency_bias(chain: Chain, budget: int, *, as_printed: bool = False) -> float:
    """Bound on |E[T(s)]/n − η(s)| for every s (first part of Prop. prop.concentration.mixing).

    1/(2 √η_min γ n), plus 1/n. The paper's proof sums n − 1 terms but compares with n η(s), so
    a term η(s)/n (or (1 − η(s))/n, when a prior sample is counted) is missing: for a chain of
    one state the left side is 1/n and the printed bound 1/(2n). ``as_printed=True`` omits it.
    """
    checks.reversible(chain, "frequency_tail_nonreversible")
    checks.positive(budget=budget)
    printed = 1.0 / (2.0 * math.sqrt(chain.stationary().min()) * chain.spectral_gap * budget)
    return printed if as_printed else printed + 1.0 / budget


def frequency_deviation(chain: Chain, budget: int, delta: float) -> NDArray[np.float64]:
    """ε_π(s, n, δ) per state: |T(s)/n − η(s)| ≤ ε with probability 1 − δ, one state at a time.

    The explicit form in the proof of Lem. lem:asmyptoric.performance:
    √(8 η(1−η) L/(γn)) + 20 L/(γn), L = ln((1/δ)√(2/η_min)).
    """
    checks.reversible(chain, "frequency_tail_nonreversible")
    checks.positive(budget=budget)
    checks.probability(delta=delta)
    eta = chain.stationary()
    share = math.log(math.sqrt(2.0 / eta.min()) / delta) / (chain.spectral_gap * budget)
    return np.sqrt(8.0 * eta * (1.0 - eta) * share) + 20.0 * share


def frequency_tail_nonreversible(
    chain: Chain, budget: int, epsilon: float, gap: float | None = None
) -> NDArray[np.float64]:
    """P(|T(s)/n − η(s)| > ε) per state, without reversibility (p:non.reversible.convergence).

    ``gap`` is the pseudo-spectral gap γ_ps; by default the chain's, computed with a finite cap
    on its power, which is a lower bound of it and therefore safe.
    """
    checks.ergodic(chain)
    checks.positive(budget=budget, epsilon=epsilon)
    ps = pseudo_gap(chain) if gap is None else gap
    eta = chain.stationary()
    below = 16.0 * eta * (1.0 - eta) * (1.0 + 1.0 / (budget * ps)) + 40.0 * epsilon
    return np.minimum(1.0, math.sqrt(2.0 / eta.min()) * np.exp(-budget * ps * epsilon**2 / below))


def unvisited_bound(chain: Chain, budget: int, gap: float | None = None) -> NDArray[np.float64]:
    """P(T(s) = 0) per state for n > 1/η_min (proof of Prop. no_visit)."""
    eta = chain.stationary()
    if budget <= 1.0 / eta.min():
        raise ArgumentError(
            f"the budget {budget} is not above 1/η_min = {1.0 / eta.min():.4g}",
            "the bound begins where every state is expected at least once",
        )
    return np.array([
        frequency_tail_nonreversible(chain, budget, float(e) - 1.0 / budget, gap)[s]
        for s, e in enumerate(eta)
    ])  # fmt: skip


def unvisited_cost_bound(
    chain: Chain, budget: int, squared_error: ArrayLike, gap: float | None = None
) -> float:
    """E(π, n) of Prop. no_visit: (n/S) Σ (μ_∞ − μ(s))² P(T(s) = 0), with the bound for P."""
    cost = np.broadcast_to(np.asarray(squared_error, dtype=float), (chain.n_states,))
    return float(budget * np.mean(cost * unvisited_bound(chain, budget, gap)))


def pseudo_gap(chain: Chain) -> float:
    """γ_ps of the chain, as far as it was searched (a lower bound)."""
    found = chain.pseudo_spectral_gap()
    return float(getattr(found, "value", found))
