"""Has all ranks agree, once an update, on whether its numbers are finite and whether the training is to end."""

from collections.abc import Iterable
from types import TracebackType
from typing import Literal, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from torch_ddp.checkpoint.finite import check_finite, floating_of, sum_of
from torch_ddp.errors import NonFiniteError, TorchDdpError
from torch_ddp.process_group import Rank
from torch_ddp.train.preemption import Preemption

CPU = torch.device("cpu")
NonFinite = Literal["stop", "skip"]
# A loss scale that begins at 2^16 has fallen to float16's smallest number after 40 halvings: what is skipped more often in
# a row will not be finite again.
MOST_SKIPPED = 50


class UpdateGuard:
    """Lets an update through if its loss and gradients are finite on every rank, and notes signals meanwhile.

    Both questions travel in one collective of two numbers. Within the block SIGTERM and SIGUSR1 are noted, as by
    `Preemption`::

        with UpdateGuard(rank, device, model=model) as guard:
            for …:
                loss.backward()
                if guard.admits(loss, named_gradients, f"at update {step}"):
                    optimizer.step()
                if guard.preempted:
                    checkpoints.save(progress)
                    guard.end()

    Args:
      rank: this process.
      device: where this rank trains.
      non_finite: "stop" raises where a number is not finite, "skip" leaves the update out.
      model: whose buffers, such as batch norm's moving statistics, are set back where an update is left out: its forward
        pass has moved them already. Wrapped or not.
      most_skipped: number of updates in a row that may be left out before it raises after all.

    Raises:
      TorchDdpError: `non_finite` is neither.
    """

    def __init__(
        self,
        rank: Rank,
        device: torch.device = CPU,
        non_finite: NonFinite = "stop",
        model: nn.Module | None = None,
        most_skipped: int = MOST_SKIPPED,
    ) -> None:
        if non_finite not in ("stop", "skip"):
            raise TorchDdpError(f"guard: expected non_finite to be 'stop' or 'skip', got {non_finite!r}. Choose one.")
        self._rank = rank
        self._device = device
        self._stops = non_finite == "stop"
        self._most = most_skipped
        self._preemption = Preemption(rank, device)
        buffers = [] if self._stops or model is None else list(model.buffers())
        # Each with its value behind the last update that was let through.
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in buffers]
        #: Whether any rank was sent a signal before the last update; the same on every rank.
        self.preempted = False
        #: Number of updates left out since the last that was made.
        self.skipped = 0

    def __enter__(self) -> "UpdateGuard":
        """Begins to note signals."""
        self._preemption.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends noting them."""
        self._preemption.__exit__(kind, error, traceback)

    @torch.no_grad()
    def admits(self, loss: Tensor, gradients: Iterable[tuple[str, Tensor | None]], when: str) -> bool:
        """Returns whether the update is to be made, the same on every rank; called between backward and step.

        Args:
          loss: shape [], this rank's.
          gradients: (name, gradient), after DDP has reduced them; none where a loss scale looks at them itself.
          when: for the message, e.g. "at update 7".

        Raises:
          NonFiniteError: the loss of a rank or a gradient is infinite or NaN, and it is to stop; or too many in a row were.
        """
        named = floating_of([("the loss", loss), *((f"the gradient of {name}", value) for name, value in gradients)])
        # [2]: 1 where the sum of the numbers is not finite, which finite ones may add up to; the signal.
        sent = torch.tensor(float(self._preemption.sent), device=self._device)
        words = torch.stack([(~sum_of(named).isfinite()).to(self._device, torch.float32), sent])
        suspected, self._preemption.noted = self._largest(words)
        self.preempted = self._preemption.noted > 0
        finite = not suspected or self._are_finite(named, when)
        for buffer, before in self._buffers:
            (before if finite else buffer).copy_(buffer if finite else before)
        return finite

    def made(self, updated: bool) -> None:
        """Counts updates that were left out: called after each with whether it was made, or skipped by a loss scale.

        Raises:
          NonFiniteError: it is one too many.
        """
        self.skipped = 0 if updated else self.skipped + 1
        if self.skipped > self._most:
            raise NonFiniteError(
                f"train: expected a finite update now and then, got {self.skipped} in a row that were skipped for infinite "
                "or NaN numbers. Lower the learning rate, or look at weights and data."
            )

    def end(self) -> NoReturn:
        """Ends this rank with the code of the signal; see `Preemption.end`."""
        self._preemption.end()

    def _are_finite(self, named: list[tuple[str, Tensor]], when: str) -> bool:
        error = None
        try:
            check_finite(named, when)
        except NonFiniteError as raised:
            error = raised
        # The lowest rank that has one, as the others name it.
        own = float(self._rank.world_size - self._rank.rank if error else 0)
        [first] = self._largest(torch.tensor([own], device=self._device))
        if not first:
            return True
        if not self._stops:
            return False
        raise error or NonFiniteError(
            f"train: expected finite numbers {when}, got infinite or NaN ones on rank {self._rank.world_size - first}. "
            "Nothing was saved since. Lower the learning rate, or look at the batch."
        )

    def _largest(self, words: Tensor) -> list[int]:
        if self._rank.world_size > 1:
            dist.all_reduce(words, dist.ReduceOp.MAX)
        return [int(word) for word in words.tolist()]
