"""The commands, each on the smallest input there is, and the inputs, which are made once."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.tiny_case import write_case

ROOT = Path(__file__).parents[2]
# How many times longer all may take, as on a machine that others use: importing a framework holds the heartbeat up there.
PATIENCE = float(os.environ.get("FAULTS_PATIENCE", "1"))
MAKE_SECONDS = 300 * PATIENCE
SILENCE = f"{15 * PATIENCE:g}"  # seconds without a heartbeat that the commands are given, for sides that are frozen
SCRIPT = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [8, 3], "x")
y = tf.placeholder(tf.float32, [8, 2], "y")
optimizer = tf.train.GradientDescentOptimizer(0.1)
towers = []
for number in range(2):
    with tf.variable_scope("net", reuse=number > 0):
        kernel = tf.get_variable("kernel", [3, 2], initializer=tf.random_normal_initializer(seed=1))
        bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
    part = slice(4 * number, 4 * number + 4)
    loss = tf.reduce_mean(tf.square(tf.matmul(x[part], kernel) + bias - y[part]))
    towers.append(optimizer.compute_gradients(loss))
averaged = [((a + b) / 2.0, variable) for (a, variable), (b, _) in zip(*towers)]
train = optimizer.apply_gradients(averaged)
draw = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: draw.randn(8, 3), y: draw.randn(8, 2)})
print("trained")
"""
PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 3)).square().mean().backward()
    optimizer.step()
print("trained")
"""
TRAINER = """
import sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trainer_update import update
from torch_ddp import Checkpoints, Preemption, Progress, spawn

STEPS, SECONDS = 4, 15.0

def train(rank, out):
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoints = Checkpoints(out, rank, {"model": model, "optimizer": optimizer})
    with Preemption(rank) as preemption:
        resumed = checkpoints.resume()
        for step in range(resumed.step if resumed else 0, STEPS):
            update(model, optimizer)
            checkpoints.save(Progress(step + 1, 0, step + 1))
            if preemption.asked():
                preemption.end()

if __name__ == "__main__":
    spawn(train, 2, sys.argv[1], timeout=SECONDS)
    print("trained")
""".replace("15.0", f"{15 * PATIENCE}")
UPDATE = """
import torch

def update(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 3)).square().mean().backward()
    optimizer.step()
"""


@dataclass
class Inputs:
    """What commands read, made when it is first asked for.

    Attributes:
      folder: where it is kept.
    """

    folder: Path

    def case(self) -> Path:
        """Returns the folder of a case."""
        return self._made("case", lambda folder: write_case(folder))

    def script(self) -> Path:
        """Returns a script of TensorFlow."""
        return self._text("script.py", SCRIPT)

    def program(self) -> Path:
        """Returns a program of PyTorch."""
        return self._text("program.py", PROGRAM)

    def trainer(self) -> Path:
        """Returns a training with checkpoints."""
        self._text("trainer_update.py", UPDATE)
        return self._text("trainer.py", TRAINER)

    def golden(self) -> Path:
        """Returns a golden trace of the case."""
        return self._by("golden", "bless", str(self.case()), "--out")

    def trace(self) -> Path:
        """Returns the trace of the script."""
        script = self.script()
        return self._by("recorded", "record", "--out", after=["--", str(script)])

    def port(self) -> Path:
        """Returns the folder of a port of it."""
        return self._by("port", "port", str(self.trace()), "--no-prove", "--out")

    def _text(self, name: str, text: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_text(text.lstrip())
        return path

    def _by(self, name: str, *words: str, after: list[str] | None = None) -> Path:
        def make(folder: Path) -> None:
            command = parity(*words, str(folder), *(after or []))
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

        return self._made(name, make)

    def _made(self, name: str, make: Callable[[Path], object]) -> Path:
        path, unfinished = self.folder / name, self.folder / f"{name}.made"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(path)
        return path


def parity(*words: str) -> list[str]:
    """Returns a command of ours."""
    return [sys.executable, "-m", "parity.cli", *words]


@dataclass(frozen=True)
class Command:
    """What is run.

    Attributes:
      name: as cells have it.
      words: function of `Inputs` and the folder of outputs; returns the command.
      whole: what has to be there when it ends with 0, relative to the folder of outputs.
      folder: function of `Inputs`; returns the folder to run in, None for one of the cell's own.
      ours: whether it is `parity`, whose messages and exit codes are documented, and no program that calls `torch_ddp`.
    """

    name: str
    words: Callable[[Inputs, Path], list[str]]
    whole: tuple[str, ...]
    folder: Callable[[Inputs], Path | None] = field(default=lambda inputs: None)
    ours: bool = True


REPORTS = ("result.json", "result.html", "result.xml", "result.md")


def _reports(out: Path) -> list[str]:
    options = ("--json", "--html", "--junit", "--markdown")
    return [word for option, name in zip(options, REPORTS, strict=True) for word in (option, str(out / name))]


def _run(inputs: Inputs, out: Path) -> list[str]:
    return parity("run", str(inputs.case()), "--out", str(out / "run"), "--timeout", SILENCE, *_reports(out))


def _bare(inputs: Inputs, out: Path) -> list[str]:
    return parity("run", str(inputs.case()), "--timeout", SILENCE, "--json", str(out / "result.json"))


def _golden(inputs: Inputs, out: Path) -> list[str]:
    return [*_run(inputs, out), "--golden", str(inputs.golden())]


def _record(inputs: Inputs, out: Path) -> list[str]:
    return parity("record", "--steps", "2", "--out", str(out / "trace"), "--", str(inputs.script()))


def _program(inputs: Inputs, out: Path) -> list[str]:
    words = ["record", "--steps", "3", "--timeout", SILENCE, "--out", str(out / "trace"), "--"]
    return parity(*words, sys.executable, str(inputs.program()))


def _replay(inputs: Inputs, out: Path) -> list[str]:
    port = ["--torch", "port:Model", "--loss", "port:loss", "--map", str(inputs.port() / "port.toml")]
    words = ["replay", str(inputs.trace()), *port, "--out", str(out / "replay"), "--timeout", SILENCE]
    return parity(*words, *_reports(out))


def _port(inputs: Inputs, out: Path) -> list[str]:
    words = ["port", str(inputs.trace()), "--out", str(out / "port"), "--timeout", SILENCE]
    return parity(*words, "--json", str(out / "result.json"))


def _train(inputs: Inputs, out: Path) -> list[str]:
    return [sys.executable, str(inputs.trainer()), str(out / "checkpoints")]


def _compare(inputs: Inputs, out: Path) -> list[str]:
    return parity("compare", str(inputs.trace()), str(inputs.trace()), *_reports(out))


COMMANDS = {
    command.name: command
    for command in (
        Command("run", _run, (*REPORTS, "run/tf")),
        Command("bare", _bare, ("result.json",)),
        Command("golden", _golden, (*REPORTS, "run/torch")),
        Command("record", _record, ("trace/trace.json",)),
        Command("program", _program, ("trace/trace.json",)),
        Command("replay", _replay, REPORTS, lambda inputs: inputs.port()),
        Command("port", _port, ("result.json", "port/port.py", "port/port.json")),
        Command("train", _train, ("checkpoints/step-0000000004-*.pt",), ours=False),
        Command("compare", _compare, REPORTS),
    )
}
