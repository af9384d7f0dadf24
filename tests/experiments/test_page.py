"""docs/reproducing.md shows what `sojourn reproduce` knows, as it was written by it."""

import re
from pathlib import Path

import pytest

from sojourn.experiments.analysis import markdown
from sojourn.experiments.analysis.report import Lines, Report
from sojourn.experiments.paper import FIGURES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_on_the_page_with_date_version_and_machine(figure):
    page = (DOCS / "reproducing.md").read_text(encoding="utf-8")
    assert f"```{{include}} reproduced/{figure}.md\n" in page
    assert f"sojourn reproduce {figure} " in page
    part = (DOCS / "reproduced" / f"{figure}.md").read_text(encoding="utf-8")
    made = part.splitlines()[-1]
    assert re.match(r"Made on \d{4}-\d\d-\d\d, sojourn \S+, Python .*; .+, \d+ cores; ", made)
    for picture in re.findall(r"\]\((\S+\.png)\)", part):
        assert (DOCS / "reproduced" / picture).stat().st_size < 200_000


def test_signs_of_mathematics_are_no_markup():
    report = Report(
        "λ* and π_λ*", ("a|b", "n"), (("x_s", "1"),), ("see `reproduce_all *` or η*",), {}, (),
        (Lines(("c",), (("<2",),), "more"),),
    )  # fmt: skip
    said = markdown(report)
    assert said.splitlines() == [
        r"**λ\* and π\_λ\***", "", r"| a\|b | n |", "| --- | --- |", r"| x\_s | 1 |", "",
        "**more**", "", "| c |", "| --- |", r"| \<2 |", "", r"- see `reproduce_all *` or η\*",
    ]  # fmt: skip
