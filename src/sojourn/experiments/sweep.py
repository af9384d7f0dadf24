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
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sojourn.errors import ArgumentError, ExperimentError, need
from sojourn.experiments.definition import Cell, Experiment, Row, plain

Runner = Callable[[dict[str, Any], int], list[Row]]
Progress = Callable[[int, int], None]

RETRIES = 3
"""How often a cell whose dask worker died is tried on another one."""


def runner(name: str) -> Runner:
    """The runner of a name: a function of :mod:`sojourn.experiments.runners`."""
    found = getattr(import_module("sojourn.experiments.runners"), name, None)
    if name.startswith("_") or not callable(found):
        raise ExperimentError(f"there is no runner {name!r}", "see sojourn.experiments.runners")
    run: Runner = found
    return run


def run_cell(name: str, parameters: dict[str, Any], seed: int) -> list[Row]:
    """The rows of one cell. A plain function, so that any worker can be sent it."""
    rows: list[Row] = plain(runner(name)(parameters, seed))
    return rows


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
    done: dict[str, list[Row]] = {}
    if folder is not None:
        done = _open(experiment, folder)
    waiting = [cell for cell in experiment.cells if cell.id not in done]
    total = len(experiment.cells)
    if progress is not None:
        progress(total - len(waiting), total)
    for finished, (cell, rows) in enumerate(_work(experiment, waiting, workers, dask), start=1):
        done[cell.id] = rows
        if folder is not None:
            _write(_cell_file(folder, cell), json.dumps(rows))
        if progress is not None:
            progress(total - len(waiting) + finished, total)
    table = [
        {"experiment": experiment.id, "cell": cell.id} | row
        for cell in experiment.cells
        for row in done[cell.id]
    ]
    if folder is not None:
        save_table(table, folder / "table")
    return table


def _work(
    experiment: Experiment, cells: list[Cell], workers: int, dask: str | Any | None
) -> Iterator[tuple[Cell, list[Row]]]:
    jobs = [(c, experiment.runner, experiment.parameters(c), experiment.seed(c)) for c in cells]
    if not jobs:
        return
    if dask is not None:
        yield from _on_dask(jobs, dask)
    elif workers == 1:
        for cell, name, parameters, seed in jobs:
            yield cell, run_cell(name, parameters, seed)
    else:
        yield from _on_joblib(jobs, workers)


def _on_joblib(jobs: list[Any], workers: int) -> Iterator[tuple[Cell, list[Row]]]:
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise need("joblib", "parallel", "more than one worker") from error
    tasks = (delayed(_tagged)(k, *job[1:]) for k, job in enumerate(jobs))
    for k, rows in Parallel(n_jobs=workers, return_as="generator_unordered")(tasks):
        yield jobs[k][0], rows


def _tagged(k: int, name: str, parameters: dict[str, Any], seed: int) -> tuple[int, list[Row]]:
    return k, run_cell(name, parameters, seed)


def _on_dask(jobs: list[Any], dask: str | Any) -> Iterator[tuple[Cell, list[Row]]]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise need("distributed", "parallel", "--dask") from error
    client: Any = dask
    if isinstance(dask, str):
        try:
            client = Client(dask, timeout="20s")
        except (OSError, ValueError, TimeoutError) as error:
            raise ExperimentError(
                f"there is no dask scheduler at {dask!r} ({error})",
                "start one with `dask scheduler` and name its address, such as tcp://host:8786",
            ) from error
    try:
        futures = {
            client.submit(run_cell, name, parameters, seed, pure=False, retries=RETRIES): cell
            for cell, name, parameters, seed in jobs
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        if isinstance(dask, str):
            client.close()


# -- on disk ------------------------------------------------------------------------------


def _open(experiment: Experiment, folder: Path) -> dict[str, list[Row]]:
    file = folder / "definition.json"
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    if not file.exists():
        _write(file, json.dumps(experiment.as_dict() | {"digest": experiment.digest()}, indent=1))
        return {}
    try:
        found = json.loads(file.read_text())["digest"]
    except (json.JSONDecodeError, KeyError, OSError) as error:
        raise ExperimentError(
            f"{file} can't be read ({error})", "remove the folder to compute it anew"
        ) from error
    if found != experiment.digest():
        raise ExperimentError(
            f"{folder} holds results of another definition of {experiment.id}",
            "results of two definitions must not be mixed: choose another folder, or remove it",
        )
    done: dict[str, list[Row]] = {}
    for cell in experiment.cells:
        part = _cell_file(folder, cell)
        if part.exists():
            try:
                done[cell.id] = json.loads(part.read_text())
            except json.JSONDecodeError:
                part.unlink()
    return done


def _cell_file(folder: Path, cell: Cell) -> Path:
    return folder / "cells" / f"{cell.id.replace('/', '__')}.json"


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def save_table(rows: list[Row], stem: Path) -> list[Path]:
    """Write rows as CSV, and as parquet where pyarrow is installed; the files written."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write(stem.with_suffix(".csv"), buffer.getvalue())
    written = [stem.with_suffix(".csv")]
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return written
    pyarrow.parquet.write_table(
        pyarrow.table({key: [row.get(key) for row in rows] for key in columns}),
        stem.with_suffix(".parquet"),
    )
    return [*written, stem.with_suffix(".parquet")]
