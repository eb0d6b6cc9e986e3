"""States what is known of a program in one of its ranks: optimizers, wrappers, devices, versions."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from torch_ddp.facts import TORCH_FLAGS, describe_variables
from torch_ddp.record.sections import Section
from torch_ddp.step.optimizer import hyper_parameters


def facts_of_rank(sections: Sequence[Section], wrappers: Mapping[str, str]) -> dict[str, Any]:
    """Returns the facts of this rank as a dict of JSON values."""
    return {
        "framework": "torch " + torch.__version__,
        "script": os.path.basename(sys.argv[0]) if sys.argv else "",
        "arguments": sys.argv[1:],
        "backend": dist.get_backend() if dist.is_available() and dist.is_initialized() else "",
        "wrappers": dict(wrappers),
        "precision": precision_of(sections),
        "sections": {each.name: facts_of_section(each) for each in sections},
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "flags": {name: os.environ[name] for name in TORCH_FLAGS if name in os.environ},
    }


def facts_of_section(section: Section) -> dict[str, Any]:
    """Returns the facts of one optimizer as a dict of JSON values."""
    return {
        "optimizer": hyper_parameters(section.optimizer),
        "groups": len(section.optimizer.param_groups),
        "parameters": sorted(section.trained()),
        "models": {prefix: type(model).__name__ for prefix, model in section.models.items()},
    }


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
