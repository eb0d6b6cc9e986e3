"""Keeps resumable training state: weights, masters, optimizer, random state, progress."""

import random
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torch_ddp.checkpoint.files import LONGEST_REASON, newest_whole, read_whole, write_whole
from torch_ddp.checkpoint.finite import check_finite_parts
from torch_ddp.checkpoint.form import require_form, require_random_state
from torch_ddp.errors import CheckpointError
from torch_ddp.gather import gather
from torch_ddp.process_group import Rank


class MasterWeights:
    """Lets a checkpoint hold the weights that are an optimizer's own and not the model's.

    An optimizer's `state_dict` does not hold its parameters. Where they are the model's that is right; float32 masters of
    a half-precision model would be lost, and training would go on from weights rounded to half precision.

    Args:
      optimizer: whose parameters to look at.
      model: parameters that are its own are left out.
    """

    def __init__(self, optimizer: Optimizer, model: nn.Module) -> None:
        self._optimizer = optimizer
        self._model = model

    def state_dict(self) -> dict[str, Tensor]:
        """Returns dict of ``"group.index"`` to master weight, empty where the optimizer updates the model itself."""
        return {name: master.detach().clone() for name, master in self._masters().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies masters back.

        Raises:
          CheckpointError: there are others in `state` than the optimizer has, or of other shapes.
        """
        masters = self._masters()
        ours = {name: list(master.shape) for name, master in masters.items()}
        theirs = {name: list(value.shape) for name, value in state.items()}
        if ours != theirs:
            raise CheckpointError(
                f"checkpoint: expected master weights {ours}, got {theirs}. Use the precision that it was saved with."
            )
        with torch.no_grad():
            for name, master in masters.items():
                master.copy_(state[name])

    def _masters(self) -> dict[str, Tensor]:
        # By identity: a master has the values of a weight, and is no weight.
        own = {id(parameter) for parameter in self._model.parameters()}
        return {
            f"{number}.{index}": parameter
            for number, group in enumerate(self._optimizer.param_groups)
            for index, parameter in enumerate(group["params"])
            if id(parameter) not in own
        }


def seed_all(seed: int) -> None:
    """Seeds the global generators of this process: torch's, every GPU's, Python's and numpy's.

    Args:
      seed: 0 to ``2**32 - 1``. Give each rank its own, or all draw the same dropout masks.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def random_state(device: torch.device) -> dict[str, np.ndarray]:
    """Returns where this process's global generators stand, as arrays of integers and float64.

    Generators that were made by hand are not among them; give those to the checkpoint as parts of their own.

    Args:
      device: if a GPU, its generator is included.
    """
    # Python: version, 625 numbers, and the second of a pair of normal draws where one is kept. numpy: 624 keys, a
    # position, and likewise. As arrays, so that loading runs no code.
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state = {
        "torch": torch.get_rng_state().numpy(),
        "python": np.array([version, *words], np.int64),
        "python_gauss": np.array([] if gauss is None else [gauss], np.float64),
        "numpy": np.array([*keys, position, has_gauss], np.int64),
        "numpy_gauss": np.array([cached], np.float64),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device).numpy()
    return state


def set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Puts this process's global generators where `random_state` found them.

    Args:
      state: dict of name to array or tensor.
      device: if a GPU, its generator is set too.
    """
    arrays = {name: np.asarray(value) for name, value in state.items()}
    torch.set_rng_state(torch.from_numpy(arrays["torch"].copy()))
    version, *words = (int(word) for word in arrays["python"])
    gauss = [float(value) for value in arrays["python_gauss"]]
    random.setstate((version, tuple(words), gauss[0] if gauss else None))
    *keys, position, has_gauss = (int(word) for word in arrays["numpy"])
    cached = float(arrays["numpy_gauss"][0])
    np.random.set_state(("MT19937", np.array(keys, np.uint32), position, has_gauss, cached))
    if device.type == "cuda":
        torch.cuda.set_rng_state(torch.from_numpy(arrays["cuda"].copy()), device)


Setting = str | int | float | bool | None
CHECKPOINT_FORMAT = 1
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
      settings: dict of name to what the training was started with and its parts do not hold: batch size, seed, learning
        rate. A resume with others is refused.
      override: whether to resume in spite of other settings, with a warning; `overridden` then names them.
    """

    def __init__(
        self,
        folder: str | Path,
        rank: Rank,
        parts: Mapping[str, Any],
        device: torch.device = CPU,
        keep: int = 2,
        settings: Mapping[str, Setting] | None = None,
        override: bool = False,
    ) -> None:
        self._folder = Path(folder)
        self._rank = rank
        self._parts: dict[str, Stateful] = {name: _bare(part) for name, part in parts.items()}
        self._device = device
        self._keep = keep
        self._settings = dict(settings or {})
        self._override = override
        #: Dict of name to (saved, given) of the settings that the last `resume` passed over.
        self.overridden: dict[str, tuple[Setting, Setting]] = {}

    def save(self, progress: Progress) -> Path | None:
        """Saves; every rank calls it at the same step.

        Returns:
          On rank 0 the file, None on the others.

        Raises:
          CheckpointError: a part holds something that could not be loaded again.
          NonFiniteError: a weight, moving statistic or slot is not finite: the checkpoints that are there stay.
        """
        check_finite_parts(self._parts, progress.step)
        # A collective, and before the parts are read: every rank is at the same step then.
        random_states = gather(random_state(self._device), self._rank, self._device)
        if random_states is None:
            return None
        state = {
            "format": CHECKPOINT_FORMAT,
            "torch": str(torch.__version__),
            "progress": dict(progress._asdict()),
            "world_size": self._rank.world_size,
            "threads": torch.get_num_threads(),
            "settings": self._settings,
            "random": [{name: torch.from_numpy(value.copy()) for name, value in own.items()} for own in random_states],
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        return write_whole(self._folder, progress.step, state, self._keep)

    def resume(self) -> Progress | None:
        """Takes the state of the newest whole checkpoint, on every rank; warns of damaged ones.

        Returns:
          How far it had come, or None if there is no checkpoint.

        Raises:
          CheckpointError: it is of another world size, has other parts or other settings, or is of a later format.
            Nothing is loaded then.
        """
        data = self._newest()
        if not data:
            return None
        state = read_whole(data)
        # All checks before the first part is loaded: a refused resume leaves the training as it was.
        # Of a later format nothing is known but that it is one.
        if type(state.get("format")) is not int or state["format"] == CHECKPOINT_FORMAT:
            require_form(state)
        self._check(state)
        own = state["random"][self._rank.rank]
        require_random_state(own, self._device)
        for name, part in self._parts.items():
            _load(name, part, state["parts"][name])
        # Threads decide how sums are cut, and with that their last bits.
        torch.set_num_threads(state["threads"])
        try:
            set_random_state(own, self._device)
        except RuntimeError as error:  # torch's own state is its generator's memory, which it alone can check
            raise CheckpointError(
                f"checkpoint: expected a random state of torch's, got: {str(error)[:LONGEST_REASON]}. Use another file."
            ) from error
        return Progress(**state["progress"])

    def _newest(self) -> bytes:
        # Rank 0 may have been on another machine when it saved: torchrun numbers anew with each restart.
        found = newest_whole(self._folder) if self._rank.local_rank == 0 else None
        if self._rank.world_size == 1:
            return found.data if found else b""
        # int64 [2]: newest step and its bytes, -1 and 0 for none.
        own = torch.tensor([found.step, len(found.data)] if found else [-1, 0], device=self._device)
        everyone = [torch.zeros_like(own) for _ in range(self._rank.world_size)]
        dist.all_gather(everyone, own)
        steps = [int(other[0]) for other in everyone]
        # The lowest rank among those that have the newest: all ranks find the same.
        source = steps.index(max(steps))
        size = int(everyone[source][1])
        content = torch.zeros(size, dtype=torch.uint8, device=self._device)
        if found and self._rank.rank == source:
            content.copy_(torch.frombuffer(bytearray(found.data), dtype=torch.uint8))
        if size:
            dist.broadcast(content, src=source)
        return content.cpu().numpy().tobytes()

    def _check(self, state: dict[str, Any]) -> None:
        if state.get("format") != CHECKPOINT_FORMAT:
            got = str(state.get("format"))[:20]
            raise CheckpointError(
                f"checkpoint: expected format {CHECKPOINT_FORMAT}, got {got}. Use the version that saved it."
            )
        if state["world_size"] != self._rank.world_size:
            raise CheckpointError(
                f"checkpoint: expected {state['world_size']} ranks, as it was saved with, got {self._rank.world_size}. "
                f"Start {state['world_size']} ranks, or begin anew in another folder."
            )
        ours, theirs = sorted(self._parts), sorted(state["parts"])
        if ours != theirs:
            raise CheckpointError(
                f"checkpoint: expected the parts {', '.join(ours)}, got {', '.join(theirs)[:LONGEST_REASON]}. "
                "Resume with the options that it was saved with."
            )
        self._check_settings(state.get("settings") or {})

    def _check_settings(self, saved: Mapping[str, Setting]) -> None:
        # Names that both have: a setting that a later version of a script adds is no difference.
        common = [(name, saved[name], value) for name, value in self._settings.items() if name in saved]
        self.overridden = {name: (before, now) for name, before, now in common if before != now}
        if not self.overridden:
            return
        before = ", ".join(f"{name} {pair[0]}" for name, pair in self.overridden.items())
        now = ", ".join(f"{name} {pair[1]}" for name, pair in self.overridden.items())
        if not self._override:
            raise CheckpointError(
                f"checkpoint: expected {before}, as it was saved with, got {now}. "
                "Resume with the same, override it knowingly, or begin anew in another folder."
            )
        if self._rank.rank == 0:
            warnings.warn(f"checkpoint: saved with {before}; goes on with {now}.", stacklevel=3)


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


def _bare(part: Any) -> Any:
    return part.module if isinstance(part, DistributedDataParallel) else part
