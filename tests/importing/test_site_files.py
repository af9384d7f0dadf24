"""Site files: every source, every defect with its line, and never a traceback."""

import contextlib
import json
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sojourn as sj
from sojourn.errors import SojournError
from sojourn.importing import SiteFileError, json_schema, load_site
from sojourn.importing.geojson import metres
from sojourn.importing.locate import line_of

HARBOUR = Path(sj.__file__).parent / "importing/examples/harbour.toml"


@pytest.fixture
def write(tmp_path):
    def put(name, text):
        file = tmp_path / name
        file.write_text(textwrap.dedent(text))
        return file

    return put


def defects(file):
    with pytest.raises(SiteFileError) as caught:
        load_site(file)
    return [str(d) for d in caught.value.defects]


def test_the_harbour():
    site = load_site(HARBOUR)
    assert site.mdp.n_states > 400
    assert site.names[site.home] == "Slipway"
    assert site.data[site.index("Outfall")] == (14.2, 17.9, 11.8)
    assert site.weight[site.index("Outfall")] == 4.0
    assert site.mdp.diagnose().communicating


def test_a_grid_is_from_grid(write):
    site = load_site(write("s.toml", '''
        [source]
        kind = "grid"
        slip = 0.1
        text = """
        ..#
        ...
        """
    '''))  # fmt: skip
    same = sj.MDP.from_grid("..#\n...", slip=0.1)
    assert np.array_equal(site.mdp.transitions.toarray(), same.transitions.toarray())
    assert site.names == ("0,0", "1,0", "0,1", "1,1", "2,1")
    # North is up: the first line has the larger y.
    assert site.coordinates.tolist() == [[0, 1], [1, 1], [0, 0], [1, 0], [2, 0]]


def test_a_csv_grid_with_a_legend(write):
    write("map.csv", "0,1,0\n0,w,0\n")
    site = load_site(write("s.toml", """
        no_go = ["2,1"]
        [source]
        kind = "grid"
        file = "map.csv"
        cell = 10.0
        origin = [100.0, 200.0]
        [source.legend]
        w = { weight = 3.0, variance = 2.0, slip = 0.5 }
    """))  # fmt: skip
    assert site.names == ("0,0", "2,0", "0,1", "1,1")
    assert site.weight.tolist() == [1, 1, 1, 3]
    assert site.variance[3] == 2.0
    assert site.coordinates[0].tolist() == [100.0, 210.0]
    stay = site.mdp.transitions[next(iter(site.mdp.pairs_of(3)))].toarray().ravel()
    assert stay[3] == 0.5


def test_drift_of_single_cells(write):
    site = load_site(write("s.toml", '''
        [source]
        kind = "grid"
        text = ".>.."
        [source.legend]
        ">" = { drift = [1, 0, 0.25] }
    '''))  # fmt: skip
    go_east = next(p for p in site.mdp.pairs_of(0) if site.mdp.action_label(p) == "E")
    assert site.mdp.transitions[go_east].toarray().ravel().tolist() == [0, 0.75, 0.25, 0]
    stay = next(p for p in site.mdp.pairs_of(2) if site.mdp.action_label(p) == "stay")
    assert site.mdp.transitions[stay].toarray().ravel().tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_edge_table(write, tmp_path, ending):
    text = "from,to,probability,time\nA,B,,2\nB,A,0.5,4\nB,C,1,1\nC,A,1,1\n"
    if ending == "csv":
        write("e.csv", text)
    else:
        import io

        import pandas as pd

        pd.read_csv(io.StringIO(text)).to_parquet(tmp_path / "e.parquet")
    site = load_site(write("s.toml", f"""
        home = "A"
        [source]
        kind = "edges"
        file = "e.{ending}"
        [sites.A]
        x = 0.0
        y = 0.0
        [sites.B]
        x = 1.0
        y = 0.0
        [sites.C]
        x = 1.0
        y = 1.0
        name = "the mast"
    """))  # fmt: skip
    P = site.mdp.transitions.toarray()
    assert P.tolist() == [[0, 1, 0], [0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]]
    assert site.names == ("A", "B", "the mast")
    assert site.home == 0
    assert site.time.tolist() == [2, 4, 1, 1]
    assert site.coordinates.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_actions_with_several_outcomes(write):
    write("e.csv", "from;to;probability;action\nA;B;0,7;go\n".replace("0,7", "0.7")
          + "A;A;0.3;go\nB;A;1;back\n")  # fmt: skip
    site = load_site(write("s.toml", '[source]\nkind = "edges"\nfile = "e.csv"\nslip = 0.2\n'))
    assert site.mdp.action_label(0) == "go"
    assert site.mdp.transitions.toarray().tolist() == [[0.3, 0.7], [1, 0]]


