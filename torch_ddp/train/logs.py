"""Says on rank 0 how a training goes: on the terminal, to TensorBoard, in a CSV file; and profiles single updates."""

import contextlib
import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from torch_ddp.checkpoint import Progress
from torch_ddp.process_group import Rank

COLUMNS = ("step", "epoch", "name", "value")


class Report:
    """Shows a progress bar and writes curves, on rank 0 only; the other ranks are silent.

    Args:
      rank: this process.
      folder: where files go: "log.csv", and the folder "tensorboard".
      begun: number of updates made before this start; what an interrupted one wrote behind it is taken out.
      total: number of updates in all.
      bar: whether to show a bar.
      tensorboard: whether to write for TensorBoard, whose package must be there.
      csv: whether to write log.csv, one row for each number: step, epoch, name, value.
    """

    def __init__(
        self,
        rank: Rank,
        folder: Path,
        begun: int,
        total: int,
        bar: bool = True,
        tensorboard: bool = False,
        csv: bool = False,
    ) -> None:
        first = rank.rank == 0
        self._console = Console(stderr=True, quiet=not first)
        self._bar = Bar(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not (first and bar),
        )
        self._task = self._bar.add_task("training", total=total, completed=begun, epoch=0, loss=float("nan"))
        self._curves = _curves(folder, begun) if first and tensorboard else None
        self._rows = CsvLog(folder / "log.csv", begun) if first and csv else None

    def __enter__(self) -> "Report":
        """Shows the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Takes the bar away and closes the files."""
        self._bar.stop()
        if self._curves is not None:
            self._curves.close()
        if self._rows is not None:
            self._rows.close()

    def update(self, progress: Progress, measured: Mapping[str, float]) -> None:
        """Shows one update: "loss" in the bar, all numbers in the files."""
        self._bar.update(self._task, completed=progress.step, epoch=progress.epoch, loss=measured["loss"])
        self._write(progress, "training", measured)

    def epoch(self, progress: Progress, measured: Mapping[str, float]) -> None:
        """Shows one evaluation."""
        described = ", ".join(f"{name} {value:.4f}" for name, value in measured.items())
        self._console.print(f"{progress.epoch} epochs, {progress.step} updates, held out: {described}")
        self._write(progress, "held_out", measured)

    def _write(self, progress: Progress, group: str, measured: Mapping[str, float]) -> None:
        for name, value in measured.items():
            if self._curves is not None:
                self._curves.add_scalar(f"{group}/{name}", value, progress.step)
            if self._rows is not None:
                self._rows.add(progress, f"{group}/{name}", value)


class CsvLog:
    """A CSV file of numbers by step; a resumed training goes on in it where its checkpoint was.

    Args:
      path: the file; made where there is none.
      begun: rows of later steps are taken out: they are written once more.
    """

    def __init__(self, path: Path, begun: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = _rows_until(path, begun)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
        os.replace(unfinished, path)
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file)

    def add(self, progress: Progress, name: str, value: float) -> None:
        """Adds one number, in as many digits as give it back."""
        self._writer.writerow((progress.step, progress.epoch, name, repr(value)))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _rows_until(path: Path, begun: int) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        # A row that a killed process wrote half of is of a later step than any checkpoint, or is written again.
        return [
            row for row in csv.reader(file) if len(row) == len(COLUMNS) and row[0].isdigit() and int(row[0]) <= begun
        ]


def _curves(folder: Path, begun: int) -> Any:
    # Needs the package tensorboard.
    from torch.utils.tensorboard import SummaryWriter

    # What an interrupted start wrote after its last checkpoint is hidden.
    return SummaryWriter(str(folder / "tensorboard"), purge_step=begun)


class Profiler:
    """Profiles some updates of a rank: the second and following of this start, and writes a trace for chrome://tracing.

    Args:
      updates: number of updates to profile; 0 for none.
      file: where the trace goes.
      device: where this rank trains.
    """

    def __init__(self, updates: int, file: Path, device: torch.device) -> None:
        self._updates = updates
        self._file = file
        self._device = device

    @contextlib.contextmanager
    def running(self) -> Iterator["Profiler"]:
        """Profiles within the block."""
        self._profile: Any = None
        if not self._updates:
            yield self
            return
        from torch.profiler import ProfilerActivity, profile, schedule

        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._device.type == "cuda" else [])]
        plan = schedule(wait=0, warmup=1, active=self._updates, repeat=1)
        with profile(activities=kinds, schedule=plan, on_trace_ready=self._write, acc_events=True) as self._profile:
            yield self

    def step(self) -> None:
        """Says that an update has been made."""
        if self._profile is not None:
            self._profile.step()

    def _write(self, profile: Any) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        profile.export_chrome_trace(str(self._file))
