"""Experiments as data: definitions, sweeps that resume, and their analysis."""

from sojourn.experiments.definition import Cell, CellId, Experiment, ExperimentId, Row
from sojourn.experiments.study import load_study
from sojourn.experiments.sweep import save_table, sweep

__all__ = [
    "Cell", "CellId", "Experiment", "ExperimentId", "Row", "load_study", "save_table", "sweep",
]  # fmt: skip
