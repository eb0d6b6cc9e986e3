"""Convolutions, poolings and padding as functions of arrays: against loops over outputs, in both sides' words."""

import itertools

import numpy as np
import pytest

from parity.diagnose.ops.table import computed
from parity.diagnose.ops.windows import work

RANDOM = np.random.default_rng(8)
IMAGE = RANDOM.normal(size=(2, 7, 6, 4))
PLAIN = {"strides": [1, 1, 1, 1], "padding": "VALID"}


def by_hand(image, kernel, strides=(1, 1), pads=((0, 0), (0, 0)), dilations=(1, 1), groups=1):
    """A convolution of ``[n, h, w, c]`` by ``[kh, kw, c / groups, out]``, one output at a time."""
    padded = np.pad(image, [(0, 0), *pads, (0, 0)])
    spans = [(size - 1) * step + 1 for size, step in zip(kernel.shape, dilations, strict=False)]
    high, wide = ((padded.shape[1 + a] - spans[a]) // strides[a] + 1 for a in (0, 1))
    made = np.zeros((len(image), high, wide, kernel.shape[-1]))
    inside, outside = kernel.shape[2], kernel.shape[3] // groups
    for y, x, out in itertools.product(range(high), range(wide), range(kernel.shape[3])):
        first = out // outside * inside
        for i, j, c in itertools.product(*map(range, kernel.shape[:3])):
            row, column = y * strides[0] + i * dilations[0], x * strides[1] + j * dilations[1]
            made[:, y, x, out] += padded[:, row, column, first + c] * kernel[i, j, c, out]
    return made


def channels_first(x):
    return np.moveaxis(x, -1, 1)


def of_torch(kernel):
    return kernel.transpose(3, 2, 0, 1)


@pytest.mark.parametrize(
    ("size", "attributes", "given"),
    [
        ((3, 2), PLAIN, {}),
        ((3, 2), {"strides": [1, 2, 2, 1], "padding": "SAME"}, {"strides": (2, 2), "pads": ((1, 1), (0, 0))}),
        ((3, 3), {**PLAIN, "dilations": [1, 2, 1, 1]}, {"dilations": (2, 1)}),
    ],
)
def test_a_graphs_convolution_pads_strides_and_dilates(size, attributes, given):
    kernel = RANDOM.normal(size=(*size, 4, 5))
    assert np.allclose(computed("Conv2D", [IMAGE, kernel], attributes), by_hand(IMAGE, kernel, **given))
    assert computed("Conv2D", [IMAGE, kernel], {**attributes, "data_format": "NCHW"}) is None


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4)])
def test_torchs_convolution_is_the_graphs_with_its_axes_turned_and_a_bias(stride, padding, dilation, groups):
    kernel, bias = RANDOM.normal(size=(3, 3, 4 // groups, 8)), RANDOM.normal(size=8)
    settings = {"3": [stride], "4": [padding, padding], "5": dilation, "6": groups}
    wanted = by_hand(IMAGE, kernel, (stride,) * 2, ((padding,) * 2,) * 2, (dilation,) * 2, groups)
    image = channels_first(IMAGE)
    made = computed("conv2d without bias", [image, of_torch(kernel)], settings)
    assert np.allclose(made, channels_first(wanted))
    assert np.allclose(computed("conv2d", [made, bias], settings), channels_first(wanted + bias))
    assert np.allclose(computed("conv2d", [image, of_torch(kernel), bias], settings), channels_first(wanted + bias))


def test_a_depthwise_kernel_has_every_channel_for_itself():
    kernel = RANDOM.normal(size=(3, 3, 4, 2))
    made = computed("DepthwiseConv2dNative", [IMAGE, kernel], PLAIN)
    wanted = np.concatenate([by_hand(IMAGE[..., c : c + 1], kernel[:, :, c : c + 1]) for c in range(4)], -1)
    assert np.allclose(made, wanted)


def test_a_transposed_convolution_is_what_the_convolution_is_turned_round():
    """<conv(x), y> is <x, transposed(y)>, on both sides."""
    kernel = RANDOM.normal(size=(3, 4, 4, 5))
    attributes = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    there = computed("Conv2D", [IMAGE, kernel], attributes)
    y = RANDOM.normal(size=there.shape)
    back = computed("Conv2DBackpropInput", [np.array(IMAGE.shape), kernel, y], attributes)
    assert np.isclose((there * y).sum(), (IMAGE * back).sum())
    settings = {"3": [2, 2], "4": [1, 1], "5": [0, 0], "6": 1, "7": [1, 1]}
    there = computed("conv2d", [channels_first(IMAGE), of_torch(kernel)], {**settings, "5": [1, 1]})
    y = RANDOM.normal(size=there.shape)
    made = computed("conv_transpose2d without bias", [y, of_torch(kernel)], settings)
    image = channels_first(IMAGE)[:, :, : made.shape[2], : made.shape[3]]
    there = computed("conv2d", [image, of_torch(kernel)], {**settings, "5": [1, 1]})
    assert np.isclose((there * y).sum(), (image * made).sum())


def windows(stride, size, pads=((0, 0), (0, 0)), fill=0.0):
    padded = np.pad(IMAGE, [(0, 0), *pads, (0, 0)], constant_values=fill)
    rows, columns = (range(0, padded.shape[a] - size + 1, stride) for a in (1, 2))
    return [[padded[:, r : r + size, c : c + size] for c in columns] for r in rows]


def reduced(parts, how):
    return np.stack([np.stack([how(part, axis=(1, 2)) for part in row], 1) for row in parts], 1)


def test_poolings_of_both_sides_take_the_same_windows():
    graph = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    image, settings = channels_first(IMAGE), {"1": 3, "2": 2, "3": 0}
    for kinds, how in ((("MaxPool", "max_pool2d"), np.max), (("AvgPool", "avg_pool2d"), np.mean)):
        wanted = reduced(windows(2, 3), how)
        assert np.allclose(computed(kinds[0], [IMAGE], graph), wanted)
        assert np.allclose(computed(kinds[1], [image], settings), channels_first(wanted))
    assert np.allclose(computed("adaptive_avg_pool2d", [image], {"1": [1, 1]}), image.mean((2, 3), keepdims=True))
    assert computed("adaptive_avg_pool2d", [image], {"1": 2}) is None


def test_padding_counts_in_a_mean_of_torch_and_never_in_a_graphs():
    one = ((1, 1), (1, 1))
    counted = reduced(windows(1, 3, one), np.mean)
    inside = reduced([[np.ones_like(p) for p in row] for row in windows(1, 3, one)], np.sum)
    real = reduced([[(p != 7e7).astype(float) for p in row] for row in windows(1, 3, one, 7e7)], np.sum)
    graph = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    image, settings = channels_first(IMAGE), {"kernel_size": 3, "stride": 1, "padding": 1}
    assert np.allclose(computed("avg_pool2d", [image], settings), channels_first(counted))
    assert np.allclose(computed("AvgPool", [IMAGE], graph), counted * inside / real)
    without = computed("avg_pool2d", [image], {**settings, "count_include_pad": False})
    assert np.allclose(without, channels_first(counted * inside / real))


def test_a_last_window_may_reach_beyond_the_border_where_torch_rounds_up():
    made = computed("max_pool2d", [channels_first(IMAGE)], {"1": 2, "2": 2, "3": 0, "4": 1, "5": True})
    assert made.shape == (2, 4, 4, 3)
    assert np.array_equal(made[:, :, 3], channels_first(IMAGE[:, 6:].reshape(2, 1, 3, 2, 4).max(3))[:, :, 0])


def test_padding_of_a_graph_has_a_row_for_each_axis_and_torchs_counts_from_the_last():
    rows = np.array([[0, 0], [1, 2], [0, 3], [0, 0]])
    wanted = np.pad(IMAGE, rows)
    assert np.array_equal(computed("Pad", [IMAGE, rows], {}), wanted)
    assert np.array_equal(computed("pad", [channels_first(IMAGE), [0, 3, 1, 2]], {}), channels_first(wanted))
    mirrored = np.pad(IMAGE, rows, "reflect")
    assert np.array_equal(computed("MirrorPad", [IMAGE, rows], {"mode": "REFLECT"}), mirrored)
    turned = computed("pad", [channels_first(IMAGE), [0, 3, 1, 2], "reflect"], {})
    assert np.array_equal(turned, channels_first(mirrored))


def test_nearest_pixels_and_the_blocks_of_a_dilated_convolution():
    twice = IMAGE.repeat(2, 1).repeat(2, 2)
    of_graph = {"align_corners": False, "half_pixel_centers": False}
    assert np.array_equal(computed("ResizeNearestNeighbor", [IMAGE, np.array([14, 12])], of_graph), twice)
    made = computed("upsample_nearest2d", [channels_first(IMAGE)], {"2": [2.0, 2.0]})
    assert np.array_equal(made, channels_first(twice))
    assert computed("ResizeNearestNeighbor", [IMAGE, np.array([10, 12])], of_graph) is None
    blocks = computed("SpaceToBatchND", [IMAGE, np.array([2, 3]), np.array([[1, 0], [0, 0]])], {})
    assert blocks.shape == (12, 4, 2, 4)
    assert np.array_equal(blocks[6:8], np.pad(IMAGE, [(0, 0), (1, 0), (0, 0), (0, 0)])[:, 1::2, ::3])


def test_what_takes_too_many_multiplications_is_not_computed_and_a_convolution_counts_as_more_work():
    image, kernel = np.zeros((8, 64, 64, 64)), np.zeros((5, 5, 64, 64))
    assert computed("Conv2D", [image, kernel], {"strides": [1, 1, 1, 1], "padding": "SAME"}) is None
    assert work("relu", [(4, 5)], 20) == 20
    assert work("conv2d", [(2, 7, 6, 4), (3, 3, 4, 8)], 100) == 100 + int(0.05 * 100 * 36)
