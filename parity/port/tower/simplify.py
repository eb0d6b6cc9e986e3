"""Rewrites a tower into fewer ops that give the same numbers: what a reader would have written."""

from collections.abc import Callable

import numpy as np

from parity.port.tower.ops import CONST, FEED, Op, Tensor, Tower

# A rule takes an op whose inputs are simplified and returns the tensor that stands for its first output, or None.
Rule = Callable[[Op], Tensor | None]


def simplify(tower: Tower, rules: "tuple[Rule, ...] | None" = None) -> Tower:
    """Returns the tower with every one of some rules applied, those of `REWRITES` at first, from its inputs to its loss."""
    rules = REWRITES if rules is None else rules
    made: dict[Op, Tensor] = {}

    def now(tensor: Tensor) -> Tensor:
        found = made.get(tensor.op)
        if found is None:
            return tensor
        return found if tensor.number == 0 else Tensor(found.op, tensor.number)

    for op in tower.ops():
        op.inputs[:] = [now(each) for each in op.inputs]
        found = _applied(op, rules)
        if found.op is not op:
            made[op] = found
    return tower.replaced(now)


def _applied(op: Op, rules: tuple[Rule, ...]) -> Tensor:
    """Applies rules until none fits."""
    tensor = op.output()
    # One rule makes room for another (a reshape gone leaves x + 0): three rounds were enough for every script of the
    # gallery.
    for rule in rules * 3:
        found = rule(tensor.op) if tensor.number == 0 else None
        tensor = found if found is not None else tensor
    return tensor


def number_of(tensor: Tensor) -> float | None:
    """Returns the one number that a constant has throughout, None where it is none."""
    # Not of booleans: True would be taken for the factor 1.
    return float(tensor.value.flat[0]) if tensor.is_number and tensor.value.dtype.kind in "fiu" else None


def neutral(op: Op) -> Tensor | None:
    """X * 1, x / 1, x + 0, x - 0."""
    neutral = {"Mul": 1.0, "RealDiv": 1.0, "Add": 0.0, "AddV2": 0.0, "Sub": 0.0}.get(op.kind)
    if neutral is None:
        return None
    first, second = op.inputs
    # Of equal shapes alone: x + zeros([4, 1]) broadcasts, and what it adds is an axis.
    if number_of(second) == neutral and first.shape == op.output().shape:
        return first
    if op.kind in ("Mul", "Add", "AddV2") and number_of(first) == neutral and second.shape == op.output().shape:
        return second
    return None


def _same_type(op: Op) -> Tensor | None:
    if op.kind == "Cast" and op.inputs[0].dtype == op.dtypes[0]:
        return op.inputs[0]
    return None


def _divided(op: Op) -> Tensor | None:
    """div_no_nan by a number that is none."""
    # 0 is no true number here: tf.div_no_nan gives 0 for it, and a division infinity.
    if op.kind == "DivNoNan" and number_of(op.inputs[1]):
        return _like(op, "RealDiv", op.inputs).output()
    return None


def _few(op: Op) -> Tensor | None:
    """add_n of one tensor, or of two."""
    if op.kind == "AddN" and len(op.inputs) == 1:
        return op.inputs[0]
    return None


def _reduced_nothing(op: Op) -> Tensor | None:
    """A sum, mean, product, maximum or minimum of one number."""
    if op.kind in ("Sum", "Mean", "Prod", "Max", "Min") and op.inputs[0].shape == op.output().shape:
        axes = axes_of(op)
        if axes is not None and all(op.inputs[0].shape[axis] == 1 for axis in axes):
            return op.inputs[0]
    return None


def _padded_with_nothing(op: Op) -> Tensor | None:
    """A padding of no width, as one that is computed of a kernel of one makes it."""
    return (
        op.inputs[0] if op.kind in ("Pad", "PadV2", "MirrorPad") and op.inputs[0].shape == op.output().shape else None
    )


