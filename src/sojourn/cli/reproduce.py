"""``sojourn reproduce``: the paper's tables and figures, our numbers beside its."""

from __future__ import annotations

import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress

from sojourn._version import __version__
from sojourn.cli.output import print_json
from sojourn.experiments import Experiment, Row, save_table, sweep
from sojourn.experiments.analysis import REPORTS, Report, text
from sojourn.experiments.paper import FIGURES, definitions
from sojourn.plots.curves import draw

_choices = click.Choice([*FIGURES, "all"])


def wide(command: Any) -> Any:
    """Options of everything that sweeps."""
    for option in (
        click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("out"),
                     show_default=True, help="Folder of results; a second run goes on there."),
        click.option("--workers", default=1, show_default=True, help="Processes on this machine."),
        click.option("--dask", metavar="ADDRESS", help="A running dask scheduler."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("figure", type=_choices)
@click.option("--quick", is_flag=True, help="A small version, to see that it works.")
@wide
def reproduce(
    figure: str, quick: bool, out: Path, workers: int, dask: str | None, as_json: bool
) -> None:
    """Reproduce a table or figure of the paper: table, three-state, learning, theta, or all.

    Prints our numbers beside the paper's with standard errors, medians and maxima, says where
    they agree and where not, and writes figures, tables and definitions into --out.
    """
    answers = {}
    for name in FIGURES if figure == "all" else (figure,):
        began = time.perf_counter()
        rows = [
            row
            for experiment in definitions(name, quick=quick)
            for row in run(experiment, out, workers, dask, quiet=as_json)
        ]
        report: Report = REPORTS[name](rows)
        stem = out / (name + ("-quick" if quick else ""))
        written = write(report, stem)
        if as_json:
            answers[name] = {"table": report.table, "remarks": report.remarks,
                             "files": [str(path) for path in written]}  # fmt: skip
            continue
        click.echo(text(report))
        click.echo(f"\n{time.perf_counter() - began:.1f} s; wrote "
                   f"{', '.join(str(path) for path in written)}\n")  # fmt: skip
    if as_json:
        print_json(answers)


def run(
    experiment: Experiment, out: Path, workers: int, dask: str | None, *, quiet: bool
) -> list[Row]:
    """The rows of an experiment, with a progress bar."""
    with Progress(transient=True, disable=quiet) as bar:
        task = bar.add_task(experiment.title or experiment.id, total=len(experiment.cells))
        return sweep(
            experiment, out / experiment.id, workers=workers, dask=dask,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip


def write(report: Report, stem: Path) -> list[Path]:
    """Figures, table and text of a report; what was written."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = save_table(list(report.table), stem)
    made = (
        f"{datetime.now(UTC):%Y-%m-%d}, sojourn {__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}"
    )
    page = stem.with_suffix(".txt")
    page.write_text(f"{text(report)}\n\n{made}\n", encoding="utf-8")
    written.append(page)
    for name, record in report.figures.items():
        folder = stem.parent / "figures"
        folder.mkdir(exist_ok=True)
        label = name if stem.name.startswith(name.split("-")[0]) else f"{stem.name}-{name}"
        suffix = "-quick" if stem.name.endswith("-quick") else ""
        written += draw(record, folder / f"{label}{suffix}.png", folder / f"{label}{suffix}.svg")
    return written
