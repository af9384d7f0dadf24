"""Forecasts against hand calculation and simulation, and one quantity in all of them."""

import numpy as np
import pytest

import sojourn as sj
from sojourn.campaign.forecast import forecast, rehearsed, steps_for
from sojourn.campaign.rehearse import imagine, rehearse, verdict
from sojourn.campaign.stopping import ideal_error
from sojourn.errors import ArgumentError
from sojourn.importing import Site, load_site
from sojourn.learning import Fixed, Lookahead


def site(slip=0.05, **known):
    return Site.from_mdp(sj.MDP.from_grid("....\n.##.\n....", slip=slip), **known)


@pytest.mark.parametrize("budget", [1, 100, 5000])
def test_a_forecast_is_the_loss_of_its_plan(budget):
    rng = np.random.default_rng(budget)
    weight, variance = rng.uniform(0, 2, 10), rng.uniform(0.1, 9, 10)
    here = site(weight=weight, variance=variance)
    found = forecast(here, budget)
    squared = variance / (budget * found.plan.distribution)
    assert found.mean_error == pytest.approx(np.sqrt(np.average(squared, weights=weight)))
    assert found.worst_error == pytest.approx(np.sqrt(squared.max()))
    assert found.visits.sum() == pytest.approx(budget)
    # Whoever needs no travel does no worse.
    free = ideal_error(variance, np.zeros(10), weight, budget)
    assert found.mean_error >= free * (1 - 1e-6)


@pytest.mark.parametrize("of", ["average", "every"])
@pytest.mark.parametrize("precision", [0.05, 0.3])
def test_steps_for_a_precision_are_the_fewest(of, precision):
    here = site(variance=np.geomspace(0.1, 5, 10))
    found = steps_for(here, precision, of)
    error = found.mean_error if of == "average" else found.worst_error
    assert error <= precision < error * np.sqrt(found.budget / (found.budget - 1))
    if of == "every":
        assert found.budget >= steps_for(here, precision, "average").budget
    for wrong in ((0.0, of), (np.nan, of), (precision, "each")):
        with pytest.raises(ArgumentError):
            steps_for(here, *wrong)


def test_time_of_a_plan(tmp_path):
    """Once around a ring takes 2 + 3 + 5, whatever the plan."""
    file = tmp_path / "ring.csv"
    file.write_text("from,to,time\nA,B,2\nB,C,3\nC,A,5\n")
    assert forecast(load_site(file), 30).time == pytest.approx(100.0)
    file.write_text("from,to,time\nA,B,2\nB,C,\nC,A,5\n")
    assert forecast(load_site(file), 30).time is None
    assert forecast(site(), 30).time is None


def test_staying_away_is_not_rewarded():
    """A boat that never leaves: one site is known well, the map is wrong everywhere else."""
    here = site(slip=0.0, weight=np.arange(1.0, 11.0))
    stay = np.zeros(here.mdp.n_pairs)
    stay[[here.mdp.pairs_of(s).start for s in range(10)]] = 1.0
    truth = sj.World(here.mdp, np.arange(10.0), np.full(10, 4.0), start=3)
    found = rehearsed(here, 50, runs=200, strategy=Fixed(sj.Policy(here.mdp, stay)), truth=truth)
    # The map shows the mean of 50 values there: (3 + e − μ)², e ~ N(0, 4/50).
    expected = np.where(np.arange(10) == 3, 4 / 50, (3 - np.arange(10.0)) ** 2 + 4 / 50)
    mean = np.sqrt(np.average(expected, weights=here.weight))
    assert found.mean_error == pytest.approx(mean, abs=5 * found.standard_error + 1e-9)
    assert found.unvisited == 9


def test_long_rehearsals_come_near_the_forecast():
    here = site(variance=np.geomspace(0.1, 5, 10), home=0)
    found = rehearsed(here, 2000, runs=4, seed=2)
    assert found.mean_error == pytest.approx(forecast(here, 2000).mean_error, rel=0.05)
    assert found.at_home is not None
    assert found.unvisited == 0


def test_a_campaign_and_the_comparison_measure_the_same(tmp_path, monkeypatch):
    """The error of the finished map, averaged over seas, is what the comparison predicts."""
    monkeypatch.setattr("sojourn.campaign.store.SYNCHRONOUS", "OFF")
    here = site(home=0)
    predicted = rehearsed(here, 60, runs=40, strategy=Lookahead(), truth=imagine(here, 7))
    squares = []
    for sea in range(30):
        with sj.Campaign.create(tmp_path / str(sea), here, budget=60, seed=sea) as c:
            truth, rng = imagine(here, 7), np.random.default_rng([sea, 5])
            P = here.mdp.transitions
            while not (advice := c.ask()).stop:
                row = P[[c.ledger.outstanding[1].pair]]
                s = int(rng.choice(row.indices, p=row.data / row.data.sum()))
                c.tell(rng.normal(truth.mean[s], np.sqrt(truth.variance[s])), state=s)
            assert advice.action is None
            squares.append(verdict(c, truth)["true_error"] ** 2)
    spread = np.std(squares, ddof=1) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - predicted.mean_error**2) < 4 * spread


def test_a_rehearsal_plays_the_invented_truth(tmp_path):
    here = site(mean=np.full(10, 3.0), home=0)
    c, truth = rehearse(tmp_path / "c", here, 40, seed=1)
    with c:
        assert (truth.mean == 3.0).all()
        assert (truth.variance == imagine(here, np.random.default_rng([1, 1])).variance).all()
        e, result = c.estimates(), verdict(c, truth)
        assert result["true_error"] == pytest.approx(np.sqrt(np.mean((e.mean - 3.0) ** 2)))
        assert result["intervals"] == (e.visits > 1).sum()
