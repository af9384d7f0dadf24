"""Benchmarks rot unless something runs them: each script, on its smallest sizes."""

from __future__ import annotations

import importlib
import math
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TOPICS = sorted(path.stem for path in BENCHMARKS.glob("bench_*.py"))


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("topic", TOPICS)
def test_quick_rows(topic: str) -> None:
    rows = list(importlib.import_module(topic).rows(quick=True))
    assert rows
    for row in rows:
        assert row.work
        assert row.ours_seconds > 0
        assert bool(row.rival) != math.isnan(row.rival_seconds)
        assert row.target_ratio is None or row.rival


def test_harness() -> None:
    harness = importlib.import_module("harness")
    row = harness.Row("work", 0.5, "rival", 2.0, target_ratio=3.0)
    assert row.ratio == 4.0
    assert math.isnan(harness.Row("work", 0.5).ratio)
    calls: list[float] = []
    assert harness.median_seconds(lambda: calls.append(time.perf_counter()), repeat=3) > 0
    assert len(calls) >= 5
    measured = harness.in_fresh_process(math.sqrt, 9.0)
    assert measured.value == 3.0
    assert 1 < measured.peak_mib < 10_000


def test_the_runner_lists_what_there_is() -> None:
    runner = importlib.import_module("run")
    assert [f"bench_{topic}" for topic in runner.topics()] == TOPICS
    assert runner.seconds(0.0042) == "4.2 ms"
    assert runner.seconds(2e-9) == "2 ns"
    harness = importlib.import_module("harness")
    assert runner.verdict(harness.Row("w", 1.0, "r", 5.0, target_ratio=4.0)) == "5× ≥ 4×"
    assert runner.verdict(harness.Row("w", 1.0, "r", 2.0, target_ratio=4.0)) == "2× < 4×"
    assert runner.verdict(harness.Row("w", 1.0)) == ""
