"""The report: balanced markup, what it must show, nothing fetched, nothing written elsewhere."""

import itertools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn as sj
from sojourn.campaign.report import PRINTED
from sojourn.campaign.summary import cell_edge, layout
from sojourn.importing import Site
from sojourn.learning import Uniform
from sojourn.plots.svg import (
    STRETCHES,
    ChartRecord,
    Curve,
    MapRecord,
    number,
    render_chart,
    render_map,
    ticks,
)

EVIL = "<script>alert('x')</script>&\"'"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    monkeypatch.setattr("sojourn.campaign.store.SYNCHRONOUS", "OFF")


class Balanced(HTMLParser):
    """Every tag is closed in order; what the page shows is collected."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def survey(path, site, steps, **options):
    c = sj.Campaign.create(path, site, **options)
    rng = np.random.default_rng(2)
    for _ in range(steps):
        advice = c.ask()
        c.tell(rng.normal(3.0, 1.0), state=advice.state)
    return c


@pytest.mark.parametrize("steps", [0, 1, 5, 60])
@pytest.mark.parametrize("coordinates", [True, False])
def test_a_report_at_any_moment(tmp_path, steps, coordinates):
    mdp = sj.MDP.from_grid("....\n.##.\n....", slip=0.1)
    if not coordinates:
        mdp = sj.MDP(mdp.transitions, mdp.pair_start)
    names = tuple(f"{EVIL}{s}" for s in range(10))
    site = Site(mdp=mdp, names=names, title=EVIL, unit=EVIL, home=0)
    with survey(tmp_path / "c", site, steps, budget=60, note=EVIL, precision=0.5) as c:
        advice = c.preview()
        before = c.events()
        page = c.report(tmp_path / "r.html").read_text(encoding="utf-8")
        assert c.events() == before
        assert c.preview() == advice
    seen = Balanced(page)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in seen.tags}
    assert not {"src", "href", "onload", "onclick"} & {a for _, attrs in seen.tags for a in attrs}
    words = " ".join(seen.text)
    titles = ["Estimates", "Uncertainty", "Path", "All sites, the least certain first"]
    if steps == 60:
        titles += ["Plan", "Visits against plan"]
    titles.append("Error against steps" if steps == 60 else "Sites measured")
    for title in titles:
        assert title in words
    assert ("Finished" in words) == (steps == 60)
    assert advice.reason in words
    assert EVIL in words
    rows = page.count("<tr>") + page.count('<tr class="rest">') - 1
    assert rows == 10
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(drawing)
        assert "nan" not in re.sub(r"<text.*?</text>|<title>.*?</title>", "", drawing)


def test_paper_gets_the_least_certain_sites(tmp_path):
    site = sj.MDP.from_grid("\n".join(["." * 30] * 10))
    with survey(tmp_path / "c", site, 5, strategy=Uniform(), budget=9) as c:
        page = c.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count('<tr class="rest">') == 300 - PRINTED
    assert f"the {PRINTED} least certain of 300 sites" in page


def test_large_maps_stay_small(tmp_path):
    """Ten thousand cells: drawn together by colour, a report that a phone can open."""
    site = sj.MDP.from_grid("\n".join(["." * 100] * 100))
    with survey(tmp_path / "c", site, 5, strategy=Uniform(), budget=9) as c:
        path = c.report(tmp_path / "r.html")
    assert path.stat().st_size < 3e6
    xy = layout(Site.from_mdp(site))
    record = MapRecord("m", xy, np.arange(1e4), [""] * 10_000, cell=1.0)
    drawn = ElementTree.fromstring(render_map(record))
    shapes = drawn.findall(f"{SVG}path")
    assert len(shapes) == 65
    assert sum(shape.get("d").count("M") for shape in shapes) == 10_000


def cells(record):
    drawn = ElementTree.fromstring(render_map(record))
    return drawn, drawn.findall(f"{SVG}rect") + drawn.findall(f"{SVG}circle")


def test_the_north_of_a_bare_map_is_up():
    """The first line of the text is drawn at the top, from a text, a site file and a campaign."""
    bare = Site.from_mdp(sj.MDP.from_grid("..\n.#"))
    assert cell_edge(bare) == 1.0
    xy = layout(bare)
    assert xy[0, 1] > xy[2, 1]
    _, drawn = cells(MapRecord("m", xy, np.arange(3.0), ["a", "b", "c"], cell=1.0))
    at = [(float(c.get("x")), float(c.get("y"))) for c in drawn]
    assert at[0][0] == at[2][0] < at[1][0]
    assert at[0][1] == at[1][1] < at[2][1]
    placed = Site.from_mdp(bare.mdp.with_coordinates(np.array([[0.0, 5], [1, 5], [0, 4]])))
    assert cell_edge(placed) is None
    assert layout(placed).tolist() == placed.coordinates.tolist()


@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, np.nan, np.inf]), min_size=1, max_size=12))
def test_values_and_fills_agree(values):
    n = len(values)
    xy = np.column_stack((np.arange(n, dtype=float), np.zeros(n)))
    _, drawn = cells(MapRecord("m", xy, np.array(values), [EVIL] * n, unit=EVIL))
    fills = {}
    for value, shape in zip(values, drawn):
        tip = shape.find(f"{SVG}title").text
        assert tip.startswith(EVIL)
        if np.isnan(value):
            assert shape.get("fill") == "none"
            assert tip.endswith("nothing known")
        elif np.isinf(value):
            assert shape.get("fill").startswith("url(#")
        else:
            fills.setdefault(value, set()).add(shape.get("fill"))
    # One value, one colour; two values, two.
    assert all(len(colours) == 1 for colours in fills.values())
    assert len({next(iter(c)) for c in fills.values()}) == len(fills)


@pytest.mark.parametrize("steps", [0, 1, 2, 23, 24, 25, 500])
def test_a_path_is_drawn_whole_and_in_order(steps):
    xy = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    path = [k % 3 for k in range(steps)]
    drawn, _ = cells(MapRecord("m", xy, np.ones(3), ["a", "b", "c"], path=path))
    lines = [line.get("points").split() for line in drawn.findall(f"{SVG}polyline")]
    assert len(lines) == (0 if steps < 2 else min(STRETCHES, steps - 1))
    for before, after in itertools.pairwise(lines):
        assert before[-1] == after[0]
    if lines:
        assert sum(len(line) - 1 for line in lines) == steps - 1


def test_charts_leave_out_what_is_not_there():
    some = Curve("some", np.arange(3.0), np.array([1.0, np.inf, 2.0]))
    none = Curve("none", np.arange(3.0), np.full(3, np.nan), dashed=True)
    text = render_chart(ChartRecord("c", "x", "y", [some, none], rule=(1.5, EVIL)))
    drawn = ElementTree.fromstring(text)
    shown = [t.text for t in drawn.iter(f"{SVG}text")]
    assert "some" in shown
    assert "none" not in shown
    assert EVIL in shown
    assert "nothing to draw yet" in render_chart(ChartRecord("c", "x", "y", [none]))


def test_dots_on_one_place_are_counted():
    many = Curve("s", np.array([1.0, 1.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0, 2.0]), points=True)
    drawn = ElementTree.fromstring(render_chart(ChartRecord("c", "x", "y", [many])))
    radii = [float(c.get("r")) for c in drawn.iter(f"{SVG}circle") if c.get("fill-opacity")]
    assert sorted(radii)[1] / sorted(radii)[0] == pytest.approx(np.sqrt(3), rel=0.03)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.booleans())
def test_ticks_lie_between_the_ends(low, span, logarithmic):
    low = abs(low) + 1e-6 if logarithmic else low
    found = ticks(low, low + span, logarithmic)
    slack = 1e-9 * max(abs(low), span)
    assert all(low - slack <= tick <= low + span + slack for tick in found)
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.0, "12"), (1234.0, "1234"), (0.12345, "0.123"), (np.inf, "∞"),
     (-np.inf, "–∞"), (np.nan, "?"), (1e-7, "1.00e-07"), (-3.14159, "-3.14")],
)  # fmt: skip
def test_numbers_as_a_person_writes_them(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "resolution", "text"),
    [(1013.274, 0.02, "1013.274"), (1013.274, 3.0, "1013.3"), (101325.0, 30.0, "101325"),
     (288.15, 0.0, "288"), (-0.01234, 50.0, "-0.0123"), (1e20, 1.0, "1.00000000000e+20"),
     (0.30000000000000004, 0.01, "0.3"), (5.0, np.inf, "5")],
)  # fmt: skip
def test_numbers_are_as_fine_as_their_errors(value, resolution, text):
    assert number(value, resolution) == text


@given(st.floats(1e-3, 1e8), st.floats(1e-3, 10.0))
def test_numbers_tell_values_apart_that_an_error_tells_apart(value, error):
    assert number(value, error) != number(value + error, error)
    assert float(number(value, error)) == pytest.approx(value, abs=0.1 * error, rel=5e-3)


def test_the_name_of_an_axis_keeps_clear_of_its_numbers():
    chart = ChartRecord("c", "x", "y", [Curve("s", np.arange(5.0), np.linspace(0.0, 1.3e-4, 5))])
    texts = list(ElementTree.fromstring(render_chart(chart)).iter(f"{SVG}text"))
    numbers = [t for t in texts if t.get("text-anchor") == "end"]
    assert len(numbers) >= 3
    # A figure is about 7.2 wide, and the name ends 17 from the left.
    assert all(float(t.get("x")) - 7.2 * len(t.text) > 17 for t in numbers)


def test_values_that_differ_by_little_are_shown_apart(tmp_path):
    """Air pressure: a thousand and something, known to a tenth."""
    with sj.Campaign.create(tmp_path / "c", sj.MDP.from_grid("..")) as c:
        for state, values in ((0, [1013.21, 1013.28, 1013.24]), (1, [1013.61, 1013.69, 1013.64])):
            event = c.tell(values, state=state, extra=True)
        c.correct(event, 1013.66)
        text = c.report(tmp_path / "r.html").read_text()
    assert "1013.24" in text
    assert "corrected to 1013.66" in text
