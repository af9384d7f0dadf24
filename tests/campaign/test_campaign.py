"""Ask and tell: advice is stable, history is kept, and a resumed campaign is the same campaign."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import sojourn as sj
from sojourn.campaign.campaign import as_json
from sojourn.errors import ArgumentError, CampaignError, SojournError
from sojourn.importing import Site
from sojourn.learning import Oracle, Uniform
from sojourn.learning.strategy import Decision

GRID = "....\n.##.\n...."


def grid(slip=0.0):
    return sj.MDP.from_grid(GRID, slip=slip)


def follow(c, steps, seed):
    """Obey the advice for some steps with a reproducible sea."""
    for _ in range(steps):
        advice = c.ask()
        asked = c.ledger.outstanding[1]
        rng = np.random.default_rng([seed, advice.step])
        outcomes = c.ledger.outcomes(asked.pair)
        state = int(rng.choice(outcomes))
        c.tell(rng.normal(state, 1.0), state=state)


def bits(c):
    """All that a campaign knows, as bytes."""
    ledger = c.ledger
    memory = c._memory.snapshot()
    arrays = (ledger.visits, ledger.mean, ledger.spread, ledger.pair_visits, *memory.values())
    path = [(visit.event, visit.step, visit.state) for visit in ledger.path]
    return b"".join(np.ascontiguousarray(a).tobytes() for a in arrays) + repr(path).encode()


def without_time(c):
    return [(n, e) for n, _, e in c.events()]


@pytest.mark.parametrize("strategy", [None, Uniform()], ids=["lookahead", "uniform"])
@pytest.mark.parametrize("keep_snapshots", [True, False])
def test_50_steps_equal_25_and_resume_and_25(tmp_path, strategy, keep_snapshots):
    whole = sj.Campaign.create(tmp_path / "a", grid(0.1), strategy, budget=60, seed=3)
    follow(whole, 50, 9)
    parts = sj.Campaign.create(tmp_path / "b", grid(0.1), strategy, budget=60, seed=3)
    follow(parts, 25, 9)
    parts.ask()
    if not keep_snapshots:
        parts._store.forget_snapshots()
    parts.close()
    parts = sj.Campaign.open(tmp_path / "b")
    follow(parts, 25, 9)
    assert bits(whole) == bits(parts)
    assert without_time(whole) == without_time(parts)
    assert as_json(whole.ask()) == as_json(parts.ask())
    whole.close()
    parts.close()


def test_asking_again_is_the_same_advice(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=10) as c:
        first = c.ask()
        assert c.ask() == first
        assert len(c.events()) == 2
        assert first.action in ("stay", "N", "E", "S", "W")
        assert first.reason
        c.tell(1.0)
        assert c.ask().event != first.event


def test_a_certain_move_needs_no_state_and_an_uncertain_one_does(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=10) as c:
        advice = c.ask()
        c.tell(2.0)
        assert c.location == advice.state
    with sj.Campaign.create(tmp_path / "d", grid(0.2), budget=10) as c:
        c.ask()
        with pytest.raises(CampaignError, match="more than one place"):
            c.tell(2.0)
        assert c.steps == 0


def test_values_several_and_none(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=10) as c:
        advice = c.ask()
        c.tell([1.0, 3.0])
        assert c.estimates().visits[advice.state] == 2
        assert c.estimates().mean[advice.state] == 2.0
        c.ask()
        c.tell(None)
        assert c.steps == 2
        assert c.estimates().visits.sum() == 2


def test_correct_and_void_are_events(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=10) as c:
        c.ask()
        state = c.ledger.outcomes(c.ledger.outstanding[1].pair)[0]
        event = c.tell(100.0)
        c.tell(4.0, state=int(state), extra=True)
        c.correct(event, 2.0, note="a slip of the key")
        assert c.estimates().mean[state] == 3.0
        c.void(event, "the probe was dry")
        assert c.estimates().mean[state] == 4.0
        assert c.steps == 1
        with pytest.raises(CampaignError, match="void already"):
            c.void(event, "again")
        with pytest.raises(CampaignError, match="no measurement"):
            c.void(1, "the beginning")
        with pytest.raises(CampaignError, match="without a reason"):
            c.void(event, " ")
        told = [e for n, _, e in c.events() if n == event]
        assert told[0].values == (100.0,)


def test_correction_counts_like_the_right_value_from_the_start(tmp_path):
    """Welford's sums after corrections equal those of the corrected list, bit for bit."""
    rng = np.random.default_rng(5)
    values = rng.normal(1e6, 1e-3, 30)
    with sj.Campaign.create(tmp_path / "c", grid(), budget=10) as c:
        events = [c.tell(v + 1e3 * (k == 7), state=0, extra=True) for k, v in enumerate(values)]
        c.correct(events[7], values[7])
        with sj.Campaign.create(tmp_path / "d", grid(), budget=10) as d:
            for v in values:
                d.tell(v, state=0, extra=True)
            assert c.ledger.spread[0] == d.ledger.spread[0]
        assert c.estimates().variance[0] == pytest.approx(values.var(ddof=1), rel=1e-6)


