import itertools

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference
from .layouts import channels_first, channels_last, weighted

CASES = [list(case) for case in itertools.product((5, 8), (1, 2, 3, 4), (1, 2, 3), ("MAX", "AVG"))]
TORCH = {"MAX": like_tf.max_pool, "AVG": like_tf.avg_pool}


def tf_pool(tf, np, session, cases, padding, axes, levels, dtype):
    out = {}
    for i, (n, k, s, kind) in enumerate(cases):
        rng = np.random.RandomState(i)
        x = rng.randn(2, *(n + a for a in range(axes)), 3)
        if levels:
            x = rng.randint(0, levels, x.shape).astype(np.float64)
        x = x.astype(dtype)
        inputs = tf.constant(x)
        if axes == 2:  # tf.nn.pool refuses a stride above the window, tf.nn.max_pool takes it
            pool = tf.nn.max_pool if kind == "MAX" else tf.nn.avg_pool
            y = pool(inputs, [1, k, k, 1], [1, s, s, 1], padding)
        else:
            y = tf.nn.pool(inputs, [k] * axes, kind, padding, strides=[s] * axes)
        cosines = np.cos(np.arange(int(np.prod(y.shape.as_list())), dtype=np.float64)).reshape(y.shape.as_list())
        cosines = cosines.astype(dtype)
        out.update({f"{i}/x": x, f"{i}/y": y})
        out[f"{i}/dx"] = tf.gradients(tf.reduce_sum(y * cosines), inputs)[0]
    tensors = {name: value for name, value in out.items() if not isinstance(value, np.ndarray)}
    with session() as opened:
        return dict(out, **opened.run(tensors))


def _compare(cases, want, padding, limit=1e-14):
    for i, (_, k, s, kind) in enumerate(cases):
        x = channels_first(want[f"{i}/x"])
        y = TORCH[kind](x, k, s, padding)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{i}/y"], 0.0 if kind == "MAX" else limit)
        assert_close(channels_last(x.grad), want[f"{i}/dx"], limit)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_values_and_gradients_are_tensorflows_for_every_size_window_and_stride(tf, padding):
    _compare(CASES, tf(tf_pool, cases=CASES, padding=padding, axes=2, levels=0, dtype="float64"), padding)


@pytest.mark.parametrize(("axes", "dtype", "limit"), [(1, "float64", 1e-14), (3, "float32", 3e-7)])
def test_one_and_three_axes_are_pooled_too(tf, axes, dtype, limit):
    cases = [[5, 3, 2, kind] for kind in TORCH] + [[6, 3, 3, kind] for kind in TORCH]
    _compare(cases, tf(tf_pool, cases=cases, padding="SAME", axes=axes, levels=0, dtype=dtype), "SAME", limit)


def test_of_equal_elements_the_same_one_gets_the_gradient(tf):
    cases = [[8, 3, 2, "MAX"], [8, 2, 2, "MAX"], [5, 3, 1, "MAX"]]
    _compare(cases, tf(tf_pool, cases=cases, padding="SAME", axes=2, levels=2, dtype="float64"), "SAME")


def tf_max_pool(tf, np, session, x):
    with session() as opened:
        return {"y": opened.run(tf.nn.max_pool(tf.constant(x), [1, 2, 2, 1], [1, 2, 2, 1], "VALID"))}


def test_nan_is_passed_on_where_tensorflow_ignores_it(tf):
    x = np.arange(8.0).reshape(1, 2, 4, 1)
    x[0, 0, 1] = np.nan
    assert tf(tf_max_pool, x=x)["y"].ravel().tolist() == [5.0, 7.0]
    got = like_tf.max_pool(channels_first(x), 2).flatten()
    assert torch.isnan(got[0])
    assert got[1] == 7.0


def test_plain_average_pooling_counts_its_padding(tf2, semantics):
    want = tf2(tf_pool, cases=[[5, 3, 2, "AVG"]], padding="SAME", axes=2, levels=0, dtype="float64")
    plain = torch.nn.functional.avg_pool2d(channels_first(want["0/x"])[..., :5], 3, 2, padding=1)
    off = difference(channels_last(plain)[:, :, :2], want["0/y"][:, :, :2])
    assert off > 0.1
    semantics(
        "Average pooling SAME",
        "divides by the elements inside the input",
        "`padding=1` counts the padding",
        off,
        "AvgPool2d, avg_pool",
    )


def test_plain_max_pooling_pads_an_even_size_before(tf2, semantics):
    want = tf2(tf_pool, cases=[[8, 3, 2, "MAX"]], padding="SAME", axes=2, levels=0, dtype="float64")
    plain = torch.nn.functional.max_pool2d(channels_first(want["0/x"])[..., :8], 3, 2, padding=1)
    off = difference(channels_last(plain), want["0/y"][:, :, :4])
    assert off > 0.1
    semantics(
        "Max pooling SAME, window 3, stride 2, even size",
        "pads 0 before and 1 after",
        "`padding=1` pads 1 and 1",
        off,
        "MaxPool2d, max_pool, pad_same",
    )


def test_the_stride_is_the_window_unless_it_is_given():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert torch.equal(like_tf.MaxPool2d(2)(x), torch.nn.functional.max_pool2d(x, 2))
    assert torch.equal(like_tf.AvgPool2d(3, 1, "same")(x), like_tf.avg_pool(x, 3, 1, "SAME"))


def tf_flatten(tf, np, session, x):
    with session() as opened:
        return {"y": opened.run(tf.layers.flatten(tf.constant(x)))}


def test_flatten_keeps_channels_last(tf, semantics):
    x = np.random.RandomState(0).randn(2, 4, 3, 5)
    want = tf(tf_flatten, x=x)["y"]
    ours = channels_first(x)
    assert np.array_equal(like_tf.flatten(ours).detach().numpy(), want)
    assert torch.equal(like_tf.Flatten()(ours), like_tf.flatten(ours))
    off = difference(ours.flatten(1), want)
    assert off > 0.1
    semantics("Flatten", "height, width, channels", "channels, height, width", off, "Flatten, flatten")
