"""`sojourn reproduce`: every figure in small, its files, and that it goes on where it was."""

import json
import re

import pyarrow.parquet
import pytest

from sojourn.cli import main
from sojourn.experiments.paper import FIGURES, PAPER_TABLE, definitions


@pytest.fixture(scope="module", params=FIGURES)
def made(request, tmp_path_factory):
    """A figure in small: its name, where it lies."""
    out = tmp_path_factory.mktemp("out")
    assert main(["reproduce", request.param, "--quick", "--out", str(out), "--workers", "1"]) == 0
    return request.param, out


def test_writes_figures_tables_and_definitions(made):
    figure, out = made
    stem = f"{figure}-quick"
    kept = {path.name: path for path in (out / "quick").iterdir()}
    assert {f"{stem}.{kind}" for kind in ("txt", "md", "csv", "parquet", "json")} <= kept.keys()
    pictures = {name[:-4] for name in kept if name.endswith(".png")}
    assert pictures
    assert pictures == {name[:-4] for name in kept if name.endswith(".svg")}
    page = kept[f"{stem}.md"].read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\S+)\.png\)", page)) == pictures

    record = json.loads(kept[f"{stem}.json"].read_text(encoding="utf-8"))
    wanted = definitions(figure, quick=True)
    assert [d["digest"] for d in record["definitions"]] == [e.digest() for e in wanted]
    rows = pyarrow.parquet.read_table(kept[f"{stem}.parquet"]).to_pylist()
    assert len(rows) == len(record["table"]) == kept[f"{stem}.csv"].read_text().count("\n") - 1
    assert record["remarks"][0].startswith("This is the small version")
    assert re.search(r"\d{4}-\d\d-\d\d, sojourn \S+, Python .*; .+, \d+ cores; ", page)


def test_a_second_run_reads_what_is_there(made, capsys):
    figure, out = made
    tables = {path: path.read_bytes() for path in out.rglob("*.csv")}
    command = ["reproduce", figure, "--quick", "--out", str(out), "--workers", "1", "--json"]
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)[figure]
    assert answer["made"].endswith("all read from disk")
    assert (
        answer["table"] == json.loads((out / "quick" / f"{figure}-quick.json").read_text())["table"]
    )
    assert {path: path.read_bytes() for path in out.rglob("*.csv")} == tables


def test_the_papers_numbers_stand_beside_ours(made):
    figure, out = made
    rows = json.loads((out / "quick" / f"{figure}-quick.json").read_text())["table"]
    if figure == "table":
        shown = {(r["S"], r["strategy"], r["n"]): r["paper"] for r in rows}
        assert {key: paper for key, paper in shown.items() if paper is not None} == PAPER_TABLE
        assert {"lookahead", "uniform", "fw-ame"} <= {r["strategy"] for r in rows}
    if figure == "learning":
        printed = {(r["world"], r["strategy"]): r["paper_slem"] for r in rows}
        assert printed["slow", "fw-ame"] == 0.95
        assert printed["slow", "fw-ame-fmh-sdp"] == 0.88
        assert printed["fast", "fw-ame"] == printed["fast", "fw-ame-fmh-sdp"] == 0.55
    if figure in ("table", "learning", "three-state"):
        said = (out / "quick" / f"{figure}-quick.txt").read_text(encoding="utf-8")
        assert all(word in said for word in ("±", "median", "max", "paper", "Lookahead"))


def test_asked_wrongly(capsys):
    for wrong in (["tabel"], [], ["theta", "--workers", "0"], ["theta", "--dask", "nowhere"]):
        assert main(["reproduce", *wrong]) == 2
    capsys.readouterr()
