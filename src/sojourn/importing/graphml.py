"""Sites from a GraphML file: nodes are sites, edges are moves.

Node attributes ``name``, ``x``, ``y`` (or ``lon``, ``lat``), ``weight``, ``mean``, ``variance``
are honoured; edge attributes ``probability``, ``action`` and ``time`` as in an edge table.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec

from sojourn.errors import need
from sojourn.importing.defects import Defects
from sojourn.importing.edges import MoveTable
from sojourn.importing.schema import SiteEntry
from sojourn.importing.tables import read_text

_ELEMENT = re.compile(r"<(node|edge)\b([^>]*)>")
_ATTRIBUTE = re.compile(r"""\b(id|source|target)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_KNOWN = ("name", "x", "y", "weight", "mean", "variance")


class _Lines:
    """Where nodes and edges stand: the parser doesn't say."""

    def __init__(self, text: str) -> None:
        self._node: dict[str, int] = {}
        self._edge: dict[tuple[str, str], list[int]] = defaultdict(list)
        line, at = 1, 0
        for element in _ELEMENT.finditer(text):
            line += text.count("\n", at, element.start())
            at = element.start()
            given = {name: unescape(a or b) for name, a, b in _ATTRIBUTE.findall(element[2])}
            if element[1] == "node":
                self._node.setdefault(given.get("id", ""), line)
            else:
                self._edge[given.get("source", ""), given.get("target", "")].append(line)

    def node(self, label: str) -> int:
        return self._node.get(label, 0)

    def edge(self, source: str, target: str) -> int:
        return (self._edge.get((source, target)) or self._edge.get((target, source)) or [0])[-1]


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
        with warnings.catch_warnings():
            # It warns where it guesses a type; what it guessed is checked below.
            warnings.simplefilter("ignore")
            graph = networkx.parse_graphml(text)
    except (
        networkx.NetworkXError, ElementTree.ParseError, KeyError, ValueError, TypeError,
        AttributeError, StopIteration,
    ) as error:  # fmt: skip
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else 0
        defects.add(file, line, f"not GraphML: {error}", "write it with networkx.write_graphml")
        return table, entries, False
    lines = _Lines(text)
    geographic = False
    for node, attributes in graph.nodes(data=True):
        label = str(node)
        line = lines.node(label)
        table.site(label, line)
        known: dict[str, Any] = {key: attributes[key] for key in _KNOWN if key in attributes}
        if "lon" in attributes and "lat" in attributes:
            geographic = True
            known |= {"x": attributes["lon"], "y": attributes["lat"]}
        if "name" in known:
            known["name"] = str(known["name"])
        try:
            entries[label] = msgspec.convert(known, SiteEntry, strict=False)
        except msgspec.ValidationError as error:
            defects.add(file, line, f"node {label!r}: {error}", "mend the attribute of the node")
    directed = graph.is_directed()
    for source, target, attributes in graph.edges(data=True):
        a, b = str(source), str(target)
        line, what = lines.edge(a, b), f"edge {a!r} → {b!r}"
        try:
            probability = float(attributes.get("probability", 1.0))
            time = float(attributes.get("time", "nan"))
        except (TypeError, ValueError):
            defects.add(file, line, f"{what}: probability or time is no number", "write a number")
            continue
        if not 0 < probability <= 1:
            defects.add(
                file, line, f"{what}: probability is {probability:g}",
                "it is above 0 and at most 1",
            )  # fmt: skip
            continue
        both = [(a, b)] if directed or a == b else [(a, b), (b, a)]
        for here, there in both:
            action = str(attributes.get("action", there))
            if not table.add(here, action, there, probability, time, line):
                defects.add(file, line, f"{what} is there twice", "remove one of them")
            elif probability < 1 and "action" not in attributes and here != there:
                table.add(here, action, here, 1.0 - probability, time, line)
    return table, entries, geographic
