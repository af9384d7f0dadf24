"""Markov chains: stationary distribution, spectrum, hitting times, classes."""

from sojourn.chains.chain import Chain

__all__ = ["Chain"]
