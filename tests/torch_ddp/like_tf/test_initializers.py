import math

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from .closeness import difference

SHAPE = (200, 40, 3, 3)  # torch's [out, in, *kernel]; TensorFlow's is [3, 3, 40, 200]
INITIALIZERS = {
    "truncated_normal": (lambda t: like_tf.truncated_normal_(t, 0.5, 0.1), "tf.truncated_normal_initializer(0.5, 0.1)"),
    "glorot_uniform": (like_tf.glorot_uniform_, "tf.glorot_uniform_initializer()"),
    "glorot_normal": (like_tf.glorot_normal_, "tf.glorot_normal_initializer()"),
    "he_normal": (like_tf.he_normal_, "tf.keras.initializers.he_normal()"),
    "he_uniform": (like_tf.he_uniform_, "tf.keras.initializers.he_uniform()"),
    "lecun_normal": (like_tf.lecun_normal_, "tf.keras.initializers.lecun_normal()"),
    "lecun_uniform": (like_tf.lecun_uniform_, "tf.keras.initializers.lecun_uniform()"),
    "fan_out": (
        lambda t: like_tf.variance_scaling_(t, 3.0, "fan_out", "untruncated_normal"),
        'tf.variance_scaling_initializer(3.0, "fan_out", "untruncated_normal")',
    ),
    "fan_in, uniform": (
        lambda t: like_tf.variance_scaling_(t, 0.5, "fan_in", "uniform"),
        'tf.variance_scaling_initializer(0.5, "fan_in", "uniform")',
    ),
}


def tf_draw(tf, np, session, make, shape):
    tf.set_random_seed(1)
    value = eval(make, {"tf": tf})(shape, dtype=tf.float64)
    with session() as opened:
        return {"value": opened.run(value)}


def _quantiles(x):
    return np.quantile(np.asarray(x, np.float64), np.linspace(0, 1, 21))


@pytest.mark.parametrize("name", INITIALIZERS)
def test_quantiles_of_seventy_thousand_draws_are_tensorflows(tf, name):
    fill, make = INITIALIZERS[name]
    want = _quantiles(tf(tf_draw, make=make, shape=[3, 3, 40, 200])["value"].ravel())
    torch.manual_seed(0)
    got = _quantiles(fill(torch.empty(SHAPE, dtype=torch.float64)).flatten())
    inner = slice(1, -1) if "fan_out" in name else slice(None)  # a normal's extremes have no bound to agree on
    assert np.abs(got - want)[inner].max() < 0.03 * want[inner].std()


def test_plain_normal_is_wider_than_the_truncated_one(semantics):
    torch.manual_seed(0)
    ours = like_tf.truncated_normal_(torch.empty(100_000, dtype=torch.float64)).std().item()
    plain = torch.nn.init.normal_(torch.empty(100_000, dtype=torch.float64)).std().item()
    assert ours == pytest.approx(0.8796, abs=0.005)
    semantics(
        "Truncated normal, standard deviation",
        "cut at two sigma: 0.88 sigma",
        "`normal_` is not cut, `trunc_normal_` cuts at -2 and 2 whatever the sigma",
        difference(np.array(plain), np.array(ours)),
        "truncated_normal_",
    )


def test_the_default_of_a_convolution_is_wider_than_torchs(semantics):
    torch.manual_seed(0)
    plain = torch.nn.Conv2d(64, 128, 3).weight.detach()
    ours = like_tf.Conv2d(64, 128, 3).weight.detach()
    assert ours.std().item() == pytest.approx(math.sqrt(2 / (9 * 192)), rel=0.02)
    off = difference(plain.std(), ours.std())
    assert off > 0.2
    semantics(
        "Initial kernel of a convolution from 64 to 128 channels, standard deviation",
        "glorot uniform, variance 2 / (fan_in + fan_out); bias 0",
        "`kaiming_uniform_(a=sqrt(5))`, variance 1 / (3 fan_in); bias drawn",
        off,
        "glorot_uniform_, glorot_normal_, he_normal_, he_uniform_, lecun_normal_, lecun_uniform_, variance_scaling_",
    )


@pytest.mark.parametrize("shape", [(), (7,)])
def test_a_vector_has_its_length_as_both_fans(shape):
    filled = like_tf.glorot_uniform_(torch.empty(shape))
    assert filled.abs().max().item() <= math.sqrt(3 / max(1, math.prod(shape)))


def test_unknown_names_are_refused():
    with pytest.raises(like_tf.LikeTfError, match=r"expected a mode of .*, got 'fan'"):
        like_tf.variance_scaling_(torch.empty(2, 2), mode="fan")
    with pytest.raises(like_tf.LikeTfError, match=r"expected a distribution of .*, got 'cauchy'"):
        like_tf.variance_scaling_(torch.empty(2, 2), distribution="cauchy")


ORTHOGONAL = [(4, 6), (6, 4), (1, 5), (3, 1), (2, 3, 4, 5), (200, 2, 3, 3)]  # torch's [out, in, *kernel]


def tf_orthogonal(tf, np, session, shapes, gain):
    """Returns what the initializer makes, and the normal draw that it made it of."""
    fetches = {}
    for i, shape in enumerate(shapes):
        value = tf.orthogonal_initializer(gain)([*shape[2:], shape[1], shape[0]], tf.float64)
        draws = [op for op in tf.get_default_graph().get_operations() if "RandomStandardNormal" in op.type]
        draws = draws or [op for op in tf.get_default_graph().get_operations() if "StatelessRandomNormal" in op.type]
        fetches[f"{i}/value"], fetches[f"{i}/draw"] = value, draws[-1].outputs[0]
    with session() as opened:
        return opened.run(fetches)


@pytest.mark.both_tensorflows
def test_an_orthogonal_kernel_is_tensorflows_of_the_same_draw(tf, monkeypatch):
    want = tf(tf_orthogonal, shapes=ORTHOGONAL, gain=1.5)
    for i, shape in enumerate(ORTHOGONAL):
        draw = torch.tensor(want[f"{i}/draw"])
        monkeypatch.setattr(torch, "randn", lambda *size, draw=draw, **_: draw.reshape(size))
        got = like_tf.orthogonal_(torch.empty(shape, dtype=torch.float64), 1.5)
        value = want[f"{i}/value"]
        assert difference(got, np.moveaxis(value, (-1, -2), (0, 1))) < 1e-13


def test_a_vector_is_not_made_orthogonal():
    with pytest.raises(like_tf.LikeTfError, match=r"at least two axes, got shape \(3,\)"):
        like_tf.orthogonal_(torch.empty(3))


def test_torchs_orthogonal_kernels_are_tensorflows_but_for_the_draw(semantics):
    plain = torch.nn.init.orthogonal_(torch.empty(8, 4, 3, 3, dtype=torch.float64)).flatten(1)
    ours = like_tf.orthogonal_(torch.empty(8, 4, 3, 3, dtype=torch.float64)).flatten(1)
    for kernel in (plain, ours):
        assert difference(kernel @ kernel.T, np.eye(8)) < 1e-14
    semantics("Orthogonal kernels", "of [height * width * in, out]", "the same distribution", None, "orthogonal_")
