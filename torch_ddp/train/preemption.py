"""Notices that a scheduler wants the machine back, on all ranks at the same update."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from torch_ddp.process_group import Rank
from torch_ddp.rank_failures import PREEMPTED

CPU = torch.device("cpu")


class Preemption:
    """Notes SIGTERM within the block instead of ending the process, so that a checkpoint can be saved first.

    Schedulers, ``kill`` and torchrun send it some seconds before SIGKILL; `spawn` and `launch` hand it on to their ranks.

    Args:
      rank: this process.
      device: where this rank trains.
    """

    def __init__(self, rank: Rank, device: torch.device = CPU) -> None:
        self._rank = rank
        self._device = device
        self._noted = False
        self._before: Any = None

    def __enter__(self) -> "Preemption":
        """Begins to note the signal; in a thread that is not the main one nothing can be noted."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Puts the former handler back."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def asked(self) -> bool:
        """Returns whether any rank was sent the signal; every rank calls it at the same update, and gets one answer."""
        if self._rank.world_size == 1:
            return self._noted
        noted = torch.tensor(float(self._noted), device=self._device)
        dist.all_reduce(noted, dist.ReduceOp.MAX)
        return bool(noted)

    def end(self) -> NoReturn:
        """Ends this rank once all have come here, rank 0 with its checkpoint.

        Raises:
          SystemExit: always, with code 143, which is 128 + SIGTERM.
        """
        if self._rank.world_size > 1:
            dist.barrier()
        raise SystemExit(PREEMPTED)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = True
