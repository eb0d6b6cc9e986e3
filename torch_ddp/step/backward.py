"""Computes one rank's gradients of a step, micro-batch by micro-batch, and combines them over the ranks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp.errors import TorchDdpError
from torch_ddp.reduction import accumulate
from torch_ddp.shard import Shard, shard
from torch_ddp.step.activation_patching import with_given_outputs
from torch_ddp.step.combine import Combining, combine_by_hand, over_micro_batches
from torch_ddp.step.gradient_exchange import OpenWrapper, Sharing
from torch_ddp.step.gradients import GradientReduction
from torch_ddp.step.optimizer import Part as OptimizerPart
from torch_ddp.step.update import Update
from torch_ddp.step.user_calls import call_loss, loss_and_outputs, require_gradient

Loss = Callable[..., Tensor | tuple[Tensor, dict[str, Tensor]]]


class Part(NamedTuple):
    """One micro-batch of a rank; the whole shard where nothing accumulates.

    Fields:
      name: the rank's number, e.g. "1"; "1.0" for its first micro-batch where gradients accumulate.
      inputs: dict of input name to tensor ``[micro-batch, ...]``.
      loss: scalar, with what decays, without loss scale.
      outputs: dict of name to whatever else the loss returned.
      gradients: dict of parameter name to the gradient of this micro-batch alone, without loss scale.
      clipped: the same, clipped; empty where ranks do not clip their own.
    """

    name: str
    inputs: dict[str, Tensor]
    loss: Tensor
    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]
    clipped: Mapping[str, Tensor] = MappingProxyType({})


class Backward:
    """Runs forward and backward over the micro-batches of one rank's shard.

    DDP combines the gradients with the last backward pass, but for what its buckets cannot do: then every pass stays on its
    rank, and those gradients that DDP would have shared are combined by hand. A wrapper that the port brings combines them
    always.

    Args:
      model: wrapped.
      loss: ``loss(model, **inputs)`` returns a scalar, or a scalar and a dict of name to tensor.
      combining: how gradients become one.
      update: what happens around the optimizer's step.
      decay: what is added to a rank's loss, by rank and world size; by default `update.decay`.
      parts: the optimizers beside the first, of which the losses of their own count.
      own_wrapper: whether the port itself has wrapped the model, and so combines.

    Attributes:
      reduction: of DDP's buckets.
      given: dict of a part's name to outputs that it is to have whatever the port makes of them.
      cut: whether no gradient passes these.
      zeros: whether a parameter that the loss does not reach has a gradient of zeros, in place of none.
      by_hand: whether the gradients are combined by hand; they are then without loss scale and averaged over micro-batches.
      own_wrapper: as given.

    Counterpart: tf_towers.build_replicas
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        loss: Loss,
        combining: Combining,
        update: Update,
        decay: Callable[[int, int], Tensor | float] | None = None,
        parts: Sequence[OptimizerPart] = (),
        own_wrapper: bool = False,
    ) -> None:
        self._own_losses = {name: part.loss for part in parts if part.loss is not None for name in part.names}
        # DDP waits for a gradient of every parameter. Where ranks may lack some, or rows of sparse ones are kept
        # apart, or a loss goes round it, they are combined by hand.
        kept = combining.missing != "refuse" or _has_sparse_gradients(model.module) or isinstance(model, OpenWrapper)
        self.by_hand = not own_wrapper and (update.clips_ranks or kept or bool(self._own_losses))
        self.own_wrapper = own_wrapper
        self._model = model
        self._loss = loss
        self._combining = combining
        self._update = update
        self._decay = decay or update.decay
        self._scale = 1.0
        self._parameters = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
        # "prescaled" divides each loss by the world size, so that what is left to do is a sum.
        reduce: Any = "sum" if combining.reduce == "prescaled" else combining.reduce
        hook: Any = "mean" if own_wrapper else reduce
        # no_sync adds micro-batches up in .grad, where they cannot be told apart; a hook on the tensor sees each
        # before.
        several = update.micro_batches is not None and not self.by_hand
        self.reduction = GradientReduction(model, hook, every_backward=several, attach=not own_wrapper)
        self.reduction.keep = True
        self._sharing = Sharing(model) if self.by_hand else None
        self.given: Mapping[str, Mapping[str, Tensor]] = {}
        self.cut = False
        self.zeros = False

    def run(self, piece: Shard, rank: int, scale: float | None = None) -> list[Part]:
        """Returns the parts of a step, in order; leaves the combined gradients in the parameters.

        Args:
          piece: this rank's shard.
          rank: which one.
          scale: what losses are multiplied by; by default the update's loss scale.

        Raises:
          TorchDdpError: the shard does not divide into micro-batches, or a loss is no scalar.
        """
        self._scale = self._update.scale.value if scale is None else scale
        steps = self._update.micro_batches or 1
        pieces = (
            [shard(piece.inputs, step, steps, "micro-batches") for step in range(steps)]
            if steps > 1
            else [piece.inputs]
        )
        parts: list[Part] = []
        with self.reduction.weighing(piece.examples):
            for inputs in self._alone(pieces) if self.by_hand else accumulate(self._model, pieces):
                name = str(rank) if self._update.micro_batches is None else f"{rank}.{len(parts)}"
                parts.append(self._part(name, inputs, rank))
        if self.by_hand:
            self._combine([part.clipped or part.gradients for part in parts], piece.examples)
        for parameter in self._parameters.values() if self.zeros else ():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return parts

    def _alone(self, pieces: Iterable[dict[str, Tensor]]) -> Iterable[dict[str, Tensor]]:
        assert self._sharing is not None
        self._sharing.armed = self._sharing.called = False
        for piece in pieces:
            # Emptied before each micro-batch: by hand every one is kept by itself, and they are reduced in
            # `_combine`.
            for parameter in self._parameters.values():
                parameter.grad = None
            with self._sharing.disarmed():
                yield piece

    def _part(self, name: str, inputs: dict[str, Tensor], rank: int) -> Part:
        # What is there belongs to the micro-batch before; parameters it does not reach must have nothing.
        self.reduction.local.clear()
        returned = self._returned(self.given.get(name, {}), inputs)
        loss, outputs = loss_and_outputs(returned)
        scale = self._scale
        loss = _wide(loss) + self._decay(rank, dist.get_world_size())
        if self._own_losses:
            local = self._of_own_losses(loss, outputs)
        else:
            local = self._of_one_loss(loss)
        # Each in float32 or wider, on this rank, without scale: comparable with a tower's own gradient.
        gradients = {key: value if scale == 1.0 else _wide(value) / scale for key, value in local.items()}
        # What a port clips before it shares it, a hook of its wrapper does.
        clipped = {} if self.own_wrapper else self._update.clip_own(gradients)
        return Part(name, inputs, loss, outputs, gradients, clipped)

    def _of_one_loss(self, loss: Tensor) -> dict[str, Tensor]:
        # DDP has nothing to share where no gradient goes back at all: then no bucket waits for one either.
        if loss.requires_grad or not self.zeros:
            require_gradient(loss)
            self._scaled(loss).backward()  # type: ignore[no-untyped-call]
        unreached = [name for name in self._parameters if name not in self.reduction.local] if self.zeros else []
        return {**self.reduction.local, **{name: torch.zeros_like(self._parameters[name]) for name in unreached}}

    def _scaled(self, loss: Tensor) -> Tensor:
        prescaled = self._combining.reduce == "prescaled" and not self.own_wrapper
        scaled = loss / dist.get_world_size() if prescaled else loss
        return scaled if self._scale == 1.0 else scaled * self._scale

    def _of_own_losses(self, loss: Tensor, outputs: dict[str, Tensor]) -> dict[str, Tensor]:
        groups: dict[str | None, list[str]] = {}
        for name in self._parameters:
            groups.setdefault(self._own_losses.get(name), []).append(name)
        found: dict[str, Tensor] = {}
        for own, names in groups.items():
            if own is not None and (own not in outputs or outputs[own].ndim):
                scalars = ", ".join(key for key, value in outputs.items() if not value.ndim) or "none"
                raise TorchDdpError(
                    f"optimizers: expected the loss {own!r} among the scalar outputs of loss, got {scalars}. "
                    f"Return it: (loss, {{{own!r}: tensor}})."
                )
            minimised = self._scaled(loss if own is None else outputs[own])
            wanted = [self._parameters[name] for name in names]
            # retain_graph: the losses share layers. By parameters and not .backward(): a loss leaves what is not its
            # own alone.
            gradients = torch.autograd.grad(minimised, wanted, retain_graph=True, allow_unused=True)
            pairs = zip(names, gradients, strict=True)
            found.update((name, value.detach()) for name, value in pairs if value is not None)
        if self.own_wrapper:
            # DDP shares what arrives at a parameter, and a parameter can be where a backward pass begins.
            reached = [name for name in self._parameters if name in found]
            torch.autograd.backward([self._parameters[name] for name in reached], [found[name] for name in reached])
        return {name: found[name] for name in self._parameters if name in found}

    def _returned(self, given: Mapping[str, Tensor], inputs: dict[str, Tensor]) -> Any:
        if given:
            return with_given_outputs(self._loss, self._model, inputs, given, self.cut)
        return call_loss(self._loss, self._model, inputs)

    @torch.no_grad()
    def _combine(self, parts: Sequence[Mapping[str, Tensor]], examples: int) -> None:
        how = self._combining
        assert self._sharing is not None
        own = over_micro_batches(parts, self._update.averages_micro_batches, how.sparse)
        # A collective, also on a rank that has no gradient: all ranks have to ask in the same order.
        shared = {name: self._parameters[name] for name in self._sharing.names()}
        found = {name: value for name, value in own.items() if name not in shared}
        if shared:
            found.update(combine_by_hand(own, shared, how, examples))
        for name, parameter in self._parameters.items():
            parameter.grad = found.get(name)


def _has_sparse_gradients(model: nn.Module) -> bool:
    return any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) and bool(layer.sparse) for layer in model.modules())


def _wide(value: Tensor) -> Tensor:
    # What is scaled so as not to vanish in half precision must not be unscaled in it, nor a loss scaled in it.
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
