"""Whose line an op comes of: kept beside the ops, read where it is there, and shown so that a terminal stays as it is."""

import json
import linecache
import sysconfig

import numpy as np
import pytest

import parity
from parity.trace import (
    Forward,
    ForwardOp,
    LaidOut,
    Operand,
    SourceLine,
    TraceError,
    UsersLines,
    read_json,
    write_forward,
)

LINE = SourceLine("tower.py", 31, "tower", "x = tf.nn.relu(x)", (("tower.py", 40, "loss", "x = tower(x)"),))


def test_a_pass_gives_its_lines_back_and_one_of_before_is_read_without(tmp_path):
    ops = [ForwardOp("a", "Relu", [], [], [2], {}, LINE), ForwardOp("b", "Mean", [0], [], [], {})]
    write_forward(tmp_path / "f", 0, "0", [(op, np.ones(op.shape)) for op in ops])
    assert Forward(tmp_path / "f").ops == ops
    path = tmp_path / "f" / "forward.json"
    kept = read_json(str(path))
    assert (kept["format"], kept["format_version"]) == ("tower-parity-forward", 1)
    assert all(len(op) == 6 for op in kept["ops"])  # as whoever reads the first version expects them
    del kept["lines"]
    path.write_text(json.dumps(kept))
    assert [op.line for op in Forward(tmp_path / "f").ops] == [None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected the format"),
        ("[" * 100_000, "expected JSON"),
        ('{"ops": []', "expected JSON"),
        ({"tower": None}, "expected a step, a tower and ops"),
        ({"ops": None}, "expected a step, a tower and ops"),
        ({"lines": [None]}, "expected 2 lines in .*, got 1"),
        ({"operands": [[], [], []]}, "expected 2 operands in .*, got 3"),
    ],
)
def test_a_description_of_a_pass_that_lies_is_refused(tmp_path, text, message):
    write_forward(tmp_path / "f", 0, "0", [(ForwardOp(name, "Relu", [], [], [], {}, LINE), None) for name in "ab"])
    path = tmp_path / "f" / "forward.json"
    if isinstance(text, dict):
        changed = {**read_json(str(path)), **text}
        text = json.dumps({name: value for name, value in changed.items() if value is not None})
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        Forward(tmp_path / "f")


def test_a_pass_gives_back_what_ops_take_each_array_once(tmp_path):
    weight, value = np.arange(6.0).reshape(2, 3), np.ones((2, 2))
    same, turned = Operand("0", "", 0, [4]), Operand("0", "", None, [2], np.array([3.0, 4.0]))
    reads = Operand("weight", "w", None, [2, 3], weight)
    ops = [
        ForwardOp("a", "linear", [], ["w"], [2, 2], {}, None, (reads,)),
        ForwardOp("b", "add", [0], [], [4], {}, None, (same, reads, turned, Operand("1", "", None, [7]))),
    ]
    write_forward(tmp_path / "f", 0, "0", [(ops[0], value), (ops[1], np.ones(4))])
    kept = Forward(tmp_path / "f")
    assert [each.place for each in kept.ops[1].operands] == ["0", "weight", "0", "1"]
    np.testing.assert_array_equal(kept.operand(1, 0), np.ones(4))
    np.testing.assert_array_equal(kept.operand(1, 1), weight)
    np.testing.assert_array_equal(kept.operand(1, 2), [3.0, 4.0])
    assert kept.operand(1, 3) is None
    assert kept.ops[0].operands[0].value == kept.ops[1].operands[1].value  # the number of one array
    write_forward(tmp_path / "g", 0, "0", [(ops[0], value), (ops[1], np.ones(4))], most=value.nbytes + 20)
    other = Forward(tmp_path / "g")
    assert other.operand(1, 1) is None and other.operand(0, 0) is None  # no room for it
    np.testing.assert_array_equal(other.operand(1, 2), [3.0, 4.0])


