"""Maps and curves as SVG text, for pages that must open offline and without matplotlib.

A record holds pure numbers; a renderer turns it into markup. Every text is escaped here, so a
record may carry whatever a user wrote. Drawings scale with the page, follow its colours
(``currentColor``) and print well.
"""

from __future__ import annotations

import itertools
import math
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
    marks: dict[str, int] = field(default_factory=dict)
    """Sites to mark: a letter and the state."""
    y_down: bool = False
    logarithmic: bool = False


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


def number(value: float) -> str:
    """Three figures, without an exponent where a person would not write one."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "?"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        places = max(0, 2 - math.floor(math.log10(abs(value))))
        text = f"{value:.{places}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2e}"


def colour(share: float) -> str:
    """The colour of a value between 0 and 1."""
    position = min(max(share, 0.0), 1.0) * (len(_VIRIDIS) - 1)
    k = min(int(position), len(_VIRIDIS) - 2)
    mix = position - k
    channels = (round(a + mix * (b - a)) for a, b in zip(_VIRIDIS[k], _VIRIDIS[k + 1]))
    return "#{:02x}{:02x}{:02x}".format(*channels)


def render_map(record: MapRecord, width: int = 640) -> str:
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
    points = (xy - low) * scale
    r = radius * scale
    finite = record.values[np.isfinite(record.values)]
    bottom, top = _range(finite, record.logarithmic)
    out = [
        f'<svg viewBox="0 0 {width} {height + 46:.0f}" role="img" '
        f'aria-label="{escape(record.title)}" xmlns="http://www.w3.org/2000/svg">',
        '<defs><pattern id="nobound" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="5" height="5" fill="#ccc"/>'
        '<rect width="2.2" height="5" fill="#b4452c"/></pattern></defs>',
    ]
    for a, b in record.edges:
        out.append(
            f'<line x1="{points[a, 0]:.1f}" y1="{points[a, 1]:.1f}" x2="{points[b, 0]:.1f}" '
            f'y2="{points[b, 1]:.1f}" stroke="currentColor" stroke-opacity=".25"/>'
        )
    for s, ((x, y), value) in enumerate(zip(points, record.values)):
        if math.isnan(value):
            fill = "none"
        elif math.isinf(value):
            fill = "url(#nobound)"
        else:
            fill = colour(_share(value, bottom, top, record.logarithmic))
        shown = "nothing known" if math.isnan(value) else f"{number(value)} {record.unit}".strip()
        tip = f"<title>{escape(record.names[s])}: {escape(shown)}</title>"
        stroke = 'stroke="currentColor" stroke-opacity=".35" stroke-width=".6"'
        if record.cell:
            out.append(
                f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" height="{2 * r:.1f}" '
                f'fill="{fill}" {stroke}>{tip}</rect>'
            )
        else:
            out.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{fill}" {stroke}>'
                f"{tip}</circle>"
            )
    if len(record.path) > 1:
        # A hair of spread keeps a path that runs up and down one lane readable.
        line = " ".join(
            f"{points[s, 0] + 0.18 * r * math.sin(2.4 * k):.1f},"
            f"{points[s, 1] + 0.18 * r * math.cos(2.4 * k):.1f}"
            for k, s in enumerate(record.path)
        )
        out.append(
            f'<polyline points="{line}" fill="none" stroke="#d33682" stroke-width="1.4" '
            'stroke-opacity=".75" stroke-linejoin="round"/>'
        )
    for letter, s in record.marks.items():
        x, y = points[s]
        size = min(max(0.6 * r, 8.0), 14.0)
        out.append(
            f'<g><circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="#fff" stroke="#d33682" '
            f'stroke-width="2"/><text x="{x:.1f}" y="{y + 0.36 * size:.1f}" '
            f'font-size="{1.1 * size:.0f}" text-anchor="middle" fill="#222" font-weight="bold">'
            f"{escape(letter)}</text></g>"
        )
    if finite.size:
        out.append(_colour_bar(bottom, top, record, width, height))
    out.append("</svg>")
    return "\n".join(out)


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


def _range(values: NDArray, logarithmic: bool) -> tuple[float, float]:
    if logarithmic:
        values = values[values > 0]
    if not values.size:
        return (0.0, 1.0)
    return float(values.min()), float(values.max())


def _share(value: float, bottom: float, top: float, logarithmic: bool) -> float:
    if top <= bottom:
        return 0.5
    if logarithmic:
        if value <= 0:
            return 0.0
        return math.log(value / bottom) / math.log(top / bottom)
    return (value - bottom) / (top - bottom)


def _colour_bar(bottom: float, top: float, record: MapRecord, width: int, height: float) -> str:
    steps, left, span = 40, 0.08 * width, 0.6 * width
    y = height + 12
    bars = "".join(
        f'<rect x="{left + span * k / steps:.1f}" y="{y:.0f}" width="{span / steps + 0.5:.1f}" '
        f'height="10" fill="{colour((k + 0.5) / steps)}"/>'
        for k in range(steps)
    )
    text = 'font-size="13" fill="currentColor"'
    unit = f" {escape(record.unit)}" if record.unit else ""
    middle = math.sqrt(bottom * top) if record.logarithmic else 0.5 * (bottom + top)
    return (
        f'<g>{bars}<text x="{left:.0f}" y="{y + 25:.0f}" {text}>{number(bottom)}</text>'
        f'<text x="{left + span / 2:.0f}" y="{y + 25:.0f}" text-anchor="middle" {text}>'
        f"{number(middle)}</text>"
        f'<text x="{left + span:.0f}" y="{y + 25:.0f}" text-anchor="end" {text}>'
        f"{number(top)}{unit}</text></g>"
    )


_LINES = ("#2c718e", "#d33682", "#6b8e23", "#b4622c", "#5c4a9a", "#555555")


def render_chart(record: ChartRecord, width: int = 640, height: int = 340) -> str:
    """Curves as SVG."""
    left, right, top, bottom = 70, 14, 14, 48
    drawn = [
        (curve, curve.x[ok], curve.y[ok])
        for curve in record.curves
        for ok in [np.isfinite(curve.x) & np.isfinite(curve.y)
                   & ((curve.y > 0) | (not record.logarithmic))]
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

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (x - x0) / (x1 - x0) * (width - left - right)
        share = math.log(y / y0) / math.log(y1 / y0) if record.logarithmic else (y - y0) / (y1 - y0)
        return across, height - bottom - share * (height - top - bottom)

    out = [head]
    text = 'font-size="13" fill="currentColor"'
    for tick in ticks(y0, y1, record.logarithmic):
        _, y = place(x0, tick)
        out.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" '
            'stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" {text}>{number(tick)}</text>'
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
            f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#555" '
            f'stroke-dasharray="3 4"/><text x="{width - right}" y="{y - 5:.1f}" text-anchor="end" '
            f"{text}>{escape(record.rule[1])}</text>"
        )
    legend_x = left + 12
    for k, (curve, cx, cy) in enumerate(drawn):
        line = _LINES[k % len(_LINES)]
        placed = [place(float(x), float(y)) for x, y in zip(cx, cy)]
        if curve.points:
            out += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line}" fill-opacity=".6"/>'
                for x, y in placed
            ]
        elif placed:
            dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
            route = " ".join(f"{x:.1f},{y:.1f}" for x, y in _thinned(placed))
            out.append(
                f'<polyline points="{route}" fill="none" stroke="{line}" stroke-width="2"{dash}/>'
            )
        out.append(
            f'<rect x="{legend_x}" y="{top + 4 + 18 * k}" width="14" height="4" fill="{line}"/>'
            f'<text x="{legend_x + 20}" y="{top + 10 + 18 * k}" {text}>{escape(curve.label)}</text>'
        )
    out.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle" {text}>'
        f"{escape(record.x_label)}</text>"
        f'<text transform="translate(16 {(height - bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle" {text}>{escape(record.y_label)}</text></svg>'
    )
    return "\n".join(out)


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
            inside = [t for t in (10.0**e for e in decades) if low <= t <= high]
        if len(inside) >= 2:
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
