"""Times `parity run` on cases that grow in one respect at a time: steps, towers, variables.

Launch: ``python benchmarks/linear_costs.py [--axes steps,towers,variables] [--repeat 1] [--plot FILE.svg]``.
The net is a residual chain of small products. Each run is a process of its own, frameworks' start included, its traces
kept. Prints seconds and bytes left by size, and for each axis the exponent of the growth: 1 where twice as much of
something costs twice as much, measured on what is above the smallest run. Promised: at most 1.2 everywhere.
``--plot`` draws them, with matplotlib (``pip install matplotlib``).
"""

import argparse
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

MOST = 1.2  # exponent; 20% is what a second run of the same size may be off by where others use the machine
SIZES = {
    "steps": (5, 50, 150, 500),
    "towers": (1, 2, 4, 8),
    "variables": (10, 100, 1000, 10_000),
}
USUAL = {"steps": 3, "towers": 2, "variables": 10}  # of what does not grow
WIDTH, OF_A_TOWER = 4, 4
CASE = """name = "linear_costs"
steps = {steps}
batch_size = {batch}
towers = {towers}
combine = "mean"
batches = "batches:batches"

[optimizer]
name = "adam"
learning_rate = 0.001

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
        x = random.standard_normal((batch_size, {width})).astype("float32")
        yield {{"x": x, "y": random.standard_normal((batch_size, {width})).astype("float32")}}
"""
TOWER = """import tensorflow.compat.v1 as tf


def tower(x, y):
    for number in range({variables}):
        with tf.variable_scope("layer_%d" % number):
            kernel = tf.get_variable("kernel", [{width}, {width}], x.dtype, tf.glorot_uniform_initializer(dtype=x.dtype))
            x = x + tf.tanh(tf.matmul(x, kernel)) / {variables}
    return tf.reduce_mean(tf.square(x - y))
"""
PORT = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear({width}, {width}, bias=False) for _ in range({variables}))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x)) / {variables}
        return x


def loss(model, x, y):
    return F.mse_loss(model(x), y)
"""


class Cost(NamedTuple):
    """What one run took.

    Fields:
      size: steps, towers or variables.
      seconds: by the clock.
      bytes: that ``--out`` leaves.
    """

    size: int
    seconds: float
    bytes: int


def write_case(folder: Path, steps: int, towers: int, variables: int) -> None:
    """Writes a case of these sizes into a folder."""
    values = {
        "steps": steps,
        "towers": towers,
        "variables": variables,
        "batch": OF_A_TOWER * towers,
        "width": WIDTH,
    }
    texts = {"case.toml": CASE, "batches.py": BATCHES, "tower.py": TOWER, "port.py": PORT}
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text.format(**values))


def run(axis: str, size: int, repeat: int, levels: str) -> Cost:
    """Runs a case of one size, and returns the median of what it took."""
    seconds, left = [], 0
    for _ in range(repeat):
        where = Path(tempfile.mkdtemp(prefix="bench-linear-costs-"))
        try:
            write_case(where / "case", **{**USUAL, axis: size})
            command = [sys.executable, "-m", "parity.cli", "run", str(where / "case"), "--levels", levels]
            begin = time.perf_counter()
            done = subprocess.run(
                [*command, "--quiet", "--out", str(where / "out")], capture_output=True, text=True, check=False
            )
            seconds.append(time.perf_counter() - begin)
            if done.returncode:
                sys.exit(f"{size} {axis}: ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            left = sum(path.stat().st_size for path in (where / "out").rglob("*") if path.is_file())
        finally:
            shutil.rmtree(where)
    return Cost(size, statistics.median(seconds), left)


def exponents(costs: list[Cost]) -> tuple[float, float]:
    """Returns how seconds and bytes grow with the size: 1 linearly, 2 with its square.

    Of the two largest runs, on what each has more than the smallest: a start of so many seconds, which no size changes,
    would hide any growth behind it.

    Args:
      costs: at least three, by size.
    """
    first, middle, last = costs[0], costs[-2], costs[-1]
    sizes = math.log((last.size - first.size) / (middle.size - first.size))
    found = []
    for what in ("seconds", "bytes"):
        more, most = (getattr(each, what) - getattr(first, what) for each in (middle, last))
        # Where nothing grew at all there is nothing to tell.
        found.append(math.log(most / more) / sizes if more > 0 and most > 0 else 0.0)
    return found[0], found[1]


def plot(found: dict[str, list[Cost]], path: Path) -> None:
    """Draws seconds over size, an axis of the measurement each, as one picture."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(found), figsize=(3.6 * len(found), 3), squeeze=False)
    for panel, (axis, costs) in zip(panels[0], found.items(), strict=True):
        first, last = costs[0], costs[-1]
        sizes = [each.size for each in costs]
        line = [
            first.seconds + (last.seconds - first.seconds) * (size - first.size) / (last.size - first.size)
            for size in sizes
        ]
        panel.plot(sizes, line, color="0.6", linestyle="--", label="linear")
        panel.plot(sizes, [each.seconds for each in costs], marker="o", label="measured")
        panel.set(xscale="log", yscale="log", xlabel=axis, ylabel="seconds", xticks=sizes)
        panel.set_xticklabels([f"{size:,}" for size in sizes])
        panel.minorticks_off()
        panel.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> int:
    """Measures and prints; returns 0 when the promise holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axes", default=",".join(SIZES), help="of steps, towers, variables")
    parser.add_argument("--most", type=float, default=math.inf, metavar="N", help="leave larger sizes out")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each size, of which the median counts")
    parser.add_argument("--levels", default="1,2", help="as of `parity run`")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw seconds over size")
    given = parser.parse_args()
    found: dict[str, list[Cost]] = {}
    holds = True
    for axis in given.axes.split(","):
        costs = found[axis] = []
        for size in SIZES[axis]:
            if size <= given.most:
                costs.append(run(axis, size, given.repeat, given.levels))
                print(f"{size:6,} {axis:9}  {costs[-1].seconds:7.1f} s  {costs[-1].bytes:13,} bytes", flush=True)
        if len(costs) < 3:
            continue
        seconds, left = exponents(costs)
        print(
            f"{axis}: seconds grow with the power {seconds:.2f}, bytes with {left:.2f} (at most {MOST:g})", flush=True
        )
        holds = holds and max(seconds, left) <= MOST
    if given.plot is not None:
        plot(found, given.plot)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