def test_of_what_there_is_no_room_for_layers_are_kept_first_and_each_value_is_its_own_ops(tmp_path):
    ops = [ForwardOp(name, "Relu", [], reads, [2], {}) for name, reads in (("a", []), ("b", ["w"]), ("c", []))]
    write_forward(tmp_path / "f", 3, "1", [(op, np.full(2, float(n))) for n, op in enumerate(ops)], most=32)
    kept = Forward(tmp_path / "f")
    assert (kept.step, kept.tower) == (3, "1")
    assert [None if kept.value(n) is None else kept.value(n)[0] for n in range(3)] == [0.0, 1.0, None]
    write_forward(tmp_path / "g", 3, "1", [(op, np.full(2, float(n))) for n, op in enumerate(ops)], most=16)
    assert [Forward(tmp_path / "g").value(n) is not None for n in range(3)] == [False, True, False]


def test_an_array_that_is_no_reshaping_of_an_op_whose_output_is_left_out_is_not_known(tmp_path):
    far = Operand("0", "", 0, [2], np.array([3.0, 4.0]))
    ops = [ForwardOp("a", "Relu", [], [], [2], {}), ForwardOp("b", "Mean", [0], [], [], {}, None, (far,))]
    write_forward(tmp_path / "f", 0, "0", [(ops[0], np.ones(2)), (ops[1], None)], most=16)
    assert Forward(tmp_path / "f").ops[1].operands[0].op is None
    assert Forward(tmp_path / "f").operand(1, 0) is None
    write_forward(tmp_path / "g", 0, "0", [(ops[0], np.ones(2)), (ops[1], None)], most=32)
    assert Forward(tmp_path / "g").ops[1].operands[0].op == 0
    np.testing.assert_array_equal(Forward(tmp_path / "g").operand(1, 0), [3.0, 4.0])


def test_a_pass_says_how_what_an_op_takes_was_laid_out(tmp_path):
    turned = Operand("0", "", 0, [2, 3], np.ones((2, 3)), LaidOut("permute", "encoder", LINE))
    ops = [ForwardOp("a", "relu", [], [], [3, 2], {}), ForwardOp("b", "mean", [0], [], [], {}, None, (turned,))]
    write_forward(tmp_path / "f", 0, "0", [(op, np.ones(op.shape)) for op in ops])
    assert Forward(tmp_path / "f").ops[1].operands[0].laid_out == turned.laid_out
    path = tmp_path / "f" / "forward.json"
    kept = read_json(str(path))
    assert len(kept["operands"][1][0]) == 5  # as whoever reads what an earlier version wrote expects them
    del kept["laid_out"]
    path.write_text(json.dumps(kept))
    assert Forward(tmp_path / "f").ops[1].operands[0].laid_out is None


def test_the_innermost_frame_counts_that_is_the_users(tmp_path, monkeypatch):
    script = tmp_path / "models" / "tower.py"
    script.parent.mkdir()
    script.write_text("x = 1\n    y = f(x)  \n")
    linecache.clearcache()
    installed = sysconfig.get_path("purelib") + "/library/ops.py"
    frames = [
        (json.__file__, 5, "dumps"),
        (installed, 7, "relu"),
        (parity.__file__, 3, "serve"),
        ("<string>", 1, "<module>"),
        (str(script), 2, "tower"),
        (str(script), 1, "<module>"),
    ]
    called = (("tower.py", 1, "<module>", "x = 1"),)
    assert UsersLines().innermost(frames) == SourceLine("tower.py", 2, "tower", "y = f(x)", called)
    monkeypatch.syspath_prepend(tmp_path)
    assert UsersLines().innermost(frames).file == "models/tower.py"
    assert UsersLines(json).innermost(frames[:4]) is None


def test_a_generated_line_is_cut_at_200_characters(tmp_path):
    script = tmp_path / "generated.py"
    script.write_text("  " + "x" * 200 + "y")
    assert UsersLines().innermost([(str(script), 1, "<module>")]).text == "x" * 200


def test_a_line_cannot_steer_a_terminal():
    assert LINE.shown == "tower.py:31  x = tf.nn.relu(x)  (called from tower.py:40  x = tower(x))"
    assert LINE._replace(callers=(), text="x = '\x1b[2J\u202eé'").shown == "tower.py:31  x = '\\x1b[2J\\u202eé'"
