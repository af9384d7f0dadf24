"""Which line of a TOML text a key stands on, so that a message can name it."""

from __future__ import annotations

import re
from collections import Counter

_HEADER = re.compile(r"^\s*(?P<open>\[{1,2})\s*(?P<path>.+?)\s*\]{1,2}\s*(#.*)?$")
_KEY = re.compile(
    r"""^\s*(?P<key>(?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*="""
)
_PART = re.compile(r"""\s*("[^"]*"|'[^']*'|[^.\s]+)\s*(?:\.|$)""")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The 1-based line of the key ``path``, of the first key inside it, or of the nearest table
    that encloses it; 0 if none.

    A scan, not a parser: it reads headers and ``key =`` at the start of a line, which is where
    people write them. Keys inside an inline table resolve to the line of that table. Of tables in
    a list the second is ``("worlds", "1")``.
    """
    best, best_depth, inside = 0, 0, 0
    table: tuple[str, ...] = ()
    tables: Counter[tuple[str, ...]] = Counter()
    in_string = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if in_string:
            in_string = "" if in_string in line else in_string
            continue
        here: tuple[str, ...] | None = None
        if header := _HEADER.match(line):
            table = _parts(header["path"])
            if header["open"] == "[[":
                tables[table] += 1
                table = (*table, str(tables[table] - 1))
            here = table
        elif key := _KEY.match(line):
            here = table + _parts(key["key"])
        for quote in ('"""', "'''"):
            if line.count(quote) % 2:
                in_string = quote
        if here and len(here) > best_depth and path[: len(here)] == here:
            best, best_depth = number, len(here)
        if here and not inside and here[: len(path)] == path:
            inside = number
    return best if best_depth == len(path) or not inside else inside


def line_of_string(text: str, path: tuple[str, ...]) -> int:
    """The line on which the content of a string begins: the next one after a bare opening."""
    number = line_of(text, path)
    lines = text.splitlines()
    opening = lines[number - 1].rstrip() if 0 < number <= len(lines) else ""
    return number + opening.endswith(('"""', "'''"))


def split_path(pointer: str) -> tuple[str, ...]:
    """A path such as ``$.sites[...].weight`` as msgspec writes it, without its wildcards."""
    return tuple(p for p in re.split(r"[.\[\]]+", pointer) if p and p not in ("$", "..."))
