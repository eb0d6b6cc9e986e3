"""Plain ports that need no mapping line: numbers find out what belongs together, and say so; a guess they deny is told."""

import shutil
from pathlib import Path

import pytest
from support.tiny_case import CASE, write_texts

from parity.case import load_case
from parity.cli import main
from parity.experiment import open_sides, run_case

EXAMPLES = Path(__file__).parents[2] / "examples"
MOMENTUM = CASE.replace('name = "sgd"', 'name = "momentum"\nmomentum = 0.9')
DATA = """
import numpy as np


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        yield {"x": random.standard_normal((batch_size, 6, 6, 2)).astype("float32"),
               "y": random.standard_normal((batch_size, 8)).astype("float32")}
"""
# Two dense layers of one shape, attention with a kernel of each kind, an LSTM, a flattened map in front of it all.
TOWER = """
import tensorflow.compat.v1 as tf


def get(name, shape, dtype):
    return tf.get_variable(name, shape, dtype, tf.random_normal_initializer(stddev=0.3, dtype=dtype))


def tower(x, y):
    k = get("w1", [3, 3, 2, 4], x.dtype)
    h = tf.nn.relu(tf.nn.conv2d(x, k, [1, 1, 1, 1], "VALID") + get("b1", [4], x.dtype))
    h = tf.reshape(h, [-1, 4 * 4 * 4])
    for name in ("2", "3", "4"):
        h = tf.matmul(h, get("w" + name, [h.shape[-1], 32], x.dtype)) + get("b" + name, [32], x.dtype)
        h = tf.nn.tanh(h)
    h = tf.reshape(h, [-1, 4, 8])
    with tf.variable_scope("attention"):
        q, k, v = [
            tf.einsum("btd,dhe->bhte", h, get(n + "/kernel", [8, 2, 4], x.dtype)) + get(n + "/bias", [1, 2, 1, 4], x.dtype)
            for n in ("query", "key", "value")
        ]
        a = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 2.0)
        a = tf.reshape(tf.transpose(tf.matmul(a, v), [0, 2, 1, 3]), [-1, 8])
        h = tf.reshape(tf.matmul(a, get("out/kernel", [8, 8], x.dtype)) + get("out/bias", [8], x.dtype), [-1, 4, 8])
    with tf.variable_scope("rnn/lstm_cell"):
        kernel, bias = get("kernel", [16, 32], x.dtype), get("bias", [32], x.dtype)
    state, c = tf.zeros_like(h[:, 0]), tf.zeros_like(h[:, 0])
    for t in range(4):
        i, j, f, o = tf.split(tf.matmul(tf.concat([h[:, t], state], 1), kernel) + bias, 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        state = tf.sigmoid(o) * tf.tanh(c)
    return tf.reduce_mean(tf.square(state - y))
"""
PORT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.body = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        with torch.no_grad():
            self.lstm.bias_hh_l0.zero_()
            self.lstm.bias_hh_l0[8:16] = 1.0
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, x):
        h = torch.relu(self.conv(x.permute(0, 3, 1, 2).contiguous())).flatten(1)
        h = self.body(h).view(-1, 4, 8)
        h, _ = self.attention(h, h, h, need_weights=False)
        return self.lstm(h)[0][:, -1]


def loss(model, x, y):
    return (model(x) - y).square().mean()
