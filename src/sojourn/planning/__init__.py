"""Planning when the variances are known: optima, and what surrounds them."""

from sojourn.planning.budget import BudgetPlan, BudgetStatus, budget_plan
from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.finite import (
    LossGradient,
    VisitFacts,
    finite_loss,
    finite_loss_gradient,
    visit_facts,
)
from sojourn.planning.finite_bound import FiniteBound, finite_bound
from sojourn.planning.linear import distribution_range, largest_floor, linear_oracle, linear_result
from sojourn.planning.optimal import optimal_plan
from sojourn.planning.plan import Plan, Stats, Status

__all__ = [
    "BudgetPlan", "BudgetStatus", "Certificate", "FiniteBound", "LossGradient", "Plan", "Stats", "Status", "VisitFacts", "budget_plan", "certify",
    "distribution_range", "finite_bound", "finite_loss", "finite_loss_gradient", "largest_floor", "linear_oracle",
    "linear_result", "optimal_plan", "visit_facts",
]  # fmt: skip
