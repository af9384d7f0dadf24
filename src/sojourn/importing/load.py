"""From a site file to a :class:`Site`: read, check everything, then build."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sojourn.errors import ArgumentError, ModelError, SiteError
from sojourn.importing import forms
from sojourn.importing.defects import Defects, SiteFileError
from sojourn.importing.edges import MoveTable, read_edges
from sojourn.importing.geojson import read_geojson
from sojourn.importing.graphml import read_graphml
from sojourn.importing.grid import read_grid
from sojourn.importing.locate import line_of, line_of_string, split_path
from sojourn.importing.schema import (
    Cell,
    Edges,
    GeoJSON,
    Graph,
    Grid,
    Gymnasium,
    SiteEntry,
    SiteFile,
    Source,
)
from sojourn.importing.site import Site, nearest_names, site_name
from sojourn.importing.tables import read_table, read_text
from sojourn.model import MDP

_MANY = 30
"""So many mistakes in the form of one file are enough for one reading."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass
class _Draft:
    """A model being read: what its source says before the site file's own entries."""

    mdp: MDP | None = None
    entries: dict[str, SiteEntry] = field(default_factory=dict)
    home: str | None = None
    geographic: bool = False
    time: NDArray[np.float64] | None = None
    outline: tuple[str, ...] = ()
    where: Path | None = None
    """The file that the entries come from, and the line of each."""
    lines: dict[str, int] = field(default_factory=dict)


def load_site(path: str | Path) -> Site:
    """Read a site file (TOML), or a bare map: text, CSV, parquet, GraphML or GeoJSON.

    A CSV with the columns from and to is an edge table, any other a grid; .txt, .map or a name
    without an ending is a text map. Raises
    :class:`SiteFileError` naming every mistake.
    """
    file = Path(path)
    defects = Defects()
    source = bare_source(file, defects)
    text = "" if source else read_text(file, defects)
    defects.raise_any()
    assert text is not None
    form = SiteFile(source=source) if source else _parse(text, file, defects)
    if form is None:
        defects.raise_any()
    assert form is not None

    def locate(*keys: str) -> int:
        return line_of(text, keys)

    if source is None:
        _find_files(form, file, locate, defects)
        defects.raise_any()
    entries = _entries(form, file, defects)
    embedded = line_of_string(text, ("source", "text"))
    draft = _read_source(form, file, locate("source"), embedded, locate("no_go"), defects)
    if draft.mdp is None:
        defects.raise_any()
    site = _assemble(form, draft, entries, file, locate, defects)
    defects.raise_any()
    return site


def _find_files(form: SiteFile, file: Path, locate: Callable[..., int], defects: Defects) -> None:
    """Note the files that a site file names and that are not there."""
    named = {
        ("source", "file"): getattr(form.source, "file", None),
        ("sites_file",): form.sites_file,
        ("data_file",): form.data_file,
    }
    for keys, name in named.items():
        if name is None:
            continue
        try:
            found = (file.parent / name).is_file()
        except (OSError, ValueError):  # no name for a file at all
            found = False
        if not found:
            defects.add(
                file, locate(*keys), f"there is no file {name!r}",
                "paths are relative to the site file",
            )  # fmt: skip


def bare_source(file: Path, defects: Defects) -> Source | None:
    """The source that a map on its own is, by the ending of its name; None for a site file."""
    match file.suffix.lower():
        case ".parquet" | ".pq":
            return Edges(file=file.name)
        case ".graphml":
            return Graph(file=file.name)
        case ".geojson":
            return GeoJSON(file=file.name)
        case ".txt" | ".map" | "":
            return Grid(file=file.name)
        case ".csv":
            lines = (read_text(file, defects) or "").splitlines()
            header = next((line for line in lines if line.strip() and line[0] != "#"), "")
            columns = {cell.strip(' "').lower() for cell in re.split("[,;\t]", header)}
            table = {"from", "to"} & columns
            return Edges(file=file.name) if table else Grid(file=file.name)
    return None


