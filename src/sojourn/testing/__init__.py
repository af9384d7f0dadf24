"""What tests of sojourn, and of strategies written elsewhere, are made with.

:mod:`~sojourn.testing.generators` draws models, policies and variances from a NumPy
generator; :mod:`~sojourn.testing.arbitrary` offers the same to hypothesis (``mdps``,
``policies``, ``variances``, ...), which is imported only when one of them is asked for;
:mod:`~sojourn.testing.strategies` is the contract of a strategy (``check_strategy``).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "KINDS": "generators", "COMMUNICATING": "generators",
    "random_mdp": "generators", "random_policy": "generators",
    "random_variance": "generators", "random_stochastic": "generators",
    "random_reversible": "generators",
    "mdps": "arbitrary", "policies": "arbitrary", "variances": "arbitrary",
    "distributions": "arbitrary", "worlds": "arbitrary",
    "stochastic_matrices": "arbitrary", "reversible_chains": "arbitrary",
    "BrokenContract": "strategies", "STRATEGY_CHECKS": "strategies", "SlowWalks": "strategies",
    "check_strategy": "strategies",
}  # fmt: skip

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"sojourn.testing.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'sojourn.testing' has no attribute {name!r}")
