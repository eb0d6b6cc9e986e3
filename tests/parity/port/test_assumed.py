"""What holds of the recorded steps alone, which no replay of them finds wrong: a port says so in its docstring."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.port.source.functions import Function, Names, Written, write_part
from parity.port.source.parameters import Parameters
from parity.port.source.program import _assumed
from parity.port.tower.reader import Reader

STATIC = {"x": [[None, 3]]}
FED = {"feed/0/x": np.ones((4, 3), np.float32), "feed/0/keep": np.float32(0.8), "feed/0/training": np.bool_(True)}


def node(name, kind, *inputs, **attributes):
    return {"name": name, "op": kind, "input": list(inputs), "attr": attributes}


def const(name, *values):
    shape = {"dim": [{"size": str(len(values))}]}
    return node(name, "Const", value={"tensor": {"dtype": "DT_INT32", "tensor_shape": shape, "int_val": list(values)}})


def written(*nodes, loss="loss"):
    fed = {"x": "DT_FLOAT", "keep": "DT_FLOAT", "training": "DT_BOOL"}
    placeholders = [node(name, "Placeholder", dtype={"type": kind}) for name, kind in fed.items()]
    values = {f"feed/0/{name}": {"tensor": f"{name}:0", "dtype": "float32"} for name in fed}
    graph = SimpleNamespace(
        definition={},
        nodes=[*placeholders, *nodes],
        variables={},
        runs=[{"values": {**values, "loss/0": {"tensor": f"{loss}:0"}}}],
        shapes=STATIC,
    )
    file = SimpleNamespace(read=lambda key: np.asarray(FED[key]), shape=lambda key: np.shape(FED[key]))
    trace = SimpleNamespace(step=lambda number: file, variables={})
    part = SimpleNamespace(name="", prefix="", steps=[0, 1], trace=trace, facts={}, unmoved=frozenset)
    shapes = {"x": [(4, 3)], "rows": [(4,)]}
    names = Names(lambda op: "", lambda op: f"train.py:{op.name}")
    return write_part(Reader(graph, part, shapes), "", False, Parameters({}, {}), 1, names)


AXES = const("axes", 0, 1)
SHAPE = node("shape", "Shape", "x", out_type={"type": "DT_INT32"})


def length(axis):
    bounds = const("begin", axis), const("end", axis + 1), const("strides", 1)
    one = {"shrink_axis_mask": {"i": "1"}}
    return [SHAPE, *bounds, node("length", "StridedSlice", "shape", "begin", "end", "strides", **one)]


def divided_by(*nodes):
    count = node("count", "Cast", "length", DstT={"type": "DT_FLOAT"})
    return [AXES, node("sum", "Sum", "x", "axes"), *nodes, count, node("loss", "RealDiv", "sum", "count")]


@pytest.mark.parametrize(("axis", "lines"), [(0, ["train.py:loss"]), (1, [])])
def test_a_number_that_is_the_length_of_the_recorded_batch_is_named(axis, lines):
    assert written(*divided_by(*length(axis))).lengths == lines


def test_a_mean_over_the_batch_has_no_number_of_it():
    rows = [const("last", 1), node("rows", "Sum", "x", "last"), const("first", 0), node("sum", "Sum", "rows", "first")]
    count = node("count", "Cast", "length", DstT={"type": "DT_FLOAT"})
    mean = [*rows, *length(0), count, node("loss", "RealDiv", "sum", "count")]
    assert written(*mean).lengths == []


def test_what_is_fed_the_same_in_every_step_is_named():
    found = written(AXES, node("scaled", "Mul", "x", "keep"), node("loss", "Sum", "scaled", "axes"))
    (said,) = _assumed([found])
    assert said == "Fed the same in every recorded step, and constants here: keep = 0.8."


def test_names_of_a_trace_stay_on_their_line():
    function = Function("loss", [], [])
    lines = [f"train\n{number}.py:1" for number in range(10)]
    numbers = {'a\n"""': np.array(True)}
    first, second = _assumed([Written(function, function, 1, numbers=numbers, lengths=lines)])
    assert first == 'Fed the same in every recorded step, and constants here: a\\n""" = True.'
    assert "\n" not in second and second.endswith("train\\n7.py:1 and 2 more.")
