"""``sojourn demo``: the main job on the bundled harbour, from map to report."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from rich.console import Console

import sojourn
from sojourn.campaign.forecast import forecast, rehearsed
from sojourn.campaign.rehearse import imagine, rehearse, verdict
from sojourn.cli.inspect import describe
from sojourn.cli.output import console
from sojourn.importing import Site, load_site
from sojourn.learning import Lawnmower, Lookahead, Uniform
from sojourn.model import World
from sojourn.plots.svg import number

HARBOUR = Path(sojourn.__file__).parent / "importing" / "examples" / "harbour.toml"


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Where the campaign and its report go.",
)
@click.option("--budget", default=3000, show_default=True, help="Steps of the rehearsed campaign.")
@click.option("--seed", default=0, show_default=True, help="Another truth.")
def demo(out: Path, budget: int, seed: int) -> None:
    """Survey a harbour: read the map, plan, compare strategies, rehearse a campaign, report.

    Every error shown after the plan is the same quantity on the same invented harbour: by how
    much the finished map is off, on average over all sites.
    """
    say = console()
    began = time.perf_counter()
    site = load_site(HARBOUR)
    say.rule("1. the map", align="left")
    describe(site, say)

    say.rule("2. what to expect", align="left")
    truth = imagine(site, seed)
    _expect(say, site, truth, budget)

    say.rule("3. who comes near that, not knowing the noise?", align="left")
    say.print("How far is the finished map from the truth, on average over all sites? Where "
              "nothing was measured, the map shows the average of the rest.")  # fmt: skip
    for strategy in (Uniform(), Lawnmower(), Lookahead()):
        found = rehearsed(site, budget, runs=2, strategy=strategy, seed=seed, truth=truth)
        missed = f"{number(found.unvisited)} sites never measured" if found.unvisited else (
            "every site measured"
        )  # fmt: skip
        home = "" if found.at_home is None else ", home" if found.at_home == 1 else ", not home"
        say.print(f"  {strategy.name:>10}  ±{number(found.mean_error)} {site.unit}, {missed}{home}",
                  markup=False)  # fmt: skip

    say.rule("4. a campaign in the same harbour, step by step", align="left")
    out.mkdir(parents=True, exist_ok=True)
    file = out / "harbour.sojourn"
    for old in out.glob("harbour.sojourn*"):
        old.unlink()
    shown = 3

    def narrate(campaign: sojourn.Campaign) -> None:
        if campaign.steps <= shown:
            visit = campaign.ledger.path[-1]
            say.print(f"  step {visit.step}: measured {site.names[visit.state]}", markup=False)
        elif campaign.steps % max(1, budget // 5) == 0:
            status = campaign.status()
            say.print(f"  step {campaign.steps}: {status['sites_measured']} of {status['sites']} "
                      "sites measured", markup=False)  # fmt: skip

    campaign, _ = rehearse(file, site, budget, seed=seed, world=truth, on_step=narrate)
    with campaign:
        result = verdict(campaign, truth)
        say.print(f"  {campaign.why_stop()}; the boat is "
                  f"{'home' if result['at_home'] else 'not home'}", markup=False)  # fmt: skip
        held = f"{100 * result['covered']:.0f} %"
        say.print(f"  the map is off by ±{number(result['true_error'])} {site.unit} on average; "
                  f"{held} of the 95 % intervals hold the truth", markup=False)  # fmt: skip
        report = campaign.report(out / "harbour.html")

    say.rule("where to look", align="left")
    say.print(f"  report    {report}", markup=False, soft_wrap=True)
    say.print(
        f"  campaign  {file}   (sojourn campaign status {file})", markup=False, soft_wrap=True
    )
    say.print(f"  {time.perf_counter() - began:.0f} s")


def _expect(say: Console, site: Site, truth: World, budget: int) -> None:
    """The forecast by the guess, then the yardstick: that by a truth nobody is told."""
    guess = forecast(site, budget)
    say.print(f"The crew guesses how much one reading scatters. If that were right, {budget} steps "
              f"would leave an error of ±{number(guess.mean_error)} {site.unit} on average at "
              "best.", markup=False)  # fmt: skip
    known = forecast(replace(site, variance=truth.variance), budget)
    low, high = np.sqrt(np.quantile(truth.variance, [0.05, 0.95]))
    say.print(f"To practise we invent a truth that nobody is told: one reading scatters by "
              f"±{number(low)} {site.unit} at some sites, by ±{number(high)} at others. Even for a "
              f"crew that knew all this no plan leaves less than ±{number(known.mean_error)} "
              f"{site.unit} on average (proved to {max(100 * known.plan.gap, 1e-7):.0e} %).",
              markup=False)  # fmt: skip
