"""The ops of a recorded script's float64 shadow have the lines of the script that made them."""

import pytest

from parity.experiment.replay.rerun import lines_of_script, with_lines
from parity.trace import ForwardOp, RecordedGraph, SourceLine, write_graph

FRAMES = [
    ["train.py", 9, "main", "loss = tower(x)"],
    ["train.py", 3, "tower", "x = tf.nn.lrn(x)"],
    ["train.py", 1, "a", ""],
]


@pytest.fixture
def lines(tmp_path):
    callers = {"tower_0/LRN": [0, 1], "alone": [1], "deep": [2, 2, 0, 1]}
    nodes = [{"name": name, "op": "NoOp"} for name in callers]
    graph = RecordedGraph({"node": nodes}, {}, [], FRAMES, callers)
    write_graph(tmp_path, graph)
    return lines_of_script(str(tmp_path))


def test_a_line_is_the_innermost_frame_and_has_its_callers(lines):
    assert lines["tower_0/LRN"] == SourceLine(*FRAMES[1], callers=(tuple(FRAMES[0]),))
    assert lines["alone"].callers == () and len(lines["deep"].callers) == 2


@pytest.mark.parametrize(
    "name", ["tower_0/LRN", "tower_0/LRN:1", "tower_0/LRN/in_float64/mul_1", "tower_0/LRN/flow_in_float64"]
)
def test_what_a_shadow_computes_an_op_by_has_that_ops_line(lines, name):
    (op,) = with_lines([ForwardOp(name, "Mul", [], [], [], {})], lines)
    assert op.line == lines["tower_0/LRN"]


def test_an_op_of_no_script_has_no_line_and_a_known_one_stays(lines, tmp_path):
    own = SourceLine("other.py", 1, "f", "y")
    made = [ForwardOp("tower_0/LRNs", "Mul", [], [], [], {}), ForwardOp("alone", "Mul", [], [], [], {}, own)]
    assert [op.line for op in with_lines(made, lines)] == [None, own]
    assert lines_of_script(str(tmp_path / "none")) == {}
