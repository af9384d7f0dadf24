"""The best policy in the long run can be useless for a real budget.

On the three-state world of the paper the asymptotic optimum stays at one end almost for ever.
Here is what it is really worth after n steps, exactly, and what to do instead.
"""

import sojourn as sj

world = sj.instances.three_state()
mdp, variance = world.mdp, world.variance
plan = sj.optimal_plan(mdp, variance)
print(f"in the long run: {plan.loss:.4f}\n")

print(f"{'n':>5} {'optimal':>9} {'faster':>9} {'best':>9}   (exact normalised loss)")
for n in (20, 100, 1000):
    faster = sj.faster_mixing_plan(mdp, variance, n)
    best = sj.budget_plan(mdp, variance, n)
    losses = [sj.finite_loss(p, variance, n) for p in (plan.policy, faster.policy, best.policy)]
    print(f"{n:>5} " + " ".join(f"{loss:9.3f}" for loss in losses))
    assert losses[2] <= losses[1] + 1e-9
    assert losses[2] <= losses[0] + 1e-9

# A learner that replans while it walks is not bound to one stationary policy.
n = 100
learner = sj.simulate(world, sj.Lookahead(), n, runs=200, seed=0)
print(
    f"\nLookahead, which does not know the variances, at n = {n}: "
    f"{learner.allocation_loss.mean():.3f} ± {learner.standard_error('allocation')[0]:.3f}"
)