def test_graphml(write, tmp_path):
    import networkx as nx

    graph = nx.Graph()
    graph.add_node("a", lon=8.0, lat=53.0, weight=2.0)
    graph.add_node("b", lon=8.1, lat=53.0, name="<b>")
    graph.add_edge("a", "b", probability=0.9)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    site = load_site(write("s.toml", '[source]\nkind="graph"\nfile="g.graphml"\nstay=true\n'))
    assert site.mdp.n_pairs == 4
    assert site.geographic
    assert site.names == ("a", "<b>")
    assert site.weight.tolist() == [2.0, 1.0]


def geo(features):
    return json.dumps({"type": "FeatureCollection", "features": features})


def point(x, y, **properties):
    return {"type": "Feature", "properties": properties,
            "geometry": {"type": "Point", "coordinates": [x, y]}}  # fmt: skip


def line(*vertices, **properties):
    return {"type": "Feature", "properties": properties,
            "geometry": {"type": "LineString", "coordinates": list(vertices)}}  # fmt: skip


def test_geojson(write):
    write("m.geojson", geo([
        point(8.0, 53.0, id="A", home=True), point(8.01, 53.0, id="B", weight=3),
        point(8.02, 53.0, id="C", no_go=True), point(8.01, 53.01, id="D"),
        line([8.0, 53.0], [8.01, 53.0], [8.02, 53.0]),
        line([8.01, 53.0], [8.01, 53.01], oneway=True), line([8.01, 53.01], [8.0, 53.0]),
    ]))  # fmt: skip
    site = load_site(write("s.toml", '[source]\nkind="geojson"\nfile="m.geojson"\n'))
    assert site.mdp.state_labels == ("A", "B", "D")
    assert site.home == 0
    moves = {(site.mdp.state_labels[site.mdp.pair_state[p]], site.mdp.action_label(p))
             for p in range(site.mdp.n_pairs)}  # fmt: skip
    assert moves == {("A", "B"), ("B", "A"), ("B", "D"), ("D", "A"), ("A", "D"), ("A", "stay"),
                     ("B", "stay"), ("D", "stay")}  # fmt: skip
    assert site.weight.tolist() == [1, 3, 1]
    assert site.coordinates[1].tolist() == [8.01, 53.0]


def test_stepping_sites_along_a_line(write):
    write("m.geojson", geo([point(8.0, 53.0, id="A"), point(8.01, 53.0, id="B"),
                            line([8.0, 53.0], [8.01, 53.0])]))  # fmt: skip
    site = load_site(write(
        "s.toml", '[source]\nkind="geojson"\nfile="m.geojson"\nspacing=100.0\nstay=false\n'
    ))  # fmt: skip
    length = metres((8.0, 53.0), (8.01, 53.0))
    assert site.mdp.n_states == 1 + round(length / 100)
    assert site.weight.sum() == 2
    assert site.mdp.diagnose().communicating


