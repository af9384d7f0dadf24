"""What moves and what is measured: MDP, Policy, World, counting and diagnosis."""

from sojourn.arguments import distribution, per_state
from sojourn.model.counting import Counting, PriorSample, VisitsOnly
from sojourn.model.diagnosis import Diagnosis
from sojourn.model.mdp import MDP, check_model
from sojourn.model.policy import Policy
from sojourn.model.reachability import EndComponent, maximal_end_components, strong_components
from sojourn.model.world import World

__all__ = [
    "MDP", "Counting", "Diagnosis", "EndComponent", "Policy", "PriorSample", "VisitsOnly", "World",
    "check_model", "distribution", "maximal_end_components", "per_state", "strong_components",
]  # fmt: skip
