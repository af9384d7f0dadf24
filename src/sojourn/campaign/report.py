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
from sojourn.campaign.summary import Summary, cell_edge, layout, links, summarise
from sojourn.plots.svg import ChartRecord, Curve, MapRecord, number, render_chart, render_map

TABLE_LIMIT = 2000
PRINTED = 100
"""So many rows of the table go on paper; all are on the screen."""

_STYLE = """
:root{--ink:#1f262d;--quiet:#5b6670;--line:#dce2e7;--paper:#fff;--back:#f4f6f8;--accent:#b02a66;
--tint:#fbf1f5;--bar:#21788c;color-scheme:light dark}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6eaee;--quiet:#9aa6b1;--line:#39424b;
--paper:#1d2329;--back:#14181c;--accent:#ee79ab;--tint:#2b2029;--bar:#4fb3c8}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;
color:var(--ink);background:var(--back);margin:0 auto;max-width:74rem;padding:1.2rem 1rem}
h1{font-size:1.75rem;line-height:1.2;margin:.1rem 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:0}p{margin:.2rem 0}
.quiet{color:var(--quiet);font-size:.9rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;
margin:1rem 0}
.card,section,.advice{background:var(--paper);border:1px solid var(--line);border-radius:.6rem}
.card{padding:.6rem .9rem;font-size:.9rem;color:var(--quiet);overflow-wrap:anywhere}
.card b{display:block;font-size:1.3rem;line-height:1.3;color:var(--ink);
font-variant-numeric:tabular-nums}
.track{display:block;height:.35rem;border-radius:.2rem;background:var(--line);margin-top:.35rem}
.track i{display:block;height:100%;border-radius:.2rem;background:var(--bar)}
.advice{border-left:.4rem solid var(--accent);padding:.7rem 1rem;background:var(--tint);
overflow-wrap:anywhere}.advice b{font-size:1.2rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem;
margin:1rem 0}
section{padding:.9rem 1rem;margin:1rem 0;min-width:0}.grid section{margin:0}
section .quiet{min-height:2.7em}section.long .quiet{min-height:0}
svg{width:100%;max-width:44rem;height:auto;display:block;margin:.5rem auto 0}
.scroll{overflow-x:auto;margin:.5rem -.4rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.22rem .4rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--quiet);font-weight:600}th:first-child,td:first-child{text-align:left}
td:first-child{white-space:normal;min-width:5.5rem;max-width:16rem;overflow-wrap:break-word}
td.span{min-width:9rem;width:22%}
.span i{position:relative;display:block;height:.55rem;border-radius:.3rem;background:var(--line)}
.span i u{position:absolute;top:0;height:100%;min-width:2px;border-radius:.3rem;
background:var(--bar);opacity:.55}
.span i s{position:absolute;top:-.1rem;height:.75rem;width:2px;background:var(--ink)}
ul{padding-left:1.2rem;overflow-wrap:anywhere}.paper{display:none}
footer{margin:1.2rem 0;font-size:.85rem}
@media (max-width:40rem){body{padding:.8rem .6rem}.minor{display:none}section{padding:.8rem .7rem}
.cards{grid-template-columns:1fr 1fr;gap:.5rem}.card{padding:.5rem .7rem}
.card:last-child:nth-child(odd){grid-column:1/-1}section .quiet{min-height:0}
table{font-size:.8rem}th,td{padding:.25rem .22rem}th{white-space:normal}
td:first-child{min-width:3.6rem}}
@page{margin:12mm}
@media print{:root{--back:#fff}body{max-width:none;padding:0;font-size:10pt;
-webkit-print-color-adjust:exact;print-color-adjust:exact}
section,.card,.advice{break-inside:avoid}section.long{break-inside:auto;border:0;padding:0}
section.long h2{break-after:avoid}tr{break-inside:avoid}thead{display:table-header-group}
.grid{grid-template-columns:1fr 1fr;gap:.6rem;margin:.6rem 0}.cards{margin:.6rem 0;
grid-template-columns:repeat(5,1fr);gap:.4rem}.card{padding:.35rem .5rem;font-size:8pt}
.card b{font-size:11.5pt}section{padding:.5rem .6rem}table{font-size:8pt}th,td{padding:.08rem .3rem}
tr.rest{display:none}.paper{display:block}.minor{display:table-cell}
section .quiet{font-size:8pt;min-height:2.4em}.grid svg{max-height:4.9cm}}
"""


