"""Sites from a GraphML file: nodes are sites, edges are moves.

Node attributes ``name``, ``x``, ``y`` (or ``lon``, ``lat``), ``weight``, ``mean``, ``variance``
are honoured; edge attributes ``probability``, ``action`` and ``time`` as in an edge table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec

from sojourn.errors import need
from sojourn.importing.defects import Defects
from sojourn.importing.edges import MoveTable
from sojourn.importing.schema import SiteEntry
from sojourn.importing.tables import read_text


def read_graphml(file: Path, defects: Defects) -> tuple[MoveTable, dict[str, SiteEntry], bool]:
    """Moves, what is known of the sites, and whether coordinates are longitude and latitude."""
    try:
        import networkx
    except ImportError as error:
        raise need("networkx", "graph", "reading GraphML") from error
    table = MoveTable()
    entries: dict[str, SiteEntry] = {}
    text = read_text(file, defects)
    if text is None:
        return table, entries, False
    try:
        graph = networkx.parse_graphml(text)
    except (
        networkx.NetworkXError,
        ElementTree.ParseError,
        KeyError,
        ValueError,
        TypeError,
    ) as error:
        defects.add(file, 0, f"not GraphML: {error}")
        return table, entries, False
    geographic = False
    for node, attributes in graph.nodes(data=True):
        label = str(node)
        table.site(label)
        geographic |= "lon" in attributes and "lat" in attributes
        known: dict[str, Any] = {
            key: attributes[key]
            for key in ("name", "x", "y", "weight", "mean", "variance")
            if key in attributes
        }
        if "lon" in attributes and "lat" in attributes:
            known |= {"x": attributes["lon"], "y": attributes["lat"]}
        if "name" in known:
            known["name"] = str(known["name"])
        try:
            entries[label] = msgspec.convert(known, SiteEntry, strict=False)
        except msgspec.ValidationError as error:
            defects.add(file, 0, f"node {label!r}: {error}")
    directed = graph.is_directed()
    for source, target, attributes in graph.edges(data=True):
        pairs = [(str(source), str(target))]
        if not directed and source != target:
            pairs.append((str(target), str(source)))
        try:
            probability = float(attributes.get("probability", 1.0))
            time = float(attributes.get("time", "nan"))
        except (TypeError, ValueError):
            defects.add(file, 0, f"edge {source!r} → {target!r}: probability or time is no number")
            continue
        for a, b in pairs:
            action = str(attributes.get("action", b))
            if not 0 < probability <= 1:
                defects.add(file, 0, f"edge {a!r} → {b!r}: probability is {probability:g}")
                continue
            if not table.add(a, action, b, probability, time):
                defects.add(file, 0, f"edge {a!r} → {b!r} is there twice")
            elif probability < 1 and "action" not in attributes and a != b:
                table.add(a, action, a, 1.0 - probability, time)
    return table, entries, geographic
