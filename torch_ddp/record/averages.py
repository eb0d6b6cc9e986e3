"""Finds averages of the weights: torch's AveragedModel, and copies of the weights that a program moves itself."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from parity.trace import Quantity, parse_key, select, trace_name
from torch_ddp.record.sections import Section, bare, root_modules
from torch_ddp.step.trace_names import array

Arrays = dict[str, np.ndarray]


class Averages:
    """The copies of a program's weights that are neither what it began with nor what it trains.

    Attributes:
      possible: whether there may be some: then a step is over only when the next one begins.
    """

    def __init__(self) -> None:
        self._first: Arrays = {}
        self._names: dict[str, tuple[int, ...]] = {}
        self._known: dict[str, Tensor] = {}
        self._looked = False
        self.possible = False

    def begin(self, sections: Sequence[Section]) -> None:
        """Takes what the program trains, before its first recorded step."""
        weights = {name: value for section in sections for name, value in section.named_parameters().items()}
        self._names = {name: tuple(value.shape) for name, value in weights.items()}
        self._first = {name: array(value) for name, value in weights.items()}
        self._held = {id(value) for value in weights.values()}
        self.possible = any(self._copies())

    def read(self, tensors: Mapping[str, np.ndarray]) -> Arrays:
        """Returns the averages after a step by trace name; `tensors` has the weights that it left."""
        # Afterwards the same tensors are read: averages are moved in place.
        if not self._known and not self._looked:
            # Once only, behind the first step: looking through all objects takes as long as a step.
            self._looked = True
            # Dicts of gradients have the weights' names and shapes as well, whoever keeps them.
            others = [self._first, *(_named(tensors, quantity) for quantity in ("var", "grad", "clip"))]
            self._known = next((copy for copy, ours in self._copies() if ours or _differs(copy, others)), {})
            self._first = {}
        return {trace_name("ema", name): array(value) for name, value in self._known.items()}

    def _copies(self) -> Iterator[tuple[dict[str, Tensor], bool]]:
        """Yields dict of name to tensor of each copy, and whether it is one of torch's own averages."""
        # By type, as in `all_modules`. Torch's own average is one even where it equals the weights, as after its first
        # update.
        averaged = {
            id(each.module) for each in gc.get_objects() if issubclass(type(each), AveragedModel) and each._modules
        }
        for module in root_modules():
            copy: dict[str, Any] = dict(bare(module).named_parameters())
            if self._is_copy(copy):
                yield copy, id(module) in averaged
        # Dicts by the weights' names. A state_dict is such a one, of other tensors in the same memory: `_differs` sees
        # that it has the weights of now, as it sees of a saved checkpoint that it has those of the beginning.
        for held in gc.get_objects():
            if type(held) is dict and self._is_copy(held):
                yield dict(held), False

    def _is_copy(self, held: Mapping[Any, Any]) -> bool:
        if not held or len(held) > len(self._names) or not all(type(name) is str for name in held):
            return False
        return all(
            isinstance(value, Tensor)
            and self._names.get(name) == tuple(value.shape)
            and value.is_floating_point()
            and value.layout is torch.strided  # as gradients of an embedding are not
            # The weights themselves, as in a dict of named_parameters(), are no copy.
            and id(value) not in self._held
            for name, value in held.items()
        )


def _named(tensors: Mapping[str, np.ndarray], quantity: Quantity) -> Arrays:
    return {parse_key(text).name: value for text, value in select(tensors, quantity).items()}


def _differs(copy: Mapping[str, Tensor], others: Sequence[Mapping[str, np.ndarray]]) -> bool:
    """Whether a copy is none of some others: averaged, and neither saved nor what the step was made of."""
    values = {name: array(value) for name, value in copy.items()}
    return all(any(not np.array_equal(values[name], other.get(name)) for name in values) for other in others)  # type: ignore[arg-type]
