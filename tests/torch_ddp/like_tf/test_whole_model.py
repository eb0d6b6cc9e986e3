"""A small convolutional net, every rule of it at once: 50 steps under both frameworks from the same values."""

import numpy as np
import torch
from torch import nn

from torch_ddp import like_tf

from .closeness import assert_close
from .spatial.layouts import kernel_last

STEPS, BATCH, SIZE = 50, 8, 10


def tf_train(tf, np, session, x, labels):
    images, classes = tf.placeholder(x.dtype, x.shape[1:]), tf.placeholder("int64", labels.shape[1:])
    training = {"training": True, "momentum": 0.9, "fused": False}
    h = tf.layers.conv2d(images, 6, 3, 2, "same", name="conv1")
    h = tf.nn.relu(tf.layers.batch_normalization(h, name="bn1", **training))
    h = tf.layers.max_pooling2d(h, 3, 2, "same")
    h = tf.layers.flatten(h)
    h = tf.nn.relu(tf.layers.batch_normalization(tf.layers.dense(h, 7, name="fc1"), name="bn2", **training))
    logits = tf.layers.dense(h, 4, name="fc2")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 7, 0.9)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm([g for g, _ in optimizer.compute_gradients(loss, variables)], 1.0)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = optimizer.apply_gradients([(grads[i], v) for i, v in enumerate(variables)], step)
    kept = [v for v in tf.global_variables() if v is not step]
    rng, out = np.random.RandomState(0), {}
    with session() as opened:
        for v in variables:
            v.load(rng.randn(*v.shape.as_list()) * 0.3 + ("gamma" in v.name), opened)
        out.update({"init/" + v.op.name: opened.run(v) for v in variables})
        losses = []
        for i in range(len(x)):
            losses.append(opened.run(loss, {images: x[i], classes: labels[i]}))
            opened.run(train, {images: x[i], classes: labels[i]})
        out.update({"end/" + v.op.name: opened.run(v) for v in kept})
    return dict(out, losses=losses)


class _Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = like_tf.Conv2d(3, 6, 3, stride=2)
        self.bn1 = like_tf.BatchNorm2d(6, momentum=0.9, fused=False)
        self.pool = like_tf.MaxPool2d(3, 2, "SAME")
        self.fc1, self.fc2 = nn.Linear(54, 7), nn.Linear(7, 4)
        self.bn2 = like_tf.BatchNorm1d(7, momentum=0.9)

    def forward(self, x):
        h = self.pool(torch.relu(self.bn1(self.conv1(x))))
        return self.fc2(torch.relu(self.bn2(self.fc1(like_tf.flatten(h)))))


NAMES = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def test_fifty_steps_of_a_net_end_where_tensorflow_ends(tf):
    rng = np.random.RandomState(1)
    x, labels = rng.randn(STEPS, BATCH, SIZE, SIZE, 3), rng.randint(0, 4, (STEPS, BATCH))
    want = tf(tf_train, x=x, labels=labels)

    model = _Model().double()
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    with torch.no_grad():
        for key, value in want.items():
            if key.startswith("init/"):
                layer, name = key.split("/")[1:]
                tensors[f"{layer}.{NAMES[name]}"].copy_(torch.tensor(_as_torch(value)))
    optimizer = like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = like_tf.Scheduler(optimizer, like_tf.exponential_decay(0.1, 7, 0.9))
    losses = []
    for images, classes in zip(torch.tensor(x).movedim(-1, 2), torch.tensor(labels), strict=True):
        optimizer.zero_grad()
        loss = like_tf.sparse_softmax_cross_entropy_with_logits(classes, model(images)).mean()
        loss.backward()
        like_tf.clip_grads_by_global_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())

    assert_close(np.array(losses), want["losses"], 1e-13)
    compared = 0
    for key, value in want.items():
        if key.startswith("end/"):
            layer, name, *slot = key.split("/")[1:]
            tensor = tensors[f"{layer}.{NAMES[name]}"]
            got = optimizer.state[tensor]["momentum"] if slot else tensor
            if name == "bias" and layer in ("conv1", "fc1"):  # in front of a batch norm: the true gradient is 0
                assert np.abs(got.detach().numpy() - (0 if slot else want[f"init/{layer}/{name}"])).max() < 1e-13
            else:
                assert_close(got if got.dim() < 2 else kernel_last(got), value, 1e-12)
            compared += 1
    assert compared == 24


def _as_torch(value):
    return np.ascontiguousarray(np.moveaxis(value, (-1, -2), (0, 1))) if value.ndim > 1 else value
