"""Notices that a scheduler wants the machine back, on all ranks at the same update."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from torch_ddp.process_group import Rank
from torch_ddp.rank_failures import PREEMPTIONS

CPU = torch.device("cpu")


class Preemption:
    """Notes SIGTERM and SIGUSR1 within the block instead of ending the process, so that a checkpoint can be saved first.

    Schedulers, ``kill`` and torchrun send SIGTERM some seconds before SIGKILL, Slurm's ``--signal=USR1@90`` the other;
    `spawn` and `launch` hand both on to their ranks.

    Args:
      rank: this process.
      device: where this rank trains.
    """

    def __init__(self, rank: Rank, device: torch.device = CPU) -> None:
        self._rank = rank
        self._device = device
        self._before: dict[int, Any] = {}
        #: Number of the signal that this rank was sent, 0 for none. Only the handler writes it: one may come while ranks
        #: agree, and is what they agree on the next time.
        self.sent = 0
        #: The largest that any rank had been sent when they last agreed.
        self.noted = 0

    def __enter__(self) -> "Preemption":
        """Begins to note the signals; in a thread that is not the main one nothing can be noted."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in PREEMPTIONS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Puts the former handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def asked(self) -> bool:
        """Returns whether any rank was sent a signal; every rank calls it at the same update, and gets one answer."""
        noted = torch.tensor(self.sent, device=self._device)
        if self._rank.world_size > 1:
            dist.all_reduce(noted, dist.ReduceOp.MAX)
        self.noted = int(noted)
        return bool(self.noted)

    def end(self) -> NoReturn:
        """Ends this rank once all have come here, rank 0 with its checkpoint.

        Raises:
          SystemExit: always, with 128 and the number of the signal: 143 of SIGTERM, 138 of SIGUSR1.
        """
        if self._rank.world_size > 1:
            dist.barrier()
        raise SystemExit(128 + self.noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.sent = number
