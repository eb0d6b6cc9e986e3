from functools import partial

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference
from ..spatial.layouts import channels_first, channels_last, weighted


def tf_contrib_layer_norm(tf, np, session, x, gamma, beta):
    from tensorflow.contrib import layers

    inputs = tf.constant(x)
    y = layers.layer_norm(inputs, scope="ln")
    variables = {v.op.name: v for v in tf.global_variables()}
    cosines = np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape)
    sources = [inputs, variables["ln/gamma"], variables["ln/beta"]]
    dx, dgamma, dbeta = tf.gradients(tf.reduce_sum(y * cosines), sources)
    with session() as opened:
        variables["ln/gamma"].load(gamma, opened)
        variables["ln/beta"].load(beta, opened)
        return opened.run({"y": y, "dx": dx, "dgamma": dgamma, "dbeta": dbeta})


@pytest.mark.tf1
@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 2, 6)])
def test_layer_norm_is_contribs(tf1, semantics, shape):
    rng = np.random.RandomState(0)
    x0, gamma0, beta0 = rng.randn(*shape), rng.randn(6), rng.randn(6)
    want = tf1(tf_contrib_layer_norm, x=x0, gamma=gamma0, beta=beta0)
    x, gamma, beta = channels_first(x0), *(torch.tensor(v, requires_grad=True) for v in (gamma0, beta0))
    y = like_tf.layer_norm(x, gamma, beta)
    weighted(y).backward()
    assert_close(channels_last(y), want["y"], 1e-14)
    assert_close(channels_last(x.grad), want["dx"], 1e-13)
    assert_close(gamma.grad, want["dgamma"], 1e-14)
    assert_close(beta.grad, want["dbeta"], 1e-14)
    if len(shape) == 4:
        plain = torch.nn.functional.layer_norm(torch.tensor(x0), (6,), torch.tensor(gamma0), torch.tensor(beta0))
        off = difference(plain, want["y"])
        assert off > 0.1
        semantics(
            "Layer norm of images (contrib, slim)",
            "over all axes but the batch, epsilon 1e-12",
            "`LayerNorm(channels)`: over the channels, epsilon 1e-5",
            off,
            "layer_norm",
        )


def tf_l2_normalize(tf, np, session, x):
    inputs = tf.constant(x)
    y = tf.nn.l2_normalize(inputs, 1)
    cosines = np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape)
    with session() as opened:
        return opened.run({"y": y, "dx": tf.gradients(tf.reduce_sum(y * cosines), inputs)[0]})


@pytest.mark.parametrize("size", [1.0, 1e-7, 0.0])
def test_l2_normalize_is_tensorflows_for_short_vectors_too(tf, size):
    x0 = np.random.RandomState(0).randn(4, 6) * size
    want = tf(tf_l2_normalize, x=x0)
    x = torch.tensor(x0, requires_grad=True)
    y = like_tf.l2_normalize(x, 1)
    (y * torch.cos(torch.arange(24.0).double()).reshape(4, 6)).sum().backward()
    assert_close(y, want["y"], 1e-14)
    assert_close(x.grad, want["dx"], 1e-14)


def tf_l2_normalize_floor(tf, np, session, x, epsilon):
    inputs = tf.constant(x)
    y = tf.nn.l2_normalize(inputs, 1, epsilon)
    with session() as opened:
        return {"dx": opened.run(tf.gradients(y[:, 1], inputs)[0])}


def test_a_sum_of_squares_on_the_floor_itself_passes_its_gradient_on(tf):
    x0 = np.array([[2.0, 0.0], [0.0, 2.0]])
    x = torch.tensor(x0, requires_grad=True)
    like_tf.l2_normalize(x, 1, epsilon=4.0)[:, 1].sum().backward()
    assert np.array_equal(x.grad.numpy(), tf(tf_l2_normalize_floor, x=x0, epsilon=4.0)["dx"])


def test_plain_normalize_differs_for_short_vectors(tf2, semantics):
    x = np.random.RandomState(0).randn(4, 6) * 1e-7
    off = difference(torch.nn.functional.normalize(torch.tensor(x), dim=1), tf2(tf_l2_normalize, x=x)["y"])
    assert off > 0.5
    semantics(
        "l2_normalize of vectors of length 1e-7",
        "floor 1e-12 under the sum of squares",
        "`normalize`: floor 1e-12 under the length",
        off,
        "l2_normalize",
    )


def tf_lrn(tf, np, session, x, settings):
    inputs = tf.constant(x)
    y = tf.nn.local_response_normalization(inputs, **settings)
    cosines = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)
    with session() as opened:
        return opened.run({"y": y, "dx": tf.gradients(tf.reduce_sum(y * cosines), inputs)[0]})


LRN = [{}, {"depth_radius": 2, "bias": 2.0, "alpha": 1e-2, "beta": 0.75}]