def test_going_elsewhere_is_recorded_and_replanned(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=30) as c:
        c.ask()
        pair = c.ledger.outstanding[1].pair
        elsewhere = next(s for s in range(10) if s not in c.ledger.outcomes(pair))
        c.tell(1.0, state=elsewhere)
        assert c.location == elsewhere
        assert c.ledger.pair_visits.sum() == 0
        c.ask()
        assert c.ledger.outstanding[1].planned
        c.place("0,0")
        assert c.location == 0
        assert c.steps == 1
        c.ask()
        assert c.ledger.outstanding[1].state == 0


def test_it_stops_at_the_budget_and_goes_on_when_extended(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=3) as c:
        for _ in range(3):
            c.ask()
            c.tell(1.0)
        end = c.ask()
        assert end.stop
        assert end.action is None
        assert "budget" in end.reason
        with pytest.raises(CampaignError, match="made already"):
            c.extend(2)
        c.extend(5)
        assert not c.ask().stop


def test_it_stops_at_the_precision(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), precision=0.5) as c:
        rng = np.random.default_rng(0)
        while not (advice := c.ask()).stop:
            c.tell(rng.normal(0, 0.5))
            assert c.steps < 500
        assert "every site" in advice.reason
        assert c.estimates().standard_error.max() <= 0.5


def test_bad_input_is_a_sentence(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=5) as c:
        with pytest.raises(CampaignError, match="nothing was asked"):
            c.tell(1.0)
        c.ask()
        for value, word in (("x", "not a number"), (float("nan"), "nan"), ([[1]], "table"),
                            (float("inf"), "inf"), ({}, "not a number")):  # fmt: skip
            with pytest.raises(CampaignError, match=word):
                c.tell(value)
        with pytest.raises(ArgumentError, match="no site 'Q7'"):
            c.tell(1.0, state="Q7")
        with pytest.raises(ArgumentError, match="no site '99'"):
            c.tell(1.0, state=99)
        assert c.steps == 0
    for wrong in ({"budget": 0}, {"budget": 2.5}, {"seed": -1}, {"precision": 0.0}, {"of": "x"},
                  {"home": "nowhere"}):  # fmt: skip
        with pytest.raises(ArgumentError):
            sj.Campaign.create(tmp_path / "w", grid(), **wrong)
        assert not (tmp_path / "w").exists()
    with pytest.raises(CampaignError, match="true variances"):
        sj.Campaign.create(tmp_path / "w", grid(), Oracle())
    assert not (tmp_path / "w").exists()


class Westward:
    """A third party's strategy: the first action, always."""

    name = "westward"
    needs = frozenset()

    def start(self, task):
        return {"asked": np.zeros(task.walks, dtype=np.int64)}

    def plan(self, task, state, seen, walks):
        state["asked"][walks] += 1
        policy = np.zeros((walks.size, task.n_pairs))
        policy[:, task.pair_start[:-1]] = 1.0
        return Decision(until=seen.time[walks] + 5, policy=policy)


def test_a_strategy_of_ones_own(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), Westward(), budget=30) as c:
        follow(c, 12, 0)
        assert c._memory._state["asked"][0] == 3
    with pytest.raises(CampaignError, match="hand it in"):
        sj.Campaign.open(tmp_path / "c")
    with pytest.raises(CampaignError, match="not 'uniform'"):
        sj.Campaign.open(tmp_path / "c", Uniform())
    with sj.Campaign.open(tmp_path / "c", Westward()) as c:
        follow(c, 4, 0)
        assert c._memory._state["asked"][0] == 4


def test_earlier_data_and_labels_survive_the_file(tmp_path):
    site = Site.from_mdp(
        sj.MDP.from_grid("..\n.."), data={2: (1.0, 2.0, 6.0)}, title="T", unit="m",
        weight=np.array([1.0, 0.0, 2.0, 1.0]), home=1,
    )  # fmt: skip
    with sj.Campaign.create(tmp_path / "c", site, budget=5) as c:
        assert c.estimates().visits.tolist() == [0, 0, 3, 0]
        assert c.steps == 0
        assert c.location == c.home == 1
        assert c.site.index("1,0") == 1
        assert c.site.weight.tolist() == [1.0, 0.0, 2.0, 1.0]
        assert c.ask().action in ("stay", "N", "E", "S", "W")


