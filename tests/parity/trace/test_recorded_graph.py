"""The graph beside a trace is whole or refused."""

import json

import numpy as np
import pytest

from parity.trace import DamagedError, RecordedGraph, TraceError, TraceWriter, read_graph, read_json, write_graph
from parity.trace.graph import reduce_value

GRAPH = RecordedGraph(
    {"node": [{"name": "x", "op": "Placeholder"}, {"name": "w", "op": "VariableV2"}]},
    {"var/w": "w"},
    [{"values": {"feed/0/x": {"tensor": "x:0", "dtype": "float32"}}, "updates": ["w"], "sections": {"Adam": {}}}],
    frames=[["train.py", 9, "<module>", "main()"], ["model.py", 3, "build", "w = tf.get_variable('w', [2])"]],
    callers={"w": [0, 1]},
    shapes={"x": [[None, 2]], "w": [None]},
    initial={"var/w": "scaled:0"},
    initial_nodes=[{"name": "drawn", "op": "TruncatedNormal"}, {"name": "scaled", "op": "Mul", "input": ["drawn"]}],
    arguments=["--rate", "0.1"],
    flags={"rate": 0.1, "layers": ["a", "b"], "resume": None, "debug": False},
    collections={"losses": ["loss:0"], "update_ops": []},
    hyper_parameters={"Adam": {"learning_rate": "x:0", "beta1": 0.9, "use_nesterov": False}},
    combinations={"Adam": {"w": "mean"}},
    clipping={
        "Adam": {
            "kind": "value",
            "low": None,
            "high": 5.0,
            "place": "after_combining",
            "variables": ["w"],
            "first": {"kind": "norm", "limit": "x:0", "place": "before_combining"},
        }
    },
)


def test_a_graph_is_read_as_it_was_written(tmp_path):
    write_graph(tmp_path, GRAPH)
    assert read_graph(tmp_path) == GRAPH
    assert [node["op"] for node in read_graph(tmp_path).nodes] == ["Placeholder", "VariableV2"]
    assert read_graph(tmp_path).lines == {"w": 1}


def test_a_graph_of_before_is_read_without_what_was_not_kept(tmp_path):
    write_graph(tmp_path, GRAPH)
    found = read_json(str(tmp_path / "graph.json"))
    before = {name: found[name] for name in ("format", "format_version", "ops", "definition", "variables", "runs")}
    (tmp_path / "graph.json").write_text(json.dumps(before))
    assert read_graph(tmp_path) == RecordedGraph(GRAPH.definition, GRAPH.variables, GRAPH.runs)
    assert read_graph(tmp_path).lines == {}


def test_a_trace_without_a_graph_is_refused(tmp_path):
    with pytest.raises(
        TraceError, match=r"graph: expected to read .*graph\.json, got: No such file.*\. Record the script"
    ):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.update(format="other"), "expected the format 'tower-parity-graph'"),
        (lambda found: found.update(format_version=9), "expected format version 1 in .*, got 9"),
        (lambda found: found.update(runs={}), "expected 'runs' in .* to be a list"),
        (lambda found: found["definition"]["node"].pop(), "expected 2 ops with a name and a type each"),
        (lambda found: found["variables"].update({"var/v": "v"}), "expected the op 'v' in"),
        (lambda found: found["variables"].update({"var/v": ["w"]}), "expected the op .'w'. in"),
        (lambda found: found["definition"]["node"][1].update(input=5), "expected 2 ops with a name and a type each"),
        (lambda found: found["runs"][0].pop("values"), "expected the op '.a run without values.'"),
        (lambda found: found["runs"][0].update(updates=5), "expected the op '.a run without values.'"),
        (lambda found: found["runs"][0].update(sections=[]), "expected the op '.a run without values.'"),
        (lambda found: found["runs"][0]["values"].update(x=5), "expected the op '.a run without values.'"),
    ],
)
def test_a_graph_that_is_not_whole_is_refused(tmp_path, change, said):
    write_graph(tmp_path, GRAPH)
    found = read_json(str(tmp_path / "graph.json"))
    change(found)
    (tmp_path / "graph.json").write_text(json.dumps(found))
    with pytest.raises(TraceError, match=said):
        read_graph(tmp_path)


