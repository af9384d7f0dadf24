"""Analyses say what the rows say: verdicts turn when the numbers do."""

import numpy as np
import pytest

from sojourn import instances
from sojourn.experiments import runners
from sojourn.experiments.analysis import REPORTS, text
from sojourn.experiments.analysis.rates import slope
from sojourn.experiments.analysis.worlds import deviation
from sojourn.experiments.paper import PAPER_SLEM, PAPER_TABLE, table, theta
from sojourn.experiments.strategies import generated_slem
from sojourn.experiments.sweep import sweep
from sojourn.learning import FrankWolfe
from sojourn.model import Policy, VisitsOnly
from sojourn.planning import finite_loss, optimal_plan
from sojourn.simulation import simulate


def ratio_rows(values, unvisited=None, strategy="fw-ame", n=500):
    unvisited = np.zeros(len(values)) if unvisited is None else unvisited
    return [
        {"experiment": "garnet-table/S5", "cell": f"i-{k}", "S": 5, "strategy": strategy, "n": n,
         "ratio": float(v), "ratio_se": 0.1, "allocation_ratio": float(v),
         "unvisited_ratio": float(u), "redraws": 1, "reach": 1e-5, "long_run_ratio": 0.5,
         "exact_ratio": float(v) - 0.2 if strategy == "uniform" else None}
        for k, (v, u) in enumerate(zip(values, unvisited))
    ]  # fmt: skip


def table_of(values, unvisited=None):
    uniform = ratio_rows(np.full(len(values), 1.0), strategy="uniform")
    report = REPORTS["table"](ratio_rows(values, unvisited) + uniform)
    mine = next(line for line in report.remarks if line.startswith("S=5, FW-AME, n=500"))
    return report, mine


def test_a_table_that_agrees():
    paper = PAPER_TABLE[5, "fw-ame", 500]
    report, said = table_of(paper + np.array([-0.1, 0.1] * 50))
    assert "they agree within two standard errors" in said
    line = next(line for line in report.lines if line[1] == "FW-AME")
    assert line[3:6] == ("0.31", "0.31 ± 0.01", "0.31")


def test_a_table_that_differs():
    _, said = table_of(np.linspace(0.9, 1.1, 100))
    assert "no state was missed, so it differs" in said
    assert " 0 % are as low as the paper's" in said


def test_a_tail_is_told_apart_from_the_rest():
    """One instance in a hundred decides the mean; without its missed state the mean agrees."""
    paper = PAPER_TABLE[5, "fw-ame", 500]
    values = paper + np.array([-0.1, 0.1] * 50)
    missed = np.zeros(100)
    missed[7] = 300.0
    report, said = table_of(values + missed, missed)
    assert "in 1 of 100 instances some walk misses a state" in said
    assert f"our mean is {paper:.2f} ± 0.01, which agrees" in said
    # A hundred draws from a hundred leave one out with probability 1/e.
    share = float(said.rsplit(" % are", 1)[0].rsplit(" ", 1)[1])
    assert share == pytest.approx(100 * np.exp(-1) / 2, abs=22)
    assert any("η(s) ≤ 1e-05" in remark for remark in report.remarks)
    assert any("2.00 of their standard errors" in remark for remark in report.remarks)
    assert any(remark.startswith("100 drawn Garnets") for remark in report.remarks)


def test_garnet_rows_meet_the_exact_loss():
    """The uniform walk's ratio against the exact finite loss, computed here from the world."""
    experiment = table(5)
    cell = experiment.cells[3]
    given = experiment.parameters(cell) | {"strategies": ["uniform"], "runs": 2000}
    for row in runners.garnet_ratios(given, experiment.seed(cell)):
        world = instances.garnet(5, 3, 2, seed=experiment.seed(cell))
        best = optimal_plan(world.mdp, world.variance).loss
        uniform = Policy.uniform(world.mdp)
        exact = finite_loss(uniform, world.variance, row["n"], counting=VisitsOnly()) / best - 1
        assert row["exact_ratio"] == pytest.approx(exact, rel=1e-9)
        assert abs(row["ratio"] - exact) < 4.5 * row["ratio_se"]
        eta = uniform.chain().stationary()
        assert row["reach"] >= eta.min() - 1e-12
        assert row["long_run_ratio"] == pytest.approx(np.mean(world.variance / eta) / best - 1)


