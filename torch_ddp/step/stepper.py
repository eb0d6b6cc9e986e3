"""Runs one training step under DistributedDataParallel, everything of it under the names of a trace."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from parity.trace import (
    GLOBAL_STEP,
    ROW_INDICES,
    ROW_VALUES,
    SKIPPED,
    ForwardOp,
    Quantity,
    parse_key,
    quantity_of,
    section_of,
    select,
    trace_name,
)
from torch_ddp.errors import TorchDdpError
from torch_ddp.gather import gather
from torch_ddp.process_group import Rank
from torch_ddp.shard import Shard, shard, shard_uneven
from torch_ddp.step.backward import Backward, Loss, Part
from torch_ddp.step.combine import Combining
from torch_ddp.step.forward_watch import ForwardWatch
from torch_ddp.step.inference import evaluate_whole
from torch_ddp.step.mixed_precision import Mixed, in_float32
from torch_ddp.step.optimizer import Part as OptimizerPart
from torch_ddp.step.optimizer import named_counters, named_slots, set_counters
from torch_ddp.step.update import Update
from torch_ddp.weights import load_weights, named_statistics

# Puts what the ranks did in a step under the names of a trace.


def own_of(parts: list[Part]) -> dict[str, np.ndarray]:
    """Returns what one rank recorded, under the names of a trace."""
    own: dict[str, np.ndarray] = {}
    for part in parts:
        own.update((trace_name("feed", name, tower=part.name), array(value)) for name, value in part.inputs.items())
        for name, value in part.outputs.items():
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
        found[trace_name("metric", name)] = np.mean(values, axis=0, dtype=values[0].dtype)
    return found


def array(tensor: Tensor) -> np.ndarray:
    """Returns a copy of a tensor as an array on the host, in C order; of bfloat16, which numpy lacks, in float32."""
    held = tensor.detach().float() if tensor.dtype is torch.bfloat16 else tensor.detach()
    return np.array(held.cpu().numpy(), order="C")


# Runs single training steps under DDP and returns everything about them as named arrays.


class Stepper:
    """Trains a model step by step under DDP, with its whole state in the caller's hands.

    Args:
      model: in the dtype and on the device that it trains in.
      loss: ``loss(model, **inputs)`` returns a scalar, or a scalar and a dict of name to tensor.
      optimizer: over the model's parameters.
      rank: this process; the process group is up.
      reduce: "mean" or "sum" over the ranks' gradients, or all of `Combining`.
      update: what happens around the optimizer's step; by default nothing. In mixed precision it is made for
        `mixed.trained`, without loss scale and without what decays in the loss.
      mixed: of this model and optimizer; None for the precision that the model has.
      decay: what is added to a rank's loss, by rank and world size; by default `update.decay`.
      parts: more optimizers, each over some of the parameters, which `optimizer` then has not.
      bucket_cap_mb: the largest bucket of DDP's, in MiB; by default as torch has it. It decides in which order an element's
        gradients are added over three or more ranks.
      wrapper: the port's own, around `model`; it combines, whatever `reduce` says.

    Attributes:
      combination: who combines the ranks' gradients: "port" or "tool".
      unobserved: quantities that this port's steps do not show.

    Counterpart: tf_towers.Stepper
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: Optimizer,
        rank: Rank,
        reduce: str | Combining = "mean",
        update: Update | None = None,
        mixed: Mixed | None = None,
        decay: Callable[[int, int], Tensor | float] | None = None,
        parts: Sequence[OptimizerPart] = (),
        bucket_cap_mb: float | None = None,
        wrapper: DistributedDataParallel | None = None,
    ) -> None:
        self.model = model
        self.combination = "tool" if wrapper is None else "port"
        self._mixed = mixed
        self._trained = mixed.trained if mixed else model
        self.optimizer = optimizer
        self._loss = loss
        self._rank = rank
        self._device = next(model.parameters()).device
        self._ddp = wrapper or DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb)
        self._update = update or Update(self._trained, optimizer)
        self._combining = reduce if isinstance(reduce, Combining) else Combining(reduce)
        self._backward = Backward(self._ddp, loss, self._combining, self._update, decay, parts, wrapper is not None)
        self._reduction = self._backward.reduction
        if mixed and self._backward.by_hand:
            raise TorchDdpError(
                "mixed precision: expected gradients that DDP's buckets combine, got sparse ones, clipping on each rank or "
                "gradients that some ranks lack. Leave level 4 out."
            )
        self._global_step = 0
        self._parts = tuple(parts)
        hidden = wrapper is not None and self._update.clips_ranks
        self.unobserved: set[str] = {"tower_clip"} if hidden else set()

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in."""
        return self._mixed.running() if self._mixed else contextlib.nullcontext()

    def state(self) -> dict[str, np.ndarray]:
        """Reads the state: dict of trace name (``var/…``, ``stat/…``, ``slot/…``, ``ema/…``, ``state/…``) to array."""
        tensors: dict[str, Tensor] = {
            trace_name("stat", name): value for name, value in named_statistics(self._trained).items()
        }
        slots = named_slots(self.optimizer, self._trained)
        parameters = dict(self._trained.named_parameters())
        # A frozen parameter's slots never move, and TensorFlow has none for what it does not train.
        tensors.update(
            (trace_name("slot", name, slot=slot), value)
            for (slot, name), value in slots.items()
            if parameters[name].requires_grad
        )
        for part in self._parts:
            tensors.update(part.slots())
        tensors.update((trace_name("var", name), value) for name, value in parameters.items())
        state = {name: array(value) for name, value in tensors.items()}
        state.update((trace_name("ema", name), array(value)) for name, value in self._update.averages.items())
        self._set_rates()
        for part in self._parts:
            state.update(part.counters())
        state.update((trace_name("state", name), value) for name, value in self._update.scale.state().items())
        for name, value in named_counters(self.optimizer).items():
            state[trace_name("state", name)] = np.array(value, np.float32 if name.endswith("_power") else np.float64)
        state[GLOBAL_STEP] = np.array(self._global_step, np.int64)
        if self._mixed:
            state.update((trace_name("state", name), value) for name, value in self._mixed.state().items())
        return self._widened(state)

    def _widened(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return in_float32(tensors) if self._mixed else tensors

    def load(self, state: Mapping[str, np.ndarray], counters: bool = True) -> None:
        """Overwrites weights, statistics, slots and averages, and counters if asked to: dict of trace name to array.

        Raises:
          TorchDdpError: a weight or statistic is missing or left over, a slot or average is unknown, or a shape differs.
        """
        sections = {key: value for key, value in state.items() if section_of(key)}
        slots_of_parts = {key: value for part in self._parts for key, value in part.slots()}
        _overwrite(slots_of_parts, {key: value for key, value in sections.items() if quantity_of(key) != "state"})
        own = {text: value for text, value in state.items() if text not in sections}
        load_weights(self._trained, _by_name(select(own, "var", "stat")))
        held = named_slots(self.optimizer, self._trained).items()
        slots = {trace_name("slot", name, slot=slot): value for (slot, name), value in held}
        # A parameter that nobody gave the optimizer has no slots to load: that it does not move tells.
        _overwrite(slots, {text: v for text, v in select(own, "slot").items() if text in slots or self._trains(text)})
        averages = {trace_name("ema", name): value for name, value in self._update.averages.items()}
        _overwrite(averages, select(own, "ema"))
        if self._mixed:
            self._mixed.follow()
        if counters:
            # A script's state may hold arrays too, which no optimizer counts with.
            known = _by_name(select(own, "state"))
            set_counters(self.optimizer, {name: float(value) for name, value in known.items() if np.ndim(value) == 0})
            self._global_step = int(own.get(GLOBAL_STEP, self._global_step))
            self._update.scale.load(known)
            for part in self._parts:
                part.load_counters(sections)

    def _trains(self, slot: str) -> bool:
        parameter = dict(self._trained.named_parameters()).get(parse_key(slot).name)
        members = (member for group in self.optimizer.param_groups for member in group["params"])
        return parameter is None or any(member is parameter for member in members)

    def give(self, outputs: Mapping[str, np.ndarray], cut: bool = False) -> None:
        """Has the next steps go on from given outputs in place of the port's own: dict of ``act/<part>/<name>`` to array.

        Args:
          outputs: none by default; those of other ranks are left aside.
          cut: whether no gradient passes them.
        """
        given: dict[str, dict[str, Tensor]] = {}
        for text, value in outputs.items():
            key = parse_key(text)
            given.setdefault(key.tower, {})[key.name] = torch.from_numpy(np.array(value)).to(self._device)
        self._backward.given, self._backward.cut = given, cut

    def step(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Runs one update on this rank's shard of the batch.

        Args:
          batch: dict of input name to array ``[batch, ...]``, the whole batch, the same on every rank.

        Returns:
          On rank 0 a dict of trace name to array with every rank's feeds, outputs, losses (decay included) and gradients,
          micro-batch by micro-batch where they accumulate, and the combined gradients, before and after clipping; None on
          the others.

        Raises:
          TorchDdpError: the batch does not divide, or the loss is no scalar.
        """
        whole = {name: torch.from_numpy(np.array(value)).to(self._device) for name, value in batch.items()}
        for optimizer in (self.optimizer, *(part.optimizer for part in self._parts)):
            optimizer.zero_grad(set_to_none=True)
        own = self._shard(whole, self._rank.rank, self._rank.world_size)
        with self._mixed.scaled() if self._mixed else contextlib.nullcontext() as scale:
            parts = self._backward.run(own, self._rank.rank, scale)
        counts = self._update.settle(self._backward.by_hand)
        gradients = {name: value.grad for name, value in self._trained.named_parameters() if value.grad is not None}
        combined = named_gradients("grad", gradients)
        combined.update(named_gradients("clip", self._update.clip()))
        if self._update.scale.dynamic:
            combined[SKIPPED] = np.array(not counts)
        self._set_rates()
        if counts:
            self.optimizer.step()
            for part in self._parts:
                part.optimizer.step()
            self._global_step += 1
        self._update.move_averages(self._global_step)
        self._update.scale.move(counts)
        if self._mixed:
            combined[SKIPPED] = np.array(self._mixed.skipped())
        towers = gather(own_of(parts), self._rank, self._device)
        return None if towers is None else self._widened({**merged(towers), **combined})

    def forward(
        self, batch: Mapping[str, np.ndarray], part: int = 0, gradients: bool = False
    ) -> list[tuple[ForwardOp, np.ndarray | None]]:
        """Runs a step and returns its forward pass on this rank, as `write_forward` takes it.

        Args:
          batch: as of `step`.
          part: number of the micro-batch.
          gradients: whether to return the gradient of the loss in place of each output.

        Counterpart: tf_towers.Stepper.forward
        """
        watch = ForwardWatch(self.model, part, gradients)
        with watch.watching():
            self.step(batch)
        return watch.passed

    def slots_of_parts(self) -> set[str]:
        """Returns the names of the slots that optimizers beside the first keep."""
        return {parse_key(key).slot for part in self._parts for key, _ in part.slots()}

    def _set_rates(self) -> None:
        self._update.set_rate(self._global_step)
        for part in self._parts:
            part.set_rate(self._global_step)

    def evaluate(self, batch: Mapping[str, np.ndarray], evaluation: str = "eval") -> dict[str, np.ndarray]:
        """Evaluates the whole batch in inference mode, with the weights and with their averages where they are kept.

        Args:
          batch: dict of input name to array ``[batch, ...]``, the same on every rank, all of which must call this.
          evaluation: see `torch_ddp.step.inference.evaluate_whole`.

        Returns:
          Dict of trace name to array: ``eval/<output>``, ``eval/loss``, ``eval/ema/<output>``, ``eval/ema/loss``.
        """
        whole = {name: torch.from_numpy(np.array(value)).to(self._device) for name, value in batch.items()}
        inputs = self._shard(whole, 0, 1).inputs  # one tower's; padding adds its example weights, all of them 1
        found = evaluate_whole(self._ddp, self._loss, inputs, self._update.averages, evaluation)
        return {name: array(value) for name, value in found.items()}

    def _shard(self, whole: dict[str, Tensor], rank: int, world_size: int) -> Shard:
        if self._combining.uneven != "refuse":
            return shard_uneven(whole, rank, world_size, self._combining.uneven)
        inputs = shard(whole, rank, world_size)
        return Shard(inputs, len(next(iter(inputs.values()), ())))


def _by_name(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {parse_key(text).name: value for text, value in tensors.items()}


@torch.no_grad()
def _overwrite(known: Mapping[str, Tensor], given: Mapping[str, np.ndarray]) -> None:
    for name, value in given.items():
        if name not in known or tuple(known[name].shape) != value.shape:
            what = "an average that is kept" if quantity_of(name) == "ema" else "a slot of this optimizer"
            expected = tuple(known[name].shape) if name in known else what
            raise TorchDdpError(f"load: expected {name} to be {expected}, got shape {value.shape}.")
        known[name].copy_(torch.from_numpy(np.array(value)))
