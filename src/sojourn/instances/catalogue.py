"""The instances by name, so that a command line or a file can ask for one.

A request is the name, and after a colon the arguments of the function, separated by commas:
``three_state``, ``garnet:10,3,2``, ``grid_survey:width=40,height=20,field=hard,seed=3``.
"""

from __future__ import annotations

import inspect
import re
from ast import literal_eval
from collections.abc import Callable
from typing import Any

from sojourn.errors import ArgumentError
from sojourn.instances import games, garnets, shapes, surveys
from sojourn.model import World

_FUNCTIONS: dict[str, Callable[..., World]] = {
    f.__name__: f
    for f in (
        garnets.garnet, shapes.three_state, shapes.river_swim, surveys.grid_survey,
        shapes.rooms, shapes.corridor, shapes.path, shapes.cycle, shapes.complete,
        games.frozen_lake, games.cliff_walking, games.taxi,
    )
}  # fmt: skip


def names() -> tuple[str, ...]:
    """The names that :func:`build` knows."""
    return tuple(_FUNCTIONS)


def build(request: str) -> World:
    """The instance that a request describes."""
    if not isinstance(request, str):
        raise ArgumentError(
            f"an instance is asked for by its name, not by a {type(request).__name__}",
            "give a text such as 'three_state' or 'garnet:10,3,2'",
        )
    name, _, text = request.partition(":")
    if name not in _FUNCTIONS:
        raise ArgumentError(f"there is no instance {name!r}", f"use one of {', '.join(names())}")
    function = _FUNCTIONS[name]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for part in _parts(text):
        key, equals, value = part.rpartition("=")
        if equals:
            named[key.strip()] = _value(value)
        else:
            positional.append(_value(value))
    signature = inspect.signature(function)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        known = ", ".join(str(p).split(":")[0] for p in signature.parameters.values())
        raise ArgumentError(f"{request}: {error}", f"{name} takes {known}") from None
    return function(*positional, **named)


def _parts(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts = re.split(r",(?![^(\[]*[)\]])", text)
    return [part for part in parts if part.strip()]


def _value(text: str) -> Any:
    try:
        return literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()
