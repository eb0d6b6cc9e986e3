import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference
from .layouts import channels_first, channels_last, weighted

GRIDS = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
SIZES = [[10, 14], [3, 4], [5, 7], [9, 5], [1, 1], [2, 3], [13, 100]]


def tf_resize(tf, np, session, x, sizes, kind, grid):
    from tensorflow.python.ops import gen_image_ops

    inputs, out = tf.constant(x), {}
    for i, size in enumerate(sizes):
        y = getattr(gen_image_ops, kind)(inputs, size, **grid)
        cosines = np.cos(np.arange(int(np.prod(y.shape.as_list())))).reshape(y.shape.as_list())
        loss = tf.reduce_sum(y * cosines.astype(y.dtype.as_numpy_dtype))
        out[f"{i}/y"], out[f"{i}/dx"] = y, tf.gradients(loss, inputs)[0]
    with session() as opened:
        return opened.run(out)


def _image(dtype):
    return np.random.RandomState(0).randn(2, 5, 7, 3).astype(dtype)


@pytest.mark.parametrize("grid", GRIDS)
def test_bilinear_is_tensorflows_kernel_in_float32(tf, grid):
    x0 = _image(np.float32)
    want = tf(tf_resize, x=x0, sizes=SIZES, kind="resize_bilinear", grid=grid)
    for i, size in enumerate(SIZES):
        x = channels_first(x0)
        y = like_tf.resize_bilinear(x, tuple(size), **grid)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{i}/y"], 2e-6)
        assert_close(channels_last(x.grad), want[f"{i}/dx"], 2e-5)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("size", SIZES)
def test_bilinear_is_its_formula_in_float64(grid, size):
    x = _image(np.float64)
    weights = []
    for old, new in zip(x.shape[1:3], size, strict=True):
        align = "align_corners" in grid and new > 1
        matrix = np.zeros((new, old))
        for pixel in range(new):
            at = pixel * ((old - 1) / (new - 1) if align else old / new)
            if "half_pixel_centers" in grid:
                at = (pixel + 0.5) * old / new - 0.5
            at = min(max(at, 0.0), old - 1.0)
            low = int(np.floor(at))
            matrix[pixel, low] += 1 - (at - low)
            matrix[pixel, min(low + 1, old - 1)] += at - low
        weights.append(matrix)
    formula = np.einsum("ph,qw,nhwc->npqc", *weights, x)
    got = like_tf.resize_bilinear(channels_first(x), tuple(size), **grid)
    assert_close(channels_last(got), formula, 2e-14)


@pytest.mark.parametrize("grid", GRIDS)
def test_nearest_is_tensorflows_kernel_bit_for_bit(tf, grid):
    x0 = _image(np.float64)
    want = tf(tf_resize, x=x0, sizes=SIZES, kind="resize_nearest_neighbor", grid=grid)
    for i, size in enumerate(SIZES):
        x = channels_first(x0)
        y = like_tf.resize_nearest_neighbor(x, tuple(size), **grid)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{i}/y"], 0.0)
        assert_close(channels_last(x.grad), want[f"{i}/dx"], 1e-14)


def test_torch_has_no_default_grid(tf2, semantics):
    x = _image(np.float32)
    want = tf2(tf_resize, x=x, sizes=[[10, 14]], kind="resize_bilinear", grid={})["0/y"]
    plain = torch.nn.functional.interpolate(channels_first(x), (10, 14), mode="bilinear", align_corners=False)
    off = difference(channels_last(plain), want)
    assert off > 0.1
    semantics(
        "resize_bilinear, default grid (float32)",
        "pixel i at `i * old / new`",
        "`interpolate`: half pixel centers",
        off,
        "resize_bilinear",
    )
    want = tf2(tf_resize, x=x, sizes=[[9, 5]], kind="resize_nearest_neighbor", grid={"align_corners": True})["0/y"]
    off = difference(channels_last(torch.nn.functional.interpolate(channels_first(x), (9, 5))), want)
    assert off > 0.1
    semantics(
        "resize_nearest_neighbor, corners aligned",
        "pixel i at `round(i * (old - 1) / (new - 1))`",
        "`interpolate` knows the default and half pixel centers",
        off,
        "resize_nearest_neighbor",
    )


