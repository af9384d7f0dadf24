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
File = Annotated[str, Meta(description="a path, relative to the site file")]
Slip = Annotated[
    float,
    Meta(ge=0, le=1, description="so often another move that is possible there happens instead"),
]
Stay = Annotated[bool, Meta(description="the device can stay at every site")]
Drift = Annotated[
    tuple[int, int, Probability],
    Meta(description="[dx, dy, p]: carried on by (dx, dy) cells with probability p; y grows south"),
]
Weight = Annotated[
    float, Meta(ge=0, le=1e100, description="how much a site matters; 0 is a mere passage")
]
Mean = Annotated[float, Meta(ge=-1e100, le=1e100, description="a guess of the mean")]
Variance = Annotated[
    float, Meta(ge=0, le=1e100, description="a guess of the noise: the variance of one value")
]


class _Form(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    pass


class Cell(_Form, frozen=True):
    """What a character (or a CSV word) of a grid means."""

    blocked: Annotated[bool, Meta(description="no site: nothing can go there")] = False
    home: Annotated[bool, Meta(description="the site to be back at in the end")] = False
    slip: Slip | None = None
    drift: Drift | None = None
    weight: Weight | None = None
    mean: Mean | None = None
    variance: Variance | None = None


class Grid(_Form, tag_field="kind", tag="grid", frozen=True):
    """An occupancy grid: a text map (one character a cell) or a CSV (one word a cell)."""

    file: File | None = None
    text: Annotated[str | None, Meta(description="the map itself, line by line")] = None
    slip: Slip = 0.0
    drift: Drift | None = None
    legend: Annotated[
        dict[str, Cell], Meta(description="what each character or word of the map means")
    ] = {}
    origin: Annotated[
        tuple[Finite, Finite], Meta(description="x and y of the cell in the south-west corner")
    ] = (0.0, 0.0)
    cell: Annotated[Positive, Meta(description="edge of a cell, in the unit of the map")] = 1.0


class Edges(_Form, tag_field="kind", tag="edges", frozen=True):
    """A CSV or parquet table: from, to, and optionally probability, action, time."""

    file: File
    slip: Slip = 0.0
    stay: Stay = False


class Graph(_Form, tag_field="kind", tag="graph", frozen=True):
    """A GraphML file: nodes are sites, edges are moves."""

    file: File
    slip: Slip = 0.0
    stay: Stay = False


class GeoJSON(_Form, tag_field="kind", tag="geojson", frozen=True):
    """GeoJSON: points are sites, lines say where the device can go."""

    file: File
    slip: Slip = 0.0
    stay: Stay = True
    snap: Annotated[
        NonNegative, Meta(description="a line's end counts as at a point within this many metres")
    ] = 1.0
    spacing: Annotated[
        Positive | None, Meta(description="put a stepping site every so many metres of line")
    ] = None


class Gymnasium(_Form, tag_field="kind", tag="gymnasium", frozen=True):
    """A tabular gymnasium environment."""

    id: Annotated[str, Meta(description="as in gymnasium.make")]
    options: Annotated[dict[str, Any], Meta(description="arguments of gymnasium.make")] = {}
    on_terminal: Annotated[
        Literal["restart", "absorb", "error"],
        Meta(description="where a move into a terminal state leads: to the start, nowhere else, "
             "or it is a mistake"),
    ] = "restart"  # fmt: skip


Source = Grid | Edges | Graph | GeoJSON | Gymnasium


class SiteEntry(_Form, frozen=True):
    """What is known of one site."""

    name: Annotated[str | None, Meta(description="what people call it")] = None
    x: Annotated[Finite | None, Meta(description="to the east, or the longitude")] = None
    y: Annotated[Finite | None, Meta(description="to the north, or the latitude")] = None
    weight: Weight | None = None
    mean: Mean | None = None
    variance: Variance | None = None
    data: Annotated[list[Finite], Meta(description="values measured earlier")] = []


class SiteFile(_Form, frozen=True):
    """A site file."""

    source: Source
    title: Annotated[str, Meta(description="what the survey is called")] = ""
    unit: Annotated[str, Meta(description="unit of the measured value")] = ""
    home: Annotated[str | None, Meta(description="the site to be back at in the end")] = None
    start: Annotated[str | None, Meta(description="where the device is put in; else home")] = None
    no_go: Annotated[list[str], Meta(description="sites never to enter")] = []
    variance: Annotated[
        Positive | None, Meta(description="a guess of the noise everywhere: variance of one value")
    ] = None
    sites: Annotated[
        dict[str, SiteEntry], Meta(description="what is known of single sites, by their names")
    ] = {}
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
