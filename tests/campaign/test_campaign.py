"""Ask and tell: advice is stable, history is kept, and a resumed campaign is the same campaign."""

import contextlib
import json
import sqlite3
from dataclasses import replace
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
from sojourn.campaign.homeward import WayHome
from sojourn.errors import (
    ArgumentError,
    CampaignError,
    RequestError,
    SojournError,
    StoreError,
    StrategyError,
)
from sojourn.importing import Site
from sojourn.learning import (
    AverageReward,
    FrankWolfe,
    Lawnmower,
    Oracle,
    Power,
    TheoryWidth,
    Uniform,
    WeightedMaxEntropy,
)
from sojourn.learning.strategy import Decision

GRID = "....\n.##.\n...."


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    """These tests ask what is stored, not whether it survives a power cut."""
    monkeypatch.setattr("sojourn.campaign.store.SYNCHRONOUS", "OFF")


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


STRATEGIES = {
    "lookahead": None,
    "uniform": Uniform(),
    "lawnmower": Lawnmower(),
    "average-reward": AverageReward(every=3),
    "fw-ame": FrankWolfe(),
    "fw-ame theory": FrankWolfe(width=TheoryWidth(range=3.0), schedule=Power(2.0), name="mine"),
    "fw-ame sdp": FrankWolfe(floor=1e-4, mixing="sdp", variance_bound=4.0),
    "entropy": WeightedMaxEntropy(),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("home", [None, 0])
def test_50_steps_equal_25_and_resume_and_25(tmp_path, name, home):
    """Bit for bit, from the kept memory of the strategy and from the events alone."""
    options = {"strategy": STRATEGIES[name], "budget": 55, "seed": 3, "home": home}
    whole = sj.Campaign.create(tmp_path / "whole", grid(0.1), **options)
    follow(whole, 50, 9)
    following = as_json(whole.ask())
    for keep_snapshots in (True, False):
        path = tmp_path / f"parts{keep_snapshots}"
        parts = sj.Campaign.create(path, grid(0.1), **options)
        follow(parts, 25, 9)
        parts.ask()
        if not keep_snapshots:
            parts._store.forget_snapshots()
        parts.close()
        parts = sj.Campaign.open(path)
        follow(parts, 25, 9)
        assert as_json(parts.ask()) == following
        assert bits(whole) == bits(parts)
        assert without_time(whole) == without_time(parts)
        parts.close()
    whole.close()


def test_asking_again_is_the_same_advice(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=10) as c:
        first = c.ask()
        assert c.ask() == first
        assert len(c.events()) == 2
        assert first.action in ("stay", "N", "E", "S", "W")
        assert first.reason
        c.tell(1.0)
        assert c.ask().event != first.event


@pytest.mark.parametrize("strategy", [None, Uniform(), FrankWolfe()])
def test_a_preview_is_the_next_advice_and_leaves_no_trace(tmp_path, strategy):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        sj.Campaign.create(path, grid(0.1), strategy, budget=30, seed=1, home=0).close()
    with sj.Campaign.open(paths[0]) as c, sj.Campaign.open(paths[1]) as d:
        for _ in range(30):
            foreseen = c.preview()
            assert c.preview() == foreseen
            with sj.Campaign.open(paths[0], readonly=True) as reader:
                assert reader.preview() == foreseen
            advice = c.ask()
            assert foreseen == replace(advice, event=None)
            assert c.preview() == advice
            follow(c, 1, 4)
            follow(d, 1, 4)
            assert bits(c) == bits(d)
        assert c.preview().stop


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


@pytest.mark.parametrize("strategy", [None, Uniform(), FrankWolfe()])
@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_it_is_home_in_time(tmp_path, strategy, slip):
    """Whatever the strategy; with slips as often as the best possible way home is."""
    at_home = []
    for seed in range(1 if slip == 0 else 12):
        path = tmp_path / f"c{seed}"
        with sj.Campaign.create(path, grid(slip), strategy, 30, seed, start=9, home=0) as c:
            P = c.site.mdp.transitions
            rng = np.random.default_rng(seed)
            while not (advice := c.ask()).stop:
                row = P[[c.ledger.outstanding[1].pair]]
                c.tell(rng.normal(), state=int(rng.choice(row.indices, p=row.data)))
            assert c.steps == 30
            assert ("not at home" in advice.reason) == (c.location != 0)
            at_home.append(c.location == 0)
    # The last move can fail with probability 0.1, and no strategy can help that.
    assert np.mean(at_home) >= (1.0 if slip == 0 else 0.6)


def test_way_home_is_the_best_there_is():
    """Chances by dynamic programming over explicit policies on a tiny world; certain times."""
    mdp = sj.MDP.from_grid("....", slip=0.3)
    way = WayHome(mdp, 0)
    chance = np.eye(4)[0]
    for left in range(1, 12):
        per_pair = mdp.transitions @ chance
        for s in range(4):
            pairs = mdp.pairs_of(s)
            best = per_pair[pairs.start : pairs.stop].max()
            for p in pairs:
                kept = way.instead_of(s, p, left)
                if best == 0:
                    assert kept == way.quickest(s)
                    continue
                assert (kept is None) == (per_pair[p] >= best * (1 - 1e-6))
                assert kept is None or per_pair[kept] == best
        chance = np.array([per_pair[mdp.pairs_of(s)].max() for s in range(4)])
    sure = WayHome(sj.MDP.from_grid("....\n.##.\n...."), 0)
    hops = [0, 1, 2, 3, 1, 4, 2, 3, 4, 5]
    assert sure._moves.tolist() == hops
    # Far from the end every move is free, and that is known without looking further.
    assert sure.instead_of(9, 0, 10**9) is None
    assert len(sure._chances) < 30


def test_where_time_is_too_short_the_device_still_goes_home(tmp_path):
    """As far as it gets, and the advice says so; a budget that is long enough needs no words."""
    line = sj.MDP.from_grid(".......")
    with sj.Campaign.create(tmp_path / "c", line, budget=4, start=6, home=0) as c:
        said = []
        while not (advice := c.ask()).stop:
            said.append(advice.reason)
            c.tell(1.0)
        assert c.location == 2
        assert all("can't be enough" in reason for reason in said)
        assert "not at home" in advice.reason
    with sj.Campaign.create(tmp_path / "d", grid(0.2), budget=6, start=9, home=0) as c:
        while not (advice := c.ask()).homeward:
            c.tell(1.0, state=9)
        chance = c._way.chance(6 - c.steps)[9]
        assert f"{6 - c.steps} steps left, " in advice.reason
        assert ("can't be enough" if chance == 0 else f"probability {chance:.2g}") in advice.reason
    # On a ring without staying home is never exactly an odd number of moves away: no hurry.
    ring = sj.MDP.from_transitions(
        [(s, f"{k:+d}", (s + k) % 6, 1.0) for s in range(6) for k in (1, -1)]
    )
    with sj.Campaign.create(tmp_path / "e", ring, budget=31, home=0) as c:
        advice = c.ask()
        assert not advice.homeward


def test_a_reached_goal_leads_home_first(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), precision=1e9, home=0, start=0) as c:
        reasons = []
        while not (advice := c.ask()).stop:
            reasons.append((advice.homeward, advice.reason))
            c.tell([1.0, 2.0])
            assert c.steps < 200
        assert c.location == 0
        assert "every site" in advice.reason
        led = [reason for homeward, reason in reasons if homeward]
        assert led
        assert all(reason.startswith("on the way home: every site is known") for reason in led)
        assert c.status()["goal_reached"]


