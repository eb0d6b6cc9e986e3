"""Begins to observe a process: patches what programs call of torch, by wrapping it."""

import atexit
import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from parity.worker.program_request import requested
from torch_ddp.record.recorder import Recorder
from torch_ddp.record.stand_in import make_stand_in

_recorder: Recorder | None = None


def begin() -> None:
    """Observes this process as it is requested; a second call, or one without a request, does nothing."""
    global _recorder
    request = requested()
    if request is None or _recorder is not None:
        return
    recorder = _recorder = Recorder(request, make_stand_in(request))
    patch(recorder)
    atexit.register(recorder.close)
    os.register_at_fork(after_in_child=recorder.forked)


def current() -> Recorder | None:
    """Returns the recorder of this process, or None."""
    return _recorder


def patch(recorder: Recorder) -> None:
    """Has torch report to a recorder."""
    _wrap_after(Optimizer, "__init__", lambda self, *_, **__: recorder.optimizer_made(self))
    for wrapper in (nn.parallel.DistributedDataParallel, nn.parallel.DataParallel):
        _wrap_after(wrapper, "__init__", lambda self, *_, **__: recorder.module_made(self))
    _wrap_backward(recorder)
    _wrap_loaders(recorder)
    _wrap_clipping(recorder)
    _wrap_exit(recorder)


def _wrap_after(owner: Any, name: str, report: Callable[..., None]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        report(*arguments, **named)
        return result

    setattr(owner, name, wrapped)


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
    iterate, advance = DataLoader.__iter__, _BaseDataLoaderIter.__next__
    loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @functools.wraps(iterate)
    def watched_iter(loader: Any) -> Any:
        iterator = iterate(loader)
        loaders[iterator] = weakref.ref(loader)
        return iterator

    @functools.wraps(advance)
    def watched_next(iterator: Any) -> Any:
        batch = advance(iterator)
        loader = loaders.get(iterator)
        return recorder.batch(loader() if loader is not None else None, batch)

    DataLoader.__iter__ = watched_iter  # type: ignore[method-assign]
    _BaseDataLoaderIter.__next__ = watched_next  # type: ignore[method-assign, assignment]


def _wrap_clipping(recorder: Recorder) -> None:
    for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
        original = getattr(nn.utils, name, None)
        if original is None:
            continue

        def clip(parameters: Any, *arguments: Any, _original: Any = original, **named: Any) -> Any:
            listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            recorder.clipping(listed)
            return _original(listed, *arguments, **named)

        clip = functools.wraps(original)(clip)
        setattr(nn.utils, name, clip)
        setattr(nn.utils.clip_grad, name, clip)


def _wrap_exit(recorder: Recorder) -> None:
    original = os._exit

    def leave(code: int) -> None:
        # A forked process ends by it, and atexit's functions are not called there.
        if code == 0:
            recorder.close()
        original(code)

    os._exit = leave  # type: ignore[assignment]