def _mean_of_sum(op: Op) -> Tensor | None:
    """A sum divided by how many numbers were summed, where that was counted and not written."""
    if op.kind != "RealDiv" or op.inputs[0].kind != "Sum":
        return None
    reduced, divisor = op.inputs[0].op, op.inputs[1]
    axes, number = axes_of(reduced), number_of(divisor)
    # A script's own `/ 32.0` stays a division by 32: at another batch size it is no mean, and the port has to go on
    # with it.
    if axes is None or number is None or divisor.op.attributes.get("written"):
        return None
    if number == np.prod([reduced.inputs[0].shape[axis] for axis in axes]):
        return _like(reduced, "Mean", reduced.inputs).output()
    return None


def _reshaped(op: Op) -> Tensor | None:
    """A reshape to the same shape, or of what was reshaped before."""
    if op.kind not in ("Reshape", "ExpandDims", "Squeeze") or not op.inputs:
        return None
    taken = op.inputs[0]
    if taken.shape == op.output().shape:
        return taken
    if taken.kind in ("Reshape", "ExpandDims", "Squeeze") and taken.op.inputs:
        before = taken.op.inputs[0]
        if before.shape == op.output().shape:
            return before
        return _reshape(op, before)
    return None


def _reshape(op: Op, tensor: Tensor) -> Tensor:
    shape = Op(CONST, op.name, [], {"value": np.array(op.output().shape, np.int64)}, [()], ["int64"], op.place)
    return _like(op, "Reshape", [tensor, shape.output()]).output()


def _chosen(op: Op) -> Tensor | None:
    """A choice that is known."""
    if op.kind in ("Select", "SelectV2") and op.inputs[0].is_number:
        chosen = op.inputs[1 if bool(op.inputs[0].value.flat[0]) else 2]
        return chosen if chosen.shape == op.output().shape else None
    return None


def _transposed_twice(op: Op) -> Tensor | None:
    if op.kind != "Transpose" or op.inputs[1].kind != CONST:
        return None
    order = [int(each) for each in op.inputs[1].value]
    if order == sorted(order):
        return op.inputs[0]
    before = op.inputs[0].op
    if before.kind == "Transpose" and before.inputs[1].kind == CONST:
        first = [int(each) for each in before.inputs[1].value]
        if [first[each] for each in order] == sorted(order):
            return before.inputs[0]
    return None


def axes_swapped(tensor: Tensor) -> bool:
    """Whether it is another tensor with its first two axes exchanged."""
    if tensor.kind != "Transpose" or tensor.op.inputs[1].kind != CONST:
        return False
    order = [int(each) for each in tensor.op.inputs[1].value]
    return order[:2] == [1, 0] and order[2:] == [*range(2, len(order))]


def _like(op: Op, kind: str, inputs: list[Tensor]) -> Op:
    return Op(kind, op.name, list(inputs), dict(op.attributes), list(op.shapes), list(op.dtypes), op.place)


def axes_of(op: Op) -> tuple[int, ...] | None:
    """Returns the axes that a reduction reduces, counted from 0; None where they are not known."""
    if len(op.inputs) < 2 or op.inputs[1].kind != CONST:
        return None
    rank = len(op.inputs[0].shape)
    return tuple(sorted(int(each) % rank for each in np.ravel(op.inputs[1].value))) if rank else ()


def _stacked_in_parallel(op: Op) -> Tensor | None:
    """parallel_stack: pieces with an axis of 1 in front, joined there."""
    if op.kind != "ParallelConcat":
        return None
    axis = Op(CONST, op.name, [], {"value": np.array(0)}, [()], ["int32"], op.place)
    return _like(op, "ConcatV2", [*op.inputs, axis.output()]).output()