def test_integers_are_indices_and_text_is_a_name(tmp_path):
    """Labels may be numbers too: an index must never be taken for a label."""
    mdp = sj.MDP.from_transitions([(2, "a", 0, 1.0), (0, "a", 1, 1.0), (1, "a", 2, 1.0)])
    labels = list(mdp.state_labels)
    with sj.Campaign.create(tmp_path / "c", mdp, budget=9) as c:
        for _ in range(4):
            advice = c.ask()
            c.tell(1.0, state=advice.state)
            assert c.location == advice.state
            assert labels[advice.state] == int(advice.site)
        for label in (0, 1, 2):
            assert c.site.index(str(label)) == labels.index(label)
            assert c.site.index(np.int64(label)) == label
    cells = Site.from_mdp(grid())
    assert cells.index((3, 1)) == cells.index("3,1") == 5


def test_a_plan_that_could_not_be_written_was_never_made(tmp_path, monkeypatch):
    """A full disk in the middle of ask: the same object goes on as a fresh one would."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        with sj.Campaign.create(path, grid(0.1), FrankWolfe(), budget=60, seed=1) as c:
            follow(c, 20, 4)
    c = sj.Campaign.open(paths[0])

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    for _ in range(30):
        # Fail wherever a new plan would be stored, once, then succeed.
        with monkeypatch.context() as broken:
            broken.setattr(c._store, "put_snapshot", full)
            with contextlib.suppress(StoreError):
                c.ask()
        follow(c, 1, 4)
    with sj.Campaign.open(paths[1]) as d:
        follow(d, 30, 4)
        assert bits(c) == bits(d)
    c.close()


def test_goals_can_be_changed_one_by_one(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), precision=0.5, of="average") as c:
        c.extend(worth=0.1)
        assert c.ledger.goal == {"precision": 0.5, "of": "average", "worth": 0.1}
        c.extend(20)
        assert c.budget == 20
        assert c.ledger.goal["worth"] == 0.1
        with pytest.raises(RequestError, match="nothing to change"):
            c.extend()
        for wrong in (0, 2.5, "x", True, 10**30):
            with pytest.raises(ArgumentError, match="budget"):
                c.extend(wrong)


def test_seeds(tmp_path):
    for seed in (7, np.int64(7), np.random.default_rng(7)):
        with sj.Campaign.create(tmp_path / repr(seed)[:9], grid(), Uniform(), 5, seed) as c:
            c.ask()
    for seed in (-1, 1.5, True, "x", None):
        with pytest.raises(ArgumentError, match="seed"):
            sj.Campaign.create(tmp_path / "w", grid(), Uniform(), 5, seed)


def test_advice_says_what_it_gains(tmp_path):
    with sj.Campaign.create(tmp_path / "c", sj.MDP.from_grid(".."), budget=30) as c:
        assert c.ask().gain == np.inf
        c.tell([1.0, 3.0])
        while (advice := c.ask()).gain == np.inf:
            c.tell([0.0, 4.0])
        e = c.estimates()
        v, T = e.expected_variance[advice.state], e.visits[advice.state]
        assert advice.gain == pytest.approx((v / T - v / (T + 1)) / 2)
        assert f"one more makes that ±{np.sqrt(v / (T + 1)):.3g}"[:22] in advice.reason
        c.tell(1.0)


class Learner:
    """Needs every transition, is not told where actions lead, and remembers what it saw."""

    name = "learner"
    needs = frozenset({"transitions"})

    def start(self, task):
        assert task.mdp is None
        return {"seen": np.zeros((task.walks, task.n_pairs, task.n_states), dtype=np.int64)}

    def plan(self, task, state, seen, walks):
        state["seen"][walks] = seen.transitions[walks]
        rare = seen.pair_visits[walks] + 1.0
        policy = 1.0 / rare
        for s in range(task.n_states):
            pairs = slice(*task.pair_start[s : s + 2])
            policy[:, pairs] /= policy[:, pairs].sum(axis=1, keepdims=True)
        return Decision(until=seen.time[walks] + 3, policy=policy)


def test_a_learner_of_the_moves_sees_every_transition(tmp_path):
    """Also those that the map doesn't foresee: the map may be wrong."""
    with sj.Campaign.create(tmp_path / "c", grid(), Learner(), budget=90) as c:
        truth = np.zeros((c.site.mdp.n_pairs, 10), dtype=int)
        rng = np.random.default_rng(0)
        for _ in range(40):
            c.ask()
            state = int(rng.integers(10))
            truth[c.ledger.outstanding[1].pair, state] += 1
            c.tell(0.0, state=state)
        c.place(3)
        c.ask()
        assert (c._memory._state["seen"][0] == truth).all()
        before = bits(c)
    with sj.Campaign.open(tmp_path / "c", Learner()) as c:
        assert bits(c) == before
        c._store.forget_snapshots()
    with sj.Campaign.open(tmp_path / "c", Learner()) as c:
        assert bits(c) == before


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
        with pytest.raises(ArgumentError, match="no site 99"):
            c.tell(1.0, state=99)
        for huge in (1e300, -1e101, [1.0, 1e250]):
            with pytest.raises(RequestError, match="at most 1e"):
                c.tell(huge)
        with pytest.raises(RequestError, match="not a number"):
            c.tell(1 + 2j)
        for event in ("x", None, 1.5, 99, -1):
            with pytest.raises(RequestError, match="no measurement"):
                c.correct(event, 1.0)
            with pytest.raises(RequestError, match="no measurement"):
                c.void(event, "why not")
        with pytest.raises(RequestError, match="without a site"):
            c.tell(1.0, extra=True)
        assert c.steps == 0
        assert len(c.events()) == 2
    for wrong in ({"budget": 0}, {"budget": 2.5}, {"seed": -1}, {"precision": 0.0}, {"of": "x"},
                  {"home": "nowhere"}, {"precision": "0.1"}, {"precision": [1.0, 2.0]},
                  {"worth": "x"}, {"worth": 1.0}, {"of": None}, {"strategy": "lookahead"},
                  {"strategy": sj.Lookahead}, {"strategy": abs}):  # fmt: skip
        with pytest.raises(ArgumentError):
            sj.Campaign.create(tmp_path / "w", grid(), **wrong)
        assert not (tmp_path / "w").exists()
    for site in (None, {}, np.eye(3), sj.instances.three_state(), 3):
        with pytest.raises(ArgumentError, match="is no site"):
            sj.Campaign.create(tmp_path / "w", site)
    with pytest.raises(CampaignError, match="true variances"):
        sj.Campaign.create(tmp_path / "w", grid(), Oracle())
    with pytest.raises(ArgumentError, match="two sites are called '1'"):
        sj.Campaign.create(
            tmp_path / "w", sj.MDP.from_transitions([(1, "go", "1", 1.0), ("1", "go", 1, 1.0)])
        )
    assert not (tmp_path / "w").exists()


