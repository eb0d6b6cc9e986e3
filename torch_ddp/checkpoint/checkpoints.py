"""Saves and resumes a training of several ranks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.checkpoint.files import newest_whole, read_whole, write_whole
from torch_ddp.checkpoint.random_state import random_state, set_random_state
from torch_ddp.errors import CheckpointError
from torch_ddp.gather import gather
from torch_ddp.group import Rank

FORMAT = 1
CPU = torch.device("cpu")


class Progress(NamedTuple):
    """How far a training has come.

    Fields:
      step: number of updates made.
      epoch: number of the epoch under way, from 0.
      offset: number of that epoch's updates that are made already: where its sampler goes on.
    """

    step: int
    epoch: int
    offset: int


class Stateful(Protocol):
    """Whatever has a state that can be taken and given back: models, optimizers, schedulers, scalers."""

    def state_dict(self) -> Any:
        """Returns the state."""

    def load_state_dict(self, state: Any) -> Any:
        """Takes a state back."""


class Checkpoints:
    """Saves the whole state of a training now and then, and resumes from the newest whole one.

    Besides its parts a checkpoint holds every rank's random state, the world size, the number of threads and the
    `Progress`: what makes a resumed training go on to the bit. With more than two ranks even so only up to rounding, since
    DDP sums in another order in its first step.

    Args:
      folder: where checkpoints lie. Only rank 0 writes there; one rank per machine looks there, and the newest of all
        machines is used, so that they need not share it.
      rank: this process; with more than one, the process group is up.
      parts: dict of name to what is saved: "model", "optimizer", and whatever else has a state. A model wrapped in DDP
        is saved without the wrapper.
      device: where this rank trains.
      keep: number of checkpoints to leave, at least 1.
    """

    def __init__(
        self, folder: str | Path, rank: Rank, parts: Mapping[str, Any], device: torch.device = CPU, keep: int = 2
    ) -> None:
        self._folder = Path(folder)
        self._rank = rank
        self._parts: dict[str, Stateful] = {name: _bare(part) for name, part in parts.items()}
        self._device = device
        self._keep = keep

    def save(self, progress: Progress) -> Path | None:
        """Saves; every rank calls it at the same step.

        Returns:
          On rank 0 the file, None on the others.

        Raises:
          CheckpointError: a part holds something that could not be loaded again.
        """
        random_states = gather(random_state(self._device), self._rank, self._device)
        if random_states is None:
            return None
        state = {
            "format": FORMAT,
            "torch": str(torch.__version__),
            "progress": dict(progress._asdict()),
            "world_size": self._rank.world_size,
            "threads": torch.get_num_threads(),
            "random": [{name: torch.from_numpy(value.copy()) for name, value in own.items()} for own in random_states],
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        return write_whole(self._folder, progress.step, state, self._keep)

    def resume(self) -> Progress | None:
        """Takes the state of the newest whole checkpoint, on every rank; warns of damaged ones.

        Returns:
          How far it had come, or None if there is no checkpoint.

        Raises:
          CheckpointError: it is of another world size, has other parts, or is of a later format. Nothing is loaded then.
        """
        data = self._newest()
        if not data:
            return None
        state = read_whole(data)
        self._check(state)
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        torch.set_num_threads(state["threads"])
        set_random_state(state["random"][self._rank.rank], self._device)
        return Progress(**state["progress"])

    def _newest(self) -> bytes:
        # Rank 0 may have been on another machine when it saved: torchrun numbers anew with each restart.
        found = newest_whole(self._folder) if self._rank.local_rank == 0 else None
        if self._rank.world_size == 1:
            return found.data if found else b""
        own = torch.tensor([found.step, len(found.data)] if found else [-1, 0], device=self._device)
        everyone = [torch.zeros_like(own) for _ in range(self._rank.world_size)]
        dist.all_gather(everyone, own)
        steps = [int(other[0]) for other in everyone]
        source = steps.index(max(steps))
        size = int(everyone[source][1])
        content = torch.zeros(size, dtype=torch.uint8, device=self._device)
        if found and self._rank.rank == source:
            content.copy_(torch.frombuffer(bytearray(found.data), dtype=torch.uint8))
        if size:
            dist.broadcast(content, src=source)
        return content.cpu().numpy().tobytes()

    def _check(self, state: dict[str, Any]) -> None:
        if state["format"] != FORMAT:
            raise CheckpointError(
                f"checkpoint: expected format {FORMAT}, got {state['format']}. Use the version that saved it."
            )
        if state["world_size"] != self._rank.world_size:
            raise CheckpointError(
                f"checkpoint: expected {state['world_size']} ranks, as it was saved with, got {self._rank.world_size}. "
                f"Start {state['world_size']} ranks, or begin anew in another folder."
            )
        ours, theirs = sorted(self._parts), sorted(state["parts"])
        if ours != theirs:
            raise CheckpointError(
                f"checkpoint: expected the parts {', '.join(ours)}, got {', '.join(theirs)}. "
                "Resume with the options that it was saved with."
            )


def _bare(part: Any) -> Any:
    return part.module if isinstance(part, DistributedDataParallel) else part
