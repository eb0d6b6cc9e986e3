import itertools

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference
from .layouts import channels_first, channels_last, kernel_first, kernel_last, weighted

CASES = [list(case) for case in itertools.product((5, 8), (1, 2, 3, 4, 5), (1, 2, 3))]


def tf_conv(tf, np, session, cases, padding, axes):
    out = {}
    for i, (n, k, s) in enumerate(cases):
        rng = np.random.RandomState(i)
        x, w = rng.randn(2, *(n + a for a in range(axes)), 3), rng.randn(*[k] * axes, 3, 4)
        inputs, kernel = tf.constant(x), tf.constant(w)
        y = tf.nn.convolution(inputs, kernel, padding, strides=[s] * axes)
        size = int(np.prod(y.shape.as_list()))
        loss = tf.reduce_sum(y * np.cos(np.arange(size, dtype=np.float64)).reshape(y.shape.as_list()))
        out.update({f"{i}/x": x, f"{i}/w": w, f"{i}/y": y})
        out[f"{i}/dx"], out[f"{i}/dw"] = tf.gradients(loss, [inputs, kernel])
    tensors = {name: value for name, value in out.items() if not isinstance(value, np.ndarray)}
    with session() as opened:
        return dict(out, **opened.run(tensors))


@pytest.mark.parametrize(("axes", "padding"), [(1, "SAME"), (2, "SAME"), (2, "VALID"), (3, "SAME")])
def test_values_and_gradients_are_tensorflows_for_every_size_kernel_and_stride(tf, axes, padding):
    cases = [case for case in CASES if axes == 2 or case[1] in (2, 3)]
    want = tf(tf_conv, cases=cases, padding=padding, axes=axes)
    for i, (_, _, s) in enumerate(cases):
        x, w = channels_first(want[f"{i}/x"]), kernel_first(want[f"{i}/w"])
        y = like_tf.conv(x, w, stride=s, padding=padding)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{i}/y"], 1e-14)
        assert_close(channels_last(x.grad), want[f"{i}/dx"], 1e-14)
        assert_close(kernel_last(w.grad), want[f"{i}/dw"], 1e-14)


def test_symmetric_padding_is_another_convolution_at_stride_two(tf2, semantics):
    want = tf2(tf_conv, cases=[[8, 3, 2]], padding="SAME", axes=2)
    plain = torch.nn.functional.conv2d(channels_first(want["0/x"]), kernel_first(want["0/w"]), stride=2, padding=1)
    got, reference = channels_last(plain)[:, :, :4], want["0/y"][:, :, :4]
    off = difference(got, reference)
    assert off > 0.1
    semantics(
        "Convolution SAME, kernel 3, stride 2, even size",
        "pads 0 before and 1 after",
        "`padding=1` pads 1 and 1",
        off,
        "Conv1d, Conv2d, Conv3d, conv, same_padding",
    )


def tf_dilated(tf, np, session, x, w, rate, padding):
    inputs, kernel = tf.constant(x), tf.constant(w)
    y = tf.nn.atrous_conv2d(inputs, kernel, rate, padding)
    size = int(np.prod(y.shape.as_list()))
    loss = tf.reduce_sum(y * np.cos(np.arange(size, dtype=np.float64)).reshape(y.shape.as_list()))
    dx, dw = tf.gradients(loss, [inputs, kernel])
    with session() as opened:
        return opened.run({"y": y, "dx": dx, "dw": dw})


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("rate", "kernel"), [(2, 3), (3, 3), (2, 4), (3, 2)])
def test_dilation_gives_tensorflows_values_and_gradients(tf, rate, kernel, padding):
    rng = np.random.RandomState(0)
    x0, w0 = rng.randn(2, 12, 11, 3), rng.randn(kernel, kernel, 3, 4)
    want = tf(tf_dilated, x=x0, w=w0, rate=rate, padding=padding)
    x, w = channels_first(x0), kernel_first(w0)
    y = like_tf.conv(x, w, dilation=rate, padding=padding)
    weighted(y).backward()
    assert_close(channels_last(y), want["y"], 1e-14)
    assert_close(channels_last(x.grad), want["dx"], 1e-14)
    assert_close(kernel_last(w.grad), want["dw"], 1e-14)


def tf_depthwise(tf, np, session, x, w, stride):
    y = tf.nn.depthwise_conv2d(tf.constant(x), tf.constant(w), [1, stride, stride, 1], "SAME")
    with session() as opened:
        return {"y": opened.run(y)}


@pytest.mark.parametrize("stride", [1, 2])
def test_as_many_groups_as_channels_are_a_depthwise_convolution(tf, stride):
    rng = np.random.RandomState(0)
    x, w = rng.randn(2, 8, 8, 3), rng.randn(3, 3, 3, 2)
    want = tf(tf_depthwise, x=x, w=w, stride=stride)
    kernel = torch.tensor(w).permute(2, 3, 0, 1).reshape(6, 1, 3, 3)
    assert_close(channels_last(like_tf.conv(channels_first(x), kernel, stride=stride, groups=3)), want["y"], 1e-14)


def tf_layer(tf, np, session, x, w, b):
    y = tf.layers.conv2d(
        tf.constant(x),
        w.shape[-1],
        w.shape[:2],
        2,
        "same",
        kernel_initializer=tf.constant_initializer(w),
        bias_initializer=tf.constant_initializer(b),
    )
    with session() as opened:
        return {"y": opened.run(y)}


def test_the_module_is_tf_layers_conv2d(tf):
    rng = np.random.RandomState(0)
    x, w, b = rng.randn(2, 8, 7, 3), rng.randn(3, 2, 3, 4), rng.randn(4)
    layer = like_tf.Conv2d(3, 4, (3, 2), stride=2, padding="same").double()
    assert not layer.bias.any()
    layer.load_state_dict({"weight": kernel_first(w).detach(), "bias": torch.tensor(b)})
    assert_close(channels_last(layer(channels_first(x))), tf(tf_layer, x=x, w=w, b=b)["y"], 1e-14)


@pytest.mark.parametrize(("layer", "axes"), [(like_tf.Conv1d, 1), (like_tf.Conv3d, 3)])
def test_modules_of_one_and_three_axes_keep_the_size_under_same(layer, axes):
    x = torch.ones(2, 3, *[5] * axes)
    assert layer(3, 4, 2)(x).shape == (2, 4, *[5] * axes)
    assert layer(3, 4, 3, stride=2, dilation=1, bias=False)(x).shape == (2, 4, *[3] * axes)
