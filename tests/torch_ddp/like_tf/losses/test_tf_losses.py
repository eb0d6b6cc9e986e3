import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference

SHAPE = (6, 5)
REDUCTIONS = [
    "none",
    "weighted_sum",
    "weighted_mean",
    "weighted_sum_over_batch_size",
    "weighted_sum_by_nonzero_weights",
]


def _inputs():
    rng = np.random.RandomState(0)
    return {
        "logits": rng.randn(*SHAPE) * 3,
        "binary": (rng.rand(*SHAPE) > 0.5) * 1.0,
        "onehot": np.eye(5)[rng.randint(0, 5, 6)],
        "classes": rng.randint(0, 5, 6),
        "probabilities": rng.rand(*SHAPE),
        "any": rng.randn(*SHAPE) * 2,
        "wrong": (rng.rand(*SHAPE) > 0.5) * 1.0,  # certain, and often wrong
    }


# name, labels, what is differentiated, further settings, whether TensorFlow computes the elements in float32
LOSSES = {
    "softmax_cross_entropy": ("onehot", "logits", {}, False),
    "softmax_cross_entropy, smoothed": ("onehot", "logits", {"label_smoothing": 0.1}, False),
    "sparse_softmax_cross_entropy": ("classes", "logits", {}, False),
    "sigmoid_cross_entropy": ("binary", "logits", {}, False),
    "sigmoid_cross_entropy, smoothed": ("binary", "logits", {"label_smoothing": 0.1}, False),
    "absolute_difference": ("any", "logits", {}, True),
    "mean_squared_error": ("any", "logits", {}, True),
    "huber_loss": ("any", "logits", {"delta": 1.3}, True),
    "log_loss": ("binary", "probabilities", {}, True),
    "log_loss, certain": ("binary", "wrong", {"epsilon": 1e-3}, True),
    "hinge_loss": ("binary", "logits", {}, True),
    "cosine_distance": ("any", "logits", {"axis": 1}, True),
}


def tf_loss(tf, np, session, name, labels, x, settings, weights, reduction):
    inputs = tf.constant(x)
    loss = getattr(tf.losses, name)(tf.constant(labels), inputs, weights=weights, reduction=reduction, **settings)
    cosines = np.cos(np.arange(int(np.prod(loss.shape.as_list())))).reshape(loss.shape.as_list())
    grad = tf.gradients(tf.reduce_sum(loss * cosines.astype(loss.dtype.as_numpy_dtype)), inputs)[0]
    with session() as opened:
        return dict(opened.run({"loss": loss, "dx": grad}), dtype=loss.dtype.name)


def _torch(name, labels, x, settings, weights, reduction):
    inputs = torch.tensor(x, requires_grad=True)
    loss = getattr(like_tf, name)(torch.tensor(labels), inputs, weights=weights, reduction=reduction, **settings)
    (
        loss * torch.cos(torch.arange(loss.numel(), dtype=torch.float64)).to(loss.dtype).reshape(loss.shape)
    ).sum().backward()
    return loss, inputs.grad


def _weights(kind, per_example):
    shape = {True: (6,), False: SHAPE}[per_example]
    rng = np.random.RandomState(3)
    weights = rng.rand(*shape) * (rng.rand(*shape) > 0.3)
    return {"number": 0.7, "tensor": weights, "zeros": np.zeros(shape)}[kind]


@pytest.mark.parametrize("kind", ["number", "tensor", "zeros"])
@pytest.mark.parametrize("case", LOSSES)
def test_value_and_gradient_are_tensorflows_under_the_default_reduction(tf, case, kind):
    labels, x, settings, single = LOSSES[case]
    name, inputs = case.split(",")[0], _inputs()
    weights = _weights(kind, "softmax" in name)
    if name == "cosine_distance" and kind != "number":
        weights = weights[:, :1]
    fixed = {"name": name, "labels": inputs[labels], "x": inputs[x], "settings": settings}
    want = tf(tf_loss, weights=weights, reduction="weighted_sum_by_nonzero_weights", **fixed)
    given = weights if isinstance(weights, float) else torch.tensor(weights)
    loss, dx = _torch(weights=given, reduction="weighted_sum_by_nonzero_weights", **fixed)
    assert str(loss.dtype) == f"torch.{want['dtype']}"
    assert_close(loss, want["loss"], 3e-7)
    # The gradient passes the float32 cast element by element, so that in float64 it shows the function to rounding.
    assert_close(dx, want["dx"], 1e-6 if single else 1e-14)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_reduction_is_tensorflows(tf, reduction):
    inputs = _inputs()
    fixed = {"name": "sigmoid_cross_entropy", "labels": inputs["binary"], "x": inputs["logits"], "settings": {}}
    weights = _weights("tensor", False)[:, :1]
    want = tf(tf_loss, weights=weights, reduction=reduction, **fixed)
    loss, dx = _torch(weights=torch.tensor(weights), reduction=reduction, **fixed)
    assert_close(loss, want["loss"], 3e-7)
    assert_close(dx, want["dx"], 1e-7 if reduction == "weighted_mean" else 1e-14)


def test_the_loss_is_rounded_to_float32_in_float64_too(tf):
    inputs = _inputs()
    fixed = {"name": "sigmoid_cross_entropy", "labels": inputs["binary"], "x": inputs["logits"], "settings": {}}
    want = tf(tf_loss, weights=1.0, reduction="none", **fixed)
    loss, _ = _torch(weights=1.0, reduction="none", **fixed)
    assert want["dtype"] == "float64"
    assert np.array_equal(want["loss"], want["loss"].astype(np.float32))
    assert np.array_equal(loss.detach().numpy(), want["loss"])


