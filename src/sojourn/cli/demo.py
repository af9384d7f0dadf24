"""``sojourn demo``: the main job on the bundled harbour, from map to report."""

from __future__ import annotations

import time
from pathlib import Path

import click

import sojourn
from sojourn.campaign.forecast import forecast, rehearsed
from sojourn.campaign.rehearse import rehearse, verdict
from sojourn.cli.inspect import describe
from sojourn.cli.output import console
from sojourn.importing import load_site
from sojourn.learning import Lawnmower, Lookahead, Uniform
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
@click.option("--budget", default=1500, show_default=True, help="Steps of the rehearsed campaign.")
@click.option("--seed", default=0, show_default=True, help="Another truth.")
def demo(out: Path, budget: int, seed: int) -> None:
    """Survey a harbour: read the map, plan, compare strategies, rehearse a campaign, report."""
    say = console()
    began = time.perf_counter()
    site = load_site(HARBOUR)
    say.rule("1. the map", align="left")
    describe(site, say)

    say.rule("2. what to expect", align="left")
    plan = forecast(site, budget)
    say.print(f"With {budget} steps and the noise known, no plan leaves less than "
              f"±{number(plan.mean_error)} {site.unit} on average (proved to "
              f"{100 * plan.plan.gap:.1g} %).", markup=False)  # fmt: skip

    say.rule("3. who comes near that, not knowing the noise?", align="left")
    for strategy in (Uniform(), Lawnmower(), Lookahead()):
        found = rehearsed(site, budget, runs=2, strategy=strategy, seed=seed)
        where = (
            f" where it went; {number(found.unvisited)} sites never measured"
            if found.unvisited else " everywhere"
        )  # fmt: skip
        home = "" if found.at_home is None else ", home" if found.at_home == 1 else ", not home"
        say.print(f"  {strategy.name:>10}  ±{number(found.mean_error)} {site.unit}{where}{home}",
                  markup=False)  # fmt: skip

    say.rule("4. a campaign, rehearsed on an invented truth", align="left")
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

    campaign, truth = rehearse(file, site, budget, seed=seed, on_step=narrate)
    with campaign:
        result = verdict(campaign, truth)
        say.print(f"  {campaign.why_stop()}; the boat is "
                  f"{'home' if result['at_home'] else 'not home'}", markup=False)  # fmt: skip
        held = f"{100 * result['covered']:.0f} %"
        say.print(f"  error against the truth ±{number(result['true_error'])} {site.unit}; "
                  f"{held} of the 95 % intervals hold it", markup=False)  # fmt: skip
        report = campaign.report(out / "harbour.html")

    say.rule("where to look", align="left")
    say.print(f"  report    {report}", markup=False, soft_wrap=True)
    say.print(
        f"  campaign  {file}   (sojourn campaign status {file})", markup=False, soft_wrap=True
    )
    say.print(f"  {time.perf_counter() - began:.0f} s")
