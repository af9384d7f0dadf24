"""``sojourn simulate``: strategies on a site, or a whole study."""

from __future__ import annotations

from pathlib import Path

import click

from sojourn.cli.output import print_json
from sojourn.cli.sites import open_site
from sojourn.cli.sweeping import Sweeps, sweeping
from sojourn.errors import ArgumentError
from sojourn.experiments import Experiment, load_study
from sojourn.experiments.analysis import study_report
from sojourn.experiments.study import is_study, study_of_site

STRATEGIES = ("uniform", "fw-ame", "lookahead")


@click.command()
@click.argument("what", metavar="SITE|STUDY.toml")
@click.option(
    "--budget",
    "budgets",
    type=click.IntRange(min=1),
    multiple=True,
    help="Steps; may be given again.",
)
@click.option(
    "--strategy",
    "names",
    multiple=True,
    help=f"May be given again; by default {', '.join(STRATEGIES)}.",
)
@click.option("--runs", type=click.IntRange(min=1), help="Walks for each; by default 20.")
@click.option("--seed", type=click.IntRange(min=0), help="By default 0.")
@click.option(
    "--variance",
    type=click.FloatRange(min=0.0),
    help="The noise where the site has no guess of it.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of results; a second run goes on there. A study's is out by default, "
    "of a site nothing is kept.",
)
@sweeping
def simulate(
    what: str, budgets: tuple[int, ...], names: tuple[str, ...], runs: int | None,
    seed: int | None, variance: float | None, out: Path | None, workers: int | None,
    dask: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Simulate strategies on a SITE, or sweep the worlds, strategies and budgets of a study.

    The noise of a site's guesses is the truth here, and the strategies don't know it.
    """
    path = Path(what)
    if path.suffix == ".toml" and is_study(path):
        given = {"--budget": budgets, "--strategy": names, "--runs": runs, "--seed": seed,
                 "--variance": variance}  # fmt: skip
        for option, value in given.items():
            if value not in (None, ()):
                raise ArgumentError(f"{option} was given for a study", f"write it into {path.name}")
        experiment, out = load_study(path), out or Path("out")
    elif path.suffix == ".toml" and not path.exists():
        raise ArgumentError(f"there is no file {what!r}", "give a site file or a study")
    else:
        experiment = _of_site(what, budgets, names or STRATEGIES, runs or 20, seed or 0, variance)
        if dask is None:
            # A site has a cell per strategy: starting processes would take longer than they do.
            workers = workers or 1
    sweeps = Sweeps(workers, dask, quiet=as_json)
    rows = sweeps.run(experiment, None if out is None else out / "sweeps" / experiment.id)
    name = experiment.id.replace("/", "-")
    answer = sweeps.answer(study_report(rows, experiment.title), (experiment,), out, name)
    if as_json:
        print_json(answer)


def _of_site(
    what: str, budgets: tuple[int, ...], names: tuple[str, ...], runs: int, seed: int,
    variance: float | None,
) -> Experiment:  # fmt: skip
    site = open_site(what)
    if not budgets:
        raise ArgumentError("simulating a site needs a budget", "add --budget 500")
    return study_of_site(site, names, budgets, runs, seed, variance)
