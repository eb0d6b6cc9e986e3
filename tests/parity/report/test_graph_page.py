"""The page of a recorded graph: which part of a step each op is, how ops are grouped, and what is refused."""

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made_graph import FACTS, NODES, VALUES, op, recorded
from test_report_page import EVIL, Reader

from parity.cli import main
from parity.cli.show import explain_hazard
from parity.report.towers import graph_as_html
from parity.report.towers.groups import Group, by_layer, by_line, grouped, members_of
from parity.report.towers.hazards import PART_OF_HAZARD
from parity.report.towers.ops import ops_of, require_drawable
from parity.report.towers.page import drawing_of, view_of
from parity.trace import TraceError, TraceWriter, write_graph
from parity.trace.graph import RecordedGraph


def page(graph, facts=FACTS, title="trace"):
    return graph_as_html(graph, facts, title, explain_hazard)


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def parts_of(graph, facts=FACTS):
    drawing = drawing_of(graph, facts)
    return {name: tuple(place) for name, place in zip(drawing.ops.names, drawing.places, strict=True)}


def test_every_op_has_its_part_of_the_step_and_its_tower():
    parts = parts_of(recorded())
    for n in (0, 1):
        backward = f"tower_{n}/gradients/tower_{n}/conv/Conv2D_grad/Conv2DBackpropFilter"
        assert {name: parts[name] for name in parts if name.startswith(f"tower_{n}/")} == {
            f"tower_{n}/conv/axis": ("forward", n),
            f"tower_{n}/conv/Conv2D": ("forward", n),
            f"tower_{n}/loss": ("forward", n),
            f"tower_{n}/gradients/grad_ys": ("backward", n),
            backward: ("backward", n),
            f"tower_{n}/bn/AssignMovingAvg": ("after", n),
        }
    assert {name: place[0] for name, place in parts.items() if not name.startswith("tower_")} == {
        "x": "shared",
        "split": "shared",
        "conv/w": "variables",
        "conv/w/read": "variables",
        "bn/mean": "variables",
        "AddN": "combination",
        "mean/y": "combination",
        "mean": "combination",
        "rate": "update",
        "update/Apply": "update",
        "train": "update",
    }


def test_names_do_not_decide_what_the_graph_says():
    swapped = json.loads(
        json.dumps(NODES).replace("tower_0", "A").replace("tower_1", "tower_0").replace("A/", "tower_1/")
    )
    values = {name: tensor.translate(str.maketrans("01", "10")).replace(":1", ":0") for name, tensor in VALUES.items()}
    values["grad/conv/w"] = "mean:0"
    assert parts_of(recorded(swapped, values))["tower_1/loss"] == ("forward", 0)


def test_towers_that_exchange_tensors_are_told_apart_by_their_scopes():
    nodes = [
        node | {"input": [*node["input"], "tower_1/conv/Conv2D"]} if node["name"] == "tower_0/loss" else node
        for node in NODES
    ]
    assert parts_of(recorded(nodes))["tower_1/conv/Conv2D"] == ("forward", 1)
    assert parts_of(recorded(nodes), {})["tower_1/conv/Conv2D"] == ("shared", -1)


def test_a_graph_without_towers_and_a_loop_have_a_page():
    loop = [
        op("enter", "Enter"),
        op("merge", "Merge", "enter", "next"),
        op("add", "Add", "merge"),
        op("next", "NextIteration", "add"),
    ]
    graph = RecordedGraph({"node": loop}, {}, [])
    assert len(drawing_of(graph, {}).ops.order) == 4
    assert "4 ops of an unknown framework in 0 towers; 0 variables; no hazards" in page(graph, {})
    assert "0 ops" in page(RecordedGraph({"node": []}, {}, []), {})


def labels(part):
    return part if isinstance(part, int) else [part.label, *map(labels, part.children)]


def test_layers_are_groups_without_the_towers_scope_and_gradients_are_with_their_layer():
    view = view_of((drawing := drawing_of(recorded(), FACTS)), by_layer(*drawing[:4], drawing.scopes))
    name = drawing.ops.names.__getitem__
    for n, cells in enumerate(view["forward"]["cells"]):
        [[first, group], [second, loss]] = cells
        assert (first, group[0], second, name(loss)) == (0, "conv", 1, f"tower_{n}/loss")
        assert [name(each) for each in group[1]] == [f"tower_{n}/conv/axis", f"tower_{n}/conv/Conv2D"]
        assert group[2] == [0, 1]  # the constant stands before the op that takes it
    assert {cell[1][0] for cells in view["backward"]["cells"] for cell in cells if not isinstance(cell[1], int)} == {
        "conv/Conv2D",
        "gradients",
    }
    devices = {each[0]: each[1] for each in view["variables"][1]}
    assert set(devices) == {"/cpu:0/conv", "/gpu:0/bn"}  # a group of one group is shown as that
    assert [name(each) for each in devices["/cpu:0/conv"]] == ["conv/w", "conv/w/read"]


