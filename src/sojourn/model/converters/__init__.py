"""Where models come from: records, text maps, graphs, gymnasium environments.

Behind the ``MDP.from_*`` constructors; each module reads one kind of source and documents
exactly what its words mean. Third-party packages are only ever touched through the object that
the user hands over.
"""

from sojourn.model.converters.graph import from_networkx
from sojourn.model.converters.grid import from_grid, grid_mdp, parse_map
from sojourn.model.converters.gym import from_gymnasium
from sojourn.model.converters.records import from_transitions

__all__ = [
    "from_grid", "from_gymnasium", "from_networkx", "from_transitions", "grid_mdp", "parse_map",
]  # fmt: skip
