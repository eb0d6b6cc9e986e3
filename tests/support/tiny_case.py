"""A case of two towers and a handful of numbers, and ways to break it."""

import json
import os
from pathlib import Path

CASE = """
name = "tiny"
steps = 3
batch_size = 8
towers = 2
combine = "mean"
batches = "data:batches"
[optimizer]
name = "sgd"
learning_rate = 0.1
[tf]
tower = "model_tf:tower"
[torch]
model = "model_torch:Model"
loss = "model_torch:loss"
"""
DATA = """
import numpy as np

def batches(steps, batch_size, seed):
    draw = np.random.RandomState(seed)
    for _ in range(steps):
        yield {"x": draw.randn(batch_size, 3).astype("float32"), "y": draw.randn(batch_size, 2).astype("float32")}
"""
TF = """
import tensorflow.compat.v1 as tf

def tower(x, y):
    # break here
    kernel = tf.get_variable("dense/kernel", [3, 2], x.dtype)
    bias = tf.get_variable("dense/bias", [2], x.dtype, tf.zeros_initializer())
    return 1.0 * tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y))
"""
TORCH = """
import os, signal, time
import torch.distributed as dist
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(3, 2)

    def forward(self, x):
        return self.dense(x)

CALLS = 0

def loss(model, x, y):
    global CALLS
    CALLS += 1
    # break here
    return 1.0 * (model(x) - y).square().mean()
"""
BREAK = "# break here"


def write_case(folder: Path, **changes: str) -> Path:
    """Writes the case; `case`, `data`, `tf`, `torch` are ``"old -> new"`` replacements in those files."""
    texts = {"case": CASE, "data": DATA, "tf": TF, "torch": TORCH}
    for name, change in changes.items():
        old, new = change.split(" -> ")
        assert old in texts[name]
        texts[name] = texts[name].replace(old, new)
    return write_texts(folder, **texts)


def write_texts(folder: Path, case: str = CASE, data: str = DATA, tf: str = TF, torch: str = TORCH) -> Path:
    """Writes a case whose files are these texts, those of the tiny case where none is given."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in (("case.toml", case), ("data.py", data), ("model_tf.py", tf), ("model_torch.py", torch)):
        (folder / file).write_text(text.lstrip())
    return folder


def processes_with(mark: str) -> list[str]:
    """Returns the commands of the living processes that have `mark` in their environment, this one left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # gone meanwhile, or someone else's
    return found


def incomplete_traces(folder: Path) -> list[str]:
    """Returns the traces below a folder that say that they are not whole; those that claim to be are checked."""
    incomplete = []
    for path in sorted(folder.rglob("trace.json")):
        meta = json.loads(path.read_text())
        steps = sorted(path.parent.glob("step-*.safetensors"))
        if meta["complete"]:
            assert len(steps) == meta["steps"], path
            assert (path.parent / "init.safetensors").is_file(), path
        else:
            incomplete.append(str(path.parent.relative_to(folder)))
    return incomplete
