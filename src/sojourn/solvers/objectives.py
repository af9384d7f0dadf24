"""What a plan minimises: functions of the state distribution η.

Every objective measures the errors σ²_s/η_s that the states are left with, per step, and
combines them. All but one belong to one family, the power means

    M_p(η) = ( (1/S) Σ_s weight_s (σ²_s/η_s)^p )^{1/p},

    p = 1   :class:`MeanError`, the paper's 𝓛 (Eq. opt.function.asymptotic.lambda),
    p → ∞   :class:`WorstState`, the largest error,
    p → 0   :class:`LogError`, the mean of log σ²/η (so it maximises Σ log η).

:class:`Entropy` is the odd one: −Σ η log η, the visits as even as the moves allow.

*The cone form.* Each of them can be minimised without the constraint Σ η = 1: for a suitable
scaling of the function, min Σ_s φ_s(η_s) + Σ_s η_s over the *cone* of unnormalised occupancies
has a solution, and dividing it by its sum solves the original problem. (For φ homogeneous of
degree −p the best multiple of a direction η has Σ_s φ_s(η_s)·p = Σ η; for −Σ w log η it has
Σ η = Σ w; for Σ η log η − 2η the value at the best multiple is a decreasing function of the
entropy.) ``slope`` and ``curvature`` are φ′ and φ″.

*The bound.* A Lagrange multiplier h of the flow balance proves (``planning.certificate``) that
every stationary η satisfies Σ m_s η_s ≤ 0 with m_s = h_s − max_a (Ph)_sa. ``lower_bound(m)`` is
the smallest value that any probability vector with that one property can have, computed by
duality, so that it is a bound for every m whatever.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError

Array = NDArray[np.float64]


class Objective(ABC):
    """A convex function of the state distribution, with its certificate.

    ``error`` are the σ²_s, ``weight`` multiplies each state's share (default 1).
    """

    name: str = "objective"
    relative: bool = True
    """Whether a gap is measured relative to the value; an objective with logarithms is
    already relative, and its gap is the plain difference."""
    silent: bool = True
    """Whether the objective has nothing to say when no state ``matters``."""

    def __init__(self, variance: ArrayLike, weight: ArrayLike | None = None) -> None:
        error = np.array(variance, dtype=float)
        share = np.ones_like(error) if weight is None else np.array(weight, dtype=float)
        if error.ndim != 1 or share.shape != error.shape:
            raise ArgumentError(
                f"variance has shape {error.shape} and weight {share.shape}",
                "give one of each per state",
            )
        for what, array in (("variance", error), ("weight", share)):
            if (s := _first_unfit(array)) >= 0:
                raise ArgumentError(f"the {what} of state {s} is {array[s]}", "it must be >= 0")
        self.variance = error
        self.weight = share
        self.count = error.size
        """The S of 1/S; a restriction keeps that of the whole, and so all values."""

    @property
    def n_states(self) -> int:
        return int(self.variance.size)

    @property
    def matters(self) -> NDArray[np.bool_]:
        """The states that must be visited for the value to be finite."""
        return (self.variance > 0) & (self.weight > 0)

    def _arguments(self) -> dict[str, float]:
        """What the constructor needs beyond variance and weight."""
        return {}

    def restricted(self, states: NDArray[np.int64]) -> Self:
        """The same function when only these states matter; values stay comparable."""
        part = type(self)(self.variance[states], self.weight[states], **self._arguments())
        part.count = self.count
        return part

    @abstractmethod
    def value(self, eta: ArrayLike) -> float:
        """The objective at the distribution η."""

    @abstractmethod
    def gradient(self, eta: ArrayLike) -> Array:
        """Its gradient in η."""

    @abstractmethod
    def lower_bound(self, margin: ArrayLike, multiplier: float | None = None) -> float:
        """A lower bound of the value over {η ≥ 0, Σ η = 1, Σ margin·η ≤ 0}.

        ``multiplier`` is the ρ of the proof (raised where it is too small); by default the
        one that gives the largest bound is looked for.
        """

    @abstractmethod
    def cone(self) -> Cone:
        """The cone form (see the module's docstring)."""

    def gap(self, value: float, bound: float) -> float:
        """How far ``value`` can be from the optimum, given a proved ``bound`` of it."""
        if not (math.isfinite(value) and math.isfinite(bound)):
            return math.inf
        difference = max(value - bound, 0.0)
        if not self.relative:
            return difference
        return difference / value if value > 0 else 0.0


class Cone(ABC):
    """φ of the cone form, state by state."""

    cost: float = 1.0
    """What a visit costs beside φ."""
    typical: Array
    """The η that would be optimal if every distribution were possible (its scale is the
    natural unit of the problem)."""

    @abstractmethod
    def slope(self, eta: Array) -> Array: ...

    @abstractmethod
    def curvature(self, eta: Array) -> Array: ...

    @abstractmethod
    def scale(self, eta: Array) -> float:
        """The c > 0 for which Σ φ(cη) + Σ cη is smallest."""


class PowerCone(Cone):
    """φ_s = w_s η^{−p}/p, or −w_s log η for p = 0."""

    def __init__(self, weight: Array, power: float) -> None:
        self.weight, self.power = weight, power
        self.typical = weight ** (1.0 / (power + 1.0))

    def slope(self, eta: Array) -> Array:
        return -self.weight * eta ** -(self.power + 1.0)

    def curvature(self, eta: Array) -> Array:
        return (self.power + 1.0) * self.weight * eta ** -(self.power + 2.0)

    def scale(self, eta: Array) -> float:
        cost = float(self.weight @ eta**-self.power)
        return (cost / float(eta.sum())) ** (1.0 / (self.power + 1.0))


class PowerMean(Objective):
    """M_p, the power mean of the errors σ²/η (0 < p < ∞): p = 1 is the mean error, and the
    larger p, the more the worst states count."""

    name = "power mean error"

    def __init__(
        self, variance: ArrayLike, weight: ArrayLike | None = None, power: float = 2.0
    ) -> None:
        super().__init__(variance, weight)
        if not 0 < power <= 16:
            raise ArgumentError(
                f"the power {power} is not in (0, 16]",
                "LogError is the limit 0, WorstState the limit of large powers",
            )
        self.power = float(power)
        self._w, self._root = np.empty(self.n_states), np.empty(self.n_states)
        self._unit, lost = _scaled(self.variance, self.weight, self.power, self._w, self._root)
        # Otherwise such a state would silently be taken for one that doesn't matter.
        if lost >= 0:
            raise ArgumentError(
                f"the variance {self.variance[lost]:g} of state {lost} is too small beside the "
                f"largest one, {self._unit:g}, for the power {self.power:g}",
                "take a smaller power, or weight 0 for such states",
            )

    def _arguments(self) -> dict[str, float]:
        return {"power": self.power}

    def value(self, eta: ArrayLike) -> float:
        x = np.ascontiguousarray(eta, dtype=float)
        errors = np.empty(self.n_states)
        _powers(self._w, x, -self.power, errors)
        total = float(errors.sum())
        return self._unit * (total / self.count) ** (1.0 / self.power)

    def gradient(self, eta: ArrayLike) -> Array:
        # ∂M_p/∂η_s = −M_p^{1−p} · w_s η_s^{−p−1} / S
        x = np.asarray(eta, dtype=float)
        mean = self.value(x) / self._unit
        slope = _over(self._w, x ** (self.power + 1.0))
        return -self._unit * mean ** (1.0 - self.power) * slope / self.count

    def lower_bound(self, margin: ArrayLike, multiplier: float | None = None) -> float:
        # min Σ w η^{−p} over Σ (ρ+m)η ≤ ρ is G^{p+1}/ρ^p, G = Σ w^{1/(p+1)} (ρ+m)^{p/(p+1)},
        # by Hölder (Cauchy–Schwarz for p = 1); it is the larger root that is reported.
        # The slope in ρ has the sign of ρ Σ (w/c)^{1/(p+1)} − G with c = ρ + m; less what cancels
        # that is −Σ w^{1/(p+1)} m c^{−1/(p+1)}.
        p, q = self.power, 1.0 / (self.power + 1.0)
        m = np.ascontiguousarray(margin, dtype=float)
        rho = (
            best_multiplier(self._root, m, q)
            if multiplier is None
            else max(multiplier, -float(m.min()))
        )
        terms = np.empty(self.n_states)
        _powers(self._root, rho + m, p * q, terms)
        total = float(terms.sum())
        return self._unit * (total ** (p + 1.0) / self.count) ** (1.0 / p) / rho

    def conjugate(self, slope: ArrayLike) -> Array:
        """φ*_s(y) = sup_η yη − w η^{−p}/p of the cone form, for y ≤ 0."""
        p = self.power
        y = -np.asarray(slope, dtype=float)
        return np.where(
            y >= 0, -(1 + 1 / p) * self._w ** (1 / (p + 1)) * np.abs(y) ** (p / (p + 1)), np.inf
        )

    def cone(self) -> Cone:
        # Mean weight 1 makes every quantity of the solver O(1) per state.
        return PowerCone(self._w / self._root.mean() ** (self.power + 1.0), self.power)


class MeanError(PowerMean):
    """The paper's loss 𝓛(λ) = (1/S) Σ weight·σ²/η (Eq. opt.function.asymptotic.lambda)."""

    name = "mean error"

    def __init__(self, variance: ArrayLike, weight: ArrayLike | None = None) -> None:
        super().__init__(variance, weight, power=1.0)

    def _arguments(self) -> dict[str, float]:
        return {}


class LogError(Objective):
    """The mean of log(σ²/η), the limit p → 0: it maximises Σ weight·log η."""

    name = "mean log error"
    relative = False

    @property
    def matters(self) -> NDArray[np.bool_]:
        return self.weight > 0

    def __init__(self, variance: ArrayLike, weight: ArrayLike | None = None) -> None:
        super().__init__(variance, weight)
        # A known value (variance 0) has log error −∞ whatever the plan does.
        self.weight = np.where(self.variance > 0, self.weight, 0.0)
        used = self.weight > 0
        self._total = float(self.weight.sum()) or 1.0
        self._constant = float(self.weight[used] @ np.log(self.variance[used])) / self._total

    def value(self, eta: ArrayLike) -> float:
        used = self.weight > 0
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(eta, dtype=float)[used])
        return self._constant - float(self.weight[used] @ logs) / self._total

    def gradient(self, eta: ArrayLike) -> Array:
        return -_over(self.weight, np.asarray(eta, dtype=float)) / self._total

    def lower_bound(self, margin: ArrayLike, multiplier: float | None = None) -> float:
        # min −Σ w log η over Σ (ρ+m)η ≤ ρ is attained at η = wρ/((ρ+m)W).
        used = self.weight > 0
        if not used.any():
            return 0.0
        m = np.ascontiguousarray(margin, dtype=float)
        rho = (
            best_multiplier(self.weight / self._total, m, 1.0)
            if multiplier is None
            else max(multiplier, -float(m.min()))
        )
        w = self.weight[used] / self._total
        with np.errstate(divide="ignore"):
            logs = np.log(rho * w / np.maximum(rho + m[used], 0.0))
        bound = self._constant - float(w @ logs)
        return bound if np.isfinite(bound) else -np.inf

    def cone(self) -> Cone:
        return PowerCone(self.weight / self.weight.mean(), 0.0)


