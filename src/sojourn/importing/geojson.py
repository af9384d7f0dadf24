"""Sites from GeoJSON: points are sites, lines say where the device can go.

A line joins the points that lie on its vertices, one after the other; its two ends must lie
at points. ``oneway: true`` in a line's properties lets it be travelled in its direction only.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sojourn.importing.defects import Defects
from sojourn.importing.edges import MoveTable
from sojourn.importing.schema import GeoJSON, SiteEntry
from sojourn.importing.tables import read_text

EARTH_RADIUS = 6_371_008.8
"""Mean radius of the earth in metres (IUGG)."""

_BLANK = " \t\r\n"
_KNOWN = {"name", "weight", "mean", "variance", "data"}


@dataclass
class GeoSites:
    """What a GeoJSON file says."""

    table: MoveTable = field(default_factory=MoveTable)
    position: dict[str, tuple[float, float]] = field(default_factory=dict)
    entries: dict[str, SiteEntry] = field(default_factory=dict)
    home: str | None = None
    no_go: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    """A feature, by which its defects are named."""

    file: Path
    line: int
    name: str
    defects: Defects

    def bad(self, what: str, fix: str) -> None:
        self.defects.add(self.file, self.line, f"{self.name} {what}", fix)

    def check(self, position: tuple[float, float]) -> bool:
        """Whether a position lies on the earth; one that doesn't is a defect."""
        x, y = position
        if abs(x) <= 180 and abs(y) <= 90:
            return True
        self.bad(
            f"lies at {x:g}, {y:g}, which is no longitude and latitude",
            "is the order [longitude, latitude]? export it in degrees (WGS 84)",
        )
        return False


