"""Benchmarks rot unless something runs them: each script, on its smallest sizes."""

from __future__ import annotations

import importlib
import json
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


def test_the_page_is_written_from_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, harness = importlib.import_module("run"), importlib.import_module("harness")
    monkeypatch.setattr(runner, "KEPT", tmp_path / "results.json")
    monkeypatch.setattr(runner, "REPORT", tmp_path / "RESULTS.md")
    runner.keep("oracle", [harness.Row("a|b", 1.0, "rival", 5.0, target_ratio=4.0)])
    runner.keep("finite", [harness.Row("alone", 2.0, peak_mib=12.3)])
    runner.keep("oracle", [harness.Row("again", 1.0, "rival", 3.0)])
    page = runner.REPORT.read_text(encoding="utf-8")
    assert page.index("## finite") < page.index("## oracle")
    assert "| alone | 2 s |  |  |  | 12 MiB |  |" in page
    assert "| again | 1 s | rival | 3 s | 3× |  |  |" in page
    assert "a\\|b" not in page
    assert page.count(harness.machine()) == 2


def test_the_page_in_the_repository_is_what_its_rows_give() -> None:
    runner = importlib.import_module("run")
    if runner.KEPT.exists():
        kept = json.loads(runner.KEPT.read_text(encoding="utf-8"))
        assert runner.REPORT.read_text(encoding="utf-8") == runner.report(kept)


def test_the_scaling_figures(tmp_path: Path) -> None:
    scaling = importlib.import_module("scaling")
    scaling.main(["--quick", "--out", str(tmp_path)])
    for name in scaling.FIGURES:
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("comparison").main(["--quick"])
    assert "| RiverSwim, S = 20 | 200 |" in capsys.readouterr().out


@pytest.mark.parametrize("script", ["curve_dynamics", "garnet_reach", "steps_to_accuracy"])
def test_scripts_that_print_a_table(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {path: path.read_bytes() for path in BENCHMARKS.iterdir() if path.is_file()}
    monkeypatch.setattr("sys.argv", [script, "--quick"])
    importlib.import_module(script).main()
    assert capsys.readouterr().out.count("\n") > 5
    assert kept == {path: path.read_bytes() for path in BENCHMARKS.iterdir() if path.is_file()}
