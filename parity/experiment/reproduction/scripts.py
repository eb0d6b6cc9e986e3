"""The texts of the scripts; each runs alone beside its numbers."""

HEAD = '''"""{title}

Run: python {file}
"""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = {folders!r}


def load(spec):
    module, _, name = spec.partition(":")
    return getattr(import_module(module), name)


def arrays(file):
    with np.load(HERE / file) as held:
        return dict(held)


'''

TAIL = """
print({what}, "at {index}")
print("  {side} now:       ", repr(float(value)))
print("  TensorFlow's then:", {reference!r})
print("  torch's then:     ", {candidate!r})
"""

TF_IMPORT = """import os

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_v2_behavior()
"""

TF_FORWARD = """batch, state = arrays("batch_tf.npz"), arrays("state_tf.npz")
inputs = {name: tf.constant(value) for name, value in batch.items()}
returned = load({tower!r})(**inputs)
loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
variables = {variable.op.name: variable for variable in tf.global_variables()}
fetched = {fetch}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for name, value in state.items():
        variables[name].load(value, session)
    value = session.run(fetched)[{index!r}]
"""

TF_UPDATE = """state, given = arrays("state_tf.npz"), arrays("gradient_tf.npz")
variable = tf.get_variable("weight", initializer=tf.constant(state["var"]))
optimizer = tf.train.{optimizer}({settings})
train = optimizer.apply_gradients([(tf.constant(given["gradient"]), variable)])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for name in optimizer.get_slot_names():
        optimizer.get_slot(variable, name).load(state["slot/" + name], session)
    for counter in tf.global_variables():
        if counter.op.name in state:
            counter.load(state[counter.op.name], session)
    session.run(train)
    value = session.run({fetch})[{index!r}]
"""

TORCH_FORWARD = """import torch  # noqa: E402

batch, state = arrays("batch_torch.npz"), arrays("state_torch.npz")
model = load({model!r})().to(getattr(torch, {precision!r}))
missing, left = model.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()}, strict=False)
assert not left, left
returned = load({loss!r})(model, **{name: torch.from_numpy(value) for name, value in batch.items()})
loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
{after}value = {fetch}[{index!r}]
"""

TORCH_UPDATE = """import torch  # noqa: E402

from torch_ddp.step.optimizer import make_optimizer, named_slots, set_counters  # noqa: E402

state, gradients, counters = arrays("state_torch.npz"), arrays("gradient_torch.npz"), arrays("counters.npz")
model = load({model!r})().to(getattr(torch, {precision!r}))
optimizer = {optimizer}
slots = named_slots(optimizer, model)
with torch.no_grad():
    for name, parameter in model.named_parameters():
        parameter.copy_(torch.from_numpy(state["var/" + name]))
        parameter.grad = torch.from_numpy(gradients[name]) if name in gradients else None
    for (slot, name), value in slots.items():
        if "slot/" + slot + "/" + name in state:
            value.copy_(torch.from_numpy(state["slot/" + slot + "/" + name]))
set_counters(optimizer, {name: float(value) for name, value in counters.items()})
optimizer.step()
value = {fetch}[{index!r}]
"""

TF_COMBINE = """gradients = arrays("gradients_tf.npz")
stacked = tf.stack([tf.constant(gradients[str(tower)]) for tower in range({count})])  # (towers, ...)
with tf.Session() as session:
    value = session.run(tf.reduce_{combine}(stacked, 0))[{index!r}]
"""

# The loss of each rank is made so that its gradient is the one that was recorded; all else is DistributedDataParallel's.
TORCH_COMBINE = """import tempfile  # noqa: E402

import torch  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from torch_ddp import spawn  # noqa: E402
from torch_ddp.reduction import HOOKS  # noqa: E402


class Weight(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


def combine(rank, file):
    gradient = torch.from_numpy(arrays("gradients_torch.npz")[str(rank.rank)])
    model = DistributedDataParallel(Weight(gradient.shape))
    model.register_comm_hook(None, HOOKS[{combine!r}])
    model(gradient).backward()
    if rank.rank == 0:
        np.save(file, model.module.weight.grad.numpy())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        spawn(combine, {count}, folder + "/combined.npy")
        value = np.load(folder + "/combined.npy")[{index!r}]
"""
