import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference


def tf_cross_entropy(tf, np, session, name, labels, logits):
    z, y = tf.constant(logits), tf.constant(labels)
    losses = getattr(tf.nn, name)(labels=y, logits=z)
    cosines = np.cos(np.arange(np.prod(losses.shape.as_list()), dtype=np.float64)).reshape(losses.shape.as_list())
    out = {"losses": losses, "dlogits": tf.gradients(tf.reduce_sum(losses * cosines), z)[0]}
    if "softmax_cross_entropy_with_logits_v2" in name:
        out["dlabels"] = tf.gradients(tf.reduce_sum(losses * cosines), y)[0]
    with session() as opened:
        return opened.run(out)


def _torch(function, labels, logits):
    z, y = torch.tensor(logits, requires_grad=True), torch.tensor(labels)
    if y.is_floating_point():
        y.requires_grad_()
    losses = function(y, z)
    (losses * torch.cos(torch.arange(losses.numel(), dtype=torch.float64)).reshape(losses.shape)).sum().backward()
    return losses, z.grad, y.grad


def _logits(shape=(6, 5)):
    return np.random.RandomState(0).randn(*shape) * 5


LABELS = {
    "one-hot": np.eye(5)[[0, 1, 2, 3, 4, 0]],
    "soft": np.random.RandomState(1).dirichlet(np.ones(5), 6),
    "not summing to 1": np.random.RandomState(1).rand(6, 5) * 3,
}


@pytest.mark.parametrize("kind", LABELS)
def test_softmax_cross_entropy_has_tensorflows_value_and_gradients(tf, kind):
    name, labels, logits = "softmax_cross_entropy_with_logits_v2", LABELS[kind], _logits()
    want = tf(tf_cross_entropy, name=name, labels=labels, logits=logits)
    losses, dlogits, dlabels = _torch(like_tf.softmax_cross_entropy_with_logits, labels, logits)
    assert_close(losses, want["losses"], 1e-14)
    assert_close(dlogits, want["dlogits"], 1e-14)
    assert_close(dlabels, want["dlabels"], 1e-14)


@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 4)])
def test_sparse_cross_entropy_has_tensorflows_value_and_gradient(tf, shape):
    logits = _logits(shape)
    labels = np.random.RandomState(2).randint(0, shape[-1], shape[:-1])
    want = tf(tf_cross_entropy, name="sparse_softmax_cross_entropy_with_logits", labels=labels, logits=logits)
    losses, dlogits, _ = _torch(like_tf.sparse_softmax_cross_entropy_with_logits, labels, logits)
    assert_close(losses, want["losses"], 1e-14)
    assert_close(dlogits, want["dlogits"], 1e-14)


def test_sigmoid_cross_entropy_has_tensorflows_value_and_gradient_at_zero_and_far_out_too(tf):
    logits = np.array([[0.0, -0.0, 800.0], [-800.0, 1e-9, 3.0]])
    labels = np.array([[1.0, 0.3, 0.0], [1.0, 0.0, 0.7]])
    want = tf(tf_cross_entropy, name="sigmoid_cross_entropy_with_logits", labels=labels, logits=logits)
    losses, dlogits, _ = _torch(like_tf.sigmoid_cross_entropy_with_logits, labels, logits)
    assert_close(losses, want["losses"], 1e-14)
    assert_close(dlogits, want["dlogits"], 1e-14)


def test_the_true_gradient_is_not_tensorflows_where_labels_do_not_sum_to_one(tf2, semantics):
    labels, logits = LABELS["not summing to 1"], _logits()
    want = tf2(tf_cross_entropy, name="softmax_cross_entropy_with_logits_v2", labels=labels, logits=logits)
    losses, plain, _ = _torch(
        lambda y, z: torch.nn.functional.cross_entropy(z, y.detach(), reduction="none"), labels, logits
    )
    assert_close(losses, want["losses"], 1e-14)
    off = difference(plain, want["dlogits"])
    assert off > 0.1
    semantics(
        "Gradient of softmax cross entropy, labels that do not sum to 1",
        "`softmax - labels`",
        "the true derivative, `sum(labels) * softmax - labels`",
        off,
        "softmax_cross_entropy_with_logits, softmax_cross_entropy",
    )


@pytest.mark.on_cpu("a GPU loses its context by a label that is none")
def test_no_label_is_ignored(semantics):
    logits, labels = torch.zeros(2, 3), torch.tensor([-100, 1])
    assert torch.nn.functional.cross_entropy(logits, labels, reduction="none")[0] == 0
    with pytest.raises((IndexError, RuntimeError), match="-100"):
        like_tf.sparse_softmax_cross_entropy_with_logits(labels, logits)
    semantics(
        "Sparse cross entropy, label -100",
        "an error",
        "`cross_entropy` leaves the example out: loss 0",
        None,
        "sparse_softmax_cross_entropy_with_logits, sparse_softmax_cross_entropy",
    )


def tf_l2_loss(tf, np, session, x):
    inputs = tf.constant(x)
    y = tf.nn.l2_loss(inputs)
    with session() as opened:
        return opened.run({"y": y, "dx": tf.gradients(y, inputs)[0]})


def test_l2_loss_has_a_half(tf, semantics):
    x0 = np.random.RandomState(0).randn(4, 3)
    want = tf(tf_l2_loss, x=x0)
    x = torch.tensor(x0, requires_grad=True)
    y = like_tf.l2_loss(x)
    y.backward()
    assert_close(y, want["y"], 1e-14)
    assert_close(x.grad, want["dx"], 0.0)
    semantics(
        "l2_loss", "half the sum of squares", "`(x ** 2).sum()`", difference(x.square().sum(), want["y"]), "l2_loss"
    )
