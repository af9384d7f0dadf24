"""Tables from CSV or parquet, row by row with their line numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.errors import need
from sojourn.importing.defects import Defects

LARGEST = 1e100
"""The largest number in a table (its square is still a number)."""


@dataclass(frozen=True)
class Row:
    """One row: its line in the file, and its cells as stripped text by column."""

    line: int
    cells: dict[str, str]
    decimal_comma: bool = False
    """The cells are not separated by commas, so 0,5 is a number."""

    def number(self, column: str, file: Path, defects: Defects) -> float | None:
        """The finite number in a column; None where the cell is empty or (noted) no number."""
        text = self.cells.get(column, "")
        if not text:
            return None
        try:
            value = float(text.replace(",", ".") if self.decimal_comma else text)
        except ValueError:
            defects.add(file, self.line, f"{column} is {text!r}", "write a number, such as 0.5")
            return None
        if not abs(value) <= LARGEST:
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
        defects.add(file, 0, f"the file can't be read: {error.strerror}", "name another file")
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
    lines = text.splitlines()
    delimiter = delimiter_of(lines)
    reader = csv.reader(lines, delimiter=delimiter)
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
            yield Row(reader.line_num, dict(zip(columns, stripped)), delimiter != ",")
    except csv.Error as error:
        defects.add(file, reader.line_num, f"not a table: {error}", "save it as CSV")
    if not columns:
        defects.add(file, 0, "the table is empty", "the first line names the columns")


def delimiter_of(lines: Sequence[str]) -> str:
    """What separates the cells: what the first line that isn't a remark has most of."""
    head = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return max(",;\t", key=head.count)


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
        what = (str(error).splitlines() or [type(error).__name__])[0]
        defects.add(file, 0, f"not a parquet table: {what}", "write it with pandas or pyarrow")
        return
    names = [name.lower() for name in table.column_names]
    yield Row(0, {name: name for name in names})
    for number, record in enumerate(table.to_pylist(), start=1):
        values: list[Any] = list(record.values())
        yield Row(number, {n: _written(v) for n, v in zip(names, values)})


def _written(value: Any) -> str:
    """A cell of a parquet table as text."""
    if value is None:
        return ""
    # Column by column, a site called 7 may be kept as 7 or, beside an empty cell, as 7.0.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()
