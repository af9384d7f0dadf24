"""Maps and curves as SVG text, for pages that must open offline and without matplotlib.

A record holds pure numbers; a renderer turns it into markup. Every text is escaped here, so a
record may carry whatever a user wrote. Drawings scale with the page, follow its colours
(``currentColor``) and print well.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

# Viridis at nine points (van der Walt & Smith 2015, CC0): even steps, readable in grey.
_VIRIDIS = (
    (68, 1, 84), (71, 44, 122), (59, 81, 139), (44, 113, 142), (33, 144, 141),
    (39, 173, 129), (92, 200, 99), (170, 220, 50), (253, 231, 37),
)  # fmt: skip


_PATH = ((247, 179, 99), (226, 92, 92), (152, 31, 112), (52, 12, 84))
"""A walk from its first step (light) to its last (dark)."""
_GREY = ((250, 250, 250), (150, 156, 162))
"""For what lies under a path."""

STRETCHES = 24
"""A path is drawn in so many pieces, each of one colour."""
SINGLE_CELLS = 1500
"""Up to so many cells each has its value as a tooltip; more are drawn together by colour."""
WIDTH = 460
"""Units across a drawing. Text of 13 units then stays readable on a phone."""


@dataclass(frozen=True)
class MapRecord:
    """A value at each site. NaN is drawn hollow (nothing known), +inf hatched (no bound yet)."""

    title: str
    coordinates: NDArray[np.float64]
    values: NDArray[np.float64]
    names: Sequence[str]
    unit: str = ""
    cell: float | None = None
    """Edge of a square cell; circles where there is none."""
    edges: Sequence[tuple[int, int]] = ()
    path: Sequence[int] = ()
    """States in the order of the walk; the values are then drawn in grey below it."""
    marks: dict[str, int] = field(default_factory=dict)
    """Sites to mark: a letter and the state."""
    y_down: bool = False


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    dashed: bool = False
    points: bool = False


@dataclass(frozen=True)
class ChartRecord:
    """Lines over a common axis."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    logarithmic: bool = False
    rule: tuple[float, str] | None = None
    """A horizontal line and its label."""


