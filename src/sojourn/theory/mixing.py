"""How far the frequencies of visits are from the stationary distribution.

With γ the spectral gap of an ergodic chain, η its stationary distribution and T(s) the visits
at times 2..n (s₁ anywhere).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.model import per_state
from sojourn.planning.regularized import concentration_width
from sojourn.theory import checks

Array = NDArray[np.float64]


def frequency_bias(chain: checks.AnyChain, budget: int, *, as_printed: bool = False) -> float:
    """Bound on |E[T(s)]/n − η(s)| for every s (first part of Prop. prop.concentration.mixing).

    1/(2 √η_min γ n), plus 1/n. The paper's proof sums n − 1 terms but compares with n η(s), so
    a term η(s)/n (or (1 − η(s))/n, when a prior sample is counted) is missing: for a chain of
    one state the left side is 1/n and the printed bound 1/(2n). ``as_printed=True`` omits it.
    """
    chain = checks.reversible(chain, "frequency_tail_nonreversible")
    checks.whole(1, budget=budget)
    printed = 1.0 / (2.0 * math.sqrt(chain.stationary().min()) * chain.spectral_gap * budget)
    return printed if as_printed else printed + 1.0 / budget


def frequency_deviation(chain: checks.AnyChain, budget: int, delta: float) -> Array:
    """ε_π(s, n, δ) per state: |T(s)/n − η(s)| ≤ ε with probability 1 − δ, one state at a time
    (second part of Prop. prop.concentration.mixing).

    The explicit form in the proof of Lem. lem:asmyptoric.performance:
    √(8 η(1−η) L/(γn)) + 20 L/(γn), L = ln((1/δ)√(2/η_min)).
    """
    chain = checks.reversible(chain, "frequency_deviation_nonreversible")
    checks.whole(1, budget=budget)
    checks.probability(delta=delta)
    return concentration_width(chain.stationary(), chain.spectral_gap, budget, -math.log(delta))


def frequency_tail_nonreversible(
    chain: checks.AnyChain, budget: int, epsilon: ArrayLike, gap: float | None = None
) -> Array:
    """P(|T(s)/n − η(s)| > ε) per state, without reversibility (Prop. p:non.reversible.convergence).

    √(2/η_min) · exp(−n γ_ps ε²/(16 η(1−η)(1 + 1/(n γ_ps)) + 40 ε)), at most 1; ``epsilon`` is one
    number or one per state. ``gap`` is the pseudo-spectral gap γ_ps; by default the chain's,
    computed with a finite cap on its power, which is a lower bound of it and therefore safe.
    """
    eta, ps = _ergodic_constants(chain, budget, gap)
    wide = per_state(epsilon, eta.size, "epsilon")
    checks.positive(epsilon=float(wide.min()))
    below = 16.0 * eta * (1.0 - eta) * (1.0 + 1.0 / (budget * ps)) + 40.0 * wide
    return np.minimum(1.0, math.sqrt(2.0 / eta.min()) * np.exp(-budget * ps * wide**2 / below))


def frequency_deviation_nonreversible(
    chain: checks.AnyChain, budget: int, delta: float, gap: float | None = None
) -> Array:
    """The ε per state at which :func:`frequency_tail_nonreversible` is δ (Prop.
    p:non.reversible.convergence).

    With c = ln(√(2/η_min)/δ)/(n γ_ps) it is the root of ε² = 40 c ε + 16 η(1−η)(1 + 1/(nγ_ps)) c.
    """
    checks.probability(delta=delta)
    eta, ps = _ergodic_constants(chain, budget, gap)
    c = math.log(math.sqrt(2.0 / eta.min()) / delta) / (budget * ps)
    spread = 16.0 * eta * (1.0 - eta) * (1.0 + 1.0 / (budget * ps))
    return 20.0 * c + np.sqrt((20.0 * c) ** 2 + spread * c)


def unvisited_bound(chain: checks.AnyChain, budget: int, gap: float | None = None) -> Array:
    """P(T(s) = 0) per state for n > 1/η_min (proof of Prop. no_visit): the tail at
    ε = η(s) − 1/n."""
    chain = checks.ergodic(chain)
    checks.whole(1, budget=budget)
    eta = chain.stationary()
    if not budget > 1.0 / eta.min():
        raise ArgumentError(
            f"the budget {budget} is not above 1/η_min = {1.0 / eta.min():.4g}",
            "the bound begins where every state is expected at least once",
        )
    return frequency_tail_nonreversible(chain, budget, eta - 1.0 / budget, gap)


def unvisited_cost_bound(
    chain: checks.AnyChain, budget: int, squared_error: ArrayLike, gap: float | None = None
) -> float:
    """E(π, n) of Prop. no_visit: (n/S) Σ (μ_∞ − μ(s))² P(T(s) = 0), with the bound for P."""
    chain = checks.ergodic(chain)
    cost = per_state(squared_error, chain.n_states, "squared_error", minimum=0.0)
    return float(budget * np.mean(cost * unvisited_bound(chain, budget, gap)))


def _ergodic_constants(
    chain: checks.AnyChain, budget: int, gap: float | None
) -> tuple[Array, float]:
    """η and γ_ps of an ergodic chain."""
    chain = checks.ergodic(chain)
    ps = float(chain.pseudo_spectral_gap()) if gap is None else gap
    checks.whole(1, budget=budget)
    checks.gap(gap=ps)
    return chain.stationary(), ps
