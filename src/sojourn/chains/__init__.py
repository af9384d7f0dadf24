"""Markov chains: stationary distribution, spectrum, hitting times, classes."""

from sojourn.chains.chain import Chain, PseudoSpectralGap

__all__ = ["Chain", "PseudoSpectralGap"]