def test_lines_of_the_script_are_groups_and_gradients_are_with_the_line_of_their_op():
    frames = [
        ["a.py", 1, "<module>", "main()"],
        ["a.py", 7, "net", "conv(x)"],
        ["a.py", 9, "main", "compute_gradients(loss)"],
    ]
    backward = "tower_0/gradients/tower_0/conv/Conv2D_grad/Conv2DBackpropFilter"
    callers = {"tower_0/conv/Conv2D": [0, 1], backward: [0, 2], "tower_0/loss": [0]}
    graph = recorded(frames=frames, callers=callers)
    drawing = drawing_of(graph, FACTS)
    paths = dict(zip(drawing.ops.names, by_line(graph, drawing.ops, drawing.places), strict=True))
    assert paths["tower_0/conv/Conv2D"] == paths[backward] == ("a.py:1  main()", "a.py:7  conv(x)")
    assert paths["tower_1/loss"] == ("no line of the script",)
    found = data_of(page(graph))
    assert found["callers"][found["names"].index(backward)] == [0, 2]


def test_a_group_of_very_many_is_split():
    ops = ops_of(RecordedGraph({"node": [op(f"n{number:05}") for number in range(10_101)]}, {}, []))
    top = grouped(ops, ops.order, [()] * 10_101)

    def widest(part):
        return 0 if isinstance(part, int) else max(len(part.children), *map(widest, part.children))

    assert widest(top) <= 100 and sorted(members_of(top)) == list(range(10_101))
    assert top.children[0].children[0].label == "n00000 to n00099"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text("ab/_", max_size=8), st.lists(st.integers(0, 30), max_size=3)), max_size=30))
def test_groups_hold_every_op_once_and_rows_go_downwards(listed):
    nodes = [
        op(f"{name}#{n}", "Add", *(f"{listed[each][0]}#{each}" for each in taken if each < n))
        for n, (name, taken) in enumerate(listed)
    ]
    graph = RecordedGraph({"node": nodes}, {}, [])
    drawing = drawing_of(graph, {})
    top = grouped(drawing.ops, drawing.ops.order, by_layer(graph, drawing.ops, drawing.recorded, drawing.places, []))
    assert sorted(members_of(top)) == list(range(len(nodes)))
    left = [top]
    while left:
        part = left.pop()
        rows = {each: rank for each, rank in zip(part.children, part.ranks, strict=True) if isinstance(each, int)}
        assert all(
            rows[each] < rank for number, rank in rows.items() for each in drawing.ops.inputs[number] if each in rows
        )
        left += [each for each in part.children if isinstance(each, Group)]


def test_a_page_is_the_same_every_time():
    assert page(recorded()) == page(recorded())


def test_hazards_are_at_their_part_and_at_what_they_name_with_their_page():
    text = page(recorded())
    found = data_of(text)
    assert found["hazards"] == [["sum_not_mean", "combination", [found["names"].index("conv/w")]]]
    words = Reader(text).text
    assert "1 of 1 gradients is the sum, e.g. of conv/w." in words and "DDP averages." in words
    assert "docs/rules/TP101.md" in words


