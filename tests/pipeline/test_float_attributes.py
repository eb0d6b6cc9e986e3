"""Towers with float attributes, written idiomatically on both sides: right ports are the same, another value is found."""

import pytest
from support.made_sides import CASE as MADE

from parity.case import load_case
from parity.experiment import run_case

CASE = (
    MADE.replace("steps = 4", "steps = 2")
    + """
[mapping]
"norm/gamma" = "norm.weight"
"norm/beta" = "norm.bias"
"norm/moving_mean" = "norm.running_mean"
"norm/moving_variance" = "norm.running_var"
"""
)
DATA = """
import numpy as np


def batches(steps, batch_size, seed):
    draw = np.random.RandomState(seed)
    for _ in range(steps):
        yield {"images": 0.01 * draw.randn(batch_size, 4, 4, 3).astype("float32")}
"""
TF = """
import tensorflow.compat.v1 as tf


def tower(images, training=True):
    scale = tf.get_variable("scale", [3], images.dtype, tf.ones_initializer())
    normal = tf.layers.batch_normalization(images * scale, epsilon=1e-5, training=training, name="norm")
    x = tf.nn.leaky_relu(normal, alpha=0.2)
    return tf.reduce_mean(tf.square(x - 0.5)), {"normal": normal, "x": x}
"""
TORCH = """
import torch
from torch import nn
from torch.nn import functional as F

from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.norm = NORM

    def forward(self, images):
        normal = self.norm((images * self.scale).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return normal, F.leaky_relu(normal, SLOPE)


def loss(model, images):
    normal, x = model(images)
    return (x - 0.5).square().mean(), {"normal": normal, "x": x}
"""
PLAIN = "nn.BatchNorm2d(3, eps=1e-5, momentum=0.01)"
LIKE_2 = "like_tf.BatchNorm2d(3, eps=1e-5, fused_epsilon_floor=0.0)"
LIKE_1 = "like_tf.BatchNorm2d(3, eps=1e-5)"
TF1 = pytest.mark.tf1


@pytest.fixture
def case(tmp_path):
    """Returns a function that makes the case of a port with a norm and a slope."""

    def make(norm, slope=0.2):
        port = TORCH.lstrip().replace("NORM", norm).replace("SLOPE", str(slope))
        for name, text in {"case.toml": CASE, "data.py": DATA, "model_tf.py": TF, "model_torch.py": port}.items():
            (tmp_path / name).write_text(text.lstrip())
        return load_case(tmp_path)

    return make


@pytest.mark.parametrize(
    ("sides", "norm", "rounded"),
    [
        ("tf2_sides", PLAIN, True),
        ("tf2_sides", LIKE_2, False),
        pytest.param("tf1_sides", LIKE_1, False, marks=TF1),
    ],
)
def test_a_right_port_is_the_same(request, case, sides, norm, rounded):
    result = run_case(case(norm), request.getfixturevalue(sides))
    assert result.verdict == "same", result.first_difference
    notes = [note for note in result.levels["function"].notes if note.startswith("up to float32 hyper-parameters")]
    assert len(notes) == rounded
    assert not any("computes in float32" in note for note in result.levels["function"].notes)


@pytest.mark.parametrize(
    ("sides", "norm", "slope", "first", "cause"),
    [
        ("tf2_sides", LIKE_2, 0.20000000298, "act/0/x", ""),
        ("tf2_sides", LIKE_1, 0.2, "act/0/normal", "epsilon"),
        ("tf2_sides", "nn.BatchNorm2d(3, eps=1e-5, momentum=0.010001)", 0.2, "stat/norm/moving_mean", ""),
        pytest.param("tf1_sides", PLAIN, 0.2, "act/0/normal", "epsilon", marks=TF1),
    ],
)
def test_another_attribute_is_different(request, case, sides, norm, slope, first, cause):
    result = run_case(case(norm, slope), request.getfixturevalue(sides), levels=["function"])
    assert (result.verdict, result.first_difference.check.key) == ("different", first)
    assert not cause or result.causes[0].name == cause
