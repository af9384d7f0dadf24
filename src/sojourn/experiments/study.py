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
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sojourn import instances
from sojourn.errors import DefinitionError, SojournError
from sojourn.experiments.definition import Cell, CellId, Experiment, experiment_id
from sojourn.experiments.strategies import strategy, world_data
from sojourn.importing import Site, load_site

Positive = Annotated[int, Meta(ge=1)]


class WorldEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A world: an instance (with seeds) or a site file."""

    instance: str | None = None
    site: str | None = None
    seeds: list[Annotated[int, Meta(ge=0)]] = []


class StrategyEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A strategy, with a label where the name is not enough."""

    name: str
    label: str | None = None
    options: dict[str, Any] = {}

    @property
    def shown(self) -> str:
        """What tables and figures call it."""
        return self.label or self.name


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
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False
    return "source" not in found and not found.keys().isdisjoint(("worlds", "strategies"))


def load_study(path: Path) -> Experiment:
    """The definition that a study file describes; every mistake is a sentence."""
    try:
        form = msgspec.toml.decode(path.read_bytes(), type=StudyFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(
            f"{path.name}: {error}", f"a study has {', '.join(StudyFile.__struct_fields__)}"
        ) from error
    except OSError as error:
        raise DefinitionError(f"{path} can't be read ({error.strerror})") from error
    sites: dict[str, dict[str, Any]] = {}
    worlds: dict[str, dict[str, Any]] = {}
    for entry in form.worlds:
        for name, parameters in _worlds(entry, path, sites):
            if name in worlds:
                raise DefinitionError(
                    f"{path.name}: the world {name!r} stands there twice",
                    "name each world once; seeds tell draws of one instance apart",
                )
            worlds[name] = parameters
    return _experiment(form.id, form.title, worlds, sites, form.strategies, form.budgets, form.runs)


def study_of_site(
    site: Site, names: Sequence[str], budgets: Sequence[int], runs: int, seed: int,
    variance: float | None,
) -> Experiment:  # fmt: skip
    """The study of one site that a command line describes. ``variance``: where none is guessed."""
    title = site.title or "site"
    return _experiment(
        f"site/{_safe(title)}/seed-{seed}", title, {title: {"site": title}},
        {title: world_data(site, variance)}, [StrategyEntry(name) for name in names],
        list(budgets), runs,
    )  # fmt: skip


def _experiment(
    name: str, title: str, worlds: dict[str, dict[str, Any]], sites: dict[str, dict[str, Any]],
    strategies: Sequence[StrategyEntry], budgets: list[int], runs: int,
) -> Experiment:  # fmt: skip
    again = [n for n, k in Counter(entry.shown for entry in strategies).items() if k > 1]
    if again:
        raise DefinitionError(
            f"two strategies are called {again[0]!r}", "give one of them another label"
        )
    for entry in strategies:
        strategy(entry.name, entry.options)
    cells = [
        Cell(
            CellId(f"{_safe(world)}/{_safe(entry.shown)}"),
            parameters | {"world": world, "strategy": entry.name, "label": entry.shown,
                          "options": entry.options},
        )
        for world, parameters in worlds.items()
        for entry in strategies
    ]  # fmt: skip
    return Experiment(
        experiment_id(name), "study_cell", tuple(cells), title=title or name,
        shared={"budgets": sorted(set(budgets)), "runs": runs, "sites": sites},
    )  # fmt: skip


def _worlds(
    entry: WorldEntry, path: Path, sites: dict[str, dict[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """Names and parameters of an entry's worlds; what a site describes goes to ``sites``."""
    if (entry.instance is None) == (entry.site is None):
        raise DefinitionError(
            f"{path.name}: a world needs exactly one of instance and site",
            'instance = "garnet:10,3,2", or site = "harbour.toml"',
        )
    if entry.site is not None:
        if entry.seeds:
            raise DefinitionError(
                f"{path.name}: the site {entry.site!r} has seeds",
                "seeds are of instances that are drawn; a site is always the same",
            )
        file = (path.parent / entry.site).resolve()
        if not file.is_file():
            raise DefinitionError(f"{path.name}: there is no site file {entry.site!r}")
        sites[entry.site] = world_data(load_site(file))
        return [(file.stem, {"site": entry.site})]
    instance = entry.instance or ""
    requests = [f"{instance}{',' if ':' in instance else ':'}seed={s}" for s in entry.seeds]
    for request in requests or [instance]:
        try:
            instances.build(request)
        except SojournError as error:
            raise DefinitionError(f"{path.name}: {error.message}", error.hint) from error
    return [(request, {"instance": request}) for request in requests or [instance]]


def _safe(text: str) -> str:
    """A label as part of a cell's id."""
    return (
        "".join(c if (c.isascii() and c.isalnum()) or c in "-_.+" else "-" for c in text).strip(
            "-._+"
        )
        or "x"
    )
