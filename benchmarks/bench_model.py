"""How long it takes to build models, and what memory that needs.

The million-site survey is the largest that the house promises to handle: build it, say what can
be reached, find where the uniform policy spends its time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Row, in_fresh_process, median_seconds

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


def survey_asked(side: int) -> float:
    """Build, diagnose reachability, and find the uniform policy's stationary distribution."""
    mdp = grid_survey(side, side, obstacles=0.0, slip=0.0).mdp
    assert mdp.restricted_to_reachable(0).n_states == mdp.n_states
    eta = Policy.uniform(mdp).chain().stationary()
    return float(abs(eta.sum() - 1.0))


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
    run = in_fresh_process(survey_asked, side)
    yield Row(f"build, reach, stationary, {side * side} sites", run.seconds, peak_mib=run.peak_mib,
              note=f"Ση − 1 = {run.value:.1e}; compilation counts")  # fmt: skip
