"""Begins to observe a process: patches what programs call of torch, by wrapping it."""

import atexit
import functools
import importlib
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from parity.worker.program_request import requested
from torch_ddp.record.recorder import Recorder
from torch_ddp.record.stand_in import make_stand_in

_recorder: Recorder | None = None
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor")


def begin() -> None:
    """Observes this process as it is requested; a second call, or one without a request, does nothing."""
    global _recorder
    request = requested()
    if request is None or _recorder is not None:
        return
    # In this order: what stands in patches in its constructor, so that the recorder's wrappers are around its own. A
    # loader's batch is replaced when everything that is switched off within the loader is on again.
    recorder = _recorder = Recorder(request, make_stand_in(request))
    patch(recorder)
    # Of a process that ends by itself; `_wrap_exit` has those in which atexit is not called.
    atexit.register(recorder.close)
    os.register_at_fork(after_in_child=recorder.forked)


def current() -> Recorder | None:
    """Returns the recorder of this process, or None."""
    return _recorder


def patch(recorder: Recorder) -> None:
    """Has torch report to a recorder."""
    # Runs as soon as torch is imported, before any other line of the program: names that it takes out of torch are
    # wrapped.
    _wrap(Optimizer, "__init__", after=lambda result, self, *_, **__: recorder.optimizer_made(self))
    for wrapper in (nn.parallel.DistributedDataParallel, nn.parallel.DataParallel, AveragedModel):
        _wrap(wrapper, "__init__", after=lambda result, self, *_, **__: recorder.module_made(self))
    _wrap_compile(recorder)
    _wrap_backward(recorder)
    _wrap_loaders(recorder)
    _wrap_clipping(recorder)
    _wrap_scaling(recorder)
    _wrap_communication(recorder)
    _wrap_schedules(recorder)
    _wrap_exit(recorder)


