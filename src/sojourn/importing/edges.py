"""Moves from an edge table: from, to, and optionally probability, action and time.

Without an ``action`` column every row is an action of its own, named after where it leads; a
row of probability p < 1 then fails with 1 − p and the device stays. With one, the rows of one
(from, action) are the outcomes of that action and their probabilities sum to 1.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sojourn.importing.defects import Defects
from sojourn.importing.tables import read_table
from sojourn.model import MDP
from sojourn.model.converters.slip import checked_slip, with_slip


class MoveTable:
    """Collects moves (site, action, next site, probability) and builds the model from them."""

    def __init__(self) -> None:
        self.sites: dict[str, int] = {}
        self.seen_at: dict[str, int] = {}
        """The line where a site is named first."""
        self.moves: dict[tuple[int, str], dict[int, float]] = {}
        self.line: dict[tuple[int, str], int] = {}
        self.time: dict[tuple[int, str], float] = defaultdict(float)

    def site(self, name: str, line: int = 0) -> int:
        self.seen_at.setdefault(name, line)
        return self.sites.setdefault(name, len(self.sites))

    def add(
        self,
        site: str,
        action: str,
        nxt: str,
        probability: float,
        time: float = np.nan,
        line: int = 0,
    ) -> bool:
        """Add an outcome; False if this outcome of this action was there already."""
        key = (self.site(site), action)
        outcomes = self.moves.setdefault(key, {})
        self.line.setdefault(key, line)
        target = self.site(nxt)
        if target in outcomes:
            return False
        outcomes[target] = probability
        self.time[key] += probability * time
        return True

    def add_stay(self, time: float = np.nan) -> None:
        """Let the device stay everywhere."""
        for name, s in self.sites.items():
            if (s, "stay") not in self.moves and self.moves.get((s, name)) != {s: 1.0}:
                self.add(name, "stay", name, 1.0, time)

    def forbid(self, sites: set[int]) -> None:
        """Drop every action that might enter one of these sites, and the sites themselves."""
        self.moves = {
            key: outcomes
            for key, outcomes in self.moves.items()
            if key[0] not in sites and not sites.intersection(outcomes)
        }
        kept = [name for name, s in self.sites.items() if s not in sites]
        new = {self.sites[name]: k for k, name in enumerate(kept)}
        self.moves = {
            (new[s], a): {new[t]: p for t, p in outcomes.items()}
            for (s, a), outcomes in self.moves.items()
        }
        self.time = defaultdict(
            float, {(new[s], a): t for (s, a), t in self.time.items() if s in new}
        )
        self.sites = {name: k for k, name in enumerate(kept)}

    def check(self, file: Path | str, defects: Defects) -> None:
        """Note sites without an action, and actions whose outcomes don't sum to 1."""
        if not self.sites:
            if not defects.found:  # else they say why
                defects.add(file, 0, "there are no sites", "name at least one move or point")
            return
        leaving = {s for s, _ in self.moves}
        for name, s in self.sites.items():
            if s not in leaving:
                defects.add(
                    file, self.seen_at.get(name, 0), f"nothing leads away from site {name!r}",
                    "add a move from it, or let it stay (stay = true)",
                )  # fmt: skip
        names = list(self.sites)
        for key, outcomes in self.moves.items():
            total = sum(outcomes.values())
            if abs(total - 1.0) > 1e-8:
                defects.add(
                    file, self.line.get(key, 0),
                    f"the probabilities of site {names[key[0]]!r}, action {key[1]!r} sum to "
                    f"{total:.10g}", "they must sum to 1",
                )  # fmt: skip

    def build(
        self, slip: float = 0.0, coordinates: NDArray | None = None
    ) -> tuple[MDP, NDArray[np.float64] | None]:
        """The model, and the duration of each pair where times were given."""
        keys = sorted(self.moves, key=lambda key: key[0])
        counts = np.bincount([s for s, _ in keys], minlength=len(self.sites))
        start = np.concatenate(([0], np.cumsum(counts)))
        rows = [k for k, key in enumerate(keys) for _ in self.moves[key]]
        columns = [t for key in keys for t in self.moves[key]]
        data = [p for key in keys for p in self.moves[key].values()]
        n = len(self.sites)
        sure: sp.csr_matrix = sp.csr_matrix((data, (rows, columns)), shape=(len(keys), n))
        mdp = MDP(
            with_slip(sure, start, checked_slip(slip, n)),
            start,
            state_labels=list(self.sites),
            action_labels=[a for _, a in keys],
            coordinates=coordinates,
        )
        time = np.array([self.time.get(key, np.nan) for key in keys])
        return mdp, time if np.isfinite(time).any() else None


def read_edges(file: Path, defects: Defects) -> MoveTable:
    """The moves of an edge table; every bad row is a defect with its line."""
    table = MoveTable()
    plain: list[tuple[str, str, float, float, int]] = []
    for row in read_table(file, ("from", "to"), ("probability", "action", "time"), defects):
        before = len(defects.found)
        given = row.number("probability", file, defects)
        probability = 1.0 if given is None else given
        time = row.number("time", file, defects)
        if len(defects.found) > before:
            continue
        if not 0 < probability <= 1:
            defects.add(
                file, row.line, f"probability is {probability:g}", "it is above 0 and at most 1"
            )
            continue
        source, target = row.cells["from"], row.cells["to"]
        table.site(source, row.line), table.site(target, row.line)
        duration = np.nan if time is None else time
        action = row.cells.get("action", "")
        if not action:
            plain.append((source, target, probability, duration, row.line))
        elif not table.add(source, action, target, probability, duration, row.line):
            defects.add(
                file, row.line, f"site {source!r}, action {action!r} leads to {target!r} twice",
                "give each outcome once, with its whole probability",
            )  # fmt: skip
    for source, target, probability, duration, line in plain:
        if not table.add(source, target, target, probability, duration, line):
            defects.add(
                file, line, f"the move from {source!r} to {target!r} is there twice",
                "remove one of the rows",
            )  # fmt: skip
        elif probability < 1 and source == target:
            defects.add(
                file, line, f"site {source!r} stays with probability {probability:g}",
                "a move to itself is certain; write 1, or give the other outcomes with an action",
            )  # fmt: skip
        elif probability < 1:
            table.add(source, target, source, 1.0 - probability, duration, line)
    return table
