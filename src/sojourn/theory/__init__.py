"""Every bound and constant of the paper as a function.

    mixing      how far frequencies are from the stationary distribution
    loss        what a budget adds to the asymptotic loss; smoothness; the bandit bounds
    regret      the proof of Thm. thm:regret_FWAME, piece by piece
    policies    constants over all policies: η_min exactly, γ_min from above; reversibility

A chain is given as a :class:`sojourn.Chain`, as the policy that induces it or as its matrix.
Each function names its label and checks its assumptions when called: a bound for reversible
chains refuses another chain and names the bound to use instead. Where the paper's formula does
not hold, the default is the mended one, and ``as_printed=True`` gives what the paper prints.
"""

from sojourn.theory.loss import (
    asymptotic_bound,
    bandit_fast_bound,
    bandit_slow_bound,
    fmh_bound,
    loss_deviation,
    loss_deviation_nonreversible,
    regularized_bound,
    smoothness,
)
from sojourn.theory.mixing import (
    frequency_bias,
    frequency_deviation,
    frequency_deviation_nonreversible,
    frequency_tail_nonreversible,
    unvisited_bound,
    unvisited_cost_bound,
)
from sojourn.theory.policies import (
    SmallestShare,
    SmallGap,
    eta_min,
    every_policy_reversible,
    gamma_min_upper,
)
from sojourn.theory.regret import (
    beta,
    burn_in,
    episode_length,
    episode_start,
    first_floored_episode,
    first_good_episode,
    log_cover,
    recurrence,
    regret_bound,
    theta,
    theta_euler,
    uniform_deviation,
    visit_ratio_bound,
    visit_ratio_maximum,
    visit_weights,
    visit_weights_bound,
    width,
)

__all__ = [
    "SmallGap", "SmallestShare", "asymptotic_bound", "bandit_fast_bound", "bandit_slow_bound",
    "beta", "burn_in", "episode_length", "episode_start", "eta_min", "every_policy_reversible",
    "first_floored_episode", "first_good_episode", "fmh_bound", "frequency_bias",
    "frequency_deviation", "frequency_deviation_nonreversible", "frequency_tail_nonreversible",
    "gamma_min_upper", "log_cover", "loss_deviation", "loss_deviation_nonreversible",
    "recurrence", "regret_bound", "regularized_bound", "smoothness", "theta", "theta_euler",
    "uniform_deviation", "unvisited_bound", "unvisited_cost_bound", "visit_ratio_bound",
    "visit_ratio_maximum", "visit_weights", "visit_weights_bound", "width",
]  # fmt: skip
