"""Outputs that no loss hangs on, as predictions: where they part is looked for in what leads to them."""

from support.tiny_case import CASE, write_texts

from parity.case import load_case
from parity.experiment import run_case

DATA = """
import numpy as np


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        yield {"x": random.standard_normal((batch_size, 4)).astype("float32"),
               "y": random.standard_normal((batch_size, 3)).astype("float32")}
"""
TOWER = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    logits = tf.layers.dense(x, 3, name="dense")
    return tf.reduce_mean(tf.square(logits - y)), {"shares": tf.nn.softmax(logits / 0.4)}
"""
PORT = """
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(4, 3)

    def forward(self, x):
        return self.dense(x)


def loss(model, x, y):
    logits = model(x)
    return (logits - y).square().mean(), {"shares": (logits * 0.4).softmax(1)}
"""


def test_a_prediction_is_placed_and_named_where_it_is_made(tf2_sides, tmp_path):
    write_texts(tmp_path, CASE, DATA, TOWER, PORT)
    level = run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"]).levels["function"]
    first = level.first_difference
    assert first.check.key == "act/0/shares"
    assert first.where.startswith("behind all layers, in shares: tower_0/truediv (RealDiv)")
    assert [each.name for each in level.causes] == ["scale"]
    assert "(logits * 0.4).softmax(1)" in first.lines[1].text and "tf.nn.softmax(logits / 0.4)" in first.lines[0].text