def _unstacked_and_stacked(op: Op) -> Tensor | None:
    """A stack of all that was unstacked of one tensor, in order."""
    axis = int(op.attributes.get("axis", 0))
    pieces = op.inputs
    if op.kind == "ConcatV2" and number_of(op.inputs[-1]) == 0:
        pieces, axis = [each.op.inputs[0] for each in op.inputs[:-1] if each.kind in WIDENED and each.op.inputs], 0
        if len(pieces) < len(op.inputs) - 1 or any(each.shape != op.output().shape[1:] for each in pieces):
            return None
    elif op.kind != "Pack":
        return None
    taken = pieces[0].op
    if taken.kind != "Unpack" or int(taken.attributes.get("axis", 0)) != axis:
        return None
    whole = [*enumerate(each.number for each in pieces)]
    same = all(each.op is taken for each in pieces) and all(place == number for place, number in whole)
    # All of them: `tf.stack(tf.unstack(x)[:3])` is a slice.
    return taken.inputs[0] if same and taken.inputs[0].shape == op.output().shape else None


def _without_gradient(op: Op) -> Tensor | None:
    """What is fed or constant has no gradient to stop."""
    return op.inputs[0] if op.kind == "StopGradient" and op.inputs[0].kind in (FEED, CONST) else None


def _times_ones(op: Op) -> Tensor | None:
    """A product with a column of ones: a sum, as sampled losses have it."""
    if op.kind != "MatMul" or op.attributes.get("transpose_a") or op.attributes.get("transpose_b"):
        return None
    taken, ones = op.inputs
    if number_of(ones) != 1 or ones.shape[1:] != (1,):
        return None
    axes = Op(CONST, op.name, [], {"value": np.array([1])}, [(1,)], ["int32"], op.place)
    found = _like(op, "Sum", [taken, axes.output()])
    found.attributes["keep_dims"] = True
    return found.output()


def _classes_of_constants(op: Op) -> Tensor | None:
    """A cross entropy with labels that are written out and one-hot: the same with classes."""
    if op.kind != "SoftmaxCrossEntropyWithLogits" or op.inputs[1].kind != CONST:
        return None
    logits, labels = op.inputs
    if (
        labels.shape != logits.shape
        or not ((labels.value == 1).sum(-1) == 1).all()
        or (labels.value != 0).sum() != len(labels.value)
    ):
        return None
    value = np.argmax(labels.value, -1)
    classes = Op(CONST, labels.op.name, [], {"value": value}, [value.shape], ["int64"], op.place)
    return _like(op, "SparseSoftmaxCrossEntropyWithLogits", [logits, classes.output()]).output()


# Ways in which a vector becomes a column or a row.
WIDENED = ("ExpandDims", "Reshape")
HITS = "AccidentalHits"


def _accidental_hits(op: Op) -> Tensor | None:
    """What a sampled softmax adds to the logits of candidates that are true classes, as a dense tensor."""
    if op.kind != "SparseToDense" or number_of(op.inputs[3]) != 0 or op.inputs[2].kind != "ComputeAccidentalHits":
        return None
    hits, places = op.inputs[2].op, op.inputs[0]
    if op.inputs[2].number != 2 or places.kind != "ConcatV2" or len(hits.inputs[0].shape) != 2:
        return None
    columns = [_plain_column(each) for each in places.op.inputs[:-1]]
    if columns != [hits.output(0), hits.output(1)] or op.output().shape != (
        hits.inputs[0].shape[0],
        *hits.inputs[1].shape,
    ):
        return None
    return _like(op, HITS, hits.inputs).output()


def _plain_column(tensor: Tensor) -> Tensor:
    while tensor.kind in (*WIDENED, "Cast") and tensor.op.inputs:
        tensor = tensor.op.inputs[0]
    return tensor


REWRITES: tuple[Rule, ...] = (
    _padded_with_nothing,
    neutral,
    _same_type,
    _divided,
    _few,
    _reduced_nothing,
    _reshaped,
    _mean_of_sum,
    _chosen,
    _transposed_twice,
    _stacked_in_parallel,
    _unstacked_and_stacked,
    _accidental_hits,
    _without_gradient,
    _times_ones,
    _classes_of_constants,
)
