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


FIRST = channels_first(IMAGE)
LINE, BOX = RANDOM.normal(size=(2, 4, 9)), RANDOM.normal(size=(2, 3, 4, 5, 6))


DEEP = {"ksize": [1, 1, 2, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "VALID"}


def halves(x, axis, how):
    """Of neighbours along an axis, two by two."""
    whole = x.take(range(x.shape[axis] // 2 * 2), axis)
    return how(whole.take(range(0, whole.shape[axis], 2), axis), whole.take(range(1, whole.shape[axis], 2), axis))


def of_pairs(x, axes, how):
    for axis in axes:
        x = halves(x, axis, how)
    return x


def mean(one, other):
    return (one + other) / 2


@pytest.mark.parametrize(
    ("kind", "image", "attributes", "wanted"),
    [
        ("max_pool1d", LINE, {"1": 2}, of_pairs(LINE, [2], np.maximum)),
        ("avg_pool1d", LINE, {"kernel_size": [2]}, of_pairs(LINE, [2], mean)),
        ("max_pool2d", FIRST, {"1": [2, 2], "2": []}, of_pairs(FIRST, [2, 3], np.maximum)),
        ("max_pool2d", FIRST, {"1": 2, "stride": None}, of_pairs(FIRST, [2, 3], np.maximum)),
        ("max_pool2d", FIRST, {"1": [2, 1]}, of_pairs(FIRST, [2], np.maximum)),
        ("avg_pool3d", BOX, {"1": 2, "2": 2}, of_pairs(BOX, [2, 3, 4], mean)),
        ("MaxPool3D", BOX, DEEP, of_pairs(BOX, [2, 3], np.maximum)),
        ("AvgPool", IMAGE, {**PLAIN, "ksize": [1, 2, 1, 1], "strides": [1, 2, 1, 1]}, of_pairs(IMAGE, [1], mean)),
        ("max_pool2d", FIRST, {"1": 2, "4": 2}, None),
        ("max_pool2d", FIRST, {"1": 2, "dilation": [1, 2]}, None),
        ("avg_pool2d", FIRST, {"1": 2, "4": True}, None),
        ("avg_pool2d", FIRST, {"1": 2, "4": False}, of_pairs(FIRST, [2, 3], mean)),
        ("adaptive_max_pool2d", FIRST, {"output_size": 1}, FIRST.max((2, 3), keepdims=True)),
        ("adaptive_avg_pool1d", LINE, {"1": [1]}, LINE.mean(2, keepdims=True)),
        ("adaptive_max_pool2d", FIRST, {"1": [1, 2]}, None),
        ("upsample_nearest2d", FIRST, {"1": [14, 18]}, FIRST.repeat(2, 2).repeat(3, 3)),
        ("upsample_nearest1d", LINE, {"2": [3.0]}, LINE.repeat(3, 2)),
        ("upsample_nearest2d", FIRST, {"2": [1.5, 2.0]}, None),
    ],
)  # fmt: skip
def test_poolings_and_pixels_over_one_two_or_three_axes(kind, image, attributes, wanted):
    made = computed(kind, [image], attributes)
    assert made is None if wanted is None else np.allclose(made, wanted) and made.shape == wanted.shape


@pytest.mark.parametrize(
    ("size", "window", "stride", "padding", "windows"),
    [
        (9, 2, 2, 0, 5),
        (8, 2, 2, 0, 4),
        (9, 2, 3, 0, 3),
        (7, 2, 3, 0, 3),
        (8, 3, 3, 1, 3),
        (7, 3, 3, 1, 3),
        (6, 2, 2, 1, 4),
    ],
)
def test_a_window_that_would_begin_behind_the_image_is_dropped_though_torch_rounds_up(
    size, window, stride, padding, windows
):
    line = RANDOM.normal(size=(1, 1, size))
    made = computed("max_pool1d", [line], {"1": window, "2": stride, "3": padding, "5": True})
    padded = np.pad(line[0, 0], (padding, window * stride), constant_values=-np.inf)
    assert np.allclose(made[0, 0], [padded[at : at + window].max() for at in range(0, windows * stride, stride)])


@pytest.mark.parametrize(
    ("arguments", "attributes", "wanted"),
    [
        ([FIRST, [0, 3, 1, 2], "constant", 7.0], {}, ((0, 0), (0, 0), (1, 2), (0, 3))),
        ([FIRST, [0, 3, 1, 2]], {"value": 7.0}, ((0, 0), (0, 0), (1, 2), (0, 3))),
        ([FIRST], {"pad": [0, 3, 1, 2], "mode": "constant", "value": 7}, ((0, 0), (0, 0), (1, 2), (0, 3))),
        ([IMAGE, np.array([[0, 0], [1, 2], [0, 3], [0, 0]]), 7.0], {}, ((0, 0), (1, 2), (0, 3), (0, 0))),
    ],
)
def test_what_is_padded_is_filled_with_the_number_that_is_given(arguments, attributes, wanted):
    kind = "PadV2" if np.ndim(arguments[-1]) == 0 and not isinstance(arguments[1], list) else "pad"
    assert np.array_equal(computed(kind, arguments, attributes), np.pad(arguments[0], wanted, constant_values=7.0))


@pytest.mark.parametrize(
    ("mode", "of_numpy"),
    [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"), ("SYMMETRIC", "symmetric")],
)
def test_borders_are_repeated_as_numpy_does_under_another_name(mode, of_numpy):
    rows = np.array([[0, 0], [0, 0], [1, 2]])
    given = rows if mode.isupper() else [1, 2]
    made = computed("MirrorPad" if mode.isupper() else "pad", [LINE, given], {"mode": mode})
    assert np.array_equal(made, np.pad(LINE, rows, of_numpy))


def test_a_bias_is_added_to_every_channel_of_a_transposed_convolution_and_what_is_cut_off_or_added_counts():
    kernel, bias, image = RANDOM.normal(size=(4, 3, 2)), RANDOM.normal(size=3), LINE[:, :, :5]
    for stride, padding, further in ((1, 0, 0), (2, 1, 1), (3, 0, 2), (1, 1, 0)):
        settings = {"3": [stride], "4": [padding], "5": [further], "6": 1, "7": [1]}
        whole = np.zeros((2, 3, 4 * stride + 2 + further))
        for place in range(5):
            whole[:, :, stride * place : stride * place + 2] += np.einsum("nc,cok->nok", image[:, :, place], kernel)
        wanted = whole[:, :, padding : whole.shape[2] - padding]
        made = computed("conv_transpose1d without bias", [image, kernel], settings)
        assert made.shape == wanted.shape and np.allclose(made, wanted)
        for takes in ([image, kernel, bias], [made, bias]):
            assert np.allclose(computed("conv_transpose1d", takes, settings), wanted + bias[:, None])
    for other in ({"6": 2}, {"7": [2]}):
        assert computed("conv_transpose1d", [image, kernel], {**settings, **other}) is None


def test_images_are_enlarged_between_pixels_as_either_side_says_where_they_lie():
    row = np.array([0.0, 10.0, 20.0, 30.0]).reshape(1, 1, 4, 1)
    of_corners, of_centres = [6.0 * at for at in range(6)], [0.0, 5.0, 35 / 3, 55 / 3, 25.0, 30.0]
    for attributes, wanted in (
        ({"align_corners": True}, of_corners),
        ({"align_corners": False, "half_pixel_centers": True}, of_centres),
        ({"align_corners": False}, [20 / 3 * at for at in range(5)] + [30.0]),
    ):
        made = computed("ResizeBilinear", [row, np.array([2, 6])], attributes)
        assert np.allclose(made[0, :, :, 0], [wanted] * 2)
    for settings, wanted in (({"1": [2, 6], "2": True}, of_corners), ({"2": False, "3": [2.0, 1.5]}, of_centres)):
        made = computed("upsample_bilinear2d", [channels_first(row)], settings)
        assert np.allclose(made[0, 0], [wanted] * 2)
    assert computed("ResizeNearestNeighbor", [row, np.array([1, 8])], {"half_pixel_centers": True}) is None


def test_a_convolution_over_one_or_three_axes_is_that_of_images_of_size_one_or_row_by_row():
    kernel = RANDOM.normal(size=(3, 4, 5))
    settings = {"3": 2, "4": 1, "5": 1, "6": 1}
    made = computed("conv1d", [LINE, kernel.transpose(2, 1, 0)], settings)
    flat = np.moveaxis(LINE, 1, -1)[:, None]
    assert np.allclose(np.moveaxis(made, 1, -1)[:, None], by_hand(flat, kernel[None], (1, 2), ((0, 0), (1, 1))))
    box = RANDOM.normal(size=(2, 1, 3, 4, 5))
    deep = computed("conv3d", [box, kernel.reshape(3, 4, 5)[None, None]], {"3": 1, "4": 0, "5": 1, "6": 1})
    assert np.allclose(deep, np.einsum("nchwd,hwd->n", box, kernel)[:, None, None, None, None])


def test_what_takes_too_many_multiplications_is_not_computed_and_a_convolution_counts_as_more_work():
    image, kernel = np.zeros((8, 64, 64, 64)), np.zeros((5, 5, 64, 64))
    assert computed("Conv2D", [image, kernel], {"strides": [1, 1, 1, 1], "padding": "SAME"}) is None
    assert work("relu", [(4, 5)], 20) == 20
    assert work("conv2d", [(2, 7, 6, 4), (3, 3, 4, 8)], 100) == 100 + int(0.05 * 100 * 36)