PLACE = {"place": "after_combining"}
RULES = [
    5,
    {},
    {"kind": "norm", "limit": 1.0},
    {"kind": "norm", **PLACE},
    {"kind": "norm", "limit": None, **PLACE},
    {"kind": "norm", "limit": [1.0], **PLACE},
    {"kind": "norm", "limit": "gone:0", **PLACE},
    {"kind": "half", **PLACE},
    {"kind": ["norm"], "limit": 1.0, **PLACE},
    {"kind": "norm", "limit": 1.0, "place": None},
    {"kind": "other"},
    {"kind": "other", "place": ["after_combining"]},
    {"kind": "other", "variables": ["v"], **PLACE},
    {"kind": "other", "variables": [["w"]], **PLACE},
    {"kind": "other", "first": 5, **PLACE},
    {"kind": "other", "first": {"kind": "other", "first": {}, **PLACE}, **PLACE},
]
FAULTS = {
    "frames": [
        None,
        {},
        [["a.py", 1, "f"]],
        [["a.py", "1", "f", ""]],
        [["a.py", True, "f", ""]],
        [["a.py", -1, "f", ""]],
    ],
    "callers": [None, [], {"v": [0]}, {"w": []}, {"w": 0}, {"w": [2]}, {"w": [-1]}, {"w": [True]}, {"w": [[0]]}],
    "initial": [None, [], {"var/w": "w:0"}, {"var/w": 5}, {"var/v": "scaled:0"}, {"var/w": None}],
    "initial_nodes": [None, {}, [5], [{"name": "scaled"}], [{"name": "scaled", "op": "Mul", "input": ["drawn"]}]],
    "arguments": [None, "a", [1]],
    "flags": [None, [], {"rate": {}}, {"rate": [[1]]}],
    "collections": [None, [], {"losses": "loss:0"}, {"losses": [5]}],
    "hyper_parameters": [None, [], {"Other": {}}, {"Adam": 5}, {"Adam": {"beta1": [1]}}, {"Adam": {"beta1": "gone:0"}}],
    "combinations": [
        None,
        [],
        {"Other": {}},
        {"Adam": []},
        {"Adam": {"v": "mean"}},
        {"Adam": {"w": "half"}},
        {"Adam": {"w": []}},
    ],
    "clipping": [None, [], {"Other": None}, *({"Adam": rule} for rule in RULES)],
    "shapes": [None, [], {"v": [[2]]}, {"w": [2]}, {"w": [[-1]]}, {"w": [["2"]]}, {"w": {}}, {"w": [[2.0]]}],
}


@pytest.mark.parametrize(
    "rule",
    [
        None,
        {"kind": "other", "place": None},
        {"kind": "other", **PLACE},
        {"kind": "scale", "factor": True, "place": "before_combining"},
        {"kind": "value", "low": "x:0", "high": None, **PLACE},
        {"kind": "global_norm", "limit": 5, "variables": [], **PLACE},
    ],
)
def test_every_rule_of_clipping_that_is_described_is_read(tmp_path, rule):
    write_graph(tmp_path, GRAPH._replace(clipping={"Adam": rule}))
    assert read_graph(tmp_path).clipping == {"Adam": rule}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FAULTS.items() for value in values])
def test_where_a_graph_comes_from_is_as_described_or_refused(tmp_path, field, value):
    write_graph(tmp_path, GRAPH)
    found = read_json(str(tmp_path / "graph.json"))
    assert found[field], "the test would see nothing in an empty field"
    found[field] = value
    (tmp_path / "graph.json").write_text(json.dumps(found))
    with pytest.raises(TraceError, match=f"graph: expected '{field}' to be a .* in .*Record the script again"):
        read_graph(tmp_path)


def test_a_file_nested_deeper_than_can_be_read_is_refused(tmp_path):
    (tmp_path / "graph.json").write_text("[" * 200000)
    with pytest.raises(TraceError, match="expected JSON"):
        read_graph(tmp_path)


def test_half_a_file_is_refused(tmp_path):
    write_graph(tmp_path, GRAPH)
    text = (tmp_path / "graph.json").read_text()
    (tmp_path / "graph.json").write_text(text[: len(text) // 2])
    with pytest.raises(DamagedError, match="this file is damaged"):
        read_graph(tmp_path)


def test_a_new_trace_in_the_same_folder_has_neither_the_old_graph_nor_the_old_shadow(tmp_path):
    out = tmp_path / "trace"
    TraceWriter(out, {"package": "test"}).close()
    write_graph(out, GRAPH)
    TraceWriter(out / "shadow", {"package": "test"}).close()
    (out / "shadow.json").write_text("{}")
    TraceWriter(out, {"package": "test"}).close()
    assert sorted(path.name for path in out.iterdir()) == ["trace.json"]


@pytest.mark.parametrize(
    ("reduction", "dtype", "reduced"),
    [
        ("mean", "float32", 2.0),
        ("sum", "float32", 6.0),
        ("mean", "int32", 2),
        ("sum", "int32", 6),
        ("", "float32", None),
    ],
)
def test_losses_by_example_are_reduced_to_a_scalar_of_their_dtype(reduction, dtype, reduced):
    value = np.array([1, 2, 3], dtype)
    found = reduce_value(value.tolist() if not reduction else value, reduction)
    assert found.tolist() == (reduced if reduction else [1, 2, 3])
    assert not reduction or found.dtype == dtype