def write_report(campaign: Campaign, path: Path) -> Path:
    """Write the report; an old one at this place is replaced."""
    return replace_file(path, render(campaign).encode())


def render(campaign: Campaign) -> str:
    """The report as HTML text. Reading only: an advice that is due is not asked for."""
    summary = summarise(campaign)
    advice = campaign.preview()
    title = escape(campaign.site.title)
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
        _next(campaign, advice),
        f'<div class="grid">{"".join(_maps(campaign, summary, advice))}</div>',
        f'<div class="grid">{"".join(_charts(campaign, summary))}</div>',
        _table(campaign, summary),
        _changes(campaign),
        f'<footer class="quiet">sojourn {__version__}. ± is one standard error to be expected; '
        "it leans on the noise of all sites where a site has few values of its own. Intervals are "
        f"Student's, at {100 * campaign.estimates().level:g} %, from the site's own values alone; "
        "with fewer than two there is none.</footer>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _subtitle(campaign: Campaign) -> str:
    stamps = campaign.ledger.stamps
    first, last = (stamps[n][:16].replace("T", " ") for n in (min(stamps), max(stamps)))
    if first[:10] == last[:10]:
        last = last[11:]
    return (
        f'<div class="quiet">{escape(first)} to {escape(last)} UTC, strategy '
        f"{escape(campaign.strategy_name)}</div>"
    )


def _cards(campaign: Campaign, summary: Summary) -> str:
    status = campaign.status()
    unit = f" {escape(campaign.site.unit)}" if campaign.site.unit else ""
    cards = [
        (str(campaign.steps), "steps", None) if campaign.budget is None else
        (f"{campaign.steps} of {campaign.budget}", "steps", campaign.steps / campaign.budget),
        (f"{status['sites_measured']} of {status['sites']}", "sites measured",
         status["sites_measured"] / status["sites"]),
        (str(status["samples"]), "values", None),
        ("not yet", "average error: some sites have no value", None)
        if math.isinf(summary.mean_error) else
        (f"±{number(summary.mean_error)}{unit}", "average error", None),
    ]  # fmt: skip
    if status["least_certain_error"] is not None:
        cards.append(
            (f"±{number(status['least_certain_error'])}{unit}",
             f"at the least certain site, {escape(status['least_certain'])}", None)
        )  # fmt: skip
    if status["time"] is not None:
        what = "metres of way" if campaign.site.geographic else "time on the way"
        cards.append((number(status["time"]), what, None))
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card"><b>{value}</b>{label}'
            + ("" if share is None else f'<span class="track"><i style="width:{share:.1%}"></i>'
               "</span>") + "</div>"
            for value, label, share in cards
        ) + "</div>"
    )  # fmt: skip


def _next(campaign: Campaign, advice: Advice | None) -> str:
    if advice is None:
        return (
            '<p class="advice"><b>Next: ask for an advice</b><br>The strategy '
            f"{escape(campaign.strategy_name)} is not at hand here.</p>"
        )
    if advice.stop:
        return f'<p class="advice"><b>Finished</b><br>{escape(advice.reason)}</p>'
    return (
        f'<p class="advice"><b>Next: {escape(str(advice.action))} → {escape(str(advice.site))}'
        f"</b><br>{escape(advice.reason)}</p>"
    )


