"""Named, invertible changes of layout between TensorFlow's arrays and torch's."""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from parity.mapping.variables import MappingError
from parity.trace.arrays import Array

Shape = tuple[int, ...]


# What holds of every transform T and its inverse S = backward, and what a property test holds all of them to:
#
#   S(T(a)) = a for every array that T takes, and the shapes of T(a) depend on the shape of a alone;
#   T puts elements in another order and does nothing else. So a value, its gradient and its slots are carried one by
#   one, in any dtype, and nothing is rounded.
#
# Two kinds are wider. A sum, a = p + q, is carried as p = a and q = a constant c, which `linear` leaves out: the
# gradient g by a is that by p and that by q, so T(g) = (g, g), and S takes the mean of what it is given. A block of
# rows is no whole array of the candidate's: T makes the block and S cuts it out of the whole, so that S(T(a)) = a holds
# once all blocks have been put together (`Join.write_all`).


@dataclass(frozen=True)
class Transform:
    """Carries arrays from the reference's layout to the candidate's and back.

    Attributes:
      text: as written in a case, e.g. "flatten_hwc(7, 7, 32)"; `parse_transform` reads it back.
      parts: number of the candidate's arrays that one of the reference's becomes.
      is_sum: whether the reference's value is the sum of the parts: then each part has the reference's gradient.
      rows: index and count where the result is one of `count` equal blocks of rows of the candidate's array, else None:
        `forward` makes the block, `backward` takes the whole array.
    """

    text: str
    parts: int
    is_sum: bool
    _forward: Callable[[Array, bool], tuple[Array, ...]]
    _backward: Callable[[tuple[Array, ...], Shape | None, bool], Array]
    rows: tuple[int, int] | None = None

    def __str__(self) -> str:
        return self.text

    def forward(self, array: Array, linear: bool = False) -> tuple[Array, ...]:
        """Carries one array of the reference to the candidate's layout, as views where a view can say it.

        Args:
          array: in the reference's layout; any dtype.
          linear: the array is a gradient or a slot, so no constant is added to it; where `is_sum`, every part gets it
            whole, as the derivative of a sum by each of its terms is 1.

        Returns:
          `parts` arrays.

        Raises:
          MappingError: the array's shape is not one that this transform takes.
        """
        return self._forward(array, linear)

    def backward(self, *arrays: Array, shape: Shape | None = None, linear: bool = False) -> Array:
        """Carries the candidate's arrays to the reference's layout; undoes `forward`.

        Args:
          *arrays: `parts` arrays, in the order in which `forward` returns them. Of a sum's gradients some may be left
            out, for a frozen term has none; their mean is taken, so compare them in the candidate's layout where their
            disagreement matters.
          shape: the reference's shape; "reshape" and "hwcm_to_depthwise" cannot do without.
          linear: the arrays are gradients or slots; see `forward`.

        Raises:
          MappingError: number or shapes of the arrays are not what this transform makes, or `shape` is needed.
        """
        fewer = linear and self.is_sum and 0 < len(arrays) < self.parts
        if len(arrays) != self.parts and not fewer:
            raise MappingError(
                f"{self.text}: expected {self.parts} arrays of the candidate, got {len(arrays)}. Give one a name."
            )
        return self._backward(arrays, shape, linear)

    def shapes(self, shape: Shape) -> tuple[Shape, ...]:
        """Returns the shapes of the candidate's arrays that an array of `shape` becomes, or becomes a block of.

        Raises:
          MappingError: this transform does not take such an array.
        """
        # One byte, seen as an array of any shape: nothing of the size of a weight is allocated.
        made = tuple(part.shape for part in self.forward(np.broadcast_to(np.int8(0), shape), linear=True))
        if self.rows is None:
            return made
        ((first, *rest),) = made
        return ((first * self.rows[1], *rest),)

    def permutes(self, shape: Shape) -> bool:
        """Returns whether the elements along some axis of an array of `shape` come in another order."""
        # Axis by axis, in an array that is 1 long along all others: a transposition leaves 0, 1, 2, ... as it is,
        # whatever becomes of the axis, and another order of the elements along it does not.
        for axis, length in enumerate(shape):
            along = np.arange(length).reshape([length if each == axis else 1 for each in range(len(shape))])
            try:
                made = self.forward(along, linear=True)
            except (MappingError, ValueError):  # it needs the other axes as they are
                continue
            if any((np.diff(part.ravel()) < 0).any() for part in made):
                return True
        return False


