import copy

import numpy as np
import pytest
import torch

from torch_ddp import Rank, like_tf, process_group

from ..closeness import assert_close, difference


def tf_layer(tf, np, session, x, gamma, beta, momentum, epsilon, fused):
    """Five training steps, then inference on the first input; x is [steps, batch, *space, channels]."""
    fed = tf.placeholder(x.dtype, x.shape[1:])
    make = tf.constant_initializer
    layer = tf.layers.BatchNormalization(
        momentum=momentum,
        epsilon=epsilon,
        fused=fused,
        gamma_initializer=make(gamma),
        beta_initializer=make(beta),
    )
    y = layer.apply(fed, training=True)
    quiet = layer.apply(fed, training=False)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    cosines = np.cos(np.arange(x[0].size, dtype=x.dtype)).reshape(x[0].shape)
    grads = tf.gradients(tf.reduce_sum(y * cosines), [fed, layer.gamma, layer.beta])
    with session() as opened:
        first = opened.run([y, *grads], {fed: x[0]})
        for step in range(len(x)):
            opened.run(updates, {fed: x[step]})
        return {
            "y": first[0],
            "dx": first[1],
            "dgamma": first[2],
            "dbeta": first[3],
            "mean": opened.run(layer.moving_mean),
            "variance": opened.run(layer.moving_variance),
            "inference": opened.run(quiet, {fed: x[0]}),
            "fused": any("FusedBatchNorm" in op.type for op in tf.get_default_graph().get_operations()),
        }


def tf_fused_formula(tf, np, session, x, gamma, beta, momentum, epsilon):
    """What the fused kernel computes, spelled out in float64, where there is no such kernel."""
    fed = tf.placeholder(x.dtype, x.shape[1:])
    scale, offset = tf.constant(gamma), tf.constant(beta)
    mean, variance = tf.nn.moments(fed, list(range(x.ndim - 2)))
    y = tf.nn.batch_normalization(fed, mean, variance, offset, scale, epsilon)
    count = x[0].size // x.shape[-1]
    moving = tf.Variable(np.zeros(x.shape[-1])), tf.Variable(np.ones(x.shape[-1]))
    decay = tf.cast(1.0 - tf.constant(momentum), x.dtype)
    updates = [
        tf.assign_sub(old, (old - new) * decay)
        for old, new in zip(moving, (mean, variance * (count / (count - 1.0))))  # noqa: B905 - Python 3.7 reads it
    ]
    quiet = tf.nn.batch_normalization(fed, moving[0], moving[1], offset, scale, epsilon)
    cosines = np.cos(np.arange(x[0].size, dtype=x.dtype)).reshape(x[0].shape)
    grads = tf.gradients(tf.reduce_sum(y * cosines), [fed, scale, offset])
    with session() as opened:
        first = opened.run([y, *grads], {fed: x[0]})
        for step in range(len(x)):
            opened.run(updates, {fed: x[step]})
        out = {"y": first[0], "dx": first[1], "dgamma": first[2], "dbeta": first[3]}
        out.update(mean=opened.run(moving[0]), variance=opened.run(moving[1]))
        return dict(out, inference=opened.run(quiet, {fed: x[0]}))


def tf_debiased(tf, np, session, x, momentum, variance_too):
    """Five steps of assign_moving_average, which makes up for the start at zero unless it is asked not to."""
    from tensorflow.python.training.moving_averages import assign_moving_average

    fed = tf.placeholder(x.dtype, x.shape[1:])
    batch = tf.nn.moments(fed, list(range(x.ndim - 2)))
    names = "mean", "variance"
    with tf.variable_scope("norm"):
        moving = [tf.get_variable(name, initializer=tf.zeros(x.shape[-1], x.dtype), trainable=False) for name in names]
        updates = [
            assign_moving_average(old, new, momentum, zero_debias=name == "mean" or variance_too)
            for name, old, new in zip(names, moving, batch)  # noqa: B905 - Python 3.7 reads it
        ]
    with session() as opened:
        steps = []
        for step in range(len(x)):
            opened.run(updates, {fed: x[step]})
            steps.append(opened.run(moving))
        return {name: np.array([each[number] for each in steps]) for number, name in enumerate(names)}


def _torch(make, x, gamma, beta):
    """The same steps on torch's side, results in TensorFlow's layout."""
    dtype = torch.tensor(x).dtype
    layer = make(x.shape[-1]).to(dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(gamma))
        layer.bias.copy_(torch.tensor(beta))
    inputs = torch.tensor(np.ascontiguousarray(np.moveaxis(x, -1, 2)))
    first = inputs[0].clone().requires_grad_()
    y = copy.deepcopy(layer)
    out = y(first)
    cosines = torch.cos(torch.arange(out.numel(), dtype=dtype))
    (out.movedim(1, -1) * cosines.reshape(out.movedim(1, -1).shape)).sum().backward()
    for one in inputs:
        layer(one)
    layer.eval()
    return {
        "y": out.detach().movedim(1, -1),
        "dx": first.grad.movedim(1, -1),
        "dgamma": y.weight.grad,
        "dbeta": y.bias.grad,
        "mean": layer.running_mean,
        "variance": layer.running_var,
        "inference": layer(inputs[0]).detach().movedim(1, -1),
    }