def _maps(campaign: Campaign, summary: Summary, advice: Advice | None) -> list[str]:
    site, estimates = campaign.site, campaign.estimates()
    xy = layout(site)
    if xy is None:
        return []
    known = estimates.visits > 0
    marks: dict[str, int] = {}
    if campaign.home is not None:
        marks["H"] = campaign.home
    there = dict(marks)
    if advice is not None and advice.state is not None:
        there["→"] = advice.state
    if campaign.location is not None and campaign.location != campaign.home:
        there["●"] = campaign.location
    said = {"H": "H home", "●": "● the device", "→": "→ next"}
    legend = ", ".join(said[letter] for letter in there)
    cell = cell_edge(site)
    common: dict[str, Any] = {
        "coordinates": xy, "names": site.names, "cell": cell,
        "edges": () if cell else links(site), "unit": site.unit,
    }  # fmt: skip
    maps = [
        ("Estimates", "The mean measured at each site; empty where nothing was.",
         MapRecord("estimates", values=np.where(known, estimates.mean, np.nan), marks=marks,
                   **common)),
        ("Uncertainty", "The standard error to be expected; hatched where nothing is known yet.",
         MapRecord("uncertainty", marks=marks, **common,
                   values=np.where(site.weight > 0, estimates.expected_error, np.nan))),
        ("Path", "Where the device went, from light to dark, over the number of values taken"
         + (f". {legend}." if legend else "."),
         MapRecord("path", values=np.where(known, estimates.visits, np.nan).astype(float),
                   path=[visit.state for visit in campaign.ledger.path], marks=there,
                   **(common | {"unit": "values"}))),
    ]  # fmt: skip
    if summary.planned is not None:
        whole = "whole budget" if campaign.budget is not None else "steps so far"
        maps.append((
            "Plan", f"How the {whole} would best be spent, for the noise as known now.",
            MapRecord("plan", values=summary.planned.round(1), marks=marks,
                      **(common | {"unit": "visits"})),
        ))  # fmt: skip
    return [
        f'<section><h2>{title}</h2><div class="quiet">{escape(text)}</div>{render_map(record)}'
        "</section>"
        for title, text, record in maps
    ]


def _charts(campaign: Campaign, summary: Summary) -> list[str]:
    unit = f" [{campaign.site.unit}]" if campaign.site.unit else ""
    goal = campaign.ledger.goal
    rule = None
    if "precision" in goal:
        what = "goal" if goal["of"] == "average" else "goal for every site"
        rule = (float(goal["precision"]), what)
    ahead = summary.forecast_steps > campaign.steps
    error = ChartRecord(
        "error against steps", "steps", f"average error{unit}",
        [Curve("so far", summary.history_steps, summary.history_error),
         Curve("expected", summary.forecast_steps[ahead], summary.forecast_error[ahead],
               dashed=True)],
        logarithmic=True, rule=rule,
    )  # fmt: skip
    sections = []
    if math.isfinite(summary.mean_error):
        sections.append(_section(
            "Error against steps", "Begins when every site has a value.", render_chart(error)
        ))  # fmt: skip
    else:
        measured = ChartRecord(
            "coverage", "steps", "sites measured [%]",
            [Curve("measured", summary.history_steps, 100.0 * summary.history_measured)],
        )  # fmt: skip
        sections.append(_section(
            "Sites measured", "The error follows when every site has a value.",
            render_chart(measured),
        ))  # fmt: skip
    if summary.planned is not None:
        sections.append(_against_plan(campaign, summary.planned))
    return sections


def _against_plan(campaign: Campaign, planned: np.ndarray) -> str:
    visits = campaign.estimates().visits.astype(float)
    matters = campaign.site.weight > 0
    top = float(planned[matters].max())
    ends = np.array([0.0, top])
    curves = [
        Curve("sites", planned[matters], visits[matters], points=True),
        Curve("as planned", ends, ends, dashed=True),
    ]
    if campaign.budget is not None and campaign.steps < campaign.budget:
        curves.append(Curve("by now", ends, ends * campaign.steps / campaign.budget))
    chart = ChartRecord("visits against plan", "visits planned", "values taken", curves)
    text = "One dot a site; a larger one stands for several."
    return _section("Visits against plan", text, render_chart(chart))


