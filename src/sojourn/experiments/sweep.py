"""Run the cells of an experiment, here or on many machines, and keep what is done.

    folder/definition.json    the definition; another one in its place is refused
    folder/cells/<id>.json    the rows of each finished cell, written whole or not at all
    folder/table.csv          all rows, in the order of the cells (and .parquet with pyarrow)

An interrupted sweep goes on where it was: finished cells are read, not computed again. Only the
process that sweeps writes; workers return rows, so a worker that dies loses its cell and
nothing else.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import sojourn
from sojourn._version import __version__
from sojourn.errors import ArgumentError, DefinitionError, ExperimentError, SojournError, need
from sojourn.experiments.definition import Experiment, Row, plain

Runner = Callable[[dict[str, Any], int], list[Row]]
Progress = Callable[[int, int], None]


class Job(NamedTuple):
    """All that a worker is sent for one cell."""

    cell: str
    experiment: str
    runner: str
    parameters: dict[str, Any]
    seed: int
    build: str


@cache
def build() -> str:
    """The version and a fingerprint of the source: rows of different code must not be mixed, and
    while somebody works on the code its version stays."""
    package = Path(sojourn.__file__).parent
    found = hashlib.sha256()
    for file in sorted(package.rglob("*.py"), key=lambda file: file.as_posix()):
        found.update(file.relative_to(package).as_posix().encode())
        found.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return f"{__version__}+{found.hexdigest()[:8]}"


def runner(name: str) -> Runner:
    """The runner of a name: a function of :mod:`sojourn.experiments.runners`."""
    found = getattr(import_module("sojourn.experiments.runners"), name, None)
    if name.startswith("_") or not callable(found):
        raise DefinitionError(f"there is no runner {name!r}", "see sojourn.experiments.runners")
    run: Runner = found
    return run


def run_job(job: Job) -> tuple[str, list[Row]]:
    """:func:`run_here` on whatever machine, if it has the same code."""
    if job.build != build():
        # Its rows would be mixed with those of the others, and nobody could tell.
        raise ExperimentError(
            f"a worker has sojourn {build()}, the sweep {job.build}",
            "install the same version on every machine; what follows the + is the source itself",
        )
    return run_here(job)


def run_here(job: Job) -> tuple[str, list[Row]]:
    """The id and the rows of one cell. A plain function, so that any worker can be sent it."""
    try:
        rows: list[Row] = plain(runner(job.runner)(job.parameters, job.seed))
    except SojournError as error:
        raise ExperimentError(
            f"cell {job.cell} of {job.experiment} failed: {error.message}", error.hint
        ) from error
    return job.cell, rows


def sweep(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    workers: int = 1,
    dask: str | Any | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """All rows of an experiment; those in ``folder`` are read, the others computed and kept.

    ``workers`` processes on this machine (joblib), or ``dask``: the address of a running
    scheduler, or a ``distributed.Client``. The rows are the same whatever does the work.
    """
    if workers < 1:
        raise ArgumentError(f"workers is {workers}", "give at least 1")
    runner(experiment.runner)
    done: dict[str, list[Row]] = {}
    if folder is not None:
        done = _open(experiment, folder)
    waiting = [cell for cell in experiment.cells if cell.id not in done]
    total = len(experiment.cells)
    if progress is not None:
        progress(total - len(waiting), total)
    jobs = [
        Job(
            c.id,
            experiment.id,
            experiment.runner,
            experiment.parameters(c),
            experiment.seed(c),
            build(),
        )
        for c in waiting
    ]
    for cell, rows in _work(jobs, workers, dask):
        done[cell] = rows
        if folder is not None:
            write_text(_cell_file(folder, cell), json.dumps(rows))
        if progress is not None:
            progress(len(done), total)
    table = [
        {"experiment": experiment.id, "cell": cell.id} | row
        for cell in experiment.cells
        for row in done[cell.id]
    ]
    if folder is not None:
        save_table(table, folder / "table")
    return table


def _work(jobs: list[Job], workers: int, dask: str | Any | None) -> Iterator[tuple[str, list[Row]]]:
    if not jobs:
        return
    if dask is not None:
        yield from _on_dask(jobs, dask)
    elif workers == 1:
        yield from map(run_here, jobs)
    else:
        yield from _on_joblib(jobs, min(workers, len(jobs)))


def _on_joblib(jobs: list[Job], workers: int) -> Iterator[tuple[str, list[Row]]]:
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise need("joblib", "parallel", "more than one worker") from error
    # Cells are far longer than a message, so batches would only keep workers waiting at the end.
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(run_here)(job) for job in jobs)


def _on_dask(jobs: list[Job], dask: str | Any) -> Iterator[tuple[str, list[Row]]]:
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise need("distributed", "parallel", "--dask") from error
    client: Any = dask
    if isinstance(dask, str):
        try:
            client = Client(dask, timeout="20s")
        except ValueError as error:
            raise ArgumentError(
                f"{dask!r} is no address of a dask scheduler ({error})",
                "an address looks like tcp://host:8786",
            ) from error
        except (OSError, TimeoutError) as error:
            raise ExperimentError(
                f"there is no dask scheduler at {dask!r} ({error})",
                "start one with `dask scheduler` and name its address, such as tcp://host:8786",
            ) from error
    try:
        futures = {client.submit(run_job, job, pure=False): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield future.result()
        except KilledWorker as error:
            raise ExperimentError(
                f"one cell has killed every worker that tried it ({error})",
                "does it need more memory than a worker has? `dask worker --memory-limit` sets it",
            ) from error
        finally:
            client.cancel([future for future in futures if not future.done()])
    finally:
        if isinstance(dask, str):
            client.close()


# -- on disk ------------------------------------------------------------------------------


def _open(experiment: Experiment, folder: Path) -> dict[str, list[Row]]:
    """The cells of this definition that are done in ``folder``."""
    file = folder / "definition.json"
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    if not file.exists():
        kept = experiment.as_dict() | {"digest": experiment.digest(), "sojourn": build()}
        write_text(file, json.dumps(kept, indent=1))
        return {}
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        digest, version = kept["digest"], kept["sojourn"]
    except (ValueError, KeyError, TypeError) as error:
        raise ExperimentError(
            f"{file} can't be read ({error})", "remove the folder to compute it anew"
        ) from error
    if digest != experiment.digest():
        raise DefinitionError(
            f"{folder} holds results of another definition of {experiment.id}",
            "results of two definitions must not be mixed: choose another folder, or remove it",
        )
    done: dict[str, list[Row]] = {}
    for cell in experiment.cells:
        rows = _read(_cell_file(folder, cell.id))
        if rows is not None:
            done[cell.id] = rows
    # What is complete can still be looked at; what is not must not be completed by other code.
    if version != build() and len(done) < len(experiment.cells):
        raise DefinitionError(
            f"{folder} holds results of sojourn {version}, this is {build()}",
            "results of two versions must not be mixed: choose another folder, or remove it",
        )
    return done


def _cell_file(folder: Path, cell: str) -> Path:
    return folder / "cells" / f"{cell}.json"


def _read(file: Path) -> list[Row] | None:
    """The rows of a finished cell; None where there are none, or what is there is damaged."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return rows if isinstance(rows, list) else None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def save_table(rows: list[Row], stem: Path) -> list[Path]:
    """Write rows as CSV, and as parquet where pyarrow is installed; the files written."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    # Not with_suffix: a study may be called "reef-1.2".
    plain_table, packed = (stem.with_name(f"{stem.name}.{kind}") for kind in ("csv", "parquet"))
    write_text(plain_table, buffer.getvalue())
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return [plain_table]
    pyarrow.parquet.write_table(
        pyarrow.table({key: [row.get(key) for row in rows] for key in columns}), packed
    )
    return [plain_table, packed]
