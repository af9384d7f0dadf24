"""The record of finite losses, and that a figure can be drawn from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn import ArgumentError
from sojourn.plots import finite_loss_curves
from sojourn.plots.finite import draw


def test_the_record_holds_the_numbers() -> None:
    record = finite_loss_curves(
        [10, 100], {"a": [3.0, 2.0], "b": [9.0, 1.5]}, {"b": 1.0}, bound=[1.2, 1.1], title="t"
    )
    assert list(record.budgets) == [10, 100]
    assert [curve.label for curve in record.curves] == ["a", "b"]
    assert [curve.asymptote for curve in record.curves] == [None, 1.0]
    assert record.bound is not None
    np.testing.assert_array_equal(record.bound, [1.2, 1.1])


def test_the_figure_shows_every_curve(tmp_path: Path) -> None:
    record = finite_loss_curves(
        [10, 100, 1000], {"a": [3, 2, 1], "b": [9, 4, 2]}, {"a": 0.9}, bound=[1, 0.9, 0.8]
    )
    axes = draw(record, path=tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len(axes.lines) == 3
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["a", "b"]
    assert draw(record, axes) is axes


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"budgets": [10, 5]}, "positive and ascend"),
        ({"budgets": []}, "positive and ascend"),
        ({"losses": {}}, "no curve to draw"),
        ({"losses": {"a": [1.0]}}, "the curve 'a' has shape"),
        ({"asymptotes": {"c": 1.0}}, "an asymptote for 'c' and no curve"),
        ({"bound": [1.0]}, "the bound has shape"),
    ],
)
def test_wrong_numbers_get_a_sentence(change: dict[str, object], sentence: str) -> None:
    question: dict[str, object] = {"budgets": [5, 10], "losses": {"a": [2.0, 1.0]}}
    with pytest.raises(ArgumentError, match=sentence):
        finite_loss_curves(**(question | change))  # type: ignore[arg-type]
