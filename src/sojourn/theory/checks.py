"""Assumptions of the theory, checked when a bound is called."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn import arguments
from sojourn.chains import Chain
from sojourn.errors import ArgumentError, NotReversible
from sojourn.model import MDP, Policy, World

AnyChain = Chain | Policy | ArrayLike
"""A policy stands for the chain that it induces, a matrix for the chain with these transitions."""


def ergodic(chain: AnyChain) -> Chain:
    """The chain, if Asm. asm:ergodic holds for it: irreducible and aperiodic."""
    if isinstance(chain, MDP | World):
        raise ArgumentError(
            f"a {type(chain).__name__} has no chain before a policy is chosen",
            "give a Chain or a Policy, for example Policy.uniform(mdp)",
        )
    if isinstance(chain, Policy):
        chain = chain.chain()
    elif not isinstance(chain, Chain):
        chain = Chain(chain)
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
    return chain


def reversible(chain: AnyChain, instead: str) -> Chain:
    """The chain, if Asm. asm:reversible holds for it."""
    chain = ergodic(chain)
    if not chain.is_reversible():
        raise NotReversible(
            "this bound needs a reversible chain (Asm. asm:reversible) and this one is not",
            f"use {instead}, which does not",
        )
    return chain


def variances(values: ArrayLike) -> NDArray[np.float64]:
    """One σ² ≥ 0 per state; as many states as there are values."""
    array = np.atleast_1d(arguments.numbers(values, "variance"))
    return arguments.per_state(array, array.size, "variance", minimum=0.0)


def positive(**values: float) -> None:
    """Named numbers that must be finite and above 0."""
    for name, value in values.items():
        hint = "give a finite number above 0"
        if arguments.number(value, name, hint, 0.0) == 0.0:
            raise ArgumentError(f"{name} is {value}", hint)


def at_least_zero(**values: float) -> None:
    """Named numbers that must be finite and 0 or more."""
    for name, value in values.items():
        arguments.number(value, name, "give a finite number of at least 0", 0.0)


def gap(**values: float) -> None:
    """Named spectral gaps: 1 minus a modulus that is below 1."""
    for name, value in values.items():
        hint = "a spectral gap is above 0 and at most 1"
        if arguments.number(value, name, hint, 0.0, 1.0) == 0.0:
            raise ArgumentError(f"{name} is {value}", hint)


def floor(value: float, n_states: int) -> None:
    """η̲ with a Λ_η̲ that may have members: 2η̲ in each of S states is at most 1 in all."""
    whole(1, n_states=n_states)
    positive(floor=value)
    if value > 0.5 / n_states * (1 + 1e-12):
        raise ArgumentError(
            f"floor is {value} with {n_states} states",
            f"Λ_floor asks for 2·floor in every state: give a number up to {0.5 / n_states:.4g}",
        )


def probability(**values: float) -> None:
    """Named numbers that must lie strictly between 0 and 1."""
    for name, value in values.items():
        hint = "give a number between 0 and 1"
        if arguments.number(value, name, hint, 0.0, 1.0) in (0.0, 1.0):
            raise ArgumentError(f"{name} is {value}", hint)


def whole(minimum: int, **values: float) -> None:
    """Named numbers that must be whole (1e6 is) and at least ``minimum``."""
    for name, value in values.items():
        hint = f"give a whole number of at least {minimum}"
        if arguments.number(value, name, hint, minimum) % 1:
            raise ArgumentError(f"{name} is {value}", hint)
