"""When a campaign is good enough.

    precision   the standard error of every site that matters (or their average) is at most this
    worth       stop when even an ideal device, which could measure anywhere without travelling,
                would lower the average error by less than this share in the next tenth of the
                steps made so far: what a real one could gain is less still

Each is a sentence when it fires. A precision goal counts a site only with two values or more:
with fewer nothing is known of its noise. It is reached when both the standard errors of the
sites' own values and those to be expected (:mod:`sojourn.campaign.estimates`) say so: whoever
stops as soon as the values happen to agree stops too early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.arguments import choice, number
from sojourn.campaign.estimates import INSIDE, OWN, Estimates

KINDS = ("every", "average")


def checked_goal(precision: float | None, of: str, worth: float | None) -> dict[str, float | str]:
    """A goal as stored, or a named error."""
    goal: dict[str, float | str] = {}
    choice(of, "kind of precision", KINDS)
    if precision is not None:
        above = "give a standard error above 0"
        goal |= {"precision": number(precision, "precision", above, INSIDE[0]), "of": of}
    if worth is not None:
        share = "give a share between 0 and 1, such as 0.01"
        goal["worth"] = number(worth, "worth", share, *INSIDE)
    return goal


def why_stop(
    goal: dict[str, Any],
    steps: int,
    estimates: Estimates,
    weight: NDArray,
    unit: str = "",
) -> str | None:
    """The sentence of a goal that is reached, or None while it is not."""
    matters = weight > 0
    measured = np.array([basis == OWN for basis in estimates.basis])
    if "precision" in goal and measured[matters].all():
        target = float(goal["precision"])
        own, expected = estimates.standard_error, estimates.expected_error
        worst = float(np.maximum(own, expected)[matters].max())
        average = max(root_mean_square(own, weight), root_mean_square(expected, weight))
        suffix = f" {unit}" if unit else ""
        if goal["of"] == "every" and worst <= target:
            return f"every site is known to ±{worst:.3g}{suffix} (goal ±{target:g})"
        if goal["of"] == "average" and average <= target:
            return f"the sites are known to ±{average:.3g}{suffix} on average (goal ±{target:g})"
    if "worth" in goal and measured[matters].all():
        ahead = max(1, steps // 10)
        best = ideal_error(estimates.expected_variance[matters], estimates.visits[matters],
                           weight[matters], ahead)  # fmt: skip
        now = mean_error(estimates, weight)
        share = 1.0 - best / now if now > 0 else 0.0
        if share < float(goal["worth"]):
            return (
                f"no longer worth the fuel: {ahead} more step{'s' * (ahead > 1)} could lower the "
                f"average error by at most {100 * share:.2g} %"
            )
    return None


def mean_error(estimates: Estimates, weight: NDArray) -> float:
    """The average error to be expected over the sites that matter, infinite while one has no
    value."""
    return root_mean_square(estimates.expected_error, weight)


def root_mean_square(error: NDArray, weight: NDArray) -> float:
    """Root of the weighted mean square over the sites that matter."""
    matters = weight > 0
    return float(np.sqrt(np.average(error[matters] ** 2, weights=weight[matters])))


def ideal_error(variance: NDArray, visits: NDArray, weight: NDArray, steps: float) -> float:
    """The smallest mean error that ``steps`` further samples, placed anywhere, could reach.

    min Σ w v/(T + N) over N ≥ 0, ΣN = steps: T + N = max(T, √(w v)/c), where c makes the
    total right (water-filling). It ignores travel, so it bounds what any device can do.
    """
    need = np.sqrt(weight * variance)
    ratio = np.where(need > 0, visits / np.where(need > 0, need, 1.0), np.inf)
    order = np.argsort(ratio)
    total_visits, total_need = 0.0, 0.0
    level = 0.0
    for k, s in enumerate(order):
        if need[s] == 0:
            break
        total_visits += visits[s]
        total_need += need[s]
        level = (steps + total_visits) / total_need
        following = ratio[order[k + 1]] if k + 1 < order.size else np.inf
        if level <= following:
            break
    allocation = np.maximum(visits, level * need)
    loss = np.where(need > 0, weight * variance / np.maximum(allocation, 1e-300), 0.0)
    return float(np.sqrt(loss.sum() / weight.sum()))
