import inspect

import pytest
import torch

from torch_ddp import like_tf
from torch_ddp.like_tf.arguments import accepted_names, also_named

IMAGE, ONE, SOME = torch.ones(1, 2, 5, 5), torch.full((2,), 0.5), [torch.ones(3)]
KERNEL = torch.ones(2, 2, 3, 3)
# What is called, with torch's names and with TensorFlow's.
BOTH = {
    "conv": (lambda **names: like_tf.conv(IMAGE, KERNEL, **names), {"stride": 2}, {"strides": 2}),
    "conv, dilation": (lambda **names: like_tf.conv(IMAGE, KERNEL, **names), {"dilation": 2}, {"dilations": 2}),
    "conv2d_transpose": (
        lambda **names: like_tf.conv2d_transpose(IMAGE, KERNEL, **names),
        {"stride": 2},
        {"strides": 2},
    ),
    "max_pool": (
        lambda **names: like_tf.max_pool(IMAGE, **names),
        {"kernel_size": 2, "stride": 1},
        {"ksize": 2, "strides": 1},
    ),
    "avg_pool": (lambda **names: like_tf.avg_pool(IMAGE, **names), {"kernel_size": 3}, {"ksize": 3}),
    "layer_norm": (lambda **names: like_tf.layer_norm(IMAGE, **names), {"eps": 0.1}, {"epsilon": 0.1}),
    "l2_normalize": (
        lambda **names: like_tf.l2_normalize(ONE, **names),
        {"dim": 0, "eps": 4.0},
        {"axis": 0, "epsilon": 4.0},
    ),
    "log_loss": (lambda **names: like_tf.log_loss(ONE, ONE, **names), {"eps": 0.1}, {"epsilon": 0.1}),
    "cosine_distance": (lambda **names: like_tf.cosine_distance(ONE, ONE, **names), {"dim": 0}, {"axis": 0}),
    "dropout": (
        lambda **names: like_tf.dropout(ONE, mask=torch.tensor([1.0, 0.0]), **names),
        {"p": 0.25},
        {"rate": 0.25},
    ),
    "clip_by_norm": (
        lambda **names: like_tf.clip_by_norm(ONE, **names),
        {"max_norm": 0.1, "dim": 0},
        {"clip_norm": 0.1, "axes": 0},
    ),
    "clip_by_value": (
        lambda **names: like_tf.clip_by_value(ONE, **names),
        {"min": 0.0, "max": 0.2},
        {"clip_value_min": 0.0, "clip_value_max": 0.2},
    ),
    "clip_by_global_norm": (
        lambda **names: like_tf.clip_by_global_norm(SOME, **names)[0][0],
        {"max_norm": 0.1},
        {"clip_norm": 0.1},
    ),
    "truncated_normal_": (
        lambda **names: like_tf.truncated_normal_(torch.empty(3), generator_seed() or 0.0, **names),
        {"std": 0.1},
        {"stddev": 0.1},
    ),
}
LAYERS = {
    "Conv2d": (
        {"out_channels": 3, "kernel_size": 2, "stride": 2, "dilation": 1, "bias": False},
        {"filters": 3, "kernel_size": 2, "strides": 2, "dilation_rate": 1, "use_bias": False},
    ),
    "ConvTranspose2d": (
        {"out_channels": 3, "kernel_size": 2, "stride": 2, "bias": False},
        {"filters": 3, "kernel_size": 2, "strides": 2, "use_bias": False},
    ),
    "LSTMCell": ({"hidden_size": 3, "proj_size": 2}, {"num_units": 3, "num_proj": 2}),
    "GRUCell": ({"hidden_size": 3}, {"num_units": 3}),
    "BasicRNNCell": ({"hidden_size": 3}, {"num_units": 3}),
    "Embedding": ({"embedding_dim": 3}, {"output_dim": 3}),
    "BatchNorm2d": ({"eps": 0.5}, {"epsilon": 0.5}),
}


def generator_seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", BOTH)
def test_a_function_takes_torchs_names_and_tensorflows(name):
    call, torchs, tensorflows = BOTH[name]
    assert torch.equal(call(**torchs), call(**tensorflows))
    assert not torch.equal(call(**torchs), IMAGE if "pool" in name else ONE)
    further = next(b for a, b in zip(torchs, tensorflows, strict=True) if a != b)
    with pytest.raises(like_tf.LikeTfError, match=r"expected one of \w+ and \w+, got both"):
        call(**torchs, **{further: tensorflows[further]})


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_takes_torchs_names_and_tensorflows(name):
    made = []
    for names in LAYERS[name]:
        torch.manual_seed(0)
        made.append(getattr(like_tf, name)(2, **names))
    assert str(made[0]) == str(made[1])
    first, second = (layer.state_dict() for layer in made)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_pools_and_dropout_take_both_names_too():
    assert torch.equal(like_tf.MaxPool2d(pool_size=2, strides=1)(IMAGE), like_tf.MaxPool2d(2, stride=1)(IMAGE))
    assert like_tf.Dropout(rate=0.25).rate == like_tf.Dropout(p=0.25).rate == 0.25


def test_the_signature_is_the_functions_own_and_positions_stay():
    assert list(inspect.signature(like_tf.Adam.__init__).parameters)[1:6] == ["params", "lr", "beta1", "beta2", "eps"]
    assert list(inspect.signature(like_tf.l2_normalize).parameters) == ["x", "dim", "eps"]


def test_what_a_function_accepts_has_further_names_in_it():
    accepted = accepted_names(like_tf.Momentum.__init__)
    assert {"lr", "learning_rate", "nesterov", "use_nesterov", "momentum"} <= accepted
    assert "decay" not in accepted
    assert accepted_names(lambda a, b=1: a) == {"a", "b"}


def test_a_further_name_of_no_argument_is_a_mistake_of_ours():
    with pytest.raises(AssertionError, match=r"f has no arguments \['c'\]"):

        @also_named(b="c")
        def f(a):
            return a
