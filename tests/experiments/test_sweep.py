"""Sweeps: the same rows however they are computed, resumed without recomputing, refused when
the definition changed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from sojourn.errors import ArgumentError, ExperimentError
from sojourn.experiments import Cell, CellId, Experiment, load_study, sweep
from sojourn.experiments import runners as room
from sojourn.experiments.definition import experiment_id
from sojourn.experiments.paper import definitions, table, theta
from sojourn.experiments.sweep import runner


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


def test_a_half_written_cell_is_computed_again(tmp_path):
    whole = sweep(small(), tmp_path)
    (tmp_path / "cells" / "c-3.json").write_text('[{"str')
    assert sweep(small(), tmp_path) == whole


def test_another_definition_is_refused(tmp_path):
    sweep(small(2), tmp_path)
    with pytest.raises(ExperimentError, match="another definition"):
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
            rows = sweep(small(16, runs=200), Path({folder!r}), dask=client, progress=progress)
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


def test_interrupted_process_resumes(tmp_path):
    """A whole process is killed; the next one finishes and the table is the same."""
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
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(0.05)
    assert sweep(small(40, runs=300), tmp_path) == sweep(small(40, runs=300))


def test_the_papers_definitions_are_what_the_paper_says():
    five = table(5)
    assert len(five.cells) == 100
    assert five.shared["runs"] == 100
    assert five.shared["budgets"] == [500, 1000]
    for figure in ("table", "three-state", "learning", "theta"):
        for experiment in definitions(figure):
            json.dumps(experiment.as_dict())
    rows = sweep(theta())
    best = max(rows, key=lambda row: row["theta"])
    assert best["m"] == 3.0


def study(tmp_path, text):
    file = tmp_path / "study.toml"
    file.write_text(textwrap.dedent(text))
    return file


STUDY = """
    id = "mine"
    runs = 4
    budgets = [30, 60]
    [[worlds]]
    instance = "garnet:4,2,2"
    seeds = [0, 1]
    [[worlds]]
    site = "site.toml"
    [[strategies]]
    name = "uniform"
    [[strategies]]
    name = "fw-ame"
    label = "narrow"
    options = { width = 0.05 }
"""


def test_a_study(tmp_path):
    (tmp_path / "site.toml").write_text('[source]\nkind = "grid"\ntext = "..\\n.."\n')
    experiment = load_study(study(tmp_path, STUDY))
    assert len(experiment.cells) == 6
    rows = sweep(experiment, tmp_path / "out")
    assert {row["world"] for row in rows} == {"garnet:4,2,2,seed=0", "garnet:4,2,2,seed=1", "site"}
    assert {row["strategy"] for row in rows} == {"uniform", "narrow"}
    assert len(rows) == 12


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [("uniform", "unifrom", "no strategy"), ("garnet:4", "garnt:4", "no instance"),
     ("site.toml", "none.toml", "no site file"), ("runs = 4", "runs = 0", "runs"),
     ("width", "wdith", "can't be made"), ("id = ", "idd = ", "id")],
)  # fmt: skip
def test_bad_studies(tmp_path, old, new, word):
    (tmp_path / "site.toml").write_text('[source]\nkind = "grid"\ntext = ".."\n')
    with pytest.raises((ExperimentError, ArgumentError), match=word):
        load_study(study(tmp_path, STUDY.replace(old, new)))
