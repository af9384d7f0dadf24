"""Mistakes in the form of a TOML file as sentences: what stands there, and what to write."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sojourn.importing.defects import Defects
from sojourn.importing.site import nearest_names

_WRITE = {
    "float": "a number, such as 0.5", "int": "a whole number", "str": 'text in quotes: "…"',
    "bool": "true or false", "array": "a list: […]", "object": "a table: { key = value }",
}  # fmt: skip
_BOUND = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}


def document(text: str, file: Path, defects: Defects) -> dict[str, Any] | None:
    """The tables of a TOML text; what is not TOML is a defect with its line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = re.search(r"line (\d+)", message)
        line = int(found[1]) if found else len(text.splitlines())
        what = message.split(" (at")[0]
        twice = "overwrite" in what
        fix = "it is there twice: remove one" if twice else 'texts need quotes: key = "text"'
        defects.add(file, line, f"not TOML: {what}", fix)
    except (RecursionError, ValueError) as error:
        defects.add(file, 0, f"not TOML: {type(error).__name__}", "write it as in the docs")
    return None


def value_at(found: Any, keys: Sequence[str]) -> Any:
    """What stands at ``keys``; None where nothing does."""
    for key in keys:
        if isinstance(found, list) and key.isdigit():
            found = found[int(key)] if int(key) < len(found) else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def in_words(message: str, found: Any, keys: Sequence[str]) -> str:
    """What msgspec says of the form of ``found`` as a sentence that shows what stands there."""
    place = ".".join(keys)
    if field_name := re.search(r"(unknown|required) field `(.*)`$", message):
        holder = f"[{place}]" if keys else "the file"
        return f"{holder} has no {field_name[2]}" if field_name[1] == "required" else (
            f"{field_name[2]} means nothing in {holder}"
        )  # fmt: skip
    value = value_at(found, keys)
    shown = repr(value) if isinstance(value, bool | int | float | str | list) else "a table"
    return f"{place or 'the file'} is {shown[:60]}"


def what_to_write(message: str, known: Sequence[str], missing: str = "{} = …") -> str:
    """What to write instead, as far as msgspec's message tells. ``known``: the keys of the table
    that it speaks of; ``missing``: how one of them is written."""
    if field_name := re.search(r"field `(.*)`$", message):
        keys = f"keys here are {', '.join(known)}"
        if "missing" in message:
            return f"add {missing.format(field_name[1])}; {keys}"
        close = nearest_names(field_name[1], known)
        return f"did you mean {close[0]}? {keys}" if close else keys
    if length := re.search(r"`array` of length (>= )?(\d+)", message):
        return f"write a list of {'at least ' if length[1] else ''}{length[2]}"
    if bound := re.search(r"(<=|>=|<|>) (\S+)$", message):
        return f"it has to be {_BOUND[bound[1]]} {float(bound[2]):g}"
    if wanted := re.search(r"Expected `(.+?)`", message):
        kinds = [_WRITE.get(kind, kind) for kind in wanted[1].split(" | ") if kind != "null"]
        return f"write {' or '.join(kinds)}"
    return ""
