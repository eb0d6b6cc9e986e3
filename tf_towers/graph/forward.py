"""Finds the forward pass of one tower in a graph: the ops between its inputs and its loss, with the variables they read."""

import collections
import heapq
from typing import (
    AbstractSet,
    Any,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np
import tensorflow as real
import tensorflow.compat.v1 as tf

from parity.trace import ForwardOp, Operand, UsersLines
from parity.trace.arrays import Array
from tf_towers.graph.op_types import (
    CHOOSING,
    DRAWING_PREFIXES,
    ENTERING,
    LEAVING,
    LEAVING_OR_MERGING,
    LOOPING_BACK,
    PASSING_BUT_FOR_LAYOUT,
    SHAPE_ONLY,
    VARIABLES,
)
from tf_towers.tf_types import Operation, Session, Tensor

FLOATING = (tf.float16, tf.bfloat16, tf.float32, tf.float64)

NUMBERS = FLOATING + (tf.bool, tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64)
# 32 MiB in float64, for each operand: tables of embeddings are left out.
MOST_OF_AN_OPERAND = 1 << 22  # numbers in what is kept beside the outputs


class Passed(NamedTuple):
    """One op of a forward pass and what it gives.

    Fields:
      op: a `ForwardOp`, its shape as far as the graph knows it.
      tensor: its output, None where it cannot be fetched or is no float.
      taken: list of the tensors that it takes, None in the place of what is another op's output or cannot be fetched.
    """

    op: ForwardOp
    tensor: Tensor
    taken: List[Tensor]


class _Source(NamedTuple):
    numbers: Tuple[int, ...]
    weights: FrozenSet[str]
    data: bool


def forward_of(losses: Sequence[Tensor], variables: Mapping[str, str]) -> List[Passed]:
    """Returns the list of `Passed` between inputs and losses, in an order of execution.

    Walked are data edges only. What is computed of variables alone has no place of its own: whoever takes it reads those
    variables. Nor has what only hands its input on in another layout. A loop counts as one: what leaves it comes of all that
    is in it, for nothing inside can be fetched.

    Args:
      losses: list of the tower's loss tensors.
      variables: dict of the name of a variable's op to the variable's name in traces.
    """
    order = _in_order(needed([loss.op for loss in losses]))
    frames = _frames(order)
    inside = collections.defaultdict(list)
    for op in order:
        if frames[op] and op.type not in ENTERING:
            inside[frames[op]].append(op)
    leaving = {op: frames[op.inputs[0].op] for op in order if op.type in LEAVING and not frames[op]}
    # Sorted anew: what leaves a loop comes after everything inside it, which it does not take as inputs.
    order = _in_order(set(order), {op: inside[frame] for op, frame in leaving.items()})
    sources: Dict[Tuple[Operation, int], _Source] = {}
    passed: List[Passed] = []
    guarded: Set[Operation] = set()
    made: Dict[Tuple[Operation, int], int] = {}
    used = {(tensor.op, tensor.value_index) for op in order for tensor in op.inputs}
    users = UsersLines(real, tf)
    for op in order:
        more = inside.get(leaving.get(op, ""), ())
        taken = [sources[each] for each in _taken(op, more) if each in sources]
        source = _joined(op, taken, variables)
        # Behind a Switch an op may not run at all, up to the Merge: fetching it would fail the run.
        if op.type in CHOOSING or (op.type not in LEAVING_OR_MERGING and any(each.op in guarded for each in op.inputs)):
            guarded.add(op)
        sources.update(((op, place), source) for place in range(len(op.outputs)))
        if not source.data or op.type in PASSING_BUT_FOR_LAYOUT or not taken:
            continue
        hidden = bool(frames[op]) or op in guarded
        # A Switch hands its one input out at one of two outputs: both stand for it.
        whole = op.type in CHOOSING or len(op.outputs) < 2
        given = [0] if whole else [place for place in range(len(op.outputs)) if (op, place) in used] or [0]
        for place in given:
            described = _described(op, place, source, users)
            operands, tensors = _operands(op, sources, made, guarded if not hidden else None)
            tensor = None if hidden else _output(op, place)
            passed.append(Passed(described._replace(operands=operands), tensor, tensors))
            # Weights end here: who takes this output has it through this op.
            own = _Source((len(passed) - 1,), frozenset(), True)
            sources.update(((op, each), own) for each in (range(len(op.outputs)) if whole else [place]))
            made[op, place] = len(passed) - 1
    return passed


def gradients_of(loss: Tensor, passed: Sequence[Passed]) -> List[Passed]:
    """Returns the list of `Passed` with the gradient of a loss in place of each output, None where it does not depend on it.

    Args:
      loss: scalar.
      passed: list of `Passed`, of this loss.
    """
    known = [each.tensor for each in passed if each.tensor is not None]
    with loss.graph.as_default(), tf.name_scope("gradients_of_outputs"):
        found = iter(tf.gradients(loss, known) if known else [])
        gradients = [None if each.tensor is None else next(found) for each in passed]
        # Of what is looked up in, the gradient is rows; the one of the output has the output's shape.
        dense = [None if each is None else tf.convert_to_tensor(each) for each in gradients]
    return [each._replace(tensor=gradient, taken=[None] * len(each.taken)) for each, gradient in zip(passed, dense)]


def _taken(op: Operation, more: Iterable[Operation]) -> List[Tuple[Operation, int]]:
    """The outputs that an op takes, but for those that close a loop, each as op and place."""
    found = [(each.op, each.value_index) for each in op.inputs if each.op.type not in LOOPING_BACK]
    return found + [(each, place) for each in more for place in range(len(each.outputs))]


def _operands(
    op: Operation,
    sources: Mapping[Tuple[Operation, int], _Source],
    made: Mapping[Tuple[Operation, int], int],
    guarded: Optional[AbstractSet[Operation]],
) -> Tuple[Tuple[Operand, ...], List[Tensor]]:
    """Returns the tuple of `Operand` of an op, without values, and as `Passed` has it the list of tensors.

    Args:
      op: of the graph.
      sources: dict of op and place of an output to its `_Source`.
      made: dict of the same to the number of the `Passed` that gives it.
      guarded: the ops that need not run; None where that op itself need not.
    """
    described, tensors = [], []
    for place, tensor in enumerate(op.inputs):
        number = made.get((tensor.op, tensor.value_index))
        source = sources.get((tensor.op, tensor.value_index))
        sizes = tensor.shape.as_list() if tensor.shape.ndims is not None else []
        name = "" if source is not None and source.numbers else tensor.op.name
        described.append(Operand(str(place), name, number, [-1 if size is None else size for size in sizes]))
        tensors.append(tensor if number is None and guarded is not None and _to_fetch(tensor, guarded) else None)
    return tuple(described), tensors


def _to_fetch(tensor: Tensor, guarded: AbstractSet[Operation]) -> bool:
    number = tensor.shape.num_elements()
    small = number is None or number <= MOST_OF_AN_OPERAND
    known = tensor.dtype.base_dtype in NUMBERS and tensor.op.graph.is_fetchable(tensor)
    return known and small and tensor.op not in guarded


def with_values(
    passed: Sequence[Passed],
    session: Session,
    feeds: Mapping[Any, Any],
    options: Any = None,
    also: Iterable[Tensor] = (),
) -> Iterator[Tuple[ForwardOp, Optional[Array]]]:
    """Fetches the outputs; returns the list of `ForwardOp` with array or None, as `write_forward` takes it.

    Args:
      passed: list of `Passed`.
      session: over their graph.
      feeds: as `tf.Session.run` takes them.
      options: of the run.
      also: tensors to compute beside them.
    """
    tensors = {number: each.tensor for number, each in enumerate(passed) if each.tensor is not None}
    taken = {tensor.name: tensor for each in passed for tensor in each.taken if tensor is not None}
    # One run for all: random ops would draw anew in another.
    values, operands = session.run([tensors, taken, list(also)], feeds, options)[:2]
    # Once more: the graph need not know a size.
    operands = {name: np.asarray(value) for name, value in operands.items() if np.size(value) <= MOST_OF_AN_OPERAND}
    for number, each in enumerate(passed):
        value = values.get(number)
        shape = list(value.shape) if value is not None else each.op.shape
        both = zip(each.op.operands, each.taken)
        found = tuple(_with_value(operand, tensor, operands, values) for operand, tensor in both)
        yield each.op._replace(shape=shape, operands=found), value


def _with_value(
    operand: Operand, tensor: Tensor, operands: Mapping[str, Array], values: Mapping[Optional[int], Array]
) -> Operand:
    if tensor is None:
        output = values.get(operand.op)
        return operand._replace(shape=list(output.shape)) if output is not None else operand
    value = operands.get(tensor.name)
    return operand if value is None else operand._replace(shape=list(value.shape), value=value)


def _joined(op: Operation, taken: Sequence[_Source], variables: Mapping[str, str]) -> _Source:
    if op.type in VARIABLES:
        name = variables.get(op.name)
        return _Source((), frozenset([name] if name else []), False)
    drawn = op.type.startswith(DRAWING_PREFIXES)
    if op.type in SHAPE_ONLY or (not op.inputs and op.type == "Const"):
        return _Source((), frozenset(), False)
    numbers = tuple(sorted({number for each in taken for number in each.numbers}))
    weights = frozenset().union(*[each.weights for each in taken]) if taken else frozenset()
    return _Source(numbers, weights, drawn or not op.inputs or any(each.data for each in taken))


def _described(op: Operation, place: int, source: _Source, users: UsersLines) -> ForwardOp:
    known = op.outputs and op.outputs[place].shape.ndims is not None
    shape = op.outputs[place].shape.as_list() if known else []
    name = "{}:{}".format(op.name, place) if place else op.name
    sizes = [-1 if size is None else size for size in shape]
    # Frames of TF 2 have names for what are the first fields of TF 1's tuples: file, line, function.
    line = users.innermost(tuple(frame)[:3] for frame in reversed(list(op.traceback or ())))
    return ForwardOp(name, op.type, list(source.numbers), sorted(source.weights), sizes, _attributes(op), line)


def _attributes(op: Operation) -> Dict[str, Any]:
    found = {}
    for name, attr in op.node_def.attr.items():
        kind = attr.WhichOneof("value")
        # Numbers, truths and names alone: shapes and dtypes are in the operands, functions are other graphs.
        if kind in ("f", "i", "b"):
            found[name] = getattr(attr, kind)
        elif kind == "s":
            found[name] = attr.s.decode("utf-8", "replace")
        elif kind == "list" and attr.list.i:
            found[name] = list(attr.list.i)
    return found


def _output(op: Operation, place: int) -> Tensor:
    if not op.outputs:
        return None
    tensor = op.outputs[place]
    return tensor if tensor.dtype in FLOATING and op.graph.is_fetchable(tensor) else None


def _inputs(op: Operation, more: Iterable[Operation] = ()) -> List[Operation]:
    """The ops whose output an op takes, but for those that close a loop, and for what only says which way to go."""
    return [each.op for each in op.inputs if each.op.type not in LOOPING_BACK] + list(more)


def needed(ops: Iterable[Operation]) -> Set[Operation]:
    """Returns the set of ops whose outputs some ops are computed of, themselves included."""
    seen, pending = set(), list(ops)
    while pending:
        op = pending.pop()
        if op not in seen:
            seen.add(op)
            pending += [each.op for each in op.inputs]
    return seen


def _in_order(
    ops: AbstractSet[Operation], more: Optional[Mapping[Operation, Iterable[Operation]]] = None
) -> List[Operation]:
    """Sorts ops so that each comes after its inputs, and otherwise as they were made."""
    before = {op: {each for each in _inputs(op, (more or {}).get(op, ())) if each in ops} for op in ops}
    after = collections.defaultdict(list)
    for op, others in before.items():
        for other in others:
            after[other].append(op)
    left = {op: len(others) for op, others in before.items()}
    # Ops do not compare; ids are in the order of making, and no two are equal.
    ready = [(op._id, op.name, op) for op, count in left.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        op = heapq.heappop(ready)[2]
        order.append(op)
        for other in after[op]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (other._id, other.name, other))
    return order


def _frames(order: Sequence[Operation]) -> Dict[Operation, str]:
    """Returns dict of op to the name of the outermost loop that it is in, "" outside."""
    frames: Dict[Operation, str] = {}
    depths: Dict[Operation, int] = {}
    for op in order:
        deepest = max((each for each in _inputs(op) if each in depths), key=lambda each: depths[each], default=None)
        depth, frame = (depths[deepest], frames[deepest]) if deepest is not None else (0, "")
        if op.type in ENTERING:
            frame = frame or op.get_attr("frame_name").decode("utf-8")
            depth += 1
        elif op.type in LEAVING:
            # Frames nest, and an Exit leaves one: the outermost one's name holds until the depth is 0.
            depth -= 1
        depths[op], frames[op] = depth, frame if depth > 0 else ""
    return frames
