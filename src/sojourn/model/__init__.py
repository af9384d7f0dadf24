"""What moves and what is measured: MDP, Policy, World, counting and diagnosis."""

from sojourn.model.counting import Counting, PriorSample, VisitsOnly
from sojourn.model.mdp import MDP, distribution, per_state
from sojourn.model.policy import Policy
from sojourn.model.world import World

__all__ = [
    "MDP", "Counting", "Policy", "PriorSample", "VisitsOnly", "World", "distribution", "per_state",
]  # fmt: skip
