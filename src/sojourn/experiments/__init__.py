"""Experiments as data: definitions, sweeps that resume, and their analysis.

definition   what an experiment is: an id, a runner's name, cells
paper        the experiments of the paper, and the numbers that it prints
study        a user's own, from a TOML file
runners      what a cell does
strategies   strategies and worlds by the names that definitions use
sweep        here or on many machines, kept on disk, resumed
provenance   which runs made what is on disk
statistics   how numbers that scatter are summed up
analysis     from rows to what is said
publish      tables, figures and definitions as files
"""

from sojourn.experiments.definition import Cell, CellId, Experiment, ExperimentId, Row
from sojourn.experiments.study import load_study
from sojourn.experiments.sweep import save_table, sweep

__all__ = [
    "Cell", "CellId", "Experiment", "ExperimentId", "Row", "load_study", "save_table", "sweep",
]  # fmt: skip
