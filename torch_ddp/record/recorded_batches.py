"""Puts recorded shards in place of the batches that a training program's own loaders yield."""

import contextlib
import copy
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_ddp.errors import TorchDdpError

WHOLE = "0"  # what a batch that is one tensor is called, as in `batches`
# What a loader may yield in another layout than was recorded, tried in this order: axes of the recorded array.
PERMUTATIONS = {4: ((0, 3, 1, 2), (0, 2, 3, 1))}  # NHWC to NCHW, and back
MATCHED_BY_ORDER = "by their order, for nothing else distinguishes them"


class Leaf(NamedTuple):
    """A tensor or array somewhere in a batch.

    Fields:
      path: e.g. "0" or "images" or "0.mask", `WHOLE` where the batch is nothing else.
      value: tensor or array, ``[examples, ...]``.
    """

    path: str
    value: Any


class Place(NamedTuple):
    """Where a recorded input goes.

    Fields:
      path: of the leaf.
      axes: of the recorded array, in the leaf's order; None as recorded.
      shape: of the leaf, but for the number of examples.
      examples: in the leaf: a whole shard, one micro-batch of it, or the shards of all ranks.
      pieces: in how many of them a step's examples come.
      of_all: whether the leaf holds the shards of all ranks, of which the program takes this rank's itself.
    """

    path: str
    axes: tuple[int, ...] | None
    shape: tuple[int, ...]
    examples: int
    pieces: int = 1
    of_all: bool = False


