"""``sojourn plan SITE``: what a budget buys, or what a precision costs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from sojourn.arguments import choice
from sojourn.campaign.export import replace_file
from sojourn.campaign.forecast import Forecast, Rehearsed, forecast, rehearsed, steps_for
from sojourn.campaign.stopping import KINDS
from sojourn.campaign.summary import cell_edge, layout, links
from sojourn.cli.output import console, drawn, json_option, print_json
from sojourn.cli.sites import open_site
from sojourn.errors import ArgumentError
from sojourn.importing import Site
from sojourn.plots.svg import MapRecord, number, render_map


@click.command()
@click.argument("site")
@click.option("--budget", type=int, help="So many steps: what will be known, and how surely?")
@click.option("--precision", type=float, help="This standard error: how many steps does it take?")
@click.option(
    "--of", default="average", show_default=True, help="Precision on 'average' or of 'every' site."
)
@click.option("--variance", type=float, help="The noise where the site file has no guess of it.")
@click.option("--rehearse", "runs", type=int, default=0, help="Check with so many simulations.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the map here.")
@json_option
def plan(
    site: str, budget: int | None, precision: float | None, of: str, variance: float | None,
    runs: int, svg: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Plan a survey of SITE: what accuracy to expect of a budget, or the budget for an accuracy."""
    if (budget is None) == (precision is None):
        raise ArgumentError(
            "a plan needs a budget or a precision, and not both",
            "sojourn plan SITE --budget 500, or sojourn plan SITE --precision 0.1",
        )
    choice(of, "kind of precision", KINDS)
    opened = open_site(site)
    if variance is not None and not 0 < variance < math.inf:
        raise ArgumentError(f"variance is {variance:g}", "give a number above 0")
    found = (
        forecast(opened, budget, variance) if budget is not None
        else steps_for(opened, precision or 0.0, of, variance)
    )  # fmt: skip
    checked = None
    if runs:
        checked = rehearsed(opened, found.budget, variance, runs, progress=not as_json)
    if svg is not None:
        replace_file(svg, _drawing(opened, found).encode())
    if as_json:
        print_json(_record(opened, found, checked))
    else:
        _describe(opened, found, checked, precision, of, variance, svg)


def _record(site: Site, found: Forecast, checked: Rehearsed | None) -> dict[str, Any]:
    record = {
        "budget": found.budget, "mean_error": found.mean_error, "worst_error": found.worst_error,
        "time": found.time, "gap": found.plan.gap, "status": str(found.plan.status),
        "notes": list(found.plan.notes),
        "visits": dict(zip(site.names, found.visits.tolist())),
    }  # fmt: skip
    if checked is not None:
        record["rehearsed"] = {
            "strategy": checked.strategy, "runs": checked.runs, "mean_error": checked.mean_error,
            "standard_error": checked.standard_error, "unvisited": checked.unvisited,
        }  # fmt: skip
    return record


def _describe(
    site: Site, found: Forecast, checked: Rehearsed | None, precision: float | None, of: str,
    variance: float | None, svg: Path | None,
) -> None:  # fmt: skip
    out = console()
    unit = f" {site.unit}" if site.unit else ""
    if precision is not None:
        ways = ("average", "every") if of == "average" else ("every", "average")
        steps = [found.budget, steps_for(site, precision, ways[1], variance).budget]
        for way, count in zip(ways, steps):
            what = "on average" if way == "average" else "at every site"
            out.print(f"±{number(precision)}{unit} {what} takes {count} steps", markup=False)
        out.print(f"with {found.budget} steps:")
    else:
        out.print(f"with {found.budget} steps:", markup=False)
    out.print(f"  average error ±{number(found.mean_error)}{unit}, worst site "
              f"±{number(found.worst_error)}{unit}", markup=False)  # fmt: skip
    out.print(f"  (in the long run no plan can do better for this noise, proved to "
              f"{max(100 * found.plan.gap, 1e-7):.0e} %; getting to every site once and not "
              "knowing the noise cost extra: --rehearse 5 shows how much)")  # fmt: skip
    if found.time is not None:
        out.print(f"  takes {number(found.time)}"
                  + (" m of way" if site.geographic else " of the time in the table"))  # fmt: skip
    if not np.isfinite(site.variance).all() and precision is None:
        out.print("  the noise of some sites was not given and is guessed: --variance sets it")
    if found.plan.notes:
        out.print(f"  {found.budget} steps are few for this plan, which goes from place to place "
                  "too rarely: a campaign replans as it goes, and --rehearse 5 shows what it "
                  "reaches")  # fmt: skip
    if checked is not None:
        out.print(f"  rehearsed {checked.runs} times with {checked.strategy}: the map is off by "
                  f"±{number(checked.mean_error)}{unit} on average (± "
                  f"{number(checked.standard_error)} by chance)", markup=False)  # fmt: skip
        if checked.unvisited:
            out.print(f"    with {number(checked.unvisited)} sites never measured: the map shows "
                      "the average of the others there")  # fmt: skip
    picture = drawn(site.mdp, out.width, found.visits, "where the visits go")
    if picture is not None:
        out.print()
        out.print(picture)
    else:
        visits = found.visits.round(1)
        order = [s for s in np.argsort(-visits)[:10] if visits[s] > 0]
        out.print("  most visits: " + ", ".join(
            f"{site.names[s]} {number(visits[s])}" for s in order), markup=False)  # fmt: skip
    if svg is not None:
        out.print(f"  map: {svg}", markup=False, soft_wrap=True)


def _drawing(site: Site, found: Forecast) -> str:
    xy = layout(site)
    if xy is None:
        raise ArgumentError(
            "the sites have no coordinates, so there is no map to draw",
            "leave --svg out, or give the sites x and y in the site file",
        )
    cell = cell_edge(site)
    marks = {} if site.home is None else {"H": site.home}
    return render_map(MapRecord(
        f"{site.title}: planned visits", xy, found.visits, site.names, "visits", cell=cell,
        edges=() if cell else links(site), marks=marks,
    ))  # fmt: skip
