import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from .closeness import assert_close, difference


def tf_dropout(tf, np, session, x, rate):
    with session() as opened:
        return {"y": opened.run(tf.nn.dropout(tf.constant(x), rate=rate, seed=1))}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.tf1
def test_a_recorded_mask_gives_tensorflow_1s_result_bit_for_bit(tf1, rate, dtype):
    x, want = _dropped(tf1, rate, dtype)
    assert np.array_equal(like_tf.dropout(torch.tensor(x), rate, torch.tensor(want != 0)).numpy(), want)


@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 0.0), (np.float32, 3e-7)])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_a_recorded_mask_gives_tensorflow_2s_result_up_to_the_rounding_of_the_scale(tf2, rate, dtype, limit):
    x, want = _dropped(tf2, rate, dtype)
    assert_close(like_tf.dropout(torch.tensor(x), rate, torch.tensor(want != 0)), want, limit)


def _dropped(tf, rate, dtype):
    x = np.random.RandomState(0).randn(30, 40).astype(dtype)
    want = tf(tf_dropout, x=x, rate=rate)["y"]
    assert abs((want != 0).mean() - (1 - rate)) < 0.05
    return x, want


@pytest.mark.tf1
def test_dividing_by_the_kept_part_rounds_otherwise(tf1, semantics):
    x = np.random.RandomState(0).randn(30, 40).astype(np.float32)
    want = tf1(tf_dropout, x=x, rate=0.3)["y"]
    off = difference(torch.tensor(x) * torch.tensor(want != 0) / 0.7, want)
    assert off > 1e-8
    semantics(
        "Dropout from a recorded mask (float32)",
        "`x * (1 / (1 - rate)) * mask`",
        "`x * mask / (1 - rate)`",
        off,
        "Dropout, dropout",
    )


def test_about_the_rate_is_dropped_and_shared_along_axes_of_one():
    torch.manual_seed(0)
    y = like_tf.Dropout(0.25, noise_shape=(1000, 1))(torch.ones(1000, 4, dtype=torch.float64))
    assert torch.equal(y, y[:, :1].expand(-1, 4))
    assert (y[:, 0] == 0).double().mean().item() == pytest.approx(0.25, abs=0.05)
    assert set(y.flatten().tolist()) == {0.0, 1 / 0.75}


def test_evaluation_drops_nothing_and_an_impossible_rate_is_refused():
    x = torch.randn(3)
    assert like_tf.Dropout(0.5).eval()(x) is x
    with pytest.raises(like_tf.LikeTfError, match=r"expected a rate in \[0, 1\), got 1.0"):
        like_tf.dropout(x, 1.0)
