"""The numbers behind a report: what was planned, what happened, what is to be expected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from sojourn.campaign.campaign import Campaign
from sojourn.campaign.stopping import mean_error
from sojourn.errors import SojournError
from sojourn.importing import Site, site_name
from sojourn.planning import optimal_plan

LAYOUT_LIMIT = 1500
"""Above this many sites without coordinates no layout is computed: it would say nothing."""


@dataclass(frozen=True)
class Summary:
    """Arrays per state unless said otherwise.

    ``planned`` is how the steps of the whole budget (or of the steps so far, without one) would
    be spread by the optimal plan for the noise as it is known now; None where no plan exists.
    ``history_*`` follow the mean error step by step, computed with the noise as known now so
    that the curve shows progress and not changes of mind; infinite until every site that
    matters has a value. ``forecast_*`` continues it to the budget.
    """

    planned: NDArray[np.float64] | None
    history_steps: NDArray[np.float64]
    history_error: NDArray[np.float64]
    history_measured: NDArray[np.float64]
    forecast_steps: NDArray[np.float64]
    forecast_error: NDArray[np.float64]
    mean_error: float


def summarise(campaign: Campaign) -> Summary:
    """All of it, from the folded campaign."""
    site, ledger, estimates = campaign.site, campaign.ledger, campaign.estimates()
    weight = site.weight
    visits = estimates.visits.astype(float)
    share = None
    expected = np.where(np.isfinite(estimates.expected_variance), estimates.expected_variance, 0.0)
    if (expected * weight).any():
        try:
            share = optimal_plan(
                site.mdp, expected, weight=weight, tolerance=1e-4, throw=False
            ).distribution
        except SojournError:
            # No stationary plan exists (a one-way world); the report then goes without one.
            share = None
    horizon = ledger.budget if ledger.budget is not None else 2 * max(ledger.steps, 1)
    ahead = np.linspace(ledger.steps, max(horizon, ledger.steps), 60)
    forecast = np.full(ahead.size, np.nan)
    if share is not None and (visits[weight > 0] > 0).all():
        forecast = np.array([
            _error(expected, visits + share * (n - ledger.steps), weight) for n in ahead
        ])  # fmt: skip
    total = horizon if ledger.budget is not None else ledger.steps
    steps, error, measured = _history(campaign, expected)
    return Summary(
        planned=None if share is None else share * total,
        history_steps=steps, history_error=error, history_measured=measured,
        forecast_steps=ahead, forecast_error=forecast,
        mean_error=mean_error(estimates, weight),
    )  # fmt: skip


def _error(variance: NDArray, visits: NDArray, weight: NDArray) -> float:
    matters = weight > 0
    loss = weight[matters] * variance[matters] / visits[matters]
    return float(np.sqrt(loss.sum() / weight[matters].sum()))


def _history(campaign: Campaign, variance: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Steps, mean error and share of sites measured, after each step."""
    site, ledger = campaign.site, campaign.ledger
    weight = site.weight
    matters = weight > 0
    count = np.zeros(site.mdp.n_states)
    # Each value changes one term of the sum: O(1) a step, however many sites there are.
    terms = np.where(matters, np.inf, 0.0)
    missing = int(matters.sum())
    total = 0.0
    at_step: dict[int, list[int]] = {}
    moved = {visit.event: visit.step for visit in ledger.path}
    step = 0
    for number in sorted(ledger.samples):
        step = moved.get(number, step)
        at_step.setdefault(step, []).append(number)
    steps, error, measured = [], [], []
    for step in range(ledger.steps + 1):
        for number in at_step.get(step, ()):
            sample = ledger.samples[number]
            s = sample.state
            if sample.voided or not sample.values or not matters[s]:
                continue
            count[s] += len(sample.values)
            term = weight[s] * variance[s] / count[s]
            if np.isinf(terms[s]):
                missing -= 1
                total += term
            else:
                total += term - terms[s]
            terms[s] = term
        steps.append(float(step))
        error.append(np.sqrt(max(total, 0.0) / weight.sum()) if missing == 0 else np.inf)
        measured.append(1.0 - missing / max(int(matters.sum()), 1))
    return np.array(steps), np.array(error), np.array(measured)


def layout(site: Site) -> NDArray[np.float64] | None:
    """Coordinates to draw, north up: the site's own, else scaling of the hop distances."""
    if site.coordinates is not None:
        xy = site.coordinates
        if site.geographic:
            # Near enough on a page: a degree of longitude shrinks with the latitude.
            return xy * [np.cos(np.radians(xy[:, 1].mean())), 1.0]
        # A bare model of a map counts its lines downwards; a site file's grid has been turned.
        return xy * [1.0, -1.0] if _is_bare_map(site) else xy
    n = site.mdp.n_states
    if n > LAYOUT_LIMIT:
        return None
    if n < 3:
        return np.column_stack((np.arange(n, dtype=float), np.zeros(n)))
    links = site.mdp.adjacency
    hops = shortest_path(sp.csr_matrix(links + links.T, dtype=float), unweighted=True)
    hops = np.asarray(hops)
    hops[~np.isfinite(hops)] = hops[np.isfinite(hops)].max() + 1.0
    centred = hops**2 - (hops**2).mean(axis=0)
    gram = -0.5 * (centred - centred.mean(axis=1)[:, None])
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0.0))


def _is_bare_map(site: Site) -> bool:
    """Whether the coordinates are just the cells (x, y) by which the states are called."""
    xy = site.coordinates
    return xy is not None and not site.outline and all(
        site_name(label) == f"{x:g},{y:g}" for label, (x, y) in zip(site.mdp.state_labels, xy)
    )  # fmt: skip


def cell_edge(site: Site) -> float | None:
    """The edge of a cell, where the site is a map of square cells."""
    xy = site.coordinates
    if xy is None or len(xy) < 2 or not (site.outline or _is_bare_map(site)):
        return None
    gaps = np.concatenate([np.diff(np.unique(xy[:, k])) for k in (0, 1)])
    return float(gaps[gaps > 0].min()) if (gaps > 0).any() else None


def links(site: Site, limit: int = 20_000) -> list[tuple[int, int]]:
    """Pairs of sites that a move joins, for drawing."""
    both = sp.triu(sp.csr_matrix(site.mdp.adjacency + site.mdp.adjacency.T), k=1).tocoo()
    if both.nnz > limit:
        return []
    return list(zip(both.row.tolist(), both.col.tolist()))
