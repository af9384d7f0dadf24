"""Sweeps: the same rows however they are computed, resumed without recomputing, refused when
the definition changed."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from importlib import import_module

import cloudpickle
import joblib
import psutil
import pyarrow.parquet
import pytest

import sojourn
from sojourn.errors import ArgumentError, DefinitionError, ExperimentError
from sojourn.experiments import Cell, CellId, Experiment, save_table, sweep
from sojourn.experiments import runners as room
from sojourn.experiments.analysis import REPORTS
from sojourn.experiments.definition import experiment_id
from sojourn.experiments.paper import FIGURES, definitions, learning, table, theta
from sojourn.experiments.provenance import build, in_words
from sojourn.experiments.sweep import history, runner, shipped

room_of_sweeps = import_module("sojourn.experiments.sweep")


def small(cells=6, **shared):
    """A real but small experiment: uniform walks on tiny Garnets."""
    return Experiment(
        experiment_id("test/small"), "garnet_ratios",
        tuple(Cell(CellId(f"c-{k}"), {}) for k in range(cells)),
        shared={"n_states": 3, "n_actions": 2, "branching": 2, "runs": 3, "budgets": [20, 40],
                "strategies": ["uniform"]} | shared,
    )  # fmt: skip


def test_seeds_follow_from_ids_alone():
    more, fewer = small(6), small(2)
    assert [more.seed(c) for c in more.cells[:2]] == [fewer.seed(c) for c in fewer.cells]
    assert len({more.seed(c) for c in more.cells}) == 6
    assert sweep(more)[: len(sweep(fewer))] == sweep(fewer)


def test_same_rows_on_one_worker_and_on_two():
    assert sweep(small(), workers=2) == sweep(small())


def test_resumes_without_recomputing(tmp_path, monkeypatch):
    calls = []

    def counting(parameters, seed):
        calls.append(seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return [{"seed": seed}]

    monkeypatch.setattr(room, "counting", counting, raising=False)
    experiment = dataclasses.replace(small(), runner="counting")
    with pytest.raises(KeyboardInterrupt):
        sweep(experiment, tmp_path)
    done = []
    rows = sweep(experiment, tmp_path, progress=lambda d, t: done.append((d, t)))
    assert done[0] == (3, 6)
    assert done[-1] == (6, 6)
    assert len(calls) == 4 + 3
    assert [row["seed"] for row in rows] == [experiment.seed(c) for c in experiment.cells]
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 7
    sweep(experiment, tmp_path)
    assert len(calls) == 7


@pytest.mark.parametrize("text", ['[{"str', "null", "", "\\udcff"])
def test_a_damaged_cell_is_computed_again(tmp_path, text):
    whole = sweep(small(2), tmp_path)
    (tmp_path / "cells" / "c-1.json").write_text(text)
    assert sweep(small(2), tmp_path) == whole


def test_a_damaged_definition_is_not_overwritten(tmp_path):
    sweep(small(2), tmp_path)
    file = tmp_path / "definition.json"
    for text in ("{", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(ExperimentError, match="can't be read"):
            sweep(small(2), tmp_path)
        assert file.read_text() == text


def test_results_of_another_version_are_shown_and_never_completed(tmp_path):
    whole = sweep(small(2), tmp_path)
    file = tmp_path / "definition.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"sojourn": "0.0.1"}))
    assert sweep(small(2), tmp_path) == whole
    (tmp_path / "cells" / "c-1.json").unlink()
    with pytest.raises(DefinitionError, match=r"has 1 of 2 cells, begun by sojourn 0\.0\.1; this"):
        sweep(small(2), tmp_path)


def test_results_of_other_code_are_never_completed(tmp_path, monkeypatch):
    """While somebody works on the code its version stays, and its results do not."""
    assert build().startswith(sojourn.__version__ + "+")
    sweep(small(2), tmp_path)
    (tmp_path / "cells" / "c-1.json").unlink()
    monkeypatch.setattr(room_of_sweeps, "build", lambda: "0.1.0+changed")
    with pytest.raises(DefinitionError, match=r"this is 0\.1\.0\+changed"):
        sweep(small(2), tmp_path)


def test_where_nothing_is_finished_there_is_nothing_to_mix(tmp_path, monkeypatch):
    """After a study's first cell has failed its file is mended, or sojourn is upgraded."""
    with pytest.raises(ExperimentError, match="failed"):
        sweep(small(2, branching=9), tmp_path)
    whole = sweep(small(2), tmp_path)
    (tmp_path / "cells" / "c-0.json").unlink()
    (tmp_path / "cells" / "c-1.json").unlink()
    monkeypatch.setattr(room_of_sweeps, "build", lambda: "0.1.0+changed")
    assert sweep(small(2), tmp_path) == whole
    assert json.loads((tmp_path / "definition.json").read_text())["sojourn"] == "0.1.0+changed"


