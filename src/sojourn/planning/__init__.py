"""Planning when the variances are known: optima, and what surrounds them."""

from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.finite import (
    LossGradient,
    VisitFacts,
    finite_loss,
    finite_loss_gradient,
    visit_facts,
)
from sojourn.planning.linear import distribution_range, largest_floor, linear_oracle, linear_result
from sojourn.planning.optimal import optimal_plan
from sojourn.planning.plan import Plan, Stats, Status

__all__ = [
    "Certificate", "LossGradient", "Plan", "Stats", "Status", "VisitFacts", "certify",
    "distribution_range", "finite_loss", "finite_loss_gradient", "largest_floor", "linear_oracle",
    "linear_result", "optimal_plan", "visit_facts",
]  # fmt: skip