def metres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Great-circle distance of two (longitude, latitude) (the haversine formula)."""
    lon1, lat1, lon2, lat2 = map(math.radians, (*a, *b))
    h = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * EARTH_RADIUS * math.asin(math.sqrt(min(1.0, h)))


def read_geojson(file: Path, form: GeoJSON, defects: Defects) -> GeoSites:
    """The sites and moves of a GeoJSON file."""
    sites = GeoSites()
    text = read_text(file, defects)
    if text is None:
        return sites
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        defects.add(file, error.lineno, f"not JSON: {error.msg}", "export it again as GeoJSON")
        return sites
    except ValueError as error:
        defects.add(file, 0, f"not JSON: {error}", "export it again as GeoJSON")
        return sites
    except RecursionError:
        defects.add(file, 0, "not GeoJSON: nested too deeply", "export it as GeoJSON features")
        return sites
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list):
        defects.add(file, 0, "not a FeatureCollection", "export it as GeoJSON features")
        return sites
    lines: list[tuple[_Place, list[tuple[float, float]], bool]] = []
    for number, (feature, at) in enumerate(zip(features, _lines_of_features(text)), start=1):
        where = _Place(file, at, f"feature {number}", defects)
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(geometry, dict):
            where.bad("has no geometry", "remove it")
            continue
        properties = feature.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        kind, coordinates = geometry.get("type"), geometry.get("coordinates")
        if kind == "Point":
            point = _position(coordinates)
            if point is None:
                where.bad("has no position", "give [longitude, latitude]")
                continue
            where.check(point)
            _add_point(sites, feature, properties, point, number, where)
        elif kind in ("LineString", "MultiLineString"):
            parts = [coordinates] if kind == "LineString" else coordinates
            for part in parts if isinstance(parts, list) else [None]:
                vertices = [_position(v) for v in part] if isinstance(part, list) else []
                clean = [v for v in vertices if v is not None]
                if len(vertices) < 2 or len(clean) < len(vertices):
                    where.bad("is not a line", "give two positions or more")
                    continue
                if all(where.check(vertex) for vertex in clean):
                    lines.append((where, clean, _yes(properties.get("oneway"))))
        else:
            where.bad(f"is a {kind}", "only points and lines are understood; remove it")
    for where, route, oneway in lines:
        _add_line(sites, where, route, oneway, form)
    return sites


def _lines_of_features(text: str) -> list[int]:
    """The line on which each feature of a FeatureCollection (known to be valid JSON) begins."""
    decoder = json.JSONDecoder()
    found: list[int] = []
    line, counted = 1, 0

    def skip(at: int, characters: str) -> int:
        while text[at] in characters:
            at += 1
        return at

    at = skip(text.index("{") + 1, _BLANK + ",")
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        at = skip(at, _BLANK + ":")
        if key != "features" or text[at] != "[":
            at = decoder.raw_decode(text, at)[1]
        else:
            found = []
            at = skip(at + 1, _BLANK)
            while text[at] != "]":
                line += text.count("\n", counted, at)
                counted = at
                found.append(line)
                at = skip(decoder.raw_decode(text, at)[1], _BLANK + ",")
            at += 1
        at = skip(at, _BLANK + ",")
    return found


def _position(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) < 2:
        return None
    x, y = value[0], value[1]
    if any(isinstance(k, bool) or not isinstance(k, int | float) for k in (x, y)):
        return None
    try:
        return (float(x), float(y)) if math.isfinite(x) and math.isfinite(y) else None
    except OverflowError:
        return None


def _yes(value: Any) -> bool:
    return value in (True, 1, "true", "True", "yes", "1")


def _add_point(
    sites: GeoSites,
    feature: dict[str, Any],
    properties: dict[str, Any],
    point: tuple[float, float],
    number: int,
    where: _Place,
) -> None:
    identity = feature.get("id", properties.get("id", properties.get("name")))
    label = f"P{number}" if identity is None else str(identity)
    if label in sites.position:
        where.bad(f"is called {label!r} like another", "give each point an id of its own")
        return
    sites.table.site(label, where.line)
    sites.position[label] = point
    known = {key: value for key, value in properties.items() if key in _KNOWN}
    if known.get("name") is not None:
        known["name"] = str(known["name"])
    try:
        sites.entries[label] = msgspec.convert(known, SiteEntry, strict=False)
    except msgspec.ValidationError as error:
        where.bad(f"({label!r}): {error}", f"properties are {', '.join(sorted(_KNOWN))}")
    if _yes(properties.get("home")):
        sites.home = label
    if _yes(properties.get("no_go")):
        sites.no_go.append(label)


def _add_line(
    sites: GeoSites,
    where: _Place,
    vertices: list[tuple[float, float]],
    oneway: bool,
    form: GeoJSON,
) -> None:
    labels = list(sites.position)
    positions = np.array([sites.position[label] for label in labels]).reshape(-1, 2)

    def nearest(vertex: tuple[float, float]) -> str | None:
        if not len(labels):
            return None
        # On a small scale longitude shrinks with cos(latitude); enough to pick the candidate.
        offset = (positions - vertex) * [math.cos(math.radians(vertex[1])), 1.0]
        best = labels[int(np.argmin((offset**2).sum(axis=1)))]
        return best if metres(sites.position[best], vertex) <= form.snap else None

    at = [nearest(v) for v in vertices]
    for end, label in (("start", at[0]), ("end", at[-1])):
        if label is None:
            where.bad(
                f"is a line whose {end} lies at no point",
                f"draw a point there, or raise snap (now {form.snap:g} m)",
            )
    if at[0] is None or at[-1] is None:
        return
    stops = [k for k, label in enumerate(at) if label is not None]
    for i, j in itertools.pairwise(stops):
        first, last = at[i], at[j]
        assert first is not None
        assert last is not None
        if first == last:
            continue
        route = [
            first,
            *_stepping_sites(sites, vertices[i : j + 1], form.spacing, (first, last)),
            last,
        ]
        for a, b in itertools.pairwise(route):
            sites.table.add(a, b, b, 1.0, metres(sites.position[a], sites.position[b]))
            if not oneway:
                sites.table.add(b, a, a, 1.0, metres(sites.position[a], sites.position[b]))


def _stepping_sites(
    sites: GeoSites,
    vertices: list[tuple[float, float]],
    spacing: float | None,
    ends: tuple[str, str],
) -> list[str]:
    """New sites of weight 0 along a line, ``spacing`` metres apart."""
    if spacing is None:
        return []
    lengths = [metres(a, b) for a, b in itertools.pairwise(vertices)]
    steps = max(1, round(sum(lengths) / spacing))
    marks = np.cumsum([0.0, *lengths])
    added = []
    for k in range(1, steps):
        along = marks[-1] * k / steps
        x = float(np.interp(along, marks, [v[0] for v in vertices]))
        y = float(np.interp(along, marks, [v[1] for v in vertices]))
        label = f"{ends[0]}~{ends[1]}~{k}"
        while label in sites.position:
            label += "'"
        sites.table.site(label)
        sites.position[label] = (x, y)
        sites.entries[label] = SiteEntry(weight=0.0)
        added.append(label)
    return added
