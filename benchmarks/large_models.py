"""Proves a ResNet-50 or a transformer in lockstep, as a generated case, and prints seconds, peak memory and bytes on disk.

Launch: ``python benchmarks/large_models.py resnet50 --pixels 224`` or ``python benchmarks/large_models.py transformer
--weights 1e8``; ``--pixels 64`` and ``--weights 2e7`` are sizes for a busy machine. Options: ``--steps 2 --batch 4
--budget 2GB``; ``--full`` decides levels 1 and 2 with free runs in place of lockstep alone. Memory is the proportional
share (PSS) of all processes together, sampled. Promised: the verdict is "same", on 24 GB.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from mid_size import Watch

MOST_GIGABYTES = 24.0
CASE = """name = "{model}"
steps = {steps}
batch_size = {batch}
towers = 2
combine = "mean"
batches = "batches:batches"

[optimizer]
{optimizer}

[tf]
tower = "tower:tower"
{tf}

[torch]
model = "port:Model"
loss = "port:loss"
"""
MOMENTUM = 'name = "momentum"\nlearning_rate = 0.01\nmomentum = 0.9'
ADAM = 'name = "adam"\nlearning_rate = 1e-4'
IMAGES = """import numpy as np


def batches(steps, batch_size, seed):
    for step in range(steps):
        random = np.random.RandomState(seed + step)
        x = random.standard_normal((batch_size, {pixels}, {pixels}, 3)).astype("float32")
        yield {{"x": x, "labels": random.randint(0, 1000, batch_size).astype("int32")}}
"""
RESNET_TF = """import tensorflow.compat.v1 as tf

from tf_towers import batch_norm


def padded(x, size, stride):
    side = (size - 1) // 2
    x = tf.pad(x, [[0, 0], [side, side], [side, side], [0, 0]]) if side else x
    return x, [1, stride, stride, 1]


def conv(x, channels, size, stride, name, training):
    with tf.variable_scope(name):
        shape = [size, size, int(x.shape[-1]), channels]
        kernel = tf.get_variable("conv/kernel", shape, x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        x, strides = padded(x, size, stride)
        return batch_norm(tf.nn.conv2d(x, kernel, strides, "VALID"), "norm", training=training)


def block(x, channels, stride, name, training):
    with tf.variable_scope(name):
        y = tf.nn.relu(conv(x, channels, 1, 1, "one", training))
        y = tf.nn.relu(conv(y, channels, 3, stride, "two", training))
        y = conv(y, 4 * channels, 1, 1, "three", training)
        if int(x.shape[-1]) != 4 * channels:
            x = conv(x, 4 * channels, 1, stride, "short", training)
        return tf.nn.relu(x + y)


def tower(x, labels, training=True):
    x = tf.nn.relu(conv(x, 64, 7, 2, "stem", training))
    x, strides = padded(x, 3, 2)
    x = tf.nn.max_pool(x, [1, 3, 3, 1], strides, "VALID")
    for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for number in range(blocks):
            stride = 2 if stage and not number else 1
            x = block(x, channels, stride, "stage%d_block%d" % (stage, number), training)
    x = tf.reduce_mean(x, [1, 2])
    with tf.variable_scope("logits"):
        kernel = tf.get_variable("kernel", [2048, 1000], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
        x = tf.matmul(x, kernel) + tf.get_variable("bias", [1000], x.dtype, tf.zeros_initializer())
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))
"""
RESNET_TORCH = """from torch import nn
from torch.nn import functional as F

from torch_ddp.like_tf import BatchNorm2d