def test_what_is_shipped_to_workers_elsewhere():
    """By value: it runs where sojourn is, refuses other code, and says where sojourn is not."""
    experiment = small(1)
    cell = experiment.cells[0]
    job = (cell.id, experiment.id, experiment.runner, experiment.parameters(cell), 1)
    assert shipped()(job, build())[0] == "c-0"
    with pytest.raises(ExperimentError, match=r"a worker has sojourn .* the sweep 9\.9"):
        shipped()(job, "9.9")
    code = """
        import pickle, sys
        sys.modules["sojourn"] = None
        run = pickle.loads(sys.stdin.buffer.read())
        try:
            run(("a", "b", "c", {}, 0), "0")
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], input=cloudpickle.dumps(shipped()),
        capture_output=True, check=True,
    )  # fmt: skip
    assert b"sojourn" in done.stdout


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_cell_is_named_and_stops_no_other(tmp_path, workers):
    bad = (Cell(CellId("too-many"), {"branching": 9}), Cell(CellId("none"), {"branching": 0}))
    experiment = dataclasses.replace(small(2), cells=(*bad, *small(2).cells))
    said = "cell too-many of test/small failed: 9 distinct .*, and 1 more of 4 cells"
    with pytest.raises(ExperimentError, match=said):
        sweep(experiment, tmp_path, workers=workers)
    assert {file.stem for file in (tmp_path / "cells").iterdir()} == {"c-0", "c-1"}


def test_a_cell_that_breaks_says_where(tmp_path, monkeypatch):
    def broken(parameters, seed):
        raise MemoryError("too much")

    monkeypatch.setattr(room, "broken", broken, raising=False)
    experiment = dataclasses.replace(small(3), runner="broken")
    said = r"cell c-0 .* MemoryError: too much \(test_sweep.py:\d+\), .* 2 more .* same reason"
    with pytest.raises(ExperimentError, match=said):
        sweep(experiment, tmp_path)


def test_results_say_what_made_them(tmp_path, monkeypatch):
    """And not what reads them: another version, another day."""
    sweep(small(2), tmp_path)
    (tmp_path / "cells" / "c-1.json").unlink()
    sweep(small(2), tmp_path)
    first, second = history(tmp_path)
    assert (first.computed, second.computed) == (2, 1)
    assert first.sojourn == build()
    later = dataclasses.replace(first, date="2999-01-01", sojourn="9.9", computed=0)
    said = in_words([first], later, 2)
    assert said.startswith(first.place)
    assert said.endswith("by one worker; all read from disk")
    assert "9.9" not in said
    whole = dataclasses.replace(first, computed=2)
    assert in_words([first], whole, 2).endswith(f"2 of 2 cells computed in {first.seconds:.1f} s "
                                                "by one worker")  # fmt: skip
    other = dataclasses.replace(first, machine="another")
    assert "another" in in_words([first, other], later, 4)
    # Without a record nothing is made up.
    assert "0 of 2 cells computed, the others read from disk" in in_words([], later, 2)
    (tmp_path / "made.json").write_text("[1]")
    assert history(tmp_path) == []


def test_tables_keep_their_names_and_their_columns(tmp_path):
    """No part of a name is taken for an ending; a column that starts late is a column."""
    rows = [{"a": 1, "b": "x, y"}, {"a": 2.5, "b": None, "c": True}]
    files = save_table(rows, tmp_path / "reef-1.2")
    assert [file.name for file in files] == ["reef-1.2.csv", "reef-1.2.parquet"]
    assert files[0].read_text() == 'a,b,c\n1,"x, y",\n2.5,,True\n'
    kept = pyarrow.parquet.read_table(files[1]).to_pylist()
    assert kept == [{"a": 1.0, "b": "x, y", "c": None}, {"a": 2.5, "b": None, "c": True}]


def test_another_definition_is_refused(tmp_path):
    sweep(small(2), tmp_path)
    with pytest.raises(DefinitionError, match="another definition"):
        sweep(small(2, runs=4), tmp_path)
    retitled = dataclasses.replace(small(2), title="a nicer title")
    assert sweep(retitled, tmp_path)


def test_bad_definitions():
    with pytest.raises(ExperimentError, match="no cells"):
        small(0)
    with pytest.raises(ExperimentError, match="two cells"):
        Experiment(experiment_id("x"), "r", (Cell(CellId("a"), {}), Cell(CellId("a"), {})))
    for text in ("", "../up", "a b", "/root", "a//b"):
        with pytest.raises(ExperimentError):
            experiment_id(text)
    with pytest.raises(ExperimentError, match="no runner"):
        runner("nothing")
    with pytest.raises(ArgumentError, match="workers"):
        sweep(small(), workers=0)


def test_no_scheduler_is_a_sentence():
    with pytest.raises(ArgumentError, match="no address"):
        sweep(small(), dask="nonsense")


CLUSTER = """
import sys, os, signal, threading, time, json
from pathlib import Path
from distributed import Client, LocalCluster
from sojourn.experiments import sweep
sys.path.insert(0, {here!r})
from test_sweep import small

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            pids = list(client.run(os.getpid).values())
            killed = []
            def progress(done, total):
                if done == 3 and not killed:
                    killed.append(pids[0])
                    os.kill(pids[0], signal.SIGKILL)
            address = cluster.scheduler_address
            rows = sweep(small(16, runs=200), Path({folder!r}), dask=address, progress=progress)
            assert sweep(small(2), dask=client) == sweep(small(2))
            print(json.dumps({{"killed": killed, "rows": rows}}))