def _inputs(shape, dtype=np.float64, seed=0):
    rng = np.random.RandomState(seed)
    x = (rng.randn(5, *shape) * 1.7 + 0.3).astype(dtype)
    return x, rng.rand(shape[-1]).astype(dtype) + 0.5, rng.randn(shape[-1]).astype(dtype)


def _assert_all_close(got, want, limit):
    for name in got:
        assert_close(got[name], want[name], limit)


@pytest.mark.parametrize("momentum", [0.99, 0.999, 0.9])
@pytest.mark.parametrize("shape", [(16, 5), (6, 4, 3, 5)])
def test_the_layer_that_is_not_fused_agrees_in_float64(tf, shape, momentum):
    x, gamma, beta = _inputs(shape)
    want = tf(tf_layer, x=x, gamma=gamma, beta=beta, momentum=momentum, epsilon=1e-3, fused=False)
    assert not want.pop("fused")
    cls = like_tf.BatchNorm1d if len(shape) == 2 else like_tf.BatchNorm2d
    got = _torch(lambda n: cls(n, momentum=momentum, fused=False), x, gamma, beta)
    _assert_all_close(got, want, 2e-14)


@pytest.mark.parametrize("momentum", [0.99, 0.999])
@pytest.mark.parametrize("shape", [(16, 5), (6, 4, 3, 5)])
def test_the_fused_rule_agrees_in_float64_with_its_formula(tf, shape, momentum):
    x, gamma, beta = _inputs(shape)
    want = tf(tf_fused_formula, x=x, gamma=gamma, beta=beta, momentum=momentum, epsilon=1e-3)
    cls = like_tf.BatchNorm1d if len(shape) == 2 else like_tf.BatchNorm2d
    got = _torch(lambda n: cls(n, momentum=momentum, fused=True), x, gamma, beta)
    _assert_all_close(got, want, 2e-14)


@pytest.mark.parametrize("momentum", [0.99, 0.999])
def test_the_fused_kernel_agrees_in_float32(tf, momentum):
    x, gamma, beta = _inputs((6, 4, 3, 5), np.float32)
    want = tf(tf_layer, x=x, gamma=gamma, beta=beta, momentum=momentum, epsilon=1e-3, fused=True)
    assert want.pop("fused")
    got = _torch(lambda n: like_tf.BatchNorm2d(n, momentum=momentum), x, gamma, beta)
    _assert_all_close(got, want, 2e-6)


@pytest.mark.tf1
def test_tensorflow_1_raises_a_small_fused_epsilon(tf1):
    x, gamma, beta = _inputs((6, 4, 3, 5), np.float32)
    x = x * np.float32(1e-3)
    want = tf1(tf_layer, x=x, gamma=gamma, beta=beta, momentum=0.9, epsilon=1e-6, fused=True)["y"]
    assert_close(_torch(lambda n: like_tf.BatchNorm2d(n, eps=1e-6), x, gamma, beta)["y"], want, 2e-6)
    free = _torch(lambda n: like_tf.BatchNorm2d(n, eps=1e-6, fused_epsilon_floor=0.0), x, gamma, beta)["y"]
    assert difference(free, want) > 0.1


def test_tensorflow_2_does_not_raise_a_small_fused_epsilon(tf2):
    x, gamma, beta = _inputs((6, 4, 3, 5), np.float32)
    x = x * np.float32(1e-3)
    want = tf2(tf_layer, x=x, gamma=gamma, beta=beta, momentum=0.9, epsilon=1e-6, fused=True)["y"]
    free = _torch(lambda n: like_tf.BatchNorm2d(n, eps=1e-6, fused_epsilon_floor=0.0), x, gamma, beta)["y"]
    assert_close(free, want, 2e-6)


