"""Hypothesis strategies over :mod:`sojourn.testing.generators`.

Hypothesis draws what is worth shrinking (kind and size) and a seed for the numbers, so a
failing example is small, and the ``seed`` printed with it rebuilds it bit for bit. ("Strategy"
is hypothesis' word here; sojourn's own strategies live in :mod:`sojourn.learning`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import need
from sojourn.model import MDP, Policy, World
from sojourn.testing.generators import (
    COMMUNICATING,
    KINDS,
    random_mdp,
    random_policy,
    random_reversible,
    random_stochastic,
    random_variance,
)

try:
    from hypothesis import strategies as st
except ImportError:
    raise need("hypothesis", "test", "drawing arbitrary models for tests") from None


def _rngs() -> Any:
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def mdps(
    draw: Any,
    *,
    kinds: Sequence[str] = KINDS,
    communicating: bool = False,
    min_states: int = 1,
    max_states: int = 6,
    max_actions: int = 3,
) -> MDP:
    """Models of the given kinds; ``communicating`` keeps only the kinds that always are."""
    allowed = [k for k in kinds if k in COMMUNICATING] if communicating else list(kinds)
    kind = draw(st.sampled_from(allowed))
    n_states = draw(st.integers(min_states, max_states))
    return random_mdp(kind, n_states, draw(st.integers(1, max_actions)), draw(_rngs()))


@st.composite
def policies(draw: Any, mdp: MDP, *, positive: bool = False) -> Policy:
    """Stationary policies of ``mdp``, with zeros unless ``positive``."""
    return random_policy(mdp, draw(_rngs()), positive=positive)


@st.composite
def variances(draw: Any, n_states: int, *, ratio: float = 1e12) -> NDArray[np.float64]:
    """Positive variances, the largest up to ``ratio`` times the smallest."""
    return random_variance(n_states, draw(_rngs()), ratio=ratio)


@st.composite
def distributions(draw: Any, n_states: int, *, positive: bool = False) -> NDArray[np.float64]:
    """Distributions over states; some are a single state, unless ``positive``."""
    rng = draw(_rngs())
    if not positive and draw(st.booleans()):
        return np.eye(1, n_states, int(rng.integers(n_states))).ravel()
    return rng.dirichlet(np.full(n_states, 0.5)) * (1 - 1e-3) + 1e-3 / n_states


@st.composite
def worlds(draw: Any, *, ratio: float = 1e12, **which: Any) -> World:
    """Worlds on models drawn by :func:`mdps` (which takes the other arguments)."""
    mdp = draw(mdps(**which))
    rng = draw(_rngs())
    variance = random_variance(mdp.n_states, rng, ratio=ratio)
    mean = rng.normal(size=mdp.n_states) * np.sqrt(variance.max())
    return World(mdp, mean=mean, variance=variance)


@st.composite
def stochastic_matrices(
    draw: Any, *, kinds: Sequence[str] = KINDS, min_states: int = 1, max_states: int = 8
) -> NDArray[np.float64]:
    """Dense stochastic matrices with the structure of the given kinds."""
    n_states = draw(st.integers(min_states, max_states))
    return random_stochastic(n_states, draw(_rngs()), kind=draw(st.sampled_from(list(kinds))))


@st.composite
def reversible_chains(
    draw: Any, *, min_states: int = 1, max_states: int = 8, ratio: float = 1e6
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Irreducible reversible matrices with their stationary distribution in closed form."""
    n_states = draw(st.integers(min_states, max_states))
    return random_reversible(n_states, draw(_rngs()), ratio=ratio)
