"""Studies: worlds × strategies × budgets from a file, every mistake a sentence, and the command."""

import json
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.cli import main
from sojourn.errors import SojournError
from sojourn.experiments import load_study, sweep
from sojourn.experiments.analysis import study_report
from sojourn.experiments.definition import plain
from sojourn.experiments.strategies import STRATEGIES, simulated, summary, world_data, world_from
from sojourn.experiments.study import is_study
from sojourn.importing import load_site
from sojourn.instances import build
from sojourn.planning import optimal_plan

STUDY = """
    id = "mine"
    runs = 4
    budgets = [60, 30, 60]
    [[worlds]]
    instance = "garnet:4,2,2"
    seeds = [0, 1]
    [[worlds]]
    site = "site.toml"
    [[strategies]]
    name = "uniform"
    [[strategies]]
    name = "fw-ame"
    label = "narrow"
    options = { width = 0.05 }
"""

SITE = '[source]\nkind = "grid"\ntext = "..\\n.."\n'


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text(SITE)

    def write(text=STUDY):
        file = tmp_path / "study.toml"
        file.write_text(textwrap.dedent(text))
        return file

    return write


def test_worlds_times_strategies_times_budgets(study):
    experiment = load_study(str(study()))
    assert len(experiment.cells) == 6
    rows = sweep(experiment)
    assert {row["world"] for row in rows} == {"garnet:4,2,2,seed=0", "garnet:4,2,2,seed=1", "site"}
    assert {row["strategy"] for row in rows} == {"uniform", "narrow"}
    assert len(rows) == 12
    assert {row["n"] for row in rows} == {30, 60}


def test_a_row_is_what_the_simulation_says():
    world = build("garnet:4,2,2")
    ((_, simulation, k),) = simulated(world, "uniform", [50], 30, 0)
    row = summary(simulation, k)
    best = optimal_plan(world.mdp, world.variance).loss
    assert row["optimal_loss"] == pytest.approx(best, rel=1e-8)
    assert row["ratio"] == pytest.approx(float(simulation.ratio[0]), rel=1e-9)
    assert row["ratio_se"] == pytest.approx(float(simulation.ratio_standard_error[0]), rel=1e-9)
    assert row["allocation_ratio"] == pytest.approx(float(simulation.allocation_ratio[0]), rel=1e-9)
    assert row["loss_median"] <= row["loss_q95"] <= row["loss_max"]


def test_a_changed_site_is_another_definition(study, tmp_path):
    before = load_study(study())
    assert load_study(study()).digest() == before.digest()
    (tmp_path / "site.toml").write_text(SITE.replace('text = "..', 'slip = 0.1\ntext = "..'))
    assert load_study(study()).digest() != before.digest()