@pytest.mark.parametrize("settings", LRN)
def test_lrn_is_its_formula_in_float64_and_tensorflows_kernel_in_float32(tf, settings):
    x0 = np.random.RandomState(0).randn(2, 3, 3, 9).astype(np.float32)
    x = channels_first(x0)
    y = like_tf.local_response_normalization(x, **settings)
    weighted(y).backward()
    want = tf(tf_lrn, x=x0, settings=settings)
    assert_close(channels_last(y), want["y"], 5e-7)
    assert_close(channels_last(x.grad), want["dx"], 2e-6)

    full = {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5, **settings}
    doubles, r = x0.astype(np.float64), full["depth_radius"]
    sums = np.stack([np.square(doubles[..., max(0, c - r) : c + r + 1]).sum(-1) for c in range(9)], -1)
    formula = doubles / (full["bias"] + full["alpha"] * sums) ** full["beta"]
    got = like_tf.local_response_normalization(channels_first(doubles), **settings)
    assert_close(channels_last(got), formula, 1e-14)


def test_plain_lrn_divides_alpha(tf2, semantics):
    x0 = np.random.RandomState(0).randn(2, 3, 3, 9).astype(np.float32)
    want = tf2(tf_lrn, x=x0, settings=LRN[1])["y"]
    plain = torch.nn.functional.local_response_norm(channels_first(x0), 5, alpha=1e-2, beta=0.75, k=2.0)
    off = difference(channels_last(plain), want)
    assert off > 1e-3
    semantics(
        "Local response normalisation (float32)",
        "alpha per element, window 2 r + 1",
        "alpha divided by the window",
        off,
        "local_response_normalization",
    )


def tf_contrib_group_norms(tf, np, session, shapes, gamma, beta):
    """Group and instance norm of every shape, in one graph."""
    from tensorflow.contrib import layers

    rng, fetches, loads = np.random.RandomState(0), {}, []
    for i, shape in enumerate(shapes):
        x = tf.constant(rng.randn(*shape))
        for name, more in (("group_norm", {"groups": 3}), ("instance_norm", {})):
            scope = f"{name}_{i}"
            y = getattr(layers, name)(x, scope=scope, **more)
            own = [v for v in tf.global_variables() if v.op.name.startswith(scope + "/")]
            variables = sorted(own, key=lambda v: v.op.name, reverse=True)  # gamma, beta
            loads += [(variables[0], gamma), (variables[1], beta)]
            cosines = np.cos(np.arange(int(np.prod(shape)))).reshape(shape)
            grads = tf.gradients(tf.reduce_sum(y * cosines), [x, *variables])
            keys = [f"{i}/{name}/{what}" for what in ("x", "y", "dx", "dgamma", "dbeta")]
            fetches.update(dict(zip(keys, [x, y, *grads])))  # noqa: B905 - Python 3.7 reads it
    with session() as opened:
        for variable, value in loads:
            variable.load(value, opened)
        return opened.run(fetches)


GROUPED = [[2, 4, 3, 6], [1, 1, 1, 6], [3, 2, 1, 6]]


@pytest.mark.tf1
def test_group_and_instance_norm_are_contribs(tf1, semantics):
    rng = np.random.RandomState(1)
    gamma0, beta0 = rng.randn(6), rng.randn(6)
    want = tf1(tf_contrib_group_norms, shapes=GROUPED, gamma=gamma0, beta=beta0)
    for i in range(len(GROUPED)):
        for name, norm in (
            ("group_norm", partial(like_tf.group_norm, groups=3)),
            ("instance_norm", like_tf.instance_norm),
        ):
            key = f"{i}/{name}"
            x, gamma, beta = (
                channels_first(want[f"{key}/x"]),
                *(torch.tensor(v, requires_grad=True) for v in (gamma0, beta0)),
            )
            y = norm(x, weight=gamma, bias=beta)
            weighted(y).backward()
            assert_close(channels_last(y), want[f"{key}/y"], 1e-12)
            # Of a single element the derivative is 0 but for what cancels in it, on the scale of the output's.
            scale = np.abs(want[f"{key}/dx"]).max() or 1.0
            assert np.abs(channels_last(x.grad) - want[f"{key}/dx"]).max() <= 1e-12 * max(scale, 1.0)
            assert_close(gamma.grad, want[f"{key}/dgamma"], 1e-12)
            assert_close(beta.grad, want[f"{key}/dbeta"], 1e-12)
    x = channels_first(want["0/group_norm/x"]) * 1e-3
    plain, ours = torch.nn.functional.group_norm(x, 3), like_tf.group_norm(x, 3)
    off = difference(plain, ours.detach().numpy())
    assert off > 0.1
    semantics(
        "Group and instance norm (contrib) of images of size 1e-3",
        "epsilon 1e-6; one element is normalised to 0",
        "epsilon 1e-5; one element for a channel is an error",
        off,
        "group_norm, instance_norm",
    )


def test_groups_that_do_not_divide_the_channels_are_refused():
    for groups in (4, 32, 0):
        with pytest.raises(like_tf.LikeTfError, match=rf"groups that divide 6 channels, got {groups}"):
            like_tf.group_norm(torch.ones(1, 6, 2, 2), groups)