TRANSFORMS: dict[str, Callable[..., Transform]] = {}


def register(name: str) -> Callable[[Callable[..., Transform]], Callable[..., Transform]]:
    """Puts a function that makes a `Transform` from literal arguments into `TRANSFORMS`.

    Raises:
      MappingError: the name is taken.
    """

    def add(factory: Callable[..., Transform]) -> Callable[..., Transform]:
        if name in TRANSFORMS:
            raise MappingError(f"register: expected a new transform, got {name!r} a second time. Choose another name.")
        TRANSFORMS[name] = factory
        return factory

    return add


# Every pair of same-shaped variables is tried by several transforms: the same few texts come again and again.
@lru_cache(maxsize=1024)
def parse_transform(text: str) -> Transform:
    """Makes the transform that a case names, e.g. "transpose", "flatten_hwc(7, 7, 32)" or "reshape(8, 8) | transpose".

    Arguments are numbers, by position or by name. Nothing is evaluated. What a bar joins is done from left to right.

    Raises:
      MappingError: no such transform, or not such arguments.
    """
    if "|" in text:
        return _chain([parse_transform(part.strip()) for part in text.split("|")])
    match = re.fullmatch(r"\s*([A-Za-z]\w*)\s*(\(.*\))?\s*", text, re.DOTALL)
    name = match.group(1) if match else text
    if match is None or name not in TRANSFORMS:
        known = ", ".join(sorted(TRANSFORMS))
        raise MappingError(f"transform: expected one of {known}, got {text!r}. Write one of these.")
    positional, named = _arguments(text, match.group(2) or "()")
    try:
        return TRANSFORMS[name](*positional, **named)
    except TypeError as error:
        reason = str(error).partition("() ")[2] or str(error)
        raise MappingError(f"transform: expected arguments that {name} takes, got {text!r}: {reason}.") from None


def _chain(links: list[Transform]) -> Transform:
    text, *first, last = " | ".join(link.text for link in links), *links
    if any(link.parts > 1 or link.rows for link in first):
        raise MappingError(
            f"transform: expected only the last of {text!r} to make several arrays or rows. Reorder them."
        )

    # Only the last may make several parts or a block: what is behind it would have to be said for each part.
    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        for link in first:
            (array,) = link.forward(array, linear)
        return last.forward(array, linear)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        if shape is None:
            raise MappingError(f"{text}: expected the reference's shape, got none. Pass it as shape.")
        # before[k]: the shape that link k takes. A reshape cannot be undone without, nor can a link behind one.
        before = [shape]
        for link in first:
            before += link.shapes(before[-1])
        for link, each in zip(reversed(links), reversed(before), strict=True):
            arrays = (link.backward(*arrays, shape=each, linear=linear),)
        return arrays[0]

    return Transform(text, last.parts, last.is_sum, forward, backward, last.rows)


def _arguments(text: str, arguments: str) -> tuple[list[Any], dict[str, Any]]:
    try:
        call = ast.parse(f"f{arguments}", mode="eval").body
        if not isinstance(call, ast.Call) or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        positional = [ast.literal_eval(value) for value in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        # "f(1)(2)" is a call of a call, and true is an int to isinstance.
        if not isinstance(call.func, ast.Name) or any(
            type(value) not in (int, float) for value in [*positional, *named.values()]
        ):
            raise ValueError
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two of signs before signs
        raise MappingError(
            f"transform: expected numbers between the parentheses, got {text!r}. Write them like flatten_hwc(7, 7, 32)."
        ) from None
    return positional, named


def misfit(text: str, expected: str, shape: Shape) -> MappingError:
    """Returns the error for an array whose shape a transform does not take."""
    return MappingError(f"{text}: expected {expected}, got an array of shape {shape}. Name the transform that fits.")
