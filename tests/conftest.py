"""Settings that every test runs under."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A first example compiles numba kernels and machines differ: time says nothing about a property.
settings.register_profile(
    "sojourn",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
    # Elsewhere every run looks at new examples; what a change has to pass is always the same.
    derandomize="CI" in os.environ,
)
settings.load_profile("sojourn")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190219)
