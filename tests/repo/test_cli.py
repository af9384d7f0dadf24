"""The command line: exit codes, errors as sentences, JSON, and the commands themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

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
    assert "bay.txt:1: cell 2,0 is 'x'" in capsys.readouterr().err


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


def test_a_campaign_from_the_command_line(survey: Path, capsys: Capture) -> None:
    """Every command, as text and as JSON; the texts of files are never markup."""
    file = survey.with_suffix(".sojourn")

    def run(*arguments: str) -> str:
        assert main(["campaign", arguments[0], str(file), *arguments[1:]]) == 0
        return capsys.readouterr().out

    def told(*arguments: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(run(*arguments, "--json"))
        return record

    assert "'[red]survey[/red]' with 3 sites" in run("new", str(survey), "--budget", "9")
    assert run("next") == run("next")
    advice = told("next")
    assert (advice["site"], advice["step"]) == ("B", 1)
    event = told("tell", "-3,2", "4")["event"]
    assert told("correct", str(event), "-9.5")["event"] == event + 1
    assert told("void", str(event), "--reason", "[bold]dry")["samples"] == 2
    assert told("place", "C")["location"] == "C"
    assert told("extend", "--budget", "12")["budget"] == 12
    assert "<b>Pier</b>" in run("next")
    assert told("tell", "--lost")["steps"] == 2
    assert told("tell", "5.5", "--extra", "--at", "C")["steps"] == 2
    assert "2 of 12 steps, 3 values" in run("status")
    events = told("log")["events"]
    assert [e["id"] for e in events] == list(range(1, len(events) + 1))
    assert [e["event"] for e in events if e["kind"] in ("corrected", "voided")] == [event] * 2
    text = run("log")
    assert "reason [bold]dry" in text
    assert "state <b>Pier</b>, values 1 2" in text
    for ending in ("html", "csv", "geojson", "parquet"):
        out = survey.with_suffix(f".{ending}")
        if ending == "geojson":
            assert main(["campaign", "export", str(file), str(out)]) == 1
            assert "no coordinates" in capsys.readouterr().err
            continue
        record = told("report" if ending == "html" else "export", str(out))
        assert record == {"wrote": str(out), "bytes": out.stat().st_size}


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["tell", "FILE"], 2, "value is missing"),
        (["tell", "FILE", "3", "--lost"], 2, "contradict"),
        (["tell", "FILE", "x"], 2, "'x' is not a number"),
        (["tell", "FILE", "3", "--ta", "A"], 2, "no option '--ta'"),
        (["tell", "FILE", "3"], 2, "nothing was asked"),
        (["tell", "FILE", "3", "--at", "Q"], 2, "no site 'Q'"),
        (["correct", "FILE", "77", "3"], 2, "no measurement"),
        (["void", "FILE", "2", "--reason", " "], 2, "without a reason"),
        (["extend", "FILE"], 2, "nothing to change"),
        (["export", "FILE", "x.xls"], 2, "'.xls'"),
        (["status", "missing.sojourn"], 1, "no campaign"),
        (["new", "FILE", "SITE"], 1, "exists already"),
        (["new", "NEW", "SITE", "--strategy", "best"], 2, "lookahead"),
        (["new", "NEW", "SITE", "--precision", "-1"], 2, "precision"),
        (["next", "SITE"], 1, "not a campaign"),
    ],
)  # fmt: skip
def test_what_a_campaign_refuses(
    survey: Path, capsys: Capture, arguments: list[str], code: int, word: str
) -> None:
    file, new = survey.with_suffix(".sojourn"), survey.with_suffix(".new")
    assert main(["campaign", "new", str(file), str(survey), "--budget", "9"]) == 0
    capsys.readouterr()
    names = {"FILE": str(file), "SITE": str(survey), "NEW": str(new)}
    assert main(["campaign", *(names.get(a, a) for a in arguments)]) == code
    out, err = capsys.readouterr()
    assert word in err
    assert "hint: " in err
    assert out == ""
    assert not new.exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["plan", "harbour", "--budget", "10", "--of", "median"], "average"),
        (["plan", "harbour", "--budget", "10", "--variance", "inf"], "above 0"),
        (["plan", "harbour"], "--precision"),
        (["plan", "harbour", "--precision", "nan"], "above 0"),
        (["plan", "harbor", "--budget", "10"], "did you mean harbour?"),
    ],
)
def test_what_a_plan_refuses(capsys: Capture, arguments: list[str], word: str) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert word in err
    assert out == ""


def test_a_place_that_the_move_cannot_reach_is_remarked(survey: Path, capsys: Capture) -> None:
    file = str(survey.with_suffix(".sojourn"))
    assert main(["campaign", "new", file, str(survey), "--budget", "9"]) == 0
    assert main(["campaign", "next", file]) == 0
    assert main(["campaign", "tell", file, "3", "--at", "C"]) == 0
    assert "could not end there" in capsys.readouterr().out


def test_status_says_when_it_ends_and_what_is_next(survey: Path, capsys: Capture) -> None:
    file = str(survey.with_suffix(".sojourn"))
    goals = ["--precision", "0.5", "--of", "average", "--worth", "0.02"]
    assert main(["campaign", "new", file, str(survey), "--home", "B", *goals]) == 0
    for command, word in (("status", f"next: sojourn campaign next {file}"), ("next", "step 1"),
                          ("status", "an advice waits")):  # fmt: skip
        capsys.readouterr()
        assert main(["campaign", command, file]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert word in said
    for word in ("its home is B", "at ±0.5", "on average", "by less than 2 %"):
        assert word in said


def test_a_warning_is_a_sentence(
    survey: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(survey.with_suffix(".sojourn"))
    assert main(["campaign", "new", file, str(survey), "--budget", "9"]) == 0
    monkeypatch.setattr("sojourn.campaign.store.network_filesystem", lambda _: "nfs")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["campaign", "status", file]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"note: {file} lies on a network file system (nfs)")


def test_inspect_says_from_where_no_way_leads_home(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "e.csv").write_text("from,to\nA,B\nB,C\nC,B\nA,A\n", encoding="utf-8")
    site = tmp_path / "s.toml"
    site.write_text("home = 'A'\n[source]\nkind = 'edges'\nfile = 'e.csv'\n", encoding="utf-8")
    assert main(["inspect", str(site)]) == 0
    assert "no way leads home from B, C" in capsys.readouterr().out
    assert main(["inspect", str(site), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["no_way_home"] == ["B", "C"]


def test_a_plan_that_hardly_moves_says_so(tmp_path: Path, capsys: Capture) -> None:
    """Two moorings and a way that counts for nothing: its moves are not those of a walk."""
    moves = ["A,A,0", "B,B,0", "A,x,5", "x,A,5", "x,y,5", "y,x,5", "y,B,5", "B,y,5"]
    (tmp_path / "e.csv").write_text("\n".join(["from,to,time", *moves]), encoding="utf-8")
    site = tmp_path / "s.toml"
    site.write_text(
        "[source]\nkind = 'edges'\nfile = 'e.csv'\n[sites]\nx.weight = 0\ny.weight = 0\n",
        encoding="utf-8",
    )
    for question in (["--budget", "50"], ["--precision", "0.2"]):
        assert main(["plan", str(site), *question]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "few for this plan" in said
        assert "of the time in the table" not in said


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--budget", "1500"]) == 0
    out = capsys.readouterr().out
    for word in ("no plan leaves less than", "Lookahead", "the boat is home", "where to look"):
        assert word in out
    # The campaign's error is the quantity, and the harbour, of the comparison before it.
    flat = " ".join(out.split())
    best, compared, seen = (
        float(re.findall(pattern, flat)[0])
        for pattern in (r"less than ±([\d.]+)", r"Lookahead ±([\d.]+)", r"off by ±([\d.]+)")
    )
    assert best < compared
    assert seen == pytest.approx(compared, rel=0.15)
    # Staying away from sites does not look like knowing them.
    assert float(re.findall(r"uniform ±([\d.]+)", flat)[0]) > compared
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
