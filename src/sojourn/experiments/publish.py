"""A report as files: what was said, the table, the figures, and the definitions behind them.

    name.txt, .md        the report as it was printed, and for a page
    name.csv, .parquet   its table
    name.json            table, remarks and the definitions that produced them
    <figure>.png, .svg   its figures

Each says when, with which version and on what machine it was made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sojourn.experiments.analysis import Report, markdown, text
from sojourn.experiments.definition import Experiment, plain
from sojourn.experiments.provenance import Made
from sojourn.experiments.sweep import save_table, write_text
from sojourn.plots import curves, spread


def publish(
    report: Report, experiments: Sequence[Experiment], runs: Sequence[Made], how: str,
    folder: Path, name: str,
) -> list[Path]:  # fmt: skip
    """Write all files of a report; those that were written. ``runs`` made its rows, and ``how``
    says that in words."""
    folder.mkdir(parents=True, exist_ok=True)
    said, page, data = (folder / f"{name}.{kind}" for kind in ("txt", "md", "json"))
    write_text(said, f"{text(report)}\n\n{how}\n")
    write_text(page, f"{markdown(report)}\n\nMade on {how}.\n")
    record = {
        "title": report.title, "made": [asdict(run) for run in runs], "remarks": report.remarks,
        "definitions": [e.as_dict() | {"digest": e.digest()} for e in experiments],
        "table": report.table,
    }  # fmt: skip
    write_text(data, json.dumps(plain(record), indent=1, ensure_ascii=False) + "\n")
    written = [said, page, *save_table(list(report.table), folder / name), data]
    for figure, numbers in report.figures.items():
        paths = folder / f"{figure}.png", folder / f"{figure}.svg"
        draw = curves.draw if isinstance(numbers, curves.CurvesRecord) else spread.draw
        written += draw(numbers, *paths)  # type: ignore[arg-type]
    return written
