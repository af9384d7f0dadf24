"""``sojourn simulate``: strategies on a site, or a whole study."""

from __future__ import annotations

from pathlib import Path

import click

from sojourn.cli.output import print_json
from sojourn.cli.reproduce import run, wide, write
from sojourn.cli.sites import open_site
from sojourn.errors import ArgumentError
from sojourn.experiments import load_study
from sojourn.experiments.analysis import study_report, text
from sojourn.experiments.strategies import STRATEGIES, simulated, summary
from sojourn.experiments.study import is_study
from sojourn.model import World


@click.command()
@click.argument("what", metavar="SITE|STUDY.toml")
@click.option("--budget", "budgets", type=int, multiple=True, help="Steps; may be given again.")
@click.option("--strategy", "names", multiple=True, help="May be given again; default three.")
@click.option("--runs", default=20, show_default=True, help="Walks for each.")
@click.option("--seed", default=0, show_default=True)
@click.option("--variance", type=float, help="The noise where the site has no guess of it.")
@wide
def simulate(
    what: str, budgets: tuple[int, ...], names: tuple[str, ...], runs: int, seed: int,
    variance: float | None, out: Path, workers: int, dask: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Simulate strategies on a SITE, or sweep the worlds, strategies and budgets of a study.

    The noise of a site's guesses is the truth here, and the strategies don't know it.
    """
    if Path(what).suffix == ".toml" and is_study(Path(what)):
        experiment = load_study(Path(what))
        report = study_report(run(experiment, out, workers, dask, quiet=as_json))
        written = write(report, out / f"{experiment.id.replace('/', '-')}")
        if as_json:
            print_json({"table": report.table, "files": [str(path) for path in written]})
            return
        click.echo(text(report))
        click.echo(f"\nwrote {', '.join(str(path) for path in written)}")
        return
    if not budgets:
        raise ArgumentError("simulating a site needs a budget", "add --budget 500")
    site = open_site(what)
    start = site.start if site.start is not None else None
    world = World(site.mdp, 0.0, site.guessed_variance(variance), start=start)
    rows = []
    for name in names or ("uniform", "fw-ame", "lookahead"):
        if name not in STRATEGIES:
            raise ArgumentError(
                f"there is no strategy {name!r}", f"use some of {', '.join(STRATEGIES)}"
            )
        for n, simulation, k in simulated(
            world, name, list(budgets), runs, seed, weight=site.weight, progress=not as_json
        ):
            rows.append({"world": site.title, "strategy": name, "n": n} | summary(simulation, k))
    if as_json:
        print_json({"table": rows})
        return
    click.echo(text(study_report(rows)))
