"""A campaign as one HTML file that opens anywhere, offline: maps, curves, advice, table.

Everything that comes from a file or a user (titles, names, notes, units) is escaped.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sojourn._version import __version__
from sojourn.campaign.campaign import Advice, Campaign
from sojourn.campaign.estimates import OWN
from sojourn.campaign.events import Corrected, Told, Voided
from sojourn.campaign.export import replace_file
from sojourn.campaign.summary import Summary, layout, links, summarise
from sojourn.plots.svg import ChartRecord, Curve, MapRecord, number, render_chart, render_map

TABLE_LIMIT = 2000

_STYLE = """
:root{--ink:#20262c;--quiet:#5d6872;--line:#d9dfe4;--paper:#fff;--accent:#b02a66}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);
background:var(--paper);margin:0 auto;max-width:70rem;padding:1rem}
h1{font-size:1.7rem;margin:.2rem 0}h2{font-size:1.15rem;margin:0 0 .4rem}
.quiet{color:var(--quiet)}.cards{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}
.card{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .9rem;flex:1 1 8rem}
.card b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}
.advice{border-left:.35rem solid var(--accent);padding:.5rem .9rem;background:#faf3f6;
border-radius:.2rem}.advice b{font-size:1.15rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem),1fr));gap:1rem}
section{border:1px solid var(--line);border-radius:.5rem;padding:.9rem;margin:1rem 0;min-width:0}
.grid section{margin:0}svg{width:100%;max-width:46rem;height:auto;display:block;margin:auto}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem;
font-variant-numeric:tabular-nums}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);
text-align:right;white-space:nowrap}th:first-child,td:first-child{text-align:left}
td.name{white-space:normal;overflow-wrap:anywhere}thead th{position:sticky;top:0;
background:var(--paper)}
footer{margin:1.5rem 0;font-size:.85rem}
@media print{body{max-width:none;padding:0;font-size:11pt}section{break-inside:avoid}
section.long{break-inside:auto}thead th{position:static}.grid{grid-template-columns:1fr 1fr}}
"""


def write_report(campaign: Campaign, path: Path) -> Path:
    """Write the report; an old one at this place is replaced."""
    return replace_file(path, render(campaign).encode())


def render(campaign: Campaign) -> str:
    """The report as HTML text. Reading only: an advice that is due is not asked for."""
    site = campaign.site
    summary = summarise(campaign)
    title = escape(site.title)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}: report</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Nothing is fetched and nothing runs, whatever a name in the file may say.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        _subtitle(campaign),
        _cards(campaign, summary),
        _next(campaign),
        f'<div class="grid">{"".join(_maps(campaign, summary))}</div>',
        f'<div class="grid" style="margin-top:1rem">{"".join(_charts(campaign, summary))}</div>',
        _table(campaign, summary),
        _changes(campaign),
        f'<footer class="quiet">sojourn {__version__}. Intervals are Student intervals at '
        f"{100 * campaign.estimates().level:g} %, one site at a time; ± is one standard error. "
        "A site with fewer than two values has no interval.</footer>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _subtitle(campaign: Campaign) -> str:
    stamps = campaign.ledger.stamps
    first, last = stamps[min(stamps)], stamps[max(stamps)]
    return (
        f'<div class="quiet">{escape(first[:16].replace("T", " "))} to '
        f"{escape(last[:16].replace('T', ' '))} UTC, strategy "
        f"{escape(campaign.strategy_name)}</div>"
    )


def _cards(campaign: Campaign, summary: Summary) -> str:
    status = campaign.status()
    unit = f" {escape(campaign.site.unit)}" if campaign.site.unit else ""
    of = f" of {campaign.budget}" if campaign.budget is not None else ""
    cards = [
        (f"{campaign.steps}{of}", "steps"),
        (f"{status['sites_measured']} of {status['sites']}", "sites measured"),
        (str(status["samples"]), "values"),
        ("not yet" if math.isinf(summary.mean_error) else f"±{number(summary.mean_error)}{unit}",
         "average error"),
    ]  # fmt: skip
    if status["least_certain_error"] is not None:
        cards.append(
            (f"±{number(status['least_certain_error'])}{unit}",
             f"at the least certain site, {escape(status['least_certain'])}")
        )  # fmt: skip
    return (
        '<div class="cards">'
        + "".join(f'<div class="card"><b>{value}</b>{label}</div>' for value, label in cards)
        + "</div>"
    )


def _next(campaign: Campaign) -> str:
    advice: Advice | None = campaign.pending()
    stop = campaign.why_stop()
    if advice is not None:
        return (
            f'<p class="advice"><b>Next: {escape(str(advice.action))} → {escape(str(advice.site))}'
            f"</b><br>{escape(advice.reason)}</p>"
        )
    if stop is not None:
        return f'<p class="advice"><b>Finished</b><br>{escape(stop)}</p>'
    return '<p class="advice"><b>Next: ask for an advice</b></p>'


def _maps(campaign: Campaign, summary: Summary) -> list[str]:
    site, estimates = campaign.site, campaign.estimates()
    xy = layout(site)
    if xy is None:
        return []
    known = estimates.visits > 0
    path = [visit.state for visit in campaign.ledger.path]
    marks: dict[str, int] = {}
    if campaign.home is not None:
        marks["H"] = campaign.home
    if campaign.location is not None and campaign.location != campaign.home:
        marks["●"] = campaign.location
    cell = _cell(site.outline, xy)
    common: dict[str, Any] = {
        "coordinates": xy, "names": site.names, "cell": cell,
        "edges": () if cell else links(site), "unit": site.unit,
    }  # fmt: skip
    uncertain = np.where(site.weight > 0, estimates.standard_error, np.nan)
    maps = [
        ("Estimates", "The mean measured at each site.",
         MapRecord("estimates", values=np.where(known, estimates.mean, np.nan), marks=marks,
                   **common)),
        ("Uncertainty", "One standard error; hatched where nothing is known yet.",
         MapRecord("uncertainty", values=uncertain, marks=marks, **common)),
        ("Path", "Where the device went, over the number of values taken.",
         MapRecord("path", values=np.where(known, estimates.visits, np.nan).astype(float),
                   path=path, marks=marks, **(common | {"unit": "values"}))),
    ]  # fmt: skip
    if summary.planned is not None:
        maps.append((
            "Plan", "Where the optimal plan for the noise as known now would spend the steps.",
            MapRecord("plan", values=summary.planned, marks=marks, **(common | {"unit": "visits"})),
        ))  # fmt: skip
    return [
        f'<section><h2>{title}</h2><div class="quiet">{text}</div>{render_map(record)}</section>'
        for title, text, record in maps
    ]


def _cell(outline: tuple[str, ...], xy: np.ndarray) -> float | None:
    """The edge of a cell, where the site is a grid."""
    if not outline or len(xy) < 2:
        return None
    gaps = np.concatenate([np.diff(np.unique(xy[:, k])) for k in (0, 1)])
    return float(gaps[gaps > 0].min()) if (gaps > 0).any() else None


def _charts(campaign: Campaign, summary: Summary) -> list[str]:
    unit = f" [{campaign.site.unit}]" if campaign.site.unit else ""
    goal = campaign.ledger.goal
    rule = (float(goal["precision"]), "goal") if "precision" in goal else None
    error = ChartRecord(
        "error", "steps", f"average error{unit}",
        [Curve("so far", summary.history_steps, summary.history_error),
         Curve("expected", summary.forecast_steps, summary.forecast_error, dashed=True)],
        logarithmic=True, rule=rule,
    )  # fmt: skip
    sections = []
    if math.isfinite(summary.mean_error):
        sections.append(
            '<section><h2>Error against steps</h2><div class="quiet">Begins when every site has '
            f"a value.</div>{render_chart(error)}</section>"
        )
    else:
        measured = ChartRecord(
            "coverage", "steps", "share of sites measured",
            [Curve("measured", summary.history_steps, summary.history_measured)],
        )  # fmt: skip
        sections.append(f"<section><h2>Coverage</h2>{render_chart(measured)}</section>")
    if math.isfinite(summary.mean_error) and summary.planned is not None:
        visits = campaign.estimates().visits.astype(float)
        top = float(max(visits.max(), summary.planned.max(), 1.0))
        against = ChartRecord(
            "visits", "visits planned for the whole budget", "values taken",
            [Curve("sites", summary.planned, visits, points=True),
             Curve("as planned", np.array([0.0, top]), np.array([0.0, top]), dashed=True)],
        )  # fmt: skip
        sections.append(f"<section><h2>Visits against plan</h2>{render_chart(against)}</section>")
    return sections


def _table(campaign: Campaign, summary: Summary) -> str:
    site, e = campaign.site, campaign.estimates()
    order = np.lexsort((np.arange(e.visits.size), -np.where(site.weight > 0, e.standard_error, -1)))
    unit = f" [{escape(site.unit)}]" if site.unit else ""
    planned = summary.planned
    head = "".join(
        f"<th>{text}</th>"
        for text in ("site", f"mean{unit}", "±", "from", "to", "values",
                     *(["planned"] if planned is not None else []), "noise (sd)", "rests on")
    )  # fmt: skip
    rows = []
    for s in order[:TABLE_LIMIT]:
        known = e.visits[s] > 0
        cells = [
            number(e.mean[s]) if known else "unknown",
            number(e.standard_error[s]),
            number(e.low[s]) if e.basis[s] == OWN else "–∞",
            number(e.high[s]) if e.basis[s] == OWN else "∞",
            str(int(e.visits[s])),
        ]
        if planned is not None:
            cells.append(number(round(float(planned[s]), 1)))
        cells += [number(math.sqrt(e.variance[s])), e.basis[s] if known else "nothing yet"]
        rows.append(
            f'<tr><td class="name">{escape(site.names[s])}</td>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + "</tr>"
        )
    more = order.size - TABLE_LIMIT
    note = f'<p class="quiet">… and {more} more sites: see the export.</p>' if more > 0 else ""
    return (
        '<section class="long"><h2>All sites, the least certain first</h2><div class="scroll">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}"
        "</section>"
    )


def _changes(campaign: Campaign) -> str:
    """Corrections, voids and notes: what a reader of the numbers must know."""
    items = []
    for event_id, at, event in campaign.events():
        when = escape(at[:16].replace("T", " "))
        if isinstance(event, Corrected):
            text = f"event {event.event} corrected to {', '.join(map(number, event.values))}"
            note = event.note
        elif isinstance(event, Voided):
            text, note = f"event {event.event} voided", event.reason
        elif isinstance(event, Told) and event.note and event.moved:
            text, note = f"note at {campaign.site.names[event.state]}", event.note
        else:
            continue
        items.append(
            f"<li>{when}, event {event_id}: {escape(text)}"
            + (f": {escape(note)}" if note else "")
            + "</li>"
        )
    if not items:
        return ""
    return f"<section><h2>Corrections and notes</h2><ul>{''.join(items[-200:])}</ul></section>"