def test_gymnasium(write):
    site = load_site(write("s.toml", """
        [source]
        kind = "gymnasium"
        id = "FrozenLake-v1"
        options = { is_slippery = false }
    """))  # fmt: skip
    # The holes and the goal restart the game: nobody can stay there to measure.
    assert site.mdp.n_states == 11
    site = load_site(write("s.toml", """
        no_go = ["1"]
        [source]
        kind = "gymnasium"
        id = "FrozenLake-v1"
        options = { is_slippery = false }
    """))  # fmt: skip
    assert "1" not in site.names


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("titel = 'x'\n[source]\nkind='grid'\ntext='...'\n", 1, "titel"),
        ("title = 'x'\n\n[source]\nkind='gird'\n", 4, "gird"),
        ("[source]\nkind='grid'\ntext='...'\nslip = 1.5\n", 4, "slip"),
        ("[source]\nkind='grid'\n", 1, "exactly one of file and text"),
        ("[source]\nkind='grid'\ntext='..x'\n", 3, "'x'"),
        ("[source]\nkind='grid'\ntext='''\n...\n....\n'''\n", 5, "4 cells"),
        ("home = '9,9'\n[source]\nkind='grid'\ntext='...'\n", 1, "'9,9'"),
        ("[source]\nkind='grid'\ntext='...'\n[sites.'0,0']\nweight = -1\n", 5, "weight"),
        ("[source]\nkind='grid'\ntext='...'\n[sites.'7,7']\nweight = 1\n", 4, "'7,7'"),
        ("[source]\nkind='grid'\ntext='...\n", 3, "TOML"),
        ("no_go = ['5,5']\n[source]\nkind='grid'\ntext='...'\n", 1, "no_go"),
        ("[source]\nkind='edges'\nfile='none.csv'\n", 3, "no file 'none.csv'"),
        ("[source]\nkind='edges'\nfile='.'\n", 3, "no file '.'"),
        ('data_file="a\\u0000"\n' "[source]\nkind='grid'\ntext='..'\n", 1, "no file 'a\\x00'"),
        ("[source]\nkind='gymnasium'\nid='Nothing-v0'\n", 1, "Nothing-v0"),
        ("[source]\nkind='grid'\ntext='HH'\n", 3, "2 homes"),
        ("[source]\nkind='grid'\ntext='...'\n[sites.'0,0']\nweight=0\n[sites.'1,0']\nweight=0\n"
         "[sites.'2,0']\nweight=0\n", 4, "weight 0"),
    ],
)  # fmt: skip
def test_defects_name_their_line(write, text, line, words):
    found = defects(write("s.toml", text))
    assert any(words in d for d in found), found
    assert any(d.startswith(f"s.toml:{line}:") for d in found) or line == 0, found


@pytest.mark.parametrize(
    ("text", "line", "what", "fix"),
    [
        ("titel = 'x'\n[source]\nkind='grid'\ntext='...'\n", 1, "titel", "did you mean title?"),
        ("home = 3\n[source]\nkind='grid'\ntext='...'\n", 1, "home is 3", "text in quotes"),
        ("[source]\nkind='grid'\ntext='...'\nslip = 'a'\n", 4, "slip is 'a'", "a number"),
        ("[source]\nkind='grid'\ntext='...'\nslip = 1.5\n", 4, "slip is 1.5", "at most 1"),
        ("[source]\nkind='grid'\ntext='...'\ndrift = [1, 2]\n", 4, "[1, 2]", "a list of 3"),
        ("[source]\nkind='gird'\n", 2, "'gird'", "grid, edges, graph, geojson, gymnasium"),
        ("[source]\ntext='...'\n", 1, "has no kind", "one of grid"),
        ("[source]\nkind='edges'\n", 1, "has no file", "add file"),
        ("title = 'x'\n", 0, "has no source", "add [source]"),
        ("source = 3\n", 1, "source is 3", "a table"),
        ("[source]\nkind='gymnasium'\nid='FrozenLake-v1'\non_terminal='go'\n", 4, "'go'",
         "restart, absorb"),
        ("[source]\nkind='grid'\ntext='..'\n[sites.'0,0']\ndata=[1, 'b']\n", 5, "is 'b'",
         "a number"),
        ("[source]\nkind='grid'\ntext='..'\n[source.legend]\n'.' = {slpi=1}\n", 5, "slpi",
         "did you mean slip?"),
    ],
)  # fmt: skip
def test_mistakes_in_the_form_show_what_stands_there_and_what_to_write(
    write, text, line, what, fix
):
    (found,) = defects(write("s.toml", text))
    place, _, rest = found.partition(": ")
    assert place == (f"s.toml:{line}" if line else "s.toml")
    message, _, hint = rest.partition(" (")
    assert what in message
    assert fix in hint


