"""The command line: exit codes, errors as sentences, JSON, and the commands themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import sojourn
from sojourn.cli import app, main
from sojourn.cli.commands import COMMANDS
from sojourn.cli.output import cells_of, draw_map, print_json
from sojourn.errors import InfiniteLoss
from sojourn.model import MDP

Capture = pytest.CaptureFixture[str]


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sojourn {sojourn.__version__}\n"


def test_help_lists_every_command_with_its_own_words(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, (_, _, line) in COMMANDS.items():
        assert f"  {name} " in text
        assert line.split()[0] in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_agrees_with_the_table(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: sojourn {name}")


def test_asked_wrongly(capsys: Capture) -> None:
    assert main(["inspekt", "x"]) == 2
    assert "Did you mean 'inspect'?" in capsys.readouterr().err
    assert main(["inspect"]) == 2
    assert main(["inspect", "three_state", "--colour"]) == 2
    capsys.readouterr()
    assert main(["inspect", "nowhere"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: there is no site 'nowhere'\nhint: ")


def test_failure_is_exit_code_1_and_no_traceback(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def fail() -> None:
        raise InfiniteLoss("the reef can't be reached", "open a passage")

    @click.command()
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sojourn.cli.demo.demo", fail)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "error: the reef can't be reached\nhint: open a passage\n"
    monkeypatch.setattr("sojourn.cli.demo.demo", stop)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err.strip() == "stopped"


def test_a_reader_that_has_seen_enough_hears_no_complaint() -> None:
    code = "import sys; from sojourn.cli import main; sys.exit(main(['inspect', 'taxi', '--json']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_python_m_sojourn() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("sojourn ")


# -- inspect --------------------------------------------------------------------------------


def test_inspect_instance(capsys: Capture) -> None:
    assert main(["inspect", "three_state", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["n_states"] == 3
    assert record["n_pairs"] == 6
    assert record["variance_range"] == [0.001, 1.0]
    assert record["diagnosis"]["communicating"] is True
    assert main(["inspect", "three_state"]) == 0
    assert "3 sites, 6 actions (2 per site)" in capsys.readouterr().out


def test_inspect_text_map(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bay.txt"
    path.write_text("..#\n...\n")
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("bay\n  5 sites, 15 actions")
    assert "····  \n······\n" in out
    path.write_text("..x\n")
    assert main(["inspect", str(path)]) == 2
    assert "line 1 of the map has 'x' in column 3" in capsys.readouterr().err


def test_inspect_game_keeps_what_can_be_reached(capsys: Capture) -> None:
    assert main(["inspect", "FrozenLake-v1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["n_states"] == 11
    assert record["variance_range"] is None
    assert main(["inspect", "Nowhere-v7"]) == 2
    assert main(["inspect", "CartPole-v1"]) == 2
    assert "does not publish its transitions" in capsys.readouterr().err


EDGES = """
home = "A"
title = "[red]survey[/red]"
[source]
kind = "edges"
file = "moves.csv"
[sites.A]
name = "<b>Pier</b>"
data = [1.0, 2.0]
[sites.B]
weight = 0.0
"""


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    (tmp_path / "moves.csv").write_text(
        "from,to,probability,time\nA,B,,2\nB,A,0.5,4\nB,C,1,1\nC,A,1,1\n"
    )
    file = tmp_path / "survey.toml"
    file.write_text(EDGES)
    return file


def test_inspect_says_it_in_sentences_and_draws(survey: Path, capsys: Capture) -> None:
    svg = survey.with_suffix(".svg")
    assert main(["inspect", str(survey), "--svg", str(svg)]) == 0
    out = capsys.readouterr().out
    for sentence in (
        "[red]survey[/red]\n", "3 sites, 4 actions", "1 of them can end in more than one place",
        "1 passage (weight 0)", "2 earlier values at 1 site", "home is <b>Pier</b>",
        "home is at most 1 move away", "a move takes 1 to 4 of time", "nobody guessed the noise",
    ):  # fmt: skip
        assert sentence in out
    # The drawing: two sites, home, and what joins them.
    assert out.count("●") == 2
    assert "H···" in out
    drawing = svg.read_text()
    assert drawing.count("<circle") == 4
    assert "<b>" not in drawing


def test_inspect_prints_the_schema(capsys: Capture) -> None:
    assert main(["inspect", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "sojourn site file"
    assert main(["inspect"]) == 2


def test_wide_maps_are_drawn_narrow(capsys: Capture) -> None:
    assert main(["inspect", "harbour"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if set(line) & set("█▒")]
    assert max(map(len, rows)) > 40
    assert main(["plan", "harbour", "--budget", "2000"]) == 0
    assert "where the visits go" in capsys.readouterr().out


def test_demo(capsys: Capture) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    for word in ("no plan leaves less than", "Lookahead", "the boat is home", "where to look"):
        assert word in out
    assert main(["demo", "--seed", "x"]) == 2


# -- output ---------------------------------------------------------------------------------


def test_json_has_no_nan(capsys: Capture) -> None:
    print_json({"a": np.array([1.0, np.nan]), "b": (np.int64(2), np.inf), "c": {1: None}, "d": "ü"})
    assert json.loads(capsys.readouterr().out) == {
        "a": [1.0, None], "b": [2, None], "c": {"1": None}, "d": "ü",
    }  # fmt: skip


def test_maps() -> None:
    mdp = MDP.from_grid("..#\n...")
    cells = cells_of(mdp, 6)
    assert cells is not None
    assert cells_of(mdp, 5) is None
    text = draw_map(cells, np.array([1.0, 10.0, 0.0, 100.0, 1000.0]), "noise").plain
    assert text.splitlines()[:3] == ["noise", "··░░  ", "··▓▓██"]


def test_only_maps_are_drawn() -> None:
    for labels in (["a", "b"], [(0, 0, 0), (1, 1, 1)], [(0, 0), (1, 1, 1)], [(0.5, 0), (1, 0)]):
        mdp = MDP(np.eye(2), [0, 1, 2], state_labels=labels)
        assert cells_of(mdp, 80) is None
    assert cells_of(MDP(np.eye(2), [0, 1, 2], state_labels=[(5, 5), (6, 7)]), 80) is not None


def test_equal_values_draw_one_shade() -> None:
    cells = cells_of(MDP.from_grid(".."), 80)
    assert cells is not None
    for value in (2.0, 0.0):
        text = draw_map(cells, np.full(2, value), "noise").plain
        assert text.splitlines()[1] == "····"


def test_the_root_is_a_lazy_group() -> None:
    assert isinstance(app.root, app.LazyGroup)
