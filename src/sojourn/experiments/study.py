"""A user's own study: worlds × strategies × budgets, from one TOML file.

id = "my-study"
runs = 100
budgets = [100, 1000]

[[worlds]]
instance = "garnet:10,3,2"          # or  site = "harbour.toml"
seeds = [0, 1, 2]                   # of an instance that is drawn

[[strategies]]
name = "lookahead"

[[strategies]]
name = "fw-ame"
label = "FW-AME, narrow"
options = { width = 0.05 }
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sojourn import instances
from sojourn.errors import ExperimentError
from sojourn.experiments.definition import Cell, CellId, Experiment, experiment_id
from sojourn.experiments.strategies import strategy, world_data
from sojourn.importing import load_site

Positive = Annotated[int, Meta(ge=1)]


class WorldEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A world: an instance (with seeds) or a site file."""

    instance: str | None = None
    site: str | None = None
    seeds: list[int] = []


class StrategyEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A strategy, with a label where the name is not enough."""

    name: str
    label: str | None = None
    options: dict[str, Any] = {}


class StudyFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A study."""

    id: str
    worlds: Annotated[list[WorldEntry], Meta(min_length=1)]
    strategies: Annotated[list[StrategyEntry], Meta(min_length=1)]
    budgets: Annotated[list[Positive], Meta(min_length=1)]
    runs: Positive = 100
    title: str = ""


def is_study(path: Path) -> bool:
    """Whether a TOML file is a study (and not a site file)."""
    try:
        return "worlds" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False


def load_study(path: Path) -> Experiment:
    """The definition that a study file describes; every mistake is a sentence."""
    try:
        form = msgspec.toml.decode(path.read_bytes(), type=StudyFile)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError(
            f"{path.name}: {error}",
            f"a study has {', '.join(StudyFile.__struct_fields__)}",
        ) from error
    except OSError as error:
        raise ExperimentError(f"{path} can't be read ({error.strerror})") from error
    sites: dict[str, dict[str, Any]] = {}
    worlds = [world for entry in form.worlds for world in _worlds(entry, path, sites)]
    cells: list[Cell] = []
    for name, parameters in worlds:
        for entry in form.strategies:
            strategy(entry.name, entry.options)
            label = entry.label or entry.name
            chosen = {"world": name, "strategy": entry.name, "label": label,
                      "options": entry.options}  # fmt: skip
            cells.append(Cell(CellId(f"{_safe(name)}/{_safe(label)}"), parameters | chosen))
    return Experiment(
        experiment_id(form.id), "study_cell", tuple(cells), title=form.title or form.id,
        shared={"budgets": form.budgets, "runs": form.runs, "sites": sites},
    )  # fmt: skip


def _worlds(
    entry: WorldEntry, path: Path, sites: dict[str, dict[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """Name and parameters of an entry's worlds; what a site describes goes to ``sites``."""
    if (entry.instance is None) == (entry.site is None):
        raise ExperimentError(
            f"{path.name}: a world needs exactly one of instance and site",
            'instance = "garnet:10,3,2", or site = "harbour.toml"',
        )
    if entry.site is not None:
        site = (path.parent / entry.site).resolve()
        if not site.is_file():
            raise ExperimentError(f"{path.name}: there is no site file {entry.site!r}")
        sites[entry.site] = world_data(load_site(site))
        return [(site.stem, {"site": entry.site})]
    instance = entry.instance or ""
    requests = [f"{instance}{',' if ':' in instance else ':'}seed={s}" for s in entry.seeds]
    for request in requests or [instance]:
        instances.build(request)
    return [(request, {"instance": request}) for request in requests or [instance]]


def _safe(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.+" else "-" for c in text).strip("-.") or "x"