def _parse(text: str, file: Path, defects: Defects) -> SiteFile | None:
    """What can be understood of the file; every mistake in its form is noted."""
    document = forms.document(text, file, defects)
    if document is None:
        return None
    for _ in range(_MANY):
        try:
            return msgspec.convert(document, SiteFile)
        except msgspec.ValidationError as error:
            message, _, pointer = str(error).partition(" - at `")
            keys = _culprit(document, split_path(pointer.rstrip("`")))
            unknown = re.search(r"unknown field `(.*)`$", message)
            where = (*keys, unknown[1]) if unknown else keys
            what = forms.in_words(message, document, keys)
            defects.add(file, line_of(text, where), what, _fix_for(keys, message, document))
            # Go on without it: one run is to name every mistake.
            if not _dropped(document, where):
                return None
    return None


def _dropped(document: Any, keys: tuple[str, ...]) -> bool:
    """Remove what ``keys`` lead to; False where that would only make another mistake."""
    if not keys or keys == ("source",) or keys[-1] == "kind":
        return False
    for key in keys[:-1]:
        document = document.get(key) if isinstance(document, dict) else None
    if not isinstance(document, dict) or keys[-1] not in document:
        return False
    del document[keys[-1]]
    return True


def _culprit(document: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    """msgspec writes a key of a table as a wildcard: find which entry it meant."""
    forms: tuple[tuple[tuple[str, ...], type], ...] = (
        (("sites",), SiteEntry),
        (("source", "legend"), Cell),
    )
    for table, form in forms:
        if keys[: len(table)] != table:
            continue
        entries = document
        for key in table:
            entries = entries[key]
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            try:
                msgspec.convert(entry, form)
            except msgspec.ValidationError:
                return (*table, name, *keys[len(table) :])
    return keys


_KINDS = {"grid": Grid, "edges": Edges, "graph": Graph, "geojson": GeoJSON, "gymnasium": Gymnasium}


def _fix_for(keys: tuple[str, ...], message: str, document: Any) -> str:
    """What to write instead."""
    if keys == ("source",) and "field `kind`" in message:
        return f"add kind = …, one of {', '.join(_KINDS)}"
    if keys == ("source", "kind"):
        return f"kinds are {', '.join(_KINDS)}"
    if keys == ("source", "on_terminal"):
        return "use one of restart, absorb, error"
    missing = "[source]" if "missing" in message and "`source`" in message else "{} = …"
    fix = forms.what_to_write(message, _keys_of(keys, document), missing)
    return fix or "`sojourn inspect --schema` prints what every key has to be"


def _keys_of(keys: tuple[str, ...], document: Any) -> tuple[str, ...]:
    """The keys that the table at ``keys`` may have."""
    if not keys:
        return SiteFile.__struct_fields__
    if keys == ("source",):
        form = _KINDS.get(str(forms.value_at(document, ("source", "kind"))))
        return ("kind", *(form.__struct_fields__ if form else ()))
    form = Cell if keys[:2] == ("source", "legend") else SiteEntry
    return form.__struct_fields__


def _entries(
    form: SiteFile, file: Path, defects: Defects
) -> dict[str, tuple[SiteEntry, Path, int]]:
    """Entries of the sites table, by name, with where they stand."""
    found: dict[str, tuple[SiteEntry, Path, int]] = {}
    if form.sites_file is not None:
        table = file.parent / form.sites_file
        numbers = ("x", "y", "weight", "mean", "variance")
        for row in read_table(table, ("site",), ("name", *numbers), defects):
            values: dict[str, Any] = {n: row.number(n, table, defects) for n in numbers}
            for name in ("weight", "variance"):
                if (values[name] or 0.0) < 0:
                    defects.add(table, row.line, f"{name} is {values[name]:g}", "it is >= 0")
                    values[name] = None
            key = row.cells["site"]
            if key in found:
                defects.add(table, row.line, f"site {key!r} is there twice", "remove one row")
            entry = SiteEntry(name=row.cells.get("name") or None, **values)
            found[key] = (entry, table, row.line)
    return found


def _read_source(
    form: SiteFile, file: Path, line: int, embedded: int, no_go_line: int, defects: Defects
) -> _Draft:
    source, folder = form.source, file.parent
    try:
        if isinstance(source, Grid):
            where = file if source.file is None else folder / source.file
            at = embedded if source.file is None else 1
            grid = read_grid(source, where, at, (file, line), (form.no_go, no_go_line), defects)
            if grid is None:
                return _Draft()
            return _Draft(grid.mdp, grid.entries, grid.home, False, None, grid.outline)
        if isinstance(source, Gymnasium):
            mdp = _gymnasium(source)
            return _Draft(_without(mdp, form.no_go, file, no_go_line, defects))
        table, home, geographic = MoveTable(), None, False
        entries: dict[str, SiteEntry] = {}
        no_go = list(form.no_go)
        where = folder / source.file
        if isinstance(source, Edges):
            table = read_edges(where, defects)
        elif isinstance(source, Graph):
            table, entries, geographic = read_graphml(where, defects)
        else:
            geo = read_geojson(where, source, defects)
            table, entries, home, geographic = geo.table, geo.entries, geo.home, True
            no_go += geo.no_go
            entries = {
                name: msgspec.structs.replace(
                    entries.get(name, SiteEntry()), x=position[0], y=position[1]
                )
                for name, position in geo.position.items()
            }
        for name in no_go:
            if name not in table.sites:
                defects.add(
                    file,
                    no_go_line,
                    f"no_go names {name!r}, which is no site",
                    _meant(name, list(table.sites)),
                )
        if source.stay:
            # Times of GeoJSON are metres of way, and staying is none; a table's are its own.
            table.add_stay(0.0 if isinstance(source, GeoJSON) else np.nan)
        table.check(where, defects)
        forbidden = {table.sites[name] for name in no_go if name in table.sites}
        if defects.found:
            return _Draft()
        if forbidden:
            table.forbid(forbidden)
            table.check(where, defects)
        if defects.found:
            return _Draft()
        mdp, time = table.build(source.slip, _coordinates(list(table.sites), entries))
        return _Draft(
            mdp, entries, home, geographic, time, where=where, lines=table.seen_at
        )  # fmt: skip
    except SiteFileError:
        raise
    except (ModelError, ArgumentError) as error:
        defects.add(file, line, error.message, error.hint)
        return _Draft()


def _coordinates(names: list[str], entries: dict[str, SiteEntry]) -> NDArray | None:
    found = [entries.get(name, SiteEntry()) for name in names]
    if not found or any(e.x is None or e.y is None for e in found):
        return None
    return np.array([[e.x, e.y] for e in found], dtype=float)


def _gymnasium(source: Gymnasium) -> MDP:
    from sojourn.errors import need

    try:
        import gymnasium
    except ImportError as error:
        raise need("gymnasium", "gym", "a gymnasium source") from error
    try:
        env = gymnasium.make(source.id, **source.options)
    except Exception as error:
        # An environment's own code runs here, with options that nobody checked.
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"gymnasium can't make {source.id!r}: {what}", "check the id and the options"
        ) from error
    # States that are never reached would make every loss infinite; games often have some.
    return MDP.from_gymnasium(env, on_terminal=source.on_terminal).restricted_to_reachable()


