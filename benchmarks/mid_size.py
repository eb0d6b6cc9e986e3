"""Times `parity run` on a dense net of millions of weights beside the two plain programs that make the same steps.

Launch: ``python benchmarks/mid_size.py [--weights 4e6] [--steps 3] [--pairs 1] [--levels 1,2] [--out] [--budget 2GB]``.
The net has three dense layers, two towers and two ranks, Adam. Each pair runs the plain TensorFlow program, the plain
torch program and `parity run`, each in processes of their own, frameworks' start included. Prints seconds, their ratio,
and bytes on disk per weight and step: the most that there were at any moment, and what `--out` leaves. Promised: at most 6
times the plain programs' time, 60 bytes at the peak, 30 left.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

MOST_SECONDS, MOST_BYTES, MOST_LEFT = 6.0, 60.0, 30.0
FEATURES, CLASSES, BATCH, RATE = 64, 10, 64, 1e-3
CASE = """name = "mid_size"
steps = {steps}
batch_size = {batch}
towers = 2
combine = "mean"
batches = "batches:batches"

[optimizer]
name = "adam"
learning_rate = {rate}

[tf]
tower = "tower:tower"

[torch]
model = "port:Model"
loss = "port:loss"
"""
BATCHES = """import numpy as np


def batches(steps, batch_size, seed):
    for step in range(steps):
        random = np.random.RandomState(seed + step)
        x = random.standard_normal((batch_size, {features})).astype("float32")
        yield {{"x": x, "labels": random.randint(0, {classes}, batch_size).astype("int32")}}
"""
TOWER = """import tensorflow.compat.v1 as tf


def tower(x, labels):
    for name, units in (("first", {width}), ("second", {width}), ("logits", {classes})):
        with tf.variable_scope(name):
            initial = tf.glorot_uniform_initializer(dtype=x.dtype)
            kernel = tf.get_variable("kernel", [int(x.shape[-1]), units], x.dtype, initial)
            x = tf.matmul(x, kernel) + tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
            x = x if name == "logits" else tf.tanh(x)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))
"""
PORT = """from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear({features}, {width})
        self.second = nn.Linear({width}, {width})
        self.logits = nn.Linear({width}, {classes})

    def forward(self, x):
        return self.logits(self.second(self.first(x).tanh()).tanh())


def loss(model, x, labels):
    return F.cross_entropy(model(x), labels.long())
"""
# What a user would write for these steps: no tool of this project in it.
PLAIN_TF = """import tensorflow.compat.v1 as tf

from batches import batches
from tower import tower

tf.disable_v2_behavior()
x, labels = tf.placeholder(tf.float32, [{batch}, {features}]), tf.placeholder(tf.int32, [{batch}])
optimizer, towers = tf.train.AdamOptimizer({rate}), []
for i, (a, b) in enumerate(zip(tf.split(x, 2), tf.split(labels, 2))):
    with tf.name_scope("tower_%d" % i), tf.variable_scope("", reuse=i > 0):
        towers.append(optimizer.compute_gradients(tower(a, b)))
train = optimizer.apply_gradients([(tf.reduce_mean(tf.stack([p, q]), 0), v) for (p, v), (q, _) in zip(*towers)])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for batch in batches({steps}, {batch}, 0):
        session.run(train, {{x: batch["x"], labels: batch["labels"]}})
"""
PLAIN_TORCH = """import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from batches import batches
from port import Model, loss


def rank(number, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=number, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.Adam(model.parameters(), {rate})
    half = {batch} // 2
    for batch in batches({steps}, {batch}, 0):
        own = {{name: torch.from_numpy(value[number * half : (number + 1) * half]) for name, value in batch.items()}}
        optimizer.zero_grad()
        loss(model, **own).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, (os.path.join(folder, "ranks"),), 2)
