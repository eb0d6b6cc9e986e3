"""Follows gradients through a graph to the updates that use them, in passes that touch every op once."""

from typing import AbstractSet, Dict, Iterator, List, Sequence, Set

from tf_towers.graph.op_types import SHAPE_ONLY, SQUARE_ROOTS, SQUARING, VARIABLES
from tf_towers.graph.traversal import in_order
from tf_towers.tf_types import Operation, Tensor


class Flow:
    """Knows which gradients every op computes with, and which updates every op is computed for.

    Sets are kept as the bits of an int: a graph with as many gradients as weights is walked once, not once for each.

    Args:
      ops: the set of ops that run, closed under `before`.
      gradients: list of tensors; what they are computed from is not looked at.
      updates: list of the ops whose inputs are followed back.
    """

    def __init__(self, ops: AbstractSet[Operation], gradients: Sequence[Tensor], updates: Sequence[Operation]) -> None:
        self._bits = {tensor.name: 1 << number for number, tensor in enumerate(gradients)}
        self._squared: Dict[Operation, bool] = {}
        self._reading: Set[Operation] = set()
        self._readers: Dict[str, List[Operation]] = {}
        # Inputs come before readers, so that each op is looked at once, forwards and backwards.
        order = in_order(ops)
        self._into = self._forward(order)
        self._onto = self._backward(order, {op: 1 << number for number, op in enumerate(updates)})

    def bit(self, tensor: Tensor) -> int:
        """Returns the bit of one of the gradients."""
        return self._bits[tensor.name]

    def gradients_in(self, tensor: Tensor) -> int:
        """Returns the bits of the gradients that a tensor is computed from."""
        return self._bits.get(tensor.name) or self._into.get(tensor.op, 0)

    def gradients_into(self, op: Operation) -> int:
        """Returns the bits of the gradients that the inputs of an op are computed from."""
        return self._into.get(op, 0)

    def updates_of(self, op: Operation) -> int:
        """Returns the bits of the updates that are computed from an op, by way of no gradient."""
        return self._onto.get(op, 0)

    def is_squared(self, op: Operation) -> bool:
        """Tells whether an op computes with the squares of a gradient's elements."""
        return self._squared.get(op, False)

    def readers(self, tensor: Tensor) -> List[Operation]:
        """Returns the ops that read a tensor."""
        if tensor.name not in self._readers:
            self._readers[tensor.name] = tensor.consumers()
        return self._readers[tensor.name]

    def reads_variables(self, op: Operation) -> bool:
        """Tells whether an op computes with the value of a variable, by way of no gradient."""
        return op in self._reading

    def _forward(self, order: Sequence[Operation]) -> Dict[Operation, int]:
        into: Dict[Operation, int] = {}
        for op in order:
            mask, masks, squared, reading = 0, [], False, op.type in VARIABLES
            for tensor in op.inputs:
                own = self._bits.get(tensor.name)
                masks.append(own or into.get(tensor.op, 0))
                mask |= masks[-1]
                reading = reading or (not own and tensor.op in self._reading)
                squared = squared or (not own and self._squared.get(tensor.op, False) and _fits(tensor, op))
            into[op] = mask
            if reading and op.type not in SHAPE_ONLY:
                self._reading.add(op)
            # A root takes the square back: what follows it is of the gradient's own order again.
            self._squared[op] = bool(mask) and op.type not in SQUARE_ROOTS and (squared or _squares(op, masks))
        return into

    def _backward(self, order: Sequence[Operation], onto: Dict[Operation, int]) -> Dict[Operation, int]:
        for op in reversed(order):
            mask = onto.get(op, 0)
            for tensor in op.inputs if mask else ():
                if tensor.name not in self._bits:
                    onto[tensor.op] = onto.get(tensor.op, 0) | mask
        return onto


def bits(mask: int) -> Iterator[int]:
    """Yields the numbers of the bits that are set in an int."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _squares(op: Operation, masks: Sequence[int]) -> bool:
    """Tells whether an op multiplies two multiples of a gradient, as ``(1 - b2) * g * g`` does; a norm is a scalar."""
    if op.type in SQUARING:
        return True
    return op.type == "Mul" and masks[0] == masks[1] and op.inputs[0].shape.ndims == op.inputs[1].shape.ndims


def _fits(tensor: Tensor, op: Operation) -> bool:
    """Tells elementwise ops from sums over all elements, as in a norm."""
    shapes = [each.shape for each in list(op.outputs)[:1]]
    return not shapes or shapes[0].ndims is None or shapes[0].ndims >= (tensor.shape.ndims or 0)
