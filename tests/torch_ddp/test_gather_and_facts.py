import json

import numpy as np
import torch
from support.device import on_device
from torch import nn

from torch_ddp import Rank, Stepper, describe_variables, facts, gather, like_tf, make_repeatable, ranks_agree

CPU = torch.device("cpu")
PLACE = "cuda:0" if on_device() else "cpu"


def own_arrays(rank: int) -> dict[str, np.ndarray]:
    return {
        f"only-{rank}": np.arange(3 * rank + 1, dtype=np.float64),
        "same": np.full((2, rank + 1), rank, np.int32),
        "scalar": np.array(rank, np.float32),
    }


def gathered(rank: Rank) -> list[dict[str, np.ndarray]] | None:
    return gather(own_arrays(rank.rank), rank, CPU)


def agreement(rank: Rank, differs: bool) -> bool:
    value = np.ones(3)
    if differs and rank.rank == rank.world_size - 1:
        value[1] = np.nextafter(1.0, 2.0)
    return ranks_agree({"b": np.zeros(1), "a": value}, rank, CPU)


def stated(rank: Rank) -> dict:
    make_repeatable()
    model = nn.Sequential(nn.Linear(2, 3), like_tf.BatchNorm1d(3)).double()
    optimizer = like_tf.Momentum(model.parameters(), lr=0.5, momentum=0.25)
    stepper = Stepper(model, lambda net, x: net(x).sum(), optimizer, rank, "sum")
    return facts(stepper, rank, "sum", "gloo", "float64")


def test_rank_0_gets_every_ranks_arrays_whatever_their_names_and_shapes(three_ranks):
    first, *others = three_ranks.run(gathered)
    assert others == [None, None]
    assert len(first) == 3
    for rank, arrays in enumerate(first):
        expected = own_arrays(rank)
        assert set(arrays) == set(expected)
        for name, value in expected.items():
            assert arrays[name].dtype == value.dtype
            np.testing.assert_array_equal(arrays[name], value)


def test_a_single_rank_gathers_without_a_group():
    arrays = own_arrays(0)
    assert gather(arrays, Rank(0, 0, 1), CPU) == [arrays]
    assert ranks_agree(arrays, Rank(0, 0, 1), CPU)


def test_ranks_agree_only_on_the_same_bits(three_ranks):
    assert three_ranks.run(agreement, False) == [True] * 3
    assert three_ranks.run(agreement, True) == [False] * 3


def test_the_facts_are_json_and_state_what_may_differ_on_purpose(two_ranks):
    first, second = two_ranks.run(stated)
    assert first == second == json.loads(json.dumps(first))
    assert first["side"] == "torch_ddp"
    assert first["framework"] == "torch " + torch.__version__
    assert (first["ranks"], first["combine"], first["precision"], first["backend"]) == (2, "sum", "float64", "gloo")
    assert first["optimizer"]["learning_rate"] == 0.5
    assert first["slots"] == ["momentum"]
    assert first["batch_norm_updates"] == "first"
    assert (first["threads"], first["deterministic"], first["matmul_precision"]) == (1, True, "highest")
    assert (first["cudnn_tf32"], first["device"]) == (False, PLACE)


class Mine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float16))
        self.linear = type("Subclass", (nn.Linear,), {})(2, 2)
        self.conv = like_tf.Conv2d(2, 2, 2)
        self.norm = like_tf.BatchNorm2d(2)
        self.register_buffer("mean", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))


def test_a_variable_is_described_by_what_it_is_and_whose_it_is():
    described = describe_variables(Mine())
    plain = {"placement": PLACE, "use": ""}
    assert described["scale"] == {"shape": [4], "dtype": "float16", "kind": "weight", **plain}
    assert described["mean"] == {"shape": [2], "dtype": "float64", "kind": "statistic", **plain}
    assert "count" not in described


def test_a_layer_that_is_torchs_or_has_its_layout_says_so_and_any_other_class_says_nothing():
    described = describe_variables(Mine())
    uses = {name: described[name]["use"] for name in ("linear.weight", "conv.weight", "norm.running_mean", "scale")}
    assert uses == {"linear.weight": "Linear", "conv.weight": "Conv2d", "norm.running_mean": "BatchNorm2d", "scale": ""}


def test_the_layers_of_like_tf_have_the_layout_of_torchs_class_of_that_name():
    for name in ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d"):
        ours, theirs = (getattr(package, name)(2, 3, 5) for package in (like_tf, nn))
        assert {key: value.shape for key, value in ours.named_parameters()} == {
            key: value.shape for key, value in theirs.named_parameters()
        }
