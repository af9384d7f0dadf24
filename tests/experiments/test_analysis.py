"""Analyses say what the rows say: verdicts turn when the numbers do."""

import itertools

import numpy as np
import pytest

from sojourn import instances
from sojourn.experiments import runners
from sojourn.experiments.analysis import REPORTS, text
from sojourn.experiments.analysis.rates import exponent
from sojourn.experiments.analysis.worlds import deviation
from sojourn.experiments.paper import PAPER_SLEM, PAPER_TABLE, table, theta
from sojourn.experiments.strategies import generated_slem, strategy
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
         "unvisited_ratio": float(u), "redraws": 1, "reach": 0.02, "uniform_reach": 1e-4,
         "long_run_ratio": 0.5, "runs": 100, "ergodic": k == 0,
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
    assert "no state was missed, and it differs" in said
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
    why = next(remark for remark in report.remarks if remark.startswith("Why means"))
    assert "in 1 of 100 instances FW-AME misses a state" in why
    assert "0.0001 (median over these instances), some policy 0.02, 200 times" in why
    (clean,) = report.further
    assert [line[7] for line in clean.lines if line[1] == "FW-AME"] == ["1"]
    assert any("2.00 of their standard errors" in remark for remark in report.remarks)
    assert any(remark.startswith("100 drawn Garnets") for remark in report.remarks)
    assert any("so it is in 1 of the 100 instances" in remark for remark in report.remarks)


def test_an_even_start_is_compared_with_the_papers_means():
    paper = PAPER_TABLE[5, "fw-ame", 500]
    values = paper + np.array([-0.1, 0.1] * 50)
    missed = np.zeros(100)
    missed[:3] = 300.0
    rows = ratio_rows(values + missed, missed) + ratio_rows(values, strategy="fw-ame-even")
    report = REPORTS["table"](rows + ratio_rows(np.ones(100), strategy="uniform"))
    said = next(remark for remark in report.remarks if remark.startswith("What the first"))
    assert "misses a state in 0 instances instead of 3" in said
    assert "means are 0.31 ± 0.01 (S=5, n=500; the paper has 0.31)" in said


def test_an_even_start_is_the_plan_for_equal_variances():
    world = instances.garnet(5, 3, 2, seed=0)
    made = strategy("fw-ame-even", {}, world.mdp)
    best = optimal_plan(world.mdp, np.ones(5)).loss
    assert np.mean(1.0 / made.initial.chain().stationary()) == pytest.approx(best, rel=1e-8)


def test_what_is_ergodic_is_so_under_every_policy():
    """Against all deterministic policies, one by one."""
    given = {"n_states": 3, "n_actions": 2, "branching": 2, "budgets": [20],
             "strategies": ["uniform"], "runs": 2}  # fmt: skip
    found = set()
    for seed in range(10):
        mdp = instances.garnet(3, 2, 2, seed=seed).mdp
        every = True
        for actions in itertools.product(range(2), repeat=3):
            chosen = np.zeros(mdp.n_pairs)
            chosen[mdp.pair_start[:-1] + actions] = 1.0
            classes = Policy(mdp, chosen).chain().recurrent_classes()
            every &= [len(states) for states in classes] == [3]
        (row,) = runners.garnet_ratios(given, seed)
        assert row["ergodic"] is every
        found.add(every)
    assert found == {True, False}


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
        assert row["reach"] >= row["uniform_reach"] == pytest.approx(eta.min())
        assert row["long_run_ratio"] == pytest.approx(np.mean(world.variance / eta) / best - 1)


def test_three_states():
    rows = runners.three_state_losses({"budget": 30, "runs": 400, "many": 4000}, 0)
    report = REPORTS["three-state"](rows)
    exact = {row["policy"]: row["exact"] for row in rows}
    assert exact["any"] <= exact["stationary"] * (1 + 1e-6)
    assert all(exact["stationary"] <= exact[name] * (1 + 1e-6)
               for name in ("lambda-star", "fmh", "fmh-sdp", "joint"))  # fmt: skip
    shown = dict(zip(report.header, report.lines[0]))
    assert shown["π_λ*"] == f"{exact['lambda-star']:.3f}"
    learned = next(row for row in rows if row["policy"] == "lookahead")
    clean = learned["optimal_loss"] * (1 + learned["allocation_ratio"])
    assert shown["Lookahead"].startswith(f"{clean:.3f} ± ")
    (walks,) = report.further
    assert [line[1] for line in walks.lines].count("Lookahead") == 1
    for row in rows:
        if "loss_many" in row:
            assert abs(row["loss_many"] - row["exact"]) < 4.5 * row["loss_many_se"]
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
    ((_, (dots,)),) = report.figures["worlds"].groups
    assert dots.values == pytest.approx([9.0, 1.0, 1.5])
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


def test_exponents():
    """Of the mean over the worlds; the jackknife meets the bootstrap; noise around zero counts."""
    n = np.array([10.0, 100.0, 1000.0, 10000.0])
    worlds = np.arange(1.0, 6.0)[:, None]
    assert exponent(n, worlds * n**-0.4) == pytest.approx((-0.4, 0.0))
    assert exponent(n, n[None, :] ** -0.4) == (pytest.approx(-0.4), None)
    sign = np.array([1.0, -0.2])[:, None] * n**-0.5
    assert exponent(n, np.vstack([sign, sign])) == pytest.approx((-0.5, 0.0))
    assert exponent(n, -worlds * n**-0.4) == (None, None)
    rng = np.random.default_rng(0)
    noisy = n ** -rng.normal(0.5, 0.1, size=(30, 1)) * rng.uniform(0.5, 1.5, size=(30, 4))
    value, error = exponent(n, noisy)
    again = [exponent(n, noisy[rng.integers(30, size=30)])[0] for _ in range(400)]
    assert error == pytest.approx(np.std(again), rel=0.4)
    assert value == pytest.approx(np.mean(again), abs=error)


def rate_rows(label, strategy, exponents):
    return [
        {"strategy": strategy, "label": label, "world": w, "n": n, "excess": n**-a}
        for w, a in enumerate(exponents) for n in (100, 1000, 10000)
    ]  # fmt: skip


def test_rates():
    rows = rate_rows("FW-AME", "fw-ame", (0.5, 0.52, 0.48))
    rows += rate_rows("FW-AME, longer", "fw-ame", (0.7, 0.72, 0.68))
    rows += rate_rows("Lookahead", "lookahead", (1.0, 1.02, 0.98))
    report = REPORTS["rates"](rows)
    assert [line[0] for line in report.lines] == ["FW-AME", "FW-AME, longer", "Lookahead"]
    assert report.lines[0][1] == "-0.50 ± 0.01"
    assert "faster than the −1/3" in report.remarks[0]
    assert "−1/2 is within" in report.remarks[0]
    assert "neither −1/2 nor −1" in report.remarks[1]
    assert "−1 is within" in report.remarks[2]
    colours = [line.colour for line in report.figures["rates"].lines]
    assert len(set(colours)) == len(colours) == 4
    slow = REPORTS["rates"](rate_rows("FW-AME", "fw-ame", (0.2, 0.21, 0.19)))
    assert "slower than the theorem's" in slow.remarks[0]


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
