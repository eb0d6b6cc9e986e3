"""A tower that is fed integers alone cannot follow the dtype of its inputs, and must not pass level 1 in float32."""

from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import run_case
from parity.worker.failures import SideFailed

CASE = """
name = "integers"
steps = 2
batch_size = 4
towers = 2
combine = "mean"
batches = "data:batches"

[optimizer]
name = "sgd"
learning_rate = 0.1

[tf]
tower = "model_tf:tower"

[torch]
model = "model_torch:Model"
loss = "model_torch:loss"
"""
DATA = """
import numpy as np


def batches(steps, batch_size, seed):
    for _ in range(steps):
        yield {"words": np.arange(batch_size, dtype=np.int32)}
"""
TOWER = """
import tensorflow.compat.v1 as tf


def tower(words):
    table = tf.get_variable("table", [8, 3], tf.float32, tf.ones_initializer())
    return tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, words)))
"""
PORT = """
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 3)

    def forward(self, words):
        return self.table(words)


def loss(model, words):
    return model(words).square().mean()
"""


def test_a_tower_that_stays_in_float32_is_refused_in_one_line(tf2_sides, tmp_path):
    for name, text in (("case.toml", CASE), ("data.py", DATA), ("model_tf.py", TOWER), ("model_torch.py", PORT)):
        (tmp_path / name).write_text(text)
    with pytest.raises(SideFailed) as caught:
        run_case(load_case(tmp_path), tf2_sides)
    assert "expected the variable table to be float64 in the float64 run, got float32." in str(caught.value)
    assert "feed it one more, e.g. example weights of 1" in str(caught.value)


def test_sides_that_refused_a_case_serve_the_next_one(tf2_sides):
    assert run_case(load_case(Path(__file__).parents[1] / "cases" / "square"), tf2_sides).verdict == "same"
