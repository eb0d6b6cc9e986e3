"""While loops in ports, on graphs of a few ops."""

import base64
from types import SimpleNamespace

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.functions import Names, write_part
from parity.port.source.parameters import Parameters
from parity.port.tower.frames import Frames
from parity.port.tower.reader import Reader

TYPES = {"f": "DT_FLOAT", "i": "DT_INT32"}


def op(kind, name, *inputs, **attributes):
    return {"op": kind, "name": name, "input": [*inputs], "attr": attributes}


def const(name, value):
    array = np.asarray(value)
    dtype = TYPES[array.dtype.kind]
    values = {"int_val": array.ravel().tolist()} if dtype == "DT_INT32" else {"float_val": array.ravel().tolist()}
    shape = {"dim": [{"size": str(length)} for length in array.shape]}
    tensor = {"dtype": dtype, "tensor_shape": shape, **values}
    return op("Const", name, dtype={"type": dtype}, value={"tensor": tensor})


def enter(name, taken, frame="loop", dtype="DT_FLOAT"):
    return op("Enter", name, taken, frame_name={"s": base64.b64encode(frame.encode()).decode()}, T={"type": dtype})


def state(name, start, following, dtype="DT_FLOAT"):
    """The control flow around a state variable, whose value in an iteration is NAME/Identity."""
    return [
        enter(f"{name}/Enter", start, dtype=dtype),
        op("Merge", f"{name}/Merge", f"{name}/Enter", f"{name}/Next", T={"type": dtype}),
        op("Switch", f"{name}/Switch", f"{name}/Merge", "LoopCond", T={"type": dtype}),
        op("Identity", f"{name}/Identity", f"{name}/Switch:1", T={"type": dtype}),
        op("NextIteration", f"{name}/Next", following, T={"type": dtype}),
        op("Exit", f"{name}/Exit", f"{name}/Switch", T={"type": dtype}),
    ]


COUNTED = [
    const("zero", 0),
    const("one", 1),
    const("end", 3),
    *state("t", "zero", "t/add", "DT_INT32"),
    op("AddV2", "t/add", "t/Identity", "one", T={"type": "DT_INT32"}),
    op("Less", "Less", "t/Merge", "end", T={"type": "DT_INT32"}),
    op("LoopCond", "LoopCond", "Less"),
]
START = [const("start", np.zeros((2, 4), np.float32))]
OUTER = [op("Tanh", "outer", "x"), enter("outer/Enter", "outer")]


def written(nodes, shapes=None, loss="loss"):
    """The body of the forward pass of a tower that is fed x, of shape [2, 3, 4], and whose loss is a mean."""
    nodes = [*nodes, const("axes", [0, 1])]
    run = {"values": {"loss/0": {"tensor": f"{loss}:0"}, "feed/0/x": {"tensor": "x:0", "dtype": "float32"}}}
    graph = SimpleNamespace(definition={}, nodes=[op("Placeholder", "x"), *nodes], variables={}, shapes={}, runs=[run])
    step = SimpleNamespace(shape=lambda name: (2, 3, 4))
    part = SimpleNamespace(
        name="", prefix="", steps=[0], trace=SimpleNamespace(step=lambda number: step), unmoved=frozenset
    )
    unknown = {each["name"]: [(-1,)] * 4 for each in nodes if each["op"] != "Const"}
    reader = Reader(graph, part, {**unknown, **(shapes or {})})
    found = write_part(reader, "", False, Parameters({}, {}), 1, Names(lambda op: "", lambda op: ""))
    assert not found.refused
    return [*found.forward.body[:-1], *found.loss.body]


def sliced(name, begin, end):
    """x[:, t]"""
    masks = {"begin_mask": {"i": "1"}, "end_mask": {"i": "1"}, "shrink_axis_mask": {"i": "2"}}
    return [
        op("Pack", f"{name}/begin", "zero", begin),
        op("Pack", f"{name}/end", "zero", end),
        const(f"{name}/strides", [1, 1]),
        op("StridedSlice", name, "outer/Enter", f"{name}/begin", f"{name}/end", f"{name}/strides", **masks),
    ]


def test_a_counted_loop_is_a_range_and_what_does_not_change_stands_in_front_of_it():
    nodes = [
        *COUNTED,
        *START,
        *OUTER,
        *sliced("slice", "t/Identity", "t/add"),
        op("Add", "sum", "h/Identity", "slice"),
        *state("h", "start", "sum"),
        op("Mean", "loss", "h/Exit", "axes"),
    ]
    assert written(nodes)[1:] == [
        "x = torch.tanh(x)",
        "state = x.new_zeros(len(x), 4)",
        "for t in range(3):",
        "    state = state + x[:, t]",
        "return state.mean()",
    ]