def test_three_states():
    rows = runners.three_state_losses({"budget": 30, "runs": 400}, 0)
    report = REPORTS["three-state"](rows)
    exact = {row["policy"]: row["exact"] for row in rows}
    assert exact["any"] <= exact["stationary"] * (1 + 1e-6)
    assert all(exact["stationary"] <= exact[name] * (1 + 1e-6)
               for name in ("lambda-star", "fmh", "fmh-sdp", "joint"))  # fmt: skip
    shown = dict(zip(report.header, report.lines[0]))
    assert shown["π_λ*"] == f"{exact['lambda-star']:.3f}"
    assert "±" in shown["Lookahead"]
    gain = exact["lambda-star"] / exact["fmh-sdp"]
    assert f"{gain:.2f} times smaller at n=30" in " ".join(report.remarks)
    assert {line.label for line in report.figures["three-state"].lines} >= {"FMH-SDP", "FMH"}


def learning_rows(which="slow", faster=50.0, slem=None):
    slem = PAPER_SLEM[which] if slem is None else slem
    means = {"uniform": 90.0, "fw-ame": 60.0, "fw-ame-fmh-sdp": faster, "lookahead": 45.0}
    rng = np.random.default_rng(0)
    return [
        {"experiment": "x", "cell": "y", "which": which, "strategy": name, "n": n, "run": run,
         "loss": mean * noise, "allocation": mean * noise, "optimal_loss": 40.0,
         "slem": slem.get(name)}
        for name, mean in means.items() for n in (100, 200)
        for run, noise in enumerate(rng.uniform(0.9, 1.1, 50))
    ]  # fmt: skip


def test_learning_claims_are_checked():
    said = " ".join(REPORTS["learning"](learning_rows()).remarks)
    assert "They agree; the instance was searched" in said
    assert "much better finite-time performance than FW-AME" in said
    assert "so it is here" in said
    assert "so it is not here" in " ".join(REPORTS["learning"](learning_rows(faster=60.0)).remarks)
    far = REPORTS["learning"](learning_rows(slem={"fw-ame": 0.99, "fw-ame-fmh-sdp": 0.88}))
    assert "They do not agree" in " ".join(far.remarks)
    fast = " ".join(REPORTS["learning"](learning_rows("fast", faster=60.0)).remarks)
    assert "same performance" in fast
    assert "so it is here" in fast
    worse = REPORTS["learning"](learning_rows("fast", faster=75.0))
    assert "so it is not here" in " ".join(worse.remarks)


def test_learning_bands_are_quantiles_of_the_walks():
    rows = learning_rows()
    report = REPORTS["learning"](rows)
    line = next(x for x in report.figures["learning-slow"].lines if x.label == "FW-AME")
    walks = [r["loss"] for r in rows if r["strategy"] == "fw-ame" and r["n"] == 200]
    assert line.y[1] == pytest.approx(np.mean(walks))
    assert (line.low[1], line.high[1]) == pytest.approx(tuple(np.quantile(walks, [0.05, 0.95])))


