"""The form of a site file, as types. The JSON Schema that we publish is made from them.

A site file is one TOML document: a title, one ``[source]`` that says where the sites are and
how moves go, and what is known of single sites.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

# Squares of anything larger leave the range of numbers; infinity and NaN are refused with it.
Probability = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=1e100)]
NonNegative = Annotated[float, Meta(ge=0, le=1e100)]
Finite = Annotated[float, Meta(ge=-1e100, le=1e100)]
Drift = Annotated[
    tuple[int, int, Probability],
    Meta(description="[dx, dy, p]: carried on by (dx, dy) cells with probability p; y grows south"),
]


class _Form(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    pass


class Cell(_Form, frozen=True):
    """What a character (or a CSV word) of a grid means."""

    blocked: bool = False
    home: bool = False
    slip: Probability | None = None
    drift: Drift | None = None
    weight: NonNegative | None = None
    mean: Finite | None = None
    variance: NonNegative | None = None


class Grid(_Form, tag_field="kind", tag="grid", frozen=True):
    """An occupancy grid: a text map (one character a cell) or a CSV (one word a cell)."""

    file: str | None = None
    text: str | None = None
    slip: Probability = 0.0
    drift: Drift | None = None
    legend: dict[str, Cell] = {}
    origin: tuple[Finite, Finite] = (0.0, 0.0)
    cell: Annotated[Positive, Meta(description="edge of a cell, in the unit of the map")] = 1.0


class Edges(_Form, tag_field="kind", tag="edges", frozen=True):
    """A CSV or parquet table: from, to, and optionally probability, action, time."""

    file: str
    slip: Probability = 0.0
    stay: bool = False


class Graph(_Form, tag_field="kind", tag="graph", frozen=True):
    """A GraphML file: nodes are sites, edges are moves."""

    file: str
    slip: Probability = 0.0
    stay: bool = False


class GeoJSON(_Form, tag_field="kind", tag="geojson", frozen=True):
    """GeoJSON: points are sites, lines say where the device can go."""

    file: str
    slip: Probability = 0.0
    stay: bool = True
    snap: Annotated[
        NonNegative, Meta(description="a line's end counts as at a point within this many metres")
    ] = 1.0
    spacing: Annotated[
        Positive | None, Meta(description="put a stepping site every so many metres of line")
    ] = None


class Gymnasium(_Form, tag_field="kind", tag="gymnasium", frozen=True):
    """A tabular gymnasium environment."""

    id: str
    options: dict[str, Any] = {}
    on_terminal: Literal["restart", "absorb", "error"] = "restart"


Source = Grid | Edges | Graph | GeoJSON | Gymnasium


class SiteEntry(_Form, frozen=True):
    """What is known of one site."""

    name: str | None = None
    x: Finite | None = None
    y: Finite | None = None
    weight: NonNegative | None = None
    mean: Annotated[Finite | None, Meta(description="a guess of the mean")] = None
    variance: Annotated[NonNegative | None, Meta(description="a guess of the noise")] = None
    data: Annotated[list[Finite], Meta(description="values measured earlier")] = []


class SiteFile(_Form, frozen=True):
    """A site file."""

    source: Source
    title: str = ""
    unit: Annotated[str, Meta(description="unit of the measured value")] = ""
    home: Annotated[str | None, Meta(description="the site to be back at in the end")] = None
    start: Annotated[str | None, Meta(description="where the device is put in; else home")] = None
    no_go: Annotated[list[str], Meta(description="sites never to enter")] = []
    variance: Annotated[
        Positive | None, Meta(description="a guess of the noise everywhere: variance of one value")
    ] = None
    sites: dict[str, SiteEntry] = {}
    sites_file: Annotated[
        str | None, Meta(description="CSV: site, name, x, y, weight, mean, variance")
    ] = None
    data_file: Annotated[str | None, Meta(description="CSV of earlier data: site, value")] = None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a site file."""
    schema = msgspec.json.schema(SiteFile)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "sojourn site file"
    return schema