def _wrap(
    owner: Any, name: str, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
) -> None:
    """Calls `before` with the arguments, and `after` with the result and the arguments, around a function of `owner`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before(*arguments, **named)
        result = original(*arguments, **named)
        if after is not None:
            after(result, *arguments, **named)
        return result

    setattr(owner, name, wrapped)


def _wrap_compile(recorder: Recorder) -> None:
    def compiled(result: Any, model: Any = None, *_: Any, **__: Any) -> None:
        # Where compilation is switched off, it gives the model itself back.
        if isinstance(result, nn.Module) and result is not model:
            recorder.module_made(result)

    _wrap(torch, "compile", after=compiled)


def _wrap_backward(recorder: Recorder) -> None:
    original = torch.autograd.backward
    inside = False

    # Tensor.backward looks it up by this name in each call.
    @functools.wraps(original)
    def backward(tensors: Any, *arguments: Any, **named: Any) -> None:
        nonlocal inside
        if inside:  # checkpointing calls it within itself
            return original(tensors, *arguments, **named)
        inside = True
        try:
            with recorder.backward([tensors] if isinstance(tensors, Tensor) else list(tensors)):
                return original(tensors, *arguments, **named)
        finally:
            inside = False

    torch.autograd.backward = backward


def _wrap_loaders(recorder: Recorder) -> None:
    # The base class of its iterators has the only __next__; in the process that trains, whoever loads the examples.
    # Held weakly: an iterator that stays alive keeps its workers running.
    iterate, advance = DataLoader.__iter__, _BaseDataLoaderIter.__next__
    loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @functools.wraps(iterate)
    def watched_iter(loader: Any) -> Any:
        iterator = iterate(loader)
        # Set anew where workers persist: then the loader gives the same iterator in every epoch.
        loaders[iterator] = weakref.ref(loader), recorder.observed.epoch_begins(loader)
        return iterator

    @functools.wraps(advance)
    def watched_next(iterator: Any) -> Any:
        batch = advance(iterator)
        loader, epoch = loaders.get(iterator, (None, None))
        return recorder.batch(loader() if loader is not None else None, batch, epoch)

    DataLoader.__iter__ = watched_iter  # type: ignore[method-assign]
    _BaseDataLoaderIter.__next__ = watched_next  # type: ignore[method-assign, assignment]


def _wrap_clipping(recorder: Recorder) -> None:
    for name in CLIPPING:
        original = getattr(nn.utils, name, None)
        if original is None:
            continue

        def clip(parameters: Any, *arguments: Any, _original: Any = original, **named: Any) -> Any:
            # Listed once: what programs hand over is often a generator, which one look would empty.
            listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            recorder.clipping(listed, after=False)
            result = _original(listed, *arguments, **named)
            recorder.clipping(listed, after=True)
            return result

        clip = functools.wraps(original)(clip)
        setattr(nn.utils, name, clip)
        # In its own module too, from which programs import it, and where torch's deprecated `clip_grad_norm` looks it
        # up.
        setattr(nn.utils.clip_grad, name, clip)


def _wrap_scaling(recorder: Recorder) -> None:
    scaler, scales = torch.amp.GradScaler, recorder.scales

    def scaled(result: Any, self: Any, outputs: Any) -> None:
        # A scaler that is switched off gives the loss itself back, of which no scale is to be known.
        if self.is_enabled() and isinstance(outputs, Tensor):
            scales.scaled(outputs, result, self.get_scale())

    _wrap(scaler, "scale", after=scaled)
    step = scaler.step

    @functools.wraps(step)
    def watched_step(self: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
        # GradScaler calls the optimizer's step or leaves it out by what it found, which is its own: whether our hooks
        # were called tells. A fused optimizer is called in any case and leaves the update out in its kernel: no skipped
        # step then.
        made = recorder.updates_of(optimizer)
        result = step(self, optimizer, *arguments, **named)
        if self.is_enabled() and recorder.updates_of(optimizer) == made:
            recorder.skipped(optimizer)
        return result

    scaler.step = watched_step  # type: ignore[method-assign]
    # By name in their modules, where the functions that programs call look them up.
    # The package shows the function of that name in the module's place.
    modules = [importlib.import_module(f"torch_ddp.amp.{name}") for name in ("scale_loss", "optimizer")]
    _wrap(modules[0], "_begin", after=lambda result, passed, by, loss: scales.scaled(loss, result, by.loss_scale))
    _wrap(modules[1], "_skip", after=lambda result, stash: recorder.skipped(recorder.optimizer_with(stash)))


def _wrap_communication(recorder: Recorder) -> None:
    wrapper = nn.parallel.DistributedDataParallel

    def hooked(result: Any, self: Any, *arguments: Any, **named: Any) -> None:
        hook = named.get("hook", named.get("comm_hook_type", arguments[-1] if arguments else None))
        recorder.observed.hook_registered(self, getattr(hook, "__qualname__", str(hook)))

    _wrap(wrapper, "register_comm_hook", after=hooked)
    _wrap(wrapper, "_register_builtin_comm_hook", after=hooked)
    # DDP's reducer reduces in C++, and calls none of these functions: those that are seen are the program's.
    for name in COLLECTIVES if dist.is_available() else ():
        _wrap(dist, name, before=functools.partial(_seen_collective, recorder, name))


def _seen_collective(recorder: Recorder, name: str, *arguments: Any, **named: Any) -> None:
    tensors = [each for each in arguments if isinstance(each, Tensor)]
    # A single number is a loss or a count that is logged.
    if recorder.is_between_passes() and not all(each.numel() == 1 for each in tensors[:1]):
        recorder.observed.collective(name)


def _wrap_schedules(recorder: Recorder) -> None:
    # Each class has its own: of a base that a program derives from, and of those that override it.
    def stepped(result: Any, self: Any, *arguments: Any, **named: Any) -> None:
        recorder.observed.schedule_steps(self, getattr(self, "optimizer", None))

    for schedule in (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau):
        _wrap(schedule, "step", after=stepped)


def _wrap_exit(recorder: Recorder) -> None:
    original = os._exit

    def leave(code: int) -> None:
        # A forked process ends by it, and atexit's functions are not called there.
        # With another code the program has failed: its trace stays one that is not complete.
        if code == 0:
            recorder.close()
        original(code)

    os._exit = leave  # type: ignore[assignment]
