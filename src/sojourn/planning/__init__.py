"""Planning when the variances are known: optima, and what surrounds them."""

from sojourn.planning.apportionment import (
    apportion,
    bandit_allocation,
    bandit_counts,
    bandit_loss,
)
from sojourn.planning.budget import BudgetPlan, BudgetStatus, budget_plan
from sojourn.planning.certificate import Certificate, certify
from sojourn.planning.exact_dp import ExactOptimum, exact_optimum
from sojourn.planning.faster_mixing import (
    Mixing,
    MixingPlan,
    MixingTradeoff,
    faster_mixing_plan,
    fmh_sdp,
    mixing_tradeoff,
)
from sojourn.planning.fastest_chain import FastestChain, fastest_mixing_chain
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
from sojourn.planning.steady_state import (
    SteadyState,
    project_onto_stationary,
    steady_state_policy,
)

__all__ = [
    "BudgetPlan", "BudgetStatus", "Certificate", "ExactOptimum", "FastestChain", "FiniteBound",
    "LossGradient", "Mixing", "MixingPlan", "MixingTradeoff", "Plan", "Stats", "Status",
    "SteadyState", "VisitFacts", "apportion", "bandit_allocation", "bandit_counts",
    "bandit_loss", "budget_plan", "certify", "distribution_range", "exact_optimum",
    "faster_mixing_plan", "fastest_mixing_chain", "finite_bound", "finite_loss",
    "finite_loss_gradient", "fmh_sdp", "largest_floor", "linear_oracle", "linear_result",
    "mixing_tradeoff", "optimal_plan", "project_onto_stationary", "regularized_plan",
    "steady_state_policy", "visit_facts",
]  # fmt: skip