class RecordedBatches:
    """Gives a rank its recorded shards, step by step, where its program asks for batches.

    Args:
      shard_of: of the number of a step, counted from the program's first, dict of input to array ``[examples, ...]``, this
        rank's; None where nothing is recorded, and the program's own batches stay.
      like: such a dict of any step, which decides what goes where.
      batch_of: likewise of the number of a step the whole batch, the shards of all ranks in their order.
      ranks: how many there are.
      fed: dict of input to the numbers of the steps that are fed it, rising, where that is not every step: of several
        optimizers that train in turns on one batch, the first alone may be fed.

    Attributes:
      places: dict of input to where it goes, as far as that is known.
      notes: what was decided by less than names and shapes, in words.
    """

    def __init__(
        self,
        shard_of: Callable[[int], Mapping[str, np.ndarray] | None],
        like: Mapping[str, np.ndarray],
        batch_of: Callable[[int], Mapping[str, np.ndarray] | None] | None = None,
        ranks: int = 1,
        fed: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self._shard_of, self._batch_of, self._ranks = shard_of, batch_of, ranks
        self._fed = fed
        self._like = dict(like)
        self._taken = dict.fromkeys(like, 0)  # pieces by input, those that were the program's own among them
        self._seen = ""  # of what it was decided, in words
        self._of_loaders = False
        self._inputs: set[str] = set()  # what stands in where the model is called
        self.places: dict[str, Place] = {}
        self.notes: list[str] = []

    @property
    def missing(self) -> list[str]:
        """The inputs that went nowhere so far."""
        return [name for name in self._like if name not in self.places]

    def in_place_of(self, batch: Any) -> Any:
        """Returns a batch of a loader with the recorded numbers in it, in its own structure, dtypes and device.

        Raises:
          TorchDdpError: its tensors cannot be told apart, or none is of any recorded input.
        """
        leaves = list(leaves_of(batch))
        if not self._of_loaders:
            self._of_loaders = True
            # What the model was called with before any loader yielded was a look at it: from here on loaders decide.
            for name in self._inputs:
                self._taken[name] = 0
                del self.places[name]
            self._decide(leaves, list(self._like))
        by_path = {leaf.path: leaf.value for leaf in leaves}
        # By what this batch has: one of another structure, as of a second loader, keeps its own numbers there.
        pieces = {
            place.path: piece
            for name, place in self.places.items()
            if place.path in by_path and (piece := self._next(name, by_path[place.path])) is not None
        }
        return replaced(batch, pieces) if pieces else batch

    def in_place_of_array(self, made: Tensor) -> Tensor:
        """Returns what stands for a tensor that a program without loaders has made of an array, or that tensor itself."""
        if self._of_loaders:
            return made
        for name, array in self._like.items():
            if name in self._inputs:
                continue
            place = self.places.get(name) or self._place_of_array(made, array)
            if place is None or _shape(made) != (place.examples, *place.shape) or not _same_kind(made, array):
                continue
            # Whole shards alone: two numbers that an op is given would be a micro-batch of four labels.
            if place.examples != len(array) * (self._ranks if place.of_all else 1):
                continue
            # Those of one shape in turn: the one that is behind comes next.
            if any(self._taken[other] < self._taken[name] for other in self._same_shape(name)):
                continue
            self.places[name] = place
            piece = self._next(name, made)
            return made if piece is None else piece
        return made

    def in_place_of_inputs(self, step: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns what a model is called with, with the recorded numbers of what came by no loader and no array.

        Args:
          step: number of the step that the call is part of.
          given: dict of argument to what the program gives.
        """
        # Where a loader has yielded for training, what the model is called with came of it, and has the numbers
        # already.
        if self._shard_of(step) is None or self._of_loaders:
            return given
        if self.missing:
            before = set(self.places)
            # A call that nothing fits may be no training yet, as of a net that is shown its shapes: the step's end tells.
            with contextlib.suppress(TorchDdpError):
                self._decide(list(leaves_of(given)), self.missing)
            # Those alone that this call has placed: what was placed where arrays are made is given there.
            self._inputs |= set(self.places) - before
        pieces = {}
        # A model that is called again in the same step, as on another part of it, is given what the program has for it.
        for name in self._inputs:
            place = self.places[name]
            leaf = next((each for each in leaves_of(given) if each.path == place.path), None)
            if leaf is None or self._taken[name] >= place.pieces * (self._turn(name, step) + 1):
                continue
            piece = self._next(name, leaf.value)
            if piece is not None:
                pieces[place.path] = piece
        found: Mapping[str, Any] = replaced(given, pieces) if pieces else given
        return found

    def _place_of_array(self, made: Tensor, array: np.ndarray) -> Place | None:
        leaf = Leaf("array", made)
        place = _place(leaf, array)
        if place is not None or self._ranks < 2:
            return place
        # The batch of all ranks, of which each then takes its own part: by turns or in a row is the program's own.
        # A view of the shape that all shards have together, for `_place` looks at shapes and no numbers.
        whole = _place(leaf, np.broadcast_to(array[:1], (len(array) * self._ranks, *array.shape[1:])))
        return whole._replace(of_all=True) if whole is not None and whole.pieces == 1 else None

    def restart(self, step: int) -> None:
        """Goes on with a step's shard, whatever was taken ahead, as by a look at a first batch."""
        # Invariant of `_taken`: turn k of an input has the pieces k * pieces to (k + 1) * pieces - 1.
        self._taken.update((name, place.pieces * self._turn(name, step)) for name, place in self.places.items())

    def check(self, step: int) -> None:
        """Checks that a step has taken its whole shard.

        Raises:
          TorchDdpError: it has not, or an input went nowhere.
        """
        if self._shard_of(step) is None:
            return
        if self.missing:
            raise TorchDdpError(self._left_over())
        for name, place in self.places.items():
            pieces, turn = place.pieces, self._turn(name, step)
            if step not in self._fed.get(name, (step,)):
                continue
            if self._taken[name] < pieces * (turn + 1):
                raise TorchDdpError(
                    f"feeds: expected step {step} to take its whole shard of {name!r}, {len(self._like[name])} examples on "
                    f"this rank, got {place.examples} in each of {self._taken[name] - pieces * turn} batches. "
                    "Give the program the recorded batch size, and one rank for each tower."
                )
            # A loader may be read ahead; what is made of arrays is used where it is made, and nothing else may look like it.
            if not self._of_loaders and self._taken[name] > pieces * (turn + 1):
                raise TorchDdpError(
                    f"feeds: expected the program to make {pieces} tensors of the shape of {name!r} in each step, got "
                    f"{self._taken[name] - pieces * turn} in step {step}. Have it read its batches through a DataLoader."
                )

    def _turn(self, name: str, step: int) -> int:
        """How many steps before this one are fed an input."""
        return bisect_left(self._fed[name], step) if name in self._fed else step

    def _step_of(self, name: str, turn: int) -> int:
        """The step that is fed an input for the time of that number, from 0; behind all of them one that none is."""
        steps = self._fed.get(name)
        if steps is None:
            return turn
        return steps[turn] if turn < len(steps) else steps[-1] + 1 + turn - len(steps)

    def _same_shape(self, name: str) -> list[str]:
        shape, kind = self._like[name].shape, self._like[name].dtype.kind
        return [each for each, array in self._like.items() if (array.shape, array.dtype.kind) == (shape, kind)]

    def _left_over(self) -> str:
        wanted = ", ".join(f"{name!r} {_described(self._like[name])}" for name in self.missing)
        known = self._seen or "no batch of a DataLoader, and no such array"
        return (
            f"feeds: expected the program to read {wanted}, as each rank is to, got {known}. "
            "Give it the recorded batch size "
            'and layout, or say which tensor it is: [mapping.feed] NAME = "PATH", e.g. "0" or "images".'
        )

    def _decide(self, leaves: list[Leaf], names: list[str]) -> None:
        """Decides which leaf each input goes to: by its path, else by what alone has its shape and dtype, else by order."""
        self._seen = ", ".join(f"{leaf.path} {_described(leaf.value)}" for leaf in leaves) or "a batch without tensors"
        left = list(leaves)
        for name, array in ((name, self._like[name]) for name in names):
            named = [leaf for leaf in left if leaf.path == name] or [
                leaf for leaf in left if leaf.path.rpartition(".")[2] == name
            ]
            if len(named) == 1 and (place := _place(named[0], array)):
                self.places[name] = place
                left.remove(named[0])
        # Inputs that are alike are decided together. Each round places at least one or raises, so that it ends.
        while self.missing:
            name = self.missing[0]
            equal = [each for each in self.missing if _is_like(self._like[each], self._like[name])]
            fitting = [(leaf, place) for leaf in left if (place := _place(leaf, self._like[name]))]
            if not fitting:
                raise TorchDdpError(self._left_over())
            # As many leaves as inputs: else not even their order says which is which.
            if len(fitting) != len(equal):
                raise TorchDdpError(
                    f"feeds: expected one tensor of the program's batches for {' and '.join(map(repr, equal))}, "
                    f"{_described(self._like[name])} each, got {', '.join(leaf.path for leaf, _ in fitting)}. "
                    'Say which it is: [mapping.feed] NAME = "PATH".'
                )
            for each, (leaf, place) in zip(equal, fitting, strict=True):
                self.places[each] = place
                left.remove(leaf)
            if len(equal) > 1:
                pairs = ", ".join(f"{each} is {self.places[each].path}" for each in equal)
                self.notes.append(f"inputs of one shape were matched {MATCHED_BY_ORDER}: {pairs}")
        stays = [leaf.path for leaf in left if _shape(leaf.value)]
        if stays:
            self.notes.append(f"the program's own numbers stay in {', '.join(stays)}, for which nothing was recorded")

    def _next(self, name: str, own: Any) -> Any:
        """The next piece of an input in a leaf's dtype, or None where the leaf's own numbers stay."""
        place = self.places[name]
        turn, piece = divmod(self._taken[name], place.pieces)
        self._taken[name] += 1
        step = self._step_of(name, turn)
        shard = self._batch_of(step) if place.of_all and self._batch_of else self._shard_of(step)
        if shard is None or name not in shard:
            return None
        examples = shard[name][piece * place.examples : (piece + 1) * place.examples]
        laid_out = examples if place.axes is None else examples.transpose(place.axes)
        # A copy in C order, as a loader yields it: `transpose` gives a view.
        shaped = np.array(laid_out, order="C").reshape(place.examples, *place.shape)
        if isinstance(own, np.ndarray):
            return shaped.astype(own.dtype)
        return torch.from_numpy(shaped).to(own.device, _dtype(own, shaped))


def leaves_of(batch: Any, path: str = "") -> Iterator[Leaf]:
    """Yields every tensor and array of a batch, in any nesting of mappings, sequences and objects that hold some."""
    if isinstance(batch, Tensor | np.ndarray):
        yield Leaf(path or WHOLE, batch)
        return
    for name, value in _members(batch):
        yield from leaves_of(value, f"{path}.{name}" if path else str(name))


def replaced(batch: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """Returns a batch of the same structure with some of its leaves replaced: dict of path to value."""
    if isinstance(batch, Tensor | np.ndarray):
        return values.get(path or WHOLE, batch)
    members = _members(batch)
    if not members:
        return batch
    inner = {name: replaced(value, values, f"{path}.{name}" if path else str(name)) for name, value in members}
    if isinstance(batch, tuple):
        own = [inner[str(place)] for place in range(len(batch))] if not hasattr(batch, "_fields") else [*inner.values()]
        return type(batch)(*own) if hasattr(batch, "_fields") else tuple(own)
    if isinstance(batch, list):
        return [*inner.values()]
    # A copy of whatever class it is, for programs ask batches for more than their tensors.
    held = copy.copy(batch)
    for name, value in inner.items():
        if isinstance(batch, Mapping):
            held[name] = value
        else:
            setattr(held, name, value)
    return held


def _members(batch: Any) -> list[tuple[Any, Any]]:
    if isinstance(batch, Mapping):
        return list(batch.items())
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return list(zip(batch._fields, batch, strict=True))
    if isinstance(batch, list | tuple):
        return [(str(place), value) for place, value in enumerate(batch)]
    held = getattr(batch, "__dict__", {})
    return [(name, value) for name, value in held.items() if isinstance(value, Tensor | np.ndarray)]


def _place(leaf: Leaf, array: np.ndarray) -> Place | None:
    """Where an array goes in a leaf, or None where that is of another shape or kind of number."""
    examples, *shape = _shape(leaf.value) or (0,)
    # A whole shard, or a micro-batch of it: as many examples in each.
    if not examples or not array.ndim or len(array) % examples or not _same_kind(leaf.value, array):
        return None
    axes: tuple[int, ...] | None
    for axes in (None, *PERMUTATIONS.get(array.ndim, ())):
        of_array = array.shape[1:] if axes is None else tuple(array.shape[axis] for axis in axes[1:])
        if of_array == tuple(shape):
            return Place(leaf.path, axes, tuple(shape), examples, len(array) // examples)
    # [examples] and [examples, 1] hold the same numbers.
    if [size for size in array.shape[1:] if size != 1] == [size for size in shape if size != 1]:
        return Place(leaf.path, None, tuple(shape), examples, len(array) // examples)
    return None


def _is_like(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and _kind(one.dtype.kind) == _kind(other.dtype.kind)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)


def _same_kind(value: Any, array: np.ndarray) -> bool:
    if isinstance(value, np.ndarray):
        return _kind(value.dtype.kind) == _kind(array.dtype.kind)
    kind = "f" if value.is_floating_point() else "b" if value.dtype is torch.bool else "i"
    return kind == _kind(array.dtype.kind)


def _kind(letter: str) -> str:
    return "i" if letter in "iu" else letter


def _dtype(own: Tensor, array: np.ndarray) -> torch.dtype:
    # Of floating point the wider one: in float64 a program's loader still yields what its files hold.
    if own.dtype is torch.float32 and array.dtype == np.float64:
        return torch.float64
    return own.dtype


def _described(value: Any) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
