"""Many walks at once: :func:`simulate` and its :class:`Simulation`."""

from sojourn.simulation.played import Played
from sojourn.simulation.result import Simulation, Status
from sojourn.simulation.simulate import simulate

__all__ = ["Played", "Simulation", "Status", "simulate"]