def test_what_lies_under_a_mask_is_never_a_value(tmp_path):
    with sj.Campaign.create(tmp_path / "c", grid(), budget=5) as c:
        c.ask()
        for masked in (np.ma.masked_array([1.0, 2.0], [False, True]), np.ma.masked):
            with pytest.raises(RequestError, match="masked"):
                c.tell(masked, state=0)
        c.tell(np.ma.masked_array([1.0, 2.0], [False, False]), state=0)
        assert c.estimates().visits[0] == 2


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
    with sj.Campaign.open(tmp_path / "c") as c:
        assert c.strategy_name == "westward"
        assert c.estimates().visits.sum() == 12
        with pytest.raises(CampaignError, match="hand it in"):
            c.ask()
        assert c.preview() is None
    with pytest.raises(CampaignError, match="not 'uniform'"):
        sj.Campaign.open(tmp_path / "c", Uniform())
    with sj.Campaign.open(tmp_path / "c", Westward()) as c:
        follow(c, 4, 0)
        assert c._memory._state["asked"][0] == 4


def test_a_strategy_that_learnt_to_remember_more_starts_from_the_events(tmp_path):
    class Counting(Westward):
        name = "counting"
        keys = ("plans",)

        def start(self, task):
            return super().start(task) | {key: np.zeros((task.walks, 1)) for key in self.keys}

        def plan(self, task, state, seen, walks):
            for key in self.keys:
                state[key][walks] += 1
            return super().plan(task, state, seen, walks)

    class Later(Counting):
        keys = ("plans", "more")

    class Untidy(Counting):
        def start(self, task):
            return super().start(task) | {"note": np.array([None])}

    with sj.Campaign.create(tmp_path / "c", grid(), Counting()) as c:
        follow(c, 6, 1)
        plans = c._memory._state["plans"].item()
    with sj.Campaign.open(tmp_path / "c", Later()) as c:
        assert c._memory._state["more"].item() == plans > 0
        follow(c, 2, 1)
    with sj.Campaign.create(tmp_path / "d", grid(), Untidy()) as c:
        with pytest.raises(StrategyError, match="'note', which is no array"):
            c.ask()
        assert len(c.events()) == 1


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
