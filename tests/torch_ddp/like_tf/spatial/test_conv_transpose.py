import itertools

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference
from .layouts import channels_first, channels_last, kernel_first, kernel_last, weighted

CASES = [list(case) for case in itertools.product((4, 5), (1, 2, 3, 4, 5), (1, 2, 3))]


def tf_transpose(tf, np, session, cases, padding):
    out = {}
    for i, (n, k, s) in enumerate(cases):
        rng = np.random.RandomState(i)
        x, w, b = rng.randn(2, n, n + 1, 3), rng.randn(k, k, 4, 3), rng.randn(4)
        inputs = tf.constant(x)
        layer = tf.layers.Conv2DTranspose(
            4,
            k,
            s,
            padding,
            dtype="float64",
            kernel_initializer=tf.constant_initializer(w),
            bias_initializer=tf.constant_initializer(b),
        )
        y = layer.apply(inputs)
        shape = y.get_shape().as_list()
        cosines = np.cos(np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape)
        out.update({f"{i}/x": x, f"{i}/w": w, f"{i}/b": b, f"{i}/y": y})
        grads = tf.gradients(tf.reduce_sum(y * cosines), [inputs, layer.kernel])
        out[f"{i}/dx"], out[f"{i}/dw"] = grads
    tensors = {name: value for name, value in out.items() if not isinstance(value, np.ndarray)}
    with session() as opened:
        return dict(out, **opened.run(tensors))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_values_and_gradients_are_tensorflows_for_every_size_kernel_and_stride(tf, padding):
    want = tf(tf_transpose, cases=CASES, padding=padding)
    for i, (_, _, s) in enumerate(CASES):
        x, w = channels_first(want[f"{i}/x"]), kernel_first(want[f"{i}/w"])
        y = like_tf.conv2d_transpose(x, w, torch.tensor(want[f"{i}/b"]), s, padding)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{i}/y"], 1e-14)
        assert_close(channels_last(x.grad), want[f"{i}/dx"], 1e-14)
        assert_close(kernel_last(w.grad), want[f"{i}/dw"], 1e-14)


def tf_sized(tf, np, session, x, w, size, stride, padding):
    shape = [x.shape[0], size, size, w.shape[2]]
    y = tf.nn.conv2d_transpose(tf.constant(x), tf.constant(w), shape, [1, stride, stride, 1], padding)
    with session() as opened:
        return {"y": opened.run(y)}


@pytest.mark.parametrize(("size", "padding"), [(7, "SAME"), (8, "SAME"), (9, "VALID"), (10, "VALID")])
def test_every_output_size_that_tensorflow_takes_is_taken(tf, size, padding):
    rng = np.random.RandomState(0)
    x, w = rng.randn(2, 4, 4, 3), rng.randn(3, 3, 2, 3)
    want = tf(tf_sized, x=x, w=w, size=size, stride=2, padding=padding)
    got = like_tf.conv2d_transpose(
        channels_first(x), kernel_first(w), stride=2, padding=padding, output_size=(size, size)
    )
    assert_close(channels_last(got), want["y"], 1e-14)


def test_an_output_size_of_another_convolution_is_refused():
    with pytest.raises(like_tf.LikeTfError, match="takes to 4, got 6, which it takes to 3"):
        like_tf.conv2d_transpose(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), stride=2, output_size=(6, 6))


def test_torchs_own_padding_has_the_right_shape_and_shifted_values(tf2, semantics):
    want = tf2(tf_transpose, cases=[[4, 3, 2]], padding="SAME")
    x, w = channels_first(want["0/x"]), kernel_first(want["0/w"])
    plain = torch.nn.functional.conv_transpose2d(x, w, torch.tensor(want["0/b"]), stride=2, padding=1, output_padding=1)
    off = difference(channels_last(plain), want["0/y"])
    assert off > 0.1
    semantics(
        "Transposed convolution SAME, kernel 3, stride 2",
        "cuts 0 before and 1 after",
        "`padding=1, output_padding=1` cuts 1 before",
        off,
        "ConvTranspose2d, conv2d_transpose",
    )


def test_the_module_calls_the_function_with_its_own_weights():
    layer = like_tf.ConvTranspose2d(3, 2, 3, stride=2)
    x = torch.randn(1, 3, 4, 4)
    torch.nn.init.normal_(layer.bias)
    assert torch.equal(layer(x), like_tf.conv2d_transpose(x, layer.weight, layer.bias, 2, "SAME"))
    assert like_tf.ConvTranspose2d(3, 2, 3, stride=2, bias=False)(x, output_size=(7, 7)).shape == (1, 2, 7, 7)