def test_the_chosen_seed_is_the_one_by_the_rule():
    def row(world, plain, faster, gain=1.0):
        return {"which": "slow", "world": world, "slem_fw-ame": plain,
                "slem_fw-ame-fmh-sdp": faster, "allocation_uniform": 3.0,
                "allocation_fw-ame": 2.0 * gain,
                "allocation_fw-ame-fmh-sdp": None if faster is None else 2.0}  # fmt: skip

    rows = [row(0, 0.95, 0.95, 9.0), row(1, 0.945, 0.889), row(2, 0.95, 0.871, 1.5),
            row(3, 0.5, None)]  # fmt: skip
    assert [round(deviation(r), 9) for r in rows] == [0.07, 0.009, 0.009, np.inf]
    report = REPORTS["worlds"](rows)
    assert [line[1] for line in report.lines] == ["2", "1"]
    assert "of 4 seeds, 2 have both" in report.remarks[0]
    assert "seed 2 shows most" in report.remarks[0]
    assert "lower with it by more than 5 % in 67 %" in report.remarks[1]
    far = REPORTS["worlds"](rows[::3])
    assert "none of 2 seeds" in far.remarks[0]


def test_a_candidate_far_from_the_target_is_not_tried_further():
    given = {"which": "fast", "worlds": [0], "n_states": 4, "n_actions": 2, "branching": 3,
             "runs": 3, "budget": 60, "slem": 0.5}  # fmt: skip
    (far,) = runners.candidate(given | {"tolerance": 0.0}, 0)
    (near,) = runners.candidate(given | {"tolerance": 1.0}, 0)
    assert far["slem_fw-ame-fmh-sdp"] is None
    assert 0.0 <= near["slem_fw-ame-fmh-sdp"] <= 1.0
    assert far["slem_fw-ame"] == near["slem_fw-ame"]


def test_slem_is_that_of_the_policies_generated():
    """Every policy but the first, which nobody chose; none where all walks are still in it."""
    world = instances.garnet(4, 2, 3, reversible=True, seed=0)
    found = simulate(world, FrankWolfe(), 80, 3, 0, record_policies=True)
    played = found.played
    by_hand = [played.policies[k].chain().slem for k, t in zip(played.policy, played.time) if t > 0]
    assert generated_slem(found) == pytest.approx(np.mean(by_hand))
    assert generated_slem(simulate(world, FrankWolfe(), 1, 3, 0, record_policies=True)) is None


def test_slopes():
    n = np.array([10.0, 100.0, 1000.0, 10000.0])
    assert slope(n, 3.0 * n**-0.4) == pytest.approx(-0.4)
    assert slope(n, np.array([1.0, 0.1, -1e-3, 0.001])) == pytest.approx(-1.0)
    assert slope(n, np.array([1.0, 0.1, -1e-3, -1e-3])) is None


def test_rates():
    rows = [
        {"strategy": "fw-ame", "label": "FW-AME", "world": w, "n": n, "excess": (1 + w) * n**-a}
        for w, a in enumerate((0.5, 0.52, 0.48)) for n in (100, 1000, 10000)
    ]  # fmt: skip
    report = REPORTS["rates"](rows)
    assert report.lines[0][:2] == ("FW-AME", "-0.500 ± 0.012")
    assert "faster than the theorem" in report.remarks[0]


def test_excess_rows_are_the_simulations():
    given = {"n_states": 4, "n_actions": 2, "branching": 2, "world": 0, "strategy": "uniform",
             "label": "u", "budgets": [50, 100], "runs": 20}  # fmt: skip
    rows = runners.excess(given, 7)
    world = instances.garnet(4, 2, 2, seed=0)
    found = simulate(world, runners.strategy("uniform"), 100, 20, 7, checkpoints=[50, 100])
    assert [r["excess"] for r in rows] == pytest.approx(found.allocation_ratio.tolist())


def test_the_exponent_agrees_with_the_paper():
    report = REPORTS["theta"](sweep(theta()))
    assert "0.3333 at m = 3: they agree" in report.remarks[0]


def test_text_is_aligned_and_wrapped():
    shown = text(REPORTS["learning"](learning_rows())).splitlines()
    header = next(k for k, line in enumerate(shown) if line.startswith("world"))
    column = shown[header].index("n·LOSS")
    for line in shown[header + 2 : header + 6]:
        assert line[column - 1] == " "
        assert line[column] != " "
    assert all(len(line) <= 100 for line in shown if line.startswith(("·", "  ")))