def test_every_hazard_of_the_recorder_has_a_part():
    from test_junit import ROOT

    source = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
    table = source[source.index("## Hazards") : source.index("## Replaying")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == PART_OF_HAZARD.keys()


@pytest.mark.parametrize("hazards", [None, {}, [3], [{"name": "x"}], [{"name": 1, "evidence": "", "meaning": ""}]])
def test_hazards_that_are_none_are_left_out(hazards):
    assert drawing_of(recorded(), FACTS | {"hazards": hazards}).hazards == []
    assert drawing_of(recorded(), {"tower_scopes": [1, 2]}).scopes == ["", ""]


def test_nothing_of_a_graph_is_markup():
    dirty = json.loads(
        json.dumps(NODES).replace("AddN", json.dumps(EVIL)[1:-1]).replace("/gpu:1", json.dumps(EVIL)[1:-1])
    )
    facts = {
        "tower_scopes": [EVIL, EVIL],
        "framework": EVIL,
        "hazards": [dict.fromkeys(("name", "evidence", "meaning"), EVIL)],
    }
    text = page(
        recorded(
            dirty,
            frames=[[EVIL, 1, EVIL, EVIL]],
            callers={"x": [0]},
            combinations={EVIL: {"conv/w": EVIL}},
            hyper_parameters={EVIL: {EVIL: EVIL}},
        ),
        facts,
        EVIL,
    )
    read = Reader(text)
    assert read.unmatched == [] and read.open == []
    assert not any("onerror" in attributes for _, attributes in read.elements)
    assert [tag for tag, _ in read.elements].count("script") == 2 and "default-src 'none'" in text


def test_what_is_not_printed_is_escaped_and_long_names_are_cut():
    nodes = [op("a\u202eb\x1b"), op("n" * 1000)]
    assert data_of(page(RecordedGraph({"node": nodes}, {}, []), {}))["names"] == ["a\\u202eb\\x1b", "n" * 300 + "…"]


def test_names_of_any_depth_and_wide_graphs_take_bounded_time():
    deep = [op("/".join(["s"] * 5000) + f"/{number}", "Add") for number in range(20)]
    star = [op("hub", "Const"), *(op(f"s{number}/x", "Add", "hub") for number in range(20_000))]
    begun = time.monotonic()
    for nodes in (deep, star):
        graph = RecordedGraph({"node": nodes}, {}, [])
        drawing = drawing_of(graph, {})
        view_of(drawing, by_layer(graph, drawing.ops, drawing.recorded, drawing.places, []))
    assert time.monotonic() - begun < 60


# Just inside and just outside of each limit.
@pytest.mark.parametrize(
    ("count", "inputs", "fits"), [(100_000, 0, True), (100_001, 0, False), (400, 1000, True), (401, 1000, False)]
)
def test_a_graph_that_no_page_can_show_is_refused(count, inputs, fits):
    nodes = [{"name": str(number), "op": "Add", "input": ["0"] * inputs} for number in range(count)]
    if fits:
        require_drawable(nodes)
    else:
        with pytest.raises(TraceError, match="show: expected a graph of at most 100,000 ops that take 400,000 tensors"):
            drawing_of(RecordedGraph({"node": nodes}, {}, []), {})


@pytest.mark.parametrize(("towers", "fits"), [(64, True), (65, False)])
def test_more_towers_than_a_page_can_show_are_refused(towers, fits):
    graph = recorded(
        [op(f"loss_{n}") for n in range(towers)] + NODES[2:5], {f"loss/{n}": f"loss_{n}:0" for n in range(towers)}
    )
    if fits:
        assert len(drawing_of(graph, {}).recorded.towers) == 64
    else:
        with pytest.raises(TraceError, match="at most 64 towers, got 65"):
            drawing_of(graph, {})


@pytest.fixture
def trace(tmp_path):
    folder = tmp_path / "a.trace"
    writer = TraceWriter(folder, {}, {"framework": "none", **FACTS}, {"conv/w": {"kind": "weight"}})
    writer.init({})
    writer.close()
    return folder


def test_show_writes_the_page_and_prints_where(trace, tmp_path, capsysbinary):
    write_graph(trace, recorded())
    assert main(["show", "--html", str(tmp_path / "g.html"), str(trace)]) == 0
    assert capsysbinary.readouterr().out == f"wrote {tmp_path / 'g.html'}\n".encode()
    assert main(["show", "--html", "-", str(trace)]) == 0
    assert capsysbinary.readouterr().out == (tmp_path / "g.html").read_bytes()


def test_a_trace_without_a_graph_leaves_no_page(trace, tmp_path, capsys):
    assert main(["show", "--html", str(tmp_path / "g.html"), str(trace)]) == 2
    assert "graph: expected to read" in capsys.readouterr().err and not (tmp_path / "g.html").exists()


def test_names_that_are_no_keys_are_refused(trace, tmp_path, capsys):
    write_graph(trace, recorded(values={"nonsense": "mean:0"}))
    assert main(["show", "--html", str(tmp_path / "g.html"), str(trace)]) == 2
    assert not (tmp_path / "g.html").exists()
