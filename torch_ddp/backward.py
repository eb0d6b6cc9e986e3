"""Computes one rank's gradients of a step, micro-batch by micro-batch, and has DDP combine them with the last."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError
from torch_ddp.gradients import GradientReduction
from torch_ddp.reduction import accumulate
from torch_ddp.shard import shard

Loss = Callable[..., Tensor | tuple[Tensor, dict[str, Tensor]]]


class Part(NamedTuple):
    """One micro-batch of a rank; the whole shard where nothing accumulates.

    Fields:
      name: the rank's number, e.g. "1"; "1.0" for its first micro-batch where gradients accumulate.
      inputs: dict of input name to tensor ``[micro-batch, ...]``.
      loss: scalar, with what decays, without loss scale.
      outputs: dict of name to whatever else the loss returned.
      gradients: dict of parameter name to the gradient of this micro-batch alone, without loss scale.
    """

    name: str
    inputs: dict[str, Tensor]
    loss: Tensor
    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


class Backward:
    """Runs forward and backward over the micro-batches of one rank's shard.

    Afterwards the parameters' gradients are combined over the ranks and summed over the micro-batches, and still hold the
    loss scale.

    Args:
      model: wrapped.
      loss: ``loss(model, **inputs)`` returns a scalar, or a scalar and a dict of name to tensor.
      reduction: of this model; keeps the gradients of every backward pass where there are several.
      micro_batches: into how many a shard is cut; None where nothing accumulates.

    Counterpart: tf_towers.build_replicas
    """

    def __init__(
        self, model: DistributedDataParallel, loss: Loss, reduction: GradientReduction, micro_batches: int | None = None
    ) -> None:
        self._model = model
        self._loss = loss
        self._reduction = reduction
        self._micro_batches = micro_batches

    def run(
        self, inputs: dict[str, Tensor], rank: int, decay: Callable[[], Tensor | float], scale: float
    ) -> list[Part]:
        """Returns the parts of a step, in order.

        Args:
          inputs: dict of input name to this rank's shard.
          rank: names the parts.
          decay: makes what is added to every loss.
          scale: what losses are multiplied by.

        Raises:
          TorchDdpError: the shard does not divide into micro-batches, or a loss is no scalar.
        """
        steps = self._micro_batches or 1
        pieces = [shard(inputs, step, steps, "micro-batches") for step in range(steps)]
        parts: list[Part] = []
        for piece in accumulate(self._model, pieces):
            name = str(rank) if self._micro_batches is None else f"{rank}.{len(parts)}"
            parts.append(self._part(name, piece, decay, scale))
        return parts

    def _part(self, name: str, inputs: dict[str, Tensor], decay: Callable[[], Tensor | float], scale: float) -> Part:
        self._reduction.local.clear()
        returned = self._loss(self._model, **inputs)
        loss, outputs = returned if isinstance(returned, tuple) else (returned, {})
        if loss.ndim:
            raise TorchDdpError(f"loss: expected a scalar, got shape {tuple(loss.shape)}. Reduce it, e.g. with mean().")
        loss = loss + decay()
        scaled = loss if scale == 1.0 else loss * scale
        scaled.backward()  # type: ignore[no-untyped-call]
        local = self._reduction.local
        gradients = {key: value if scale == 1.0 else value / scale for key, value in local.items()}
        return Part(name, inputs, loss, dict(outputs), gradients)
