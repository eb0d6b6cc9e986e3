"""Ports as they are written for float32: constants and first states that they make without a dtype."""

import pytest
from support.tiny_case import CASE, write_texts

from parity.case import load_case
from parity.experiment import run_case

DATA = """
import numpy as np


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        yield {"x": random.standard_normal((batch_size, 5, 4)).astype("float32"),
               "y": random.standard_normal((batch_size, 3)).astype("float32")}
"""
TOWER = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    x = (x - 0.3) / 1.7
    kernel, bias = tf.get_variable("kernel", [7, 3], x.dtype), tf.get_variable("bias", [3], x.dtype)
    h = tf.zeros([tf.shape(x)[0], 3], x.dtype)
    for t in range(5):
        h = tf.tanh(tf.matmul(tf.concat([x[:, t], h], 1), kernel) + bias)
    return 0.1 * tf.reduce_mean(tf.square(h - y))
"""
# A constant of the module, a buffer, a tensor that is none, and the state that a loop begins with.
PORT = """
import torch
from torch import nn

SCALE = torch.tensor(0.1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(7, 3)
        self.register_buffer("mean", torch.tensor([0.3] * 4))
        self.std = torch.tensor(1.7)

    def forward(self, x):
        x, h = (x - self.mean) / self.std, torch.zeros(len(x), 3)
        for t in range(x.shape[1]):
            h = torch.tanh(self.cell(torch.cat([x[:, t], h], dim=1)))
        return h


def loss(model, x, y):
    return SCALE * (model(x) - y).square().mean()
"""


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("", "", "same"),
        ("torch.tensor(0.1)", "torch.tensor(0.1 + 1e-8)", "different"),
        ("torch.tensor([0.3] * 4)", "torch.tensor([0.3] * 4).half()", "different"),
    ],
)
def test_what_a_port_makes_without_a_dtype_is_as_exact_as_the_run(tf2_sides, tmp_path, before, after, verdict):
    write_texts(tmp_path, CASE, DATA, TOWER, PORT.replace(before, after))
    result = run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function", "float32"])
    assert result.levels["function"].verdict == verdict, result.first_difference
    # Half a unit of float32 is all that is wrong with the scale: single precision cannot tell.
    assert result.levels["float32"].verdict == ("different" if "half" in after else "same")


CASTS = (
    ("x - self.mean", "x.float().type_as(x) - self.mean.to(torch.float32).type_as(x)"),
    ("torch.zeros(len(x), 3)", "torch.zeros(len(x), 3, dtype=torch.float32).type_as(x)"),
)
# Of two dtypes, in a run in float64, torch makes no loss and no product.
MIXED = (
    ("x - self.mean", "x.float() - self.mean.to(torch.float32)"),
    ("torch.zeros(len(x), 3)", "torch.zeros(len(x), 3, dtype=torch.float32)"),
    ("(model(x) - y).square().mean()", "torch.nn.functional.mse_loss(model(x), y.to(torch.float32))"),
)


@pytest.mark.parametrize(
    ("precision", "changes", "verdict"), [("float32", MIXED, "same"), ("float64", CASTS, "different")]
)
def test_float32_that_a_port_names_is_the_precision_that_both_train_in(
    tf2_sides, tmp_path, precision, changes, verdict
):
    port = PORT
    for before, after in changes:
        assert port.count(before) == 1
        port = port.replace(before, after)
    write_texts(tmp_path, f'precision = "{precision}"\n{CASE}', DATA, TOWER, port)
    result = run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"])
    assert result.levels["function"].verdict == verdict, result.first_difference
