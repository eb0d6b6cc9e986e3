"""A tower that is fed integers alone cannot follow the dtype of its inputs, and must not pass level 1 in float32."""

from pathlib import Path

import pytest
from support.tiny_case import write_texts

from parity.case import load_case
from parity.experiment import run_case
from parity.worker.failures import SideFailed

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
    with pytest.raises(SideFailed) as caught:
        run_case(load_case(write_texts(tmp_path, data=DATA, tf=TOWER, torch=PORT)), tf2_sides)
    assert "expected the variable table to be float64 in the float64 run, got float32." in str(caught.value)
    assert "feed it one more, e.g. example weights of 1" in str(caught.value)


def test_sides_that_refused_a_case_serve_the_next_one(tf2_sides):
    assert run_case(load_case(Path(__file__).parents[1] / "cases" / "square"), tf2_sides).verdict == "same"
