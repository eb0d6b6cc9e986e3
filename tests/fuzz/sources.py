"""Source files for `parity scan`: legacy scripts, mutated as bytes, lines and pieces of Python, and what starts them."""

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from parity.scan import output
from parity.scan.output.html import as_page
from parity.scan.output.sarif import as_sarif
from parity.scan.scan import scan

from .demands import require_text
from .mutations import mutated_bytes, mutated_lines

ROOT = Path(__file__).parents[2]
SCRIPTS = ("clones.py", "queue_fed.py", "split_sum.py", "ungated.py", "hand_written_adam.py", "monitored.py")
MOST_BYTES_OF_SOURCE = 60_000
# What its optimizer is, options say; behind the mark is what stands beside it.
WITH_OPTIONS = b"""import tensorflow as tf, yaml
FLAGS = tf.flags.FLAGS
tf.flags.DEFINE_string('way', None, 'Which.')
def train(x, n):
    if FLAGS.way == 'rms':
        optimizer = tf.train.RMSPropOptimizer(0.1)
    else:
        optimizer = tf.train.AdadeltaOptimizer(0.1)
    losses = []
    for i in range(n):
        with tf.device('/gpu:%d' % i), tf.variable_scope('net', reuse=i > 0):
            losses.append(tf.reduce_mean(tf.layers.dense(x, 3)))
    return optimizer.minimize(tf.reduce_mean(losses))
train(tf.placeholder(tf.float32, [2, 2]), 2)
#====
python x.py --way=rms --noway
python -m x --way "sgd" \\
  --steps 3
way: momentum
"""
MARK = b"#===="
BESIDE = ("run.sh", "settings.yml", "README.md")
PIECES = (
    b"(", b")", b"[", b"{", b"}", b":", b"\n    ", b"\t", b"\\\n", b"'''", b'"', b"f'{", b"lambda *a, **b: ",
    b"for i in range(n):\n", b"with tf.device('/gpu:%d' % i):\n", b"zip(*tower_grads)", b"print >>x, ", b"exec ",
    b"`x`",
    b"0777L", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"# coding: utf-16\n", b"# coding: rot13\n", b"x = x\n",
    b"self.x = self.x\n",
    b"pairs = enumerate(pairs)\nfor p in pairs: pass\n", b"i = list(i)\n",
    b"import a as tf\n", b"from . import *\n", b"def f(f=f): return f(f)\n", b"class A(A): pass\n",
    b"--way ", b"way: ", b"python x.py ", b"-m ", b"1-1" * 4000, b"a/" * 9000, b"\\" * 3000, b" " * 5000, b"$",
    b"(" * 400, b"if 1:\n" * 200, b"\x1b[31m", b"\xe2\x80\xae", b"::error::", b"*" * 300,
)  # fmt: skip


def sources() -> list[bytes]:
    """Returns scripts, one of them as a notebook, and one with options and what gives them."""
    found = [(ROOT / "tests" / "legacy_scripts" / name).read_bytes() for name in SCRIPTS]
    lines = found[2].decode().splitlines(keepends=True)
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": lines}
    found.append(WITH_OPTIONS)
    return [*found, json.dumps({"cells": [cell], "nbformat": 4}, indent=1).encode()]


def mutated_source(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Returns other source."""
    for _ in range(draw.choice((1, 2, 5, 20))):
        chance = draw.random()
        if chance < 0.3:
            data = mutated_bytes(draw, data, others)
        elif chance < 0.6:
            data = mutated_lines(draw, data, others)
        else:
            place = draw.randrange(len(data) + 1)
            data = data[:place] + draw.choice(PIECES) + data[place + draw.choice((0, 0, 1, 7)) :]
    return data[:MOST_BYTES_OF_SOURCE]


def read_source_file(folder: Path, data: bytes) -> None:
    """Scans a file with what stands beside it, and looks at all that is written of it."""
    path = folder / ("x.ipynb" if data[:1] == b"{" else "x.py")
    source, _, beside = data.partition(MARK)
    files = {path: source, **({folder / name: beside for name in BESIDE} if beside else {})}
    for each, content in files.items():
        each.write_bytes(content)
    try:
        result = scan([folder] if beside else [path])
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            output.print_scan(result, verbose=True)
        require_text(shown.getvalue())
        as_page(result)
        json.dumps(as_sarif(result))
        for line in output.annotations(result):
            assert "\n" not in line
    finally:
        for each in files:
            each.unlink()