def _without(mdp: MDP, no_go: list[str], file: Path, line: int, defects: Defects) -> MDP:
    """The model without actions that may enter a no-go site."""
    names = [site_name(label) for label in mdp.state_labels]
    for name in no_go:
        if name not in names:
            defects.add(file, line, f"no_go names {name!r}, which is no site", _meant(name, names))
    kept = np.array([name not in no_go for name in names])
    return mdp if kept.all() or defects.found else mdp.restricted(kept)


def _meant(name: str, names: list[str]) -> str:
    close = nearest_names(name, names)
    return f"did you mean {close[0]!r}?" if close else (
        f"sites are called {', '.join(repr(n) for n in names[:4])}, …"
    )  # fmt: skip


def _assemble(
    form: SiteFile,
    draft: _Draft,
    table_entries: dict[str, tuple[SiteEntry, Path, int]],
    file: Path,
    locate: Callable[..., int],
    defects: Defects,
) -> Site:
    mdp = draft.mdp
    assert mdp is not None
    labels = [site_name(label) for label in mdp.state_labels]
    index = {label: s for s, label in enumerate(labels)}
    n = len(labels)
    names = list(labels)
    named_at: dict[int, tuple[Path, int]] = {}
    weight, mean, variance = np.ones(n), np.full(n, np.nan), np.full(n, np.nan)
    if form.variance is not None:
        variance[:] = form.variance
    coordinates = None if mdp.coordinates is None else mdp.coordinates.copy()
    placed: dict[int, tuple[float, float]] = {}
    data: dict[int, list[float]] = {}

    def apply(key: str, entry: SiteEntry, where: Path, line: Callable[[], int]) -> None:
        s = index.get(key)
        if s is None:
            defects.add(where, line(), f"there is no site {key!r}", _meant(key, labels))
            return
        if (entry.x is None) != (entry.y is None):
            defects.add(where, line(), f"site {key!r} has only one of x and y", "give both")
        if entry.name is not None:
            names[s], named_at[s] = entry.name, (where, line())
        for array, value in (
            (weight, entry.weight),
            (mean, entry.mean),
            (variance, entry.variance),
        ):
            if value is not None:
                array[s] = value
        if entry.x is not None and entry.y is not None:
            placed[s] = (entry.x, entry.y)
        data.setdefault(s, []).extend(entry.data)

    for key, entry in draft.entries.items():
        if key in index:
            apply(key, entry, draft.where or file, lambda key=key: draft.lines.get(key, 0))  # type: ignore[misc]
    for key, (entry, where, line) in table_entries.items():
        apply(key, entry, where, lambda line=line: line)  # type: ignore[misc]
    for key, entry in form.sites.items():
        apply(key, entry, file, lambda key=key: locate("sites", key))  # type: ignore[misc]
    if form.data_file is not None:
        where = file.parent / form.data_file
        for row in read_table(where, ("site", "value"), (), defects):
            value = row.number("value", where, defects)
            s = index.get(row.cells["site"])
            if s is None:
                defects.add(
                    where,
                    row.line,
                    f"there is no site {row.cells['site']!r}",
                    _meant(row.cells["site"], labels),
                )
            elif value is not None:
                data.setdefault(s, []).append(value)
    if placed and (coordinates is not None or len(placed) == n):
        coordinates = np.full((n, 2), np.nan) if coordinates is None else coordinates
        for s, position in placed.items():
            coordinates[s] = position
    elif placed and len(placed) < n:
        missing = next(labels[s] for s in range(n) if s not in placed)
        defects.add(
            file,
            locate("sites"),
            f"site {missing!r} has no x and y, others have",
            "place all sites or none",
        )

    seen: dict[str, int] = {}
    for s, name in enumerate(names):
        # What was given no name is called by its label; a namesake may have been given one.
        at = (
            named_at.get(s) or named_at.get(seen.get(name, -1))
            or (draft.where or file, draft.lines.get(name, 0))
        )  # fmt: skip
        if name in seen:
            defects.add(*at, f"two sites are named {name!r}", "names are unique")
        elif name != labels[s] and name in index:
            defects.add(
                *at, f"site {labels[s]!r} is named {name!r}, as another site is called",
                "choose another name",
            )  # fmt: skip
        if _CONTROL.search(name):
            defects.add(*at, f"the name {name!r} has a control character", "remove it")
        seen[name] = s
    for key, words in (("title", form.title), ("unit", form.unit)):
        if _CONTROL.search(words):
            defects.add(file, locate(key), f"{key} has a control character", "remove it")

    def resolve(key: str, name: str | None) -> int | None:
        if name is None:
            return None
        s = index.get(name, seen.get(name))
        if s is None:
            defects.add(
                file, locate(key), f"{key} is {name!r}, which is no site", _meant(name, labels)
            )
        return s

    home = resolve("home", form.home if form.home is not None else draft.home)
    start = resolve("start", form.start)
    if not (weight > 0).any():
        defects.add(
            file,
            locate("sites") or locate("source"),
            "every site has weight 0",
            "give one site a weight",
        )
    defects.raise_any()
    if coordinates is not None and mdp.coordinates is not coordinates:
        mdp = mdp.with_coordinates(coordinates)
    return Site(
        mdp=mdp, names=tuple(names), title=form.title or file.stem, unit=form.unit,
        weight=weight, mean=mean, variance=variance,
        data={s: tuple(values) for s, values in data.items() if values},
        home=home, start=start if start is not None else home,
        geographic=draft.geographic, time=draft.time, outline=draft.outline,
    )  # fmt: skip


__all__ = ["SiteError", "load_site"]
