"""``sojourn demo``: a survey from map to plan, on a made-up area."""

from __future__ import annotations

import click
import numpy as np

from sojourn import instances
from sojourn.cli.inspect import describe
from sojourn.cli.output import cells_of, console, draw_map
from sojourn.importing import Site
from sojourn.model import Policy
from sojourn.planning import optimal_plan


@click.command()
@click.option("--seed", default=0, show_default=True, help="Another area.")
def demo(seed: int) -> None:
    """A survey from map to plan, on a made-up area with obstacles and unreliable moves."""
    out = console()
    world = instances.grid_survey(width=32, height=14, slip=0.1, field="patchy", seed=seed)
    mdp, variance = world.mdp, world.variance
    site = Site.from_mdp(mdp, title="a survey among islands", variance=variance, mean=world.mean)
    describe(site, out)

    plan = optimal_plan(mdp, variance)
    eta = Policy.uniform(mdp).chain().stationary()
    wandering = float(np.mean(variance / eta))
    out.print()
    out.print("Wandering about, every action as likely as the other, samples all sites alike;")
    out.print("the plan stays where samples are noisy:")
    out.print()
    cells = cells_of(mdp, out.width)
    if cells is not None:
        out.print(draw_map(cells, plan.distribution, "part of the time, by the plan"))
        out.print()
    out.print(f"loss of wandering  {wandering:10.1f}   (error after n samples is about loss / n)")
    out.print(
        f"loss of the plan   {plan.loss:10.1f}   (no plan can do better than {plan.bound:.1f})"
    )
    saved = 1 - plan.loss / wandering
    out.print(f"The plan needs {saved:.0%} fewer samples for the same precision.")
