"""Computes what a tower's ops give of constants and shapes alone, and leaves out what changes nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parity.port.tower.infer import inferred, is_known
from parity.port.tower.lengths import open_in
from parity.port.tower.ops import CONST, FEED, LOOP, OPEN, SETTING, VARIABLE, Op, Tensor, Tower
from parity.trace.arrays import Array
from parity.trace.as_written import as_written

MOST_FOLDED = 1 << 16  # elements: a larger array says more as the op that makes it
# Gradients pass through all of these as well: what only the forward pass hands on unchanged must not stand here.
UNCHANGING_KINDS = (
    "Identity",
    "IdentityN",
    "CheckNumerics",
    "PreventGradient",
    "Snapshot",
    "EnsureShape",
    "PlaceholderWithDefault",
)
SWITCHES = ("Switch", "RefSwitch")  # of a value to the branches of tf.cond: (where it does not hold, where it does)
CHOICE = "Choice"  # of (condition, where it holds, where not)
# What a branch that is not taken gives: everything that takes it is never computed either.
NEVER = Tensor(Op("Never", "", [], {}, [()], ["float32"]))
FILLED_IN = "filled"  # attribute of a constant: it was made by filling a shape, so its numbers say nothing else
MADE_OF = "made of"  # attribute of a constant: the op of constants that it stands for

Computed = Callable[[Op, list[Array]], Any]


def fold(tower: Tower) -> Tower:
    """Returns the tower with constants for what does not depend on anything fed, drawn or trained.

    Constants are read as the script wrote them, so that they are printed so: 0.1, not the float32 nearest to it.
    """
    made: dict[Op, Op] = {}
    # By tensor and not by op: one switch has an output for each branch, and only one of them is alive.
    taken: dict[Tensor, Tensor] = {}  # outputs of switches and merges whose branch is known

    def now(tensor: Tensor) -> Tensor:
        if tensor in taken:
            return taken[tensor]
        op = made.get(tensor.op, tensor.op)
        return _behind(Tensor(op, tensor.number))

    for op in tower.ops():
        inputs = [now(each) for each in op.inputs]
        chosen = _branch_taken(op, inputs, now)
        if chosen is not None:
            taken.update((op.output(number), each) for number, each in enumerate(chosen))
            made[op] = op
            continue
        if op.kind in (FEED, VARIABLE, SETTING):
            made[op] = op
            continue
        rebuilt = Op(op.kind, op.name, inputs, op.attributes, op.shapes, op.dtypes, op.place)
        if not all(is_known(shape) for shape in op.shapes):
            found = inferred(rebuilt)
            # Where nothing is known a length of 1 lets rules that compare shapes say no, and crashes none of them.
            rebuilt.shapes = [found] if found is not None else [tuple(max(n, 1) for n in shape) for shape in op.shapes]
        if op.kind == LOOP:
            rebuilt.shapes = [each.shape for each in inputs[: len(op.shapes)]]
        made[op] = folded_op = _folded(rebuilt)
        if folded_op is not rebuilt and folded_op.kind == CONST:
            lengths = open_in(rebuilt, folded_op.output().value, FOLDED.get(rebuilt.kind))
            if lengths is not None:
                folded_op.attributes[OPEN] = lengths
    folded = tower.replaced(now)
    folded.writes = [each for each in folded.writes if each.value != NEVER]  # of the branch that is not taken
    return folded


def _branch_taken(op: Op, inputs: Sequence[Tensor], now: Callable[[Tensor], Tensor]) -> list[Tensor] | None:
    """What comes out of an op of tf.cond, `NEVER` of a branch that is not taken; None of any other op."""
    if op.kind == "Merge":
        alive = [each for each in inputs if each != NEVER]
        # A merge gives what arrives; with both branches dead it is dead itself.
        if len(alive) < len(inputs):
            return [alive[0] if alive else NEVER]
        return _chosen(op, inputs, now) if len(inputs) == 2 else None
    if NEVER in inputs:
        return [NEVER] * max(len(op.shapes), 2)
    if op.kind in SWITCHES and inputs[1].kind == CONST:
        data, condition = inputs[0], bool(inputs[1].value.flat[0])
        return [NEVER, data] if condition else [data, NEVER]
    # The condition is known only when the step runs: both branches are written, and `Merge` becomes the choice
    # between them.
    return [inputs[0]] * 2 if op.kind in SWITCHES else None


def _chosen(op: Op, inputs: Sequence[Tensor], now: Callable[[Tensor], Tensor]) -> list[Tensor] | None:
    """Both branches of a condition that is not known, as a choice between what they give."""
    first, second = (_guards(each) for each in op.inputs)
    for condition, side in first.items():
        # One condition on whose opposite sides the two inputs lie: nested conditions share the outer ones on the same
        # side.
        if second.get(condition, side) != side:
            when = [inputs[side], inputs[1 - side]]  # what goes where it does not hold, and where it does
            choice = Op(CHOICE, op.name, [now(condition), when[1], when[0]], {}, [when[0].shape], op.dtypes, op.place)
            return [choice.output()]
    return None


def _guards(tensor: Tensor) -> dict[Tensor, int]:
    """The conditions under which a tensor is computed, and the side of each."""
    found: dict[Tensor, int] = {}
    pending, seen = [tensor], set()
    while pending:
        each = pending.pop()
        if each.op.kind in SWITCHES:
            found.setdefault(each.op.inputs[1], each.number)
            pending += [data for data in each.op.inputs[:1] if data.op.kind in SWITCHES]
        elif each.op not in seen:
            seen.add(each.op)
            pending += each.op.inputs
    return found


def _behind(tensor: Tensor) -> Tensor:
    """What an op that hands on what it takes hands on."""
    while tensor.kind in UNCHANGING_KINDS and tensor.op.inputs:
        tensor = tensor.op.inputs[tensor.number if tensor.kind == "IdentityN" else 0]
    return tensor


def _folded(op: Op) -> Op:
    if op.kind == CONST:
        value = op.attributes.get("value")
        # 0.1 of a script is 0.100000001 in the graph. In float64 the port computes with the script's number, as its
        # shadow does.
        return op if value is None else constant(op, as_written(value) if value.dtype == np.float32 else value)
    if op.kind in ("Shape", "ShapeN"):
        return constant(op, np.array(op.inputs[0].shape, np.int64)) if len(op.inputs) == 1 else op
    if op.kind == "Size":
        return constant(op, np.array(np.prod(op.inputs[0].shape, dtype=int)))
    if op.kind == "Rank":
        return constant(op, np.array(len(op.inputs[0].shape)))
    if op.kind == "TensorArraySizeV3" and op.inputs[0].kind == "TensorArrayV3":
        (size,) = op.inputs[0].op.inputs
        # An array that may grow has the size of its last write, which only a run knows.
        return op if size.kind != CONST or op.inputs[0].op.attributes.get("dynamic_size") else constant(op, size.value)
    if op.kind in ("ZerosLike", "OnesLike"):
        return _full(op, op.inputs[0].shape, 0.0 if op.kind == "ZerosLike" else 1.0, op.inputs[0].dtype)
    if op.kind not in FOLDED or any(each.kind != CONST for each in op.inputs):
        return op
    values = [each.value for each in op.inputs]
    if op.kind == "Fill":
        return _full(op, tuple(int(each) for each in values[0].ravel()), values[1].flat[0], str(values[1].dtype))
    try:
        found = np.asarray(FOLDED[op.kind](op, values))
    # An op that cannot be computed here stays an op: the graph was built, so TensorFlow would say it when it is run.
    except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError):
        return op
    if found.size > MOST_FOLDED:
        return op
    made = constant(op, found)
    made.attributes[MADE_OF] = op
    return made


def with_formulas(tower: Tower) -> Tower:
    """Returns the tower with the script's own ops for tables of numbers that it computes, as positions' sines and cosines.

    A formula is shorter than its numbers, and exact in every precision.
    """
    made: dict[Op, Op] = {}

    def now(tensor: Tensor) -> Tensor:
        op = tensor.op
        if op not in made:
            inner = op.attributes.get(MADE_OF) if op.kind == CONST and _is_table(tensor) else None
            made[op] = op
            if inner is not None:
                inputs = [now(each) for each in inner.inputs]
                made[op] = Op(inner.kind, op.name, inputs, inner.attributes, list(op.shapes), list(op.dtypes), op.place)
        return Tensor(made[op], tensor.number)

    for op in tower.ops():
        op.inputs[:] = [now(each) for each in op.inputs]
    return tower.replaced(now)


def _is_table(tensor: Tensor) -> bool:
    value = tensor.value
    return value.size > 1 and value.dtype.kind == "f" and not tensor.is_number


def _full(op: Op, shape: tuple[int, ...], value: float, dtype: str) -> Op:
    # Counted in float64: lengths of a hostile trace overflow an integer's product to something small.
    if np.prod(shape, dtype=float) > MOST_FOLDED:
        return op
    found = constant(op, np.full(shape, value, dtype))
    found.attributes[FILLED_IN] = True
    return found


def constant(op: Op, value: Array) -> Op:
    """Returns a constant in the place of an op; `written` says whether the script has it so itself."""
    attributes = {"value": np.asarray(value), "written": op.kind == CONST}
    return Op(CONST, op.name, [], attributes, [np.shape(value)], [_dtype_of(op, value)], op.place)


def _dtype_of(op: Op, value: Array) -> str:
    kind = np.asarray(value).dtype
    # Numbers are folded in float64; what the graph computes in float32 is named so, for `as_written` and the casts
    # behind it.
    return op.dtypes[0] if kind.kind == "f" and op.dtypes[0].startswith("float") else str(kind)


def _strided(op: Op, values: list[Array]) -> Array:
    return np.asarray(values[0][strided_index(op, values[1:], values[0].ndim)])


def strided_index(op: Op, bounds: Sequence[Array], rank: int) -> tuple[Any, ...]:
    """Returns the index that a StridedSlice takes of its input, as numpy has it.

    Args:
      op: the op.
      bounds: its begin, end and strides.
      rank: of its input.
    """
    begin, end, strides = (each.ravel().tolist() for each in bounds)
    masks = {name: int(op.attributes.get(f"{name}_mask", 0)) for name in MASKS}
    index: list[Any] = []
    for place in range(len(begin)):
        # TensorFlow's five masks, a bit for each place of `begin`; numpy says the same by what stands in the index.
        bit = 1 << place
        if masks["ellipsis"] & bit:
            index.append(...)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(begin[place])
        else:
            first = None if masks["begin"] & bit else begin[place]
            last = None if masks["end"] & bit else end[place]
            index.append(slice(first, last, None if strides[place] == 1 else strides[place]))
    return tuple(index)


MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _reduced(function: Callable[..., Any]) -> Computed:
    def computed(op: Op, values: list[Array]) -> Any:
        axes = tuple(int(each) for each in np.ravel(values[1]))
        return function(values[0], axis=axes, keepdims=bool(op.attributes.get("keep_dims", False)))

    return computed


def _plain(function: Callable[..., Any]) -> Computed:
    return lambda op, values: function(*values)


def _cast(op: Op, values: list[Array]) -> Array:
    wanted = op.attributes.get("DstT") or str(values[0].dtype)
    # Half and single are folded wide too: a cast rounds in a run, and must not round what is written into the source.
    return values[0].astype("float64" if wanted.startswith("float") else wanted)


def _squeezed(op: Op, values: list[Array]) -> Array:
    return np.squeeze(values[0], tuple(op.attributes.get("squeeze_dims", [])) or None)


def _selected(op: Op, values: list[Array]) -> Array:
    condition, yes, no = values
    # tf.where of TensorFlow 1 with a vector; SelectV2 broadcasts it along the last axis, as numpy does.
    if op.kind == "Select" and condition.ndim == 1:  # chooses rows
        condition = condition.reshape(-1, *[1] * (yes.ndim - 1))
    return np.where(condition, yes, no)


def _gathered(op: Op, values: list[Array]) -> Array:
    if op.attributes.get("batch_dims"):
        raise ValueError("rows of each example's own")
    return np.take(values[0], values[1], int(values[2]))


FOLDED: dict[str, Computed] = {
    "StridedSlice": _strided,
    "Slice": lambda op, values: values[0][
        tuple(
            slice(int(b), None if s < 0 else int(b + s))
            for b, s in zip(values[1].ravel(), values[2].ravel(), strict=True)
        )
    ],
    "Pack": lambda op, values: np.stack(values, int(op.attributes.get("axis", 0))),
    "ConcatV2": lambda op, values: np.concatenate(values[:-1], int(values[-1])),
    "Fill": _plain(np.full),
    "Range": _plain(np.arange),
    "Reshape": lambda op, values: values[0].reshape([int(each) for each in values[1]]),
    "ExpandDims": lambda op, values: np.expand_dims(values[0], int(values[1])),
    "Squeeze": _squeezed,
    "Transpose": lambda op, values: np.transpose(values[0], [int(each) for each in values[1]]),
    "Tile": lambda op, values: np.tile(values[0], [int(each) for each in values[1]]),
    "GatherV2": _gathered,
    "Cast": _cast,
    "Add": _plain(np.add),
    "AddV2": _plain(np.add),
    "AddN": lambda op, values: sum(values[1:], values[0]),
    "Sub": _plain(np.subtract),
    "Mul": _plain(np.multiply),
    "RealDiv": _plain(np.true_divide),
    # tf.div is Python 2's: of integers it rounds down.
    "Div": lambda op, values: values[0] // values[1] if values[0].dtype.kind == "i" else values[0] / values[1],
    "FloorDiv": _plain(np.floor_divide),
    "FloorMod": _plain(np.mod),
    "Maximum": _plain(np.maximum),
    "Minimum": _plain(np.minimum),
    "Neg": _plain(np.negative),
    "Square": _plain(np.square),
    "Sqrt": _plain(np.sqrt),
    "Rsqrt": lambda op, values: 1.0 / np.sqrt(values[0]),
    "Log": _plain(np.log),
    "Exp": _plain(np.exp),
    "Pow": _plain(np.power),
    "Equal": _plain(np.equal),
    "NotEqual": _plain(np.not_equal),
    "Less": _plain(np.less),
    "LessEqual": _plain(np.less_equal),
    "Greater": _plain(np.greater),
    "GreaterEqual": _plain(np.greater_equal),
    "LogicalAnd": _plain(np.logical_and),
    "LogicalOr": _plain(np.logical_or),
    "LogicalNot": _plain(np.logical_not),
    "Select": _selected,
    "SelectV2": _selected,
    "BroadcastTo": lambda op, values: np.broadcast_to(values[0], [int(each) for each in values[1]]),
    "BroadcastArgs": lambda op, values: np.array(np.broadcast_shapes(tuple(values[0]), tuple(values[1]))),
    "Sum": _reduced(np.sum),
    "Prod": _reduced(np.prod),
    "Mean": _reduced(np.mean),
    "Max": _reduced(np.max),
    "Min": _reduced(np.min),
    "All": _reduced(np.all),
    "Any": _reduced(np.any),
    "InvertPermutation": _plain(np.argsort),
    "Where": _plain(np.argwhere),
    "LinSpace": lambda op, values: np.linspace(*(each.item() for each in values)),
}