def test_two_grids_at_once_are_refused():
    with pytest.raises(like_tf.LikeTfError, match="resize_bilinear: expected one of align_corners"):
        like_tf.resize_bilinear(torch.ones(1, 1, 2, 2), (3, 3), True, True)


def tf_bicubic_and_area(tf, np, session, x, sizes, grids):
    from tensorflow.python.ops import gen_image_ops

    inputs, out = tf.constant(x), {}
    for i, size in enumerate(sizes):
        for j, grid in enumerate(grids):
            y = gen_image_ops.resize_bicubic(inputs, size, **grid)
            cosines = np.cos(np.arange(int(np.prod(y.shape.as_list())))).reshape(y.shape.as_list())
            loss = tf.reduce_sum(y * cosines.astype("float32"))
            out[f"{i}/{j}/bicubic"], out[f"{i}/{j}/dx"] = y, tf.gradients(loss, inputs)[0]
            if "half_pixel_centers" not in grid:
                out[f"{i}/{j}/area"] = gen_image_ops.resize_area(inputs, size, **grid)
    with session() as opened:
        return opened.run(out)


@pytest.mark.both_tensorflows
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bicubic_and_area_are_tensorflows_kernels(tf, dtype):
    x0 = _image(dtype)
    want = tf(tf_bicubic_and_area, x=x0, sizes=SIZES, grids=GRIDS)
    for i, size in enumerate(SIZES):
        for j, grid in enumerate(GRIDS):
            x = channels_first(x0)
            y = like_tf.resize_bicubic(x, tuple(size), **grid)
            weighted(y).backward()
            assert y.dtype == x.dtype
            # The kernels give float32, and the gradient's takes float32 of what is above.
            assert_close(channels_last(y), want[f"{i}/{j}/bicubic"], 1e-6)
            assert_close(channels_last(x.grad), want[f"{i}/{j}/dx"], 3e-6)
            if f"{i}/{j}/area" in want:
                assert_close(
                    channels_last(like_tf.resize_area(channels_first(x0), tuple(size), **grid)),
                    want[f"{i}/{j}/area"],
                    1e-6,
                )


def test_an_area_is_the_mean_of_what_a_pixel_covers():
    x = torch.arange(6, dtype=torch.float64).reshape(1, 1, 1, 6)
    assert like_tf.resize_area(x, (1, 3)).flatten().tolist() == [0.5, 2.5, 4.5]
    assert_close(like_tf.resize_area(x, (1, 4)).flatten(), np.array([1 / 3, 5 / 3, 10 / 3, 14 / 3]), 1e-7)
    assert like_tf.resize_area(x, (2, 12)).shape == (1, 1, 2, 12)


def test_bicubic_refuses_two_grids_at_once():
    with pytest.raises(
        like_tf.LikeTfError, match="resize_bicubic: expected one of align_corners and half_pixel_centers"
    ):
        like_tf.resize_bicubic(torch.ones(1, 1, 2, 2), (3, 3), align_corners=True, half_pixel_centers=True)


def test_torchs_bicubic_and_area_are_others(tf2, semantics):
    x0 = _image(np.float32)
    want = tf2(tf_bicubic_and_area, x=x0, sizes=[[3, 4]], grids=GRIDS)
    x = channels_first(x0)
    off = difference(channels_last(torch.nn.functional.interpolate(x, (3, 4), mode="bicubic")), want["0/0/bicubic"])
    assert off > 0.1
    semantics(
        "resize_bicubic, default grid (float32)",
        "pixel i at `i * old / new`, weights of a table of 1024 steps",
        "`interpolate`: half pixel centers",
        off,
        "resize_bicubic",
    )
    off = difference(channels_last(torch.nn.functional.interpolate(x, (3, 4), mode="area")), want["0/0/area"])
    assert off > 0.05
    semantics(
        "resize_area, 7 pixels to 4 (float32)",
        "parts of pixels count by their part",
        "`interpolate(mode='area')`: whole pixels",
        off,
        "resize_area",
    )
