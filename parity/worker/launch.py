"""Starts the child processes of a run: the user's batches, the TensorFlow side, the torch side."""

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parity.worker import bootstrap
from parity.worker.process import SideProcess
from parity.worker.protocol import FOLDER_VARIABLE
from parity.worker.reaper import temporary_folder

# Seconds. A right run is silent for longest in its first step, while the graph is built; `--timeout` is for models that
# take longer. Too long a wait costs time, too short a one ends a run that is right.
DEFAULT_SILENCE = 300.0
DATA = "parity.worker.data"


def launch_tf(python: str | None, log: Path, silence: float = DEFAULT_SILENCE) -> SideProcess:
    """Starts the TensorFlow side, in this interpreter or in the one named `python`."""
    environment = dict(os.environ)
    # What leads this interpreter to its packages would lead a Python 3.7 to those of a newer one.
    if python and Path(python).resolve() != Path(sys.executable).resolve():
        for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"):
            environment.pop(name, None)
    # All by setdefault: what a user has set stays; what changes numbers is recorded as a fact of the side, `flags`.
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Off, as TensorFlow 1.15 has none: with TensorFlow 2.21's off, products are bit-equal to 1.15's, and the error of
    # batch norm and convolution gradients against float64 falls from 1.9e-6 to 4.6e-7.
    environment.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    # Kernels that repeat bit for bit: by it one of TensorFlow 2.21's gradients of a product moves by 5e-8, all else is
    # equal.
    environment.setdefault("TF_DETERMINISTIC_OPS", "1")
    environment.setdefault("TF_USE_LEGACY_KERAS", "1")  # tf.layers of TensorFlow 2.16 and newer needs Keras 2, tf_keras
    return _launch("tf", python or sys.executable, "tf_towers.worker", environment, log, silence)


def launch_torch(log: Path, silence: float = DEFAULT_SILENCE) -> SideProcess:
    """Starts the torch side in this interpreter."""
    environment = dict(os.environ)
    # Ranks share the processors of one machine, each with threads for all of them if nothing is said; torchrun sets 1
    # too.
    environment.setdefault("OMP_NUM_THREADS", "1")
    # With workspaces of other sizes cuBLAS may add up in another order from one run to the next.
    environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return _launch("torch", sys.executable, "torch_ddp.worker.main", environment, log, silence)


def launch_data(log: Path, silence: float = DEFAULT_SILENCE) -> SideProcess:
    """Starts the process that runs the case's own `batches`, whatever it imports."""
    return _launch("data", sys.executable, DATA, dict(os.environ), log, silence)


def _launch(side: str, python: str, module: str, environment: dict[str, str], log: Path, silence: float) -> SideProcess:
    # A crash in compiled code prints where it was.
    environment.setdefault("PYTHONFAULTHANDLER", "1")
    # A line reaches its log as soon as it is whole; unbuffered, the lines of several ranks would mix.
    environment.pop("PYTHONUNBUFFERED", None)
    # A side that is killed removes nothing; the folder of its log goes with the run, or is emptied by the next one.
    environment[FOLDER_VARIABLE] = str(log.parent.resolve())
    greets = module != DATA  # it is always of this interpreter, and its only request has not changed
    return SideProcess(side, [python, str(bootstrap.__file__), module], environment, log, silence, greets)


@dataclass
class Sides:
    """The three processes of a run; several runs may use the same ones, one after the other.

    Attributes:
      torch: the process of the port.
      tf, data: those of the reference and of the batches; None where a golden trace stands for them.
      folder: where their logs are.
    """

    torch: SideProcess
    folder: Path
    tf: SideProcess | None = None
    data: SideProcess | None = None

    @property
    def started(self) -> list[SideProcess]:
        """The processes that there are."""
        return [side for side in (self.data, self.tf, self.torch) if side is not None]

    @property
    def lost(self) -> bool:
        """Whether one of them has failed for good: others are to be opened for what comes next."""
        return any(side.lost for side in self.started)

    def outlive_failure(self) -> None:
        """Has every side serve again after a failure that whoever asked has heard of, and goes on."""
        for side in self.started:
            side.outlive_failure()

    def catch_up(self) -> None:
        """Has every side serve again after a failure, from the middle of an answer too, which is waited for."""
        for side in self.started:
            side.catch_up()

    def settle(self) -> None:
        """Has every side drop what it has not begun, and waits for what they are about."""
        for side in self.started:
            side.settle()

    def hang_up(self) -> None:
        """Has every side end by itself, all at once: closed one after the other, they are waited for one after the other."""
        for side in self.started:
            side.hang_up()


@contextlib.contextmanager
def open_sides(
    tf_python: str | None, silence: float = DEFAULT_SILENCE, folder: Path | None = None, reference: bool = True
) -> Iterator[Sides]:
    """Starts all sides at once, and ends them with everything that they started.

    Args:
      tf_python: the interpreter with TensorFlow; None for this one.
      silence: seconds without a heartbeat after which a side counts as hanging.
      folder: where logs go; by default a temporary one.
      reference: whether the TensorFlow side and the batches are needed.
    """
    with contextlib.ExitStack() as stack:
        # The temporary folder is entered first, so it is removed last: no child writes its log there any more.
        where = folder or Path(stack.enter_context(temporary_folder(prefix="parity-")))
        logs = where / "logs"
        tf = data = None
        if reference:
            tf = stack.enter_context(contextlib.closing(launch_tf(tf_python, logs / "tf.log", silence)))
        torch = stack.enter_context(contextlib.closing(launch_torch(logs / "torch.log", silence)))
        if reference:
            data = stack.enter_context(contextlib.closing(launch_data(logs / "data.log", silence)))
        sides = Sides(torch, where, tf, data)
        stack.callback(sides.hang_up)
        yield sides
