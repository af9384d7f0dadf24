"""What a SITE on the command line can be."""

from __future__ import annotations

import re
from pathlib import Path

from sojourn import importing, instances
from sojourn.errors import SiteError
from sojourn.importing import Site, load_site
from sojourn.importing.site import nearest_names
from sojourn.model import MDP

EXAMPLES = Path(importing.__file__).parent / "examples"


def open_site(text: str) -> Site:
    """The site that ``text`` names: a file, an instance, or a gymnasium environment.

    For an instance, what is known of the noise is the truth. Of a game, only states that can
    be reached are sites.
    """
    path = Path(text)
    if path.is_file():
        return load_site(path)
    if text.partition(":")[0] in instances.names():
        world = instances.build(text)
        start = int(world.start.argmax()) if world.start.max() == 1 else None
        return Site.from_mdp(
            world.mdp, title=text, mean=world.mean, variance=world.variance, start=start
        )
    if re.fullmatch(r"[\w/.:-]+-v\d+", text):
        return Site.from_mdp(MDP.from_gymnasium(text).restricted_to_reachable(), title=text)
    if text in bundled():
        return load_site(EXAMPLES / f"{text}.toml")
    known = [*bundled(), *instances.names()]
    close = nearest_names(text, known)
    raise SiteError(
        f"there is no site {text!r}",
        (f"did you mean {close[0]}? " if close else "")
        + "give a site file (.toml), a map (.txt, .csv, .parquet, .graphml, .geojson), the id of a "
        f"tabular gymnasium environment, or one of {', '.join(known)}",
    )


def bundled() -> list[str]:
    """The names of the site files that come with the package."""
    return sorted(path.stem for path in EXAMPLES.glob("*.toml"))
