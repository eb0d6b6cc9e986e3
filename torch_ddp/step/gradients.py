"""Combines the ranks' gradients, by default as DDP does, and keeps each rank's own."""

import contextlib
import functools
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError
from torch_ddp.reduction import HOOKS, ExampleCounts, Reduction, weighted_mean_hook


class GradientReduction:
    """Reduces DDP's buckets by one of the hooks of `torch_ddp.reduction`, and keeps each rank's own gradients if asked to.

    DDP itself can only average. The default averages exactly as DDP does by itself (scale, then sum), so that it leaves DDP
    to it, at no cost, until something is to be kept.

    Args:
      model: the wrapped model; the hook is attached to it, which DDP allows once.
      reduce: "mean" or "sum" over the ranks, "ordered_mean" or "ordered_sum" for the same bits every time; "examples" for a
        mean weighted by examples, whose backward passes lie inside `weighing`.
      every_backward: whether to keep the gradients of every backward pass, those under `no_sync` included, each for itself;
        what DDP reduces is what has accumulated by then.
      attach: whether there is a hook at all; False leaves the wrapper to reduce as it does by itself.

    Attributes:
      keep: whether to keep the gradients of the next backward pass in `local` and `reduced`.
      local: dict of parameter name to this rank's own gradient, before the all-reduce.
      reduced: the same after it, as DDP hands it to the parameter.

    Raises:
      TorchDdpError: `reduce` is none of these.

    Counterpart: tf_towers.combine_gradients
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        reduce: Reduction | Literal["examples"] = "mean",
        every_backward: bool = False,
        attach: bool = True,
    ) -> None:
        if reduce not in (*HOOKS, "examples"):
            known = ", ".join(repr(name) for name in (*HOOKS, "examples"))
            raise TorchDdpError(f"gradients: expected reduce to be one of {known}, got {reduce!r}. Choose one.")
        self.reduce = reduce
        self._counts = ExampleCounts() if reduce == "examples" else None
        self._keeps = False
        self._unattached: DistributedDataParallel | None = model
        self._reduces = attach
        self.local: dict[str, Tensor] = {}
        self.reduced: dict[str, Tensor] = {}
        self._names = {id(parameter): name for name, parameter in model.module.named_parameters()}
        self._every = every_backward
        if every_backward:
            for parameter in model.module.parameters():
                if parameter.requires_grad:
                    # On the tensor: runs in every backward pass, also under no_sync, with what this pass alone adds.
                    parameter.register_hook(functools.partial(self._keep, self._names[id(parameter)]))
        if reduce != "mean":
            self._attach()

    @property
    def keep(self) -> bool:
        """Whether the gradients of the next backward pass are kept."""
        return self._keeps

    @keep.setter
    def keep(self, keep: bool) -> None:
        self._keeps = keep
        if keep:
            self._attach()

    def _attach(self) -> None:
        # DDP keeps the hook where Python's garbage collector does not look: held from there, a model would never go.
        model, self._unattached = self._unattached, None
        if model is None:
            return
        if not self._every:
            for parameter in model.module.parameters():
                if parameter.requires_grad:
                    # After accumulation, with what DDP takes into its bucket.
                    parameter.register_post_accumulate_grad_hook(self._keep_accumulated)
        if self._reduces:
            # DDP takes one hook in a model's life; with one it leaves the division by the world size to it.
            model.register_comm_hook(None, self._hook)

    def weighing(self, examples: int) -> contextlib.AbstractContextManager[None]:
        """Weighs the backward passes inside by this rank's number of examples, where gradients are weighted at all."""
        return self._counts.of(examples) if self._counts else contextlib.nullcontext()

    def _keep(self, name: str, gradient: Tensor) -> None:
        if self.keep:
            self.local[name] = gradient.detach().clone()

    def _keep_accumulated(self, parameter: Tensor) -> None:
        # Before DDP takes it, and also where DDP never does: in the order of hooks it is the last before the all-reduce.
        if parameter.grad is not None:
            self._keep(self._names[id(parameter)], parameter.grad)

    def _hook(self, state: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
        if not self.keep:
            return self._reduce(bucket)
        # Shapes are read before the all-reduce begins; the flat result, [elements], is cut into them after it.
        pairs = zip(bucket.parameters(), bucket.gradients(), strict=True)
        named = {self._names[id(parameter)]: _laid_out(gradient, parameter) for parameter, gradient in pairs}

        def kept(done: torch.futures.Future[Tensor]) -> Tensor:
            # A copy: DDP uses the bucket again in the next backward pass.
            flat = done.value()
            pieces = torch.split(flat.detach().clone(), [gradient.numel() for gradient in named.values()])
            for (name, gradient), piece in zip(named.items(), pieces, strict=True):
                self.reduced[name] = piece.as_strided(gradient.shape, gradient.stride(), piece.storage_offset())
            return flat

        return self._reduce(bucket).then(kept)

    def _reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
        if self._counts is not None:
            return weighted_mean_hook(self._counts, bucket)
        return HOOKS[cast("Reduction", self.reduce)](None, bucket)


def _laid_out(gradient: Tensor, parameter: Tensor) -> Tensor:
    # A bucket holds a gradient in the strides of its parameter, channels last for one, where that has no holes; but
    # GradBucket.gradients() views it as contiguous. Source: initialize_bucket_views in torch's reducer.cpp.
    whole = torch.empty_like(parameter, device="meta").stride() == parameter.stride()
    return gradient.as_strided(parameter.shape, parameter.stride(), gradient.storage_offset()) if whole else gradient


def unreduced(model: nn.Module) -> list[str]:
    """Returns the parameters that the last backward pass gave no gradient."""
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None]
