"""Planning when the variances are known: optima, and what surrounds them."""

from sojourn.planning.budget import BudgetPlan, BudgetStatus, budget_plan
from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.exact_dp import ExactOptimum, exact_optimum
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
from sojourn.planning.regularized import regularized_plan

__all__ = [
    "BudgetPlan", "BudgetStatus", "Certificate", "ExactOptimum", "FiniteBound", "LossGradient",
    "Plan", "Stats", "Status", "VisitFacts", "budget_plan", "certify", "distribution_range",
    "exact_optimum", "finite_bound", "finite_loss", "finite_loss_gradient", "largest_floor",
    "linear_oracle", "linear_result", "optimal_plan", "regularized_plan", "visit_facts",
]  # fmt: skip