class Entropy(Objective):
    """Σ η log η: the plan with the largest entropy of η (Hazan et al. 2019).

    Only states of weight 0 or 1 make sense: with other weights the entropy isn't a function
    of how even the visits are. Variances play no part.
    """

    name = "negative entropy"
    relative = False
    silent = False

    def __init__(self, variance: ArrayLike, weight: ArrayLike | None = None) -> None:
        super().__init__(variance, weight)
        if (self.weight != 1).any():
            raise ArgumentError(
                "the entropy has no weights", "leave weight out, or take LogError instead"
            )

    @property
    def matters(self) -> NDArray[np.bool_]:
        return np.zeros(self.n_states, dtype=bool)

    def value(self, eta: ArrayLike) -> float:
        x = np.asarray(eta, dtype=float)
        return float(np.sum(x * np.log(np.where(x > 0, x, 1.0))))

    def gradient(self, eta: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            return 1.0 + np.log(np.asarray(eta, dtype=float))

    def lower_bound(self, margin: ArrayLike, multiplier: float | None = None) -> float:
        # min over the simplex of Σ η log η + θ Σ m η is −log Σ exp(−θm), for any θ ≥ 0; the
        # cone form's multipliers have θ = 1.
        m = np.asarray(margin, dtype=float)
        low = float(m.min())
        return low - float(np.log(np.exp(low - m).sum()))

    def cone(self) -> Cone:
        return _EntropyCone(self.n_states)


class _EntropyCone(Cone):
    """φ = η log η − 2η."""

    def __init__(self, n_states: int) -> None:
        self.typical = np.ones(n_states)

    def slope(self, eta: Array) -> Array:
        return np.log(eta) - 1.0

    def curvature(self, eta: Array) -> Array:
        return 1.0 / eta

    def scale(self, eta: Array) -> float:
        # d/dc Σ cη (log cη − 1) = Σ η log cη = 0
        return math.exp(-float(eta @ np.log(eta)) / float(eta.sum()))


class WorstState(Objective):
    """max_s weight·σ²/η, the largest error (the limit p → ∞).

    In cone form it is the linear programme: the fewest steps Σ x that give every state
    η_s ≥ weight·σ²_s.
    """

    name = "largest error"

    def value(self, eta: ArrayLike) -> float:
        return float(_over(self.variance * self.weight, np.asarray(eta, dtype=float)).max())

    def gradient(self, eta: ArrayLike) -> Array:
        """A subgradient: that of one state with the largest error."""
        x = np.asarray(eta, dtype=float)
        w = self.variance * self.weight
        worst = int(np.argmax(_over(w, x)))
        out = np.zeros_like(x)
        out[worst] = -w[worst] / x[worst] ** 2
        return out

    def lower_bound(self, margin: ArrayLike, multiplier: float | None = None) -> float:
        # η ≥ w/t and Σ (ρ+m)η ≤ ρ, ρ + m ≥ 0, give t ≥ Σ (ρ+m)w/ρ = Σ w + (Σ m w)/ρ.
        m = np.asarray(margin, dtype=float)
        w = self.variance * self.weight
        gain, rho = float(m @ w), max(0.0, float(-m.min()))
        return float(w.sum()) + (gain / rho if gain > 0 and rho > 0 else 0.0)

    def cone(self) -> Cone:
        w = self.variance * self.weight
        return BoundCone(w / w.mean())


class BoundCone(Cone):
    """The constraint η ≥ lower; ``slope`` and ``curvature`` come from its multipliers."""

    def __init__(self, lower: Array) -> None:
        self.lower = self.typical = lower

    def slope(self, eta: Array) -> Array:
        raise NotImplementedError("a constraint has no slope")

    curvature = slope

    def scale(self, eta: Array) -> float:
        return float(np.max(self.lower / eta))


class HeldCone(Cone):
    """φ = ½ ((η − target)/target)², with visits for free: it holds η where it is."""

    cost = 0.0

    def __init__(self, target: Array) -> None:
        self.target = self.typical = target

    def slope(self, eta: Array) -> Array:
        return (eta - self.target) / self.target**2

    def curvature(self, eta: Array) -> Array:
        return 1.0 / self.target**2

    def scale(self, eta: Array) -> float:
        share = eta / self.target
        return float(share.sum() / (share @ share))


@njit(cache=True, nogil=True, error_model="numpy")
def best_multiplier(share, margin, exponent):  # type: ignore[no-untyped-def]
    """The ρ ≥ max(0, −min ``margin``) that makes the dual bound largest.

    The bound is quasi-concave in ρ, and its slope has the sign of −Σ share m (ρ+m)^{−exponent}
    over the states that matter (share > 0). Any ρ is valid, so rough is good enough: the bound is
    flat at its top. The search is Chandrupatla's (1997), for log(ρ + min): quadratic interpolation
    where the last three points are nearly on a parabola, halving otherwise.
    """
    low = 0.0
    unit = 0.0
    for s in range(margin.size):
        low = max(low, -margin[s])
        unit = max(unit, abs(margin[s]))
    if unit == 0.0:
        return 1.0  # every ρ gives the same bound
    left, right = math.log(unit * 1e-40), math.log(unit * 1e12)
    at_left = _balance(share, margin, low + math.exp(left), exponent)
    if at_left <= 0.0:
        return low + math.exp(left)
    at_right = _balance(share, margin, low + math.exp(right), exponent)
    if at_right >= 0.0:
        return low + math.exp(right)
    a, b, fa, fb = left, right, at_left, at_right
    part = 0.5
    for _ in range(200):
        t = a + part * (b - a)
        ft = _balance(share, margin, low + math.exp(t), exponent)
        if (ft > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = t, ft
        width = abs(b - a)
        if ft == 0.0 or width < 1e-9:
            break
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        part = 0.5
        # False also where a value at the end is infinite.
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            part = fa / (fb - fa) * fc / (fb - fc)
            part += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            least = 0.5e-9 / width
            part = min(max(part, least), 1.0 - least)
    return low + math.exp(a)


@njit(cache=True, nogil=True, error_model="numpy")
def _balance(share, margin, rho, exponent):  # type: ignore[no-untyped-def]
    total = 0.0
    for s in range(share.size):
        if share[s] == 0.0:
            continue
        c = max(rho + margin[s], 0.0)
        if exponent == 0.5:
            total -= share[s] * margin[s] / math.sqrt(c)
        else:
            total -= share[s] * margin[s] * c**-exponent
    return total if total == total else 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _scaled(variance, weight, power, w, root):  # type: ignore[no-untyped-def]
    """weight·(σ²/unit)^power and its (power + 1)-th root. Returns the unit, which is the largest
    variance so that nothing can overflow, and a state whose w underflows although it matters,
    or −1."""
    unit = 0.0
    for s in range(variance.size):
        unit = max(unit, variance[s])
    if unit == 0.0:
        unit = 1.0
    lost = -1
    for s in range(variance.size):
        share = variance[s] / unit
        w[s] = weight[s] * (share if power == 1.0 else share**power)
        root[s] = math.sqrt(w[s]) if power == 1.0 else w[s] ** (1.0 / (power + 1.0))
        if lost < 0 and w[s] < 1e-290 and variance[s] > 0.0 and weight[s] > 0.0:
            lost = s
    return unit, lost


@njit(cache=True, nogil=True, error_model="numpy")
def _powers(share, base, exponent, out):  # type: ignore[no-untyped-def]
    """share·max(base, 0)^exponent, and 0 where the share is 0."""
    for s in range(share.size):
        if share[s] == 0.0:
            out[s] = 0.0
            continue
        # Not max(): a NaN must come out as one.
        c = 0.0 if base[s] < 0.0 else base[s]
        if exponent == -1.0:
            out[s] = share[s] / c
        elif exponent == 0.5:
            out[s] = share[s] * math.sqrt(c)
        else:
            out[s] = share[s] * c**exponent


@njit(cache=True, nogil=True)
def _first_unfit(values):  # type: ignore[no-untyped-def]
    """The first entry that is no finite number ≥ 0, or −1."""
    for s in range(values.size):
        if not 0.0 <= values[s] < np.inf:
            return s
    return -1


def _over(numerator: Array, denominator: Array) -> Array:
    """numerator/denominator where 0/0 = 0: a state that doesn't matter costs nothing."""
    quotient = np.zeros_like(denominator)
    np.divide(numerator, denominator, out=quotient, where=(numerator > 0) & (denominator > 0))
    quotient[(numerator > 0) & ~(denominator > 0)] = np.inf
    return quotient
