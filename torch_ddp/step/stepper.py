"""Runs one training step under DistributedDataParallel, everything of it under the names of a trace."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from parity.trace import ForwardOp, parse_key
from torch_ddp.gather import gather
from torch_ddp.process_group import Rank
from torch_ddp.shard import Shard, shard, shard_uneven
from torch_ddp.step.backward import Backward, Loss
from torch_ddp.step.combine import Combining
from torch_ddp.step.forward_watch import ForwardWatch
from torch_ddp.step.inference import evaluate_whole
from torch_ddp.step.mixed_precision import Mixed
from torch_ddp.step.one_step import Step, ToolStep
from torch_ddp.step.optimizer import Part as OptimizerPart
from torch_ddp.step.trace_names import array, merged, own_of
from torch_ddp.step.training_state import TrainingState
from torch_ddp.step.update import Update


class WrappedPort(NamedTuple):
    """A port on one rank.

    Fields:
      model: wrapped.
      loss: ``loss(model, **inputs)``.
      rank: this process; the process group is up.
      uneven: how a batch is cut that does not divide, see `Combining`.
    """

    model: DistributedDataParallel
    loss: Loss
    rank: Rank
    uneven: str = "refuse"


class Stepper:
    """Trains a model step by step under DDP, with its whole state in the caller's hands.

    It is put together of three parts, of which `of_parts` takes others: the port, the state that it trains, and what makes
    an update.

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
      model: the port, not wrapped.
      optimizer: the first one.

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
        wrapped = wrapper or DistributedDataParallel(model, bucket_cap_mb=bucket_cap_mb)
        combining = reduce if isinstance(reduce, Combining) else Combining(reduce)
        state = TrainingState(model, optimizer, update, mixed, parts)
        backward = Backward(wrapped, loss, combining, state.update, decay, parts, wrapper is not None)
        self._put_together(WrappedPort(wrapped, loss, rank, combining.uneven), state, ToolStep(backward, state))

    @classmethod
    def of_parts(cls, port: WrappedPort, state: TrainingState, step: Step) -> "Stepper":
        """Returns a stepper of parts that are there already.

        Args:
          port: what trains.
          state: of its model.
          step: makes the updates; moves that state.
        """
        stepper = cls.__new__(cls)
        stepper._put_together(port, state, step)
        return stepper

    def _put_together(self, port: WrappedPort, state: TrainingState, step: Step) -> None:
        self.model: nn.Module = port.model.module
        self.optimizer = state.optimizer
        self._port = port
        self._state = state
        self._step = step
        self._device = next(self.model.parameters()).device

    @property
    def combination(self) -> str:
        """Who combines the ranks' gradients: "port" or "tool"."""
        return self._step.combination

    @property
    def unobserved(self) -> set[str]:
        """The quantities that this port's steps do not show."""
        return self._step.unobserved

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """Returns what the steps of one run are made in."""
        return self._step.running()

    def state(self) -> dict[str, np.ndarray]:
        """Reads the state: dict of trace name (``var/…``, ``stat/…``, ``slot/…``, ``ema/…``, ``state/…``) to array."""
        return self._state.read()

    def counters(self) -> dict[str, np.ndarray]:
        """Reads the counters alone: those of `state` whose names begin with ``state/``."""
        return self._state.counters()

    def load(self, state: Mapping[str, np.ndarray], counters: bool = True) -> None:
        """Overwrites weights, statistics, slots and averages, and counters if asked to: dict of trace name to array.

        Raises:
          TorchDdpError: a weight or statistic is missing or left over, a slot or average is unknown, or a shape differs.
        """
        self._state.load(state, counters)

    def slots_of_parts(self) -> set[str]:
        """Returns the names of the slots that optimizers beside the first keep."""
        return self._state.slots_of_parts()

    def give(self, outputs: Mapping[str, np.ndarray], cut: bool = False) -> None:
        """Has the next steps go on from given outputs in place of the port's own: dict of ``act/<part>/<name>`` to array.

        Args:
          outputs: none by default; those of other ranks are left aside.
          cut: whether no gradient passes them.
        """
        given: dict[str, dict[str, Tensor]] = {}
        for text, value in outputs.items():
            key = parse_key(text)
            # A copy: arrays that are read from a trace may be read-only.
            given.setdefault(key.tower, {})[key.name] = torch.from_numpy(np.array(value)).to(self._device)
        self._step.give(given, cut)

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
        rank = self._port.rank
        seen = self._step.make(self._shard(batch, rank.rank, rank.world_size), rank.rank)
        # A collective: other ranks send what they saw, and rank 0 alone has all of it.
        towers = gather(own_of(seen.parts), rank, self._device)
        return None if towers is None else self._state.widened({**merged(towers), **seen.combined})

    def forward(
        self, batch: Mapping[str, np.ndarray], part: int = 0, gradients: bool = False, ends_at: str = ""
    ) -> list[tuple[ForwardOp, np.ndarray | None]]:
        """Runs a step and returns its forward pass on this rank, as `write_forward` takes it.

        Args:
          batch: as of `step`.
          part: number of the micro-batch.
          gradients: whether to return the gradient of the loss in place of each output.
          ends_at: name of the output of the loss function that the pass is to end at; by default the loss.

        Counterpart: tf_towers.Stepper.forward
        """
        # A whole step is made: a forward pass alone would leave DDP waiting for its backward pass.
        watch, rank = ForwardWatch(self.model, part, gradients), self._port.rank
        with watch.watching():
            seen = self._step.make(self._shard(batch, rank.rank, rank.world_size), rank.rank)
        own = seen.parts[part]
        if ends_at in own.outputs:
            watch.ends_at(own.outputs[ends_at])
        elif not watch.ended:
            watch.ends_at(own.loss)  # of losses of their own gradients are taken without a backward pass of any one
        return watch.passed

    def evaluate(self, batch: Mapping[str, np.ndarray], evaluation: str = "eval") -> dict[str, np.ndarray]:
        """Evaluates the whole batch in inference mode, with the weights and with their averages where they are kept.

        Args:
          batch: dict of input name to array ``[batch, ...]``, the same on every rank, all of which must call this.
          evaluation: see `torch_ddp.step.inference.evaluate_whole`.

        Returns:
          Dict of trace name to array: ``eval/<output>``, ``eval/loss``, ``eval/ema/<output>``, ``eval/ema/loss``.
        """
        inputs = self._shard(batch, 0, 1).inputs  # one tower's; padding adds its example weights, all of them 1
        averages = self._state.update.averages
        # Wrapped, as programs call it; all ranks have the same batch, so that DDP's broadcasts of buffers meet.
        found = evaluate_whole(self._port.model, self._port.loss, inputs, averages, evaluation)
        return {name: array(value) for name, value in found.items()}

    def _shard(self, batch: Mapping[str, np.ndarray], rank: int, world_size: int) -> Shard:
        # A copy, because a step may change its inputs in place, and the array is the caller's.
        whole = {name: torch.from_numpy(np.array(value)).to(self._device) for name, value in batch.items()}
        if self._port.uneven != "refuse":
            return shard_uneven(whole, rank, world_size, self._port.uneven)
        # Contiguous: rank k has examples k * size to (k + 1) * size, as tower k of tf.split.
        inputs = shard(whole, rank, world_size)
        return Shard(inputs, len(next(iter(inputs.values()), ())))
