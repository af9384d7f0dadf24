"""What commands that sweep share: options, a progress bar, and what they print at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sojourn.errors import ArgumentError
from sojourn.experiments import Experiment, Row, sweep
from sojourn.experiments.analysis import Report, text
from sojourn.experiments.provenance import Made, cores, in_words, made
from sojourn.experiments.publish import publish
from sojourn.experiments.sweep import by, history


def sweeping(command: Any) -> Any:
    """Options of everything that sweeps."""
    for option in (
        click.option("--workers", type=click.IntRange(min=1), metavar="N",
                     help="Processes on this machine; by default one per core."),
        click.option("--dask", metavar="ADDRESS", help="A running dask scheduler does the work."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ):  # fmt: skip
        command = option(command)
    return command


@dataclass
class Sweeps:
    """Several sweeps, and what they cost together."""

    workers: int | None
    dask: str | None
    quiet: bool
    began: float = field(default_factory=time.perf_counter)
    computed: int = 0
    cells: int = 0
    runs: list[Made] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.workers is not None and self.dask is not None:
            raise ArgumentError(
                "both --workers and --dask were given", "processes here, or the cluster's: choose"
            )
        if self.workers is None:
            # More than one process is joblib's work, which is an extra.
            self.workers = cores() if find_spec("joblib") else 1

    def run(self, experiment: Experiment, folder: Path | None) -> list[Row]:
        """The rows of an experiment, with a progress bar where somebody sees it."""
        assert self.workers is not None
        first: list[int] = []
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TimeElapsedColumn(), TimeRemainingColumn())  # fmt: skip
        screen = Console(stderr=True)
        hidden = self.quiet or not screen.is_terminal
        with Progress(*columns, console=screen, transient=True, disable=hidden) as bar:
            task = bar.add_task(experiment.title or experiment.id, total=len(experiment.cells))

            def progress(done: int, total: int) -> None:
                first.append(done)
                bar.update(task, completed=done, total=total)

            try:
                rows = sweep(
                    experiment, folder, workers=self.workers, dask=self.dask, progress=progress
                )
            except KeyboardInterrupt:
                if folder is not None and first:
                    click.echo(
                        f"{first[-1]} of {len(experiment.cells)} cells of {experiment.id} are done "
                        "and kept; the same command goes on from there", err=True,
                    )  # fmt: skip
                raise
        self.cells += len(experiment.cells)
        self.computed += len(experiment.cells) - first[0]
        self.runs += [] if folder is None else history(folder)
        return rows

    def answer(
        self, report: Report, experiments: Sequence[Experiment], out: Path | None, name: str
    ) -> dict[str, Any]:
        """Print a report, or return it for JSON; write its files where ``out`` says."""
        now = made(
            self.computed, time.perf_counter() - self.began, by(self.workers or 1, self.dask)
        )
        how = in_words(self.runs, now, self.cells)
        runs = self.runs or [now]
        files = [] if out is None else publish(report, experiments, runs, how, out, name)
        if not self.quiet:
            click.echo(f"{text(report)}\n\n{how}")
            if files:
                kinds = " ".join(path.name for path in files)
                click.echo(f"wrote to {out}: {kinds}")
        return {
            "title": report.title, "made": how, "remarks": report.remarks,
            "table": report.table, "files": [str(path) for path in files],
        }  # fmt: skip
