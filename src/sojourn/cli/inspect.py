"""``sojourn inspect SITE``: what a site is, and what its moves allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text
from scipy.sparse.csgraph import shortest_path

from sojourn.campaign.export import replace_file
from sojourn.campaign.summary import cell_edge, layout, links
from sojourn.cli.output import console, counted, draw_graph, drawn, json_option, print_json
from sojourn.cli.sites import open_site
from sojourn.errors import ArgumentError
from sojourn.importing import Site, json_schema
from sojourn.plots.svg import MapRecord, number, render_map


@click.command()
@click.argument("site", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of site files, and stop.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the map here.")
@json_option
def inspect(site: str | None, schema: bool, svg: Path | None, as_json: bool) -> None:
    """Say what SITE is: its size, its noise where known, and what its moves allow.

    The diagnosis answers whether every site can be reached from every other, whether a walk
    could be trapped, and whether some policies never mix.
    """
    if schema:
        print_json(json_schema())
        return
    if site is None:
        raise ArgumentError("there is no SITE", "sojourn inspect SITE, or sojourn inspect --schema")
    opened = open_site(site)
    if svg is not None:
        replace_file(svg, map_of(opened).encode())
    if as_json:
        print_json(as_record(opened))
        return
    out = console()
    describe(opened, out)
    if svg is not None:
        out.print(f"map: {svg}", markup=False, soft_wrap=True)


def as_record(site: Site) -> dict[str, Any]:
    """The numbers of the description."""
    mdp = site.mdp
    actions = np.diff(mdp.pair_start)
    known = site.variance[np.isfinite(site.variance)]
    outcomes = np.diff(mdp.transitions.indptr)
    time = None if site.time is None else site.time[np.isfinite(site.time)]
    return {
        "title": site.title,
        "unit": site.unit,
        "n_states": mdp.n_states,
        "n_pairs": mdp.n_pairs,
        "n_transitions": mdp.transitions.nnz,
        "uncertain_pairs": int((outcomes > 1).sum()),
        "actions_per_state": [int(actions.min()), int(actions.max())],
        "variance_known": int(known.size),
        "variance_range": [float(known.min()), float(known.max())] if known.size else None,
        "weight_range": [float(site.weight.min()), float(site.weight.max())],
        "passages": int((site.weight == 0).sum()),
        "earlier_values": sum(len(values) for values in site.data.values()),
        "sites_with_earlier_values": len(site.data),
        "time_range": None if time is None else [float(time.min()), float(time.max())],
        "home": None if site.home is None else site.names[site.home],
        "start": None if site.start is None else site.names[site.start],
        **_way_home(site),
        "diagnosis": site.named.diagnose().to_dict(),
    }


def _way_home(site: Site) -> dict[str, Any]:
    """The moves home from the farthest site if each goes as wished, and where no way leads home."""
    if site.home is None:
        return {"farthest_from_home": None, "no_way_home": []}
    backward = site.mdp.adjacency.T.tocsr().astype(float)
    hops = np.asarray(shortest_path(backward, unweighted=True, indices=[site.home]))[0]
    cut_off = np.flatnonzero(~np.isfinite(hops))
    return {
        "farthest_from_home": int(hops[np.isfinite(hops)].max()),
        "no_way_home": [site.names[s] for s in cut_off],
    }


def describe(site: Site, out: Console) -> None:
    """The description for people: sentences, a picture, the diagnosis."""
    record = as_record(site)
    # Titles and names come from files: they are text, never markup.
    out.print(Text(site.title, style="bold"))
    for sentence in _sentences(site, record):
        out.print(f"  {sentence}", markup=False)
    out.print()
    picture(site, out)
    out.print(str(site.named.diagnose()), markup=False)


def _sentences(site: Site, record: dict[str, Any]) -> list[str]:
    fewest, most = record["actions_per_state"]
    unit = f" {site.unit}" if site.unit else ""
    said = [
        f"{counted(record['n_states'], 'site')}, {counted(record['n_pairs'], 'action')} "
        f"({fewest if fewest == most else f'{fewest} to {most}'} per site), "
        f"{counted(record['n_transitions'], 'possible transition')}"
    ]
    doubtful = record["uncertain_pairs"]
    said.append(
        "every move ends where it should" if not doubtful else
        f"{doubtful} of them can end in more than one place: say where the device is then"
    )  # fmt: skip
    if record["variance_range"] is not None:
        low, high = record["variance_range"]
        where = "" if record["variance_known"] == record["n_states"] else "  (not known everywhere)"
        spread = f"variance of a sample {low:.3g}" if low == high else (
            f"variance of a sample from {low:.3g} to {high:.3g}"
        )  # fmt: skip
        widest = "" if low == high else f" to ±{number(high**0.5)}"
        said.append(f"{spread}: one value scatters by ±{number(low**0.5)}{widest}{unit}{where}")
    else:
        said.append("nobody guessed the noise: a plan needs --variance, a campaign learns it")
    light, heavy = record["weight_range"]
    if record["passages"]:
        said.append(f"{counted(record['passages'], 'passage')} (weight 0): nothing to be measured")
    if heavy != light:
        top = [site.names[s] for s in np.flatnonzero(site.weight == heavy)[:3]]
        said.append(f"weights from {light:g} to {heavy:g}; most at {', '.join(top)}")
    if record["earlier_values"]:
        said.append(f"{counted(record['earlier_values'], 'earlier value')} at "
                    f"{counted(record['sites_with_earlier_values'], 'site')}")  # fmt: skip
    if record["time_range"]:
        low, high = record["time_range"]
        span = number(low) if low == high else f"{number(low)} to {number(high)}"
        said.append(f"a move takes {span}" + (" m" if site.geographic else " of time"))
    for name in ("home", "start"):
        if record[name] is not None:
            said.append(f"{name} is {record[name]}")
    if record["farthest_from_home"] is not None:
        lost = record["no_way_home"]
        if lost:
            more = "" if len(lost) <= 3 else f" and {len(lost) - 3} more"
            said.append(f"no way leads home from {', '.join(lost[:3])}{more}: a campaign that has "
                        "to be home in the end will not go there")  # fmt: skip
        said.append(f"home is at most {counted(record['farthest_from_home'], 'move')} away"
                    + (" from the other sites" if lost else ""))  # fmt: skip
    return said


def picture(site: Site, out: Console) -> None:
    """A map: cells shaded by their noise, or the sites and what joins them."""
    known = bool(np.isfinite(site.variance).all())
    values = site.variance if known else np.ones(site.mdp.n_states)
    drawing = drawn(site.mdp, out.width, values, "variance of a sample" if known else "sites")
    if drawing is not None:
        out.print(drawing)
        out.print()
        return
    xy = layout(site)
    if xy is not None and site.mdp.n_states > 1:
        marks = {s: name for s, name in ((site.start, "S"), (site.home, "H")) if s is not None}
        out.print(draw_graph(xy, links(site), marks, min(out.width, 78)))
        out.print()


def map_of(site: Site) -> str:
    """The same as SVG."""
    xy = layout(site)
    if xy is None:
        raise ArgumentError(
            "the sites have no coordinates, so there is no map to draw",
            "give the sites x and y in the site file",
        )
    cell = cell_edge(site)
    return render_map(MapRecord(
        f"{site.title}: guessed noise", xy, site.variance, site.names, "variance of a sample",
        cell=cell, edges=() if cell else links(site),
        marks={} if site.home is None else {"H": site.home},
    ))  # fmt: skip
