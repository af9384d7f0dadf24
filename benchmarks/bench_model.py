"""How long it takes to build, diagnose and solve models without choices, and in what memory.

The million-site survey is the largest that the house promises to handle: build it, say what can
be reached, find where the uniform policy spends its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import quantecon
import scipy.sparse as sp
from harness import Row, in_fresh_process, median_seconds
from scipy.sparse.linalg import splu

from sojourn.chains import Chain
from sojourn.chains.elimination import DenseElimination
from sojourn.instances import grid_survey
from sojourn.model import MDP, Policy


def dense_grid(side: int) -> np.ndarray:
    """The obvious rival: an array (states, actions, states), filled cell by cell."""
    steps = ((0, 0), (0, -1), (1, 0), (0, 1), (-1, 0))
    P = np.zeros((side * side, len(steps), side * side))
    for y in range(side):
        for x in range(side):
            for a, (dx, dy) in enumerate(steps):
                if 0 <= x + dx < side and 0 <= y + dy < side:
                    P[y * side + x, a, (y + dy) * side + x + dx] = 1.0
    return P


def survey(side: int, slip: float) -> tuple[int, int]:
    """Build a survey of side × side cells."""
    mdp = grid_survey(side, side, obstacles=0.0, slip=slip).mdp
    return mdp.n_states, mdp.transitions.nnz


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def survey_asked(side: int, slip: float) -> dict[str, tuple[float, str]]:
    """Build a survey, diagnose it, and find where the uniform policy spends its time: seconds
    of each, and a check. What the kernels' compilation takes is not counted."""
    ask(30, slip)
    return ask(side, slip)


def ask(side: int, slip: float) -> dict[str, tuple[float, str]]:
    mdp, building = timed(lambda: grid_survey(side, side, obstacles=0.0, slip=slip).mdp)
    diagnosis = mdp.diagnose()
    reachable, searching = timed(lambda: diagnosis.communicating)
    ends, trimming = timed(lambda: diagnosis.n_end_components)
    _, deciding = timed(lambda: str(diagnosis))
    chain, averaging = timed(lambda: Policy.uniform(mdp).chain())
    eta, solving = timed(chain.stationary)
    # Relative to each entry: the sum of all flows into a state against the flow out of it.
    off = float(np.abs(chain.transitions.T @ eta / eta - 1.0).max())
    return {
        "build": (building, f"{mdp.n_pairs} pairs"),
        "strong components": (searching, f"communicating: {reachable}"),
        "end components": (trimming, f"{ends} of them"),
        "the rest of the diagnosis": (deciding, "every sentence"),
        "the uniform policy's chain": (averaging, ""),
        "its stationary distribution": (solving, f"relative imbalance {off:.1e}"),
    }


def pinned_lu(P: sp.csr_matrix) -> np.ndarray:
    """The usual way: (I − P)ᵀ with one state pinned, by SuperLU in its best ordering for it."""
    system = (sp.identity(P.shape[0]) - P).T.tocsc()
    factors = splu(
        system[1:, 1:].tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )  # fmt: skip
    eta = np.concatenate(([1.0], factors.solve(-system[1:, [0]].toarray().ravel())))
    return eta / eta.sum()


def chains(quick: bool) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for n in (10, 100) if quick else (10, 100, 1000):
        P = rng.random((n, n)) + 1e-3
        P /= P.sum(axis=1, keepdims=True)
        chain = Chain(P)
        yield Row(
            f"GTH elimination, {n} states",
            median_seconds(lambda P=P: DenseElimination(P).stationary()),
            "QuantEcon, gth_solve",
            median_seconds(lambda P=P: quantecon.gth_solve(P)),
        )
        second = np.sort(np.abs(np.linalg.eigvals(P)))[-2]
        yield Row(
            f"SLEM, dense, {n} states",
            median_seconds(lambda P=P: Chain(P).slem, repeat=3),
            "numpy, eigvals",
            median_seconds(lambda P=P: np.linalg.eigvals(P), repeat=3),
            note=f"differ by {abs(chain.slem - second):.0e}; ours validates, and finds the classes",
        )
    side = 60 if quick else 300
    P = Policy.uniform(grid_survey(side, side, obstacles=0.1, slip=0.1).mdp).transition_matrix()
    apart = float(np.abs(Chain(P).stationary() / pinned_lu(P) - 1.0).max())
    yield Row(
        f"stationary, map of {P.shape[0]} sites",
        median_seconds(lambda: Chain(P).stationary(), repeat=3),
        "SuperLU, one state pinned",
        median_seconds(lambda: pinned_lu(P), repeat=3),
        note=f"entries differ by {apart:.0e}",
    )
    chain = Chain(P)
    chain.stationary()
    yield Row(
        f"hitting times, map of {P.shape[0]} sites",
        median_seconds(lambda: chain.hitting_times(0), repeat=3),
        "SuperLU",
        median_seconds(
            lambda: splu(
                (sp.identity(P.shape[0] - 1) - P[1:, 1:]).tocsc(), permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0, options={"SymmetricMode": True},
            ).solve(np.ones(P.shape[0] - 1)),
            repeat=3,
        ),
    )  # fmt: skip
    yield Row(
        f"visit variance, map of {P.shape[0]} sites",
        median_seconds(chain.visit_variance, repeat=1),
        note="the diagonal of the fundamental matrix",
    )


def rows(quick: bool) -> Iterator[Row]:
    side = 20 if quick else 40
    text = "\n".join(["." * side] * side)
    ours = median_seconds(lambda: MDP.from_grid(text))
    rival = median_seconds(lambda: MDP.from_array(dense_grid(side)), repeat=3)
    yield Row(f"from_grid, {side}×{side}", ours, "dense array, cell by cell", rival)

    side = 100 if quick else 1000
    for slip in (0.0, 0.05):
        run = in_fresh_process(survey, side, slip)
        n_states, nnz = run.value
        note = f"{nnz} transitions"
        yield Row(f"grid_survey, {n_states} sites, slip {slip}", run.seconds, note=note,
                  peak_mib=run.peak_mib)  # fmt: skip
    for slip in (0.0, 0.05):
        run = in_fresh_process(survey_asked, side, slip)
        for work, (seconds, note) in run.value.items():
            yield Row(f"{side * side} sites, slip {slip}: {work}", seconds, note=note,
                      peak_mib=run.peak_mib)  # fmt: skip
    yield from chains(quick)
