"""A convolution or a pooling is computed again with its windows elsewhere: what gives the candidate's output is named."""

import numpy as np
import pytest

from parity.diagnose.layers import windows as at_windows
from parity.diagnose.layers.windows import Windows, other_windows, windows_among

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.normal(size=(2, 7, 6, 3))
KERNEL = RANDOM.normal(size=(3, 3, 3, 4))


def convolved(image, kernel, top, bottom, left, right, stride=1):
    """The definition, written out: correlation with a kernel of rows, columns, channels, outputs."""
    image = np.pad(image, [(0, 0), (top, bottom), (left, right), (0, 0)])
    high, wide = ((size - width) // stride + 1 for size, width in zip(image.shape[1:3], kernel.shape[:2], strict=True))
    found = np.zeros((len(image), high, wide, kernel.shape[3]))
    for y in range(high):
        for x in range(wide):
            window = image[:, y * stride : y * stride + kernel.shape[0], x * stride : x * stride + kernel.shape[1]]
            found[:, y, x] = np.einsum("nijc,ijco->no", window, kernel)
    return found


def op(reference, candidate, stride=1, kind="Conv2D", kernel=KERNEL, image=IMAGE, size=3):
    attributes = {"strides": [1, stride, stride, 1], "ksize": [1, size, size, 1]}
    return Windows("conv", kind, image, kernel, attributes, reference, candidate)


def test_padding_on_the_other_side_is_named_with_both_numbers():
    image = IMAGE[:, :6]
    same = convolved(image, KERNEL, 0, 1, 0, 1, 2)
    cause = other_windows(op(same, convolved(image, KERNEL, 1, 0, 1, 0, 2), 2, image=image))
    assert cause.name == "padding"
    assert (
        cause.title
        == "conv pads 1 above and 1 to the left of the image in the candidate, 0 above and 0 to the left in the reference"
    )


def test_a_kernel_that_is_turned_or_transposed_is_named():
    same = convolved(IMAGE, KERNEL, 1, 1, 1, 1)
    turned = other_windows(op(same, convolved(IMAGE, KERNEL[::-1, ::-1], 1, 1, 1, 1)))
    exchanged = other_windows(op(same, convolved(IMAGE, KERNEL.transpose(1, 0, 2, 3), 1, 1, 1, 1)))
    assert (turned.name, exchanged.name) == ("transposed_kernel", "transposed_kernel")
    assert "half a turn" in turned.title and "exchanged" in exchanged.title


def test_a_depthwise_convolution_has_windows_too():
    kernel = RANDOM.normal(size=(3, 3, 3, 1))
    each = [convolved(IMAGE[..., [c]], kernel[:, :, [c]], 1, 1, 1, 1) for c in range(3)]
    other = [convolved(IMAGE[..., [c]], kernel[:, :, [c]], 2, 0, 1, 1) for c in range(3)]
    given = op(np.concatenate(each, 3), np.concatenate(other, 3), kind="DepthwiseConv2dNative", kernel=kernel)
    assert "2 above and 1 to the left" in other_windows(given).title


def test_a_mean_for_a_maximum_is_named_and_so_is_padding_that_counts():
    windows = IMAGE[:, :6].reshape(2, 3, 2, 3, 2, 3)
    largest, mean = windows.max(axis=(2, 4)), windows.mean(axis=(2, 4))
    image = IMAGE[:, :6]
    cause = other_windows(op(largest, mean, 2, "MaxPool", None, image, 2))
    assert cause.title == "conv takes the mean of each window in the candidate, the maximum in the reference"
    ones = np.ones((3, 3, 1, 1))
    sums = np.concatenate([convolved(image[..., [c]], ones, 1, 1, 1, 1) for c in range(3)], 3)
    counts = convolved(np.ones((2, 6, 6, 1)), ones, 1, 1, 1, 1)
    cause = other_windows(op(sums / counts, sums / 9, 1, "AvgPool", None, image, 3))
    assert (cause.name, cause.fix) == ("pooling", "count_include_pad=False")


@pytest.mark.parametrize("other", [lambda same: same * (1 + 1e-6), lambda same: RANDOM.normal(size=same.shape)])
def test_what_no_other_windows_give_is_not_named(other):
    same = convolved(IMAGE, KERNEL, 1, 1, 1, 1)
    assert other_windows(op(same, other(same))) is None


def spread(image, kernel, stride):
    """The definition of a transposed convolution, written out, before anything is cut off."""
    high, wide = ((size - 1) * stride + width for size, width in zip(image.shape[1:3], kernel.shape[:2], strict=True))
    found = np.zeros((len(image), high, wide, kernel.shape[2]))
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            part = found[:, y * stride : y * stride + kernel.shape[0], x * stride : x * stride + kernel.shape[1]]
            part += np.einsum("nc,ijoc->nijo", image[:, y, x], kernel)
    return found


def among(kind, own, other, stride=1, kernel=KERNEL, image=IMAGE):
    given = op(own, own, stride, kind, kernel, image)
    return windows_among(given, [RANDOM.normal(size=own.shape), other.transpose(0, 3, 1, 2)])


def test_a_transposed_convolution_that_is_cut_elsewhere_is_named():
    kernel = RANDOM.normal(size=(5, 5, 4, 3))
    whole = spread(IMAGE, kernel, 2)
    own, other = whole[:, 1:-2, 1:-2], whole[:, 2:-1, 2:-1]
    cause = among("Conv2DBackpropInput", own, other, 2, kernel)
    assert cause.name == "padding"
    assert "cuts off 2 above and 2 to the left" in cause.title
    assert among("Conv2DBackpropInput", own, RANDOM.normal(size=own.shape), 2, kernel) is None


def test_a_dilation_that_is_lost_is_named():
    wide = np.zeros((5, 5, 3, 4))
    wide[::2, ::2] = KERNEL
    own, other = convolved(IMAGE, wide, 2, 2, 2, 2), convolved(IMAGE, KERNEL, 1, 1, 1, 1)
    cause = among("Conv2D", own, other)
    assert cause.name == "dilation"
    assert "by 1 in the candidate, by 2 in the reference" in cause.title
    assert among("Conv2D", own, RANDOM.normal(size=own.shape)) is None


def test_a_bias_that_the_candidate_has_added_and_padding_that_counts_hide_nothing():
    bias = RANDOM.normal(size=4)
    image = IMAGE[:, :6]
    own, other = convolved(image, KERNEL, 0, 1, 0, 1, 2), convolved(image, KERNEL, 1, 0, 1, 0, 2)
    given = op(own, own, 2, "Conv2D", KERNEL, image)
    assert windows_among(given, [other + bias]) is None
    assert windows_among(given, [other + bias], bias).name == "padding"
    ones = np.ones((3, 3, 1, 1))
    sums = np.concatenate([convolved(image[..., [c]], ones, 0, 1, 0, 1, 2) for c in range(3)], 3)
    counts = convolved(np.ones((1, 6, 6, 1)), ones, 0, 1, 0, 1, 2)
    given = op(sums / counts, sums, 2, "AvgPool", None, image)
    assert "counting the padding" in windows_among(given, [sums / 9]).title


def test_what_would_take_too_long_is_not_computed_again(monkeypatch):
    image = IMAGE[:, :6]
    given = op(convolved(image, KERNEL, 0, 1, 0, 1, 2), convolved(image, KERNEL, 1, 0, 1, 0, 2), 2, image=image)
    assert other_windows(given) is not None
    monkeypatch.setattr(at_windows, "MOST_MULTIPLICATIONS", 27 * 9 * KERNEL.size - 1)  # 27 ways, 9 places of one image
    monkeypatch.setattr(at_windows, "_computed", None)
    assert other_windows(given) is None


@pytest.mark.parametrize(("top", "left"), [(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)])
def test_windows_may_be_longer_one_way_and_stride_further(top, left):
    kernel = RANDOM.normal(size=(3, 2, 3, 4))
    reference = convolved(IMAGE, kernel, 0, 0, 0, 0)[:, ::2]
    candidate = convolved(IMAGE, kernel, top, 0, left, 0)[:, ::2][:, :3, :5]
    given = op(reference, candidate, kernel=kernel)._replace(attributes={"strides": [1, 2, 1, 1]})
    words = (
        f"conv pads {top} above and {left} to the left of the image in the candidate, 0 above and 0 to the left in the"
    )
    assert words in other_windows(given).title
    assert words in windows_among(given, [candidate]).title


def test_without_strides_windows_go_place_by_place():
    same, other = (convolved(IMAGE, KERNEL, top, 2 - top, 1, 1) for top in (1, 2))
    given = op(same, other)._replace(attributes={})
    assert "2 above and 1 to the left" in other_windows(given).title
    alone = convolved(IMAGE, KERNEL[:1, :1], 0, 0, 0, 0)
    assert other_windows(op(alone, same, kernel=KERNEL[:1, :1])._replace(attributes={})) is None


def test_what_has_no_windows_or_other_shapes_is_not_computed_again():
    same, other = (convolved(IMAGE, KERNEL, top, 2 - top, 1, 1) for top in (1, 2))
    right = op(same, other)
    assert other_windows(right) is not None and windows_among(right, [other]) is not None
    for wrong in (
        right._replace(kind="MatMul"),
        right._replace(kernel=None),
        right._replace(kind="MaxPool"),
        right._replace(image=IMAGE[..., :2]),
        right._replace(image=IMAGE[0]),
        right._replace(kernel=KERNEL[0]),
        right._replace(reference=same.reshape(2, -1), candidate=other.reshape(2, -1)),
    ):
        assert other_windows(wrong) is None and windows_among(wrong, [other]) is None
    assert other_windows(right._replace(candidate=other[:, 1:])) is None
    for beyond in ([], [other[:1]], [other[:, 1:]], [np.zeros(())], [same]):
        assert windows_among(right, beyond) is None
