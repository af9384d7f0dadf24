"""What figures share: colours that colour-blind readers tell apart, and files without dates."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sojourn.errors import need

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of M. Okabe and K. Ito (2008); a record names a colour by its place here."""

GREY = "0.35"


def new_figure(width: float, height: float) -> Any:
    """A figure of its own: it never touches pyplot's global state, nor needs a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise need("matplotlib", "plot", "drawing figures") from error
    return Figure(figsize=(width, height), layout="constrained")


def styled() -> AbstractContextManager[None]:
    """Settings under which figures are drawn; the same numbers give the same bits."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise need("matplotlib", "plot", "drawing figures") from error
    context: AbstractContextManager[None] = mpl.rc_context({
        "svg.hashsalt": "sojourn", "font.size": 10, "axes.titlesize": 11, "axes.titlelocation":
        "left", "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
        "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY,
        "mathtext.fontset": "dejavusans",
    })  # fmt: skip
    return context


def written(paint: Callable[[], Any], paths: tuple[Path, ...]) -> list[Path]:
    """Paint a figure and write it to each path, in the format of its ending."""
    with styled():
        figure = paint()
        for path in paths:
            # An SVG would carry the time of day, and differ between two equal runs.
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=150, metadata=metadata)
    return list(paths)


def plain_numbers(axis: Any) -> None:
    """Ticks of a logarithmic axis as people write numbers: 20, 50, 100, not powers of ten.

    As many in each decade as there is room for, which the limits decide: set them before.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    room = 10 if axis.axis_name == "x" else 18
    fitting = (subs for subs in ((1.0, 2.0, 5.0), (1.0, 3.0)) if len(subs) * decades <= room)
    axis.set_major_locator(LogLocator(subs=next(fitting, (1.0,)), numticks=room))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
