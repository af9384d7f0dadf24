"""Curves and scatters: labels that don't collide, the same file for the same numbers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from sojourn.plots import curves, spread
from sojourn.plots.curves import CurvesRecord, Line, spread_apart
from sojourn.plots.spread import Scatter, SpreadRecord

heights = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9).map(np.array)


@given(heights, st.floats(0.0, 0.3))
def test_labels_keep_order_and_distance(height, least):
    place = spread_apart(height, least)
    order = np.argsort(height, kind="stable")
    assert (np.diff(place[order]) >= least - 1e-12).all()
    assert place.mean() == pytest.approx(height.mean())


@given(heights, st.floats(0.001, 0.3))
def test_labels_are_as_near_as_they_can_be(height, least):
    """Least squares: no feasible direction improves (pushing any upper or lower group)."""
    place = np.sort(spread_apart(height, least))
    force = np.sort(height) - place
    free = np.flatnonzero(np.diff(place) > least + 1e-9) + 1
    for block in np.split(force, free):
        assert abs(block.sum()) < 1e-9
        # Within a block the lower ones pull up and the upper ones down, or they would move apart.
        assert (np.cumsum(block) >= -1e-9).all()


@given(heights, st.floats(0.001, 0.1))
def test_labels_stay_within_where_there_is_room(height, least):
    place = np.sort(spread_apart(height, least, within=1.0))
    assert (np.diff(place) >= least - 1e-12).all()
    assert place[0] >= -1e-12
    assert place[-1] <= 1.0 + 1e-12
    free = np.sort(spread_apart(height, least))
    if free[0] >= 0.0 and free[-1] <= 1.0:
        assert place == pytest.approx(free)


def test_labels_that_don_t_collide_stay():
    height = np.array([0.9, 0.1, 0.5])
    assert (spread_apart(height, 0.05) == height).all()


def figure():
    x = np.array([10.0, 100.0, 1000.0])
    return CurvesRecord(
        "a title", "n", "loss",
        (Line("one", x, 1 / x, low=0.5 / x, high=2 / x), Line("two", x, 1.01 / x, points=True),
         Line("", x, 2 / x), Line("gap", x, np.array([1.0, np.nan, np.nan]))),
        log_x=True, log_y=True, rule=(0.01, "rule"), marks=((100.0, 0.01, "here"),),
    )  # fmt: skip


def scatter():
    rng = np.random.default_rng(0)
    rows = tuple(Scatter(f"row {k}", rng.lognormal(size=50), 1.5, k) for k in range(3))
    return SpreadRecord("a title", "ratio", (("group", rows),), log_x=True, rule=(1.0, "rule"))


@pytest.mark.parametrize(("room", "record"), [(curves, figure()), (spread, scatter())])
def test_same_numbers_same_files(tmp_path, room, record):
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    assert room.draw(record, first, tmp_path / "a.png") == [first, tmp_path / "a.png"]
    room.draw(record, second)
    assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_every_curve_is_named_where_it_ends():
    """Labels stand right of the axes and none covers another."""
    drawn = curves.paint(figure())
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    # An annotation's own extent has its pointer in it.
    boxes = {t.get_text(): Text.get_window_extent(t) for t in axes.texts if t.get_text() != "here"}
    assert boxes.keys() == {"one", "two", "gap", "rule"}
    edge = axes.get_window_extent().x1
    assert all(box.x0 > edge for box in boxes.values())
    found = sorted(boxes.values(), key=lambda box: box.y0)
    assert all(above.y0 >= below.y1 - 3 for below, above in pairwise(found))
    assert max(box.x1 for box in found) <= drawn.bbox.x1


def test_rows_of_dots_are_labelled():
    (axes,) = spread.paint(scatter()).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["row 0", "row 1", "row 2"]


def long_figure():
    x = np.geomspace(10.0, 1e5, 9)
    lines = (Line("all", x, x), Line("half", x[:5], 2 * x[:5]))
    return CurvesRecord("a title", "n", "loss", lines, log_x=True, log_y=True)


def test_numbers_below_four_decades_don_t_run_into_each_other():
    drawn = curves.paint(long_figure())
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    low, high = axes.get_xlim()
    shown = [
        t for t in axes.get_xticklabels() if t.get_text() and low <= t.get_position()[0] <= high
    ]
    boxes = [label.get_window_extent() for label in shown]
    assert len(boxes) > 4
    assert all(right.x0 > left.x1 for left, right in pairwise(boxes))


def test_a_curve_that_ends_early_is_led_to_its_name():
    drawn = curves.paint(long_figure())
    (axes,) = drawn.axes
    starts = [line.get_transform().transform(line.get_xydata())[0] for line in axes.lines[2:]]
    ends = [line.get_transform().transform(line.get_xydata())[-1] for line in axes.lines[:2]]
    assert np.allclose(starts, ends)
