"""``sojourn inspect SITE``: what a site is, and what its moves allow."""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from rich.console import Console

from sojourn.cli.output import cells_of, console, draw_map, json_option, print_json
from sojourn.cli.sites import open_site
from sojourn.importing import Site


@click.command()
@click.argument("site")
@json_option
def inspect(site: str, as_json: bool) -> None:
    """Say what SITE is: its size, its noise where known, and what its moves allow.

    The diagnosis answers whether every site can be reached from every other, whether a walk
    could be trapped, and whether some policies never mix.
    """
    opened = open_site(site)
    if as_json:
        print_json(as_record(opened))
    else:
        describe(opened, console())


def as_record(site: Site) -> dict[str, Any]:
    """The numbers of the description."""
    actions = np.diff(site.mdp.pair_start)
    known = site.variance[np.isfinite(site.variance)]
    return {
        "title": site.title,
        "unit": site.unit,
        "n_states": site.mdp.n_states,
        "n_pairs": site.mdp.n_pairs,
        "n_transitions": site.mdp.transitions.nnz,
        "actions_per_state": [int(actions.min()), int(actions.max())],
        "variance_known": int(known.size),
        "variance_range": [float(known.min()), float(known.max())] if known.size else None,
        "home": None if site.home is None else site.names[site.home],
        "start": None if site.start is None else site.names[site.start],
        "diagnosis": site.mdp.diagnose().to_dict(),
    }


def describe(site: Site, out: Console) -> None:
    """The description for people."""
    record = as_record(site)
    fewest, most = record["actions_per_state"]
    out.print(f"[bold]{site.title}[/]")
    out.print(
        f"  {record['n_states']} sites, {record['n_pairs']} actions "
        f"({fewest if fewest == most else f'{fewest} to {most}'} per site), "
        f"{record['n_transitions']} possible transitions"
    )
    if record["variance_range"] is not None:
        low, high = record["variance_range"]
        where = "" if record["variance_known"] == record["n_states"] else "  (not known everywhere)"
        out.print(f"  variance of a sample from {low:.3g} to {high:.3g}{where}")
    for name in ("home", "start"):
        if record[name] is not None:
            out.print(f"  {name} is {record[name]}")
    out.print()
    picture(site, out)
    out.print(str(site.mdp.diagnose()))


def picture(site: Site, out: Console) -> None:
    """A map of the noise, where the sites are cells that fit on the screen."""
    cells = cells_of(site.mdp, out.width)
    if cells is None:
        return
    known = bool(np.isfinite(site.variance).all())
    values = site.variance if known else np.ones(site.mdp.n_states)
    out.print(draw_map(cells, values, "variance of a sample" if known else "sites"))
    out.print()
