"""Planning when the variances are known: optima, and what surrounds them."""

from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.optimal import optimal_plan
from sojourn.planning.plan import Plan, Stats, Status

__all__ = ["Certificate", "Plan", "Stats", "Status", "certify", "optimal_plan"]