def test_one_reading_names_every_mistake(write):
    found = defects(write("s.toml", """\
        home = 3
        [source]
        kind = "grid"
        text = "..."
        slip = "a"
        [sites."0,0"]
        wieght = 1
        data = [1, "b"]
    """))  # fmt: skip
    assert [d.split(":")[1] for d in found] == ["1", "5", "7", "8"]


def test_a_map_on_its_own_is_a_site(write, tmp_path):
    import networkx as nx
    import pandas as pd

    edges = write("edges.csv", "from,to,time\nA,B,2\nB,A,3\n")
    pd.read_csv(edges).to_parquet(tmp_path / "edges.parquet")
    graph = nx.DiGraph([("A", "B"), ("B", "A")])
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    write("map.geojson", geo([point(8.0, 53.0, id="A"), point(8.01, 53.0, id="B"),
                              line([8.0, 53.0], [8.01, 53.0])]))  # fmt: skip
    for name in ("edges.csv", "edges.parquet", "graph.graphml", "map.geojson"):
        site = load_site(tmp_path / name)
        assert site.names == ("A", "B")
        assert site.title == name.partition(".")[0]
    assert load_site(edges).time.tolist() == [2, 3]
    assert load_site(write("bay.csv", "0;1\n0;0\n")).names == ("0,0", "0,1", "1,1")
    assert any(d.startswith("bad.csv:2:") for d in defects(write("bad.csv", "0;0\n0;x\n")))
    assert any("no column 'to'" in d for d in defects(write("half.csv", "from,tu\nA,B\n")))


def test_defects_in_tables_name_their_line(write):
    write("e.csv", "from,to,probability\nA,B,1\nB,A,1.5\nB,,1\nB,A,x\nA,B,1\n")
    found = defects(write("s.toml", '[source]\nkind = "edges"\nfile = "e.csv"\n'))
    for number, word in ((3, "1.5"), (4, "to is empty"), (5, "'x'"), (6, "twice")):
        assert any(d.startswith(f"e.csv:{number}:") and word in d for d in found), found
    assert any("nothing leads away from site 'B'" in d for d in found)


def test_defects_of_names_say_where_the_name_is_given(write, tmp_path):
    write(
        "m.geojson",
        """{"type": "FeatureCollection", "features": [
        {"id": "p", "properties": {"name": "Pier"},
         "geometry": {"type": "Point", "coordinates": [10, 54]}},
        {"id": "q", "properties": {"name": "Pier"},
         "geometry": {"type": "Point", "coordinates": [11, 54]}}]}""",
    )
    (found,) = defects(tmp_path / "m.geojson")
    assert found.startswith("m.geojson:4: two sites are named 'Pier'")
    write("names.csv", "site,name\n0,A\n1,B\n2,A\n")
    write("e.csv", "from,to\n0,1\n1,2\n2,0\n")
    source = "[source]\nkind = 'edges'\nfile = 'e.csv'\n"
    (found,) = defects(write("s.toml", "sites_file = 'names.csv'\n" + source))
    assert found.startswith("names.csv:4: two sites are named 'A'")
    (found,) = defects(write("s.toml", source + "[sites.2]\nname = '0'\n"))
    assert found.startswith("s.toml:4: two sites are named '0'")


