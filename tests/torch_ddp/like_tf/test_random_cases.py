"""Cases that nobody chose, many in one request: values, gradients and refusals of both frameworks."""

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from .closeness import assert_close
from .spatial.layouts import channels_first, channels_last, kernel_first, kernel_last, weighted


@pytest.fixture(params=["tf2", pytest.param("tf1", marks=[pytest.mark.tf1, pytest.mark.slow])])
def tf(request):
    """Both TensorFlows; in the default tier the chosen cases of other files stand for the older one."""
    return request.getfixturevalue(request.param)


SCHEDULES = {
    "exponential_decay": lambda steps: {"decay_steps": steps, "decay_rate": 0.9},
    "natural_exp_decay": lambda steps: {"decay_steps": steps, "decay_rate": 0.3},
    "inverse_time_decay": lambda steps: {"decay_steps": steps, "decay_rate": 0.5},
    "polynomial_decay": lambda steps: {"decay_steps": steps, "end_learning_rate": 0.003},
    "cosine_decay": lambda steps: {"decay_steps": steps, "alpha": 0.1},
    "cosine_decay_restarts": lambda steps: {"first_decay_steps": steps, "t_mul": 1.5, "m_mul": 0.9},
    "piecewise_constant": lambda steps: {"boundaries": [steps, 2 * steps], "values": [0.1, 0.03, 0.01]},
}
FLAGS = {"exponential_decay": "staircase", "natural_exp_decay": "staircase", "inverse_time_decay": "staircase"}
FLAGS["polynomial_decay"] = "cycle"


def tf_schedules(tf, np, session, cases):
    step = tf.placeholder("int64", [])
    rates = []
    for name, settings, _ in cases:
        first = [] if name == "piecewise_constant" else [0.1]
        place = {"x": step} if name == "piecewise_constant" else {"global_step": step}
        rates.append(getattr(tf.train, name)(*first, **dict(settings, **place)))
    with session() as opened:
        runs = zip(rates, cases)  # noqa: B905 - Python 3.7 reads it
        return {str(i): [opened.run(r, {step: s}) for s in case[2]] for i, (r, case) in enumerate(runs)}


def test_every_schedule_is_tensorflows_to_the_bit_at_the_boundaries_of_any_length(tf):
    rng = np.random.RandomState(18)
    cases = []
    for name, settings in SCHEDULES.items():
        for _ in range(4):
            length = int(rng.choice([1, 2, rng.randint(3, 70), rng.randint(70, 3000)]))
            given = settings(length)
            if name in FLAGS and rng.rand() < 0.6:
                given[FLAGS[name]] = True
            steps = sorted({max(0, k * length + d) for k in (0, 1, 2, 5) for d in (-1, 0, 1)})
            cases.append((name, given, steps))
    want = tf(tf_schedules, cases=cases)
    for i, (name, given, steps) in enumerate(cases):
        schedule = getattr(like_tf, name)(*([] if name == "piecewise_constant" else [0.1]), **given)
        got = [schedule(step) for step in steps]
        assert got == want[str(i)].astype(np.float64).tolist(), (name, given)


def tf_windows(tf, np, session, cases):
    """Convolutions and pools: outputs, gradients of a weighting, and the random inputs."""
    rng, fetches = np.random.RandomState(0), {}
    for i, (op, image, kernel, channels, stride, dilation, padding) in enumerate(cases):
        x, leaves = tf.constant(rng.randn(*image)), []
        leaves.append(x)
        if op == "conv":
            leaves.append(tf.constant(rng.randn(*kernel, image[3], channels)))
            y = tf.nn.convolution(x, leaves[1], padding, [stride] * 2, [dilation] * 2)
        elif op == "conv2d_transpose":
            leaves.append(tf.constant(rng.randn(*kernel, channels, image[3])))
            cut = [max(k - stride, 0) if padding == "VALID" else 0 for k in kernel]
            sizes = [image[1] * stride + cut[0], image[2] * stride + cut[1]]
            y = tf.nn.conv2d_transpose(x, leaves[1], [image[0], *sizes, channels], [1, stride, stride, 1], padding)
        else:
            y = getattr(tf.nn, op)(x, [1, *kernel, 1], [1, stride, stride, 1], padding)
        shape = y.shape.as_list()
        loss = tf.reduce_sum(y * np.cos(np.arange(int(np.prod(shape))).reshape(shape)))
        fetches[f"{i}/y"] = y
        for j, (leaf, grad) in enumerate(zip(leaves, tf.gradients(loss, leaves))):  # noqa: B905
            fetches[f"{i}/leaf/{j}"], fetches[f"{i}/grad/{j}"] = leaf, grad
    with session() as opened:
        return opened.run(fetches)


