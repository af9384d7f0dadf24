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


def at_least_zero(**values: float) -> None:
    """Named numbers that must be 0 or more."""
    for name, value in values.items():
        if not value >= 0:
            raise ArgumentError(f"{name} is {value}", "give a number of at least 0")


def gap(**values: float) -> None:
    """Named spectral gaps: 1 minus a modulus that is below 1."""
    for name, value in values.items():
        if not 0 < value <= 1:
            raise ArgumentError(f"{name} is {value}", "a spectral gap is above 0 and at most 1")


def floor(value: float, n_states: int) -> None:
    """η̲ with a Λ_η̲ that may have members: 2η̲ in each of S states is at most 1 in all."""
    whole(1, n_states=n_states)
    if not 0 < value <= 0.5 / n_states * (1 + 1e-12):
        raise ArgumentError(
            f"floor is {value} with {n_states} states",
            f"Λ_floor asks for 2·floor in every state: give a number up to {0.5 / n_states:.4g}",
        )


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