def _section(title: str, text: str, drawing: str) -> str:
    return f'<section><h2>{title}</h2><div class="quiet">{text}</div>{drawing}</section>'


def _table(campaign: Campaign, summary: Summary) -> str:
    site, e = campaign.site, campaign.estimates()
    error, planned = e.expected_error, summary.planned
    order = np.lexsort((np.arange(error.size), -np.where(site.weight > 0, error, -1.0)))
    unit = f" [{escape(site.unit)}]" if site.unit else ""
    own = np.array([basis == OWN for basis in e.basis])
    # The bars share one scale, wide enough for all but the widest intervals.
    span = (0.0, 1.0)
    if own.any():
        span = (float(np.quantile(e.low[own], 0.1)), float(np.quantile(e.high[own], 0.9)))
    columns = [
        ("site", ""), (f"mean{unit}", ""), ("±", ""), ("95 % interval", ""),
        ("", "minor span"), ("values", ""), ("planned", "minor"), ("noise (sd)", "minor"),
        ("rests on", "minor"),
    ]  # fmt: skip
    head = "".join(_cell("th", text, kind) for text, kind in columns)
    rows = []
    for rank, s in enumerate(order[:TABLE_LIMIT]):
        known = e.visits[s] > 0
        cells = [
            escape(site.names[s]),
            number(e.mean[s], error[s]) if known else "unknown",
            number(error[s]),
            f"{number(e.low[s], error[s])} … {number(e.high[s], error[s])}" if own[s] else "–∞ … ∞",
            _bar(span, e.low[s], e.mean[s], e.high[s]) if own[s] else "",
            str(int(e.visits[s])),
            "?" if planned is None else number(round(float(planned[s]), 1)),
            number(math.sqrt(e.variance[s])),
            e.basis[s] if known else "nothing yet",
        ]
        rows.append(
            ("<tr>" if rank < PRINTED else '<tr class="rest">')
            + "".join(_cell("td", text, kind) for text, (_, kind) in zip(cells, columns))
            + "</tr>"
        )
    more = order.size - TABLE_LIMIT
    note = f'<p class="quiet">… and {more} more sites: see the export.</p>' if more > 0 else ""
    if order.size > PRINTED:
        note += (
            f'<p class="quiet paper">On paper the {PRINTED} least certain of {order.size} sites; '
            "all of them are on the screen and in the export.</p>"
        )
    return (
        '<section class="long"><h2>All sites, the least certain first</h2><div class="scroll">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}"
        "</section>"
    )


def _cell(tag: str, content: str, kind: str) -> str:
    return f'<{tag} class="{kind}">{content}</{tag}>' if kind else f"<{tag}>{content}</{tag}>"


def _bar(span: tuple[float, float], low: float, mean: float, high: float) -> str:
    """An interval and its middle on the scale of all sites."""
    start, width = span[0], max(span[1] - span[0], 1e-300)
    a, m, b = (min(max((x - start) / width, 0.0), 1.0) for x in (low, mean, high))
    return (
        f'<i><u style="left:{100 * a:.0f}%;width:{100 * (b - a):.0f}%"></u>'
        f'<s style="left:{100 * m:.0f}%"></s></i>'
    )


def _changes(campaign: Campaign) -> str:
    """Corrections, voids and notes: what a reader of the numbers must know."""
    items = []
    for event_id, at, event in campaign.events():
        when = escape(at[:16].replace("T", " "))
        if isinstance(event, Corrected):
            text = (
                f"event {event.event} corrected to {', '.join(f'{x:.12g}' for x in event.values)}"
            )
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
