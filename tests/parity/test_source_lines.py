"""Whose line an op comes of: kept beside the ops, read where it is there, and shown so that a terminal stays as it is."""

import json
import linecache
import sysconfig

import numpy as np

import parity
from parity.trace import Forward, ForwardOp, SourceLine, UsersLines, write_forward

LINE = SourceLine("tower.py", 31, "tower", "x = tf.nn.relu(x)")


def test_a_pass_gives_its_lines_back_and_one_of_before_is_read_without(tmp_path):
    ops = [ForwardOp("a", "Relu", [], [], [2], {}, LINE), ForwardOp("b", "Mean", [0], [], [], {})]
    write_forward(tmp_path / "f", 0, "0", [(op, np.ones(op.shape)) for op in ops])
    assert Forward(tmp_path / "f").ops == ops
    path = tmp_path / "f" / "forward.json"
    kept = json.loads(path.read_text())
    assert all(len(op) == 6 for op in kept["ops"])  # as whoever reads the first version expects them
    del kept["lines"]
    path.write_text(json.dumps(kept))
    assert [op.line for op in Forward(tmp_path / "f").ops] == [None, None]


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
    assert UsersLines().innermost(frames) == SourceLine("tower.py", 2, "tower", "y = f(x)")
    monkeypatch.syspath_prepend(tmp_path)
    assert UsersLines().innermost(frames).file == "models/tower.py"
    assert UsersLines(json).innermost(frames[:4]) is None


def test_a_line_cannot_steer_a_terminal():
    assert LINE.shown == "tower.py:31  x = tf.nn.relu(x)"
    assert LINE._replace(text="x = '\x1b[2J\u202eé'").shown == "tower.py:31  x = '\\x1b[2J\\u202eé'"
