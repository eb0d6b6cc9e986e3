"""Batch norm over all towers against batch norm over all ranks: levels 1 and 2, inference, and what a port lacks."""

import pytest
from support.tiers import few
from test_tower_choices import case_of, explain, judged

from parity.experiment import run_case

SYNC = {"batch_norm": "synchronised"}
FREE = {"sync_batch_norm": False, "model": "model_torch:converted"}


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def sides(request):
    return request.getfixturevalue(f"{request.param}_sides")


@pytest.mark.both_tensorflows
def test_synchronised_towers_are_the_same_as_synchronised_ranks_at_both_levels(sides):
    result = run_case(case_of("joined", SYNC), sides)
    assert result.verdict == "same", explain(result)
    assert result.reference["synchronised"] == ["norm1/moments", "norm2/moments"]
    every_kind = {"act/1/first", "tower_grad/1/first/kernel", "grad/first/kernel", "stat/norm2/moving_variance"}
    assert every_kind | {"eval/loss", "eval/second", "eval/ema/loss"} <= judged(result)


CHOICES = {
    "summed": ({}, {}, {"combine": "sum"}),
    "one mean of the losses": ({"reduce": "mean_of_losses"}, {}, {}),
    "uneven": ({"uneven": "sizes"}, {}, {"towers": 3, "batch_size": 11}),
    "padded": ({"uneven": "pad"}, {}, {"towers": 3, "batch_size": 11}),
    "replicated": ({"variables": "replicated"}, {}, {}),
    "converted by the port itself": ({}, FREE, {}),
}
OPTIMIZERS = {
    "accumulated": {"name": "sgd", "learning_rate": 0.05, "accumulate": 2},
    "clipped in the towers": {
        "name": "sgd",
        "learning_rate": 0.05,
        "clip": {"by": "global_norm", "limit": 0.05, "at": "tower"},
    },
    "scaled": {"name": "adam", "loss_scale": {"initial": 64.0}, "weight_decay": {"coefficient": 0.01}},
}


@pytest.mark.slow
@pytest.mark.thinned(1)  # tf_towers/test_synchronised_batch_norm.py has them on both
@pytest.mark.parametrize("choice", CHOICES)
def test_synchronised_towers_are_the_same_whatever_else_is_chosen(sides, choice):
    tf, torch, others = CHOICES[choice]
    result = run_case(case_of("joined", {**SYNC, **tf}, torch=torch, **others), sides, levels=("function",))
    assert result.verdict == "same", explain(result)
    assert {"tower_grad/1/first/kernel", "eval/loss"} <= judged(result)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("optimizer", few(OPTIMIZERS))
def test_synchronised_towers_are_the_same_whatever_becomes_of_their_gradients(sides, optimizer):
    result = run_case(case_of("joined", SYNC, OPTIMIZERS[optimizer]), sides, levels=("function",))
    assert result.verdict == "same", explain(result)


def test_a_port_without_synchronised_batch_norm_is_named(sides):
    result = run_case(case_of("joined", SYNC, torch={"sync_batch_norm": False}), sides, levels=("function",))
    assert result.first_difference.check.key == "act/0/first"
    assert result.causes[0].name == "sync_batch_norm"
    assert "the graph normalises over the whole batch, the other side over each of the 2 shards" in (
        result.causes[0].title
    )
    assert "torch_ddp.parallel.convert_syncbn_model" in result.causes[0].fix


def test_a_port_whose_statistics_move_by_another_decay_is_named_without_trying_other_towers(tf2_sides):
    case = case_of("joined", SYNC, torch={"model": "model_torch:slower"}, steps=2)
    result = run_case(case, tf2_sides, levels=("function",))
    assert result.first_difference.quantity == "stat"
    assert result.causes[0].name == "batch_norm_momentum"
