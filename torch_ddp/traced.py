"""Puts what the ranks did in a step under the names of a trace."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from torch_ddp.backward import Part


def own_of(parts: list[Part]) -> dict[str, np.ndarray]:
    """Returns what one rank recorded, under the names of a trace."""
    own: dict[str, np.ndarray] = {}
    for part in parts:
        own.update((f"feed/{part.name}/{name}", array(value)) for name, value in part.inputs.items())
        for name, value in part.outputs.items():
            own[f"{'act' if value.ndim else 'metric'}/{part.name}/{name}"] = array(value)
        own[f"loss/{part.name}"] = array(part.loss)
        own.update(named_gradients(f"tower_grad/{part.name}", part.gradients))
        own.update(named_gradients(f"tower_clip/{part.name}", part.clipped))
    return own


def named_gradients(prefix: str, gradients: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Returns gradients under the names of a trace; of sparse ones indices and values."""
    named = {}
    for name, value in gradients.items():
        if value.is_sparse:
            named[f"{prefix}/{name}.indices"] = array(value._indices()[0])
            named[f"{prefix}/{name}.values"] = array(value._values())
        else:
            named[f"{prefix}/{name}"] = array(value)
    return named


def merged(towers: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns what all ranks recorded as one step of a trace; metrics, which have no tower there, are averaged."""
    found: dict[str, np.ndarray] = {}
    metrics: dict[str, list[np.ndarray]] = {}
    for own in towers:
        for key, value in own.items():
            quantity, _, rest = key.partition("/")
            if quantity == "metric":
                metrics.setdefault(rest.partition("/")[2], []).append(value)
            else:
                found[key] = value
    for name, values in metrics.items():
        found[f"metric/{name}"] = np.mean(values, axis=0, dtype=values[0].dtype)
    return found


def array(tensor: Tensor) -> np.ndarray:
    """Returns a copy of a tensor as an array on the host, in C order; of bfloat16, which numpy lacks, in float32."""
    held = tensor.detach().float() if tensor.dtype is torch.bfloat16 else tensor.detach()
    return np.array(held.cpu().numpy(), order="C")
