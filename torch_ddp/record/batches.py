"""Finds the tensors in what a loader yields or a model is called with, and names them by their place."""

import inspect
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torch_ddp.record.sections import bare
from torch_ddp.step.trace_names import array

Arrays = dict[str, np.ndarray]
MOST_WAITING = 4  # batches of which the model may be called with one: loaders are read ahead of it by few


class Batches:
    """What loaders have yielded and no training pass has taken yet."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[dict[str, Tensor | np.ndarray], Any]] = deque(maxlen=MOST_WAITING)

    def add(self, epoch: Any, batch: Any) -> None:
        """Takes a batch that a loader has yielded; `epoch` is marked once a training pass takes it."""
        found = dict(places(batch))
        if found:
            self._waiting.append((found, epoch))

    def take(self, inputs: "Mapping[str, Tensor | np.ndarray]") -> Arrays:
        """Returns a copy of the batch that a model is called with, by place; without a loader of what it is called with.

        Args:
          inputs: dict of argument's name to what the model is called with; empty where backward is called without.
        """
        # The last of those that fit: programs look at the first batch, and get the same one again in the loop.
        batch = next((each for each in reversed(self._waiting) if _is_in(each[0], inputs)), None)
        if batch is None and self._waiting:
            batch = self._waiting[-1]
        if batch is not None and batch[1] is not None:
            batch[1].trained = True
        found = inputs if batch is None else batch[0]
        # Older ones were of an evaluation, or of a pass that took them in another form.
        while batch is not None and self._waiting and self._waiting.popleft() is not batch:
            pass
        return {place: copied(value) for place, value in found.items()}


def _is_in(batch: "Mapping[str, Tensor | np.ndarray]", inputs: "Mapping[str, Tensor | np.ndarray]") -> bool:
    """Whether one of the tensors that a model is called with is one of a batch, moved to another device it may be."""
    tensors = [value for value in inputs.values() if isinstance(value, Tensor)]
    candidates = [value for value in batch.values() if isinstance(value, Tensor)]
    return any(
        one.data_ptr() == other.data_ptr() or (one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu()))
        for one in tensors
        for other in candidates
        if one.shape == other.shape and one.numel()
    )


def copied(value: "Tensor | np.ndarray") -> np.ndarray:
    """Returns a copy of a tensor or an array as an array on the host."""
    return array(value) if isinstance(value, Tensor) else np.array(value)


class Call:
    """What a module is called with, by the names of its forward's arguments.

    Args:
      module: that is called, wrapped or not.
      arguments, named: of the call.

    Attributes:
      given: dict of argument's name to value; of a function that cannot be looked at by number.
    """

    def __init__(self, module: nn.Module, arguments: Any, named: Any) -> None:
        self._bound: inspect.BoundArguments | None = None
        self.given: dict[str, Any] = {}
        try:
            self._bound = inspect.signature(bare(module).forward).bind(*arguments, **(named or {}))
        except (TypeError, ValueError):
            self.given = {**{str(number): value for number, value in enumerate(arguments)}, **(named or {})}
            return
        for name, value in self._bound.arguments.items():
            # **named of a forward is a dict of its own in there: its values count as arguments by their names.
            self.given.update(value if self._is_open(name) else {name: value})

    def _is_open(self, name: str) -> bool:
        assert self._bound is not None
        return self._bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD

    def tensors(self) -> "dict[str, Tensor | np.ndarray]":
        """Returns the tensors in it, each by its place."""
        return dict(places(self.given))

    def giving(self, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of a call with other values of the same names."""
        if self._bound is None:
            numbered = sorted((name for name in given if name.isdigit()), key=int)
            rest = {name: value for name, value in given.items() if not name.isdigit()}
            return tuple(given[name] for name in numbered), rest
        for name, value in self._bound.arguments.items():
            self._bound.arguments[name] = {key: given[key] for key in value} if self._is_open(name) else given[name]
        return self._bound.args, self._bound.kwargs


def places(batch: Any, place: str = "") -> "list[tuple[str, Tensor | np.ndarray]]":
    """Returns the tensors and arrays of numbers in a nested batch, each with its keys and indices."""
    if isinstance(batch, Tensor):
        # What has no strides is no array of numbers, and cannot be copied to one.
        return [(place or "0", batch)] if not batch.is_sparse and batch.layout is torch.strided else []
    if isinstance(batch, np.ndarray):
        return [(place or "0", batch)] if batch.dtype.kind in "biuf" else []
    items: Any = ()
    if isinstance(batch, Mapping):
        items = batch.items()
    elif isinstance(batch, tuple) and hasattr(batch, "_fields"):
        items = zip(batch._fields, batch, strict=True)
    elif isinstance(batch, list | tuple):
        items = enumerate(batch)
    return [found for key, value in items for found in places(value, f"{place}.{key}" if place else str(key))]