class Conv(nn.Module):
    def __init__(self, inputs, channels, size, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, size, stride, (size - 1) // 2, bias=False)
        self.norm = BatchNorm2d(channels)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.one = Conv(inputs, channels, 1, 1)
        self.two = Conv(channels, channels, 3, stride)
        self.three = Conv(channels, 4 * channels, 1, 1)
        self.short = Conv(inputs, 4 * channels, 1, stride) if inputs != 4 * channels else None

    def forward(self, x):
        y = self.three(F.relu(self.two(F.relu(self.one(x)))))
        return F.relu((self.short(x) if self.short is not None else x) + y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Conv(3, 64, 7, 2)
        self.order, inputs = [], 64
        for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for number in range(blocks):
                self.order.append("stage%d_block%d" % (stage, number))
                self.add_module(self.order[-1], Block(inputs, channels, 2 if stage and not number else 1))
                inputs = 4 * channels
        self.logits = nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.relu(self.stem(x.permute(0, 3, 1, 2).contiguous()))
        x = F.max_pool2d(x, 3, 2, 1)
        for name in self.order:
            x = getattr(self, name)(x)
        return self.logits(x.mean((2, 3)))


def loss(model, x, labels):
    return F.cross_entropy(model(x), labels.long())
"""
WORDS = """import numpy as np


def batches(steps, batch_size, seed):
    for step in range(steps):
        random = np.random.RandomState(seed + step)
        words = random.randint(0, {words}, (batch_size, {length})).astype("int32")
        labels = random.randint(0, 10, batch_size).astype("int32")
        yield {{"words": words, "weights": np.ones(batch_size, "float32"), "labels": labels}}
"""
TRANSFORMER_TF = """import tensorflow.compat.v1 as tf


def variable(name, shape, dtype, initial=None):
    return tf.get_variable(name, shape, dtype, initial or tf.glorot_uniform_initializer(dtype=dtype))


def dense(x, units, name):
    with tf.variable_scope(name):
        kernel = variable("kernel", [int(x.shape[-1]), units], x.dtype)
        return tf.tensordot(x, kernel, [[-1], [0]]) + variable("bias", [units], x.dtype, tf.zeros_initializer())


def norm(x, name):
    with tf.variable_scope(name):
        gamma = variable("gamma", [int(x.shape[-1])], x.dtype, tf.ones_initializer())
        beta = variable("beta", [int(x.shape[-1])], x.dtype, tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return (x - mean) / tf.sqrt(variance + 1e-5) * gamma + beta


def heads(x):
    return tf.transpose(tf.reshape(x, [-1, {length}, {heads}, {width} // {heads}]), [0, 2, 1, 3])


def layer(x):
    y = norm(x, "norm1")
    query, key, value = (heads(dense(y, {width}, name)) for name in ("query", "key", "value"))
    scores = tf.matmul(query, key, transpose_b=True) / ({width} // {heads}) ** 0.5
    y = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    x = x + dense(tf.reshape(y, [-1, {length}, {width}]), {width}, "merged")
    y = dense(norm(x, "norm2"), 4 * {width}, "wide")
    y = 0.5 * y * (1 + tf.tanh((2 / 3.141592653589793) ** 0.5 * (y + 0.044715 * y ** 3)))
    return x + dense(y, {width}, "narrow")


def tower(words, weights, labels):
    table = variable("table", [{words}, {width}], weights.dtype)
    x = tf.nn.embedding_lookup(table, words) + variable("places", [{length}, {width}], weights.dtype)
    for number in range({layers}):
        with tf.variable_scope("layer%d" % number):
            x = layer(x)
    logits = dense(tf.reduce_mean(norm(x, "norm"), 1), 10, "logits")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses * weights)
"""
TRANSFORMER_TORCH = """import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm({width})
        self.query, self.key, self.value, self.merged = (nn.Linear({width}, {width}) for _ in range(4))
        self.norm2 = nn.LayerNorm({width})
        self.wide, self.narrow = nn.Linear({width}, 4 * {width}), nn.Linear(4 * {width}, {width})

    def heads(self, x):
        return x.reshape(-1, {length}, {heads}, {width} // {heads}).transpose(1, 2)

    def forward(self, x):
        y = self.norm1(x)
        query, key, value = (self.heads(each(y)) for each in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / ({width} // {heads}) ** 0.5
        x = x + self.merged((scores.softmax(-1) @ value).transpose(1, 2).reshape(-1, {length}, {width}))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding({words}, {width})
        self.places = nn.Parameter(torch.zeros({length}, {width}))
        for number in range({layers}):
            self.add_module("layer%d" % number, Layer())
        self.norm, self.logits = nn.LayerNorm({width}), nn.Linear({width}, 10)

    def forward(self, words):
        x = self.table(words.long()) + self.places
        for number in range({layers}):
            x = getattr(self, "layer%d" % number)(x)
        return self.logits(self.norm(x).mean(1))


def loss(model, words, weights, labels):
    return (F.cross_entropy(model(words), labels.long(), reduction="none") * weights).mean()
"""


def write_resnet(folder: Path, given: argparse.Namespace) -> int:
    """Writes the case of a ResNet-50; returns the number of its weights."""
    values = {"pixels": given.pixels}
    # Vectors as long as the numbers of earlier maps: said here, or the mapping would find out by a step of each side.
    pairs = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
    names = [f"stage{stage}_block{block}" for stage, blocks in enumerate((3, 4, 6, 3)) for block in range(blocks)]
    given.mapping = '\n[mapping]\n"logits/kernel" = { to = "logits.weight", transform = "transpose" }\n' + "".join(
        f'"{name}/{part}/norm/{one}" = {{ to = "{name}.{part}.norm.{other}", transform = "identity" }}\n'
        for name in names
        for part in (("three", "short") if name.endswith("block0") else ("three",))
        for one, other in pairs.items()
    )
    _write(folder, given, MOMENTUM, 'batch_norm_updates = "first"', (IMAGES, RESNET_TF, RESNET_TORCH), values)
    return 25_557_032


def write_transformer(folder: Path, given: argparse.Namespace) -> int:
    """Writes the case of a transformer; returns the number of its weights, about."""
    # 12 layers of 12 width^2, and a table of 20,000 words: 7 hundredths of the weights a thousand words at width 768.
    layers, words, length = 12, 20_000, 32
    around = words / (2 * 12 * layers)
    width = max(8, round((-around + (around**2 + given.weights / (12 * layers)) ** 0.5) / 8) * 8)
    values = {"layers": layers, "words": words, "length": length, "width": width, "heads": 8}
    _write(folder, given, ADAM, 'sparse = "dense"', (WORDS, TRANSFORMER_TF, TRANSFORMER_TORCH), values)
    return layers * (12 * width**2 + 13 * width) + (words + length + 2) * width + 10 * (width + 1)


def _write(
    folder: Path,
    given: argparse.Namespace,
    optimizer: str,
    tf: str,
    texts: tuple[str, str, str],
    values: dict[str, int],
) -> None:
    known = {"model": given.model, "steps": given.steps, "batch": given.batch, "optimizer": optimizer, "tf": tf}
    (folder / "case.toml").write_text(CASE.format(**known) + getattr(given, "mapping", ""))
    for name, text in zip(("batches.py", "tower.py", "port.py"), texts, strict=True):
        (folder / name).write_text(text.format(**values))


class Memory:
    """Samples the memory of a process and of all that it has started, in bytes, and keeps the most."""

    def __init__(self, pid: int) -> None:
        self._pid, self.most, self._ended = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self.most = max(self.most, sum(map(_share, _family(self._pid))))

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _family(pid: int) -> list[int]:
    parents = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{each}/stat").read_text()
        except OSError:
            continue  # it ended meanwhile
        parents[int(each)] = int(text.rpartition(")")[2].split()[1])
    family, grown = {pid}, True
    while grown:
        found = {each for each, parent in parents.items() if parent in family} | family
        family, grown = found, len(found) > len(family)
    return sorted(family)


def _share(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def main() -> int:
    """Measures and prints; returns 0 when the verdict is "same" within the memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("resnet50", "transformer"))
    parser.add_argument("--pixels", type=int, default=224, help="of a side of the ResNet's images")
    parser.add_argument("--weights", type=float, default=1e8, help="of the transformer")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4, help="examples of both towers")
    parser.add_argument("--budget", help="as of `parity run`")
    parser.add_argument("--full", action="store_true", help="levels 1 and 2, with free runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-large-") as where:
        folder, temporary = Path(where) / "case", Path(where) / "tmp"
        folder.mkdir(), temporary.mkdir()
        weights = (write_resnet if given.model == "resnet50" else write_transformer)(folder, given)
        run = [sys.executable, "-m", "parity.cli", "run", str(folder)]
        run += ["--budget", given.budget] if given.budget else []
        run += [] if given.full else ["--quick"]
        environment = {**os.environ, "TMPDIR": str(temporary), "TF_CPP_MIN_LOG_LEVEL": "3"}
        begin = time.perf_counter()
        child = subprocess.Popen(run, env=environment)
        with Watch(temporary) as watch, Memory(child.pid) as memory:
            code = child.wait()
        seconds = time.perf_counter() - begin
    unit = weights * given.steps
    print(f"\n{given.model}, {weights:,} weights, {given.steps} steps of {given.batch} examples")
    print(f"seconds         {seconds:.0f}")
    print(f"memory          {memory.most / 1e9:.2f} GB at the peak, all processes, promised {MOST_GIGABYTES:g}")
    print(f"disk            {watch.most / 1e9:.2f} GB at the peak, {watch.most / unit:.1f} bytes a weight and step")
    return 0 if code == 0 and memory.most <= MOST_GIGABYTES * 1e9 else 1


if __name__ == "__main__":
    sys.exit(main())
