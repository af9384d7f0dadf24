"""Run the benchmarks and print their table: ``python benchmarks/run.py [--quick] [topic ...]``.

Each ``bench_<topic>.py`` beside this file yields rows as :mod:`harness` describes. A ratio is
how many times faster than the rival we were, in this run, on this machine. The exit code is 1 if
a script failed; a missed target is shown, not an error, since other work may share the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from harness import Row
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(topics()))
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE as well")
    options = parser.parse_args()
    if unknown := set(options.topics) - set(topics()):
        parser.error(f"no topic {', '.join(sorted(unknown))}; there are {', '.join(topics())}")

    # A file has room for long lines.
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    threads = os.environ.get("OMP_NUM_THREADS", "not limited")
    out.print(
        f"{platform.machine()}, {os.cpu_count()} cores, BLAS threads: {threads}, "
        f"Python {platform.python_version()}{', quick' if options.quick else ''}"
    )
    records, failed = [], False
    for topic in options.topics or topics():
        table = Table(title=topic, title_justify="left", title_style="bold", box=None)
        for column in ("work", "ours", "rival", "rival's", "ratio", "peak", "note"):
            table.add_column(column, justify="left" if column in ("work", "note") else "right")
        try:
            for row in rows_of(topic, options.quick):
                table.add_row(
                    row.work,
                    seconds(row.ours_seconds),
                    row.rival,
                    "" if math.isnan(row.rival_seconds) else seconds(row.rival_seconds),
                    verdict(row),
                    "" if row.peak_mib is None else f"{row.peak_mib:.0f} MiB",
                    row.note,
                )
                records.append({"topic": topic, **asdict(row), "ratio": row.ratio})
        except Exception:
            failed = True
            traceback.print_exc()
        out.print(table)
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
