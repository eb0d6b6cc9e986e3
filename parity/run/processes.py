"""The three processes of a run: the user's batches, the TensorFlow side, the torch side."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parity.sides import DEFAULT_SILENCE, SideProcess, launch_data, launch_tf, launch_torch


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

    def settle(self) -> None:
        """Has every side drop what it has not begun, and waits for what they are about."""
        for side in self.started:
            side.settle()


@contextlib.contextmanager
def open_sides(
    tf_python: str | None, silence: float = DEFAULT_SILENCE, folder: Path | None = None, reference: bool = True
) -> Iterator[Sides]:
    """Starts all sides at once, and ends them with everything that they started.

    Args:
      tf_python: the interpreter with TensorFlow; None for this one.
      silence: seconds without a sign of life after which a side counts as hanging.
      folder: where logs go; by default a temporary one.
      reference: whether the TensorFlow side and the batches are needed.
    """
    with contextlib.ExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
        logs = where / "logs"
        tf = data = None
        if reference:
            tf = stack.enter_context(contextlib.closing(launch_tf(tf_python, logs / "tf.log", silence)))
        torch = stack.enter_context(contextlib.closing(launch_torch(logs / "torch.log", silence)))
        if reference:
            data = stack.enter_context(contextlib.closing(launch_data(logs / "data.log", silence)))
        yield Sides(torch, where, tf, data)
