"""An experiment is data: a frozen definition with an id, its cells, and nothing else.

    experiment   an id such as ``garnet-table/S5`` and a list of cells
    cell         an id such as ``instance-017`` and the parameters of one independent piece of work
    runner       the function that a cell's parameters are handed to, by name

The seed of a cell follows from the two ids alone, so a cell gives the same rows alone or among
others, today or after an interruption, on one worker or on many. The digest of a definition
says whether results on disk belong to it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, NewType

import numpy as np

from sojourn.errors import DefinitionError

ExperimentId = NewType("ExperimentId", str)
CellId = NewType("CellId", str)

Row = dict[str, Any]
"""One record of a tidy table: numbers, text and None."""

_ID = re.compile(r"[a-z0-9][a-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*", re.IGNORECASE)


LONGEST_WORD = 100


def experiment_id(text: str) -> ExperimentId:
    """``text`` as an experiment's id: words joined by slashes, usable as a path."""
    if not _ID.fullmatch(text) or ".." in text:
        raise DefinitionError(
            f"{text!r} can't be the id of an experiment",
            "use letters, digits, '-', '_', '.', and '/' between words, as in garnet-table/S5",
        )
    if max(map(len, text.split("/"))) > LONGEST_WORD:
        raise DefinitionError(
            f"the id {text[:20]}… has a word of more than {LONGEST_WORD} characters",
            "it becomes the name of a file: shorten it, and say the rest in the title",
        )
    return ExperimentId(text)


@dataclass(frozen=True)
class Cell:
    """One independent piece of work."""

    id: CellId
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A definition. ``version`` is raised when the meaning of the parameters changes."""

    id: ExperimentId
    runner: str
    cells: tuple[Cell, ...]
    title: str = ""
    version: int = 1
    shared: dict[str, Any] = field(default_factory=dict)
    """Parameters that all cells share (a cell's own win)."""

    def __post_init__(self) -> None:
        experiment_id(self.id)
        if not self.cells:
            raise DefinitionError(
                f"the experiment {self.id} has no cells", "define what is to be computed"
            )
        seen: set[str] = set()
        for cell in self.cells:
            experiment_id(cell.id)
            if cell.id in seen:
                raise DefinitionError(
                    f"the experiment {self.id} has two cells {cell.id!r}",
                    "the seed of a cell follows from its id: give each one its own",
                )
            seen.add(cell.id)

    def parameters(self, cell: Cell) -> dict[str, Any]:
        """What the runner gets."""
        return self.shared | cell.parameters

    def seed(self, cell: Cell) -> int:
        """The seed of a cell, from the ids alone."""
        digest = hashlib.sha256(f"{self.id}\n{cell.id}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def as_dict(self) -> dict[str, Any]:
        """The definition as plain data."""
        return {
            "id": self.id, "runner": self.runner, "title": self.title, "version": self.version,
            "shared": plain(self.shared),
            "cells": {cell.id: plain(cell.parameters) for cell in self.cells},
        }  # fmt: skip

    def digest(self) -> str:
        """A fingerprint of everything that decides the results."""
        data = {key: value for key, value in self.as_dict().items() if key != "title"}
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """Numbers, text, lists and tables as JSON knows them."""
    match value:
        case dict():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case bool() | int() | float() | str() | None:
            return value
    raise DefinitionError(f"{value!r} can't be part of a definition", "use numbers, text and lists")
