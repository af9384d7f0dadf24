"""Worlds from elsewhere: a gymnasium game and a networkx graph.

FrozenLake slips in two of three moves, and its holes end the game, which starts again. How well
can the value at every cell be known after n steps?
"""

import networkx as nx
import numpy as np

import sojourn as sj

lake = sj.instances.frozen_lake()
print(f"FrozenLake: {lake.mdp.n_states} states")
for strategy in (sj.Uniform(), sj.Lookahead()):
    result = sj.simulate(lake, strategy, 2000, runs=20, seed=0)
    print(f"  {strategy.name:>10}: n·loss {result.allocation_loss.mean():8.1f}")

graph = nx.random_regular_graph(3, 20, seed=4)
mdp = sj.MDP.from_networkx(graph)
variance = np.random.default_rng(4).uniform(0.1, 5.0, mdp.n_states)
plan = sj.optimal_plan(mdp, variance, budget=200)
print(f"a network of 20 probes: loss {plan.loss:.2f}, proved to {plan.gap:.0e}")
for note in plan.notes:
    print("  note:", note)
