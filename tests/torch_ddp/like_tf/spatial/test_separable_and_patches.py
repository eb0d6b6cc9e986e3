import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference
from .layouts import channels_first, channels_last, kernel_first, kernel_last, weighted

# Image, kernel, multiplier, stride, rate, padding.
SEPARABLE = [
    ([2, 6, 5, 3], [3, 3], 2, 2, 1, "SAME"),
    ([1, 7, 7, 2], [2, 3], 1, 1, 2, "SAME"),
    ([2, 7, 6, 1], [3, 2], 3, 1, 1, "VALID"),
    ([1, 9, 8, 2], [3, 3], 1, 1, 3, "VALID"),
    ([1, 1, 1, 2], [3, 3], 2, 1, 1, "SAME"),
]
# Image, kernel, rate, padding.
ATROUS = [
    ([2, 7, 6, 3], [3, 3], 2, "SAME"),
    ([1, 9, 9, 2], [3, 2], 3, "VALID"),
    ([1, 5, 5, 1], [2, 2], 1, "SAME"),
    ([1, 4, 3, 2], [3, 3], 4, "SAME"),
]
# Image, kernel, stride, rate, padding.
PATCHES = [
    ([2, 6, 5, 3], [3, 2], [2, 1], [1, 1], "SAME"),
    ([1, 7, 7, 2], [2, 3], [1, 3], [2, 1], "SAME"),
    ([1, 7, 6, 2], [3, 3], [2, 2], [2, 1], "VALID"),
    ([1, 4, 4, 1], [4, 4], [1, 1], [1, 1], "VALID"),
    ([1, 1, 1, 2], [3, 3], [1, 1], [1, 1], "SAME"),
]


def tf_spatial(tf, np, session, separable, atrous, patches):
    """All cases of three ops in one graph: outputs, gradients of a weighting, and the random inputs."""
    rng, fetches = np.random.RandomState(0), {}

    def note(key, y, leaves):
        shape = y.shape.as_list()
        loss = tf.reduce_sum(y * np.cos(np.arange(int(np.prod(shape))).reshape(shape)))
        fetches[key + "/y"] = y
        for i, (leaf, grad) in enumerate(zip(leaves, tf.gradients(loss, leaves))):  # noqa: B905 - Python 3.7 reads it
            fetches[f"{key}/leaf/{i}"], fetches[f"{key}/grad/{i}"] = leaf, grad

    for i, (image, kernel, multiplier, stride, rate, padding) in enumerate(separable):
        depth = image[3] * multiplier
        x, w, p = (
            tf.constant(rng.randn(*shape)) for shape in (image, [*kernel, image[3], multiplier], [1, 1, depth, 4])
        )
        y = tf.nn.separable_conv2d(x, w, p, [1, stride, stride, 1], padding, rate=[rate, rate])
        note(f"separable/{i}", y, [x, w, p])
    for i, (image, kernel, rate, padding) in enumerate(atrous):
        x, w = tf.constant(rng.randn(*image)), tf.constant(rng.randn(*kernel, image[3], 4))
        note(f"atrous/{i}", tf.nn.atrous_conv2d(x, w, rate, padding), [x, w])
    for i, (image, kernel, stride, rate, padding) in enumerate(patches):
        x = tf.constant(rng.randn(*image))
        y = tf.extract_image_patches(x, [1, *kernel, 1], [1, *stride, 1], [1, *rate, 1], padding)
        note(f"patches/{i}", y, [x])
    with session() as opened:
        return opened.run(fetches)


def _depthwise(w):
    """[*kernel, channels, multiplier] to a torch leaf [channels * multiplier, 1, *kernel]."""
    height, width, channels, multiplier = w.shape
    moved = np.moveaxis(w, (2, 3), (0, 1)).reshape(channels * multiplier, 1, height, width)
    return torch.tensor(moved, requires_grad=True)


