"""A step of the port's own may show no gradient; what they are to decide of the mapping a step of ours shows."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny_case import CASE, write_texts

from parity.case import load_case
from parity.experiment import run_case
from parity.experiment.mapping import by_numbers

DATA = """
import numpy as np


def batches(steps, batch_size, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        yield {"x": random.standard_normal((batch_size, 4, 4, 2)).astype("float32"),
               "y": random.standard_normal((batch_size, 3)).astype("float32")}
"""
TOWER = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    h = tf.nn.relu(tf.layers.conv2d(x, 3, 3, name="conv"))
    return tf.reduce_mean(tf.square(tf.layers.dense(tf.reshape(h, [-1, 12]), 3, name="dense") - y))
"""
# It flattens as the graph does, which no name and no shape says.
PORT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.dense = nn.Linear(12, 3)

    def forward(self, x):
        return self.dense(F.relu(self.conv(x.permute(0, 3, 1, 2))).permute(0, 2, 3, 1).flatten(1))


def loss(model, x, y):
    return (model(x) - y).square().mean()


def step(model, optimizer, scheduler, x, y):
    optimizer.zero_grad()
    with model.no_sync():
        value = loss(model, x, y)
        value.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
    return value


def optimizer(model):
    return torch.optim.SGD(model.parameters(), 0.1)
"""


def test_a_flattened_map_is_laid_out_by_gradients_that_the_ports_step_does_not_show(tf2_sides, tmp_path):
    case = CASE.replace("[torch]", '[torch]\nstep = "model_torch:step"\noptimizer = "model_torch:optimizer"')
    write_texts(tmp_path, case, DATA, TOWER, PORT)
    result = run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"])
    assert result.verdict == "same", result.levels["function"].first_difference
    assert ("dense/kernel", "dense.weight", "transpose") in [pair[:3] for pair in result.pairs]
    assert not [note for note in result.notes if "no numbers agree" in note]


def step_of(**tensors):
    """What a run of one step left."""
    made = {name.replace("_", "/"): value for name, value in tensors.items()}
    file = SimpleNamespace(
        keys=lambda quantity: [name for name in made if name.startswith(quantity)], names=made.keys, read=made.get
    )
    return SimpleNamespace(step=lambda number: file)


@pytest.mark.parametrize(
    ("shown", "moved"),
    [({"grad_w": 1.0, "stat_m": 2.0}, {"w": 1.0, "m": 2.0}), ({"stat_m": 2.0}, {"w": 3.0}), ({}, {"w": 3.0})],
)
def test_a_step_of_ours_is_made_only_where_the_ports_shows_no_gradient(tmp_path, shown, moved):
    candidate = SimpleNamespace(
        run=lambda asked: SimpleNamespace(result=lambda: step_of(**shown)),
        run_without_step=lambda asked: step_of(grad_w=3.0),
    )
    ready = SimpleNamespace(
        candidate=candidate,
        joined=lambda mapping: SimpleNamespace(write_all=lambda state: state),
        out=tmp_path,
        feeds=SimpleNamespace(torch=tmp_path),
    )
    draft = SimpleNamespace(mapping=lambda: None)
    assert by_numbers._moved_by_candidate(draft, ready, {"var/w": np.zeros(2)}) == moved
