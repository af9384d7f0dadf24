"""Optimisation kernels that know no story: what they solve is a matter of arrays."""
