"""sojourn decides where a measuring agent should go next when every sample costs a step.

The public surface, lazily imported: ``import sojourn as sj`` loads no heavy dependency.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sojourn._version import __version__

_WHERE = {
    "MDP": "model", "Policy": "model", "World": "model",
    "PriorSample": "model", "VisitsOnly": "model",
    "Chain": "chains",
    "linear_oracle": "planning",
    "optimal_plan": "planning", "Plan": "planning",
    "faster_mixing_plan": "planning", "finite_loss": "planning", "budget_plan": "planning",
    "steady_state_policy": "planning", "apportion": "planning",
    "simulate": "simulation", "Simulation": "simulation",
    "Uniform": "learning", "Fixed": "learning", "Oracle": "learning", "FrankWolfe": "learning",
    "Lookahead": "learning", "Bandit": "learning",
    "Campaign": "campaign", "load_site": "importing",
    "SojournError": "errors", "ArgumentError": "errors", "ModelError": "errors",
    "InfiniteLoss": "errors", "InfeasibleFloor": "errors",
}  # fmt: skip
_ROOMS = ("chains", "errors", "instances", "learning", "model", "planning", "plots",
          "simulation", "solvers", "testing", "theory")  # fmt: skip

__all__ = ["__version__", *sorted(_WHERE), *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"sojourn.{_WHERE[name]}"), name)
    if name in _ROOMS:
        return import_module(f"sojourn.{name}")
    raise AttributeError(f"module 'sojourn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
