"""Towers whose loss is one of tf.losses, which computes in float32 whatever it is fed; and recurrent ones, which do not."""

import shutil
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import run_case

EXAMPLES = Path(__file__).parents[2] / "examples"
CASE = """
name = "weighted"
steps = 2
batch_size = 12
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
    draw = np.random.RandomState(seed)
    for _ in range(steps):
        yield {"x": draw.randn(batch_size, 3).astype("float32"), "y": draw.randn(batch_size, 2).astype("float32")}
"""
TF = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    kernel = tf.get_variable("dense/kernel", [3, 2], x.dtype)
    bias = tf.get_variable("dense/bias", [2], x.dtype, tf.zeros_initializer())
    of_each = tf.reduce_sum(tf.square(tf.matmul(x, kernel) + bias - y), 1)
    return tf.losses.compute_weighted_loss(of_each)
"""
TORCH = """
from torch import nn

from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(3, 2)

    def forward(self, x):
        return self.dense(x)


def loss(model, x, y):
    return like_tf.compute_weighted_loss((model(x) - y).square().sum(1) * SCALE)
"""


@pytest.fixture
def case(tmp_path):
    """Returns a case whose port multiplies the loss of each example by a number."""

    def made(scale):
        folder = tmp_path / f"case{scale}"
        folder.mkdir()
        (folder / "case.toml").write_text(CASE.lstrip())
        (folder / "data.py").write_text(DATA.lstrip())
        (folder / "model_tf.py").write_text(TF.lstrip())
        (folder / "model_torch.py").write_text(TORCH.lstrip().replace("SCALE", str(scale)))
        return load_case(folder)

    return made


def test_a_right_port_is_the_same_and_the_report_says_where_the_graph_is_float32(tf2_sides, case):
    result = run_case(case(1.0), tf2_sides)
    assert result.verdict == "same", result.first_difference
    (note,) = [note for note in result.levels["function"].notes if "float32 though it is fed float64" in note]
    assert "model_tf.py:8: " in note


def test_a_loss_off_by_a_thousandth_is_still_found(tf2_sides, case):
    result = run_case(case(1.001), tf2_sides, levels=["function"])
    assert result.verdict == "different"
    assert result.first_difference.quantity == "loss"
    assert [(cause.name, cause.title) for cause in result.causes] == [
        ("gradient_factor", "the loss is off by the factor 1.001")
    ]


def test_a_sum_over_examples_is_named_though_the_graph_computes_its_mean_in_float32(tf2_sides, case):
    result = run_case(case(6.0), tf2_sides, levels=["function"])
    assert [cause.name for cause in result.causes] == ["loss_reduction"]


def test_a_loss_off_by_less_than_float32_sees_is_found_in_its_gradient(tf2_sides, case):
    result = run_case(case(1.00000001), tf2_sides, levels=["function"])
    assert result.verdict == "different"
    assert result.first_difference.quantity == "tower_grad"


OFFSET = """
import model_torch


def loss(model, **inputs):
    found, outputs = model_torch.loss(model, **inputs)
    return found + 3e-7, outputs
"""


@pytest.mark.parametrize("sides", ["tf2_sides", pytest.param("tf1_sides", marks=pytest.mark.tf1)])
def test_a_recurrent_tower_s_loss_is_judged_in_float64(request, sides, tmp_path):
    shutil.copy(EXAMPLES / "text_lstm" / "text.py", tmp_path)
    shutil.copytree(EXAMPLES / "text_lstm", tmp_path / "case", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "case" / "offset.py").write_text(OFFSET.lstrip())
    case = load_case(tmp_path / "case", steps=1, batch_size=4)
    changed = case.model_copy(update={"torch": case.torch.model_copy(update={"loss": "offset:loss"})})
    result = run_case(changed, request.getfixturevalue(sides), levels=["function"])
    assert result.verdict == "different"
    assert result.first_difference.check.key == "loss/0"
