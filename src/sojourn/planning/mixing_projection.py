"""Step 2 of FMH: from a chain on the moves of a world to a policy in it.

Step 1 (App. fast_mixing_heuristic) returns a reversible chain P₁ with distribution η₁ and flow
X₁ = D_{η₁} P₁ that uses only possible moves, but not necessarily in proportions that some
action has. Two ways back into the world:

    "residual"    𝒫₂ as the paper writes it: min over policies π of ‖η₁ − η₁P_π‖₂².
    "occupancy"   min ‖η_λ − η₁‖₂ over λ ∈ Λ with η_λ ≥ floor; among the minimisers the one
                  whose flow X(λ) is closest to X₁.

We prefer the second. The proof of Lem. performance_loss_fmh needs a policy whose stationary
distribution is the closest to η₁; the residual measures one step only, and where it can't be
made zero its minimisers may have a stationary distribution far away. Nor does 𝒫₂ know the
chain P₁, the point of step 1: of all policies with the right distribution it may return one that
mixes badly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.arguments import choice
from sojourn.errors import InfeasibleFloor
from sojourn.model import MDP, Policy
from sojourn.planning.steady_state import project_onto_stationary
from sojourn.solvers.feasibility import quadratic_program

Array = NDArray[np.float64]

PROJECTIONS = ("occupancy", "residual")

# A squared distance is multiplied by this before the solver's tolerance of 1e-10 applies to it,
# so distributions are found to about 1e-7; within that two of them count as the same.
_NEAR = 1e4
_SAME = 1e-7


def check_projection(projection: str) -> None:
    choice(projection, "projection", PROJECTIONS)


def closest_occupancy(mdp: MDP, flow: Array, floor: Array) -> Array:
    """The occupancy whose distribution is the closest to the row sums of ``flow`` (dense S × S),
    and among those the one whose own flow is the closest to it."""
    projected = project_onto_stationary(mdp, flow.sum(axis=1), floor)
    tied = _closest_flow(_Stationary(mdp), flow, projected.distribution)
    return projected.occupancy if tied is None else tied


def quick_closest_occupancy(mdp: MDP, flow: Array, floor: Array) -> Array:
    """The same to 1e-7 and without a proof, in a few milliseconds where S is small."""
    known = _Stationary(mdp)
    m = mdp.n_pairs
    least, at_least = np.vstack([-np.eye(m), -known.collect]), np.append(np.zeros(m), -floor)
    found = quadratic_program(
        known.collect, flow.sum(axis=1), known.equal, known.right, least, at_least, _NEAR
    )
    if found is None:
        raise InfeasibleFloor(
            f"no stationary distribution stays above the floor {np.max(floor):g}",
            "choose a smaller floor",
        )
    tied = _closest_flow(known, flow, known.collect @ found)
    return found if tied is None else tied


class _Stationary:
    """Λ in dense matrices: λ ≥ 0 with ``equal`` λ = ``right``; ``collect`` λ = η_λ."""

    def __init__(self, mdp: MDP) -> None:
        n, m = mdp.n_states, mdp.n_pairs
        self.adjacency = mdp.adjacency
        self.moves = mdp.transitions.toarray()
        self.collect = np.equal(np.arange(n)[:, None], mdp.pair_state).astype(float)
        self.equal = np.vstack([self.collect - self.moves.T, np.ones(m)])
        self.right = np.append(np.zeros(n), 1.0)


def _closest_flow(known: _Stationary, flow: Array, distribution: Array) -> Array | None:
    """The occupancy with that distribution (to 1e-7) whose flow X(λ) is the closest in ℓ₂."""
    rows, columns = known.adjacency.nonzero()
    collect, m = known.collect, known.collect.shape[1]
    # Entry (s, s') of X(λ) is Σ_a λ(s,a) p(s'|s,a).
    F = known.moves[:, columns].T * collect[rows]
    within = np.concatenate([np.zeros(m), distribution + _SAME, _SAME - distribution])
    around = np.vstack([-np.eye(m), collect, -collect])
    return quadratic_program(F, flow[rows, columns], known.equal, known.right, around, within)


def least_residual(mdp: MDP, distribution: Array) -> Policy:
    """𝒫₂: the policy after one step of which ``distribution`` has changed least (ℓ₂)."""
    n, m = mdp.n_states, mdp.n_pairs
    onward = mdp.transitions.toarray().T * mdp.to_pairs(distribution)
    collect = np.equal(np.arange(n)[:, None], mdp.pair_state).astype(float)
    found = quadratic_program(
        onward, distribution, collect, np.ones(n), -np.eye(m), np.zeros(m), _NEAR
    )
    assert found is not None, "every policy is feasible"
    probability = np.maximum(found, 0.0)
    return Policy(mdp, probability / mdp.to_pairs(mdp.state_sums(probability)))
