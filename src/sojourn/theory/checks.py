"""Assumptions of the theory, checked when a bound is called."""

from __future__ import annotations

import numpy as np

from sojourn.chains import Chain
from sojourn.errors import ArgumentError, NotReversible


def ergodic(chain: Chain) -> None:
    """Asm. asm:ergodic for one chain: irreducible and aperiodic."""
    classes = chain.recurrent_classes()
    if len(classes) != 1 or classes[0].size != chain.n_states:
        raise ArgumentError(
            f"the chain has {len(classes)} recurrent class(es) that hold "
            f"{sum(c.size for c in classes)} of its {chain.n_states} states",
            "this bound needs an irreducible chain (Asm. asm:ergodic)",
        )
    if chain.n_states > 1 and chain.period() != 1:
        raise ArgumentError(
            f"the chain has period {chain.period()}",
            "this bound needs an aperiodic chain (Asm. asm:ergodic)",
        )


def reversible(chain: Chain, instead: str) -> None:
    """Asm. asm:reversible for one chain."""
    ergodic(chain)
    if not chain.is_reversible():
        raise NotReversible(
            "this bound needs a reversible chain (Asm. asm:reversible) and this one is not",
            f"use {instead}, which does not",
        )


def positive(**values: float) -> None:
    """Named numbers that must be finite and above 0."""
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise ArgumentError(f"{name} is {value}", "give a finite number above 0")


def probability(**values: float) -> None:
    """Named numbers that must lie strictly between 0 and 1."""
    for name, value in values.items():
        if not 0 < value < 1:
            raise ArgumentError(f"{name} is {value}", "give a number between 0 and 1")


def whole(minimum: int, **values: float) -> None:
    """Named numbers that must be whole and at least ``minimum``."""
    for name, value in values.items():
        if not (value >= minimum and value == np.floor(value) < np.inf):
            raise ArgumentError(f"{name} is {value}", f"give a whole number of at least {minimum}")