"""


def width_of(weights: float) -> int:
    """Returns the width of the hidden layers for so many weights: width * (features + width + classes), about."""
    around = FEATURES + CLASSES + 2
    return max(1, round((-around + (around**2 + 4 * weights) ** 0.5) / 2))


def write_case(folder: Path, weights: float, steps: int) -> int:
    """Writes the case and the plain programs into a folder; returns the number of weights."""
    width = width_of(weights)
    values = {"features": FEATURES, "classes": CLASSES, "batch": BATCH, "rate": RATE, "width": width, "steps": steps}
    texts = {
        "case.toml": CASE,
        "batches.py": BATCHES,
        "tower.py": TOWER,
        "port.py": PORT,
        "plain_tf.py": PLAIN_TF,
        "plain_torch.py": PLAIN_TORCH,
    }
    for name, text in texts.items():
        (folder / name).write_text(text.format(**values))
    return width * (FEATURES + width + CLASSES + 2) + CLASSES


# What a run leaves belongs to, by the beginning of its folder's name.
KINDS = {
    "float32": "lockstep in float32",
    "float64": "lockstep in float64",
    "free": "free run",
    "replica": "replicas",
    "again": "repeated steps",
    "ulp": "draws",
    "order": "draws",
    "perturbed": "copies for draws",
    "states": "states before steps",
    "start": "what the sides start from",
}


def kind_of(path: str) -> str:
    """Returns what a file of a run belongs to: the side of a trace and its kind."""
    parts = path.split("/")
    for place, part in enumerate(parts):
        kind = KINDS.get(part.split("-")[0])
        if kind is not None:
            sides = {"tf": "reference, ", "torch": "candidate, "}
            # Folders of traces lie in their side's; states and starts hold one of each side.
            return (sides.get(parts[place - 1], "") if place else "") + kind
    return "batches and the rest"


def bytes_in(*folders: Path) -> Counter[str]:
    """Returns the bytes of all files in folders by kind, each file once however many names it has."""
    found: Counter[str] = Counter()
    seen = set()
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                try:
                    each = os.stat(os.path.join(path, name))
                except OSError:
                    continue  # it went meanwhile
                if (each.st_dev, each.st_ino) not in seen:
                    seen.add((each.st_dev, each.st_ino))
                    found[kind_of(os.path.relpath(path, folder))] += each.st_size
    return found


class Watch:
    """Samples the bytes in folders in a thread, and keeps the most: of all, and by kind."""

    def __init__(self, *folders: Path) -> None:
        self._folders, self.most, self._ended = folders, 0, threading.Event()
        self.kinds: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            found = bytes_in(*self._folders)
            self.most = max(self.most, found.total())
            self.kinds |= found  # the larger of both, kind by kind

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def seconds(command: list[str], folder: Path, temporary: Path) -> tuple[float, float]:
    """Returns the wall time of a command that has to end well, and the time of processors, in seconds."""
    environment = {**os.environ, "TMPDIR": str(temporary), "TF_CPP_MIN_LOG_LEVEL": "3"}
    before = _processors()
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return time.perf_counter() - begin, _processors() - before


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measures and prints; returns 0 when the promises hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=float, default=4e6)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--levels", default="1,2")
    parser.add_argument("--budget", help="as of `parity run`")
    parser.add_argument("--out", action="store_true", help="keep the traces, as `parity run --out` does")
    parser.add_argument(
        "--table", action="store_true", help="print the most bytes of each kind of run, for docs/trace.md"
    )
    given = parser.parse_args()
    plain, ours, watches, left = [], [], [], Counter[str]()
    with tempfile.TemporaryDirectory(prefix="bench-mid-size-") as where:
        folder, temporary, out = Path(where) / "case", Path(where) / "tmp", Path(where) / "out"
        folder.mkdir(), temporary.mkdir()
        weights = write_case(folder, given.weights, given.steps)
        run = [sys.executable, "-m", "parity.cli", "run", str(folder), "--levels", given.levels, "--quiet"]
        run += ["--budget", given.budget] if given.budget else []
        run += ["--out", str(out)] if given.out else []
        for _ in range(given.pairs):
            programs = ("plain_tf.py", "plain_torch.py")
            each = [seconds([sys.executable, name], folder, temporary) for name in programs]
            plain.append([sum(times) for times in zip(*each, strict=True)])
            with Watch(temporary, out) as watch:
                ours.append(seconds(run, folder, temporary))
            watches.append(watch)
            left = bytes_in(out)
    unit, most = weights * given.steps, max(watch.most for watch in watches)
    ratios = sorted(one[0] / other[0] for one, other in zip(ours, plain, strict=True))
    busy = statistics.median(one[1] / other[1] for one, other in zip(ours, plain, strict=True))
    ratio = statistics.median(ratios)
    print(f"{weights:,} weights, {given.steps} steps, Adam, two towers, levels {given.levels}")
    print(f"plain programs  median {statistics.median(each[0] for each in plain):.1f} s")
    print(f"parity run      median {statistics.median(each[0] for each in ours):.1f} s")
    print(f"ratio           median {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), promised {MOST_SECONDS:g}")
    print(f"of processors   {busy:.2f} times as many seconds")
    print(f"at the peak     {most / unit:.1f} bytes a weight and step ({most / 1e9:.2f} GB), promised {MOST_BYTES:g}")
    if given.out:
        kept = left.total()
        print(
            f"left by --out   {kept / unit:.1f} bytes a weight and step ({kept / 1e9:.2f} GB), promised {MOST_LEFT:g}"
        )
    for kind, count in sorted(watches[-1].kinds.items() if given.table else []):
        print(f"| {kind} | {count / unit:.1f} |")
    return 0 if ratio <= MOST_SECONDS and most <= MOST_BYTES * unit and left.total() <= MOST_LEFT * unit else 1


if __name__ == "__main__":
    sys.exit(main())
