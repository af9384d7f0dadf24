"""Plan a survey of a grid, and read the proof of how good the plan is.

Sites are cells; moves sometimes slip; some sites are much noisier than others. The plan says what
share of the time to spend where, and no other plan can do better than its bound.
"""

import numpy as np

import sojourn as sj

mdp = sj.MDP.from_grid(
    """
    ......#....
    .####.#.##.
    .#..#...#..
    .#..###.#..
    ...........
    """,
    slip=0.1,
)
rng = np.random.default_rng(0)
variance = 10 ** rng.uniform(-2, 1, mdp.n_states)

print(mdp.diagnose())
print()

plan = sj.optimal_plan(mdp, variance)
print(plan)

# The certificate again, by hand: any other plan is at least as bad as the bound.
uniform = sj.Policy.uniform(mdp).chain().stationary()
wandering = np.mean(variance / uniform)
assert plan.bound <= plan.loss <= wandering
print(f"\nwandering about costs {wandering / plan.loss:.1f} times as much as the plan")

noisiest = int(np.argmax(variance))
print(
    f"the noisiest site {mdp.state_labels[noisiest]} gets {plan.distribution[noisiest]:.1%} of the "
    f"time, an average site {1 / mdp.n_states:.1%}"
)
