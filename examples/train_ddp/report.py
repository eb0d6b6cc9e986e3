"""Tells rank 0's terminal, and TensorBoard if asked, how the training goes; the other ranks are silent."""

import argparse
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch.optim import Optimizer

from torch_ddp import Progress as Made
from torch_ddp import Rank


class Report:
    """Shows a progress bar and writes curves, on rank 0 only.

    Args:
      rank: this process.
      options: `quiet`, `tensorboard`, `out`.
      begun: number of updates made before this start.
      total: number of updates in all.
    """

    def __init__(self, rank: Rank, options: argparse.Namespace, begun: int, total: int) -> None:
        first = rank.rank == 0
        self._console = Console(stderr=True, quiet=not first)
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=options.quiet or not first,
        )
        self._task = self._bar.add_task("training", total=total, completed=begun, epoch=0, loss=float("nan"))
        self._curves = _curves(Path(options.out), begun) if first and options.tensorboard else None

    def __enter__(self) -> "Report":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._curves is not None:
            self._curves.close()

    def update(self, progress: Made, measured: dict[str, float], optimizer: Optimizer) -> None:
        """Shows one update."""
        self._bar.update(self._task, completed=progress.step, epoch=progress.epoch, loss=measured["loss"])
        if self._curves is not None:
            self._curves.add_scalar("training/loss", measured["loss"], progress.step)
            self._curves.add_scalar("training/learning_rate", optimizer.param_groups[0]["lr"], progress.step)

    def epoch(self, progress: Made, measured: dict[str, float]) -> None:
        """Shows one evaluation."""
        found = ", ".join(f"{name} {value:.4f}" for name, value in measured.items())
        self._console.print(f"{progress.epoch} epochs, {progress.step} updates, held out: {found}")
        if self._curves is not None:
            for name, value in measured.items():
                self._curves.add_scalar(f"held_out/{name}", value, progress.step)


def _curves(out: Path, begun: int) -> Any:
    # Needs the package tensorboard, which check_options has looked for.
    from torch.utils.tensorboard import SummaryWriter

    # What an interrupted start wrote after its last checkpoint is hidden.
    return SummaryWriter(str(out / "tensorboard"), purge_step=begun)
