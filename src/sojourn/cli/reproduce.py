"""``sojourn reproduce``: the paper's tables and figures, our numbers beside its."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from sojourn.cli.output import print_json
from sojourn.cli.sweeping import Sweeps, sweeping
from sojourn.experiments.analysis import REPORTS
from sojourn.experiments.paper import FIGURES, definitions

SMALL = "This is the small version (--quick): too few walks for verdicts."


@click.command()
@click.argument("figure", metavar="FIGURE", type=click.Choice([*FIGURES, "all"]))
@click.option("--quick", is_flag=True, help="A small version, to see that it works.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out"),
              show_default=True, help="Folder of results; a second run goes on there.")  # fmt: skip
@sweeping
def reproduce(
    figure: str, quick: bool, out: Path, workers: int | None, dask: str | None, as_json: bool
) -> None:
    """Reproduce a table or figure of the paper.

    \b
    table        competitive ratios over 100 Garnets (Fig. table_rnl)
    three-state  what faster mixing is worth (Fig. plot_mixing_3state)
    learning     learning on a fast and on a slow world (Fig. plot_learning_mixing)
    theta        the exponent of the regret bound (Fig. fig:theta_m)
    rates        how fast learners approach the optimum, measured
    worlds       the search for the two worlds of `learning`
    all          all of these

    Prints our numbers beside the paper's with standard errors, medians and maxima, says where
    they agree and where not, and writes tables, figures and definitions into --out.
    """
    suffix = "-quick" if quick else ""
    answers = {}
    for k, name in enumerate(FIGURES if figure == "all" else (figure,)):
        if k and not as_json:
            click.echo()
        sweeps = Sweeps(workers, dask, quiet=as_json)
        experiments = definitions(name, quick=quick)
        rows = [row for e in experiments for row in sweeps.run(e, out / "sweeps" / e.id)]
        report, folder = REPORTS[name](rows), out
        if quick:
            report, folder = replace(report, remarks=(SMALL, *report.remarks)), out / "quick"
        answers[name] = sweeps.answer(report, experiments, folder, name + suffix)
    if as_json:
        print_json(answers)
