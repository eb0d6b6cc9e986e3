"""Puts what the ranks did in a step under the names of a trace."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from parity.trace import ROW_INDICES, ROW_VALUES, Quantity, parse_key, quantity_of, trace_name
from torch_ddp.step.backward import Part
from torch_ddp.weights import named_statistics

MOST_OWN_VALUES = 4096  # elements of a buffer or constant that are told one by one


def own_of(parts: list[Part]) -> dict[str, np.ndarray]:
    """Returns what one rank recorded, under the names of a trace."""
    own: dict[str, np.ndarray] = {}
    for part in parts:
        own.update((trace_name("feed", name, tower=part.name), array(value)) for name, value in part.inputs.items())
        for name, value in part.outputs.items():
            # A scalar output is one number per tower, which programs average over towers: a metric. Others are
            # compared tower by tower.
            own[trace_name("act" if value.ndim else "metric", name, tower=part.name)] = array(value)
        own[trace_name("loss", tower=part.name)] = array(part.loss)
        own.update(named_gradients("tower_grad", part.gradients, part.name))
        own.update(named_gradients("tower_clip", part.clipped, part.name))
    return own


def named_gradients(quantity: Quantity, gradients: Mapping[str, Tensor], tower: str = "") -> dict[str, np.ndarray]:
    """Returns gradients under the names of a trace; of sparse ones indices and values."""
    named = {}
    for name, value in gradients.items():
        text = trace_name(quantity, name, tower=tower)
        if value.is_sparse:
            # Rows as they were looked up, duplicates among them: IndexedSlices of TensorFlow are recorded so too.
            # [rows], [rows, ...].
            named[text + ROW_INDICES] = array(value._indices()[0])
            named[text + ROW_VALUES] = array(value._values())
        else:
            named[text] = array(value)
    return named


def merged(towers: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns what all ranks recorded as one step of a trace; metrics, which have no tower there, are averaged."""
    found: dict[str, np.ndarray] = {}
    metrics: dict[str, list[np.ndarray]] = {}
    for own in towers:
        for key, value in own.items():
            if quantity_of(key) == "metric":
                metrics.setdefault(parse_key(key).name.partition("/")[2], []).append(value)
            else:
                found[key] = value
    for name, values in metrics.items():
        # In its own dtype: a mean of float32 numbers is float32 in the graph as well.
        found[trace_name("metric", name)] = np.mean(values, axis=0, dtype=values[0].dtype)
    return found


def own_values(model: nn.Module) -> dict[str, np.ndarray]:
    """Returns copies of a model's statistics and weights under the names of a trace."""
    own = {trace_name("stat", name): array(value) for name, value in named_statistics(model).items()}
    own.update((trace_name("var", name), array(value)) for name, value in model.named_parameters())
    return own


def told_values(model: nn.Module, own: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Returns the elements of a model's small buffers and frozen parameters, which are told one by one.

    Args:
      model: what trains of it is left out, for that starts where the reference's does.
      own: as of `own_values`.
    """
    trained = {trace_name("var", name) for name, value in model.named_parameters() if value.requires_grad}
    return {
        name: value.reshape(-1).tolist()
        for name, value in own.items()
        if name not in trained and value.size <= MOST_OWN_VALUES
    }


def array(tensor: Tensor) -> np.ndarray:
    """Returns a copy of a tensor as an array on the host, in C order; of bfloat16, which numpy lacks, in float32."""
    held = tensor.detach().float() if tensor.dtype is torch.bfloat16 else tensor.detach()
    # A copy: .numpy() shares the memory of a tensor that the next step changes in place.
    return np.array(held.cpu().numpy(), order="C")
