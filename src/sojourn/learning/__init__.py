"""Strategies: what to do next when the variances are unknown.

    Uniform, Fixed, Oracle   yardsticks that don't learn

A strategy is any object with the protocol in :mod:`sojourn.learning.strategy`.
"""

from sojourn.learning.simple import Fixed, Oracle, Uniform
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Strategy, Task

__all__ = [
    "FOREVER", "Decision", "Fixed", "Observations", "Oracle", "State", "Strategy", "Task",
    "Uniform",
]  # fmt: skip