def test_a_site_survives_being_data(study, tmp_path):
    """Workers build the same world from the definition, JSON in between."""
    study()
    site = load_site(tmp_path / "site.toml")
    world = world_from(json.loads(json.dumps(plain(world_data(site, 2.5)))))
    assert (world.mdp.transitions != site.mdp.transitions).nnz == 0
    assert (world.mdp.pair_start == site.mdp.pair_start).all()
    assert (world.variance == 2.5).all()


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('"uniform"', '"unifrom"', "no strategy"),
        ("garnet:4", "garnt:4", "no instance"),
        ("garnet:4,2,2", "garnet:4,2,7", "distinct next states"),
        ("site.toml", "none.toml", "no site file"),
        ("runs = 4", "runs = 0", "runs"),
        ("runs = 4", "runs = 'many'", "runs"),
        ("budgets = [60, 30, 60]", "budgets = []", "budgets"),
        ("budgets = [60, 30, 60]", "budgets = [0]", "budgets"),
        ("width = 0.05", "wdith = 0.05", r"toml:15: .* no option 'wdith'.*did you mean width"),
        ("width = 0.05", "width = 'a'", r"study.toml:15: .*width is 'a' \(write a number"),
        ("width = 0.05", "floor = true", "floor is True"),
        ("width = 0.05", "schedule = 2.5", "write text or a whole number"),
        ("width = 0.05", "initial = 'x'", "no option 'initial' that a definition can set"),
        ("width = 0.05", "x = 1979-05-27", "no option 'x'"),
        ("budgets = [60, 30, 60]", "budgets = [60, -3]", r":4: budgets.1 is -3 .*at least 1"),
        ("budgets = [60, 30, 60]", "budgets = [1e3]", r":4: budgets.0 is 1000.0 .*whole number"),
        ("budgets = [60, 30, 60]", "budgets = [9223372036854775807]", "at most 4.6"),
        ("runs = 4", "run = 4", r":3: run means nothing .*did you mean runs"),
        ("seeds = [0, 1]", "sede = 1", r":7: sede means nothing in \[worlds.0\]"),
        ('[[worlds]]\n    site = "site.toml"', "[[worlds]]", r":8: a world needs exactly one"),
        ("garnet:4,2,2", "garnet:4,2,2,seed=1", "has a seed, and the world has seeds"),
        ('id = "mine"', f'id = "{"x" * 300}"', "a word of more than 100"),
        ('label = "narrow"', "label = [1]", r"strategies.1.label is \[1\] \(write text"),
        ("width = 0.05", "floor = 3", "floor is 3"),
        ("width = 0.05", "mixing = 'sdq'", "no mixing"),
        ('id = "mine"', 'idd = "mine"', "id"),
        ('id = "mine"', 'id = "../mine"', "can't be the id"),
        ('label = "narrow"', 'label = "uniform"', "two strategies are called 'uniform'"),
        ("seeds = [0, 1]", "seeds = [1, 1]", "stands there twice"),
        ("seeds = [0, 1]", "seeds = [-1]", "seeds"),
        ('site = "site.toml"', 'site = "site.toml"\nseeds = [1]', "always the same"),
        ('site = "site.toml"', 'site = "site.toml"\ninstance = "taxi"', "exactly one"),
        ("[[strategies]]", "[strategies]", "study.toml"),
        ("runs = 4", "runs = ", "study.toml:3: not TOML"),
        ("runs = 4", "runs = 4\n    runs = 5", "it is there twice"),
    ],
)  # fmt: skip
def test_mistakes_are_sentences_and_exit_code_2(study, capsys, old, new, word):
    assert old in STUDY
    file = study(STUDY.replace(old, new))
    with pytest.raises(SojournError, match=word):
        load_study(file)
    assert main(["simulate", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")


def test_all_mistakes_are_named_with_their_lines(study, tmp_path):
    (tmp_path / "site.toml").write_text(SITE.replace("grid", "gird"))
    text = STUDY.replace("garnet", "granet").replace('"uniform"', '"unifrom"')
    with pytest.raises(SojournError) as caught:
        load_study(study(text.replace('"mine"', '"my study"')))
    lines = caught.value.message.splitlines()
    assert lines[0] == "the study has 4 mistakes:"
    assert [line.split(": ")[0].strip() for line in lines[1:]] == [
        "study.toml:6", "site.toml:2", "study.toml:11", "study.toml:2",
    ]  # fmt: skip


def test_a_study_with_a_mistake_is_still_a_study(study, capsys):
    """Also where it can't be read as TOML: the answer is not about a site without a budget."""
    assert main(["simulate", str(study(STUDY.replace("runs = 4", "runs == 4")))]) == 2
    assert "study.toml:3: not TOML" in capsys.readouterr().err


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_mutilated_study_is_a_traceback(tmp_path_factory, data):
    """Cut, doubled or replaced anywhere, a study is read or refused in a sentence."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "site.toml").write_text(SITE)
    text = textwrap.dedent(STUDY)
    for _ in range(data.draw(st.integers(1, 3))):
        a = data.draw(st.integers(0, len(text)))
        b = data.draw(st.integers(a, min(len(text), a + 12)))
        put = data.draw(st.sampled_from(
            ["", "[[", "]]", "=", '"', "-1", "1e999", "nan", "true", "{}", "[]", "\n", "#", "é",
             "x", "\x00", '"""', "a.b = 1", "budgets = 3", "1979-05-27", "[worlds]"]
        ))  # fmt: skip
        text = text[:a] + put + text[b:]
    file = folder / "study.toml"
    file.write_text(text)
    try:
        said = ""
        experiment = load_study(file)
    except SojournError as error:
        said, code = error.message, error.exit_code
    assert (said and code == 2) or experiment.cells


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_reachable(study, name):
    text = STUDY.replace('"uniform"', f'"{name}"').replace("garnet:4,2,2", "complete:3")
    text = text.replace("    seeds = [0, 1]\n", "").replace(
        '    [[worlds]]\n    site = "site.toml"\n', ""
    )
    rows = sweep(load_study(study(text)))
    assert {row["strategy"] for row in rows} == {name, "narrow"}
    assert all(np.isfinite(row["ratio"]) for row in rows)