@pytest.mark.both_tensorflows
def test_separable_and_atrous_convolutions_and_patches_are_tensorflows(tf):
    want = tf(tf_spatial, separable=SEPARABLE, atrous=ATROUS, patches=PATCHES)

    def leaves(key):
        return [want[f"{key}/leaf/{i}"] for i in range(4) if f"{key}/leaf/{i}" in want]

    for i, (_, kernel, multiplier, stride, rate, padding) in enumerate(SEPARABLE):
        key = f"separable/{i}"
        x0, w0, p0 = leaves(key)
        x, w, p = channels_first(x0), _depthwise(w0), kernel_first(p0)
        y = like_tf.separable_conv2d(x, w, p, stride=stride, padding=padding, rate=rate)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{key}/y"], 1e-13)
        assert_close(channels_last(x.grad), want[f"{key}/grad/0"], 1e-13)
        back = w.grad.numpy().reshape(x0.shape[3], multiplier, *kernel)
        assert_close(np.moveaxis(back, (0, 1), (2, 3)), want[f"{key}/grad/1"], 1e-13)
        assert_close(kernel_last(p.grad), want[f"{key}/grad/2"], 1e-13)
    for i, (_, _, rate, padding) in enumerate(ATROUS):
        key = f"atrous/{i}"
        x, w = (make(leaf) for make, leaf in zip((channels_first, kernel_first), leaves(key), strict=True))
        y = like_tf.atrous_conv2d(x, w, rate, padding)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{key}/y"], 1e-13)
        assert_close(channels_last(x.grad), want[f"{key}/grad/0"], 1e-13)
        assert_close(kernel_last(w.grad), want[f"{key}/grad/1"], 1e-13)
    for i, (_, kernel, stride, rate, padding) in enumerate(PATCHES):
        key = f"patches/{i}"
        x = channels_first(leaves(key)[0])
        y = like_tf.extract_image_patches(x, ksizes=kernel, strides=stride, rates=rate, padding=padding)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{key}/y"], 0.0)
        assert_close(channels_last(x.grad), want[f"{key}/grad/0"], 1e-14)


def tf_layer(tf, np, session, x):
    layer = tf.layers.SeparableConv2D(4, 3, padding="same", depth_multiplier=2)
    y = layer(tf.constant(x))
    with session() as opened:
        names = ("depthwise_kernel", "pointwise_kernel", "bias")
        return dict({name: opened.run(getattr(layer, name)) for name in names}, y=opened.run(y))


@pytest.mark.both_tensorflows
def test_a_separable_layer_computes_and_starts_as_tensorflows(tf):
    x0 = np.random.RandomState(0).randn(1, 5, 4, 60)
    want = tf(tf_layer, x=x0)
    layer = like_tf.SeparableConv2d(60, filters=4, kernel_size=3, depth_multiplier=2).double()
    limit = (6 / (9 * 60 + 9 * 2)) ** 0.5
    for kernel in (want["depthwise_kernel"], layer.depthwise_weight.detach().numpy()):
        assert limit * 0.98 < np.abs(kernel).max() <= limit
    assert (layer.bias == 0).all()
    with torch.no_grad():
        layer.depthwise_weight.copy_(_depthwise(want["depthwise_kernel"]))
        layer.pointwise_weight.copy_(kernel_first(want["pointwise_kernel"]))
    assert_close(channels_last(layer(channels_first(x0))), want["y"], 1e-13)


def test_a_window_larger_than_the_image_has_no_patches():
    assert like_tf.extract_image_patches(torch.ones(2, 3, 2, 5), 3).shape == (2, 27, 0, 3)
    assert like_tf.extract_image_patches(torch.ones(0, 1, 4, 4), 2).shape == (0, 4, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: like_tf.separable_conv2d(x, torch.ones(1, 1, 3, 3), torch.ones(1, 1, 1, 1), stride=2, dilation=2),
            r"a stride or a dilation of 1, got \(2, 2\) and \(2, 2\)",
        ),
        (
            lambda x: like_tf.atrous_conv2d(x, torch.ones(1, 1, 3, 3), 0),
            "atrous_conv2d: expected 2 positive numbers, got 0",
        ),
        (lambda x: like_tf.extract_image_patches(x, 2, padding="FULL"), "'SAME' or 'VALID', got 'FULL'"),
        (lambda x: like_tf.extract_image_patches(x, 2, stride=2, strides=2), "expected one of stride and strides"),
    ],
)
def test_what_tensorflow_refuses_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call(torch.ones(1, 1, 5, 5))


def test_what_plain_torch_does_otherwise(tf2, semantics):
    want = tf2(tf_spatial, separable=SEPARABLE[:1], atrous=ATROUS[:1], patches=PATCHES[2:3])
    x = channels_first(want["patches/0/leaf/0"])
    plain = torch.nn.functional.unfold(x, (3, 3), dilation=(2, 1), stride=(2, 2)).reshape(1, 18, 2, 2)
    off = difference(channels_last(plain), want["patches/0/y"])
    assert off > 0.1
    semantics(
        "Patches of an image",
        "channels of a patch: row, column, channel",
        "`unfold`: channel, row, column",
        off,
        "extract_image_patches",
    )
    x0, w0, p0 = (want[f"separable/0/leaf/{i}"] for i in range(3))
    middle = torch.nn.functional.conv2d(channels_first(x0), _depthwise(w0), stride=2, padding=1, groups=3)
    off = difference(channels_last(torch.nn.functional.conv2d(middle, kernel_first(p0))), want["separable/0/y"])
    assert off > 0.1
    semantics(
        "Separable and atrous convolution SAME, kernel 3, stride 2, even size",
        "pads 0 before and 1 after; not both a stride and a rate",
        "`conv2d(groups=)` with `padding=1` pads 1 and 1",
        off,
        "SeparableConv2d, separable_conv2d, atrous_conv2d",
    )