def number(value: float, resolution: float = math.inf) -> str:
    """Three figures, or as many as it takes to tell values apart that differ by ``resolution``
    (an error, a step of a scale); without an exponent where a person would not write one."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "?"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    figures = 3
    if 0 < resolution < math.inf:
        # Two figures of the resolution; a float has not many more than twelve to show.
        figures = min(max(3, size + 2 - math.floor(math.log10(resolution))), 12)
    if -3 <= size < 5 or 5 <= size < figures:
        text = f"{value:.{max(0, figures - 1 - size)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.{figures - 1}e}"


Ramp = Sequence[tuple[int, int, int]]


def colour(share: float, ramp: Ramp = _VIRIDIS) -> str:
    """The colour of a value between 0 and 1."""
    position = min(max(share, 0.0), 1.0) * (len(ramp) - 1)
    k = min(int(position), len(ramp) - 2)
    mix = position - k
    channels = (round(a + mix * (b - a)) for a, b in zip(ramp[k], ramp[k + 1]))
    return "#{:02x}{:02x}{:02x}".format(*channels)


def render_map(record: MapRecord, width: int = WIDTH) -> str:
    """A map as SVG."""
    xy = np.asarray(record.coordinates, dtype=float).copy()
    if not record.y_down:
        xy[:, 1] = -xy[:, 1]
    low, high = xy.min(axis=0), xy.max(axis=0)
    extent = np.maximum(high - low, 0.0)
    reach = float(extent.max()) or 1.0
    radius = record.cell / 2 if record.cell else _radius(xy, reach)
    low, extent = low - 1.6 * radius, extent + 3.2 * radius
    # A single row of sites must not become a hairline.
    extent = np.maximum(extent, 0.15 * extent.max())
    scale = width / extent[0]
    height = extent[1] * scale
    if height > 1.3 * width:
        scale *= 1.3 * width / height
        height = 1.3 * width
    # Where the height decides, the map stands in the middle.
    points = (xy - low) * scale + [0.5 * (width - extent[0] * scale), 0.0]
    r = radius * scale
    finite = record.values[np.isfinite(record.values)]
    ends = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    ramp = _GREY if record.path else _VIRIDIS
    out = [
        f'<svg viewBox="0 0 {width} {height + 38:.0f}" role="img" '
        f'aria-label="{escape(record.title)}" xmlns="http://www.w3.org/2000/svg">',
        '<defs><pattern id="nobound" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="5" height="5" fill="#ddd"/>'
        '<rect width="2" height="5" fill="#b4452c"/></pattern></defs>',
    ]
    out += [
        f'<line x1="{points[a, 0]:.1f}" y1="{points[a, 1]:.1f}" x2="{points[b, 0]:.1f}" '
        f'y2="{points[b, 1]:.1f}" stroke="currentColor" stroke-opacity=".25"/>'
        for a, b in record.edges
    ]
    fills = [_fill(float(value), ends, ramp) for value in record.values]
    out += _together(points, r, fills, record) if len(fills) > SINGLE_CELLS else (
        _singly(points, r, fills, record)
    )  # fmt: skip
    out += _walk(points, r, record.path)
    out += [_mark(points[s], r, letter) for letter, s in record.marks.items()]
    if finite.size:
        out.append(_colour_bar(ends, record, ramp, width, height))
    out.append("</svg>")
    return "\n".join(out)


def _fill(value: float, ends: tuple[float, float], ramp: Ramp) -> str:
    if math.isnan(value):
        return "none"
    if math.isinf(value):
        return "url(#nobound)"
    low, high = ends
    share = (value - low) / (high - low) if high > low else 0.5
    # Few enough colours that equal-looking sites can be drawn together.
    return colour(round(64 * share) / 64, ramp)


def _singly(points: NDArray, r: float, fills: list[str], record: MapRecord) -> list[str]:
    """Each site a shape of its own, which says its name and value when pointed at."""
    known = record.values[np.isfinite(record.values)]
    fine = float(np.ptp(known)) / 10 if known.size else math.inf
    stroke = 'stroke="currentColor" stroke-opacity=".3" stroke-width=".5"'
    drawn = []
    for s, ((x, y), fill) in enumerate(zip(points, fills)):
        value = float(record.values[s])
        said = (
            "nothing known" if math.isnan(value) else f"{number(value, fine)} {record.unit}".strip()
        )
        tip = f"<title>{escape(record.names[s])}: {escape(said)}</title>"
        shape = (
            f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" height="{2 * r:.1f}" '
            if record.cell else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" '
        )  # fmt: skip
        end = "</rect>" if record.cell else "</circle>"
        drawn.append(f'{shape}fill="{fill}" {stroke}>{tip}{end}')
    return drawn


def _together(points: NDArray, r: float, fills: list[str], record: MapRecord) -> list[str]:
    """All sites of one colour as one shape: ten thousand cells in some hundred kilobytes."""
    by_fill: dict[str, list[str]] = {}
    side = 2.0 * r
    for (x, y), fill in zip(points, fills):
        by_fill.setdefault(fill, []).append(
            f"M{x - r:.1f} {y - r:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z" if record.cell
            else f"M{x - r:.1f} {y:.1f}a{r:.1f} {r:.1f} 0 1 0 {side:.1f} 0a{r:.1f} {r:.1f} 0 1 0 "
            f"-{side:.1f} 0"
        )  # fmt: skip
    return [
        f'<path d="{"".join(shapes)}" fill="{fill}"'
        + (' stroke="currentColor" stroke-opacity=".2" stroke-width=".2"/>' if fill == "none"
           else "/>")
        for fill, shapes in by_fill.items()
    ]  # fmt: skip


def _walk(points: NDArray, r: float, path: Sequence[int]) -> list[str]:
    """A path in stretches, the earlier the lighter."""
    if len(path) < 2:
        return []
    # A hair of spread keeps a path that runs up and down one lane readable.
    line = [
        f"{points[s, 0] + 0.22 * r * math.sin(2.4 * k):.1f},"
        f"{points[s, 1] + 0.22 * r * math.cos(2.4 * k):.1f}"
        for k, s in enumerate(path)
    ]
    pieces = min(STRETCHES, len(line) - 1)
    cuts = [round(k * (len(line) - 1) / pieces) for k in range(pieces + 1)]
    return [
        f'<polyline points="{" ".join(line[a : b + 1])}" fill="none" '
        f'stroke="{colour(k / max(pieces - 1, 1), _PATH)}" stroke-width="1.5" '
        'stroke-opacity=".85" stroke-linejoin="round" stroke-linecap="round"/>'
        for k, (a, b) in enumerate(itertools.pairwise(cuts))
    ]


def _mark(point: NDArray, r: float, letter: str) -> str:
    size = min(max(0.6 * r, 8.0), 12.0)
    return (
        f'<g><circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="{size:.1f}" fill="#fff" '
        f'stroke="#b02a66" stroke-width="2"/><text x="{point[0]:.1f}" '
        f'y="{point[1] + 0.36 * size:.1f}" font-size="{1.15 * size:.0f}" text-anchor="middle" '
        f'fill="#222" font-weight="bold">{escape(letter)}</text></g>'
    )


def _radius(xy: NDArray, reach: float) -> float:
    """Half the typical distance to the nearest neighbour."""
    n = len(xy)
    if n < 2:
        return 0.1 * reach
    from scipy.spatial import cKDTree

    nearest = np.asarray(cKDTree(xy).query(xy, k=2)[0])[:, 1]
    positive = nearest[nearest > 0]
    typical = float(np.median(positive)) if positive.size else reach / math.sqrt(n)
    return min(max(0.4 * typical, 0.006 * reach), 0.04 * reach)


def _colour_bar(
    ends: tuple[float, float], record: MapRecord, ramp: Ramp, width: int, height: float
) -> str:
    low, high = ends
    text = 'font-size="13" fill="currentColor"'
    unit = f" {escape(record.unit)}" if record.unit else ""
    left, y = 0.06 * width, height + 8
    if high <= low:
        return (
            f'<g><rect x="{left:.0f}" y="{y:.0f}" width="20" height="10" '
            f'fill="{colour(0.5, ramp)}"/><text x="{left + 28:.0f}" y="{y + 10:.0f}" {text}>'
            f"{number(low)}{unit}</text></g>"
        )
    steps, span, fine = 48, 0.7 * width, high - low
    bars = "".join(
        f'<rect x="{left + span * k / steps:.1f}" y="{y:.0f}" width="{span / steps + 0.5:.1f}" '
        f'height="9" fill="{colour((k + 0.5) / steps, ramp)}"/>'
        for k in range(steps)
    )
    return (
        f'<g><g shape-rendering="crispEdges">{bars}</g>'
        f'<text x="{left:.0f}" y="{y + 24:.0f}" {text}>{number(low, fine)}</text>'
        f'<text x="{left + span / 2:.0f}" y="{y + 24:.0f}" text-anchor="middle" {text}>'
        f"{number(0.5 * (low + high), fine)}</text>"
        f'<text x="{left + span:.0f}" y="{y + 24:.0f}" text-anchor="middle" {text}>'
        f"{number(high, fine)}{unit}</text></g>"
    )


_LINES = ("#21788c", "#c2367a", "#7d8a1f", "#c06a2b", "#6a57b0", "#777777")


def render_chart(record: ChartRecord, width: int = WIDTH, height: int = 290) -> str:
    """Curves as SVG."""
    right, top, bottom = 20, 30, 44
    drawn = [
        (curve, curve.x[ok], curve.y[ok])
        for curve in record.curves
        for ok in [np.isfinite(curve.x) & np.isfinite(curve.y)
                   & ((curve.y > 0) | (not record.logarithmic))] if ok.any()
    ]  # fmt: skip
    xs = np.concatenate([x for _, x, _ in drawn] or [np.empty(0)])
    ys = np.concatenate([y for _, _, y in drawn] or [np.empty(0)])
    head = (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(record.title)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    )
    if not xs.size:
        return (
            f'{head}<text x="{width / 2}" y="{height / 2}" text-anchor="middle" '
            'fill="currentColor">nothing to draw yet</text></svg>'
        )
    if record.rule is not None:
        ys = np.append(ys, record.rule[0])
    x0, x1 = float(xs.min()), float(xs.max())
    y0, y1 = float(ys.min()), float(ys.max())
    if record.logarithmic:
        y0, y1 = y0 / 1.15, y1 * 1.15
    else:
        margin = 0.06 * (y1 - y0 or abs(y1) or 1.0)
        y0, y1 = (0.0 if 0 <= y0 <= 0.4 * y1 else y0 - margin), y1 + margin
    x1 = x1 if x1 > x0 else x0 + 1.0
    heights = ticks(y0, y1, record.logarithmic)
    # The name of the axis stands on the left of the longest number.
    shown = [number(tick, (y1 - y0) / 10) for tick in heights]
    left = max(58, 32 + round(7.5 * max(map(len, shown))))

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (x - x0) / (x1 - x0) * (width - left - right)
        share = math.log(y / y0) / math.log(y1 / y0) if record.logarithmic else (y - y0) / (y1 - y0)
        return across, height - bottom - share * (height - top - bottom)

    out = [head]
    text = 'font-size="13" fill="currentColor"'
    for tick, said in zip(heights, shown):
        _, y = place(x0, tick)
        out.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" {text}>{said}</text>'
        )
    for tick in ticks(x0, x1, False):
        x, _ = place(tick, y1)
        out.append(
            f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}" '
            'stroke="currentColor" stroke-opacity=".08"/>'
            f'<text x="{x:.1f}" y="{height - bottom + 17}" text-anchor="middle" {text}>'
            f"{number(tick)}</text>"
        )
    if record.rule is not None:
        _, y = place(x0, record.rule[0])
        out.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity=".7" stroke-dasharray="3 4"/>'
            f'<text x="{width - right}" y="{y - 5:.1f}" text-anchor="end" '
            f"{text}>{escape(record.rule[1])}</text>"
        )
    # The legend stands above the lines, never on them.
    legend = float(left)
    for k, (curve, cx, cy) in enumerate(drawn):
        line = _LINES[k % len(_LINES)]
        dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
        placed = [place(float(x), float(y)) for x, y in zip(cx, cy)]
        if curve.points:
            out += _points(placed, line)
            sign = f'<circle cx="{legend + 10:.0f}" cy="14" r="4.5" fill="{line}"/>'
        else:
            route = " ".join(f"{x:.1f},{y:.1f}" for x, y in _thinned(placed))
            out.append(
                f'<polyline points="{route}" fill="none" stroke="{line}" stroke-width="2.2" '
                f'stroke-linejoin="round"{dash}/>'
            )
            sign = (
                f'<line x1="{legend:.0f}" y1="14" x2="{legend + 20:.0f}" y2="14" stroke="{line}" '
                f'stroke-width="2.5"{dash}/>'
            )
        out.append(
            f'{sign}<text x="{legend + 26:.0f}" y="18.5" {text}>{escape(curve.label)}</text>'
        )
        legend += 46 + 7.2 * len(curve.label)
    out.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle" {text}>'
        f"{escape(record.x_label)}</text>"
        f'<text transform="translate(14 {(top + height - bottom) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle" {text}>{escape(record.y_label)}</text></svg>'
    )
    return "\n".join(out)


def _points(placed: list[tuple[float, float]], fill: str) -> list[str]:
    """Dots whose area counts how many fall on one place."""
    counted = Counter((round(x / 3) * 3, round(y)) for x, y in placed)
    return [
        f'<circle cx="{x}" cy="{y}" r="{min(2.8 * math.sqrt(count), 10.0):.1f}" fill="{fill}" '
        'fill-opacity=".45"/>'
        for (x, y), count in counted.items()
    ]


def _thinned(placed: list[tuple[float, float]], limit: int = 800) -> list[tuple[float, float]]:
    if len(placed) <= limit:
        return placed
    stride = math.ceil(len(placed) / limit)
    return [*placed[::stride], placed[-1]]


def ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Round numbers between two ends, three to seven of them."""
    if logarithmic:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        fine = [m * 10.0**e for e in decades for m in (1, 2, 5)]
        inside = [t for t in fine if low <= t <= high]
        if len(inside) > 7:
            stride = math.ceil(len(decades) / 7)
            inside = [t for t in (10.0**e for e in decades[::stride]) if low <= t <= high]
        if len(inside) >= 3:
            return inside
    raw = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    step = min((m * unit for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
    first = math.ceil(low / step - 1e-9)
    return [
        k * step
        for k in itertools.takewhile(
            lambda k: k * step <= high * (1 + 1e-12), itertools.count(first)
        )
    ]
