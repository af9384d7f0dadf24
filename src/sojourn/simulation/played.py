"""The policies that were played, and how they mix.

Sec. sec:experiments compares strategies by the average SLEM of the policies they played, and
slow or multichain policies are what makes FW-AME's heavy tails. Recording is asked for
(``record_policies=True``); analysing happens when a property is read, once per distinct policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import need
from sojourn.model import MDP, Policy


@dataclass(frozen=True)
class Played:
    """One entry per decision, in the order (run, time)."""

    mdp: MDP
    run: NDArray[np.int64]
    time: NDArray[np.int64]
    """When the decision was taken."""
    steps: NDArray[np.int64]
    """How long it was followed."""
    policy: NDArray[np.int64]
    """The row in ``probability``; −1 where the decision gave actions, not a policy."""
    probability: NDArray[np.float64]
    """The distinct policies, (policies, n_pairs)."""
    info: Sequence[dict[str, Any]] = ()
    """What the strategy reported with each decision."""

    @cached_property
    def policies(self) -> list[Policy]:
        """The distinct policies."""
        return [Policy(self.mdp, row / self.mdp.to_pairs(self.mdp.state_sums(row)))
                for row in self.probability]  # fmt: skip

    @cached_property
    def _chains(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        chains = [policy.chain() for policy in self.policies]
        return (
            np.array([float(chain.slem) for chain in chains]),
            np.array([len(chain.recurrent_classes()) for chain in chains], dtype=np.int64),
        )

    def _spread(self, values: NDArray, missing: Any) -> NDArray:
        padded = np.append(values, np.array([missing], dtype=values.dtype))
        return padded[self.policy]

    @property
    def slem(self) -> NDArray[np.float64]:
        """The second-largest eigenvalue modulus of each policy played; NaN for actions."""
        return self._spread(self._chains[0], np.nan)

    @property
    def recurrent_classes(self) -> NDArray[np.int64]:
        """The number of recurrent classes of each policy played; 0 for actions.

        More than one is a trap: the walk stays in the class that it happens to enter.
        """
        return self._spread(self._chains[1], 0)

    def average_slem(self, per: str = "decision") -> float:
        """The mean SLEM of the policies played, per ``"decision"`` or per ``"step"``."""
        slem = self.slem
        known = ~np.isnan(slem)
        weights = self.steps[known] if per == "step" else np.ones(int(known.sum()))
        return float(np.average(slem[known], weights=weights)) if weights.sum() else float("nan")

    def to_pandas(self) -> Any:
        """A table with one row per decision."""
        try:
            import pandas
        except ImportError:
            raise need("pandas", "data", "Played.to_pandas") from None
        return pandas.DataFrame(
            {
                "run": self.run, "time": self.time, "steps": self.steps, "policy": self.policy,
                "slem": self.slem, "recurrent_classes": self.recurrent_classes,
            }
        )  # fmt: skip


class Recorder:
    """Collects decisions while walks are made; one per block of walks."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._entries: list[tuple[int, int, int, int, dict[str, Any]]] = []
        self._policies: list[NDArray] = []

    def add(self, run: int, time: int, steps: int, policy: NDArray | None, info: Any) -> None:
        """One decision of one walk, after it was followed."""
        row = -1
        if policy is not None:
            key = np.ascontiguousarray(policy).tobytes()
            if key not in self._rows:
                self._rows[key] = len(self._policies)
                self._policies.append(np.array(policy))
            row = self._rows[key]
        self._entries.append((run, time, steps, row, info))

    @staticmethod
    def joined(mdp: MDP, recorders: Sequence[Recorder]) -> Played:
        """All that was recorded, with policies shared between blocks."""
        together = Recorder()
        for recorder in recorders:
            for run, time, steps, row, info in recorder._entries:
                policy = None if row < 0 else recorder._policies[row]
                together.add(run, time, steps, policy, info)
        entries = sorted(together._entries, key=lambda e: e[:2])
        numbers = np.array([e[:4] for e in entries], dtype=np.int64).reshape(-1, 4)
        policies = (
            np.array(together._policies) if together._policies else np.empty((0, mdp.n_pairs))
        )
        return Played(
            mdp, numbers[:, 0], numbers[:, 1], numbers[:, 2], numbers[:, 3], policies,
            [e[4] for e in entries],
        )  # fmt: skip
