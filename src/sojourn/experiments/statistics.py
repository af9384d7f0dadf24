"""What is said of numbers that scatter: never a mean alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sojourn.experiments.definition import Row


def spread(name: str, values: NDArray[np.float64]) -> Row:
    """Mean, standard error, median, 95 % quantile and maximum, always together."""
    return {
        name: float(values.mean()), f"{name}_se": standard_error(values),
        f"{name}_median": float(np.median(values)),
        f"{name}_q95": float(np.quantile(values, 0.95)), f"{name}_max": float(values.max()),
    }  # fmt: skip


def standard_error(values: NDArray[np.float64]) -> float | None:
    """Of the mean; None with a single value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None
