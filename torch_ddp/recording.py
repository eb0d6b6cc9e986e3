"""Records a training loop in torch as it is: three lines in the script, a trace as `parity run` leaves it."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from parity.trace import (
    GLOBAL_STEP,
    LEARNING_RATE,
    SHADOW_FORWARD,
    TraceWriter,
    parse_key,
    select,
    trace_name,
    write_forward,
)
from torch_ddp.errors import TorchDdpError
from torch_ddp.facts import describe_variables
from torch_ddp.gather import gather
from torch_ddp.process_group import Rank
from torch_ddp.step.forward_watch import ForwardWatch
from torch_ddp.step.gradient_exchange import GradientObserver
from torch_ddp.step.gradients import GradientReduction
from torch_ddp.step.optimizer import hyper_parameters, present_slots
from torch_ddp.step.trace_names import array, merged
from torch_ddp.weights import named_statistics

Arrays = dict[str, np.ndarray]
FORWARD_BYTES = 1 << 26  # of the forward pass that is kept


@contextlib.contextmanager
def recording(out: "str | os.PathLike[str]", model: nn.Module, optimizer: Optimizer) -> Iterator["Recording"]:
    """Records the training steps of a block into a trace; every rank calls it, rank 0 writes.

    Three lines in a script; the rest of it stays as it is::

        with torch_ddp.recording("trace", model, optimizer) as record:
            for images, labels in loader:
                with record.step(images=images, labels=labels):
                    ...  # zero_grad, forward, backward, optimizer.step

    Recorded are what is named in `step`, the tensor that `backward` is called on as the loss, gradients before and after
    the all-reduce, what the optimizer is given where that is another one (``clip/…``), slots, statistics and weights. Under
    DistributedDataParallel a communication hook is attached that averages as DDP does by itself; it stays.

    Args:
      out: folder of the trace; made if missing.
      model: as the script trains it, wrapped or not.
      optimizer: that steps.

    Yields:
      The `Recording`.

    Raises:
      TorchDdpError: a step made no update, or more than one.

    Counterpart: tf_towers.recording
    """
    recorder = Recording(str(out), model, optimizer)
    try:
        yield recorder
    except BaseException:
        recorder.close(whole=False)
        raise
    recorder.close(whole=True)


class Recording:
    """Records steps one by one; see `recording`."""

    def __init__(self, out: str, model: nn.Module, optimizer: Optimizer) -> None:
        self._model = model.module if isinstance(model, DistributedDataParallel) else model
        self._optimizer = optimizer
        self._reduction = GradientReduction(model) if isinstance(model, DistributedDataParallel) else None
        self._rank = _this_rank()
        self._device = next(self._model.parameters()).device
        self._out = out
        self._writer: TraceWriter | None = None
        self._made = 0
        self._loss: Tensor | None = None
        self._combined: Arrays = {}
        self._observer = GradientObserver(self._model, optimizer)

    @contextlib.contextmanager
    def step(self, **inputs: Tensor) -> Iterator[None]:
        """Records one training step, the update included; of the first also every op between inputs and loss.

        Args:
          **inputs: this rank's shard of the batch, by name.
        """
        if self._writer is None and self._rank.rank == 0:
            self._writer = self._open()
        group = self._optimizer.param_groups[0]
        counters = {GLOBAL_STEP: np.array(self._made, np.int64)}
        if "lr" in group:  # one of a script's own may have none
            counters[LEARNING_RATE] = np.array(group["lr"], np.float64)
        self._loss, self._combined = None, {}
        self._observer.forget()
        if self._reduction:
            self._reduction.keep = True
            self._reduction.local.clear()
        # Of one step on one rank: it is what a comparison walks to find the first op that differs, and costs a copy
        # of every output.
        watch = ForwardWatch(self._model) if self._made == 0 and self._rank.rank == 0 else None
        with self._seeing_losses(), watch.watching() if watch else contextlib.nullcontext():
            yield
        if watch is not None:
            write_forward(os.path.join(self._out, SHADOW_FORWARD, "0"), 0, "0", watch.passed, FORWARD_BYTES)
        if self._observer.updates != 1 or self._loss is None:
            raise TorchDdpError(
                f"recording: expected one backward and one update in a step, got {self._observer.updates} updates. "
                "Put exactly one into the block of `record.step`."
            )
        own = {trace_name("feed", name, tower=self._rank.rank): array(value) for name, value in inputs.items()}
        own[trace_name("loss", tower=self._rank.rank)] = array(self._loss)
        local = self._reduction.local if self._reduction else {}
        gradients = _arrays(local) if self._reduction else self._combined
        own.update((trace_name("tower_grad", name, tower=self._rank.rank), value) for name, value in gradients.items())
        towers = gather(own, self._rank, self._device)
        if self._writer is not None and towers is not None:
            tensors = {**counters, **merged(towers)}
            tensors.update((trace_name("grad", name), value) for name, value in self._combined.items())
            given = _arrays(self._observer.given or {})
            if self._observer.given is not None and _differ(given, self._combined):
                tensors.update((trace_name("clip", name), value) for name, value in given.items())
            self._writer.step(self._made, {**tensors, **self._state()})
        self._made += 1

    def close(self, whole: bool) -> None:
        """Stops recording; marks the trace complete where the block ended `whole`."""
        self._observer.close()
        if self._reduction:
            self._reduction.keep = False
        if self._writer is not None and whole:
            self._writer.close(slots=sorted({parse_key(name).slot for name in select(self._state(), "slot")}))

    @contextlib.contextmanager
    def _seeing_losses(self) -> Iterator[None]:
        original = Tensor.backward

        def backward(loss: Tensor, *arguments: Any, **named: Any) -> None:
            original(loss, *arguments, **named)  # type: ignore[no-untyped-call]
            self._loss = loss.detach()
            # Right after backward, when DDP has reduced and nothing was clipped yet.
            self._combined = _arrays(self._observer.present())

        # On the class, since the script's own call is to be seen; put back at the end of every step.
        Tensor.backward = backward  # type: ignore[assignment]
        try:
            yield
        finally:
            Tensor.backward = original  # type: ignore[method-assign]

    def _state(self) -> Arrays:
        """Weights, statistics and those slots that are there already."""
        found = {trace_name("stat", name): array(value) for name, value in named_statistics(self._model).items()}
        found.update((trace_name("var", name), array(value)) for name, value in self._model.named_parameters())
        for (slot, name), value in present_slots(self._optimizer, self._model).items():
            found[trace_name("slot", name, slot=slot)] = array(value)
        return found

    def _open(self) -> TraceWriter:
        dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in self._model.parameters()})
        facts = {
            "side": "torch_ddp.recording",
            "framework": "torch " + torch.__version__,
            "ranks": self._rank.world_size,
            "combine": "mean",
            "precision": "+".join(dtypes),
            "optimizer": hyper_parameters(self._optimizer),
        }
        producer = {"package": "torch_ddp.recording", "framework": "torch " + torch.__version__}
        writer = TraceWriter(self._out, producer, facts, describe_variables(self._model))
        writer.init(self._state())
        return writer


def _this_rank() -> Rank:
    if not (dist.is_available() and dist.is_initialized()):
        return Rank(0, 0, 1)
    return Rank(dist.get_rank(), int(os.environ.get("LOCAL_RANK", dist.get_rank())), dist.get_world_size())


def _arrays(gradients: Mapping[str, Tensor]) -> Arrays:
    return {name: array(value) for name, value in gradients.items()}


def _differ(one: Arrays, other: Arrays) -> bool:
    return set(one) != set(other) or any(not np.array_equal(one[name], other[name]) for name in one)
