"""What a few samples say about variances, when the sites themselves say how much they differ.

Of state s there are T samples with Q = Σ(x − x̄)². For Gaussian noise Q/σ² is χ² with d = T − 1
degrees of freedom. A plan that spends the rest of a budget minimises Σ E[σ²]/(T + N) over the
posterior, so what it needs is the posterior *mean* of every variance. The prior is estimated
from all states together (empirical Bayes):

    g = log σ² ~ N(m, τ²),      log p(g | Q, d) = −d·g/2 − (Q/2)·e^{−g} − (g − m)²/(2τ²).

Where sites are alike τ is small and a few samples of one lean on all the others; where variances
differ by orders of magnitude τ is large, and two samples that agree are believed. A fixed amount
of shrinkage can't be both, and costs most where a few noisy sites lie among many quiet ones.

The posterior is log-concave, and its mean is the ratio of two integrals of the same form, with
d − 2 and with d. Each is taken by Laplace's method; in the ratio the errors cancel to second
order (Tierney & Kadane 1986). Nothing divides by Q: equal samples (Q = 0) are just data. With
T ≤ 1 the mean is the prior's, e^{m + τ²/2}.

m and τ² come from a few steps of expectation–maximisation, started at what all states have in
common. One more state that is as the common one, and a τ² of 1 that counts as two states, keep
the prior proper while hardly anything was measured.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 6
"""Steps of expectation–maximisation: the prior needs one digit, not ten."""
NEWTON = 60
"""Newton's steps at most; three or four are common."""
SPREAD, CONFIDENCE = 1.0, 2.0
"""τ² before anything is known, and how many states that knowledge is worth."""
FARTHEST = 30.0
"""|log| of a variance relative to the common one: beyond, all is rounding."""


def posterior_variance(visits: NDArray, spread: Floats) -> Floats:
    """The posterior mean of every variance, rows are walks; 1 everywhere while nothing is known."""
    out = np.empty(visits.shape)
    _means(np.ascontiguousarray(visits, dtype=np.int64), np.ascontiguousarray(spread), out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _mode(d: float, q: float, m: float, precision: float, g: float) -> float:
    """The g where −d·g/2 − (q/2)e^{−g} − precision·(g − m)²/2 is largest, from a start."""
    for _ in range(NEWTON):
        a = 0.5 * q * math.exp(-g)
        step = (a - 0.5 * d - precision * (g - m)) / (a + precision)
        # From the right the exponential is no guide: no step is longer than 2.
        step = min(max(step, -2.0), 2.0)
        g += step
        if abs(step) < 1e-6:
            break
    return g


@njit(cache=True, nogil=True, error_model="numpy")
def _height(d: float, q: float, m: float, precision: float, g: float) -> float:
    """Laplace's logarithm of the integral around the mode g."""
    a = 0.5 * q * math.exp(-g)
    return -0.5 * d * g - a - 0.5 * precision * (g - m) ** 2 - 0.5 * math.log(a + precision)


@njit(cache=True, nogil=True, error_model="numpy")
def _means(visits: Ints, spread: Floats, out: Floats) -> None:
    n = visits.shape[1]
    mode = np.empty(n)
    for i in range(visits.shape[0]):
        total, squares, measured = 0.0, 0.0, 0
        for s in range(n):
            if visits[i, s] > 1:
                total += visits[i, s] - 1
                squares += spread[i, s]
                measured += 1
        if not squares > 0.0:
            out[i] = 1.0
            continue
        # Everything in units of the common variance.
        unit = squares / total
        m, tau2 = 0.0, SPREAD
        for s in range(n):
            d, q = max(visits[i, s] - 1, 0), spread[i, s] / unit
            mode[s] = math.log((q + 2.0) / (d + 2.0))
        for _ in range(STEPS):
            first, second = 0.0, 0.0
            precision = 1.0 / tau2
            for s in range(n):
                d = visits[i, s] - 1.0
                if d < 1.0:
                    continue
                q = spread[i, s] / unit
                mode[s] = _mode(d, q, m, precision, mode[s])
                a = 0.5 * q * math.exp(-mode[s])
                curvature = a + precision
                mean = mode[s] + 0.5 * a / curvature**2
                first += mean
                second += 1.0 / curvature + (mean - m) ** 2
            before = m
            m = first / (measured + 1.0)
            # ``second`` was taken about the old m; about the new one it is less.
            second -= measured * (m - before) ** 2
            tau2 = (CONFIDENCE * SPREAD + max(second, 0.0)) / (CONFIDENCE + measured)
        precision = 1.0 / tau2
        for s in range(n):
            d, q = visits[i, s] - 1.0, spread[i, s] / unit
            if d < 1.0:
                g = m + 0.5 * tau2
            else:
                here = _mode(d, q, m, precision, mode[s])
                there = _mode(d - 2.0, q, m, precision, here)
                g = _height(d - 2.0, q, m, precision, there)
                g -= _height(d, q, m, precision, here)
            out[i, s] = unit * math.exp(min(max(g, -FARTHEST), FARTHEST))
