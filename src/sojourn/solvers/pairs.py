"""From probabilities of pairs to a dense chain, and from a slope in the chain back to pairs."""

from __future__ import annotations

from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def chain_of_pairs(
    pair_start: NDArray,
    probability: NDArray,
    indptr: NDArray,
    indices: NDArray,
    data: NDArray,
    P: NDArray,
) -> None:
    """P[s, s'] = Σ_a π(a|s) p(s'|s,a)."""
    P[:] = 0.0
    for s in range(P.shape[0]):
        for pair in range(pair_start[s], pair_start[s + 1]):
            weight = probability[pair]
            if weight > 0.0:
                for e in range(indptr[pair], indptr[pair + 1]):
                    P[s, indices[e]] += weight * data[e]


@njit(cache=True, nogil=True)
def pair_slopes(
    pair_start: NDArray,
    indptr: NDArray,
    indices: NDArray,
    data: NDArray,
    slope: NDArray,
    result: NDArray,
) -> None:
    """result[s, a] = Σ_s' p(s'|s,a) slope[s, s']."""
    for s in range(slope.shape[0]):
        for pair in range(pair_start[s], pair_start[s + 1]):
            total = 0.0
            for e in range(indptr[pair], indptr[pair + 1]):
                total += data[e] * slope[s, indices[e]]
            result[pair] = total
