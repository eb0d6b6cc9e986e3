"""Ports that DistributedDataParallel ends: for a parameter that no loss reaches, or a part that a loss calls by itself."""

import pytest
from support.tiny_case import CASE, TORCH, write_texts

from parity.case import load_case
from parity.experiment import open_sides, run_case
from parity.worker.failures import SideFailed
from parity.worker.process import fail_together

TF = """
import tensorflow.compat.v1 as tf


def tower(x, y):
    h = tf.tanh(tf.layers.dense(x, 3, name="first"))
    return tf.reduce_mean(tf.square(tf.layers.dense(h, 2, name="second") - y))
"""
PORT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def loss(model, x, y):
    return (model(x) - y).square().mean()
"""


def what_is_wrong(folder, sides):
    write_texts(folder, tf=TF, torch=PORT.replace("torch.tanh(self.first(x))", "torch.tanh(x)"))
    result = run_case(load_case(folder / "case.toml"), sides, ["function"])
    assert result.verdict == "different"
    assert result.first_difference.name == "first" and "in the layer first" in result.first_difference.where
    assert result.notes[-1].startswith("DistributedDataParallel ends this port in its second step")


def test_what_is_wrong_with_it_is_found_all_the_same(tf2_sides, tmp_path):
    what_is_wrong(tmp_path, tf2_sides)


def test_what_is_wrong_with_it_is_found_where_the_other_side_is_left_in_the_middle_of_an_answer(tmp_path):
    with open_sides(None) as sides:
        fail_together(*sides.started)  # as `parity run` has it
        what_is_wrong(tmp_path, sides)


def test_where_nothing_else_is_wrong_it_is_said_as_it_is_and_so_it_is_with_a_folder_of_traces(tf2_sides, tmp_path):
    unused = TORCH.replace("self.dense = nn.Linear(3, 2)", "self.dense, self.bias = nn.Linear(3, 2), nn.Linear(1, 1)")
    case = load_case(write_texts(tmp_path, torch=unused))
    for out in (None, tmp_path / "out"):
        with pytest.raises(SideFailed, match="Expected to have finished reduction"):
            run_case(case, tf2_sides, ["function"], out)
        tf2_sides.catch_up()


@pytest.mark.parametrize(
    ("tanh", "verdict"),
    [("torch.tanh", "same"), ("torch.sigmoid", "different"), ("torch.no_grad()(torch.tanh)", "different")],
)
def test_parts_of_a_model_that_a_loss_calls_by_themselves_are_combined_by_hand(tf2_sides, tmp_path, tanh, verdict):
    called = PORT.replace("model(x)", f"model.second({tanh}(model.first(x)))")
    write_texts(tmp_path, tf=TF, torch=called)
    result = run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"])
    assert result.verdict == verdict, result.first_difference
    assert result.notes[-1].startswith("the loss calls parts of the model by themselves")
    assert result.candidate["combination"] == "tool"


def test_what_neither_wrapper_nor_model_has_is_an_error_as_before(tf2_sides, tmp_path):
    write_texts(tmp_path, tf=TF, torch=PORT.replace("model(x)", "model.third(x)"))
    with pytest.raises(SideFailed, match="object has no attribute 'third'"):
        run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"])
    tf2_sides.catch_up()


@pytest.mark.parametrize(("kept", "verdict"), [("torch.enable_grad()", "same"), ("model.no_sync()", "different")])
def test_a_loss_that_calls_the_whole_and_reads_a_part_shares_what_the_wrapper_would(tf2_sides, tmp_path, kept, verdict):
    read = PORT.replace(
        "    return (model(x)",
        f"    with {kept}:\n        made = model(x) + 0 * model.first.bias.sum()\n    return (made",
    )
    write_texts(tmp_path, tf=TF, torch=read)
    result = run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"])
    assert result.verdict == verdict, result.first_difference


def test_a_step_of_the_ports_own_has_to_do_with_the_wrapper(tf2_sides, tmp_path):
    step = "\n\ndef step(model, optimizer, scheduler, x, y):\n    model.first(x).sum().backward()\n"
    write_texts(tmp_path, CASE.replace("[torch]", '[torch]\nstep = "model_torch:step"'), tf=TF, torch=PORT + step)
    with pytest.raises(SideFailed, match="'DistributedDataParallel' object has no attribute 'first'"):
        run_case(load_case(tmp_path / "case.toml"), tf2_sides, ["function"])
    tf2_sides.catch_up()