def test_a_plain_mean_divides_by_all(tf2, semantics):
    inputs = _inputs()
    weights = _weights("tensor", False)
    want = tf2(
        tf_loss,
        name="sigmoid_cross_entropy",
        labels=inputs["binary"],
        x=inputs["logits"],
        settings={},
        weights=weights,
        reduction="weighted_sum_by_nonzero_weights",
    )
    logits, labels = torch.tensor(inputs["logits"]), torch.tensor(inputs["binary"])
    plain = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, torch.tensor(weights))
    off = difference(plain, want["loss"])
    assert off > 0.1
    semantics(
        "Weighted losses, a third of the weights 0",
        "weighted sum over the number of weights that are not 0, in float32",
        "mean over all",
        off,
        "compute_weighted_loss, sigmoid_cross_entropy, sigmoid_cross_entropy_with_logits, absolute_difference, "
        "mean_squared_error, hinge_loss, cosine_distance",
    )


def test_torchs_own_huber_and_log_losses_differ(tf2, semantics):
    inputs = _inputs()
    fixed = {"weights": 1.0, "reduction": "weighted_mean"}
    want = tf2(tf_loss, name="huber_loss", labels=inputs["any"], x=inputs["logits"], settings={"delta": 2.0}, **fixed)[
        "loss"
    ]
    plain = torch.nn.functional.smooth_l1_loss(torch.tensor(inputs["logits"]), torch.tensor(inputs["any"]), beta=2.0)
    off = difference(plain, want)
    assert off > 0.1
    semantics("Huber loss, delta 2", "slope delta", "`smooth_l1_loss(beta=2)`: slope 1", off, "huber_loss")

    sure = np.array([[1e-9, 0.5]])
    labels = np.array([[1.0, 1.0]])
    want = tf2(tf_loss, name="log_loss", labels=labels, x=sure, settings={}, **fixed)["loss"]
    off = difference(torch.nn.functional.binary_cross_entropy(torch.tensor(sure), torch.tensor(labels)), want)
    assert off > 0.1
    semantics(
        "log_loss, a probability of 1e-9 for a label of 1",
        "`log(p + 1e-7)`",
        "`binary_cross_entropy`: logarithm stopped at -100",
        off,
        "log_loss",
    )


@pytest.mark.parametrize(
    ("weights", "reduction", "message"),
    [
        (torch.ones(6), "none", r"weights that fit losses of shape \(6, 5\), got \(6,\)"),
        (torch.ones(6, 2), "none", r"got \(6, 2\)"),
        (1.0, "mean", "expected a reduction of .*, got 'mean'"),
    ],
)
def test_what_does_not_fit_is_refused(weights, reduction, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        like_tf.compute_weighted_loss(torch.ones(6, 5), weights, reduction)


POINTWISE = sorted({case.split(",")[0] for case in LOSSES} - {"sparse_softmax_cross_entropy"})


def tf_refuses(tf, np, session, names, shapes, settings):
    refused = {}
    for name in names:
        labels, x = (tf.constant(np.ones(shape)) for shape in shapes)
        try:
            getattr(tf.losses, name)(labels, x, **settings.get(name, {}))
            refused[name] = False
        except ValueError:
            refused[name] = True
    return refused


@pytest.mark.parametrize("shapes", [[(3,), (3, 1)], [(3, 1), (3,)], [(3, 1), (3, 2)], [(1, 3), (3, 3)]])
def test_labels_of_another_shape_are_refused_as_tensorflow_does(tf, shapes):
    settings = {"cosine_distance": {"axis": 0}}
    want = tf(tf_refuses, names=POINTWISE, shapes=shapes, settings=settings)
    assert all(want.values())
    for name in POINTWISE:
        message = rf"^{name}: expected labels of the shape of the predictions, .*, got \("
        with pytest.raises(like_tf.LikeTfError, match=message):
            getattr(like_tf, name)(*(torch.ones(shape) for shape in shapes), **settings.get(name, {}))


@pytest.mark.parametrize("column", ["labels", "weights", "both", "logits"])
def test_a_last_axis_of_length_1_is_dropped_beside_sparse_labels_as_tensorflow_does(tf, column):
    inputs, weights = _inputs(), _weights("tensor", True)
    labels = inputs["classes"][:, None] if column in ("labels", "both") else inputs["classes"]
    x = inputs["logits"][:, :, None] if column == "logits" else inputs["logits"]
    weights = weights[:, None] if column in ("weights", "both") else weights
    fixed = {"name": "sparse_softmax_cross_entropy", "labels": labels, "x": x, "settings": {}, "reduction": "none"}
    want = tf(tf_loss, weights=weights, **fixed)
    loss, dx = _torch(weights=torch.tensor(weights), **fixed)
    assert loss.shape == want["loss"].shape == (6,)
    assert_close(loss, want["loss"], 3e-7)
    assert_close(dx, want["dx"], 1e-14)


@pytest.mark.parametrize(
    ("labels", "logits", "weights", "message"),
    [
        ((6, 2), (6, 5), (), r"labels whose last axis, .*, got shape \(6, 2\)"),
        ((6,), (6, 5, 2), (), r"logits whose last axis, .*, got shape \(6, 5, 2\)"),
        ((6,), (6, 5), (6, 2), r"weights whose last axis, .*, got shape \(6, 2\)"),
        ((2, 3), (3, 2, 5), (), r"labels of shape \[...\] and logits .*, got \(2, 3\) and \(3, 2, 5\)"),
    ],
)
def test_sparse_labels_that_do_not_fit_are_refused(labels, logits, weights, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        like_tf.sparse_softmax_cross_entropy(
            torch.zeros(labels, dtype=torch.int64), torch.ones(logits), torch.ones(weights)
        )