def _windows(rng, count):
    cases = []
    while len(cases) < count:
        op = ["conv", "conv2d_transpose", "max_pool", "avg_pool"][rng.randint(4)]
        image = [int(rng.randint(1, 3)), *(int(n) for n in rng.randint(1, 9, 2)), int(rng.randint(1, 4))]
        kernel, stride = [int(n) for n in rng.randint(1, 5, 2)], int(rng.randint(1, 4))
        # TensorFlow refuses a stride beside a dilation.
        dilation = int(rng.randint(1, 4)) if op == "conv" and stride == 1 else 1
        padding = ["SAME", "VALID"][rng.randint(2)]
        reach = [(k - 1) * dilation + 1 for k in kernel]
        if (
            padding == "VALID"
            and op != "conv2d_transpose"
            and any(r > n for r, n in zip(reach, image[1:3], strict=True))
        ):
            continue
        cases.append((op, image, kernel, int(rng.randint(1, 4)), stride, dilation, padding))
    return cases


def test_windows_of_any_size_are_tensorflows_with_their_gradients(tf):
    cases = _windows(np.random.RandomState(18), 24)
    assert {case[0] for case in cases} == {"conv", "conv2d_transpose", "max_pool", "avg_pool"}
    want = tf(tf_windows, cases=cases)
    for i, (op, _, kernel, _, stride, dilation, padding) in enumerate(cases):
        x = channels_first(want[f"{i}/leaf/0"])
        w = kernel_first(want[f"{i}/leaf/1"]) if f"{i}/leaf/1" in want else None
        more = {"stride": stride, "padding": padding}
        if w is None:
            y = getattr(like_tf, op)(x, kernel, **more)
        elif op == "conv":
            y = like_tf.conv(x, w, dilation=dilation, **more)
        else:
            y = like_tf.conv2d_transpose(x, w, **more)
        weighted(y).backward()
        assert_close(channels_last(y), want[f"{i}/y"], 1e-12)
        assert_close(channels_last(x.grad), want[f"{i}/grad/0"], 1e-12)
        if w is not None:
            assert_close(kernel_last(w.grad), want[f"{i}/grad/1"], 1e-12)


def tf_weighted_losses(tf, np, session, cases):
    """Which shapes of losses and weights are refused, and what the others give."""
    out, fetches = {}, {}
    for i, (losses, weights, reduction) in enumerate(cases):
        x = tf.constant(np.cos(np.arange(int(np.prod(losses)))).reshape(losses))
        w = tf.constant(np.arange(int(np.prod(weights))).reshape(weights) % 3.0)
        try:
            loss = tf.losses.compute_weighted_loss(x, w, reduction=reduction)
        except ValueError:
            continue
        fetches[f"{i}/loss"], fetches[f"{i}/dx"] = loss, tf.gradients(loss, [x])[0]
    with session() as opened:
        out.update(opened.run(fetches))
    return out


def test_weights_of_any_shape_are_refused_where_tensorflow_refuses_them(tf):
    rng = np.random.RandomState(18)
    reductions = [
        "none",
        "weighted_sum",
        "weighted_mean",
        "weighted_sum_over_batch_size",
        "weighted_sum_by_nonzero_weights",
    ]
    cases = []
    for _ in range(60):
        losses = [int(n) for n in rng.randint(0, 4, rng.randint(0, 4))]
        weights = [1 if rng.rand() < 0.4 else n for n in losses]
        if rng.rand() < 0.4:
            weights = [int(n) for n in rng.randint(1, 4, rng.randint(0, 4))]
        cases.append((losses, weights, reductions[rng.randint(5)]))
    want = tf(tf_weighted_losses, cases=cases)
    refused = 0
    for i, (losses, weights, reduction) in enumerate(cases):
        x = torch.cos(torch.arange(int(np.prod(losses)), dtype=torch.float64)).reshape(losses).requires_grad_()
        w = (torch.arange(int(np.prod(weights)), dtype=torch.float64) % 3).reshape(weights)
        if f"{i}/loss" not in want:
            refused += 1
            with pytest.raises(like_tf.LikeTfError, match=r"^compute_weighted_loss: expected weights that fit"):
                like_tf.compute_weighted_loss(x, w, reduction)
            continue
        loss = like_tf.compute_weighted_loss(x, w, reduction)
        assert tuple(loss.shape) == want[f"{i}/loss"].shape
        if x.numel():
            loss.sum().backward()
            # Sums of float32 numbers, in whatever order.
            assert_close(loss, want[f"{i}/loss"], 1e-6)
            assert_close(x.grad, want[f"{i}/dx"], 1e-6)
        else:
            assert np.array_equal(loss.detach().numpy(), want[f"{i}/loss"])
    assert 10 < refused < 50