def test_a_loop_with_another_condition_is_a_while():
    nodes = [
        *START,
        const("limit", np.float32(5.0)),
        *OUTER,
        const("first", 0),
        op("GatherV2", "slice", "outer", "first", "first"),
        op("Mean", "mean", "h/Merge", "axes"),
        op("Less", "Less", "mean", "limit"),
        op("LoopCond", "LoopCond", "Less"),
        op("Exp", "exp", "h/Identity"),
        *state("h", "start", "exp"),
        op("Mul", "product", "h/Exit", "outer"),
        const("all", [0, 1, 2]),
        op("Mean", "loss", "product", "all"),
    ]
    found = written(nodes, {"product": [(2, 3, 4)]})
    assert "while state.mean() < 5:" in found
    assert "    state = torch.exp(state)" in found


def test_state_that_swaps_is_assigned_at_once():
    nodes = [
        *COUNTED,
        *START,
        *OUTER,
        const("ones", np.ones((2, 4), np.float32)),
        *state("a", "start", "b/Identity"),
        *state("b", "ones", "a/Identity"),
        op("Sub", "difference", "a/Exit", "b/Exit"),
        op("Mul", "loss/product", "difference", "outer"),
        const("all", [0, 1, 2]),
        op("Mean", "loss", "loss/product", "all"),
    ]
    found = written(nodes, {"loss/product": [(2, 3, 4)]})
    assert "    state, state2 = state2, state" in found


def array(name, size):
    return op("TensorArrayV3", name, size, dtype={"type": "DT_FLOAT"})


def test_an_array_is_a_list_and_a_tensor_of_it_a_stack():
    nodes = [
        *COUNTED,
        *START,
        *OUTER,
        array("array", "end"),
        enter("handle", "array"),
        *sliced("slice", "t/Identity", "t/add"),
        op("TensorArrayWriteV3", "write", "handle", "t/Identity", "slice", "list/Identity"),
        *state("list", "array:1", "write"),
        op("TensorArraySizeV3", "size", "array", "list/Exit"),
        op("Range", "places", "zero", "size", "one"),
        op("TensorArrayGatherV3", "gather", "array", "places", "list/Exit"),
        const("order", [1, 0, 2]),
        op("Transpose", "transpose", "gather", "order"),
        const("all", [0, 1, 2]),
        op("Mean", "loss", "transpose", "all"),
    ]
    assert "\n".join(written(nodes)).endswith(
        "outputs = []\nfor t in range(3):\n    outputs.append(x[:, t])\nreturn torch.stack(outputs, 1).mean()"
    )


def test_a_counter_that_is_computed_with_becomes_a_tensor():
    nodes = [
        *COUNTED,
        *START,
        *OUTER,
        op("Cast", "cast", "t/Identity", SrcT={"type": "DT_INT32"}, DstT={"type": "DT_FLOAT"}),
        *sliced("slice", "t/Identity", "t/add"),
        op("Mul", "product", "slice", "cast"),
        op("Add", "sum", "h/Identity", "product"),
        *state("h", "start", "sum"),
        op("Mean", "loss", "h/Exit", "axes"),
    ]
    assert any("torch.tensor(t, device=" in each for each in written(nodes))


def test_state_that_nothing_needs_is_left_out():
    nodes = [
        *COUNTED,
        *START,
        *OUTER,
        *sliced("slice", "t/Identity", "t/add"),
        op("Add", "sum", "h/Identity", "slice"),
        *state("h", "start", "sum"),
        op("Exp", "exp", "dead/Identity"),
        *state("dead", "start", "exp"),
        op("Mean", "loss", "h/Exit", "axes"),
    ]
    assert not any("exp" in each for each in written(nodes))


def test_a_frame_holds_what_is_computed_in_each_iteration():
    nodes = {each["name"]: each for each in [*COUNTED, *START, *OUTER, op("Exp", "behind", "t/Exit")]}
    (frame,) = Frames(nodes).by_name.values()
    assert (frame.starts, frame.states, frame.nexts) == (["t/Enter"], ["t/Merge"], ["t/Next"])
    assert frame.condition == "LoopCond"
    assert frame.exits == {"t/Exit": 0}
    assert {"t/add", "outer/Enter"} <= frame.members
    assert not {"behind", "outer", "one"} & frame.members


@pytest.mark.parametrize("branch", ["Exp", "Switch", "Exit", "Enter", "NextIteration"])
def test_the_end_of_a_condition_is_no_loop(branch):
    ops = [op("Merge", "merge", "a", "b"), op(branch, "a", "x", "condition"), op("Exp", "b", "x")]
    assert not Frames({each["name"]: each for each in ops}).by_name
