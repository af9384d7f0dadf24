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

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sojourn import instances
from sojourn.errors import DefinitionError, SojournError
from sojourn.experiments.definition import Cell, CellId, Experiment, experiment_id
from sojourn.experiments.strategies import STRATEGIES, strategy, world_data
from sojourn.importing import Site, forms, load_site
from sojourn.importing.defects import Defects, SiteFileError
from sojourn.importing.locate import line_of, split_path
from sojourn.importing.tables import read_text

LONGEST = 2**62
"""No walk is longer."""
LONGEST_NAME = 80
"""Characters of a name that its files keep."""
Runs = Annotated[int, Meta(ge=1)]
Budget = Annotated[int, Meta(ge=1, le=LONGEST)]


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
    budgets: Annotated[list[Budget], Meta(min_length=1)]
    runs: Runs = 100
    title: str = ""


_KEYS = {"worlds": WorldEntry.__struct_fields__, "strategies": StrategyEntry.__struct_fields__}
_TOP = re.compile(r"^[ \t]*\[{0,2}[ \t]*(source|worlds|strategies)\b", re.MULTILINE)


def is_study(path: Path) -> bool:
    """Whether a TOML file is a study (and not a site file), also one that has a mistake."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    try:
        found = set(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        found = set(_TOP.findall(text))
    return "source" not in found and not found.isdisjoint(("worlds", "strategies"))


def load_study(path: str | Path) -> Experiment:
    """The definition that a study file describes; every mistake is named, with its line."""
    path, defects = Path(path), Defects()
    text = read_text(path, defects) or ""
    form = None if defects.found else _form(text, path, defects)
    if form is None:
        raise _mistakes(defects)

    def bad(keys: Sequence[str | int], error: SojournError) -> None:
        if isinstance(error, SiteFileError):
            defects.found += error.defects
        else:
            defects.add(path, line_of(text, tuple(map(str, keys))), error.message, error.hint)

    sites: dict[str, dict[str, Any]] = {}
    worlds: dict[str, dict[str, Any]] = {}
    for k, entry in enumerate(form.worlds):
        try:
            for name, parameters in _worlds(entry, path, sites):
                if name in worlds:
                    raise DefinitionError(
                        f"the world {name!r} stands there twice",
                        "name each world once; seeds tell draws of one instance apart",
                    )
                worlds[name] = parameters
        except SojournError as error:
            what = "site" if entry.instance is None else "instance"
            bad(("worlds", k, what), error)
    shown: set[str] = set()
    for k, chosen in enumerate(form.strategies):
        if chosen.shown in shown:
            bad(("strategies", k, "label" if chosen.label else "name"), _twice(chosen.shown))
        shown.add(chosen.shown)
        try:
            strategy(chosen.name, chosen.options)
        except SojournError as error:
            bad(("strategies", k, "options" if chosen.name in STRATEGIES else "name"), error)
    try:
        experiment_id(form.id)
    except SojournError as error:
        bad(("id",), error)
    if defects.found:
        raise _mistakes(defects)
    return _experiment(form.id, form.title, worlds, sites, form.strategies, form.budgets, form.runs)


def _twice(shown: str) -> DefinitionError:
    return DefinitionError(f"two strategies are called {shown!r}", "give one of them another label")


def _form(text: str, path: Path, defects: Defects) -> StudyFile | None:
    """What the file says; a mistake in its form is noted."""
    document = forms.document(text, path, defects)
    if document is None:
        return None
    try:
        return msgspec.convert(document, StudyFile)
    except msgspec.ValidationError as error:
        message, _, pointer = str(error).partition(" - at `")
        keys = split_path(pointer.rstrip("`"))
        unknown = re.search(r"unknown field `(.*)`$", message)
        what = forms.in_words(message, document, keys)
        known = _KEYS.get(keys[0] if keys else "", StudyFile.__struct_fields__)
        line = line_of(text, (*keys, unknown[1]) if unknown else keys)
        missing = "[[{}]]" if re.search("`(worlds|strategies)`", message) else "{} = …"
        defects.add(path, line, what, forms.what_to_write(message, known, missing))
        return None


def _mistakes(defects: Defects) -> DefinitionError:
    """One error that names them all."""
    many = len(defects.found)
    head = "the study has a mistake" if many == 1 else f"the study has {many} mistakes"
    return DefinitionError(
        "\n  ".join([f"{head}:", *map(str, defects.found)]), "mend the lines named above"
    )


def study_of_site(
    site: Site, names: Sequence[str], budgets: Sequence[int], runs: int, seed: int,
    variance: float | None,
) -> Experiment:  # fmt: skip
    """The study of one site that a command line describes. ``variance``: where none is guessed."""
    title = site.title or "site"
    return _experiment(
        f"site/{_safe([title])[title]}/seed-{seed}", title, {title: {"site": title}},
        {title: world_data(site, variance)}, [StrategyEntry(name) for name in names],
        list(budgets), runs,
    )  # fmt: skip


def _experiment(
    name: str, title: str, worlds: dict[str, dict[str, Any]], sites: dict[str, dict[str, Any]],
    strategies: Sequence[StrategyEntry], budgets: list[int], runs: int,
) -> Experiment:  # fmt: skip
    again = [n for n, k in Counter(entry.shown for entry in strategies).items() if k > 1]
    if again:
        raise _twice(again[0])
    for entry in strategies:
        strategy(entry.name, entry.options)
    folder, file = _safe(worlds), _safe([entry.shown for entry in strategies])
    cells = [
        Cell(
            CellId(f"{folder[world]}/{file[entry.shown]}"),
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
            "a world needs exactly one of instance and site",
            'instance = "garnet:10,3,2", or site = "harbour.toml"',
        )
    if entry.site is not None:
        if entry.seeds:
            raise DefinitionError(
                f"the site {entry.site!r} has seeds",
                "seeds are of instances that are drawn; a site is always the same",
            )
        file = (path.parent / entry.site).resolve()
        if not file.is_file():
            raise DefinitionError(
                f"there is no site file {entry.site!r}", "paths are relative to the study"
            )
        sites[entry.site] = world_data(load_site(file))
        return [(Path(entry.site).with_suffix("").as_posix(), {"site": entry.site})]
    instance = entry.instance or ""
    if entry.seeds and re.search(r"\bseed\s*=", instance):
        raise DefinitionError(
            f"{instance!r} has a seed, and the world has seeds as well", "leave one of them out"
        )
    requests = [f"{instance}{',' if ':' in instance else ':'}seed={s}" for s in entry.seeds]
    for request in requests or [instance]:
        instances.build(request)
    return [(request, {"instance": request}) for request in requests or [instance]]


def _safe(names: Iterable[str]) -> dict[str, str]:
    """Names as parts of a cell's id, each its own."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_.+-]", "-", name).strip("-._+")[:LONGEST_NAME] or "x"
        if plain.lower() in map(str.lower, found.values()):
            plain += f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        found[name] = plain
    return found