"""


def test_a_worker_that_dies_loses_nothing(tmp_path):
    """Two worker processes, one killed in the middle: the table is complete and identical."""
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER.format(here=os.path.dirname(__file__), folder=str(tmp_path / "out")))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert len(answer["killed"]) == 1
    assert answer["rows"] == sweep(small(16, runs=200))


def test_a_worker_here_that_dies_loses_nothing(tmp_path):
    killed = []

    def progress(done, total):
        if done == 2 and not killed:
            killed.append(workers_here()[-1])
            killed[0].kill()

    rows = sweep(small(12, runs=200), tmp_path, workers=2, progress=progress)
    assert len(killed) == 1
    assert rows == sweep(small(12, runs=200))


def test_workers_that_are_always_killed_are_a_sentence(monkeypatch):
    """As where every cell needs more memory than there is."""
    parallel = joblib.Parallel.__call__

    def deadly(self, jobs):
        return parallel(self, (joblib.delayed(os._exit)(1) for _ in jobs))

    monkeypatch.setattr(joblib.Parallel, "__call__", deadly)
    with pytest.raises(ExperimentError, match=r"a worker was killed, .* 6 of 6 cells .* c-0 is"):
        sweep(small(), workers=2)


def workers_here():
    children = psutil.Process().children(recursive=True)
    return [child for child in children if any("Loky" in word for word in child.cmdline())]


def test_interrupted_process_resumes(tmp_path):
    """A whole process is killed; the next one finishes, the table is the same, and what the first
    one did is on record."""
    code = f"""
        import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
        from pathlib import Path
        from test_sweep import small
        from sojourn.experiments import sweep
        out = Path({str(tmp_path)!r})
        sweep(small(40, runs=300), out, progress=lambda done, total: print(done, flush=True))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 2:
            break
    process.kill()
    process.communicate()
    kept = len([*(tmp_path / "cells").glob("*.json")])
    (killed,) = history(tmp_path)
    assert 2 <= killed.computed <= kept < 40
    assert sweep(small(40, runs=300), tmp_path) == sweep(small(40, runs=300))
    assert [run.computed for run in history(tmp_path)] == [killed.computed, 40 - kept]


def test_the_papers_definitions_are_what_the_paper_says():
    five = table(5)
    assert len(five.cells) == 100
    assert five.shared["runs"] == 100
    assert five.shared["budgets"] == [500, 1000]
    assert [e.shared["n_states"] for e in definitions("table")] == [5, 10]
    for which, shape in (("fast", (5, 3, 3)), ("slow", (10, 2, 2))):
        shared = learning(which).shared
        assert tuple(shared[k] for k in ("n_states", "n_actions", "branching")) == shape
        walks = sum(shared["runs"] for c in learning(which).cells if c.id.startswith("fw-ame/"))
        assert walks == 1000
    ids = set()
    for figure in FIGURES:
        assert figure in REPORTS
        for quick in (False, True):
            for experiment in definitions(figure, quick=quick):
                runner(experiment.runner)
                json.dumps(experiment.as_dict())
                ids.add(experiment.id)
    # Results of a quick version never lie where those of the full one are looked for.
    assert len(ids) == 2 * (2 + 1 + 2 + 1 + 2) + 1
    rows = sweep(theta())
    best = max(rows, key=lambda row: row["theta"])
    assert best["m"] == 3.0