def test_mistyped_names_get_a_suggestion(write):
    write("e.csv", "from,to\nBuoy north,Buoy south\nBuoy south,Buoy north\n")
    found = defects(write(
        "s.toml", 'home = "Bouy north"\n[source]\nkind = "edges"\nfile = "e.csv"\n'
    ))  # fmt: skip
    assert "did you mean 'Buoy north'" in found[0]


def test_sites_and_data_from_tables(write, tmp_path):
    write("sites.csv", "site,name,weight,variance\n0;0,,1,1\n".replace("0;0", '"0,0"')
          + '"1,0",Pier,2.5,\n')  # fmt: skip
    write("data.csv", 'site,value\n"1,0",3.5\n"1,0",4.5\n')
    site = load_site(write("s.toml", """
        sites_file = "sites.csv"
        data_file = "data.csv"
        [source]
        kind = "grid"
        text = ".."
    """))  # fmt: skip
    assert site.names == ("0,0", "Pier")
    assert site.weight.tolist() == [1.0, 2.5]
    assert site.data == {1: (3.5, 4.5)}
    write("data.csv", 'site,value\n"9,0",3.5\n"1,0",nan\n')
    found = defects(tmp_path / "s.toml")
    assert any(d.startswith("data.csv:2:") for d in found)
    assert any(d.startswith("data.csv:3:") for d in found)


def test_lines_of_keys():
    text = 'a = 1\n[t]\nb = """\nc = 3\n"""\nc = 4\n[t."x.y"]\nd = 5\n'
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("t", "c")) == 6
    assert line_of(text, ("t", "x.y", "d")) == 8
    assert line_of(text, ("t", "nothing")) == 2
    assert line_of(text, ("nothing",)) == 0


def test_the_schema_describes_the_form():
    schema = json_schema()
    json.dumps(schema)
    assert schema["title"] == "sojourn site file"
    for form, definition in schema["$defs"].items():
        assert definition["additionalProperties"] is False
        for key, value in definition["properties"].items():
            said = json.dumps(value)
            assert key == "kind" or "description" in said or "$ref" in said, (form, key)
    published = Path(__file__).parents[2] / "docs" / "static" / "site.schema.json"
    # `sojourn inspect --schema > docs/static/site.schema.json` writes it anew.
    assert json.loads(published.read_text(encoding="utf-8")) == json.loads(json.dumps(schema))


SCRAPS = st.sampled_from([
    "title = 'x'", "home = 'A'", "[source]", "kind = 'grid'", "kind = 'edges'", "text = '..\\n.#'",
    "file = 'e.csv'", "slip = 0.1", "slip = 'a'", "drift = [1, 0, 0.5]", "drift = 3", "[sites.A]",
    "[sites.'0,0']", "weight = 1", "weight = nan", "x = inf", "data = [1, 'a']", "no_go = ['0,0']",
    "no_go = 1", "[source.legend]", "'.' = { blocked = true }", "= 3", "[[source]]", "\x00", "é",
    "variance = 0", "kind = 'geojson'", "file = 'm.geojson'", "stay = true", "file = '.'",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(SCRAPS, max_size=9), st.text(max_size=60), st.text(max_size=60))
@example(["[source]", "kind = 'edges'", "file = 'e.csv'"], "from,to\nA,A\n", "")
@example(
    ["[source]", "kind = 'geojson'", "file = 'm.geojson'"], "", '{"features":[{"geometry":1}]}'
)
@example(["[source]", "kind = 'geojson'", "file = 'm.geojson'"], "", '{"features":' + "[" * 9999)
def test_fuzzed_files_never_give_a_traceback(tmp_path_factory, scraps, table, features):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "e.csv").write_text(table, encoding="utf-8", errors="replace")
    (folder / "m.geojson").write_text(features, encoding="utf-8", errors="replace")
    (folder / "s.toml").write_text("\n".join(scraps), encoding="utf-8")
    with contextlib.suppress(SojournError):
        load_site(folder / "s.toml")


