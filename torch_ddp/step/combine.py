"""How the ranks' gradients become one, and the way by hand for what DDP's buckets cannot do."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.errors import TorchDdpError


class Combining(NamedTuple):
    """How shards are cut and gradients combined.

    Fields:
      reduce: "mean" or "sum" over the ranks; "prescaled": losses divided by the number of ranks, then the sum; "examples":
        the mean weighted by the ranks' numbers of examples; or another reduction of `GradientReduction`.
      missing: a parameter without a gradient on some ranks: "refuse" leaves it to DDP, which wants them all; "zeros" there;
        "present": the mean over the others; "skip": left out.
      sparse: "dense"; "slices": the rows of all ranks, kept apart and divided by the number of ranks; "slices_unscaled":
        not divided.
      uneven: a batch that does not divide, see `shard_uneven`; "refuse" is `shard`.

    Counterpart: tf_towers.make_plan
    """

    reduce: str = "mean"
    missing: Literal["refuse", "zeros", "present", "skip"] = "refuse"
    sparse: Literal["dense", "slices", "slices_unscaled"] = "dense"
    uneven: Literal["refuse", "drop", "pad", "sizes"] = "refuse"


def combine_by_hand(
    own: Mapping[str, Tensor], parameters: Mapping[str, Tensor], how: Combining, examples: int
) -> dict[str, Tensor]:
    """Returns the combined gradients, the same on every rank; one collective for each parameter: for proofs, not for speed.

    Args:
      own: dict of parameter name to this rank's gradient, dense or sparse COO in axis 0.
      parameters: all that may have one, the same on every rank.
      how: of it count `reduce`, `missing` and `sparse`.
      examples: how many this rank's loss is the mean of.

    Raises:
      TorchDdpError: `reduce` is not one of "mean", "sum", "prescaled" and "examples".

    Counterpart: tf_towers.combine_gradients
    """
    if how.reduce not in ("mean", "sum", "prescaled", "examples"):
        raise TorchDdpError(
            f"gradients: expected reduce to be 'mean', 'sum', 'prescaled' or 'examples', got {how.reduce!r}. Choose one."
        )
    device = next(iter(parameters.values())).device
    weight = float(examples) if how.reduce == "examples" else 1.0
    # One row per rank, float64 [1 + parameters]: its weight, and by parameter 0 for none, 1 for dense, 2 for sparse.
    # Gathered at once, since ranks must agree on what to exchange before they do.
    kinds = [0.0 if name not in own else 2.0 if own[name].is_sparse else 1.0 for name in parameters]
    table = torch.stack(_everyones(torch.tensor([weight, *kinds], dtype=torch.float64, device=device))).cpu()
    combined = {}
    for column, (name, parameter) in enumerate(parameters.items(), start=1):
        counts = _counting(table[:, column] > 0, how.missing)
        if counts is None:
            continue
        # The number of ranks that count, or of their examples: weights are exact integers in float64.
        total = float(table[counts, 0].sum())
        gradient = own.get(name)
        # One dense gradient among sparse ones makes the sum dense, as tf.add_n of a tensor and IndexedSlices is.
        sparse = how.sparse != "dense" and bool((table[counts, column] == 2.0).all())
        if sparse:
            # Rows are kept apart and not summed, so that the division has to come first, on every rank.
            factor = weight / total if how.reduce == "examples" else 1.0
            if how.reduce == "mean" and how.sparse == "slices":
                factor = 1.0 / total
            combined[name] = _all_rows(gradient, parameter, factor)
        else:
            divisor = total if how.reduce in ("mean", "examples") else 1.0
            combined[name] = _summed(gradient, parameter, weight).div_(divisor)
    return combined


def over_micro_batches(parts: Sequence[Mapping[str, Tensor]], mean: bool, sparse: str) -> dict[str, Tensor]:
    """Returns one rank's gradients reduced over its micro-batches, which all have the same."""
    if len(parts) == 1:
        return dict(parts[0])
    reduced = {}
    for name in parts[0]:
        gradients = [part[name] for part in parts]
        divisor = len(gradients) if mean and sparse != "slices_unscaled" else 1
        if sparse != "dense" and all(gradient.is_sparse for gradient in gradients):
            indices = torch.cat([gradient._indices() for gradient in gradients], 1)
            values = torch.cat([gradient._values() for gradient in gradients]) / divisor
            reduced[name] = _coo(indices, values, gradients[0].shape)
        else:
            # [micro-batches, ...]
            stacked = torch.stack([gradient.to_dense() for gradient in gradients])
            reduced[name] = stacked.mean(0) if mean else stacked.sum(0)
    return reduced


def _counting(present: Tensor, missing: str) -> Tensor | None:
    """Returns which ranks count, bool ``[ranks]``, or None where the parameter is left out."""
    if bool(present.all()):
        return present
    if not bool(present.any()) or missing == "skip":
        return None
    return present if missing == "present" else torch.ones_like(present)


def _summed(gradient: Tensor | None, parameter: Tensor, weight: float) -> Tensor:
    # Zero times what an empty shard has for a gradient may be NaN.
    given = gradient is not None and weight > 0.0
    flat = gradient.to_dense() * weight if given and gradient is not None else torch.zeros_like(parameter)
    dist.all_reduce(flat)
    return flat


def _all_rows(gradient: Tensor | None, parameter: Tensor, factor: float) -> Tensor:
    if gradient is None:
        # No rows, in the shape [0, ...] of rows: the collective needs this rank all the same.
        indices, values = torch.zeros(1, 0, dtype=torch.int64), parameter.detach()[:0]
    else:
        indices, values = gradient._indices(), gradient._values() * factor
    counts = [int(count) for count in _everyones(torch.tensor([indices.shape[1]], device=values.device))]
    # All ranks send as many rows as the longest has; what is beyond a rank's own count is cut off again.
    padded = torch.zeros(max(counts), *values.shape[1:], dtype=values.dtype, device=values.device)
    rows = torch.zeros(max(counts), dtype=torch.int64, device=values.device)
    padded[: len(values)], rows[: len(values)] = values, indices[0]
    everyones = [part[:count] for part, count in zip(_everyones(padded), counts, strict=True)]
    places = [part[:count] for part, count in zip(_everyones(rows), counts, strict=True)]
    # In the order of ranks, duplicates included: tf.concat of the towers' IndexedSlices.
    return _coo(torch.cat(places)[None], torch.cat(everyones), parameter.shape)


def _coo(indices: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


def _everyones(tensor: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    # List form: silent on torch 2.11 to 2.15, whose single-tensor names changed in 2.13.
    dist.all_gather(parts, tensor.contiguous())
    return parts
