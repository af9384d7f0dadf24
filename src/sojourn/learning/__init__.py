"""Strategies: what to do next when the variances are unknown.

    Uniform, Fixed, Oracle              yardsticks that don't learn
    FrankWolfe                          FW-AME of the paper, with or without FMH-SDP
    MaxEntropy, WeightedMaxEntropy      rivals that maximise an entropy
    AverageReward                       replans at every step as if the rewards stayed
    Lawnmower                           a short tour over all sites, repeated
    Bandit                              allocation without travel
    Lookahead                           plans for the counts so far and the steps left: the default

A strategy is any object with the protocol in :mod:`sojourn.learning.strategy`.
"""

from sojourn.learning.average_reward import AverageReward
from sojourn.learning.bandit import Bandit
from sojourn.learning.confidence_sets import BernsteinSet, ConfidenceSet, L1Set
from sojourn.learning.frank_wolfe import FrankWolfe
from sojourn.learning.lawnmower import Lawnmower
from sojourn.learning.lookahead import Lookahead
from sojourn.learning.maxent import MaxEntropy, WeightedMaxEntropy
from sojourn.learning.schedules import Constant, Cubic, Power, Schedule, Theorem
from sojourn.learning.simple import Fixed, Oracle, Uniform
from sojourn.learning.strategy import FOREVER, Decision, Observations, State, Strategy, Task
from sojourn.learning.variance_rules import ExperimentWidth, TheoryWidth

__all__ = [
    "FOREVER", "AverageReward", "Bandit", "BernsteinSet", "ConfidenceSet", "Constant", "Cubic",
    "Decision", "ExperimentWidth", "Fixed", "FrankWolfe", "L1Set", "Lawnmower", "Lookahead",
    "MaxEntropy", "Observations", "Oracle",
    "Power", "Schedule", "State", "Strategy", "Task", "Theorem", "TheoryWidth", "Uniform",
    "WeightedMaxEntropy",
]  # fmt: skip