NEARLY = {
    "grid.toml": """title='x'
home='0,0'
no_go=['2,0']
sites_file='sites.csv'
data_file='data.csv'
[source]
kind='grid'
slip=0.1
cell=2.0
text='''
..~.
.#..
'''
[source.legend]
'~'={drift=[1,0,0.5], variance=4.0}
[sites.'0,0']
name='A'
data=[1.0]
""",
    "sites.csv": 'site,name,weight,mean,variance\n"1,0",B,1,,\n"3,1",C,2,5.0,0.5\n',
    "data.csv": 'site,value\n"0,0",3.5\n"1,0",3.7\n',
    "edges.toml": """home='a'
[source]
kind='edges'
file='e.csv'
slip=0.05
stay=true
[sites.a]
x=0.0
y=0.0
[sites.b]
x=1.0
y=1.0
""",
    "e.csv": "from,to,probability,time\na,b,0.9,5.0\nb,a,1.0,4.0\n",
    "graph.toml": "home='n'\n[source]\nkind='graph'\nfile='g.graphml'\nstay=true\n",
    "g.graphml": """<graphml>
<key id='p' for='edge' attr.name='probability' attr.type='double'/>
<key id='w' for='node' attr.name='weight' attr.type='double'/>
<graph edgedefault='directed'><node id='n'><data key='w'>0</data></node><node id='m'/>
<edge source='n' target='m'><data key='p'>0.8</data></edge>
<edge source='m' target='n'/></graph></graphml>
""",
    "geo.toml": "[source]\nkind='geojson'\nfile='m.geojson'\nspacing=200.0\n",
    "m.geojson": """{"type":"FeatureCollection","features":[
        {"id":"p","properties":{"home":true},"geometry":{"type":"Point","coordinates":[10,54]}},
        {"id":"q","properties":{"weight":3},"geometry":{"type":"Point","coordinates":[10.01,54]}},
        {"geometry":{"type":"LineString","coordinates":[[10,54],[10.01,54]]}}]}""",
}
SLIPS = [
    "nan", "inf", "-1", "1e400", "1e300", '""', "null", "true", "[]", "{}", "0", "\x00", "\n", ",",
    ";", "\t", '"', "'", "[", "]", "=", "#", "<", ">", "&", "\u2028", "é", "stay", "\r",
]  # fmt: skip


def nearly(text, rng):
    """A file with a few slips of the pen: a piece cut, doubled, or replaced."""
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        words = list(re.finditer(r"-?\d+\.?\d*|\w+|[^\w\s]", text)) or [re.match("", text)]
        here, other = (words[int(k)] for k in rng.integers(len(words), size=2))
        piece = str(rng.choice([*SLIPS, other.group(), ""]))
        text = text[: here.start()] + piece + text[here.end() :]
    return text


def test_files_that_are_nearly_right_never_give_a_traceback(tmp_path):
    """Every kind of source; and each mistake names the file that it is in."""
    rng = np.random.default_rng(0)
    for name, text in NEARLY.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    tops = [name for name in NEARLY if name.endswith(".toml")]
    for top in tops:
        load_site(tmp_path / top)
    refused = 0
    for name, text in NEARLY.items():
        (top,) = (top for top in tops if top == name or f"'{name}'" in NEARLY[top])
        for _ in range(60):
            (tmp_path / name).write_text(nearly(text, rng), encoding="utf-8")
            try:
                load_site(tmp_path / top)
            except SojournError as error:
                refused += 1
                said = error
            else:
                continue
            assert said.hint
            for defect in getattr(said, "defects", ()):
                assert defect.file in NEARLY or not defect.line
                assert defect.fix
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert refused > 200


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_fuzzed_bytes_never_give_a_traceback(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("fuzz") / "s.toml"
    file.write_bytes(content)
    with pytest.raises(SojournError):
        load_site(file)
