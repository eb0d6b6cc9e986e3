"""A graph, a forward pass or a golden folder that nobody wrote is refused where it is read, and not where it is used."""

import json
import os

import numpy as np
import pytest

from parity.trace import (
    DamagedError,
    ForwardOp,
    TraceError,
    check_folder,
    read_graph,
    read_json,
    write_forward,
    write_graph,
    write_tensors,
)
from parity.trace.forward import Forward, Operand
from parity.trace.graph import RecordedGraph


def graph(nodes):
    return RecordedGraph({"node": nodes}, {}, [])


def op(name, kind="Add", *inputs, **attributes):
    return {"name": name, "op": kind, "input": list(inputs), "attr": attributes}


LOOP = [
    op("enter", "Enter"),
    op("merge", "Merge", "enter", "next"),
    op("add", "Add", "merge"),
    op("next", "NextIteration", "add"),
]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([op("a", "Add", "b"), op("b", "Add", "a")], "comes of itself but in a loop"),
        ([op("a", "Add", "a:1")], "comes of itself but in a loop"),
        ([op("a", "Add", "^b"), op("b", "Add", "a")], "comes of itself but in a loop"),
        ([op("a"), op("a")], "every op once"),
        ([op("a", T=3)], "protobuf's JSON form for the op 'a'"),
        ([op("a", n={"i": "9" * 30})], "protobuf's JSON form"),
        ([op("a", n={"i": "٣"})], "protobuf's JSON form"),
        ([op("a", f={"f": "x"})], "protobuf's JSON form"),
        ([op("a", s={"s": "abc"})], "protobuf's JSON form"),
        ([op("a", b={"b": 1})], "protobuf's JSON form"),
        ([op("a", shape={"shape": {"dim": [3]}})], "protobuf's JSON form"),
        ([op("a", value={"tensor": []})], "protobuf's JSON form"),
        ([op("a", k={"list": {"i": 3}})], "protobuf's JSON form"),
    ],
)
def test_ops_that_no_graph_has_are_refused(tmp_path, nodes, said):
    write_graph(tmp_path, graph(nodes))
    with pytest.raises(TraceError, match=said):
        read_graph(tmp_path)


def test_a_loop_and_every_form_of_an_attribute_are_taken(tmp_path):
    forms = {"i": "-3", "f": "NaN", "b": True, "s": "YQ==", "type": "DT_FLOAT", "shape": {"unknown_rank": True}}
    several = {"list": {"i": ["1", 2], "shape": [{"dim": [{"size": "-1"}]}]}}
    attributes = {name: {name: value} for name, value in forms.items()}
    nodes = [*LOOP, op("a", "Add", "elsewhere", **attributes, ksize=several, none={}, func={"func": {"name": "f"}})]
    write_graph(tmp_path, graph(nodes))
    assert len(read_graph(tmp_path).nodes) == 5


@pytest.mark.parametrize(
    "value",
    [
        {"tensor": "a:0"},
        {"dtype": "float32"},
        {"tensor": "a:0", "dtype": "f", "reduced": "max"},
        {"tensor": "a:0", "dtype": "f", "share": [-1]},
    ],
)
def test_a_value_of_a_run_is_described_whole(tmp_path, value):
    write_graph(tmp_path, RecordedGraph({"node": [op("a")]}, {}, [{"values": {"loss/0": value}}]))
    with pytest.raises(TraceError, match="a run without values"):
        read_graph(tmp_path)


CHANGES = [
    lambda found: found.update(step="0"),
    lambda found: found["ops"].append([]),
    lambda found: found["ops"][0].__setitem__(2, [1]),
    lambda found: found["ops"][0].__setitem__(4, [-2]),
    lambda found: found["ops"][0].__setitem__(5, None),
    lambda found: found["lines"].__setitem__(0, ["a.py", 1, "f"]),
    lambda found: found["lines"].__setitem__(0, ["a.py", 1, "f", "x", [["b.py"]]]),
    lambda found: found["operands"].__setitem__(0, [["0", "x"]]),
    lambda found: found["operands"][0][0].__setitem__(2, 7),
    lambda found: found["operands"][0][0].__setitem__(3, [1] * 40),
    lambda found: found["laid_out"].__setitem__(0, [None, None]),
    lambda found: found["laid_out"].__setitem__(0, [["permute"]]),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_forward_pass_that_nobody_wrote_is_refused(tmp_path, change):
    taken = (Operand("0", "x", None, [2], np.ones(2, np.float32)),)
    write_forward(tmp_path / "p", 0, "0", [(ForwardOp("a", "Relu", [], [], [2], {}, None, taken), np.ones(2))])
    found = read_json(str(tmp_path / "p" / "forward.json"))
    assert Forward(tmp_path / "p").operand(0, 0) is not None
    change(found)
    (tmp_path / "p" / "forward.json").write_text(json.dumps(found))
    with pytest.raises(TraceError, match=r"^forward: expected"):
        Forward(tmp_path / "p")


def test_a_forward_pass_whose_graph_leaves_sizes_open_is_taken(tmp_path):
    taken = (Operand("0", "x", None, [-1, 2], np.ones((3, 2), np.float32)),)
    write_forward(tmp_path, 0, "0", [(ForwardOp("a", "Relu", [], [], [-1, 2], {}, None, taken), np.ones((3, 2)))])
    assert Forward(tmp_path).ops[0].shape == [-1, 2]


@pytest.mark.parametrize("name", ["a.safetensors", "a.json", "other"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink("..", path)]
)
def test_a_pipe_a_device_or_a_way_back_in_a_folder_that_is_copied_is_refused(tmp_path, name, make):
    (tmp_path / "below").mkdir()
    write_tensors(tmp_path / "below" / "right.safetensors", {"x": np.ones(3)})
    check_folder(tmp_path)
    make(tmp_path / "below" / name)
    with pytest.raises(TraceError, match="expected a regular file"):
        check_folder(tmp_path)


def test_a_damaged_file_below_a_folder_is_named(tmp_path):
    write_tensors(tmp_path / "a.safetensors", {"x": np.ones(3)})
    whole = bytearray((tmp_path / "a.safetensors").read_bytes())
    whole[-1] ^= 1
    (tmp_path / "b.safetensors").write_bytes(whole)
    with pytest.raises(DamagedError, match=r"b\.safetensors"):
        check_folder(tmp_path)
