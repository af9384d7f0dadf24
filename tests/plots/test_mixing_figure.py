"""The figure of what slack buys."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sojourn.planning import Mixing, MixingTradeoff
from sojourn.plots.mixing import draw


def test_the_figure_shows_what_the_record_holds(tmp_path: Path) -> None:
    slack = np.array([0.0, 0.01, 0.1])
    record = MixingTradeoff(
        "joint", 100, slack, np.array([0.9, 0.8, np.nan]), np.array([0.1, 0.2, np.nan]),
        np.array([1.0, 1.1, np.nan]), np.array([9.0, 2.0, np.nan]), Mixing(0.95, 0.05, 1.0, 10.0),
    )  # fmt: skip
    figure = draw(record, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    upper, lower = figure.axes
    for axes, curves in ((upper, (record.slem, 1 - record.one_sided_gap)),
                         (lower, (record.loss, record.finite_loss))):  # fmt: skip
        drawn = [line for line in axes.lines if len(line.get_xdata()) == slack.size]
        assert len(drawn) == 2
        for line, values in zip(drawn, curves):
            np.testing.assert_array_equal(line.get_xdata(), slack)
            np.testing.assert_array_equal(line.get_ydata(), values)
    assert "100 steps" in upper.get_title()
