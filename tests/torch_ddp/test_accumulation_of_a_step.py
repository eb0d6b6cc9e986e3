"""Gradients that accumulate over micro-batches; tests/tf_towers/test_accumulate.py asks the same of the towers."""

import numpy as np
import pytest
import torch
from torch import nn

from torch_ddp import Rank, Stepper, TorchDdpError, Update, like_tf, process_group

RANDOM = np.random.default_rng(0)
BATCH = {"x": RANDOM.normal(size=(12, 3)), "y": RANDOM.normal(size=(12, 2))}


def squared_error(model, x, y):
    out = model(x)
    return ((out - y) ** 2).mean(), {"out": out, "bias": out.mean()}


def trained(rank, accumulate, norm=False):
    torch.manual_seed(0)
    layers = [nn.BatchNorm1d(3, momentum=0.5)] if norm else []
    model = nn.Sequential(*layers, nn.Linear(3, 2)).double()
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.9)
    stepper = Stepper(
        model, squared_error, optimizer, rank, update=Update(model, optimizer, {"accumulate": accumulate})
    )
    recorded = stepper.step(BATCH)
    return recorded, stepper.state()


def test_the_mean_over_micro_batches_is_the_gradient_of_the_whole_shard(two_ranks):
    (whole, whole_state), _ = two_ranks.run(trained, None)
    (parts, state), (others, _) = two_ranks.run(trained, {"steps": 3})
    assert others is None
    towers = sorted(name.split("/")[1] for name in parts if name.startswith("loss/"))
    assert towers == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]
    for name in ("grad/0.weight", "grad/0.bias"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-13)
    np.testing.assert_allclose(state["var/0.weight"], whole_state["var/0.weight"], rtol=1e-13)
    np.testing.assert_array_equal(np.concatenate([parts[f"feed/1.{micro}/x"] for micro in range(3)]), BATCH["x"][6:])
    np.testing.assert_allclose(parts["metric/bias"], whole["metric/bias"], rtol=1e-13)


def test_the_gradient_of_a_micro_batch_is_its_own_and_not_what_has_accumulated(two_ranks):
    (parts, _), _ = two_ranks.run(trained, {"steps": 3, "reduce": "sum"})
    own = [[parts[f"tower_grad/{rank}.{micro}/0.weight"] for micro in range(3)] for rank in range(2)]
    np.testing.assert_allclose(parts["grad/0.weight"], (sum(own[0]) + sum(own[1])) / 2, rtol=1e-14)
    residual = parts["act/0.1/out"] - parts["feed/0.1/y"]
    np.testing.assert_allclose(own[0][1], residual.T @ parts["feed/0.1/x"] * 2 / residual.size, rtol=1e-13)


def test_the_first_ranks_statistics_move_with_every_micro_batch(two_ranks):
    (parts, state), _ = two_ranks.run(trained, {"steps": 2}, True)
    moving = np.zeros(3)
    for micro in range(2):
        moving = moving / 2 + parts[f"feed/0.{micro}/x"].mean(0) / 2
    np.testing.assert_allclose(state["stat/0.running_mean"], moving, rtol=1e-13)


def test_one_micro_batch_is_the_whole_shard_under_another_name(two_ranks):
    (whole, _), _ = two_ranks.run(trained, None)
    (one, _), _ = two_ranks.run(trained, {"steps": 1})
    for name, value in whole.items():
        renamed = (
            name.replace("/0/", "/0.0/")
            .replace("/1/", "/1.0/")
            .replace("loss/0", "loss/0.0")
            .replace("loss/1", "loss/1.0")
        )
        np.testing.assert_array_equal(one[renamed], value, err_msg=name)


def test_a_shard_that_does_not_divide_is_refused(tmp_path):
    alone = process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri())
    with alone as rank, pytest.raises(TorchDdpError) as caught:
        trained(rank, {"steps": 5})
    assert str(caught.value) == (
        "shard: expected the batch of 'x' to be divisible by 5 micro-batches, got 12. Use 10 or 15 examples."
    )
