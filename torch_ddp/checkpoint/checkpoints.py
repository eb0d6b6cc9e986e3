"""Keeps resumable training state: weights, masters, optimizer, random state, progress."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.checkpoint.background import BackgroundWriter
from torch_ddp.checkpoint.copies import own_copy, snapshot
from torch_ddp.checkpoint.files import LONGEST_REASON, map_file, write_whole
from torch_ddp.checkpoint.finite import check_finite_parts
from torch_ddp.checkpoint.form import require_form, require_random_state
from torch_ddp.checkpoint.generators import random_state, seed_all, set_random_state
from torch_ddp.checkpoint.shards import SHARDS, read_shards, remove_unused, require_safetensors, write_shards
from torch_ddp.checkpoint.sharing import newest_of_all
from torch_ddp.errors import CheckpointError
from torch_ddp.gather import gather
from torch_ddp.process_group import Rank

Setting = str | int | float | bool | None
CHECKPOINT_FORMAT = 1
BEST = "best"  # folder within that of the checkpoints


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
      device: where this rank trains: a GPU's generator is saved with the others. By default where the weights of the
        first module among the parts are; the CPU where there is none.
      keep: number of checkpoints to leave, at least 1.
      settings: dict of name to what the training was started with and its parts do not hold: batch size, seed, learning
        rate. A resume with others is refused.
      override: whether to resume in spite of other settings, parts or another world size, with a warning; `overridden`
        then names them.
      background: whether `save` returns while the file is still being written, from a copy of the state in memory; `wait`
        waits for it.
      sharded: whether all ranks write, each some of the tensors, by torch.distributed.checkpoint: for large models on
        several machines, which must all see the folder then. Needs the package safetensors; not in the background.

    Raises:
      CheckpointError: sharded in the background, or without safetensors.
    """

    def __init__(
        self,
        folder: str | Path,
        rank: Rank,
        parts: Mapping[str, Any],
        device: torch.device | None = None,
        keep: int = 2,
        settings: Mapping[str, Setting] | None = None,
        override: bool = False,
        background: bool = False,
        sharded: bool = False,
    ) -> None:
        if sharded and background:
            raise CheckpointError("checkpoint: expected sharded or background, got both. Leave one of them out.")
        if sharded:
            require_safetensors()
        self._sharded = sharded
        self._folder = Path(folder)
        self._rank = rank
        self._parts: dict[str, Stateful] = {name: _bare(part) for name, part in parts.items()}
        self._device = device or _place_of(self._parts.values())
        self._keep = keep
        self._settings = dict(settings or {})
        self._override = override
        self._writer = BackgroundWriter() if background else None
        #: Dict of name to (saved, given) of the settings that the last `resume` passed over; "ranks" is the world size.
        self.overridden: dict[str, tuple[Setting, Setting]] = {}

    def save(self, progress: Progress) -> Path | None:
        """Saves; every rank calls it at the same step.

        Returns:
          On rank 0 the file, None on the others, and where it is still being written.

        Raises:
          CheckpointError: a part holds something that could not be loaded again, or the file cannot be written; in the
            background, the one before could not.
          NonFiniteError: a weight, moving statistic or slot is not finite: the checkpoints that are there stay.
        """
        return self._write(self._folder, progress, self._keep)

    def save_best(self, progress: Progress, value: float, higher: bool = True) -> bool:
        """Saves in the folder "best" within that of the checkpoints, if it is better than what is there.

        There is one file of that kind, which `resume` does not look at and `keep` does not count. Every rank calls it at
        the same step.

        Args:
          progress: how far the training has come.
          value: what is measured, the same on every rank.
          higher: whether a higher value is better.

        Returns:
          Whether it was, the same on every rank.

        Raises:
          CheckpointError, NonFiniteError: as of `save`.
        """
        self.wait()
        with newest_of_all(self._folder / BEST, self._rank, self._device) as path:
            before = map_file(path).get("measured") if path else None
        # A NaN is better than nothing and no number is.
        better = before is None or (value > before if higher else value < before)
        if better:
            self._write(self._folder / BEST, progress, 1, measured=float(value), replace=True)
            self.wait()
        return better

    def wait(self) -> None:
        """Waits until what was saved in the background is written.

        Raises:
          CheckpointError: it could not be.
        """
        if self._writer is not None:
            self._writer.wait()

    def _write(
        self, folder: Path, progress: Progress, keep: int, measured: float | None = None, replace: bool = False
    ) -> Path | None:
        check_finite_parts(self._parts, progress.step)
        # A collective, and before the parts are read: every rank is at the same step then.
        random_states = gather(random_state(self._device), self._rank, self._device)
        parts, shards = {name: part.state_dict() for name, part in self._parts.items()}, None
        if self._sharded:
            parts, shards = write_shards(folder, progress.step, parts, self._rank)
        if random_states is None:
            return None
        state = {
            "format": CHECKPOINT_FORMAT,
            "torch": str(torch.__version__),
            "progress": dict(progress._asdict()),
            "world_size": self._rank.world_size,
            "threads": torch.get_num_threads(),
            "settings": self._settings,
            "measured": measured,
            "random": [{name: torch.from_numpy(value.copy()) for name, value in own.items()} for own in random_states],
            "parts": parts,
            "shards": shards,
        }
        if self._writer is None:
            return _written(folder, progress.step, state, keep, replace)
        copied = snapshot(state)
        self._writer.start(lambda: _written(folder, progress.step, copied, keep, replace))
        return None

    def resume(self) -> Progress | None:
        """Takes the state of the newest whole checkpoint, on every rank; warns of damaged ones.

        The file is mapped and not read: in memory there is what the parts take, and at most one of them twice.

        Returns:
          How far it had come, or None if there is no checkpoint.

        Raises:
          CheckpointError: it is of another world size, has other parts or other settings, or is of a later format.
            Nothing is loaded then.
        """
        self.wait()
        with newest_of_all(self._folder, self._rank, self._device) as path:
            return self._resume_from(path) if path else None

    def _resume_from(self, path: Path) -> Progress:
        state = map_file(path)
        # All checks before the first part is loaded: a refused resume leaves the training as it was.
        # Of a later format nothing is known but that it is one.
        if type(state.get("format")) is not int or state["format"] == CHECKPOINT_FORMAT:
            require_form(state)
        self._check(state)
        saved = state["random"][self._rank.rank % state["world_size"]]
        require_random_state(saved, self._device)
        own = {name: value.clone() for name, value in saved.items() if isinstance(value, torch.Tensor)}
        progress, threads, saved_with = Progress(**state["progress"]), state["threads"], state["world_size"]
        names, shards = [name for name in self._parts if name in state["parts"]], state.get(SHARDS)
        if shards is not None:
            for name in names:
                _load(name, self._parts[name], read_shards(self._folder, shards, state["parts"], name, self._rank))
        del state
        for name in names if shards is None else ():
            self._load(name, path)
        # Threads decide how sums are cut, and with that their last bits.
        torch.set_num_threads(threads)
        try:
            set_random_state(own, self._device)
        except RuntimeError as error:  # torch's own state is its generator's memory, which it alone can check
            raise CheckpointError(
                f"checkpoint: expected a random state of torch's, got: {str(error)[:LONGEST_REASON]}. Use another file."
            ) from error
        if self._rank.world_size != saved_with:
            # Of a rank that was not there: what another draws next, and its own number.
            seed_all((int(torch.randint(2**31, ())) + self._rank.rank) % 2**32)
        return progress

    def _load(self, name: str, path: Path) -> None:
        part = self._parts[name]
        if isinstance(part, nn.Module):
            # It copies what it is given.
            _load(name, part, map_file(path)["parts"][name])
            return
        # Others may go on with the very tensors, which must not be those of the file.
        piece = path.stat().st_size // 16
        _load(name, part, own_copy(lambda: map_file(path)["parts"][name], piece))

    def _check(self, state: dict[str, Any]) -> None:
        if state.get("format") != CHECKPOINT_FORMAT:
            got = str(state.get("format"))[:20]
            raise CheckpointError(
                f"checkpoint: expected format {CHECKPOINT_FORMAT}, got {got}. Use the version that saved it."
            )
        self.overridden = {}
        ranks = (state["world_size"], self._rank.world_size)
        if ranks[0] != ranks[1]:
            self.overridden["ranks"] = ranks
            if not self._override:
                raise CheckpointError(
                    f"checkpoint: expected {ranks[0]} ranks, as it was saved with, got {ranks[1]}. "
                    f"Start {ranks[0]} ranks, override it knowingly, or begin anew in another folder."
                )
        self._check_settings(state.get("settings") or {})
        ours, theirs = sorted(self._parts), sorted(state["parts"])
        if ours != theirs and not self._override:
            raise CheckpointError(
                f"checkpoint: expected the parts {', '.join(ours)}, got {', '.join(theirs)[:LONGEST_REASON]}. "
                "Resume with the options that it was saved with."
            )
        if self.overridden and self._rank.rank == 0:
            before, now = self._described()
            warnings.warn(f"checkpoint: saved with {before}; goes on with {now}.", stacklevel=4)

    def _check_settings(self, saved: Mapping[str, Setting]) -> None:
        # Names that both have: a setting that a later version of a script adds is no difference.
        common = [(name, saved[name], value) for name, value in self._settings.items() if name in saved]
        others = {name: (before, now) for name, before, now in common if before != now}
        self.overridden.update(others)
        if others and not self._override:
            before, now = self._described()
            raise CheckpointError(
                f"checkpoint: expected {before}, as it was saved with, got {now}. "
                "Resume with the same, override it knowingly, or begin anew in another folder."
            )

    def _described(self) -> tuple[str, str]:
        before = ", ".join(f"{name} {pair[0]}" for name, pair in self.overridden.items())
        now = ", ".join(f"{name} {pair[1]}" for name, pair in self.overridden.items())
        return before, now


def _written(folder: Path, step: int, state: dict[str, Any], keep: int, replace: bool) -> Path:
    path = write_whole(folder, step, state, keep, replace)
    remove_unused(folder)
    return path


def _load(name: str, part: Stateful, state: Any) -> None:
    try:
        part.load_state_dict(state)
    # Each part has its own way to say that a state is not its own; what it has loaded till then stays.
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(
            f"checkpoint: expected the state of this training's {name!r}, got another: {text[0][:LONGEST_REASON]}. "
            "Build the same as when it was saved, or begin anew in another folder."
        ) from error


def _place_of(parts: Iterable[object]) -> torch.device:
    weights = (next(part.parameters(), None) for part in parts if isinstance(part, torch.nn.Module))
    return next((weight.device for weight in weights if weight is not None), torch.device("cpu"))


def _bare(part: Any) -> Any:
    return part.module if isinstance(part, DistributedDataParallel) else part