@pytest.mark.parametrize("name", ["lookahead", "fw-ame"])
def test_learned_dynamics_are_an_option(study, name):
    text = STUDY.replace('name = "fw-ame"', f'name = "{name}"')
    text = text.replace("width = 0.05", 'dynamics = "learned"').replace("[0, 1]", "[0]")
    rows = sweep(load_study(study(text)))
    assert any(row["strategy"] == "narrow" and np.isfinite(row["ratio"]) for row in rows)


def test_labels_that_make_the_same_file_name_are_told_apart(study):
    text = STUDY.replace('label = "narrow"', 'label = "φ"')
    text += '    [[strategies]]\n    name = "fw-ame"\n    label = "λ"\n'
    text += f'    [[strategies]]\n    name = "fw-ame"\n    label = "{"very long " * 40}"\n'
    experiment = load_study(study(text))
    assert len({cell.id.lower() for cell in experiment.cells}) == 12
    assert all(len(word) < 100 for cell in experiment.cells for word in cell.id.split("/"))
    before = {cell.id for cell in load_study(study()).cells}
    assert "garnet-4-2-2-seed-0/narrow" in before


def test_the_command_resumes_and_draws(study, tmp_path, capsys):
    file = study()
    command = ["simulate", str(file), "--workers", "1"]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert "6 of 6 cells computed" in first
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"mine.txt", "mine.csv", "mine.parquet", "mine.json", "mine-site.png",
            "mine-site.svg", "mine.png", "mine.svg"} <= made  # fmt: skip
    kept = json.loads((tmp_path / "out" / "mine.json").read_text())
    assert kept["definitions"][0]["digest"] == load_study(file).digest()
    (tmp_path / "out/sweeps/mine/cells/site/narrow.json").unlink()
    assert main(command) == 0
    again = capsys.readouterr().out
    assert "6 cells computed in" in again
    assert "1 of 6 in this run" in again
    table = first.partition("\n\n2")[0]
    assert again.startswith(table)
    assert main(command) == 0
    assert "by one worker; all read from disk" in capsys.readouterr().out

    changed = study(STUDY.replace("runs = 4", "runs = 5"))
    assert main(["simulate", str(changed)]) == 2
    assert "another definition of mine" in capsys.readouterr().err
    assert main(["simulate", str(changed), "--out", "elsewhere", "--json", "--workers", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {row["runs"] for row in answer["table"]} == {5}


def test_figures_of_two_studies_lie_side_by_side(study, tmp_path):
    assert main(["simulate", str(study()), "--workers", "1"]) == 0
    before = (tmp_path / "out" / "mine-site.svg").read_bytes()
    other = study(STUDY.replace('"mine"', '"other"').replace("runs = 4", "runs = 2"))
    assert main(["simulate", str(other), "--workers", "1"]) == 0
    assert (tmp_path / "out" / "mine-site.svg").read_bytes() == before
    assert (tmp_path / "out" / "other-site.svg").read_bytes() != before


def test_one_budget_is_drawn_as_well(study):
    """All worlds together, one dot each, at the largest n."""
    report = study_report(sweep(load_study(study(STUDY.replace("[60, 30, 60]", "[60]")))))
    assert [*report.figures] == ["mine"]
    ((title, dots),) = report.figures["mine"].groups
    assert title == "n = 60, 3 worlds"
    shown = {row.label: row.values.tolist() for row in dots}
    assert shown == {
        name: [1 + r["allocation_ratio"] for r in report.table if r["strategy"] == name]
        for name in ("uniform", "narrow")
    }


def test_dollars_in_names_are_dollars(study, tmp_path):
    text = STUDY.replace('"narrow"', "'cost $\\frac$'").replace(
        "runs = 4", "runs = 2\ntitle = '$^$'"
    )
    assert main(["simulate", str(study(text)), "--workers", "1"]) == 0
    assert (tmp_path / "out" / "mine.png").is_file()


def test_a_single_walk_has_no_error_and_a_loss_of_zero_no_ratio(study, tmp_path, capsys):
    study()
    ask = ["simulate", "site.toml", "--budget", "8", "--budget", "9", "--strategy", "uniform"]
    assert main([*ask, "--runs", "1"]) == 0
    assert "±" not in capsys.readouterr().out.split("\n\n")[1].split("\n", 2)[2]
    assert main([*ask, "--variance", "0", "--json", "--out", "zero"]) == 0
    for row in json.loads(capsys.readouterr().out)["table"]:
        assert row["loss"] == 0.0
        assert row["ratio"] is row["allocation_ratio"] is row["ratio_se"] is None


def test_asked_wrongly(study, tmp_path, capsys):
    file = str(study())
    for extra in (["--budget", "10"], ["--runs", "3"], ["--workers", "0"], ["--workers", "two"],
                  ["--workers", "2", "--dask", "tcp://here:1"], ["--dask", "here"],
                  ["--out", file]):  # fmt: skip
        assert main(["simulate", file, *extra]) == 2, extra
        capsys.readouterr()
    assert main(["simulate", "nowhere.toml"]) == 2
    assert "there is no file 'nowhere.toml'" in capsys.readouterr().err
    (tmp_path / "occupied").write_text("")
    assert main(["simulate", file, "--out", "occupied/in"]) == 1
    assert "occupied" in capsys.readouterr().err


def test_a_failing_cell_is_exit_code_1(study, capsys):
    text = STUDY.replace("garnet:4,2,2", "frozen_lake").replace("seeds = [0, 1]", "")
    assert main(["simulate", str(study(text)), "--workers", "1"]) in (0, 1)
    text = STUDY.replace("uniform", "bandit")
    assert main(["simulate", str(study(text)), "--workers", "1", "--out", "b"]) == 1
    assert "error: cell " in capsys.readouterr().err


def test_a_site_is_a_study_of_its_own(study, tmp_path, capsys):
    study()
    assert main(["simulate", "site.toml"]) == 2
    assert "needs a budget" in capsys.readouterr().err
    for wrong in (["--budget", "0"], ["--runs", "0"], ["--variance", "-1"], ["--seed", "x"],
                  ["--strategy", "magic"]):  # fmt: skip
        assert main(["simulate", "site.toml", "--budget", "40", *wrong]) == 2, wrong
    capsys.readouterr()
    ask = ["simulate", "site.toml", "--budget", "40", "--strategy", "uniform", "--runs", "5"]
    assert main([*ask, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["table"]
    assert (row["n"], row["runs"], row["strategy"]) == (40, 5, "uniform")
    assert not (tmp_path / "out").exists()
    assert main([*ask, "--json", "--seed", "1"]) == 0
    (other,) = json.loads(capsys.readouterr().out)["table"]
    assert other["loss"] != row["loss"]
    assert main([*ask, "--out", "kept"]) == 0
    assert (tmp_path / "kept" / "sweeps").is_dir()


def test_what_a_study_is(tmp_path):
    for text, yes in (("id = 'x'\nworlds = []", True), (SITE, False), ("strategies = 1", True),
                      ("[", False), ("", False)):  # fmt: skip
        file = tmp_path / "a.toml"
        file.write_text(text)
        assert is_study(file) is yes
    assert not is_study(tmp_path / "none.toml")
