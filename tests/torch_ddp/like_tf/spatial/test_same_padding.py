import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ddp import like_tf

sizes = st.integers(1, 30)
small = st.integers(1, 6)


@given(sizes, small, small, small)
def test_a_padded_axis_has_just_the_windows_that_same_promises(size, kernel, stride, dilation):
    before, after = like_tf.same_padding(size, kernel, stride, dilation)
    window = (kernel - 1) * dilation + 1
    windows = -(-size // stride)
    assert after - before in (0, 1)
    assert (windows - 1) * stride + window <= size + before + after
    assert (windows - 1) * stride + window == size + before + after or before == after == 0


def test_stride_two_pads_even_sizes_on_one_side_and_odd_sizes_on_both():
    assert like_tf.same_padding(8, 3, 2) == (0, 1)
    assert like_tf.same_padding(9, 3, 2) == (1, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: like_tf.conv(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), padding=1), "'SAME' or 'VALID', got 1"),
        (lambda: like_tf.conv(torch.ones(1, 1, 4), torch.ones(1, 1, 3, 3)), "the same number, got 3 and 4"),
        (lambda: like_tf.max_pool(torch.ones(1, 1, 4, 4), (2, 2, 2)), r"expected 2 positive numbers, got \(2, 2, 2\)"),
        (lambda: like_tf.avg_pool(torch.ones(4, 4), 2), "expected x of 3 to 5 axes, got 2"),
        (lambda: like_tf.Conv2d(1, 1, 3, stride=0), "Conv2d: expected 2 positive numbers, got 0"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call()
