"""States the facts of a training: everything that may differ from another run on purpose."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from torch_ddp.process_group import Rank
from torch_ddp.step.optimizer import hyper_parameters, named_slots
from torch_ddp.step.stepper import Stepper
from torch_ddp.weights import named_statistics, unregistered

MOST_UNREGISTERED = 8  # names of parameters that no module has registered
TORCH_FLAGS = ("OMP_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE")
# Where classes say how their weights are laid out; those of `like_tf` have the layout of torch's class of that name.
MODULES_OF_LAYERS = ("torch.nn.modules", "torch_ddp.like_tf.spatial.conv", "torch_ddp.like_tf.normalization.batch_norm")


def make_repeatable(threads: int = 1) -> None:
    """Turns off what makes two runs of the same program differ, and what lowers precision unasked.

    One thread: two change batch norm and its gradients by 2e-6. TensorFloat-32 rounds inputs to 10 bits.
    """
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False


def facts(stepper: Stepper, rank: Rank, reduce: str, backend: str, precision: str) -> dict[str, Any]:
    """Returns the facts as a dict of JSON values.

    Counterpart: tf_towers.facts
    """
    hidden = sorted(unregistered(stepper.model))
    return {
        **({"unregistered": hidden[:MOST_UNREGISTERED]} if hidden else {}),
        "side": "torch_ddp",
        "framework": "torch " + torch.__version__,
        "ranks": rank.world_size,
        "combine": reduce,
        "combination": stepper.combination,
        "precision": precision,
        "optimizer": hyper_parameters(stepper.optimizer),
        "slots": sorted({slot for slot, _ in named_slots(stepper.optimizer, stepper.model)} | stepper.slots_of_parts()),
        "backend": backend,
        "batch_norm_updates": "first" if named_statistics(stepper.model) else "none",
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "mkldnn": torch.backends.mkldnn.enabled,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "channels_last": any(map(_is_channels_last, stepper.model.parameters())),
        "flags": {name: os.environ[name] for name in TORCH_FLAGS if name in os.environ},
        "device": str(next(stepper.model.parameters()).device),
    }


def _is_channels_last(weight: Tensor) -> bool:
    # A kernel of 1x1, or of one channel, is contiguous either way, and says nothing.
    return weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()


def describe_variables(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Returns dict of ``state_dict`` name to `shape`, `dtype`, `kind`, `placement`, and `use`: the class of its module.

    Counterpart: tf_towers.describe_variables
    """
    modules = dict(model.named_modules())
    described = {}
    groups: dict[str, Mapping[str, Tensor]] = {
        "weight": dict(model.named_parameters()),
        "statistic": named_statistics(model),
    }
    for kind, group in groups.items():
        for name, value in group.items():
            described[name] = {
                "shape": list(value.shape),
                "dtype": str(value.dtype).removeprefix("torch."),
                "kind": kind,
                "placement": str(value.device),
                "use": _torch_class(modules[name.rpartition(".")[0]]),
            }
    return described


def _torch_class(module: nn.Module) -> str:
    # A user's subclass of a known layer keeps that layer's layout; any other class says nothing about layout.
    for kind in type(module).__mro__:
        if kind.__module__.startswith(MODULES_OF_LAYERS) and kind is not nn.Module:
            return kind.__name__
    return ""