def test_report_escapes_and_fetches_nothing(tmp_path):
    evil = "<script>alert('x')</script>"
    site = Site(mdp=grid(0.1), names=tuple(f"{evil}{s}" for s in range(10)), title=evil, unit=evil)
    with sj.Campaign.create(tmp_path / "c", site, Uniform(), budget=100, note=evil) as c:
        follow(c, 40, 1)
        event = c.tell(1.0, state=0, note=evil)
        c.void(event, evil)
        text = c.report(tmp_path / "r.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    for outside in ("http://", "https://", "src=", "@import", "url(http"):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")


def test_exports_agree(tmp_path):
    import csv

    import pandas as pd

    with sj.Campaign.create(tmp_path / "c", grid(0.1), Uniform(), budget=100) as c:
        follow(c, 60, 1)
        e = c.estimates()
        with open(c.export(tmp_path / "t.csv"), newline="") as file:
            table = list(csv.DictReader(file))
        frame = pd.read_parquet(c.export(tmp_path / "t.parquet"))
        geo = json.loads(c.export(tmp_path / "t.geojson").read_text())
        for s in range(10):
            record = geo["features"][s]["properties"]
            assert int(table[s]["visits"]) == frame["visits"][s] == record["visits"] == e.visits[s]
            if e.visits[s] >= 2:
                assert float(table[s]["low"]) == frame["low"][s] == record["low"] == e.low[s]
            else:
                assert table[s]["low"] == ""
                assert record["low"] is None
        with pytest.raises(ArgumentError, match=r"\.csv, \.parquet"):
            c.export(tmp_path / "t.xls")
        with pytest.raises(CampaignError, match="can't be written"):
            c.export(Path("/nonexistent/t.csv"))


class CampaignMachine(RuleBasedStateMachine):
    """Any order of ask, tell, correct, void, place, extend and resume keeps the books right."""

    @initialize(slip=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 99))
    def begin(self, slip, seed):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "c"
        self.c = sj.Campaign.create(self.path, grid(slip), Uniform(), budget=40, seed=seed)
        self.values = {}
        self.moves = 0

    @rule()
    def ask(self):
        advice = self.c.ask()
        assert advice.stop == (self.moves >= self.c.budget)

    @precondition(lambda self: self.c.ledger.outstanding is not None)
    @rule(
        value=st.none() | st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3),
        pick=st.integers(0, 9),
    )
    def tell(self, value, pick):
        outcomes = self.c.ledger.outcomes(self.c.ledger.outstanding[1].pair)
        state = int(outcomes[pick % outcomes.size])
        event = self.c.tell(value, state=state)
        self.moves += 1
        if value:
            self.values[event] = (state, list(value))

    @rule(value=st.floats(-1e6, 1e6), state=st.integers(0, 9))
    def extra(self, value, state):
        self.values[self.c.tell(value, state=state, extra=True)] = (state, [value])

    @precondition(lambda self: self.values)
    @rule(data=st.data(), value=st.floats(-1e6, 1e6))
    def correct(self, data, value):
        event = data.draw(st.sampled_from(sorted(self.values)))
        self.c.correct(event, value)
        self.values[event] = (self.values[event][0], [value])

    @precondition(lambda self: self.values)
    @rule(data=st.data())
    def void(self, data):
        event = data.draw(st.sampled_from(sorted(self.values)))
        self.c.void(event, "wrong")
        del self.values[event]

    @rule(state=st.integers(0, 9))
    def place(self, state):
        self.c.place(state)
        assert self.c.location == state

    @rule(more=st.integers(1, 5))
    def extend(self, more):
        self.c.extend(self.c.budget + more)

    @rule()
    def resume(self):
        before = bits(self.c) if self.c._memory._decision is not None else None
        self.c.close()
        self.c = sj.Campaign.open(self.path)
        if before is not None:
            assert bits(self.c) == before

    @invariant()
    def books_are_right(self):
        if not hasattr(self, "c"):
            return
        e = self.c.estimates()
        for s in range(10):
            told = [x for state, values in self.values.values() if state == s for x in values]
            assert e.visits[s] == len(told)
            if told:
                scale = 1.0 + max(map(abs, told))
                assert abs(e.mean[s] - np.mean(told)) <= 1e-9 * scale
        assert self.c.steps == self.moves

    def teardown(self):
        if hasattr(self, "c"):
            self.c.close()
            self.folder.cleanup()


TestCampaignMachine = CampaignMachine.TestCase
TestCampaignMachine.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


def test_errors_are_sojourns(tmp_path):
    with pytest.raises(SojournError):
        sj.Campaign.create(tmp_path / "no" / "c", grid(), Uniform())
