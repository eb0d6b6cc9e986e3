import numpy as np
import pytest
import torch

from torch_ddp import Rank, like_tf, process_group

from ..closeness import assert_close, difference


def tf_clip(tf, np, session, x, norm, axes):
    inputs = tf.constant(x)
    out = {
        "by_norm": tf.clip_by_norm(inputs, norm, axes=axes),
        "by_value": tf.clip_by_value(inputs, -0.5, 0.5),
        "global_norm": tf.global_norm([inputs, None, inputs * 2]),
    }
    clipped, _ = tf.clip_by_global_norm([inputs, None, inputs * 2], norm)
    out.update(first=clipped[0], third=clipped[2])
    cosines = np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape)
    for name in ("by_norm", "by_value"):
        out["d" + name] = tf.gradients(tf.reduce_sum(out[name] * cosines), inputs)[0]
    with session() as opened:
        return opened.run(out)


@pytest.mark.parametrize("axes", [None, [1]])
@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0])
def test_clipping_is_tensorflows_with_its_gradients(tf, size, axes):
    x0 = np.random.RandomState(0).randn(4, 6) * size
    want = tf(tf_clip, x=x0, norm=0.7, axes=axes)
    cosines = torch.cos(torch.arange(24.0, dtype=torch.float64)).reshape(4, 6)
    dims = None if axes is None else tuple(axes)
    for name, clip in {
        "by_norm": lambda x: like_tf.clip_by_norm(x, 0.7, dims),
        "by_value": lambda x: like_tf.clip_by_value(x, -0.5, 0.5),
    }.items():
        x = torch.tensor(x0, requires_grad=True)
        y = clip(x)
        (y * cosines).sum().backward()
        assert_close(y, want[name], 1e-14)
        assert_close(x.grad, want["d" + name], 1e-14)
    x = torch.tensor(x0)
    (first, second, third), norm = like_tf.clip_by_global_norm([x, None, 2 * x], 0.7)
    assert second is None
    assert_close(norm, want["global_norm"], 1e-14)
    assert_close(first, want["first"], 1e-14)
    assert_close(third, want["third"], 1e-14)


def test_plain_clipping_adds_to_the_norm(tf2, semantics):
    x0 = np.random.RandomState(0).randn(4, 6) * 1e-3
    want = tf2(tf_clip, x=x0, norm=1e-3, axes=None)["first"]
    parameters = [torch.nn.Parameter(torch.zeros(4, 6, dtype=torch.float64)) for _ in range(2)]
    for factor, parameter in enumerate(parameters, 1):
        parameter.grad = torch.tensor(x0) * factor
    torch.nn.utils.clip_grad_norm_(parameters, 1e-3)
    off = difference(parameters[0].grad, want)
    assert off > 1e-5
    semantics(
        "Clipping by global norm, norm 1e-2",
        "`clip / norm`",
        "`clip_grad_norm_`: `clip / (norm + 1e-6)`",
        off,
        "clip_by_global_norm, clip_grads_by_global_norm_, global_norm",
    )
    want = tf2(tf_clip, x=x0, norm=1e-3, axes=None)["by_norm"]
    parameters[0].grad = torch.tensor(x0)
    torch.nn.utils.clip_grad_norm_(parameters[0], 1e-3)
    off = difference(parameters[0].grad, want)
    assert off > 1e-5
    semantics(
        "Clipping one tensor by its norm, norm 5e-3; by value",
        "`x * clip / max(norm, clip)`; `clamp`",
        "`clip_grad_norm_`: `clip / (norm + 1e-6)`; `clamp`",
        off,
        "clip_by_norm, clip_by_value",
    )


def tf_clip_slices(tf, np, session, dense, values, rows, norm):
    slices = tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([5, 3]))
    clipped, total = tf.clip_by_global_norm([tf.constant(dense), slices], norm)
    with session() as opened:
        return opened.run({"norm": total, "dense": clipped[0], "sparse": tf.convert_to_tensor(clipped[1])})


def test_rows_looked_up_twice_count_twice_in_the_norm(tf):
    rng = np.random.RandomState(0)
    dense, values, rows = rng.randn(2, 2), rng.randn(4, 3), np.array([1, 1, 4, 1])
    want = tf(tf_clip_slices, dense=dense, values=values, rows=rows, norm=1.1)
    weight = torch.nn.Parameter(torch.tensor(dense))
    weight.grad = torch.tensor(dense)
    table = torch.nn.Embedding(5, 3, sparse=True, dtype=torch.float64)
    table(torch.tensor(rows)).backward(torch.tensor(values))
    norm = like_tf.clip_grads_by_global_norm_([weight, table.weight, torch.nn.Parameter(torch.ones(1))], 1.1)
    assert_close(norm, want["norm"], 1e-14)
    assert_close(weight.grad, want["dense"], 1e-14)
    assert_close(table.weight.grad.to_dense(), want["sparse"], 1e-14)
    (clipped,), _ = like_tf.clip_by_global_norm([table.weight.grad], 0.5)
    assert_close(
        clipped.to_dense(), 0.5 / like_tf.global_norm([table.weight.grad]) * table.weight.grad.to_dense(), 1e-14
    )


def test_distributed_data_parallel_sums_rows_before_the_norm_can_be_taken(tmp_path):
    rows, values = torch.tensor([1, 1, 4, 1]), torch.ones(4, 3)
    table = torch.nn.Embedding(5, 3, sparse=True)
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()):
        model = torch.nn.parallel.DistributedDataParallel(table)
        looked_up = model(rows)
        looked_up.retain_grad()
        looked_up.backward(values)
    assert like_tf.global_norm([table.weight.grad]).item() == pytest.approx(30**0.5)
    assert like_tf.global_norm([looked_up.grad]).item() == pytest.approx(12**0.5)


@pytest.mark.parametrize("limit", [0.5, -0.5])
def test_an_element_on_the_limit_passes_its_gradient_on(tf, limit):
    x0 = np.array([[limit, 0.0, 2 * limit]])
    x = torch.tensor(x0, requires_grad=True)
    like_tf.clip_by_value(x, -0.5, 0.5).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 0.0]]
    assert (tf(tf_clip, x=x0, norm=1.0, axes=None)["dby_value"] / np.cos(np.arange(3))).tolist() == [[1.0, 1.0, 0.0]]


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_norm_that_is_not_finite_makes_everything_nan(tf, bad):
    want = tf(tf_clip, x=np.array([[bad, 1.0]]), norm=0.7, axes=None)
    assert np.isnan(want["first"]).all()
    clipped, norm = like_tf.clip_by_global_norm([torch.tensor([[bad, 1.0]])], 0.7)
    assert torch.isnan(clipped[0]).all()
    assert not norm.isfinite()


def test_no_gradient_at_all_is_refused():
    with pytest.raises(like_tf.LikeTfError, match="global_norm: expected at least one tensor, got none"):
        like_tf.clip_grads_by_global_norm_([torch.nn.Parameter(torch.ones(1))], 1.0)