"""
WRONG = ("self.lstm(h)[0][:, -1]", "self.lstm(h)[0][:, -1] * 1.1")


def write_sequence(folder: Path, port: str = PORT) -> Path:
    return write_texts(folder, MOMENTUM, DATA, TOWER, port) / "case.toml"


def test_a_plain_port_is_the_same_without_a_line_of_mapping_and_the_report_says_what_numbers_decided(
    tf2_sides, tmp_path
):
    result = run_case(load_case(write_sequence(tmp_path)), tf2_sides, ["function"])
    found = {pair[0]: pair[1:3] for pair in result.pairs}
    assert result.levels["function"].verdict == "same", result.levels["function"].reason
    assert found["w2"] == ("body.0.weight", "flatten_hwc(4, 4, 4)")
    assert found["attention/key/kernel"] == ("attention.in_proj_weight", "reshape(8, 8) | transpose | rows(1, 3)")
    assert found["rnn/lstm_cell/bias"] == ("lstm.bias_ih_l0 + lstm.bias_hh_l0", "lstm_bias(1.0)")
    notes = [note for note in result.notes if note.startswith("mapping: ")]
    assert len(notes) == 2 and "by order and shape" in notes[0] and "by numbers" in notes[0]
    assert "the rows of w2 are permuted for body.0.weight" in notes[1]


@pytest.mark.slow
def test_a_port_with_a_bug_is_compared_under_the_likeliest_mapping_and_the_guesses_are_told(tf2_sides, tmp_path):
    result = run_case(load_case(write_sequence(tmp_path, PORT.replace(*WRONG))), tf2_sides, ["function"])
    found = {pair[0]: pair[1] for pair in result.pairs}
    assert result.levels["function"].verdict == "different"
    assert (found["w3"], found["w4"]) == ("body.2.weight", "body.4.weight")
    assert any("no numbers agree with it" in note for note in result.notes)


TWO_NORMS = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    h = tf.layers.flatten(x)
    for name in ("p", "q"):
        with tf.variable_scope(name):
            h = tf.nn.tanh(tf.layers.batch_normalization(tf.layers.dense(h, 8), training=True))
    return tf.reduce_mean(tf.square(h - y))
"""
NORMS_OF_PORT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.behind = nn.BatchNorm1d(8, eps=1e-3, momentum=0.01)  # not in the order in which they are called
        self.front = nn.BatchNorm1d(8, eps=1e-3, momentum=0.01)
        self.one, self.two = nn.Linear(72, 8), nn.Linear(8, 8)

    def forward(self, x):
        h = torch.tanh(self.front(self.one(x.flatten(1))))
        return torch.tanh(self.behind(self.two(h) * 2))


def loss(model, x, y):
    return (model(x) - y).square().mean()
"""


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_what_is_in_front_of_a_bug_is_joined_by_what_it_gives_and_the_bug_is_found_where_it_is(tmp_path):
    path = write_sequence(tmp_path, NORMS_OF_PORT)
    (tmp_path / "model_tf.py").write_text(TWO_NORMS)
    with open_sides(None) as sides:
        result = run_case(load_case(path), sides, ["function"])
    found = {pair[0]: pair[1] for pair in result.pairs}
    assert found["p/batch_normalization/gamma"] == "front.weight"
    assert result.first_difference.name.startswith("q/")


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_a_golden_trace_is_mapped_by_trial(tmp_path):
    path = write_sequence(tmp_path)
    assert main(["bless", str(path), "--out", str(tmp_path / "golden")]) == 0
    with open_sides(None, reference=False) as sides:
        result = run_case(load_case(path), sides, ["function"], golden=tmp_path / "golden")
    assert result.levels["function"].verdict == "same"
    assert not any("no numbers agree with it" in note for note in result.notes)


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_the_command_maps_a_case(tmp_path, capsys):
    assert main(["map", str(write_sequence(tmp_path))]) == 0
    out = capsys.readouterr().out
    assert '"attention/query/bias" = { to = "attention.in_proj_bias", transform = "reshape(8) | rows(0, 3)" }' in out


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_a_variable_without_a_counterpart_is_declared_and_said(tmp_path, capsys):
    path = write_sequence(tmp_path)
    tower = TOWER.replace('    k = get("w1"', '    get("old/weights", [3], x.dtype)\n    k = get("w1"')
    (tmp_path / "model_tf.py").write_text(tower)
    assert main(["map", str(path)]) == 2
    assert "left over of the reference:\n  old/weights" in capsys.readouterr().err
    path.write_text(CASE + '\n[mapping]\n"old/weights" = { to = [] }\n')
    with open_sides(None) as sides:
        result = run_case(load_case(path), sides, ["function"])
    assert result.levels["function"].verdict == "same"
    assert any(note.startswith("old/weights has no counterpart in the port") for note in result.notes)


FUSED = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    h = tf.layers.dense(tf.layers.flatten(x), 8, tf.tanh, name="in")
    for name in ("one", "two"):
        with tf.variable_scope(name):
            value, gate = tf.layers.dense(h, 8, name="value"), tf.layers.dense(h, 8, tf.sigmoid, name="gate")
            h = h + value * gate
    return tf.reduce_mean(tf.square(tf.layers.dense(h, 8, name="out") - y))
"""
FUSED_PORT = """
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(72, 8), nn.Linear(8, 8)
        self.gates = nn.ModuleList(nn.Linear(8, 16) for _ in range(2))

    def forward(self, x):
        h = torch.tanh(self.first(x.flatten(1)))
        for gate in self.gates:
            h = h + F.glu(gate(h), dim=-1)
        return self.last(h)


def loss(model, x, y):
    return (model(x) - y).square().mean()
"""


