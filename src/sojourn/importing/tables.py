"""Tables from CSV or parquet, row by row with their line numbers."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.errors import need
from sojourn.importing.defects import Defects


@dataclass(frozen=True)
class Row:
    """One row: its line in the file, and its cells as stripped text by column."""

    line: int
    cells: dict[str, str]

    def number(self, column: str, file: Path, defects: Defects) -> float | None:
        """The finite number in a column; None where the cell is empty or (noted) no number."""
        text = self.cells.get(column, "")
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            defects.add(file, self.line, f"{column} is {text!r}", "write a number")
            return None
        if not math.isfinite(value):
            defects.add(file, self.line, f"{column} is {text!r}", "write a finite number")
            return None
        return value


def read_text(file: Path, defects: Defects) -> str | None:
    """The text of a file; a BOM is dropped, anything unreadable is a defect."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        defects.add(file, 0, "there is no such file", "paths are relative to the site file")
    except (UnicodeDecodeError, ValueError):
        defects.add(file, 0, "the file is not text in UTF-8", "save it as UTF-8")
    except OSError as error:
        defects.add(file, 0, f"the file can't be read: {error.strerror}")
    return None


def read_table(
    file: Path, required: tuple[str, ...], optional: tuple[str, ...], defects: Defects
) -> Iterator[Row]:
    """The rows of a CSV or parquet table; unknown or missing columns are defects."""
    if file.suffix.lower() in (".parquet", ".pq"):
        rows = _parquet(file, defects)
    else:
        rows = _csv(file, defects)
    header, body = next(rows, None), rows
    if header is None:
        return
    columns = set(header.cells)
    for name in required:
        if name not in columns:
            defects.add(
                file, header.line, f"there is no column {name!r}",
                f"columns are {', '.join(required)} and optionally {', '.join(optional)}",
            )  # fmt: skip
    for name in sorted(columns - {*required, *optional}):
        defects.add(
            file, header.line, f"column {name!r} means nothing here",
            f"columns are {', '.join((*required, *optional))}",
        )  # fmt: skip
    if not columns.issuperset(required):
        return
    for row in body:
        missing = [name for name in required if not row.cells.get(name)]
        if missing:
            defects.add(file, row.line, f"{missing[0]} is empty", "fill it in or remove the row")
        else:
            yield row


def _csv(file: Path, defects: Defects) -> Iterator[Row]:
    text = read_text(file, defects)
    if text is None:
        return
    sample = text.splitlines()[:1]
    delimiter = ";" if sample and sample[0].count(";") > sample[0].count(",") else ","
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    columns: list[str] = []
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if not any(stripped) or stripped[0].startswith("#"):
                continue
            if not columns:
                columns = [cell.lower() for cell in stripped]
                yield Row(reader.line_num, {name: name for name in columns})
                continue
            if len(stripped) != len(columns):
                defects.add(
                    file, reader.line_num,
                    f"{len(stripped)} cells under {len(columns)} columns",
                    "give every row as many cells as the header has",
                )  # fmt: skip
                continue
            yield Row(reader.line_num, dict(zip(columns, stripped)))
    except csv.Error as error:
        defects.add(file, reader.line_num, f"not a table: {error}")
    if not columns:
        defects.add(file, 0, "the table is empty", "the first line names the columns")


def _parquet(file: Path, defects: Defects) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise need("pyarrow", "data", "reading parquet") from error
    try:
        table = pyarrow.parquet.read_table(file)
    except FileNotFoundError:
        defects.add(file, 0, "there is no such file", "paths are relative to the site file")
        return
    except (OSError, pyarrow.ArrowException) as error:
        defects.add(file, 0, f"not a parquet table: {str(error).splitlines()[0]}")
        return
    names = [name.lower() for name in table.column_names]
    yield Row(0, {name: name for name in names})
    for number, record in enumerate(table.to_pylist(), start=1):
        values: list[Any] = list(record.values())
        yield Row(number, {n: "" if v is None else str(v).strip() for n, v in zip(names, values)})