def test_plain_torch_differs_in_statistics_and_defaults(tf2, semantics):
    x, gamma, beta = _inputs((16, 5))
    want = tf2(tf_layer, x=x, gamma=gamma, beta=beta, momentum=0.99, epsilon=1e-3, fused=False)
    plain = _torch(lambda n: torch.nn.BatchNorm1d(n, eps=1e-3, momentum=1 - 0.99), x, gamma, beta)
    off = difference(plain["variance"] - 1, want["variance"] - 1)
    assert off > 1e-2
    semantics(
        "Batch norm, not fused (2-D in tf.layers): moved part of the moving variance, 16 per channel",
        "biased variance, decay `float32(1 - m)`",
        "unbiased variance",
        off,
        "BatchNorm1d",
    )
    x, gamma, beta = _inputs((6, 4, 3, 5))
    want = tf2(tf_fused_formula, x=x, gamma=gamma, beta=beta, momentum=0.999, epsilon=1e-3)
    plain = _torch(lambda n: torch.nn.BatchNorm2d(n, eps=1e-3, momentum=1 - 0.999), x, gamma, beta)
    off = difference(plain["mean"], want["mean"])
    assert off > 1e-6
    semantics(
        "Batch norm, fused, momentum 0.999: moving mean",
        "unbiased variance, decay `float32(1) - float32(m)`, epsilon at least 1.001e-5 (1.15)",
        "the same rule, decay not rounded",
        off,
        "BatchNorm2d",
    )


def test_one_value_per_channel_has_variance_zero(tf):
    x, gamma, beta = _inputs((1, 5))
    want = tf(tf_layer, x=x, gamma=gamma, beta=beta, momentum=0.9, epsilon=1e-3, fused=False)
    want.pop("fused")
    _assert_all_close(_torch(lambda n: like_tf.BatchNorm1d(n, momentum=0.9), x, gamma, beta), want, 1e-13)


def test_scale_and_center_can_be_left_out():
    layer = like_tf.BatchNorm2d(3, scale=False)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    assert not list(like_tf.BatchNorm2d(3, scale=False, center=False).parameters())
    layer.reset_parameters()
    x = torch.randn(4, 3, 2, 2)
    assert_close(layer(x), torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-3), 1e-6)


def test_conversion_to_sync_batch_norm_keeps_the_decay_and_the_epsilon():
    synced = torch.nn.SyncBatchNorm.convert_sync_batchnorm(like_tf.BatchNorm2d(3, momentum=0.999))
    assert synced.momentum == float(np.float32(1) - np.float32(0.999))
    assert synced.eps == 1e-3


def test_a_state_without_the_count_of_batches_loads():
    state = {name: torch.full((2,), 3.0) for name in ("weight", "bias", "running_mean", "running_var")}
    layer = torch.nn.Sequential(like_tf.BatchNorm1d(2))
    layer.load_state_dict({f"0.{name}": value for name, value in state.items()})
    assert layer[0].running_var.tolist() == [3.0, 3.0]


def test_it_runs_under_distributed_data_parallel(tmp_path):
    with process_group(Rank(0, 0, 1), "gloo", (tmp_path / "meeting").as_uri()):
        layer = like_tf.BatchNorm2d(3)
        model = torch.nn.parallel.DistributedDataParallel(layer)
        model(torch.randn(4, 3, 2, 2)).square().sum().backward()
        assert layer.weight.grad is not None
        assert layer.running_mean.abs().min() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: like_tf.BatchNorm2d(3, momentum=1.5), r"BatchNorm2d: expected momentum in \[0, 1\].*got 1.5"),
        (lambda: like_tf.BatchNorm2d(3)(torch.ones(2, 3)), "BatchNorm2d: expected 4 axes, got 2"),
        (lambda: like_tf.BatchNorm1d(3)(torch.ones(2, 3, 1, 1)), "BatchNorm1d: expected 2 or 3 axes, got 4"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call()


@pytest.mark.parametrize("variance_too", [False, True])
@pytest.mark.parametrize("momentum", [0.9, 0.999])
@pytest.mark.parametrize("shape", [(16, 5), (6, 4, 3, 5)])
def test_statistics_that_make_up_for_their_start_at_zero_are_tensorflows_after_every_step(
    tf, shape, momentum, variance_too
):
    x, _, _ = _inputs(shape)
    want = tf(tf_debiased, x=x, momentum=momentum, variance_too=variance_too)
    make = like_tf.BatchNorm1d if len(shape) == 2 else like_tf.BatchNorm2d
    debiased = True if variance_too else "mean"
    layer = make(shape[-1], momentum=momentum, fused=False, zero_debias=debiased).double()
    layer.running_var.zero_()  # as the script of the other side has it
    for step, one in enumerate(np.ascontiguousarray(np.moveaxis(x, -1, 2))):
        layer(torch.tensor(one))
        assert_close(layer.running_mean, want["mean"][step], 1e-12)
        assert_close(layer.running_var, want["variance"][step], 1e-12)


def test_a_gamma_that_is_not_trained_is_a_buffer():
    layer = like_tf.BatchNorm2d(3, scale="fixed", fused=False)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    layer.weight.fill_(2.0)
    x = torch.randn(4, 3, 5, 5)
    assert torch.allclose(layer(x), 2 * like_tf.BatchNorm2d(3, fused=False)(x))