def test_layers_that_a_port_computes_as_one_need_no_line_of_mapping(tf2_sides, tmp_path):
    path = write_sequence(tmp_path, FUSED_PORT)
    (tmp_path / "model_tf.py").write_text(FUSED)
    result = run_case(load_case(path), tf2_sides, ["function"])
    assert result.levels["function"].verdict == "same", result.levels["function"].reason
    found = {pair[0]: pair[1:3] for pair in result.pairs}
    assert found["two/gate/kernel"] == ("gates.1.weight", "transpose | rows(1, 2)")
    assert found["one/value/bias"] == ("gates.0.bias", "rows(0, 2)")


def test_outputs_tell_a_forget_bias_where_all_gradients_are_off(tf2_sides, tmp_path):
    """A cell without forget bias, and a loss that is off: no gradient agrees under any of the biases that there are."""
    folder = shutil.copytree(EXAMPLES / "text_lstm", tmp_path / "text_lstm")
    for name, before, after in (
        ("model_tf.py", "forget_bias=1.0", "forget_bias=0.0"),
        ("model_torch.py", "forget_bias[16:32] = 1.0", "forget_bias[16:32] = 0.0"),
        ("model_torch.py", ").sum() / weights.sum()", ").sum() / 3"),
    ):
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (folder / name).write_text(text.replace(before, after), encoding="utf-8")
    result = run_case(load_case(folder, steps=1), tf2_sides, ("function",))
    assert result.first_difference.check.key == "loss/0"


ATTENDING = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    h = tf.reshape(tf.layers.dense(tf.layers.flatten(x), 64, name="in"), [-1, 4, 4, 4])
    first = tf.layers.conv2d(h, 4, 1, name="first", use_bias=False)
    second = tf.layers.conv2d(h, 4, 1, name="second", use_bias=False)
    scores = tf.matmul(tf.reshape(second, [-1, 16, 4]), tf.reshape(first, [-1, 16, 4]), transpose_b=True)
    mixed = tf.matmul(tf.nn.softmax(scores), tf.reshape(h, [-1, 16, 4]))
    decay = sum(tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.name.startswith(("in/", "first/", "second/")))
    return tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.flatten(mixed), 8, name="out") - y)) + 0.01 * decay
"""
ATTENDING_PORT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(72, 64), nn.Linear(64, 8)
        self.query, self.key = (nn.Conv2d(4, 4, 1, bias=False) for _ in range(2))

    def forward(self, x):
        h = self.enter(x.flatten(1)).unflatten(1, (4, 4, 4))
        scores = self.query(h).flatten(2).transpose(1, 2) @ self.key(h).flatten(2)
        mixed = torch.softmax(scores, -1) @ h.flatten(2).transpose(1, 2)
        kernels = (p for layer in (self.enter, self.query, self.key) for p in layer.parameters())
        return self.leave(mixed.flatten(1).detach()), 0.01 * sum(p.square().sum() for p in kernels) / 2


def loss(model, x, y):
    out, decay = model(x)
    return (out - y).square().mean() + decay
"""


def test_layers_behind_a_map_in_another_layout_are_told_apart_though_no_gradient_reaches_them(tf2_sides, tmp_path):
    path = write_sequence(tmp_path, ATTENDING_PORT)
    (tmp_path / "model_tf.py").write_text(ATTENDING)
    result = run_case(load_case(path), tf2_sides, ["function"])
    found = {pair[0]: pair[1] for pair in result.pairs}
    assert (found["first/kernel"], found["second/kernel"]) == ("key.weight", "query.weight")
    assert result.first_difference.check.key == "tower_grad/0/second/kernel"
