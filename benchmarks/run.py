"""Run the benchmarks and print their table: ``python benchmarks/run.py [--quick] [topic ...]``.

Each ``bench_<topic>.py`` beside this file yields rows as :mod:`harness` describes. A ratio is
how many times faster than the rival we were, in this run, on this machine. A full run keeps the
rows of its topics in ``results.json`` and writes ``RESULTS.md`` from all that is kept there; a
quick one only prints. The exit code is 1 if a script failed; a missed target is shown, not an
error, since other work may share the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from harness import Row, machine
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
KEPT = HERE / "results.json"
REPORT = HERE / "RESULTS.md"

COLUMNS = ("work", "ours", "rival", "rival's", "ratio", "peak", "note")
INTRODUCTION = """\
# What it costs

Written by `make bench` and never by hand. Ours and the rival side by side in one process, warm,
medians of several runs (single runs where one takes many seconds); a ratio is how many times
faster than the rival we were, with the target of the design behind it where it names one. Peak
memory is that of a fresh process.
"""


def topics() -> list[str]:
    """The topics there are, from the names of the scripts."""
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def rows_of(topic: str, quick: bool) -> Iterator[Row]:
    """The rows of one topic."""
    yield from import_module(f"bench_{topic}").rows(quick)


def seconds(value: float) -> str:
    """A time that a person can read."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def verdict(row: Row) -> str:
    """The ratio, against its target where there is one."""
    if math.isnan(row.ratio):
        return ""
    if row.target_ratio is None:
        return f"{row.ratio:.3g}×"
    met = row.ratio >= row.target_ratio
    return f"{row.ratio:.3g}× {'≥' if met else '<'} {row.target_ratio:g}×"


def cells(row: Row) -> tuple[str, ...]:
    """A row as a person reads it, column by column."""
    return (
        row.work,
        seconds(row.ours_seconds),
        row.rival,
        "" if math.isnan(row.rival_seconds) else seconds(row.rival_seconds),
        verdict(row),
        "" if row.peak_mib is None else f"{row.peak_mib:.0f} MiB",
        row.note,
    )


def report(kept: dict[str, Any]) -> str:
    """The page, from what is kept of each topic."""
    parts = [INTRODUCTION]
    for topic, record in sorted(kept.items()):
        title = (import_module(f"bench_{topic}").__doc__ or topic).strip().splitlines()[0]
        parts.append(f"## {topic}\n\n{title}\n\n*{record['machine']}*\n")
        parts.append("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
        for row in record["rows"]:
            shown = (text.replace("|", "\\|") for text in cells(Row(**row)))
            parts[-1] += "\n| " + " | ".join(shown) + " |"
        parts[-1] += "\n"
    return "\n".join(parts)


def keep(topic: str, rows: list[Row]) -> None:
    """Replace what is kept of a topic, and write the page anew."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept[topic] = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    kept = {name: kept[name] for name in sorted(kept) if name in topics()}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    REPORT.write_text(report(kept), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(topics()))
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds each")
    options = parser.parse_args()
    if unknown := set(options.topics) - set(topics()):
        parser.error(f"no topic {', '.join(sorted(unknown))}; there are {', '.join(topics())}")

    # A file has room for long lines.
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    out.print(machine() + (", quick" if options.quick else ""))
    failed = False
    for topic in options.topics or topics():
        table = Table(title=topic, title_justify="left", title_style="bold", box=None)
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in ("work", "note") else "right")
        rows: list[Row] = []
        try:
            for row in rows_of(topic, options.quick):
                rows.append(row)
                table.add_row(*cells(row))
            if not options.quick:
                keep(topic, rows)
        except Exception:
            failed = True
            traceback.print_exc()
        out.print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
