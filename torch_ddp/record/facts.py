"""States what is known of a program in one of its ranks: optimizers, wrappers, samplers, schedules, versions."""

import os
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torch_ddp.facts import TORCH_FLAGS, describe_variables
from torch_ddp.record.sections import Section, bare
from torch_ddp.record.steps import Pass
from torch_ddp.step.optimizer import hyper_parameters

MOST_PARAMETERS = 8  # of parameters in one fact


@dataclass
class Epoch:
    """One iteration of a loader whose sampler counts epochs.

    Attributes:
      sampler: its id.
      number: what the sampler says of the epoch.
      shuffle: whether the order depends on that.
      trained: whether a training pass has taken a batch.
    """

    sampler: int
    number: int
    shuffle: bool
    trained: bool = False


class Observed:
    """What is seen of a program beside its steps."""

    def __init__(self) -> None:
        # Weakly: a wrapper that a program drops takes its hooks of the reduction with it.
        self._made: list[weakref.ref[nn.Module]] = []
        self._descriptions: dict[int, dict[str, Any]] = {}
        self._hooks: dict[int, str] = {}
        self._forwards: Counter[str] = Counter()
        self._passes: Counter[str] = Counter()
        self._epochs: list[Epoch] = []
        self._held = False
        self._schedules: dict[int, dict[str, Any]] = {}
        self._collectives: Counter[str] = Counter()
        self._autocast: set[str] = set()
        self._gradients: set[str] = set()

    def wrapper_made(self, module: nn.Module) -> None:
        """Takes a new wrapper."""
        self._made.append(weakref.ref(module))

    @property
    def wrappers(self) -> list[nn.Module]:
        """The wrappers that are alive."""
        return [each for made in self._made if (each := made()) is not None]

    def hook_registered(self, module: nn.Module, name: str) -> None:
        """Takes the communication hook of a wrapper."""
        self._hooks[id(module)] = name

    def before_forward(self, module: nn.Module, families: Iterable[Any]) -> None:
        """Takes a forward pass with gradients, and which module of those around a model was called."""
        # In its forward a wrapper decides whether the backward pass will reduce.
        self._held = self._in_no_sync()
        around = [each for each in self.wrappers if each is not module and bare(each) is bare(module)]
        passed = [each for each in around if not _is_inside(each, module)]
        # Programs also call `wrapper.forward`, where no hook of the wrapper's is called.
        passed = [each for each in passed if not _is_running(each)]
        # A model that is frozen while another one trains through it shares nothing either way.
        if not passed or any(each.requires_grad for each in module.parameters()):
            self._forwards["past_wrapper" if passed else "through_wrapper"] += 1
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                self._autocast.add(str(torch.get_autocast_dtype(device)).removeprefix("torch."))

    def before_backward(self, current: Pass, families: Iterable[Any]) -> None:
        """Takes a backward pass."""
        # As it was in the forward pass: the block of no_sync may be left by now, and DDP still does not reduce.
        self._passes["no_sync" if self._held else "sync"] += 1
        if not self._held and self._in_no_sync():
            self._passes["no_sync_too_late"] += 1

    def _in_no_sync(self) -> bool:
        wrapped = [each for each in self.wrappers if isinstance(each, DistributedDataParallel)]
        return not all(each.require_backward_grad_sync for each in wrapped)

    def epoch_begins(self, loader: Any) -> "Epoch | None":
        """Takes an iteration of a loader; returns it where the loader's sampler counts epochs."""
        # DistributedSampler shuffles by seed and epoch; others draw their order, and have no epoch to forget.
        sampler = getattr(loader, "sampler", None)
        if not hasattr(sampler, "set_epoch"):
            return None
        epoch = Epoch(id(sampler), int(getattr(sampler, "epoch", 0)), bool(getattr(sampler, "shuffle", False)))
        self._epochs.append(epoch)
        return epoch

    def schedule_steps(self, schedule: Any, optimizer: Optimizer | None) -> None:
        """Takes a step of a learning rate's schedule."""
        known = self._schedules.setdefault(id(schedule), {"name": type(schedule).__name__, "steps": 0})
        known["steps"] += 1

    def collective(self, name: str) -> None:
        """Takes a collective that the program itself calls on a gradient."""
        self._collectives[name] += 1

    def facts(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        # What was a wrapper stays a fact when the program's function that made it has returned.
        # By number and not by id, which another wrapper may get once this one is gone. Anew while it lives: hooks come
        # later.
        alive = ((number, made()) for number, made in enumerate(self._made))
        self._descriptions.update((number, self._described(each)) for number, each in alive if each is not None)
        return {
            "wrappers": list(self._descriptions.values()),
            "forwards": dict(self._forwards),
            "passes": dict(self._passes),
            "samplers": self._samplers(),
            "schedules": list(self._schedules.values()),
            "collectives": dict(self._collectives),
            "autocast": sorted(self._autocast),
        }

    def _samplers(self) -> list[dict[str, Any]]:
        # Epochs of which something was trained on: programs also look into their loaders.
        trained = [each for each in self._epochs if each.trained]
        return [
            {"shuffle": own[0].shuffle, "epochs": [each.number for each in own][:MOST_PARAMETERS]}
            for sampler in dict.fromkeys(each.sampler for each in trained)
            for own in [[each for each in trained if each.sampler == sampler]]
        ]

    def _described(self, module: nn.Module) -> dict[str, Any]:
        described: dict[str, Any] = {
            "name": type(module).__name__,
            "class": f"{type(module).__module__}.{type(module).__qualname__}",
            "model": type(bare(module)).__name__,
        }
        # Read off the wrapper: the constructor's arguments may be positional, and torch may change them, as
        # static_graph.
        for name in ("find_unused_parameters", "broadcast_buffers", "gradient_as_bucket_view", "static_graph"):
            if isinstance(getattr(module, name, None), bool):
                described[name] = getattr(module, name)
        if id(module) in self._hooks:
            described["hook"] = self._hooks[id(module)]
        return described


def _is_inside(wrapper: nn.Module, module: nn.Module) -> bool:
    return any(each is wrapper for each in module.modules())


def _is_running(wrapper: nn.Module) -> bool:
    """Whether the forward of a wrapper is under way."""
    # By the frames' `self`: forward called by name runs no hook that could have counted the call.
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward" and frame.f_locals.get("self") is wrapper:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def facts_of_rank(sections: Sequence[Section], observed: Observed) -> dict[str, Any]:
    """Returns the facts of this rank as a dict of JSON values."""
    return {
        "framework": "torch " + torch.__version__,
        "script": os.path.basename(sys.argv[0]) if sys.argv else "",
        "arguments": sys.argv[1:],
        "backend": dist.get_backend() if dist.is_available() and dist.is_initialized() else "",
        "group": dist.is_available() and dist.is_initialized(),
        "precision": precision_of(sections),
        "sections": {each.name: facts_of_section(each) for each in sections},
        "outside_wrapper": outside_wrapper(sections, observed),
        "seed": torch.initial_seed(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "flags": {name: os.environ[name] for name in TORCH_FLAGS if name in os.environ},
        **observed.facts(),
    }


def facts_of_section(section: Section) -> dict[str, Any]:
    """Returns the facts of one optimizer as a dict of JSON values."""
    trained = section.trained()
    return {
        "optimizer": hyper_parameters(section.optimizer),
        "groups": len(section.optimizer.param_groups),
        "parameters": sorted(trained),
        "of_no_model": len(section.parameters()) - len(trained),
        "not_held": sorted(
            name for name, value in section.named_parameters().items() if name not in trained and value.requires_grad
        ),
        "models": {prefix: type(model).__name__ for prefix, model in section.models.items()},
    }


def outside_wrapper(sections: Sequence[Section], observed: Observed) -> list[str]:
    """Returns the trained parameters that no DistributedDataParallel shares; [] where there is none."""
    shared: set[int] = set()
    wrappers = [each for each in observed.wrappers if isinstance(each, DistributedDataParallel)]
    for wrapper in wrappers:
        ignored = set(getattr(wrapper, "parameters_to_ignore", ()))
        # By name, for DDP has its list of ignored parameters by name.
        shared |= {id(value) for name, value in wrapper.module.named_parameters() if name not in ignored}
    if not wrappers:
        return []
    return sorted(name for each in sections for name, value in each.weights().items() if id(value) not in shared)


def variables_of(sections: Sequence[Section]) -> dict[str, dict[str, Any]]:
    """Returns what `describe_variables` says of all models."""
    models = {prefix: model for section in sections for prefix, model in section.models.items()}
    return {prefix + name: each for prefix, model in models.items() for name, each in describe_variables(model).items()}


def precision_of(sections: Sequence[Section]) -> str:
    """Returns the dtypes of all parameters, e.g. "float32"."""
    dtypes = {
        str(value.dtype).removeprefix("torch.") for each in sections for value in each.named_parameters().values()
    }
    return "+".join(sorted(dtypes))


def rank_and_world_size() -> tuple[int, int]:
    """Returns this rank and the number of ranks; of a program without a process group what its launcher says."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
