"""A site: a model of the moves together with what is known of each place.

It is what a site file becomes, and all that a plan, a rehearsal or a campaign needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import ArgumentError
from sojourn.model import MDP, per_state


@dataclass(frozen=True)
class Site:
    """Where a survey takes place. Arrays have one entry per state.

    ``mean`` and ``variance`` are guesses (NaN where nobody guessed), ``data`` are values
    measured earlier, ``geographic`` says that coordinates are longitude and latitude.
    ``time`` is the duration of each pair where the source gave one.
    """

    mdp: MDP
    names: tuple[str, ...]
    title: str = "survey"
    unit: str = ""
    weight: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    mean: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    variance: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    data: dict[int, tuple[float, ...]] = field(default_factory=dict)
    home: int | None = None
    start: int | None = None
    geographic: bool = False
    time: NDArray[np.float64] | None = None
    outline: tuple[str, ...] = ()
    """The text map, where there is one (for pictures in a terminal)."""

    def __post_init__(self) -> None:
        n = self.mdp.n_states
        weight: Any = self.weight if np.size(self.weight) else 1.0
        # One NaN among the weights would make every average NaN.
        set_ = object.__setattr__
        set_(self, "weight", per_state(weight, n, "weight", minimum=0.0))
        if not (self.weight > 0).any():
            raise ArgumentError("every site has weight 0", "give one site a weight above 0")
        set_(self, "mean", _guesses(self.mean, n, "mean", -np.inf))
        set_(self, "variance", _guesses(self.variance, n, "variance", 0.0))
        if len(self.names) != n:
            raise ArgumentError(
                f"{len(self.names)} names were given for {n} states", "give one name per state"
            )
        if len(set(self.names)) < n:
            # The labels 1 and "1" are two to a model, and one to whoever writes them down.
            name, _ = Counter(self.names).most_common(1)[0]
            raise ArgumentError(
                f"two sites are called {name!r}",
                "give every state a label that is written its own way",
            )
        for name in ("home", "start"):
            index = getattr(self, name)
            if index is not None and not 0 <= index < n:
                raise ArgumentError(
                    f"{name} is {index}, not a state between 0 and {n - 1}",
                    "Site.index finds the state of a name",
                )
        for s in self.data:
            if not 0 <= s < n:
                raise ArgumentError(
                    f"there is data of state {s}, not between 0 and {n - 1}",
                    "Site.index finds the state of a name",
                )

    @classmethod
    def from_mdp(cls, mdp: MDP, **known: Any) -> Site:
        """A site around a bare model."""
        return cls(mdp=mdp, names=tuple(site_name(label) for label in mdp.state_labels), **known)

    @property
    def coordinates(self) -> NDArray[np.float64] | None:
        return self.mdp.coordinates

    @property
    def named(self) -> MDP:
        """The model with the names that its users know as labels, for what is said to them."""
        mdp = self.mdp
        return MDP(
            mdp.transitions, mdp.pair_start, state_labels=self.names,
            action_labels=mdp.action_labels, coordinates=mdp.coordinates, initial=mdp.initial,
        )  # fmt: skip

    def index(self, name: object) -> int:
        """The state that a user means: an integer is its index, anything else a name or label."""
        n = self.mdp.n_states
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            # Where labels are numbers too, an index must never be taken for a label.
            if 0 <= int(name) < n:
                return int(name)
            raise ArgumentError(
                f"there is no site {int(name)}", f"an integer is an index, from 0 to {n - 1}"
                + (f"; the site that is called so is {str(int(name))!r}, as text"
                   if str(int(name)) in self._by_name else ""),
            )  # fmt: skip
        text = site_name(name).strip()
        if text in self._by_name:
            return self._by_name[text]
        close = nearest_names(text, tuple(self._by_name))
        raise ArgumentError(
            f"there is no site {text!r}",
            f"did you mean {' or '.join(repr(c) for c in close)}?" if close
            else f"sites are called {', '.join(repr(s) for s in self.names[:5])}, …",
        )  # fmt: skip

    @property
    def _by_name(self) -> dict[str, int]:
        cache: dict[str, int] | None = self.__dict__.get("_names_index")
        if cache is None:
            cache = {site_name(label): s for s, label in enumerate(self.mdp.state_labels)}
            cache |= {name: s for s, name in enumerate(self.names)}
            self.__dict__["_names_index"] = cache
        return cache

    def guessed_variance(self, default: ArrayLike | None = None) -> NDArray[np.float64]:
        """A variance for every state: the guess, else ``default``, else the mean guess, else 1."""
        known = np.isfinite(self.variance)
        fill: Any = default
        if fill is None:
            fill = float(self.variance[known].mean()) if known.any() else 1.0
        filled = per_state(fill, self.mdp.n_states, "variance", minimum=0.0)
        return np.where(known, self.variance, filled)


def _guesses(values: Any, n: int, name: str, minimum: float) -> NDArray[np.float64]:
    """Finite numbers, or NaN where nobody guessed."""
    array = np.asarray(values if np.size(values) else np.nan, dtype=float)
    known = np.isfinite(array)
    per_state(np.where(np.isnan(array), max(minimum, 0.0), array), n, name, minimum=minimum)
    return np.broadcast_to(np.where(known, array, np.nan), (n,)).copy()


def site_name(label: object) -> str:
    """How a label is written: a grid cell (x, y) as ``x,y``, everything else as it is."""
    if isinstance(label, tuple):
        return ",".join(str(part) for part in label)
    return str(label)


def nearest_names(text: str, names: Sequence[str]) -> list[str]:
    """Up to three names that a mistyped one may have meant."""
    import difflib

    return difflib.get_close_matches(text, names, n=3, cutoff=0.6)
