"""Every bound and constant of the paper as a function.

    mixing      how far frequencies are from the stationary distribution
    loss        what a budget adds to the asymptotic loss; smoothness; the bandit bounds
    regret      the proof of Thm. thm:regret_FWAME, piece by piece
    policies    constants over all policies: η_min exactly, γ_min from above

Each function names its label and checks its assumptions when called: a bound for reversible
chains refuses another chain and names the bound to use instead.
"""

from sojourn.theory.loss import (
    bandit_fast_bound,
    bandit_slow_bound,
    fmh_bound,
    loss_deviation,
    regularised_bound,
    smoothness,
)
from sojourn.theory.mixing import (
    frequency_bias,
    frequency_deviation,
    frequency_tail_nonreversible,
    unvisited_bound,
    unvisited_cost_bound,
)
from sojourn.theory.policies import eta_min, gamma_min_upper
from sojourn.theory.regret import (
    beta,
    burn_in,
    episode_end,
    episode_length,
    first_good_episode,
    log_cover,
    recurrence,
    regret_bound,
    theta,
    theta_euler,
    uniform_deviation,
    visit_ratio_bound,
    visit_ratio_maximum,
    width,
)

__all__ = [
    "bandit_fast_bound", "bandit_slow_bound", "beta", "burn_in", "episode_end", "episode_length",
    "eta_min", "first_good_episode", "fmh_bound", "frequency_bias", "frequency_deviation",
    "frequency_tail_nonreversible", "gamma_min_upper", "log_cover", "loss_deviation",
    "recurrence", "regret_bound", "regularised_bound", "smoothness", "theta", "theta_euler",
    "uniform_deviation", "unvisited_bound", "unvisited_cost_bound", "visit_ratio_bound",
    "visit_ratio_maximum", "width",
]  # fmt: skip
