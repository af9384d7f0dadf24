"""Run the cells of an experiment, here or on many machines, and keep what is done.

    folder/definition.json    the definition; another one in its place is refused
    folder/cells/<id>.json    the rows of each finished cell, written whole or not at all
    folder/made.json          which runs computed them: when, where, with what, in how long
    folder/table.csv          all rows, in the order of the cells (and .parquet with pyarrow)

An interrupted sweep goes on where it was: finished cells are read, not computed again. Only the
process that sweeps writes; workers return rows, so a worker that dies loses its cell and
nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from sojourn.errors import ArgumentError, DefinitionError, ExperimentError, SojournError, need
from sojourn.experiments.definition import Experiment, Row, plain
from sojourn.experiments.provenance import Made, build, made
from sojourn.solvers.threads import one_thread

Runner = Callable[[dict[str, Any], int], list[Row]]
Progress = Callable[[int, int], None]


class Job(NamedTuple):
    """All that a worker is sent for one cell."""

    cell: str
    experiment: str
    runner: str
    parameters: dict[str, Any]
    seed: int


def runner(name: str) -> Runner:
    """The runner of a name: a function of :mod:`sojourn.experiments.runners`."""
    found = getattr(import_module("sojourn.experiments.runners"), name, None)
    if name.startswith("_") or not callable(found):
        raise DefinitionError(f"there is no runner {name!r}", "see sojourn.experiments.runners")
    run: Runner = found
    return run


class Failure(NamedTuple):
    """Why a cell has no rows."""

    message: str
    hint: str


Answer = tuple[str, list[Row] | Failure]
"""The id of a cell, and what came of it."""


def shipped() -> Callable[[tuple[Any, ...], str], Answer]:
    """:func:`run_here` for workers elsewhere, if they have the same code.

    A function that is sent as it is, and not by its name, with arguments of plain types: a worker
    without sojourn then fails with an error, where it would else never come as far as that.
    """

    def run(fields: tuple[Any, ...], wanted: str) -> Answer:
        from sojourn.errors import ExperimentError
        from sojourn.experiments.provenance import build
        from sojourn.experiments.sweep import Job, run_here

        if build() != wanted:
            # Its rows would be mixed with those of the others, and nobody could tell.
            raise ExperimentError(
                f"a worker has sojourn {build()}, the sweep {wanted}",
                "install the same version on every machine; what follows the + is the source",
            )
        return run_here(Job(*fields))

    return run


def run_here(job: Job) -> Answer:
    """The id and the rows of one cell. A plain function, so that any worker can be sent it.

    How BLAS splits its sums over threads decides their last bits, and a worker of many has fewer
    threads than one that is alone.
    """
    try:
        with one_thread():
            rows: list[Row] = plain(runner(job.runner)(job.parameters, job.seed))
    except SojournError as error:
        return job.cell, Failure(error.message, error.hint)
    except Exception as error:
        # Nobody asked wrongly: say where it happened, and let the other cells finish.
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}:{at.lineno}"
        return job.cell, Failure(f"{type(error).__name__}: {error} ({where})", "")
    return job.cell, rows


def _raise(failed: dict[str, Failure], experiment: Experiment) -> None:
    """One error that names the cells that failed; the others are done."""
    if not failed:
        return
    (cell, why), *others = failed.items()
    also = f", and {len(others)} more of {len(experiment.cells)} cells" if others else ""
    alike = " for the same reason" if {f.message for f in failed.values()} == {why.message} else ""
    raise ExperimentError(
        f"cell {cell} of {experiment.id} failed: {why.message}{also}{alike if others else ''}",
        why.hint,
    )


def sweep(
    experiment: Experiment,
    folder: str | Path | None = None,
    *,
    workers: int = 1,
    dask: str | Any | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """All rows of an experiment; those in ``folder`` are read, the others computed and kept.

    ``workers`` processes on this machine (joblib), or ``dask``: the address of a running
    scheduler, or a ``distributed.Client``. The rows are the same whatever does the work. A cell
    that fails doesn't keep the others from being computed: the error comes at the end.
    """
    if workers < 1:
        raise ArgumentError(f"workers is {workers}", "give at least 1")
    folder = None if folder is None else Path(folder)
    runner(experiment.runner)
    done: dict[str, list[Row]] = {}
    if folder is not None:
        done = _open(experiment, folder)
    waiting = [cell for cell in experiment.cells if cell.id not in done]
    total = len(experiment.cells)
    if progress is not None:
        progress(total - len(waiting), total)
    jobs = [
        Job(c.id, experiment.id, experiment.runner, experiment.parameters(c), experiment.seed(c))
        for c in waiting
    ]
    failed: dict[str, Failure] = {}
    began, before = time.perf_counter(), len(done)
    earlier = [] if folder is None else history(folder)
    for cell, rows in _work(jobs, workers, dask):
        if isinstance(rows, Failure):
            failed[cell] = rows
            continue
        done[cell] = rows
        if folder is not None:
            write_text(_cell_file(folder, cell), json.dumps(rows))
            # With every cell: a run that is killed has its record, too.
            run = made(len(done) - before, time.perf_counter() - began, by(workers, dask))
            runs = [asdict(record) for record in (*earlier, run)]
            write_text(folder / "made.json", json.dumps(runs, indent=1))
        if progress is not None:
            progress(len(done), total)
    _raise({cell.id: failed[cell.id] for cell in waiting if cell.id in failed}, experiment)
    table = [
        {"experiment": experiment.id, "cell": cell.id} | row
        for cell in experiment.cells
        for row in done[cell.id]
    ]
    if folder is not None:
        save_table(table, folder / "table")
    return table


def by(workers: int, dask: str | Any | None) -> str:
    """What does the work, in words."""
    if dask is not None:
        return f"dask at {dask}" if isinstance(dask, str) else "dask"
    return "one worker" if workers == 1 else f"{workers} workers"


def history(folder: Path) -> list[Made]:
    """The runs that computed what is in ``folder``, as far as it is known."""
    try:
        found = json.loads((folder / "made.json").read_text(encoding="utf-8"))
        return [Made(**record) for record in found]
    except (OSError, ValueError, TypeError):
        return []


def _work(jobs: list[Job], workers: int, dask: str | Any | None) -> Iterator[Answer]:
    if not jobs:
        return
    if dask is not None:
        yield from _on_dask(jobs, dask)
    elif workers == 1:
        yield from map(run_here, jobs)
    else:
        yield from _on_joblib(jobs, min(workers, len(jobs)))


def _on_joblib(jobs: list[Job], workers: int) -> Iterator[Answer]:
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise need("joblib", "parallel", "more than one worker") from error
    waiting = {job.cell: job for job in jobs}
    while waiting:
        before = len(waiting)
        # Cells are far longer than a message: batches would only keep workers waiting at the end.
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        try:
            for answer in parallel(delayed(run_here)(job) for job in [*waiting.values()]):
                del waiting[answer[0]]
                yield answer
        except BrokenProcessPool as error:
            # One that died takes the others with it: new ones go on, as long as that helps.
            if len(waiting) == before:
                raise ExperimentError(
                    f"a worker was killed, and so were those that took over; {before} of "
                    f"{len(jobs)} cells are missing, {next(iter(waiting))} is the first",
                    "is there memory enough for so many workers? --workers 1 needs least",
                ) from error


def _on_dask(jobs: list[Job], dask: str | Any) -> Iterator[Answer]:
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise need("distributed", "parallel", "--dask") from error
    client: Any = dask
    if isinstance(dask, str):
        # What it would write there with a traceback comes below as an error.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
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
        run, here = shipped(), build()
        futures = {client.submit(run, tuple(job), here, pure=False): job for job in jobs}
        try:
            # The loop of its own client, which need not be the default one.
            for future in as_completed(futures, loop=client.loop):
                try:
                    yield future.result()
                except KilledWorker as error:
                    yield (
                        futures[future].cell,
                        Failure(
                            f"it has killed every worker that tried it ({error})",
                            "does it need more memory than a worker has? `dask worker "
                            "--memory-limit` sets it",
                        ),
                    )
        except (CancelledError, OSError) as error:
            raise ExperimentError(
                f"the dask scheduler is gone ({type(error).__name__})",
                "start it again; the same command goes on with the cells that are missing",
            ) from error
        except ImportError as error:
            raise ExperimentError(
                f"a worker can't import what it was sent ({error})",
                "install sojourn, the same version, on every machine",
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
    # Where nothing was finished there is nothing to mix.
    if not file.exists() or not any((folder / "cells").rglob("*.json")):
        kept = experiment.as_dict() | {"digest": experiment.digest(), "sojourn": build()}
        write_text(file, json.dumps(kept, indent=1))
        (folder / "made.json").unlink(missing_ok=True)
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
            f"{folder} has {len(done)} of {len(experiment.cells)} cells, begun by sojourn "
            f"{version}; this is {build()} (after the + a fingerprint of the source)",
            "results of different code must not be mixed: remove the folder to compute it anew, "
            "choose another one, or finish it with the code that began it",
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
