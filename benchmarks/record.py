"""Times a training step of a script recorded beside the same step bare, of TensorFlow or of PyTorch.

Launch: ``python benchmarks/record.py [--pairs 5] [--tf-python PATH | --torch]``. Two towers, or two ranks under
DistributedDataParallel, of a small convolution net with batch norm; the script prints the median of its own steps. Runs are
made in turn, bare and recorded, each in a process of its own. Promised: a recorded step costs at most 2.5 bare ones with
TensorFlow, and 2 with PyTorch. The shadow is computed when the script has ended, and is not part of it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import ratio

ROOT = Path(__file__).parents[1]
BOOTSTRAP = ROOT / "parity" / "worker" / "bootstrap.py"
LIMIT = 2.5
LIMIT_OF_TORCH = 2.0
SCRIPT = """
import statistics, sys, time
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
BATCH, STEPS = int(sys.argv[1]), int(sys.argv[2])

def conv(x, name, channels):
    shape = [3, 3, x.shape.as_list()[-1], channels]
    kernel = tf.get_variable(name + "/kernel", shape, initializer=tf.random_normal_initializer(stddev=0.1, seed=1))
    gamma = tf.get_variable(name + "/gamma", [channels], initializer=tf.ones_initializer())
    beta = tf.get_variable(name + "/beta", [channels], initializer=tf.zeros_initializer())
    x = tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")
    return tf.nn.relu(tf.nn.fused_batch_norm(x, gamma, beta)[0])

def tower(x, labels):
    for number, channels in enumerate((16, 32, 32)):
        x = tf.nn.max_pool(conv(x, "conv%d" % number, channels), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    weights = tf.get_variable("weights", [3 * 3 * 32, 10], initializer=tf.random_normal_initializer(stddev=0.1, seed=2))
    logits = tf.matmul(tf.reshape(x, [-1, 3 * 3 * 32]), weights)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

images = tf.placeholder(tf.float32, [BATCH, 24, 24, 3], "images")
labels = tf.placeholder(tf.int32, [BATCH], "labels")
opt, towers = tf.train.MomentumOptimizer(0.01, 0.9), []
for i, (x, y) in enumerate(zip(tf.split(images, 2), tf.split(labels, 2))):
    with tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
        towers.append(opt.compute_gradients(tower(x, y)))
train = opt.apply_gradients([(tf.reduce_mean(tf.stack([a, b]), 0), v) for (a, v), (b, _) in zip(*towers)])
random = np.random.RandomState(0)
feed = {images: random.randn(BATCH, 24, 24, 3).astype("float32"), labels: random.randint(10, size=BATCH)}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    seconds = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        session.run(train, feed)
        seconds.append(time.perf_counter() - begin)
print("median", statistics.median(seconds[3:]))
"""

# The same net on two ranks, which meet through a file.
SCRIPT_OF_TORCH = """
import os, statistics, sys, tempfile, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
BATCH, STEPS = int(sys.argv[1]), int(sys.argv[2])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential()
        for before, after in ((3, 16), (16, 32), (32, 32)):
            self.layers.extend([nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)])
        self.head = nn.Linear(3 * 3 * 32, 10)

    def forward(self, x):
        return self.head(self.layers(x).flatten(1))

def rank(number, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=number, world_size=2)
    torch.manual_seed(number)
    net = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    images, labels = torch.randn(BATCH // 2, 3, 24, 24), torch.randint(10, (BATCH // 2,))
    seconds = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    if number == 0:
        print("median", statistics.median(seconds[3:]), flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, (os.path.join(folder, "ranks"),), 2)
"""


def seconds(python: str, words: list[str]) -> float:
    """Runs the script and returns the median seconds of its steps."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment.update(TF_CPP_MIN_LOG_LEVEL="3")
    done = subprocess.run([python, *words], check=True, capture_output=True, text=True, timeout=900, env=environment)
    return float(done.stdout.split("median ")[1].split()[0])


def main() -> int:
    """Measures and prints; returns 0 when the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="examples in a step, over both towers")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tf-python", default=os.environ.get("PARITY_TF_PYTHON") or sys.executable)
    parser.add_argument("--torch", action="store_true", help="the program of PyTorch")
    given = parser.parse_args()
    bare, recorded = [], []
    with tempfile.TemporaryDirectory(prefix="bench-record-") as folder:
        script, trace = Path(folder) / "train.py", str(Path(folder) / "trace")
        script.write_text(SCRIPT_OF_TORCH if given.torch else SCRIPT)
        python = sys.executable if given.torch else given.tf_python
        own = [str(script), str(given.batch), str(given.steps)]
        watched = [str(BOOTSTRAP), "tf_towers.record", "--no-shadow", "--out", trace, "--", *own]
        if given.torch:
            watched = [str(BOOTSTRAP), "parity.cli", "record", "--no-shadow", "--out", trace, "--", python, *own]
        for _ in range(given.pairs):
            bare.append(seconds(python, own))
            recorded.append(seconds(python, watched))
    found, limit = ratio(recorded, bare), LIMIT_OF_TORCH if given.torch else LIMIT
    print(f"a bare step      {min(bare) * 1e3:.1f} ms at best")
    print(f"a recorded step  {min(recorded) * 1e3:.1f} ms at best")
    print(f"recorded / bare  {found}; promised at most {limit}")
    return 0 if found.median <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
